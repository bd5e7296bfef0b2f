"""Operations of several processes besides computing: waiting, comparing, exchanging values.

Floor 6. In: pytrees of host values, or of arrays that span processes. Out: pytrees of the same
structure. Every process must call these functions, in the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec
from gpuarray.core.sharding import Device
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.runtime import processes
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import devices, process_index
from gpuarray.runtime.from_pieces import make_array_from_process_local_data
from gpuarray.runtime.transfer import device_put


def _gathered(value: np.ndarray, what: str) -> list[np.ndarray]:
    """Return the value of every process; they must have one shape and dtype."""
    # Types first: bytes of another length would be read as an array of this one.
    kind = f"{value.dtype} {value.shape}"
    kinds = processes.gathered(kind.encode(), what)
    if any(k.decode() != kind for k in kinds):
        raise ValueError(
            f"{what}: the processes give arrays of different types, "
            f"{', '.join(k.decode() for k in kinds)}"
        )
    parts = processes.gathered(np.ascontiguousarray(value).tobytes(), what)
    # A bytearray, so that the result can be written to.
    return [np.frombuffer(bytearray(p), value.dtype).reshape(value.shape) for p in parts]


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Give every process the values of all, as NumPy arrays.

    Host values are stacked along a new first axis, or with `tiled` joined along the first. Of an
    array that spans processes the result is the whole value.

    >>> import numpy as np
    >>> from gpuarray.experimental import multihost_utils
    >>> multihost_utils.process_allgather(np.arange(3))
    array([[0, 1, 2]])
    """

    def gather(x: Any) -> np.ndarray:
        if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
            if not x.is_fully_replicated:
                assert isinstance(x.sharding, NamedSharding)
                # Laying it out whole on every device is the exchange between processes.
                x = device_put(x, NamedSharding(x.sharding.mesh, PartitionSpec()))
            return np.asarray(x)
        parts = _gathered(np.asarray(x), "process_allgather")
        return np.concatenate(parts) if tiled else np.stack(parts)

    return tree.tree_map(gather, in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Send the values of one process to all, as NumPy arrays: those of process 0, or of the one
    with `is_source`.

    >>> from gpuarray.experimental import multihost_utils
    >>> multihost_utils.broadcast_one_to_all(2.0)
    array(2.)
    """
    # Each process must agree on the source before values are sent.
    mine = process_index() == 0 if is_source is None else bool(is_source)
    flags = processes.gathered(b"1" if mine else b"0", "broadcast_one_to_all")
    sources = [i for i, flag in enumerate(flags) if flag == b"1"]
    if len(sources) != 1:
        raise ValueError(
            "broadcast_one_to_all takes the values of one process, and is_source is true in "
            f"{sources or 'none'}"
        )

    def send(x: Any) -> np.ndarray:
        return _gathered(np.asarray(x), "broadcast_one_to_all")[sources[0]]

    return tree.tree_map(send, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here; AssertionError where they give different names.

    >>> from gpuarray.experimental import multihost_utils
    >>> multihost_utils.sync_global_devices("saved")
    """
    names = processes.gathered(name.encode(), f"sync_global_devices({name!r})")
    if len(set(names)) > 1:
        raise AssertionError(
            f"sync_global_devices name mismatch: the processes give {[n.decode() for n in names]}"
        )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError in all processes unless all give the same values.

    >>> from gpuarray.experimental import multihost_utils
    >>> multihost_utils.assert_equal({"step": 3})
    """
    leaves, spec = tree.flatten(in_tree)
    values = [np.asarray(x) for x in leaves]
    parts = [str(spec).encode()]
    for x in values:
        parts += [f"{x.dtype} {x.shape}".encode(), np.ascontiguousarray(x).tobytes()]
    if not processes.same_bytes(parts, devices("cpu"), "assert_equal"):
        raise AssertionError(
            f"{fail_message} Expected the same values in all processes; process "
            f"{process_index()} has {in_tree}."
        )


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Make arrays over a mesh of the parts that each process has; `pspecs` is a prefix of the tree.

    >>> import numpy as np, gpuarray as ga
    >>> from gpuarray.experimental import multihost_utils
    >>> mesh = ga.sharding.Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> spec = ga.sharding.PartitionSpec("x")
    >>> multihost_utils.host_local_array_to_global_array(np.ones(2, "float32"), mesh, spec).shape
    (2,)
    """

    def make(x: Any, spec: PartitionSpec) -> Any:
        if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
            return x
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), x)

    return _by_spec(make, local_inputs, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Make arrays over this process's part of a mesh of the pieces that it holds.

    >>> import numpy as np, gpuarray as ga
    >>> from gpuarray.experimental import multihost_utils
    >>> mesh = ga.sharding.Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> spec = ga.sharding.PartitionSpec("x")
    >>> multihost_utils.global_array_to_host_local_array(np.ones(2, "float32"), mesh, spec).shape
    (2,)
    """

    def make(x: Any, spec: PartitionSpec) -> Any:
        if isinstance(x, ArrayImpl) and x.is_fully_addressable or not isinstance(x, ArrayImpl):
            return device_put(x, NamedSharding(global_mesh.local_mesh, spec))
        x = device_put(x, NamedSharding(global_mesh, spec))
        # The pieces of this process, concatenated in the order of the axes they cut.
        bounds = {
            tuple(s.indices(n)[:2] for s, n in zip(shard.index, x.shape, strict=True)): shard.data
            for shard in x.addressable_shards
        }
        # Along each axis the distinct pieces, and where they begin in the result: pieces of other
        # processes leave no gaps.
        starts = [sorted({b[axis] for b in bounds}) for axis in range(x.ndim)]
        ends = [np.cumsum([0, *(b - a for a, b in row)]) for row in starts]
        whole = np.empty([int(e[-1]) for e in ends], x.dtype)
        for where, piece in bounds.items():
            at = [
                slice(int(end[row.index(w)]), int(end[row.index(w) + 1]))
                for end, row, w in zip(ends, starts, where, strict=True)
            ]
            whole[tuple(at)] = np.asarray(piece)
        return device_put(whole, NamedSharding(global_mesh.local_mesh, spec))

    return _by_spec(make, global_inputs, pspecs)


def _by_spec(make: Any, values: Any, pspecs: Any) -> Any:
    is_spec = lambda s: isinstance(s, PartitionSpec)
    specs = tree.prefix_broadcast(pspecs, values, is_spec, "pspecs")
    leaves, spec = tree.flatten(values)
    return tree.unflatten(spec, [make(x, s) for x, s in zip(leaves, specs, strict=True)])


@contextlib.contextmanager
def live_devices(given: Sequence[Device]) -> Iterator[list[Device]]:
    """Yield those of some devices whose processes are alive: all of them, since a job ends with the
    first process that dies. The processes wait for each other here.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import multihost_utils
    >>> with multihost_utils.live_devices(ga.devices()[:1]) as live:
    ...     print(len(live))
    1
    """
    sync_global_devices("live_devices")
    yield list(given)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether to save now because a process is about to be preempted: False for one process.

    Several processes receive no such notice: RuntimeError.

    >>> from gpuarray.experimental import multihost_utils
    >>> multihost_utils.reached_preemption_sync_point(3)
    False
    """
    if not processes.is_initialized():
        return False
    raise RuntimeError(
        f"reached_preemption_sync_point({step_id}): there is no service here that announces a "
        "preemption: save every so many steps instead"
    )


__getattr__ = _explain_names(__name__)
