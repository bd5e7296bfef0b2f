"""Objects that are indexed: `s_` and `index_exp`, which keep an index, `r_` and `c_`, which join.

Floor 6. In: an index. Out: that index, or an array made from it.
"""

from __future__ import annotations

from gpuarray.core.value import Array
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.creation import sliced
from gpuarray.numpy.joining import concatenate
from gpuarray.numpy.shapes import add_axes, atleast_1d


class IndexExpression:
    """Gives back the index it is indexed with."""

    def __init__(self, maketuple: bool):
        self._maketuple = maketuple

    def __getitem__(self, index):
        return (index,) if self._maketuple and not isinstance(index, tuple) else index


#: `s_[1:3, ...]` is the index itself, to keep and use later.
s_ = IndexExpression(False)
#: As `s_`, but always a tuple.
index_exp = IndexExpression(True)


class _Concatenator:
    """`r_` and `c_`: join the entries of an index; slices are ranges, a first string is the
    axis.
    """

    # Defaults changed by a string such as "0,2,1", as in NumPy: the axis to join along, the least
    # number of axes, and where the axes of a smaller array go.
    name = "r_"
    axis = 0
    ndmin = 1
    trans1d = -1

    def __getitem__(self, key) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        axis, ndmin, trans1d, matrix = self.axis, self.ndmin, self.trans1d, ""
        # r_["axis,ndmin,trans1d", ...], or "r" and "c", for which NumPy makes a matrix.
        if isinstance(keys[0], str):
            if keys[0] in ("r", "c"):
                matrix, keys = keys[0], keys[1:]
            else:
                try:
                    numbers = [int(n) for n in keys[0].split(",")]
                except ValueError:
                    raise ValueError(
                        f"could not understand directive {keys[0]!r}: give 'axis,ndmin,trans1d' "
                        "as numbers, or 'r' or 'c'"
                    ) from None
                axis = numbers[0]
                ndmin = numbers[1] if len(numbers) > 1 else ndmin
                trans1d = numbers[2] if len(numbers) > 2 else trans1d
                keys = keys[1:]
        parts = []
        for item in keys:
            if isinstance(item, str):
                raise ValueError("string directive must be placed at the beginning")
            made = sliced(item, self.name) if isinstance(item, slice) else asarray(item)
            rank = made.ndim
            if rank < ndmin:
                made = add_axes(atleast_1d(made), range(ndmin - max(rank, 1)))
                if rank and trans1d != -1:
                    # The given axes go to where trans1d says; new ones fill the rest.
                    made = moveaxis(
                        made, range_of(ndmin, rank), range_of_from(trans1d, rank, ndmin)
                    )
            parts.append(made)
        if matrix:
            joined = concatenate([atleast_1d(p) for p in parts], axis=-1)
            # NumPy makes a row or a column of a vector here.
            return add_axes(joined, (0,) if matrix == "r" else (1,)) if joined.ndim == 1 else joined
        return concatenate(parts, axis=axis)


def range_of(ndmin: int, rank: int) -> list[int]:
    """The last `rank` axes of `ndmin`."""
    return list(range(ndmin - rank, ndmin))


def range_of_from(start: int, rank: int, ndmin: int) -> list[int]:
    """`rank` axes from `start` on; negative starts count from the end."""
    # -1 is the last start at which all the axes still fit.
    first = start + ndmin - rank + 1 if start < 0 else start
    return list(range(first, first + rank))


class RClass(_Concatenator):
    """Joins along the first axis: `r_[1, 2, 3:5]`, `r_[0:1:5j]`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.r_[0, gnp.array([5, 6]), 1:3]
    Array([0, 5, 6, 1, 2], dtype=int32)
    """


class CClass(_Concatenator):
    """Joins as columns: `c_[a, b]`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.c_[gnp.array([1, 2]), gnp.array([3, 4])]
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    # Vectors become columns, which are joined side by side.
    name = "c_"
    axis = -1
    ndmin = 2
    trans1d = 0


r_ = RClass()
c_ = CClass()
