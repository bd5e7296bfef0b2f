"""C++ as nested blocks, written from top to bottom.

Floor 3. In: statements. Out: `Code`, lines that are indented as their blocks are nested.

A block whose head says what only its body tells, such as the work of a turn, is written `apart`
and then `put` behind its head:

    with code.apart() as turn:  # no part of the text yet
        work = write_turn()
    with code.block("for (;;) {"):
        code.line(f"if (call.turn({work})) return 3;")
        code.put(turn)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

INDENT = "    "


class Code:
    """The lines of a function.

    Parameters
    ----------
    depth :
        How deep they are indented.
    """

    def __init__(self, depth: int = 1):
        self.lines: list[str] = []
        self._depth = depth

    def line(self, text: str) -> None:
        """Write a line into the innermost block."""
        self.lines.append(INDENT * self._depth + text)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """A line that opens a block, what is written in it, and the line that closes it, if any:
        the one statement of an `if` needs none, nor does a branch that `else` follows.
        """
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1
        if tail:
            self.line(tail)

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Lines that are no part of the text until they are put there. How deep that will be is not
        known yet.
        """
        around, depth = self.lines, self._depth
        self.lines, self._depth = [], 0
        yield self.lines
        self.lines, self._depth = around, depth

    def put(self, lines: Iterable[str]) -> None:
        """Put what was written apart into the innermost block."""
        self.lines += [INDENT * self._depth + text for text in lines]
