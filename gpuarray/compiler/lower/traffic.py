"""How many bytes a kernel moves, counted from the places that its text reads and writes.

Floor 3. In: the positions of accesses, pass by pass, as writers note them. Out: `Traffic`.

An address counts once in each pass over the data, however many threads read it: caches serve
neighbours. Reads of a later pass count again, since a row or an array may have left the caches by
then. A lookup in memory counts at most as many addresses as there are lookups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpuarray.core.element import Lookup, atoms, places_of
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Axis, Index, axes_of
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Traffic(Struct):
    """Bytes that a kernel moves.

    Attributes
    ----------
    read, written :
        Bytes of each array that are read and written.
    partial :
        Bytes of partial results that blocks leave for one another, written and read.
    once :
        Bytes of all arrays if each place that is read were read in one pass.
    passes :
        The bytes that each pass reads, and how many of them a thread requests before it waits.
    accesses :
        How many loads and stores threads make, in vectors or single elements.
    """

    read: dict[Var, int] = {}
    written: dict[Var, int] = {}
    partial: int = 0
    once: int = 0
    passes: tuple[tuple[int, int], ...] = ()
    accesses: int = 0

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

    @property
    def least(self) -> int:
        """The minimum of bytes that have to be moved."""
        return self.once + sum(self.written.values())


def each_once(inputs: Iterable[Var], outputs: Iterable[Var]) -> Traffic:
    """The traffic of a kernel that reads and writes each array once, all of it."""
    read, written = ({v: v.aval.nbytes for v in of} for of in (inputs, outputs))
    return Traffic(read, written, once=sum(read.values()))


class _Access(Struct):
    """How many times threads read at an index at most, and how many elements at a time."""

    most: int
    width: int


class PlacesRead:
    """The places that the text of a kernel reads, noted while it is written.

    `most` limits how many elements a pass reads of each array; 0: nothing is recorded.
    """

    def __init__(self) -> None:
        self.most: int | None = None
        # axes of loops of which this many iterations are unrolled
        self.in_turns: dict[int, int] = {}
        self._ahead = [1]  # of each pass, how many iterations of its loop are in flight together
        self._places: dict[tuple[int, Var], dict[Index, _Access]] = {}

    def begin(self, ahead: int = 1) -> None:
        """Begin another pass over the data: a loop with `ahead` unrolled iterations."""
        self._ahead.append(0)
        self.unrolled(ahead)

    def unrolled(self, turns: int) -> None:
        """Record that `turns` iterations of a loop of this pass are unrolled."""
        self._ahead[-1] = max(1, self._ahead[-1], turns)

    def note(self, source: Var, index: Index, most: int | None = None, width: int = 1) -> None:
        """Note that elements at `index` are read, `width` at a time, `most` of them at most."""
        if self.most == 0:
            return
        # None means no limit; a pass reads each element of the array at most once.
        limits = (source.aval.size, self.most, most)
        places = self._places.setdefault((len(self._ahead) - 1, source), {})
        places[index] = _Access(min(n for n in limits if n is not None), width)

    def in_runs(self) -> set[Var]:
        """The arrays of which a thread reads neighbours one by one: elements of a short loop."""
        found: set[Var] = set()
        for (_, v), places in self._places.items():
            for index, access in places.items():
                # Axes of loops have negative numbers. Such a run begins at an even place.
                odd = {a: k for a, k in index.terms if k % 2}
                along = len(odd) == 1 and any(
                    k == 1 and a.number < 0 and 1 < a.length <= TARGET.written_out
                    for a, k in odd.items()
                    if isinstance(a, Axis)
                )
                if access.width == 1 and along:
                    found.add(v)
        return found

    def read(self) -> dict[Var, int]:
        """Bytes that are read of each array."""
        found: dict[Var, int] = {}
        for (_, v), places in self._places.items():
            found[v] = found.get(v, 0) + _bytes(v, places)
        return found

    def traffic(
        self, written: dict[Var, int], partial: int, width: int, last: int | None
    ) -> Traffic:
        """The traffic of a kernel whose threads compute `width` neighbours along the axis
        `last`.
        """
        # The traffic and requests of each pass; over all passes each address once, which is the
        # minimum.
        together: dict[Var, dict[Index, _Access]] = {}
        moved, under_way = [0] * len(self._ahead), [0] * len(self._ahead)
        accesses = 0
        for (number, v), places in self._places.items():
            size = storage_dtype(v.aval).itemsize
            known = together.setdefault(v, {})
            for index, access in places.items():
                if index not in known or known[index].most < access.most:
                    known[index] = access
            moved[number] += _bytes(v, places)
            for index, access in places.items():
                # Values that vary along a vector are read by each of its elements.
                many = width if last is None or last in axes_of(index) else 1
                # The iterations of a short loop are unrolled, and read together.
                loops = (x for x in _lengths(index).items() if x[0] < 0)
                turns = math.prod(self.in_turns.get(axis, n) for axis, n in loops)
                many *= turns if turns <= TARGET.written_out else 1
                under_way[number] += size * max(access.width, many) * self._ahead[number]
                accesses += min(_distinct(index), access.most) // access.width
        sizes = {v: storage_dtype(v.aval).itemsize for v in written}
        accesses += sum(n // (sizes[v] * width) for v, n in written.items())
        passes = ((n, ahead) for n, ahead in zip(moved, under_way, strict=True) if n)
        once = sum(_bytes(v, places) for v, places in together.items())
        return Traffic(self.read(), written, partial, once, tuple(passes), accesses)


def _bytes(v: Var, places: dict[Index, _Access]) -> int:
    """Bytes of an array that are read at some of these places."""
    count = min(elements(places), sum(a.most for a in places.values()), v.aval.size)
    return count * storage_dtype(v.aval).itemsize


def elements(places: Iterable[Index]) -> int:
    """The number of elements at any of these places.

    >>> row = Index.axis(0, 100)
    >>> elements([row]), elements([row * 2]), elements([row, row.shifted(1)])
    (100, 100, 101)
    """
    # Places of several accesses are assumed to overlap if they are in the same range.
    listed = list(places)
    if not listed:
        return 0
    span = max(i.largest for i in listed) - min(i.smallest for i in listed) + 1
    return min(sum(map(_distinct, listed)), span)


def _distinct(index: Index) -> int:
    """The number of values that an index takes."""
    lengths = _lengths(index)
    # Terms in order of increasing stride: one that exceeds the span of all previous ones multiplies
    # the number, another one fills the gaps.
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
