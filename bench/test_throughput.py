"""The workloads on large arrays under pytest-benchmark: `pytest bench/test_throughput.py`.

In: peers that are installed. Out: a timing for each pair of workload and peer, compared by group.
BENCH_QUICK=1 makes the arrays small.
"""

import os

import numpy as np
import pytest

from bench import peers
from bench.measure import worst_error
from bench.workloads import WORKLOADS

HERE, _ = peers.gather()
QUICK = os.environ.get("BENCH_QUICK", "") not in ("", "0")


@pytest.mark.parametrize("peer", HERE.values(), ids=lambda p: p.name)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_workload(benchmark, workload, peer):
    benchmark.group = workload.name
    arrays = workload.arrays(QUICK)

    def function(*args):
        return workload.function(peer.names, *args)

    run = peer.jit(function) if workload.compiled else function
    mine = [peer.array(a) for a in arrays]
    with peer.around():
        got = benchmark.pedantic(
            lambda: peer.wait(run(*mine)), rounds=5, iterations=1, warmup_rounds=1
        )
    reference = peers.Names(np, erf=peers.scipy.special.erf)
    want = workload.function(reference, *[a.astype(np.float64) for a in arrays])
    assert worst_error(got, want) <= workload.tolerance
