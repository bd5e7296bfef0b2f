"""Units of native kernels: compiled, kept on disk, loaded.

Floor 4. In: the text of a unit. Out: a `Unit`, whose functions take ndarrays. Failures (no
compiler, a broken one, a full disk) raise one of `FAULTS`. A unit is unloaded when none of its
functions is referenced any more; the threads that share tasks belong to the process.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import pathlib
import platform
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from gpuarray import util
from gpuarray.backends import hostcc
from gpuarray.backends.native import arrays
from gpuarray.backends.numpy.tiles import thread_count
from gpuarray.backends.store import Store
from gpuarray.compiler.text.prelude import folder
from gpuarray.config import config
from gpuarray.core.target import PROCESSOR
from gpuarray.errors import CompileError, DeviceError


class TooManyError(DeviceError):
    """As many units are loaded as a process should have."""


#: Possible errors between a text and its functions; NumPy runs the program then.
FAULTS = (CompileError, DeviceError, OSError, MemoryError)
#: Seconds that a compiler may take.
PATIENCE = 30.0

# No fast-math: nan, infinities and -0.0 must be as in NumPy. A product and a sum are rounded
# separately, unless the text says fma. No errno and no traps: nothing reads them, and loops with
# them are not vectorised. Signed integers wrap.
_FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-w", "-ffp-contract=off", "-fwrapv", "-fno-math-errno",
    "-fno-trapping-math", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fvisibility=hidden", f"-DGA_HEAD={arrays.HEAD}",
)  # fmt: skip
#: The first flag of each group that the compiler accepts: all instructions of this CPU; the widest
#: vectors, which compilers avoid for the sake of older CPUs. Not -fno-thread-jumps, with which more
#: loops are vectorised: g++ 12 then makes zeros of `i < n ? x[i] y[i - n]` in some nests.
_CHOICES = (
    ("-march=native", "-mcpu=native"),
    ("-mprefer-vector-width=512",),
)
#: Gather instructions, which g++ avoids on CPUs that it does not know and on those where they once
#: were slow. The last name is that before g++ 13.
_GATHERS = tuple(
    f"-mtune-ctrl=use_gather_2parts,use_gather_4parts,{name}"
    for name in ("use_gather_8parts", "use_gather")
)
_LINKED = ("-shared", "-Wl,-Bsymbolic")
#: Units are linked without the C++ library, for which a linker would take twice as long.
_ALONE = ("-nostdlib", "-lgcc")
#: Functions of C's for which it looks as long as for all else, and that the process has.
_OF_C = ("malloc", "memcpy", "fmod", "lgamma")

#: Functions of Python's that loops call.
_PYTHON = {
    "ga_let_go": "PyEval_SaveThread",
    "ga_take_back": "PyEval_RestoreThread",
    "ga_handle_signals": "PyErr_CheckSignals",
}

#: Functions of the threads of this process (kernels/native/pool.cpp).
_POOL = {"ga_share": "ga_pool_share", "ga_has_stack": "ga_pool_has_stack"}

#: BLAS in the order of `ga_blas` (kernels/native/44_products.cuh).
_BLAS = tuple(kind + name for name in ("gemm", "gemv", "trsm") for kind in "sdcz")
#: LAPACK in the order of `ga_lapack` (kernels/native/46_matrices.cuh).
_LAPACK = tuple(
    kind + name
    for name in ("syevd", "getrf", "potrf", "geqrf", "orgqr", "gesdd", "geev")
    for kind in ("s", "d")
)
_linalg = util.lazy_module("scipy.linalg")

#: Bytes of the stack of a thread that is made for a call.
_STACK = 1 << 23

_store = Store("native", ".so")
_lock = util.lock()
#: Loaded units by their text, as long as something has a function of them.
_units: weakref.WeakValueDictionary[str, Unit] = weakref.WeakValueDictionary()


class Unit:
    """A compiled unit, loaded into this process."""

    def __init__(self, library: ctypes.CDLL):
        self._library = library
        # The library is linked without dependencies: it gets the addresses of the functions that it
        # calls in Python, BLAS and LAPACK.
        ctypes.c_void_p.in_dll(library, "ga_array_type").value = id(np.ndarray)
        for ours, name in _POOL.items():
            address = ctypes.cast(getattr(_pool(), name), ctypes.c_void_p)
            ctypes.c_void_p.in_dll(library, ours).value = address.value
        for ours, name in _PYTHON.items():
            function = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
            ctypes.c_void_p.in_dll(library, ours).value = function.value
        if hasattr(library, "ga_blas"):
            products = (ctypes.c_void_p * len(_BLAS)).in_dll(library, "ga_blas")
            products[:] = _functions(_linalg.cython_blas, _BLAS)
            alone = ctypes.cast(_pool_with_blas().ga_blas_alone, ctypes.c_void_p)
            ctypes.c_void_p.in_dll(library, "ga_blas_alone").value = alone.value
        if hasattr(library, "ga_lapack"):
            routines = (ctypes.c_void_p * len(_LAPACK)).in_dll(library, "ga_lapack")
            routines[:] = _functions(_linalg.cython_lapack, _LAPACK)

    def function(self, name: str, operands: int, brief: bool) -> Callable[..., int]:
        """Return a function of `operands` arrays; it returns 1 if one of them has to be copied
        first, and 4 if its thread has too small a stack: see `with_stack`.

        A brief one keeps Python's lock: to take it back, where another thread has it, would take
        longer than the call.
        """
        prototype = ctypes.PYFUNCTYPE if brief else ctypes.CFUNCTYPE
        address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert address is not None
        made: Any = prototype(ctypes.c_int, *(ctypes.py_object,) * operands)(address)
        made.unit = self  # a call has its function, and so the unit
        return made

    def __del__(self):
        # At the end of the process other threads may be in it.
        if not sys.is_finalizing() and hasattr(self, "_library"):
            _ctypes.dlclose(self._library._handle)


def loaded() -> int:
    """Return how many units this process has loaded."""
    return len(_units)


def load(text: str) -> Unit:
    """Return the unit of a text, compiled if it is neither in memory nor on disk."""
    with _lock:
        found = _units.get(text)
    if found is not None:
        return found
    if not arrays.are_readable():
        raise DeviceError("this version of NumPy lays out arrays in a way that is not known")
    if len(_units) >= PROCESSOR.units:
        raise TooManyError(f"{PROCESSOR.units} units of native code are loaded")
    # A compiler takes long: other threads do not wait for it. Of two that compile the same text,
    # the unit of the first is kept.
    made = _loaded("unit.cpp", text, (*_ALONE, *_libraries_of_c()), Unit)
    with _lock:
        return _units.setdefault(text, made)


@functools.cache
def _libraries_of_c() -> tuple[str, ...]:
    """Return C's libraries as a linker names them; none if a loaded unit finds their functions in
    the process.
    """
    process = ctypes.CDLL(None)
    return () if all(hasattr(process, name) for name in _OF_C) else ("-lm", "-lc")


T = TypeVar("T")


def _loaded(name: str, text: str, libraries: tuple[str, ...], use: Callable[[ctypes.CDLL], T]) -> T:
    """Return the result of `use` for a compiled and loaded text.

    A file may be complete and yet not a valid library: the compiler was broken, or the folder comes
    from another machine. It is removed, and compiled again.
    """
    for last in (False, True):
        path = _compiled(name, text, libraries)
        try:
            return use(ctypes.CDLL(str(path)))
        except (OSError, ValueError, AttributeError) as error:
            with contextlib.suppress(OSError):
                path.unlink()
            if last:
                raise CompileError(
                    f"{hostcc.compiler()} made a library that cannot be loaded: {error}"
                ) from error
    raise AssertionError


def _compiled(name: str, text: str, libraries: tuple[str, ...]) -> pathlib.Path:
    """Return the path of a compiled text."""
    cxx = hostcc.compiler()
    flags = (*_FLAGS, *_tuned(cxx), *_LINKED)
    # Valid only for this CPU.
    key = "\0".join([hostcc.version(cxx), _processor(), *flags, *libraries, text]).encode()

    def commands(place: pathlib.Path, target: pathlib.Path) -> list[list[str]]:
        (place / name).write_text(text)
        return [[*hostcc.words(cxx), *flags, str(place / name), "-o", str(target), *libraries]]

    return hostcc.compiled(_store, key, commands, PATIENCE).path


@functools.cache
def _tuned(cxx: str) -> tuple[str, ...]:
    """Return the flags of `_CHOICES` that the compiler has."""
    wanted = (*_CHOICES, *([_GATHERS] if _gathers_fast() else []))
    # Most compilers have the first of each: that is one question.
    first = tuple(choices[0] for choices in wanted)
    if hostcc.accepts(cxx, *first):
        return first
    found: tuple[str, ...] = ()
    for choices in wanted:
        for flag in choices:
            if hostcc.accepts(cxx, flag):
                found += (flag,)
                break
    return found


def _gathers_fast() -> bool:
    """Return whether gathers are fast: on Intel's CPUs that need no mitigation for them."""
    threat = pathlib.Path("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling")
    try:
        safe = threat.read_text().strip() == "Not affected"
    except OSError:  # an older kernel, which does not say
        return False
    return safe and "GenuineIntel" in pathlib.Path("/proc/cpuinfo").read_text()


@functools.cache
def _processor() -> str:
    """Return the CPU's name and features."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(told)))


# ---- threads ----
@functools.cache
def _pool() -> ctypes.CDLL:
    """Return the library with the threads of this process, which all units share."""
    text = (folder() / "native" / "pool.cpp").read_text()
    pool = _loaded("pool.cpp", text, ("-lpthread",), _started)
    config.on_update("num_threads", lambda _: pool.ga_pool_threads(thread_count()))
    return pool


def _started(pool: ctypes.CDLL) -> ctypes.CDLL:
    pool.ga_pool_threads(thread_count())
    return pool


def with_stack(call: Callable[[], int]) -> int:
    """Return the result of a call in a thread that has as much stack as a main thread."""
    with ThreadPoolExecutor(1) as thread:
        with _lock:
            before = threading.stack_size(_STACK)
            try:
                found = thread.submit(call)
            finally:
                threading.stack_size(before)
        return found.result()


# ---- BLAS and LAPACK ----
@functools.cache
def _functions(module: Any, names: tuple[str, ...]) -> list[int]:
    """Return the addresses of functions that SciPy exports for compiled code."""
    return [util.address_in(module.__pyx_capi__[name]) for name in names]


@functools.cache
def _pool_with_blas() -> ctypes.CDLL:
    """Return the pool, with the function that limits SciPy's BLAS to one thread, if known."""
    pool = _pool()
    # The library that SciPy uses is found through the names that this one needs.
    library = ctypes.CDLL(_linalg.cython_blas.__file__)
    for prefix in ("scipy_openblas", "openblas"):
        names = [f"{prefix}_get_num_threads", f"{prefix}_set_num_threads"]
        if all(hasattr(library, name) for name in names):
            for ours, name in zip(("ga_blas_threads", "ga_blas_use"), names, strict=True):
                address = ctypes.cast(getattr(library, name), ctypes.c_void_p)
                ctypes.c_void_p.in_dll(pool, ours).value = address.value
            break
    return pool


def blas_threads_of(pool: ctypes.CDLL) -> int | None:
    """Return how many threads SciPy's BLAS uses; None if it does not report it."""
    address = ctypes.c_void_p.in_dll(pool, "ga_blas_threads").value
    return None if address is None else ctypes.CFUNCTYPE(ctypes.c_int)(address)()
