"""Functions of one lane or one element made functions of whole arrays: vectorize, apply_along_axis,
apply_over_axes.

Floor 6. In: a Python function and arrays. Out: its results, put together. The function is called
once for every lane.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from gpuarray.core.value import Array
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.joining import stack, unstack
from gpuarray.numpy.operands import array, arrays, as_tuple
from gpuarray.numpy.shapes import broadcast_shapes, expand_dims, moveaxis, reshape, stretch
from gpuarray.util import canonical_axis


def apply_along_axis(func1d: Callable, axis: int, arr, *args, **kwargs) -> Array:
    """`func1d` of every lane along an axis: (…, n, …) -> (…, *result's shape, …).

    >>> import gpuarray.numpy as gnp
    >>> gnp.apply_along_axis(gnp.max, 0, gnp.array([[1, 5], [3, 2]]))
    Array([3, 5], dtype=int32)
    """
    arr = array("apply_along_axis", arr)
    axis = canonical_axis(axis, arr.ndim)
    lanes = moveaxis(arr, axis, -1)
    batch = lanes.shape[:-1]
    if math.prod(batch) == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    rows = unstack(reshape(lanes, (-1, lanes.shape[-1])))
    out = stack([asarray(func1d(row, *args, **kwargs)) for row in rows])
    result = out.shape[1:]
    out = reshape(out, (*batch, *result))
    # The axes of the result stand where the lane's axis was.
    return moveaxis(out, tuple(range(len(batch), out.ndim)), tuple(range(axis, axis + len(result))))


def apply_over_axes(func: Callable[[Array, int], Array], a, axes: int | Sequence[int]) -> Array:
    """`func(a, axis)` for one axis after another; axes that it drops are put back with length 1.

    >>> import gpuarray.numpy as gnp
    >>> gnp.apply_over_axes(gnp.sum, gnp.ones((2, 3)), [0, 1])
    Array([[6.]], dtype=float32)
    """
    a = array("apply_over_axes", a)
    for axis in as_tuple(axes):
        b = func(a, axis)
        if b.ndim == a.ndim - 1:
            b = expand_dims(b, canonical_axis(axis, a.ndim))
        if b.ndim != a.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = b
    return a


_DIMS = r"\(\s*(?:\w+(?:\s*,\s*\w+)*\s*,?)?\s*\)"
_SIGNATURE = re.compile(rf"^\s*({_DIMS}(?:\s*,\s*{_DIMS})*)?\s*->\s*{_DIMS}(?:\s*,\s*{_DIMS})*\s*$")


def _parse(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The core dimensions of inputs and outputs: "(m,n),(n)->(m)" gives [(m, n), (n,)], [(m,)]."""
    if not _SIGNATURE.match(signature):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    sides = signature.split("->")
    found = [
        [tuple(re.findall(r"\w+", dims)) for dims in re.findall(_DIMS, side)] for side in sides
    ]
    return found[0], found[1]


def vectorize(
    pyfunc: Callable, *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable:
    """`pyfunc`, a function of scalars (or of arrays as `signature` says), made to broadcast over
    leading axes.

    excluded: positions or names of arguments that are passed on as they are. signature: such as
    "(m,n),(n)->(m)".

    >>> import gpuarray.numpy as gnp
    >>> f = gnp.vectorize(lambda a, b: a * b, signature="(n),()->(n)")
    >>> f(gnp.array([[1, 2], [3, 4]]), gnp.array([10, 100]))
    Array([[ 10,  20],
           [300, 400]], dtype=int32)
    """
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"excluded={set(excluded)!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={set(excluded)!r} contains negative numbers")
    cores = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args, **kwargs):
        spread = [i for i in range(len(args)) if i not in excluded]
        names = [k for k in kwargs if k not in excluded] if signature is None else []
        given = arrays("vectorize", *[args[i] for i in spread], *[kwargs[k] for k in names])
        inputs, outputs = cores if cores is not None else ([()] * len(given), None)
        if len(inputs) != len(given):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(inputs)}, got {len(given)}"
            )
        batch = _batch_shape(given, inputs, signature)
        rows = [_rows(a, len(core), batch) for a, core in zip(given, inputs, strict=True)]

        def once(k: int):
            values = list(args)
            named = dict(kwargs)
            for i, r in zip(spread, rows, strict=False):
                values[i] = r[k]
            for name, r in zip(names, rows[len(spread) :], strict=True):
                named[name] = r[k]
            return pyfunc(*values, **named)

        return _assemble([once(k) for k in range(math.prod(batch))], batch, outputs, pyfunc)

    return wrapped


def _batch_shape(given: list[Array], inputs, signature) -> tuple[int, ...]:
    sizes: dict[str, int] = {}
    shapes = []
    for a, core in zip(given, inputs, strict=True):
        if a.ndim < len(core):
            raise ValueError(
                f"input with shape {a.shape} does not have enough dimensions for all core "
                f"dimensions {core} on vectorized function with signature={signature!r}"
            )
        for name, n in zip(core, a.shape[a.ndim - len(core) :], strict=True):
            if sizes.setdefault(name, n) != n:
                raise ValueError(
                    f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} on "
                    f"vectorized function with signature={signature!r}"
                )
        shapes.append(a.shape[: a.ndim - len(core)])
    return broadcast_shapes(*shapes)


def _rows(a: Array, core: int, batch: tuple[int, ...]) -> Sequence[Array]:
    inner = a.shape[a.ndim - core :]
    return unstack(reshape(stretch(a, (*batch, *inner)), (math.prod(batch), *inner)))


def _assemble(results: list, batch: tuple[int, ...], outputs, pyfunc) -> Any:
    if not results:
        raise ValueError(f"cannot call `vectorize` on size 0 inputs: {pyfunc} is never called")
    several = isinstance(results[0], (tuple, list))
    columns = list(zip(*results, strict=True)) if several else [results]
    if outputs is not None and len(columns) != len(outputs):
        raise TypeError(
            f"wrong number of output arguments: expected {len(outputs)}, got {len(columns)}"
        )
    out = []
    for k, column in enumerate(columns):
        made = stack([asarray(c) for c in column])
        if outputs is not None and made.ndim - 1 != len(outputs[k]):
            raise ValueError(
                f"output shape {made.shape[1:]} does not match core dimensions {outputs[k]} on "
                "vectorized function"
            )
        out.append(reshape(made, (*batch, *made.shape[1:])))
    return tuple(out) if several else out[0]
