"""Running folds as native code: any axis, from either end, with steps before and behind.

In: arrays of many shapes. Out: what NumPy accumulates, to the bit where the order is the same.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support import natively

natively.need_compiler()

SHAPES = [(7,), (1000,), (5, 9), (130, 3), (3, 600), (1, 5), (5, 1), (6, 7, 5), (2, 3, 4, 5)]
SHAPES += [(20, 1030)]


def running(x, axis):
    """NumPy's sums; many floats are added as doubles, and each sum is rounded once."""
    wide = np.float64 if x.dtype == np.float32 and x.shape[axis] > 1000 else None
    return np.cumsum(x, axis, wide).astype(x.dtype)


def backwards(x, axis):
    return np.flip(running(np.flip(x, axis), axis), axis)


#: Name -> function, NumPy's, types.
SCANS = {
    "sum": (gnp.cumsum, running, "f4 f8 i4 c8"),
    "product": (gnp.cumprod, np.cumprod, "f4 i8"),
    "largest": (lax.cummax, np.maximum.accumulate, "f4 u1"),
    "smallest": (lax.cummin, np.minimum.accumulate, "f8 i2"),
    "reverse": (lambda x, axis: lax.cumsum(x, axis, reverse=True), backwards, "f4"),
    "chain": (
        lambda x, axis: gnp.cumsum(x * 2 + 1, axis) * 3,
        lambda x, axis: running(x * 2 + 1, axis) * 3,
        "f4 i4",
    ),
}


@pytest.mark.parametrize("name", SCANS)
def test_every_axis(name, rng):
    function, reference, kinds = SCANS[name]
    cases = []
    with ga.enable_x64(True):
        for shape in SHAPES:
            for axis in range(len(shape)):
                for kind in kinds.split():
                    x = rng.standard_normal(shape).astype(kind) * np.array(3).astype(kind)
                    f = lambda x, axis=axis: function(x, axis=axis)
                    program = natively.written(ga.jit(f).lower(x).jaxpr)
                    cases.append((program, x, axis))
    assert all(any("_scan(" in k.text for k in p.kernels) for p, _, _ in cases)
    natively.compile_all([p for p, _, _ in cases])
    for program, x, axis in cases:
        (found,) = program(x)
        with np.errstate(over="ignore", under="ignore"):
            wanted = reference(x, axis=axis)
        if x.dtype.kind == "c":
            # NumPy's products of complex numbers are rounded in its own way.
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted.astype(found.dtype))


def test_nan_stays_the_largest_from_where_it_is(rng):
    x = rng.standard_normal((6, 40)).astype(np.float32)
    x[2, 7] = x[4, 0] = np.nan
    programs = [
        (natively.written(ga.jit(f).lower(x).jaxpr), reference(x, axis=1))
        for f, reference in (
            (lambda x: lax.cummax(x, 1), np.maximum.accumulate),
            (lambda x: lax.cummin(x, 1), np.minimum.accumulate),
        )
    ]
    natively.compile_all([p for p, _ in programs])
    for program, wanted in programs:
        np.testing.assert_array_equal(program(x)[0], wanted)


def test_scans_in_a_loop_are_one_call(rng):
    first = x = rng.standard_normal((8, 50)).astype(np.float32)
    f = lambda x: lax.fori_loop(0, 4, lambda _, x: gnp.cumsum(x, 1) * 0.1, x)
    program = natively.written(ga.jit(f).lower(x).jaxpr)
    natively.compile_all([program])
    (kernel,) = program.kernels
    assert kernel.form == "routine"
    for _ in range(4):
        x = np.cumsum(x, 1) * np.float32(0.1)
    np.testing.assert_array_equal(program(first)[0], x)
