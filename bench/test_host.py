"""Host costs under pytest-benchmark: `pytest bench/test_host.py`.

In: peers that are installed. Out: a timing for each pair of call and peer, and the overhead of
our own dispatch with a driver that does nothing.
"""

import pytest

from bench import host, peers

HERE, _ = peers.gather()


@pytest.mark.parametrize("peer", HERE.values(), ids=lambda p: p.name)
@pytest.mark.parametrize("cost", host.HOST, ids=lambda c: c.name)
def test_host_cost(benchmark, cost, peer):
    benchmark.group = cost.name
    with peer.around():
        call = cost.call(peer)
        if call is None:
            pytest.skip(f"{peer.name} has nothing of the sort")
        benchmark(call)


@pytest.mark.parametrize("name", host.OVERHEADS)
def test_overhead(benchmark, name):
    benchmark.group = name
    with host.null_driver():
        call, _ = host.overhead(name)
        benchmark(call)
