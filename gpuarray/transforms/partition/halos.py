"""Halos: windows along a sharded axis, for which neighbours exchange the rims of pieces.

Floor 3. In: a convolution, a reduction of windows, a padding or a running fold along sharded axes.
Out: its results, sharded alike; a device receives the parts of other pieces that its windows reach,
and for a running fold the totals of the preceding pieces.

All kinds of windows follow the same arithmetic. Result `o` reads `extent` positions from `o *
stride - low` on, where element `i` is at position `i * base`. So the first element that a device
reads moves by `step` from one device to the next, and it reads `count` elements. If the kernel of a
convolution is sharded too, as in the derivative by a kernel, it is read in the same way, and the
results are sums over all devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import sites
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.factors import spec_of
from gpuarray.core.graph import Eqn
from gpuarray.core.grid import Spec
from gpuarray.core.primitive import Kind
from gpuarray.primitives.axes import along
from gpuarray.primitives.collective import ops
from gpuarray.primitives.contract.factors import combined
from gpuarray.primitives.define import do
from gpuarray.primitives.factors import factors_of
from gpuarray.primitives.reduce.cumulative import logaddexp
from gpuarray.primitives.scalar_graph import bind_on_arrays
from gpuarray.transforms.partition.cuts import chosen_cut
from gpuarray.transforms.partition.moves import gathered, position
from gpuarray.transforms.partition.pieces import Note, Owed, Piece
from gpuarray.transforms.partition.windows import Frame, WindowedEquation, extreme, like, zero
from gpuarray.util import prod


class Sliding(NamedTuple):
    """Windows along one axis of operands: where it is in the result and the kernel, and how it is.

    Parameters
    ----------
    axis, out, kernel :
        The axis of the operands, of the results, and of the kernel (None without one).
    extent :
        Positions from the first to the last of a window.
    stride, low, base, dilation :
        Positions between windows, before the first element, between elements, and between elements
        of a window.
    """

    axis: int
    out: int
    extent: int
    stride: int
    low: int
    high: int
    base: int = 1
    dilation: int = 1
    kernel: int | None = None


class Reach(NamedTuple):
    """The elements that each device reads along an axis.

    Attributes
    ----------
    first, step, count :
        Device d reads `count` elements from number `first + d * step` on.
    left, right :
        How many of them are before and behind its own piece, at most.
    padding :
        The remaining padding, before and after.
    frame :
        The longer axis of which the results are a part; None if they are a sum over the devices.
    """

    first: int
    step: int
    count: int
    left: int
    right: int
    padding: tuple[int, int]
    frame: Frame | None


def slid(eqn: Eqn, pieces: Sequence[Piece], splitter: Any) -> list[Piece] | None:
    """Return the results of an equation whose windows cross pieces; None if it is not such an
    equation.
    """
    # No sharded axis, so no window crosses a piece.
    if not any(any(p.spec) for p in pieces):
        return None
    if eqn.primitive.kind is Kind.SCAN:
        return _Halos(eqn, pieces, splitter).running()
    rule = _GEOMETRY.get(eqn.primitive.name)
    return None if rule is None else _Halos(eqn, pieces, splitter).results(rule(eqn))


def evened(piece: Piece, aval: ShapedArray, want: Any, splitter: Any) -> None:
    """Reshard parts of longer axes evenly, where `want` shards them.

    A part stays one if resharding it would send as much as a gather.
    """
    for axis, here in list(piece.frame.items()):
        names, length = piece.spec[axis], aval.shape[axis]
        parts = prod(splitter.sizes[n] for n in names)
        # Only an axis that divides evenly can be resharded, and only readers that keep its sharding
        # benefit.
        if length % parts or not length or (want is not None and want[axis] != names):
            continue
        s = Sliding(axis, axis, extent=1, stride=1, low=0, high=0)
        r = reach(s, length, length, here, parts)
        # A short part is collected from where it is: its elements once, and their sum to all.
        if r is None or r.frame != (0, length) or r.left + r.right > 2 * length:
            continue
        why = "part of an axis that is cut"
        piece.value = Rims(splitter, why).window(piece.value, r, axis, names)
        del piece.frame[axis]


def reach(s: Sliding, length: int, results: int, here: Frame, parts: int) -> Reach | None:
    """Return what devices read where an axis is cut into `parts`; None if a gather sends no more.

    >>> s = Sliding(0, 0, extent=3, stride=1, low=1, high=1)
    >>> reach(s, 16, 16, (0, 16), 4)
    Reach(first=-1, step=4, count=6, left=1, right=1, padding=(0, 0), frame=(0, 16))
    """
    start, size = here
    # Candidates for the results of each device; the one for which the least is received is
    # taken.
    piece = size // parts
    # Even pieces of the results, or those that begin where the operand's do, or any.
    made = [results // parts] if results % parts == 0 else []
    if piece * s.base % s.stride == 0 and piece * s.base // s.stride * parts >= results:
        made.append(piece * s.base // s.stride)
    made.append(-(-results // parts))
    best: Reach | None = None
    for each in made:
        # The window of the first result must begin at an element on every device, not between
        # two.
        if not each or each * s.stride % s.base:
            continue
        # Positions before the first element that is read, if elements are spaced.
        rest = -s.low % s.base
        # Positions from the start of the first window to the end of the last one, and the elements
        # at these positions (one every `base`).
        reads = (each - 1) * s.stride + s.extent
        count = (rest + reads - 1) // s.base + 1
        behind = reads + rest - (count - 1) * s.base - 1
        found = _reached(
            start + -s.low // s.base, each * s.stride // s.base, count, piece, parts,
            (-rest, behind), (0, each * parts),
        )  # fmt: skip
        # A gather receives all pieces except the device's own: a larger halo never pays.
        received = found.left + found.right
        if received >= (parts - 1) * piece:
            continue
        # Pieces that are even need no gather later.
        if each == made[0] and results % parts == 0 and 2 * received <= (parts - 1) * piece:
            return found
        if best is None or received < best.left + best.right:
            best = found
    return best


def reach_of_sums(s: Sliding, results: int, here: Frame, kernel: Frame, parts: int) -> Reach | None:
    """Return what devices read where operand and kernel are sharded: each has a share of all
    results.

    >>> s = Sliding(0, 0, extent=16, stride=1, low=1, high=1, kernel=2)
    >>> reach_of_sums(s, 3, (0, 16), (0, 16), 4)
    Reach(first=-1, step=4, count=6, left=1, right=1, padding=(0, 0), frame=None)
    """
    (start, size), (begin, long) = here, kernel
    piece, each = size // parts, long // parts
    # Spaced elements would meet the kernel's pieces at different offsets on each device.
    if s.base != 1:
        return None
    # Every result, with the kernel elements of one device, which start at d * each on device d.
    count = (results - 1) * s.stride + (each - 1) * s.dilation + 1
    first = start - s.low - begin * s.dilation
    found = _reached(first, each * s.dilation, count, piece, parts, (0, 0), None)
    return found if found.left + found.right < (parts - 1) * piece else None


def _reached(first, step, count, piece, parts, padding, frame) -> Reach:
    # How far devices reach over is linear in their number, so the first and the last reach
    # farthest.
    offsets = first, first + (parts - 1) * (step - piece)
    left, right = max(0, -min(offsets)), max(0, max(offsets) + count - piece)
    return Reach(first, step, count, left, right, padding, frame)


class Rims:
    """The rims that devices exchange with their neighbours, and the reasons."""

    def __init__(self, splitter: Any, why: str):
        self.splitter, self.why = splitter, why
        self.sizes = splitter.sizes

    def window(self, x: Any, r: Reach, axis: int, names: tuple) -> Any:
        """Return the elements that a device reads; zeros past the ends of the axis."""
        # Windows that advance by a piece per device start at one place everywhere: a static
        # slice. Else each device slices at its own.
        move = r.step - aval_of(x).shape[axis]
        x = self.enlarged(x, axis, names, r.left, r.right)
        # Where the first device begins to read, counted in its enlarged piece; each later one
        # `move` further on.
        begin = r.first + r.left
        if move == 0:
            return along(x, axis, begin, begin + r.count)
        shape = list(aval_of(x).shape)
        starts: list[Any] = [np.int32(0)] * len(shape)
        starts[axis] = do.add(do.mul(position(names, self.sizes), np.int32(move)), np.int32(begin))
        shape[axis] = r.count
        return do.dynamic_slice(x, *starts, slice_sizes=tuple(shape))

    def enlarged(self, x: Any, axis: int, names: tuple, left: int, right: int) -> Any:
        """Return a piece with some elements of those before and behind it."""
        known = self.splitter.shifts
        key = (id(x), axis, "rims", left, right)
        if key not in known:
            length = aval_of(x).shape[axis]
            parts = [x]
            # A rim wider than a piece comes from several devices, each sending the part still
            # missing.
            for hop in range(1, -(-left // length) + 1):
                size = min(length, left - (hop - 1) * length)
                parts.insert(0, self.passed(along(x, axis, length - size, length), names, hop))
            for hop in range(1, -(-right // length) + 1):
                size = min(length, right - (hop - 1) * length)
                parts.append(self.passed(along(x, axis, 0, size), names, -hop))
            whole = parts[0] if len(parts) == 1 else do.concatenate(*parts, dimension=axis)
            known[key] = (x, whole)
        return known[key][1]

    def passed(self, x: Any, names: tuple, hops: int) -> Any:
        """Return the piece of the device `hops` before; zeros if there is none."""
        count = prod(self.sizes[n] for n in names)
        # Not a ring: beyond the ends of the axis are zeros, which `ppermute` gives for free.
        pairs = tuple((i, i + hops) for i in range(count) if 0 <= i + hops < count)
        if not pairs:
            return like(zero(aval_of(x)), x)
        self.splitter.notes.append(Note("ppermute", aval_of(x), sites.replaying.site, self.why))
        return ops.ppermute_p.bind(x, axis_name=names, perm=pairs)


class _Halos(WindowedEquation):
    """One equation whose windows reach over pieces."""

    def results(self, sliding: Sequence[Sliding]) -> list[Piece] | None:
        """Return the results if some axes of windows can stay sharded; None otherwise."""
        operand, count = self.pieces[0], _operands(self.eqn)
        cut_axes = [s for s in sliding if operand.spec[s.axis]]
        read = [(s, r) for s in cut_axes if (r := self.reach(s)) is not None]
        own = {s.axis: operand.spec[s.axis] for s, _ in read}
        summed = {
            s.kernel: own[s.axis] for s, r in read if r.frame is None and s.kernel is not None
        }
        # A part of a longer axis along which no window goes would be read as if it were the whole.
        if not read or set(operand.frame) - set(own):
            return None
        if any(set(p.frame) - set(summed) for p in self.pieces[1:]):
            return None
        # The other axes are sharded as usual; axes of windows have no factors.
        stay = [own if i < count else summed if i == 1 else {} for i in range(len(self.pieces))]
        grid = self.splitter.grid
        results_of = [v.aval for v in self.eqn.outvars]
        factors = factors_of(self.eqn.primitive, self.avals, results_of, self.eqn.params)
        rest = [
            tuple(() if d in axes else names for d, names in enumerate(p.spec))
            for p, axes in zip(self.pieces, stay, strict=True)
        ]
        cut = chosen_cut(factors, self.eqn, rest, [None] * len(self.eqn.outvars), grid)
        # One mesh axis cuts one axis: factors that took it too would need another layout.
        used = {n for names in own.values() for n in names}
        if any(used.intersection(names) for names in cut.values()):
            return None
        wants = [
            tuple(axes.get(d, names) for d, names in enumerate(spec_of(of, cut)))
            for of, axes in zip(factors.ins, stay, strict=True)
        ]
        # A part cannot move; moving it would mean gathering it.
        if any(p.frame and p.spec != w for p, w in zip(self.pieces, wants, strict=True)):
            return None
        # Operands are in place: add the rims, write the padding, and run the operation on them.
        values = [self.laid(i, want) for i, want in enumerate(wants)]
        for i, fill in enumerate(self.fills(count)):
            for s, r in read:
                values[i] = self.window(values[i], i, s, r, own[s.axis], fill)
        for axis, names in summed.items():
            values[1] = self.kernel(values[1], axis, names)
        cuts = {f: grid.size(names) for f, names in cut.items()}
        params = _padded(self.eqn, factors.local(self.eqn.params, cuts), read)
        spec = list(spec_of(factors.outs[0], cut))
        frame: dict[int, Frame] = {}
        for s, r in read:
            if r.frame is not None:
                spec[s.out], frame[s.out] = own[s.axis], r.frame
        made = self.splitter.bound(self.eqn, values, params)
        results = [self.part(x, tuple(spec), self.eqn.outvars[0].aval, frame) for x in made]
        # Sums over cut channels, or over a cut kernel, are owed the other devices' share.
        owed = [n for f, names in cut.items() if f in factors.owed for n in names]
        owed += [n for names in summed.values() for n in names]
        for piece in results if owed else ():
            why = f"{self.eqn.primitive.name} along a cut axis"
            how = next(iter(factors.owed.values()), "sum")
            piece.owed = Owed(how, tuple(owed), self.eqn.site, why)
        return results

    def kernel(self, x: Any, axis: int, names: tuple) -> Any:
        """Return a cut kernel with zeros around, where it is a part of something longer."""
        if axis not in self.pieces[1].frame:
            return x
        start, _ = self.pieces[1].frame[axis]
        inside = self.between(x, axis, names, start, start + self.avals[1].shape[axis])
        return do.select_n(inside, like(zero(aval_of(x)), x), x)

    def reach(self, s: Sliding) -> Reach | None:
        """Return what devices read along one axis of windows; None to gather it."""
        operand, length = self.pieces[0], self.avals[0].shape[s.axis]
        names = operand.spec[s.axis]
        parts = prod(self.sizes[n] for n in names)
        here = operand.frame.get(s.axis, (0, length))
        results = self.eqn.outvars[0].aval.shape[s.out]
        # Keys have no zeros to pad with.
        plain = dtypes.kind_of(self.avals[0].dtype) in "biufc"
        if not results or not length or not plain:
            return None
        if s.kernel is None or not self.pieces[1].spec[s.kernel]:
            return reach(s, length, results, here, parts)
        long = self.avals[1].shape[s.kernel]
        out = self.eqn.outvars[0].aval
        if self.pieces[1].spec[s.kernel] != names or combined(self.avals, out) != "sum":
            return None
        return reach_of_sums(s, results, here, self.pieces[1].frame.get(s.kernel, (0, long)), parts)

    def laid(self, number: int, want: Spec) -> Any:
        """Return an operand resharded as wanted; a part of a longer axis is sharded that way
        already.
        """
        piece = self.pieces[number]
        if piece.frame:
            return self.settled(piece, number).value
        why = f"{self.eqn.primitive.name} needs it so"
        return self.splitter.to(piece, want, self.avals[number], why).value

    def fills(self, count: int) -> list[Any]:
        """Return the padding value of each operand; None for zeros."""
        name = self.eqn.primitive.name
        if name == "reduce_window":
            return [self.scalar(count + i) for i in range(count)]
        if name == "pad":
            static = self.pieces[1].static
            # Zeros come from beyond the ends anyway, but -0.0 is another value. Only +0 consists of
            # zero bits, also as a complex number.
            plain = static is not None and not any(static.tobytes())
            return [None if plain else self.scalar(1)]
        sign = {"reduce_window_max": -1, "reduce_window_min": 1}.get(name)
        return [None if sign is None else extreme(self.avals[0], sign)]

    def scalar(self, number: int) -> Any:
        return self.splitter.to(
            self.pieces[number], (), self.avals[number], "the value of a padding"
        ).value

    def window(self, x: Any, number: int, s: Sliding, r: Reach, names: tuple, fill: Any) -> Any:
        """Return the part of an operand that this device reads along one axis, padded."""
        length = self.avals[number].shape[s.axis]
        why = f"{self.eqn.primitive.name} reaches over pieces"
        x = Rims(self.splitter, why).window(x, r, s.axis, names)
        start, size = self.pieces[number].frame.get(s.axis, (0, length))
        outside = s.low > 0 or s.high > 0
        # Nothing was received from beyond the ends of the axis: zeros.
        if (start, size) == (0, length) and (fill is None or not outside):
            return x
        aval = aval_of(x)
        at = do.iota(dtype=np.dtype(np.int32), shape=aval.shape, dimension=s.axis, sharding=None)
        first = do.add(do.mul(position(names, self.sizes), np.int32(r.step)), np.int32(r.first))
        at = do.add(at, first)
        inside = do.and_(do.ge(at, np.int32(start)), do.lt(at, np.int32(start + length)))
        return do.select_n(inside, like(zero(aval) if fill is None else fill, x), x)

    # ---- running folds ----
    def running(self) -> list[Piece] | None:
        """Fold on pieces, and each with the totals of all before."""
        if self.eqn.primitive.fold is None:
            return self.merging()
        (piece,), axis = self.pieces, self.eqn.params["axis"]
        names, aval = piece.spec[axis], self.avals[0]
        fold = _FOLDS.get(self.eqn.primitive.name)
        kind = dtypes.kind_of(aval.dtype)
        if not names or fold is None or kind not in "iuf" or set(piece.frame) - {axis}:
            return None
        x, dtype = self.settled(piece, 0).value, aval.dtype
        neutral = fold.neutral(aval)
        if axis in piece.frame:
            start, _ = piece.frame[axis]
            # Elements of the longer axis outside of the part must not count.
            inside = self.between(x, axis, names, start, start + aval.shape[axis])
            x = do.select_n(inside, like(neutral, x), x)
        # Narrow totals are added up in single precision, as the elements are.
        wide = np.dtype(np.float32) if kind == "f" and dtype.itemsize < 4 else dtype
        if wide != dtype:
            convert = {"weak_type": False, "sharding": None}
            x = do.convert_element_type(x, new_dtype=wide, **convert)
        (x,) = self.along_pieces([x], axis, names, lambda total, x: [fold.merge(*total, *x)])
        if wide != dtype:
            x = do.convert_element_type(x, new_dtype=dtype, weak_type=aval.weak_type, sharding=None)
        return [self.part(x, piece.spec, self.eqn.outvars[0].aval, piece.frame)]

    def merging(self) -> list[Piece] | None:
        """The same for a Graph that merges several arrays, which have to be cut alike."""
        axis, jaxpr = self.eqn.params["axis"], self.eqn.params["jaxpr"]
        spec = self.pieces[0].spec
        if not spec[axis] or any(p.spec != spec or p.frame for p in self.pieces):
            return None
        xs = [self.settled(p, k).value for k, p in enumerate(self.pieces)]
        out = self.along_pieces(xs, axis, spec[axis], lambda p, q: bind_on_arrays(jaxpr, *p, *q))
        avals = [v.aval for v in self.eqn.outvars]
        return [self.part(y, spec, aval, {}) for y, aval in zip(out, avals, strict=True)]

    def along_pieces(self, xs: list, axis: int, names: tuple, merge: Callable) -> list:
        """Scan pieces, gather their totals and scan those, merge the total of all before into
        each piece.
        """
        xs = self.splitter.bound(self.eqn, xs, self.eqn.params)
        reverse, length = self.eqn.params["reverse"], aval_of(xs[0]).shape[axis]
        # The last element of a scan is the total of the piece.
        end = (0, 1) if reverse else (length - 1, length)
        why = f"{self.eqn.primitive.name} needs the totals of other pieces"
        totals = []
        for x in xs:
            last = along(x, axis, *end)
            self.splitter.notes.append(Note("all_gather", aval_of(last), self.eqn.site, why))
            totals.append(gathered(last, axis, names, self.sizes))
        totals = self.splitter.bound(self.eqn, totals, self.eqn.params)
        # The total of all preceding pieces; the index is clamped for the first one.
        mine, shape = position(names, self.sizes), list(aval_of(totals[0]).shape)
        starts: list[Any] = [np.int32(0)] * len(shape)
        starts[axis] = do.add(mine, np.int32(1 if reverse else -1))
        count, shape[axis] = shape[axis], 1
        at = do.max(starts[axis], np.int32(0))
        starts[axis] = do.min(at, np.int32(count - 1))
        before = [
            do.broadcast_in_dim(
                do.dynamic_slice(total, *starts, slice_sizes=tuple(shape)),
                shape=aval_of(xs[0]).shape,
                broadcast_dimensions=tuple(range(len(shape))),
                sharding=None,
            )
            for total in totals
        ]
        # The first device has its results already, to the bit.
        first = like(do.eq(mine, np.int32(count - 1 if reverse else 0)), xs[0])
        return [do.select_n(first, m, x) for m, x in zip(merge(before, xs), xs, strict=True)]


def _operands(eqn: Eqn) -> int:
    """Return how many operands have windows; the others are kernels and values."""
    return len(eqn.invars) // 2 if eqn.primitive.name == "reduce_window" else 1


def _dilated(length: int, dilation: int) -> int:
    return (length - 1) * dilation + 1


# ---- where windows are, in the parameters of each primitive ----


def _of_padding(eqn: Eqn) -> list[Sliding]:
    config = eqn.params["padding_config"]
    return [
        Sliding(d, d, 1, 1, low, high, inner + 1)
        for d, (low, high, inner) in enumerate(config)
        if low or high or inner
    ]


def _of_windows(eqn: Eqn) -> list[Sliding]:
    params, found = eqn.params, []
    ones = (1,) * len(params["window_dimensions"])
    for d, size in enumerate(params["window_dimensions"]):
        dilation = params.get("window_dilation", ones)[d]
        base, stride = params.get("base_dilation", ones)[d], params["window_strides"][d]
        low, high = params["padding"][d]
        if (size, stride, low, high, base) != (1, 1, 0, 0, 1):
            extent = _dilated(size, dilation)
            found.append(Sliding(d, d, extent, stride, low, high, base, dilation))
    return found


def _of_convolution(eqn: Eqn) -> list[Sliding]:
    params, found = eqn.params, []
    lhs, rhs, out = params["dimension_numbers"]
    for k in range(len(params["window_strides"])):
        size = eqn.invars[1].aval.shape[rhs[2 + k]]
        if not size:
            return []
        dilation, base = params["rhs_dilation"][k], params["lhs_dilation"][k]
        stride, (low, high) = params["window_strides"][k], params["padding"][k]
        if (size, stride, low, high, base) == (1, 1, 0, 0, 1):
            continue
        extent = _dilated(size, dilation)
        axes = lhs[2 + k], out[2 + k]
        found.append(Sliding(*axes, extent, stride, low, high, base, dilation, rhs[2 + k]))
    return found


def _padded(eqn: Eqn, params: dict, read: Sequence[tuple[Sliding, Reach]]) -> dict:
    """Return parameters with the remaining padding of axes whose windows have been read."""
    if eqn.primitive.name == "pad":
        config = list(params["padding_config"])
        for s, r in read:
            config[s.axis] = (*r.padding, config[s.axis][2])
        return params | {"padding_config": tuple(config)}
    padding = list(params["padding"])
    lhs = params["dimension_numbers"][0] if eqn.primitive.name == "conv_general_dilated" else None
    for s, r in read:
        padding[s.axis if lhs is None else lhs.index(s.axis) - 2] = r.padding
    return params | {"padding": tuple(padding)}


_GEOMETRY = {
    "pad": _of_padding,
    "conv_general_dilated": _of_convolution,
    **dict.fromkeys(
        ("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"),
        _of_windows,
    ),
}


class _Fold(NamedTuple):
    """How a running fold continues from a total, and its identity."""

    merge: Callable[[Any, Any], Any]
    neutral: Callable[[ShapedArray], Any]


_FOLDS = {
    "cumsum": _Fold(lambda a, b: do.add(a, b), zero),
    "cumprod": _Fold(lambda a, b: do.mul(a, b), lambda aval: aval.dtype.type(1)),
    "cummax": _Fold(lambda a, b: do.max(a, b), lambda aval: extreme(aval, -1)),
    "cummin": _Fold(lambda a, b: do.min(a, b), lambda aval: extreme(aval, 1)),
    "cumlogsumexp": _Fold(logaddexp, lambda aval: extreme(aval, -1)),
}
