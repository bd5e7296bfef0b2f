"""The CUDA C++ of a plan, and the facts of its kernels on a GPU.

Floor 3. In: a Plan. Out: text to read or compile, and the device facts that `explain` shows. The
compiler is passed as a function, because floors above know which one is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpuarray.compiler.cuda.emit import KernelSource, Options, emit
from gpuarray.compiler.cuda.template import PLAIN
from gpuarray.compiler.explain.grades import grade, limit
from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import step_work
from gpuarray.compiler.lower.words import describe
from gpuarray.compiler.pipeline import Plan
from gpuarray.compiler.text.prelude import complete
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind
from gpuarray.core.target import has_tensor_cores
from gpuarray.util import Struct


class Machine(Struct):
    """Throughput of a GPU per second: bytes copied, and instructions of single threads."""

    bytes: float
    instructions: float


#: The GPU of each architecture that roofline times are for: T4, A100, L40, H200, B200.
MACHINES = {
    "sm_75": Machine(0.26e12, 4.1e12),
    "sm_80": Machine(1.75e12, 19.5e12),
    "sm_89": Machine(0.78e12, 45e12),
    "sm_90": Machine(4.3e12, 33.5e12),
    "sm_100": Machine(7.0e12, 37e12),
}


def machine_of(arch: str) -> Machine:
    """The GPU of an architecture; ValueError if it is unknown."""
    if arch not in MACHINES:
        raise ValueError(f"arch must be one of {', '.join(MACHINES)}, got {arch!r}")
    return MACHINES[arch]


def emitted(
    plan: Plan, options: Options = PLAIN
) -> Iterator[tuple[DeviceStep, KernelSource | None]]:
    """The steps a GPU would run, with the text of kernels; None for routines of libraries."""
    # Views run nothing, so they are not shown.
    for step in plan.device_steps:
        if not isinstance(step, Eqn):
            yield step, emit(step, options)
        elif step.primitive.kind is not Kind.VIEW:
            yield step, None


def cuda_source(plan: Plan) -> str:
    """All kernels of a plan in launch order, after the helpers they call.

    Steps that are routines of libraries are comments. So are the user's lines, which text that is
    compiled to run does not have: that text is the key of the cache.
    """
    # A library routine has no text, and stays visible in its place.
    parts = [
        f"// {describe(step)}\n" if kernel is None else kernel.text
        for step, kernel in emitted(plan, Options(user_lines=True))
    ]
    return complete("\n".join(parts))


def device_facts(
    plan: Plan, arch: str, compile: Callable[[str, str], Any] | None
) -> dict[str, dict[str, Any]]:
    """The facts of each kernel on a GPU of this architecture, by its name.

    compile(source, arch) -> something with `.kernels[name].registers` and `.spills`, and
    `.instructions[name]`; without it these two are missing, and instructions are estimated.
    """
    machine = machine_of(arch)
    options = Options(user_lines=True, tensor_cores=has_tensor_cores(arch))
    made = [k for step, k in emitted(plan, options) if k is not None and not isinstance(step, Eqn)]
    # All kernels in one compile, which share the prelude.
    texts = "\n".join(k.text for k in made)
    assembled = compile(complete(texts), arch) if compile is not None and made else None
    found: dict[str, dict[str, Any]] = {}
    for k in made:
        code = None if assembled is None else assembled.instructions[k.name]
        # The roofline: limited by memory or by arithmetic, whichever takes longer.
        seconds = max(k.traffic.least / machine.bytes, step_work(k.kernel) / machine.instructions)
        facts = found[k.name] = {
            "source": k.text,
            "form": k.kernel.form,
            "grid": k.schedule.grid,
            "block": k.schedule.threads,
            "grade": f"{grade(k, code):.2f}",
            "limit": limit(k, code),
            "roofline_seconds": seconds,
        }
        if k.rounded:
            facts["rounded to"] = k.rounded
        if assembled is not None:
            used = assembled.kernels[k.name]
            facts.update(registers=used.registers, spills=used.spills)
    return found
