"""Pieces: what the splitter knows about a value while it evaluates a Graph.

Floor 3. In: a traced part of a value. Out: plain data about its sharding and pending sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var, has_effect
from gpuarray.core.grid import Grid, Spec


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
        The pending reduction of partial results; the first reader decides how. None: nothing.
    read_once :
        Whether a single equation reads it.
    asked :
        Shardings requested by readers.
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


def uncut(aval: ShapedArray) -> Spec:
    """Return the layout of a value that every device has whole."""
    return ((),) * aval.ndim


def is_cut(spec: Spec | None) -> bool:
    """Whether a layout is known, and cuts any axis."""
    return spec is not None and any(spec)


def uncut_results(eqn: Eqn, values: Sequence[Any]) -> list[Piece]:
    """Return the results of an equation that every device has whole."""
    return [Piece(x, uncut(v.aval)) for x, v in zip(values, eqn.outvars, strict=True)]


def local_aval(aval: ShapedArray, spec: Spec, grid: Grid) -> ShapedArray:
    """Return the aval of one device's piece."""
    shape = tuple(n // grid.size(names) for n, names in zip(aval.shape, spec, strict=True))
    return aval.update(shape=shape, layout=None)


class Note(NamedTuple):
    """A move that an equation needed: what was sent, of which value, where, and why."""

    sent: str
    aval: ShapedArray
    site: Any
    why: str


#: Linear operations: the sum of their results on partial sums is the result on the sum.
_LINEAR = frozenset(
    {"add", "add_any", "sub", "neg", "transpose", "reshape", "squeeze", "reduce_sum"}
)


def owed_by_all(eqn: Eqn, pieces: Sequence[Piece]) -> Owed | None:
    """Return the pending sum of the results of an equation on partial sums: the same sum.

    None if it must be settled first: others read the operands too, or it is not linear.
    """
    first = pieces[0].owed if pieces else None
    if first is None or first.how != "sum" or eqn.primitive.name not in _LINEAR:
        return None
    alike = all(
        # Sums over the same axes, of one sharding and shape, are added before they are combined.
        p.owed is not None
        and p.owed[:2] == first[:2]
        and p.spec == pieces[0].spec
        and p.read_once
        and a.aval.shape == eqn.invars[0].aval.shape
        for p, a in zip(pieces, eqn.invars, strict=True)
    )
    return first if alike else None


# ---- analysis of a Graph in advance ----


def live(graph: Graph) -> tuple[list[Eqn], Counter]:
    """Return the equations that are needed, and how many times they read each value."""
    found = graph.derived.get("live")
    if found is None:
        reads = Counter(a for a in graph.outvars if isinstance(a, Var))
        eqns: list[Eqn] = []
        # Backwards, so that equations read only by unread ones are dropped too.
        for eqn in reversed(graph.eqns):
            if any(v in reads for v in eqn.outvars) or has_effect(eqn):
                eqns.append(eqn)
                reads.update(a for a in eqn.invars if isinstance(a, Var))
        found = graph.derived["live"] = (eqns[::-1], reads)
    return found


#: Primitives that compute the start of slices, and the largest size of such values.
PLACES, _MOST_PLACES = frozenset({"broadcast_in_dim", "concatenate", "convert_element_type"}), 8


def static_value(eqn: Eqn, pieces: Sequence[Piece]) -> np.ndarray | None:
    """Return the value of a small result that depends on no input."""
    if eqn.outvars[0].aval.size > _MOST_PLACES or any(p.static is None for p in pieces):
        return None
    function = eqn.primitive.numpy_function([a.aval for a in eqn.invars], eqn.params)
    return np.asarray(function(*(p.static for p in pieces)))
