"""Folds along a short axis are made where they are read, if there is less to read than to write.

In: distances between the rows of two arrays, and what is made of them. Out: one kernel that writes
no distances, with the values of NumPy's rules; folds of rows stay kernels of their own.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from tests import golden
from tests.golden import shape
from tests.support import simulated
from tests.unit.compiler.cuda.test_tiles import filled

simulated.need_compiler()


def kernels(function, *arguments) -> list:
    found = ga.explain(function, platform="cuda")(*arguments)
    assert not found.library_calls
    return found.kernels


def furthest(x, y):
    """Largest coordinate distance to any other point, over two axes of short length."""
    d = gnp.max(gnp.abs(x[:, None] - y[None]), axis=(-2, -1))
    return gnp.sum(gnp.sqrt(d), axis=1)


@pytest.mark.parametrize("length", [5, 8, 64])
def test_distances_are_not_written(length):
    points, centres = shape("float32", 100_000, length), shape("float32", 64, length)
    (kernel,) = kernels(golden.nearest, points, centres)
    read = 4 * length * (100_000 + 64)
    assert (kernel.bytes_read, kernel.bytes_written) == (read, 8 * 100_000)


def test_what_is_read_by_more_is_written_once():
    """Folds that would be repeated, that are long, or that read more than they make."""

    def sums(x):
        return gnp.sum(gnp.sum(x, axis=1) ** 2, axis=0)

    assert len(kernels(sums, shape("float32", 1 << 20, 32))) == 2
    long = shape("float32", 1000, 200), shape("float32", 300, 200)
    assert len(kernels(golden.nearest, *long)) == 2

    def spread(x, y):
        d = gnp.sum((x[:, None] - y) ** 2, axis=-1)
        return d[:, :, None] + gnp.arange(50.0)

    assert len(kernels(spread, shape("float32", 3000, 8), shape("float32", 2000, 8))) == 2


def test_values():
    x, y = filled("float32", 37, 8), filled("float32", 20, 8)
    pairs = [filled("float32", n, 2, 3) for n in (37, 20)]
    simulated.compare([(golden.nearest, (x, y)), (furthest, pairs)], limit=4)
    d = ((x[:, None].astype(np.float64) - y) ** 2).sum(-1)
    assert np.array_equal(golden.nearest(x, y)[0], d.argmin(1))
