"""Where the values of a plan are: memory that its kernels write to, packed into one allocation.

Floor 4. In: how many bytes values need, and between which steps. Out: their offsets.
"""

from __future__ import annotations

from gpuarray.util import Struct

#: Pieces of the shared allocation start at multiples of this many bytes.
PIECE = 256


class Memory(Struct, frozen=False, eq=False):
    """Memory that kernels of a plan write to.

    first, last: the steps between which it is in use; result: whether it leaves the plan
    donor: number of the donated input whose memory it is, or None
    """

    nbytes: int
    first: int
    last: int
    result: bool = False
    donor: int | None = None
    offset: int = 0


class Value(Struct):
    """Location of a value as text: its address, the owner of the memory, its Buffer if any."""

    base: str
    offset: int
    owner: str
    buffer: str = ""

    @property
    def pointer(self) -> str:
        return f"{self.base} + {self.offset}" if self.offset else self.base


def packed(pieces: list[Memory]) -> int:
    """Assign offsets so that no two pieces in use at once overlap; return the total bytes.

    First fit, the largest pieces first.
    """
    placed: list[Memory] = []
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
            at = max(at, -(-(m.offset + m.nbytes) // PIECE) * PIECE)
        piece.offset = at
        placed.append(piece)
    return max((m.offset + m.nbytes for m in placed), default=0)
