"""The concrete Array: immutable, and either ready (with buffers) or pending (with work to fill it).

Floor 5. In: an aval, a Place and a buffer for each device, or the pending work. Out: the user's
value, with the protocols that Python, NumPy and other libraries use.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from gpuarray import errors, util
from gpuarray.backends.cuda.device import Buffer
from gpuarray.config import state
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.formats import Format, format_of
from gpuarray.core.layout import unclear_is_whole
from gpuarray.core.sharding import Place, Shard, SingleDeviceSharding, Term, laid_out
from gpuarray.core.sharding import pieces as all_pieces
from gpuarray.core.value import Array
from gpuarray.runtime import device as devices
from gpuarray.runtime import pieces
from gpuarray.util import read_only


class ArrayImpl(Array):
    """A concrete array.

    Attributes
    ----------
    _bufs :
        Buffers, one for each device; None while pending and after deletion.
    _work :
        The work that fills it (an object with `resolve()`); None once it is ready.
    _made_at :
        The calls that made it, where the setting `array_tracebacks` is on; else unset.
    _exported :
        The buffer whose address was given out, set from then on: whatever keeps this array alive
        may read there.
    """

    __slots__ = ("__weakref__", "_bufs", "_exported", "_made_at", "_place", "_work", "aval")

    aval: ShapedArray
    _known_aval: ShapedArray
    _bufs: list | None
    _place: Place
    _work: Any

    def __init__(self, aval: ShapedArray, place: Place, bufs: list | None, work=None):
        self.aval = aval
        self._place = place
        self._bufs = bufs
        self._work = work

    # ---- buffers ----
    def _buffer(self):
        """Return the buffer of a single-device array; wait for it, raise if it was deleted."""
        (found,) = self._buffers()
        return found

    def _buffers(self) -> list:
        """Return the buffers, one for each device; wait for them, raise if they were deleted."""
        if self._work is not None:
            self._work.resolve()
        if self._bufs is None:
            self._check_alive()
        return self._bufs  # pyright: ignore[reportReturnType]

    def _check_alive(self) -> None:
        if self._bufs is None and self._work is None:
            raise errors.DeletedBufferError(
                f"Array has been deleted with shape={self.aval.str_short()}. It was donated to a "
                "jitted function (donate_argnums) or deleted; keep a copy, or do not donate it."
            )

    @property
    def _value(self) -> np.ndarray:
        """The value as a read-only NumPy array on the host."""
        return self._fetched()

    def _fetched(self, explicit: bool = False) -> np.ndarray:
        """Return the value on the host; `explicit` means that the user requested the copy."""
        if not self._place.is_single:
            if self._place.spans and not self.is_fully_replicated:
                raise RuntimeError(
                    f"the value of an array of shape {self.aval.shape} whose pieces are in several "
                    "processes: gpuarray.experimental.multihost_utils.process_allgather(x) brings "
                    "all of it to every process (which all must call), and x.addressable_shards "
                    "are the pieces of this one. A replicated array is read like any other."
                )
            return read_only(pieces.whole(self._place, self.aval.shape, self._buffers()))
        buffer = self._buffer()
        # The guard applies to GPUs only: on the CPU nothing is copied.
        if type(buffer) is Buffer and state.transfer_guard_device_to_host is not None:
            devices.guard("device_to_host", f"aval={self.aval}", explicit)
        if type(buffer) is Buffer:
            with devices.copying(buffer.nbytes, self._place.device, "the host"):
                return read_only(buffer)
        return read_only(buffer)

    def _host(self, what: str) -> np.ndarray:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            raise TypeError(
                f"{what} of an array with dtype {self.aval.dtype.name} is not defined: such "
                "elements are opaque. Use gpuarray.random.key_data(key) for the words of random "
                "keys, lax.convert_element_type for what another dtype is made of."
            )
        return self._value

    def __array__(self, dtype=None, copy=None):
        value = self._host("a NumPy array")
        if dtype is not None and value.dtype != dtype:
            if copy is False:
                raise ValueError(f"cannot convert {value.dtype} to {dtype} without a copy")
            return value.astype(dtype)
        return value.copy() if copy else value

    def _one_device(self, what: str, error: type[Exception]) -> None:
        """Raise for an array over several devices, whose memory is not one block."""
        if not self._place.is_single:
            raise error(
                f"{what} is for arrays on one device, and this one lies over "
                f"{len(self._place.devices)}: give one of its pieces "
                "(x.addressable_shards[0].data), or the whole on the host (numpy.asarray(x))"
            )

    def __buffer__(self, flags):
        self._one_device("the buffer protocol", BufferError)
        # A view of a copy would keep GPU memory in use; refused here, NumPy requests a copy.
        if self._place.device.platform == "gpu":
            raise BufferError(
                f"the buffer protocol is for memory of the host, and this array is on "
                f"{self._place.device}: copy it with numpy.asarray(x)"
            )
        value: Any = self._host("a buffer")
        try:
            return memoryview(value)
        except ValueError:  # NumPy's, of types that the protocol has no letter for
            raise BufferError(
                f"Buffers of type {value.dtype} are not supported by the Python buffer protocol: "
                "give the bits, x.view(dtype) with an integer dtype"
            ) from None

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self._one_device("DLPack", BufferError)
        # On the same device the buffer itself is exported, in its stream's order.
        on_gpu = self._place.device.platform == "gpu"
        if on_gpu and dl_device in (None, self.__dlpack_device__()):
            return self._buffer().__dlpack__(stream=stream, copy=copy)
        if on_gpu and copy is False:
            raise BufferError(f"cannot export from a GPU to device {dl_device} without a copy")
        if stream is not None and not on_gpu:
            raise ValueError(f"a CPU array has no streams, got stream={stream!r}: pass None")
        value = self._host("a DLPack capsule")
        # (1, 0) is the CPU in DLPack.
        if copy is False and dl_device not in (None, (1, 0)):
            raise BufferError(f"cannot export to device {dl_device} without a copy")
        if max_version is not None and max_version >= (1, 0):
            return value.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        # The old protocol cannot mark memory as read-only: export a copy.
        return value.copy().__dlpack__()

    def __dlpack_device__(self):
        self._one_device("DLPack", BufferError)
        gpu = devices.gpu_of(self._place.device)
        # (device type, number): 1 is the CPU, 2 a CUDA GPU.
        return (1, 0) if gpu is None else (2, gpu.ordinal)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._one_device("__cuda_array_interface__", AttributeError)
        if self._place.device.platform != "gpu":
            raise AttributeError(f"an array on {self._place.device} is not in a GPU's memory")
        buffer = self._exported = self._buffer()
        return buffer.__cuda_array_interface__

    def __reduce__(self):
        # Pickle as a NumPy array, whose pickling is NumPy's own.
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            return rebuild_key, (np.asarray(self._value), self.aval.dtype)
        return rebuild, (np.asarray(self._value), self.aval.weak_type)

    # Immutable: a shallow copy is the array itself.
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        # A buffer that several devices share is copied once. `deepcopy` of a GPU's buffer would go
        # through the host.
        made: dict[int, Any] = {}
        for device, buffer in zip(self._place.devices, self._buffers(), strict=True):
            if id(buffer) not in made:
                gpu = devices.gpu_of(device)
                made[id(buffer)] = copy.deepcopy(buffer) if gpu is None else gpu.copy(buffer)
        return ArrayImpl(self.aval, self._place, [made[id(b)] for b in self._buffers()])

    # ---- Python numbers ----
    def _scalar(self, kind: type):
        if self.aval.shape:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; got arr.ndim={self.ndim}. "
                f"Pick one element first, as in {kind.__name__}(x[0])."
            )
        return self._host(f"{kind.__name__}()")

    def __iter__(self):
        # The elements of an array along a sharded axis are laid out automatically; only in
        # programs, whose operations have types, must the axis be gathered first.
        with unclear_is_whole():
            return super().__iter__()

    def __bool__(self) -> bool:
        if self.aval.shape and self.aval.size != 1:
            what = "empty array" if self.size == 0 else "array with more than one element"
            raise ValueError(f"The truth value of an {what} is ambiguous. Use a.any() or a.all()")
        return bool(self._host("bool()"))

    def __int__(self) -> int:
        return int(self._scalar(int))

    def __float__(self) -> float:
        return float(self._scalar(float))

    def __complex__(self) -> complex:
        return complex(self._scalar(complex))

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.issubdtype(self.aval.dtype, np.integer):
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index, got "
                f"{self.aval.str_short()}."
            )
        return int(self._value)

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def item(self, *args):
        """Return one element as a Python scalar: `x.item()` of a size-1 array, or `x.item(i)`."""
        return self._host("item()").item(*args)

    def tolist(self):
        """Return the elements as nested lists of Python scalars."""
        return self._host("tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the elements as bytes, in row-major order by default."""
        return self._host("tobytes()").tobytes(order)

    def __bytes__(self) -> bytes:
        whole = not self.aval.shape and self.aval.dtype.kind in "iu"
        return bytes(int(self)) if whole else self.tobytes()  # bytes(n) is n zeros, as in Python

    # ---- text ----
    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        dtype = self.aval.dtype
        if self._work is None and self._bufs is None:
            return f"{type(self).__name__}<deleted {self.aval.str_short()}>"
        if isinstance(dtype, dtypes.ExtendedDType):
            words = key_words(self._value, dtype)
            return f"Array({self.shape}, dtype={dtype.name}) overlaying:\n{words}"
        if self._place.sharding._is_terms:
            return f"Array(shape={self.shape}, dtype={dtype.name}{weak}, sharding={self.sharding})"
        if not self.is_fully_addressable and not self.is_fully_replicated:
            return f"Array(shape={self.shape}, dtype={dtype.name}{weak})"
        value = self._value
        if value.size == 0:
            return f"Array([], shape={self.shape}, dtype={dtype.name}{weak})"
        # Narrow types print through a type that NumPy can print.
        if not _numpy_prints(dtype):
            value = value.astype(np.float32 if dtypes.kind_of(dtype) == "f" else object)
        body = np.array2string(value, separator=", ", prefix="Array(", suffix=",")
        tail = f"dtype={dtype.name}{weak})"
        # The dtype goes on the last line if it fits, as NumPy does.
        last_line = len(body) - (body.rfind("\n") + 1)
        fits = last_line + len(tail) + 1 <= np.get_printoptions()["linewidth"]
        glue = " " if fits else " " * len("Array(")
        return f"Array({body},{glue}{tail}"

    def __str__(self) -> str:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType) or self._place.sharding._is_terms:
            return repr(self)
        return str(self._value)

    def __format__(self, spec: str) -> str:
        if self._place.sharding._is_terms:
            return repr(self)
        if not self.aval.shape and (spec or not isinstance(self.aval.dtype, dtypes.ExtendedDType)):
            return format(self._host("format()")[()], spec)
        if spec:
            raise TypeError(
                f"unsupported format string passed to Array.__format__: {spec!r} is for one "
                f"number, and this array has shape {self.shape}. Use numpy.array2string."
            )
        return str(self)

    # ---- devices and memory ----
    @property
    def sharding(self):
        """How the array is sharded over devices."""
        found = self._place.sharding
        # On one device a result has the Place of its operands, of whatever rank.
        return found if self._place.is_spread else found._without_cuts_beyond(self.ndim)

    @property
    def device(self):
        """The device the array is on; its sharding, if it spans several."""
        return self._place.device if self._place.is_single else self._place.sharding

    @property
    def format(self) -> Format:
        """The array's sharding, and the memory layout of each piece."""
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            raise AttributeError("an array of an extended dtype has no attribute 'format'")
        if self.is_deleted():
            return Format(None, self.sharding)
        return format_of(self.ndim, self.sharding)

    @property
    def traceback(self) -> Any:
        """The calls that made the array, with the setting `array_tracebacks`; None without it."""
        return getattr(self, "_made_at", None)

    def devices(self) -> set:
        """The devices that hold a piece of the array."""
        return set(self._place.sharding.device_set)

    @property
    def committed(self) -> bool:
        """Whether the user chose the device, so that mixing with another one is an error."""
        # JAX's name of the same property.
        return self._place.committed

    _committed = committed

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach every piece."""
        return not self._place.spans

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self._place.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """One Shard for every piece this process holds."""
        place, shape = self._place, self.aval.shape
        if place.is_single:
            return [Shard(place.device, (slice(None),) * self.ndim, 0, self._alone())]
        if place.sharding._is_terms:
            held = zip(place.devices, self._buffers(), strict=True)
            return [Term(device, self._piece(device, buffer)) for device, buffer in held]
        found = [p for p in all_pieces(place.sharding, shape) if p.device.is_addressable]
        buffers = dict(zip(place.devices, self._buffers(), strict=True))
        return [Shard(*piece, self._piece(piece.device, buffers[piece.device])) for piece in found]

    def _alone(self) -> ArrayImpl:
        """Return an array on one device with the plain sharding of that device."""
        if isinstance(self._place.sharding, SingleDeviceSharding):
            return self
        return self._piece(self._place.device, self._buffer())

    def _piece(self, device: Any, buffer: Any) -> ArrayImpl:
        """Return one device's piece as a separate array."""
        aval = self.aval.update(shape=self.sharding.shard_shape(self.aval.shape), layout=None)
        place = laid_out(SingleDeviceSharding(device, memory_kind=self._place.kind))
        return ArrayImpl(place.typed(aval), place, [buffer])

    @property
    def global_shards(self) -> list[Shard]:
        """One Shard for every piece; the data of pieces in other processes is None."""
        if not self._place.spans:
            return self.addressable_shards
        mine = {shard.device: shard for shard in self.addressable_shards}
        found = all_pieces(self._place.sharding, self.aval.shape)
        return [mine.get(piece.device) or Shard(*piece, None) for piece in found]

    def addressable_data(self, index: int):
        """Piece number `index` as a separate array."""
        shards, number = self.addressable_shards, util.index(index)
        if not -len(shards) <= number < len(shards):
            raise IndexError(
                f"addressable_data({number}) of an array that has {len(shards)} pieces here: give "
                f"a number below {len(shards)}"
            )
        return shards[number].data

    def on_device_size_in_bytes(self) -> int:
        """Return how many bytes of device memory the elements take, on all devices together."""
        self._check_alive()
        piece = self.sharding.shard_shape(self.aval.shape)
        size = math.prod(piece) * self.aval.dtype.itemsize
        return size * len(self._place.all_devices)

    def block_until_ready(self):
        """Wait until the value is computed; return the array."""
        for buffer in self._buffers():
            if type(buffer) is Buffer:
                buffer.wait()
        return self

    def is_ready(self) -> bool:
        """Whether the value is computed. Asking dispatches recorded work."""
        self._check_alive()
        if self._work is not None and not self._work.poll():
            return False
        return all(type(b) is not Buffer or b.is_ready() for b in self._bufs or ())

    def copy_to_host_async(self) -> None:
        """Start a copy to the host, which `np.asarray` then uses."""
        self.is_ready()
        for buffer in self._bufs or ():
            if type(buffer) is Buffer:
                buffer.start_copy()

    def is_deleted(self) -> bool:
        """Whether the buffers were donated or deleted."""
        return self._bufs is None and self._work is None

    def delete(self) -> None:
        """Free the buffers now; the array cannot be used afterwards."""
        self._work = self._bufs = None  # pending work then finds no array to fill

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the first element.

        The memory belongs to this array as long as the array object lives: donating or deleting the
        array does not make it reusable.
        """
        self._one_device("unsafe_buffer_pointer()", ValueError)
        buffer = self._exported = self._buffer()
        return buffer.pointer if type(buffer) is Buffer else np.asarray(buffer).ctypes.data


# Types that NumPy prints as numbers.
def _numpy_prints(dtype) -> bool:
    return dtype.kind in "biufc" or dtype.name in ("bfloat16",)


# The descriptor under a second name (see core.value.Array), and under one that traced values do
# not have.
ArrayImpl._aval = ArrayImpl.aval
ArrayImpl._known_aval = ArrayImpl.aval


def key_words(storage: np.ndarray, dtype) -> np.ndarray:
    """Return the numbers in stored elements, such as the words of random keys, along last axes."""
    shape, number = dtype.element
    flat = np.ascontiguousarray(storage).reshape(-1)
    return flat.view(number).reshape(*np.shape(storage), *shape)


def place_bytes(value: np.ndarray, place: Place, weak_type: bool = False) -> ArrayImpl:
    """Return a ready array of host memory that nothing else will write to."""
    aval = ShapedArray(value.shape, value.dtype, weak_type)
    return ArrayImpl(aval, place, [devices.stored(value, place.device)])


def rebuild(value: np.ndarray, weak_type: bool) -> ArrayImpl:
    # With out-of-band pickling (protocol 5) the memory belongs to the caller: copy it. Settings
    # of now decide about 64-bit types, as for every array that is made of NumPy's.
    value = np.array(value, dtypes.canonicalize_dtype(value.dtype))
    return place_bytes(value, devices.default_place(), weak_type)


def rebuild_key(value: np.ndarray, dtype) -> ArrayImpl:
    place = devices.default_place()
    stored = devices.stored(np.array(value), place.device)
    return ArrayImpl(ShapedArray(value.shape, dtype), place, [stored])
