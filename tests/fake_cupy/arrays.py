"""Arrays and library functions of the stand-in: NumPy's, on the memory behind the pointers.

In: arrays on a device. Out: new arrays there. A library function waits for its stream, and touches
its arrays as work of that stream, so that what another stream does to them must be ordered with it.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator

import numpy as np

from tests.fake_cupy.errors import CUDARuntimeError, OutOfMemoryError
from tests.fake_cupy.memory import MemoryPointer, MemoryPool, block_at, view
from tests.fake_cupy.streams import get_current_stream
from tests.fake_cupy.world import Queue, Use, world

_default = MemoryPool()


def get_default_memory_pool() -> MemoryPool:
    """The pool that arrays take their memory from when nobody says otherwise."""
    return _default


class _Allocators(threading.local):
    """Where the arrays of a thread take their memory, the last one now."""

    def __init__(self):
        self.stack: list[Callable[[int], MemoryPointer]] = []


_allocators = _Allocators()
_allocator: Callable[[int], MemoryPointer] = _default.malloc


def set_allocator(allocator=None) -> None:
    """Where arrays take their memory in all threads."""
    global _allocator
    _allocator = allocator or _default.malloc


def alloc(size: int) -> MemoryPointer:
    return (_allocators.stack or [_allocator])[-1](size)


class using_allocator:
    """`with using_allocator(pool.malloc):` arrays take their memory there."""

    def __init__(self, allocator=None):
        self._allocator = allocator or _default.malloc

    def __enter__(self) -> None:
        _allocators.stack.append(self._allocator)

    def __exit__(self, *args) -> None:
        _allocators.stack.pop()


class ndarray:
    """An array on a device."""

    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self.shape = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
        self.dtype = np.dtype(dtype)
        if self.dtype.kind not in "biufcV" or self.dtype.kind == "V" and not _is_bfloat16(dtype):
            raise ValueError(f"Unsupported dtype {self.dtype}")
        if strides is None:
            strides = np.empty(self.shape, np.int8, order).strides
            strides = tuple(s * self.dtype.itemsize for s in strides)
        self.strides = tuple(strides)
        self.data = alloc(self.nbytes) if memptr is None else memptr

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape, dtype=np.int64)))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    itemsize = property(lambda self: self.dtype.itemsize)
    T = property(lambda self: call(np.transpose, self))
    real = property(lambda self: call(np.real, self))
    imag = property(lambda self: call(np.imag, self))

    def __array__(self, *args, **kwargs):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct "
            "a NumPy array explicitly."
        )

    def _host(self) -> np.ndarray:
        """The array as the host sees its memory."""
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        extent = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        raw = view(self.data.ptr, extent + self.itemsize)
        return np.ndarray(self.shape, self.dtype, raw.data, 0, self.strides)

    def get(self, stream=None) -> np.ndarray:
        """A copy on the host."""
        return call(np.array, self, wrap=False)

    def set(self, arr, stream=None) -> None:
        self[...] = arr

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True) -> ndarray:
        return call(lambda x: x.astype(dtype, copy=copy), self)

    def view(self, dtype=None) -> ndarray:
        return call(lambda x: x.view(dtype), self)

    def __getitem__(self, index) -> ndarray:
        return call(lambda x, i: x[i], self, index)

    def __setitem__(self, index, value) -> None:
        call(lambda x, i, v: operator.setitem(x, i, v), self, index, value, writes=self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id  # kDLCUDA

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None) -> _Capsule:
        """This array for another library, whose stream then waits for the current one."""
        current = get_current_stream()
        consumer = {None: 0, 1: 0}.get(stream, stream)
        if consumer not in (-1, current.ptr):
            work = world.put(world.find(current.ptr), "event", None)
            world.put(world.find(consumer), "wait", None, (), [work])
        return _Capsule(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    def item(self):
        return call(lambda x: x.item(), self)

    __bool__ = lambda self: bool(self.item())
    __int__ = lambda self: int(self.item())
    __float__ = lambda self: float(self.item())


def _is_bfloat16(dtype) -> bool:
    return np.dtype(dtype).name == "bfloat16"


for (
    _name
) in "reshape ravel transpose copy sum max min all any conj swapaxes squeeze sort argsort".split():
    setattr(
        ndarray,
        _name,
        lambda self, *args, _name=_name, **kw: call(
            lambda x, *a, **k: getattr(x, _name)(*a, **k), self, *args, **kw
        ),
    )
for _name in (
    "add sub mul truediv floordiv mod pow matmul and or xor lt le gt ge eq ne neg invert abs "
    "lshift rshift"
).split():
    _operator = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__{_name}__", lambda self, *other, _f=_operator: call(_f, self, *other))
    setattr(ndarray, f"__r{_name}__", lambda self, x, _f=_operator: call(_f, x, self))
ndarray.__hash__ = object.__hash__  # type: ignore[method-assign]


class _Capsule:
    """A DLPack capsule, as far as it is this module that opens it again."""

    def __init__(self, array: ndarray):
        self.array: ndarray | None = array


def from_dlpack(array, device=None, copy=None) -> ndarray:
    """An array of another library, on its memory."""
    kind, _ = array.__dlpack_device__()
    if kind != 2:
        raise TypeError("only arrays on a device can be taken without a copy")
    capsule = array.__dlpack__(stream=get_current_stream().ptr or 1)
    found, capsule.array = capsule.array, None  # consumed
    return ndarray(found.shape, found.dtype, found.data, found.strides)


# ---- library functions ----
def library(name: str) -> Callable:
    """A function of NumPy by its dotted name, on arrays of a device."""
    function = np
    for part in name.split("."):
        function = getattr(function, part)

    def routine(*args, **kwargs):
        return call(function, *args, **kwargs)

    routine.__name__ = routine.__qualname__ = name.rpartition(".")[2]
    return routine


def sorting(name: str) -> Callable:
    """A function that Thrust computes: it takes memory of its own, and where there is none left,
    its error is C++'s.
    """

    def routine(a, axis=-1, kind=None):
        if a.dtype.kind == "c":
            raise AssertionError("Thrust has no order for complex numbers with nan in a part")
        try:
            room = None if world.idle else alloc(a.nbytes)
            made = call(_sorted, a, axis, name == "argsort")
        except OutOfMemoryError:
            raise MemoryError("std::bad_alloc") from None
        del room  # used until then
        return made

    routine.__name__ = routine.__qualname__ = name
    return routine


def _sorted(x: np.ndarray, axis: int, places: bool) -> np.ndarray:
    """A single row goes by the bits, to which zeros of both signs are one, but a nan with a sign is
    less than all numbers. Several rows are compared, with nan last.
    """
    key = x
    if x.ndim == 1 and x.dtype.kind == "f":
        bits = np.where(x == 0, x.dtype.type(0), x).view(f"i{x.itemsize}")
        key = bits ^ ((bits >> (8 * x.itemsize - 1)) & np.iinfo(bits.dtype).max)
    order = np.argsort(key, axis, "stable")
    return order if places else np.take_along_axis(x, order, axis)


class PlanCache:
    """Plans of transforms, each with the memory that it works in."""

    def __init__(self):
        self._plans: dict[tuple, MemoryPointer] = {}

    def clear(self) -> None:
        self._plans.clear()

    def note(self, name: str, x: ndarray) -> None:
        key = (name, x.shape, x.dtype, x.data.device_id, world.machine)
        if key not in self._plans and not world.idle:
            self._plans[key] = alloc(x.nbytes // 2)


_plans = PlanCache()


def get_plan_cache() -> PlanCache:
    """The plans that are kept."""
    return _plans


def transform(name: str) -> Callable:
    """A function of NumPy's `fft`, for which a plan is made first."""
    function = library(f"fft.{name}")

    def routine(a, *args, **kwargs):
        _plans.note(name, a)
        return function(a, *args, **kwargs)

    routine.__name__ = routine.__qualname__ = name
    return routine


def call(function: Callable, *args, writes=None, wrap: bool = True, **kwargs):
    """A function of the host on arrays of a device, as work of the current stream."""
    world.count("library")
    if world.idle:
        return writes
    with world.lock:
        uses: list[Use] = []
        owners: dict[int, ndarray] = {}
        out = kwargs.get("out", writes)

        def look(array: ndarray) -> None:
            uses.extend(found := _used(array, array is out))
            owners.update((id(u.block), array) for u in found)

        _leaves((args, kwargs), look)
        hosts, named = _mapped((args, kwargs), lambda a: a._host())
        queue = _queue()
        result: list = []

        def run() -> None:
            with np.errstate(all="ignore"):
                try:
                    result.append(function(*hosts, **named))
                except Exception as error:  # of this call, not of the device
                    result.append(error)

        work = world.put(queue, f"library call {getattr(function, '__name__', '')}", run, uses)
        world.wait(work, queue.device)
        (found,) = result
        if isinstance(found, Exception):
            raise found
        if out is not None:
            return out
        return _wrapped(found, queue, owners) if wrap else found


def _queue() -> Queue:
    """The current stream, which must not be recording: library calls are not recorded here."""
    queue = world.find(world.current(world.thread.device))
    if queue.captured is not None:
        raise CUDARuntimeError(900)
    return queue


def _used(array: ndarray, writes: bool) -> list[Use]:
    if array.size == 0:
        return []
    block = block_at(array.data.ptr)
    assert block is not None, "the array's memory is gone"
    start = array.data.ptr - block.address
    extent = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return [block.use(start, start + extent + array.itemsize, writes)]


def _wrapped(found, queue: Queue, owners: dict[int, ndarray]):
    """Results as arrays on the device: views stay views."""
    if isinstance(found, tuple):
        items = [_wrapped(x, queue, owners) for x in found]
        return type(found)(*items) if hasattr(found, "_fields") else tuple(items)
    if isinstance(found, list):
        return [_wrapped(x, queue, owners) for x in found]
    if not isinstance(found, (np.ndarray, np.generic)):
        return found
    host = np.asarray(found)
    if not host.size:
        return ndarray(host.shape, host.dtype)
    for array in owners.values():
        block = block_at(array.data.ptr)
        if block is not None and 0 <= host.ctypes.data - block.host < block.size:
            start = host.ctypes.data - block.host + block.address
            memptr = MemoryPointer(array.data.mem, start - array.data.mem.ptr)
            return ndarray(host.shape, host.dtype, memptr, host.strides)
    made = ndarray(host.shape, host.dtype)
    target = made._host()

    def run() -> None:
        target[...] = host

    work = world.put(queue, "result of a library call", run, _used(made, True))
    world.wait(work, queue.device)
    return made


def _leaves(x, visit) -> None:
    if isinstance(x, ndarray):
        visit(x)
    elif isinstance(x, (tuple, list)):
        for item in x:
            _leaves(item, visit)
    elif isinstance(x, dict):
        _leaves(list(x.values()), visit)


def _mapped(x, change):
    if isinstance(x, ndarray):
        return change(x)
    if isinstance(x, (tuple, list)):
        return type(x)(_mapped(i, change) for i in x)
    if isinstance(x, dict):
        return {k: _mapped(v, change) for k, v in x.items()}
    return x
