"""NumPy's own functions on arrays: `np.sin(x)`, `np.concatenate([x, [1.0]])` stay on the device.

Floor 6. In: the arguments of NumPy's protocols for foreign arrays (NEP 13 and NEP 18). Out: the
result of the function of the same name here (`counterparts.py` has the arguments). Calls that
cannot be translated are computed by NumPy from copies on the host, with a FallbackWarning (an error
in strict mode), and the result is put back on the device. Functions of other libraries, and those
of NumPy that handle text, files and memory, get NumPy arrays and return NumPy's, as with
`np.asarray(x)`. Arrays that SciPy's own code makes with `np.zeros_like(x)` and similar calls are
NumPy's, too, because it writes into them.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gpuarray import config
from gpuarray.core import dtypes
from gpuarray.core.trace import Tracer, is_base
from gpuarray.core.value import Array, surface
from gpuarray.errors import FallbackError, FallbackWarning, JAXTypeError
from gpuarray.numpy.counterparts import NO_VALUE, as_operand, counterpart
from gpuarray.numpy.namespace import array_namespace

#: Exceptions by which a function refuses its arguments. If NumPy accepts them, its result is
#: returned, otherwise its error.
_REFUSALS = (TypeError, ValueError, IndexError, AssertionError, OverflowError, NotImplementedError)

#: Functions that SciPy makes arrays with in order to write into them, as it does with NumPy's.
_WRITTEN_INTO = frozenset(
    [np.atleast_1d, np.atleast_2d, np.atleast_3d, np.copy, np.empty_like, np.full_like]
    + [np.ones_like, np.zeros_like]
)


def _is_other(x: Any) -> bool:
    """Whether an operand is neither a number nor an array or list of numbers."""
    return not isinstance(x, Array) and np.asarray(x).dtype.kind in "OSU"


def _promoting(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function of this library for one of NumPy's, with NumPy's promotion: the settings
    about that concern only this library's own functions.
    """
    state = config.state
    if state.numpy_dtype_promotion == "standard" and state.numpy_rank_promotion == "allow":
        return function(*args, **kwargs)
    with config.numpy_dtype_promotion("standard"), config.numpy_rank_promotion("allow"):
        return function(*args, **kwargs)


# ---- functions ----


def array_function(function: Callable, types, args: tuple, kwargs: dict) -> Any:
    """A function of NumPy's namespaces, where one of its arguments is ours."""
    for t in types:
        # Another library's array: under NEP 18 NumPy tries its implementation next.
        if not issubclass(t, (Array, np.ndarray)):
            return NotImplemented
    if function in _WRITTEN_INTO and args and not isinstance(args[0], Tracer):
        # The frames in between are this one and that of `Array.__array_function__`.
        if sys._getframe(2).f_globals.get("__name__", "").startswith("scipy."):
            return function(*_on_host(args), **_on_host(kwargs))
    if function is np.broadcast_arrays and any(map(_is_other, args)):
        # Strings and None along with arrays, as in matplotlib's bars: each is broadcast where it
        # is.
        shape = np.broadcast_shapes(*map(np.shape, args))
        return tuple(np.broadcast_to(x, shape) for x in args)
    found = counterpart(function)
    if found.writes:
        # These change their first argument, which only a NumPy array allows.
        _writable(f"np.{found.name}", found.first(args, kwargs))
    if found.writes or found.is_host:
        return function(*_on_host(args), **_on_host(kwargs))
    if found.reads:
        # Devices cannot read files: NumPy reads, and the result is put on the device.
        return _on_device(function(*args, **kwargs), (), None)
    if found.ours is None:
        return _by_numpy(f"np.{found.name}", function, args, kwargs, "it is not in gpuarray.numpy")
    outs = ()
    left, rest = kwargs, args
    # `out` may be given by position: then all arguments are taken by name.
    if "out" in kwargs or len(args) >= found.outs_from:
        if len(args) >= found.outs_from:
            left, rest = found.named(args, kwargs), ()
        left, outs = _taken_out(f"np.{found.name}", left)
    try:
        result = _promoting(found, (rest, left), {})
        # Where ours gives nan, NumPy may raise a LinAlgError: it decides.
        if not found.may_fail or _is_finite(result):
            return _put_out(result, outs) if outs else result
    except _REFUSALS as error:
        if _is_final(error, args, kwargs):
            raise
        why = str(error)
    else:
        function(*_on_host(args), **_on_host(kwargs))  # a LinAlgError, where NumPy has one
        return result
    return _by_numpy(f"np.{found.name}", function, args, kwargs, why)


# ---- ufuncs ----


def array_ufunc(ufunc: np.ufunc, method: str, *inputs, **options) -> Any:
    """`np.add(x, y)`, `np.add.reduce(x)` and so on, where one of the operands is ours."""
    ours = _here(ufunc)
    # The usual call has no options, and costs no more than a look-up.
    if ours is not None and not options and method == "__call__":
        try:
            return _promoting(ours, map(as_operand, inputs), {})
        except _REFUSALS as error:
            if _is_final(error, inputs, options):
                raise
            why = str(error)
        return _by_numpy(f"np.{ufunc.__name__}", ufunc, inputs, options, why)
    what = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    numpys = getattr(ufunc, method)
    if method == "at":
        # ufunc.at works in place, on a NumPy array.
        _writable(what, inputs[0])
        return numpys(*_on_host(inputs), **_on_host(options))
    left, outs = _taken_out(what, options)
    if ours is None:
        return numpys(*_on_host(inputs), **_on_host(options))
    try:
        if method == "__call__":
            return _called(ufunc, ours, inputs, left, outs)
        result = _method(ufunc, method, inputs, left)
        return _put_out(result, outs) if outs else result
    except _REFUSALS as error:
        if _is_final(error, inputs, options):
            raise
        why = str(error)
    return _by_numpy(what, numpys, inputs, options, why)


@functools.lru_cache(1024)
def _here(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Our function for one of NumPy's ufuncs, if there is one."""
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc:
        # A ufunc of another library, which has taken one of NumPy's names.
        return None
    return getattr(array_namespace(), name, None)


@functools.lru_cache(1024)
def _with_methods(ufunc: np.ufunc) -> Any:
    """Our function as an object that reduces, accumulates and so on."""
    ours: Any = _here(ufunc)
    if hasattr(ours, "reduce"):
        return ours
    return array_namespace().ufunc(
        ours, ufunc.nin, ufunc.nout, name=ufunc.__name__, identity=ufunc.identity
    )


def _called(ufunc: np.ufunc, ours: Any, inputs: tuple, options: dict, outs: tuple) -> Any:
    """A ufunc with options: dtype, signature, casting, where, out, and the axes of some."""
    mask = as_operand(options.pop("where", True))
    casting = options.get("casting", "same_kind")
    operands, types = _cast([as_operand(x) for x in inputs], ufunc, options)
    result = _promoting(ours, operands, options)
    results = result if ufunc.nout > 1 else (result,)
    if types:
        results = [surface.astype(x, t) for x, t in zip(results, types, strict=True)]
    if mask is not True and not outs:
        # NumPy leaves the other elements as they happen to be.
        space = array_namespace()
        results = [space.where(mask, x, space.zeros_like(x)) for x in results]
    result = tuple(results) if ufunc.nout > 1 else results[0]
    return _put_out(result, outs, mask, casting) if outs else result


def _method(ufunc: np.ufunc, method: str, inputs: tuple, options: dict) -> Any:
    """reduce, accumulate, reduceat or outer."""
    operands = [as_operand(x) for x in inputs]
    if method == "outer":
        operands, types = _cast(operands, ufunc, options)
        result = _promoting(_with_methods(ufunc).outer, operands, options)
        return surface.astype(result, types[0]) if types else result
    idle = {"where": True, "initial": NO_VALUE}
    # Ignore defaults that NumPy fills in.
    options = {n: x for n, x in options.items() if n not in idle or x is not idle[n]}
    if "where" in options:
        options["where"] = as_operand(options["where"])
    return _promoting(getattr(_with_methods(ufunc), method), operands, options)


def _cast(operands: list, ufunc: np.ufunc, options: dict) -> tuple[list, list]:
    """Operands in the types given by dtype=, signature= and casting=, and the types of the results.

    NumPy chooses them, and refuses invalid casts.
    """
    dtype, casting = options.pop("dtype", None), options.pop("casting", "same_kind")
    signature = options.pop("signature", options.pop("sig", None))
    for name in ("order", "subok"):  # concern memory and subclasses, which arrays here do not have
        options.pop(name, None)
    # No request: use the promotion of this library.
    if dtype is None and signature is None and casting in ("same_kind", "unsafe"):
        return operands, []
    given: Any = [x.dtype if hasattr(x, "dtype") else type(x) for x in operands]
    # dtype= is a signature that fixes the results and leaves the operands open.
    if dtype is not None:
        signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
        dtypes.check_user_dtype(dtype, ufunc.__name__)  # raises for dtypes that are not available
    elif isinstance(signature, str):
        signature = tuple(np.dtype(c) for c in signature.replace("->", ""))
    # NumPy picks the loop, and raises if casting= forbids it.
    loop = ufunc.resolve_dtypes(
        (*given, *(None,) * ufunc.nout), signature=signature, casting=casting
    )
    # casting= alone only checks.
    if signature is None:
        return operands, []
    loop = [dtypes.canonicalize_dtype(t) for t in loop]
    operands = [surface.astype(surface.asarray(x), t) for x, t in zip(operands, loop, strict=False)]
    return operands, loop[ufunc.nin :]


# ---- results in NumPy arrays ----


def _writable(what: str, target: Any) -> None:
    # NumPy's own message would mention a read-only buffer.
    if isinstance(target, Array):
        raise TypeError(
            f"{what} would change an array in place; arrays are immutable. Use "
            "x.at[indices].set(y) (or add, multiply, ...), or give a NumPy array."
        )


def _taken_out(what: str, options: dict[str, Any]) -> tuple[dict[str, Any], tuple]:
    """The options without `out`, and the arrays that results are to be written to."""
    options = dict(options)
    out = options.pop("out", None)
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    if any(isinstance(x, Array) for x in outs):
        raise TypeError(
            f"{what}(..., out=...) would change an array in place; arrays are immutable. Use the "
            "result instead, or give a NumPy array as `out`."
        )
    return options, () if all(x is None for x in outs) else outs


def _put_out(result, outs: tuple, where: Any = None, casting: Any = "same_kind"):
    """The result, or the NumPy arrays it was written to."""
    results = result if isinstance(result, tuple) else (result,)
    # Where the mask is false, `out` keeps its old values.
    mask = np.True_ if where is None else np.asarray(where)
    for x, value in zip(outs, results, strict=True):
        if x is None:
            continue
        if where is None and x.shape != value.shape:
            raise ValueError(f"out has shape {x.shape}, the result {value.shape}")
        # Casts as NumPy does between `out` and the result.
        np.copyto(x, np.asarray(value), casting=casting, where=mask)
    written = [v if x is None else x for x, v in zip(outs, results, strict=True)]
    return tuple(written) if len(written) > 1 else written[0]


# ---- fallback to NumPy ----


def _is_final(error: Exception, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether NumPy must not be asked: it would not know why, or values are not known yet."""
    return (
        _holds_float0(args)
        or _traced((args, kwargs))
        # Within a trace no value is there for NumPy to compute with.
        or (isinstance(error, JAXTypeError) and not is_base())
    )


def _by_numpy(what: str, function: Callable, args: Any, kwargs: dict[str, Any], why: str) -> Any:
    """NumPy's result, as arrays on the device, with a warning (an error in strict mode)."""
    # Computed from copies on the host; NumPy's `out` arrays remain the caller's.
    outs = kwargs.get("out")
    result = function(*_on_host(args), **_on_host(kwargs))
    outs = outs if isinstance(outs, tuple) else (outs,)
    result = _on_device(result, outs, _device((*args, *kwargs.values())))
    message = f"NumPy runs {what} on the host, from copies: {why}"
    if config.state.strict:
        raise FallbackError(f"{message}. Strict mode refuses that: switch `strict` off.")
    warnings.warn(message, FallbackWarning, stacklevel=4)
    return result


def _device(x: Any) -> Any:
    """The device that arrays were put on, if they were."""
    if isinstance(x, (list, tuple)):
        return next(filter(None, map(_device, x)), None)
    # Results go back to where the arguments were put.
    if isinstance(x, Array) and x.committed and len(x.devices()) == 1:  # pyright: ignore
        return x.device
    return None


def _on_device(x: Any, outs: tuple, device: Any) -> Any:
    """NumPy's result with its arrays converted to ours, except those given as `out`."""
    if isinstance(x, (list, tuple)):
        parts = [_on_device(e, outs, device) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if not isinstance(x, (np.ndarray, np.generic)) or any(x is out for out in outs):
        return x
    if dtypes.kind_of(x.dtype) not in tuple("biufc"):
        return x  # text, records, objects
    # 64-bit integers that do not fit into 32 bits are an error, not a wrap.
    narrow = dtypes.canonicalize_dtype(x.dtype)
    if narrow != x.dtype and narrow.kind in "iu" and (x.astype(narrow) != x).any():
        _does_not_fit(x.dtype)
    return surface.asarray(x, device=device)


def _does_not_fit(dtype: Any) -> NoReturn:
    raise OverflowError(
        f"the result has integers that need {dtype}; switch the setting enable_x64 on, or give "
        "NumPy arrays (np.asarray(x))."
    )


def _is_finite(x: Any) -> bool:
    """Whether a result is free of nan and inf; True for traced values."""
    if isinstance(x, tuple):
        return all(map(_is_finite, x))
    return isinstance(x, Tracer) or bool(array_namespace().isfinite(x).all())


def _holds_float0(x: Any) -> bool:
    """Whether an argument is the derivative of integers, which has no values."""
    if isinstance(x, (list, tuple)):
        return any(map(_holds_float0, x))
    return isinstance(x, np.ndarray) and x.dtype == dtypes.float0


def _traced(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_traced, x))
    if isinstance(x, dict):
        return any(map(_traced, x.values()))
    return isinstance(x, Tracer)


def _on_host(x: Any) -> Any:
    """Arguments with our arrays converted to NumPy's."""
    if isinstance(x, Array):
        return np.asarray(x)
    if isinstance(x, dict):
        return {name: _on_host(e) for name, e in x.items()}
    if isinstance(x, (list, tuple)):
        parts = [_on_host(e) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x
