"""Arrays to and from files of TensorStore (zarr), each process its own pieces.

Floor 6. In: arrays, shardings, and TensorStore's descriptions of where they are stored. Out: files,
arrays. The package tensorstore is needed when one is written or read.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core.sharding import Sharding
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.from_pieces import make_array_from_callback

__all__ = [
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "get_tensorstore_spec",
    "run_deserialization",
    "run_serialization",
]

_ts: Any = util.lazy_module("tensorstore")


def get_tensorstore_spec(ckpt_path: str, ocdbt: bool = False) -> dict[str, Any]:
    """TensorStore's description of an array in a folder: zarr, in one database file with `ocdbt`.

    >>> from gpuarray.experimental.array_serialization import serialization
    >>> serialization.get_tensorstore_spec("/data/w")["kvstore"]
    {'driver': 'file', 'path': '/data/w'}
    """
    path = os.path.abspath(os.path.expanduser(ckpt_path))
    if not ocdbt:
        return {"driver": "zarr", "kvstore": {"driver": "file", "path": path}}
    # One database holds many arrays: the folder is its place, the name the array's key in it.
    folder, name = os.path.split(path)
    return {
        "driver": "zarr",
        "kvstore": {"driver": "ocdbt", "base": f"file://{folder}", "path": name},
    }


def _write(array: ArrayImpl, spec: dict[str, Any]) -> None:
    store = _ts.open(
        spec, create=True, open=True, dtype=_ts.dtype(array.dtype.name), shape=array.shape
    ).result()
    # Of equal pieces one is written, by the process that has it.
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            store[shard.index].write(np.asarray(shard.data)).result()


def _read(sharding: Sharding, spec: dict[str, Any], shape: Any, dtype: Any) -> ArrayImpl:
    store = _ts.open(spec, open=True).result()
    whole = tuple(store.shape) if shape is None else tuple(shape)

    def piece(index: tuple[slice, ...]) -> np.ndarray:
        # If a larger shape is requested, elements beyond the stored one are zero.
        lengths = [s.indices(n) for s, n in zip(index, whole, strict=True)]
        out = np.zeros([stop - start for start, stop, _ in lengths], store.dtype.numpy_dtype)
        # The part of the piece that is stored; empty if the piece is entirely beyond it.
        there = tuple(
            slice(start, max(start, min(stop, n)))
            for (start, stop, _), n in zip(lengths, store.shape, strict=True)
        )
        found = store[there].read().result()
        out[tuple(slice(0, n) for n in found.shape)] = found
        return out if dtype is None else out.astype(dtype)

    made = np.dtype(dtype or store.dtype.numpy_dtype)
    return make_array_from_callback(whole, sharding, piece, dtype=made)


def run_serialization(arrays: Sequence[ArrayImpl], tensorstore_specs: Sequence[dict]) -> None:
    """Write arrays to where their descriptions say; each process writes its own pieces."""
    for array, spec in zip(arrays, tensorstore_specs, strict=True):
        _write(array, spec)


def run_deserialization(
    shardings: Sequence[Sharding],
    tensorstore_specs: Sequence[dict],
    global_shapes: Sequence[Any] | None = None,
    dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = 32,
) -> list[ArrayImpl]:
    """Read arrays into shardings; of other shapes they are cut, or filled with zeros.

    Parameters
    ----------
    concurrent_gb :
        Taken for programs that give it; arrays are read one after another.

    Examples
    --------

    >>> from gpuarray.experimental.array_serialization import serialization
    >>> serialization.run_deserialization([], [], concurrent_gb=1)
    []
    """
    count = len(tensorstore_specs)
    shapes = [None] * count if global_shapes is None else util.elements(global_shapes)
    kinds = [None] * count if dtypes is None else util.elements(dtypes)
    return [
        _read(*row)
        for row in zip(
            shardings,
            tensorstore_specs,
            shapes,
            kinds,
            strict=True,
        )
    ]


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """Writes checkpoints while the program continues."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise the error of a write that failed."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait for all writes; raises as `check_for_errors` does."""

    @abc.abstractmethod
    def serialize(
        self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], Any]
    ) -> None:
        """Write arrays, and call a function when they are written."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Sharding],
        tensorstore_specs: Sequence[dict],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> list[ArrayImpl]:
        """Read arrays."""


class GlobalAsyncCheckpointManager(GlobalAsyncCheckpointManagerBase):
    """Writes checkpoints in a thread; arrays are immutable, so none is copied for it."""

    def __init__(self, timeout_secs: float = 300):
        self._timeout = timeout_secs
        # One thread: checkpoints are written one after another, in their order.
        self._pool = ThreadPoolExecutor(1)
        self._going: list[Future] = []

    def check_for_errors(self) -> None:
        """Raise the error of a write that failed."""
        for future in [f for f in self._going if f.done()]:
            self._going.remove(future)
            future.result()

    def wait_until_finished(self) -> None:
        """Wait for all writes."""
        while self._going:
            self._going.pop(0).result(self._timeout)

    def serialize(
        self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], Any]
    ) -> None:
        """Write arrays in a thread; `on_commit_callback()` is called there when all is written."""
        # Report a failure of an earlier write before starting the next one.
        self.check_for_errors()

        def write() -> None:
            run_serialization(arrays, tensorstore_specs)
            on_commit_callback()

        self._going.append(self._pool.submit(write))

    def deserialize(
        self,
        shardings: Sequence[Sharding],
        tensorstore_specs: Sequence[dict],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> list[ArrayImpl]:
        """Read arrays, after pending writes have finished."""
        self.wait_until_finished()
        return run_deserialization(shardings, tensorstore_specs, global_shapes, dtypes)


__getattr__ = _explain_names(__name__)
