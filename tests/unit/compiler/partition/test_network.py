"""What exchanges cost: the formulas beside a simulation that sends every message.

In: networks by name and made up, 2 to 4096 devices, 64 bytes to 1 GB. Out: formulas within 1 or 2 %
of the simulation, where the usual formula is not; costs that grow with bytes and devices; the
links that the groups along an axis of a mesh have.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from gpuarray.compiler.partition import network as model
from gpuarray.compiler.partition.network import NETWORKS, Level, Network, fitted, network_named
from tests.support import ROOT
from tests.support import network as messages

H100 = network_named("h100-ib")
LINKS = [network for network in NETWORKS.values() if not network.levels[0].shared]
NUMBERS = (8, 64, 512, 4096)
SIZES = (64e3, 4e6, 1e9)
#: Of empty ones to 1 GB, by factors of about three.
MANY_SIZES = (0.0, *(10 ** (k / 2) for k in range(19)))


@functools.cache
def simulated(kind: str, algorithm: str, nbytes: float, n: int, delay: float = 0.0) -> float:
    return messages.simulate(H100, kind, algorithm, nbytes, n, delay)


# ---- against the simulation ----


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("nbytes", SIZES)
def test_all_reduce_is_as_simulated(n, nbytes):
    times = H100.times("all_reduce", nbytes, n)
    assert set(times) == {"ring", "tree"} | ({"two-level ring"} if n > 8 else set())
    for algorithm, seconds in times.items():
        assert seconds == pytest.approx(simulated("all_reduce", algorithm, nbytes, n), rel=0.01)


@pytest.mark.parametrize(("kind", "algorithm"), messages.EXCHANGES)
@pytest.mark.parametrize("n", [2, 3, 5, 8, 16, 24, 40, 64, 96])
def test_all_exchanges_are_as_simulated(kind, algorithm, n):
    for nbytes in (64, 64e3, 1e6, 4e6):
        times = H100.times(kind, nbytes, n)
        if algorithm in times:
            expected = simulated(kind, algorithm, nbytes, n)
            assert times[algorithm] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("n", [3, 6, 17, 100])
def test_trees_of_any_number_of_nodes_are_as_simulated(n):
    one_level = Network(H100.levels[1:])
    for nbytes in MANY_SIZES[:16]:
        seconds = one_level.times("all_reduce", nbytes, n)["tree"]
        expected = messages.simulate(one_level, "all_reduce", "tree", nbytes, n)
        assert seconds == pytest.approx(expected, rel=0.01)


def test_every_algorithm_is_simulated_but_one_message():
    told = {
        (kind, algorithm)
        for kind in model.EXCHANGES
        for n in (8, 64)
        for algorithm in H100.times(kind, 1, n)
    }
    assert told - set(messages.EXCHANGES) == {("permute", "direct")}


def test_the_slowest_link_everywhere_is_no_such_model():
    # What the tolerance of the other tests would notice: the usual formula is far too high where
    # most links are quick, and most messages short.
    ratios = [
        messages.slowest_link_everywhere(H100, nbytes, n)
        / simulated("all_reduce", "ring", nbytes, n)
        for n in (64, 512)
        for nbytes in SIZES
    ]
    assert max(ratios) > 2
    assert min(ratios) > 0.99


@pytest.mark.parametrize("n", NUMBERS)
def test_delays_at_random_make_the_model_low(n):
    # By 10 to 19 % where the delay is 10 % of a message: everything waits for the latest.
    for nbytes in SIZES:
        algorithm = H100.algorithm("all_reduce", nbytes, n)
        late = simulated("all_reduce", algorithm, nbytes, n, delay=0.1)
        assert 0.75 < H100.cost("all_reduce", nbytes, n) / late < 0.95


def test_the_page_shows_what_the_simulation_prints():
    page = (ROOT / "docs" / "network-model.md").read_text(encoding="utf-8")
    assert messages.table() in page, "python -m tests.support.network prints the table"


# ---- known values ----


@pytest.mark.parametrize("n", [2, 5, 8])
def test_one_level(n):
    # The formulas of textbooks, in microseconds: 1 for a message, 1 for each 1000 bytes.
    network = Network((Level(alpha=1e-6, bytes_per_s=1e9),))
    nbytes = 8e3
    hop = 1 + 8 / n
    whole = 1 + 8
    rounds = math.ceil(math.log2(n))
    expected = {
        ("all_reduce", "ring"): 2 * (n - 1) * hop,
        ("reduce_scatter", "ring"): (n - 1) * hop,
        ("all_gather", "ring"): (n - 1) * whole,
        ("all_to_all", "direct"): (n - 1) * hop,
        ("permute", "direct"): whole,
        ("broadcast", "tree"): (rounds - 1) * 8 + whole,
    }
    for (kind, algorithm), us in expected.items():
        assert network.times(kind, nbytes, n)[algorithm] == pytest.approx(us * 1e-6), kind


def test_the_size_decides_between_tree_and_rings():
    for network in LINKS:
        n = 8 if network.name == "h200-nvlink" else 64
        assert network.algorithm("all_reduce", 8, n) == "tree"
        assert network.algorithm("all_reduce", 1e9, n) in ("ring", "two-level ring")
    assert H100.algorithm("all_to_all", 8, 64) == "two-level"
    assert H100.algorithm("all_to_all", 1e9, 64) == "direct"


def test_devices_that_share_a_memory_copy():
    memory = Network((Level(alpha=1e-6, bytes_per_s=1e9, shared=True),))
    copied = {kind: memory.cost(kind, 1e3, 4) * 1e6 - 1 for kind in model.EXCHANGES}
    # Four operands are read, and one result is written. All but sums first copy the operands into
    # a stack (8), which is read and written once more (8); that of a gather is the result.
    assert copied == pytest.approx(
        {
            "all_reduce": 5,
            "reduce_scatter": 5,
            "all_gather": 8,
            "all_to_all": 8 + 8,
            "permute": 8 + 8,
            "broadcast": 0,
        }
    )
    assert memory.algorithm("all_reduce", 1e3, 4) == "shared memory"


def test_one_device_has_nothing_to_send():
    for network in NETWORKS.values():
        for kind in model.EXCHANGES:
            assert network.times(kind, 1e9, 1) == {"nothing to send": 0.0}
        assert network.bucket_bytes(1) == 0


def test_buckets():
    # One ring is quickest for large ones, and a tree for empty ones: 6 messages of 3 us, and
    # 8 / (2 x 7) of 360 GB/s.
    assert network_named("h200-nvlink").bucket_bytes(8) == pytest.approx(18e-6 * 360e9 * 4 / 7)
    for network in NETWORKS.values():
        nbytes = network.bucket_bytes(8)

        def saved(nbytes, network=network):
            """The part of the time that ten save when they become one."""
            alone = network.cost("all_reduce", nbytes, 8)
            return 1 - network.cost("all_reduce", 10 * nbytes, 8) / (10 * alone)

        # Most of it for those that are much smaller than a bucket, little for much larger ones.
        assert saved(nbytes / 100) > 0.8 > 0.65 > saved(nbytes) > 0.2 > 0.1 > saved(nbytes * 100)


# ---- what holds for all of them ----


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("kind", model.EXCHANGES)
def test_more_bytes_and_more_devices_take_longer(network, kind):
    numbers = [n for n in (1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 64, 72, 512, 4096) if fits(network, n)]
    costs = [[network.cost(kind, nbytes, n) for nbytes in MANY_SIZES] for n in numbers]
    for row in costs:
        assert row == sorted(row)
    for fewer, more in zip(costs, costs[1:], strict=False):
        assert all(a <= b * (1 + 1e-12) for a, b in zip(fewer, more, strict=True))


@pytest.mark.parametrize("network", LINKS, ids=[network.name for network in LINKS])
def test_no_exchange_costs_more_than_one_that_does_its_work(network):
    # An all-reduce of zeros with one's own piece gathers; its result has the scattered one; and
    # scattering, then gathering, is an all-reduce.
    for n in (2, 4, 8, 16, 64, 512, 4096):
        if not fits(network, n):
            continue
        for nbytes in MANY_SIZES:
            reduce = network.cost("all_reduce", nbytes, n)
            scatter = network.cost("reduce_scatter", nbytes, n)
            gather = network.cost("all_gather", nbytes / n, n)
            assert scatter <= reduce * 1.0001
            assert gather <= reduce * 1.0001
            assert reduce <= (scatter + gather) * 1.0001


def fits(network: Network, n: int) -> bool:
    return network.levels[-1].joins(n)


# ---- axes of meshes ----


INNER, OUTER = H100.levels


@pytest.mark.parametrize(
    ("shape", "axis", "share"),
    [
        ((4, 2), 0, 8),  # all in one node
        ((2, 3), 1, 8),
        ((64, 8), 1, 8),
        ((64, 8), 0, 1),  # one of each node
        ((64, 8), -1, 8),
        ((8, 64), 1, "nodes of 8"),
        ((8, 64), 0, 1),
        ((128, 4), 1, 8),  # two groups in a node
        ((128, 4), 0, "nodes of 2"),
        ((2, 8, 4), 1, "nodes of 2"),
        ((2, 8, 4), (1, 2), "nodes of 8"),
        ((2, 8, 4), (2, 0), "nodes of 4"),
        ((2, 8, 4), (0, 1, 2), "nodes of 8"),
        ((2, 6), 1, "nodes of 2"),  # the second group: two devices in one node, four in another
        ((3, 5), 1, 1),  # 5 = 3 + 2
        ((12,), 0, "nodes of 4"),
    ],
)
def test_links_along_an_axis(shape, axis, share):
    levels = H100.along(shape, axis).levels
    if share == 8:
        assert levels == (INNER,)
    elif share == 1:
        assert levels == (OUTER,)
    else:
        inner, outer = levels
        assert outer == OUTER
        assert f"nodes of {inner.size}" == share
        assert (inner.alpha, inner.bytes_per_s) == (INNER.alpha, INNER.bytes_per_s)


def test_costs_along_an_axis():
    inside = H100.along((64, 8), 1).cost("all_reduce", 1e6, 8)
    between = H100.along((64, 8), 0).cost("all_reduce", 1e6, 64)
    assert inside == network_named("h200-nvlink").cost("all_reduce", 1e6, 8)
    assert inside < H100.cost("all_reduce", 1e6, 512) < 2 * between


def test_networks_of_one_level_are_the_same_along_every_axis():
    for name in ("cpu", "mpi"):
        network = network_named(name)
        assert network.along((4, 2), 0) is network


def test_nodes_that_differ_cost_more_than_equal_ones_and_no_less_than_simulated():
    for n in (12, 20, 65):
        expected = simulated("all_reduce", "ring", 1e6, n)
        assert H100.times("all_reduce", 1e6, n)["ring"] >= expected * 0.99


# ---- names, and bad input ----


def test_networks_have_names():
    assert {"cpu", "mpi", "a100-ib", "h100-ib", "h200-nvlink"} <= set(NETWORKS)
    for name, network in NETWORKS.items():
        assert network_named(name) is network_named(network) is network
    assert network_named() is NETWORKS["cpu"]


def test_networks_are_plain_data():
    assert H100 == Network(H100.levels, "h100-ib")
    assert hash(H100) == hash(Network(H100.levels, "h100-ib"))


#: The same, where what is given has the wrong type.
level: Any = Level
network: Any = Network
named: Any = network_named
h100: Any = H100


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: network_named("h100"), ValueError, "did you mean 'h100-ib'"),
        (lambda: network_named("ethernet"), ValueError, "there are cpu, mpi"),
        (lambda: named(8), TypeError, "a Network or one of cpu, mpi"),
        (lambda: Level(alpha=-1, bytes_per_s=1), ValueError, "alpha is the seconds"),
        (lambda: Level(alpha=math.nan, bytes_per_s=1), ValueError, "alpha is the seconds"),
        (lambda: Level(alpha=0, bytes_per_s=0), ValueError, "more than 0: 0"),
        (lambda: Level(alpha=0, bytes_per_s=1, size=0), ValueError, "number of devices"),
        (lambda: level(alpha=0, bytes_per_s=1, size=1.5), TypeError, "float"),
        (lambda: network([INNER]), TypeError, "tuple of Level"),
        (lambda: Network(()), ValueError, "one level or two, got 0"),
        (lambda: Network((OUTER, INNER)), ValueError, "inner level needs a size"),
        (
            lambda: Network((INNER, Level(alpha=0, bytes_per_s=1e9))),
            ValueError,
            "from the quickest to the slowest",
        ),
        (
            lambda: Network((INNER, Level(alpha=1, bytes_per_s=1, shared=True))),
            ValueError,
            "only level",
        ),
        (lambda: H100.cost("allreduce", 1, 8), ValueError, "there are all_reduce"),
        (lambda: H100.cost("permute", -1, 8), ValueError, "0 bytes or more, got -1"),
        (lambda: H100.cost("permute", math.nan, 8), ValueError, "0 bytes or more"),
        (lambda: H100.cost("permute", 1, 0), ValueError, "1 device or more, got 0"),
        (lambda: h100.cost("permute", 1, 2.0), TypeError, "float"),
        (lambda: H100.bucket_bytes(0), ValueError, "1 device or more, got 0"),
        (
            lambda: network_named("h200-nvlink").cost("permute", 1, 9),
            ValueError,
            "'h200-nvlink' joins 8 devices, not 9",
        ),
        (
            lambda: network_named("h200-nvlink").along((4, 4), 0),
            ValueError,
            "joins 8 devices, not 16",
        ),
        (lambda: H100.along((4, 4), 2), ValueError, r"shape \(4, 4\) has no axis 2"),
        (lambda: h100.along((4, 4), "x"), TypeError, "str"),
        (lambda: H100.along((4, 0), 0), ValueError, "lengths of 1 or more"),
        (lambda: h100.along((4, 2.5), 0), TypeError, "float"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---- machines that are measured ----
def measured(machine: Network, kind: str, n: int, sizes) -> list[tuple[str, float, int, float]]:
    """What a simulation of a machine of one level takes by its quickest algorithm."""
    found = []
    for nbytes in sizes:
        names = machine.times(kind, nbytes, n)
        times = [messages.simulate(machine, kind, name, nbytes, n) for name in names]
        found.append((kind, nbytes, n, min(times)))
    return found


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("alpha", "bytes_per_s"), [(2e-6, 5e9), (1e-4, 1e8), (5e-7, 4e11)])
def test_a_fit_finds_the_machine_that_was_simulated(n, kind, alpha, bytes_per_s):
    machine = Network((Level(alpha=alpha, bytes_per_s=bytes_per_s),))
    (level,) = fitted(measured(machine, kind, n, (64, 4e3, 1e5, 1e6, 3e7))).levels
    assert level.alpha == pytest.approx(alpha, rel=0.02)
    assert level.bytes_per_s == pytest.approx(bytes_per_s, rel=0.02)


def test_a_fit_of_noisy_times_is_near():
    rng = np.random.default_rng(0)
    machine = Network((Level(alpha=1e-5, bytes_per_s=0.8 * 51e9, shared=True),))
    rows = [
        ("all_reduce", s, 8, machine.cost("all_reduce", s, 8) * rng.lognormal(0, 0.2))
        for s in np.geomspace(8, 1e8, 30)
    ]
    (level,) = fitted(rows, "cpu").levels
    assert level.shared
    assert level.alpha == pytest.approx(1e-5, rel=0.2)
    assert level.bytes_per_s == pytest.approx(0.8 * 51e9, rel=0.2)


def test_a_fit_of_one_size_is_refused():
    with pytest.raises(ValueError, match="two sizes or more"):
        fitted([("all_reduce", 8, 4, 1e-6)] * 3)
    with pytest.raises(ValueError, match="times above 0"):
        fitted([("all_reduce", 8, 4, 0.0), ("all_reduce", 800, 4, 1e-6)])
