"""Updates of few places that very many meet: sums of warps and blocks first, then one sum each.

In: histograms and counts. Out: launches and bytes, and the values of the simulator, in which other
orders of threads must give the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()
pytestmark = pytest.mark.usefixtures("plans_only")

MANY = 70_000
RANDOM = np.random.default_rng(0)


def histogram(x):
    return gnp.histogram(x, 20)[0]


def counts(x):
    return gnp.bincount(x, length=1000)


def less(at, x):
    return gnp.full(900, 5, "int32").at[at].subtract(x)


def test_histograms_sort_nothing():
    explained = ga.explain(histogram, platform="cuda")(shape("float32", 1 << 27))
    assert not explained.library_calls
    # The range, then the counts; each reads all samples.
    assert explained.bytes_moved < 2.01 * 4 * (1 << 27)
    (count,) = [k for k in explained.kernels if k.kind == "scatter"]
    assert float(count.facts["grade"]) > 0.95 and "__shared__ int sums[" in count.source


@pytest.mark.parametrize("places", [1000, 5000])
def test_few_updates_and_many_places_are_added_in_memory(places):
    """Shared memory is filled and emptied by each block: that has to be worth it."""

    def added(at):
        return gnp.zeros(places, "int32").at[at].add(1)

    def source(updates: int) -> str:
        return ga.explain(added, platform="cuda")(shape("int32", updates)).kernels[-1].source

    assert "sums" not in source(30 * places)
    assert "sums" in source(100 * places)
    assert ("of each warp" in source(100 * places)) == (places * 4 * 8 <= 24 << 10)


def test_counts_are_those_of_numpy():
    x = RANDOM.standard_normal(MANY).astype(np.float32)
    at = RANDOM.integers(-3, 1010, MANY).astype(np.int32)
    inside, amounts = np.abs(at) % 900, RANDOM.integers(-99, 99, MANY).astype(np.int32)
    simulated.compare([(histogram, (x,)), (counts, (at,)), (less, (inside, amounts))])
    edges = np.histogram_bin_edges(x.astype(np.float64), 20)
    assert np.array_equal(ga.jit(histogram)(x).sum(), MANY) and len(edges) == 21
    assert np.array_equal(counts(gnp.asarray(inside)), np.bincount(inside, minlength=1000))
