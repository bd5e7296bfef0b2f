"""Grades of kernels: the share of the time a kernel should take of the least that it could.

Floor 3. In: a kernel's text with its launch and traffic. Out: a number up to 1, from figures of
core/target.py alone, so that it is the same on every machine. Times are measured in bytes: as many
as could be moved meanwhile.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.template import KernelSource
from gpuarray.compiler.lower.schedule import busy, waited_for
from gpuarray.compiler.lower.steps import step_work
from gpuarray.core.target import TARGET


def grade(kernel: KernelSource) -> float:
    """The least time for the work of a kernel, divided by the time that its launch should take.

    The minimum: a launch, then every byte once at full bandwidth, or the arithmetic if that takes
    longer. Additional costs: passes that read again, blocks that do not divide evenly among the
    multiprocessors, too few bytes in flight while a thread waits, and narrow accesses.
    """
    s, moved = kernel.schedule, kernel.traffic
    work = step_work(kernel.kernel) / TARGET.instructions_a_byte
    least = TARGET.launch_bytes + max(moved.least, work)
    # Reads wait where too few of them are under way.
    waited = moved.bytes_written + moved.partial
    shared = kernel.shared_bytes + kernel.room
    waited += sum(waited_for(s, n, ahead, shared) for n, ahead in moved.passes)
    accesses = moved.accesses * TARGET.instructions_an_access / TARGET.instructions_a_byte
    return least / (TARGET.launch_bytes + max(waited, work + accesses) / busy(s))
