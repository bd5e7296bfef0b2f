"""Gather and scatter: reading and writing windows at positions that arrays of indices give.

Floor 2. In: an array, integer indices whose last axis is the index vector, and dimension numbers
that give the meaning of the vector's components and of the windows' axes. Out: for gather the
windows, for scatter the array with windows set, added, multiplied and so on.

For an index out of bounds, `mode` decides:

- CLIP moves the window inside;
- FILL_OR_DROP fills reads, and skips writes;
- PROMISE_IN_BOUNDS: the caller promises that it does not happen (reads are clipped, writes
skipped);
- ONE_HOT reads zeros, as a product with a row of zeros does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import Identity
from gpuarray.core.graph import storage_dtype
from gpuarray.core.primitive import NOT_LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.cuda_rules import by_class
from gpuarray.primitives.define import check_same_dtypes
from gpuarray.primitives.elementwise.arithmetic import (
    add_p,
    largest_p,
    mul_p,
    smallest_p,
    sub_p,
)
from gpuarray.primitives.indexing import elements
from gpuarray.primitives.indexing import transforms as rules
from gpuarray.primitives.indexing.factors import gather_factors, scatter_factors
from gpuarray.primitives.indexing.rows import add_rows, take_rows
from gpuarray.primitives.indexing.shapes import GatherDimensionNumbers as GatherDimensionNumbers
from gpuarray.primitives.indexing.shapes import GatherScatterMode as GatherScatterMode
from gpuarray.primitives.indexing.shapes import ScatterDimensionNumbers as ScatterDimensionNumbers
from gpuarray.primitives.indexing.shapes import check_gather, check_scatter, fill_element
from gpuarray.primitives.indexing.shapes import default_fill as default_fill
from gpuarray.primitives.indexing.transforms import update_graph as update_graph
from gpuarray.primitives.indexing.transforms import windows_of
from gpuarray.primitives.reduce.ops import reduce_max_p, reduce_min_p, reduce_prod_p, reduce_sum_p
from gpuarray.primitives.scalar_graph import on_arrays

_INT_MAX = np.iinfo(np.intp).max


# ---- where windows are ----


def machine_integers(indices) -> np.ndarray:
    """Convert indices to the integer type that NumPy indexes with."""
    if indices.dtype == np.uint64:
        # Huge unsigned indices must not become negative ones.
        indices = np.minimum(indices, np.uint64(_INT_MAX))
    return np.asarray(indices.astype(np.intp))


def _indexes(dtype: np.dtype) -> bool:
    """Whether NumPy accepts indices of this type directly: not four-bit or huge ones."""
    return dtype.kind in "iu" and dtype != np.uint64


class _WindowIndexer:
    """Converts index vectors to NumPy indices, for gather and scatter alike.

    Operand axes are of two kinds:

    - *indexed*: an index component or a batching axis gives the position, or the window has length
      1 there and its axis is left out of the window's shape;
    - *plain*: the window starts at 0.

    Indexed axes are moved to the front of the operand. A NumPy index for them has the shape
    `batch + window along the indexed axes`, and the plain axes follow.
    """

    def __init__(self, shape, index_shape, windows, mapped, removed, batching, index_batching):
        self.shape = shape
        self.batch = index_shape[:-1]
        self.windows = windows
        # Operand axes: of each index component, left out of the windows, and paired with index
        # axes.
        self.mapped = mapped
        self.indexed = sorted({*mapped, *batching, *removed})
        self.plain = [d for d in range(len(shape)) if d not in self.indexed]
        self.order = (*self.indexed, *self.plain)
        self.in_order = self.order == tuple(range(len(shape)))
        # The last start at which a window still fits.
        self.limits = np.array([max(shape[d] - windows[d], 0) for d in mapped], np.uintp)
        # Operand axis -> the axis of the indices that runs in step with it.
        self.batching = dict(zip(batching, index_batching))
        # Indexed axes that stay in the window's shape, in operand order.
        self.inner = [d for d in self.indexed if d not in removed and d not in batching]
        self.window_shape = tuple(windows[d] for d in self.inner)
        # Along plain axes a window may be shorter than the operand.
        self.trim = tuple(slice(0, windows[d]) for d in self.plain)
        self.trimmed = any(windows[d] != shape[d] for d in self.plain)
        # The meaning of each axis of `batch + indexed window + plain`: ("batch", number) or
        # ("window", axis).
        self.labels = [("batch", i) for i in range(len(self.batch))]
        self.labels += [("window", d) for d in (*self.inner, *self.plain)]

    def permutation(self, window_axes, rank: int) -> tuple[int, ...] | None:
        """Return the permutation from `labels` to the caller's axis order; None if they agree.

        In the caller's order, `window_axes` are the windows' axes.
        """
        # Windows keep the order of the operand's axes, indexed or not.
        windows = sorted(d for kind, d in self.labels if kind == "window")
        to_window = dict(zip(window_axes, windows))
        batch = iter(range(rank))
        wanted = [
            ("window", to_window[a]) if a in to_window else ("batch", next(batch))
            for a in range(rank)
        ]
        order = tuple(self.labels.index(w) for w in wanted)
        return None if order == tuple(range(rank)) else order

    def starts(self, indices, mode):
        """Return index vectors clamped into bounds, and a mask of those that were (None: all)."""
        indices = machine_integers(indices)
        # As unsigned numbers negative indices are too large as well: one comparison tests both
        # bounds.
        inside = indices.view(np.uintp) <= self.limits
        if inside.all():
            return indices, None
        clipped = np.minimum(np.maximum(indices, 0), self.limits.view(np.intp))
        # With CLIP it does not matter which were out of bounds.
        return clipped, None if mode is GatherScatterMode.CLIP else inside.all(-1)

    def index(self, starts) -> tuple[np.ndarray, ...]:
        """Return a NumPy index for the indexed axes, of shape `batch + indexed window`."""
        batch, inner = len(self.batch), len(self.inner)
        parts = []
        for d in self.indexed:
            # An index component: its value for each index vector.
            if d in self.mapped:
                part = starts[..., self.mapped.index(d)].reshape(*self.batch, *(1,) * inner)
            elif d not in self.batching:
                # The window has length 1 here and no index moves it: position 0.
                part = np.zeros((1,) * (batch + inner), np.intp)
            else:
                # A batching axis: its own position, along the index axis it is paired with.
                axis = self.batching[d]
                part = np.arange(self.shape[d]).reshape(-1, *(1,) * (batch - axis - 1 + inner))
            # Add the offsets within the window, along a separate axis.
            if d in self.inner and self.windows[d] != 1:
                after = inner - self.inner.index(d) - 1
                part = part + np.arange(self.windows[d]).reshape(-1, *(1,) * after)
            parts.append(part)
        # One full part makes the others broadcast to it.
        parts[0] = np.broadcast_to(parts[0], self.batch + self.window_shape)
        return tuple(parts)

    def linear(self, starts) -> np.ndarray:
        """Return the same index as one number into the indexed axes, flattened."""
        # A plain row lookup: the component is the number.
        if len(self.indexed) == 1 and self.mapped and not self.inner:
            return starts[..., 0]
        parts = self.index(starts)
        total = parts[0]
        # Row-major strides, by Horner's scheme.
        for d, part in zip(self.indexed[1:], parts[1:]):
            total = total * self.shape[d] + part
        return total

    def numbers(self, indices, mode) -> tuple[np.ndarray, Any]:
        """Return `linear` of clamped index vectors, and a mask of those that were in bounds."""
        if self.inner or self.batching or set(self.mapped) != set(self.indexed):
            starts, good = self.starts(indices, mode)
            return self.linear(starts), good
        # Windows of one element along axes that all have an index: component by component.
        stride = {d: math.prod(self.shape[e] for e in self.indexed if e > d) for d in self.indexed}
        if not _indexes(indices.dtype):
            indices = machine_integers(indices)
        total, good = None, None
        for k, d in enumerate(self.mapped):
            part, limit = indices[..., k], self.shape[d] - 1
            # Extremes are found many elements at a time, in the indices' own type.
            if part.size and not 0 <= part.min() <= part.max() <= limit:
                if mode is not GatherScatterMode.CLIP:
                    inside = (part >= 0) & (part <= limit)
                    good = inside if good is None else np.logical_and(good, inside, out=good)
                part = np.minimum(np.maximum(part, 0), min(limit, np.iinfo(part.dtype).max))
            if len(self.mapped) == 1:
                return part, good
            part = np.multiply(part, stride[d], dtype=np.intp)
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        return total, good

    def single(self, starts) -> tuple[slice, ...]:
        """Return the window of the only index vector, as slices of the operand."""
        # Axes without an index component start at 0.
        first = dict(zip(self.mapped, starts.reshape(-1).tolist()))
        return tuple(
            slice(first.get(d, 0), first.get(d, 0) + n) for d, n in enumerate(self.windows)
        )


# ---- gather ----


def _gather_aval(
    operand,
    indices,
    *,
    dimension_numbers,
    slice_sizes,
    indices_are_sorted,
    unique_indices,
    mode,
    fill_value,
):
    shape = check_gather(operand, indices, dimension_numbers, slice_sizes)
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _gather_pick(avals, *, dimension_numbers, slice_sizes, mode, fill_value, **_):
    operand, indices = avals
    numbers = dimension_numbers
    shape = check_gather(operand, indices, numbers, slice_sizes)
    # Translate the dimension numbers once; the closures below run at every call.
    indexer = _WindowIndexer(
        operand.shape,
        indices.shape,
        slice_sizes,
        numbers.start_index_map,
        (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
    )
    permutation = indexer.permutation(numbers.offset_dims, len(shape))
    dtype = storage_dtype(operand)
    fills = mode in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)
    mode = mode if fills else GatherScatterMode.CLIP
    if mode is GatherScatterMode.ONE_HOT:
        fill_value = 0  # a product with a row of zeros
    elif fill_value is None:
        fill_value = default_fill(operand.dtype)
    fill = fill_element(operand, fill_value) if fills else None
    # An empty result; the operand may be empty too, and not be indexable.
    if math.prod(shape) == 0:
        return lambda x, at: np.empty(shape, dtype)

    def finish(out, good):
        # Fill windows that were out of bounds, and put axes in the caller's order.
        if good is not None:
            out[~good] = fill
        return out if permutation is None else out.transpose(permutation)

    if not indexer.indexed:
        # No axis is indexed: every window is the same one.
        return lambda x, at: finish(
            np.broadcast_to(x[indexer.trim], indexer.batch + slice_sizes).copy(), None
        )

    # One window: a slice, without an array of indices.
    if math.prod(indexer.batch) == 1 and not indexer.batching:
        aligned = indexer.batch + tuple(n for kind, n in _lengths(indexer) if kind == "window")
        order = indexer.order

        def one(x, at):
            starts, good = indexer.starts(at, mode)
            window = x[indexer.single(starts)].transpose(order)
            return finish(window.reshape(aligned).copy(), good)

        return one

    # Neighbouring indexed axes can be flattened into one, and NumPy's take is its fastest indexing.
    lookup = indexer.indexed
    first, count = lookup[0], len(lookup)
    adjacent = lookup == list(range(first, first + count)) and not indexer.trimmed
    # Only clamped row numbers: NumPy's take is sufficient.
    simple = indexer.mapped == (first,) and count == 1 and not indexer.inner and not fills
    if adjacent and first == 0:
        rows = (math.prod(operand.shape[:count]), *operand.shape[count:])
        if simple:

            def take(x, at):
                at = at[..., 0]
                out = take_rows(x, at if _indexes(at.dtype) else machine_integers(at))
                return out if permutation is None else out.transpose(permutation)

            return take

        def by_row(x, at):
            numbers, good = indexer.numbers(at, mode)
            return finish(take_rows(x.reshape(rows), numbers), good)

        return by_row

    if adjacent and simple:
        # A lookup along a later axis: NumPy's take leaves the axes before it where they are.
        from_take = _after_take(indexer, first, permutation, len(shape))

        def take_along(x, at):
            return x.take(machine_integers(at[..., 0]), first, None, "clip").transpose(from_take)

        return take_along

    # The general case: NumPy's advanced indexing on the indexed axes, moved to the front.
    whole = (slice(None),) * count + indexer.trim

    def general(x, at):
        starts, good = indexer.starts(at, mode)
        x = (x if indexer.in_order else x.transpose(indexer.order))[whole]
        return finish(x[indexer.index(starts)], good)

    return general


def _lengths(indexer) -> list[tuple[str, int]]:
    """Return the kind and length of each axis of `batch + indexed window + plain`."""
    return [
        (kind, indexer.batch[d] if kind == "batch" else indexer.windows[d])
        for kind, d in indexer.labels
    ]


def _after_take(indexer, axis: int, permutation, rank: int) -> tuple[int, ...]:
    """Return the permutation from the axes of `take` along `axis` to the result's."""
    # take keeps the axes before `axis`, inserts those of the batch, and keeps the ones behind.
    before = [("window", d) for d in indexer.plain if d < axis]
    after = [("window", d) for d in indexer.plain if d > axis]
    batch = [("batch", i) for i in range(len(indexer.batch))]
    have = [*before, *batch, *after]
    wanted = permutation or range(rank)
    return tuple(have.index(indexer.labels[i]) for i in wanted)


gather_p = Primitive(
    "gather",
    Kind.INDEXING,
    aval=_gather_aval,
    numpy_pick=_gather_pick,
    element=elements.GATHER,
    weight=4.0,
    jvp=rules.gather_jvp,
    transpose=rules.gather_transpose,
    batch=rules.gather_batch,
    factors=gather_factors,
)


# ---- scatter ----


def _scatter_aval(
    operand,
    indices,
    updates,
    *,
    dimension_numbers,
    indices_are_sorted,
    unique_indices,
    mode,
    update_jaxpr,
    update_consts,
):
    check_same_dtypes("scatter", [operand, updates])
    check_scatter(operand, indices, updates, dimension_numbers)
    return operand


def _scatter_pick(ufunc: np.ufunc | None, inplace: bool = False):
    """Return the NumPy rule of a scatter; `ufunc` merges an update into an element, None replaces.

    With `inplace` the operand may be written to: the compiler found that it is dead.
    """

    def pick(avals, *, dimension_numbers, mode, unique_indices, update_jaxpr, **_):
        operand, indices, updates = avals
        numbers = dimension_numbers
        indexer = _WindowIndexer(
            operand.shape,
            indices.shape,
            windows_of(operand.shape, updates.shape, numbers),
            numbers.scatter_dims_to_operand_dims,
            (*numbers.inserted_window_dims, *numbers.operand_batching_dims),
            numbers.operand_batching_dims,
            numbers.scatter_indices_batching_dims,
        )
        permutation = indexer.permutation(numbers.update_window_dims, updates.ndim)
        # From the updates' axis order to `batch + window`: the inverse permutation.
        backwards = None if permutation is None else tuple(np.argsort(permutation))
        # Writes that were promised to be in bounds are dropped where they are not.
        mode = mode if mode is GatherScatterMode.CLIP else GatherScatterMode.FILL_OR_DROP
        body = None
        if ufunc is None and update_jaxpr is not None:
            body = on_arrays(update_jaxpr)
        merge = _merge(ufunc, body, unique_indices)
        # No updates; an array without elements cannot be indexed.
        if updates.size == 0 or operand.size == 0:
            return lambda x, at, values: np.array(x)

        # How updates are written: one window by slices, rows of flattened axes, or advanced
        # indexing.
        single = math.prod(indexer.batch) == 1 and not indexer.batching
        count = len(indexer.indexed)
        rows = (math.prod(operand.shape[d] for d in indexer.indexed),)
        rows += tuple(operand.shape[d] for d in indexer.plain)
        flat = count > 0 and not indexer.trimmed

        def scatter(x, at, values):
            # A private copy, which may be written. An operand in another order would be copied when
            # it is flattened below, and the updates lost.
            out = x if inplace and x.flags.c_contiguous else np.array(x, order="C")
            if backwards is not None:
                values = values.transpose(backwards)
            numbers = starts = None
            if flat and indexer.in_order and not single:
                numbers, good = indexer.numbers(at, mode)
            else:
                starts, good = indexer.starts(at, mode)
            if single:
                # The one window was out of bounds: dropped.
                if good is None:
                    target = out[indexer.single(starts)].transpose(indexer.order)
                    target = _without_removed(target, indexer)
                    merge(target, (), values.reshape(target.shape))
                return out
            target = out if indexer.in_order else out.transpose(indexer.order)
            if flat and indexer.in_order:
                index: tuple = (numbers,)
                target = target.reshape(rows)
            else:
                # No axis is indexed: add an axis of length 1 with position 0.
                index = indexer.index(starts) if count else (np.zeros(indexer.batch, np.intp),)
                target = target if count else target[None]
                target = target[(slice(None),) * len(index) + indexer.trim]
                index = tuple(np.broadcast_to(i, index[0].shape) for i in index)
            # Drop the updates that were out of bounds.
            if good is not None:
                index, values = tuple(i[good] for i in index), values[good]
            merge(target, index, values)
            return out

        return scatter

    return pick


def _without_removed(target, indexer):
    """Return a view without the window axes that the updates lack."""
    kept = {*indexer.inner, *indexer.plain}
    return target[(*(slice(None) if d in kept else 0 for d in indexer.order), ...)]


def _merge(ufunc, body, unique: bool):
    """Return the in-place `target[index] = merged`, right also for indices that occur twice."""

    def replace(target, index, values):
        target[index] = values

    def once(target, index, values):
        # Wrong for repeated indices: NumPy reads all elements before it writes one.
        there = target[index]
        target[index] = ufunc(there, values) if body is None else body(there, values)[0]

    def at(target, index, values):
        # An empty index is the whole target, each element once; ufunc.at is slow.
        if index == ():
            once(target, (...,), values)
        elif len(index) > 1 or not add_rows(ufunc, target, index[0], values):
            ufunc.at(target, index if len(index) > 1 else index[0], values)

    def in_turn(target, index, values):
        # Occurrence by occurrence: within one round no element is written twice.
        if index == ():
            once(target, (...,), values)
            return
        # Number of each index among equal ones: sort, mark where a new value starts, count from
        # there.
        number = np.ravel_multi_index(index, target.shape[: len(index)]).ravel()
        order = np.argsort(number, kind="stable")
        ranked = number[order]
        new = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        turn = np.empty(number.size, np.intp)
        turn[order] = np.arange(number.size) - np.repeat(new, np.diff(np.r_[new, number.size]))
        flat = [i.ravel() for i in index]
        values = values.reshape(number.size, *target.shape[len(index) :])
        for k in range(int(turn.max(initial=-1)) + 1):
            chosen = turn == k
            once(target, tuple(i[chosen] for i in flat), values[chosen])

    if ufunc is None and body is None:
        return lambda target, index, values: replace(target, index or (...,), values)
    if unique:
        return lambda target, index, values: once(target, index or (...,), values)
    # ufunc.at merges one update after another, and so does a body, turn by turn.
    return in_turn if body is not None else at


def _scatter(
    name: str,
    ufunc: np.ufunc | None,
    merge: Primitive | None,
    jvp,
    transpose: Any = NOT_LINEAR,
    atomic: Callable[..., str] | None = None,
    sums: str | None = None,
    apart: Callable[[ShapedArray], Identity | None] = lambda aval: None,
    among: Primitive | None = None,
    adds_to: int | None = None,
) -> Primitive:
    # How elements of the result are computed in kernels, and how updates are written there.
    element, update = elements.scatter_rules(merge, atomic, sums, apart, among)
    return Primitive(
        name,
        Kind.INDEXING,
        aval=_scatter_aval,
        numpy_pick=_scatter_pick(ufunc),
        inplace=_scatter_pick(ufunc, inplace=True),
        element=element,
        update=update,
        weight=8.0,
        jvp=jvp,
        transpose=transpose,
        batch=rules.scatter_batch(name),
        factors=scatter_factors(name),
        rewrite=Rewrite(adds_to=adds_to),
    )


def _apart(kinds: str, identity: Identity) -> Callable[[ShapedArray], Identity | None]:
    """The initial value of partial updates, for dtypes whose results do not depend on the split."""
    return lambda aval: identity if dtypes.kind_of(aval.dtype) in kinds else None


def _apart_sum(aval: ShapedArray) -> Identity | None:
    """The same of sums, which depend on the split by their rounding. Sums of few bits do much more:
    256 and 1 are 256 in bfloat16, but 256 and 8 are not.
    """
    # Elements that nothing is added to keep their sign, of -0.0 too.
    exact = dtypes.kind_of(aval.dtype) in "iu"
    wide = dtypes.kind_of(aval.dtype) in "fc" and aval.dtype.itemsize >= 4
    return Identity.NEGATIVE_ZERO if exact or wide else None


_ADD = "ga_atomic_add({0}, {1})"
_SUB = by_class("ga_atomic_add({0}, -({1}))", integer="ga_atomic_add({0}, ga_neg({1}))")

scatter_p = _scatter("scatter", None, None, rules.set_jvp, rules.set_transpose)
scatter_add_p = _scatter(
    "scatter-add",
    np.add,
    add_p,
    rules.add_jvp,
    rules.add_transpose,
    by_class(_ADD),
    _ADD,
    apart=_apart_sum,
    among=reduce_sum_p,
    adds_to=0,
)
scatter_sub_p = _scatter(
    "scatter-sub",
    np.subtract,
    sub_p,
    rules.sub_jvp,
    rules.sub_transpose,
    _SUB,
    _ADD,
    among=reduce_sum_p,
)
scatter_mul_p = _scatter(
    "scatter-mul",
    np.multiply,
    mul_p,
    rules.mul_jvp,
    rules.mul_transpose,
    among=reduce_prod_p,
)
scatter_min_p = _scatter(
    "scatter-min",
    np.minimum,
    smallest_p,
    rules.extreme_jvp("scatter-min"),
    atomic=by_class(integer="ga_atomic_min({0}, {1})"),
    apart=_apart("iuf", Identity.HIGHEST),
    among=reduce_min_p,
)
scatter_max_p = _scatter(
    "scatter-max",
    np.maximum,
    largest_p,
    rules.extreme_jvp("scatter-max"),
    atomic=by_class(integer="ga_atomic_max({0}, {1})"),
    apart=_apart("iuf", Identity.LOWEST),
    among=reduce_max_p,
)
