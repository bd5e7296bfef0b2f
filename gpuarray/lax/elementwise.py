"""Pointwise functions: arithmetic, rounding, comparison, choice and identity.

Floor 6. In: arrays, NumPy values and Python scalars. Out: one bound primitive for each function.
Dtypes are not promoted: `gpuarray.numpy` has the functions that promote and broadcast.
"""

from __future__ import annotations

import operator
from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, binary, operand, operands, unary
from gpuarray.primitives.elementwise.arithmetic import RoundingMethod as RoundingMethod
from gpuarray.primitives.elementwise.arithmetic import (
    abs_p,
    add_p,
    ceil_p,
    div_p,
    eq_p,
    floor_p,
    ge_p,
    gt_p,
    integer_pow_p,
    is_finite_p,
    le_p,
    lt_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    nextafter_p,
    optimization_barrier_p,
    rem_p,
    round_p,
    sign_p,
    square_p,
    stage_p,
    stop_gradient_p,
    sub_p,
)
from gpuarray.primitives.elementwise.choice import clamp_p, select_n_p
from gpuarray.pytree import tree

# ---- arithmetic ----


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.add(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return binary(add_p, x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.sub(1.0, 2.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return binary(sub_p, x, y)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = None) -> Array:
    """x · y, computed in `out_dtype` if one is given.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.mul(3.0, 2.0)
    Array(6., dtype=float32, weak_type=True)
    >>> lax.mul(200, 200, out_dtype="float16")
    Array(4.e+04, dtype=float16, weak_type=True)
    """
    if out_dtype is not None:
        out_dtype = dtypes.canonicalize_dtype(out_dtype)
    return mul_p.bind(*operands("mul", x, y), out_dtype=out_dtype)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y; integer quotients are rounded towards zero, and x / 0 is -1 (all bits 1).

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.div(7.0, 2.0)
    Array(3.5, dtype=float32, weak_type=True)
    >>> lax.div(-7, 2)
    Array(-3, dtype=int32, weak_type=True)
    """
    return binary(div_p, x, y)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder of x / y, with the sign of x; the remainder of x / 0 is x.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.rem(-7, 2)
    Array(-1, dtype=int32, weak_type=True)
    """
    return binary(rem_p, x, y)


def neg(x: ArrayLike) -> Array:
    """-x; unsigned integers wrap.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.neg(1.5)
    Array(-1.5, dtype=float32, weak_type=True)
    """
    return unary(neg_p, x)


def abs(x: ArrayLike) -> Array:
    """|x|: the modulus of complex numbers.

    The result has the shape of `x` and its dtype, or that of the parts if `x` is complex.

    >>> from gpuarray import lax
    >>> lax.abs(-1.5)
    Array(1.5, dtype=float32, weak_type=True)
    >>> lax.abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    return unary(abs_p, x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 by the sign of x (-0.0 and nan are kept); x / |x| for complex numbers.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.sign(-3.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return unary(sign_p, x)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of x and y; nan if either is nan. Complex numbers compare by real part first.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.max(1.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return binary(max_p, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of x and y; nan if either is nan. Complex numbers compare by real part first.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.min(1.0, 2.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return binary(min_p, x, y)


def square(x: ArrayLike) -> Array:
    """x².

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.square(3.0)
    Array(9., dtype=float32, weak_type=True)
    """
    return unary(square_p, x)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x raised to a constant integer power, by repeated multiplication.

    `y` is a Python integer, not negative if `x` is of an integer type. The result has the shape and
    dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.integer_pow(2.0, 10)
    Array(1024., dtype=float32, weak_type=True)
    """
    # A float such as 2.0 is accepted; any other float is refused by `operator.index`.
    exponent = int(y) if isinstance(y, float) and y.is_integer() else operator.index(y)
    return integer_pow_p.bind(operand("integer_pow", x), y=exponent)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    # A power of -1, so that there is one primitive less to differentiate and batch.
    return integer_pow(x, -1)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next number after x1 in the direction of x2.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.nextafter(1.0, 2.0)
    Array(1.0000001, dtype=float32, weak_type=True)
    """
    return binary(nextafter_p, x1, x2)


# ---- rounding ----


def floor(x: ArrayLike) -> Array:
    """The largest integer not above x, as a float.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.floor(-1.5)
    Array(-2., dtype=float32, weak_type=True)
    """
    return unary(floor_p, x)


def ceil(x: ArrayLike) -> Array:
    """The smallest integer not below x, as a float.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.ceil(-1.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    return unary(ceil_p, x)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The integer nearest to x, as a float; `rounding_method` determines how halves are rounded.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.round(2.5)
    Array(3., dtype=float32, weak_type=True)
    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    """
    return round_p.bind(operand("round", x), rounding_method=RoundingMethod(rounding_method))


def is_finite(x: ArrayLike) -> Array:
    """Whether x is neither infinite nor nan.

    `x` is of a floating type; the result is of bool and has its shape.

    >>> from gpuarray import lax
    >>> lax.is_finite(float("inf"))
    Array(False, dtype=bool, weak_type=True)
    """
    return unary(is_finite_p, x)


# ---- comparison ----


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y; false if either is nan.

    Shapes agree up to scalars and axes of length 1; dtypes are equal. The result is of bool.

    >>> from gpuarray import lax
    >>> lax.eq(1, 1)
    Array(True, dtype=bool, weak_type=True)
    """
    return binary(eq_p, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y; nan differs from everything.

    Shapes agree up to scalars and axes of length 1; dtypes are equal. The result is of bool.

    >>> from gpuarray import lax
    >>> lax.ne(1, 1)
    Array(False, dtype=bool, weak_type=True)
    """
    return binary(ne_p, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal. The result is of bool.

    >>> from gpuarray import lax
    >>> lax.lt(1, 2)
    Array(True, dtype=bool, weak_type=True)
    """
    return binary(lt_p, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal. The result is of bool.

    >>> from gpuarray import lax
    >>> lax.le(1, 2)
    Array(True, dtype=bool, weak_type=True)
    """
    return binary(le_p, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal. The result is of bool.

    >>> from gpuarray import lax
    >>> lax.gt(1, 2)
    Array(False, dtype=bool, weak_type=True)
    """
    return binary(gt_p, x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal. The result is of bool.

    >>> from gpuarray import lax
    >>> lax.ge(1, 2)
    Array(False, dtype=bool, weak_type=True)
    """
    return binary(ge_p, x, y)


# ---- choice ----


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elements of `cases[which]`: `which` is a bool, or an integer clamped into range.

    Cases have one shape and dtype; `which` is a scalar or has their shape.

    >>> from gpuarray import lax
    >>> lax.select_n(True, 1.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return select_n_p.bind(*operands("select_n", which, *cases))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elements of `on_true` where `pred` holds, of `on_false` elsewhere.

    Cases have one shape and dtype; `pred` is a scalar or has their shape.

    >>> from gpuarray import lax
    >>> lax.select(True, 1.0, 2.0)
    Array(1., dtype=float32, weak_type=True)
    """
    # select_n counts its cases: False is 0.
    return select_n(pred, on_false, on_true)


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, held between two bounds.

    `min` and `max` are scalars or have the shape of `x`; all have one dtype.

    >>> from gpuarray import lax
    >>> lax.clamp(0.0, 1.5, 1.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return clamp_p.bind(*operands("clamp", min, x, max))


# ---- identity ----


def stop_gradient(x: Any) -> Any:
    """x itself, but treated as a constant by differentiation.

    `x` is a pytree of arrays; the result has its structure, shapes and dtypes.

    >>> from gpuarray import lax
    >>> lax.stop_gradient(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return tree.tree_map(lambda leaf: unary(stop_gradient_p, leaf), x)


def stage(x: ArrayLike) -> Array:
    """x as an array, recorded by the function being traced if there is one.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x = operand("stage", x)
    # An array belongs to its trace already; a plain value gets its own equation.
    return x if isinstance(x, Array) and not x.bare else stage_p.bind(x)


def optimization_barrier(operand: Any, /) -> Any:
    """Return the operand unchanged; operations on the result are not fused with those that compute
    it.

    The result has the structure, shapes and dtypes of `operand`.

    >>> from gpuarray import lax
    >>> lax.optimization_barrier((1, 2.0))
    (Array(1, dtype=int32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    leaves, treedef = tree.tree_flatten(operand)
    leaves = operands("optimization_barrier", *leaves)
    return tree.tree_unflatten(treedef, optimization_barrier_p.bind(*leaves))
