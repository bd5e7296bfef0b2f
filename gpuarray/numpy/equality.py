"""Whether whole arrays are equal or close.

Floor 6. In: two array-likes (lists too). Out: one bool, as an Array.
"""

from __future__ import annotations

import numpy as np

from gpuarray.core import dtypes, lengths
from gpuarray.core.value import Array
from gpuarray.numpy.comparison import equal, logical_and, logical_or
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.floats import isclose, isnan
from gpuarray.numpy.reductions import all


@composite(static=("equal_nan",))
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan: bool = False) -> Array:
    """Whether all elements are close, as `isclose` says.

    Shape contract: shapes broadcast; the result has shape ().

    >>> import gpuarray.numpy as gnp
    >>> gnp.allclose(gnp.array([1.0, 2.0]), gnp.array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    return all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def array_equal(a1, a2, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and the same elements.

    Shape contract: any shapes; the result has shape ().

    >>> import gpuarray.numpy as gnp
    >>> gnp.array_equal(gnp.arange(3), gnp.array([0, 1, 2]))
    Array(True, dtype=bool)
    """
    a, b = asarray(a1), asarray(a2)
    # Other shapes are unequal, not an error.
    if a.shape != b.shape:
        return asarray(np.False_)
    same = equal(a, b)
    if equal_nan and all_can_be_nan(a, b):
        same = logical_or(same, logical_and(isnan(a), isnan(b)))
    return all(same)


def all_can_be_nan(*xs: Array) -> bool:
    """Whether the dtypes of all have a nan."""
    return {dtypes.kind_of(x.dtype) for x in xs} <= {"f", "c"}


def array_equiv(a1, a2) -> Array:
    """Whether two arrays are equal once they are broadcast against each other.

    Shape contract: any shapes; the result has shape (), False where they do not broadcast.

    >>> import gpuarray.numpy as gnp
    >>> gnp.array_equiv(gnp.array([[1, 2], [1, 2]]), gnp.array([1, 2]))
    Array(True, dtype=bool)
    """
    a, b = asarray(a1), asarray(a2)
    try:
        lengths.broadcast(a.shape, b.shape)
    except ValueError:
        return asarray(np.False_)
    return all(equal(a, b))
