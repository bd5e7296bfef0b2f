"""Updates of few places that very many meet: a table for each warp, read and folded in order.

In: sums, extremes and products of segments. Out: launches and bytes, and the values of the
simulator, in which other orders of threads must give the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import ops
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()

RANDOM = np.random.default_rng(0)
N = 9001
#: Whole numbers, whose sums are the same in every order.
ROWS = RANDOM.integers(-9, 9, (N, 3)).astype("f4")
SEGMENT = RANDOM.integers(-2, 42, N).astype("i4")
SKEWED = np.where(RANDOM.random(N) < 0.95, 7, SEGMENT).astype("i4")


def means(rows, at):
    """Means of segments, and an extreme: three tables over the same targets."""
    counts = ops.segment_sum(gnp.ones(rows.shape[0]), at, 40)
    return ops.segment_sum(rows, at, 40) / counts[:, None], ops.segment_max(rows[:, 0], at, 40)


def weighted(x, at):
    """Each half of the updates has tables of its own."""
    add = lambda x, at: ops.segment_sum(x[:, 1] * 2, at % 9, 9)
    return ga.vmap(add)(x[:9000].reshape(2, -1, 3), at[:9000].reshape(2, -1))


FEW = {
    "means": (means, (ROWS, SEGMENT)),
    "nearly all in one": (means, (ROWS, SKEWED)),
    "products": (lambda x, at: ops.segment_prod(gnp.sign(x), at, 7), (ROWS, SEGMENT)),
    "a row": (lambda x, at: gnp.zeros((4, 9)).at[2, at].add(x[:, 1]), (ROWS, SEGMENT)),
    "two numbers": (lambda x, at: gnp.ones((5, 9)).at[at % 5, at].add(x[:, 1]), (ROWS, SEGMENT)),
    "differences": (lambda x, at: gnp.ones(9).at[at].subtract(x[:, 2]), (ROWS, SEGMENT)),
    "smallest": (lambda x, at: gnp.full(9, 3.0).at[at].min(x[:, 0]), (ROWS, SEGMENT)),
    "clipped": (lambda x, at: ops.segment_sum(x, at, 9, mode="clip"), (ROWS, SEGMENT)),
    "one": (lambda x, at: ops.segment_sum(x, gnp.zeros_like(at), 2), (ROWS, SEGMENT)),
    "halves": (
        lambda x, at: ops.segment_sum(gnp.sign(x).astype("bfloat16"), at, 9), (ROWS, SEGMENT),
    ),
    "columns": (lambda x, at: gnp.zeros((3, 9)).at[:, at].add(x.T), (ROWS, SEGMENT)),
    "weighted": (weighted, (ROWS, SEGMENT)),
    "small integers": (
        lambda x, at: ops.segment_max(x.astype("int8"), at, 9), (ROWS, SEGMENT),
    ),
}  # fmt: skip


def explained(name: str):
    function, arguments = FEW[name]
    return ga.explain(function, platform="cuda")(*arguments)


def test_values_are_those_of_numpy():
    simulated.compare(FEW.values())
    sums = np.zeros((40, 3))
    inside = SEGMENT >= 0
    np.add.at(sums, SEGMENT[inside & (SEGMENT < 40)], ROWS[inside & (SEGMENT < 40)])
    assert np.array_equal(ops.segment_sum(gnp.asarray(ROWS), gnp.asarray(SEGMENT), 40), sums)


def test_what_is_not_a_number():
    """nan, infinities and zeros of both signs go where they belong, and nowhere else."""
    x = np.resize(np.array([1.0, -0.0, np.inf, np.nan, 2.0, -np.inf, -0.0], "f4"), N)
    at = (np.arange(N) % 7).astype("i4")
    both = lambda x, at: (ops.segment_sum(x, at, 9), ops.segment_max(x, at, 9))
    added = lambda x, at: gnp.full(7, -0.0).at[at].add(x)
    simulated.compare([(both, (x, at)), (added, (x, at))])


def test_sums_are_rounded_as_sums_are():
    """Against sums in float64, about as near as a sum of so many numbers by halves."""
    x = RANDOM.standard_normal(N).astype("f4")
    add = lambda x, at: ops.segment_sum(x, at, 40)
    graph = ga.jit(add).lower(x, SEGMENT).jaxpr
    (found,) = simulated.run(simulated.built(graph), (x, SEGMENT))
    exact = np.zeros(40)
    inside = (SEGMENT >= 0) & (SEGMENT < 40)
    np.add.at(exact, SEGMENT[inside], x[inside].astype("f8"))
    assert np.abs(found - exact).max() < 1e-5 * np.abs(x).sum() / 40


@pytest.mark.parametrize("name", FEW)
def test_nothing_is_sorted(name):
    found = explained(name)
    assert not found.library_calls
    assert {s.kind for s in found.steps} <= {"map", "tables", "columns", "rows"}


def test_the_same_targets_are_read_once():
    assert [s.kind for s in explained("means").steps].count("tables") == 1
    apart = lambda x, a, b: ops.segment_sum(x, a, 7) + ops.segment_sum(x, b, 7)
    found = ga.explain(apart, platform="cuda")(ROWS, SEGMENT, SEGMENT)
    assert [s.kind for s in found.steps].count("tables") == 2


def test_one_that_waits_for_another_is_a_kernel_of_its_own():
    def shares(x, at):
        sums = ops.segment_sum(x, at, 40)
        return ops.segment_sum(x / gnp.maximum(sums[at], 1), at, 40)

    found = ga.explain(shares, platform="cuda")(ROWS[:, 0], SEGMENT)
    assert [s.kind for s in found.steps].count("tables") == 2
    simulated.compare([(shares, (abs(ROWS[:, 0]), SEGMENT % 40))], limit=64)


def test_updates_are_read_once():
    at, x = shape("int32", 1 << 22), shape("float32", 1 << 22)

    def groups(x, at):
        return ops.segment_sum(x, at, 1000) / ops.segment_sum(gnp.ones(at.shape), at, 1000)

    found = ga.explain(groups, platform="cuda")(x, at)
    assert found.launches == 2 and found.bytes_moved < 1.07 * 8 * (1 << 22)
    assert float(found.kernels[0].facts["grade"]) > 0.9


def test_tables_that_are_large_are_sorted():
    """A warp has no room for them; nor are they worth it for few updates."""
    at, x = shape("int32", 1 << 20), shape("float32", 1 << 20)
    sums = lambda places: lambda x, at: ops.segment_sum(x, at, places)
    assert not ga.explain(sums(7000), platform="cuda")(x, at).library_calls
    assert ga.explain(sums(8000), platform="cuda")(x, at).library_calls
    few = shape("float32", 3000), shape("int32", 3000)
    assert ga.explain(sums(1000), platform="cuda")(*few).library_calls
