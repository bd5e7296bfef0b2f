"""Collectives: operations between the elements along a named axis.

Floor 2. In: one element's value and the axis's name. Out: a value that depends on all elements.
Here are their avals and derivatives, and their meaning along an axis of vmap: ordinary operations
on the axis that vmap adds. Across devices they are the business of the runtime that drives them.

A batch rule acts where the operation names vmap's axis. Where it names another one, the batch axis
is one more axis of the operand, in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import errors
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.axes import axis_size
from gpuarray.core.graph import Eqn
from gpuarray.core.layout import Layout, names_of, with_names
from gpuarray.core.linear import Zero, is_zero
from gpuarray.core.primitive import LINEAR, NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.primitives.axes import move_axis, with_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import constant, zeros


# Several names are a tuple; a single one may be given alone.
def _names(axis_name: Any) -> tuple:
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


# The NumPy rule: a collective is never evaluated outside the transformation that binds its axis.
def _unbound(*_, **params):
    names = params.get("axes", params.get("axis_name"))
    raise errors.UnboundAxisError(
        f"unbound axis name: {', '.join(map(str, _names(names)))}. The program uses a collective "
        "over an axis that no vmap, pmap or shard_map around it has given this name."
    )


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return do.reshape(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


# The axis's size is a param, set when the program was traced.
def _check_size(axis: Any, given: int, op: str) -> None:
    if axis.size != given:
        raise ValueError(
            f"{op} was traced for an axis {axis.name!r} of length {given}, not {axis.size}"
        )


def _collective(name: str, **rules) -> Primitive:
    return Primitive(name, Kind.COLLECTIVE, numpy=_unbound, **rules)


def names_in(params: dict) -> tuple:
    """Return the axis names among a collective's params, in order, major first."""
    given = _names(params["axes"] if "axes" in params else params["axis_name"])
    return tuple(name for name in given if not isinstance(name, int))


def is_elementwise(eqn: Eqn) -> bool:
    """Whether a collective makes each element of a result of that element on several devices."""
    if eqn.primitive not in (psum_p, pmax_p, pmin_p, ppermute_p):
        return False
    return not any(isinstance(name, int) for name in _names(eqn.params.get("axes", ())))


def _same_along(layout: Layout | None, **params) -> Layout | None:
    """Layout rule: all devices along the axes get the same value; with groups they do not."""
    if params.get("axis_index_groups") is not None:
        return layout
    return with_names(layout, names_of(layout).difference(names_in(params)))


def _no_groups(groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(
            "axis_index_groups not supported in vmap collectives. Give each group an axis of its "
            "own: reshape the mapped axis, and nest two vmaps."
        )


# The batch rules along vmap's axis know one name: several are a matter of the caller's.
def _only_name(axis_name: Any, op: str) -> None:
    if len(_names(axis_name)) > 1:
        raise NotImplementedError(
            f"{op} over several axes {_names(axis_name)}, of which vmap gives one: apply it along "
            "one axis after the other"
        )


# ---- sums, maxima, minima ----


def _reduced_avals(*avals: ShapedArray, axes, axis_index_groups):
    # Axes are numbers of the operand's own axes, or names, which have no place in its shape.
    gone = {a for a in axes if isinstance(a, int)}
    out = []
    for a in avals:
        shape = tuple(n for i, n in enumerate(a.shape) if i not in gone)
        out.append(ShapedArray(shape, a.dtype))
    return out


def _reduction(name: str, reduce: str, repeat: Callable[[Any, int], Any], **rules) -> Primitive:
    """Define a reduction over `axes`: names, and numbers of the operand's own axes."""

    def batch(axis, args, dims, *, axes, axis_index_groups):
        # Whether the operation names this vmap's axis; the other names are for those around it.
        own = axis.name is not None and axis.name in axes
        if own:
            _no_groups(axis_index_groups)
        rest = tuple(a for a in axes if not (own and a == axis.name))
        out, out_dims = [], []
        for x, d in zip(args, dims, strict=True):
            # The same value on every element: the sum is `size` times it, an extreme is itself.
            if d is None:
                given = repeat(x, axis.size) if own else x
                params = {"axes": rest, "axis_index_groups": axis_index_groups}
                out += prim.bind(given, **params) if rest else [given]
                out_dims.append(None)
                continue
            # Axes at and behind the batch axis are one further back in the batched operand.
            numbers = tuple(a + (a >= d) if isinstance(a, int) else a for a in rest)
            if own:
                numbers = (*numbers, d)
            # The position of the batch axis after the axes before it are removed.
            at = d - sum(isinstance(a, int) and a < d for a in numbers)
            out.append(reduced(x, numbers, axis_index_groups))
            out_dims.append(None if own else at)
        return out, out_dims

    # The operand's own axes are reduced here, named ones by the primitive itself.
    def reduced(x, axes, groups):
        numbers = tuple(sorted(a for a in axes if isinstance(a, int)))
        names = tuple(a for a in axes if not isinstance(a, int))
        if numbers:
            x = getattr(do, reduce)(x, axes=numbers, out_sharding=None)
        return prim.bind(x, axes=names, axis_index_groups=groups)[0] if names else x

    prim = _collective(
        name,
        multiple_results=True,
        aval=_reduced_avals,
        batch=batch,
        layout=_same_along,
        **rules,
    )
    return prim


def _psum_jvp(primals, tangents, **params):
    out = psum_p.bind(*primals, **params)
    return out, [
        Zero(aval_of(x)) if is_zero(t) else psum_p.bind(t, **params)[0]
        for x, t in zip(out, tangents, strict=True)
    ]


def _psum_transpose(cts, *operands, axes, axis_index_groups):
    """Every element gets the sum, so each operand gets the sum of all cotangents.

    If types record that all devices have the same sum, they have the same cotangent of it, and the
    share of each is that cotangent itself.
    """
    names = tuple(a for a in axes if not isinstance(a, int))
    numbers = tuple(a for a in axes if isinstance(a, int))
    out = []
    for ct, x in zip(cts, operands, strict=True):
        if is_zero(ct):
            out.append(Zero(x.aval))
            continue
        summed = names
        if axis_index_groups is None:
            summed = tuple(n for n in names if n not in x.aval.vma)
        if summed:
            ct = psum_p.bind(ct, axes=summed, axis_index_groups=axis_index_groups)[0]
        # The transpose of a sum over own axes is a broadcast along them.
        kept = tuple(i for i in range(x.aval.ndim) if i not in numbers)
        if numbers:
            ct = do.broadcast_in_dim(
                ct, shape=x.aval.shape, broadcast_dimensions=kept, sharding=None
            )
        out.append(ct)
    return out


psum_p = _reduction(
    "psum",
    "reduce_sum",
    lambda x, size: do.mul(x, constant(x, size)),
    jvp=_psum_jvp,
    transpose=_psum_transpose,
)


def _no_derivative(name: str) -> Callable[..., Any]:
    def jvp(*_, **__):
        raise NotImplementedError(
            f"Differentiation rule for '{name}' not implemented: guard the value with "
            "lax.stop_gradient, or take the maximum of an all_gather"
        )

    return jvp


pmax_p, pmin_p = (
    _reduction(name, reduce, lambda x, size: x, jvp=_no_derivative(name), transpose=NOT_LINEAR)
    for name, reduce in (("pmax", "reduce_max"), ("pmin", "reduce_min"))
)


# ---- all_gather and reduce_scatter: each is the other's transpose ----


def _gathered_aval(x, *, all_gather_dimension, axis_index_groups, axis_name, axis_size, tiled):
    # Tiled: pieces in a row along an axis; otherwise stacked along a new one.
    k, shape = all_gather_dimension, list(x.shape)
    if tiled:
        shape[k] *= axis_size
    else:
        shape.insert(k, axis_size)
    return x.update(shape=tuple(shape))


def _gather_batch(
    prim, axis, args, dims, *, all_gather_dimension, axis_name, axis_size, tiled, **params
):
    (x,), (d,), k = args, dims, all_gather_dimension
    # Another axis is named: the batch axis is one more of the operand's.
    if axis.name not in _names(axis_name):
        assert d is not None
        out = prim.bind(
            move_axis(x, d, 0),
            all_gather_dimension=k + 1,
            axis_name=axis_name,
            axis_size=axis_size,
            tiled=tiled,
            **params,
        )
        return out, 0
    _no_groups(params["axis_index_groups"])
    _only_name(axis_name, "all_gather")
    _check_size(axis, axis_size, "all_gather")
    # Along vmap's own axis, all elements are the operand itself.
    out = with_axis(x, d, k, axis.size)
    if tiled:
        shape = aval_of(out).shape
        out = _reshape(out, (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))
    return out, None


def _gather_transpose(ct, x, *, all_gather_dimension, **params):
    return (reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params),)


all_gather_p = _collective(
    "all_gather",
    aval=_gathered_aval,
    jvp=LINEAR,
    transpose=_gather_transpose,
    batch=lambda *args, **params: _gather_batch(all_gather_p, *args, **params),
)


def _scattered_aval(x, *, scatter_dimension, axis_index_groups, axis_name, axis_size, tiled):
    k, shape = scatter_dimension, list(x.shape)
    if tiled:
        if shape[k] % axis_size:
            raise ValueError(
                f"tiled reduce_scatter operand scatter dimension size {shape[k]} must be divisible "
                f"by shard_count {axis_size}"
            )
        shape[k] //= axis_size
    elif shape[k] != axis_size:
        raise ValueError(
            f"reduce_scatter operand scatter dimension size {shape[k]} must match shard count "
            f"{axis_size}"
        )
    else:
        del shape[k]
    return x.update(shape=tuple(shape))


def _scatter_batch(axis, args, dims, *, scatter_dimension, axis_name, axis_size, tiled, **params):
    (x,), (d,), k = args, dims, scatter_dimension
    if axis.name not in _names(axis_name):
        assert d is not None
        out = reduce_scatter_p.bind(
            move_axis(x, d, 0),
            scatter_dimension=k + 1,
            axis_name=axis_name,
            axis_size=axis_size,
            tiled=tiled,
            **params,
        )
        return out, 0
    # Along vmap's own axis: the sum over it, then each element gets its piece.
    _no_groups(params["axis_index_groups"])
    _only_name(axis_name, "psum_scatter")
    _check_size(axis, axis_size, "reduce_scatter")
    if d is None:
        total = do.mul(x, constant(x, axis.size))
    # Without a batch axis every element adds the same value.
    else:
        total = do.reduce_sum(x, axes=(d,), out_sharding=None)
    # The axis is cut into pieces, one for each element: vmap's axis becomes the axis of pieces.
    if tiled:
        shape = aval_of(total).shape
        total = _reshape(total, (*shape[:k], axis.size, shape[k] // axis.size, *shape[k + 1 :]))
    return total, k


def _scatter_transpose(ct, x, *, scatter_dimension, **params):
    return (all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params),)


reduce_scatter_p = _collective(
    "reduce_scatter",
    aval=_scattered_aval,
    jvp=LINEAR,
    transpose=_scatter_transpose,
    batch=_scatter_batch,
)


# ---- all_gather whose result is known to be the same on all devices ----


def _own_piece(ct, x, *, all_gather_dimension, axis_index_groups, axis_name, axis_size, tiled):
    """Every device has the whole cotangent already: it takes the piece that it gave."""
    (name,) = _names(axis_name)
    k, shape = all_gather_dimension, list(aval_of(ct).shape)
    length = shape[k] // axis_size if tiled else 1
    number = pcast_p.bind(axis_index_p.bind(axis_name=name), axis_name=(name,))
    starts = [np.int32(0)] * len(shape)
    starts[k] = do.mul(number, np.int32(length))
    shape[k] = length
    piece = do.dynamic_slice(ct, *starts, slice_sizes=tuple(shape))
    return (piece if tiled else _reshape(piece, x.aval.shape),)


all_gather_invariant_p = _collective(
    "all_gather_invariant",
    aval=_gathered_aval,
    jvp=LINEAR,
    transpose=_own_piece,
    batch=lambda *args, **params: _gather_batch(all_gather_invariant_p, *args, **params),
    layout=_same_along,
)


# ---- types: a value that is the same on all devices, as one that may differ ----


def _cast_batch(axis, args, dims, *, axis_name):
    names = tuple(n for n in axis_name if n != axis.name)
    return pcast_p.bind(args[0], axis_name=names), dims[0]


def _cast_transpose(ct, x, *, axis_name):
    # Values that already varied have separate cotangents on each device.
    names = tuple(n for n in axis_name if n not in x.aval.vma)
    return tuple(psum_p.bind(ct, axes=names, axis_index_groups=None)) if names else (ct,)


#: The identity, except that the type of its result varies along more axes.
pcast_p = _collective(
    "pcast",
    aval=lambda x, *, axis_name: x,
    jvp=LINEAR,
    transpose=_cast_transpose,
    batch=_cast_batch,
    layout=lambda layout, *, axis_name: with_names(layout, names_of(layout).union(axis_name)),
)


# ---- all_to_all ----


def _to_all_aval(x, *, split_axis, concat_axis, axis_index_groups, axis_name, axis_size, tiled):
    shape = list(x.shape)
    if shape[split_axis] % axis_size:
        raise ValueError(
            f"all_to_all requires the size of the mapped axis {axis_name} to divide "
            f"x.shape[split_axis], but they are {axis_size} and {shape[split_axis]} respectively."
        )
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return x.update(shape=tuple(shape))


def _to_all_batch(axis, args, dims, *, split_axis, concat_axis, axis_name, axis_size, **params):
    (x,), (d,), s, c = args, dims, split_axis, concat_axis
    n = axis_size
    # Unbatched operands are the same for all, and so must be sent by all.
    x = with_axis(x, d, 0, axis.size)
    if axis.name not in _names(axis_name):
        out = all_to_all_p.bind(
            x,
            split_axis=s + 1,
            concat_axis=c + 1,
            axis_name=axis_name,
            axis_size=n,
            **params,
        )
        return out, 0
    _no_groups(params["axis_index_groups"])
    if len(_names(axis_name)) > 1:
        return _to_all_of_several(axis, x, s, c, _names(axis_name), n, params), 0
    _check_size(axis, n, "all_to_all")
    _, *shape = aval_of(x).shape
    # The transpose swaps source and destination.
    # [source, ..., split, ...] -> [source, ..., destination, piece, ...]
    x = _reshape(x, (n, *shape[:s], n, shape[s] // n, *shape[s + 1 :]))
    # The position of each operand axis there, then the source in front of the concatenated one.
    where = [1 + i + (i >= s) for i in range(len(shape))]
    where.insert(c, 0)
    x = do.transpose(x, permutation=(1 + s, *where))
    # Each element sends one piece of the split axis, and receives pieces along the other.
    shape[s] //= n
    shape[c] *= n
    return _reshape(x, (n, *shape)), 0


def _to_all_of_several(axis, x, s, c, names: tuple, total: int, params: dict):
    """all_to_all over several axes, one of which is vmap's: along that one here, along the others
    by the collective. `x` has vmap's axis in front.
    """
    p, n, (_, *shape) = names.index(axis.name), axis.size, aval_of(x).shape
    rest = (*names[:p], *names[p + 1 :])
    others, piece, dims = total // n, shape[s] // total, len(shape)
    # How many elements there are along the names in front of vmap's, and behind it.
    front = math.prod(map(axis_size, names[:p])) if p < len(rest) else others
    back = others // front
    # [source, ..., split, ...] -> [destination, others, source, ...]: pieces have a destination
    # along each kind of axis, and change places with the source along vmap's.
    x = _reshape(x, (n, *shape[:s], front, n, back, piece, *shape[s + 1 :]))
    kept = [1 + i + (3 if i >= s else 0) for i in range(dims)]
    x = do.transpose(x, permutation=(2 + s, 1 + s, 3 + s, 0, *kept))
    shape[s] = piece
    x = _reshape(x, (n, others, n, *shape))
    # Along the other axes: blocks numbered by destination become blocks numbered by source.
    own = {"axis_name": rest, "axis_size": others}
    x = all_to_all_p.bind(x, split_axis=1, concat_axis=1, **(params | own))
    # [destination, front, back, source, ...]: sources in their order in front of the concatenated.
    x = _reshape(x, (n, front, back, n, *shape))
    where = [4 + i for i in range(dims)]
    where[c:c] = [1, 3, 2]
    x = do.transpose(x, permutation=(0, *where))
    shape[c] *= total
    return _reshape(x, (n, *shape))


def _to_all_transpose(ct, x, *, split_axis, concat_axis, **params):
    # The inverse: exchange the split and the concatenated axis.
    return (all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params),)


all_to_all_p = _collective(
    "all_to_all",
    aval=_to_all_aval,
    jvp=LINEAR,
    transpose=_to_all_transpose,
    batch=_to_all_batch,
    show=lambda params: {k: v for k, v in params.items() if k != "axis_size"},
)


# ---- ppermute ----


def _permute_batch(axis, args, dims, *, axis_name, perm):
    (x,), (d,) = args, dims
    x = with_axis(x, d, 0, axis.size)
    if axis.name not in _names(axis_name):
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), 0
    _only_name(axis_name, "ppermute")
    # The element that each one receives from; -1 receives zeros.
    source = dict.fromkeys(range(axis.size), -1)
    for src, dst in perm:
        if not (0 <= src < axis.size and 0 <= dst < axis.size):
            raise ValueError(
                f"ppermute moves {src} to {dst}, but axis {axis.name!r} has length {axis.size}"
            )
        source[dst] = src
    # Runs of neighbours are one slice each.
    pieces = [_piece(x, start, stop) for start, stop in _runs(list(source.values()))]
    # One slice of the whole needs no concatenation.
    if len(pieces) == 1:
        return pieces[0], 0
    return (do.concatenate(*pieces, dimension=0) if pieces else x), 0


def _runs(source: list[int]) -> list[tuple[int, int]]:
    """Group sources into runs (start, stop) of neighbours; (-1, n) is n elements without source."""
    # A run ends where the next source is no neighbour, or where zeros begin or end.
    out: list[tuple[int, int]] = []
    for s in source:
        if out and s < 0 and out[-1][0] < 0:
            out[-1] = (-1, out[-1][1] + 1)
        elif out and s >= 0 and out[-1][0] >= 0 and out[-1][1] == s:
            out[-1] = (out[-1][0], s + 1)
        else:
            out.append((-1, 1) if s < 0 else (s, s + 1))
    return out


def _piece(x: Any, start: int, stop: int) -> Any:
    """A slice of the operand, or `stop` elements of zeros where `start` is -1."""
    aval = aval_of(x)
    rest = aval.shape[1:]
    if start < 0:
        made = aval.update(shape=(stop, *rest))
        return zeros(made)
    return do.slice(
        x,
        start_indices=(start,) + (0,) * len(rest),
        limit_indices=(stop, *rest),
        strides=None,
    )


def _permute_transpose(ct, x, *, axis_name, perm):
    # Cotangents take the way back.
    return (ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((dst, src) for src, dst in perm)),)


ppermute_p = _collective(
    "ppermute",
    aval=lambda x, *, axis_name, perm: x,
    jvp=LINEAR,
    transpose=_permute_transpose,
    batch=_permute_batch,
)


# ---- axis_index ----


# The index of each element is its position along vmap's axis.
def _index_batch(axis, args, dims, *, axis_name):
    return do.iota(dtype=np.dtype(np.int32), shape=(axis.size,), dimension=0, sharding=None), 0


axis_index_p = _collective(
    "axis_index",
    aval=lambda *, axis_name: ShapedArray((), np.int32),
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_LINEAR,
    batch=_index_batch,
)
