"""One block of memory for the values between the steps of a routine.

Floor 3. In: sizes, in the order in which values are made and die. Out: their places in the block,
and its size. Later values reuse the space of dead ones.
"""

from __future__ import annotations

from gpuarray.core.target import PROCESSOR


class Room:
    """Places in a block of memory."""

    def __init__(self):
        self.bytes = 0  # the most that was in use
        self._taken: dict[str, tuple[int, int]] = {}  # name -> first and last byte

    def take(self, name: str, size: int) -> int:
        """The first byte of the first gap that is large enough."""
        size = -(-size // PROCESSOR.line) * PROCESSOR.line
        at = 0
        # First fit: gaps in the order of their addresses, so that the room stays as small as its
        # start allows.
        for begin, end in sorted(self._taken.values()):
            if begin - at >= size:
                break
            at = max(at, end)
        self._taken[name] = at, at + size
        self.bytes = max(self.bytes, at + size)
        return at

    def free(self, name: str) -> None:
        """Give back the place of a name, if it has one."""
        self._taken.pop(name, None)

    def mark(self) -> dict[str, tuple[int, int]]:
        """The space in use now: the beginning of a scope."""
        return dict(self._taken)

    def reset(self, mark: dict[str, tuple[int, int]]) -> None:
        """Take back all that was taken in a scope."""
        self._taken = mark
