"""Where arrays were made, for `Array.traceback`.

Floor 5. In: the setting `array_tracebacks`. Out: a `Traceback` for every array that is made while
it is on. While it is off, arrays cost nothing extra.
"""

from __future__ import annotations

import sys
import types
from typing import Any, NamedTuple

from gpuarray import sites
from gpuarray.config import config, state
from gpuarray.runtime.array import ArrayImpl


class Frame(NamedTuple):
    """One call on the way to where an array was made."""

    file_name: str
    function_name: str
    function_start_line: int
    line_num: int

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line_num} ({self.function_name})"


class Traceback:
    """The user's calls that led to an array, the innermost first."""

    __slots__ = ("frames",)

    def __init__(self, frames: list[Frame]):
        self.frames = frames

    def as_python_traceback(self) -> types.TracebackType | None:
        """The same calls as a traceback that Python prints; None if there are none.

        The functions in it have returned: of each only its code and line are there.
        """
        made: types.TracebackType | None = None
        for frame in self.frames:
            shown = _frame_at(frame)
            made = types.TracebackType(made, shown, shown.f_lasti, frame.line_num)
        return made

    def __str__(self) -> str:
        return "\n".join(map(str, self.frames))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Traceback) and self.frames == other.frames

    def __hash__(self) -> int:
        return hash(tuple(self.frames))


def _frame_at(frame: Frame) -> types.FrameType:
    """Return the frame of code with this name and at this line, which does nothing else."""
    # A traceback needs frame objects, and Python has no way to make one but to run code: a
    # line at that number, under that name.
    code = compile("\n" * (frame.line_num - 1) + "frame = get(0)", frame.file_name, "exec")
    code = code.replace(co_name=frame.function_name, co_qualname=frame.function_name)
    found: dict[str, Any] = {"get": sys._getframe}
    exec(code, found)  # noqa: S102
    return found["frame"]


def here() -> Traceback:
    """Return the user's calls that led here."""
    frames = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # Calls of the library are left out: only the user's lines matter.
        if not sites.is_inside(code.co_filename):
            name = code.co_qualname.rpartition("<locals>.")[2]
            line = frame.f_lineno or code.co_firstlineno
            frames.append(Frame(code.co_filename, name, code.co_firstlineno, line))
        frame = frame.f_back
    return Traceback(frames)


_plain = ArrayImpl.__init__


def _noting(self: ArrayImpl, *args: Any, **kwargs: Any) -> None:
    _plain(self, *args, **kwargs)
    if state.array_tracebacks:  # in this thread, here and now
        self._made_at = here()


def _follow(value: Any) -> None:
    """Record calls for every array once the setting was switched on anywhere.

    It is never taken back: another thread, or a `with` block around this one, may still want it.
    """
    if value:
        ArrayImpl.__init__ = _noting


config.on_update("array_tracebacks", _follow)
_follow(state.array_tracebacks)
