"""Exchanges message by message, over links that carry one message at a time.

In: a `Network`, of which only the figures of its levels are used, the bytes on each device, the
number of devices. Out: the second at which the last device has everything. The formulas of
compiler/partition/network.py are compared with it; nothing here uses them.

With `delay=0.1` every message takes longer at random, by 10 % on average (exponentially
distributed), where all of them take the same otherwise.

    python -m tests.support.network        # the table of docs/network-model.md
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuarray.compiler.partition.network import Level, Network, network_named


class Devices:
    """n devices, node after node: when each is ready, and when the link it sends on is free."""

    def __init__(self, network: Network, n: int, delay: float = 0.0):
        self.inner, self.outer = network.levels[0], network.levels[-1]
        inside = self.inner.joins(n)
        #: Devices of a node; where there is one level, each device is a node.
        self.g = 1 if inside else self.inner.size or 1
        if inside:
            self.outer = self.inner
        self.m = -(-n // self.g)
        self.number = np.arange(n)
        self.node = self.number // self.g
        self.ready = np.zeros(n)
        self.free = np.zeros(n)
        self.delay, self.random = delay, np.random.default_rng(0)

    def late(self, count: int) -> np.ndarray | float:
        """By what part each of `count` messages takes longer."""
        return self.random.exponential(self.delay, count) if self.delay else 0.0

    def send(self, to: np.ndarray, nbytes: float, steps: int = 1) -> None:
        """In each step every device sends nbytes to another, and waits for what comes to it."""
        away = self.node != self.node[to]
        alpha = np.where(away, self.outer.alpha, self.inner.alpha)
        on_the_link = nbytes / np.where(away, self.outer.bytes_per_s, self.inner.bytes_per_s)
        sender = np.argsort(to)
        for _ in range(steps):
            longer = 1 + self.late(len(to))
            self.free = np.maximum(self.ready, self.free) + on_the_link * longer
            self.ready = np.maximum(self.ready, (self.free + alpha * longer)[sender])

    def around(self, steps: int, nbytes: float) -> None:
        """One ring through all devices."""
        self.send((self.number + 1) % len(self.number), nbytes, steps)

    def inside(self, steps: int, nbytes: float) -> None:
        """A ring in each node."""
        self.send(self.node * self.g + (self.number + 1) % self.g, nbytes, steps)

    def between(self, steps: int, nbytes: float) -> None:
        """g rings at once, each of the devices with the same place in their nodes."""
        self.send((self.number + self.g) % len(self.number), nbytes, steps)

    def tree(self, nbytes: float, *, up: bool, down: bool) -> None:
        """A binomial tree between nodes, up to the first and down again, in pieces."""
        level, m = self.outer, self.m
        sizes = pieces(level, nbytes)
        # When each node has each piece; a node has it when all its devices do.
        have = np.repeat(self.ready.reshape(m, self.g).max(1)[:, None], len(sizes), axis=1)
        rounds = [2**k for k in range((m - 1).bit_length())]
        for way in ("up",) * up + ("down",) * down:
            sends, receives = np.zeros(m), np.zeros(m)
            for distance in rounds if way == "up" else rounds[::-1]:
                near = np.arange(0, m - distance, 2 * distance)
                far = near + distance
                source, to = (far, near) if way == "up" else (near, far)
                for k, size in enumerate(sizes):
                    longer = 1 + self.late(len(to))
                    start = np.maximum(have[source, k], np.maximum(sends[source], receives[to]))
                    end = start + size / level.bytes_per_s * longer
                    sends[source] = receives[to] = end
                    have[to, k] = np.maximum(have[to, k], end + level.alpha * longer)
        self.ready = np.repeat(have.max(1), self.g)
        self.free = self.ready.copy()

    def halving(self, nbytes: float, *, up: bool) -> None:
        """The same tree, where each message is as long as what it carries: the m-ths of nbytes of
        all nodes below it.
        """
        m = self.m
        have = self.ready.reshape(m, self.g).max(1)
        sends, receives = np.zeros(m), np.zeros(m)
        rounds = [2**k for k in range((m - 1).bit_length())]
        for distance in rounds if up else rounds[::-1]:
            near = np.arange(0, m - distance, 2 * distance)
            far = near + distance
            source, to = (far, near) if up else (near, far)
            longer = 1 + self.late(len(to))
            on_the_link = np.minimum(distance, m - far) * nbytes / m / self.outer.bytes_per_s
            start = np.maximum(have[source], np.maximum(sends[source], receives[to]))
            end = start + on_the_link * longer
            sends[source] = receives[to] = end
            have[to] = np.maximum(have[to], end + self.outer.alpha * longer)
        self.ready = np.repeat(have, self.g)
        self.free = self.ready.copy()

    def chain(self, nbytes: float) -> None:
        """From the first device to the next and so on, in pieces."""
        sizes = pieces(self.outer, nbytes)
        have = np.zeros(len(sizes))
        for k in range(1, len(self.number)):
            level = self.outer if self.node[k] != self.node[k - 1] else self.inner
            free = 0.0
            for i, size in enumerate(sizes):
                longer = 1 + self.late(1)
                free = np.max(np.maximum(have[i], free) + size / level.bytes_per_s * longer)
                have[i] = np.max(free + level.alpha * longer)
            self.ready[k] = have[-1]

    def inside_tree(self, nbytes: float) -> None:
        """A tree down in each node, whose devices are ready together."""
        node = Network((self.inner,))
        devices = Devices(node, self.g, self.delay)
        devices.tree(nbytes, up=False, down=True)
        self.ready = self.ready + np.tile(devices.ready, self.m)


def pieces(level: Level, nbytes: float) -> list[float]:
    """Pieces that are on the link for as long as the latency, and a last one that is shorter."""
    size = level.alpha * level.bytes_per_s
    whole = int(nbytes // size)
    rest = nbytes - whole * size
    return [size] * whole + ([rest] if rest or not whole else [])


# ---- exchanges ----


def ring(devices: Devices, nbytes: float) -> None:
    n = len(devices.number)
    devices.around(2 * (n - 1), nbytes / n)


def two_level_ring(devices: Devices, nbytes: float) -> None:
    g, m = devices.g, devices.m
    devices.inside(g - 1, nbytes / g)
    devices.between(2 * (m - 1), nbytes / g / m)
    devices.inside(g - 1, nbytes / g)


def tree(devices: Devices, nbytes: float) -> None:
    g = devices.g
    devices.inside(g - 1, nbytes / g)
    devices.tree(nbytes / g, up=True, down=True)
    devices.inside(g - 1, nbytes / g)


def scatter_ring(devices: Devices, nbytes: float) -> None:
    n = len(devices.number)
    devices.around(n - 1, nbytes / n)


def scatter_two_level(devices: Devices, nbytes: float) -> None:
    g, m = devices.g, devices.m
    devices.inside(g - 1, nbytes / g)
    devices.between(m - 1, nbytes / g / m)


def gather_ring(devices: Devices, nbytes: float) -> None:
    devices.around(len(devices.number) - 1, nbytes)


def gather_two_level(devices: Devices, nbytes: float) -> None:
    devices.between(devices.m - 1, nbytes)
    devices.inside(devices.g - 1, devices.m * nbytes)


def exchange_direct(devices: Devices, nbytes: float) -> None:
    g, m, number = devices.g, devices.m, devices.number
    for nodes_on in range(m):
        for places_on in range(g):
            if nodes_on or places_on:
                node = (devices.node + nodes_on) % m
                devices.send(node * g + (number + places_on) % g, nbytes / g / m)


def exchange_two_level(devices: Devices, nbytes: float) -> None:
    g, m, number = devices.g, devices.m, devices.number
    for places_on in range(1, g):
        devices.send(devices.node * g + (number + places_on) % g, nbytes / g)
    for nodes_on in range(1, m):
        devices.send((number + nodes_on * g) % len(number), nbytes / m)


def scatter_tree(devices: Devices, nbytes: float) -> None:
    g = devices.g
    devices.inside(g - 1, nbytes / g)
    devices.tree(nbytes / g, up=True, down=False)
    devices.ready[:] = devices.ready.max()
    devices.halving(nbytes / g, up=False)


def gather_tree(devices: Devices, nbytes: float) -> None:
    g, m = devices.g, devices.m
    devices.halving(m * nbytes, up=True)
    devices.ready[:] = devices.ready.max()
    devices.tree(m * nbytes, up=False, down=True)
    devices.inside(g - 1, m * nbytes)


def broadcast_chain(devices: Devices, nbytes: float) -> None:
    devices.chain(nbytes)


def broadcast_tree(devices: Devices, nbytes: float) -> None:
    devices.tree(nbytes, up=False, down=True)
    devices.inside_tree(nbytes)


#: What the formulas call (kind, algorithm).
EXCHANGES: dict[tuple[str, str], Callable[[Devices, float], None]] = {
    ("all_reduce", "ring"): ring,
    ("all_reduce", "two-level ring"): two_level_ring,
    ("all_reduce", "tree"): tree,
    ("reduce_scatter", "ring"): scatter_ring,
    ("reduce_scatter", "two-level ring"): scatter_two_level,
    ("all_gather", "ring"): gather_ring,
    ("all_gather", "two-level ring"): gather_two_level,
    ("reduce_scatter", "tree"): scatter_tree,
    ("all_gather", "tree"): gather_tree,
    ("all_to_all", "direct"): exchange_direct,
    ("all_to_all", "two-level"): exchange_two_level,
    ("broadcast", "chain"): broadcast_chain,
    ("broadcast", "tree"): broadcast_tree,
}


def simulate(
    network: Network, kind: str, algorithm: str, nbytes: float, n: int, delay: float = 0.0
) -> float:
    """The seconds until the last of n devices has everything."""
    devices = Devices(network, n, delay)
    EXCHANGES[kind, algorithm](devices, nbytes)
    return float(devices.ready.max())


def slowest_link_everywhere(network: Network, nbytes: float, n: int) -> float:
    """The usual formula for one ring, as if all links were as slow as the slowest."""
    return 2 * (n - 1) * network.levels[-1].seconds(nbytes / n)


# ---- the table of the page ----


def table(name: str = "h100-ib") -> str:
    """All-reduces as Markdown: simulated microseconds of each algorithm, and model / simulation;
    for the one that the model chooses also where messages are delayed by 10 % at random.
    """
    network = network_named(name)
    rows = [
        "| GPUs | bytes each | ring | two-level ring | tree | the model chooses | with delays |",
        "|---|---|---|---|---|---|---|",
    ]
    for n in (8, 64, 512, 4096):
        for text, nbytes in (("64 KB", 64e3), ("4 MB", 4e6), ("1 GB", 1e9)):
            times = network.times("all_reduce", nbytes, n)
            cells = [f"{n:,}", text]
            for algorithm in ("ring", "two-level ring", "tree"):
                if algorithm in times:
                    seconds = simulate(network, "all_reduce", algorithm, nbytes, n)
                    cells.append(f"{seconds * 1e6:,.0f} µs, {times[algorithm] / seconds:.2f}")
                else:
                    cells.append("–")
            chosen = network.algorithm("all_reduce", nbytes, n)
            late = simulate(network, "all_reduce", chosen, nbytes, n, delay=0.1)
            cells += [chosen, f"{times[chosen] / late:.2f}"]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
