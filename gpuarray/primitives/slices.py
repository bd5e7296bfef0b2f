"""Pieces of an axis whose length is fixed and whose start may be traced: `ds(start, size)`.

Floor 2. In: a start, a length, a step. Out: a Slice, for indexing an array or a reference where
`x[start:start + size]` is impossible: with a traced start the length would be unknown.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gpuarray.pytree.kinds import register_node


class Slice:
    """The `size` elements of an axis from `start` on, `stride` apart; the start may be traced.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> gnp.arange(6)[pl.Slice(1, 2, 3)]
    Array([1, 4], dtype=int32)
    """

    __slots__ = ("size", "start", "stride")
    __hash__ = None  # type: ignore[assignment]  # its start may be an array

    def __init__(self, start: Any, size: Any, stride: Any = 1):
        # An array stays one, known or not: where the slice begins is not a part of the program.
        self.start = int(start) if isinstance(start, (int, np.integer)) else start
        self.size = _known("size", size, 0)
        self.stride = _known("stride", stride, 1)

    @classmethod
    def from_slice(cls, slc: slice, size: int) -> Slice:
        """The Slice that a Python slice means on an axis of length `size`.

        >>> from gpuarray.experimental import pallas as pl
        >>> pl.Slice.from_slice(slice(0, 6, 2), 5)
        Slice(start=0, size=3, stride=2)
        """
        start, stop, step = slc.indices(size)
        if step < 1:
            raise ValueError(f"slice must have a step >= 1 (found: {step})")
        return cls(start, max((stop - start + step - 1) // step, 0), step)

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is an array: known only when the program runs."""
        return not isinstance(self.start, int)

    @property
    def is_dynamic_size(self) -> bool:
        """False: the length is always known."""
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        mine = self.start, self.size, self.stride
        return bool(mine == (other.start, other.size, other.stride))

    def __repr__(self) -> str:
        return f"Slice(start={self.start}, size={self.size}, stride={self.stride})"


def _known(name: str, x: Any, least: int) -> int:
    if hasattr(x, "_trace") or not hasattr(x, "__index__"):
        raise TypeError(
            f"The {name} of a slice must be an integer that is known while tracing, got {x!r}: the "
            "shape of the result follows from it. Take the longest one, and mask what is too much."
        )
    x = operator.index(x)
    if x < least:
        raise ValueError(f"The {name} of a slice must be at least {least}, got {x}.")
    return x


def ds(start: Any, size: Any = None, stride: Any = None) -> Any:
    """The piece of an axis from `start` on, of a fixed length; the start may be traced.

    ds(n) are the first n elements, ds(None) is the whole axis.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jit(lambda x, i: x[ga.ds(i, 2)])(gnp.arange(6), 3)
    Array([3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    return Slice(start, size, 1 if stride is None else stride)


def _flatten(s: Slice) -> tuple[tuple, Any]:
    if s.is_dynamic_start:
        return (s.start,), (None, s.size, s.stride)
    return (), (s.start, s.size, s.stride)


def _unflatten(data: Any, children: Any) -> Slice:
    made = object.__new__(Slice)
    start, made.size, made.stride = data
    made.start = children[0] if children else start
    return made


register_node(Slice, _flatten, _unflatten)
