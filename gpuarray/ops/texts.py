"""How a CUDA rule is chosen by the class of its elements.

Floor 2. In: one template for each class that an op writes in its own way. Out: `cuda` rules. 16-bit
floats are `floating`: they are computed in float, and the compiler rounds the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray

Rule = Callable[..., str]


def is_half(dtype) -> bool:
    """Whether a dtype is one of the 16-bit floats, which registers hold as float."""
    return dtype == dtypes.float16 or dtype == dtypes.bfloat16


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
    return f"ga_half_word<{_half_name(dtype)}>({text})" if is_half(dtype) else f"ga_word({text})"


def from_word(dtype, text: str) -> str:
    """A value from its bits."""
    if is_half(dtype):
        return f"ga_from_half_word<{_half_name(dtype)}>({text})"
    if dtype == dtypes.float32:
        return f"__uint_as_float({text})"
    if dtype == dtypes.float64:
        return f"__longlong_as_double((long long){text})"
    return f"({{T}}){text}"


def _half_name(dtype) -> str:
    return "ga_f16" if dtype == dtypes.float16 else "ga_bf16"
