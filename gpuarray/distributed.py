"""Several processes that run one program together.

Floor 6. In: the number of processes and this one's index, or nothing if a launcher provides them.
Out: the devices of all processes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import processes as _processes


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Join the other processes of the program: call it before devices are used.

    The processes are started by an MPI launcher, which gives them their numbers: `python -m
    gpuarray launch -n 4 script.py`, mpiexec, or that of a cluster. No argument is needed.

    Parameters
    ----------
    coordinator_address, coordinator_bind_address, heartbeat_timeout_seconds :
        Without effect, which a warning says: programs for JAX give them. There is no coordinator,
        and the launcher notices when a process dies.
    num_processes, process_id :
        Checked against MPI's value.
    local_device_ids :
        Numbers of the GPUs of this machine that this process uses. By default each process has one,
        by its number on the machine, unless CUDA_VISIBLE_DEVICES chooses.
    cluster_detection_method :
        "mpi4py" or None.
    initialization_timeout, shutdown_timeout_seconds :
        How long the other processes may take to start, and to come to `shutdown`.
    slice_index, partition_index :
        Must be None: processes are in no slices.

    Examples
    --------

    >>> import gpuarray as ga
    >>> ga.distributed.is_initialized()
    False
    """
    if cluster_detection_method not in (None, "mpi4py"):
        raise ValueError(
            f"distributed.initialize: cluster_detection_method={cluster_detection_method!r}; "
            "processes find each other by MPI, so give 'mpi4py' or None"
        )
    for name, value in (("slice_index", slice_index), ("partition_index", partition_index)):
        if value is not None:
            raise ValueError(f"distributed.initialize: {name}={value}: there are no slices here")
    for name, value in (
        ("coordinator_address", coordinator_address),
        ("coordinator_bind_address", coordinator_bind_address),
    ):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"distributed.initialize: {name} must be a str, got {value!r}")
        if value is not None:
            _say_idle(name, value)
    if _positive("heartbeat_timeout_seconds", heartbeat_timeout_seconds) != 100:
        _say_idle("heartbeat_timeout_seconds", heartbeat_timeout_seconds)
    gpus = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
    _processes.initialize(
        num_processes,
        process_id,
        gpus,
        _positive("initialization_timeout", initialization_timeout),
        _positive("shutdown_timeout_seconds", shutdown_timeout_seconds),
    )


def _say_idle(name: str, value: Any) -> None:
    warnings.warn(
        f"distributed.initialize: {name}={value!r} has no effect: processes find each other by "
        "MPI, there is no coordinator, and the launcher sees a process die. Leave it out.",
        stacklevel=3,
    )


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or value <= 0:
        raise ValueError(f"distributed.initialize: {name} must be positive, got {value!r}")
    return value


def is_initialized() -> bool:
    """Whether this process has joined others.

    >>> import gpuarray as ga
    >>> ga.distributed.is_initialized()
    False
    """
    return _processes.is_initialized()


def shutdown() -> None:
    """Wait for the other processes and disconnect from them; does nothing before `initialize`.

    >>> import gpuarray as ga
    >>> ga.distributed.shutdown()
    """
    _processes.shutdown()


__getattr__ = _explain_names(__name__)
