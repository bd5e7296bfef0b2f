"""NVRTC, NVIDIA's compiler as a library, through ctypes: CUDA C++ text to PTX or machine code.

Floor 4. In: text and an architecture. Out: `CompileResult`: PTX, or a cubin with the registers and
spills of each kernel. It needs no GPU. The library is that of the wheel `nvidia-cuda-nvrtc`, or of
a CUDA toolkit that the loader finds; it is opened at the first compile, never on import.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import pathlib
import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuarray.backends.cuda import machine_code
from gpuarray.compiler.explain.grades import Instructions
from gpuarray.errors import CompileError
from gpuarray.util import Struct

#: Always set: C++17, no implicit fused multiply-adds (the NumPy rules have none), device functions.
OPTIONS = ("--std=c++17", "--fmad=false", "-default-device")
# Newest first: the names for the loader if there is no wheel.
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll")


class Resources(NamedTuple):
    """A kernel's use of a multiprocessor's resources."""

    registers: int
    spills: int = 0  # bytes stored because registers did not suffice
    shared: int = 0  # bytes of shared memory per block


class CompileResult(Struct):
    """Result of a compile."""

    binary: bytes
    log: str
    seconds: float
    kernels: dict[str, Resources] = {}

    @property
    def ptx(self) -> str:
        """The PTX, if requested."""
        return self.binary.rstrip(b"\0").decode()

    @property
    def instructions(self) -> dict[str, Instructions]:
        """What the machine code of each kernel consists of, if that was requested."""
        return machine_code.instructions(self.binary)


def available() -> bool:
    """Whether NVRTC can be opened here."""
    return _library() is not None


def version() -> tuple[int, int]:
    """Return the version of NVRTC."""
    lib, major, minor = _need(), ctypes.c_int(), ctypes.c_int()
    lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def compile(source: str, arch: str, options: Sequence[str] = ()) -> CompileResult:
    """Compile a source; `arch` is "sm_90" for machine code, "compute_90" for PTX."""
    lib = _need()
    flags = [f"--gpu-architecture={arch}", *OPTIONS, *options]
    # Only the assembler reports registers and spills; PTX has not been through it.
    if arch.startswith("sm_"):
        flags.append("--ptxas-options=--verbose")
    program = ctypes.c_void_p()
    started = time.perf_counter()
    _check(
        lib,
        lib.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        ),
    )
    try:
        given = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
        status = lib.nvrtcCompileProgram(program, len(flags), given)
        # The log is read before the status is checked: it has the errors.
        log = _bytes(lib, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status:
            raise CompileError(f"NVRTC could not compile for {arch}:\n{log.strip()}")
        binary = _bytes(lib, program, "CUBIN" if arch.startswith("sm_") else "PTX")
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
    return CompileResult(binary, log, time.perf_counter() - started, resources(log))


def resources(log: str) -> dict[str, Resources]:
    """Return registers, spills and shared memory of each kernel, from the assembler's log.

    The log must have been made with the option --ptxas-options=--verbose.
    """
    # The log has a section for each kernel.
    found: dict[str, Resources] = {}
    for part in log.split("Compiling entry function '")[1:]:
        name = part.partition("'")[0]

        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        found[name] = Resources(
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes spill stores"),
            number(r"(\d+) bytes smem"),
        )
    return found


def _candidates() -> Iterator[str]:
    """Yield paths to try: in NVIDIA's wheels, then names that the loader looks up."""
    # NVIDIA's wheels share the namespace package `nvidia`, each with its own folder.
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        for name in ("libnvrtc.so.[0-9]*", "nvrtc64*_0.dll"):
            yield from sorted(map(str, pathlib.Path(root).glob(f"*/lib/{name}")), reverse=True)
            yield from sorted(map(str, pathlib.Path(root).glob(f"*/bin/*/{name}")), reverse=True)
    yield from _NAMES


@functools.cache
def _library() -> ctypes.CDLL | None:
    for name in _candidates():
        try:
            # NVRTC opens its library of built-in functions by name. In a wheel, both are outside
            # the loader's path, so it is loaded in advance.
            for builtins in sorted(pathlib.Path(name).parent.glob("*nvrtc-builtins*")):
                # "alt" is a variant for other host libraries.
                if "alt" not in builtins.name:
                    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            lib = ctypes.CDLL(name)
        except OSError:
            # Try the next candidate.
            continue
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        return lib
    return None


def _need() -> ctypes.CDLL:
    lib = _library()
    if lib is None:
        raise RuntimeError(
            "NVRTC was not found: install the wheel nvidia-cuda-nvrtc, or a CUDA toolkit."
        )
    return lib


def _check(lib: ctypes.CDLL, status: int) -> None:
    if status:
        raise CompileError(f"NVRTC: {lib.nvrtcGetErrorString(status).decode()}")


def _bytes(lib: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    # NVRTC writes into memory of the caller, who queries the size first.
    size = ctypes.c_size_t()
    _check(lib, getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(lib, getattr(lib, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw
