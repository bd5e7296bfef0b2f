"""Kernels on a GPU: text to functions that can be launched.

Floor 4. In: emitted kernels. Out: CuPy's `Function`s by the kernels' names. The sources of a plan
(backends/cuda/sources.py) go through NVIDIA's compiler once, or come as machine code from the cache
(backends/cuda/cubins.py).
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.backends.cuda import cubins, nvrtc, sources
from gpuarray.backends.cuda.availability import cupy, too_old
from gpuarray.backends.cuda.borrowed import Kept
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.compiler.cuda.emit import KernelSource
from gpuarray.core.threads import thread_count
from gpuarray.errors import CompileError, DeviceError

#: How many tables of addresses are kept for a kernel.
TABLES = 16
#: CUDA's number for the shared memory that launches of a kernel may set aside.
_ROOM = 8
#: In pieces of so many bytes a GPU gives shared memory to blocks.
_PIECE = 128


class Loaded(NamedTuple):
    """The kernels of a plan on a GPU.

    Attributes
    ----------
    functions :
        By the kernels' names; they take (grid, block, arguments, shared memory, stream).
    lengths :
        The values passed after the arguments of a kernel.
    rooms :
        Bytes of shared memory that a launch sets aside, if a kernel needs it.
    source, binary :
        The text, for readers, and the machine code.
    code :
        The object that unloads the code when it is no longer referenced and the launched work has
        run.
    """

    functions: dict[str, Any]
    lengths: dict[str, tuple[int, ...]]
    rooms: dict[str, int]
    source: str
    binary: bytes
    code: Kept | None = None


def load(kernels: Sequence[KernelSource], gpu: Gpu) -> Loaded:
    """Return the kernels as functions on a GPU."""
    if not kernels:
        return Loaded({}, {}, {}, "", b"")
    # The compiler's version is a part of the key: another one makes other code.
    version = cupy.cuda.nvrtc.getVersion()
    form, cubins_ = compiled(kernels, gpu.arch, version, _compile)
    modules = {}
    with gpu.device:
        # Modules belong to the device that is current when they are loaded.
        for source, cubin in zip(form.sources, cubins_, strict=True):
            module = cupy.cuda.function.Module()
            gpu.retried(module.load, cubin.data)
            modules |= dict.fromkeys(source.names, module)
        functions = {k: modules[name].get_function(name) for k, (name, _) in form.calls.items()}
        # As much as the GPU has besides the arrays of the text, which end before a whole piece.
        left = {k.name: (gpu.shared_bytes - k.shared_bytes) // _PIECE * _PIECE for k in kernels}
        rooms = {k.name: min(k.room, left[k.name]) for k in kernels if k.room}
        for name, room in rooms.items():
            cupy.cuda.driver.funcSetAttribute(functions[name].ptr, _ROOM, room)
    lengths = {k: given for k, (_, given) in form.calls.items()}
    binary = b"".join(c.data for c in cubins_)
    return Loaded(functions, lengths, rooms, form.text, binary, Kept(gpu, {*modules.values()}))


def compiled(
    kernels: Sequence[KernelSource],
    arch: str,
    version: Sequence[int],
    compile: Callable[[str, str, Sequence[str]], nvrtc.CompileResult],
) -> tuple[sources.Form, list[cubins.Cubin]]:
    """Return the machine code of kernels, source by source, and the form in which they are."""
    fixed, free = sources.constant(kernels), sources.general(kernels)
    # Use cached code, in either form; `compile_for` fills a folder in advance.
    for form in (fixed, free):
        kept = [cubins.find(s.text, arch, (), version) for s in form.sources]
        if all(kept):
            sources.chosen(kernels, fixed, free)  # these lengths are known from now on
            return form, [c for c in kept if c is not None]
    form = sources.chosen(kernels, fixed, free)
    make = lambda source: cubins.load(source.text, arch, (), version, compile)
    if len(form.sources) == 1:
        return form, [make(form.sources[0])]
    # NVRTC works without Python's lock.
    with concurrent.futures.ThreadPoolExecutor(thread_count()) as pool:
        return form, list(pool.map(make, form.sources))


def _compile(source: str, arch: str, options: Sequence[str]) -> nvrtc.CompileResult:
    """Compile with CuPy's NVRTC; to PTX for a GPU that is newer than the compiler."""
    api = cupy.cuda.nvrtc
    number, known = int(arch.removeprefix("sm_")), [int(a) for a in api.getSupportedArchs()]
    if why := too_old(arch, known):
        raise DeviceError(f"nothing can be compiled here: {why}")
    native = number in known
    flags = [f"--gpu-architecture={arch}", *nvrtc.OPTIONS, *options]
    if native:
        # The assembler's report of registers and spills.
        flags.append("--ptxas-options=--verbose")
    else:
        # The newest architecture the compiler knows; the driver compiles the PTX when it loads it.
        flags[0] = f"--gpu-architecture=compute_{max(a for a in known if a <= number)}"
    started = time.perf_counter()
    program = api.createProgram(source, "kernels.cu", (), ())
    try:
        try:
            api.compileProgram(program, flags)
        except api.NVRTCError as error:
            log = api.getProgramLog(program).strip()
            raise CompileError(f"NVRTC could not compile for {arch}: {error}\n{log}") from None
        log = api.getProgramLog(program)
        # CuPy takes the last byte of both for the end of a string: of machine code it is a byte.
        binary = api.getCUBIN(program) + b"\0" if native else api.getPTX(program)
    finally:
        api.destroyProgram(program)
    return nvrtc.CompileResult(binary, log, time.perf_counter() - started, nvrtc.resources(log))


class Table:
    """Addresses as an array on the GPU, for kernels that look up their operands."""

    def __init__(self, gpu: Gpu):
        self._gpu = gpu
        self._known: dict[tuple[int, ...], Buffer] = {}

    def __call__(self, *addresses: int) -> Buffer:
        found = self._known.get(addresses)
        if found is None:
            # Addresses that change at every call would fill memory with tables.
            if len(self._known) >= TABLES:
                self._known.clear()
            found = self._gpu.upload(np.array(addresses, np.uint64))
            self._known[addresses] = found
        return found


def announced(function: Any, kernel: KernelSource) -> Callable[..., None]:
    """Return a kernel that prints a line when it is launched."""
    # The first line of the text names the kernel and its operations.
    title = kernel.text.partition("\n")[0].removeprefix("// ")

    def launch(grid, block, arguments, shared, stream) -> None:
        print(f"# launch {title}    {grid[0]} x {block[0]} threads")
        function(grid, block, arguments, shared, stream)

    return launch
