"""Progress of anything that takes longer than a second, on standard error.

Floor 8. In: how many steps, and their names as they begin. Out: a bar that redraws itself on a
terminal; elsewhere a line now and then, so that logs stay short.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

#: Seconds of silence before, and between, the lines of a log.
PATIENCE = 1.0
_BAR = 28


class Progress:
    """A bar over a known number of steps: `with Progress(3, "timing") as p: p.step("softmax")`."""

    def __init__(self, steps: int, what: str, out: TextIO | None = None):
        self.steps = max(steps, 1)
        self.what = what
        self.out = sys.stderr if out is None else out
        self._terminal = self.out.isatty()
        self._done = 0
        self._name = ""
        self._told = time.monotonic()
        self._drawn = 0

    def __enter__(self) -> Progress:
        return self

    def step(self, name: str) -> None:
        """Announce the next step."""
        self._done += 1
        self._name = name
        self._show(name, 0.0)

    def within(self, part: int, parts: int, what: str) -> None:
        """Announce part `part` of `parts` of the present step, counted from one."""
        self._show(f"{self._name}, {what} {part}/{parts}", (part - 1) / parts)

    def clear(self) -> None:
        """Take the bar away, so that a line can be printed; the next step draws it again."""
        if self._drawn:
            self.out.write("\r" + " " * self._drawn + "\r")
            self.out.flush()
            self._drawn = 0

    def _show(self, name: str, share: float) -> None:
        text = f"{self.what} {self._done}/{self.steps}: {name}"
        if self._terminal:
            # Padded to the length of the previous line, to overwrite it.
            full = int(_BAR * (self._done - 1 + share) / self.steps)
            line = f"[{'=' * full}{' ' * (_BAR - full)}] {text}"[:100]
            self.out.write("\r" + line.ljust(self._drawn))
            self.out.flush()
            self._drawn = len(line)
        elif time.monotonic() - self._told >= PATIENCE:
            self.out.write(text + "\n")
            self.out.flush()
            self._told = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        self.clear()
