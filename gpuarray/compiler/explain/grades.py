"""Grades of kernels: the share of the time a kernel should take of the least that it could.

Floor 3. In: a kernel's text with its launch and traffic and, where it was assembled, what its
machine code consists of. Out: a number up to 1, and what the kernel waits for most, by figures of
core/target.py: the machine at hand does not matter. Times are measured in bytes: as many as could
be moved meanwhile.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.template import KernelSource
from gpuarray.compiler.lower.schedule import busy, waited_for
from gpuarray.compiler.lower.steps import step_work
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Instructions(Struct):
    """What the machine code of a kernel consists of: instructions by what executes them.

    A loop counts once, however often it repeats, and so does code for rare operands.

    Attributes
    ----------
    total :
        All instructions.
    accesses, wide, local :
        Accesses of memory, those of them that take 16 bytes, and accesses of local memory.
    logic, special, doubles, shared :
        Integers and comparisons, special functions and conversions, doubles, shared memory and
        shuffles: a multiprocessor executes these for fewer threads at a time.
    """

    total: int = 0
    accesses: int = 0
    wide: int = 0
    local: int = 0
    logic: int = 0
    special: int = 0
    doubles: int = 0
    shared: int = 0

    def by_part(self) -> dict[str, float]:
        """The instructions of each part of a multiprocessor, times the share of threads that it has
        no room for.

        >>> Instructions(total=100, special=20).by_part()["special functions"]
        160.0
        """
        parts = {
            "instructions": (self.total, TARGET.lanes),
            "integers and comparisons": (self.logic, TARGET.logic_lanes),
            "special functions": (self.special, TARGET.special_lanes),
            "doubles": (self.doubles, TARGET.double_lanes),
            "shared memory": (self.shared, TARGET.shared_lanes),
        }
        return {name: many * TARGET.lanes / lanes for name, (many, lanes) in parts.items()}


def times(kernel: KernelSource, code: Instructions | None = None) -> dict[str, float]:
    """How long a kernel takes by each of what it may wait for, on a machine that is busy.

    Parameters
    ----------
    code :
        What its machine code consists of: without it, instructions are estimated.
    """
    s, moved = kernel.schedule, kernel.traffic
    # Reads wait where too few of them are under way.
    shared = kernel.shared_bytes + kernel.room
    waited = sum(waited_for(s, n, ahead, shared) for n, ahead in moved.passes)
    found = {"memory": moved.bytes_written + moved.partial + waited}
    work = step_work(kernel.kernel) / TARGET.instructions_a_byte
    if code is None or not code.accesses:
        accesses = moved.accesses * TARGET.instructions_an_access / TARGET.instructions_a_byte
        return found | {"instructions": work + accesses}
    # The accesses of all threads tell how often the code is run through. A loop without any takes
    # longer than that: the arithmetic that the program asks for, at least.
    runs = moved.accesses / code.accesses / TARGET.instructions_a_byte
    found |= {part: runs * many for part, many in code.by_part().items()}
    return found | {"instructions": max(found["instructions"], work)}


def grade(kernel: KernelSource, code: Instructions | None = None) -> float:
    """The least time for the work of a kernel, divided by the time that its launch should take.

    The minimum: a launch, then every byte once at full bandwidth, or the arithmetic if that takes
    longer. Additional costs: passes that read again, blocks that do not divide evenly among the
    multiprocessors, too few bytes in flight while a thread waits, narrow accesses, and instructions
    beyond the arithmetic.
    """
    work = step_work(kernel.kernel) / TARGET.instructions_a_byte
    least = TARGET.launch_bytes + max(kernel.traffic.least, work)
    taken = max(times(kernel, code).values()) / busy(kernel.schedule)
    return least / (TARGET.launch_bytes + taken)


def limit(kernel: KernelSource, code: Instructions | None = None) -> str:
    """What a kernel waits for most and, if that is not memory, how many times as long."""
    found = times(kernel, code)
    most = max(found, key=found.__getitem__)
    if most == "memory" or not found["memory"]:
        return most
    return f"{most}, {found[most] / found['memory']:.1f} times memory"
