"""Extremes of complex numbers some of which have nan parts, on NumPy, native code and kernels.

`max` and `min` of two are JAX's: lexicographic, the second where a nan makes the comparison fail.
That is no associative operation, so the result of JAX's folds depends on their order. Folds here
are NumPy's: nan where a number with a nan part takes part.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, ops
from tests.support import everywhere

everywhere.need_compiler()

NAN, INF = np.nan, np.inf
PARTS = [(1, 2), (NAN, 0), (0, NAN), (NAN, NAN), (2, 1), (-INF, 0), (INF, NAN), (5, -1), (5, 1)]
UFUNCS = {"max": np.maximum, "min": np.minimum}


def drawn(*shape: int) -> np.ndarray:
    """Few different numbers, many of which are equal in one part; a tenth have a nan part."""
    rng = np.random.default_rng(sum(shape))
    x = rng.integers(-3, 4, (*shape, 2)).astype(np.float32)
    x[rng.random(x.shape) < min(0.05, 1.5 / shape[-1])] = NAN
    return x.view(np.complex64)[..., 0]


def check(cases: dict[str, tuple], expected: dict[str, np.ndarray]) -> None:
    """Each way gives the numbers expected, and a number with a nan part where one is expected."""
    for name, found in zip(cases, everywhere.computed(list(cases.values())), strict=True):
        for way, (x,) in found.items():
            np.testing.assert_array_equal(x, expected[name], f"{name} by {way}")


@pytest.mark.parametrize("name", UFUNCS)
def test_of_two(name):
    """Each operand as it is, bit by bit."""
    pairs = [complex(*p) for p in PARTS]
    x, y = (np.array(z, np.complex64) for z in zip(*itertools.product(pairs, pairs), strict=True))
    sign = 1 if name == "max" else -1
    larger = sign * x.real > sign * y.real
    larger |= (x.real == y.real) & (sign * x.imag > sign * y.imag)
    expected = np.where(larger, x, y)
    (found,) = everywhere.computed([(getattr(lax, name), (x, y))])
    for way, (z,) in found.items():
        np.testing.assert_array_equal(z.view(np.float32), expected.view(np.float32), way)


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("shape", [(40, 3), (9, 100), (2, 5000)])
def test_folds(name, shape):
    ufunc, x = UFUNCS[name], drawn(*shape)
    running = functools.partial(getattr(lax, f"cum{name}"), axis=1)
    cases = {
        "rows": (functools.partial(getattr(gnp, name), axis=1), (x,)),
        "columns": (functools.partial(getattr(gnp, name), axis=0), (np.ascontiguousarray(x.T),)),
        "whole": (getattr(gnp, name), (x,)),
        "running": (running, (x,)),
        "running back": (functools.partial(running, reverse=True), (x,)),
        # With derivatives it is of pairs.
        "running, with a tangent": (lambda x: ga.jvp(running, (x,), (x,))[0], (x,)),
        "collective": (
            ga.vmap(lambda x: getattr(lax, f"p{name}")(x, "i"), axis_name="i", out_axes=None),
            (np.ascontiguousarray(x.T),),
        ),
    }
    rows = ufunc.reduce(x, 1)
    expected = {
        "rows": rows,
        "columns": rows,
        "whole": ufunc.reduce(x, None),
        "running": ufunc.accumulate(x, 1),
        "running, with a tangent": ufunc.accumulate(x, 1),
        "running back": ufunc.accumulate(x[:, ::-1], 1)[:, ::-1],
        "collective": rows,
    }
    check(cases, expected)


@pytest.mark.parametrize("name", UFUNCS)
def test_windows_and_scatters(name):
    ufunc, start = UFUNCS[name], np.complex64(-INF if name == "max" else INF)
    operation, x = getattr(lax, name), drawn(6, 50)
    few, many = drawn(2, 7), drawn(2, 900)
    at = {7: np.arange(7) // 2, 900: np.arange(900) * 7 % 60}
    segments = getattr(ops, f"segment_{name}")

    def windows(x):
        return lax.reduce_window(x, start, operation, (2, 3), (1, 1), "SAME")

    def into(values):
        base = np.ones((len(values), 60), np.complex64)
        return getattr(gnp.asarray(base).at[:, at[values.shape[1]]], name)(values)

    def segmented(values):
        return segments(values.T, at[900], 61)

    cases = {
        "windows": (windows, (x,)),
        "few updates": (into, (few,)),
        "many updates": (into, (many,)),
        "segments": (segmented, (many,)),
    }
    padded = np.pad(x, ((0, 1), (1, 1)), constant_values=start)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (2, 3))
    expected = {"windows": ufunc.reduce(seen, (2, 3))}
    for key, values in (("few updates", few), ("many updates", many)):
        expected[key] = np.ones((2, 60), np.complex64)
        ufunc.at(expected[key], (slice(None), at[values.shape[1]]), values)
    expected["segments"] = np.full((61, 2), start)
    ufunc.at(expected["segments"], at[900], many.T)
    check(cases, expected)


@pytest.mark.parametrize("name", UFUNCS)
def test_of_no_elements(name):
    """-inf and inf, with an imaginary part of 0, as in JAX."""
    end = np.complex64(-INF if name == "max" else INF)
    fold = getattr(lax, f"reduce_{name}")
    nothing, x = np.zeros((3, 0), np.complex64), np.ones(4, np.complex64)

    def beside(x):
        return lax.reduce_window(x, end, getattr(lax, name), (1,), (1,), [(2, 2)])

    cases = {
        "rows": (lambda x: fold(x, (1,)), (nothing,)),
        "whole": (lambda x: fold(x, (0, 1)), (nothing,)),
        "windows of padding": (beside, (x,)),
    }
    expected = {
        "rows": np.full(3, end),
        "whole": end,
        "windows of padding": np.array([end, end, 1, 1, 1, 1, end, end]),
    }
    check(cases, expected)
