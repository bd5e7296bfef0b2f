"""Data that devices send to each other: facts of a plan's exchanges, and their predicted times.

Floor 3. In: the grid of devices, the partitioner's notes, and a network
(compiler/partition/network.py). Out: facts of single steps for an Explanation, and remarks on all
of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from gpuarray.compiler.explain.covered import waits
from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.partition.network import Network
from gpuarray.compiler.pipeline import Plan
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Eqn, Graph, subgraphs, talks
from gpuarray.core.grid import Grid
from gpuarray.core.primitive import Kind
from gpuarray.primitives.collective import ops, together


class Sent(NamedTuple):
    """An exchange: its equation, number of repetitions, seconds each time and algorithm."""

    eqn: Eqn
    times: int
    seconds: float
    way: str


class Exchanges:
    """The exchanges of a program.

    Parameters
    ----------
    grid :
        Its devices. Their topology follows from the order in which the grid numbers them.
    notes :
        The moves that partitioning needed, and why.
    network :
        Their connections; None predicts no times.
    """

    def __init__(self, grid: Grid, notes: Iterable[Any], network: Network | None = None):
        self.grid, self.notes, self.network = grid, list(notes), network
        self.sent: list[Sent] = []
        self.waits: dict[int, float] | None = None

    def seconds(self, step: DeviceStep) -> float:
        """Return the seconds of the exchanges of a step."""
        if not isinstance(step, Eqn) or not talks(step):
            return 0.0
        return sum(x.times * x.seconds for x in self._sent(step))

    def cover(self, plan: Plan, work: Callable[[DeviceStep], float]) -> None:
        """Find out how much of each exchange of a plan overlaps with other steps.

        work: the seconds that a step computes
        """
        self.waits = waits(plan, work, self.seconds)

    def facts(self, eqn: Eqn) -> dict[str, Any]:
        """Return the facts of a step: its groups, bytes, reason and predicted time."""
        if not talks(eqn):
            return {}
        sent = list(self._sent(eqn))
        self.sent += sent
        # A loop or branch holds exchanges of several kinds: report only their total time.
        found = self._of_one(eqn) if eqn.primitive.kind is Kind.COLLECTIVE else {}
        if self.network is not None and sent:
            found["predicted"] = _time(sum(x.times * x.seconds for x in sent))
            if self.waits is not None:
                found["uncovered"] = _time(self.waits[id(eqn)])
            found["by"] = ", ".join(dict.fromkeys(x.way for x in sent))
        return found

    def _of_one(self, eqn: Eqn) -> dict[str, Any]:
        names = ops.names_in(eqn.params)
        found: dict[str, Any] = {
            "axes": ", ".join(map(str, names)),
            "devices": self.grid.size(names),
            "bytes a device": sum(a.aval.nbytes for a in eqn.invars),
        }
        # Moves are noted in the order in which they are bound, usually at the line of the exchange;
        # sums settled by a later reader are bound at that reader's.
        alone = together.alone(eqn.primitive).name
        alike = [n for n in self.notes if n.sent.startswith(alone)]
        here = [n for n in alike if n.site == eqn.site]
        for note in (here or alike)[:1]:
            found["why"] = note.why
        # Of values that are sent together, one each.
        for note in (here + [n for n in alike if n not in here])[: len(eqn.invars)]:
            self.notes.remove(note)
        if len(eqn.invars) > 1:
            found["values"] = len(eqn.invars)
        return found

    def _sent(self, eqn: Eqn, times: int = 1) -> Iterator[Sent]:
        """Yield the exchanges of an equation: itself, or those in the Graphs that it holds."""
        if eqn.primitive.kind is Kind.COLLECTIVE:
            kind = together.exchange_of(eqn.primitive)
            if kind is not None and eqn.invars:
                yield Sent(eqn, times, *self._cost(eqn, kind))
            return
        flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
        if isinstance(flow, Loop):
            # The trip count of a while loop is not known: report one iteration.
            times *= flow.length or 1
        # The branch that will run is not known: the first represents all.
        graphs: Iterable[Graph] = flow.branches[:1] if isinstance(flow, Choice) else subgraphs(eqn)
        for graph in graphs:
            for inner in graph.eqns:
                if talks(inner):
                    yield from self._sent(inner, times)

    def _cost(self, eqn: Eqn, kind: str) -> tuple[float, str]:
        if self.network is None:
            return math.nan, ""
        names, order = ops.names_in(eqn.params), list(self.grid.sizes)
        network, count = self.network, self.grid.size(names)
        groups = eqn.params.get("axis_index_groups")
        # Groups within the axes: the largest takes longest, on the network as a whole.
        if groups is not None:
            count = max(map(len, groups))
        elif names:
            axes = [order.index(n) for n in names]
            network = network.along(tuple(self.grid.sizes.values()), axes)
        nbytes = sum(a.aval.nbytes for a in eqn.invars)
        return network.cost(kind, nbytes, count), network.algorithm(kind, nbytes, count)

    def remarks(self) -> tuple[str, ...]:
        """Return remarks on all exchanges; empty if no times are predicted.

        The facts of all steps must have been computed before.
        """
        network = self.network
        if network is None or not self.sent:
            return ()
        total = sum(x.times * x.seconds for x in self.sent)
        most = max(self.sent, key=lambda x: x.times * x.seconds)
        number = sum(x.times for x in self.sent)
        times = f" {most.times} times" if most.times > 1 else ""
        covered = "" if self.waits is None else f", {_time(sum(self.waits.values()))} uncovered"
        return (
            f"{number} exchange{'s' * (number != 1)} among {len(self.grid.devices)} devices, "
            f"{_time(total)} predicted for {network.name or 'this network'}{covered}",
            f"most costly: {most.eqn.primitive.name} at {most.eqn.site}{times}, "
            f"{_time(most.times * most.seconds)}",
        )


def _time(seconds: float) -> str:
    """Return a time in a unit that reads well.

    >>> _time(0.0123), _time(4.2e-6)
    ('12.3 ms', '4.2 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds * 1e6:.1f} us"
