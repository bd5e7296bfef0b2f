"""Puts the stand-in where `import cupy` finds it, and takes it away again without a trace.

In: a seed and what the machine has. Out: a context in which gpuarray finds GPUs; at its end nothing
may be wrong, and no memory of a device may be taken any more.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence

import gpuarray as ga
from gpuarray.backends.cuda import shared_libraries
from gpuarray.config import config
from gpuarray.runtime import device, lazy
from gpuarray.util import _LazyModule
from tests.fake_cupy import (
    arrays,
    cublaslt,
    cudnn,
    errors,
    kernels,
    libraries,
    memory,
    nccl,
    nvtx,
    runtime,
    streams,
)
from tests.fake_cupy.c_library import CLibrary
from tests.fake_cupy.world import World, world

#: What is there besides the functions of the library, by CuPy's names.
NAMES = {
    "cupy": {
        "RawKernel": kernels.RawKernel,
        "RawModule": kernels.RawModule,
        "asarray": libraries.asarray,
        "asnumpy": libraries.asnumpy,
        "from_dlpack": arrays.from_dlpack,
        "get_default_memory_pool": arrays.get_default_memory_pool,
        "ndarray": arrays.ndarray,
        **{name: arrays.sorting(name) for name in ("argsort", "sort")},
    },
    "cupy.cuda": {
        "Device": streams.Device,
        "Event": streams.Event,
        "Function": kernels.Function,
        "Graph": streams.Graph,
        "MemoryPointer": memory.MemoryPointer,
        "MemoryPool": memory.MemoryPool,
        "Module": kernels.Module,
        "Stream": streams.Stream,
        "UnownedMemory": memory.UnownedMemory,
        "alloc": arrays.alloc,
        "alloc_pinned_memory": memory.alloc_pinned_memory,
        "get_current_stream": streams.get_current_stream,
        "get_elapsed_time": streams.get_elapsed_time,
        "set_allocator": arrays.set_allocator,
        "using_allocator": arrays.using_allocator,
    },
    "cupy.cuda.cublas": {
        "CUBLASError": errors.CUBLASError,
        "gemmStridedBatchedEx": libraries.gemmStridedBatchedEx,
    },
    "cupy.cuda.cufft": {"CuFFTError": errors.CuFFTError},
    "cupy.cuda.cusolver": {"CUSOLVERError": errors.CUSOLVERError},
    "cupy.cuda.device": {"get_cublas_handle": libraries.get_cublas_handle},
    "cupy.cuda.driver": {
        "CUDADriverError": errors.CUDADriverError,
        "funcSetAttribute": kernels.funcSetAttribute,
    },
    "cupy.cuda.function": {"Function": kernels.Function, "Module": kernels.Module},
    "cupy.fft": {name: arrays.transform(name) for name in ("fftn", "ifftn", "irfftn", "rfftn")},
    "cupy.fft.config": {"get_plan_cache": arrays.get_plan_cache},
    "cupy.linalg": {"cholesky": libraries.cholesky, "eig": libraries.eig},
    "cupyx": {"errstate": libraries.errstate, "seterr": libraries.seterr},
    "cupyx.scipy": {},
    "cupyx.scipy.linalg": {
        "lu_factor": libraries.lu_factor,
        "solve_triangular": libraries.solve_triangular,
    },
    "cupy.cuda.memory": {
        "Memory": memory.Memory,
        "MemoryPointer": memory.MemoryPointer,
        "MemoryPool": memory.MemoryPool,
        "OutOfMemoryError": errors.OutOfMemoryError,
        "UnownedMemory": memory.UnownedMemory,
    },
    "cupy.cuda.nccl": {
        "NcclCommunicator": nccl.NcclCommunicator,
        "NcclError": errors.NcclError,
        "available": True,
        "get_unique_id": nccl.get_unique_id,
        "get_version": nccl.get_version,
        "groupEnd": nccl.groupEnd,
        "groupStart": nccl.groupStart,
        **{name: number for name, number in vars(nccl).items() if name.startswith("NCCL_")},
    },
    "cupy.cuda.nvrtc": {
        "NVRTCError": errors.NVRTCError,
        **{
            name: getattr(kernels, name)
            for name in (
                "createProgram compileProgram getCUBIN getPTX getProgramLog destroyProgram "
                "getSupportedArchs getVersion"
            ).split()
        },
    },
    "cupy.cuda.nvtx": {
        "RangePop": nvtx.RangePop,
        "RangePush": nvtx.RangePush,
        "available": nvtx.available,
    },
    "cupy.cuda.runtime": {
        "CUDARuntimeError": errors.CUDARuntimeError,
        "eventQuery": streams.eventQuery,
        **{name: f for name, f in vars(runtime).items() if name.startswith(("mem", "get", "set"))},
        **{
            name: getattr(runtime, name)
            for name in (
                "deviceCanAccessPeer deviceSynchronize driverGetVersion runtimeGetVersion "
                "streamSynchronize streamCaptureModeGlobal streamCaptureModeRelaxed "
                "streamCaptureModeThreadLocal"
            ).split()
        },
    },
}
#: Functions of the library that NumPy has under the same name.
LIBRARY = {
    "cupy": "all ascontiguousarray full_like isfinite searchsorted stack take_along_axis where",
    "cupy.linalg": "eigh qr svd",
}


TOPS = ("cupy", "cupyx")
#: Libraries of C functions.
C_LIBRARIES = {"cublasLt": cublaslt.library, "cudnn": cudnn.library}


def _load(name: str, versions: Sequence[int]) -> CLibrary:
    return C_LIBRARIES[name]


def _modules() -> dict[str, types.ModuleType]:
    made = {name: types.ModuleType(name) for name in NAMES}
    made |= {name: types.ModuleType(name) for name in LIBRARY if name not in made}
    for name, module in made.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        vars(module).update(NAMES.get(name, {}))
        prefix = name.removeprefix("cupy").removeprefix(".")  # fft, linalg: as NumPy's
        for function in LIBRARY.get(name, "").split():
            setattr(module, function, arrays.library(f"{prefix}.{function}".lstrip(".")))
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
    return made


_MODULES = _modules()


def _forget() -> None:
    """Let gpuarray ask again which GPUs there are, and let go of what it keeps on them."""
    lazy.flush_all()  # what was recorded and forgotten holds its operands
    ga.clear_caches()
    device.forget_gpus()
    arrays.get_plan_cache().clear()
    shared_libraries._said.clear()  # a library that is missing is told of once a process
    for name, module in list(sys.modules.items()):
        if name.startswith("gpuarray.backends.cuda"):
            for value in vars(module).values():
                if type(value) is _LazyModule and value.__name__.partition(".")[0] in TOPS:
                    value._lazy[0] = None
    gc.collect()


@contextlib.contextmanager
def installed(
    seed: int = 0,
    devices: int = 1,
    memory: int = 1 << 30,
    idle: bool = False,
    nccl: bool = True,
) -> Iterator[World]:
    """gpuarray on GPUs that are not there; see `World.reset` for the arguments.

    nccl: whether NCCL's library is there
    """
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in TOPS}
    options = {"jax_platforms": "cuda", "jax_default_matmul_precision": "highest"}
    kept = {name: config.read(name) for name in options}
    for name in before:
        del sys.modules[name]
    _forget()
    world.reset(seed, devices, memory, idle)
    loaded, shared_libraries.load = shared_libraries.load, _load
    for library in C_LIBRARIES.values():
        library.reset()
    _MODULES["cupy.cuda.nccl"].available = nccl  # type: ignore[attr-defined]
    sys.modules.update(_MODULES)
    # Products in full precision, as on a CPU, with which they are compared: TF32 is asked for.
    for name, value in options.items():
        config.update(name, value)
    # What was there before is never looked through again when somebody collects garbage or asks for
    # the arrays alive.
    gc.freeze()
    try:
        yield world
        check()
    finally:
        for name, value in kept.items():
            config.update(name, value)
        _forget()
        shared_libraries.load = loaded
        for name in _MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def check() -> None:
    """Everything ran, nothing was wrong, and no memory is taken."""
    world.repair()
    _forget()
    world.finish()
    gc.collect()  # work that ran just now held a GPU
    for library in C_LIBRARIES.values():
        library.check()
    if world.open_ranges:
        world.fault(f"{world.open_ranges} NVTX ranges are opened and not closed")
    assert not world.faults, "\n".join(world.faults)
    taken = [repr(b) for b in (*world.blocks, *world.pinned) if b.live]
    assert not taken, "memory is still taken:\n" + "\n".join(taken)
