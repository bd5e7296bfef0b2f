"""The host's C++ compiler: CUDA C++ text as machine code of this CPU.

Floor 4. In: kernel text that is complete except for CUDA's own names. Out: a `Library` whose
kernels can be launched; kernels/host has the C++ that runs and checks them. Compiled libraries are
cached (backends/store.py).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.backends.store import Store, StoredCode
from gpuarray.compiler.text.prelude import folder
from gpuarray.errors import CompileError, DeviceError
from gpuarray.util import lazy_module

hashlib = lazy_module("hashlib")
subprocess = lazy_module("subprocess")
tempfile = lazy_module("tempfile")

# No contraction to fused multiply-adds: the results are compared bit by bit with NumPy's.
_COMMON = ("-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-exceptions")
#: Hooks before every access (thread), and checks of alignment and of indices into known arrays.
_WATCHED = (
    "-fsanitize=thread", "-fsanitize=bounds", "-fsanitize=alignment",
    "-fvisibility=hidden", "-fno-threadsafe-statics",
    "-Werror=narrowing",  # errors in other compilers
)  # fmt: skip
#: Kernels run once or twice here: without optimisation they compile in two thirds of the time of
#: -Og, and that in three quarters of the time of -O1.
_PLAIN = ("-O0",)
#: Checks vectors and other structs that are read and written as a whole beyond their array, which
#: needs the optimiser. It costs a quarter more time: only for texts with such arrays. Users'
#: kernels are compiled here too, so only the text can tell.
_WHOLE = ("-Og", "-fsanitize=object-size")
_ARRAYS = re.compile(r"\bga_\w+(?:<[^;()]*>)? \w+\[\d+\];")
#: Fills uninitialised variables with a conspicuous pattern, where the compiler can do that.
_FILLED = "-ftrivial-auto-var-init=pattern"
#: Kernels need nothing of the C++ library, and the C functions that they call are already in the
#: process, since the runtime needs them: searching both would take longer than the rest.
_LINKED = (
    "-shared", "-nostdlib", "-Wl,-Bsymbolic",
    # Calls that a compiler makes of copies of structs are accesses like others (race.cpp).
    "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset",
)  # fmt: skip
_RUNTIME = ("runtime.cpp", "race.cpp")

# Kinds of Regions, as in kernels/host/simulator.h.
INPUT, OUTPUT, WORK, SHARED = range(4)


class Region(NamedTuple):
    """Memory that a kernel may access."""

    address: int
    nbytes: int
    kind: int
    itemsize: int
    name: str


# The struct Region of kernels/host/simulator.h; `shift` is the binary logarithm of the item size.
class _CRegion(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("shift", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


# ---- the compiler ----
class NoCompilerError(DeviceError):
    """There is no C++ compiler on this machine."""


def compiler() -> str:
    """Return the command of the host's C++ compiler: $CXX, g++ or clang++. `words` makes a list of
    it.
    """
    wanted = [os.environ.get("CXX", ""), "g++", "clang++"]
    for name in wanted:
        # A path unchanged, or words such as `ccache g++`.
        for words in ([name], _split(name)):
            if words and words[0] and (path := shutil.which(words[0])):
                return shlex.join([path, *words[1:]])
    raise NoCompilerError(
        f"found no C++ compiler: looked for {', '.join(w for w in wanted if w)}. Install g++ or "
        "clang++, or set CXX to one."
    )


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation without its end
        return []


def words(command: str) -> list[str]:
    """Return the command of a compiler as the words that it is run with."""
    return shlex.split(command)


@functools.cache
def version(command: str) -> str:
    """Return the name and version of a compiler."""
    # The first line names the compiler and its version; others are its licence.
    return run([*words(command), "--version"], PATIENCE).partition("\n")[0]


@functools.cache
def _watched(path: str) -> tuple[str, ...]:
    """Return the flags for kernels, without those that this compiler does not know."""
    # Tested by an empty compilation: older compilers lack the flag.
    knows = accepts(path, _FILLED)
    return (*_WATCHED, *([_FILLED] if knows else []))


def accepts(command: str, *flags: str) -> bool:
    """Whether a compiler knows flags."""
    nothing = ("-fsyntax-only", "-x", "c++", os.devnull)
    try:
        run([*words(command), "-Werror", *flags, *nothing], PATIENCE)
    except CompileError:
        return False
    return True


#: Seconds in which a compiler should report its version.
PATIENCE = 30.0
#: Compilers that run, for `stop`.
_running: set[Any] = set()
#: Folders in which they work.
_places: set[pathlib.Path] = set()
_ended = False


def _forget() -> None:
    """Forget the compilers of the parent in a forked child, which does not end them."""
    _running.clear()
    _places.clear()


os.register_at_fork(after_in_child=_forget)


class EndedError(CompileError):
    """The process ends, and with it its compilers."""


def run(
    command: Sequence[str], timeout: float | None = None, place: pathlib.Path | None = None
) -> str:
    """Run a compiler and return its output; raise CompileError if it fails. Its intermediate files
    are in the folder `place`.
    """
    if _ended:
        raise EndedError("the process ends")
    name = os.path.basename(command[0])
    pipe = subprocess.PIPE
    environment = None if place is None else {**os.environ, "TMPDIR": str(place)}
    try:
        # In a separate process group: a compiler starts others, which have to end with it. Its
        # output may contain any bytes.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True,
            text=True, errors="replace", env=environment,
        )  # fmt: skip
    except OSError as error:
        raise CompileError(f"{name} cannot be run: {error}") from error
    _running.add(process)
    try:
        said, log = process.communicate(timeout=timeout)
    except BaseException as error:
        _kill(process)
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise CompileError(f"{name} took more than {timeout:g} s and was ended") from None
    finally:
        _running.discard(process)
    if _ended:
        raise EndedError("the process ends")
    if process.returncode < 0:
        raise CompileError(f"{name} was ended by signal {-process.returncode}")
    if process.returncode:
        # An error in a template can be followed by hundreds of lines.
        log = "\n".join(log.strip().splitlines()[:30])
        raise CompileError(f"{name} refused a kernel:\n{log}")
    return said


def stop() -> None:
    """End the running compilers; threads that wait for one get an EndedError."""
    global _ended
    _ended = True
    for process in list(_running):
        _kill(process)
        process.wait()
    # Threads that would do so may not live to do it.
    for place in list(_places):
        shutil.rmtree(place, ignore_errors=True)


atexit.register(stop)


def _kill(process: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# ---- cached libraries ----
# Libraries are named after the text they were compiled from, so a stale one is never loaded.
_store = Store("simulator", ".so")


def compiled(
    store: Store,
    key: bytes,
    commands: Callable[[pathlib.Path, pathlib.Path], list[list[str]]],
    timeout: float | None = None,
) -> StoredCode:
    """Return the compiled library of a key.

    `commands(folder, target)` returns the commands that make it in a folder, if it is missing; each
    may take `timeout` seconds.
    """

    def make() -> tuple[bytes, bytes]:
        # A compiler writes to the disk; the store takes the bytes, and the folder is removed. Not a
        # TemporaryDirectory: a forked child would remove that of its parent when it ends.
        place = pathlib.Path(tempfile.mkdtemp(prefix="gpuarray-"))
        _places.add(place)
        try:
            target = place / "made.so"
            for command in commands(place, target):
                run(command, timeout, place)
            return target.read_bytes(), b""
        finally:
            shutil.rmtree(place, ignore_errors=True)
            _places.discard(place)

    return store.load(key, make)


def _runtime(cxx: str) -> pathlib.Path:
    """Return the path of the compiled runtime.

    Once it is loaded, kernel libraries find it by a name derived from its content.
    """
    host = folder() / "host"
    texts = [(host / name).read_text() for name in ("simulator.h", *_RUNTIME)]
    key = "\0".join([version(cxx), *_COMMON, *texts]).encode()
    # A soname: the loader then takes the runtime that is in memory, wherever its file is.
    name = f"-Wl,-Bsymbolic,-soname,gpuarray-{hashlib.sha256(key).hexdigest()}.so"
    flags = [*_COMMON, "-O2", "-shared", name]

    def commands(_, target: pathlib.Path) -> list[list[str]]:
        return [[*words(cxx), *flags, *(str(host / n) for n in _RUNTIME), "-o", str(target)]]

    return compiled(_store, key, commands).path


def compile_library(text: str, kernels: Sequence[str]) -> Library:
    """Compile kernels (the `extern "C"` names in `text`) and load them."""
    cxx = compiler()
    # CUDA's own names first, then the kernels, then a function for each that takes its arguments.
    host = folder() / "host"
    parts = [(host / name).read_text() for name in ("names.h", "cuda_host.h")] + [text]
    parts += [f"SIM_EXPORT({name})" for name in kernels]
    source = "\n".join(parts) + "\n"
    runtime = _runtime(cxx)
    flags = [*_COMMON, *_watched(cxx), *(_WHOLE if _ARRAYS.search(text) else _PLAIN)]
    key = "\0".join([version(cxx), *flags, runtime.name, source]).encode()

    def commands(place: pathlib.Path, target: pathlib.Path) -> list[list[str]]:
        text = place / "kernels.cpp"
        text.write_text(source)
        made = [str(text), str(runtime), "-o", str(target), "-lgcc"]
        # -Bsymbolic: a library calls its own functions, and not those of another one with equal
        # names.
        return [[*words(cxx), *flags, *_LINKED, *made]]

    return Library(_loaded(runtime), compiled(_store, key, commands).path, kernels[0])


def load_host(name: str, *flags: str) -> ctypes.CDLL:
    """Compile and load a self-contained file of kernels/host."""
    cxx, source = compiler(), folder() / "host" / name
    flags = ("-std=c++17", "-fPIC", "-O2", "-shared", *flags)
    key = "\0".join([version(cxx), *flags, source.read_text()]).encode()

    def commands(_, target: pathlib.Path) -> list[list[str]]:
        return [[*words(cxx), *flags, str(source), "-o", str(target)]]

    return ctypes.CDLL(str(compiled(_store, key, commands).path))


# By file name, which is a hash of the content.
_runtimes: dict[str, ctypes.CDLL] = {}


def _loaded(path: pathlib.Path) -> ctypes.CDLL:
    """Load a runtime, or return it if it is loaded already."""
    library = _runtimes.get(path.name)
    if library is None:
        library = _runtimes[path.name] = ctypes.CDLL(str(path))
        numbers = [ctypes.c_int] + [ctypes.c_uint64] * 3
        library.sim_launch.argtypes = [ctypes.c_void_p] * 4 + numbers + [ctypes.c_void_p]
        library.sim_error.restype = ctypes.c_char_p
    return library


# ---- loaded libraries ----
class Library:
    """Compiled kernels, loaded into this process."""

    _turn = util.lock()  # the runtime runs one kernel at a time

    # The runtime's state is global, so kernels of several threads take turns.
    def __init__(self, runtime: ctypes.CDLL, path: pathlib.Path, first: str):
        self._runtime = runtime
        self._library = ctypes.CDLL(str(path))
        # The library's own symbols tell where its constants and shared arrays are in memory.
        symbols, end = _read_elf(path.read_bytes())
        # A function known to the loader gives the difference between file and memory addresses.
        base = self._entry(first) - symbols[f"sim_run_{first}"][0]
        self._constants = Region(base, end, INPUT, 1, "constants")
        self._shared: dict[str, list[Region]] = {}
        self._guards: list[Region] = []
        for name, (value, size) in symbols.items():
            if name.startswith("_ZGVZ"):
                # The guard of a shared array's construction, which does nothing: mark it as done.
                ctypes.memset(base + value, 1, size)
                self._guards.append(Region(base + value, size, INPUT, 1, "guard"))
            # A static variable in a kernel is shared memory; its mangled name has the kernel and
            # the array.
            # _ZZ6kernelPKfE4part: variable `part` in function `kernel`, with the lengths of both
            # names.
            if found := re.fullmatch(r"_ZZ\d+(\w+?)E(\d+)(\w+?)(_\d+)?", name):
                array = found[3][: int(found[2])]
                region = Region(base + value, size, SHARED, 1, array)
                self._shared.setdefault(found[1], []).append(region)

    def _entry(self, kernel: str) -> int:
        address = ctypes.cast(getattr(self._library, f"sim_run_{kernel}"), ctypes.c_void_p).value
        assert address is not None
        return address

    def launch(
        self,
        kernel: str,
        arguments: Sequence[int],
        grid: int,
        block: int,
        regions: Sequence[Region],
        seed: int = 0,
        blocks: tuple[int, int] = (0, 0),
        counts: np.ndarray | None = None,
    ) -> None:
        """Run a kernel to its end; raise DeviceError for its errors.

        Parameters
        ----------
        arguments :
            Addresses of the operands.
        regions :
            All memory after them.
        blocks :
            The first block to run, and how many; (0, 0) is all.
        counts :
            Array of uint64, (regions, 4), for the bytes that move: see `Moved` in simulator.h.
        """
        # All memory that the kernel may touch: its arguments, its shared arrays, constants.
        given = [*regions, *self._shared.get(kernel, ()), *self._guards, self._constants]
        table = (_CRegion * len(given))(
            *(
                (r.address, r.nbytes, r.kind, r.itemsize.bit_length() - 1, r.name.encode())
                for r in given
            )
        )
        values = (ctypes.c_void_p * len(arguments))(*arguments)
        # As CUDA does it: a pointer to each argument.
        cells = (ctypes.c_void_p * len(arguments))(
            *(ctypes.addressof(values) + 8 * i for i in range(len(arguments)))
        )
        shape = (ctypes.c_uint * 6)(grid, 1, 1, block, 1, 1)
        entry, runtime = self._entry(kernel), self._runtime
        moved = None if counts is None else np.zeros((len(given), 4), np.uint64)
        at = None if moved is None else moved.ctypes.data
        with Library._turn:
            if runtime.sim_launch(entry, cells, shape, table, len(given), seed, *blocks, at):
                raise DeviceError(runtime.sim_error().decode())
        if counts is not None and moved is not None:
            counts[...] = moved[: len(regions)]


def _read_elf(elf: bytes) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the symbols of a 64-bit ELF library as name -> (address, size).

    Local symbols are included. The second result is the address at which its constants end and its
    uninitialised variables (shared memory) begin.
    """
    if elf[:5] != b"\x7fELF\x02":
        raise DeviceError("the simulator needs a compiler that makes 64-bit ELF libraries")
    # Section headers, with the offsets of the ELF specification.
    (start,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]
    found: dict[str, tuple[int, int]] = {}
    # Type 8 has no content in the file (bss): uninitialised variables, which are shared memory.
    end = max(s[3] + s[5] for s in sections if s[2] & 2 and s[1] != 8)  # in memory, with content
    for section in sections:
        if section[1] != 2:  # not a symbol table
            continue
        names = sections[section[6]][4]
        # 24 bytes for each symbol: name, info, other, section, value, size.
        table = np.frombuffer(
            elf,
            np.dtype("<u4, u1, u1, <u2, <u8, <u8"),
            section[5] // 24,
            section[4],
        )
        for row in table.tolist():
            at = names + row[0]
            found[elf[at : elf.index(b"\0", at)].decode()] = (row[4], row[5])
    return found, end
