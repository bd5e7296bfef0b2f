"""The workloads on large arrays under pytest-benchmark: `pytest bench/test_throughput.py`.

In: peers that are installed. Out: a timing for each pair of workload and peer, compared by group.
BENCH_QUICK=1 makes the arrays small.
"""

import os

import pytest

from bench import peers
from bench.measure import error_of, finished, to_host
from bench.workloads import WORKLOADS

HERE, _ = peers.gather()
QUICK = os.environ.get("BENCH_QUICK", "") not in ("", "0")


@pytest.mark.parametrize("peer", HERE.values(), ids=lambda p: p.name)
@pytest.mark.parametrize("workload", [w for w in WORKLOADS if w.cpu], ids=lambda w: w.name)
def test_workload(benchmark, workload, peer):
    benchmark.group = workload.name
    size = workload.size(gpu=False, quick=QUICK)
    arrays = workload.arrays(size)
    call = finished(workload, peer, arrays, size)
    with peer.around():
        got = benchmark.pedantic(call, rounds=5, iterations=1, warmup_rounds=1)
        got = to_host(got, peer)
    assert error_of(workload, got, arrays, size) <= workload.tolerance
