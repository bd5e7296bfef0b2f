"""Collectives of values that are terms of a sum, by type: sums of them, and casts to and from them.

Floor 2. In: one device's value and the names of axes. Out: a value of another type. Along an axis a
value is the same on all devices, varies, is a term of a sum (unreduced), or is the same with
cotangents that are terms (reduced). Three of these operations exchange values as `psum`,
`reduce_scatter` and `all_gather` do, and a device runs those; the others are the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.layout import Layout, names_of, sums_of, with_names, with_sums
from gpuarray.core.primitive import LINEAR, Primitive
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.collective import ops

#: The possible types of a value along an axis.
INVARYING, VARYING, UNREDUCED, REDUCED = "invarying", "varying", "unreduced", "reduced"


def state_along(aval: ShapedArray, name: Any) -> str:
    """Return the type of a value along an axis of the enclosing `shard_map`."""
    unreduced, reduced = sums_of(aval.layout)
    if name in aval.vma:
        return VARYING
    return UNREDUCED if name in unreduced else REDUCED if name in reduced else INVARYING


def _retyped(layout: Layout | None, names: tuple, to: str) -> Layout | None:
    """Return the Layout of a value that is something else along some axes."""
    (unreduced, reduced), varying = sums_of(layout), names_of(layout)
    sets = {VARYING: varying, UNREDUCED: unreduced, REDUCED: reduced}
    sets = {word: given.difference(names) for word, given in sets.items()}
    if to in sets:
        sets[to] = sets[to].union(names)
    return with_sums(with_names(layout, sets[VARYING]), sets[UNREDUCED], sets[REDUCED])


def _checked(name: str, x: ShapedArray, names: tuple, source: str, to: str) -> None:
    """Refuse an operand that is something else along some axis."""
    wrong = [n for n in names if state_along(x, n) != source]
    if wrong:
        raise ValueError(
            f"{name} is a {source.capitalize()}->{to.capitalize()} collective. This means that the "
            f"axis names given must be {source} in the operand's type. Got axes={names} and "
            f"{x.str_short(True)}, which is {state_along(x, wrong[0])} along {wrong[0]!r}."
        )


# Which parameter has the names depends on the operation that it is the like of.
def _names(params: dict) -> tuple:
    return ops.names_in(params)


def _defined(
    name: str, source: str, to: str, transpose: Callable, aval: Any = None, batch: Any = None
) -> Primitive:
    """Define a collective of values that are `source` along axes; its results are `to`."""

    def checked(x: ShapedArray, **params: Any) -> ShapedArray:
        _checked(name, x, _names(params), source, to)
        return x if aval is None else aval(x, **params)

    # Elements are added one by one, so an additional axis may be anywhere.
    def in_place(axis: Any, args: Any, dims: Any, **params: Any):
        return prim.bind(args[0], **params), dims[0]

    prim = Primitive(
        name,
        ops.psum_p.kind,
        aval=checked,
        numpy=ops.psum_p.numpy,
        jvp=LINEAR,
        transpose=transpose,
        batch=batch or in_place,
        layout=lambda layout, **params: _retyped(layout, _names(params), to),
    )
    return prim


def _first(prim: Callable[[], Primitive], dimension: str) -> Callable:
    """Return the batch rule of an operation along an axis: the batch axis goes in front."""

    def batch(axis: Any, args: Any, dims: Any, **params: Any):
        x = move_axis(args[0], dims[0], 0)
        return prim().bind(x, **{**params, dimension: params[dimension] + 1}), 0

    return batch


def _other(
    prim: Callable[[], Primitive], old: str = "", new: str = "", of_varying: bool = False
) -> Callable:
    """Return the transpose rule: the operation that takes cotangents back.

    `of_varying` means that it takes varying ones.
    """

    def transpose(ct: Any, x: Any, **params: Any):
        if of_varying:
            ct = each_own(ct, _names(params))
        return (prim().bind(ct, **{new if k == old else k: v for k, v in params.items()}),)

    return transpose


#: Terms, to their sum on all devices.
unreduced_psum_p = _defined("unreduced_psum", UNREDUCED, INVARYING, _other(lambda: preduced_p))

#: The same value with another type of cotangent: terms.
preduced_p = _defined("preduced", INVARYING, REDUCED, _other(lambda: unreduced_psum_p))

#: Each device's value, as a term of a sum.
vary_unreduced_cast_p = _defined(
    "vary_unreduced_cast", VARYING, UNREDUCED, _other(lambda: reduced_vary_cast_p)
)

#: The same value as one that may differ.
reduced_vary_cast_p = _defined(
    "reduced_vary_cast", REDUCED, VARYING, _other(lambda: vary_unreduced_cast_p, of_varying=True)
)

#: Terms, to each device's piece of their sum.
unreduced_reduce_scatter_p = _defined(
    "unreduced_reduce_scatter",
    UNREDUCED,
    VARYING,
    _other(lambda: all_gather_reduced_p, "scatter_dimension", "all_gather_dimension", True),
    ops.reduce_scatter_p.aval,
    _first(lambda: unreduced_reduce_scatter_p, "scatter_dimension"),
)

#: Concatenated pieces, with cotangents that are terms.
all_gather_reduced_p = _defined(
    "all_gather_reduced",
    VARYING,
    REDUCED,
    _other(lambda: unreduced_reduce_scatter_p, "all_gather_dimension", "scatter_dimension"),
    ops.all_gather_p.aval,
    _first(lambda: all_gather_reduced_p, "all_gather_dimension"),
)


def each_own(x: Any, names: tuple) -> Any:
    """Return a value cast to varying along some axes: a shared value becomes each device's own."""
    lacking = tuple(n for n in names if state_along(aval_of(x), n) == INVARYING)
    return ops.pcast_p.bind(x, axis_name=lacking) if lacking else x


#: Operations that only change the type.
CASTS = frozenset({ops.pcast_p, preduced_p, vary_unreduced_cast_p, reduced_vary_cast_p})


def of_device(prim: Primitive) -> Primitive:
    """Return the collective that a device runs, without type information.

    >>> of_device(unreduced_reduce_scatter_p)
    reduce_scatter
    """
    return _OF_DEVICE.get(prim, prim)


_OF_DEVICE = {
    unreduced_reduce_scatter_p: ops.reduce_scatter_p,
    all_gather_reduced_p: ops.all_gather_p,
}
