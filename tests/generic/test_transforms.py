"""Laws of derivatives that hold for every primitive, on the samples of tests/samples.py.

The derivative is what central differences say, in double precision, and so is the second one; the
transpose of the derivative is its adjoint; jit, vmap and grad change places; a matrix of second
derivatives has the columns that differences of gradients have. What refuses says so.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, UNWRITTEN, Kind, registry
from tests.generic.smooth import (
    CONSTANT,
    CONSTANT_TWICE,
    DIFFERENTIABLE,
    ROWS,
    STEPS,
    TOLERANCE,
    Curve,
    is_exact,
    is_inexact,
    one_of_each,
    out_avals,
    refusal,
    refuses,
)
from tests.generic.test_primitives import as_array, stored
from tests.generic.test_registry import NAMES
from tests.generic.transformed import SIZE, TRANSFORMS, derivatives, is_small, neighbours
from tests.samples import Sample, samples, values
from tests.support.sampled import each_sample

EXACT = [s for s in DIFFERENTIABLE if is_exact(s)]


def with_samples(found: list[Sample], transform: str, some: bool = False):
    """A test a primitive, of its samples that do not refuse; where `some` is true, a test a sample,
    of which only few belong to every run.
    """
    found = [s for s in found if not refusal(s, transform)]
    if not some:
        return each_sample(found)
    few = {str(s) for s in one_of_each(found)}
    marked = [s if str(s) in few else pytest.param(s, marks=pytest.mark.slow) for s in found]
    return pytest.mark.parametrize("sample", marked, ids=str)


# ---- what is compared ----


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


@with_samples(EXACT, "jvp")
def test_derivative_is_what_differences_say(sample):
    with ga.enable_x64(True):
        f = Curve(sample)
        xs, vs = f.start, f.direction(f.start)
        found = tangents(f, xs, vs)
        tolerance = TOLERANCE.get(sample.primitive.name, 1e-6)
        assert_close(found, differences(f, xs, vs), tolerance)


@with_samples(EXACT, "jvp of jvp")
def test_second_derivative_is_what_differences_say(sample):
    with ga.enable_x64(True):
        f = Curve(sample, CONSTANT_TWICE)
        xs, vs, ws = f.start, f.direction(f.start), f.direction(f.start)

        def slope(*ys):
            return tangents(f, ys, vs)

        tolerance = 10 * TOLERANCE.get(sample.primitive.name, 1e-6)
        second = tangents(slope, xs, ws)
        assert_close(second, differences(slope, xs, ws), tolerance)
        if refusal(sample, "vjp"):
            return
        # The same number by forward over reverse.
        cts = f.direction(second)
        by_reverse = tangents(lambda *ys: ga.vjp(f, *ys)[1](cts), xs, ws)
        a, size = inner(cts, second)
        b, _ = inner(by_reverse, vs)
        assert abs(a - b) <= 1e-9 * max(size, 1.0)


@with_samples(DIFFERENTIABLE, "vjp")
def test_transpose_is_the_adjoint(sample):
    with ga.enable_x64(True):
        f = Curve(sample)
        xs, vs = f.start, f.direction(f.start)
        by_rule = not refusal(sample, "jvp")
        out = (tangents if by_rule else differences)(f, xs, vs)
        cts = f.direction(out)
        back = ga.vjp(f, *xs)[1](cts)
        assert [(x.shape, x.dtype) for x in map(stored, back)] == [(x.shape, x.dtype) for x in xs]
        a, size = inner(cts, out)
        b, _ = inner(back, vs)
        rounded = 1e-9 if by_rule else 1e-6
        if not is_exact(sample):
            rounded = 0.2 if sample.primitive.name in STEPS else 2e-2
        if np.isfinite(a):
            assert abs(a - b) <= rounded * max(size, 1e-3)


@with_samples(DIFFERENTIABLE, "grad", some=True)
def test_jit_and_grad_change_places(sample):
    with ga.enable_x64(True):
        f = Curve(sample)
        nums = tuple(range(len(f.start)))
        expected = ga.grad(f.total, nums)(*f.start)
        rounded = 1e-12 if is_exact(sample) else 1e-2
        assert_close(ga.jit(ga.grad(f.total, nums))(*f.start), expected, rounded)
        assert_close(ga.grad(ga.jit(f.total), nums)(*f.start), expected, rounded)


@with_samples(DIFFERENTIABLE, "vmap of grad", some=True)
def test_vmap_and_grad_change_places(sample):
    """Both are the gradients of each element; of one element, and of none, too."""
    with ga.enable_x64(True):
        f = Curve(sample)
        each = [Curve(s).start for s in neighbours(sample, SIZE)]
        nums = tuple(range(len(f.start)))
        gradient = ga.jit(ga.grad(f.total, nums))
        many = [np.stack(xs) for xs in zip(*each, strict=True)]
        loop = [np.stack(g) for g in zip(*([stored(g) for g in gradient(*xs)] for xs in each))]
        rounded = 1e-10 if is_exact(sample) else 1e-2

        def all_of_them(*ys):
            return ga.vmap(f.total)(*ys).sum()

        for size in (SIZE, 1, 0):
            some, expected = ([x[:size] for x in xs] for xs in (many, loop))
            assert_close(ga.vmap(ga.grad(f.total, nums))(*some), expected, rounded)
            assert_close(ga.grad(all_of_them, nums)(*some), expected, rounded)


@with_samples([s for s in EXACT if is_small(s)], "hessian", some=True)
def test_hessian_is_what_differences_of_gradients_say(sample):
    with ga.enable_x64(True):
        f = Curve(sample, CONSTANT_TWICE)
        xs = f.parts(f.start)
        vs, nums = f.direction(xs), tuple(range(len(xs)))
        found = [[stored(h) for h in row] for row in ga.hessian(f.height, nums)(*xs)]
        gradient = ga.jit(ga.grad(f.height, nums))
        along = [
            sum(np.tensordot(h, v, v.ndim) for h, v in zip(row, vs, strict=True)) for row in found
        ]
        tolerance = 10 * TOLERANCE.get(sample.primitive.name, 1e-6)
        assert_close(along, differences(gradient, xs, vs), tolerance)
        by_hand = ga.jacfwd(ga.jacrev(f.height, nums), nums)(*xs)
        for row, same in zip(found, by_hand, strict=True):
            assert_close(row, same, 1e-12)
        if not refusal(sample, "jvp"):
            turned = ga.jacrev(ga.jacfwd(f.height, nums), nums)(*xs)
            for row, same in zip(found, turned, strict=True):
                assert_close(row, same, 1e-9)


# ---- no derivative ----

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


@pytest.mark.parametrize(
    ("sample", "transform"),
    [(s, t) for s in DIFFERENTIABLE for t in TRANSFORMS if refusal(s, t)],
    ids=str,
)
def test_transforms_that_are_refused_say_so(sample, transform):
    with ga.enable_x64(True):
        (program,) = derivatives(sample, [transform])
        arrays = [as_array(x, a.dtype) for x, a in zip(program.inputs, program.avals)]
        with pytest.raises((NotImplementedError, TypeError, ValueError)) as caught:
            program.function(*arrays)
        assert refusal(sample, transform) in str(caught.value)


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


#: Never differentiated here: what refuses to be, what has no result, and what is tried along a
#: named axis (tests/unit/lax/test_collectives.py) or over devices (tests/unit/control).
ON_MESHES = {"shard_map", "reshard", "sharding_constraint"}  # they need devices
APART = {n for n in NAMES if registry[n].kind is Kind.COLLECTIVE} | {"custom_lin", *ON_MESHES}


def test_every_primitive_with_a_derivative_is_tried():
    tried = {s.primitive.name for s in EXACT}
    refused = {s.primitive.name for s in ROWS if refuses(s)}
    without = {n for n in NAMES if registry[n].jvp is NOT_DIFFERENTIABLE}
    rest = set(NAMES) - tried - refused - without - APART
    # The first two are compared with themselves: see STEPS and SAMPLED. Elements of users' dtypes
    # have the tangents that their rules say: tests/unit/core/test_extended.py.
    assert rest == {"reduce_precision", "random_gamma", "debug_callback", "debug_print"} | {
        "to_edtype",
        "from_edtype",
    }
