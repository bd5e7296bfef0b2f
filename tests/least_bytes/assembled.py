"""What the assembler makes of the workloads' kernels: registers, spills, accesses, instructions.

In: the kernels of a workload. Out: figures of their machine code for sm_90, read from what NVRTC
makes; no GPU and no disassembler is needed. They are kept in assembled.json, so that the page is
the same where NVRTC is not installed; `python -m tests.least_bytes` assembles what has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import gpuarray as ga
from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.nvrtc import Resources
from gpuarray.backends.cuda.sources import without_comments
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.explain.grades import Instructions
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.text.prelude import complete
from gpuarray.core.target import TARGET
from tests.least_bytes.workload import Workload

KEPT = Path(__file__).with_name("assembled.json")
ARCH = "sm_90"


class Assembled(NamedTuple):
    """Figures of the kernels of a workload, by their names.

    threads: that a multiprocessor has at a time, of the kernel that moves most
    """

    digest: str
    threads: int
    kernels: dict[str, Resources]
    instructions: dict[str, Instructions]

    @property
    def registers(self) -> int:
        """The most registers of a kernel."""
        return max((k.registers for k in self.kernels.values()), default=0)

    @property
    def spills(self) -> int:
        """Bytes of registers that are stored because there are too few of them."""
        return sum(k.spills for k in self.kernels.values())

    def sum(self, of: Callable[[Instructions], int]) -> int:
        """The sum of a figure over the kernels."""
        return sum(map(of, self.instructions.values()))


def kernels(one: Workload) -> list[KernelSource]:
    """The kernels of a workload."""
    plan = ga.jit(one.function).lower(*one.arguments).plan.on_device
    return [emit(s) for s in plan.steps if isinstance(s, Kernel)]


def digest(made: Sequence[KernelSource]) -> str:
    """A digest of the kernels' texts, each once."""
    text = "\0".join(dict.fromkeys(map(_body, made)))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def assembled(made: Sequence[KernelSource]) -> Assembled:
    """Figures of kernels, by assembling each text once."""
    found, known = Assembled(digest(made), 0, {}, {}), {}
    for kernel in made:
        body = _body(kernel)
        if body not in known:
            compiled = nvrtc.compile(complete(kernel.text), ARCH)
            known[body] = *compiled.kernels.values(), *compiled.instructions.values()
        found.kernels[kernel.name], found.instructions[kernel.name] = known[body]
    if not made:
        return found
    most = max(made, key=lambda k: k.traffic.total)
    return found._replace(threads=threads(most, found.kernels[most.name].registers))


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
    return {name: _read(*row) for name, row in json.loads(KEPT.read_text()).items()}


def keep(found: dict[str, Assembled]) -> None:
    """Keep figures."""
    lines = (f"{json.dumps(name)}: {json.dumps(_row(one))}" for name, one in found.items())
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _row(one: Assembled) -> tuple[str, int, dict[str, list[int]]]:
    rows = {
        name: [
            *used[:2],
            *(getattr(one.instructions[name], x) for x in Instructions.__match_args__),
        ]
        for name, used in one.kernels.items()
    }
    return one.digest, one.threads, rows


def _read(digest: str, threads: int, kernels: dict[str, list[int]]) -> Assembled:
    used = {name: Resources(*row[:2]) for name, row in kernels.items()}
    instructions = {name: Instructions(*row[2:]) for name, row in kernels.items()}
    return Assembled(digest, threads, used, instructions)


def _body(kernel: KernelSource) -> str:
    return without_comments(complete(kernel.text)).replace(f" {kernel.name}(", " NAME(")
