"""cuDNN in the stand-in: convolutions and their two derivatives.

In: what the C functions take. Out: NumPy's results, as work of the stream given; statuses as the
library documents them for what does not fit, and faults for what no caller may do.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tests.fake_cupy.c_library import CLibrary, Wrong
from tests.fake_cupy.libraries import _turned
from tests.fake_cupy.memory import use_of, view
from tests.fake_cupy.world import world

BAD, UNSUPPORTED, INTERNAL = 2000, 3000, 4000
library = CLibrary("cuDNN", INTERNAL)
TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
#: What every algorithm wants as workspace, and which one gives the same bits each time.
WORKSPACE, DETERMINISTIC = 1 << 10, 1
#: Workspace of the algorithm that is proposed first, which is too much.
TOO_MUCH = 1 << 40


@dataclass
class Handle:
    device: int
    stream: int = 0


@dataclass
class Tensor:
    """Images, or filters: distances follow from the order of memory."""

    type: int = -1
    lengths: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()

    @property
    def last(self) -> bool:
        return self.apart[1] == 1 and self.lengths[1] > 1

    def use(self, address: int, writes: bool):
        dtype = np.dtype(TYPES[self.type])
        size = 1 + sum((n - 1) * s for n, s in zip(self.lengths, self.apart, strict=True))
        nbytes = size * dtype.itemsize
        strides = tuple(s * dtype.itemsize for s in self.apart)
        array = np.ndarray(self.lengths, dtype, view(address, nbytes).data, 0, strides)
        return use_of(address, nbytes, writes), array


class Filter(Tensor):
    pass


@dataclass
class Convolution:
    padding: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    compute: int = -1
    groups: int = 1
    math: int = 0


#: The version of CUDA that it is built for, and how it is asked for: no status is returned.
cuda = [13000]
library.functions["cudnnGetCudartVersion"] = ctypes.CFUNCTYPE(c_size_t)(lambda: cuda[0])


def _numbers(at: int, count: int) -> tuple[int, ...]:
    return tuple((c_int * count).from_address(at))


@library.function(c_void_p)
def cudnnCreate(out):
    library.make(out, Handle(world.thread.device))


@library.function(c_void_p)
def cudnnDestroy(handle):
    library.destroy(handle, Handle)


@library.function(c_void_p, c_void_p)
def cudnnSetStream(handle, stream):
    world.find(stream or 0)
    library.find(handle, Handle).stream = stream or 0


@library.function(c_void_p)
def cudnnCreateTensorDescriptor(out):
    library.make(out, Tensor())


@library.function(c_void_p)
def cudnnCreateFilterDescriptor(out):
    library.make(out, Filter())


@library.function(c_void_p)
def cudnnCreateConvolutionDescriptor(out):
    library.make(out, Convolution())


@library.function(c_void_p)
def cudnnDestroyTensorDescriptor(made):
    library.destroy(made, Tensor)


@library.function(c_void_p)
def cudnnDestroyFilterDescriptor(made):
    library.destroy(made, Filter)


@library.function(c_void_p)
def cudnnDestroyConvolutionDescriptor(made):
    library.destroy(made, Convolution)


@library.function(c_void_p, c_int, c_int, c_void_p, c_void_p)
def cudnnSetTensorNdDescriptor(made, type, count, lengths, apart):
    thing = library.find(made, Tensor)
    thing.type, thing.lengths, thing.apart = (
        type, _numbers(lengths, count), _numbers(apart, count),
    )  # fmt: skip
    if type not in TYPES or not 4 <= count <= 8 or min(thing.lengths) < 1:
        raise Wrong(BAD)


@library.function(c_void_p, c_int, c_int, c_int, c_void_p)
def cudnnSetFilterNdDescriptor(made, type, layout, count, lengths):
    thing = library.find(made, Filter)
    thing.type, thing.lengths = type, _numbers(lengths, count)
    if type not in TYPES or layout not in (0, 1) or not 4 <= count <= 8:
        raise Wrong(BAD)
    order = (0, *range(2, count), 1) if layout else range(count)
    apart, distance = [0] * count, 1
    for axis in reversed(order):
        apart[axis] = distance
        distance *= thing.lengths[axis]
    thing.apart = tuple(apart)


@library.function(c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int, c_int)
def cudnnSetConvolutionNdDescriptor(made, count, padding, strides, dilation, mode, compute):
    thing = library.find(made, Convolution)
    thing.padding, thing.strides, thing.dilation = (
        _numbers(at, count) for at in (padding, strides, dilation)
    )
    thing.compute = compute
    if mode != 1 or not 2 <= count <= 3 or min(thing.padding) < 0:
        raise Wrong(BAD)
    if min(*thing.strides, *thing.dilation) < 1:
        raise Wrong(BAD)


@library.function(c_void_p, c_int)
def cudnnSetConvolutionGroupCount(made, groups):
    library.find(made, Convolution).groups = groups


@library.function(c_void_p, c_int)
def cudnnSetConvolutionMathType(made, kind):
    if kind not in (0, 1, 2, 3):
        raise Wrong(BAD)
    library.find(made, Convolution).math = kind


def _check(x: Tensor, w: Filter, y: Tensor, how: Convolution) -> None:
    """Raise where lengths and types do not fit together."""
    space = zip(x.lengths[2:], w.lengths[2:], how.padding, how.strides, how.dilation, strict=True)
    sides = tuple((n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, p, s, d in space)
    if y.lengths != (x.lengths[0], w.lengths[0], *sides):
        raise Wrong(BAD)
    if x.lengths[1] != w.lengths[1] * how.groups or w.lengths[0] % how.groups:
        raise Wrong(BAD)
    if {x.type, w.type, y.type} != {x.type} or how.compute != (x.type == 1):
        raise Wrong(UNSUPPORTED)
    if not all(map(_is_packed, (x, w, y))) or len({t.last for t in (x, y) if t.lengths[1] > 1}) > 1:
        raise Wrong(UNSUPPORTED)


def _is_packed(t: Tensor) -> bool:
    """Channels first or last, with nothing between the elements."""
    listed = sorted((s, n) for s, n in zip(t.apart, t.lengths, strict=True) if n > 1)
    distance = 1
    for s, n in listed:
        if s != distance:
            return False
        distance *= n
    return True


def _taps(x: np.ndarray, w: np.ndarray, y: np.ndarray, how: Convolution):
    """For each place in the window: the part of the padded x that it meets, its filter, and y; all
    with the groups as an axis.
    """
    groups = how.groups
    for tap in np.ndindex(w.shape[2:]):
        met = tuple(
            slice(t * d, t * d + (m - 1) * s + 1, s)
            for t, d, s, m in zip(tap, how.dilation, how.strides, y.shape[2:], strict=True)
        )
        part = x[(slice(None), slice(None), *met)]
        yield (
            part.reshape(part.shape[0], groups, -1, *part.shape[2:]),
            w[(slice(None), slice(None), *tap)].reshape(groups, -1, w.shape[1]),
            y.reshape(y.shape[0], groups, -1, *y.shape[2:]),
            (slice(None), slice(None), *met),
            (slice(None), slice(None), *tap),
        )


def _padded(x: np.ndarray, how: Convolution, w, y) -> np.ndarray:
    low = how.padding
    reach = [
        (m - 1) * s + (k - 1) * d + 1
        for m, s, k, d in zip(y.shape[2:], how.strides, w.shape[2:], how.dilation, strict=True)
    ]
    high = [max(r - n - a, 0) for r, n, a in zip(reach, x.shape[2:], low, strict=True)]
    return np.pad(x, ((0, 0), (0, 0), *zip(low, high, strict=True)))


def forward(x, w, y, how):
    made = np.zeros(y.shape, x.dtype)
    for part, filters, _, _, _ in _taps(_padded(x, how, w, y), w, y, how):
        made += np.einsum("ngc...,gkc->ngk...", part, filters).reshape(made.shape)
    return made


def by_data(w, y, x, how):
    wide = _padded(np.zeros(x.shape, w.dtype), how, w, y)
    for _, filters, given, met, _ in _taps(wide, w, y, how):
        part = np.einsum("ngk...,gkc->ngc...", given, filters)
        wide[met] += part.reshape(wide[met].shape)
    inner = tuple(slice(a, a + n) for a, n in zip(how.padding, x.shape[2:], strict=True))
    return wide[(slice(None), slice(None), *inner)]


def by_filter(x, y, w, how):
    made = np.zeros(w.shape, x.dtype)
    for part, _, given, _, tap in _taps(_padded(x, how, w, y), w, y, how):
        n, g, c = part.shape[:3]
        flat = part.reshape(n, g, c, -1), given.reshape(n, g, given.shape[2], -1)
        made[tap] = np.einsum("ngcs,ngks->gkc", *flat).reshape(made[tap].shape)
    return made


#: By what is computed: the order of x, w and y, and how.
KINDS = {
    "Forward": ("xwy", forward),
    "BackwardData": ("wyx", by_data),
    "BackwardFilter": ("xyw", by_filter),
}


def _found(order: str, one, two, how, result) -> tuple[dict, Convolution]:
    kinds = {"x": Tensor, "y": Tensor, "w": Filter}
    made = {k: library.find(at, kinds[k]) for k, at in zip(order, (one, two, result), strict=True)}
    how = library.find(how, Convolution)
    _check(made["x"], made["w"], made["y"], how)
    return made, how


def _define(name: str, order: str, compute) -> None:
    def proposed(handle, one, two, how, result, many, count, at):
        library.find(handle, Handle)
        _, how = _found(order, one, two, how, result)
        if many < 3:
            raise Wrong(BAD)
        # Algorithm, status, time, workspace, whether it is deterministic, which mathematics.
        listed = [(5, 0, TOO_MUCH, 1), (0, 0, WORKSPACE, 0), (1, 0, WORKSPACE, 1)]
        for k, (algorithm, status, size, same) in enumerate(listed):
            here = at + 48 * k
            ctypes.memset(here, 0, 48)
            c_int.from_address(here).value = algorithm
            c_int.from_address(here + 4).value = status
            c_size_t.from_address(here + 16).value = size
            c_int.from_address(here + 24).value = same
            c_int.from_address(here + 28).value = how.math
        c_int.from_address(count).value = len(listed)

    def needed(handle, one, two, how, result, algorithm, size):
        library.find(handle, Handle)
        _found(order, one, two, how, result)
        c_size_t.from_address(size).value = WORKSPACE

    def run(handle, alpha, one, first, two, second, how, algorithm, space, size, beta, result, out):
        world.count("library")
        handle = library.find(handle, Handle)
        made, how = _found(order, one, two, how, result)
        if handle.device != world.thread.device:
            raise ValueError(f"the handle is of device {handle.device}")
        if algorithm != DETERMINISTIC or size != WORKSPACE or not space:
            raise ValueError(f"algorithm {algorithm}, a workspace of {size} bytes at {space}")
        wide = np.dtype(TYPES[how.compute])
        factors = [
            np.frombuffer(ctypes.string_at(p, wide.itemsize), wide)[0] for p in (alpha, beta)
        ]
        if factors != [1, 0]:
            raise ValueError(f"alpha and beta are {factors}")
        if world.idle:
            return
        with world.lock:
            uses, arrays = [use_of(space, size, True)], []
            for k, at in zip(order, (first, second, out), strict=True):
                use, array = made[k].use(at, at == out)
                uses.append(use)
                arrays.append(array)
            coarse = made["x"].type == 0 and how.math != 3

            def work() -> None:
                a, b = (_turned(v.astype(wide), 0, coarse) for v in arrays[:2])
                with np.errstate(all="ignore"):
                    arrays[2][...] = compute(a, b, arrays[2], how).astype(arrays[2].dtype)

            world.put(world.find(handle.stream), f"convolution {name}", work, uses)

    proposed.__name__ = f"cudnnGetConvolution{name}Algorithm_v7"
    needed.__name__ = f"cudnnGetConvolution{name}WorkspaceSize"
    run.__name__ = f"cudnnConvolution{name}"
    library.function(*(c_void_p,) * 5, c_int, c_void_p, c_void_p)(proposed)
    library.function(*(c_void_p,) * 5, c_int, c_void_p)(needed)
    library.function(
        *(c_void_p,) * 7, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p
    )(run)  # fmt: skip


for _name, (_order, _compute) in KINDS.items():
    _define(_name, _order, _compute)
