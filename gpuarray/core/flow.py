"""Loops and branches as plain data: how a primitive that holds Graphs runs them.

Floor 1. In: an equation of such a primitive (its `flow` rule reads it). Out: a `Loop` or a
`Choice`, which a compiler can write out without knowing the primitive. Operands are given by their
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuarray.core.graph import Graph


@dataclass(frozen=True)
class Loop:
    """A Graph run again and again on its own results.

    body: (consts, carries, an element of each of xs) -> (carries, an element of each of ys)
    length: how many steps; None: as long as `condition`(its consts, carries) is true
    reverse: whether xs and ys are gone through from their ends
    The results are the last carries, then ys.
    """

    body: Graph
    consts: range
    carry: range
    xs: range = range(0)
    length: int | None = None
    reverse: bool = False
    condition: Graph | None = None
    condition_consts: range = range(0)


@dataclass(frozen=True)
class Choice:
    """One of several Graphs on the operands behind the first, which is its number (the nearest one
    there is).
    """

    branches: tuple[Graph, ...]
