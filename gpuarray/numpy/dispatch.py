"""NumPy's own functions on arrays: `np.sin(x)`, `np.concatenate([x, y])` stay on the device.

Floor 6. In: what NumPy hands over when it meets one of our arrays (NEP 13 and NEP 18). Out: the
result of the function of the same name here. What has no counterpart here (`np.save`,
`np.array2string`, ufuncs of other libraries) gets NumPy copies and answers with NumPy arrays, as
`np.asarray(x)` would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core.value import Array, surface
from gpuarray.numpy.namespace import array_namespace

#: Options that NumPy adds to every ufunc; they may be given as long as they ask for nothing.
_IDLE = {"casting": ("same_kind",), "order": ("K",), "subok": (True,), "signature": (None,)}


def array_ufunc(ufunc: np.ufunc, method: str, *inputs, **options) -> Any:
    """`np.add(x, y)`, `np.add.reduce(x)` and so on, where one of the operands is ours."""
    ours = _here(np, ufunc.__name__) if getattr(np, ufunc.__name__, None) is ufunc else None
    if ours is None:
        return getattr(ufunc, method)(*_on_host(inputs), **_named_on_host(options))
    out = _taken_out(f"np.{ufunc.__name__}", options)
    for name, idle in _IDLE.items():
        if options.get(name, idle[0]) not in idle:
            raise TypeError(
                f"np.{ufunc.__name__} of an Array takes no {name}={options[name]!r}: convert "
                "operands with .astype(...) first."
            )
        options.pop(name, None)
    if method == "at":
        raise TypeError(
            f"np.{ufunc.__name__}.at would change an array in place; arrays are immutable. Use "
            f"gpuarray.numpy.{ufunc.__name__}.at(x, indices, y, inplace=False), or x.at[indices]."
        )
    call = ours if method == "__call__" else getattr(ours, method)
    dtype = options.pop("dtype", None) if method == "__call__" else None
    operands = [surface.asarray(x) if isinstance(x, (list, tuple)) else x for x in inputs]
    if dtype is not None:
        operands = [surface.astype(surface.asarray(x), dtype) for x in operands]
    return _put_out(call(*operands, **options), out)


def array_function(function: Callable, types, args: tuple, kwargs: dict) -> Any:
    """A function of NumPy's namespaces, where one of its arguments is ours."""
    module = function.__module__ or ""
    ours = _here(module, function.__name__) if module.startswith("numpy") else None
    if ours is None:
        return function(*_on_host(args), **_named_on_host(kwargs))
    out = _taken_out(f"np.{function.__name__}", kwargs)
    return _put_out(ours(*args, **kwargs), out)


def _here(module, name: str) -> Callable | None:
    """Our function for one of NumPy's, if there is one."""
    space = array_namespace()
    path = module if isinstance(module, str) else module.__name__
    for part in path.split(".")[1:]:
        space = getattr(space, part, None)
    found = getattr(space, name, None)
    return found if callable(found) else None


def _taken_out(what: str, options: dict) -> tuple:
    """The arrays that results are to be written to, taken from the options."""
    out = options.pop("out", None)
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    if any(isinstance(x, Array) for x in outs):
        raise TypeError(
            f"{what}(..., out=...) would change an array in place; arrays are immutable. Use the "
            "result instead, or give a NumPy array as `out`."
        )
    return outs


def _put_out(result, outs: tuple):
    """The result, or the NumPy arrays it was written to."""
    if all(x is None for x in outs):
        return result
    results = result if isinstance(result, tuple) else (result,)
    for x, value in zip(outs, results, strict=True):
        if x is not None:
            np.copyto(x, np.asarray(value), casting="same_kind")
    written = [v if x is None else x for x, v in zip(outs, results, strict=True)]
    return tuple(written) if len(written) > 1 else written[0]


def _on_host(x):
    """Arguments with NumPy arrays in the place of ours."""
    if isinstance(x, Array):
        return np.asarray(x)
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(map(_on_host, x))
    return x


def _named_on_host(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _on_host(x) for name, x in kwargs.items()}
