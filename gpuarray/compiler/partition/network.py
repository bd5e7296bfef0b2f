"""The time of exchanges between devices, in seconds, from plain figures of the machine.

Floor 3. In: a `Network`, the kind of exchange, the bytes on each device, how many devices. Out: the
seconds that each algorithm takes, and which is quickest.

**A message** of S bytes takes `alpha + S / bytes_per_s` seconds: alpha until it is there, however
short it is, and then as long as the link is busy. A device sends one message and receives another
at the same time. A link carries one message after another.

**Two levels.** Devices are grouped into nodes. Links inside a node (NVLink) are fast, those between
nodes (InfiniBand) slow. Below, a group is m nodes of g devices each, n = g m in all; a message of S
bytes takes a(S) inside a node and A(S) between two. With only one level, every device is a node: g
= 1, m = n.

**Three ways** to add up S bytes over all devices:

========================  ======================================================================
ring                      2 (n-1) messages of S/n, each device to the next: first every device
                          gets one sum, then the sums go round. Least bytes, most messages.
two-level ring            2 (g-1) a(S/g) + 2 (m-1) A(S/n): the same inside each node, and on 1/g
                          of the bytes between nodes. Few of the messages are slow.
tree                      2 (g-1) a(S/g) + 2 log2(m) A(S/g): nodes in pairs, pairs in fours.
                          Fewest messages; a node takes its children one after another.
========================  ======================================================================

So the size decides: short exchanges wait for messages, and a tree has fewest; long ones wait for
bytes, and rings move fewest. docs/network-model.md compares the formulas with a simulation.

Not modelled: other traffic, fabrics whose core carries less than their edge, delays at random.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

# ---- the machine ----


@dataclass(frozen=True, kw_only=True)
class Level:
    """Links of one kind: between the devices of a node, or between nodes.

    `alpha` is the time of an empty message in seconds, `bytes_per_s` the bandwidth of a device that
    sends and receives at the same time. The level connects `size` devices in all; None is any
    number. In `shared` memory nothing is sent: `bytes_per_s` is the rate at which all devices
    together read and write.

    >>> nvlink = Level(size=8, alpha=3e-6, bytes_per_s=360e9)
    >>> print(f"{nvlink.seconds(36e6) * 1e6:.0f} us")
    103 us
    """

    alpha: float
    bytes_per_s: float
    size: int | None = None
    shared: bool = False

    def __post_init__(self):
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is the seconds of an empty message, 0 or more: {self.alpha}")
        if not 0 < self.bytes_per_s < math.inf:
            raise ValueError(
                f"bytes_per_s is the bytes that a device sends in a second, more than 0: "
                f"{self.bytes_per_s}"
            )
        if self.size is not None and operator.index(self.size) < 1:
            raise ValueError(f"size is a number of devices, or None for any: {self.size}")

    def seconds(self, nbytes: float) -> float:
        """How long a message of `nbytes` takes."""
        return self.alpha + nbytes / self.bytes_per_s

    def joins(self, n: int) -> bool:
        """Whether this level connects a group of `n` devices."""
        return self.size is None or n <= self.size


@dataclass(frozen=True)
class Network:
    """How devices are connected: one level, or links inside nodes and between them.

    Devices are numbered through, node after node. `levels` are given from the inside out.

    >>> network = Network(
    ...     levels=(
    ...         Level(size=8, alpha=3e-6, bytes_per_s=360e9),
    ...         Level(alpha=8e-6, bytes_per_s=45e9),
    ...     )
    ... )
    >>> for nbytes in (4e3, 4e6, 1e9):
    ...     seconds = network.cost("all_reduce", nbytes, n=512)
    ...     print(f"{seconds * 1e6:.0f} us by {network.algorithm('all_reduce', nbytes, 512)}")
    138 us by tree
    257 us by tree
    11380 us by two-level ring
    """

    levels: tuple[Level, ...]
    name: str = ""

    def __post_init__(self):
        levels = self.levels
        if not isinstance(levels, tuple) or not all(isinstance(x, Level) for x in levels):
            raise TypeError(f"levels is a tuple of Level, from the inside out: {levels!r}")
        if len(levels) not in (1, 2):
            raise ValueError(f"a network has one level or two, got {len(levels)}")
        if len(levels) == 2:
            inner, outer = levels
            if inner.shared or outer.shared:
                raise ValueError("a shared memory is the only level of its network")
            if inner.size is None or not outer.joins(inner.size):
                raise ValueError(
                    f"the inner level needs a size, at most that of the outer one: "
                    f"{inner.size} and {outer.size}"
                )
            if inner.alpha > outer.alpha or inner.bytes_per_s < outer.bytes_per_s:
                raise ValueError(
                    f"levels go from the quickest to the slowest, got {inner} before {outer}"
                )

    def cost(self, kind: str, nbytes: float, n: int) -> float:
        """Return the seconds of an exchange among n devices that hold nbytes each before it.

        An `all_gather` thus leaves n times as many on each, a `reduce_scatter` an n-th. In a
        `broadcast` one device holds them.

        >>> network = network_named("h100-ib")
        >>> print(f"{network.cost('all_to_all', 1 << 20, n=64) * 1e6:.0f} us")
        100 us
        """
        return min(self.times(kind, nbytes, n).values())

    def algorithm(self, kind: str, nbytes: float, n: int) -> str:
        """Return the name of the quickest algorithm.

        >>> network_named("h100-ib").algorithm("all_reduce", 1e9, n=8)
        'ring'
        """
        times = self.times(kind, nbytes, n)
        return min(times, key=times.__getitem__)

    def times(self, kind: str, nbytes: float, n: int) -> dict[str, float]:
        """Return the seconds that each algorithm takes, by name.

        >>> times = network_named("h100-ib").times("all_reduce", 4e6, n=4096)
        >>> {name: f"{seconds * 1e6:.0f} us" for name, seconds in times.items()}
        {'ring': '29732 us', 'two-level ring': '8260 us', 'tree': '353 us'}
        """
        if kind not in EXCHANGES:
            raise ValueError(f"no exchange {kind!r}; there are {', '.join(EXCHANGES)}")
        if not 0 <= nbytes < math.inf:
            raise ValueError(f"an exchange is of 0 bytes or more, got {nbytes}")
        nodes = self._nodes(n)
        if n == 1:
            return {"nothing to send": 0.0}
        exchange = EXCHANGES[kind]
        if nodes.outer.shared:
            return {"shared memory": nodes.outer.seconds(exchange.copied(n) * nbytes)}
        return exchange.times(nodes, nbytes)

    def bucket_bytes(self, n: int, kind: str = "all_reduce") -> int:
        """Return the size at which exchanges are worth putting together no further.

        The bytes of each device for which the transfer takes as long as an empty exchange. Smaller
        exchanges mostly wait for messages, and many of them should be merged; larger ones mostly
        move bytes.

        >>> print(f"{network_named('h100-ib').bucket_bytes(64) / 1e6:.1f} MB")
        9.3 MB
        """
        self._check_number(n)
        if n == 1:
            return 0
        # Large enough that latencies do not count.
        large = 1e18
        bytes_per_s = large / self.cost(kind, large, n)
        return round(self.cost(kind, 0, n) * bytes_per_s)

    def along(self, mesh_shape: Sequence[int], axis: int | Sequence[int]) -> Network:
        """Return the network that a group of devices sees along one axis of a mesh, or several.

        The mesh numbers devices in row-major order: along the last axis neighbours are in the same
        node, along the first one they may all be in different nodes.

        >>> network = network_named("h100-ib")
        >>> network.along((64, 8), axis=1).levels == network.levels[:1]  # inside a node
        True
        >>> network.along((64, 8), axis=0).levels == network.levels[1:]  # one device of each node
        True
        >>> network.along((32, 16), axis=1).levels == network.levels  # two nodes
        True

        Where nodes hold different shares of a group, it is taken to be in as many smaller nodes as
        make all shares equal: the cost is then an upper bound.
        """
        shape = tuple(map(operator.index, mesh_shape))
        axes = tuple(map(operator.index, axis if isinstance(axis, Sequence) else (axis,)))
        for a in axes:
            if not -len(shape) <= a < len(shape):
                raise ValueError(f"a mesh of shape {shape} has no axis {a}")
        if any(length < 1 for length in shape):
            raise ValueError(f"the axes of a mesh have lengths of 1 or more, got {shape}")
        self._check_number(math.prod(shape))
        if len(self.levels) == 1:
            return self
        inner, outer = self.levels
        assert inner.size is not None
        # `share`: how many devices of a group are in one node. If all are, the group uses the inner
        # network alone; if one is, that between nodes alone.
        share, inside = _shares(shape, frozenset(a % len(shape) for a in axes), inner.size)
        if inside:
            levels = (inner,)
        else:
            levels = (replace(inner, size=share), outer) if share > 1 else (outer,)
        return replace(self, levels=levels)

    def _check_number(self, n: int) -> None:
        if operator.index(n) < 1:
            raise ValueError(f"an exchange is among 1 device or more, got {n}")
        if not self.levels[-1].joins(n):
            raise ValueError(
                f"the network {self.name or self!r} joins {self.levels[-1].size} devices, not {n}: "
                f"name one with a level between nodes, or make a Network of your own"
            )

    def _nodes(self, n: int) -> _Nodes:
        self._check_number(n)
        inner, outer = self.levels[0], self.levels[-1]
        if inner.size is None or n <= inner.size:
            return _Nodes(1, n, inner, inner)
        # The last node may be partly used; nodes that divide both shares are equal.
        share = math.gcd(n, inner.size)
        return _Nodes(share, n // share, inner if share > 1 else outer, outer)


class _Nodes(NamedTuple):
    """m nodes of g devices each, and the links inside and between them."""

    g: int
    m: int
    inner: Level
    outer: Level

    @property
    def n(self) -> int:
        return self.g * self.m


@functools.lru_cache(maxsize=256)
def _shares(shape: tuple[int, ...], axes: frozenset[int], size: int) -> tuple[int, bool]:
    """A divisor of the share of each node in each group along these axes; whether all groups are
    inside one node.
    """
    counts = [Counter(d // size for d in group) for group in _groups(shape, axes)]
    return math.gcd(*(k for c in counts for k in c.values())), all(len(c) == 1 for c in counts)


def _groups(shape: tuple[int, ...], axes: frozenset[int]) -> Iterator[list[int]]:
    """The numbers of the devices that differ along these axes only, group after group."""
    strides = [math.prod(shape[a + 1 :]) for a in range(len(shape))]

    def numbers(chosen: list[int]) -> list[int]:
        places = itertools.product(*(range(0, shape[a] * strides[a], strides[a]) for a in chosen))
        return list(map(sum, places))

    members = numbers([a for a in range(len(shape)) if a in axes])
    for start in numbers([a for a in range(len(shape)) if a not in axes]):
        yield [start + member for member in members]


# ---- exchanges: the seconds of each algorithm ----


def all_reduce(nodes: _Nodes, nbytes: float) -> dict[str, float]:
    """Every device gets the sum over all devices."""
    g, m, inner, outer = nodes
    inside = 2 * (g - 1) * inner.seconds(nbytes / g)
    times = {"ring": _ring(nodes, 2 * (nodes.n - 1), nbytes / nodes.n)}
    if g > 1:
        times["two-level ring"] = inside + 2 * (m - 1) * outer.seconds(nbytes / nodes.n)
    # Up the tree and down again, but the first piece goes down while the last is still going up.
    saved = (nbytes / g - _piece(outer, nbytes / g)) / outer.bytes_per_s
    times["tree"] = inside + 2 * _tree(outer, m, nbytes / g) - saved
    return times


def reduce_scatter(nodes: _Nodes, nbytes: float) -> dict[str, float]:
    """Every device gets its n-th of the sum over all devices."""
    g, m, inner, outer = nodes
    inside = (g - 1) * inner.seconds(nbytes / g)
    times = {"ring": _ring(nodes, nodes.n - 1, nbytes / nodes.n)}
    if g > 1:
        times["two-level ring"] = inside + (m - 1) * outer.seconds(nbytes / nodes.n)
    # Summed up the tree; then each node keeps its part of the received data, and sends the others'
    # on.
    down = _halving(outer, m, nbytes / g)
    times["tree"] = inside + _tree(outer, m, nbytes / g) + down
    return times


def all_gather(nodes: _Nodes, nbytes: float) -> dict[str, float]:
    """Every device gets the values of all, concatenated."""
    g, m, inner, outer = nodes
    inside = (g - 1) * inner.seconds(m * nbytes)
    times = {"ring": _ring(nodes, nodes.n - 1, nbytes)}
    if g > 1:
        times["two-level ring"] = (m - 1) * outer.seconds(nbytes) + inside
    # Collected up the tree, with growing messages; then all of it goes down.
    up = _halving(outer, m, m * nbytes)
    times["tree"] = up + _tree(outer, m, m * nbytes) + inside
    return times


def all_to_all(nodes: _Nodes, nbytes: float) -> dict[str, float]:
    """Every device sends an n-th of its value to each."""
    g, m, inner, outer = nodes
    n = nodes.n
    direct = (g - 1) * inner.seconds(nbytes / n) + (n - g) * outer.seconds(nbytes / n)
    if g == 1:
        return {"direct": direct}
    # Inside a node each device first gets the data for its counterparts in the other nodes.
    two_level = (g - 1) * inner.seconds(nbytes / g) + (m - 1) * outer.seconds(nbytes / m)
    return {"direct": direct, "two-level": two_level}


def permute(nodes: _Nodes, nbytes: float) -> dict[str, float]:
    """Every device sends its value to one other, which may be in another node."""
    return {"direct": nodes.outer.seconds(nbytes)}


def broadcast(nodes: _Nodes, nbytes: float) -> dict[str, float]:
    """Every device gets the value of one."""
    g, m, inner, outer = nodes
    piece = _piece(outer, nbytes)
    # One device to the next, in pieces: all links are busy once the first piece has come through.
    first = (nodes.n - m) * inner.seconds(piece) + (m - 1) * outer.seconds(piece)
    return {
        "chain": first + (nbytes - piece) / outer.bytes_per_s,
        "tree": _tree(outer, m, nbytes) + _tree(inner, g, nbytes),
    }


def _ring(nodes: _Nodes, steps: int, nbytes: float) -> float:
    """Steps in each of which every device sends nbytes to the next, and waits for what it receives.

    One ring goes through all nodes, so that every g-th link leaves a node. A step takes as long as
    its message, but the slow link is not waited for in every step: the longest chain of dependences
    decides. Either it follows a message round the ring, over slow and fast links in turn, or it
    stays at a slow link, which is never idle.
    """
    g, _, inner, outer = nodes
    slow = -(-steps // g)
    round_the_ring = slow * outer.seconds(nbytes) + (steps - slow) * inner.seconds(nbytes)
    at_a_slow_link = outer.seconds(steps * nbytes)
    return max(round_the_ring, at_a_slow_link)


def _tree(level: Level, m: int, nbytes: float) -> float:
    """A binomial tree, from m nodes to one or from one to m: in each of log2(m) rounds every node
    that has the data sends it to one that does not.

    Data is sent in pieces, which are forwarded immediately. So a round sends a piece one latency
    after the previous round, but never before that has left the link.
    """
    if m == 1:
        return 0.0
    sent = nbytes / level.bytes_per_s
    a_round = max(sent, level.seconds(_piece(level, nbytes)))
    depth, children = _tree_of(m)
    return (depth - 1) * a_round + (children - depth) * sent + level.seconds(nbytes)


def _halving(level: Level, m: int, nbytes: float) -> float:
    """Down a binomial tree from one node to m, each of which keeps its m-th of nbytes and forwards
    the rest, half of it at a time; or up, in reverse.
    """
    depth, _ = _tree_of(m)
    return depth * level.alpha + (m - 1) / m * nbytes / level.bytes_per_s


def _tree_of(m: int) -> tuple[int, int]:
    """The depth of a binomial tree of m nodes, and the children of its root: both are log2(m), the
    depth rounded down and the children rounded up.
    """
    return m.bit_length() - 1, (m - 1).bit_length()


def _piece(level: Level, nbytes: float) -> float:
    """The bytes of a piece, whose transfer takes as long as the latency: shorter ones would gain
    little, and there would be more of them.
    """
    return min(nbytes, level.alpha * level.bytes_per_s)


class _Exchange(NamedTuple):
    """The seconds of each algorithm; and, for shared memory, how many times the bytes of one device
    are read or written.
    """

    times: Callable[[_Nodes, float], dict[str, float]]
    copied: Callable[[int], int]


#: The kinds of exchange, by name. Devices that share memory hold equal results only once; all
#: except sums stack their operands first, which reads and writes them once more
#: (backends/shared.py).
EXCHANGES = {
    times.__name__: _Exchange(times, copied)
    for times, copied in (
        (all_reduce, lambda n: n + 1),
        (reduce_scatter, lambda n: n + 1),
        (all_gather, lambda n: 2 * n),
        (all_to_all, lambda n: 4 * n),
        (permute, lambda n: 4 * n),
        (broadcast, lambda n: 0),
    )
}


# ---- machines by name ----

#: Machines by name. **Assumed, not measured**: bandwidths are those of public data sheets, times
#: the fraction that large messages are assumed to reach (0.8 of NVLink, 0.9 of InfiniBand);
#: latencies have the usual size for a step of a collective.
NETWORKS = {
    network.name: network
    for network in (
        # Devices of one process: 10 us for a NumPy call with its overhead; 0.8 of two channels of
        # DDR4-3200, 25.6 GB/s each.
        Network((Level(alpha=10e-6, bytes_per_s=0.8 * 51.2e9, shared=True),), "cpu"),
        # Ranks of one machine: 2 us for a call of MPI; a core copies at 10 GB/s, and each message
        # is copied into shared memory and out of it. No limit of the memory itself is modelled.
        Network((Level(alpha=2e-6, bytes_per_s=10e9 / 2),), "mpi"),
        # DGX A100: NVLink 3, 600 GB/s a GPU in both directions together; ConnectX-6, 200 Gb/s a
        # GPU each way.
        Network(
            (
                Level(size=8, alpha=3e-6, bytes_per_s=0.8 * 300e9),
                Level(alpha=8e-6, bytes_per_s=0.9 * 25e9),
            ),
            "a100-ib",
        ),
        # DGX H100: NVLink 4, 900 GB/s a GPU in both directions together; ConnectX-7, 400 Gb/s a
        # GPU each way.
        Network(
            (
                Level(size=8, alpha=3e-6, bytes_per_s=0.8 * 450e9),
                Level(alpha=8e-6, bytes_per_s=0.9 * 50e9),
            ),
            "h100-ib",
        ),
        # HGX H200: eight GPUs and no more, with the NVLink of the H100.
        Network((Level(size=8, alpha=3e-6, bytes_per_s=0.8 * 450e9),), "h200-nvlink"),
    )
}


def network_named(network: Network | str | None = None) -> Network:
    """Return a network, given itself or its name in `NETWORKS`; None means the CPU.

    >>> network_named("h200-nvlink").levels
    (Level(alpha=3e-06, bytes_per_s=360000000000.0, size=8, shared=False),)
    >>> network_named("h100")
    Traceback (most recent call last):
        ...
    ValueError: no network is named 'h100' (did you mean 'h100-ib'?); there are cpu, mpi, ...
    """
    if network is None:
        return NETWORKS["cpu"]
    if isinstance(network, Network):
        return network
    if not isinstance(network, str):
        raise TypeError(f"a network is a Network or one of {', '.join(NETWORKS)}: {network!r}")
    if network not in NETWORKS:
        near = difflib.get_close_matches(network, NETWORKS, 1, 0.6)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"no network is named {network!r}{hint}; there are {', '.join(NETWORKS)}, or make a "
            f"Network of your own"
        )
    return NETWORKS[network]


# ---- machines that are measured ----


def fitted(
    measured: Iterable[tuple[str, float, int, float]], like: Network | str = "mpi"
) -> Network:
    """Return the network of one level that agrees best with measured exchanges.

    Parameters
    ----------
    measured :
        Of each exchange the kind, the bytes on each device, the number of devices, and the seconds.
        Two sizes or more, small ones for the latency and large ones for the bytes per second.
    like :
        Where to begin, and whether the memory is shared.

    It minimises the sum of squared logarithms of model / measured: errors count alike at all sizes.

    Examples
    --------

    >>> machine = Network((Level(alpha=5e-6, bytes_per_s=2e9),))
    >>> sizes = (8, 1e4, 1e6, 1e8)
    >>> found = fitted(("all_reduce", s, 4, machine.cost("all_reduce", s, 4)) for s in sizes)
    >>> [f"{x:.3g}" for x in (found.levels[0].alpha, found.levels[0].bytes_per_s)]
    ['5e-06', '2e+09']
    """
    rows = [(kind, nbytes, n, float(seconds)) for kind, nbytes, n, seconds in measured]
    if len({nbytes for _, nbytes, _, _ in rows}) < 2 or min(row[3] for row in rows) <= 0:
        raise ValueError(f"a fit needs times above 0 of exchanges of two sizes or more, got {rows}")
    level = network_named(like).levels[0]

    def network(point: tuple[float, float]) -> Network:
        alpha, bytes_per_s = map(math.exp, point)
        return Network((replace(level, alpha=alpha, bytes_per_s=bytes_per_s, size=None),), "fitted")

    def errors(point: tuple[float, float]) -> list[float]:
        there = network(point)
        return [math.log(there.cost(kind, s, n) / seconds) for kind, s, n, seconds in rows]

    # Rounds at most, the logarithms between which slopes are taken, and the largest.
    rounds, near, far = 100, 1e-4, 60.0
    point = (math.log(level.alpha), math.log(level.bytes_per_s))
    now = errors(point)
    for _ in range(rounds):
        # Gauss and Newton: both slopes by differences, and the step where errors would be least.
        x, y = point
        slopes = zip(errors((x + near, y)), errors((x, y + near)), now, strict=True)
        pairs = [((a - e) / near, (b - e) / near) for a, b, e in slopes]
        aa, ab, bb = (sum(p[i] * p[j] for p in pairs) for i, j in ((0, 0), (0, 1), (1, 1)))
        ga, gb = (sum(p[i] * e for p, e in zip(pairs, now, strict=True)) for i in (0, 1))
        flat = 1e-9 * (aa + bb)  # where only one of both matters, the other stays
        det = (aa + flat) * (bb + flat) - ab * ab
        step = ((bb + flat) * ga - ab * gb) / det, ((aa + flat) * gb - ab * ga) / det
        # The algorithm changes with the size, so a whole step may be too long.
        for part in (1.0, 0.5, 0.25, 0.1, 0.01):
            there = (x - part * step[0], y - part * step[1])
            trial = errors(there) if max(map(abs, there)) < far else now
            if sum(e * e for e in trial) < sum(e * e for e in now):
                point, now = there, trial
                break
        else:
            break
    return network(point)
