"""argmax and argmin as native code: the first of equal values, nan before all, as NumPy finds them.

In: rows and columns of any length with nan, infinities, zeros of both signs and the ends of the
integers. Out: NumPy's places.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from tests.support import natively

natively.need_compiler()

SHAPES = [((50, 1), 1), ((40, 3), 1), ((41, 4), 1), ((9, 30), 1), ((5, 70), 1), ((3, 1000), 1)]
SHAPES += [((4, 41), 0), ((70, 9), 0), ((2, 3, 17), 1), ((70_001,), 0)]
DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
FIND = {"argmax": gnp.argmax, "argmin": gnp.argmin}


def values(dtype: str, shape: tuple[int, ...], seed: int, special: bool) -> np.ndarray:
    """Few different values, so that many are equal."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "f":
        chosen = np.array([-1.5, 0.0, -0.0, 2.25, 1e-7, -1e-7])
        if special:
            chosen = np.append(chosen, [np.nan, -np.nan, np.inf, -np.inf])
    elif kind == "b":
        chosen = np.array([False, True])
    else:
        info = np.iinfo(dtype)
        chosen = np.array([info.min, info.max, 0, 1, info.max // 2], dtype)
    return rng.choice(chosen.astype(dtype), shape)


def constant(dtype: str, shape: tuple[int, ...], value: float) -> np.ndarray:
    return np.full(shape, value, dtype)


@pytest.fixture(scope="module")
def programs():
    found = {}
    for dtype in DTYPES:
        for shape, axis in SHAPES:
            both = lambda x, axis=axis: [f(x, axis) for f in FIND.values()]
            with ga.enable_x64(True):
                graph = ga.jit(both).lower(ga.ShapeDtypeStruct(shape, dtype)).jaxpr
            found[dtype, shape, axis] = natively.written(graph)
    natively.compile_all(list(found.values()))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_places(dtype, programs):
    for (name, shape, axis), program in programs.items():
        if name != dtype:
            continue
        assert program.kernels
        inputs = [values(dtype, shape, seed, bool(seed % 2)) for seed in range(4)]
        if np.dtype(dtype).kind == "f":
            inputs += [constant(dtype, shape, v) for v in (np.inf, -np.inf, np.nan, -0.0)]
        elif dtype != "bool":
            info = np.iinfo(dtype)
            inputs += [constant(dtype, shape, v) for v in (info.min, info.max)]
        for x in inputs:
            for found, find in zip(program(x), (np.argmax, np.argmin), strict=True):
                assert np.array_equal(found, find(x, axis)), (shape, axis)


def test_places_of_bfloat16():
    x = np.random.default_rng(0).standard_normal((30, 12)).astype(ml_dtypes.bfloat16)
    x[3, 5] = np.nan
    program = natively.written(ga.jit(lambda x: gnp.argmin(x, 1)).lower(x).jaxpr)
    natively.compile_all([program])
    assert np.array_equal(program(x)[0], np.argmin(x.astype(np.float32), 1))
