"""Sums of products: dot, dot_general, batched and ragged matrix products.

Floor 6. In: arrays, NumPy values and Python scalars. Out: one `dot_general` or `ragged_dot_general`
a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import out_given
from gpuarray.core.value import Array
from gpuarray.functions.explicit import as_program, makes_terms
from gpuarray.lax.args import ArrayLike, dtype_of, operands, shape_of
from gpuarray.primitives.contract.ops import DotDimensionNumbers as DotDimensionNumbers
from gpuarray.primitives.contract.ops import dot_general_p
from gpuarray.primitives.contract.precision import DotAlgorithm as DotAlgorithm
from gpuarray.primitives.contract.precision import DotAlgorithmPreset as DotAlgorithmPreset
from gpuarray.primitives.contract.precision import Precision as Precision
from gpuarray.primitives.contract.precision import PrecisionLike as PrecisionLike
from gpuarray.primitives.contract.precision import canonicalize_precision
from gpuarray.primitives.contract.ragged import (
    RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
)
from gpuarray.primitives.contract.ragged import ragged_dot_general_p
from gpuarray.primitives.elementwise.arithmetic import mul_p
from gpuarray.primitives.elementwise.convert import convert_element_type_p
from gpuarray.primitives.movement.ops import broadcast_in_dim_p, reshape_p
from gpuarray.primitives.sums import check_product
from gpuarray.runtime.transfer import placed

_NUMBERS = "((lhs contracting, rhs contracting), (lhs batch, rhs batch))"


# NumPy integers are accepted wherever Python's are; parameters of equations hold Python's.
def _ints(dims: Sequence[int]) -> tuple[int, ...]:
    return util.indices(dims)


def _element_type(name: str, dtype) -> Any:
    """A `preferred_element_type` argument as a canonical dtype, or None."""
    return None if dtype is None else dtypes.requested_dtype(dtype, name)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Multiply two arrays and sum over pairs of axes, with other pairs carried along as a batch.

    `dimension_numbers` is ((lhs contracting, rhs contracting), (lhs batch, rhs batch)). The result
    has the batch axes, then the remaining axes of `lhs`, then those of `rhs`; its dtype is the
    wider of the two, or `preferred_element_type`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, y = gnp.ones((2, 3, 4)), gnp.ones((2, 4, 5))
    >>> lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape
    (2, 3, 5)
    """
    if makes_terms(out_sharding):
        options = {"precision": precision, "preferred_element_type": preferred_element_type}
        options["out_sharding"] = out_sharding
        return as_program(dot_general, lhs, rhs, dimension_numbers, **options)
    lhs, rhs = operands("dot_general", lhs, rhs)
    contracted, batched = util.pair(dimension_numbers, _NUMBERS)
    (lc, rc), (lb, rb) = util.pair(contracted, _NUMBERS), util.pair(batched, _NUMBERS)
    # `out_sharding` is not a parameter of the primitive: the result is placed afterwards.
    check_product(aval_of(lhs), aval_of(rhs), (_ints(lc), _ints(rc)), out_sharding)
    with out_given(out_sharding):
        out = dot_general_p.bind(
            lhs,
            rhs,
            dimension_numbers=((_ints(lc), _ints(rc)), (_ints(lb), _ints(rb))),
            precision=canonicalize_precision(precision),
            preferred_element_type=_element_type("dot_general", preferred_element_type),
            out_sharding=None,
        )
    return out if out_sharding is None else placed("dot_general", out, out_sharding)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply vectors and matrices: the last axis of `lhs` and the first of `rhs` are summed.

    Vector·vector, matrix·vector, vector·matrix and matrix·matrix; other products need
    `dimension_numbers`, see `dot_general`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.dot(gnp.array([[1., 2.], [3., 4.]]), gnp.array([1., 10.]))
    Array([21., 43.], dtype=float32)
    """
    lhs, rhs = operands("dot", lhs, rhs)
    # lax.dot does not broadcast: vectors and matrices only.
    if dimension_numbers is None:
        left, right = shape_of(lhs), shape_of(rhs)
        plain = len(left) in (1, 2) and len(right) in (1, 2)
        if not plain or left[-1] != right[0]:
            raise ValueError(
                "lax.dot: dimension_numbers must be specified when not performing simple "
                "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
                f"lhs_shape={left} rhs_shape={right}"
            )
        # The last axis of lhs is contracted with the first of rhs; there is no batch.
        dimension_numbers = (((len(left) - 1,), (0,)), ((), ()))
    return dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: Array, rhs: Array, precision: PrecisionLike = None) -> Array:
    """Matrix products of two stacks of matrices: [..., m, k] x [..., k, n] -> [..., m, n].

    Leading axes must be equal; there is no broadcasting.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.batch_matmul(gnp.ones((4, 2, 3)), gnp.ones((4, 3, 5))).shape
    (4, 2, 5)
    """
    lhs, rhs = operands("batch_matmul", lhs, rhs)
    left, right = len(shape_of(lhs)), len(shape_of(rhs))
    if min(left, right) < 2:
        raise ValueError(f"Arguments to batch_matmul must be at least 2D, got {left}, {right}")
    if left != right:
        raise ValueError(f"Arguments to batch_matmul must have same ndim, got {left}, {right}")
    # All axes but the last two are batch axes.
    batch = tuple(range(left - 2))
    numbers = (((left - 1,), (right - 2,)), (batch, batch))
    return dot_general(lhs, rhs, numbers, precision)


def ragged_dot_general(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Array | None = None,
    out_sharding: Any = None,
) -> Array:
    """A product with one axis of `lhs` cut into groups, of the lengths that `group_sizes` lists.

    If the ragged axis stays in the result, group g is multiplied with entry g of rhs's group axis.
    If it is summed, the result has a new first axis with one entry for each group. If it is a batch
    axis, batch entries beyond all groups are 0.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), (1,), ())
    >>> x, y, sizes = gnp.ones((2, 5)), gnp.ones((5, 1)), gnp.array([2, 3])
    >>> lax.ragged_dot_general(x, y, sizes, numbers)[:, 0, 0]
    Array([2., 3.], dtype=float32)
    """
    # A parameter for several devices that share the groups.
    if group_offset is not None:
        raise TypeError(
            "ragged_dot_general does not support group_offset yet: slice rhs and group_sizes "
            "instead."
        )
    lhs, rhs, group_sizes = operands("ragged_dot_general", lhs, rhs, group_sizes)
    out = ragged_dot_general_p.bind(
        lhs,
        rhs,
        group_sizes,
        ragged_dot_dimension_numbers=ragged_dot_dimension_numbers,
        precision=canonicalize_precision(precision),
        preferred_element_type=_element_type("ragged_dot_general", preferred_element_type),
        group_offset=None,
        out_sharding=None,
    )
    return placed("ragged_dot_general", out, out_sharding)


# Columns of lhs and rows of each matrix are summed; rows are ragged; axis 0 of rhs is the group's.
_RAGGED_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Array | None = None,
    out_sharding: Any = None,
) -> Array:
    """Rows of `lhs` in groups, each group times its own matrix: [m, k] x [g, k, n] -> [m, n].

    The first group_sizes[0] rows are multiplied by rhs[0], the next group_sizes[1] rows by rhs[1];
    rows beyond all groups are 0.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, y = gnp.ones((3, 1)), gnp.array([[[1.]], [[5.]]])
    >>> lax.ragged_dot(x, y, gnp.array([1, 2]))[:, 0]
    Array([1., 5., 5.], dtype=float32)
    """
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        _RAGGED_ROWS,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def _scaled(x: Array, scale: ArrayLike | None, dims: str) -> Any:
    """`x` as wide numbers, every block of it times its scale."""
    # Products are accumulated in single precision.
    wide = np.dtype(np.float32)

    # By the primitive: the operand is checked already.
    def converted(a, dtype):
        if dtype_of(a) == dtype:
            return a
        return convert_element_type_p.bind(a, new_dtype=dtype, weak_type=False, sharding=None)

    def widened(a):  # no more of a number counts than bfloat16 holds
        return converted(converted(a, np.dtype(dtypes.bfloat16)), wide)

    # An operand may come without a scale.
    if scale is None:
        return widened(x)
    # Lengths that the scale's divide: a block is that many elements.
    shape, blocks = shape_of(x), shape_of(scale)
    if len(shape) != len(blocks) or any(b == 0 or n % b for n, b in zip(shape, blocks)):
        raise TypeError(
            f"scaled_dot: the lengths of {dims} {shape} must be multiples of those of its scale "
            f"{blocks}."
        )
    # One scale applies to a block: split every axis into blocks and elements.
    inner = [n for b, s in zip(blocks, shape) for n in (b, s // b)]
    # [b0, s0, b1, s1, ...]: the scale is repeated along every s.
    places = tuple(range(0, 2 * len(shape), 2))
    spread = broadcast_in_dim_p.bind(
        widened(scale), shape=tuple(inner), broadcast_dimensions=places, sharding=None
    )
    spread = reshape_p.bind(spread, new_sizes=shape, dimensions=None, sharding=None)
    return mul_p.bind(widened(x), spread)


def scaled_dot(
    lhs: Array,
    rhs: Array,
    *,
    lhs_scale: Array | None = None,
    rhs_scale: Array | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Array:
    """A product of block-scaled operands: an entry of a scale multiplies a block of its operand.

    Operands are matrices or stacks of them, unless `dimension_numbers` say otherwise. A scale has
    its operand's rank, and lengths that divide the operand's. The result is bfloat16, or
    `preferred_element_type`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> x, y = gnp.ones((2, 32)), gnp.ones((32, 2))
    >>> lax.scaled_dot(x, y, lhs_scale=gnp.array([[4.], [1.]]), preferred_element_type="float32")
    Array([[128., 128.],
           [ 32.,  32.]], dtype=float32)
    """
    lhs, rhs = operands("scaled_dot", lhs, rhs)
    # [..., m, k] x [..., k, n], as matmul has it.
    if dimension_numbers is None:
        rank = len(shape_of(lhs))
        batch = tuple(range(rank - 2))
        dimension_numbers = (((rank - 1,), (len(batch),)), (batch, batch))
    preferred = _element_type("scaled_dot", preferred_element_type) or dtypes.bfloat16
    return dot_general(
        _scaled(lhs, lhs_scale, "lhs"),
        _scaled(rhs, rhs_scale, "rhs"),
        dimension_numbers,
        preferred_element_type=preferred,
    )
