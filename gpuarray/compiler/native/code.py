"""C++ as nested blocks, written from top to bottom.

Floor 3. In: statements. Out: `Code`, lines that are indented as their blocks are nested.

If the head of a block depends on its body, such as on the work of an iteration, the body is written
`apart` and then `put` after its head:

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
        """A line that opens a block, the lines written in it, and the line that closes it, if any:
        the one statement of an `if` needs none, and neither does a branch followed by `else`.
        """
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1
        if tail:
            self.line(tail)

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Lines that are not part of the text until they are put there. Their depth is not known
        yet.
        """
        around, depth = self.lines, self._depth
        self.lines, self._depth = [], 0
        yield self.lines
        self.lines, self._depth = around, depth

    def put(self, lines: Iterable[str]) -> None:
        """Append separately written lines to the innermost block."""
        self.lines += [INDENT * self._depth + text for text in lines]
