"""Python functions called from inside programs: `pure_callback`, `io_callback`, and the
implementation of `gpuarray.debug`.

Floor 6. In: a user's function, the shapes of its results, arguments. Out: its results as arrays, in
every transformation. The function gets concrete arrays and may use all of the library.
"""

from __future__ import annotations

import logging
import string
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import errors
from gpuarray.control.callbacks import (
    METHODS,
    debug_callback_p,
    debug_print_p,
    io_callback_p,
    pure_callback_p,
)
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import storage_dtype
from gpuarray.core.sharding import one_device, place_of
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.extend.tracing import unsafe_am_i_under_a_jit
from gpuarray.primitives.elementwise.extended import from_edtype_p
from gpuarray.primitives.random.ops import random_unwrap_p
from gpuarray.pytree import tree
from gpuarray.runtime import device as devices
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.transfer import placed
from gpuarray.util import captures

logger = logging.getLogger("gpuarray.debug")


class FlatCallback:
    """A user's function on buffers. Equal for equal functions, so programs are found again."""

    def __init__(self, callback_func: Callable, in_tree: Any, kind: str, out_tree: Any = None):
        self.callback_func = callback_func
        self.in_tree = in_tree
        self.kind = kind
        self.out_tree = out_tree  # None if results are discarded

    @property
    def captures(self) -> bool:
        """Whether it may hold values."""
        return captures(self.callback_func)

    def _key(self) -> tuple:
        return (self.callback_func, self.in_tree, self.kind, self.out_tree)

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __repr__(self) -> str:
        return f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        try:
            out = self.call([_array(a, b) for a, b in zip(avals, buffers, strict=True)])
            return [] if self.out_tree is None else self._checked(out, result_avals)
        except Exception as error:
            raise errors.JaxRuntimeError(
                f"INTERNAL: CpuCallback error calling callback: {self.kind} of "
                f"{self.callback_func} failed:\n{traceback.format_exc()}"
            ) from error

    def call(self, leaves: list) -> Any:
        """The function itself, on arrays."""
        # The function sees the containers that it was called with.
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        return self.callback_func(*args, **kwargs)

    def _checked(self, out: Any, avals: Sequence[ShapedArray]) -> list:
        """Results as buffers of the avals that were promised."""
        # The program relies on the promised types, so anything else is refused here, naming the
        # user's function.
        leaves, found = tree.flatten(out)
        # A function without results returns None, whatever empty structure was declared.
        if not leaves and not avals:
            return []
        # The containers are those of result_shape_dtypes: a list is accepted for a tuple.
        if len(leaves) != len(avals):
            raise ValueError(
                f"{self.kind}: the callback returned a result of structure {found}, but "
                f"result_shape_dtypes has structure {self.out_tree}: {len(leaves)} leaves instead "
                f"of {len(avals)}"
            )
        return [self._buffer(x, a) for x, a in zip(leaves, avals, strict=True)]

    def _buffer(self, x: Any, aval: ShapedArray) -> Any:
        # NumPy has no extended dtypes: their elements are passed in their stored form.
        if isinstance(x, Array) and isinstance(aval.dtype, dtypes.ExtendedDType):
            return np.array(x._buffer())  # pyright: ignore[reportAttributeAccessIssue]
        value = np.array(x)  # a copy: the user may keep writing to the returned array
        dtype = dtypes.canonicalize_dtype(value.dtype)
        # A Python number takes the promised dtype if it fits; arrays must have it.
        weak = isinstance(x, (bool, int, float, complex))
        fits = np.can_cast(dtype, aval.dtype, "same_kind") if weak else dtype == aval.dtype
        if value.shape != aval.shape or not fits:
            raise ValueError(
                f"{self.kind}: the callback returned {value.dtype}{list(value.shape)}, but "
                f"result_shape_dtypes promised {aval.str_short()}"
            )
        return value.astype(storage_dtype(aval), copy=False)


def _array(aval: ShapedArray, buffer: Any) -> ArrayImpl:
    # A copy: the program may write over its buffers when it no longer needs them.
    value = buffer.copy() if isinstance(buffer, np.ndarray) else buffer
    # Arguments are arrays of the device that the callback computes on.
    place = devices.default_place()
    if place.device.platform == "gpu":  # callbacks compute where their arguments are
        place = place_of(devices.devices("cpu")[0])
    return ArrayImpl(aval, place, [value])


def promised_avals(result_shape_dtypes: Any) -> tuple[Any, tuple[ShapedArray, ...]]:
    """The structure and the avals of a `result_shape_dtypes` argument."""
    leaves, spec = tree.flatten(result_shape_dtypes)
    avals = []
    for x in leaves:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise TypeError(
                "result_shape_dtypes must hold things with a shape and a dtype, such as "
                f"ShapeDtypeStruct((3,), 'float32'), got {x!r}"
            )
        dtype = x.dtype if isinstance(x.dtype, dtypes.ExtendedDType) else np.dtype(x.dtype)
        # JAX refuses float64 here instead of making it float32: the function would return the wrong
        # type.
        if dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is "
                f"disabled: got {dtype}"
            )
        avals.append(ShapedArray(x.shape, dtype))
    return spec, tuple(avals)


def _checked_leaves(tree_of_args: Any) -> tuple[list, Any]:
    leaves, spec = tree.flatten(tree_of_args)
    for x in leaves:
        aval_of(x)  # raises for values that are not arrays
    return leaves, spec


def _need_callable(callback: Any, name: str) -> None:
    if not callable(callback):
        raise TypeError(f"first argument to `{name}` must be a callable, got {callback!r}")


def _placed(name: str, out: list, sharding: Any) -> list:
    if sharding is not None:  # an error even where there are no results
        # More than one device is refused.
        one_device(sharding, f"`sharding` argument of {name}")
    # A traced program chooses its devices, and its values stay there.
    if unsafe_am_i_under_a_jit():
        return out
    return [placed(name, x, sharding) for x in out]


@boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has no side effects, from inside any program.

    It may be called any number of times, or never if its result is not used.

    Parameters
    ----------
    result_shape_dtypes :
        A pytree of objects with `shape` and `dtype`, as the function returns them.
    sharding :
        The device of the results. Inside of jit they are where its other values are.
    vmap_method :
        How vmap calls it: "sequential" calls it for every element; "expand_dims" calls it once,
        with a new leading axis on every argument, of length 1 if it is the same for all;
        "broadcast_all" the same with full length; None refuses.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga
    >>> out = ga.ShapeDtypeStruct((), np.float32)
    >>> f = ga.jit(lambda x: ga.pure_callback(lambda v: np.sin(v), out, x))
    >>> f(0.0)
    Array(0., dtype=float32)
    """
    _need_callable(callback, "pure_callback")
    if vmap_method is not None and vmap_method not in METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {[*METHODS, None]}, but got: "
            f"{vmap_method}"
        )
    leaves, in_spec = _checked_leaves((args, kwargs))
    spec, avals = promised_avals(result_shape_dtypes)
    # No `sharding` in the primitive: the results are moved below, as by device_put.
    flat = FlatCallback(callback, in_spec, "pure_callback", spec)
    out = pure_callback_p.bind(
        *leaves, callback=flat, result_avals=avals, sharding=None, vmap_method=vmap_method
    )
    return tree.unflatten(spec, _placed("pure_callback", out, sharding))


@boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function for its side effects, from inside any program: once for each run.

    Parameters
    ----------
    result_shape_dtypes :
        A pytree of objects with `shape` and `dtype`, as the function returns them; None for no
        result.
    ordered :
        Whether to keep the order of all such calls across programs. Those of one program always run
        in its order.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga
    >>> seen = []
    >>> f = ga.jit(lambda x: (ga.experimental.io_callback(seen.append, None, x), x + 1)[1])
    >>> f(1.0), seen
    (Array(2., dtype=float32, weak_type=True), [Array(1., dtype=float32, weak_type=True)])
    """
    _need_callable(callback, "io_callback")
    leaves, in_spec = _checked_leaves((args, kwargs))
    spec, avals = promised_avals(result_shape_dtypes)
    flat = FlatCallback(callback, in_spec, "io_callback", spec)
    out = io_callback_p.bind(
        *leaves, callback=flat, ordered=ordered, result_avals=avals, sharding=None
    )
    return tree.unflatten(spec, _placed("io_callback", out, sharding))


# ---- implementation of gpuarray.debug ----


class _Mixed(FlatCallback):
    """A callback with some arguments that are Python objects, not values of the program."""

    def __init__(self, fun: Callable, in_tree: Any, kind: str, static: tuple):
        super().__init__(fun, in_tree, kind)
        self.static = static

    captures = True  # pyright: ignore[reportAssignmentType]

    def _key(self) -> tuple:
        return (*super()._key(), self.static)

    def __hash__(self) -> int:
        return hash(self._key()[:3])  # Python values need not be hashable

    def call(self, leaves: list) -> Any:
        rest = iter(leaves)
        # Static values return to their positions among the leaves.
        held = dict(self.static)
        count = len(leaves) + len(held)
        return super().call([held[i] if i in held else next(rest) for i in range(count)])


def _is_value(x: Any) -> bool:
    return isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex))


def _split(args: tuple, kwargs: dict) -> tuple[list, tuple, Any]:
    leaves, spec = tree.flatten((args, kwargs))
    # Strings and other objects stay in Python; only values go through the program.
    static = tuple((i, x) for i, x in enumerate(leaves) if not _is_value(x))
    return [x for x in leaves if _is_value(x)], static, spec


def _only_options(name: str, args: tuple, kwargs: dict) -> None:
    """Refuse operands in the first call, which takes only options."""
    if args or kwargs:
        given = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
        raise TypeError(
            f"{name} received unexpected arguments in the two-call form: {', '.join(given)}. Give "
            f"them in the second call: {name}(options)(what, values)."
        )


@boundary
def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function for its side effects, from inside any program, without results.

    It sees primals only, and once for each element under vmap. With options alone the result is a
    function that has them: `debug.callback(ordered=True)(callback, *args)`, so that keyword
    arguments of the callback may have the options' names.

    >>> import gpuarray as ga
    >>> _ = ga.jit(lambda x: (ga.debug.callback(lambda v: print(float(v)), x), x)[1])(2.0)
    2.0
    """
    if callback is None:
        _only_options("debug_callback", args, kwargs)
        return lambda callback, /, *args, **kwargs: _bind_debug(
            callback, args, kwargs, ordered, partitioned
        )
    return _bind_debug(callback, args, kwargs, ordered, partitioned)


def _bind_debug(callback: Any, args: tuple, kwargs: dict, ordered: bool, partitioned: bool) -> None:
    _need_callable(callback, "debug.callback")
    values, static, spec = _split(args, kwargs)
    flat = _Mixed(callback, spec, "debug.callback", static)
    debug_callback_p.bind(
        *values,
        callback=flat,
        effect="OrderedDebugEffect" if ordered else "DebugEffect",
        partitioned=partitioned,
    )


class _Check(string.Formatter):
    """Check a format string against its arguments without formatting anything."""

    def format_field(self, value, format_spec):
        return ""

    def check_unused_args(self, used_args, args, kwargs):
        # As in JAX: a value that no field shows was probably meant to be shown.
        unused = [a for i, a in enumerate(args) if i not in used_args]
        if unused:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {unused}")
        names = [k for k in kwargs if k not in used_args]
        if names:
            raise ValueError(
                "Unused keyword arguments to `jax.debug.print`: "
                f'{names}. You may be passing an f-string (i.e, `f"{{x}}"`) into '
                "`jax.debug.print` and instead should be passing in a regular string."
            )


class _Printer:
    """Prints arguments in a format, with NumPy's print options at the place of the call.

    The text is made when the values are known: later, and maybe in another thread.
    """

    def __init__(self, fmt: str):
        self.fmt, self.options = fmt, np.get_printoptions()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        args, kwargs = tree.tree_map(_printable, (args, kwargs))
        with np.printoptions(**self.options):
            text = self.fmt.format(*args, **kwargs)
        self.show(text)

    def show(self, text: str) -> None:
        print(text)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.fmt))


def _printable(x: Any) -> Any:
    # Keys print as their words.
    if not isinstance(x, Array) or not isinstance(x.dtype, dtypes.ExtendedDType):
        return x
    if isinstance(x.dtype, dtypes.KeyDtype):
        return random_unwrap_p.bind(x)
    return from_edtype_p.bind(x, dtype=x.dtype.element[1])


class _Logger(_Printer):
    """Logs arguments in a format."""

    def show(self, text: str) -> None:
        logger.info(text)


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values when they are computed, from inside any program: `fmt` as for `str.format`.

    With options alone the result is a function that has them:
    `debug.print(ordered=True)("{}", x)`.

    >>> import gpuarray as ga
    >>> @ga.jit
    ... def f(x):
    ...     ga.debug.print("x = {}, {twice:.2f}", x, twice=2 * x)
    ...     return x
    >>> _ = f(1.5)
    x = 1.5, 3.00
    """
    options = ordered, partitioned, skip_format_check
    if fmt is None:
        _only_options("debug_print", args, kwargs)
        return lambda fmt, /, *args, **kwargs: _say(_Printer, fmt, args, kwargs, *options)
    return _say(_Printer, fmt, args, kwargs, *options)


def debug_log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """As `debug.print`, but to the logger "gpuarray.debug" of `logging`, at level INFO.

    >>> import logging, sys, gpuarray as ga
    >>> logger = logging.getLogger("gpuarray.debug")
    >>> logger.setLevel(logging.INFO)
    >>> logger.addHandler(handler := logging.StreamHandler(sys.stdout))
    >>> ga.debug.log("x = {}", 1.5)
    x = 1.5
    >>> logger.removeHandler(handler)
    """
    options = ordered, partitioned, skip_format_check
    if fmt is None:
        _only_options("debug_log", args, kwargs)
        return lambda fmt, /, *args, **kwargs: _say(_Logger, fmt, args, kwargs, *options)
    return _say(_Logger, fmt, args, kwargs, *options)


def _say(
    kind: type[_Printer],
    fmt: str,
    args: tuple,
    kwargs: dict,
    ordered: bool,
    partitioned: bool,
    skip_format_check: bool,
) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"expected str, got {type(fmt).__name__}: the format comes first")
    if not skip_format_check:
        # A wrong format fails at the call, not when the program runs.
        _Check().format(fmt, *args, **kwargs)
    values, static, spec = _split(args, kwargs)
    flat = _Mixed(kind(fmt), spec, "debug.print", static)
    debug_print_p.bind(
        *values,
        callback=flat,
        fmt=fmt,
        in_tree=spec,
        ordered=ordered,
        partitioned=partitioned,
        static_args=tuple(x for _, x in static),
    )
