"""GPUs as plans need them: a stream, memory, copies, and the progress of work.

Floor 4. In: CuPy, loaded on first use. Out: `gpus()`; a `Gpu` allocates `Buffer`s, copies to and
from them, and knows when they are filled. Everything here returns immediately, unless documented to
wait.

Work on a GPU runs in the order of one stream, so freed memory can be reused immediately: its next
user comes later in the stream. After a launch the host draws a ticket, a number that only grows,
and marks some tickets by events. A buffer has the ticket of the work that fills it; it is ready
when an event with that ticket or a later one has been reached.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuarray.backends.cuda.availability import cupy, cupy_has, missing
from gpuarray.backends.cuda.borrowed import Borrowed
from gpuarray.backends.cuda.downloads import PINNED, Download
from gpuarray.backends.cuda.failures import (
    NOT_READY,
    explained,
    is_failure,
    is_out_of_memory,
)
from gpuarray.config import state
from gpuarray.core import ranges
from gpuarray.errors import DeviceError, OutOfMemory
from gpuarray.util import lock, references

#: Alignment of buffers, in bytes: that of the widest access of a kernel.
ALIGNMENT = 16
#: Ticket of work whose number is not drawn yet.
UNDRAWN = math.inf
#: Number of scalars that a GPU caches, because programs upload the same few again and again. They
#: share a block of memory: long-lived separate blocks would fragment the pool.
SCALARS = 1024


# ---- devices ----
_gpus: list[Gpu] = []
_making = lock()


def gpus() -> list[Gpu]:
    """Return the GPUs of this machine; raise DeviceError with the reason if there are none.

    The setting `cuda_visible_devices` chooses some. `num_gpu_devices` limits their number, or
    creates several on one GPU: logical ones, each with separate memory and a separate stream, for
    trying a program of many devices on few.
    """
    # Made only once, by the first thread: the streams of two Gpus would not be ordered.
    if not _gpus:
        with _making:
            if not _gpus:
                _gpus.extend(_found())
    return _gpus


def _found() -> list[Gpu]:
    if missing():
        raise DeviceError(missing())
    # Profilers show our ranges if NVTX is there.
    ranges.use_marks(cupy.cuda.nvtx if getattr(cupy.cuda.nvtx, "available", False) else None)
    there = cupy.cuda.runtime.getDeviceCount()
    chosen = _visible(there)
    count = len(chosen) if state.num_gpu_devices < 1 else state.num_gpu_devices
    return [Gpu(i, chosen[i % len(chosen)]) for i in range(count)]


def _visible(there: int) -> list[int]:
    """The numbers of the GPUs that the setting `cuda_visible_devices` chooses."""
    text = state.cuda_visible_devices
    chosen = list(range(there)) if text == "all" else [int(word) for word in text.split(",")]
    if not chosen or max(chosen) >= there:
        raise DeviceError(f"cuda_visible_devices is {text!r}, and there are {there} GPUs")
    return chosen


def current_may_differ() -> bool:
    """Whether another GPU than that of a program may be the current one of a thread."""
    # Threads begin with the first of the machine, whichever were chosen, and users may change it.
    return len(_gpus) > 1 or (bool(_gpus) and cupy.cuda.runtime.getDeviceCount() > 1)


def forget() -> None:
    """Look for GPUs again on the next use."""
    missing.cache_clear()
    for gpu in _gpus:
        gpu.forgotten = True
    _gpus.clear()


# ---- one device ----
class Gpu:
    """One GPU, with the stream on which all of its work runs.

    `index` is its number here, `ordinal` that of CUDA; they differ for logical GPUs.
    """

    def __init__(self, index: int, ordinal: int | None = None):
        self.ordinal = ordinal = index if ordinal is None else ordinal
        properties = cupy.cuda.runtime.getDeviceProperties(ordinal)
        name = properties["name"]
        self.index = index
        self.name: str = name.decode() if isinstance(name, bytes) else name
        self.arch = f"sm_{properties['major']}{properties['minor']}"
        self.total_bytes = int(properties["totalGlobalMem"])
        #: Maximum shared memory of a block that opts in.
        self.shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self.device = cupy.cuda.Device(ordinal)
        with self.device:
            self.stream = cupy.cuda.Stream(non_blocking=True)
            # Downloads use a separate stream, so that they do not wait for later work.
            self.downloads = cupy.cuda.Stream(non_blocking=True)
            # So have exchanges with other GPUs by NCCL.
            self.exchanges = cupy.cuda.Stream(non_blocking=True)
            # A pool of our own: all of its blocks are used on that one stream, in the order of
            # calls.
            self._pool = cupy.cuda.MemoryPool()
        self.peak_bytes = 0
        #: The last launches, for messages: a kernel's failure is noticed later.
        self.recent: deque[Any] = deque(maxlen=8)
        # Last ticket drawn, highest ticket known to be reached, events, and memory that is held.
        self.latest = 0
        self._tickets = itertools.count(1)
        self._reached = 0
        self._marks: deque[tuple[int, Any]] = deque()
        self._held: deque[tuple[float, Any]] = deque()
        #: Foreign memory used by arrays, by number (see `Borrowed`).
        self.borrowed: dict[int, Any] = {}
        self._recordings = 0  # of graphs, that are in progress
        self.forgotten = False
        self._scalars: dict[tuple, Buffer] = {}
        self._places, self._placed = None, 0
        # Events at the ends of copies to the host, and the buffers that they read.
        self._reads: deque[tuple[Any, Any]] = deque()
        #: NCCL's communicators of groups of GPUs of which this one is the first (nccl.py).
        self.communicators: dict[tuple[int, ...], list] = {}
        #: Libraries that are called by their C functions (shared_libraries.py), by name.
        self.libraries: dict[str, Any] = {}
        self._lock = threading.RLock()
        # Bound once: it is called for every result.
        self.malloc = self._pool.malloc

    def __repr__(self) -> str:
        return f"Gpu({self.index}, {self.name}, {self.arch})"

    # ---- progress ----
    def launched(self) -> int:
        """Draw the ticket of all work launched until now."""
        # Two threads may set `latest` in the wrong order: it is then lower than it could be.
        self.latest = ticket = next(self._tickets)
        return ticket

    def mark(self, ticket: float = UNDRAWN) -> Any:
        """Return an event that is reached no earlier than a ticket: an existing or a new one."""
        # Events in order of their tickets: the first that is late enough will do.
        with self._lock:
            for reached, event in list(self._marks):  # finalisers may add to them
                if reached >= ticket:
                    return event
            reached = self.latest
            with self.device:  # an event belongs to the device that is current when it is made
                event = cupy.cuda.Event(disable_timing=True)
            event.record(self.stream)
            self._marks.append((reached, event))
            return event

    def is_done(self, ticket: float) -> bool:
        """Whether all work up to a ticket has run."""
        if ticket <= self._reached:
            return True
        event = self.mark(ticket)
        # Check others as well: one look releases everything that is finished.
        self.look()
        # An event of a failed GPU is never `done`: do not wait for it, and let the reader of the
        # value get the error.
        return cupy.cuda.runtime.eventQuery(event.ptr) != NOT_READY

    def wait(self, ticket: float = UNDRAWN) -> None:
        """Wait until all work up to a ticket has run; raise the GPU's error, if any."""
        if ticket <= self._reached:
            return
        try:
            self.mark(ticket).synchronize()
        except Exception as error:
            raise self.failed(error) from None
        self.look()

    def look(self) -> None:
        """Check which events have been reached, and release the memory held for them."""
        # A finaliser of garbage collected within any of these lines may call this too (`hold`):
        # take only the event that was checked, if it is still there.
        with self._lock:
            while self._marks:
                # In the order of the stream, so the first that is not reached ends the search.
                first = self._marks[0]
                if not first[1].done:
                    break
                self._reached = max(self._reached, first[0])
                if self._marks and self._marks[0] is first:
                    self._marks.popleft()
            while not self._recordings and self._held and self._held[0][0] <= self._reached:
                self._held.popleft()
            while self._reads:
                first = self._reads[0]
                # A failed GPU does not raise here: it reads no more.
                if cupy.cuda.runtime.eventQuery(first[0].ptr) == NOT_READY:
                    break
                if self._reads and self._reads[0] is first:
                    self._reads.popleft()

    def hold(self, thing: Any) -> None:
        """Keep foreign memory, code or a graph until the work launched so far has run."""
        with self._lock:
            self._held.append((self.launched(), thing))
            # Without an event it would never be released.
            if not self._marks:
                self.mark()
            self.look()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Keep held memory while a graph is recorded."""
        # Unloading code waits for the GPU, which ends recordings.
        with self._lock:
            self._recordings += 1
        try:
            yield
        finally:
            with self._lock:
                self._recordings -= 1

    def reading(self, event: Any, memory: Any) -> None:
        """Keep memory that a copy to the host reads until its event, so that it is not overwritten.

        Later work does not wait for the copy: memory in use is neither reused nor overwritten.
        """
        with self._lock:
            self._reads.append((event, memory))
            self.look()

    def failed(self, error: Exception) -> Exception:
        """Translate an error of CUDA to ours; return others unchanged."""
        if not is_failure(error):
            return error
        with contextlib.suppress(Exception):  # release memory held for finished work
            self.stream.synchronize()
            self.look()
        if is_out_of_memory(error):
            return OutOfMemory(f"{self.name} (cuda:{self.index}): {error}")
        what = explained(error, (note() for note in self.recent))
        return DeviceError(f"{self.name} (cuda:{self.index}) reports {error}. {what}")

    def attempt(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that works on this GPU; an error names it."""
        try:
            with self.device:
                return function(*arguments)
        except Exception as error:
            raise self.failed(error) from None

    # ---- memory ----
    def retried(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that allocates memory, and once more if there is none left.

        Before the second call everything unused is given back. The function must be repeatable.
        """
        try:
            return function(*arguments)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        # Outside of the `except`: its traceback would hold memory that could be released.
        self.release()
        return function(*arguments)

    def allocate(self, nbytes: int) -> Any:
        """Return memory from the pool."""
        try:
            return self.malloc(nbytes)
        except MemoryError:
            return self.retried(self.malloc, nbytes)

    def library_memory(self, nbytes: int) -> Any:
        """Return memory for CuPy's libraries, from the part of the pool that plans use."""
        # The pool has an arena for each stream; plans allocate under the null stream.
        with cupy.cuda.Stream.null:
            return self.malloc(nbytes)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a library routine on our stream, with memory from our pool."""

        # Libraries allocate through CuPy's current allocator.
        def run() -> Any:
            with self.device, self.stream, cupy.cuda.using_allocator(self.library_memory):
                return function(*arguments)

        return self.retried(run)

    def release(self) -> None:
        """Give back to the system everything unused.

        That is memory held for finished work, free blocks of pools, and FFT plans.
        """
        with contextlib.suppress(Exception):  # earlier errors are reported elsewhere
            self.wait()
            self.downloads.synchronize()
            self.look()
        # Cycles may hold buffers.
        gc.collect()
        with self.device:
            cupy.fft.config.get_plan_cache().clear()
            cupy.get_default_memory_pool().free_all_blocks()
            # Logical GPUs share the memory of one.
            for gpu in {self, *(g for g in gpus() if g.ordinal == self.ordinal)}:
                gpu._pool.free_all_blocks()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        """Return a new buffer to be filled; it counts as pending until a ticket is drawn for it."""
        nbytes = math.prod(shape) * dtype.itemsize
        memory = self.allocate(nbytes)
        return Buffer(memory.ptr, shape, dtype, memory, self, UNDRAWN if nbytes else 0)

    def zeroed(self, nbytes: int) -> Any:
        """Return memory filled with zeros."""
        with self.device:
            memory = self.allocate(nbytes)
            cupy.cuda.runtime.memsetAsync(memory.ptr, 0, nbytes, self.stream.ptr)
        return memory

    def pinned(self, nbytes: int) -> Any:
        """Return pinned host memory, which asynchronous copies need."""
        return self.retried(cupy.cuda.alloc_pinned_memory, nbytes)  # finished copies release theirs

    def memory_stats(self) -> dict[str, int]:
        """Return bytes in use, kept by the pool and in how many blocks, in total, and the peak."""
        with self.device:
            used, total = self._pool.used_bytes(), self._pool.total_bytes()
            blocks = self._pool.n_free_blocks()
        self.peak_bytes = max(self.peak_bytes, used)
        return {
            "bytes_in_use": used,
            "bytes_kept": total - used,
            "blocks_kept": blocks,
            "bytes_limit": self.total_bytes,
            "peak_bytes_in_use": self.peak_bytes,
        }

    def free(self) -> int:
        """Free the unused blocks of the pool; return how many bytes they had."""
        self.wait()
        with self.device:
            before = self._pool.total_bytes()
            self.release()
            return before - self._pool.total_bytes()

    # ---- copies ----
    def upload(self, value: np.ndarray | np.generic) -> Buffer:
        """Copy a host value to a new buffer; the caller may overwrite it immediately."""
        # Scalars by value: equal ones share a buffer, which is never written.
        key = (value.dtype, value.tobytes()) if not value.ndim else None
        found = None if key is None else self._scalars.get(key)
        if found is not None:
            return found
        try:
            with self.device:
                buffer = self._scalar(value.dtype) if key else self.empty(value.shape, value.dtype)
                self._fill(buffer, np.asarray(value))
        except Exception as error:
            raise self.failed(error) from None
        if key is not None:
            self._scalars[key] = buffer
        return buffer

    def _scalar(self, dtype: np.dtype) -> Buffer:
        """Return the next place for a scalar that is kept."""
        with self._lock:
            if self._places is None or self._placed == SCALARS:
                self._scalars.clear()
                self._places, self._placed = self.allocate(SCALARS * ALIGNMENT), 0
            pointer = self._places.ptr + self._placed * ALIGNMENT
            self._placed += 1
            return Buffer(pointer, (), dtype, self._places, self, UNDRAWN)

    def _fill(self, buffer: Buffer, value: np.ndarray) -> Buffer:
        size, runtime = value.nbytes, cupy.cuda.runtime
        if not size:
            return buffer
        # Bytes, because CuPy does not know every dtype.
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        if size > PINNED:  # pageable: the call returns when the host memory has been read
            source = data.ctypes.data
        else:
            pinned = self.pinned(size)
            np.frombuffer(pinned, np.uint8, size)[...] = data
            source = pinned.ptr
        kind = runtime.memcpyHostToDevice
        runtime.memcpyAsync(buffer.pointer, source, size, kind, self.stream.ptr)
        # The source must stay unchanged, or alive, until the copy has run.
        if size > PINNED:
            self.wait()
        else:
            self.hold(pinned)
        buffer.ticket = self.launched()
        return buffer

    def copy(self, source: Buffer) -> Buffer:
        """Copy a buffer, of this or another GPU, to a new one on this GPU."""
        with self.device:
            buffer = self.empty(source.shape, source.dtype)
            there = source.gpu
            # Between GPUs, each stream must wait for the other: to read, and before the memory is
            # reused.
            if there is not self:
                self.stream.wait_event(there.mark(source.ticket))
            self.write(buffer.pointer, source.pointer, source.nbytes)
            buffer.ticket = self.launched()
            if there is not self:
                there.stream.wait_event(self.mark(buffer.ticket))  # before its memory is used again
            return buffer

    def write(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes from one address that a GPU reaches to another."""
        if nbytes:
            runtime = cupy.cuda.runtime
            kind = runtime.memcpyDefault  # the address shows whether it is pinned host memory
            runtime.memcpyAsync(target, source, nbytes, kind, self.stream.ptr)

    def adopt(
        self, array: Any, shape: tuple[int, ...] | None = None, dtype: np.dtype | None = None
    ) -> Buffer:
        """Return a CuPy array made on our stream as a buffer over its memory.

        It is converted to `dtype` if CuPy has chosen another number type; dtypes that CuPy lacks
        are only relabelled.
        """
        shape = tuple(array.shape) if shape is None else shape
        dtype = np.dtype(array.dtype if dtype is None else dtype)
        if cupy_has(dtype) and array.dtype != dtype:
            array = array.astype(dtype)
        array = cupy.ascontiguousarray(array)
        memory = array.data
        buffer = Buffer(memory.ptr, shape, dtype, memory, self, UNDRAWN)
        # Memory of other owners may start anywhere.
        return self.copy(buffer) if memory.ptr % ALIGNMENT else buffer

    def import_dlpack(self, exporter: Any) -> Buffer:
        """Return the memory behind a DLPack capsule, which its owner reuses after its release."""

        # CuPy's array is held by the buffer, and the capsule's owner by that.
        def taken() -> Buffer:
            array = cupy.from_dlpack(exporter)
            buffer = self.adopt(array)
            if buffer.memory is array.data:
                buffer.memory = Borrowed(self, array.data)
            return buffer

        return self.call(taken)  # on our stream: the exporter orders its work before ours


#: What the GPUs of a parent process held.
_elsewhere: list[Any] = []


class _Lost(Gpu):
    """A GPU in a process forked from one that used it, where CUDA does not work."""

    _KNOWN = frozenset({"arch", "borrowed", "forgotten", "hold", "index", "name", "reading"})

    def hold(self, thing: Any) -> None:
        """Keep it for ever: it belongs to the parent process, and is not given back here."""
        _elsewhere.append(thing)

    def reading(self, event: Any, memory: Any) -> None:
        """Likewise."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in _Lost._KNOWN:
            return super().__getattribute__(name)
        raise DeviceError(
            "this process was forked from one that had used a GPU, and CUDA does not work on the "
            "other side of a fork. Start processes with multiprocessing's 'spawn' or 'forkserver', "
            "or fork before the first use of the GPU."
        )


# Every use of a GPU in the child then raises an error that explains it.
def _lose_gpus() -> None:
    for gpu in _gpus:
        gpu.__class__ = _Lost


os.register_at_fork(after_in_child=_lose_gpus)


# ---- buffers ----
class Buffer:
    """An array on a GPU: contiguous, in row-major order, aligned to ALIGNMENT bytes.

    Attributes
    ----------
    memory :
        Owner of the memory, with `ptr`; shared by buffers that are parts of each other.
    ticket :
        Ticket of the work that fills it.
    """

    __slots__ = ("_copy", "dtype", "gpu", "memory", "pointer", "shape", "ticket")

    def __init__(
        self, pointer: int, shape: tuple, dtype: np.dtype, memory: Any, gpu: Gpu, ticket: float
    ):
        self.pointer = pointer
        self.shape = shape
        self.dtype = dtype
        self.memory = memory
        self.gpu = gpu
        self.ticket = ticket
        self._copy: Download | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"Buffer({self.shape}, {self.dtype}, cuda:{self.gpu.index})"

    def is_ready(self) -> bool:
        """Whether it is filled."""
        return self.gpu.is_done(self.ticket)

    def wait(self) -> None:
        """Wait until it is filled."""
        self.gpu.wait(self.ticket)

    # ---- views and parts ----
    def viewed(self, shape: tuple[int, ...], dtype: np.dtype | None = None) -> Buffer:
        """Return the same bytes with another shape."""
        dtype = self.dtype if dtype is None else dtype
        return Buffer(self.pointer, shape, dtype, self.memory, self.gpu, self.ticket)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, i: int) -> Buffer:
        """Return element i along the first axis, in place if it is aligned, else as a copy."""
        shape = self.shape[1:]
        pointer = self.pointer + i * math.prod(shape) * self.dtype.itemsize
        # A row shares its parent's memory and ticket.
        row = Buffer(pointer, shape, self.dtype, self.memory, self.gpu, self.ticket)
        return self.gpu.copy(row) if pointer % ALIGNMENT else row

    def __iter__(self) -> Iterator[Buffer]:
        return map(self.__getitem__, range(self.shape[0]))

    def __reversed__(self) -> Iterator[Buffer]:
        return map(self.__getitem__, range(self.shape[0] - 1, -1, -1))

    def __setitem__(self, i: int, row: Buffer) -> None:
        """Copy a buffer to element i along the first axis."""
        size = row.nbytes
        self.gpu.write(self.pointer + i * size, row.pointer, size)
        # Filled by work whose ticket is drawn later.
        self.ticket = UNDRAWN

    def cupy(self) -> Any:
        """Return a CuPy array over this memory, with unsigned integers for dtypes CuPy lacks."""
        dtype = self.dtype
        if not cupy_has(dtype):
            dtype = np.dtype(f"u{dtype.itemsize}")
        offset = self.pointer - self.memory.ptr
        return cupy.ndarray(self.shape, dtype, self.memory + offset)

    # ---- for other libraries ----
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not cupy_has(self.dtype):
            raise AttributeError(
                f"the CUDA array interface has no name for {self.dtype}: view it as an integer "
                "type with lax.bitcast_convert_type, or use DLPack"
            )
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": self.gpu.stream.ptr,  # a reader waits for it
            "version": 3,
        }

    def __dlpack__(self, *, stream=None, copy=None) -> Any:
        """Return a DLPack capsule; the consumer's stream is made to wait for ours."""
        gpu = self.gpu
        with gpu.device, gpu.stream:
            source = gpu.copy(self) if copy else self
            offset = source.pointer - source.memory.ptr
            array = cupy.ndarray(source.shape, source.dtype, source.memory + offset)
            return array.__dlpack__(stream=stream)

    # ---- on the host ----
    def start_copy(self) -> Download:
        """Start the copy to the host, once."""
        if self._copy is None:
            self._copy = Download(self)
        return self._copy

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        value = self.start_copy().value()
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def __bool__(self) -> bool:
        return bool(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__())


def is_exclusive(buffer: Any, holders: int) -> bool:
    """Whether only `holders` known references lead to this memory, so that it may be reused."""
    if type(buffer) is not Buffer or isinstance(buffer.memory, Borrowed):
        return False
    # Counted besides the holders: for the buffer, this function's argument; for its memory, the
    # buffer's attribute; for the block behind it (which exported CuPy arrays hold), the memory's.
    return (
        references((buffer,)) <= holders + 1
        and references((buffer.memory,)) <= 1
        and references((buffer.memory.mem,)) <= 1
    )
