"""Values joined along a cut axis: their pieces change devices, and the result stays cut.

Floor 3. In: a concatenation of values with even pieces. Out: the piece of the result.

Pieces of the operands, and of the result, consist of units of one length. A device needs `each`
consecutive units of the operands, counted through all of them. The device's unit number `j` comes
from one position in an operand's pieces: units that several devices receive from the same position
are one exchange.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn
from gpuarray.primitives.axes import along
from gpuarray.primitives.define import do
from gpuarray.transforms.partition.moves import position
from gpuarray.transforms.partition.pieces import Piece
from gpuarray.transforms.partition.windows import WindowedEquation, like
from gpuarray.util import prod

#: The most units in a device's piece of the result. Exchanges are as many as its square at most:
#: with more of them a gather has less to wait for.
_MOST_UNITS = 4


def joined(eqn: Eqn, pieces: Sequence[Piece], splitter: Any) -> list[Piece] | None:
    """Return the result of a concatenation along a sharded axis; None: gather the operands."""
    if eqn.primitive.name != "concatenate" or any(p.frame for p in pieces):
        return None
    axis = eqn.params["dimension"]
    cut = next((p for p in pieces if p.spec[axis]), None)
    return None if cut is None else _Joining(eqn, pieces, splitter, cut, axis).results()


class _Joining(WindowedEquation):
    """One concatenation of pieces."""

    def __init__(self, eqn: Eqn, pieces: Sequence[Piece], splitter: Any, cut: Piece, axis: int):
        super().__init__(eqn, pieces, splitter)
        self.axis = axis
        self.spec = cut.spec
        self.names = cut.spec[axis]
        self.count = prod(self.sizes[n] for n in self.names)

    def results(self) -> list[Piece] | None:
        axis = self.axis
        lengths = [a.shape[axis] for a in self.avals]
        if any(n % self.count for n in lengths) or not any(lengths):
            return None
        self.unit = math.gcd(*lengths) // self.count
        self.each = sum(lengths) // self.count // self.unit
        if self.each > _MOST_UNITS:
            return None
        # 1. Along other axes all are sharded alike. Operands that are whole along this one stay so:
        # each device takes its units of them.
        why = "concatenate joins pieces along a cut axis"
        whole = (*self.spec[:axis], (), *self.spec[axis + 1 :])
        values = [
            self.splitter.to(p, self.spec if p.spec[axis] else whole, a, why).value
            for p, a in zip(self.pieces, self.avals, strict=True)
        ]
        # 2. The units of this device's piece, one after the other.
        first = do.mul(position(self.names, self.sizes), np.int32(self.each))
        parts = [self.part_of(values, j, do.add(first, np.int32(j))) for j in range(self.each)]
        x = parts[0] if self.each == 1 else do.concatenate(*parts, dimension=axis)
        return [Piece(x, self.spec)]

    def part_of(self, values: Sequence[Any], j: int, number: Any) -> Any:
        """Return a device's unit `j`, which is `number` of all operands'."""
        part, begin = None, 0
        for x, piece, aval in zip(values, self.pieces, self.avals, strict=True):
            units = aval.shape[self.axis] // self.unit
            here = do.sub(number, np.int32(begin))
            found = self.sent(x, begin, j) if piece.spec[self.axis] else self.taken(x, here)
            # A later one is chosen where the unit is in this operand, or behind it.
            for place, got in found if units else ():
                inside = do.ge(here, np.int32(0))
                if place is not None:
                    own = do.rem(here, np.int32(units // self.count))
                    inside = do.and_(inside, do.eq(own, np.int32(place)))
                part = got if part is None else do.select_n(like(inside, got), part, got)
            begin += units
        return part

    def sent(self, x: Any, begin: int, j: int) -> Iterator[tuple[int | None, Any]]:
        """Return the unit `j` that devices receive of a sharded operand, by its position in a
        piece.
        """
        places = aval_of(x).shape[self.axis] // self.unit
        for u in range(places):
            numbers = [(source, begin + source * places + u) for source in range(self.count)]
            pairs = tuple((s, n // self.each) for s, n in numbers if n % self.each == j)
            if pairs:
                unit = along(x, self.axis, u * self.unit, (u + 1) * self.unit)
                yield u if places > 1 else None, self.passed(unit, self.names, pairs)

    def taken(self, x: Any, here: Any) -> Iterator[tuple[None, Any]]:
        """Return a device's unit of an operand that it has all of."""
        shape = list(aval_of(x).shape)
        starts: list[Any] = [np.int32(0)] * len(shape)
        last = np.int32(shape[self.axis] - self.unit)
        starts[self.axis] = do.min(do.max(do.mul(here, np.int32(self.unit)), np.int32(0)), last)
        shape[self.axis] = self.unit
        yield None, do.dynamic_slice(x, *starts, slice_sizes=tuple(shape))
