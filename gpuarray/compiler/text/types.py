"""CUDA C++ for types, constants and index arithmetic.

Floor 3. In: dtypes, NumPy scalars, Index maps. Out: text. All constants of kernels are written
here, so that nan, infinities, -0.0 and the smallest integers are handled in one place.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import storage_dtype
from gpuarray.core.index import Index, Quotient, Remainder
from gpuarray.core.primitive import NoKernel

#: The C++ type of every dtype that kernels support, by name.
TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
    "float16": "ga_f16",
    "bfloat16": "ga_bf16",
    "float8_e4m3fn": "ga_e4m3",
    "float8_e5m2": "ga_e5m2",
    "float8_e8m0fnu": "ga_e8m0",
    "float8_e4m3": "ga_e4m3_inf",
    "float8_e3m4": "ga_e3m4",
    "float8_e4m3fnuz": "ga_e4m3_uz",
    "float8_e4m3b11fnuz": "ga_e4m3_b11",
    "float8_e5m2fnuz": "ga_e5m2_uz",
    "float6_e2m3fn": "ga_e2m3",
    "float6_e3m2fn": "ga_e3m2",
    "float4_e2m1fn": "ga_e2m1",
    "int4": "ga_i4",
    "int2": "ga_i2",
    "int1": "ga_i1",
    "uint4": "ga_u4",
    "uint2": "ga_u2",
    "uint1": "ga_u1",
    "float32": "float",
    "float64": "double",
    "complex64": "ga_c64",
    "complex128": "ga_c128",
}
#: What registers hold elements as whose arithmetic no hardware has, or only some.
_HELD = {
    name: "float" if name.startswith(("float", "bfloat")) else "int"
    for name, kind in TYPES.items()
    if kind.startswith("ga_") and kind not in ("ga_c64", "ga_c128")
}
# bfloat16 has instructions whose results are rounded at once; the texts that come to them.
ROUNDED_AT_ONCE = {
    f"{{0}} {sign} {{1}}": f"{name}<{{M}}>({{0}}, {{1}})"
    for sign, name in {"+": "ga_plus", "-": "ga_minus", "*": "ga_times", "/": "ga_over"}.items()
} | {"{0} * {0}": "ga_times<{M}>({0}, {0})"}
HALF_TYPES = tuple(TYPES[name] for name in _HELD)


@functools.cache
def _name(dtype) -> str:
    return dtype.name  # NumPy builds the name on every access


def declared_bytes(text: str, structs: Mapping[str, int] | None = None) -> int:
    """Bytes of an array in shared memory, given its declaration and the sizes of the kernel's own
    types.

    >>> declared_bytes("float tile0[32][33]"), declared_bytes("ga_vec<ga_bf16, 8> row0[100]")
    (4224, 1600)
    """
    kind, _, lengths = text.partition("[")
    count = math.prod(int(n) for n in lengths.rstrip("]").split("]["))
    kind = kind.rpartition(" ")[0]
    return count * (structs[kind] if structs and kind in structs else bytes_of(kind))


def bytes_of(kind: str) -> int:
    """Bytes of a type, by its name."""
    if vector := re.fullmatch(r"ga_vec<(.*), (\d+)>", kind):
        return int(vector[2]) * bytes_of(vector[1])
    if twice := re.fullmatch(r"ga_complex<(.*)>", kind):
        return 2 * bytes_of(twice[1])
    # An element with its position, which has 8 bytes.
    return 16 if kind.startswith("ga_arg<") else _sizes()[kind]


@functools.cache
def _sizes() -> dict[str, int]:
    """Bytes of the types by name."""
    return {kind: np.dtype(name).itemsize for name, kind in TYPES.items()}


def memory_type(aval: ShapedArray) -> str:
    """The type of an element in memory."""
    name = _name(storage_dtype(aval))
    if name not in TYPES:
        raise NoKernel(
            f"dtype {name} has no CUDA type here: keep it on the CPU, or convert it there, for "
            "example to float32"
        )
    return TYPES[name]


def value_type(aval: ShapedArray) -> str:
    """The type of a value in a register: floats of 16 bits and fewer are computed in float and
    rounded after every operation, integers of 4 bits and fewer in int and wrapped.
    """
    return _HELD.get(_name(storage_dtype(aval))) or memory_type(aval)


def is_half(aval: ShapedArray) -> bool:
    """Whether registers hold elements as another type: floats of 16 bits and fewer as float,
    integers of 4 bits and fewer as int.
    """
    return _name(storage_dtype(aval)) in _HELD


def rounded(expression: str, aval: ShapedArray) -> str:
    """An expression as a value of its declared dtype."""
    held = _HELD.get(_name(storage_dtype(aval)))
    if held is None:
        return expression
    return f"{'ga_round' if held == 'float' else 'ga_wrap'}<{memory_type(aval)}>({expression})"


def constant(value, aval: ShapedArray) -> str:
    """A scalar as text that compiles to exactly its bits (a nan to a quiet nan)."""
    dtype = storage_dtype(aval)
    x: Any = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "c":
        # The type's name before the braces: a brace list alone has no type in an expression.
        part = np.float32 if dtype.itemsize == 8 else np.float64
        return f"{memory_type(aval)}{{{_real(part(x.real))}, {_real(part(x.imag))}}}"
    if dtype.kind == "b":
        return "true" if x else "false"
    if dtype.kind in "iu":
        return _integer(int(x), dtype)
    if _HELD.get(_name(dtype)) == "int":
        return str(int(x))
    # Floats of 16 and 8 bits are written as the float that a register holds.
    return _real(x.astype(np.float32) if dtype.itemsize <= 2 else x)


def _real(x) -> str:
    # Without the suffix a literal is a double, and all arithmetic with it would be.
    double = x.dtype.itemsize == 8
    suffix = "" if double else "f"
    # C++ has no literals for these; the prelude defines names.
    if math.isnan(x):
        return f"GA_NAN{suffix.upper()}"
    if math.isinf(x):
        return f"{'-' if x < 0 else ''}GA_INF{suffix.upper()}"
    # The shortest digits that give the same bits back; 0.0 keeps its sign.
    text = (
        np.format_float_scientific(x, unique=True, trim="0")
        if x
        else ("-0.0" if np.signbit(x) else "0.0")
    )
    # Ordinary magnitudes are easier to read without an exponent.
    if x and 1e-4 <= abs(x) < 1e7:
        text = np.format_float_positional(x, unique=True, trim="0")
    return text + suffix


def _integer(n: int, dtype: np.dtype) -> str:
    if dtype.itemsize < 4:  # C++ has no literals below int, and templates look at the type
        return f"({TYPES[dtype.name]}){n}"
    if dtype.kind == "u":
        return f"{n}u" if dtype.itemsize == 4 else f"{n}ull"
    if dtype.itemsize < 8:
        # -2147483648 would be the negation of a literal that does not fit into an int.
        return f"({n + 1} - 1)" if n == -(2**31) else str(n)
    return f"({n + 1}ll - 1ll)" if n == -(2**63) else f"{n}ll"


def index_text(
    index: Index,
    names: Mapping[Any, str],
    suffix: str,
    distance: Callable[[Any, int], str] | None = None,
) -> str:
    """Index arithmetic as text; `names` are the C++ names of axes and of places read from memory,
    which are unsigned. `suffix` ends literals of their type; `distance` is the text of the
    multiplier of such an axis or place.
    """

    def number(n: int) -> str:
        return f"{n}{suffix}"

    apart = distance or (lambda _, n: number(n))

    def text(index: Index) -> str:
        # The largest strides first, as one would write a row-major position.
        parts: list[str] = []
        terms: list[tuple[Any, int]] = sorted(index.terms, key=lambda term: -abs(term[1]))
        for a, k in terms:
            if not isinstance(a, Quotient | Remainder):
                inner = names[a.name]
            else:
                # Quotients and remainders stay only where shapes did not let them simplify.
                sign = "/" if isinstance(a, Quotient) else "%"
                inside = text(a.inner)
                # A single name needs no parentheses before / or %.
                bare = (
                    len(a.inner.terms) == 1
                    and not a.inner.constant
                    and abs(a.inner.terms[0][1]) == 1
                )
                inner = f"{inside if bare else f'({inside})'} {sign} {number(a.divisor)}"
                inner = f"({inner})"
            size = inner if abs(k) == 1 else f"{inner} * {apart(a, abs(k))}"
            # Unsigned arithmetic is modulo 2**32 or 2**64: a sum that is not negative is right,
            # even if parts of it wrap.
            if not parts:
                parts.append(size if k > 0 else f"0{suffix} - {size}")
            else:
                parts.append(f"{'+' if k > 0 else '-'} {size}")
        if index.constant or not parts:
            if parts:
                parts.append(f"{'+' if index.constant > 0 else '-'} {number(abs(index.constant))}")
            else:
                parts.append(number(index.constant))
        return " ".join(parts)

    if index.terms and all(k < 0 for _, k in index.terms) and index.constant > 0:
        # Written from the constant down: n - 1 - i reads better than 0 - i + n - 1, and never
        # wraps.
        return f"{number(index.constant)} - " + " - ".join(
            text(Index(((a, -k),))) for a, k in index.terms
        )
    return text(index)
