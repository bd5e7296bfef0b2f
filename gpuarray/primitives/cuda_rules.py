"""CUDA text of pointwise operations, chosen by the dtype of the operands.

Floor 2. In: a template for each class of dtypes that an operation treats in its own way. Out:
`cuda` rules, functions of the avals. Floats of 16 bits and fewer are computed in float; the
compiler rounds the result to the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import NoKernel

Rule = Callable[..., str]


#: Floats that registers hold as float, with the type that names their format in memory.
_NARROW = {
    dtypes.float16: "ga_f16",
    dtypes.bfloat16: "ga_bf16",
    dtypes.float8_e4m3fn: "ga_e4m3",
    dtypes.float8_e5m2: "ga_e5m2",
    dtypes.float8_e8m0fnu: "ga_e8m0",
    dtypes.float8_e4m3: "ga_e4m3_inf",
    dtypes.float8_e3m4: "ga_e3m4",
    dtypes.float8_e4m3fnuz: "ga_e4m3_uz",
    dtypes.float8_e4m3b11fnuz: "ga_e4m3_b11",
    dtypes.float8_e5m2fnuz: "ga_e5m2_uz",
    dtypes.float6_e2m3fn: "ga_e2m3",
    dtypes.float6_e3m2fn: "ga_e3m2",
    dtypes.float4_e2m1fn: "ga_e2m1",
}


def is_half(dtype) -> bool:
    """Whether `dtype` is a float of 16 bits or fewer, which registers hold as float."""
    return dtype in _NARROW


def is_held(dtype) -> bool:
    """Whether registers hold elements as another type than memory: also integers of few bits."""
    return is_half(dtype) or dtypes.itemsize_bits(dtype) < 8


def by_class(
    any: str = "",
    *,
    integer: str = "",
    unsigned: str = "",
    half: str = "",
    complex: str = "",
    boolean: str = "",
    key: str = "",
) -> Rule:
    """Return a `cuda` rule that picks a template by the dtype of the first operand.

    `any` is for real numbers; `unsigned` defaults to `integer`, and `half` (the narrow floats) to
    `any`. An empty template means that the operation has no such operands.

    >>> rule = by_class("-{0}", integer="ga_neg({0})", complex="-{0}")
    >>> rule([ShapedArray((), dtypes.int32)]), rule([ShapedArray((), dtypes.float32)])
    ('ga_neg({0})', '-{0}')
    """
    # Keyed by `dtype.kind`; "k" stands for random keys.
    real = {
        "i": integer or any,
        "u": unsigned or integer or any,
        "f": any,
        "b": boolean,
        "c": complex,
        "k": key,
    }

    def rule(avals: Sequence[ShapedArray], **_) -> str:
        dtype = avals[0].dtype
        if half and is_half(dtype):
            return half
        kind = "k" if isinstance(dtype, dtypes.ExtendedDType) else dtypes.kind_of(dtype)
        if kind not in real or not real[kind]:
            raise NoKernel(f"no CUDA text for elements of dtype {dtype.name}")
        return real[kind]

    return rule


def everything(template: str) -> Rule:
    """Return a `cuda` rule that is `template` for every dtype."""
    return by_class(template, complex=template, boolean=template, key=template)


def word_of(dtype, text: str) -> str:
    """The bits of a value as an unsigned integer of the width it has in memory."""
    if is_half(dtype):
        return f"ga_half_word<{_NARROW[dtype]}>({text})"
    bits = dtypes.itemsize_bits(dtype)
    # Registers hold integers of fewer than 8 bits as int.
    return f"ga_word({text} & {(1 << bits) - 1})" if bits < 8 else f"ga_word({text})"


def from_word(dtype, text: str) -> str:
    """A value from its bits."""
    if is_half(dtype):
        return f"ga_from_half_word<{_NARROW[dtype]}>({text})"
    if dtype == dtypes.float32:
        return f"__uint_as_float({text})"
    if dtype == dtypes.float64:
        return f"__longlong_as_double((long long){text})"
    # Integers and bools: a conversion of the same width keeps the bits.
    return f"({{T}}){text}"


# ---- arithmetic, comparison, choice ----

# Signed integers go through ga_add and its like, which wrap: overflow of int is undefined in C++.
ADD = by_class("{0} + {1}", integer="ga_add({0}, {1})", unsigned="{0} + {1}", complex="{0} + {1}")
SUB = by_class("{0} - {1}", integer="ga_sub({0}, {1})", unsigned="{0} - {1}", complex="{0} - {1}")
MUL = by_class("{0} * {1}", integer="ga_mul({0}, {1})", complex="{0} * {1}")
MAX = by_class("ga_max({0}, {1})", complex="ga_cmax({0}, {1})", boolean="{0} || {1}")
MIN = by_class("ga_min({0}, {1})", complex="ga_cmin({0}, {1})", boolean="{0} && {1}")
LARGEST = by_class("ga_max({0}, {1})", complex="ga_clargest({0}, {1})", boolean="{0} || {1}")
SMALLEST = by_class("ga_min({0}, {1})", complex="ga_csmallest({0}, {1})", boolean="{0} && {1}")

#: Keyed by `RoundingMethod`.
ROUND = {0: "ga_round_away({0})", 1: "ga_rint({0})"}


def power(avals, *, y: int):
    """x ** y for a fixed integer y: short powers as products, others by squaring."""
    kind = dtypes.kind_of(avals[0].dtype)
    one = "{T}{{1, 0}}" if kind == "c" else "({T})1"
    if y == 0:
        return one
    # x * x * x is exact enough for floats and shorter than the helper; integers need ga_mul to
    # wrap.
    if abs(y) <= 3 and kind in "fc":
        text = " * ".join(["{0}"] * abs(y))
    else:
        text = f"ga_{'c' if kind == 'c' else ''}power<{abs(y)}>({{0}})"
    if y > 0:
        return text
    return f"ga_cdiv({one}, {text})" if kind == "c" else f"{one} / ({text})"


def equal(avals) -> str:
    """Compare numbers by value, random keys bit by bit."""
    # A key of four words is stored as a complex number.
    key = isinstance(avals[0].dtype, dtypes.ExtendedDType) and avals[0].dtype.storage.kind == "c"
    return "ga_same_key({0}, {1})" if key else "{0} == {1}"


def not_equal(avals) -> str:
    """The negation of `equal`."""
    text = equal(avals)
    # `!=` rather than `!(==)`, which would be the same for nan but longer to read.
    return "{0} != {1}" if "==" in text else f"!{text}"


def total_order(sign: str) -> Rule:
    """Return the rule of a comparison in total order (-nan < -inf < ... < inf < nan)."""

    def text(avals) -> str:
        # Integers are in total order already.
        if dtypes.kind_of(avals[0].dtype) != "f":
            return f"{{0}} {sign} {{1}}"
        return f"ga_order({{0}}) {sign} ga_order({{1}})"

    return text


def select(avals) -> str:
    """Choose operand `1 + which`; an index out of range is clamped to the nearest case."""
    last = len(avals) - 1
    # A bool chooses between two cases; false is the first.
    if dtypes.kind_of(avals[0].dtype) == "b" and last == 2:
        of_complex = dtypes.kind_of(avals[1].dtype) == "c"
        return "ga_cchoose({0}, {2}, {1})" if of_complex else "{0} ? {2} : {1}"
    # Tests in ascending order: `which < 1` includes negative indices, the last case too large ones.
    return "".join(f"{{0}} < {k} ? {{{k}}} : " for k in range(1, last)) + f"{{{last}}}"


def clamp(avals) -> str:
    """min(max(x, low), high), with operands in the order (low, x, high)."""
    call = "ga_{0}({1}, {2})"
    if dtypes.kind_of(avals[0].dtype) == "c":
        call = "ga_c{0}({1}, {2})"
    return call.format("min", call.format("max", "{1}", "{0}"), "{2}")
