"""Pointwise primitives as native code at the ends of their types: element by element as NumPy.

In: the samples' primitives and dtypes, on a grid of numbers where formulas break: zeros, the
smallest and the largest, what is beside 1, halves, powers of two, infinities, nan; integers at the
ends of their range and of shifts. Out: each element compared with NumPy's by its own size, where
test_native.py compares by the size of the largest. One dtype of a kind in every run, all in a slow
one.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.backends.numpy import program as host
from gpuarray.core import dtypes
from gpuarray.core.primitive import Kind
from tests.samples import Sample, dtype_named, samples
from tests.support import natively

natively.need_compiler()

#: Dtypes with arithmetic.
DTYPES = {f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)}
DTYPES |= {"bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
#: Units in the last place of an element; complex numbers: of its size.
ULPS = 16
#: More of them, where a power of the operand is known to so many.
LOOSE = {"polygamma": 64}
#: Pairs and triples of all numbers are more than this: as many are drawn.
MOST = 20_000
#: Results near zeros of the function have an error of the size of 1, in SciPy and here.
FROM_ONE = {"lgamma", "digamma"}
#: What is known to fewer digits at numbers of such sizes, or is no function of numbers.
LEFT_OUT = {
    "threefry2x32": "its operands are bits",
    "random_gamma_grad": "a series of differences",
    "igamma_grad_a": "a series of differences",
    **dict.fromkeys(
        ["hyp1f1", "hyp2f1", "hyp1f1_slope", "hyp2f1_slope"], "SciPy's ends the process at the ends"
    ),
    "expn": "SciPy's takes the order as an integer, which overflows",
    "wofz": "which of its parts is nan where an operand is infinite",
    "bitcast_convert_type": "its shape depends on the dtype",
}
#: Of complex numbers: both sides lose all digits.
LEFT_OUT_COMPLEX = {
    "pow": "the angle of a large exponent",
    "atan2": "its squares overflow",
    "integer_pow": "products of products overflow at another step",
}


def numbers(dtype) -> np.ndarray:
    """Numbers of a dtype where formulas break."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info, bits = dtypes.iinfo(dtype), dtypes.itemsize_bits(dtype)
        low, high = int(info.min), int(info.max)
        near = {0, 1, 2, 3, 5, 7, bits - 1, bits, bits + 1, 100, high // 2, high // 2 + 1}
        near |= {-x for x in near} | {low, low + 1, low // 2, high - 1, high}
        return np.array(sorted(x for x in near if low <= x <= high), dtype)
    if kind == "c":
        part = numbers(dtypes.to_real_dtype(dtype))
        out = np.empty((len(part), len(part)), dtype)
        out.real, out.imag = part[:, None], part
        return out.ravel()
    info = dtypes.finfo(dtype)
    tiny, most, eps = float(info.tiny), float(info.max), float(info.eps)
    top = np.log(most)
    sizes = [0, float(info.smallest_subnormal), tiny / 2, tiny, tiny**0.5, 1e-3, 0.25]
    sizes += [0.5 - eps / 4]
    sizes += [0.5, 0.5 + eps, 1 - eps / 2, 1, 1 + eps, 1.5, 2, 2.5, 3.7, 10, top - 0.1, top + 0.1]
    sizes += [0.5 / eps + 0.5, 1 / eps, most**0.5, most**0.5 * 1.1, most / 2, most, np.inf]
    with np.errstate(over="ignore"):
        found = np.array([*sizes, np.nan]).astype(dtype)
    return np.concatenate([found, -found])


def grid(sample: Sample) -> list[np.ndarray]:
    """Operands: all combinations of the numbers of their dtypes, or as many of them as fit."""
    each = [numbers(dtype_named(name)) for _, name in sample.operands]
    if np.prod([len(x) for x in each]) > MOST:
        rng = np.random.default_rng(0)
        return [rng.choice(x, MOST) for x in each]
    return [np.array(x) for x in zip(*itertools.product(*each), strict=True)]


def kind_of(name: str) -> str:
    return dtypes.kind_of(dtype_named(name))


def suits(sample: Sample) -> bool:
    """Whether a primitive is one of numbers that have the same value everywhere."""
    name, names = sample.primitive.name, [dtype for _, dtype in sample.operands]
    left_out = name in LEFT_OUT or (name in LEFT_OUT_COMPLEX and "complex" in str(names))
    known = len(names) > 0 and DTYPES.issuperset(names)
    return sample.primitive.kind is Kind.POINTWISE and known and not left_out


def wrong(found: np.ndarray, expected: np.ndarray, operands, name: str) -> np.ndarray:
    """Which elements differ. Results below the normal numbers are as good as 0. The sign of an
    infinite part is anything where a complex operand has a part that is not finite.
    """
    kind = dtypes.kind_of(expected.dtype)
    if kind not in "fc":
        return found != expected
    info = dtypes.finfo(dtypes.to_real_dtype(expected.dtype))
    wide = np.complex128 if kind == "c" else np.float64
    f, e = found.astype(wide), expected.astype(wide)
    free = np.any([~np.isfinite(x) for x in operands], 0) if kind == "c" else False
    least = float(info.tiny)
    floor = 1.0 if name in FROM_ONE else least
    unit = LOOSE.get(name, ULPS) * float(info.eps)
    bad = np.zeros(e.shape, bool)
    with np.errstate(all="ignore"):
        size = np.abs(e)
        for a, b in [(f.real, e.real), (f.imag, e.imag)]:
            own = np.fmax(np.where(np.isfinite(size), size, np.abs(b)), floor)
            near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= unit * own)
            same = (
                (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a) < least) & (np.abs(b) < least)
            )
            bad |= ~(near | same | free & (np.abs(a) == np.abs(b)))
    return bad


def check(chosen: list[Sample]) -> None:
    made = []
    for sample in chosen:
        operands = grid(sample)
        with ga.enable_x64(True):
            bind = lambda *xs, s=sample: s.primitive.bind(*xs, **s.params)
            avals = [ga.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
            graph = ga.jit(bind).lower(*avals).jaxpr
            made.append((sample, graph, operands, natively.written(graph)))
    natively.compile_all([native for *_, native in made])
    report = []
    for sample, graph, operands, native in made:
        with np.errstate(all="ignore"):
            expected = host.local.run(host.compile_graph(graph), *operands)
        for f, e in zip(native(*operands), map(np.asarray, expected), strict=True):
            bad = np.flatnonzero(wrong(f, e, operands, sample.primitive.name))
            for i in bad[:: max(1, len(bad) // 5)]:
                given = ", ".join(str(x[i]) for x in operands)
                report.append(f"{sample} of {given}: {f[i]}, NumPy {e[i]} ({len(bad)} elements)")
    assert not report, "\n".join(report)


def distinct(kind) -> list[Sample]:
    """The first sample of each primitive, parameters and dtypes, told apart by `kind`."""
    first: dict = {}
    for s in filter(suits, samples()):
        first.setdefault((s.primitive, str(s.params), *(kind(d) for _, d in s.operands)), s)
    return list(first.values())


def test_one_dtype_of_a_kind():
    check(distinct(kind_of))


@pytest.mark.slow
def test_all_dtypes():
    check(distinct(str))
