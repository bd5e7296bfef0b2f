"""Pointwise primitives: arithmetic, rounding, comparison and identity.

Floor 2. In: the factory `elementwise` and NumPy. Out: primitives that follow the machine where
NumPy does not:

- integer division truncates, and x / 0 is -1 (all ones);
- remainders have the dividend's sign, and x % 0 is x;
- sign keeps -0.0.
"""

from __future__ import annotations

import enum
import functools

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import each_alone
from gpuarray.core.primitive import LINEAR, NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives import cuda_rules
from gpuarray.primitives.cuda_rules import by_class
from gpuarray.primitives.define import (
    ANY,
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGER,
    KEYS,
    NUMERIC,
    SIGNED,
    do,
    elementwise,
)
from gpuarray.primitives.elementwise import neutral
from gpuarray.primitives.elementwise import transforms as rules
from gpuarray.primitives.linear import constant, share_of
from gpuarray.primitives.numpy_rules import by_dtype, fresh, join, next_after, order_key


def everywhere(function):
    """Return the `numpy_pick` rule for one function that handles every class of numbers."""
    return by_dtype(integer=function, floating=function, complex=function, boolean=function)


# ---- arithmetic ----


add_p = elementwise(
    "add",
    rewrite=Rewrite(same_as=neutral.identity(neutral.is_negative_zero, neutral.is_negative_zero)),
    cuda=cuda_rules.ADD,
    arity=2,
    dtypes=NUMERIC,
    numpy_pick=everywhere(np.add),
    jvp=rules.add_jvp,
    transpose=lambda ct, x, y: (share_of(ct, x), share_of(ct, y)),
)
sub_p = elementwise(
    "sub",
    rewrite=Rewrite(same_as=neutral.identity(neutral.is_zero), algebra="difference"),
    cuda=cuda_rules.SUB,
    arity=2,
    dtypes=NUMERIC,
    numpy_pick=everywhere(np.subtract),
    jvp=rules.sub_jvp,
    transpose=rules.sub_transpose,
)

_multiply = everywhere(np.multiply)


def _mul_pick(avals, *, out_dtype=None):
    # `out_dtype` widens the product (lax.mul(..., out_dtype=)): operands are converted first, so
    # that nothing overflows at the narrow type.
    if out_dtype is None or out_dtype == avals[0].dtype:
        return _multiply(avals)
    multiply = _multiply([ShapedArray((), out_dtype)])
    return lambda x, y: multiply(x.astype(out_dtype), y.astype(out_dtype))


def _mul_cuda(avals, *, out_dtype=None):
    if out_dtype is None or out_dtype == avals[0].dtype:
        return cuda_rules.MUL(avals)
    # The text converts both operands first, as the NumPy rule does.
    text = cuda_rules.MUL([ShapedArray((), out_dtype)])
    return text.replace("{0}", "({T}){0}").replace("{1}", "({T}){1}")


mul_p = elementwise(
    "mul",
    rewrite=Rewrite(
        same_as=neutral.identity(neutral.is_one, neutral.is_one),
        algebra=lambda eqn: "squared" if eqn.invars[0] is eqn.invars[1] else "",
    ),
    jvp=(
        # Tangents use the same `out_dtype`: they are those of the wide product.
        lambda t, out, x, y, **given: do.mul(t, y, **given),
        lambda t, out, x, y, **given: do.mul(x, t, **given),
    ),
    transpose=rules.mul_transpose,
    arity=2,
    dtypes=NUMERIC,
    numpy_pick=_mul_pick,
    cuda=_mul_cuda,
    result=lambda x, y, out_dtype=None: x if out_dtype is None else out_dtype,
    defaults={"out_dtype": None},
)


def _divide_signed(x, y):
    if x.ndim == y.ndim == 0 and (divisor := int(y)) not in (0, -1):
        # For single numbers, Python's integers are faster than many NumPy calls.
        dividend = int(x)
        size = abs(dividend) // abs(divisor)
        return x.dtype.type(size if (dividend < 0) == (divisor < 0) else -size)
    quotient = np.asarray(np.floor_divide(x, y))
    # NumPy rounds down, the machine towards zero: they differ where signs do and a rest is left.
    quotient += (x != quotient * y) & ((x < 0) != (y < 0))
    zero = np.equal(y, 0)
    return np.where(zero, quotient.dtype.type(-1), quotient) if zero.any() else quotient


def _divide_unsigned(x, y):
    quotient = np.floor_divide(x, y)
    # As on the machine, x / 0 is the largest integer: all bits set.
    zero = y == 0
    everything = quotient.dtype.type(np.iinfo(quotient.dtype).max)
    return np.where(zero, everything, quotient) if zero.any() else quotient


def _remainder(x, y):
    # fmod has the dividend's sign, where np.remainder has the divisor's.
    if y.ndim == 0 and y != 0:
        unsigned = x.dtype.kind == "u" or (x.ndim and y > 0 and x.min(initial=0) >= 0)
        if not (x.ndim and unsigned):
            return np.fmod(x, y)
        # NumPy divides by one number by way of products, many elements at a time; fmod divides.
        result = np.floor_divide(x, y)
        np.multiply(result, y, out=result)
        return np.subtract(x, result, out=result)
    result = np.fmod(x, y)
    zero = np.equal(y, 0)
    return np.where(zero, x, result) if zero.any() else result


div_p = elementwise(
    "div",
    rewrite=Rewrite(same_as=neutral.identity(neutral.is_one), algebra="quotient"),
    jvp=(
        lambda t, out, x, y: do.div(t, y),
        # -t x / y²: integer_pow keeps this one division.
        lambda t, out, x, y: do.mul(do.mul(do.neg(t), x), do.integer_pow(y, y=-2)),
    ),
    transpose=lambda ct, x, y: (share_of(do.div(ct, y), x), None),
    arity=2,
    dtypes=NUMERIC,
    numpy_pick=by_dtype(
        integer=_divide_signed,
        unsigned=_divide_unsigned,
        floating=np.true_divide,
        complex=np.true_divide,
    ),
    cuda=by_class("{0} / {1}", integer="ga_div({0}, {1})", complex="ga_cdiv({0}, {1})"),
    weight=4,
)


rem_p = elementwise(
    "rem",
    jvp=(
        lambda t, out, x, y: t,
        lambda t, out, x, y: do.mul(do.neg(t), rules.whole_quotient(x, y)),
    ),
    arity=2,
    dtypes=INTEGER | FLOATING,
    numpy_pick=by_dtype(integer=_remainder, floating=np.fmod),
    cuda=by_class("ga_fmod({0}, {1})", integer="ga_rem({0}, {1})"),
    weight=8,
)
neg_p = elementwise(
    "neg",
    cuda=by_class("-{0}", integer="ga_neg({0})", complex="-{0}"),
    dtypes=NUMERIC,
    numpy_pick=everywhere(np.negative),
    jvp=LINEAR,
    transpose=lambda ct, x: (do.neg(ct),),
    rewrite=Rewrite(seen_through=neutral.undoes_itself),
)


abs_p = elementwise(
    "abs",
    jvp=(rules.abs_derivative,),
    dtypes=SIGNED | FLOATING | COMPLEX,
    numpy_pick=everywhere(np.abs),
    cuda=by_class("ga_abs({0})", complex="ga_cabs({0})"),
    result=lambda x: dtypes.to_real_dtype(x) if dtypes.kind_of(x) == "c" else x,
)


def _sign_complex(x):
    # x / |x|, and 0 for 0.
    size = np.abs(x)
    out = np.empty(np.shape(x), x.dtype)
    # The parts are divided by a real number: complex division would mix them where one is infinite.
    out.real, out.imag = x.real / size, x.imag / size
    return np.where(size == 0, x.dtype.type(0), out)


sign_p = elementwise(
    "sign",
    jvp=NOT_DIFFERENTIABLE,
    dtypes=NUMERIC,
    # np.sign(-0.0) is 0.0: copysign puts the sign back.
    numpy_pick=by_dtype(
        integer=np.sign, floating=lambda x: np.copysign(np.sign(x), x), complex=_sign_complex
    ),
    cuda=by_class("ga_sign({0})", complex="ga_csign({0})"),
)


def _larger_complex(x, y):
    """The lexicographically larger one; y where a nan makes the comparison fail."""
    # False where a nan takes part, so that y is the result.
    return np.where((x.real > y.real) | ((x.real == y.real) & (x.imag > y.imag)), x, y)


def _smaller_complex(x, y):
    # As above, with the order reversed.
    return np.where((x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag)), x, y)


def _extremes(larger, smaller, max_cuda, min_cuda, **options) -> tuple[Primitive, Primitive]:
    """Return `max` and `min`, given their rules for complex numbers and their CUDA rules."""
    of_real = {"integer": np.maximum, "floating": np.maximum, "boolean": np.logical_or}
    to_real = {"integer": np.minimum, "floating": np.minimum, "boolean": np.logical_and}
    lowest = neutral.identity(neutral.is_lowest, neutral.is_lowest)
    highest = neutral.identity(neutral.is_highest, neutral.is_highest)
    options = {"jvp": rules.EXTREME_JVP, "arity": 2, "dtypes": ANY, **options}
    return (
        elementwise(
            "max",
            rewrite=Rewrite(same_as=lowest, algebra="larger"),
            numpy_pick=by_dtype(complex=larger, **of_real),
            cuda=max_cuda,
            **options,
        ),
        elementwise(
            "min",
            rewrite=Rewrite(same_as=highest),
            numpy_pick=by_dtype(complex=smaller, **to_real),
            cuda=min_cuda,
            **options,
        ),
    )


# Of 0.0 and -0.0, which are equal, NumPy's maximum and minimum may return either.
max_p, min_p = _extremes(_larger_complex, _smaller_complex, cuda_rules.MAX, cuda_rules.MIN)
#: How folds merge. They need an associative operation, which the order of `max_p` is not where a
#: part of a complex number is nan: such a number is the result, as in NumPy.
largest_p, smallest_p = _extremes(
    np.maximum, np.minimum, cuda_rules.LARGEST, cuda_rules.SMALLEST, register=False
)


def _square_complex(x):
    """x², whose real part a² - b² is (a - b)(a + b): exact where these cancel or are too large."""
    a, b = x.real / 2, x.imag / 2  # a sum of halves is finite
    return join(4 * ((a - b) * (a + b)), 2 * (x.real * x.imag), x.dtype)


square_p = elementwise(
    "square",
    rewrite=Rewrite(algebra="squared"),
    cuda=by_class("{0} * {0}", integer="ga_mul({0}, {0})", complex="ga_csquare({0})"),
    dtypes=NUMERIC,
    numpy_pick=by_dtype(integer=np.square, floating=np.square, complex=_square_complex),
    jvp=(lambda t, out, x: do.mul(t, do.mul(constant(x, 2), x)),),
)


def _check_integer_pow(x: ShapedArray, *, y: int) -> None:
    if y < 0 and dtypes.kind_of(x.dtype) in "iu":
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({x.str_short()}, {y}). "
            "Convert the base to a float first."
        )


@functools.lru_cache(maxsize=256)
def _power_rule(y: int):
    def power(x):
        if y == 0:
            # x ** 0 is 1, of nan and 0 too.
            return np.ones_like(x)
        # Exponentiation by squaring: `square` is x ** (2 ** k) at step k.
        result, square, left = None, x, abs(y)
        while left:
            if left & 1:
                result = square if result is None else result * square
            left >>= 1
            if left:
                square = square * square
        # The reciprocal of the power, as one division.
        if y < 0:
            return x.dtype.type(1) / result  # pyright: ignore[reportOptionalOperand]
        # With y == 1 the result would be `x` itself, and must not share its memory.
        return fresh(result) if y == 1 else result

    return everywhere(np.square if y == 2 else power)


integer_pow_p = elementwise(
    "integer_pow",
    rewrite=Rewrite(algebra=lambda eqn: "squared" if eqn.params["y"] == 2 else ""),
    jvp=rules.integer_pow_jvp,
    dtypes=NUMERIC,
    numpy_pick=lambda avals, *, y: _power_rule(y)(avals),
    check=_check_integer_pow,
    cuda=cuda_rules.power,
    weight=3,
)


nextafter_p = elementwise(
    "nextafter",
    arity=2,
    dtypes=FLOATING,
    numpy=next_after,
    cuda=by_class("ga_nextafter({0}, {1})", half="ga_nextafter_half<{M}>({0}, {1})"),
    jvp=rules.nextafter_jvp,
    weight=4,
)

# ---- rounding ----


class RoundingMethod(enum.IntEnum):
    """Where `round` sends numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round_away(x):
    whole = np.trunc(x)
    # Halves away from zero: |x - trunc(x)| is exact, which floor(x + 0.5) is not.
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(x.dtype), x)


_ROUNDING = {
    RoundingMethod.AWAY_FROM_ZERO: by_dtype(floating=_round_away),
    RoundingMethod.TO_NEAREST_EVEN: by_dtype(floating=np.rint),
}
floor_p = elementwise(
    "floor", cuda="ga_floor({0})", dtypes=FLOATING, jvp=NOT_DIFFERENTIABLE, numpy=np.floor
)
ceil_p = elementwise(
    "ceil", cuda="ga_ceil({0})", dtypes=FLOATING, jvp=NOT_DIFFERENTIABLE, numpy=np.ceil
)
round_p = elementwise(
    "round",
    jvp=NOT_DIFFERENTIABLE,
    dtypes=FLOATING,
    numpy_pick=lambda avals, *, rounding_method: _ROUNDING[rounding_method](avals),
    cuda=lambda avals, *, rounding_method: cuda_rules.ROUND[rounding_method],
    weight=2,
)


# Comparisons give bools whatever they compare.
def _bool_result(*_) -> np.dtype:
    return dtypes.bool_


is_finite_p = elementwise(
    "is_finite",
    dtypes=FLOATING,
    numpy=np.isfinite,
    cuda="ga_is_finite({0})",
    result=_bool_result,
    jvp=NOT_DIFFERENTIABLE,
)

# ---- comparison ----


def _comparison(name: str, dtypes: frozenset[str], **rules) -> Primitive:
    return elementwise(
        name, arity=2, dtypes=dtypes, result=_bool_result, jvp=NOT_DIFFERENTIABLE, **rules
    )


def _words(stored):
    """Return stored elements as words on one more axis: bits compare, not numbers."""
    word = np.uint64 if stored.dtype.itemsize % 8 == 0 else np.uint8
    return np.asarray(stored, order="C").reshape(*stored.shape, 1).view(word)


def _by_bits(avals) -> bool:
    # For random keys and the like. nan words would differ from themselves as numbers; integers
    # compare exactly.
    dtype = avals[0].dtype
    return isinstance(dtype, dtypes.ExtendedDType) and dtype.storage.kind != "u"


def _equal_pick(avals):
    if _by_bits(avals):
        return lambda x, y: (_words(x) == _words(y)).all(-1)
    return np.equal


def _not_equal_pick(avals):
    if _by_bits(avals):
        return lambda x, y: (_words(x) != _words(y)).any(-1)
    return np.not_equal


ORDERED = INTEGER | FLOATING | BOOL


eq_p = _comparison("eq", ANY | KEYS, numpy_pick=_equal_pick, cuda=cuda_rules.equal)
ne_p = _comparison("ne", ANY | KEYS, numpy_pick=_not_equal_pick, cuda=cuda_rules.not_equal)
lt_p = _comparison("lt", ORDERED, numpy=np.less, cuda="{0} < {1}")
le_p = _comparison("le", ORDERED, numpy=np.less_equal, cuda="{0} <= {1}")
gt_p = _comparison("gt", ORDERED, numpy=np.greater, cuda="{0} > {1}")
ge_p = _comparison("ge", ORDERED, numpy=np.greater_equal, cuda="{0} >= {1}")


def _total_order_pick(ufunc):
    def pick(avals):
        if dtypes.kind_of(avals[0].dtype) != "f":
            # Integers and bools are in total order already.
            return ufunc
        return lambda x, y: ufunc(order_key(x), order_key(y))

    return pick


def _total_order(name: str, ufunc: np.ufunc, sign: str) -> Primitive:
    rules = {"numpy_pick": _total_order_pick(ufunc), "cuda": cuda_rules.total_order(sign)}
    return _comparison(name, ORDERED, **rules)


# In total order, which sorting needs, -nan < -inf < ... < -0.0 < 0.0 < ... < inf < nan.
eq_to_p = _total_order("eq_to", np.equal, "==")
lt_to_p = _total_order("lt_to", np.less, "<")
le_to_p = _total_order("le_to", np.less_equal, "<=")

# ---- identity ----


def _identity(name: str, **rules) -> Primitive:
    # weight=0: a fused identity costs nothing.
    return Primitive(
        name, Kind.POINTWISE, aval=lambda x: x, numpy=fresh, cuda="{0}", weight=0, **rules
    )


copy_p = _identity("copy", jvp=LINEAR, transpose=lambda ct, x: (do.copy(ct),))
stop_gradient_p = _identity(
    "stop_gradient",
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_LINEAR,
    rewrite=Rewrite(same_as=lambda eqn: eqn.invars[0]),  # where derivatives have been taken
)
stage_p = _identity("stage", jvp=LINEAR, transpose=lambda ct, x: (do.stage(ct),))


#: Makes all operands available before any use of a result starts: nothing fuses across it.
optimization_barrier_p = Primitive(
    "optimization_barrier",
    Kind.LIBRARY,
    same_bytes=True,
    jvp=lambda primals, tangents: (do.optimization_barrier(*primals), rules.barrier(tangents)),
    transpose=lambda cts, *xs: rules.barrier(cts),
    batch=lambda axis, args, dims: (do.optimization_barrier(*args), dims),
    aval=lambda *xs: list(xs),
    numpy=lambda *xs: list(xs),
    factors=each_alone,
    weight=0,
    multiple_results=True,
)
