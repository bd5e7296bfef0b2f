"""Convolutions: calls of cuDNN, or products of matrices of windows.

Floor 4. In: the equation of a convolution. Out: if cuDNN is installed, the corresponding call
(forward, or the derivative of one by its images or its filters), with the transpositions of
operands that it needs; else a product of the windows and the kernels as matrices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda import cudnn, shared_libraries
from gpuarray.backends.cuda.cudnn import ConvolutionCall, Cudnn, PreparedConvolution
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.products import permuted, product, shaped
from gpuarray.core import promotion
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.contract.convolution import ConvDimensionNumbers
from gpuarray.primitives.contract.ops import working_dtype
from gpuarray.primitives.contract.precision import Precision, allows_tf32
from gpuarray.primitives.define import do

#: Its key in `Gpu.libraries`.
_NAME = "cuDNN"


def conv_parts(lhs, rhs, *, result: ShapedArray, **p):
    """`conv_general_dilated`: a call of cuDNN where that is installed and does it."""
    if 0 in (result.size, aval_of(lhs).size, aval_of(rhs).size):  # empty sums, if any
        nothing = np.zeros((), result.dtype)
        return do.broadcast_in_dim(
            nothing, shape=result.shape, broadcast_dimensions=(), sharding=None
        )
    if cudnn.installed():
        made = _by_library(lhs, rhs, result, p)
        if made is not None:
            return made
    return _by_windows(lhs, rhs, result, **p)


# ---- cuDNN's call ----
def _call_aval(*_: ShapedArray, call: ConvolutionCall) -> ShapedArray:
    lengths = {"forward": call.y, "data": call.x, "filter": call.w}[call.kind]
    return ShapedArray(_in_memory(lengths, call.last), np.dtype(call.dtype))


def _in_memory(lengths: Sequence[Any], last: bool) -> tuple[Any, ...]:
    """Return lengths, given channels first, in memory order."""
    return (lengths[0], *lengths[2:], lengths[1]) if last else tuple(lengths)


#: A ConvolutionCall of its two operands, all in its order of axes.
convolution_p = Primitive("convolution", Kind.LIBRARY, aval=_call_aval, register=False)


def library(gpu: Gpu) -> Cudnn:
    """Return the library on a GPU; raise Refused where it is not here."""
    return shared_libraries.kept(gpu.libraries, _NAME, lambda: Cudnn(gpu))


def routine(
    eqn: Eqn, gpu: Gpu, instead: Callable[[], Callable[..., list]]
) -> Callable[..., Buffer]:
    """Return `convolution` as one call of cuDNN.

    Parameters
    ----------
    instead :
        Makes the program of its parts, which runs where the library does not do this convolution.
    """
    call = eqn.params["call"]
    aval = _call_aval(call=call)
    made: list[PreparedConvolution] = []

    def called(first: Buffer, second: Buffer) -> Buffer:
        there = library(gpu)
        if not made:
            made.append(there.prepared(call))
        ready = made[0]  # another thread may have prepared it too
        out = gpu.empty(aval.shape, aval.dtype)

        def run() -> None:
            # Freed immediately: its next user comes later in the stream.
            space = gpu.allocate(ready.workspace) if ready.workspace else None
            addresses = first.pointer, second.pointer, out.pointer
            with gpu.device:
                there.run(ready, addresses, 0 if space is None else space.ptr, gpu.stream.ptr)

        gpu.retried(run)
        return out

    return shared_libraries.or_instead(_NAME, called, instead)


def _by_library(lhs: Any, rhs: Any, out: ShapedArray, p: dict) -> Any:
    """Return a convolution as a call of cuDNN; None if there is none."""
    avals = aval_of(lhs), aval_of(rhs)
    dtypes = {a.dtype for a in (*avals, out)}
    if len(dtypes) > 1 or avals[0].dtype.name not in cudnn.ELEMENT:
        return None
    if not 1 <= len(p["window_strides"]) <= 3:
        return None
    p = {**p, "dtype": avals[0].dtype.name}
    spread, stretched = (any(d > 1 for d in p[k]) for k in ("lhs_dilation", "window_strides"))
    window, made = (
        math.prod(a.shape[d] for d in spec[2:])
        for a, spec in zip((avals[1], out), p["dimension_numbers"][1:], strict=True)
    )
    if spread:
        if stretched or p["batch_group_count"] > 1:
            return None
        alone = p["feature_group_count"] == 1 and not any(d > 1 for d in p["rhs_dilation"])
        return (_filter_spread if alone and made < window else _data)(lhs, rhs, out, p)
    # A derivative by filters has large windows, and few places for them.
    if p["feature_group_count"] == 1 and (p["batch_group_count"] > 1 or made < window):
        return _filter(lhs, rhs, out, p)
    return _forward(lhs, rhs, out, p) if p["batch_group_count"] == 1 else None


def _ordered(x: Any, spec: Sequence[int], last: bool) -> tuple[Any, tuple[int, ...]]:
    """Return an operand in the order of memory, and its lengths, channels first."""
    lengths = tuple(aval_of(x).shape[d] for d in spec)
    return permuted(x, _in_memory(spec, last)), lengths


def _back(x: Any, spec: Sequence[int], last: bool) -> Any:
    """Return a result in the caller's order of axes."""
    order = _in_memory(tuple(spec), last)
    return permuted(x, tuple(order.index(d) for d in range(len(order))))


def _padded(x: Any, low: Sequence[int], high: Sequence[int], last: bool) -> Any:
    """Return an operand in the order of memory with zeros around it, or without its edges."""
    if not any((*low, *high)):
        return x
    config = ((0, 0, 0), (0, 0, 0), *((a, b, 0) for a, b in zip(low, high, strict=True)))
    zero = np.zeros((), aval_of(x).dtype)
    return do.pad(x, zero, padding_config=_in_memory(config, last))


class _Space:
    """The positions of windows along the spatial axes, and whether the padding is equal on both
    sides.

    Attributes
    ----------
    rest :
        The padding behind x that windows reach: less than requested if no window uses the last
        elements.
    padding, first, many :
        Padding on both sides with which these windows are some of all: from number `first` on, of
        `many`.
    """

    def __init__(self, x, window, y, strides, dilation, low):
        sized = list(zip(x, window, y, strides, dilation, low, strict=True))
        self.rest = [(m - 1) * s + (k - 1) * d + 1 - n - a for n, k, m, s, d, a in sized]
        more = [max(0, r - a, -a) for r, a in zip(self.rest, low, strict=True)]
        self.first = [-(-b // s) for b, s in zip(more, strides, strict=True)]
        self.padding = [a + f * s for a, f, s in zip(low, self.first, strides, strict=True)]
        self.many = [
            (n + 2 * a - (k - 1) * d - 1) // s + 1
            for (n, k, _, s, d, _), a in zip(sized, self.padding, strict=True)
        ]
        self.is_even = list(y) == self.many
        self.x, self.y = x, y

    def more_y(self) -> tuple[list[int], list[int]]:
        """How many windows there are in front of these and behind them."""
        counts = zip(self.many, self.first, self.y, strict=True)
        return self.first, [n - f - m for n, f, m in counts]

    def extends_y(self, channels: int, features: int, low: Sequence[int]) -> bool:
        """Whether images of all windows are smaller than padded images x."""
        wide = (n + a + b for n, a, b in zip(self.x, low, self.rest, strict=True))
        return features * math.prod(self.many) < channels * math.prod(wide)


def _forward(lhs: Any, rhs: Any, out: ShapedArray, p: dict) -> Any:
    """y of x and w.

    If padding differs on the two sides, x is padded in front of the call, or more windows are
    multiplied than are wanted.
    """
    lhs_spec, rhs_spec, out_spec = p["dimension_numbers"]
    last = lhs_spec[1] == aval_of(lhs).ndim - 1
    (x, xs), (w, ws) = _ordered(lhs, lhs_spec, last), _ordered(rhs, rhs_spec, last)
    ys = tuple(out.shape[d] for d in out_spec)
    low = [a for a, _ in p["padding"]]
    strides, dilation = tuple(p["window_strides"]), tuple(p["rhs_dilation"])
    space = _Space(xs[2:], ws[2:], ys[2:], strides, dilation, low)
    front: Sequence[int] = ()
    behind: Sequence[int] = ()
    if not space.is_even and space.extends_y(xs[1], ys[1], low):
        front, behind = ([-n for n in side] for side in space.more_y())
        low, ys = space.padding, (*ys[:2], *space.many)
    elif not space.is_even:
        x, low = _padded(x, low, space.rest, last), [0] * len(low)
        xs = _lengths(x, last)
    made = convolution_p.bind(
        x, w, call=_call("forward", last, xs, ws, ys, low, strides, dilation, p)
    )
    return _back(_padded(made, front, behind, last), out_spec, last)


def _filter(lhs: Any, rhs: Any, out: ShapedArray, p: dict) -> Any:
    """w of x and y: `lhs` has images where others have channels, and so has `rhs`."""
    turned = [(s[1], s[0], *s[2:]) for s in p["dimension_numbers"]]
    last = turned[0][1] == aval_of(lhs).ndim - 1
    (x, xs), (y, ys) = _ordered(lhs, turned[0], last), _ordered(rhs, turned[1], last)
    ws = tuple(out.shape[d] for d in turned[2])
    low = [a for a, _ in p["padding"]]
    strides, dilation = tuple(p["rhs_dilation"]), tuple(p["window_strides"])
    space = _Space(xs[2:], ws[2:], ys[2:], strides, dilation, low)
    if not space.is_even:
        x, low = _padded(x, low, space.rest, last), [0] * len(low)
        xs = _lengths(x, last)
    made = convolution_p.bind(
        x, y, call=_call("filter", last, xs, ws, ys, low, strides, dilation, p)
    )
    return _back(made, turned[2], last)


def _filter_spread(lhs: Any, rhs: Any, out: ShapedArray, p: dict) -> Any:
    """w from x and y, where `lhs` is y and is dilated: w is indexed from the end."""
    lhs_spec, rhs_spec, (images, features, *space) = p["dimension_numbers"]
    padding = [(out.shape[d] - 1 - low, 0) for d, (low, _) in zip(space, p["padding"], strict=True)]
    numbers = ConvDimensionNumbers(rhs_spec, lhs_spec, (features, images, *space))
    turned = {"dimension_numbers": numbers, "padding": padding, "rhs_dilation": p["lhs_dilation"]}
    return do.rev(_filter(rhs, lhs, out, {**p, **turned}), dimensions=tuple(space))


def _data(lhs: Any, rhs: Any, out: ShapedArray, p: dict) -> Any:
    """x of w and y: `rhs` is the filter seen from the other end, its channels exchanged."""
    lhs_spec, rhs_spec, out_spec = p["dimension_numbers"]
    groups = p["feature_group_count"]
    last = lhs_spec[1] == aval_of(lhs).ndim - 1
    y, ys = _ordered(lhs, lhs_spec, last)
    w = _exchanged(permuted(rhs, tuple(rhs_spec)), groups)
    w, ws = _ordered(w, range(aval_of(w).ndim), last)
    xs = tuple(out.shape[d] for d in out_spec)
    strides, dilation = tuple(p["lhs_dilation"]), tuple(p["rhs_dilation"])
    reach = [(k - 1) * d for k, d in zip(ws[2:], dilation, strict=True)]
    low = [r - a for r, (a, _) in zip(reach, p["padding"], strict=True)]
    space, whole = _Space(xs[2:], ws[2:], ys[2:], strides, dilation, low), xs
    front: Sequence[int] = ()
    behind: Sequence[int] = ()
    if not space.is_even and space.extends_y(xs[1], ys[1], low):  # windows that have no y
        y, low = _padded(y, *space.more_y(), last), space.padding
        ys = _lengths(y, last)
    elif not space.is_even:  # the windows' full extent, of which a part is wanted
        sized = zip(ys[2:], strides, reach, strict=True)
        whole = (*xs[:2], *((m - 1) * s + r + 1 for m, s, r in sized))
        high = [n - m + a for n, m, a in zip(xs[2:], whole[2:], low, strict=True)]
        front, behind, low = [-a for a in low], high, [0] * len(low)
    call = _call("data", last, whole, ws, ys, low, strides, dilation, p)
    made = convolution_p.bind(w, y, call=call)
    return _back(_padded(made, front, behind, last), out_spec, last)


def _exchanged(w: Any, groups: int) -> Any:
    """Return filters [features, channels, *window] with these exchanged, seen from the end."""
    features, channels, *window = aval_of(w).shape
    w = do.rev(w, dimensions=tuple(range(2, 2 + len(window))))
    apart = shaped(w, (groups, features // groups, channels, *window))
    apart = permuted(apart, (0, 2, 1, *range(3, 3 + len(window))))
    return shaped(apart, (groups * channels, features // groups, *window))


def _lengths(x: Any, last: bool) -> tuple[int, ...]:
    """Return the lengths of an operand in the order of memory, channels first."""
    shape = aval_of(x).shape
    return (shape[0], shape[-1], *shape[1:-1]) if last else shape


def _call(kind: str, last: bool, x, w, y, padding, strides, dilation, p: dict) -> ConvolutionCall:
    groups = max(p["feature_group_count"], p["batch_group_count"])
    tf32 = allows_tf32(p.get("precision"))
    return ConvolutionCall(
        kind, p["dtype"], last, x, w, y, tuple(padding), strides, dilation, groups, tf32
    )


def call_parts(first: Any, second: Any, *, call: ConvolutionCall) -> Any:
    """`convolution` without cuDNN, by windows."""
    rank = len(call.strides)
    plain = tuple(range(rank + 2))
    # The position of each axis, given channels first, in memory order.
    spec = (0, rank + 1, *range(1, rank + 1)) if call.last else plain
    turned = (spec[1], spec[0], *spec[2:])
    ones, out = (1,) * rank, _call_aval(call=call)
    space = _Space(call.x[2:], call.w[2:], call.y[2:], call.strides, call.dilation, call.padding)
    asked: dict[str, Any] = {
        "dimension_numbers": ConvDimensionNumbers(spec, spec, spec),
        "padding": tuple(zip(call.padding, space.rest, strict=True)),
        "window_strides": call.strides,
        "lhs_dilation": ones,
        "rhs_dilation": call.dilation,
        "feature_group_count": call.groups,
        "batch_group_count": 1,
        "precision": None if call.tf32 else (Precision.HIGHEST, Precision.HIGHEST),
    }
    if call.kind == "filter":
        asked |= {
            "dimension_numbers": ConvDimensionNumbers(turned, turned, turned),
            "window_strides": call.dilation,
            "rhs_dilation": call.strides,
            "feature_group_count": 1,
            "batch_group_count": call.groups,
        }
    if call.kind == "data":
        w, y = permuted(first, spec), second
        reach = [(k - 1) * d for k, d in zip(call.w[2:], call.dilation, strict=True)]
        sized = zip(reach, call.padding, space.rest, strict=True)
        asked |= {
            "dimension_numbers": ConvDimensionNumbers(spec, plain, spec),
            "padding": tuple((r - a, r - b) for r, a, b in sized),
            "window_strides": ones,
            "lhs_dilation": call.strides,
        }
        first, second = y, _exchanged(w, call.groups)
    return _by_windows(first, second, out, **asked)


# ---- windows as a matrix ----
def _by_windows(lhs, rhs, out: ShapedArray, **p):
    """Multiply windows as a matrix by the kernels as a matrix (im2col).

    The windows are built tap by tap: for each kernel position, the elements that it multiplies.
    """
    lhs_spec, rhs_spec, out_spec = p["dimension_numbers"]
    # To (batch, channels, spatial...) and (features, channels, spatial...), whatever their order.
    x, w = permuted(lhs, tuple(lhs_spec)), permuted(rhs, tuple(rhs_spec))
    groups = p["feature_group_count"]
    if p["batch_group_count"] > 1:  # move the groups from the batch to the channels
        groups = p["batch_group_count"]
        n, c, *rest = aval_of(x).shape
        split = shaped(x, (groups, n // groups, c, *rest))
        order = (1, 0, *range(2, len(rest) + 3))
        x = shaped(permuted(split, order), (n // groups, groups * c, *rest))
    dtype = aval_of(x).dtype
    # A dilated operand has d - 1 holes between elements, which `pad` makes.
    padding = [
        (low, high, d - 1) for (low, high), d in zip(p["padding"], p["lhs_dilation"], strict=True)
    ]
    # Padding, and the holes of a dilated operand.
    if any(itertools.chain(*padding)):
        nothing = np.zeros((), dtype)
        x = do.pad(x, nothing, padding_config=((0, 0, 0), (0, 0, 0), *padding))
    # `per` is the number of channels in a group.
    features, per, *kernel = aval_of(w).shape
    images = aval_of(x).shape[0]
    spatial = tuple(out.shape[i] for i in out_spec[2:])
    count = math.prod(spatial)
    taps = []
    # One strided slice for each position in the kernel.
    for tap in np.ndindex(*kernel):
        starts = [t * d for t, d in zip(tap, p["rhs_dilation"], strict=True)]
        stops = [
            s + st * (m - 1) + 1
            for s, st, m in zip(starts, p["window_strides"], spatial, strict=True)
        ]
        met = do.slice(
            x,
            start_indices=(0, 0, *starts),
            limit_indices=(*aval_of(x).shape[:2], *stops),
            strides=(1, 1, *p["window_strides"]),
        )
        taps.append(shaped(met, (images, groups, per, 1, count)))
    # A kernel of one position has one tap: the operand itself.
    windows = taps[0] if len(taps) == 1 else do.concatenate(*taps, dimension=3)
    # Depth of the product: channels of a group times positions in the kernel.
    depth = per * len(taps)
    windows = shaped(permuted(windows, (1, 2, 3, 0, 4)), (groups, depth, images * count))
    matrix = shaped(w, (groups, features // groups, depth))
    # The product over (channels in a group) x (positions in the kernel).
    working = working_dtype(
        promotion.wider(dtype, aval_of(w).dtype) if dtype != aval_of(w).dtype else dtype,
        out.dtype,
    )
    made = product(
        matrix, windows, (False, False), working, out.dtype, allows_tf32(p.get("precision"))
    )
    made = shaped(made, (features, images, *spatial))
    # To the caller's order of axes.
    made = permuted(made, (1, 0, *range(2, len(spatial) + 2)))
    back = tuple(out_spec.index(i) for i in range(len(out_spec)))
    return permuted(made, back)
