"""How a CUDA rule is chosen by the class of its elements.

Floor 2. In: one template for each class that an op writes in its own way. Out: `cuda` rules. Floats
of 16 and 8 bits are computed in float, and the compiler rounds the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray

Rule = Callable[..., str]


#: The floats that registers hold as float, and their types in memory.
_NARROW = {
    dtypes.float16: "ga_f16",
    dtypes.bfloat16: "ga_bf16",
    dtypes.float8_e4m3fn: "ga_e4m3",
    dtypes.float8_e5m2: "ga_e5m2",
    dtypes.float8_e8m0fnu: "ga_e8m0",
    dtypes.float4_e2m1fn: "ga_e2m1",
}


def is_half(dtype) -> bool:
    """Whether a dtype is one of the floats of 16 and 8 bits, which registers hold as float."""
    return dtype in _NARROW


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
    """A `cuda` rule: the template for the class of the first operand's elements.

    `any` is for real numbers; `unsigned` defaults to `integer`, `half` to what other floats have.

    >>> rule = by_class("-{0}", integer="ga_neg({0})", complex="-{0}")
    >>> rule([ShapedArray((), dtypes.int32)]), rule([ShapedArray((), dtypes.float32)])
    ('ga_neg({0})', '-{0}')
    """
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
        kind = "k" if isinstance(dtype, dtypes.KeyDtype) else dtypes.kind_of(dtype)
        if kind not in real or not real[kind]:
            raise TypeError(f"no CUDA text for elements of dtype {dtype.name}")
        return real[kind]

    return rule


def everything(template: str) -> Rule:
    """The same template for every class of elements."""
    return by_class(template, complex=template, boolean=template, key=template)


def word_of(dtype, text: str) -> str:
    """The bits of a value as an unsigned integer of the width it has in memory."""
    return f"ga_half_word<{_NARROW[dtype]}>({text})" if is_half(dtype) else f"ga_word({text})"


def from_word(dtype, text: str) -> str:
    """A value from its bits."""
    if is_half(dtype):
        return f"ga_from_half_word<{_NARROW[dtype]}>({text})"
    if dtype == dtypes.float32:
        return f"__uint_as_float({text})"
    if dtype == dtypes.float64:
        return f"__longlong_as_double((long long){text})"
    return f"({{T}}){text}"


# ---- arithmetic, comparison, choice ----

ADD = by_class("{0} + {1}", integer="ga_add({0}, {1})", unsigned="{0} + {1}", complex="{0} + {1}")
SUB = by_class("{0} - {1}", integer="ga_sub({0}, {1})", unsigned="{0} - {1}", complex="{0} - {1}")
MUL = by_class("{0} * {1}", integer="ga_mul({0}, {1})", complex="{0} * {1}")
MAX = by_class("ga_max({0}, {1})", complex="ga_cmax({0}, {1})", boolean="{0} || {1}")
MIN = by_class("ga_min({0}, {1})", complex="ga_cmin({0}, {1})", boolean="{0} && {1}")

#: by RoundingMethod
ROUND = {0: "ga_round_away({0})", 1: "ga_rint({0})"}


def power(avals, *, y: int):
    """Short powers written out, others by squaring."""
    kind = dtypes.kind_of(avals[0].dtype)
    one = "{T}{{1, 0}}" if kind == "c" else "({T})1"
    if y == 0:
        return one
    if abs(y) <= 3 and kind in "fc":
        text = " * ".join(["{0}"] * abs(y))
    else:
        text = f"ga_{'c' if kind == 'c' else ''}power<{abs(y)}>({{0}})"
    if y > 0:
        return text
    return f"ga_cdiv({one}, {text})" if kind == "c" else f"{one} / ({text})"


def equal(avals) -> str:
    """Numbers compare, keys bit by bit."""
    # A key of four words is stored as a complex number.
    key = isinstance(avals[0].dtype, dtypes.KeyDtype) and avals[0].dtype.storage.kind == "c"
    return "ga_same_key({0}, {1})" if key else "{0} == {1}"


def not_equal(avals) -> str:
    """The opposite of `equal`."""
    text = equal(avals)
    return "{0} != {1}" if "==" in text else f"!{text}"


def total_order(sign: str) -> Rule:
    """A comparison of floats in total order."""

    def text(avals) -> str:
        if dtypes.kind_of(avals[0].dtype) != "f":
            return f"{{0}} {sign} {{1}}"
        return f"ga_order({{0}}) {sign} ga_order({{1}})"

    return text


def select(avals) -> str:
    """The case that operand 0 counts; out of range, the nearest."""
    last = len(avals) - 1
    if dtypes.kind_of(avals[0].dtype) == "b" and last == 2:
        return "{0} ? {2} : {1}"
    return "".join(f"{{0}} < {k} ? {{{k}}} : " for k in range(1, last)) + f"{{{last}}}"


def clamp(avals) -> str:
    """min(max(x, low), high)"""
    call = "ga_{0}({1}, {2})"
    if dtypes.kind_of(avals[0].dtype) == "c":
        call = "ga_c{0}({1}, {2})"
    return call.format("min", call.format("max", "{1}", "{0}"), "{2}")
