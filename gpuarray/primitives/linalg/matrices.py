"""Building blocks of derivatives of matrix functions: products, triangles, solutions.

Floor 2. In: stacks of matrices (the last two axes) with the same leading axes. Out: the same, made
of primitives. Products have the highest precision, because a factorisation's derivative divides
errors by small gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import registry
from gpuarray.primitives.axes import add_axis, with_axis
from gpuarray.primitives.contract.precision import Precision
from gpuarray.primitives.define import do
from gpuarray.primitives.indexing.shapes import GatherDimensionNumbers, GatherScatterMode
from gpuarray.primitives.linear import full_like


def product(x: Any, y: Any) -> Any:
    """Matrix product of two stacks."""
    rank = aval_of(x).ndim
    stack = tuple(range(rank - 2))
    # Leading axes pair up; columns of x are summed with rows of y.
    return do.dot_general(
        x,
        y,
        dimension_numbers=(((rank - 1,), (rank - 2,)), (stack, stack)),
        precision=(Precision.HIGHEST, Precision.HIGHEST),
        preferred_element_type=None,
        out_sharding=None,
    )


def transposed(x: Any) -> Any:
    """Swap rows and columns."""
    rank = aval_of(x).ndim
    return do.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def is_complex(x: Any) -> bool:
    return dtypes.kind_of(aval_of(x).dtype) == "c"


def conjugate(x: Any) -> Any:
    """Complex conjugate; real values are returned unchanged."""
    return do.conj(x, input_dtype=aval_of(x).dtype) if is_complex(x) else x


def adjoint(x: Any) -> Any:
    """Conjugate transpose."""
    return conjugate(transposed(x))


def real(x: Any) -> Any:
    """Real part; real values are returned unchanged."""
    return do.real(x) if is_complex(x) else x


def in_dtype_of(x: Any, like: Any) -> Any:
    """Convert a boolean or real value to the dtype of `like`, which may be complex."""
    dtype = aval_of(like).dtype
    if aval_of(x).dtype == dtype:
        return x
    return do.convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


def scaled(x: Any, number: float) -> Any:
    return do.mul(x, aval_of(x).dtype.type(number))


def column(v: Any) -> Any:
    """View vectors as matrices of one column."""
    return add_axis(v, aval_of(v).ndim)


def row(v: Any) -> Any:
    """View vectors as matrices of one row."""
    return add_axis(v, aval_of(v).ndim - 1)


# ---- parts of a matrix ----


def _row_and_column(x: Any, offset: int = 0) -> tuple[Any, Any]:
    """Return row and column numbers of one matrix; rows count from `offset`."""
    # Indices of one matrix broadcast to the whole stack.
    shape = aval_of(x).shape[-2:]
    made = {"dtype": np.dtype(np.int32), "shape": shape, "sharding": None}
    rows = do.add(do.iota(dimension=0, **made), np.int32(offset))
    return rows, do.iota(dimension=1, **made)


def _chosen(mask: Any, x: Any, otherwise: Any) -> Any:
    """Return `x` where the mask of one matrix is true, else `otherwise`."""
    aval = aval_of(x)
    # The mask is the same for all matrices of the stack.
    if aval.ndim > 2:
        dims = (aval.ndim - 2, aval.ndim - 1)
        mask = do.broadcast_in_dim(mask, shape=aval.shape, broadcast_dimensions=dims, sharding=None)
    return do.select_n(mask, otherwise, x)


def lower(x: Any, offset: int = 0) -> Any:
    """Keep entries on and below a diagonal; others are zero."""
    # On and below: the row number is at least the column number.
    return _chosen(do.ge(*_row_and_column(x, offset)), x, full_like(x, 0))


def upper(x: Any, offset: int = 0) -> Any:
    """Keep entries on and above a diagonal; others are zero."""
    return _chosen(do.le(*_row_and_column(x, offset)), x, full_like(x, 0))


def on_diagonal(x: Any) -> Any:
    """Keep entries on the diagonal; others are zero."""
    return _chosen(do.eq(*_row_and_column(x)), x, full_like(x, 0))


def with_ones(x: Any, start: int = 0) -> Any:
    """Put ones on the diagonal, from row `start` on."""
    rows, columns = _row_and_column(x)
    mask = do.and_(do.eq(rows, columns), do.ge(rows, np.int32(start)))
    return _chosen(mask, full_like(x, 1), x)


def diagonal(x: Any) -> Any:
    """Return the diagonals of square matrices as vectors."""
    # A masked sum fuses into a kernel, where a gather would read through indices.
    return do.reduce_sum(on_diagonal(x), axes=(aval_of(x).ndim - 1,), out_sharding=None)


def identity_like(x: Any) -> Any:
    """Return identity matrices like `x`, with stack axes of length 1."""
    aval = aval_of(x)
    # One identity, broadcast over the stack where it is used.
    eye = in_dtype_of(do.eq(*_row_and_column(x)), x)
    if aval.ndim == 2:
        return eye
    shape = (*(1 for _ in aval.shape[:-2]), *aval.shape[-2:])
    dims = (aval.ndim - 2, aval.ndim - 1)
    return do.broadcast_in_dim(eye, shape=shape, broadcast_dimensions=dims, sharding=None)


def part(x: Any, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None):
    """Return rows and columns from start to stop of every matrix."""
    shape = aval_of(x).shape
    # Leading axes are taken whole.
    ends = [(0, n) for n in shape[:-2]]
    ends += [rows or (0, shape[-2]), columns or (0, shape[-1])]
    if ends == [(0, n) for n in shape]:
        return x
    starts, stops = zip(*ends, strict=True)
    return do.slice(x, start_indices=starts, limit_indices=stops, strides=None)


def grown(x: Any, rows: int, columns: int) -> Any:
    """Pad with zeros below and on the right to `rows` by `columns`."""
    shape = aval_of(x).shape
    if shape[-2:] == (rows, columns):
        return x
    ends = (rows - shape[-2], columns - shape[-1])
    # No padding in front, so that entries keep their positions.
    config = ((0, 0, 0),) * (len(shape) - 2) + tuple((0, n, 0) for n in ends)
    return do.pad(x, aval_of(x).dtype.type(0), padding_config=config)


def beside(axis: int, *matrices: Any) -> Any:
    """Concatenate matrices: axis -2 below each other, -1 side by side."""
    return do.concatenate(*matrices, dimension=aval_of(matrices[0]).ndim + axis)


def permuted_rows(x: Any, permutation: Any) -> Any:
    """Permute rows: row i is row permutation[i] of `x`."""
    shape = aval_of(x).shape
    rank = len(shape)
    # A gather from an empty array would have no window to read.
    if 0 in shape:
        return x
    # At each index a row of that matrix is read.
    stack = tuple(range(rank - 2))
    numbers = GatherDimensionNumbers((rank - 1,), (rank - 2,), (rank - 2,), stack, stack)
    return do.gather(
        x,
        column(permutation),
        dimension_numbers=numbers,
        slice_sizes=(*(1 for _ in shape[:-1]), shape[-1]),
        indices_are_sorted=False,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )


# ---- solutions ----


def triangular(
    a: Any, b: Any, *, left=True, lower=True, transpose=False, conjugate=False, unit=False
) -> Any:
    """x with op(a) x = b, or x op(a) = b."""
    return do.triangular_solve(
        a,
        b,
        left_side=left,
        lower=lower,
        transpose_a=transpose,
        conjugate_a=conjugate and is_complex(a),
        unit_diagonal=unit,
    )


def solver(a: Any) -> Callable[[Any], Any]:
    """Return the function b -> x with a x = b; `a` is factored once for all right-hand sides."""
    # Partial pivoting keeps the solution stable.
    packed, _, permutation = do.lu(a)

    def solve(b):
        # P a = L U: forward, then backward substitution.
        y = triangular(packed, permuted_rows(b, permutation), unit=True)
        return triangular(packed, y, lower=False)

    return solve


# ---- rules that many share ----


def stack_in_front(name: str) -> Callable[..., Any]:
    """Return the batch rule of a primitive on stacks: the batch axis is one more leading axis."""

    def batch(axis, args, dims, **params):
        # Looked up when it runs: the primitive is defined after its rule.
        primitive = registry[name]
        stacked = [with_axis(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
        out = primitive.bind(*stacked, **params)
        return out, [0] * len(out) if primitive.multiple_results else 0

    return batch


def no_derivative(name: str, instead: str) -> Callable[..., Any]:
    """Return a jvp rule that raises an error which names the alternative."""

    def jvp(primals, tangents, **params):
        raise NotImplementedError(
            f"Differentiation rule for '{name}' not implemented. {instead} Where no derivative is "
            "wanted, guard its operand with gpuarray.lax.stop_gradient."
        )

    return jvp
