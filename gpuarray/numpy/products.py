"""Products of arrays: dot, matmul, tensordot, inner, outer, kron, cross, and diagonals and traces.

Floor 6. In: arrays that promote to one dtype. Out: contractions as `dot_general` with that dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of, machine_int
from gpuarray.core.dims import Dim, larger, smaller
from gpuarray.core.layout import cuts_of, out_given
from gpuarray.core.value import Array
from gpuarray.functions.explicit import as_program, makes_terms
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.arithmetic import multiply
from gpuarray.numpy.axes import moveaxis, transpose
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.joining import stack
from gpuarray.numpy.operands import array, arrays, no_out, promoted
from gpuarray.numpy.promotion import check_arraylike, convert, value
from gpuarray.numpy.shapes import add_axes, broadcast_shapes, ravel, reshape, stretch
from gpuarray.primitives.sums import check_product
from gpuarray.runtime.transfer import placed
from gpuarray.util import canonical_axis


def factors(name: str, a, b, preferred) -> tuple[Array, Array, Any, bool]:
    """Two operands, the dtype asked of their product, whether that is weakly typed.

    The operands are promoted to one dtype, unless another is requested: then each keeps its own, so
    that precision is not lost in a type that neither the caller nor an operand named (float16 times
    uint32).
    """
    check_arraylike(name, a, b)
    a, b = value(a), value(b)
    if preferred is not None:
        kind = dtypes.check_user_dtype(preferred, name)
        own = ((x, promotion.lattice_result_type(x)[0]) for x in (a, b))
        a, b = (_with_rank(convert(x, dtype, False), dtype) for x, dtype in own)
        return a, b, kind, False
    # Weak only if both are.
    dtype, weak = promotion.lattice_result_type(a, b)
    a, b = (_with_rank(convert(x, dtype, False), dtype) for x in (a, b))
    return a, b, dtype, weak


def _with_rank(x, dtype) -> Array:
    """A bindable value that knows its shape: Python's scalars become NumPy's."""
    return x if hasattr(x, "ndim") else dtype.type(x)


def contract(a: Array, b: Array, dims, precision, dtype, weak: bool) -> Array:
    """`dot_general` with the result's dtype and weak type."""
    out = lax.dot_general(a, b, dims, precision=precision, preferred_element_type=dtype)
    return as_type(out, dtype, True) if weak else out


def dot(a, b, *, precision=None, preferred_element_type=None, out_sharding=None) -> Array:
    """The sum of products over the last axis of `a` and the last but one (or only) axis of `b`.

    (…, n) · (…, n, k) -> (…, …, k); a scalar multiplies everything.

    >>> import gpuarray.numpy as gnp
    >>> gnp.dot(gnp.arange(3), gnp.arange(3))
    Array(5, dtype=int32)
    """
    if makes_terms(out_sharding):
        options = {"precision": precision, "preferred_element_type": preferred_element_type}
        return as_program(dot, a, b, out_sharding=out_sharding, **options)
    a, b, dtype, weak = factors("dot", a, b, preferred_element_type)
    # NumPy's dot: with a scalar a product, else the last axis with the last but one.
    if a.ndim == 0 or b.ndim == 0:
        dims = ((), ())
    else:
        dims = ((a.ndim - 1,), (max(b.ndim - 2, 0),))
    check_product(aval_of(a), aval_of(b), dims, out_sharding)
    with out_given(out_sharding):
        out = contract(a, b, (dims, ((), ())), precision, dtype, weak)
    return out if out_sharding is None else placed("dot", out, out_sharding)


def matmul(a, b, *, precision=None, preferred_element_type=None, out_sharding=None) -> Array:
    """The matrix product: (…, m, n) @ (…, n, k) -> (…, m, k), leading axes broadcasting; (n,)
    arrays are vectors.

    >>> import gpuarray.numpy as gnp
    >>> gnp.matmul(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))  # or with @
    Array([3, 7], dtype=int32)
    """
    if makes_terms(out_sharding):
        options = {"precision": precision, "preferred_element_type": preferred_element_type}
        return as_program(matmul, a, b, out_sharding=out_sharding, **options)
    a, b, dtype, weak = factors("matmul", a, b, preferred_element_type)
    for i, x in enumerate((a, b)):
        if x.ndim < 1:
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim {x.ndim}. "
                "Use * for scalars."
            )
    # A vector is one axis, a matrix two; all before them are batch axes that broadcast.
    with out_given(out_sharding):
        out = batched_dot(
            a, min(a.ndim, 2), min(a.ndim, 2) - 1, b, min(b.ndim, 2), 0, precision, dtype, weak
        )
    return out if out_sharding is None else placed("matmul", out, out_sharding)


def batched_dot(
    a: Array,
    a_core: int,
    a_over: int,
    b: Array,
    b_core: int,
    b_over: int,
    precision,
    dtype,
    weak: bool,
) -> Array:
    """Contract one of the last (core) axes of each operand; axes before them are batch axes and
    broadcast.

    The result has the batch axes, then the rest of `a`'s core, then the rest of `b`'s.
    """
    a_batch, b_batch = a.shape[: a.ndim - a_core], b.shape[: b.ndim - b_core]
    # The usual case: no axes to align.
    if not a_batch and not b_batch:
        return contract(a, b, (((a_over,), (b_over,)), ((), ())), precision, dtype, weak)
    rank = len(broadcast_shapes(a_batch, b_batch))
    # Where a batch axis is of length 1 (or missing) on one side only, it is an axis of the other
    # side alone.
    a_axes, b_axes = _owned(a_batch, b_batch, rank), _owned(b_batch, a_batch, rank)
    a, b = _without_stretched(a, a_axes), _without_stretched(b, b_axes)
    a_kept, b_kept = [i for i in a_axes if i is not None], [i for i in b_axes if i is not None]
    shared = [i for i in a_kept if i in b_kept]
    dims = (
        ((len(a_kept) + a_over,), (len(b_kept) + b_over,)),
        (tuple(a_kept.index(i) for i in shared), tuple(b_kept.index(i) for i in shared)),
    )
    out = contract(a, b, dims, precision, dtype, weak)
    # The result of dot_general: shared batch, rest of a, rest of b. Batch axes are named by their
    # number.
    a_rest, b_rest = [f"a{i}" for i in range(a_core - 1)], [f"b{i}" for i in range(b_core - 1)]
    given = [
        *shared,
        *(i for i in a_kept if i not in shared),
        *a_rest,
        *(i for i in b_kept if i not in shared),
        *b_rest,
    ]
    wanted = [*range(rank), *a_rest, *b_rest]
    return transpose(out, [given.index(name) for name in wanted])


def _owned(mine: tuple[int, ...], other: tuple[int, ...], rank: int) -> list[int | None]:
    """For each batch axis of an operand, its number in the result; None for one that is
    broadcast.
    """
    out: list[int | None] = []
    for k, n in enumerate(mine):
        # Aligned at the last axes: this axis's number in the result, and in the other's batch.
        number = rank - len(mine) + k
        j = number - (rank - len(other))
        out.append(None if n == 1 and j >= 0 and other[j] != 1 else number)
    return out


def _without_stretched(x: Array, axes: list[int | None]) -> Array:
    drop = tuple(k for k, i in enumerate(axes) if i is None)
    return lax.squeeze(x, drop) if drop else x


@check_ranks(x1=2, x2=1)
def matvec(x1, x2, /) -> Array:
    """Matrices times vectors: (…, m, n), (…, n) -> (…, m), leading axes broadcasting.

    >>> import gpuarray.numpy as gnp
    >>> gnp.matvec(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    a, b, dtype, weak = factors("matvec", x1, x2, None)
    _need_axes("matvec", a, 2, "matrix")
    _need_axes("matvec", b, 1, "vector")
    _same_length("matvec", a, -1, b, -1)
    return batched_dot(a, 2, 1, b, 1, 0, None, dtype, weak)


@check_ranks(x1=1, x2=2)
def vecmat(x1, x2, /) -> Array:
    """Conjugated vectors times matrices: (…, n), (…, n, m) -> (…, m), leading axes broadcasting.

    >>> import gpuarray.numpy as gnp
    >>> gnp.vecmat(gnp.array([1, 1]), gnp.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int32)
    """
    a, b, dtype, weak = factors("vecmat", x1, x2, None)
    _need_axes("vecmat", a, 1, "vector")
    _need_axes("vecmat", b, 2, "matrix")
    _same_length("vecmat", a, -1, b, -2)
    # The array API's vecmat conjugates the vector.
    return batched_dot(_conj(a), 1, 0, b, 2, 0, None, dtype, weak)


def _need_axes(name: str, x: Array, count: int, what: str) -> None:
    if x.ndim < count:
        raise ValueError(
            f"{name}: input with shape {x.shape} does not have enough dimensions for a {what}"
        )


def _same_length(name: str, a: Array, i: int, b: Array, j: int) -> None:
    if a.shape[i] != b.shape[j]:
        raise ValueError(
            f"{name}: inconsistent size for the dimension that is summed over: {a.shape[i]} vs "
            f"{b.shape[j]} for inputs with shapes {a.shape} and {b.shape}"
        )


def _conj(x: Array) -> Array:
    return lax.conj(x) if dtypes.kind_of(x.dtype) == "c" else x


@check_ranks(x1=1, x2=1)
def vecdot(x1, x2, /, *, axis: int = -1, precision=None, preferred_element_type=None) -> Array:
    """The sum of products of the conjugate of `x1` with `x2` along an axis, the others
    broadcasting.

    >>> import gpuarray.numpy as gnp
    >>> gnp.vecdot(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    a, b, dtype, weak = factors("vecdot", x1, x2, preferred_element_type)
    _need_axes("vecdot", a, 1, "vector")
    _need_axes("vecdot", b, 1, "vector")
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"axes must match; got shapes {np.shape(x1)} and {np.shape(x2)} with {axis=}"
        )
    return batched_dot(_conj(a), 1, 0, b, 1, 0, precision, dtype, weak)


def vdot(a, b, *, precision=None, preferred_element_type=None) -> Array:
    """The sum of products of all elements of the conjugate of `a` with those of `b`: a scalar.

    >>> import gpuarray.numpy as gnp
    >>> gnp.vdot(gnp.array([1j]), gnp.array([1j]))
    Array(1.+0.j, dtype=complex64)
    """
    a, b = arrays("vdot", a, b)
    return dot(
        ravel(_conj(a)),
        ravel(b),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def inner(a, b, *, precision=None, preferred_element_type=None) -> Array:
    """The sum of products over the last axes of both: (…, n), (…, n) -> (…, …).

    >>> import gpuarray.numpy as gnp
    >>> gnp.inner(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    a, b, dtype, weak = factors("inner", a, b, preferred_element_type)
    over = ((), ()) if a.ndim == 0 or b.ndim == 0 else ((a.ndim - 1,), (b.ndim - 1,))
    return contract(a, b, (over, ((), ())), precision, dtype, weak)


def outer(a, b, out=None) -> Array:
    """All products of elements of two flattened arrays: (m,), (n,) -> (m, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.outer(gnp.arange(2), gnp.arange(3))
    Array([[0, 0, 0],
           [0, 1, 2]], dtype=int32)
    """
    no_out("outer", out)
    a, b = promoted("outer", a, b)
    # A broadcast product: one pass, and no contraction is needed.
    return multiply(add_axes(ravel(a), (1,)), add_axes(ravel(b), (0,)))


def tensordot(
    a, b, axes: Any = 2, *, precision=None, preferred_element_type=None, out_sharding=None
) -> Array:
    """The sum of products over several axes of both.

    Parameters
    ----------
    axes :
        How many (the last of `a`, the first of `b`), or two lists of axes that go together.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.tensordot(gnp.ones((2, 3)), gnp.ones((3, 4)), 1).shape
    (2, 4)
    """
    a, b, dtype, weak = factors("tensordot", a, b, preferred_element_type)
    left, right = _tensordot_axes(axes, a, b)
    with out_given(out_sharding):
        out = contract(a, b, ((left, right), ((), ())), precision, dtype, weak)
    return out if out_sharding is None else placed("tensordot", out, out_sharding)


def _tensordot_axes(axes, a: Array, b: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (int, np.integer)):
        if axes > min(a.ndim, b.ndim):
            raise TypeError(
                f"Number of tensordot axes (axes {axes}) exceeds input ranks ({a.shape} and "
                f"{b.shape})"
            )
        return tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    if isinstance(axes, (tuple, list)) and len(axes) == 2:
        first, second = axes
        if isinstance(first, (int, np.integer)) and isinstance(second, (int, np.integer)):
            return (canonical_axis(first, a.ndim),), (canonical_axis(second, b.ndim),)
        if isinstance(first, (tuple, list)) and isinstance(second, (tuple, list)):
            if len(first) != len(second):
                raise TypeError(
                    f"tensordot requires axes lists to have equal length, got {first} and {second}."
                )
            return (
                tuple(canonical_axis(i, a.ndim) for i in first),
                tuple(canonical_axis(i, b.ndim) for i in second),
            )
        raise TypeError(
            "tensordot requires both axes lists to be either ints, tuples or lists; got "
            f"axes={first!r} and {second!r}."
        )
    raise TypeError(
        "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints."
    )


def kron(a, b) -> Array:
    """The Kronecker product: every element of `a` times all of `b`, laid out as a grid of blocks.

    >>> import gpuarray.numpy as gnp
    >>> gnp.kron(gnp.array([1, 10]), gnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    a, b = promoted("kron", a, b)
    # [a0, 1, a1, 1, ...] * [1, b0, 1, b1, ...], then each pair of axes becomes one.
    rank = max(a.ndim, b.ndim)
    a = add_axes(a, range(rank - a.ndim)) if a.ndim < rank else a
    b = add_axes(b, range(rank - b.ndim)) if b.ndim < rank else b
    blocks = multiply(add_axes(a, range(1, 2 * rank, 2)), add_axes(b, range(0, 2 * rank, 2)))
    return reshape(blocks, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


def cross(
    a, b, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of length 3; vectors of length 2 are in the plane, and two of
    them give a scalar.

    >>> import gpuarray.numpy as gnp
    >>> gnp.cross(gnp.array([1, 0, 0]), gnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promoted("cross", a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    batch = broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = stretch(a, (*batch, a.shape[-1])), stretch(b, (*batch, b.shape[-1]))
    # Vectors of two components have the third one zero.
    x, y, *z = (a[..., i] for i in range(a.shape[-1]))
    u, v, *w = (b[..., i] for i in range(b.shape[-1]))
    # The third component; of two plane vectors it is the result.
    last = x * v - y * u
    if not z and not w:
        return last
    if not z:
        parts = (y * w[0], -(x * w[0]), last)
    elif not w:
        parts = (-(z[0] * v), z[0] * u, last)
    else:
        parts = (y * w[0] - z[0] * v, z[0] * u - x * w[0], last)
    return moveaxis(stack(parts, axis=-1), -1, axisc)


def diagonal(a, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of the plane of two axes, as a last axis: (m, n, …) -> (…, k).

    >>> import gpuarray.numpy as gnp
    >>> gnp.diagonal(gnp.arange(6).reshape(2, 3), offset=1)
    Array([1, 5], dtype=int32)
    """
    a = array("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    first, second = canonical_axis(axis1, a.ndim), canonical_axis(axis2, a.ndim)
    if first == second:
        raise TypeError(
            f"diagonal: axis1 and axis2 cannot be the same axis, got {axis1} and {axis2}: a plane "
            "has two"
        )
    a = moveaxis(a, (first, second), (-2, -1))
    m, n = a.shape[-2:]
    # The flat position of the diagonal's first element.
    offset = int(machine_int(offset))
    begin = offset if offset >= 0 else -offset * n
    count: Any = larger(0, smaller(m, n - offset) if offset >= 0 else smaller(m + offset, n))
    lead = a.shape[:-2]
    # The diagonal is outside the matrix.
    if count == 0:
        return lax.slice(reshape(a, (*lead, m * n)), (0,) * (a.ndim - 1), (*lead, 0))
    if isinstance(count, Dim):
        place = lax.iota(np.int32, count)  # pyright: ignore[reportArgumentType]
        return getitem(a, (..., place + max(-offset, 0), place + max(offset, 0)))
    # In row-major order neighbours on a diagonal are one row and one column apart.
    flat = reshape(a, (*lead, m * n))
    ends = (*lead, begin + (count - 1) * (n + 1) + 1)
    return lax.slice(flat, (0,) * len(lead) + (begin,), ends, (1,) * len(lead) + (n + 1,))


def trace(a, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype=None, out=None) -> Array:
    """The sum along the diagonal of the plane of two axes.

    >>> import gpuarray.numpy as gnp
    >>> gnp.trace(gnp.eye(3))
    Array(3., dtype=float32)
    """
    no_out("trace", out)
    a = array("trace", a)
    first, second = canonical_axis(axis1, a.ndim), canonical_axis(axis2, a.ndim)
    if first == second:
        raise ValueError(f"trace: axis1 and axis2 can not be same, got {axis1=} and {axis2=}.")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "trace")
    # If types say that the plane is sharded, every device sums its part of the diagonal.
    cuts = cuts_of(aval_of(a).layout)
    if cuts is not None and (cuts[first] or cuts[second]):
        rows, columns = (lax.broadcasted_iota(np.int32, a.shape, d) for d in (first, second))
        on_it = lax.eq(rows + int(machine_int(offset)), columns)
        return lax.select(on_it, a, lax.full_like(a, 0)).sum((first, second), dtype=wanted)
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype=wanted)
