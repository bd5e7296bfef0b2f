"""The few largest elements of long rows: read once, by one kernel, with the order of a stable sort.

In: rows of all kinds of numbers, with what is hard to order. Out: values and positions of the
simulator against NumPy's rules, in several orders of threads; and what moves.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()

RANDOM = np.random.default_rng(0)


def hard() -> np.ndarray:
    """Rows with equal elements, both zeros, infinities, nan of both signs, denormal numbers."""
    x = RANDOM.standard_normal((4, 1500)).astype(np.float32)
    x[0, [3, 700, 1499]] = np.nan, -np.nan, np.inf
    x[1] = 1.0
    x[2] = -np.inf
    x[2, [9, 1100]] = 0.0, -0.0
    x[3] = -np.abs(x[3]) * np.float32(1e-44)
    return x


def test_values_and_positions():
    x = hard()
    numbers = RANDOM.integers(-5, 5, (2, 2000)).astype(np.int32)
    numbers[0, 40], numbers[1, 1999] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    small = RANDOM.integers(0, 256, (2, 1100)).astype(np.uint8)
    wide = RANDOM.integers(0, 2**32, 1100, dtype=np.uint32)
    # Several turns of all threads: where each element is larger than all before, and where none is.
    rising = np.sort(RANDOM.standard_normal(9001).astype(np.float32))
    both = np.stack([rising, rising[::-1], RANDOM.permutation(rising)])
    simulated.compare(
        [
            (lambda x: lax.top_k(x, 5), (x,)),
            (lambda x: lax.top_k(x.T, 3, axis=0), (x,)),
            (lambda x: lax.top_k(gnp.astype(x, "bfloat16"), 7), (x,)),
            (lambda x: lax.top_k(x, 32), (numbers,)),
            (lambda x: lax.top_k(x, 1), (small,)),
            (lambda x: lax.top_k(x, 2)[1], (wide,)),
            (lambda x: lax.top_k(x, 32), (both,)),
            (lambda x: lax.top_k(x, 6), (both,)),
            (lambda x: lax.top_k(x, 40), (both,)),
            (lambda x: lax.top_k(x, 128), (both,)),
            (lambda x: lax.top_k(x, 65)[1], (numbers,)),
        ]
    )


@pytest.mark.parametrize(("dtype", "count"), [("float32", 8), ("bfloat16", 32), ("int8", 1)])
def test_rows_are_read_once(dtype, count):
    x = shape(dtype, 8192, 50257)
    found = ga.explain(lambda x: lax.top_k(x, count), platform="cuda")(x)
    (kernel,) = found.steps
    assert kernel.kind == "top" and found.launches == 1
    assert found.bytes_moved < 1.01 * 8192 * 50257 * np.dtype(dtype).itemsize


@pytest.mark.parametrize(("dtype", "count"), [("float32", 129), ("float64", 8)])
def test_others_are_sorted(dtype, count):
    with ga.enable_x64(True):
        found = ga.explain(lambda x: lax.top_k(x, count), platform="cuda")(shape(dtype, 4, 3000))
        assert found.library_calls
