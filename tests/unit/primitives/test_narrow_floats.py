"""Narrow floats where formats differ: alike by NumPy's rules, in native code and in kernels.

A format may have no nan (-0.0 stands for one, as in JAX, whatever the sign that a processor gives
it), no zero (float8_e8m0fnu), or several nans, which differ by their bits.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpuarray import lax
from tests.samples import dtype_named
from tests.support import everywhere

everywhere.need_compiler()

NAN, INF = np.nan, np.inf
WITHOUT_NAN = ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"]
NARROW = ["float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"]
NARROW += ["float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "bfloat16"]


@pytest.mark.parametrize("name", WITHOUT_NAN)
def test_nan_where_there_is_none(name):
    dtype = dtype_named(name)
    x = np.array([-3.0, -1.0, -0.5, 0.0, -0.0], dtype)
    (nothing,) = np.array([-0.0], dtype).view(np.uint8)
    floats = np.array([NAN, -NAN], np.float32)
    cases = [
        (lax.sqrt, (x[:3],)),
        (lax.rsqrt, (x[:3],)),
        (lax.log, (x[:3],)),
        (lax.log1p, (x[:1],)),
        (lax.asin, (x[:1],)),
        (lambda x: x / x, (x[3:],)),
        (lambda x: lax.rem(x, x), (x[3:],)),
        (lambda x: x**0.5, (x[:3],)),
        (lambda x: x.astype(dtype), (floats,)),
        (lambda x: x.astype("float16").astype(dtype), (floats,)),
    ]
    for number, found in enumerate(everywhere.computed(cases)):
        for way, (y,) in found.items():
            assert set(y.view(np.uint8).tolist()) == {nothing}, (number, way)


def test_sums_without_a_zero():
    """Partial sums are float32: they may begin with 0, which the elements cannot be."""
    dtype = dtype_named("float8_e8m0fnu")
    x = np.float32(2.0 ** np.random.default_rng(0).integers(-3, 4, (5, 700))).astype(dtype)
    wide = x.astype(np.float32)
    geometry = {"window_dimensions": (1, 3), "window_strides": (1, 2)}
    geometry |= {"padding": ((0, 0), (0, 1)), "base_dilation": (1, 1), "window_dilation": (1, 1)}
    cases = [
        (lambda x: lax.cumsum(x, 1), (x,)),
        (lambda x: lax.reduce_sum(x, (0,)), (x,)),
        (lambda x: lax.reduce_sum(x, (1,)), (x,)),
        (lambda x: lax.reduce_window_sum_p.bind(x, **geometry), (x,)),
    ]
    padded = np.pad(wide, ((0, 0), (0, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, 3, 1)[:, ::2]
    expected = [wide.cumsum(1), wide.sum(0), wide.sum(1), seen.sum(2)]
    for found, sums in zip(everywhere.computed(cases), expected, strict=True):
        for way, (y,) in found.items():
            np.testing.assert_array_equal(y, sums.astype(dtype), way)


@pytest.mark.parametrize("name", NARROW)
def test_bits_there_and_back(name):
    dtype = dtype_named(name)
    word = np.dtype(f"u{dtype.itemsize}")
    words = np.arange(1 << 8 * dtype.itemsize, dtype=word)

    def through(x):
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, dtype), word)

    (found,) = everywhere.computed([(through, (words,))])
    for way, (x,) in found.items():
        np.testing.assert_array_equal(x, words, way)
