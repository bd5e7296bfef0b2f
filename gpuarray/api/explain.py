"""`explain`: the kernels that a function is compiled to, without running it.

Floor 6. In: a Python function and the arguments it would be called with. Out: an Explanation to
read, print or draw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.library import host_reason
from gpuarray.compiler.explain.facts import Explanation as Explanation
from gpuarray.compiler.explain.facts import explain_plan
from gpuarray.compiler.explain.source import device_facts
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind
from gpuarray.functions.jit import Jitted, jit
from gpuarray.primitives.collective.ops import names_in
from gpuarray.runtime.spread import Team


def explain(
    fun: Callable,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    platform: str | None = None,
    arch: str = "sm_90",
) -> Callable[..., Explanation]:
    """A function of the same arguments that says how `fun` is fused: kernels, bytes, user lines.

    Arguments may be arrays or ShapeDtypeStructs: nothing is computed. Without `jit` the same
    operations make the same kernels if they are recorded together.

    With `platform="cuda"` each kernel has its `source`, `grid`, `block` and `roofline_seconds` on a
    GPU of architecture `arch`, and `registers` and `spills` where NVRTC is here; no GPU is needed.
    What runs on the host even then says why: its fact `on the host`. Steps in which devices send
    values to each other have the facts `axes`, `devices`, `bytes a device` and `why`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> def mse(a, b):
    ...     return gnp.mean((a - b) ** 2)
    >>> e = ga.explain(mse)(gnp.ones((8, 4)), gnp.zeros((8, 4)))
    >>> e.launches, e.kernels[0].ops
    (1, ('sub', 'integer_pow', 'reduce_sum', 'div'))
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    platform = "cuda" if platform == "gpu" else platform
    if platform not in (None, "cpu", "cuda"):
        raise ValueError(f"platform must be None, 'cpu', 'gpu' or 'cuda', got {platform!r}")
    # A function that is jitted already keeps its own options.
    jitted = (
        fun
        if isinstance(fun, Jitted)
        else jit(fun, static_argnums=static_argnums, static_argnames=static_argnames)
    )

    @functools.wraps(fun)
    def explain_it(*args, **kwargs) -> Explanation:
        # Traced and planned, not run; a plan for a GPU cuts groups by other limits.
        lowered = jitted.lower(*args, **kwargs)
        plan = lowered.plan.on_device if platform == "cuda" else lowered.plan
        team = lowered._team
        exchange = (lambda eqn: {}) if team is None else _exchanges(team)
        if platform != "cuda":
            return explain_plan(plan, lowered.fun_name, exchange=exchange)
        # Registers and spills are known only where NVRTC can compile.
        compile = nvrtc.compile if nvrtc.available() else None
        facts = device_facts(plan, arch, compile)
        return explain_plan(plan, lowered.fun_name, facts, host_reason, exchange)

    return explain_it


def _exchanges(team: Team) -> Callable[[Eqn], dict[str, Any]]:
    """Return what gives the facts of an exchange: between whom, how much, and what needs it."""
    notes = list(team.parts.notes)

    def facts(eqn: Eqn) -> dict[str, Any]:
        if eqn.primitive.kind is not Kind.COLLECTIVE:
            return {}
        names = names_in(eqn.params)
        found: dict[str, Any] = {
            "axes": ", ".join(map(str, names)),
            "devices": team.grid.size(names),
            "bytes a device": sum(a.aval.nbytes for a in eqn.invars),
        }
        # Moves are noted in the order in which they are bound, mostly at the line of the exchange;
        # what a later reader settles is bound at that reader's.
        alike = [n for n in notes if n.sent.startswith(eqn.primitive.name)]
        here = [n for n in alike if n.site == eqn.site]
        for note in (here or alike)[:1]:
            found["why"] = note.why
        # Of values that are sent together, one each.
        for note in (here + [n for n in alike if n not in here])[: len(eqn.invars)]:
            notes.remove(note)
        if len(eqn.invars) > 1:
            found["values"] = len(eqn.invars)
        return found

    return facts
