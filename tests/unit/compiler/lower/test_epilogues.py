"""Elementwise work around scans and sorts is a part of their kernel.

In: programs with a scan or a sort, and what comes before and after it. Out: launches and bytes; on
the simulator the values of NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.golden import shape
from tests.support import simulated
from tests.support.targets import plan_for

F32 = "float32"


class Case(NamedTuple):
    """A program over NumPy or its like, its arguments in a size for a GPU, and in small ones."""

    function: object
    large: tuple
    small: tuple
    launches: int = 1
    times: float = 1.0  # bytes over the least


def halved_exp(xp, x):
    return xp.exp(xp.cumsum(xp.sin(x), axis=1) * np.float32(0.5))


def shares(xp, x, y):
    """Reads beside the sums what they are sums of, and another array."""
    return xp.cumsum(xp.exp(x), axis=1) / (x + 4) + y


def weights(xp, x):
    """The sums are wanted as well."""
    c = xp.cumprod(1 - x / 8, axis=1)
    return c, x * c


def down(xp, x, row):
    return xp.exp(-xp.cumsum(x * x, axis=0) / 64) * row


def middle(xp, x):
    return xp.cumsum(x, axis=1) * 2 + 1


def turned(xp, x):
    return xp.transpose(xp.cumsum(x, axis=1) * 2)


def long_sum(xp, x):
    return xp.tanh(xp.cumsum(xp.tanh(x)) / 1000)


def from_the_end(xp, x):
    if xp is np:
        return np.flip(np.cumsum(np.flip(x, 1), axis=1), 1) - x
    return lax.cumsum(x, 1, reverse=True) - x


def in_blocks(xp, x):
    """Running sums in blocks of 64, and seen as one row again."""
    return xp.cumsum(xp.exp(x).reshape(-1, 64), axis=1).reshape(-1) * 2 + x


def sorted_blocks(xp, x):
    return -xp.sort((-x).reshape(-1, 32), axis=1).reshape(x.shape) * 2


def descending(xp, x):
    return -xp.sort(-x, axis=1)


def ranks(xp, x):
    return xp.argsort(x * 2, axis=1) + 1


def sorted_halves(xp, x, scale):
    return xp.sort(x * scale, axis=1) / scale


ROWS, SHORT = shape(F32, 8192, 4096), shape(F32, 65536, 512)
CASES = {
    "exp of a sum": Case(halved_exp, (ROWS,), ((3, 2100),)),
    "exp of a sum, odd": Case(halved_exp, (shape(F32, 8192, 4095),), ((3, 1030),)),
    "exp of a sum, short": Case(halved_exp, (shape(F32, 1 << 20, 20),), ((40, 20),)),
    "shares": Case(shares, (ROWS, ROWS), ((2, 1100), (2, 1100))),
    "shares, with a row": Case(shares, (ROWS, shape(F32, 4096)), ((2, 1100), (1100,))),
    "weights": Case(weights, (ROWS,), ((2, 1100),)),
    "down columns": Case(down, (shape(F32, 512, 1 << 17), shape(F32, 1 << 17)), ((9, 70), (70,))),
    "middle axis": Case(middle, (shape(F32, 4096, 128, 64),), ((3, 9, 5),)),
    "turned": Case(turned, (ROWS,), ((3, 1100),)),
    "in pieces": Case(long_sum, (shape(F32, 1 << 24),), ((5000,),)),
    "from the end": Case(from_the_end, (ROWS,), ((3, 1100),)),
    "in blocks": Case(in_blocks, (shape(F32, 1 << 24),), ((64 * 5,),)),
    "sorted blocks": Case(sorted_blocks, (ROWS,), ((5, 64),)),
    "descending": Case(descending, (SHORT,), ((5, 100),)),
    "ranks": Case(ranks, (SHORT,), ((5, 100),)),
    "sorted halves": Case(sorted_halves, (SHORT, shape(F32, 65536, 1)), ((5, 64), (5, 1))),
}


def ours(case: Case):
    return ga.jit(lambda *xs: case.function(gnp, *xs))


@pytest.mark.parametrize("name", list(CASES))
def test_is_one_kernel(name):
    case = CASES[name]
    e = ga.explain(ours(case), platform="cuda")(*case.large)
    results = ga.tree.leaves(ga.eval_shape(ours(case), *case.large))
    least = sum(np.prod(v.shape) * np.dtype(v.dtype).itemsize for v in (*case.large, *results))
    assert e.launches == case.launches and not e.library_calls
    assert e.bytes_moved <= 1.01 * case.times * least


def filled(dtype: str, *lengths: int) -> np.ndarray:
    x = np.random.default_rng(lengths).uniform(-1, 1, lengths)
    return x.astype(ga.dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", [F32, "bfloat16"])
def test_computes_the_same(monkeypatch, dtype):
    simulated.need_compiler()
    # So that short rows and columns are cut into pieces as long ones are.
    plan_for(monkeypatch, scan_row=1024, scan_column=4)
    inputs = {n: [filled(dtype, *s) for s in c.small] for n, c in CASES.items()}
    kernels = {n: simulated.built(ours(c).lower(*inputs[n]).jaxpr) for n, c in CASES.items()}
    tolerance = 2e-5 if dtype == F32 else 0.08
    for name, case in CASES.items():
        if dtype == F32:
            expected = case.function(np, *inputs[name])
        else:  # rounded by the same rules, primitive by primitive
            with ga.fusion(False):
                expected = ours(case)(*inputs[name])
        expected = expected if isinstance(expected, tuple) else (expected,)
        for seed in simulated.SEEDS:
            found = simulated.run(kernels[name], inputs[name], seed)
            for f, e in zip(found, map(np.asarray, expected), strict=True):
                assert f.shape == e.shape, name
                f, e = (np.asarray(x, np.float64) for x in (f, e))
                np.testing.assert_allclose(f, e, tolerance, tolerance, err_msg=name)


# ---- what stays apart ----


def waits_for_all(x):
    """What is divided by the last sum waits for a kernel that reads them."""
    c = gnp.cumsum(x, axis=1)
    return c / gnp.sum(c, axis=1, keepdims=True)


def shifted(x):
    c = gnp.cumsum(x, axis=1)
    return c[:, 1:] - c[:, :-1]


def repeated(x):
    return gnp.cumsum(x, axis=1)[None] * gnp.arange(1.0, 4.0)[:, None, None]


def crossed(x):
    """Two orders of one result at once."""
    c = gnp.cumsum(x, axis=1)
    return c + c.T


@pytest.mark.parametrize("function", [waits_for_all, shifted, repeated, crossed])
def test_other_readers_are_kernels_of_their_own(function):
    e = ga.explain(function, platform="cuda")(shape(F32, 2048, 2048))
    assert e.kernels[0].kind == "scan" and len(e.kernels) > 1
    simulated.need_compiler()
    x = abs(filled(F32, 40, 40))
    (found,) = simulated.run(simulated.built(ga.jit(function).lower(x).jaxpr), [x])
    np.testing.assert_allclose(found, ga.jit(function)(x), 1e-4, 1e-5)


def test_an_epilogue_that_feeds_another_one():
    def f(x):
        c = gnp.cumsum(x, axis=1) * 2
        return gnp.sort(gnp.cumsum(gnp.sin(c) + c, axis=0) + c, axis=1)[:, ::-1]

    simulated.need_compiler()
    x = filled(F32, 20, 30)
    c = np.cumsum(x, 1) * 2
    expected = np.sort(np.cumsum(np.sin(c) + c, axis=0) + c, 1)[:, ::-1]
    (found,) = simulated.run(simulated.built(ga.jit(f).lower(x).jaxpr), [x])
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


def test_small_scans_and_sorts_of_one_structure_are_not_taken_for_elementwise_work():
    def f(arrays):
        return [(gnp.cumsum(x), gnp.sort(x), lax.cummax(x)) for x in arrays]

    simulated.need_compiler()
    arrays = [filled(F32, 10 * k + 3) for k in range(8)]
    made = simulated.built(ga.jit(lambda *xs: f(xs)).lower(*arrays).jaxpr)
    expected = [y for x in arrays for y in (np.cumsum(x), np.sort(x), np.maximum.accumulate(x))]
    for found, e in zip(simulated.run(made, arrays), expected, strict=True):
        np.testing.assert_allclose(found, e, 1e-5, 1e-5)
