"""Grades of kernels: the share of the time a kernel should take of the least that it could.

Floor 3. In: a kernel's text with its launch and traffic. Out: a number up to 1, from figures of
core/target.py alone, so that it is the same on every machine. Times are told in bytes: so many
would move meanwhile.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.template import KernelSource
from gpuarray.compiler.lower.steps import step_work
from gpuarray.core.target import TARGET


def grade(kernel: KernelSource) -> float:
    """The least time for the work of a kernel, divided by the time that its launch should take.

    The least: a launch, then every byte once at full speed, or the arithmetic if that takes longer.
    What costs more: sweeps that read again, blocks that do not divide among the multiprocessors,
    too few bytes under way while a thread waits, and accesses that are narrow.
    """
    s, moved = kernel.schedule, kernel.traffic
    work = step_work(kernel.kernel) / TARGET.instructions_a_byte
    least = TARGET.launch_bytes + max(moved.least, work)
    # Blocks a multiprocessor: the last of them work while others idle.
    turns = -(-s.grid // TARGET.multiprocessors)
    busy = s.grid / (turns * TARGET.multiprocessors)
    # Reads wait where too few of them are under way.
    held = min(turns, max(1, TARGET.threads_held // s.threads))
    if kernel.shared_bytes:
        held = min(held, max(1, TARGET.shared_held // kernel.shared_bytes))
    waited = moved.bytes_written + moved.partial
    for nbytes, ahead in moved.sweeps:
        wanted = min(TARGET.bytes_under_way, nbytes / TARGET.multiprocessors)
        waited += nbytes * max(1.0, wanted / max(1, held * s.threads * ahead))
    accesses = moved.accesses * TARGET.instructions_an_access / TARGET.instructions_a_byte
    return least / (TARGET.launch_bytes + max(waited, work + accesses) / busy)
