"""Laws of the transforms that hold for every primitive, on the samples of tests/samples.py.

The derivative is what central differences say, in double precision, and so is the second one; the
transpose of the derivative is its adjoint; vmap is a loop; jit and grad change places. A rule that
is not there yet makes a test skip, and `test_rules_that_are_missing` lists those.
"""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core import dtypes
from gpuarray.core.graph import Graph
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, UNWRITTEN, Kind, registry
from tests.generic.test_primitives import RANDOM, as_array, stored
from tests.generic.test_registry import NAMES
from tests.samples import Sample, samples, values

# ---- what is tried ----

WIDE = {
    "float16": "float64",
    "bfloat16": "float64",
    "float32": "float64",
    "complex64": "complex128",
}


def whole_numbers(rng, shape, dtype):
    return rng.integers(0, 4, shape)


#: Where a function is smooth, and no tangent is infinite.
SMOOTH = {
    "log log2 sqrt rsqrt lgamma digamma cbrt gamma spence expi cosine_integral": (0.3, 3),
    "log1p": (-0.5, 2),
    "asin acos atanh erf_inv": (-0.9, 0.9),
    "acosh": (1.2, 3),
    "pow": [(0.3, 3), None],
    "div rem": [None, (0.5, 2)],
    "clamp": [(-2, -0.5), None, (0.5, 2)],
    "integer_pow": (0.5, 2),
    "polygamma": [whole_numbers, (0.5, 5)],
    "zeta": [(1.5, 5), (0.5, 5)],
    "igamma igammac igamma_grad_a random_gamma_grad": (0.5, 5),
    "regularized_incomplete_beta": [(0.5, 5), (0.5, 5), (0.1, 0.9)],
    "expn": [(2, 4), (0.3, 3)],
    "hyp1f1 hyp1f1_slope": [(0.5, 3), (0.5, 3), (-2, 2)],
    "hyp2f1 hyp2f1_slope": [(0.5, 3), (0.5, 3), (0.5, 3), (-0.8, 0.7)],
}
DOMAINS = {name: domain for names, domain in SMOOTH.items() for name in names.split()}

#: Operands in which there is no derivative, which is an error, or no second one.
CONSTANT = {
    "polygamma": {0},
    "zeta": {0},
    "igamma_grad_a": {0},
    "random_gamma_grad": {0},
    "regularized_incomplete_beta": {0, 1},
    "expn": {0},
    "hyp1f1_slope": {0, 1},
    "hyp2f1_slope": {0, 1, 2},
}
CONSTANT_TWICE = CONSTANT | {
    "igamma": {0},
    "igammac": {0},
    "hyp1f1": {0, 1},
    "hyp2f1": {0, 1, 2},
}

#: Steps, whose tangents are those of the line through them.
STEPS = {"reduce_precision"}

#: Samples of a distribution, which move so that their quantile stays: not as the sampler jumps.
SAMPLED = {"random_gamma"}

#: Functions that are differences themselves, known to fewer digits.
TOLERANCE = {"igamma_grad_a": 1e-4, "random_gamma_grad": 1e-4, "igamma": 1e-4, "igammac": 1e-4}


#: What rules refuse for some params, and words of the error.
LIMITS = {
    "reduce_window": "initial values",
    "reduce_window_max": "window dilation",
    "reduce_window_min": "window dilation",
    "select_and_gather_add": "window dilation",
    "while": "Reverse-mode differentiation",
    "eig": "only valid",  # values alone have a first derivative
    "custom_vjp_call": "forward-mode autodiff",
    "pure_callback": "do not support JVP",
    "io_callback": "do not support JVP",
}

#: Factorisations without a derivative of their own: others that have one do the same.
WITHOUT = {
    *("geqrf", "householder_product", "ormqr"),
    *("schur", "hessenberg", "tridiagonal", "cholesky_update"),
}

#: Functions of Hermitian matrices, of which they read one triangle.
HERMITIAN = {"cholesky", "eigh"}


def is_inexact(name: str) -> bool:
    return name in WIDE or name in WIDE.values()


def refuses(sample: Sample) -> bool:
    """Whether differentiation is an error, because the rule would be wrong or slow."""
    name, params = sample.primitive.name, sample.params
    if name == "scatter-mul":
        return not params["unique_indices"]  # the product of all updates but one is not at hand
    if name == "eig":  # a matrix may have too few eigenvectors
        return params["compute_left_eigenvectors"] and not params["enable_eigvec_derivs"]
    if name == "svd":  # any basis of the rest would do
        *_, m, n = sample.operands[0][0]
        return params["compute_uv"] and params["full_matrices"] and m != n
    if name in WITHOUT:
        return True
    return name == "nextafter" or (name == "scatter" and params["update_jaxpr"] is not None)


def widened(sample: Sample) -> Sample | None:
    """The sample in double precision, unless a Graph in its params fixes the precision."""
    domain = None if sample.domain == "any" else sample.domain
    promised = getattr(sample.params.get("mode"), "name", "") == "PROMISE_IN_BOUNDS"
    if promised and not sample.params["unique_indices"]:  # the promise is to be kept
        domain = [(0, 0) if "int" in name else None for _, name in sample.operands]
    if any(isinstance(v, Graph) for v in sample.params.values()):
        single = all(name in ("float32", "int32") for _, name in sample.operands)
        return sample._replace(domain=domain) if single else None
    operands = [(shape, WIDE.get(name, name)) for shape, name in sample.operands]
    if not any(name == "complex128" for _, name in operands):
        domain = DOMAINS.get(sample.primitive.name, domain)
    params = {k: wide_dtype(v) for k, v in sample.params.items()}
    wide = sample._replace(operands=operands, params=params, domain=domain)
    with ga.enable_x64(True):
        try:
            wide.primitive.out_avals(wide.avals, wide.params)
        except (TypeError, ValueError):
            return None
    return wide


def wide_dtype(x):
    name = getattr(x, "name", None) if isinstance(x, np.dtype) else None
    return np.dtype(WIDE[name]) if name in ("float32", "complex64") else x


def distinct(found: list[Sample]) -> list[Sample]:
    """One of each: samples that say the same after a change."""
    seen: dict[str, Sample] = {}
    for s in found:
        seen.setdefault(f"{s.primitive.name} {s.operands} {s.params}", s)
    return list(seen.values())


def differentiable() -> list[Sample]:
    """Samples with a derivative: in double precision where possible."""
    found = []
    for s in samples():
        p = s.primitive
        if p.jvp is NOT_DIFFERENTIABLE or p.name in RANDOM or refuses(s):
            continue
        wide = widened(s) if any(is_inexact(d) for _, d in s.operands) else None
        if wide is not None and any(is_inexact(a.dtype.name) for a in out_avals(wide)):
            found.append(wide)
    return distinct(found)


def out_avals(sample: Sample) -> list:
    with ga.enable_x64(True):
        return sample.primitive.out_avals(sample.avals, sample.params)


def one_of_each_class() -> list[Sample]:
    """Samples that differ by more than the width of their numbers."""
    seen: dict[str, Sample] = {}
    for s in samples():
        if s.primitive.name in RANDOM or not s.operands:
            continue
        classes = [
            (shape, "k" if hasattr(a.dtype, "impl") else dtypes.kind_of(a.dtype))
            for (shape, _), a in zip(s.operands, s.avals, strict=True)
        ]
        params = {k: v for k, v in s.params.items() if not isinstance(v, np.dtype)}
        seen.setdefault(f"{s.primitive.name} {classes} {params}", s)
    return list(seen.values())


def is_exact(sample: Sample) -> bool:
    """Whether results keep double precision, so that differences mean something."""
    name = sample.primitive.name
    wide = all(a.dtype.name in WIDE.values() for a in out_avals(sample) if is_inexact(a.dtype.name))
    return wide and name not in STEPS | SAMPLED


DIFFERENTIABLE = differentiable()
ROWS = one_of_each_class()

with_derivative = pytest.mark.parametrize("sample", DIFFERENTIABLE, ids=str)
with_exact_results = pytest.mark.parametrize(
    "sample", [s for s in DIFFERENTIABLE if is_exact(s)], ids=str
)


@contextlib.contextmanager
def skipped_where_unwritten(sample: Sample):
    """A rule that is missing is no failure yet, nor is a refusal that is listed: the test skips."""
    try:
        yield
    except (NotImplementedError, TypeError, ValueError) as error:
        words = LIMITS.get(sample.primitive.name, UNWRITTEN.why)
        if words not in str(error) and UNWRITTEN.why not in str(error):
            raise
        pytest.skip(str(error))


# ---- functions and directions ----


class Curve:
    """A sample as a function of the operands that have derivatives, and directions to go in."""

    def __init__(self, sample: Sample, constant: dict[str, set[int]] = CONSTANT):
        self.sample = sample
        self.fixed = [as_array(x, a.dtype) for x, a in zip(values(sample), sample.avals)]
        without = constant.get(sample.primitive.name, set())
        self.places = [
            i
            for i, (_, name) in enumerate(sample.operands)
            if is_inexact(name) and i not in without
        ]
        self.rng = np.random.default_rng(len(str(sample)))

    @property
    def start(self) -> list[np.ndarray]:
        return [stored(self.fixed[i]) for i in self.places]

    def __call__(self, *xs):
        args = list(self.fixed)
        for i, x in zip(self.places, xs, strict=True):
            args[i] = hermitian(x) if self.sample.primitive.name in HERMITIAN else x
        out = self.sample.primitive.bind(*args, **self.sample.params)
        found = list(out) if self.sample.primitive.multiple_results else [out]
        phases = self.sample.primitive.name in PHASES and found[1:]
        if phases and any(dtypes.kind_of(y.dtype) == "c" for y in found):
            found = PHASES[self.sample.primitive.name](*found)
        return [y for y in found if is_inexact(y.dtype.name)]

    def direction(self, like) -> list[np.ndarray]:
        return [self._noise(x.shape, x.dtype) for x in like]

    def _noise(self, shape, dtype) -> np.ndarray:
        x = self.rng.uniform(-1, 1, shape)
        if dtypes.kind_of(dtype) == "c":
            x = x + 1j * self.rng.uniform(-1, 1, shape)
        return np.asarray(x, dtype)


def hermitian(x):
    return (x + adjoint(x)) / 2


def weighted(x, y):
    """x diag(1, 2, ...) y"""
    return (x * np.arange(1.0, x.shape[-1] + 1)) @ y


def adjoint(x):
    return x.swapaxes(-1, -2).conj()


#: Vectors of any phase, in combinations that do not depend on it.
PHASES = {
    "eigh": lambda v, w: [weighted(v, adjoint(v)), w],
    "eig": lambda w, u, v: [w, weighted(u, adjoint(u)), weighted(v, adjoint(v))],
    "svd": lambda s, u, vh: [
        *(s, weighted(u[..., : s.shape[-1]], vh[..., : s.shape[-1], :])),
        *(weighted(u, adjoint(u)), weighted(adjoint(vh), vh)),
    ],
}


def tangents(f, xs, vs) -> list:
    return ga.jvp(lambda *ys: f(*ys), tuple(xs), tuple(vs))[1]


def differences(f, xs, vs, h: float = 1e-5) -> list[np.ndarray]:
    ahead = f(*[as_array(x + h * v, x.dtype) for x, v in zip(xs, vs, strict=True)])
    behind = f(*[as_array(x - h * v, x.dtype) for x, v in zip(xs, vs, strict=True)])
    with np.errstate(invalid="ignore"):  # the largest of nothing is infinite on either side
        return [(stored(a) - stored(b)) / (2 * h) for a, b in zip(ahead, behind, strict=True)]


def inner(xs, ys) -> tuple[float, float]:
    """The real part of the sum of products, and the size of its terms; nothing is conjugated."""
    terms = [np.asarray(stored(x) * stored(y)).ravel() for x, y in zip(xs, ys, strict=True)]
    every = np.concatenate([np.zeros(0), *terms]).real
    return float(every.sum()), float(np.abs(every).sum())


def assert_close(found, expected, tolerance: float) -> None:
    """Nearly equal where finite numbers are expected (not beside an infinity or a nan)."""
    assert len(found) == len(expected)
    for a, b in zip(map(stored, found), map(stored, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        a, b = a[np.isfinite(b)], b[np.isfinite(b)]
        scale = np.abs(b).max(initial=1.0)
        np.testing.assert_allclose(a, b, tolerance, tolerance * scale)


# ---- derivatives ----


@with_exact_results
def test_derivative_is_what_differences_say(sample):
    with ga.enable_x64(True), skipped_where_unwritten(sample):
        f = Curve(sample)
        xs, vs = f.start, f.direction(f.start)
        found = tangents(f, xs, vs)
        tolerance = TOLERANCE.get(sample.primitive.name, 1e-6)
        assert_close(found, differences(f, xs, vs), tolerance)


@with_exact_results
def test_second_derivative_is_what_differences_say(sample):
    with ga.enable_x64(True), skipped_where_unwritten(sample):
        f = Curve(sample, CONSTANT_TWICE)
        xs, vs, ws = f.start, f.direction(f.start), f.direction(f.start)

        def slope(*ys):
            return tangents(f, ys, vs)

        tolerance = 10 * TOLERANCE.get(sample.primitive.name, 1e-6)
        second = tangents(slope, xs, ws)
        assert_close(second, differences(slope, xs, ws), tolerance)

        # The same number by forward over reverse.
        cts = f.direction(second)
        by_reverse = tangents(lambda *ys: ga.vjp(f, *ys)[1](cts), xs, ws)
        a, size = inner(cts, second)
        b, _ = inner(by_reverse, vs)
        assert abs(a - b) <= 1e-9 * max(size, 1.0)


@with_derivative
def test_transpose_is_the_adjoint(sample):
    with ga.enable_x64(True), skipped_where_unwritten(sample):
        f = Curve(sample)
        xs, vs = f.start, f.direction(f.start)
        out = tangents(f, xs, vs)
        cts = f.direction(out)
        back = ga.vjp(f, *xs)[1](cts)
        assert [(x.shape, x.dtype) for x in map(stored, back)] == [(x.shape, x.dtype) for x in xs]
        a, size = inner(cts, out)
        b, _ = inner(back, vs)
        rounded = 0.2 if sample.primitive.name in STEPS else 1e-9 if is_exact(sample) else 2e-2
        if np.isfinite(a):
            assert abs(a - b) <= rounded * max(size, 1e-3)


@with_derivative
def test_jit_and_grad_change_places(sample):
    with ga.enable_x64(True), skipped_where_unwritten(sample):
        f = Curve(sample)
        xs = f.start

        def total(*ys):
            return sum(y.real.astype("float64").sum() for y in f(*ys))

        nums = tuple(range(len(xs)))
        expected = ga.grad(total, nums)(*xs)
        rounded = 1e-12 if is_exact(sample) else 1e-2
        assert_close(ga.jit(ga.grad(total, nums))(*xs), expected, rounded)
        assert_close(ga.grad(ga.jit(total), nums)(*xs), expected, rounded)


NOT_DIFFERENTIABLE_ROWS = [
    s
    for s in ROWS
    if s.primitive.jvp is NOT_DIFFERENTIABLE
    and any(is_inexact(d) for _, d in s.operands)
    and any(is_inexact(getattr(a.dtype, "name", "")) for a in out_avals(s))
]


@pytest.mark.parametrize("sample", NOT_DIFFERENTIABLE_ROWS, ids=str)
def test_no_derivative_is_zero(sample):
    f = Curve(sample)
    for t in tangents(f, f.start, f.direction(f.start)):
        assert not np.any(stored(t))


def test_operands_without_a_derivative_say_so():
    for name, places in CONSTANT.items():
        sample = next(s for s in samples(lambda p, name=name: p.name == name))
        xs = [as_array(x, a.dtype) for x, a in zip(values(sample), sample.avals, strict=True)]
        for place in places:

            def f(x, place=place, xs=xs, sample=sample):
                return sample.primitive.bind(*xs[:place], x, *xs[place + 1 :], **sample.params)

            with pytest.raises(ValueError, match="is not supported"):
                ga.jvp(f, (xs[place],), (xs[place],))


@pytest.mark.parametrize("sample", [s for s in ROWS if refuses(s)], ids=str)
def test_refusals_say_so(sample):
    f = Curve(sample)
    with pytest.raises(NotImplementedError, match="not implemented|only (implemented|valid)"):
        tangents(f, f.start, f.direction(f.start))


# ---- batches ----


def axes_to_try(sample: Sample) -> list[tuple[int | None, ...]]:
    """Where the extra axis is in each operand: everywhere in front, at the end, in some alone."""
    n = len(sample.operands)
    last = tuple(len(shape) for shape, _ in sample.operands)
    found = [(0,) * n, last]
    if n <= 3:
        found += [d for d in itertools.product((0, None), repeat=n) if any(x == 0 for x in d)]
    else:
        found += [tuple(0 if i == k else None for i in range(n)) for k in range(n)]
    return list(dict.fromkeys(found))


def assert_nearly_equal(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
    kind = dtypes.kind_of(found.dtype)
    if kind not in "fc":
        np.testing.assert_array_equal(found, expected, what)
        return
    ulp = float(dtypes.finfo(found.dtype).eps)
    wide = np.complex128 if kind == "c" else np.float64
    found, expected = found.astype(wide), expected.astype(wide)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    np.testing.assert_allclose(found, expected, 64 * ulp, 64 * ulp * scale, err_msg=what)


@pytest.mark.parametrize("size", [3, 1, 0])
@pytest.mark.parametrize("sample", ROWS, ids=str)
def test_vmap_is_a_loop(sample, size):
    if any(dtypes.kind_of(a.dtype) == "c" for a in sample.avals if not hasattr(a.dtype, "impl")):
        sample = sample._replace(domain=None if sample.domain == "any" else sample.domain)
    p = sample.primitive
    with ga.enable_x64(sample.wide), skipped_where_unwritten(sample):
        # Other numbers in each element: the seed of values is the sample's own name.
        many = [values(sample._replace(number=1000 * i)) for i in range(max(size, 1))]
        elements = [
            [as_array(x, a.dtype) for x, a in zip(xs, sample.avals, strict=True)] for xs in many
        ]

        def f(*xs):
            out = p.bind(*xs, **sample.params)
            return list(out) if p.multiple_results else [out]

        for axes in axes_to_try(sample):
            if size != 3 and axes not in axes_to_try(sample)[:2]:
                continue
            args = []
            for k, (axis, a) in enumerate(zip(axes, sample.avals, strict=True)):
                if axis is None:
                    args.append(elements[0][k])
                    continue
                stack = np.stack([xs[k] for xs in many], axis)
                stack = stack.take(range(size), axis)
                args.append(as_array(stack, a.dtype))
            found = [stored(y) for y in ga.vmap(f, in_axes=axes)(*args)]
            loop = [
                [
                    stored(y)
                    for y in f(*[elements[0 if d is None else i][k] for k, d in enumerate(axes)])
                ]
                for i in range(max(size, 1))
            ]
            for y, *each in zip(found, *loop, strict=True):
                assert_nearly_equal(y, np.stack(each)[:size], f"in_axes={axes}")


# ---- what is missing ----


def missing_rules() -> dict[str, list[str]]:
    """Primitives by the slot nobody has filled; pointwise ones and reductions batch by kind."""
    found: dict[str, list[str]] = {}
    for slot in ("jvp", "transpose", "batch"):
        by_kind = (Kind.POINTWISE, Kind.REDUCTION) if slot == "batch" else ()
        found[slot] = [
            name
            for name in NAMES
            if getattr(registry[name], slot) is UNWRITTEN and registry[name].kind not in by_kind
        ]
    return {slot: names for slot, names in found.items() if names}


def test_rules_that_are_missing():
    found = missing_rules()
    if found:
        pytest.fail("; ".join(f"no {slot}: {' '.join(names)}" for slot, names in found.items()))
