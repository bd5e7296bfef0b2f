"""NumPy's indexing language, interpreted once for `x[...]` and for `x.at[...]`.

Floor 6. In: a shape and an index. Out: an `IndexTarget`, in terms of gather and scatter. Ints,
slices and new axes alone need neither: basic_indices.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config, errors, lax
from gpuarray.core import dims, dtypes, lengths
from gpuarray.core.avals import machine_int
from gpuarray.core.trace import Tracer, is_base
from gpuarray.core.value import Array
from gpuarray.lax.lengths import typed
from gpuarray.numpy.basic_indices import dynamic_slice_error, is_traced, out_of_bounds, two_ellipses
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.promotion import constant
from gpuarray.primitives.elementwise.arithmetic import add_p, lt_p
from gpuarray.primitives.elementwise.choice import select_n_p
from gpuarray.primitives.slices import Slice
from gpuarray.transforms.jvp import JVPTracer

_state = config.state


class KnownIndex:
    """An index array whose values are known and in bounds already (from a boolean mask)."""

    __slots__ = ("shape", "value")

    def __init__(self, value: np.ndarray):
        self.value = value
        self.shape = value.shape


class IndexTarget(NamedTuple):
    """The elements selected by an index, in terms of gather and scatter."""

    expand: tuple[int, ...]  # axes of length 1 to give the operand first (for scalar booleans)
    starts: list[tuple[Any, tuple[int, ...]]]  # index values, and the batch axes each one spans
    axes: tuple[int, ...]  # the operand axes they belong to
    batch: tuple[int, ...]
    sizes: tuple[int, ...]  # of the window that each index takes
    offset: tuple[int, ...]  # axes of the result that run over the window
    collapsed: tuple[int, ...]  # operand axes that the window drops
    shape: tuple[int, ...]  # of the result, without new axes
    reversed: tuple[int, ...]  # axes of the result that run backwards
    new: tuple[int, ...]  # axes of the final result from None
    static: bool  # no index arrays: the positions are distinct and in order


def target(shape: tuple[int, ...], index, wrap: bool = True) -> IndexTarget:
    """The IndexTarget that any index means. `wrap`: negative positions count from the end."""
    # 1. Entries, one for each axis, and None for each new one.
    entries, expand, shape = _entries(shape, index)
    arrays = [e for e in entries if isinstance(e, (KnownIndex, Array, np.ndarray)) and e.shape]
    # 2. Which of them are index arrays. NumPy: next to one, integers are index arrays too.
    advanced = [
        i
        for i, e in enumerate(entries)
        if arrays and not isinstance(e, (slice, Slice)) and e is not None and e is not Ellipsis
    ]
    # Index arrays broadcast to one shape; integers among them do not change it.
    spread = _common_shape([entries[i].shape for i in advanced if not isinstance(entries[i], int)])
    adjacent = bool(advanced) and advanced[-1] - advanced[0] == len(advanced) - 1
    # 3. Each entry in turn. NumPy's rule: index arrays separated by other entries put their axes in
    # front, adjacent ones in their place.
    built = _TargetBuilder(shape, spread, wrap)
    if advanced and not adjacent:
        built.add_common_axes()
    for i, e in enumerate(entries):
        if e is None:
            built.add_new_axis()
        elif isinstance(e, slice):
            built.add_slice(e)
        elif isinstance(e, Slice):
            built.add_window(e)
        elif e is not Ellipsis:
            if adjacent and i == advanced[0]:
                built.add_common_axes()
            built.add_position(e)
    static = not arrays and not any(isinstance(e, Slice) for e in entries)
    return built.built(expand, static)


class _TargetBuilder:
    """An IndexTarget while entries are added to it, one for each axis of the operand, in order."""

    def __init__(self, shape: tuple[int, ...], spread: tuple[int, ...], wrap: bool):
        self.shape, self.spread, self.wrap = shape, spread, wrap
        self.axis = 0  # of the operand: the one of the next entry
        self.sizes = list(shape)
        self.result: list[int] = []  # lengths of the result's axes, without new ones
        self.batch_at: list[int] = []  # which of them are batch axes
        self.spread_at: list[int] = []  # and which of those the index arrays have in common
        self.offset: list[int] = []
        self.collapsed: list[int] = []
        self.new: list[int] = []
        self.backwards: list[int] = []
        # Axis, value, and its batch axes (None: those of the index arrays).
        self.starts: list[tuple[int, Any, Any]] = []

    def add_common_axes(self) -> None:
        """The axes that the index arrays have in common, at the present place in the result."""
        self.spread_at.extend(range(len(self.result), len(self.result) + len(self.spread)))
        self.batch_at.extend(self.spread_at)
        self.result.extend(self.spread)

    def add_new_axis(self) -> None:
        """Add an axis of length 1 for None."""
        self.new.append(len(self.result) + len(self.new))

    def add_slice(self, e: slice) -> None:
        """A slice whose ends are known: a part of the window where it is a run of neighbours."""
        axis, n = self.axis, self.shape[self.axis]
        start, stop, step = lengths.slice_ends(e, n)
        count = lengths.count_between(start, stop, step)
        # Read forwards and reversed afterwards.
        if step < 0:
            self.backwards.append(len(self.result))
            start, step = start + (count - 1) * step, -step
        # With another step each element is gathered.
        run = step == 1 or (type(count) is int and count <= 1)
        if dims.Dim in map(type, (n, start, count, step)):
            run = step == 1 and lengths.ascending(0, count, n)
        if run:
            if count != n:
                self.starts.append((axis, start if count != 0 else 0, ()))
            self._add_run(count)
        else:
            self._add_gathered(_strided(start, step, count), count)

    def add_window(self, e: Slice) -> None:
        """A slice that starts at a traced position."""
        axis, n = self.axis, self.shape[self.axis]
        if e.size > n:
            raise TypeError(
                f"slice sizes must be less than or equal to operand shape: got {e} for axis "
                f"{axis} of an array of shape {self.shape}. Take a shorter slice."
            )
        start = wrapped(e.start, n, axis) if self.wrap else e.start
        if e.stride == 1:
            self.starts.append((axis, start, ()))
            self._add_run(e.size)
        else:
            steps = lax.mul(np.int32(e.stride), lax.iota(np.int32, e.size))
            self._add_gathered(lax.add(asarray(start, np.int32), steps), e.size)

    def add_position(self, e: Any) -> None:
        """An integer, or an index array, whose axes are placed already."""
        axis, n = self.axis, self.shape[self.axis]
        if n == 0 and (isinstance(e, int) or not getattr(e, "ndim", 1)):
            raise IndexError(f"index is out of bounds for axis {axis} with size 0")
        # Positions from a mask are in bounds already.
        value = e.value if isinstance(e, KnownIndex) else wrapped(e, n, axis) if self.wrap else e
        self.starts.append((axis, value, None if getattr(value, "ndim", 0) else ()))
        self._drop_axis()

    def _add_run(self, count: int) -> None:
        """An axis of the result that runs over the window."""
        self.sizes[self.axis] = count
        self.offset.append(len(self.result))
        self.result.append(count)
        self.axis += 1

    def _add_gathered(self, positions: Any, count: int) -> None:
        """A batch axis of the result, each of whose elements has its own position."""
        at = len(self.result)
        self.starts.append((self.axis, positions, (at,)))
        self.batch_at.append(at)
        self.result.append(count)
        self._drop_axis()

    def _drop_axis(self) -> None:
        """Leave the operand's axis out of the window."""
        self.collapsed.append(self.axis)
        self.sizes[self.axis] = 1
        self.axis += 1

    def built(self, expand: tuple[int, ...], static: bool) -> IndexTarget:
        """The IndexTarget of all entries."""
        # Index values span batch axes, which are numbered in the order of the result.
        number = {a: k for k, a in enumerate(self.batch_at)}  # result axis -> batch axis

        def spans(value: Any, axes: Any) -> tuple[int, ...]:
            # An index array: aligned to the right of the common shape, as NumPy broadcasts.
            if axes is None:
                axes = self.spread_at[len(self.spread) - value.ndim :]
            return tuple(number[a] for a in axes)

        return IndexTarget(
            expand,
            [(value, spans(value, axes)) for _, value, axes in self.starts],
            tuple(axis for axis, _, _ in self.starts),
            tuple(self.result[a] for a in self.batch_at),
            tuple(self.sizes),
            tuple(self.offset),
            tuple(self.collapsed),
            tuple(self.result),
            tuple(self.backwards),
            tuple(self.new),
            static,
        )


def check_static(shape: tuple[int, ...], index: Any) -> None:
    """Raise an IndexError for a constant index that is out of bounds."""
    entries, _, shape = _entries(shape, index)
    for axis, e in enumerate(e for e in entries if e is not None and e is not Ellipsis):
        n = shape[axis]
        if isinstance(e, int) and not -n <= e < n:
            raise out_of_bounds(e, axis, n)


def _entries(shape, index):
    """The index with one entry for each axis (and the Nones): ints, full slices for an Ellipsis,
    masks as positions. An Ellipsis of no axes stays, since index arrays on its two sides are not
    adjacent.
    """
    if isinstance(index, (list, range)) and not _state.permissive:
        instead = "tuple" if any(map(_is_entry, index)) else "array"
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[{instead}(seq)]` instead of `arr[seq]`: a list is ambiguous, and would be "
            "converted at every call."
        )
    # Entries in a few known types, an Ellipsis filled in, masks as the positions of their true
    # elements.
    parts: list[Any] = [_entry(e) for e in (index if isinstance(index, tuple) else (index,))]
    taken = sum(_axes_of(e) for e in parts if e is not None and e is not Ellipsis)
    if taken > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {taken} were indexed. Its "
            f"shape is {shape}."
        )
    if sum(1 for e in parts if e is Ellipsis) > 1:
        raise two_ellipses()
    rest: list[Any] = [slice(None)] * (len(shape) - taken)
    if any(e is Ellipsis for e in parts):
        at = next(i for i, e in enumerate(parts) if e is Ellipsis)
        parts[at : at + 1] = rest or [Ellipsis]
    else:
        parts += rest
    entries: list[Any] = []
    sizes = list(shape)
    expand: list[int] = []
    axis = 0
    for position, e in enumerate(parts):
        if isinstance(e, slice):
            # Traced ends cannot be converted: the error explains what to write instead.
            try:
                lengths.slice_ends(e, 0)
            except TypeError:
                if not is_traced(e):
                    raise
                raise dynamic_slice_error(e, parts) from None
            entries.append(e)
        elif isinstance(e, (bool, np.bool_)):
            # A scalar boolean is a mask of no axes: a new axis of length 1, taken once or never.
            sizes.insert(axis, 1)
            expand.append(axis)
            entries.append(KnownIndex(np.zeros(int(e), np.int32)))
        elif _is_mask(e):
            # As in NumPy, an axis of length 0 in the mask selects nothing.
            if any(m not in (0, n) for m, n in zip(e.shape, sizes[axis:], strict=False)):
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {position}: got "
                    f"{e.shape}, expected {sizes[axis : axis + e.ndim]}"
                )
            # How many are true decides the shape: the mask has to be known.
            found = np.nonzero(known_value(e, errors.NonConcreteBooleanIndexError))
            entries += [KnownIndex(k.astype(np.int32)) for k in found]
            axis += e.ndim - 1
        else:
            entries.append(e)
        # None consumes no axis of the operand, nor does a remaining Ellipsis.
        axis += e is not None and e is not Ellipsis
    return entries, tuple(expand), tuple(sizes)


def _holds_arrays(x: Any) -> bool:
    return isinstance(x, Array) or (isinstance(x, (list, tuple)) and any(map(_holds_arrays, x)))


def _entry(e):
    """Convert an entry of an index to one of the types used in this file."""
    if e is None or e is Ellipsis or isinstance(e, (slice, Slice, bool, np.bool_, int, dims.Dim)):
        return e
    if isinstance(e, np.integer):
        return int(e)
    if isinstance(e, str):
        raise TypeError(
            f"JAX does not support string indexing; got idx={e!r}, and gpuarray does not either: "
            "there are no structured dtypes. Use a dict of arrays."
        )
    if isinstance(e, (list, tuple, range)):
        # A list of plain numbers stays known; one with arrays in it is stacked.
        e = asarray(e) if _holds_arrays(e) else np.asarray(e, np.int32 if len(e) == 0 else None)
    elif hasattr(e, "__jax_array__") and not isinstance(e, Array):
        e = e.__jax_array__()
    elif isinstance(e, (float, complex)):
        e = np.asarray(e)
    elif not isinstance(e, (Array, np.ndarray, np.generic)):
        if hasattr(e, "__index__"):
            return operator.index(e)
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or "
            f"boolean arrays are valid indices. Got {e}"
        )
    if not _is_mask(e) and not dtypes.issubdtype(e.dtype, np.integer):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {e.dtype}. Convert "
            "it with .astype('int32')."
        )
    # Known scalars are plain ints and bools.
    if isinstance(e, (np.ndarray, np.generic)) and not e.shape:
        return bool(e) if _is_mask(e) else int(e)
    return (
        bool(known_value(e, errors.NonConcreteBooleanIndexError))
        if _is_mask(e) and not e.ndim
        else e
    )


def _is_entry(e) -> bool:
    """Whether an element of a list shows that the list means a tuple of indices."""
    if isinstance(e, (Array, np.ndarray)):
        return e.ndim > 0
    return e is None or e is Ellipsis or isinstance(e, (slice, Sequence))


def _is_mask(e) -> bool:
    return isinstance(e, (Array, np.ndarray, np.generic)) and e.dtype == np.bool_


def _axes_of(e) -> int:
    """How many axes of the operand an entry takes."""
    if isinstance(e, (bool, np.bool_)):
        return 0
    return e.ndim if _is_mask(e) else 1


def known_value(x, otherwise: type[Exception] | None = None) -> Any:
    """The value of `x` as a NumPy array, if known; else raise `otherwise(x)`, or return None."""
    while isinstance(x, JVPTracer):  # under grad, outside jit, the value is there
        x = x.primal
    if not isinstance(x, Tracer):
        return np.asarray(x)
    if otherwise is not None:
        raise otherwise(x)
    return None


def _common_shape(shapes) -> tuple[int, ...]:
    try:
        return tuple(lengths.broadcast(*shapes))
    except ValueError:
        raise ValueError(
            f"Incompatible shapes for broadcasting: shapes={list(shapes)} of the index arrays"
        ) from None


def _strided(start: int, step: int, count: int):
    """start, start + step, ... as an index array."""
    if is_base():
        # A constant in eager code; in a program arithmetic, which does not carry the numbers along.
        return np.arange(start, start + step * count, step, dtype=np.int32)
    start, step = (typed(x, np.dtype(np.int32)) for x in (start, step))
    return lax.add(start, lax.mul(step, lax.iota(np.int32, count)))


def wrapped(i, n: int, axis: int = 0) -> Any:
    """Positions along an axis of length `n`, with negative ones counted from the end."""
    if type(i) is dims.Dim:
        i = typed(i, np.dtype(np.int32))
    if isinstance(i, int) and type(n) is dims.Dim:
        return i + n if i < 0 else i
    if isinstance(i, int):
        if not -n <= i < n:
            if _state.oob == "raise":
                raise out_of_bounds(i, axis, n)
            machine_int(i)
        return i + n if i < 0 else i
    if _state.oob == "raise":
        check_bounds(i, n, axis)
    if isinstance(i, np.ndarray):
        i = _narrow(i)  # first: the length may not fit the type that they came in
        return np.where(i < 0, i + n, i)
    if dtypes.kind_of(i.dtype) == "u":
        return i
    if i.dtype.itemsize < 4:  # adding the length could overflow
        i = lax.convert_element_type(i, np.int32)
    elif i.dtype.itemsize > dtypes.default_int().itemsize:  # made with x64 on, and used without
        # Positions just out of bounds on either side stay so, and fit the narrow type.
        i = lax.clamp(constant(-n - 1, i), i, constant(n, i))
        i = lax.convert_element_type(i, dtypes.default_int())
    if type(n) is dims.Dim:
        n = lax.convert_element_type(n, i.dtype)
        return select_n_p.bind(lt_p.bind(i, i.dtype.type(0)), i, add_p.bind(i, n))
    # A Python int takes the default type without an equation to convert it.
    zero, length = (0, n) if i.dtype == dtypes.default_int() else (i.dtype.type(0), i.dtype.type(n))
    return select_n_p.bind(lt_p.bind(i, zero), i, add_p.bind(i, length))


def _narrow(i: np.ndarray) -> np.ndarray:
    """Known positions as int32 (or int64 with x64 on and beyond it); too large ones stay out of
    bounds.
    """
    if i.dtype.itemsize < 4:
        return i.astype(np.int32)
    if _state.enable_x64 and i.dtype.itemsize == 8:
        return i.astype(np.int64)
    return np.clip(i, -(2**31), 2**31 - 1).astype(np.int32)


def check_bounds(i, n: int, axis: int) -> None:
    """With config.oob='raise': refuse positions outside -n..n-1, where they are known."""
    # Traced positions cannot be refused: checkify reports them.
    value = known_value(i)
    if value is None:
        return
    bad = (value < -n) | (value >= n)
    if bad.any():
        raise out_of_bounds(int(value[bad].flat[0]), axis, n)


def start_indices(t: IndexTarget):
    """The index array of gather and scatter: shape (*batch, number of indexed axes)."""
    # The last axis holds one position for each indexed axis.
    full = (*t.batch, 1)
    if not t.starts:
        # No axis is indexed: the window is everything.
        return np.zeros((*t.batch, 0), np.int32)
    values: list[Any] = [value for value, _ in t.starts]
    # All positions are known: one constant.
    if all(isinstance(v, (int, np.ndarray)) for v in values) and (
        is_base() or any(isinstance(v, np.ndarray) for v in values)
    ):
        return np.concatenate([_spread(np.asarray(v), dims, full) for v, dims in t.starts], -1)
    # One column for each axis, of one dtype.
    common = _index_dtype(values)
    columns = []
    for value, spans in t.starts:
        if type(value) is dims.Dim:
            value = typed(value, common)
        elif isinstance(value, int):
            value = value if common == dtypes.default_int() else common.type(value)
        elif value.dtype != common or (isinstance(value, Array) and value.weak_type):
            value = lax.convert_element_type(value, common)
        columns.append(lax.broadcast_in_dim(value, full, spans))
    return columns[0] if len(columns) == 1 else lax.concatenate(columns, len(t.batch))


def _spread(value: np.ndarray, dims: tuple[int, ...], full: tuple[int, ...]) -> np.ndarray:
    shape = [1] * len(full)
    for k, d in enumerate(dims):
        shape[d] = value.shape[k]
    dtype = np.int64 if value.dtype == np.int64 and _state.enable_x64 else np.int32
    return np.broadcast_to(_narrow(value).reshape(shape), full).astype(dtype)


def _index_dtype(values) -> np.dtype:
    """One dtype for all index columns: int32 unless an array is of a wider or an unsigned type."""
    found = {np.dtype(v.dtype) for v in values if not isinstance(v, (int, dims.Dim))}
    # Unsigned positions stay unsigned: they need no wrapping.
    if len(found) == 1 and found <= {np.dtype(t) for t in (np.uint32, np.uint64)}:
        return found.pop()
    wide = any(d.itemsize == 8 or d == np.uint32 for d in found)
    return np.dtype(np.int64 if wide and _state.enable_x64 else np.int32)
