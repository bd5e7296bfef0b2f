"""The Plan: what a compiled Graph runs, step by step.

Floor 3. In: a Graph. Out: the simplified Graph and its steps in order, with what they cost. Still
no text and no machine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gpuarray.compiler.fuse.fuse import fuse
from gpuarray.compiler.fuse.group import FusedGroup, Refusal, Step
from gpuarray.compiler.lower.choose import choose_forms, named
from gpuarray.compiler.lower.horizontal import together
from gpuarray.compiler.lower.inline import refine
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel
from gpuarray.compiler.lower.split_passes import cut
from gpuarray.compiler.lower.steps import (
    eqn_bytes,
    step_bytes,
    step_inputs,
    step_outputs,
    step_work,
)
from gpuarray.compiler.lower.words import describe
from gpuarray.compiler.rewrite.products import spread, turned
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.compiler.rewrite.small_axes import components
from gpuarray.core.graph import Eqn, Graph, Var, last_uses
from gpuarray.core.primitive import Kind, registry


@dataclass
class Plan:
    """A simplified graph and the steps that compute it."""

    graph: Graph
    steps: list[DeviceStep]
    refusals: list[Refusal]
    fusion: bool = True

    @functools.cached_property
    def on_device(self) -> Plan:
        """The plan of the same graph for machines that run emitted kernels: there, loops and
        branches in which elements go their own way are kernels too, and so is what moves data,
        where it is not made by who reads it. Small vectors are components, and small groups that
        are alike are one kernel.
        """
        steps, refusals = self._fused, self.refusals
        graph = components(spread(self.graph)) if self.fusion else self.graph
        if graph is not self.graph or any(e.primitive.flow for e in graph.eqns):
            steps, refusals = fuse(graph, self.fusion, flows=True)
        if self.fusion:
            steps, more = cut(steps)
            refusals = [*refusals, *more]
        steps = refine(graph, steps, self.fusion)
        kernels = choose_forms(together(steps) if self.fusion else steps)
        plan = Plan(graph, kernels, refusals, self.fusion)
        plan.on_device = plan
        return plan

    @property
    def _fused(self) -> list[Step]:
        """The steps as fused, before any form was chosen."""
        return [s for s in self.steps if not isinstance(s, Kernel)]

    @property
    def device_steps(self) -> list[DeviceStep]:
        """The steps of the plan for machines that run emitted kernels."""
        return self.on_device.steps

    @property
    def groups(self) -> list[Kernel | FusedGroup]:
        """The steps that are fused: on a device kernels."""
        return [s for s in self.steps if not isinstance(s, Eqn)]

    @property
    def library_calls(self) -> list[Eqn]:
        """The steps that are routines of a library, or that move data."""
        return [s for s in self.steps if isinstance(s, Eqn) and s.primitive.kind is not Kind.VIEW]

    @property
    def work(self) -> float:
        """Multiply-adds, roughly."""
        return sum(step_work(s) for s in self.steps)

    @property
    def bytes_moved(self) -> int:
        """Bytes that the steps read and write: each reads its inputs once and writes its outputs
        once.
        """
        return sum(step_bytes(s) for s in self.steps)

    @property
    def bytes_unfused(self) -> int:
        """Bytes that the same equations would move as a step each."""
        return sum(eqn_bytes(e) for e in self.graph.eqns if e.primitive.kind is not Kind.VIEW)

    @property
    def temporary_bytes(self) -> int:
        """The most bytes that values between steps take at one time."""
        results = {a for a in self.graph.outvars if isinstance(a, Var)}
        size = {
            v: v.aval.nbytes
            for s in self.steps
            for v in step_outputs(s)
            if v not in results and not (isinstance(s, Eqn) and s.primitive.kind is Kind.VIEW)
        }
        last = _last_steps(self)
        now = most = 0
        for i, step in enumerate(self.steps):
            now += sum(size.get(v, 0) for v in step_outputs(step))
            most = max(most, now)
            now -= sum(size.get(v, 0) for v in last.get(i, ()))
        return most

    def __str__(self) -> str:
        return "\n".join(describe(s) for s in self.steps)


def plan_graph(graph: Graph, fusion: bool = True) -> Plan:
    """Simplify and fuse."""
    flat = simplify(graph)
    if fusion:
        flat = turned(flat)
    steps, refusals = fuse(flat, fusion)
    return Plan(flat, named(steps), refusals, fusion)


def _last_steps(plan: Plan) -> dict[int, list[Var]]:
    """For each step, the values nobody reads after it."""
    steps = [Eqn(registry["copy"], step_inputs(s), step_outputs(s), {}) for s in plan.steps]
    return last_uses(Graph([], plan.graph.outvars, steps))
