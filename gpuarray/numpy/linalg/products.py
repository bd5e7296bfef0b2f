"""Products, diagonals and transposes under the names and signatures they have in `linalg`.

Floor 6. In: matrices and vectors. Out: the results of the functions of the same name in
gpuarray.numpy.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.value import Array
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy import products
from gpuarray.numpy.axes import matrix_transpose as _matrix_transpose
from gpuarray.numpy.operands import array, arrays
from gpuarray.util import canonical_axis


def matmul(x1, x2, /, *, precision=None, preferred_element_type=None) -> Array:
    """The matrix product: (…, m, n) @ (…, n, k) -> (…, m, k).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.matmul(gnp.array([[1, 2]]), gnp.array([[3], [4]]))
    Array([[11]], dtype=int32)
    """
    return products.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


@check_ranks(x1=1, x2=1)
def vecdot(x1, x2, /, *, axis: int = -1, precision=None, preferred_element_type=None) -> Array:
    """The sum of products of the conjugate of `x1` with `x2` along an axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.vecdot(gnp.array([1, 2]), gnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    return products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1, x2, /, *, axes: Any = 2, precision=None, preferred_element_type=None, out_sharding=None
) -> Array:
    """The sum of products over several axes of both.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.tensordot(gnp.ones((2, 3)), gnp.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    return products.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def outer(x1, x2, /) -> Array:
    """All products of elements of two vectors: (m,), (n,) -> (m, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.outer(gnp.array([1, 2]), gnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x1, x2 = arrays("jnp.linalg.outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are {x1.ndim=} {x2.ndim=}"
        )
    return products.outer(x1, x2)


def cross(x1, x2, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of length 3 along an axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.cross(gnp.array([1, 0, 0]), gnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = arrays("jnp.linalg.cross", x1, x2)
    lengths = [x.shape[canonical_axis(axis, x.ndim)] for x in (x1, x2)]
    if lengths != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but along axis "
            f"{axis} they have lengths {lengths}"
        )
    return products.cross(x1, x2, axis=axis)


def diagonal(x, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices: (…, m, n) -> (…, k).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.diagonal(gnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return products.diagonal(array("jnp.linalg.diagonal", x), offset, -2, -1)


def trace(x, /, *, offset: int = 0, dtype=None) -> Array:
    """The sums along the diagonals of matrices: (…, m, n) -> (…).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.trace(gnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return products.trace(array("jnp.linalg.trace", x), offset, -2, -1, dtype)


def matrix_transpose(x, /) -> Array:
    """The last two axes swapped: (…, m, n) -> (…, n, m).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.matrix_transpose(gnp.zeros((2, 3))).shape
    (3, 2)
    """
    return _matrix_transpose(array("jnp.linalg.matrix_transpose", x))
