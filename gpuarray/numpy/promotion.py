"""Argument handling of the numpy namespace: check, promote, broadcast.

Floor 6. In: the caller's arguments. Out: values of one dtype whose ranks agree, ready for lax. The
work depends only on avals and Python types, so it is done once for each combination: `unary` and
`binary` make functions that look up the finished call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from gpuarray import config, lax
from gpuarray.config import numpy_dtype_promotion, numpy_rank_promotion
from gpuarray.core import dtypes, lengths, promotion
from gpuarray.core.avals import ShapedArray, aval_of, machine_int
from gpuarray.core.promotion import TypePromotionError
from gpuarray.core.trace import array_of, full_width, is_base, same_widths
from gpuarray.core.tracebacks import clean
from gpuarray.core.value import Array
from gpuarray.lax.convert import host_constant
from gpuarray.lax.ranks import check_rank_promotion
from gpuarray.numpy.construct import asarray, converted, plain_scalar
from gpuarray.sites import is_users_expression

_state = config.state
_PYTHON = frozenset({bool, int, float, complex})
_WIDE = frozenset({np.int64, np.uint64})
#: Types that determine everything about an operand: Python's and NumPy's scalars.
SCALARS = _PYTHON | {
    dtypes.as_dtype(name).type for name in dtypes.lattice.NODES if not name.endswith("*")
}

# ---- array-likes ----


def is_arraylike(x: Any) -> bool:
    """Whether `x` is an array, a NumPy value, a Python scalar, or can convert itself to one."""
    return (
        isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex))
        or (not isinstance(x, type) and hasattr(x, "__jax_array__"))
        or (_state.permissive and isinstance(x, (list, tuple)))
    )


def check_arraylike(name: str, *xs: Any) -> None:
    """Raise a TypeError for lists, tuples and other arguments that are not arrays."""
    for position, x in enumerate(xs):
        if not is_arraylike(x):
            fix = ""
            if isinstance(x, (list, tuple, range)):
                fix = (
                    " Convert it once with gpuarray.numpy.asarray(...): a conversion at every call "
                    "would be slow. (The setting `permissive` accepts lists everywhere.)"
                )
            elif x is None:
                fix = " An argument is missing, or a function returned nothing."
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at position "
                f"{position}.{fix}"
            )


def value(x: Any) -> Any:
    """An array-like as something that can be bound: an Array, or Python's or NumPy's scalar."""
    # Ordered by frequency.
    if type(x) in SCALARS or isinstance(x, Array):
        return x
    if isinstance(x, (int, float, complex)) and not isinstance(x, np.generic):
        return plain_scalar(x)
    # A NumPy array of no axes is as strong as one, and as cheap as a scalar.
    if isinstance(x, np.ndarray) and x.ndim == 0 and dtypes.kind_of(x.dtype) in tuple("biufc"):
        return x[()]
    return asarray(x)


def arrays(name: str, *xs: Any) -> list[Array]:
    """Checked arguments as Arrays, without promotion."""
    check_arraylike(name, *xs)
    return [asarray(x) for x in xs]


# ---- one dtype ----


def common_dtype(name: str, xs: list[Any], to: Callable[[Any], Any] | None) -> tuple[Any, bool]:
    """The dtype and weak type that values promote to, taken through `to`."""
    # One value is not converted: booleans from comparing weak numbers stay weak, as in JAX.
    if to is None and len(xs) == 1:
        return promotion.dtype_and_weak(xs[0])
    try:
        dtype, weak = promotion.lattice_result_type(*xs)
    # Random keys do not promote: the message names the function that was given one.
    except ValueError:
        found = [aval_of(x).dtype for x in xs]
        if any(isinstance(d, dtypes.ExtendedDType) for d in found):
            listed = ", ".join(d.name for d in found)
            raise TypeError(f"{name} does not accept dtypes {listed}.") from None
        raise
    return (dtype if to is None else to(dtype)), weak


def convert(x: Any, dtype: Any, weak: bool) -> Any:
    """A bindable value converted to a dtype (Python scalars become NumPy's, or stay when weak)."""
    # The type of a scalar is as informative as the aval of an array.
    key = type(x) if type(x) in SCALARS else x.aval
    rule = _conversion(key, dtype, weak)
    return x if rule is None else rule(x)


def _conversion(
    key: Any, dtype: Any, weak: bool, decided: bool = True
) -> Callable[[Any], Any] | None:
    """The function that converts operands of one aval or scalar type; None if no conversion is
    needed.

    Parameters
    ----------
    decided :
        Whether the other operand makes the result strongly typed.
    """
    if not isinstance(key, type):
        # None: nothing to convert.
        if key.dtype == dtype and key.weak_type == weak:
            return None
        if key.dtype == dtype and key.weak_type:
            # Only the weak type changes. If the other operand's strong type requires that, a
            # recorded program must express it, an immediate value need not. Weak booleans are
            # different: two of them promote to a strong one.
            said = decided and dtypes.kind_of(dtype) != "b"
            return lambda x: x if said and is_base() else converted(x, dtype, weak)
        return lambda x: converted(x, dtype, weak)
    kind = dtypes.kind_of(dtype)
    # A 64-bit NumPy integer is converted like an array made from it; not together with 64-bit
    # operands.
    if key in _WIDE and kind in "fc" and not dtypes.is_beyond(dtype):
        narrow = dtypes.canonicalize_dtype(key).type
        if narrow is not key:
            rule = _conversion(narrow, dtype, weak, decided)
            return lambda x: x.astype(narrow) if rule is None else rule(x.astype(narrow))
    # Floats that a setting update narrows become the integers that an array of them becomes.
    if kind in "iu" and dtypes.kind_of(dtypes.as_dtype(key)) in "fc":
        return _to_integer(dtype, weak)
    # A weak result keeps Python's own number.
    if weak and kind != "b":
        # A Python number of the right kind stays weak as it is.
        python = {"f": float, "c": complex}.get(kind, int)
        if dtype != dtypes.canonicalize_dtype(python):  # of an array made under other settings
            return lambda x: array_of(python(x), ShapedArray((), dtype, True))
        if key is int and python is not int:
            # An int too large for the machine is an error, as in arithmetic.
            return lambda x: python(machine_int(x))
        return None if key is python else python
    if dtypes.is_beyond(dtype):
        full = dtypes.as_dtype(key).type  # no setting narrows the value
        aval = ShapedArray((), dtype)
        return lambda x: array_of(_quietly(full(x).astype, dtype), aval)
    # A Python number combined with an array takes the array's dtype.
    if key in _PYTHON:
        return _typed(key, dtype, kind)
    return None if key is dtype.type else lambda x: _quietly(x.astype, dtype)


def _typed(python: type, dtype: Any, kind: str) -> Callable[[Any], Any]:
    target = dtype.type
    # An immediate value need not be NumPy's if Python's number has that dtype already; a recorded
    # one is, because it is printed.
    if python in (bool, int) and kind in "iu":
        default = dtypes.default_int()
        if python is int and dtype == default:
            return lambda x: x if is_base() else target(x)
        if python is bool:
            return target
        # A value that does not fit into a narrow type wraps, as it does for an array of the default
        # type.
        return lambda x: default.type(x).astype(dtype)
    if kind == "f" and python is not complex and dtype.itemsize >= 2:
        largest = float(dtypes.finfo(dtype).max)
        if python is float and dtype == dtypes.default_float():

            def same_type(x):
                if -largest <= x <= largest:
                    return x if is_base() else target(x)
                return _quietly(target, x)

            return same_type
        # Between these bounds no cast can overflow, so NumPy has nothing to warn about.
        most = min(largest, 2.0**63)
        return lambda x: target(x) if -most <= x <= most else _quietly(target, _operand(x))
    return lambda x: _quietly(target, _operand(x))


def _to_integer(dtype: Any, weak: bool) -> Callable[[Any], Any]:
    def nearest(x):
        return _quietly(lambda part: host_constant(part, dtype)[()], x.real)

    if weak and dtype == dtypes.default_int():
        return lambda x: int(nearest(x))
    if weak or dtypes.is_beyond(dtype):
        return lambda x: array_of(np.asarray(nearest(x)), ShapedArray((), dtype, weak))
    return nearest


def _operand(x: Any) -> Any:
    """A Python number, unless it is an integer that is too large."""
    return machine_int(x) if isinstance(x, int) else x


def _quietly(function: Callable[[Any], Any], x: Any) -> Any:
    """Call it without NumPy's warning that a number became infinite."""
    with np.errstate(all="ignore"):
        return function(x)


# ---- one rank ----


def promote_shapes(name: str, *xs: Any) -> list[Any]:
    """Give arrays leading axes of length 1 until their ranks agree; scalars stay scalars."""
    shapes = [getattr(x, "shape", ()) for x in xs]
    # Scalars broadcast without an operation.
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return list(xs)
    check_rank_promotion(name, shapes)
    try:
        lengths.broadcast(*shapes)
    except ValueError:
        raise ValueError(
            f"Incompatible shapes for broadcasting: shapes={shapes} in {name}. Trailing axes must "
            "be equal or 1: add an axis (x[:, None]) or reshape."
        ) from None
    rank = max(ranks)
    return [
        _leading_axes(x, s, rank) if 0 < len(s) < rank else x
        for x, s in zip(xs, shapes, strict=True)
    ]


def _leading_axes(x: Any, shape: tuple[int, ...], rank: int) -> Array:
    missing = rank - len(shape)
    return lax.broadcast_in_dim(x, (1,) * missing + shape, tuple(range(missing, rank)))


def check_users(name: str, to: Callable[[Any], Any] | None, *xs: Any) -> None:
    """Check the settings about promotion for operands of a user's own expression.

    For functions of several operations, each of which belongs to the library and may promote.
    """
    if _forbidden() and is_users_expression():
        check_operands(name, to, *xs)


def _forbidden() -> bool:
    return _state.numpy_rank_promotion != "allow" or _state.numpy_dtype_promotion != "standard"


def check_operands(name: str, to: Callable[[Any], Any] | None, *xs: Any) -> None:
    """Raise, or warn, where these operands are not to be promoted."""
    check_arraylike(name, *xs)
    values = [value(x) for x in xs]
    common_dtype(name, values, to)
    shapes = [np.shape(v) for v in values]
    if len({len(s) for s in shapes if s}) > 1:
        check_rank_promotion(name, shapes)


def checking_users(
    name: str, unless: Callable[..., bool] = lambda *xs, **named: False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of functions whose operands are promoted to one dtype and shape: see `check_users`.

    Parameters
    ----------
    unless :
        Whether operands are not converted. An operand of None is absent.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*xs: Any, **named: Any) -> Any:
            if _forbidden() and is_users_expression() and not unless(*xs, **named):
                check_operands(name, None, *[x for x in (*xs, *named.values()) if x is not None])
            return function(*xs, **named)

        return call

    return decorate


def fitting(x: Any, dtype: Any) -> Any:
    """A Python bool as a number of an array's dtype, and a Python int in the dtype of an unsigned
    array, where it fits that and not its own.
    """
    if type(x) is bool and isinstance(dtype, np.dtype):
        return dtype.type(x)
    if type(x) is int and x > dtypes.iinfo(dtypes.default_int()).max:
        if dtypes.kind_of(dtype) == "u" and x <= dtypes.iinfo(dtype).max:
            return dtype.type(x)
    return x


# ---- all of it ----


def promote_args(name: str, *xs: Any) -> list[Any]:
    """Values of one dtype and one rank, for functions of any dtype.

    >>> promote_args("add", 1, 2.5)
    [1.0, 2.5]
    """
    return _promote(name, xs, None)


def promote_args_inexact(name: str, *xs: Any) -> list[Any]:
    """As promote_args; integers and booleans become floats."""
    return _promote(name, xs, dtypes.to_inexact_dtype)


def promote_args_numeric(name: str, *xs: Any) -> list[Any]:
    """As promote_args; booleans become integers."""
    return _promote(name, xs, dtypes.to_numeric_dtype)


def _promote(name: str, xs: tuple, to: Callable[[Any], Any] | None) -> list[Any]:
    check_arraylike(name, *xs)
    values = [value(x) for x in same_widths(xs)]
    dtype, weak = common_dtype(name, values, to)
    return promote_shapes(name, *[convert(x, dtype, weak) for x in values])


def promote_dtypes(*xs: Any) -> list[Any]:
    """Promote values to one dtype; shapes are not changed."""
    values = [value(x) for x in same_widths(xs)]
    dtype, weak = common_dtype("promote_dtypes", values, None)
    return [convert(x, dtype, weak) for x in values]


def promote_dtypes_inexact(*xs: Any) -> list[Any]:
    """As promote_dtypes; integers and booleans become floats."""
    values = [value(x) for x in same_widths(xs)]
    dtype, weak = common_dtype("promote_dtypes", values, dtypes.to_inexact_dtype)
    return [convert(x, dtype, weak) for x in values]


def promote_dtypes_complex(*xs: Any) -> list[Any]:
    """As promote_dtypes; what is not complex becomes so."""
    values = [value(x) for x in same_widths(xs)]
    dtype, weak = common_dtype("promote_dtypes", values, dtypes.to_complex_dtype)
    return [convert(x, dtype, weak) for x in values]


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """A bindable value stretched to a shape that its own broadcasts to."""
    given = getattr(x, "shape", ())
    if given == shape:
        return x
    return lax.broadcast_in_dim(
        full_width(x), shape, tuple(range(len(shape) - len(given), len(shape)))
    )


def select(condition: Any, x: Any, y: Any) -> Array:
    """`x` where the condition holds, else `y`; promoted and broadcast as by `where`.

    Both sides are computed; a nan on the side that is not taken does not show.
    """
    x, y = promote_dtypes(x, y)
    # Scalars in the condition stay scalars, which select_n takes.
    shape = lengths.broadcast(*(getattr(v, "shape", ()) for v in (condition, x, y)))
    if getattr(condition, "shape", ()):
        condition = broadcast_to(condition, shape)
    return lax.select_n(condition, broadcast_to(y, shape), broadcast_to(x, shape))


# ---- functions with their finished calls ----


def documented(function: Callable[..., Any], doc: str) -> Any:
    """The function with its docstring; the public namespace is where it is found."""
    function.__doc__ = doc
    return function


def always(run: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """The pick of a function that runs the same way for every dtype."""
    return lambda dtype: run


def for_bool(logic: Callable[..., Any], run: Callable[..., Any]) -> Callable[[Any], Any]:
    """The pick of a function for which booleans are logic and not numbers."""
    return lambda dtype: logic if dtypes.kind_of(dtype) == "b" else run


def constant(number: Any, like: Any) -> Any:
    """A number in the dtype of a bindable value, and weakly typed if that is."""
    aval = aval_of(like)
    kind = {"b": bool, "f": float, "c": complex}.get(dtypes.kind_of(aval.dtype), int)
    python = kind(number) if aval.weak_type else number
    if aval.weak_type and aval.dtype != dtypes.canonicalize_dtype(kind):
        return array_of(python, ShapedArray((), aval.dtype, True))  # under other settings
    if dtypes.is_beyond(aval.dtype):
        return array_of(number, ShapedArray((), aval.dtype))
    return python if aval.weak_type else aval.dtype.type(number)


def zero_of(x: Any) -> Any:
    """Zero in the dtype of a bindable value."""
    return constant(0, x)


#: Chooses the implementation once the dtype is known: dtype -> function of operands that have it.
Pick = Callable[[Any], Callable[..., Any]]

#: Which operands a function leaves weakly typed: any, only scalars, none.
Weak = Literal["kept", "scalars", "never"]


def _stays_weak(weak: Weak, *keys: Any) -> bool:
    """Whether `weak` lets operands of these avals or scalar types stay weakly typed."""
    scalars = all(isinstance(k, type) or not k.ndim for k in keys)
    return weak == "kept" or (weak == "scalars" and scalars)


def unary(
    name: str,
    pick: Pick,
    to: Callable[[Any], Any] | None = None,
    key_name: Any = None,
    weak: Weak = "kept",
) -> Callable[[Any], Array]:
    """Make a function of one array-like: promoted through `to`, then passed to the function that
    `pick` returns.

    Parameters
    ----------
    key_name :
        Name that tells its calls from those of another function of the same name.
    """
    known_as = name if key_name is None else key_name
    stays = weak

    def finished(x: Any, key: Any) -> Callable[[Any], Array]:
        dtype, weak = common_dtype(name, [x], to)
        stay = weak and _stays_weak(stays, key)
        run = pick(dtype)
        rule = _conversion(key, dtype, stay, decided=not weak)
        return run if rule is None else lambda x: run(rule(x))

    def function(x, /):
        try:
            kind = type(x)
            try:
                # The attribute is read directly, not by a property: this is on every call.
                key = kind if kind in SCALARS else x._aval
            except AttributeError:
                check_arraylike(name, x)
                return function(value(x))
            # Finished calls live with the settings they depend on (x64, promotion), so a change of
            # settings drops them.
            calls = _state.trace_key.promotions
            run = calls.get((known_as, key))
            # Unseen types: check, promote once, and cache the steps.
            if run is None:
                check_arraylike(name, x)
                run = calls[known_as, key] = finished(x, key)
            return run(x)
        except Exception as error:
            clean(error)
            raise

    function.__name__ = function.__qualname__ = name
    return function


def binary(
    name: str,
    pick: Pick,
    to: Callable[[Any], Any] | None = None,
    weak: Weak = "kept",
    any_ranks: bool = False,
) -> Callable[[Any, Any], Array]:
    """Make a function of two array-likes: promoted through `to`, then passed to the function that
    `pick` returns.

    Parameters
    ----------
    any_ranks :
        Whether `pick` takes operands of different ranks, so that no axes are added.
    """
    stays = weak

    def finished(x: Any, y: Any, kx: Any, ky: Any) -> Callable[[Any, Any], Array]:
        dtype, weak = common_dtype(name, [x, y], to)
        stay = weak and _stays_weak(stays, kx, ky)
        run = pick(dtype)
        fx, fy = (_conversion(k, dtype, stay, decided=not weak) for k in (kx, ky))
        # Ranks differ: axes are added at each call, and the setting about that is asked.
        ranks = {k.ndim for k in (kx, ky) if not isinstance(k, type) and k.ndim}
        # A setting that forbids it refers to the user's expressions, not to operations inside
        # library functions.
        if len(ranks) > 1 and not any_ranks:
            same_rank = run

            def run(x: Any, y: Any) -> Array:
                if _state.numpy_rank_promotion != "allow" and not is_users_expression():
                    with numpy_rank_promotion("allow"):
                        return same_rank(*promote_shapes(name, x, y))
                return same_rank(*promote_shapes(name, x, y))

        # A closure for each case: an operand that needs no conversion costs nothing.
        if fx is None and fy is None:
            return run
        if fx is None:
            return lambda x, y: run(x, fy(y))  # pyright: ignore[reportOptionalCall]
        if fy is None:
            return lambda x, y: run(fx(x), y)
        return lambda x, y: run(fx(x), fy(y))

    def function(x, y, /):
        try:
            tx, ty = type(x), type(y)
            try:
                kx = tx if tx in SCALARS else x._aval
                ky = ty if ty in SCALARS else y._aval
            except AttributeError:
                # Neither a scalar nor an Array: NumPy arrays and objects with __jax_array__.
                check_arraylike(name, x, y)
                return function(*map(value, same_widths((x, y))))
            calls = _state.trace_key.promotions
            run = calls.get((name, kx, ky))
            if run is None:
                check_arraylike(name, x, y)
                try:
                    run = finished(x, y, kx, ky)
                except TypePromotionError:
                    # The setting refers to a user's own expressions, not to those of this library.
                    if _state.numpy_dtype_promotion == "standard" or is_users_expression():
                        raise
                    with numpy_dtype_promotion("standard"):
                        return function(x, y)
                calls[name, kx, ky] = run
            return run(x, y)
        except Exception as error:
            clean(error)
            raise

    function.__name__ = function.__qualname__ = name
    if not any_ranks:
        function.check = functools.partial(check_users, name, to)  # pyright: ignore[reportFunctionMemberAccess]
    return function
