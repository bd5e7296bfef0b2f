"""Promotion: the common type of several values or dtypes.

In: dtypes, or values, some of them weak: a Python number's dtype is only a default, which gives way
to arrays. Out: a dtype, and whether it is weak. Floor 1: core.dtypes, core.lattice.
"""

from __future__ import annotations

from typing import Any

from gpuarray import config
from gpuarray.core import dtypes, lattice
from gpuarray.core.extended import ExtendedDType

_state = config.state
_PYTHON = dtypes.python_scalar_dtypes


class TypePromotionError(ValueError):
    """The types of several values have no common type that they convert to implicitly."""


# The name of a dtype in the promotion lattice.
def _node(dtype: Any, weak: bool) -> str:
    name = dtypes.NAMES.get(dtype)
    if name is None:
        raise ValueError(
            f"dtype={dtype!r} is not a valid dtype for type promotion; expected a number or bool "
            "dtype. Random keys and float0 values combine only with their own kind."
        )
    if weak:
        # Weak values of one kind are the same node, whatever their width.
        return {"i": "int*", "u": "int*", "f": "float*", "c": "complex*"}.get(
            dtypes.kind_of(dtype), name
        )
    return name


_WEAK_TYPES = {"int*": int, "float*": float, "complex*": complex}


def _no_path(nodes: Any, strict: bool) -> TypePromotionError:
    names = tuple(
        f"weak {n[:-1]}" if n in _WEAK_TYPES else n for n in sorted(nodes, key=lattice.NODES.index)
    )
    text = f"Input dtypes {names} have no available implicit dtype promotion path"
    if strict:
        return TypePromotionError(
            f"{text} when jax_numpy_dtype_promotion=strict. Convert the inputs with .astype(...), "
            "or set jax_numpy_dtype_promotion=standard."
        )
    if set(nodes).intersection(lattice.SMALL_FLOATS):
        text += ". To avoid unintended promotion, floats of 8 bits and less do not mix"
    elif set(nodes).intersection(lattice.SMALL_INTS):
        text += ". To avoid unintended promotion, integers of 4 bits and less do not mix"
    return TypePromotionError(f"{text}. Convert explicitly, for example with x.astype('float32').")


def _combine(pairs: tuple[tuple[Any, bool], ...]) -> tuple[Any, bool]:
    """Promote (dtype, weak) pairs. The result is a 64-bit type only if an operand is."""
    given = {d for d, _ in pairs}
    weak = all(w for _, w in pairs)
    strict = _state.numpy_dtype_promotion == "strict"
    # Only one type: promotion changes nothing but the width.
    if len(pairs) == 1 or (len(given) == 1 and not weak):
        result = pairs[0][0]
        return result, weak and result != dtypes.bool_
    # Among weak values only, widths still count; next to a strong one just their kind does.
    keep = weak and not strict
    nodes = frozenset(_node(d, w and not keep) for d, w in pairs)
    found = lattice.least_upper_bound(nodes, strict)
    if found is None:
        raise _no_path(nodes, strict)
    if found in _WEAK_TYPES:
        return dtypes.canonicalize_dtype(_WEAK_TYPES[found]), True
    result = dtypes.BY_NAME[found]
    if given.isdisjoint(dtypes.NARROW):  # uint32 with int32 would need int64
        result = dtypes.canonicalize_dtype(result)
    return result, keep and found != "bool"


def promote2(dtype_a: Any, weak_a: bool, dtype_b: Any, weak_b: bool) -> tuple[Any, bool]:
    """Return (dtype, weak_type) of a binary operation's common type; one dict lookup when known.

    >>> promote2(dtypes.float16, False, dtypes.int32, False)
    (dtype('float16'), False)
    """
    # Of two strong and weak types, for each set of settings.
    memo = _state.trace_key.promotions
    key = (dtype_a, weak_a, dtype_b, weak_b)
    try:
        return memo[key]
    except KeyError:
        found = memo[key] = _combine(((dtype_a, weak_a), (dtype_b, weak_b)))
        return found


def dtype_and_weak(x: Any) -> tuple[Any, bool]:
    """Return the dtype and weak type of a value, or of a dtype given in its place.

    >>> import numpy as np
    >>> dtype_and_weak(2.0), dtype_and_weak(float), dtype_and_weak(np.float32(2))
    ((dtype('float32'), True), (dtype('float32'), True), (dtype('float32'), False))
    """
    kind = type(x)
    if kind in _PYTHON:
        return dtypes.canonicalize_dtype(kind), kind is not bool
    # An array or a tracer.
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    if kind is type and x in _PYTHON:
        return dtypes.canonicalize_dtype(x), x is not bool
    return dtypes.dtype(x), bool(getattr(x, "weak_type", False))


def lattice_result_type(*args: Any) -> tuple[Any, bool]:
    """Return (dtype, weak_type) that values, or dtypes in their place, promote to together.

    >>> import numpy as np
    >>> lattice_result_type(np.float16(1), 2.0)
    (dtype('float16'), False)
    """
    if len(args) == 2:
        return promote2(*dtype_and_weak(args[0]), *dtype_and_weak(args[1]))
    pairs = tuple(dtype_and_weak(x) for x in args)
    memo = _state.trace_key.promotions
    try:
        return memo[pairs]
    except KeyError:
        found = memo[pairs] = _combine(pairs)
        return found


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype that values, or dtypes in their place, promote to together.

    With `return_weak_type_flag` the result is a pair (dtype, weak_type).

    >>> import numpy as np
    >>> result_type(np.int8(1), np.uint8(1)), result_type(np.int32(1), 2.5)
    (dtype('int16'), dtype('float32'))
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    # None means the default float type, as in NumPy.
    found, weak = lattice_result_type(*(dtypes.default_float() if x is None else x for x in args))
    return (found, weak) if return_weak_type_flag else found


def promote_types(a: Any, b: Any) -> Any:
    """Return the type to which two dtypes promote; Python's number types count as weak.

    >>> promote_types("int32", "float16"), promote_types("bfloat16", float)
    (dtype('float16'), dtype(bfloat16))
    """
    return _promoted(a, b, _state.numpy_dtype_promotion == "strict")


def wider(a: Any, b: Any) -> Any:
    """Return the type to which two dtypes promote, even if the settings forbid implicit promotion.

    It is for the library's own intermediate values. Floats of 8 bits and less fit in every other.

    >>> wider("float16", "float32"), wider("float8_e4m3fn", "bfloat16")
    (dtype('float32'), dtype(bfloat16))
    """
    for narrow, other in ((a, b), (b, a)):
        if _is_narrow(narrow) and dtypes.kind_of(dtypes.as_dtype(other)) in "fc":
            if not _is_narrow(other):
                return dtypes.as_dtype(other)
    return _promoted(a, b, False)


def _is_narrow(dtype: Any) -> bool:
    dtype = dtypes.as_dtype(dtype)
    return dtypes.kind_of(dtype) == "f" and dtypes.itemsize_bits(dtype) <= 8


def _promoted(a: Any, b: Any, strict: bool) -> Any:
    nodes = []
    for d in (a, b):
        if isinstance(d, ExtendedDType):
            raise TypeError(f"Cannot interpret '{d}' as a data type that promotes")
        weak = isinstance(d, type) and d in (int, float, complex)
        nodes.append(_node(dtypes.as_dtype(d), weak))
    found = lattice.least_upper_bound(frozenset(nodes), strict)
    if found is None:
        raise _no_path(frozenset(nodes), strict)
    if found == "int64" and found not in nodes and not _state.enable_x64:
        found = "int32"  # uint32 with a signed type: there is no wider type
    return _PYTHON[_WEAK_TYPES[found]] if found in _WEAK_TYPES else dtypes.BY_NAME[found]
