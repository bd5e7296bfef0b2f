"""Facts about this machine: versions, processors, memory, GPUs, folders, settings.

Floor 8. In: the current machine. Out: rows of text, and advice. Nothing is installed, written or
changed. NVIDIA's driver is queried for its GPUs only if its library is present.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gpuarray as ga
from gpuarray.backends import hostcc
from gpuarray.backends.cuda import convolutions, cudnn, fused_products, shared_libraries
from gpuarray.backends.cuda.availability import INSTALL, cupy, distributions, too_old
from gpuarray.backends.cuda.availability import missing as gpus_missing
from gpuarray.backends.cuda.device import gpus as gpus_here
from gpuarray.backends.store import platformdirs
from gpuarray.compiler.explain.tables import plural, size
from gpuarray.config import settings, state
from gpuarray.core.threads import blas_is_limited, blas_threads, thread_count
from gpuarray.errors import CompileError, DeviceError


class Section(NamedTuple):
    """Rows of (name, value) under a title."""

    title: str
    rows: list[tuple[str, str]]


@dataclass
class Found:
    """Everything in the report, and the facts that advice is based on."""

    # The printed report, and the same facts as values, from which advice is derived.
    sections: list[Section] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


# Packages that gpuarray needs or uses; NVRTC has a different name for each version of CUDA.
_DISTRIBUTIONS = ("ml_dtypes", "opt_einsum", "scipy", "platformdirs")
_NVRTC = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12")


def look() -> Found:
    """Collect the facts about this machine, in the order of the report."""
    found = Found()
    found.sections = [
        Section("software", _software()),
        Section("computes on", _processors(found.facts)),
        Section("native code", _native(found.facts)),
        Section("NVIDIA", _nvidia(found.facts)),
        Section("folders", _folders(found.facts)),
        Section("settings that differ from their defaults", _settings(found.facts)),
    ]
    return found


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _software() -> list[tuple[str, str]]:
    rows = [
        ("gpuarray", f"{ga.__version__}  {os.path.dirname(os.path.abspath(ga.__file__))}"),
        ("Python", f"{platform.python_version()}  {sys.executable}"),
        ("NumPy", f"{np.__version__}, {_blas()}"),
    ]
    rows += [(name, _version(name) or "not found") for name in _DISTRIBUTIONS]
    rows.append(("matplotlib", _version("matplotlib") or "not installed (pictures as SVG only)"))
    return rows


def _blas() -> str:
    # NumPy only reports how it was built.
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"BLAS {blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _processors(facts: dict) -> list[tuple[str, str]]:
    # The cores this process may use, not those of the machine.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts["cores"], facts["threads"] = cores, thread_count()
    rows = [
        ("devices", ", ".join(map(str, ga.devices()))),
        ("processor", f"{platform.machine()}, {plural(cores or 1, 'core')} for this process"),
        ("threads", f"{facts['threads']} share a large group of operations; {_blas_threads()}"),
    ]
    # Windows has no sysconf; the line is left out there.
    if hasattr(os, "sysconf"):
        rows.append(("memory", size(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))))
    facts["copy"] = _copy_speed()
    rows.append(("memory copy", f"{facts['copy'] / 1e9:.1f} GB/s read and written, one thread"))
    return rows


def _blas_threads() -> str:
    """How many threads a matrix product has."""
    if not blas_is_limited():
        return "BLAS has a number of its own (threadpoolctl is not installed)"
    found = ", ".join(f"{name} {count}" for name, count in blas_threads())
    return f"of BLAS: {found or 'unknown'}"


def _copy_speed() -> float:
    """Bytes a second of one thread that copies, read and written, best of a few tries."""
    # 32 MB: beyond most caches, and still quick to copy.
    source = np.ones(1 << 22)
    target = np.empty_like(source)
    # The best of a few: other programs only make it slower.
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    # Every byte is read once and written once.
    return 2 * source.nbytes / best


#: The modes of native code.
_MODES = {
    "off": "off: NumPy runs everything",
    "auto": "auto: NumPy answers, and what is called again is compiled meanwhile",
    "wait": "wait: compiled before the first call",
}


def _native(facts: dict) -> list[tuple[str, str]]:
    """The compiler of native code, and what it has compiled."""
    facts["compiler"] = None
    try:
        command = hostcc.compiler()
        version = hostcc.version(command)
        facts["compiler"], text = command, f"{version}  {command}"
    except CompileError as error:
        text = f"it does not work: {' '.join(str(error).split())}"
    except DeviceError as error:
        text = f"none: {error}"
    rows = [("compiler", text), ("mode", _MODES[state.native])]
    try:
        folder = cache_folder() / "native"
        files = list(folder.glob("*.so"))
    except (ImportError, OSError) as error:
        return [*rows, ("libraries", f"not to be seen: {error}")]
    kept = f"{plural(len(files), 'file')}, {size(sum(p.stat().st_size for p in files))}"
    return [*rows, ("libraries", f"{folder} ({kept if files else 'none yet'})")]


# ---- NVIDIA ----


def _nvidia(facts: dict) -> list[tuple[str, str]]:
    driver = _driver()
    facts.update(driver)
    # All installed ones: several of them overwrite one another's files.
    cupys = distributions()
    facts["cupys"] = cupys
    # A CuPy built from source has no distribution of these names.
    facts["cupy"] = bool(cupys) or importlib.util.find_spec("cupy") is not None
    nvrtc = [(d, v) for d in _NVRTC if (v := _version(d))]
    # Asked last: the reason why gpuarray uses no GPU, although parts may be there.
    missing = gpus_missing()
    # To install CuPy would not help.
    if missing and not facts["cupy"] and driver["text"] == "not found":
        missing = "this machine has no driver of NVIDIA's"
    if not missing:
        facts["too_old"] = _too_old()
    if driver["gpus"]:
        gpus = "; ".join(driver["gpus"])
    elif driver["library"]:
        gpus = f"none ({driver['error'] or 'the driver counts no devices'})"
    else:
        gpus = "none seen"
    return [
        ("GPUs", gpus),
        ("driver", driver["text"]),
        ("CuPy", ", ".join(f"{d} {v}" for d, v in cupys) or "not installed"),
        ("NVRTC", ", ".join(f"{d} {v}" for d, v in nvrtc) or _nvrtc_library() or "not found"),
        ("cuBLASLt", _called("cublasLt", (13, 12), fused_products.library, bool(missing))),
        ("cuDNN", _called("cudnn", cudnn.VERSIONS, convolutions.library, bool(missing))),
        (
            "used by gpuarray",
            f"no, it computes on the CPU: {missing}" if missing else "yes",
        ),
    ]


#: The fallback for each missing library.
_WITHOUT = {
    "cublasLt": "a product and what is behind it are several launches",
    "cudnn": "convolutions copy their images for a product; the extra `cudnn` brings it, "
    "`cudnn-cuda12` that for CUDA 12",
}


def _called(name: str, versions: Sequence[int], of: Callable[[Any], Any], no_gpu: bool) -> str:
    """Whether a library that is called through its C functions is installed, and the consequences
    if not.
    """
    try:
        if not no_gpu:
            of(gpus_here()[0])
        found = shared_libraries.path(name, versions)
        return "found" if found is None and not no_gpu else str(found or "not found")
    except shared_libraries.Refused as error:
        return f"not used ({error}): {_WITHOUT[name]}"


def _too_old() -> list[str]:
    """GPUs for which CuPy's compiler makes no code."""
    try:
        known = [int(a) for a in cupy.cuda.nvrtc.getSupportedArchs()]
    except Exception as error:  # a broken installation fails in many ways
        return [f"CuPy's compiler does not answer ({type(error).__name__}: {error}). {INSTALL}"]
    return [f"{gpu.name}: {why}" for gpu in gpus_here() if (why := too_old(gpu.arch, known))]


def _driver() -> dict[str, Any]:
    """The facts that NVIDIA's driver reports, if it is installed."""
    out: dict[str, Any] = {
        "library": False,
        "gpus": [],
        "cuda": 0,
        "error": "",
        "text": "not found",
    }
    kernel = _kernel_module()
    try:
        # NVIDIA's own library, not CuPy: it answers without CUDA being installed.
        lib = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        if kernel:
            out["text"] = f"kernel module {kernel}, but its library libcuda.so.1 does not load"
        return out
    out["library"] = True
    # The version can be queried even if cuInit fails.
    status = lib.cuInit(0)
    version = ctypes.c_int()
    if lib.cuDriverGetVersion(ctypes.byref(version)) == 0:
        out["cuda"] = version.value
    # 13010 means 13.1.
    cuda = f"CUDA {out['cuda'] // 1000}.{out['cuda'] % 1000 // 10}"
    out["text"] = f"{kernel or 'library libcuda.so.1'}, up to {cuda}"
    if status != 0:
        out["error"] = f"cuInit gave error {status}"
        return out
    count = ctypes.c_int()
    lib.cuDeviceGetCount(ctypes.byref(count))
    # A device that does not answer is left out rather than ending the report.
    for i in range(count.value):
        handle, name = ctypes.c_int(), ctypes.create_string_buffer(100)
        memory = ctypes.c_size_t()
        if lib.cuDeviceGet(ctypes.byref(handle), i) == 0:
            lib.cuDeviceGetName(name, len(name), handle)
            lib.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
            out["gpus"].append(f"{name.value.decode(errors='replace')} ({size(memory.value)})")
    return out


def _kernel_module() -> str:
    """The version of NVIDIA's kernel module, if Linux reports it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        # Other systems have no such file.
        return ""
    match = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
    return match.group() if match else ""


def _nvrtc_library() -> str:
    if sys.platform == "win32":
        return ""
    # The newest first, as CuPy looks for it.
    for major in (13, 12):
        name = f"libnvrtc.so.{major}"
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return f"{name} of the system"
    return ""


# ---- folders and settings ----


def cache_folder() -> Path:
    """Where compiled kernels are kept: the setting, else this user's cache folder."""
    chosen = state.compilation_cache_dir or state.cache_dir
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("gpuarray"))


def _folders(facts: dict) -> list[tuple[str, str]]:
    try:
        # platformdirs is needed only where no setting names a folder.
        folder = cache_folder()
    except ImportError as error:
        facts["cache"] = Path(os.devnull)
        return [("kernel cache", f"none: {error}")]
    facts["cache"] = folder
    if not state.enable_compilation_cache:
        how = "switched off"
    elif not folder.exists():
        how = "empty: made when the first kernel is compiled"
    else:
        # Only look: do not create anything.
        files = [p for p in folder.rglob("*") if p.is_file()]
        how = f"{plural(len(files), 'file')}, {size(sum(p.stat().st_size for p in files))}"
    return [("kernel cache", f"{folder} ({how})")]


def _settings(facts: dict) -> list[tuple[str, str]]:
    # Only what differs from the defaults can explain an unexpected result.
    changed = {
        n: getattr(state, n) for n, row in settings.items() if getattr(state, n) != row.default
    }
    facts["settings"] = changed
    rows = []
    for name, value in changed.items():
        # In this order the settings look for them: our own name wins over JAX's.
        variables = [
            p + name.upper() for p in ("GPUARRAY_", "JAX_") if p + name.upper() in os.environ
        ]
        rows.append((name, f"{value!r}" + (f"  from {variables[0]}" if variables else "")))
    return rows or [("none", "")]


# ---- advice ----

# The cost of a setting that is not at its default.
_SLOW = {
    "fusion": "operations run one by one: GPUARRAY_FUSION=1 fuses them",
    "disable_jit": "jitted functions run step by step",
    "debug_nans": "every result is searched for NaNs, and nothing is fused meanwhile",
    "debug_infs": "every result is searched for infinities, and nothing is fused meanwhile",
    "enable_checks": "every recorded graph is type-checked",
    "check_plans": "programs are verified after every pass of the compiler",
    "enable_x64": "64-bit types double the memory that everything moves",
}


def advice(found: Found) -> list[str]:
    """Possible improvements, one sentence each."""
    facts = found.facts
    lines = [
        f"{name} = {facts['settings'][name]!r}: {_SLOW[name]}"
        for name in _SLOW
        if name in facts["settings"]
    ]
    lines += _gpu_advice(facts)
    if facts["compiler"] is None:
        lines.append(
            "with a C++ compiler, programs are compiled for this CPU: fewer passes over memory, "
            "and loops whose turns call no Python. Install g++ or clang++ (Debian: apt install "
            "g++; Fedora: dnf install gcc-c++; conda: conda install gxx), or name one with CXX"
        )
    elif state.native == "off":
        lines.append("GPUARRAY_NATIVE=auto has programs compiled for this CPU in the background")
    # More threads than cores take turns and slow one another down.
    if facts["threads"] > facts["cores"]:
        lines.append(
            f"num_threads is {facts['threads']} on {facts['cores']} cores: 0 means one a core"
        )
    if "num_threads" in facts["settings"] and not blas_is_limited():
        lines.append("num_threads reaches BLAS too where threadpoolctl is installed")
    # The kernel cache holds code that will be run: it should be private, and writable.
    folder = facts["cache"]
    # Others could read the user's programs there, as kernels.
    if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        lines.append(f"others can read {folder}: chmod 700 makes the kernel cache private")
    if folder.is_dir() and not os.access(folder, os.W_OK):
        lines.append(f"{folder} is not writable: GPUARRAY_CACHE_DIR names another folder")
    if _version("matplotlib") is None:
        lines.append("with matplotlib (the extra `viz`), the demo writes PNG beside SVG")
    return lines


def _gpu_advice(facts: dict) -> list[str]:
    if len(facts["cupys"]) > 1:
        names = " and ".join(d for d, _ in facts["cupys"])
        return [f"{names} hide one another: keep the one that fits the driver, remove the others"]
    # From the driver up: each step only makes sense once the one before it is in order.
    if not facts["library"]:
        if facts["cupy"]:
            return ["CuPy is here but NVIDIA's driver is not: without it there is no GPU to use"]
        return []
    if not facts["gpus"]:
        return [f"NVIDIA's driver shows no GPU: {facts['error'] or 'look at CUDA_VISIBLE_DEVICES'}"]
    lines = list(facts.get("too_old", ()))
    if any(" MIG " in name for name in facts["gpus"]):
        lines.append(
            "a process sees one instance of a GPU in MIG mode, with its part of the memory and the "
            "multiprocessors: programs over several devices need whole GPUs"
        )
    if not facts["cupy"]:
        # 13000 is CUDA 13.0; a driver runs programs of its own version or older.
        extra = "cuda13" if facts["cuda"] >= 13000 else "cuda12"
        lines.append(
            f"for the GPU install the extra `{extra}`, which brings CuPy: the driver fits it"
        )
    elif facts["cuda"] < 13000 and any(d == "cupy-cuda13x" for d, _ in facts["cupys"]):
        lines.append("the driver is older than CUDA 13: take the extra `cuda12`, or a newer driver")
    return lines
