"""How many bytes a kernel moves, counted from the places that its text reads and writes.

Floor 3. In: the positions of accesses, sweep by sweep, as writers note them. Out: `Traffic`.

A place counts once in each sweep over the data, however many threads read it: caches serve
neighbours. What a later sweep reads again counts again, since a row or an array may have left the
caches by then. Of a lookup in memory at most as many places count as are looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpuarray.core.element import Lookup, atoms, places_of
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Axis, Index
from gpuarray.util import Struct


class Traffic(Struct):
    """Bytes that a kernel moves.

    read, written: of each array
    partial: of partial results that blocks leave for one another, written and read
    """

    read: dict[Var, int] = {}
    written: dict[Var, int] = {}
    partial: int = 0

    @property
    def bytes_read(self) -> int:
        """Bytes of all arrays and partial results that are read."""
        return sum(self.read.values()) + self.partial

    @property
    def bytes_written(self) -> int:
        """Bytes of all arrays and partial results that are written."""
        return sum(self.written.values()) + self.partial

    @property
    def total(self) -> int:
        """All bytes."""
        return self.bytes_read + self.bytes_written


class Touched:
    """The places that the text of a kernel reads, noted while it is written.

    `sweep` is the number of the present sweep over the data: a loop that reads anew. `most` limits
    how many elements it reads of each array.
    """

    def __init__(self) -> None:
        self.sweep = 0
        self.most: int | None = None
        self._places: dict[tuple[int, Var], dict[Index, int]] = {}

    def note(self, source: Var, index: Index, most: int | None = None) -> None:
        """Note that elements at `index` are read, `most` of them at most."""
        limits = (source.aval.size, self.most, most)
        places = self._places.setdefault((self.sweep, source), {})
        places[index] = min(n for n in limits if n is not None)

    def read(self) -> dict[Var, int]:
        """Bytes that are read of each array."""
        found: dict[Var, int] = {}
        for (_, v), places in self._places.items():
            count = min(elements(places), sum(places.values()), v.aval.size)
            found[v] = found.get(v, 0) + count * storage_dtype(v.aval).itemsize
        return found


def elements(places: Iterable[Index]) -> int:
    """How many elements lie at any of these places.

    >>> row = Index.axis(0, 100)
    >>> elements([row]), elements([row * 2]), elements([row, row.shifted(1)])
    (100, 100, 101)
    """
    # Places of several accesses overlap as far as the stretch that they lie in says.
    listed = list(places)
    if not listed:
        return 0
    span = max(i.largest for i in listed) - min(i.smallest for i in listed) + 1
    return min(sum(map(_distinct, listed)), span)


def _distinct(index: Index) -> int:
    """The number of values that an index takes."""
    lengths = _lengths(index)
    # Terms from the smallest step to the largest: one that steps over all values so far multiplies
    # them, another one fills what lies between.
    count, span = 1, 0
    for step, atom in sorted(((abs(k), a) for a, k in index.terms), key=lambda t: t[0]):
        many = atom.largest + 1
        if isinstance(atom, Lookup):
            many = min(many, math.prod(_lengths(Index(((atom, 1),))).values()))
        count = count * many if step > span else min(count * many, span + step * atom.largest + 1)
        span += step * atom.largest
    return min(count, math.prod(lengths.values()))


def _lengths(index: Index) -> dict[int, int]:
    """The axes that an index depends on, through lookups too, with their lengths."""
    found: dict[int, int] = {}
    waiting, seen = [index], set()
    while waiting:
        for atom in atoms(waiting.pop()):
            if isinstance(atom, Axis):
                found[atom.number] = atom.length
            elif isinstance(atom, Lookup) and atom.access not in seen:
                seen.add(atom.access)
                waiting += places_of(atom.access)
    return found
