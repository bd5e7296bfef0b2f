"""Collectives: operations over all elements along a named axis.

Floor 6. In: pytrees of one element's values, and the axis_name of an enclosing vmap. Out: pytrees
of values combined from all elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import errors
from gpuarray.core import axes as named
from gpuarray.core.avals import aval_of
from gpuarray.core.mesh import contexts
from gpuarray.core.trace import immutable
from gpuarray.core.value import Array
from gpuarray.lax.args import operands
from gpuarray.lax.convert import convert_element_type
from gpuarray.lax.creation import full_like
from gpuarray.lax.elementwise import eq, select
from gpuarray.lax.shapes import broadcast_in_dim, expand_dims, reshape, squeeze
from gpuarray.primitives.collective import ops as ops
from gpuarray.primitives.collective import sums
from gpuarray.pytree import tree
from gpuarray.util import canonical_axis, elements, indices, prod

AxisName = Any


def _axes(axis_name: AxisName) -> tuple:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _named(axis_name: AxisName, what: str = "collectives", once: bool = True) -> tuple:
    """The names, each bound by an enclosing transformation, and without duplicates."""
    # Numbers among the names are axes of the values themselves.
    names = tuple(a for a in _axes(axis_name) if not isinstance(a, int))
    if once and len(names) > 1 and len(set(names)) < len(names):
        raise ValueError(f"repeated axis in axis_name={axis_name} of {what}: name each axis once")
    for name in names:
        named.axis_size(name, what)
    return names


def axis_size(axis_name: AxisName) -> int:
    """The length of a named axis (of several: their product), as a Python int.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(ga.numpy.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """
    return prod(named.axis_size(name) for name in _axes(axis_name))


def axis_index(axis_name: AxisName) -> Array:
    """The number of this element along a named axis: int32, shape ().

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.axis_index("i"), axis_name="i")(ga.numpy.ones(3))
    Array([0, 1, 2], dtype=int32)
    """
    # A number is an axis of the values, and the elements of such an axis have no index.
    if isinstance(axis_name, int):
        raise errors.UnboundAxisError(
            f"unbound axis name: {axis_name}. Give the axis_name of a vmap around."
        )
    names = _named(axis_name, once=False)
    total: Any = None
    for name in names:
        index = _varying(ops.axis_index_p.bind(axis_name=name), (name,))
        # Several names count as one axis, the last one running fastest.
        total = index if total is None else total * np.int32(named.axis_size(name)) + index
    return total


def _varying(x: Any, names: Sequence[Any]) -> Any:
    """Return an operand cast to varying along these axes.

    Only axes of a `shard_map` that checks types matter, and values that vary already are returned
    unchanged.
    """
    lacking = named.typed_names(names) - aval_of(x).vma
    if not lacking:
        return x
    return ops.pcast_p.bind(x, axis_name=tuple(n for n in names if n in lacking))


def _reduce(prim, name: str, x: Any, axis_name: AxisName, groups: Any) -> Any:
    names = _named(axis_name, name)
    axes = _axes(axis_name)
    leaves, spec = tree.flatten(x)
    leaves = [_varying(v, names) for v in operands(name, *leaves)]
    if not axes:  # over no axis
        return tree.unflatten(spec, leaves)
    # A sum of booleans counts them, as JAX does.
    if name == "psum":
        leaves = [
            convert_element_type(v, np.int32) if aval_of(v).dtype == np.bool_ else v for v in leaves
        ]
    # A negative number counts from the end of each leaf's own axes.
    numbers = [a for a in axes if isinstance(a, int)]
    out = []
    for v in leaves:
        own = tuple(canonical_axis(a, aval_of(v).ndim) for a in numbers)
        out.append((*own, *(a for a in axes if not isinstance(a, int))))
    groups, _ = grouped(names, groups, uneven=True)
    # One collective for all leaves where the axes agree.
    if len(set(out)) == 1:
        found = prim.bind(*leaves, axes=out[0], axis_index_groups=groups)
    else:
        found = [
            prim.bind(v, axes=a, axis_index_groups=groups)[0]
            for v, a in zip(leaves, out, strict=True)
        ]
    return tree.unflatten(spec, found)


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over all elements along a named axis; every element gets it.

    Shape contract: each leaf keeps its shape; numbers among the axes are summed over and dropped.
    A Python number is multiplied by the length of the axis.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(ga.numpy.arange(4.0))
    Array([0.        , 0.16666667, 0.33333334, 0.5       ], dtype=float32)
    """
    numbers = (int, float, complex)
    names = _named(axis_name, "psum")
    leaves, spec = tree.flatten(x)
    # Terms of a sum, by their types, are another operation's.
    terms = [_along(v, names, "jax.lax.psum") == sums.UNREDUCED for v in leaves]
    if any(terms):
        _no_groups("psum", axis_index_groups)
        found = [
            sums.unreduced_psum_p.bind(v, axes=names)
            if is_term
            else psum(v, axis_name, axis_index_groups=axis_index_groups)
            for v, is_term in zip(leaves, terms, strict=True)
        ]
        return tree.unflatten(spec, found)
    # The sum of a Python number over n equal elements is a Python number: shapes can be computed
    # so.
    if len(names) == len(_axes(axis_name)) and axis_index_groups is None:
        if leaves and all(isinstance(v, numbers) for v in leaves):
            size = axis_size(axis_name)
            return tree.unflatten(spec, [v * size for v in leaves])
    return _reduce(ops.psum_p, "psum", x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over all elements along a named axis; every element gets it.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(ga.numpy.arange(3.0))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    numbers = 1
    # Positional axes: their lengths are read from the first leaf.
    for v in tree.flatten(x)[0][:1]:
        shape = aval_of(v).shape
        numbers = prod(shape[a] for a in _axes(axis_name) if isinstance(a, int))
    names = _named(axis_name)
    size = numbers * grouped(names, axis_index_groups)[1]
    return tree.tree_map(lambda v: v / size, total)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The largest `x` of all elements along a named axis; every element gets it.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(ga.numpy.arange(3.0))
    Array([2., 2., 2.], dtype=float32)
    """
    return _reduce(ops.pmax_p, "pmax", x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The smallest `x` of all elements along a named axis; every element gets it.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(ga.numpy.arange(3.0))
    Array([0., 0., 0.], dtype=float32)
    """
    return _reduce(ops.pmin_p, "pmin", x, axis_name, axis_index_groups)


def _checked(prim, x: Any, **params) -> Any:
    # Batching rules do not compute the result's type, so a wrong shape is reported here.
    prim.out_avals([aval_of(x)], params)
    return prim.bind(x, **params)


def grouped(names: tuple, groups: Any, uneven: bool = False) -> tuple[Any, int]:
    """Return axis_index_groups as tuples, and how many elements take part in each exchange.

    Where results do not depend on that number, groups may be `uneven`.
    """
    size = axis_size(names) if names else 1
    if groups is None:
        return None, size
    wanted = "a list of lists of ints, the members of each group"
    groups = tuple([indices(group, wanted) for group in elements(groups, wanted)])
    if sorted(i for group in groups for i in group) != list(range(size)):
        raise ValueError(
            f"axis_index_groups must cover all indices of the axis once: {list(groups)} is no "
            f"partition of 0 to {size - 1}, the elements along {', '.join(map(repr, names))}"
        )
    if len({len(group) for group in groups}) > 1 and not uneven:
        raise ValueError(f"axis_index_groups must all be of the same size, got {list(groups)}")
    return groups, len(groups[0])


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of all elements along a named axis, stacked at `axis` (concatenated, if `tiled`).

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(ga.numpy.arange(2.0))
    Array([[0., 1.],
           [0., 1.]], dtype=float32)
    """
    _declared("all_gather", to, ("varying", "reduced", "invarying"))
    names = _named(axis_name, "all_gather")
    groups, size = grouped(names, axis_index_groups)
    if groups is not None and to != "varying":
        raise NotImplementedError(
            f"all_gather with axis_index_groups and to={to!r}: groups have different values, so "
            "the result varies along the axis. Leave `to` out."
        )
    # With groups, several names count as one axis; else gather along each separately.
    steps = [(names, size)] if groups else [((n,), named.axis_size(n)) for n in reversed(names)]
    # Where types do not record what varies, cotangents of devices differ whatever is declared here.
    same = to != "varying" and named.typed_names(names) == frozenset(names)
    if same and to == "reduced":
        return tree.tree_map(lambda leaf: _gathered_reduced(leaf, names, size, axis, tiled), x)
    prim = ops.all_gather_invariant_p if same else ops.all_gather_p

    def gather(leaf):
        (leaf,) = operands("all_gather", leaf)
        leaf = _varying(leaf, names)
        shape = aval_of(leaf).shape
        at = canonical_axis(axis, len(shape) + (not tiled))
        # The innermost axis first, so that the first name varies slowest.
        for along, count in steps:
            leaf = prim.bind(
                leaf,
                all_gather_dimension=at,
                axis_index_groups=groups,
                axis_name=along,
                axis_size=count,
                tiled=tiled,
            )
        # Several names make one new axis.
        if len(steps) > 1 and not tiled:
            leaf = reshape(leaf, (*shape[:at], size, *shape[at:]))
        return immutable(leaf)

    return tree.tree_map(gather, x)


def _gathered_reduced(leaf: Any, names: tuple, size: int, axis: int, tiled: bool) -> Any:
    """Return the values of all devices as one with cotangents that are terms of a sum."""
    (leaf,) = operands("all_gather", leaf)
    return sums.all_gather_reduced_p.bind(
        _varying(leaf, names),
        all_gather_dimension=canonical_axis(axis, aval_of(leaf).ndim + (not tiled)),
        axis_index_groups=None,
        axis_name=names,
        axis_size=size,
        tiled=tiled,
    )


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """As `psum`, but element number k gets the k-th part along `scatter_dimension` only.

    Shape contract: that dimension has the length of the named axis and is dropped; with `tiled` it
    is a multiple of that length and stays, shorter.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(ga.numpy.ones((3, 3)))
    Array([3., 3., 3.], dtype=float32)
    """
    names = _named(axis_name)
    groups, size = grouped(names, axis_index_groups)

    def scatter(leaf):
        (leaf,) = operands("psum_scatter", leaf)
        if aval_of(leaf).dtype == np.bool_:
            raise TypeError(
                "psum_scatter does not accept dtype bool: convert it first, as with "
                "x.astype('int32') to count"
            )
        if _along(leaf, names, "jax.lax.psum_scatter") == sums.UNREDUCED:
            _no_groups("psum_scatter", groups)
            return _checked(
                sums.unreduced_reduce_scatter_p,
                leaf,
                scatter_dimension=canonical_axis(scatter_dimension, aval_of(leaf).ndim),
                axis_index_groups=None,
                axis_name=names,
                axis_size=size,
                tiled=tiled,
            )
        leaf = _varying(leaf, names)
        return _checked(
            ops.reduce_scatter_p,
            leaf,
            scatter_dimension=canonical_axis(scatter_dimension, aval_of(leaf).ndim),
            axis_index_groups=groups,
            axis_name=names,
            axis_size=size,
            tiled=tiled,
        )

    return tree.tree_map(scatter, x)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Cut `split_axis` into one piece for each element; element k gets all k-th pieces.

    Shape contract: `split_axis` has the length of the named axis and is dropped, and the pieces are
    stacked at `concat_axis`; with `tiled` both axes stay, one shorter and one longer.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> x = ga.numpy.arange(4.0).reshape(2, 2)
    >>> ga.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(x)
    Array([[0., 2.],
           [1., 3.]], dtype=float32)
    """
    names = _named(axis_name)
    groups, size = grouped(names, axis_index_groups)

    def exchange(leaf):
        (leaf,) = operands("all_to_all", leaf)
        leaf = _varying(leaf, names)
        shape = aval_of(leaf).shape
        split, concat = (
            canonical_axis(split_axis, len(shape)),
            canonical_axis(concat_axis, len(shape)),
        )
        if not tiled and shape[split] != size:
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal "
                f"x.shape[split_axis], but they are {size} and {shape[split]} respectively."
            )
        drop = -1
        # Without tiling the primitive takes pieces of length 1, and puts them where they came from.
        if not tiled and split != concat:
            # A new axis of length 1 receives the pieces; the rest of the split one is removed.
            if concat > split:
                concat += 1
                drop = split
            else:
                split += 1
                drop = split
            leaf = expand_dims(leaf, (concat,))
        out = _checked(
            ops.all_to_all_p,
            leaf,
            split_axis=split,
            concat_axis=concat,
            axis_index_groups=groups,
            axis_name=names[0] if len(names) == 1 else names,
            axis_size=size,
            tiled=tiled,
        )
        return out if drop < 0 else squeeze(out, (drop,))

    return tree.tree_map(exchange, x)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along a named axis: `perm` holds pairs (from, to).

    Elements that receive nothing get zeros. Along several axes of a mesh, elements are numbered in
    the order that the axes have in the mesh, whatever the order of their names here.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> shift = [(0, 1), (1, 2), (2, 0)]
    >>> ga.vmap(lambda x: lax.ppermute(x, "i", shift), axis_name="i")(ga.numpy.arange(3.0))
    Array([2., 0., 1.], dtype=float32)
    """
    names = _named(axis_name)
    # JAX orders sent values this way, though axis_index and all_gather follow the names.
    if set(names) <= set(order := contexts.abstract.axis_names if contexts.abstract else ()):
        names = tuple(sorted(names, key=order.index))
    # Each element sends at most once and receives at most once.
    size = axis_size(names)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    sources, targets = {a for a, _ in pairs}, {b for _, b in pairs}
    if len(sources) != len(pairs) or len(targets) != len(pairs):
        raise ValueError(f"ppermute sources and destinations must be unique, got {perm}")
    if not (sources | targets).issubset(range(size)):
        raise ValueError(
            f"ppermute sources and destinations are numbers from 0 to {size - 1} along "
            f"{', '.join(map(repr, names))}, got {perm}"
        )

    def permute(leaf):
        (leaf,) = operands("ppermute", leaf)
        return ops.ppermute_p.bind(_varying(leaf, names), axis_name=names, perm=pairs)

    return tree.tree_map(permute, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Permute values along a named axis: element k gets the value of element `perm[k]`.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(ga.numpy.arange(3.0))
    Array([2., 0., 1.], dtype=float32)
    """
    if sorted(perm) != list(range(axis_size(axis_name))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    # ppermute takes pairs (from, to): the value of element perm[k] goes to element k.
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a named axis with the axis `axis`, which has the same length.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> x = ga.numpy.arange(4.0).reshape(2, 2)
    >>> ga.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(x)
    Array([[0., 2.],
           [1., 3.]], dtype=float32)
    """
    # Split and concatenated along the same axis, each element gets one row of the transpose.
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """The value of element number `source` along a named axis; every element gets it.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> ga.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(ga.numpy.arange(3.0))
    Array([1., 1., 1.], dtype=float32)
    """
    # Everything but the source is zero, so the sum is the source.
    here = eq(axis_index(axis_name), np.int32(source))

    def pick(leaf):
        (leaf,) = operands("pbroadcast", leaf)
        mask = broadcast_in_dim(here, aval_of(leaf).shape, ())
        return select(mask, leaf, full_like(leaf, 0))

    return psum(tree.tree_map(pick, x), axis_name)


def pcast(x: Any, axis_name: AxisName, *, to: str) -> Any:
    """Return `x` as a value of another type along axes of the `shard_map` around.

    A value that is the same on all devices ("invarying") can become "varying", or "reduced": then
    its cotangents are terms of a sum. A varying one can become "unreduced": the devices' values are
    then terms of a sum, which `lax.psum` computes. A reduced one can become varying. Under `vmap`,
    and without `check_vma`, it returns `x`.

    Shape contract: the shape of `x`.

    >>> import gpuarray as ga
    >>> from gpuarray import lax
    >>> from gpuarray.sharding import PartitionSpec as P
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",))):
    ...     cast = lambda v: lax.pcast(v, "x", to="varying")
    ...     ga.shard_map(cast, in_specs=P(), out_specs=P("x"))(ga.numpy.arange(2))
    Array([0, 1], dtype=int32)
    """
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(
            f"pcast axis_name={axis_name} must be a tuple or a str, since it is ordered"
        )
    _declared("pcast", to, ("varying", "reduced", "unreduced"))
    mesh = None if named.axes_around() else contexts.abstract
    meant = tuple(_axes(axis_name))
    if mesh is not None:
        # Along an axis of one device values do not vary.
        meant = tuple(n for n in meant if mesh.shape.get(n) != 1)
        for name in set(meant).intersection(mesh.axis_names):
            raise ValueError(
                f"pvary should be called under jax.shard_map: {name!r} is an axis of the mesh in "
                "context, and outside of a shard_map no value varies along it."
            )
    names = _named(meant, "pcast")
    typed = tuple(n for n in names if n in named.typed_names(names))

    def cast(leaf):
        if not typed:
            return leaf
        source = _along(leaf, typed, "jax.lax.pcast", mixed=False)
        prim = _CASTS.get((source, to))
        if prim is None:
            raise ValueError(
                f"Unsupported pcast from={source}, to={to!r}: the operand has the type "
                f"{aval_of(leaf).str_short()}, and axes are {typed}. Allowed are "
                f"{', '.join(f'{a} to {b}' for a, b in _CASTS)}."
            )
        if prim is ops.pcast_p:
            return _varying(leaf, typed)
        return prim.bind(leaf, axes=typed)

    return tree.tree_map(cast, x)


_CASTS = {
    (sums.INVARYING, sums.VARYING): ops.pcast_p,
    (sums.INVARYING, sums.REDUCED): sums.preduced_p,
    (sums.VARYING, sums.UNREDUCED): sums.vary_unreduced_cast_p,
    (sums.REDUCED, sums.VARYING): sums.reduced_vary_cast_p,
}


def _along(x: Any, names: Sequence[Any], what: str, mixed: bool = True) -> str:
    """Return the type of a value along some axes; ValueError if it is not the same along all of
    them.

    With `mixed`, it may vary along some and be the same along others.
    """
    found = {sums.state_along(aval_of(x), n) for n in names}
    if len(found) > 1 and not (mixed and found <= {sums.VARYING, sums.INVARYING}):
        raise ValueError(
            f"{what} can only accept axis_name which corresponds to one of varying, unreduced, "
            "reduced or invarying state of the input. Got input type: "
            f"{aval_of(x).str_short()}, axes: {tuple(names)} and input state: {found}"
        )
    return sums.VARYING if len(found) > 1 else next(iter(found), sums.INVARYING)


def _no_groups(what: str, groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(
            f"{what} of terms of a sum does not take axis_index_groups: leave it out"
        )


def _declared(name: str, to: str, known: tuple[str, ...]) -> None:
    if to not in known:
        raise ValueError(
            f"Got unexpected `to` value {to!r} for {name}. Allowed `to` values are: "
            f"{', '.join(map(repr, known))}"
        )
