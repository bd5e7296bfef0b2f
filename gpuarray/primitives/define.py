"""Factories that fix the shape, dtype and batching rules of each kind of primitive.

An operation then only gives the rules in which it differs. Floor 2. In: a name and those rules.
Out: a registered Primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import Fold
from gpuarray.core.primitive import NOT_LINEAR, UNWRITTEN, Kind, Primitive, registry
from gpuarray.primitives.elements import FOLDED
from gpuarray.primitives.reduce.host import fold_pick

# Dtypes that an op accepts, as sets of abstract dtypes: `FLOATING | COMPLEX`. Messages list them in
# this order.
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
    """Attribute access to the `bind` of every primitive: `do.mul(x, y)`, `do.and_(x, y)`.

    Names are looked up when a rule runs, not when its module loads, because rules refer to each
    other in cycles: the transpose of a broadcast is a sum, that of a sum a broadcast.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        primitive = registry.get(name.removesuffix("_"))
        if primitive is None:
            raise AttributeError(f"no primitive is named {name!r}")
        # Kept as an attribute: the next look-up does not come through here.
        setattr(self, name, primitive.bind)
        return primitive.bind


#: How rules call primitives.
do = _ByName()


def dtype_class(dtype) -> str:
    """Return the name of the abstract class of `dtype`, as used in the sets above."""
    if isinstance(dtype, dtypes.ExtendedDType):
        return "key"
    if dtype == np.bool_:
        return "bool"
    # From the narrowest class to the widest: "signedinteger" is also an "integer".
    for name in ("signedinteger", "integer", "floating", "complexfloating"):
        if dtypes.issubdtype(dtype, getattr(np, name)):
            return name
    return "other"


def accepts(accepted: frozenset[str], dtype) -> bool:
    name = dtype_class(dtype)
    # Sets that name all integers mean the signed ones too.
    return name in accepted or (name == "signedinteger" and "integer" in accepted)


def check_dtype(op: str, dtype, accepted: frozenset[str], position: int | None = None) -> None:
    """Raise TypeError unless `dtype` belongs to one of the `accepted` classes."""
    if accepts(accepted, dtype):
        return
    at = "" if position is None else f" at position {position}"
    names = ", ".join(n for n in _ORDER if n in accepted)
    raise TypeError(
        f"{op} does not accept dtype {dtype.name}{at}. Accepted dtypes{at} are subtypes of {names}."
    )


def broadcast_shape(op: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common shape of operands of one rank; scalars broadcast to any shape.

    Unlike NumPy, ranks must agree (except for scalars), and axes of length 1 are broadcast.
    """
    first = shapes[0]
    # Equal shapes are the usual case, and this runs at every recorded operation.
    for shape in shapes:
        if shape != first:
            break
    else:
        return first
    # Scalars stretch to any rank, so only full shapes must agree.
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
        # An axis of length 0 beats 1, as in NumPy: it is the only other length.
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def check_same_dtypes(op: str, avals: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless all dtypes agree; promotion belongs to gpuarray.numpy."""
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

    Parameters
    ----------
    numpy, numpy_pick :
        The NumPy function, or a function of (avals, **params) that returns it.
    dtypes :
        Classes of dtypes that every operand accepts; a sequence gives them for each operand.
    result :
        Function of (*dtypes, **params) that gives the result's dtype; by default the first
        operand's.
    same :
        Whether the dtypes of all operands must be equal.
    check :
        Function of (*avals, **params) that raises for invalid operands that the dtypes allow.
    defaults :
        Parameters that a printed graph leaves out while they have these values.
    **rules :
        Further fields of `Primitive`.
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
        # A result is weakly typed only if every operand is, as in JAX.
        return ShapedArray(shape, dtype, all(a.weak_type for a in avals))

    if defaults and "show" not in rules:
        rules["show"] = hide_defaults(defaults)
    rules.setdefault("transpose", NOT_LINEAR)  # most are not linear, and the others define it
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

    If `fold` is complete, the NumPy rule is derived from it.
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
        element=FOLDED if fold is not None and fold.plain else None,
        **rules,
    )


def check_axes(op: str, axes: tuple[int, ...], ndim: int) -> None:
    """Raise ValueError unless `axes` are distinct, non-negative and below `ndim`."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of {op}: {axes}")
    for axis in axes:
        if not 0 <= axis < ndim:
            raise ValueError(f"{op}: axis {axis} is out of bounds for array of dimension {ndim}")


def view(name: str, *, aval, numpy, **rules) -> Primitive:
    """Define a view (broadcast, reshape, transpose, slice, reverse).

    On NumPy it is an array over the same memory, in a kernel another index.
    """
    return Primitive(name, Kind.VIEW, aval=aval, numpy=numpy, **rules)


def library(name: str, *, aval, numpy, **rules) -> Primitive:
    """Define a separate step for a library routine that is better than a fused kernel."""
    return Primitive(name, Kind.LIBRARY, aval=aval, numpy=numpy, **rules)


def hide_defaults(defaults: dict[str, Any]) -> Callable[[dict], dict]:
    """Return a `show` rule that leaves out parameters which have their default value."""

    def show(params: dict) -> dict:
        return {k: v for k, v in params.items() if not (k in defaults and defaults[k] == v)}

    return show
