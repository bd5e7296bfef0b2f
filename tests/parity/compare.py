"""What a call did, and whether two calls did the same.

In: the value a case returned, or the error it raised. Out: an `Outcome`, plain data without any
library object in it; `difference(reference, ours, tolerance)` says in one line how two outcomes
differ, or "".
"""

import dataclasses
import functools
import re
import types
from typing import Any

import ml_dtypes
import numpy as np

# Exceptions of the reference that no public name reaches: a program catches their base.
PRIVATE = {"IndivisibleError"}
# Errors from the insides of the reference: type name -> how the message starts.
ACCIDENTS = {
    "AssertionError": "",
    "AttributeError": r"'\w+' object has no attribute",
    "IndexError": r"(tuple|list)( assignment)? index|pop from|index -?\d+ is out of bounds for",
    "JaxRuntimeError": "",
    "MLIRError": "",
    "NotImplementedError": "",
    "OverflowError": "cannot convert float",
    "RuntimeError": "std::",
    "StopIteration": "",
    "TypeError": r"len\(\) of unsized object",
    "ValueError": r"safe_(map|zip)\(\)|zip\(\) argument",
    "ZeroDivisionError": "",
}


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Allowed distance in units in the last place.

    `norm` takes the unit at the largest element of the array, for results of sums; `floor` takes it
    at that number where the elements are smaller, for functions that cancel.
    """

    ulp: float = 4
    norm: bool = False
    floor: float = 0.0
    zero_sign: bool = True


@dataclasses.dataclass
class Outcome:
    """A structure with leaves, or an error: its type names (most derived first) and message."""

    structure: str = ""
    leaves: list[Any] = dataclasses.field(default_factory=list)
    error: tuple[str, ...] = ()
    message: str = ""


@dataclasses.dataclass
class Leaf:
    """One array: `where` is 'array' for the library's own type, 'numpy' for NumPy's."""

    where: str
    dtype: str
    shape: tuple[int, ...]
    weak: bool
    value: np.ndarray

    def type_text(self) -> str:
        """`array f32[3]*`: what differs before any value does."""
        shape = ",".join(map(str, self.shape))
        return f"{self.where} {self.dtype}[{shape}]{'*' if self.weak else ''}"


def capture_error(error: BaseException) -> Outcome:
    classes = [c for c in type(error).__mro__ if c not in (BaseException, object)]
    names = tuple(c.__name__ for c in classes if c.__name__ not in PRIVATE)
    return Outcome(error=names, message=str(error))


def capture(value: Any, lib: Any) -> Outcome:
    """Reduce `value` to plain data: containers to a structure text, arrays to `Leaf`s."""
    leaves: list[Any] = []
    return Outcome(_walk(value, leaves, lib), leaves)


def _walk(value: Any, leaves: list[Any], lib: Any) -> str:
    walk = functools.partial(_walk, leaves=leaves, lib=lib)
    if isinstance(value, lib.Array):
        leaves.append(_library_leaf(value, lib))
        return "*"
    for number in (bool, int, float, complex):
        if isinstance(value, number) and not isinstance(value, np.generic):
            return f"{number.__name__} {number.__repr__(value)}"
    if isinstance(value, (np.integer, np.bool_)):  # in shapes, as good as a Python number
        return f"{'bool' if isinstance(value, np.bool_) else 'int'} {value}"
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        leaves.append(Leaf("numpy", str(array.dtype), array.shape, False, array))
        return "*"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inner = ", ".join(f"{k}={walk(v)}" for k, v in zip(value._fields, value, strict=True))
        return f"{type(value).__name__}({inner})"
    if type(value) in (list, tuple):
        open_, close = "[]" if isinstance(value, list) else "()"
        return open_ + ", ".join(walk(v) for v in value) + close
    if isinstance(value, dict):
        inner = ", ".join(f"{k!r}: {walk(v)}" for k, v in value.items())
        return f"{type(value).__name__}{{{inner}}}"
    if isinstance(value, slice):
        return f"slice({walk(value.start)}, {walk(value.stop)}, {walk(value.step)})"
    if isinstance(value, type):
        return f"class {value.__name__}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function"
    if isinstance(value, (ml_dtypes.finfo, np.finfo, ml_dtypes.iinfo, np.iinfo)):
        return _limits(value)
    kind = type(value).__name__ + " " if type(value).__module__ == "builtins" else ""
    return kind + _neutral(repr(value), lib)


def _limits(info: Any) -> str:
    names = (
        "bits eps max min tiny smallest_normal epsneg resolution nmant nexp maxexp minexp precision"
    )
    found = {n: getattr(info, n) for n in names.split() if hasattr(info, n)}
    return "limits " + ", ".join(f"{n}={float(v):.17g}" for n, v in found.items())


def _neutral(text: str, lib: Any) -> str:
    """Forget the library's name and the addresses of objects."""
    return re.sub(r" at 0x[0-9a-f]+", "", text.replace(lib.__name__, "jax"))


def _library_leaf(value: Any, lib: Any) -> Leaf:
    weak = bool(getattr(value, "weak_type", False))
    dtype = str(value.dtype)
    if dtype.startswith("key<"):
        return Leaf(
            "array", dtype, tuple(value.shape), weak, np.asarray(lib.random.key_data(value))
        )
    return Leaf("array", dtype, tuple(value.shape), weak, np.asarray(value))


def accidental(outcome: Outcome) -> bool:
    """Whether an error is an accident inside the reference, whose type is no promise to anyone."""
    first = outcome.error[0] if outcome.error else ""
    return first in ACCIDENTS and bool(re.match(ACCIDENTS[first], outcome.message))


def difference(reference: Outcome, ours: Outcome, tolerance: Tolerance) -> str:
    """Why the two outcomes disagree, or an empty string."""
    if reference.error or ours.error:
        if reference.error and reference.error[0] in ours.error:
            return ""
        if ours.error and accidental(reference):
            return ""
        return f"expected {_brief(reference)}, got {_brief(ours)}"
    if reference.structure != ours.structure:
        return f"expected {reference.structure[:300]}, got {ours.structure[:300]}"
    for want, got in zip(reference.leaves, ours.leaves, strict=True):
        if want.type_text() != got.type_text():
            return f"expected {want.type_text()}, got {got.type_text()}"
        if want.value.dtype != got.value.dtype or want.value.shape != got.value.shape:
            shapes = f"{want.value.dtype}{want.value.shape}, {got.value.dtype}{got.value.shape}"
            return f"as NumPy arrays they differ in type: {shapes}"
        if reason := value_difference(want.value, got.value, tolerance):
            return reason
    return ""


def same_message(reference: Outcome, ours: Outcome) -> bool:
    """Whether two errors open with the same words (reported, never failed)."""

    def head(text: str) -> str:
        return re.sub(r"\W+", " ", text)[:48].strip().lower()

    return head(reference.message) == head(ours.message)


def _brief(outcome: Outcome) -> str:
    if outcome.error:
        return f"{outcome.error[0]}: {outcome.message.strip()[:160]!r}"
    types_ = " ".join(leaf.type_text() for leaf in outcome.leaves[:3])
    return f"a value ({types_ or outcome.structure[:80]})"


def value_difference(want: np.ndarray, got: np.ndarray, tolerance: Tolerance) -> str:
    """Compare two arrays of one dtype and shape."""
    if want.size == 0:
        return ""
    if want.dtype.kind == "c":
        part = {"c8": np.float32, "c16": np.float64}[want.dtype.str[1:]]
        want, got = (np.ascontiguousarray(a).view(part).reshape(*a.shape, 2) for a in (want, got))
        bad = ~_close_complex(want, got, tolerance)
        bad = np.broadcast_to(bad[..., None], want.shape)
    elif _is_float(want.dtype):
        bad = ~_close_float(want, got, tolerance)
    elif want.dtype == object:
        bad = np.array(want != got)
    else:
        bad = np.asarray(want != got)
    if not bad.any():
        return ""
    apart = _ulps(want, got) if _is_float(want.dtype) else bad
    flat = int(np.argmax(np.where(bad, apart, -1.0)))
    a, b = want.reshape(-1)[flat], got.reshape(-1)[flat]
    apart = f", {_ulps(want, got).reshape(-1)[flat]:.3g} ulp" if _is_float(want.dtype) else ""
    return (
        f"{int(bad.sum())}/{bad.size} values differ, first at {flat}: expected {a}, got {b}{apart}"
    )


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def _close_float(want: np.ndarray, got: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    info = ml_dtypes.finfo(want.dtype)
    a, b = want.astype(np.float64), got.astype(np.float64)
    size = np.abs(a)
    near = _ulps(want, got) <= tolerance.ulp
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(a - b)
        # The reference may flush subnormal numbers to zero; a kept one is not wrong.
        tiny = float(info.tiny)
        near |= (size < tiny) & (np.abs(b) < tiny)
        if tolerance.ulp:
            near |= apart <= tiny
        if tolerance.norm:
            size = np.full_like(size, size[np.isfinite(size)].max(initial=0.0))
        if tolerance.norm or tolerance.floor:
            near |= apart <= tolerance.ulp * float(info.eps) * np.maximum(size, tolerance.floor)
    if tolerance.zero_sign:
        near &= ~((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)))
    return near | (np.isnan(a) & np.isnan(b))


def _close_complex(want: np.ndarray, got: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Parts agree one by one, or their difference is small against the whole number."""
    loose = dataclasses.replace(tolerance, ulp=max(tolerance.ulp, 4), zero_sign=False)
    each = _close_float(want, got, loose).all(-1)
    eps = float(ml_dtypes.finfo(want.dtype).eps)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(want.astype(np.float64) - got.astype(np.float64)).max(-1)
        size = np.abs(want.astype(np.float64)).max(-1)
        whole = np.isfinite(size) & (apart <= loose.ulp * eps * np.maximum(size, loose.floor))
    return each | whole


def _ulps(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Distance in representable numbers; infinite where just one side is NaN."""
    a, b = _ordered(want), _ordered(got)
    distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    if want.dtype.itemsize == 8:  # float64 ordinals do not fit a double: small distances exactly
        with np.errstate(over="ignore"):
            exact = np.abs(a - b)
        distance = np.where(distance < 2**40, exact.astype(np.float64), distance)
    lone = np.isnan(want.astype(np.float64)) != np.isnan(got.astype(np.float64))
    return np.where(lone, np.inf, distance)


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, both zeros at 0."""
    kind = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]
    bits = np.ascontiguousarray(x).view(kind).astype(np.int64).reshape(x.shape)
    low = np.int64(np.iinfo(kind).min)
    return np.where(bits < 0, low - bits, bits)
