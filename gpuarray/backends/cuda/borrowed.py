"""Foreign memory that arrays of a GPU use, and code and graphs that launched work needs.

Floor 4. In: memory that something else has allocated: another library's, or pinned memory of the
host. Out: `Borrowed`, which keeps it as long as launched work reads or writes it; `Kept`, which
does so with code and graphs.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

_numbers = itertools.count()


class Borrowed:
    """Foreign memory, released only after the work launched on it has run.

    The GPU holds it, and this object only its number: memory referenced only by garbage may be
    finalised before the objects that refer to it (CuPy's pinned memory goes back to its pool then),
    and so before `hold` could keep it.
    """

    __slots__ = ("gpu", "number")

    def __init__(self, gpu: Any, memory: Any):
        self.gpu, self.number = gpu, next(_numbers)
        gpu.borrowed[self.number] = memory

    @property
    def memory(self) -> Any:
        return self.gpu.borrowed[self.number]

    @property
    def ptr(self) -> int:
        return self.memory.ptr

    def __add__(self, offset: int) -> Any:
        return self.memory + offset

    def __del__(self):
        self.gpu.hold(self.gpu.borrowed.pop(self.number, None))


class Kept:
    """Code or graphs, let go only after the work launched from them has run.

    CUDA may wait for all work when code goes, and the graphs that launch it need it until then.
    """

    __slots__ = ("_gpu", "_things")

    def __init__(self, gpu: Any, things: Any):
        # Recordings have a GPU of their own, for a real one (turns.py).
        self._gpu, self._things = getattr(gpu, "real", gpu), things

    def __del__(self):
        # A GPU that was forgotten may be garbage itself.
        if self._things and not self._gpu.forgotten and not sys.is_finalizing():
            self._gpu.hold(self._things)
