"""Functions of one lane or one element applied to whole arrays: vectorize, apply_along_axis,
apply_over_axes.

Floor 6. In: a Python function and arrays. Out: its assembled results. The function is traced once,
as by `vmap`, whatever the number of lanes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from gpuarray import config, util
from gpuarray.core import dtypes
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.functions.vmap import vmap
from gpuarray.lax.args import canonicalize_shape
from gpuarray.lax.ranks import check_rank_promotion
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.creation import arange
from gpuarray.numpy.operands import array, arrays, as_tuple
from gpuarray.numpy.shapes import broadcast_shapes, expand_dims, reshape
from gpuarray.pytree import tree
from gpuarray.util import canonical_axis, wraps


def fromfunction(function: Callable[..., Any], shape, *, dtype=float, **kwargs) -> Any:
    """Construct an array by evaluating a function at every position.

    Shape contract: the function gets one number for each axis and gives (…); the result is
    (*shape, …). Keyword arguments are mapped too, along their first axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
    Array([[ 0,  1,  2],
           [10, 11, 12]], dtype=int32)
    """
    shape, dtype = canonicalize_shape(shape), dtypes.check_user_dtype(dtype, "fromfunction")
    # One vmap for each axis.
    for axis in range(len(shape) - 1, -1, -1):  # the last axis is the innermost
        mapped = tuple([0 if i == axis else None for i in range(len(shape))])
        function = vmap(function, in_axes=mapped)
    return function(*[arange(n, dtype=dtype) for n in shape], **kwargs)


@boundary
def apply_along_axis(func1d: Callable, axis: int, arr, *args, **kwargs) -> Array:
    """`func1d` of every lane along an axis: (…, n, …) -> (…, *result's shape, …).

    >>> import gpuarray.numpy as gnp
    >>> gnp.apply_along_axis(gnp.max, 0, gnp.array([[1, 5], [3, 2]]))
    Array([3, 5], dtype=int32)
    """
    arr = array("apply_along_axis", arr)
    axis = canonical_axis(axis, arr.ndim)
    before, after = axis, arr.ndim - axis - 1

    def lane(row):
        return tree.tree_map(asarray, func1d(row, *args, **kwargs))

    # The axes of the function's result replace the lane's axis; the axes before it stay in front.
    for _ in range(after):
        lane = vmap(lane, in_axes=-1, out_axes=-1)
    # Outermost last: the axes before the lane's own come first in the result.
    for _ in range(before):
        lane = vmap(lane)
    return lane(arr)


def apply_over_axes(func: Callable[[Array, int], Array], a, axes: int | Sequence[int]) -> Array:
    """`func(a, axis)` for one axis after another; axes that it drops are restored with length 1.

    >>> import gpuarray.numpy as gnp
    >>> gnp.apply_over_axes(gnp.sum, gnp.ones((2, 3)), [0, 1])
    Array([[6.]], dtype=float32)
    """
    a = array("apply_over_axes", a)
    for axis in as_tuple(axes):
        b = func(a, axis)
        # A function that drops the axis, and one that keeps it with length 1, will both do.
        if b.ndim == a.ndim - 1:
            b = expand_dims(b, canonical_axis(axis, a.ndim))
        if b.ndim != a.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = b
    return a


# The grammar of generalised ufuncs, as NumPy defines it: "(m,n),(n,p)->(m,p)".
_DIMS = r"\(\s*(?:\w+(?:\s*,\s*\w+)*\s*,?)?\s*\)"
_SIGNATURE = re.compile(rf"^\s*({_DIMS}(?:\s*,\s*{_DIMS})*)?\s*->\s*{_DIMS}(?:\s*,\s*{_DIMS})*\s*$")


def _parse(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The core dimensions of inputs and outputs: "(m,n),(n)->(m)" gives [(m, n), (n,)], [(m,)]."""
    if not isinstance(signature, str):
        raise util.wrong_type(signature, "a signature such as '(n),(n)->()'")
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
    """Generalise `pyfunc`, a function of scalars (or of arrays as `signature` says), to broadcast
    over leading axes.

    Parameters
    ----------
    excluded :
        Positions or names of arguments that are passed unchanged.
    signature :
        Such as "(m,n),(n)->(m)".

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> f = gnp.vectorize(lambda a, b: a * b, signature="(n),()->(n)")
    >>> f(gnp.array([[1, 2], [3, 4]]), gnp.array([10, 100]))
    Array([[ 10,  20],
           [300, 400]], dtype=int32)
    """
    util.elements(excluded, "a set of numbers and names")
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"excluded={set(excluded)!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={set(excluded)!r} contains negative numbers")
    cores = None if signature is None else _parse(signature)

    @boundary
    @wraps(pyfunc)
    def wrapped(*args, **kwargs):
        # Excluded arguments reach the function as they were given.
        missing = {i for i, x in enumerate(args) if x is None}
        spread = [i for i in range(len(args)) if i not in excluded and i not in missing]
        # NumPy's rule: with a signature, keyword arguments are not spread.
        names = [k for k in kwargs if k not in excluded] if signature is None else []
        given = arrays("vectorize", *[args[i] for i in spread], *[kwargs[k] for k in names])
        inputs, outputs = cores if cores is not None else ([()] * len(given), None)
        # None is passed unchanged where the signature has a scalar.
        places = [i for i in range(len(args)) if i not in excluded]
        if cores is not None and missing and len(places) == len(inputs):
            if any(core for i, core in zip(places, inputs, strict=True) if i in missing):
                raise ValueError(f"Cannot pass None at locations {missing} with {signature=}")
            inputs = [c for i, c in zip(places, inputs, strict=True) if i not in missing]
        if len(inputs) != len(given):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(inputs)}, got {len(given)}"
            )
        # Core dimensions have fixed lengths, the others broadcast.
        sizes, batch = _sizes(given, inputs, signature)

        def once(*elements):
            values, named = list(args), dict(kwargs)
            # Everything excluded stays where it was in the call.
            for i, x in zip(spread, elements, strict=False):
                values[i] = x
            named.update(zip(names, elements[len(spread) :], strict=True))
            result = tree.tree_map(asarray, pyfunc(*values, **named))
            if outputs is not None:
                if len(outputs) > 1 and not isinstance(result, tuple):
                    raise TypeError(
                        "output must be a tuple when multiple outputs are expected, got "
                        f"{type(result).__name__} on vectorized function with {signature=}"
                    )
                _check_results(tree.tree_leaves(result), outputs, dict(sizes), signature)
            return result

        return _spread(once, given, [len(core) for core in inputs], batch)

    return wrapped


def _spread(once: Callable, given: list[Array], cores: list[int], batch: tuple[int, ...]) -> Any:
    """`once` mapped over the leading axes; an axis that an array does not have is not made."""
    leading = [
        # The leading axes of each array, aligned at the right as in broadcasting.
        (1,) * (len(batch) - (a.ndim - core)) + a.shape[: a.ndim - core]
        for a, core in zip(given, cores, strict=True)
    ]
    # vmap over an axis of length 1 would be no more than a squeeze.
    alone = []  # axes that are 1 in all arrays
    # Innermost first; an array whose axis is 1 is not mapped there.
    for k in range(len(batch) - 1, -1, -1):
        axes = tuple(None if shape[k] == 1 else 0 for shape in leading)
        if any(axis == 0 for axis in axes):
            once = vmap(once, in_axes=axes)
        else:
            alone.append(k)
    plain = [
        # Axes that are not mapped must not be there.
        reshape(a, (*(n for n in shape if n != 1), *a.shape[a.ndim - core :]))
        for a, core, shape in zip(given, cores, leading, strict=True)
    ]
    out = once(*plain)
    return tree.tree_map(lambda x: expand_dims(x, alone), out) if alone else out


def _sizes(given: list[Array], inputs, signature) -> tuple[dict[str, int], tuple[int, ...]]:
    """The lengths of the core dimensions, and the broadcast shape of the other ones."""
    sizes: dict[str, int] = {}
    shapes = []
    for a, core in zip(given, inputs, strict=True):
        if a.ndim < len(core):
            raise ValueError(
                f"input with shape {a.shape} does not have enough dimensions for all core "
                f"dimensions {core} on vectorized function with signature={signature!r}"
            )
        _fill_sizes(sizes, core, a.shape[a.ndim - len(core) :], signature)
        shapes.append(a.shape[: a.ndim - len(core)])
    ranks = {len(s) for s, a in zip(shapes, given, strict=True) if a.ndim}
    if len(ranks) > 1 and config.state.numpy_rank_promotion != "allow":
        check_rank_promotion(f"vectorize function with signature {signature}", shapes)
    return sizes, broadcast_shapes(*shapes)


def _fill_sizes(sizes: dict[str, int], core, lengths: tuple[int, ...], signature) -> None:
    for name, n in zip(core, lengths, strict=True):
        if sizes.setdefault(name, n) != n:
            raise ValueError(
                f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} on "
                f"vectorized function with signature={signature!r}"
            )


def _check_results(results: list[Array], outputs, sizes: dict[str, int], signature) -> None:
    if len(results) != len(outputs):
        raise TypeError(
            f"wrong number of output arguments: expected {len(outputs)}, got {len(results)}"
        )
    for x, core in zip(results, outputs, strict=True):
        if x.ndim != len(core):
            raise ValueError(
                f"output shape {x.shape} does not match core dimensions {core} on vectorized "
                f"function with signature={signature!r}"
            )
        _fill_sizes(sizes, core, x.shape, signature)
