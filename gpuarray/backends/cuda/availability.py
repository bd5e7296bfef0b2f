"""CuPy, loaded on first use, and the reason if no GPU can be used.

Floor 4. In: nothing. Out: `cupy`, whose attributes raise an error that says how to install it;
`missing()`, the reason in words.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence

import numpy as np

from gpuarray.util import lazy_module

metadata = lazy_module("importlib.metadata")

INSTALL = (
    "Install CuPy with the extra that fits NVIDIA's driver: `gpuarray-runtime[cuda13]`, or "
    "`gpuarray-runtime[cuda12]` for an older one. `python -m gpuarray doctor` says which."
)
cupy = lazy_module("cupy", INSTALL)


def cupy_has(dtype: np.dtype) -> bool:
    """Whether CuPy has a dtype, bfloat16 aside.

    >>> cupy_has(np.dtype("float16"))
    True
    """
    # Of ml_dtypes, which NumPy does not count as its own, float8_e5m2 has the kind of floats.
    return dtype.kind in "biufc" and dtype.isbuiltin != 2


#: CuPy has a distribution for each version of CUDA; all of them install the package `cupy`.
DISTRIBUTIONS = ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x")


def distributions() -> list[tuple[str, str]]:
    """Return CuPy's distributions that are installed, with their versions."""
    found = []
    for name in DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append((name, metadata.version(name)))
    return found


@functools.cache
def missing() -> str:
    """Return why no GPU can be used here, and the remedy; empty if one can."""
    # Found without importing CuPy, which takes a second.
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed. {INSTALL}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # a broken installation fails in many ways
        return _reason(error)
    return "" if count else _no_device()


def _reason(error: Exception) -> str:
    """Return why CuPy cannot count the GPUs, and the remedy."""
    said = f"{type(error).__name__}: {error}"
    installed = [f"{name} {version}" for name, version in distributions()]
    # The more likely causes first. Two wheels installed together fail in arbitrary ways, so CuPy's
    # message is no guide.
    if len(installed) > 1:
        return (
            f"{' and '.join(installed)} are installed, and overwrite each other's files ({said}): "
            f"`pip uninstall {' '.join(name for name, _ in distributions())}`, then install one. "
            f"{INSTALL}"
        )
    if isinstance(error, ImportError) and "libcuda" not in str(error):
        return f"CuPy cannot be imported ({said}). {INSTALL}"
    status = getattr(error, "status", None)
    if status == _NO_DEVICE:
        return _no_device()
    if not has_driver():
        return (
            f"NVIDIA's driver is not here: its library {DRIVER} does not load ({said}). Install "
            "the driver; a container sees that of its host if it is started with `--gpus all` "
            "(NVIDIA's container toolkit)."
        )
    if status == _OLD_DRIVER:
        return (
            f"NVIDIA's driver is older than the CUDA of CuPy ({said}). Update the driver, or take "
            "the extra for an older CUDA, `gpuarray-runtime[cuda12]`."
        )
    if status in _NOT_STARTED:
        return (
            f"NVIDIA's driver is not ready ({said}). `nvidia-smi` should show the GPU; on machines "
            "with NVSwitch the service nvidia-fabricmanager has to run, and a driver that was "
            "updated needs a restart of the machine."
        )
    return f"CuPy found no GPU: {said}. {INSTALL}"


def _no_device() -> str:
    """Return why a driver that works shows no GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return (
            "NVIDIA's driver shows no GPU. `nvidia-smi -L` lists those of this machine: none there "
            "means that the machine or container was given none (`--gpus all`); a GPU in MIG mode "
            "needs an instance (`nvidia-smi mig -cgi ... -C`)."
        )
    if not visible.strip() or visible.strip().startswith("-"):
        return (
            f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides all GPUs: unset it, or name some, "
            "as in CUDA_VISIBLE_DEVICES=0."
        )
    instance = " (MIG instances are named by their UUID, MIG-...)" if "MIG" in visible else ""
    return (
        f"CUDA_VISIBLE_DEVICES is {visible!r}, and none of these is here: `nvidia-smi -L` lists "
        f"what there is{instance}."
    )


#: Numbers of CUDA's errors: no device; a driver older than the runtime; a driver or a fabric that
#: is not up, or another than the one that is loaded.
_NO_DEVICE, _OLD_DRIVER, _NOT_STARTED = 100, 35, (3, 46, 802, 803, 804)
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def has_driver() -> bool:
    """Whether the library of NVIDIA's driver loads."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def too_old(arch: str, known: Sequence[int]) -> str:
    """Return why a GPU is too old for a compiler that knows these architectures; empty if not."""
    if int(arch.removeprefix("sm_")) >= min(known):
        return ""
    return (
        f"the GPU is {arch}, and this version of NVIDIA's compiler makes code for sm_{min(known)} "
        "and later. CUDA 12 still does: install CuPy with `gpuarray-runtime[cuda12]` instead, or "
        "compute on the CPU with JAX_PLATFORMS=cpu."
    )
