"""Modules and kernels of the stand-in: the text of a kernel is its machine code.

In: CUDA C++ text through the names of NVRTC, of modules and of RawKernel. Out: functions whose
launches run, when their turn comes, on the simulator (gpuarray.backends.hostcc), which checks every
access of theirs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import pathlib
import re
import weakref
from typing import NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.backends import hostcc
from tests.fake_cupy.errors import CUDADriverError, CUDARuntimeError, NVRTCError
from tests.fake_cupy.memory import Block, MemoryPointer, block_at, use_of
from tests.fake_cupy.runtime import getDeviceProperties
from tests.fake_cupy.world import Use, site, world

# ---- the compiler ----
_MAGIC = b"\x7fELF stand-in "
_programs: dict[int, dict] = {}
_numbers = itertools.count(1)
VERSION = (13, 0)


def createProgram(src: str, name: str, headers, include_names) -> int:
    number = next(_numbers)
    _programs[number] = {"source": src, "log": "", "cubin": b""}
    return number


def compileProgram(prog: int, options) -> None:
    """Find the kernels; a text with the word `#error` is refused, as NVRTC refuses it."""
    program = _programs[prog]
    arch = [o.partition("=")[2] for o in options if re.match(r"--?(gpu-architecture|arch)=", o)]
    if "#error" in program["source"] or not arch:
        program["log"] = "kernels.cu(1): catastrophic error: #error directive"
        raise NVRTCError(6)
    world.counts["compile"] += 1
    source = program["source"].encode()
    program["cubin"] = (
        _MAGIC + len(source).to_bytes(8, "little") + arch[-1].encode() + b"\n" + source
    )
    program["log"] = "".join(
        f"ptxas info    : Compiling entry function '{name}' for '{arch[-1]}'\n"
        "ptxas info    : Used 32 registers, used 0 barriers\n"
        for name in signatures(program["source"])
    )


def getCUBIN(prog: int) -> bytes:
    return _programs[prog]["cubin"]


def getProgramLog(prog: int) -> str:
    return _programs[prog]["log"]


def destroyProgram(prog: int) -> None:
    del _programs[prog]


def getPTX(prog: int) -> bytes:
    return _programs[prog]["cubin"]


def getSupportedArchs() -> tuple[int, ...]:
    return (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


def getVersion() -> tuple[int, int]:
    return VERSION


def source_in(cubin: bytes) -> str:
    """The text that a cubin was made of; what follows in its file is not looked at."""
    if not cubin.startswith(_MAGIC):
        raise CUDADriverError(200)
    start = len(_MAGIC) + 8
    size = int.from_bytes(cubin[len(_MAGIC) : start], "little")
    start = cubin.index(b"\n", start) + 1
    return cubin[start : start + size].decode()


# ---- what a text declares ----
class Parameter(NamedTuple):
    """One parameter of a kernel."""

    name: str
    pointer: bool
    writes: bool
    alone: bool  # declared __restrict__: nothing else points there
    itemsize: int


class Signature(NamedTuple):
    """A kernel as its text declares it."""

    parameters: tuple[Parameter, ...]
    most_threads: int


#: Bytes of an element by a word of its type, the most telling word first: the `char` of
#: `unsigned char`, the `long` of `unsigned long long`.
_SIZES = {
    "char": 1, "bool": 1, "short": 2, "double": 8, "float": 4, "long": 8, "int": 4, "unsigned": 4,
}  # fmt: skip
#: Kernels, however they are laid out, and what is another name until further notice: kernels that
#: users wrote have the name of each call by a macro.
_LINES = re.compile(
    r"^[ \t]*#define[ \t]+(?P<other>\w+)[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]*$"
    r"|^[ \t]*#undef[ \t]+(?P<gone>\w+)"
    r"|__global__\s+(?:void\s+)?(?:__launch_bounds__\((?P<most>\d+)[^)]*\)\s*)?(?:void\s+)?"
    r"(?P<kernel>\w+)\s*\((?P<inside>[^)]*)\)\s*\{",
    re.MULTILINE,
)


@functools.lru_cache(maxsize=1024)
def signatures(source: str) -> dict[str, Signature]:
    """All kernels of a text."""
    found, names = {}, {}
    for match in _LINES.finditer(source):
        if match["other"]:
            names[match["other"]] = match["name"]
        elif match["gone"]:
            names.pop(match["gone"], None)
        else:
            parts = [p.strip() for p in match["inside"].split(",") if p.strip()]
            name = names.get(match["kernel"], match["kernel"])
            parameters = tuple(map(_parameter, parts))
            found[name] = Signature(parameters, int(match["most"] or 1024))
    return found


def _parameter(text: str) -> Parameter:
    *words, name = re.findall(r"\w+", text)
    size = next((size for word, size in _SIZES.items() if word in words), 1)
    if name == "work":  # bytes, of which counters of 4 are made
        size = 4
    return Parameter(name, "*" in text, "const" not in words, "__restrict__" in words, size)


@functools.lru_cache(maxsize=256)
def _library(source: str, shared_mem: int = 0) -> hostcc.Library:
    # What a launch sets aside, a kernel's text knows from the GPU.
    source = re.sub(r"GA_ROOM\((\w+), \d+\)", rf"GA_ROOM(\1, {shared_mem})", source)
    return hostcc.compile_library(source, list(signatures(source)))


# ---- modules ----
class _Code:
    """Code on a device: work that was launched or recorded refers to it, and does not hold it."""

    def __init__(self, source: str, device: int):
        self.source, self.device, self.loaded = source, device, True


#: Code by the number of its module.
_codes: dict[int, _Code] = {}
# By its address: a capsule that goes is no object to pass on any more.
_number_in = util.c_function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p
)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _unload(capsule: int) -> None:
    _codes.pop(_number_in(capsule, None)).loaded = False


_capsule = util.c_function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, type(_unload)
)


class Module:
    """Loaded machine code; it belongs to the device that was current then."""

    def __init__(self):
        self.ptr = 0
        self._code = _Code("", -1)

    def load(self, cubin: bytes) -> None:
        if not isinstance(cubin, bytes):
            raise TypeError(f"Argument 'cubin' has incorrect type (got {type(cubin).__name__})")
        self._code = _Code(source_in(cubin), world.thread.device)
        self.ptr = next(_numbers)
        # As in CuPy, code goes with the last reference to a module: what C knows of when it goes is
        # not finalised before, as other garbage is.
        _codes[self.ptr] = self._code
        self._life = _capsule(self.ptr, None, _unload)

    def load_file(self, filename: str) -> None:
        path = pathlib.Path(filename)
        if not path.exists():
            raise CUDADriverError(301)
        self.load(path.read_bytes())

    def get_function(self, name: str) -> Function:
        return Function(self, name)


#: Kernels by their pointers.
_functions: weakref.WeakValueDictionary[int, Function] = weakref.WeakValueDictionary()


def funcSetAttribute(f: int, attribute: int, value: int) -> None:
    """Set how much shared memory launches of a kernel may set aside."""
    most = getDeviceProperties(world.thread.device)["sharedMemPerBlockOptin"]
    if attribute != 8 or not 0 <= value <= most:
        raise CUDADriverError(1)
    _functions[f]._most_shared = value


class Function:
    """A kernel of a module."""

    def __init__(self, module: Module, funcname: str):
        found = signatures(module._code.source).get(funcname)
        if found is None:
            raise CUDADriverError(500)
        self.module, self.ptr = module, next(_numbers)
        self._name, self._signature = funcname, found
        self._most_shared = 48 << 10
        _functions[self.ptr] = self

    def __call__(
        self, grid, block, args, shared_mem=0, stream=None, enable_cooperative_groups=False
    ):
        if world.idle:
            return
        if type(grid) is not tuple or type(block) is not tuple:
            raise TypeError("Expected tuple for grid and block")
        with world.lock:
            self._launch(grid, block, args, shared_mem, stream)

    def _launch(self, grid: tuple, block: tuple, args, shared_mem: int, stream) -> None:
        world.count("launch")
        device = world.thread.device
        if (broken := world.broken[device]) is not None:
            raise CUDADriverError(getattr(broken, "status", 719))
        queue = world.find(world.current(device) if stream is None else stream.ptr)
        if device != self.module._code.device or queue.device != device:
            raise CUDADriverError(400)
        blocks, threads = (max(1, x) for x in (grid[0], block[0]))
        whole = all(x <= 1 for x in (*grid[1:], *block[1:])) and shared_mem <= self._most_shared
        if not whole or threads > self._signature.most_threads or blocks >= 1 << 31:
            raise CUDADriverError(1)
        if len(args) != len(self._signature.parameters):
            world.fault(
                f"{self._name} takes {len(self._signature.parameters)} arguments, at {site()}"
            )
            raise CUDADriverError(1)
        values, uses, table = self._arguments(args)
        order = world.random.random()
        run = functools.partial(
            _run, self.module._code, self._name, self._signature, blocks, threads, shared_mem,
            values, uses, table, order,
        )  # fmt: skip
        world.put(queue, f"kernel {self._name}", run, uses)

    def _arguments(self, args) -> tuple[list[int], list[Use], _Table | None]:
        """The 8 bytes of each argument, the memory that pointers lead to, and the table of
        addresses, if there is one.
        """
        values, uses, table = [], [], None
        for parameter, given in zip(self._signature.parameters, args, strict=True):
            value = _value(given)
            if parameter.pointer and value:
                block = block_at(value)
                if block is None:
                    world.fault(f"{parameter.name} of {self._name} points nowhere, at {site()}")
                    raise CUDADriverError(1)
                if block.device not in (None, self.module._code.device):
                    world.fault(f"{parameter.name} of {self._name} is {block}, at {site()}")
                left = block.asked - (value - block.address)
                uses.append(use_of(value, max(left, 0), parameter.writes))
                if parameter.name == "table":
                    table = self._table(block, value - block.address, len(values))
                    uses += table.uses
                value += block.host - block.address
            values.append(value)
        self._check_restrict(values)
        return values, uses, table

    def _table(self, block: Block, start: int, number: int) -> _Table:
        """The table at an address, whose content may still be under way, and what it leads to.

        What it leads to is taken now: by the time the kernel runs, whoever launched it may have
        given that memory back.
        """
        addresses = addresses_in(block, start)
        uses, hosts = [], []
        for address in addresses:
            found = block_at(address)
            if found is None:
                world.fault(f"the table of {self._name} holds {address:#x}, which is nowhere")
                raise CUDADriverError(1)
            uses.append(found.use(0, found.asked, True))
            hosts.append(address - found.address + found.host)
        return _Table(number, block, start, addresses, np.array(hosts, np.uint64), uses)

    def _check_restrict(self, values: list[int]) -> None:
        seen: dict[int, Parameter] = {}
        for parameter, value in zip(self._signature.parameters, values, strict=True):
            other = seen.setdefault(value, parameter)
            both = other is not parameter and parameter.pointer and value
            if both and (parameter.writes or other.writes) and (parameter.alone or other.alone):
                world.fault(
                    f"{parameter.name} and {other.name} of {self._name} are the same memory, one "
                    "is written, and one is declared __restrict__"
                )


def _run(
    code: _Code,
    name: str,
    signature: Signature,
    blocks: int,
    threads: int,
    shared_mem: int,
    values: list[int],
    uses: list[Use],
    found: _Table | None,
    seed: float,
) -> None:
    world.count("execution")
    if not code.loaded:
        world.fault(f"kernel {name} runs, and its module is unloaded")
    table = np.empty(0, np.uint64)
    if found is not None:
        table = found.hosts
        if found.content() != found.addresses:
            world.fault(f"the table of {name} is not there when it runs")
        values = [*values[: found.number], table.ctypes.data, *values[found.number + 1 :]]
    regions = _regions(signature, values, uses)
    memories = [u.block.memory[: u.stop] for u in _distinct(uses)]
    key = None
    if world.remembered is not None:
        state = hashlib.blake2b(b"".join(m.tobytes() for m in memories)).digest()
        places = [_place(v, regions) for v in values if v != table.ctypes.data]
        places += [_place(v, regions) for v in table.tolist()]
        key = (code.source, name, blocks, threads, shared_mem, state, *places)
        if (known := world.remembered.get(key)) is not None:
            for memory, data in zip(memories, known, strict=True):
                memory[...] = data
            return
    if table.size:
        regions.append(hostcc.Region(table.ctypes.data, table.nbytes, hostcc.INPUT, 8, "table"))
    library = _library(code.source, shared_mem)
    try:
        library.launch(name, values, blocks, threads, regions, int(seed * (1 << 30)))
    except hostcc.DeviceError as error:
        world.fault(f"kernel {name}: {error}")
        raise CUDARuntimeError(700) from error
    if key is not None and world.remembered is not None:
        world.remembered[key] = [m.copy() for m in memories]


class _Table(NamedTuple):
    """An array of addresses on the device that a kernel looks its memory up in."""

    number: int  # of the argument
    block: Block
    start: int
    addresses: list[int]
    hosts: np.ndarray  # the same, as this CPU knows them
    uses: list[Use]

    def content(self) -> list[int]:
        """What is there at this moment."""
        size = 8 * len(self.addresses)
        return self.block.memory[self.start : self.start + size].view(np.uint64).tolist()


def addresses_in(block: Block, start: int) -> list[int]:
    """A table of addresses, as it will be when all that was asked for has run."""
    content = block.memory.copy()
    for work, use in block.history:
        if use.writes and not work.done and work.source is not None:
            content[use.start : use.stop] = work.source
    return content[start : block.asked].view(np.uint64).tolist()


def _distinct(uses: list[Use]) -> list[Use]:
    """One use of each block: what one argument writes may be what another reads."""
    return list({id(u.block): u for u in uses}.values())


def _place(value: int, regions: list[hostcc.Region]) -> tuple[int, int, int]:
    """An argument, wherever memory lies this time."""
    for i, r in enumerate(regions):
        if r.address <= value < r.address + r.nbytes:
            return i, r.nbytes, value - r.address
    return -1, 0, value


def _regions(signature: Signature, values: list[int], uses: list[Use]) -> list[hostcc.Region]:
    """What a kernel may touch."""
    regions = []
    for use in _distinct(uses):
        block = use.block
        inside = [
            p
            for p, v in zip(signature.parameters, values, strict=True)
            if p.pointer and block.host <= v < block.host + block.size
        ]
        # No argument leads there itself: the table does.
        kind = hostcc.WORK if not inside or any(p.writes for p in inside) else hostcc.INPUT
        size = min((p.itemsize for p in inside), default=1)
        name = "/".join(p.name for p in inside) or "an array of the table"
        regions.append(hostcc.Region(block.host, use.stop, kind, size, name))
    return regions


def _value(given) -> int:
    """An argument as the 8 bytes that a kernel's parameter takes of it."""
    if given is None:
        return 0
    if isinstance(given, MemoryPointer):
        return given.ptr
    if hasattr(given, "data") and isinstance(given.data, MemoryPointer):
        return given.data.ptr
    if type(given) is int:
        return given & (1 << 64) - 1
    if isinstance(given, np.ndarray) and given.size != 1:
        raise TypeError(
            f"You are trying to pass a numpy.ndarray of shape {given.shape} as a kernel parameter."
        )
    data = np.asarray(given).tobytes()
    return int.from_bytes(data[:8], "little")


# ---- CuPy's own way to them ----
_raw_modules: list[Module] = []


class RawKernel:
    """A kernel by its text and name."""

    def __init__(
        self, code, name, options=(), backend="nvrtc", translate_cucomplex=False, *,
        enable_cooperative_groups=False, jitify=None,
    ):  # fmt: skip
        self.code, self.name, self.options, self.backend = code, name, options, backend
        self.file_path = None
        self._module = None

    @property
    def kernel(self) -> Function:
        # CuPy never unloads the modules of its kernels.
        if self._module is None or self._module._code.device != world.thread.device:
            self._module = Module()
            if self.file_path is not None:
                self._module.load_file(self.file_path)
            else:
                self._module.load(_compiled(self.code, tuple(self.options)))
            _raw_modules.append(self._module)
        return Function(self._module, self.name)

    def __call__(self, grid, block, args, *, shared_mem=0):
        self.kernel(grid, block, args, shared_mem)


class RawModule:
    """Kernels by a text, or by the path of a cubin."""

    def __init__(
        self, code=None, *, path=None, options=(), backend="nvrtc", translate_cucomplex=False,
        enable_cooperative_groups=False, name_expressions=None, jitify=None,
    ):  # fmt: skip
        if (code is None) == (path is None):
            raise TypeError("Exactly one of code and path keyword arguments must be given.")
        self.code, self.file_path, self.options, self.backend = code, path, options, backend

    def get_function(self, name: str) -> RawKernel:
        kernel = RawKernel(self.code, name, self.options, self.backend)
        kernel.file_path = self.file_path
        kernel.kernel
        return kernel


def _compiled(code: str, options: tuple) -> bytes:
    program = createProgram(code, "kernels.cu", (), ())
    compileProgram(program, (*options, "-arch=sm_90"))
    cubin = getCUBIN(program)
    destroyProgram(program)
    return cubin
