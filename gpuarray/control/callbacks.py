"""Python functions called from inside programs, as primitives.

Floor 4. In: `callback(avals, buffers, result_avals) -> buffers`, which the public layer makes of a
user's function, and the avals of its results. Out: primitives whose NumPy rule calls it, once or,
under vmap, for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core import factors
from gpuarray.core.effects import debug_effect, io_effect
from gpuarray.core.graph import storage_dtype
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import add_axis, move_axis
from gpuarray.transforms.batch import BatchAxis
from gpuarray.util import captures

_ONE_CALL = factors.once("a Python function is called once, with all that its operands hold")

# The values of `vmap_method`, as JAX has them.
METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)


class ForEach(NamedTuple):
    """A callback that is called for each element along the first axis of some operands."""

    callback: Callable[..., Sequence]
    mapped: tuple[bool, ...]
    size: int

    @property
    def captures(self) -> bool:
        """Whether it may hold values (see `util.captures`)."""
        return captures(self.callback)

    def __call__(self, avals: Sequence, buffers: Sequence, result_avals: Sequence) -> list:
        # The callback sees one element at a time: avals without the leading axis.
        inner = [
            a.update(shape=a.shape[1:]) if m else a for a, m in zip(avals, self.mapped, strict=True)
        ]
        each = [a.update(shape=a.shape[1:]) for a in result_avals]
        out = [np.empty(a.shape, storage_dtype(a)) for a in result_avals]
        for i in range(self.size):
            given = [b[i] if m else b for b, m in zip(buffers, self.mapped, strict=True)]
            for whole, value in zip(out, self.callback(inner, given, each), strict=True):
                whole[i] = value
        return out

    def __str__(self) -> str:
        return str(self.callback)


def _run(avals, *, callback, result_avals=(), **_) -> Callable[..., list]:
    avals = tuple(avals)
    return lambda *buffers: list(callback(avals, buffers, result_avals))


def _batched(axis: BatchAxis, result_avals: tuple) -> tuple:
    return tuple(a.update(shape=(axis.size, *a.shape)) for a in result_avals)


def _each(prim: Primitive, axis: BatchAxis, args: list, dims: list, params: dict):
    """Call once for every element, inside one callback, so that it stays one operation."""
    # The loop over the elements runs along the first axis.
    moved = [x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims, strict=True)]
    each = ForEach(params["callback"], tuple(d is not None for d in dims), axis.size)
    changed: dict[str, Any] = {"callback": each}
    # Only callbacks with results have this param.
    if "result_avals" in params:
        changed["result_avals"] = _batched(axis, params["result_avals"])
    # Results have the batch axis in front, like the operands.
    out = prim.bind(*moved, **(params | changed))
    return out, [0] * len(out)


def _pure_batch(axis: BatchAxis, args: list, dims: list, **params):
    method = params["vmap_method"]
    # One call for each element, whatever the function can take.
    if method in ("sequential", "sequential_unrolled"):
        return _each(pure_callback_p, axis, args, dims, params)
    if method == "expand_dims":
        size = 1
    elif method == "broadcast_all":
        size = axis.size
    elif method != "legacy_vectorized":
        raise NotImplementedError(
            f"vmap is only supported for the {params['callback'].kind} primitive when vmap_method "
            f"is one of {', '.join(map(repr, METHODS[:-1]))}, or {METHODS[-1]!r}. Got "
            f"vmap_method={method}."
        )
    # expand_dims gives unbatched operands an axis of length 1, broadcast_all the whole axis.
    moved = []
    for x, d in zip(args, dims, strict=True):
        if d is not None:
            moved.append(move_axis(x, d, 0))
        else:
            moved.append(x if method == "legacy_vectorized" else add_axis(x, 0, size))
    changed = {"result_avals": _batched(axis, params["result_avals"])}
    out = pure_callback_p.bind(*moved, **(params | changed))
    return out, [0] * len(out)


# Effects that are ordered would need an order of the elements.
def _io_batch(axis: BatchAxis, args: list, dims: list, **params):
    if params["ordered"]:
        raise ValueError(
            "Cannot `vmap` ordered IO callback: which element would come first? Use ordered=False."
        )
    return _each(io_callback_p, axis, args, dims, params)


def _refuse(message: str) -> Callable[..., Any]:
    def rule(*_, callback, **__):
        # The callback may know the name that the user called.
        raise ValueError(getattr(callback, "no_derivative", message))

    return rule


_PURE = "Pure callbacks do not support "
_IO = "IO callbacks do not support "
_HINT = " Please use `custom_jvp` to use callbacks while taking gradients."


def _result_avals(*avals, result_avals, **_):
    return result_avals


pure_callback_p = Primitive(
    "pure_callback",
    Kind.LIBRARY,
    multiple_results=True,
    aval=_result_avals,
    numpy_pick=_run,
    jvp=_refuse(f"{_PURE}JVP.{_HINT}"),
    transpose=_refuse(f"{_PURE}transpose.{_HINT}"),
    batch=_pure_batch,
    factors=_ONE_CALL,
)

io_callback_p = Primitive(
    "io_callback",
    Kind.LIBRARY,
    multiple_results=True,
    aval=_result_avals,
    numpy_pick=_run,
    jvp=_refuse(f"{_IO}JVP."),
    transpose=_refuse(f"{_IO}transpose."),
    batch=_io_batch,
    factors=_ONE_CALL,
    effect=io_effect,
)


def _debug(name: str) -> Primitive:
    """Define a callback without results: it receives primals, and has no cotangents."""
    prim = Primitive(
        name,
        Kind.LIBRARY,
        multiple_results=True,
        aval=lambda *avals, **_: [],
        numpy_pick=_run,
        # Tangents are ignored, as there is no result to have one.
        jvp=lambda primals, tangents, **params: (prim.bind(*primals, **params), []),
        transpose=lambda cts, *operands, **_: [None] * len(operands),
        batch=lambda axis, args, dims, **params: _each(prim, axis, args, dims, params),
        factors=_ONE_CALL,
        effect=debug_effect,
        # debug_print shows its format, which is more useful than the callback's name.
        show=lambda params: {k: v for k, v in params.items() if k != "callback" or name != _PRINT},
    )
    return prim


_PRINT = "debug_print"
debug_callback_p = _debug("debug_callback")
debug_print_p = _debug(_PRINT)
