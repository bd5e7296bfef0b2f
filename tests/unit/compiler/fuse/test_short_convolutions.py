"""Convolutions of few steps are kernels that fuse with what is around them on a GPU.

In: filters and convolutions of each channel by itself, in every layout. The simulator runs them
against NumPy; whole numbers make sums exact whatever their order.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests import golden
from tests.support import simulated
from tests.unit.compiler.fuse.test_small_products import whole

simulated.need_compiler()


def conv(strides, padding, **options):
    def function(x, w):
        return lax.conv_general_dilated(x, w, strides, padding, **options)

    return function


NHWC = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
SHORT = {
    "a filter": (conv((1, 1), "SAME"), [(2, 1, 9, 11), (1, 1, 3, 5)]),
    "several filters": (conv((1, 1), "VALID"), [(2, 1, 9, 11), (4, 1, 3, 3)]),
    "each channel": (conv((1, 1), "SAME", feature_group_count=4), [(2, 4, 8, 9), (4, 1, 3, 3)]),
    "two of each": (conv((2, 1), "SAME", feature_group_count=3), [(2, 3, 8, 9), (6, 1, 3, 3)]),
    "channels last": (
        conv((1, 1), "SAME", feature_group_count=5, **NHWC),
        [(2, 8, 9, 5), (7, 7, 1, 5)],
    ),
    "holes in the window": (
        conv((1, 1), [(2, 1), (0, 3)], rhs_dilation=(2, 3)),
        [(1, 1, 12, 13), (1, 1, 3, 2)],
    ),
    "holes in the image": (
        conv((1, 2), [(1, 2), (3, 0)], lhs_dilation=(2, 3)),
        [(1, 2, 5, 4), (3, 2, 2, 2)],
    ),
    "cut at the edge": (conv((1,), [(-1, -2)]), [(2, 2, 20), (3, 2, 4)]),
    "in time": (
        conv((1,), [(3, 0)], dimension_numbers=("NHC", "HIO", "NHC"), feature_group_count=6),
        [(2, 15, 6), (4, 1, 6)],
    ),
    "in space": (conv((1, 1, 1), "SAME"), [(1, 1, 4, 5, 6), (1, 1, 2, 3, 2)]),
    "a point": (conv((1, 1), "SAME"), [(2, 8, 5, 6), (3, 8, 1, 1)]),
    "groups of channels": (
        conv((1, 1), "VALID", feature_group_count=2),
        [(2, 8, 5, 6), (6, 4, 2, 2)],
    ),
    "beside the image": (conv((1, 1), [(9, 9), (0, 0)]), [(1, 1, 1, 3), (1, 1, 3, 3)]),
}
LONG = {
    "many channels": (conv((1, 1), "SAME"), [(2, 16, 9, 9), (8, 16, 3, 3)]),
    "a wide window": (conv((1, 1), "SAME"), [(1, 1, 40, 40), (1, 1, 11, 11)]),
}


def shown(function, shapes, dtype: str = "float32"):
    return ga.explain(function, platform="cuda")(*(golden.shape(dtype, *s) for s in shapes))


@pytest.mark.parametrize("name", SHORT)
def test_short_ones_are_one_kernel_with_what_follows(name):
    function, shapes = SHORT[name]
    found = shown(lambda x, w: nn.relu(function(2 * x, w) + 1), shapes)
    assert (found.launches, list(found.library_calls)) == (1, []), str(found)


@pytest.mark.parametrize("name", LONG)
def test_long_ones_are_a_librarys(name):
    assert len(shown(*LONG[name]).library_calls) == 1


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64", "bfloat16", "float16"])
def test_values(dtype):
    cases = [
        (f, [gnp.asarray(whole("float32", *s)).astype(dtype) for s in shapes])
        for f, shapes in SHORT.values()
    ]
    simulated.compare(cases)


def test_values_under_transforms():
    cases = []
    for name in ("each channel", "two of each", "channels last", "in time", "several filters"):
        function, shapes = SHORT[name]
        x, w = (whole("float32", *s) for s in shapes)
        gradient = ga.grad(lambda x, w, f=function: (f(x, w) ** 2).sum(), (0, 1))
        cases.append((gradient, (x, w)))
        cases.append((ga.vmap(function, (0, None)), (np.stack([x, x + 1]), w)))
    simulated.compare(cases, limit=64)


def test_short_floats_are_rounded_once():
    x = gnp.full((1, 1, 8), 1.0, "bfloat16").at[0, 0, ::2].set(2**-9)
    w = gnp.ones((1, 1, 8), "bfloat16")
    simulated.compare([(conv((1,), "VALID"), (x, w))])
    assert float(ga.jit(conv((1,), "VALID"))(x, w)[0, 0, 0]) == 4.0
