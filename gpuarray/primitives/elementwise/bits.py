"""Pointwise primitives on bits: logic, shifts, counting, and bitcasts.

Floor 2. In: the factory `elementwise` and NumPy. Out: primitives that agree with the machine: a
shift by the width or more (a negative amount counts as huge) leaves 0, or copies of the sign if it
is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Atom, Eqn
from gpuarray.core.primitive import LINEAR, NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.cuda_rules import by_class, from_word, word_of
from gpuarray.primitives.define import BOOL, FLOATING, INTEGER, do, elementwise
from gpuarray.primitives.elementwise import neutral
from gpuarray.primitives.elementwise.elements import BITCAST
from gpuarray.primitives.numpy_rules import SIGNED_TWIN, UNSIGNED_TWIN, by_dtype, fresh

# ---- logic ----


def _logic(name: str, ufunc: np.ufunc, cuda, arity: int = 2, **rules) -> Primitive:
    return elementwise(
        name,
        arity=arity,
        dtypes=INTEGER | BOOL,
        numpy_pick=by_dtype(integer=ufunc, boolean=ufunc),
        cuda=cuda,
        jvp=NOT_DIFFERENTIABLE,
        **rules,
    )


and_p = _logic("and", np.bitwise_and, "{0} & {1}")
or_p = _logic("or", np.bitwise_or, "{0} | {1}")
xor_p = _logic("xor", np.bitwise_xor, "{0} ^ {1}")
not_p = _logic(
    "not",
    np.invert,
    by_class("~{0}", boolean="!{0}"),
    arity=1,
    rewrite=Rewrite(seen_through=neutral.undoes_itself),
)

# ---- shifts, counts, products ----


def _as_unsigned(x):
    """View `x` as an unsigned NumPy integer; the spare bits of narrow integers are 0."""
    kind, bits = dtypes.kind_of(x.dtype), dtypes.itemsize_bits(x.dtype)
    if bits < 8:
        # Integers below 8 bits are stored in a byte each: mask the sign extension.
        return x.astype(np.int8).view(np.uint8) & np.uint8((1 << bits) - 1)
    return x.view(UNSIGNED_TWIN[x.dtype]) if kind == "i" else x


def _as_signed(x):
    """View `x` as a signed NumPy integer; the spare bits of narrow integers repeat the sign."""
    kind, bits = dtypes.kind_of(x.dtype), dtypes.itemsize_bits(x.dtype)
    if bits < 8:
        # Through the narrow signed type and back, so that its sign bit is extended.
        return x.astype(np.int8).astype(SIGNED_TWIN.get(x.dtype, x.dtype)).astype(np.int8)
    return x.view(SIGNED_TWIN[x.dtype]) if kind == "u" else x


def _same_bits(x, dtype):
    # NumPy cannot view a byte as a 4-bit integer; the conversion drops the spare bits.
    return x.astype(dtype) if dtypes.itemsize_bits(dtype) < 8 else x.view(dtype)


def _shift_right_logical(x, y):
    # NumPy gives 0 for an amount of the width or more, and unsigned amounts are never negative.
    return _same_bits(np.right_shift(_as_unsigned(x), _as_unsigned(y)), x.dtype)


def _shift_right_arithmetic(x, y):
    # For amounts of the width or more the result is all sign bits; negative ones count as huge.
    return _same_bits(np.right_shift(_as_signed(x), _as_signed(y)), x.dtype)


def _population_count(x):
    # Count the bits of a negative number's two's complement word.
    return np.bitwise_count(_as_unsigned(x)).astype(x.dtype)


def _bit_length(x):
    """Return the position of the highest 1 of unsigned integers below 2^53, as a double has it."""
    # frexp gives x as f * 2**e with f in [0.5, 1), so e is the bit length.
    return np.frexp(x.astype(np.float64))[1]


def _count_leading_zeros(x):
    bits, u = dtypes.itemsize_bits(x.dtype), _as_unsigned(x)
    if bits < 64:
        return (bits - _bit_length(u)).astype(x.dtype)
    # A double holds 53 bits: words of 64 are counted in halves.
    high, low = u >> np.uint64(32), u & np.uint64(0xFFFFFFFF)
    return np.where(high != 0, 32 - _bit_length(high), 64 - _bit_length(low)).astype(x.dtype)


def _multiply_high(x, y):
    """Return the upper half of the product at twice the width."""
    bits, signed = dtypes.itemsize_bits(x.dtype), dtypes.kind_of(x.dtype) == "i"
    if bits < 64:
        # Twice the width fits into 64 bits.
        wide = np.int64 if signed else np.uint64
        return ((x.astype(wide) * y.astype(wide)) >> wide(bits)).astype(x.dtype)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    u, v = _as_unsigned(x), _as_unsigned(y)
    # Schoolbook multiplication in halves of 32 bits: u v = (a c) 2^64 + (a d + b c) 2^32 + b d.
    a, b, c, d = u >> half, u & mask, v >> half, v & mask
    # Carries into the upper word: neither sum can overflow 64 bits.
    middle = a * d + ((b * d) >> half)
    high = a * c + (middle >> half) + ((b * c + (middle & mask)) >> half)
    if signed:  # a negative factor was read as 2^64 too much
        high = high - np.where(x < 0, v, 0).astype(np.uint64)
        high = high - np.where(y < 0, u, 0).astype(np.uint64)
    return high.view(x.dtype)


def _integers(name: str, function, arity: int = 2, weight: float = 1) -> Primitive:
    return elementwise(
        name,
        arity=arity,
        dtypes=INTEGER,
        # Shifts by the width or more are defined by our helper, not by C++.
        numpy=function if not isinstance(function, np.ufunc) else None,
        numpy_pick=by_dtype(integer=function) if isinstance(function, np.ufunc) else None,
        cuda=_text(name, f"ga_{name}({', '.join(f'{{{i}}}' for i in range(arity))})"),
        jvp=NOT_DIFFERENTIABLE,
        weight=weight,
    )


#: Of integers of fewer than 8 bits, which registers hold as int: `mask` has all of their bits, and
#: `sign` the highest one. The result is wrapped.
_OF_FEW_BITS = {
    "shift_right_logical": "ga_shift_right_logical({{0}} & {mask}, {{1}})",
    "shift_right_arithmetic": (
        "ga_shift_right_arithmetic((({{0}} & {mask}) ^ {sign}) - {sign}, {{1}})"
    ),
    "population_count": "ga_population_count({{0}} & {mask})",
    "clz": "ga_clz({{0}} & {mask}) - {beside}",
    "mulhi": "{{0}} * {{1}} >> {bits}",
}


def _text(name: str, text: str) -> Callable[..., str]:
    """The rule for CUDA of an operation on bits."""

    def rule(avals, **_) -> str:
        bits = dtypes.itemsize_bits(avals[0].dtype)
        if bits >= 8 or name not in _OF_FEW_BITS:
            return text
        return _OF_FEW_BITS[name].format(
            bits=bits, beside=32 - bits, mask=(1 << bits) - 1, sign=1 << bits - 1
        )

    return rule


shift_left_p = _integers("shift_left", np.left_shift)
shift_right_logical_p = _integers("shift_right_logical", _shift_right_logical)
shift_right_arithmetic_p = _integers("shift_right_arithmetic", _shift_right_arithmetic)
population_count_p = _integers("population_count", _population_count, arity=1)
clz_p = _integers("clz", _count_leading_zeros, arity=1)
mulhi_p = _integers("mulhi", _multiply_high, weight=2)

# ---- the same bits as another type ----


def _bitcast_aval(x: ShapedArray, *, new_dtype) -> ShapedArray:
    if isinstance(x.dtype, dtypes.ExtendedDType) or isinstance(new_dtype, dtypes.ExtendedDType):
        raise ValueError(
            f"unexpected input: dtype={x.dtype.name}. The bits of random keys are opaque: use "
            "gpuarray.random.key_data(key)."
        )
    old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old_bits == new_bits:
        # A wider element splits into a new last axis; narrower ones join along the last axis.
        shape = x.shape
    elif old_bits > new_bits:
        shape = (*x.shape, old_bits // new_bits)
    else:
        last = x.shape[-1] if x.shape else 1
        if not x.shape or last * old_bits != new_bits:
            raise ValueError(
                f"Attempting to convert array of shape {x.shape} from {x.dtype.name} of size "
                f"{old_bits} bits to {new_dtype.name} of size {new_bits} bits, but {last} * "
                f"{old_bits} != {new_bits}: the last axis must hold exactly one new element."
            )
        shape = x.shape[:-1]
    if x.dtype != new_dtype and {dtypes.kind_of(x.dtype), dtypes.kind_of(new_dtype)} & {"b", "c"}:
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand "
            f"and destination types match. Got operand dtype={x.dtype.name}, "
            f"new_dtype={new_dtype.name}. Consider using the arr.view() method instead."
        )
    return ShapedArray(shape, new_dtype)


def _bitcast_pick(avals, *, new_dtype):
    old, shape = avals[0].dtype, _bitcast_aval(avals[0], new_dtype=new_dtype).shape
    if old == new_dtype:
        return fresh
    old_bits, new_bits = dtypes.itemsize_bits(old), dtypes.itemsize_bits(new_dtype)
    # Below 8 bits NumPy's elements are bytes with spare bits, which no view can pack.
    if min(old_bits, new_bits) < 8:
        return lambda x: _repack(x, old_bits, new_dtype, new_bits, shape)
    if old_bits == new_bits:
        return lambda x: x.view(new_dtype).copy()

    def regroup(x):
        whole = np.array(x, order="C", ndmin=1)  # a copy, so the result shares no memory with x
        return whole.view(new_dtype).reshape(shape)

    return regroup


def _repack(x, old_bits, new_dtype, new_bits, shape):
    """Regroup bits, lowest first: NumPy stores elements below 8 bits in a byte each."""
    data = np.array(x, order="C", ndmin=1)
    # 4-bit integers unpack from plain bytes; narrow floats are viewed as such already.
    if old_bits < 8 and dtypes.kind_of(data.dtype) in "iu":
        data = data.astype(np.int8)
    bits = np.unpackbits(data.view(np.uint8), bitorder="little")
    if old_bits < 8:
        bits = bits.reshape(-1, 8)[:, :old_bits]
    # Each row is one new element; packbits fills its byte with zeros.
    bits = bits.reshape(-1, new_bits)
    packed = np.packbits(bits, axis=-1, bitorder="little").reshape(-1)
    # int8 first: NumPy's conversion to a signed narrow type keeps the low bits only from there.
    if new_bits < 8 and dtypes.kind_of(new_dtype) == "i":
        packed = packed.astype(np.int8)
    if new_bits < 8 and dtypes.kind_of(new_dtype) in "iu":
        return packed.astype(new_dtype).reshape(shape)
    return packed.view(new_dtype).reshape(shape)


def _bitcast_batch(axis, args, dims, *, new_dtype):
    """Move the batch axis to the front: the last axis may be split or joined."""
    return do.bitcast_convert_type(move_axis(args[0], dims[0], 0), new_dtype=new_dtype), 0


def _bitcast_text(avals, *, new_dtype) -> str:
    if avals[0].dtype == new_dtype:
        return "{0}"
    return from_word(new_dtype, word_of(avals[0].dtype, "{0}"))


def _cast_before(eqn: Eqn, maker: Callable[[Atom], Eqn | None]) -> Atom | Eqn | None:
    """Return the bitcast of what was bitcast: in between, registers would lose bits of nans."""
    before = maker(eqn.invars[0])
    if before is None or before.primitive is not bitcast_convert_type_p:
        return None
    (a,), out = before.invars, eqn.outvars[0].aval
    if a.aval.shape != out.shape:
        return None
    return a if a.aval.dtype == out.dtype else eqn.replace(invars=[a])


# Pointwise if the widths agree; otherwise the result has one axis more or less, as its aval says.
bitcast_convert_type_p = Primitive(
    "bitcast_convert_type",
    Kind.POINTWISE,
    element=BITCAST,
    aval=_bitcast_aval,
    numpy_pick=_bitcast_pick,
    cuda=_bitcast_text,
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_LINEAR,
    batch=_bitcast_batch,
    rewrite=Rewrite(seen_through=_cast_before),
)


def _check_precision(_: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> None:
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"
        )


def _rounded_in(dtype):
    """The dtype whose words are rounded: of floats of 8 bits and fewer, some of which have no
    infinity, float16 as in JAX; of float8_e8m0fnu, which has more powers of two, float32.
    """
    if dtype.itemsize > 1:
        return dtype
    return np.dtype(np.float32 if dtypes.finfo(dtype).nexp == 8 else np.float16)


# The word of each format: sign, exponent, mantissa from high to low.
def _precision_pick(avals, *, exponent_bits, mantissa_bits):
    given = avals[0].dtype
    dtype = _rounded_in(given)
    if dtype != given:
        bits = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
        wide = _precision_pick([ShapedArray((), dtype)], **bits)
        return lambda x: wide(x.astype(dtype)).astype(given)
    info = dtypes.finfo(dtype)
    mantissa, exponent = int(info.nmant), int(info.nexp)
    unsigned = np.dtype(f"u{dtype.itemsize}").type
    sign = 1 << (mantissa + exponent)
    exponent_mask = ((1 << exponent) - 1) << mantissa
    bias = (1 << (exponent - 1)) - 1

    def rule(x):
        x = np.asarray(x)
        bits = x.view(unsigned)
        out = bits
        if mantissa_bits < mantissa:  # round to nearest, halves to even
            last = 1 << (mantissa - mantissa_bits)
            odd = (bits >> unsigned(mantissa - mantissa_bits)) & unsigned(1)
            # Adding half a unit less one, plus the lowest kept bit, carries exactly where it must
            # round up.
            out = (out + (odd + unsigned((last >> 1) - 1))) & unsigned((1 << 8 * x.itemsize) - last)
        if exponent_bits < exponent:
            # Largest exponent, unbiased, of the narrow format.
            reach = (1 << (exponent_bits - 1)) - 1
            power = out & unsigned(exponent_mask)
            signs = bits & unsigned(sign)
            # Too large becomes infinite, too small a zero of the same sign: there are no
            # subnormals.
            out = np.where(
                power > unsigned((bias + reach) << mantissa), signs | unsigned(exponent_mask), out
            )
            out = np.where(power <= unsigned((bias - reach) << mantissa), signs, out)
        # The payload of a nan might round to infinity: it is passed through.
        return np.where(np.isnan(x), x, out.view(dtype))

    return rule


def _precision_text(avals, *, exponent_bits: int, mantissa_bits: int) -> str:
    dtype = _rounded_in(avals[0].dtype)
    info = dtypes.finfo(dtype)
    mantissa, exponent = int(info.nmant), int(info.nexp)
    kept = f"{min(mantissa_bits, mantissa)}, {min(exponent_bits, exponent)}"
    word = f"ga_reduce_precision<{mantissa}, {exponent}, {kept}>({word_of(dtype, '{0}')})"
    text = from_word(dtype, word)
    # In brackets an expression is not taken for one that is rounded already.
    return text if dtype == avals[0].dtype else f"({text})"


reduce_precision_p = elementwise(
    "reduce_precision",
    jvp=LINEAR,
    transpose=lambda ct, x, **params: (do.reduce_precision(ct, **params),),
    dtypes=FLOATING,
    check=_check_precision,
    numpy_pick=_precision_pick,
    cuda=_precision_text,
    weight=3,
)
