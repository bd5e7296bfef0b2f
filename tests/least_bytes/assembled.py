"""What the assembler makes of the workloads' kernels: registers, spills, accesses, instructions.

In: the kernels of a workload. Out: figures of their machine code for sm_90, read from what NVRTC
makes; no GPU and no disassembler is needed. They are kept in assembled.json, so that the page is
the same where NVRTC is not installed; `python -m tests.least_bytes` assembles what has changed.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import gpuarray as ga
from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.sources import without_comments
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.text.prelude import complete
from gpuarray.core.target import TARGET
from tests.least_bytes.workload import Workload

KEPT = Path(__file__).with_name("assembled.json")
ARCH = "sm_90"

#: The low bits of instructions: loads and stores of memory, of local memory, and no operation.
_GLOBAL, _LOCAL, _NOTHING = (0x981, 0x986), (0x983, 0x387), 0x918
#: How instructions say that they access 16 bytes.
_WIDE = 6


class Assembled(NamedTuple):
    """Figures of the kernels of a workload: the most registers, and sums of all else.

    threads: that a multiprocessor has at a time, of the kernel that moves most
    spills: bytes of registers that are stored because there are too few of them
    local: instructions that access local memory, as some functions do with numbers that are large
    wide: accesses of memory that take 16 bytes
    """

    digest: str
    registers: int
    spills: int
    local: int
    wide: int
    accesses: int
    instructions: int
    threads: int


def kernels(one: Workload) -> list[KernelSource]:
    """The kernels of a workload, each text once."""
    plan = ga.jit(one.function).lower(*one.arguments).plan.on_device
    made = [emit(s) for s in plan.steps if isinstance(s, Kernel)]
    return list({_body(k): k for k in made}.values())


def digest(made: Sequence[KernelSource]) -> str:
    """A digest of the kernels' texts."""
    text = "\0".join(map(_body, made))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def assembled(made: Sequence[KernelSource]) -> Assembled:
    """Figures of kernels, by assembling them."""
    found = Assembled(digest(made), 0, 0, 0, 0, 0, 0, 0)
    largest = max((k.traffic.total for k in made), default=0)
    for kernel in made:
        compiled = nvrtc.compile(complete(kernel.text), ARCH)
        (used,) = compiled.kernels.values()
        (code,) = _code(compiled.binary)
        kinds, sizes = code[:, 0] & 0xFFF, code[:, 1] >> 9 & 7
        memory = np.isin(kinds, _GLOBAL)
        found = Assembled(
            found.digest,
            max(found.registers, used.registers),
            found.spills + used.spills,
            found.local + int(np.isin(kinds, _LOCAL).sum()),
            found.wide + int((memory & (sizes == _WIDE)).sum()),
            found.accesses + int(memory.sum()),
            found.instructions + int((kinds != _NOTHING).sum()),
            threads(kernel, used.registers) if kernel.traffic.total == largest else found.threads,
        )
    return found


def threads(kernel: KernelSource, registers: int) -> int:
    """How many threads of a kernel a multiprocessor has at a time: by the registers that a warp
    takes, 256 at a time, by shared memory, and by how many blocks there are.
    """
    s, shared = kernel.schedule, kernel.shared_bytes + kernel.room
    by_registers = TARGET.registers // (-(-registers // 8) * 8 * s.threads)
    by_shared = TARGET.shared_held // shared if shared else TARGET.threads_held
    by_grid = -(-s.grid // TARGET.multiprocessors)
    return s.threads * min(TARGET.threads_held // s.threads, by_registers, by_shared, by_grid)


def kept() -> dict[str, Assembled]:
    """The figures that are kept, by chapter and name of the workload."""
    return {name: Assembled(*row) for name, row in json.loads(KEPT.read_text()).items()}


def keep(found: dict[str, Assembled]) -> None:
    """Keep figures."""
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _body(kernel: KernelSource) -> str:
    return without_comments(complete(kernel.text)).replace(f" {kernel.name}(", " NAME(")


def _code(elf: bytes) -> Iterator[np.ndarray]:
    """The instructions of each function of a cubin: 16 bytes each, as two words."""
    (start,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]
    for section in sections:
        name = sections[names][4] + section[0]
        if elf[name : elf.index(b"\0", name)].startswith(b".text."):
            yield np.frombuffer(elf, "<u8", section[5] // 8, section[4]).reshape(-1, 2)
