"""Building blocks of derivatives: sums of cotangents, zeros, broadcasts and their transposes.

Floor 2. In: values, symbolic zeros, avals. Out: values of the requested shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import storage_dtype
from gpuarray.core.layout import cuts_of
from gpuarray.core.linear import Zero, is_undefined, is_zero
from gpuarray.core.rewrite import Rewrite
from gpuarray.core.trace import full_width
from gpuarray.primitives import cuda_rules
from gpuarray.primitives.define import NUMERIC, do, elementwise
from gpuarray.primitives.reshard import as_typed

#: The sum of two contributions to one derivative: `add` under another name, so that a printed graph
#: tells accumulation from the user's additions.
add_any_p = elementwise(
    "add_any",
    numpy=np.add,
    arity=2,
    dtypes=NUMERIC,
    jvp=(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=lambda ct, x, y: (share_of(ct, x), share_of(ct, y)),
    cuda=cuda_rules.ADD,
    rewrite=Rewrite(algebra="contributions"),
)


def add_any(x: Any, y: Any) -> Any:
    """Add two (co)tangents, either of which may be a symbolic Zero."""
    if is_zero(x):
        return y
    if is_zero(y):
        return x
    dtype = aval_of(x).dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        return _added(dtype, x, y)
    return add_any_p.bind(x, y)


# By the rule of the dtype.
def _added(dtype: dtypes.ExtendedDType, x: Any, y: Any) -> Any:
    rule = dtype.rule("add")
    if rule is None:
        raise TypeError(
            f"cotangents of dtype {dtype.name} meet, and it has no rule to add them: give its "
            "_rules a function add(dtype, x, y)"
        )
    return rule(dtype, x, y)


def zeros(aval: ShapedArray) -> Any:
    """Return an array of zeros with the shape, dtype and weak type of `aval`."""
    # float0, the tangent dtype of integers, has no elements to compute: NumPy holds it.
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    if isinstance(aval.dtype, dtypes.KeyDtype):
        impl = aval.dtype.impl
        words = np.zeros((*aval.shape, *impl.key_shape), np.uint32)
        return do.random_wrap(words, impl=impl)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        rule, (shape, dtype) = aval.dtype.rule("zero"), aval.dtype.element
        if rule is None:
            return do.to_edtype(np.zeros((*aval.shape, *shape), dtype), edtype=aval.dtype)
        everywhere = {"shape": aval.shape, "broadcast_dimensions": (), "sharding": None}
        return do.broadcast_in_dim(rule(aval.dtype), **everywhere)
    zero = np.zeros((), storage_dtype(aval))[()]
    # A Python number is weakly typed. Its default dtype may be another one, and then it must not
    # be.
    if aval.weak_type and aval_of(zero.item()).dtype == aval.dtype:
        zero = zero.item()
    zero = full_width(zero)
    if not aval.shape:
        return zero
    return do.broadcast_in_dim(zero, shape=aval.shape, broadcast_dimensions=(), sharding=None)


def instantiate(tangent: Any) -> Any:
    """Return a (co)tangent as a value: a symbolic Zero becomes an array of zeros."""
    if type(tangent) is not Zero:
        return tangent
    # They have the layouts of the values that they belong to.
    return (
        zeros(tangent.aval)
        if cuts_of(tangent.aval.layout) is None
        else as_typed(zeros(tangent.aval), tangent.aval)
    )


def broadcast_like(x: Any, aval: ShapedArray) -> Any:
    """Stretch `x` to the shape of `aval`, as pointwise operations stretch their operands."""
    x = full_width(x)
    given = aval_of(x)
    if given.shape == aval.shape:
        return x
    # broadcast_in_dim does not stretch axes of length 1: drop those first, then add them anew.
    dims = tuple(i for i, n in enumerate(given.shape) if n == aval.shape[i])
    if len(dims) < given.ndim:
        lengths = tuple(given.shape[i] for i in dims)
        x = do.reshape(x, new_sizes=lengths, dimensions=None, sharding=None)
    return do.broadcast_in_dim(x, shape=aval.shape, broadcast_dimensions=dims, sharding=None)


def unbroadcast(ct: Any, aval: ShapedArray) -> Any:
    """Transpose of `broadcast_like`: sum over the axes along which an operand was stretched."""
    if is_zero(ct):
        return Zero(aval)
    shape = aval_of(ct).shape
    if shape == aval.shape:
        return ct
    # A scalar was broadcast along all axes.
    if not aval.shape:
        return do.reduce_sum(ct, axes=tuple(range(len(shape))), out_sharding=None)
    axes = tuple(i for i, (n, m) in enumerate(zip(shape, aval.shape, strict=True)) if n != m)
    total = do.reduce_sum(ct, axes=axes, out_sharding=None)
    return do.reshape(total, new_sizes=aval.shape, dimensions=None, sharding=None)


def share_of(ct: Any, x: Any) -> Any:
    """Return the cotangent of operand `x` given that of the result; None if `x` is not linear."""
    return unbroadcast(ct, x.aval) if is_undefined(x) else None


def constant(x: Any, value: float) -> Any:
    """Return `value` in the dtype of `x`, and weakly typed if `x` is, as results then are too."""
    aval = aval_of(x)
    typed = aval.dtype.type(value)
    # A Python number only where its default dtype is the one wanted.
    weak = aval.weak_type and aval_of(typed.item()).dtype == aval.dtype
    return typed.item() if weak else full_width(typed)


def full_like(x: Any, value: float) -> Any:
    """Return an array filled with `value`, of the shape and dtype of `x`."""
    return broadcast_like(constant(x, value), aval_of(x))


def cast_like(x: Any, aval: ShapedArray) -> Any:
    """Convert `x` to the dtype of `aval`."""
    if aval_of(x).dtype == aval.dtype:
        return x
    return do.convert_element_type(x, new_dtype=aval.dtype, weak_type=False, sharding=None)


def as_factor(ct: Any, wanted: ShapedArray, other: Any) -> Any:
    """Return the cotangent of a product in the dtype in which it is multiplied with the other
    operand.

    The result of two bfloat16 operands may be float32 sums; their cotangents are rounded to
    bfloat16, for which there are tensor cores. No other dtype has the range of float32: float16 and
    fp8 overflow and underflow earlier, integers have no fractions, real numbers no imaginary part.
    In those cases, and if the operands differ, the cotangent is not converted.
    """
    given, to = aval_of(ct).dtype, aval_of(other).dtype
    if given == to or wanted.dtype != to or {dtypes.kind_of(d) for d in (given, to)} != {"f"}:
        return ct
    reaches = dtypes.finfo(to).maxexp >= dtypes.finfo(given).maxexp
    return cast_like(ct, aval_of(other)) if reaches else ct
