"""Factories: they fix shape, dtype and batching rules for each kind of primitive, so an op states
only what is its own.

Floor 2. In: a name and the rules that differ. Out: a registered Primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import Fold
from gpuarray.core.primitive import NOT_LINEAR, UNWRITTEN, Kind, Primitive, registry
from gpuarray.primitives.reduce.host import fold_pick

# What an op accepts, as sets of abstract dtypes: `FLOATING | COMPLEX`. Messages name them in this
# order.
INTEGER = frozenset({"integer"})
SIGNED = frozenset({"signedinteger"})
FLOATING = frozenset({"floating"})
COMPLEX = frozenset({"complexfloating"})
BOOL = frozenset({"bool"})
NUMERIC = INTEGER | FLOATING | COMPLEX
ANY = NUMERIC | BOOL
KEYS = frozenset({"key"})
_ORDER = ("integer", "signedinteger", "floating", "complexfloating", "bool", "key")


class _ByName:
    """Every primitive's `bind` as an attribute: `do.mul(x, y)`; `do.and_`, for Python's keywords.

    Names are looked up when a rule runs, not when its module loads: rules refer to one another in
    circles (the transpose of a broadcast is a sum, that of a sum a broadcast).
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        primitive = registry.get(name.removesuffix("_"))
        if primitive is None:
            raise AttributeError(f"no primitive is named {name!r}")
        setattr(self, name, primitive.bind)
        return primitive.bind


#: What rules are written with.
do = _ByName()


def dtype_class(dtype) -> str:
    """The abstract class of a dtype, by the names the sets above use."""
    if isinstance(dtype, dtypes.KeyDtype):
        return "key"
    if dtype == np.bool_:
        return "bool"
    for name in ("signedinteger", "integer", "floating", "complexfloating"):
        if dtypes.issubdtype(dtype, getattr(np, name)):
            return name
    return "other"


def accepts(accepted: frozenset[str], dtype) -> bool:
    name = dtype_class(dtype)
    return name in accepted or (name == "signedinteger" and "integer" in accepted)


def check_dtype(op: str, dtype, accepted: frozenset[str], position: int | None = None) -> None:
    """Raise the TypeError a wrong dtype deserves."""
    if accepts(accepted, dtype):
        return
    at = "" if position is None else f" at position {position}"
    names = ", ".join(n for n in _ORDER if n in accepted)
    raise TypeError(
        f"{op} does not accept dtype {dtype.name}{at}. Accepted dtypes{at} are subtypes of {names}."
    )


def broadcast_shape(op: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape: scalars go with anything, axes of length 1 stretch, ranks must agree."""
    first = shapes[0]
    for shape in shapes:
        if shape != first:
            break
    else:
        return first
    full = [s for s in shapes if s]
    ranks = {len(s) for s in full}
    if len(ranks) > 1:
        raise TypeError(
            f"{op}: arrays must have the same number of dimensions, got {ranks} for shapes "
            f"{', '.join(map(str, shapes))}. Add axes with reshape or broadcast_in_dim, or use the "
            "gpuarray.numpy function, which broadcasts."
        )
    out = []
    for lengths in zip(*full, strict=True):
        distinct = {n for n in lengths if n != 1}
        if len(distinct) > 1:
            listed = ", ".join(map(str, shapes))
            raise TypeError(f"{op} got incompatible shapes for broadcasting: {listed}.")
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def check_same_dtypes(op: str, avals: Sequence[ShapedArray]) -> None:
    """Primitives never promote: the numpy namespace does that above them."""
    first = avals[0].dtype
    if any(a.dtype != first for a in avals):
        got = ", ".join(a.dtype.name for a in avals)
        raise TypeError(
            f"lax.{op} requires arguments to have the same dtypes, got {got}. "
            f"(Tip: gpuarray.numpy functions promote their inputs; or convert one with .astype.)"
        )


def elementwise(
    name: str,
    *,
    numpy: Callable[..., Any] | None = None,
    numpy_pick: Callable[..., Callable[..., Any]] | None = None,
    arity: int = 1,
    dtypes: frozenset[str] | Sequence[frozenset[str]] = ANY,
    result: Callable[..., Any] | None = None,
    same: bool = True,
    check: Callable[..., None] | None = None,
    defaults: dict[str, Any] | None = None,
    **rules,
) -> Primitive:
    """Define a pointwise primitive `out[i] = f(a[i], b[i], ...)`.

    dtypes: what every operand (or each, as a sequence) accepts; same: whether operand dtypes must
    be equal result(dtype, **params) -> dtype of the result, where it is not the operand's
    defaults: params that a printed graph leaves out while they have this value
    """
    accepted = [dtypes] * arity if isinstance(dtypes, frozenset) else list(dtypes)

    def aval(*avals: ShapedArray, **params) -> ShapedArray:
        if len(avals) != arity:
            raise TypeError(f"{name} takes {arity} operand(s), got {len(avals)}")
        for position, (a, kinds) in enumerate(zip(avals, accepted, strict=True)):
            check_dtype(name, a.dtype, kinds, position if arity > 1 else None)
        if same and arity > 1:
            check_same_dtypes(name, avals)
        if check is not None:
            check(*avals, **params)
        shape = broadcast_shape(name, [a.shape for a in avals])
        dtype = avals[0].dtype if result is None else result(*[a.dtype for a in avals], **params)
        return ShapedArray(shape, dtype, all(a.weak_type for a in avals))

    if defaults and "show" not in rules:
        rules["show"] = hide_defaults(defaults)
    rules.setdefault("transpose", NOT_LINEAR)  # most are not, and the others say so
    return Primitive(
        name,
        Kind.POINTWISE,
        aval=aval,
        numpy=UNWRITTEN if numpy is None else numpy,
        numpy_pick=numpy_pick,
        **rules,
    )


def reduction(
    name: str,
    *,
    numpy: Callable[..., Any] | None = None,
    numpy_pick: Callable[..., Callable[..., Any]] | None = None,
    fold: Fold | None = None,
    dtypes: frozenset[str] = NUMERIC,
    result: Callable[..., Any] | None = None,
    **rules,
) -> Primitive:
    """Define a primitive P x R -> P: it drops the axes in its `axes` parameter.

    fold: how; where all of it is primitives, the NumPy rule follows from it
    """
    if numpy is None and numpy_pick is None and fold is not None and fold.is_complete:
        numpy_pick = fold_pick(fold)

    def aval(operand: ShapedArray, *, axes: tuple[int, ...], **params) -> ShapedArray:
        check_dtype(name, operand.dtype, dtypes)
        check_axes(name, axes, operand.ndim)
        shape = tuple(n for i, n in enumerate(operand.shape) if i not in axes)
        dtype = operand.dtype if result is None else result(operand.dtype, **params)
        return ShapedArray(shape, dtype, operand.weak_type)

    return Primitive(
        name,
        Kind.REDUCTION,
        aval=aval,
        numpy=UNWRITTEN if numpy is None else numpy,
        numpy_pick=numpy_pick,
        fold=fold,
        **rules,
    )


def check_axes(op: str, axes: tuple[int, ...], ndim: int) -> None:
    """Primitives take axes that are non-negative, in range and distinct."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of {op}: {axes}")
    for axis in axes:
        if not 0 <= axis < ndim:
            raise ValueError(f"{op}: axis {axis} is out of bounds for array of dimension {ndim}")


def view(name: str, *, aval, numpy, **rules) -> Primitive:
    """Define an index map without guards (broadcast, reshape, transpose, slice, reverse): a NumPy
    view, no kernel.
    """
    return Primitive(name, Kind.VIEW, aval=aval, numpy=numpy, **rules)


def library(name: str, *, aval, numpy, **rules) -> Primitive:
    """Define a step of its own: a routine some library does better than a fused kernel would."""
    return Primitive(name, Kind.LIBRARY, aval=aval, numpy=numpy, **rules)


def hide_defaults(defaults: dict[str, Any]) -> Callable[[dict], dict]:
    """A `show` rule: leave out the params that have their default value."""

    def show(params: dict) -> dict:
        return {k: v for k, v in params.items() if not (k in defaults and defaults[k] == v)}

    return show
