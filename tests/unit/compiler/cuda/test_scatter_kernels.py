"""Updates of few places that very many meet: sums of warps and blocks first, then one sum each.

In: histograms and counts. Out: launches and bytes, and the values of the simulator, in which other
orders of threads must give the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import ops
from tests.golden import shape
from tests.support import simulated, targets

simulated.need_compiler()

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


# ---- targets that are in order ----


def numbered(f, count, **promises):
    return lambda x, at: f(x, at, count, indices_are_sorted=True, **promises)


def test_targets_in_order_are_not_sorted():
    rows, at = shape("float32", 1 << 14, 512), shape("int32", 1 << 14)
    explained = ga.explain(numbered(ops.segment_sum, 900), platform="cuda")(rows, at)
    assert not explained.library_calls and explained.launches == 2
    # Wrapped numbers are out of order, whatever was promised of those that were given.
    added = lambda x, at, u: x.at[at].add(u, indices_are_sorted=True)
    arguments = shape("float32", 900, 512), at, rows
    assert ga.explain(added, platform="cuda")(*arguments).library_calls


def test_values_of_targets_in_order():
    """Segments that are empty, long, below the first and beyond the last."""
    rows = RANDOM.integers(-9, 9, (300, 5)).astype("f4")
    at = np.sort(RANDOM.integers(-3, 40, 300)).astype("i4")
    far = np.sort(np.concatenate([at[:-4], [1 << 32, (1 << 32) + 3, 1 << 40, 1 << 62]]))
    added = lambda x, at, u: x.at[at].add(u, indices_are_sorted=True)
    clipped = numbered(ops.segment_sum, 20, mode="clip")
    cases = [(numbered(f, 31), (rows, at)) for f in (ops.segment_sum, ops.segment_max)]
    cases += [
        (clipped, (rows, at)),
        (numbered(ops.segment_min, 31), (rows, np.sort(at.astype("u2")))),
    ]
    cases += [(numbered(ops.segment_prod, 31), (rows[:, 0], at)), (added, (rows[:50], at, rows))]
    with ga.enable_x64(True):
        simulated.compare([*cases, (numbered(ops.segment_sum, 31), (rows, far))])


# ---- few targets ----


@pytest.fixture
def without_tables(monkeypatch):
    """As if there were too many places for tables."""
    targets.plan_for(monkeypatch, table_bytes=0)


#: Updates of rows and of numbers, whose targets are out of order and out of bounds, too.
ROWS = RANDOM.integers(-9, 9, (3000, 3)).astype("f4")
SEGMENT = RANDOM.integers(-1, 9, 3000).astype("i4")


def means(rows, at):
    """Means of segments: two sums over the same targets, and an extreme."""
    counts = ops.segment_sum(gnp.ones(rows.shape[0]), at, 7)
    return ops.segment_sum(rows, at, 7) / counts[:, None], ops.segment_max(rows[:, 0], at, 7)


FEW = {
    "means": (means, (ROWS, SEGMENT)),
    "products": (lambda x, at: ops.segment_prod(gnp.sign(x), at, 7), (ROWS, SEGMENT)),
    "in order": (numbered(ops.segment_sum, 7), (ROWS, np.sort(SEGMENT))),
    "a row": (lambda x, at: gnp.zeros((4, 9)).at[2, at].add(x[:, 1]), (ROWS, SEGMENT)),
    "differences": (lambda x, at: gnp.ones(9).at[at].subtract(x[:, 2]), (ROWS, SEGMENT)),
    "smallest": (lambda x, at: gnp.full(9, 3.0).at[at].min(x[:, 0]), (ROWS, SEGMENT)),
    "one": (lambda x, at: ops.segment_sum(x, gnp.zeros_like(at), 2), (ROWS, SEGMENT)),
}


def test_values_of_few_targets(without_tables):
    simulated.compare(FEW.values())


@pytest.mark.parametrize("name", FEW)
def test_threads_share_the_updates_of_few_targets(name, without_tables):
    function, arguments = FEW[name]
    explained = ga.explain(function, platform="cuda")(*arguments)
    folds = [s for s in explained.steps if "scatter_pieces" in {o.name for o in s.operations}]
    assert folds and all(s.kind in ("rows", "columns") for s in folds)


def test_the_same_targets_are_sorted_once(without_tables):
    explained = ga.explain(means, platform="cuda")(*FEW["means"][1])
    assert [s.name.partition("_")[2] for s in explained.library_calls] == ["sort"]
    apart = lambda x, a, b: ops.segment_sum(x, a, 7) + ops.segment_sum(x, b, 7)
    assert len(ga.explain(apart, platform="cuda")(ROWS, SEGMENT, SEGMENT).library_calls) == 2


def test_many_targets_have_a_thread_each():
    rows, at = shape("float32", 1 << 16, 64), shape("int32", 1 << 16)
    explained = ga.explain(lambda x, at: ops.segment_sum(x, at, 4096), platform="cuda")(rows, at)
    assert explained.steps[-1].kind == "map"
