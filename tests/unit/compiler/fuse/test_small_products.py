"""Products of many small matrices, of vectors, of columns with rows are kernels that fuse on a GPU.

In: contractions of every form. The simulator runs them against NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests import golden
from tests.support import simulated

simulated.need_compiler()


def whole(dtype: str, *shape: int) -> np.ndarray:
    """Small whole numbers: their products and sums are exact in every dtype."""
    n = int(np.prod(shape))
    return (np.arange(n) * 7 % 11 - 5).reshape(shape).astype(dtype)


def einsum(text: str):
    return lambda *xs: gnp.einsum(text, *xs)


SMALL = {
    "matrices": (lambda a, b: a @ b, [(100, 3, 3), (100, 3, 3)]),
    "wide ones": (lambda a, b: a @ b, [(70, 8, 2), (70, 2, 5)]),
    "by vectors": (einsum("nij,nj->ni"), [(100, 3, 3), (100, 3)]),
    "vectors by each other": (einsum("ni,ni->n"), [(50, 40), (50, 40)]),
    "one vector": (gnp.dot, [(3000,), (3000,)]),
    "all axes": (einsum("ijk,ijk->"), [(4, 5, 6), (4, 5, 6)]),
    "columns by rows": (einsum("ni,nj->nij"), [(20, 30), (20, 7)]),
    "outer": (gnp.outer, [(40,), (50,)]),
    "length 1": (lambda a, b: a @ b, [(40, 1), (1, 30)]),
    "several axes": (einsum("abij,abjk->abik"), [(9, 8, 2, 3), (9, 8, 3, 2)]),
    "turned": (einsum("jin,knj->nki"), [(3, 4, 80), (2, 80, 3)]),
    "turned back": (einsum("nij,nkj->kni"), [(80, 3, 4), (80, 2, 4)]),
    "a batch inside": (einsum("inj,jnk->nik"), [(3, 70, 4), (4, 70, 2)]),
    "a matrix by a vector": (lambda a, b: a @ b, [(30, 40), (40,)]),
    "points": (lambda a, b: a @ b, [(300, 3), (3, 4)]),
    "two summed": (einsum("nijk,njk->ni"), [(65, 3, 2, 2), (65, 2, 2)]),
}
LARGE = {
    "matrices": (lambda a, b: a @ b, [(30, 40), (40, 50)]),
    "long ones": (lambda a, b: a @ b, [(100, 3, 30), (100, 30, 3)]),
    "few": (lambda a, b: a @ b, [(4, 3, 3), (4, 3, 3)]),
}


def shown(function, shapes, dtype: str = "float32"):
    return ga.explain(function, platform="cuda")(*(golden.shape(dtype, *s) for s in shapes))


@pytest.mark.parametrize("name", SMALL)
def test_small_ones_are_one_kernel_with_what_follows(name):
    function, shapes = SMALL[name]
    found = shown(lambda *xs: gnp.tanh(function(*xs)) + 1, shapes)
    assert (found.launches, list(found.library_calls)) == (1, []), str(found)
    assert "tanh" in found.kernels[0].ops


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_are_the_librarys(name):
    assert len(shown(*LARGE[name]).library_calls) == 1


def test_short_floats_are_summed_before_they_are_rounded():
    for dtype in ("bfloat16", "float16"):
        assert len(shown(*SMALL["matrices"], dtype).library_calls) == 1
    function = lambda a, b: lax.dot_general(
        a, b, (((2,), (1,)), ((0,), (0,))), preferred_element_type=gnp.float32
    )
    shapes = [(100, 3, 3), (100, 3, 3)]
    assert len(shown(function, shapes, "bfloat16").library_calls) == 1


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_values(dtype):
    simulated.compare((f, [whole(dtype, *s) for s in shapes]) for f, shapes in SMALL.values())


def test_values_in_double_precision_and_under_transforms():
    a, b = whole("float32", 80, 3, 3), whole("float32", 80, 3)
    turned = einsum("nij,nj->ni")
    gradient = ga.grad(lambda a, b: (turned(a, b) ** 2).sum(), (0, 1))
    cases = [
        (gradient, (a, b)),
        (ga.vmap(lambda a, b: a @ (a @ b)), (a, b)),
        (lambda a, b: ga.jvp(turned, (a, b), (a, b)), (a, b)),
    ]
    simulated.compare(cases)
    with ga.enable_x64(True):
        wide = [whole("float64", 80, 3, 3), whole("float64", 80, 3)]
        simulated.compare([(turned, wide)])


def test_unfused_they_are_products_still():
    with ga.fusion(False):
        assert len(shown(*SMALL["matrices"]).library_calls) == 1
