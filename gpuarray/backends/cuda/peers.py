"""Collectives between GPUs by copies: one GPU of each group computes for all of it.

Floor 4. In: a collective's equation, and the Buffers of each GPU. Out: Buffers on each GPU, in new
memory, filled in the order of its stream.

The meaning of a collective is an ordinary Graph (backends/shared.py). It runs on the first GPU of a
group: the operands of the others are copied there, and their results back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuarray.backends import lockstep
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.program import InnerFunctions
from gpuarray.backends.shared import groups_of, meaning, numbers_in
from gpuarray.core.graph import Eqn, Graph
from gpuarray.primitives.collective import ops


class Peers:
    """The engine of GPUs that can copy from each other.

    Parameters
    ----------
    gpus :
        The GPUs, in the order of the grid.
    sizes :
        The axes of the grid, in order, with their lengths.
    numbers :
        The places of the GPUs in the grid, where others belong to other processes.
    """

    def __init__(
        self,
        gpus: Sequence[Gpu],
        sizes: Mapping[Any, int],
        numbers: Sequence[int] | None = None,
    ):
        self.gpus = list(gpus)
        #: Place in the grid -> place among our GPUs.
        self.rows = {n: i for i, n in enumerate(range(len(gpus)) if numbers is None else numbers)}
        self.sizes = dict(sizes)
        plans: dict[Graph, Any] = {}
        #: Compile Graphs for each of the GPUs.
        self.insides = [InnerFunctions(gpu, plans) for gpu in gpus]
        # By equation, whose params and avals need not be looked at again.
        self._by_eqn: dict[int, tuple[Eqn, Callable]] = {}
        self._groups_by_eqn: dict[int, tuple[Eqn, list]] = {}

    #: Whether exchanges overlap with computations, so that programs should split them into start
    #: and end.
    overlaps = False

    def __call__(self, eqn: Eqn, operands: list[list]) -> list[list]:
        known = self._by_eqn.get(id(eqn))
        if known is None:
            known = self._by_eqn[id(eqn)] = (eqn, self.exchange(eqn))
        return known[1](operands)

    def settle(self) -> None:
        """Order all later work after the pending exchanges, when a program has failed."""

    def groups(self, eqn: Eqn) -> list[list[int]]:
        """Return the numbers of the GPUs that talk to each other."""
        chosen = eqn.params.get("axis_index_groups")
        return groups_of(self.sizes, ops.names_in(eqn.params), chosen)

    def among(self, eqn: Eqn) -> list[tuple[list[int], Callable[[list], list]]]:
        """Return the groups of this process's GPUs for an exchange, and a function for each."""
        known = self._groups_by_eqn.get(id(eqn))
        if known is None:
            known = self._groups_by_eqn[id(eqn)] = (eqn, self.parts(eqn))
        return known[1]

    def parts(self, eqn: Eqn) -> list[tuple[list[int], Callable[[list], list]]]:
        """Compute the result of `among`."""
        groups = self.groups(eqn)
        # A GPU knows its own index without waiting for others.
        if eqn.primitive is ops.axis_index_p:
            numbers = numbers_in(groups)
            return [([row], self._saying(row, numbers[n])) for n, row in self.rows.items()]
        avals = tuple(a.aval for a in eqn.invars)
        groups = [[self.rows[d] for d in group] for group in groups if group[0] in self.rows]
        return [(group, self._copies(eqn, avals, group)) for group in groups]

    def exchange(self, eqn: Eqn) -> Callable[[list[list]], list[list]]:
        """Return an equation as a function of the operands of all GPUs."""
        return lockstep.of_all(self.parts(eqn))

    def _saying(self, row: int, number: Any) -> Callable[[list], list]:
        return lambda operands: [[self.gpus[row].upload(number)]]

    def _copies(self, eqn: Eqn, avals: tuple, group: list[int]) -> Callable[[list], list]:
        """Return an exchange as a function of the operands of the GPUs of one group."""
        inside = self.insides[group[0]]
        function = meaning(eqn.primitive, avals, eqn.params, len(group), inside, on_host=False)
        root = self.gpus[group[0]]

        def run(operands: list[list]) -> list[list]:
            given = [[_on(root, b) for b in row] for row in operands]
            # Results of an exchange must not share memory.
            taken = {id(b.memory) for row in given for b in row}
            results: list[list] = []
            for row, found in zip(group, root.attempt(function, given), strict=True):
                gpu = self.gpus[row]
                results.append([])
                for b in found:
                    own = gpu is root and id(b.memory) not in taken
                    results[-1].append(b if own else gpu.attempt(gpu.copy, b))
                    taken.add(id(b.memory))
            return results

        return run


def _on(gpu: Gpu, buffer: Buffer) -> Buffer:
    return buffer if buffer.gpu is gpu else gpu.attempt(gpu.copy, buffer)
