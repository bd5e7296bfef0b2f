"""Folds over windows, one axis after another: when, and that values stay the same.

In: windows of one to three axes, with strides, padding and holes. Out: NumPy's values, and how many
equations there are.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.compiler.rewrite.windows import fold_windows_by_axis
from gpuarray.core.graph import evaluate

#: Window, strides, padding, holes between elements and in windows, and the folds that are made.
WAYS = [
    ((9, 9), (1, 1), ((4, 4), (4, 4)), (1, 1), (1, 1), 2),
    ((5, 9), (1, 2), ((0, 3), (2, 0)), (1, 1), (2, 1), 2),
    ((6, 5), (2, 1), ((1, 1), (-1, 2)), (2, 3), (1, 1), 2),
    ((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    ((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1),
    ((1, 20), (1, 1), ((0, 0), (3, 3)), (1, 1), (1, 1), 1),
]


def made(function, x):
    graph = simplify(ga.jit(function).lower(x).jaxpr)
    return graph, fold_windows_by_axis(graph)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "start, fold, kind",
    [(-np.inf, lax.max, "float32"), (9, lax.min, "int32"), (0, lax.add, "int32")],
)
def test_values(way, start, fold, kind, rng):
    window, strides, padding, spread, holes, count = way
    x = rng.integers(-9, 9, (24, 30)).astype(kind)
    start = np.asarray(start, kind) if fold is not lax.min else np.int32(2**31 - 1)

    def function(x):
        return lax.reduce_window(x, start, fold, window, strides, padding, spread, holes)

    graph, found = made(function, x)
    assert len(found.eqns) == count
    (wanted,), (got,) = evaluate(graph, gnp.asarray(x)), evaluate(found, gnp.asarray(x))
    np.testing.assert_array_equal(got, wanted)


def test_sums_of_halves_are_rounded_once():
    x = np.zeros((24, 30), "float16")
    sums = lambda x: lax.reduce_window(x, np.float16(0), lax.add, (9, 9), (1, 1), "VALID")
    graph, found = made(sums, x)
    assert found is graph
    largest = lambda x: lax.reduce_window(x, np.float16(-np.inf), lax.max, (9, 9), (1, 1), "VALID")
    assert len(made(largest, x)[1].eqns) == 2
