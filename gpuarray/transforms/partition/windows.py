"""Windows: parts of a sharded axis, shifted slightly, for which neighbours exchange only rims.

Floor 3. In: an equation that takes a part of a cut axis, puts parts together or combines them. Out:
its results as parts of the whole axis, which stays cut as it was.

`x[1:-1]` of a sharded axis cannot be sharded evenly. But each device has its piece of `x`, and may
treat it as a piece of a longer value in which the part begins at 1: the *frame* of the part.
Elements outside the part are arbitrary. Parts that begin elsewhere are combined after a shift of
the longer value, for which neighbours exchange rims; `pad` and `concatenate` write the elements
outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuarray import sites
from gpuarray.core import dtypes, fold
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn
from gpuarray.core.grid import Spec
from gpuarray.core.primitive import Kind
from gpuarray.primitives.axes import along
from gpuarray.primitives.collective import ops
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import zeros
from gpuarray.transforms.partition.moves import gathered, sliced, start_of, summed
from gpuarray.transforms.partition.pieces import Note, Owed, Piece
from gpuarray.util import prod

Frame = tuple[int, int]


def windowed(eqn: Eqn, pieces: Sequence[Piece], splitter: Any) -> list[Piece] | None:
    """Return the results of an equation on parts of sharded axes; None if it is not such an
    equation.
    """
    prim = eqn.primitive
    if prim.kind is Kind.POINTWISE and prim.factors is None:
        return (
            WindowedEquation(eqn, pieces, splitter).pointwise()
            if any(p.frame for p in pieces)
            else None
        )
    rule = _RULES.get(prim.name)
    if rule is None or not any(any(p.spec) for p in pieces):
        return None
    return rule(WindowedEquation(eqn, pieces, splitter))


def realised(
    piece: Piece, aval: ShapedArray, sizes: Mapping[Any, int]
) -> tuple[Any, Spec, list[str]]:
    """Return a part with its longer axes gathered, so that it can be sharded by itself."""
    x, spec, sent = piece.value, list(piece.spec), []
    starts, stops = [0] * aval.ndim, list(aval_of(x).shape)
    for axis, (start, size) in piece.frame.items():
        names, length = spec[axis], aval.shape[axis]
        # A short part: a sum of mostly zeros sends less than all of the longer axis.
        if 2 * length < size and (is_plain(aval) or aval.dtype == np.bool_):
            x, how = _collected(x, axis, names, start, length, sizes)
            stops[axis] = length
        else:
            x, how = gathered(x, axis, names, sizes), "all_gather"
            starts[axis], stops[axis] = start, start + length
        spec[axis] = ()
        sent.append(how)
    return _part(x, starts, stops), tuple(spec), sent


def _collected(
    x: Any, axis: int, names: tuple, start: int, length: int, sizes: Mapping[Any, int]
) -> tuple[Any, str]:
    """Gather a short part of a sharded axis: each device contributes its elements."""
    aval = aval_of(x)
    # Without neighbours around it, a device's piece contains all of the part, some of it, or
    # nothing.
    around, shape = [(0, 0, 0)] * aval.ndim, list(aval.shape)
    starts: list[Any] = [np.int32(0)] * aval.ndim
    around[axis] = (length, length, 0)
    shape[axis] = length
    x = do.pad(x, zero(aval), padding_config=tuple(around))
    starts[axis] = do.sub(np.int32(start + length), start_of(names, aval.shape[axis], sizes))
    x = do.dynamic_slice(x, *starts, slice_sizes=tuple(shape))
    # A sum of floats may change the sign of a zero.
    how = "or" if aval.dtype == np.bool_ else "pick" if _is_float(aval) else "sum"
    return summed(x, how, names, sizes)


class WindowedEquation:
    """One equation on parts."""

    def __init__(self, eqn: Eqn, pieces: Sequence[Piece], splitter: Any):
        self.eqn = eqn
        self.pieces = list(pieces)
        self.avals = [a.aval for a in eqn.invars]
        self.splitter = splitter
        self.sizes = splitter.sizes

    # ---- equations ----
    def pointwise(self) -> list[Piece] | None:
        out = self.eqn.outvars[0].aval
        # The results are parts too. Where they begin is chosen so that the fewest operands have
        # to be shifted.
        first = next(p for p in self.pieces if p.frame)
        frame = {}
        for axis in first.frame:
            size = first.frame[axis][1]
            starts = Counter(p.frame[axis][0] for p in self.pieces if axis in p.frame)
            # Where most begin already; of several, where the part is in the middle.
            off = lambda start, room=size - out.shape[axis]: abs(2 * start - room)
            frame[axis] = (min(starts, key=lambda s, n=starts, off=off: (-n[s], off(s))), size)
        values = self.framed(
            range(len(self.pieces)), out.shape, first.spec, [frame] * len(self.pieces)
        )
        if values is None:
            return None
        made = self.splitter.bound(self.eqn, values, self.eqn.params)
        return [
            self.part(x, first.spec, v.aval, frame)
            for x, v in zip(made, self.eqn.outvars, strict=True)
        ]

    def slice(self) -> list[Piece] | None:
        (piece,), params = self.pieces, self.eqn.params
        starts, limits = list(params["start_indices"]), list(params["limit_indices"])
        # Every second element has no frame: its pieces are of other lengths.
        if any(s != 1 for s in params["strides"] or ()):
            return None
        whole = self.avals[0].shape
        cut = [d for d, n in enumerate(whole) if piece.spec[d] and limits[d] - starts[d] < n]
        if not cut:
            return None
        piece = self.settled(piece, 0)
        frame = dict(piece.frame)
        shape = aval_of(piece.value).shape
        for d in range(len(whole)):
            # Along a sharded axis nothing moves: only the frame changes. The others are sliced as
            # usual.
            if piece.spec[d]:
                begin, size = frame.get(d, (0, whole[d]))
                frame[d] = (begin + starts[d], size)
                starts[d], limits[d] = 0, shape[d]
        return [
            self.part(
                _part(piece.value, starts, limits), piece.spec, self.eqn.outvars[0].aval, frame
            )
        ]

    def split(self) -> list[Piece] | None:
        (piece,), axis = self.pieces, self.eqn.params["axis"]
        if not piece.spec[axis]:
            return None
        piece = self.settled(piece, 0)
        # All results share the piece: each is another part of it.
        begin, size = piece.frame.get(axis, (0, self.avals[0].shape[axis]))
        found = []
        for length, v in zip(self.eqn.params["sizes"], self.eqn.outvars, strict=True):
            frame = piece.frame | {axis: (begin, size)}
            found.append(self.part(piece.value, piece.spec, v.aval, frame))
            begin += length
        return found

    def rev(self) -> list[Piece] | None:
        (piece,), axes = self.pieces, self.eqn.params["dimensions"]
        if not any(piece.spec[d] for d in axes):
            return None
        piece = self.settled(piece, 0)
        (x,) = self.splitter.bound(self.eqn, [piece.value], self.eqn.params)
        frame = dict(piece.frame)
        for d in axes:
            if not piece.spec[d]:
                continue
            count = prod(self.sizes[n] for n in piece.spec[d])
            # Pieces are reversed on each device, and change places with those at the other end.
            pairs = tuple((i, count - 1 - i) for i in range(count))
            x = self.passed(x, piece.spec[d], pairs)
            if d in frame:
                start, size = frame[d]
                frame[d] = (size - start - self.avals[0].shape[d], size)
        return [self.part(x, piece.spec, self.eqn.outvars[0].aval, frame)]

    def pad(self) -> list[Piece] | None:
        piece, fill = self.pieces
        config, out = self.eqn.params["padding_config"], self.eqn.outvars[0].aval
        cut = [d for d, around in enumerate(config) if any(around) and piece.spec[d]]
        if not cut or any(low < 0 or high < 0 or inner for low, high, inner in config):
            return None
        frame, moved = dict(piece.frame), dict(piece.frame)
        for d in cut:
            low, high, _ = config[d]
            start, size = frame.get(d, (0, self.avals[0].shape[d]))
            # Padding back to the longer axis: the value stays in that frame, and may need a shift.
            if out.shape[d] == size:
                moved[d], frame[d] = (low, size), (0, size)
            # Or it grows within the frame, which has room around it.
            elif start >= low and start + self.avals[0].shape[d] + high <= size:
                moved[d], frame[d] = (start, size), (start - low, size)
            else:
                return None
        values = self.framed([0], self.avals[0].shape, piece.spec, [moved])
        if values is None:
            return None
        fill = self.splitter.to(fill, (), self.avals[1], "the value of a padding").value
        # Axes that are cut are not padded but overwritten: the room is there, with anything in
        # it.
        rest = tuple((0, 0, 0) if d in cut else around for d, around in enumerate(config))
        x = do.pad(values[0], fill, padding_config=rest)
        for d in cut:
            start = moved[d][0]
            inside = self.between(x, d, piece.spec[d], start, start + self.avals[0].shape[d])
            x = do.select_n(inside, like(fill, x), x)
        return [self.part(x, piece.spec, out, frame)]

    def concatenate(self) -> list[Piece] | None:
        axis, out = self.eqn.params["dimension"], self.eqn.outvars[0].aval
        # Parts that together are as long as the axis they came from, as in a periodic shift:
        # x[1:] and x[:1].
        framed = [p for p in self.pieces if axis in p.frame and p.frame[axis][1] == out.shape[axis]]
        if not framed:
            return None
        spec, size = framed[0].spec, out.shape[axis]
        others = {d: f for d, f in framed[0].frame.items() if d != axis}
        ends = np.cumsum([a.shape[axis] for a in self.avals]).tolist()
        starts = [0, *ends[:-1]]
        frames = [{**others, axis: (start, size)} for start in starts]
        values = self.framed(range(len(self.pieces)), out.shape, spec, frames, axis)
        if values is None:
            return None
        x = values[0]
        # Each operand is framed as if it were the whole result: at each position, a device picks
        # the operand that covers it.
        for value, start in zip(values[1:], starts[1:], strict=True):
            x = do.select_n(self.between(x, axis, spec[axis], start, size), x, value)
        return [self.part(x, spec, out, {**others, axis: (0, size)})]

    def fold(self) -> list[Piece] | None:
        (piece,), axes = self.pieces, self.eqn.params["axes"]
        name, aval = self.eqn.primitive.name, self.avals[0]
        if not piece.frame or not is_plain(aval):
            return None
        x = self.settled(piece, 0).value
        for d, (start, _) in piece.frame.items():
            # Elements outside the part must not be folded in.
            if d in axes:
                inside = self.between(x, d, piece.spec[d], start, start + aval.shape[d])
                x = do.select_n(inside, like(_NEUTRAL[name](aval), x), x)
        (x,) = self.splitter.bound(self.eqn, [x], self.eqn.params)
        kept = [d for d in range(aval.ndim) if d not in axes]
        frame = {i: piece.frame[d] for i, d in enumerate(kept) if d in piece.frame}
        out = self.eqn.outvars[0].aval
        made = self.part(x, tuple(piece.spec[d] for d in kept), out, frame)
        names = tuple(n for d in axes for n in piece.spec[d])
        if names:
            how = name.removeprefix("reduce_")
            made.owed = Owed(how, names, self.eqn.site, f"{name} along a cut axis")
        return [made]

    def scatter(self) -> list[Piece] | None:
        # Only one window at a place that is known while planning: then it is a part written over
        # the whole.
        numbers = self.eqn.params["dimension_numbers"]
        ndim, at = self.avals[0].ndim, self.pieces[1].static
        dims = numbers.scatter_dims_to_operand_dims
        if at is None or at.ndim != 1 or tuple(numbers.update_window_dims) != tuple(range(ndim)):
            return None
        starts = dict(zip(dims, at.tolist(), strict=True))
        return self.updated(2, [starts.get(d, 0) for d in range(ndim)])

    def dynamic_update_slice(self) -> list[Piece] | None:
        at = [p.static for p in self.pieces[2:]]
        # Starts are clamped as the operation does it, so that the update is inside.
        room = [m - n for m, n in zip(self.avals[0].shape, self.avals[1].shape, strict=True)]
        starts = [min(max(int(x), 0), r) for x, r in zip(at, room, strict=True) if x is not None]
        return self.updated(1, starts) if len(starts) == len(room) else self.written(room)

    def written(self, room: Sequence[int]) -> list[Piece] | None:
        """Return operand 0 with operand 1 written over it at indices known only at run time.

        Each device takes the elements of the update, which is whole along these axes, that fall in
        its piece.
        """
        piece, update, spec = self.pieces[0], self.avals[1], self.pieces[0].spec
        smaller = [d for d, free in enumerate(room) if free]
        cut = [d for d in smaller if spec[d]]
        if piece.frame or not cut:
            return None
        # 1. Operands: the update is sharded like the operand, except along the axes that it moves
        # along.
        why = f"{self.eqn.primitive.name} writes it anywhere along a cut axis"
        old = self.settled(piece, 0).value
        want = tuple(() if d in cut else names for d, names in enumerate(spec))
        new = self.splitter.to(self.pieces[1], want, update, why).value
        begin: list[Any] = [np.int32(0)] * len(room)
        for d in smaller:
            given = self.splitter.to(self.pieces[2 + d], (), self.avals[2 + d], why).value
            begin[d] = _clamped(given, room[d])
        # 2. Along sharded axes, the element of the update for each element of a piece.
        for d in cut:
            length = aval_of(old).shape[d]
            around, starts = [(0, 0, 0)] * len(room), [np.int32(0)] * len(room)
            around[d] = (length, length, 0)
            new = do.pad(new, zero(aval_of(new)), padding_config=tuple(around))
            here = start_of(spec[d], length, self.sizes)
            starts[d] = do.add(do.sub(here, begin[d]), np.int32(length))
            shape = list(aval_of(new).shape)
            shape[d] = length
            new = do.dynamic_slice(new, *starts, slice_sizes=tuple(shape))
        # 3. It gets it where the update is; along the other axes it is written as ever.
        rest = [np.int32(0) if d in cut else at for d, at in enumerate(begin)]
        shape = aval_of(new).shape
        part = old
        if len(cut) < len(smaller):
            part = do.dynamic_slice(old, *rest, slice_sizes=shape)
        for d in cut:
            stop = do.add(begin[d], np.int32(update.shape[d]))
            new = do.select_n(self.between(part, d, spec[d], begin[d], stop), part, new)
        if len(cut) < len(smaller):
            new = do.dynamic_update_slice(old, new, *rest)
        return [self.part(new, spec, self.avals[0], {})]

    def updated(self, number: int, starts: Sequence[int]) -> list[Piece] | None:
        """Return operand 0 with another one, which begins somewhere in it, written over it."""
        piece, aval, update = self.pieces[0], self.avals[0], self.avals[number]
        spec, shape = piece.spec, update.shape
        smaller = [d for d in range(aval.ndim) if shape[d] != aval.shape[d]]
        inside = all(0 <= starts[d] <= aval.shape[d] - shape[d] for d in range(aval.ndim))
        if piece.frame or not inside or not any(spec[d] for d in smaller):
            return None
        frame = {d: (starts[d], aval.shape[d]) for d in range(aval.ndim) if spec[d]}
        values = self.framed([number], shape, spec, {number: frame})
        if values is None:
            return None
        (new,), old = values, self.settled(piece, 0).value
        around = [(0, 0, 0)] * aval.ndim
        for d in smaller:
            if not spec[d]:
                around[d] = (starts[d], aval.shape[d] - starts[d] - shape[d], 0)
        new = do.pad(new, zero(aval_of(new)), padding_config=tuple(around))
        # Combine old and new elements (set, add, ...) inside the update.
        new = _COMBINED[self.eqn.primitive.name](old, new)
        for d in smaller:
            here = self.between(old, d, spec[d], starts[d], starts[d] + shape[d])
            new = do.select_n(here, old, new)
        return [self.part(new, spec, aval, {})]

    # ---- parts ----
    def part(self, x: Any, spec: Spec, aval: ShapedArray, frame: dict[int, Frame]) -> Piece:
        piece = Piece(x, spec)
        # A frame that is the axis itself is no frame: the value is cut evenly again.
        piece.frame = {d: f for d, f in frame.items() if f != (0, aval.shape[d])}
        return piece

    def settled(self, piece: Piece, number: int) -> Piece:
        if piece.owed is not None:
            self.splitter.settle(piece, piece.spec, self.avals[number])
        return piece

    def framed(
        self,
        numbers: Sequence[int],
        shape: tuple[int, ...],
        spec: Spec,
        frames: Sequence[dict[int, Frame]] | Mapping[int, dict[int, Frame]],
        along: int = -1,
    ) -> list | None:
        """Return operands as parts, in these frames, of values sharded as `spec` says.

        None where one is a part of something else. Along axis `along` operands may be shorter.
        """
        for i in numbers:
            p, a = self.pieces[i], self.avals[i]
            if not a.ndim:
                continue
            for d, names in enumerate(p.spec):
                # One element for all along an axis has to be on every device.
                alone = a.shape[d] == 1 and not names
                fits = a.shape[d] == shape[d] or alone or d == along
                size = p.frame.get(d, (0, a.shape[d]))[1]
                wanted = frames[i].get(d, (0, shape[d]))[1]
                if not fits or (names and (names != spec[d] or size != wanted)):
                    return None
        return [self.in_frame(i, shape, spec, frames[i], along) for i in numbers]

    def in_frame(
        self, i: int, shape: tuple[int, ...], spec: Spec, frame: dict[int, Frame], along: int
    ) -> Any:
        piece, aval = self.settled(self.pieces[i], i), self.avals[i]
        x = piece.value
        for d in range(aval.ndim):
            if aval.shape[d] == 1 != shape[d] and d != along:
                continue  # one element, for all along this axis
            start, size = frame.get(d, (0, shape[d]))
            if piece.spec[d]:
                # Where it is now, and where the others want it: the difference is shifted.
                here, _ = piece.frame.get(d, (0, size))
                x = self.shifted(x, d, spec[d], start - here, size)
            elif spec[d]:
                # All of it is on the device: put it at its place in the longer value, of which this
                # is a piece.
                if aval.shape[d] != size:
                    around = [(0, 0, 0)] * aval.ndim
                    around[d] = (start, size - start - aval.shape[d], 0)
                    x = do.pad(x, zero(aval_of(x)), padding_config=tuple(around))
                x = sliced(x, d, spec[d], self.sizes)
        return x

    def between(self, x: Any, axis: int, names: tuple, start: Any, stop: Any) -> Any:
        """Return where elements of the whole axis are in a range."""
        start, stop = (np.int32(i) if isinstance(i, int) else i for i in (start, stop))
        aval = aval_of(x)
        here = do.iota(dtype=np.dtype(np.int32), shape=aval.shape, dimension=axis, sharding=None)
        here = do.add(here, start_of(names, aval.shape[axis], self.sizes))
        return do.and_(do.ge(here, start), do.lt(here, stop))

    def shifted(self, x: Any, axis: int, names: tuple, by: int, size: int) -> Any:
        """Return a value whose elements move on some positions, and from its end to its front."""
        length = aval_of(x).shape[axis]
        # Whole pieces change devices; the rest is a rim passed to the neighbour.
        hops, by = divmod(by % size, length)
        known = self.splitter.shifts
        key = (id(x), axis, hops, by)
        if (hops or by) and key not in known:
            # The first part of each piece ends up `hops` devices on, the rest behind the next.
            stay = self.hopped(along(x, axis, 0, length - by), names, hops)
            if by:
                rim = self.hopped(along(x, axis, length - by, length), names, hops + 1)
                stay = do.concatenate(rim, stay, dimension=axis)
            known[key] = (x, stay)
        return known[key][1] if hops or by else x

    def hopped(self, x: Any, names: tuple, hops: int) -> Any:
        count = prod(self.sizes[n] for n in names)
        if hops % count == 0:
            return x
        return self.passed(x, names, tuple((i, (i + hops) % count) for i in range(count)))

    def passed(self, x: Any, names: tuple, pairs: tuple) -> Any:
        why = f"{self.eqn.primitive.name} shifts a cut axis"
        self.splitter.notes.append(Note("ppermute", aval_of(x), sites.replaying.site, why))
        return ops.ppermute_p.bind(x, axis_name=names, perm=pairs)


def _part(x: Any, starts: Sequence[int], stops: Sequence[int]) -> Any:
    """Return a slice, or the value itself where it is all of it."""
    if not any(starts) and tuple(stops) == aval_of(x).shape:
        return x
    return do.slice(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=None)


def _clamped(start: Any, room: int) -> Any:
    """Return a start as an int32 that is not before 0 and not behind `room`."""
    given = aval_of(start).dtype
    # Before it is narrowed, and after it is widened.
    wide = given if given.itemsize >= 4 else np.dtype(np.int32)
    to = lambda x, dtype: do.convert_element_type(
        x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None
    )
    start = start if wide == given else to(start, wide)
    start = do.min(do.max(start, wide.type(0)), wide.type(room))
    return start if wide == np.int32 else to(start, np.int32)


def _is_float(aval: ShapedArray) -> bool:
    return dtypes.kind_of(aval.dtype) == "f" and aval.dtype.itemsize > 1


def is_plain(aval: ShapedArray) -> bool:
    """Whether elements are real numbers of a byte or more."""
    return _is_float(aval) or aval.dtype.kind in "iu"


def zero(aval: ShapedArray) -> Any:
    """Return a zero of a type."""
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return zeros(ShapedArray((), aval.dtype))
    return np.zeros((), aval.dtype)[()]


def like(scalar: Any, x: Any) -> Any:
    """Return a scalar spread over the shape of a value."""
    shape = aval_of(x).shape
    return do.broadcast_in_dim(scalar, shape=shape, broadcast_dimensions=(), sharding=None)


def extreme(aval: ShapedArray, sign: int) -> Any:
    """Return the largest (or with sign -1 the smallest) value of a type."""
    return fold.extreme(aval.dtype, sign > 0)


#: How an update combines an old and a new element.
_COMBINED = {
    "scatter": lambda old, new: new,
    "scatter-add": lambda old, new: do.add(old, new),
    "scatter-mul": lambda old, new: do.mul(old, new),
    "scatter-min": lambda old, new: do.min(old, new),
    "scatter-max": lambda old, new: do.max(old, new),
    "dynamic_update_slice": lambda old, new: new,
}

#: The identity of each fold.
_NEUTRAL = {
    "reduce_sum": zero,
    "reduce_max": lambda aval: extreme(aval, -1),
    "reduce_min": lambda aval: extreme(aval, 1),
}

_RULES = {
    **{n: getattr(WindowedEquation, n) for n in ("slice", "split", "rev", "pad", "concatenate")},
    **dict.fromkeys(_NEUTRAL, WindowedEquation.fold),
    **dict.fromkeys(_COMBINED, WindowedEquation.scatter),
    "dynamic_update_slice": WindowedEquation.dynamic_update_slice,
}
