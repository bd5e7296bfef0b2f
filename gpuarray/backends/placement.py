"""Where the values between the kernels of a plan are in memory.

Floor 4. In: the kernels, the lifetimes of values, the donated inputs. Out: for each value that a
kernel writes `PlannedMemory`: a part of one shared allocation, which later values reuse, or for a
result a separate allocation, or the memory of a donated input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpuarray.compiler.lower.in_place import overwritable
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.lifetimes import Lifetimes
from gpuarray.core.graph import Graph, Var
from gpuarray.util import Struct

#: Pieces of the shared allocation start at multiples of this many bytes.
ALIGNMENT = 256


class Launch(Protocol):
    """A kernel with its arguments, in any language."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def inputs(self) -> Sequence[Var]: ...
    @property
    def outputs(self) -> Sequence[Var]: ...


class PlannedMemory(Struct, frozen=False, eq=False):
    """Memory that kernels of a plan write to.

    Attributes
    ----------
    first, last :
        The steps between which it is in use.
    result :
        Whether it leaves the plan.
    donor :
        Number of the donated input whose memory it is, or None.
    """

    nbytes: int
    first: int
    last: int
    result: bool = False
    donor: int | None = None
    offset: int = 0


class Placement:
    """Memory for everything that the kernels of a plan write.

    Attributes
    ----------
    pieces : dict of Var to PlannedMemory
        The memory of each value.
    shared_bytes : int
        The size of the allocation that all pieces but results are in.
    overlapping : set of int
        Steps whose kernels write over memory that they read.
    """

    def __init__(
        self,
        graph: Graph,
        launches: Mapping[int, Launch],
        lifetimes: Lifetimes,
        donated: frozenset[int],
    ):
        self.pieces: dict[Var, PlannedMemory] = {}
        self.overlapping: set[int] = set()
        self._lifetimes, self._donated = lifetimes, donated
        self._inputs = {v: i for i, v in enumerate(graph.invars)}
        root = lifetimes.root
        results = {root(a) for a in graph.outvars if isinstance(a, Var)}
        for i, launch in launches.items():
            for v in launch.outputs:
                # Reuse the memory of an aliased operand, or of a donated input for a result.
                old = launch.kernel.aliases.get(v)
                sources = [] if v not in results else map(root, launch.inputs)
                sources = [x for x in sources if x in self._inputs]
                if old is not None:
                    sources = [root(old)]
                found = (self._taken_over(x, v, launch, i) for x in sources)
                piece = next((m for m in found if m is not None), None)
                if piece is None:
                    piece = PlannedMemory(v.aval.nbytes, i, i)
                self.pieces[v] = piece
                piece.last = max(piece.last, lifetimes.last.get(v, i))
                piece.result |= v in results
        # Results have separate allocations; the others are packed into one.
        shared = {id(m): m for m in self.pieces.values() if not m.result}
        self.shared_bytes = packed(list(shared.values()))

    def _taken_over(self, source: Var, v: Var, launch: Launch, i: int) -> PlannedMemory | None:
        """Return the memory of a value that dies at step i, if `v` may be written over it.

        The memory must be donated or the plan's own, and the kernel must be able to write in place.
        """
        # The owner of the memory: the plan itself, or an input, which only one value may take.
        number = self._inputs.get(source)
        if number is None:
            piece = self.pieces.get(source)
        elif number in self._donated and all(m.donor != number for m in self.pieces.values()):
            piece = PlannedMemory(v.aval.nbytes, i, i, result=True, donor=number)
        # An input may be donated to one value only.
        else:
            piece = None
        lives = self._lifetimes
        if piece is None or lives.last.get(source) != i or source.aval.nbytes != v.aval.nbytes:
            return None
        readers = [x for x in launch.inputs if lives.root(x) is source]
        if readers:
            if not overwritable(launch.kernel, v).issuperset(readers):
                return None
            # Now an input is an output too.
            self.overlapping.add(i)
        return piece


def packed(pieces: list[PlannedMemory]) -> int:
    """Assign offsets so that no two pieces with overlapping lifetimes overlap; return the total
    bytes.

    First fit, the largest pieces first.
    """
    placed: list[PlannedMemory] = []
    for piece in sorted(pieces, key=lambda m: (-m.nbytes, m.first)):
        # Pieces placed already whose lifetimes overlap, by offset; take the first gap between them.
        neighbours = sorted(
            (m for m in placed if m.first <= piece.last and piece.first <= m.last),
            key=lambda m: m.offset,
        )
        at = 0
        for m in neighbours:
            if at + piece.nbytes <= m.offset:
                break
            at = max(at, -(-(m.offset + m.nbytes) // ALIGNMENT) * ALIGNMENT)
        piece.offset = at
        placed.append(piece)
    return max((m.offset + m.nbytes for m in placed), default=0)
