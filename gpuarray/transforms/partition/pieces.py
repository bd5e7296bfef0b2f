"""Pieces: what the splitter knows of a value while it evaluates a Graph.

Floor 3. In: a traced part of a value. Out: plain data about how it lies and what it is owed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.grid import Spec


class Owed(NamedTuple):
    """Partial results, which the devices along some axes still have to combine."""

    how: str
    names: tuple
    site: Any
    why: str


class Piece:
    """One device's part of a value, traced, and how the value is cut.

    Attributes
    ----------
    owed :
        What is still to be done to partial results; the first reader decides how. None: nothing.
    read_once :
        Whether a single equation reads it.
    asked :
        Layouts that readers asked for.
    also :
        The same value in other layouts, so that it moves to each only once.
    frame :
        Axes along which it is part of a longer one, and that is cut: where it starts, and the
        length of the longer one (see windows.py).
    site :
        The user's line that made it; None for inputs.
    static :
        Its value, where it is small and the same at every run: where slices begin.
    """

    __slots__ = ("also", "asked", "frame", "owed", "read_once", "site", "spec", "static", "value")

    def __init__(self, value: Any, spec: Spec, owed: Owed | None = None):
        self.value = value
        self.spec = spec
        self.owed = owed
        self.read_once = True
        self.asked: set[Spec] = set()
        self.also: dict[Spec, Piece] = {}
        self.frame: dict[int, tuple[int, int]] = {}
        self.site: Any = None
        self.static: np.ndarray | None = None


class Note(NamedTuple):
    """A move that an equation needed: what was sent, of which value, where, and why."""

    sent: str
    aval: ShapedArray
    site: Any
    why: str
