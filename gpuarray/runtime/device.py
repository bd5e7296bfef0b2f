"""Devices, and the place of new arrays.

Floor 5. In: settings. Out: Device objects, made on first use, so that an import touches no
hardware.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpuarray import sites, util
from gpuarray.backends import hostcc
from gpuarray.backends.cuda import device as cuda
from gpuarray.backends.cuda.availability import missing
from gpuarray.backends.cuda.pinned import is_pinned, pinned
from gpuarray.config import config, state
from gpuarray.core import ranges
from gpuarray.core.sharding import (
    Device,
    Place,
    Sharding,
    laid_out,
    one_device,
    place_of,
)
from gpuarray.errors import DeviceError, JaxRuntimeError
from gpuarray.settings import ALIASES, PLATFORMS, from_environment

_log = logging.getLogger("gpuarray")
_lock = util.lock()
_cpus: list[Device] = []
_gpus: list[Device] = []
_simulators: list[Device] = []
#: How many CPU devices each process has; empty where there is one process.
_counts: tuple[int, ...] = ()
#: Numbers of the GPUs that this process uses; None: all.
_chosen_gpus: tuple[int, ...] | None = None
#: Process, number on its machine and name of the GPUs of all processes; empty: all are ours.
_all_gpus: tuple[tuple[int, int, str], ...] = ()
#: XLA_FLAGS when they were last read.
_flags = os.environ.get("XLA_FLAGS", "")
#: The line that first used devices: processes have to be joined before that, and the error names
#: the line.
_first_use: Any = None


def join(
    process: int,
    counts: Sequence[int],
    gpus: Sequence[int] | None,
    all_gpus: Sequence[tuple[int, int, str]] = (),
) -> None:
    """Make this process one of several: must come before any use of devices.

    Parameters
    ----------
    process :
        Its number.
    counts :
        How many CPU devices each process has.
    gpus :
        Numbers of the GPUs of this machine that this process uses; None for all.
    all_gpus :
        The GPUs of all processes: the process, the number on its machine, and the name of each.
    """
    global _counts, _chosen_gpus, _all_gpus
    with _lock:
        _counts, _chosen_gpus = tuple(counts), None if gpus is None else tuple(gpus)
        _all_gpus = tuple(all_gpus)
        Device.here = process


def first_use() -> Any:
    """Return the line that first used devices; None if no line has."""
    return _first_use


def _noted() -> None:
    global _first_use
    if _first_use is None:
        _first_use = sites.user_frame()


def cpu_count() -> int:
    """How many CPU devices this process has, or is to have.

    XLA_FLAGS are read again: programs set them between importing and the first use of a device.
    """
    global _flags
    if (flags := os.environ.get("XLA_FLAGS", "")) != _flags:
        _flags = flags
        found, _ = from_environment(os.environ)
        config.update("num_cpu_devices", found.get("num_cpu_devices", state.num_cpu_devices))
    return max(1, state.num_cpu_devices)


# Double-checked locking: these lists are read at every operation.
def _cpu_devices() -> list[Device]:
    if not _cpus:
        with _lock:
            if not _cpus:
                _noted()
                counts = _counts or (cpu_count(),)
                owners = [(p, i) for p, count in enumerate(counts) for i in range(count)]
                # Numbers run through all processes, in order, so that each knows every device.
                _cpus.extend(
                    Device("cpu", number, process_index=p, local_hardware_id=i)
                    for number, (p, i) in enumerate(owners)
                )
    return _cpus


def _simulator_devices() -> list[Device]:
    if not _simulators:
        hostcc.compiler()  # raises here, at the call, if there is none
        with _lock:
            if not _simulators:
                _noted()
                _simulators.extend(
                    Device("simulator", i, process_index=Device.here) for i in range(cpu_count())
                )
    return _simulators


def _gpu_devices() -> list[Device]:
    if not _gpus:
        found = cuda.gpus()  # raises here, at the call, if there is none
        with _lock:
            if not _gpus:
                _noted()
                _gpus.extend(
                    Device("gpu", number, name, process, index)
                    for number, (process, index, name) in enumerate(_all_gpus)
                )
                # With one process, no other process knows its GPUs.
                if not _all_gpus:
                    _gpus.extend(
                        Device("gpu", gpu.index, gpu.name, Device.here)
                        for gpu in found
                        if _chosen_gpus is None or gpu.index in _chosen_gpus
                    )
    return _gpus


def forget_gpus() -> None:
    """Look for GPUs again on the next use of a device."""
    _gpus.clear()
    cuda.forget()
    ranges.use_marks(None)


def gpu_of(device: Device) -> cuda.Gpu | None:
    """Return the driver object of a GPU; None for devices that work in host memory."""
    return cuda.gpus()[device.local_hardware_id] if device.platform == "gpu" else None


def stored(value: Any, device: Device, kind: str = "device") -> Any:
    """Return a buffer in a memory of `device`, copied if it is in another.

    Buffers are NumPy values, or those of a GPU, whose `kind` of memory may be "pinned_host".
    """
    gpu = gpu_of(device)
    # Three cases: to host memory, from the host to a GPU, and between GPUs.
    if gpu is None:
        return np.asarray(value) if type(value) is cuda.Buffer else value
    if type(value) is not cuda.Buffer:
        with copying(value.nbytes, "the host", device):
            return gpu.upload(value) if kind == "device" else pinned(gpu, value)
    if value.gpu is gpu and is_pinned(value) == (kind == "pinned_host"):
        return value
    if kind == "pinned_host":
        # By way of the device's own memory: copies between GPUs arrive there.
        return pinned(gpu, stored(value, device))
    with copying(value.nbytes, f"cuda:{value.gpu.index}", device):
        return gpu.copy(value)


def copying(nbytes: int, source: Any, target: Any) -> AbstractContextManager[Any]:
    """Return a range of a copy, for the profile that is being taken."""
    if ranges.session is None:
        return _no_range
    name = f"copy from {source} to {target}"
    return ranges.Range(name, "copy", {"bytes": nbytes})


_no_range = nullcontext()


def in_use() -> list[Device]:
    """Return the first device of each platform that was asked for."""
    return [found[0] for found in (_cpus, _gpus, _simulators) if found]


def gpus_in_use() -> list[Device]:
    """Return the GPUs if they have been used yet; it does not look for them."""
    return list(_gpus)


def wait_for_gpus() -> None:
    """Wait until the GPUs in use have run everything that was launched on them."""
    for device in _gpus:
        if device.is_addressable:
            cuda.gpus()[device.local_hardware_id].wait()


_DEVICES = {"cpu": _cpu_devices, "gpu": _gpu_devices, "simulator": _simulator_devices}


def _default_devices() -> list[Device]:
    """Return the devices of the first platform in the settings.

    Without a setting these are the GPUs if there are any, else the CPU devices.
    """
    name = (state.platforms or state.platform_name).partition(",")[0].strip()
    if not name:
        return _cpu_devices() if missing() else _gpu_devices()
    name = ALIASES.get(name, name)
    # An unknown platform is an error, and so is one that cannot be used here.
    if name not in _DEVICES:
        raise RuntimeError(
            f"Unable to initialize backend {name!r}: there is none of that name. {_available()} "
            "Change the setting jax_platforms (GPUARRAY_PLATFORMS)."
        )
    try:
        return _DEVICES[name]()
    except DeviceError as error:
        raise DeviceError(
            f"Unable to initialize backend {name!r}, which the setting jax_platforms "
            f"(GPUARRAY_PLATFORMS) asks for: {error}"
        ) from None


def _check_count(value: int) -> None:
    """Refuse a new number of simulated devices once arrays may be on the existing ones."""
    # Devices are objects that arrays hold: their number is fixed once they exist.
    have = _counts[Device.here] if _counts else len(_cpus or _simulators)
    if have and max(1, value) != have:
        raise RuntimeError(
            "jax_num_cpu_devices config should be updated before backends are initialized, i.e. "
            "before "
            f"any array is made or devices are asked for; there are {have} already"
        )


def _check_gpu_count(value: int) -> None:
    """Refuse a new number of GPUs once they are in use."""
    if _gpus and value != state.num_gpu_devices:
        raise RuntimeError(
            "num_gpu_devices must be set before GPUs are used, as with the variable "
            f"GPUARRAY_NUM_GPU_DEVICES; there are {len(_gpus)} already"
        )


def _check_visible(value: str) -> None:
    """Refuse another choice of GPUs once they are in use."""
    if _gpus and value != state.cuda_visible_devices:
        raise RuntimeError(
            "cuda_visible_devices must be set before GPUs are used, as with the variable "
            f"JAX_CUDA_VISIBLE_DEVICES; there are {len(_gpus)} already"
        )


config.on_update("cuda_visible_devices", _check_visible)


def _check_there(value: Any) -> None:
    """Refuse the name of a platform that cannot be used here."""
    # Do not create devices yet: their number may be set, and processes joined, after this.
    name = ALIASES.get(value, value) if isinstance(value, str) else ""
    if name == "simulator":
        hostcc.compiler()  # raises
    if name == "gpu" and (why := missing()):
        raise ValueError(
            "default_device must be a Device or the name of a platform that can be used here, "
            f"got: {value!r}. {why}"
        )


config.on_update("default_device", _check_there)
config.on_update("num_cpu_devices", _check_count)
config.on_update("num_gpu_devices", _check_gpu_count)


def guard(direction: str, what: str, explicit: bool = False) -> None:
    """Refuse or log a copy, as the transfer guard of its direction says.

    `explicit` copies (device_put, device_get) are subject to the levels `log_explicit` and
    `disallow_explicit` only.
    """
    setting = f"transfer_guard_{direction}"
    level = getattr(state, setting)
    # "disallow_explicit" and "log_explicit" apply to explicit copies, too.
    if level in (None, "allow") or explicit and not level.endswith("explicit"):
        return
    words = f"{direction.replace('_', '-')} transfer: {what}"
    if level.startswith("log"):
        _log.warning("%s", words)
        return
    how = "" if explicit else "use device_put or device_get where a copy is meant, or "
    raise JaxRuntimeError(f"Disallowed {words}. The setting {setting} is {level!r}: {how}allow it.")


def _available() -> str:
    """Say which platforms can be used here, and why others cannot."""
    found, lacking = [], []
    for name in PLATFORMS:
        try:
            _DEVICES[name]()
            found.append(name)
        except DeviceError as error:
            lacking.append(f"{name!r} cannot be used here: {error}")
    return " ".join([f"Available backends are {found}.", *lacking])


def platform_named(name: str | None) -> str | None:
    """Return a platform's own name for any of its names; None where none is given."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"a backend is the name of a platform, such as 'cpu', got {name!r}.")
    found = ALIASES.get(name, name) if name else name
    if found is not None and found not in ("", *PLATFORMS):
        raise RuntimeError(f"Unknown backend {name}. {_available()}")
    return found or None


def devices(backend: str | None = None) -> list[Device]:
    """Return all devices of a platform, by default of the default one; "cuda" means "gpu".

    >>> import gpuarray as ga
    >>> ga.devices()[0].platform
    'cpu'
    """
    backend = platform_named(backend)
    if not backend:
        return list(_default_devices())
    try:
        return list(_DEVICES[backend]())
    except DeviceError as error:
        # Programs that test for a backend look for JAX's first words.
        raise DeviceError(f"Unknown backend {backend!r} on this machine: {error}") from None


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """Return the devices of this process (of process `process_index`).

    >>> import gpuarray as ga
    >>> ga.local_devices(backend="cpu")[0].platform
    'cpu'
    """
    index = host_id if process_index is None else process_index
    if index is None:
        index = Device.here
    elif index not in process_indices():
        raise ValueError(
            f"Unknown process_index {index}: this run has {process_count()} process"
            f"{'' if process_count() == 1 else 'es'}, counted from 0"
        )
    return [device for device in devices(backend) if device.process_index == index]


def device_count(backend: str | None = None) -> int:
    """Return how many devices there are in all processes.

    >>> import gpuarray as ga
    >>> ga.device_count("cpu") >= 1
    True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return how many devices this process has.

    >>> import gpuarray as ga
    >>> ga.local_device_count("cpu") >= 1
    True
    """
    return len(local_devices(backend=backend))


def default_backend() -> str:
    """Return the platform that new arrays go to."""
    return default_place().device.platform


def process_index(backend: str | None = None) -> int:
    """Return the number of this process, 0 if there is only one.

    >>> import gpuarray as ga
    >>> ga.process_index()
    0
    """
    if backend is not None:
        devices(backend)  # raises if it is unknown
    return Device.here


def process_count(backend: str | None = None) -> int:
    """Return how many processes take part.

    >>> import gpuarray as ga
    >>> ga.process_count()
    1
    """
    if backend is not None:
        devices(backend)
    return len(_counts) or 1


def process_indices(backend: str | None = None) -> list[int]:
    """Return the numbers of all processes.

    >>> import gpuarray as ga
    >>> ga.process_indices()
    [0]
    """
    return list(range(process_count(backend)))


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"{old} has been renamed to {new}", DeprecationWarning, stacklevel=3)


def host_count(backend: str | None = None) -> int:
    """Return `process_count()`: the older name.

    >>> import warnings, gpuarray as ga
    >>> with warnings.catch_warnings(action="ignore"):  # it is deprecated
    ...     ga.host_count()
    1
    """
    _renamed("host_count", "process_count")
    return process_count(backend)


def host_id(backend: str | None = None) -> int:
    """Return `process_index()`: the older name.

    >>> import warnings, gpuarray as ga
    >>> with warnings.catch_warnings(action="ignore"):  # it is deprecated
    ...     ga.host_id()
    0
    """
    _renamed("host_id", "process_index")
    return process_index(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """Return `process_indices()`: the older name.

    >>> import warnings, gpuarray as ga
    >>> with warnings.catch_warnings(action="ignore"):  # it is deprecated
    ...     ga.host_ids()
    [0]
    """
    _renamed("host_ids", "process_indices")
    return process_indices(backend)


def default_place() -> Place:
    """Return the Place of new arrays: that of `default_device`, else of the first device."""
    chosen = state.default_device
    if chosen is None:
        found = _default_devices()
        # With one process the first device is its own: no need to look, at every operation.
        return place_of(_own(found) if _counts else found[0])
    if isinstance(chosen, str):
        return place_of(_own(devices(chosen)))
    if isinstance(chosen, Sharding):
        return place_of(one_device(chosen, "default_device"))
    return place_of(chosen)


def _own(found: list[Device]) -> Device:
    """Return the first device of this process."""
    return next(device for device in found if device.is_addressable)


def place_for(target) -> Place:
    """Return the committed Place for a user's `device=` argument.

    It may be a Device, a Sharding, or a name such as 'cpu' or 'gpu:1'.
    """
    if isinstance(target, Place):
        return target
    if isinstance(target, str):
        platform, _, number = target.partition(":")
        found = devices(platform)
        if number and not (number.isdigit() and int(number) < len(found)):
            raise ValueError(
                f"Unknown device {target!r}: {platform} has devices 0 to {len(found) - 1}"
            )
        return _reached(place_of(found[int(number)] if number else _own(found), True))
    if isinstance(target, Device):
        return _reached(place_of(target, True))
    if isinstance(target, Sharding):
        return _reached(laid_out(target))
    raise ValueError(
        f"cannot place an array on {target!r} of type {type(target)}: expected a Device "
        "(see gpuarray.devices()), a SingleDeviceSharding, or a name such as 'cpu' or 'cpu:1'"
    )


def _reached(place: Place) -> Place:
    if place.devices:
        return place
    raise ValueError(
        f"Cannot copy array to non-addressable device {place.device}: it belongs to process "
        f"{place.device.process_index}, and this is process {Device.here}. Its devices are "
        "those of gpuarray.local_devices()."
    )
