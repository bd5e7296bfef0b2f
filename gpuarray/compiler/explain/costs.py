"""The costs of the steps of a plan: kernels, library routines, loop iterations, branches.

Floor 3. In: a step of a plan. Out: its `Cost`. These rules hold on every machine;
backends/cuda/moved.py adds those of a GPU's kernels and libraries.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuarray.compiler.explain.source import Machine
from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import eqn_bytes, eqn_reads, step_inputs, step_outputs
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Atom, Eqn, Graph
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Cost(Struct):
    """The bytes that a step moves, and its launches.

    Attributes
    ----------
    launches :
        Kernels, routines of libraries and copies that it starts.
    read, written :
        Bytes that it reads and writes.
    turns :
        The number of iterations of a loop; 0 for other steps.
    guessed :
        Whether the number of iterations is a guess.
    estimated :
        Whether the bytes are an estimate, since a library moves them.
    """

    launches: int = 1
    read: int = 0
    written: int = 0
    turns: int = 0
    guessed: bool = False
    estimated: bool = False

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.launches + other.launches,
            self.read + other.read,
            self.written + other.written,
            # The loop with the most iterations represents all.
            max(self.turns, other.turns),
            guessed=self.guessed or other.guessed,
            estimated=self.estimated or other.estimated,
        )

    def times(self, turns: int) -> Cost:
        """This cost in each of `turns` iterations of a loop."""
        launches, read, written = (n * turns for n in (self.launches, self.read, self.written))
        return self.replace(launches=launches, read=read, written=written, turns=turns)

    def facts(self) -> dict[str, object]:
        """The facts for a table, besides the bytes."""
        found: dict[str, object] = {}
        if self.turns:
            found["turns"] = f"about {self.turns}" if self.guessed else self.turns
        if self.launches != 1:
            found["launches"] = self.launches
        if self.estimated:
            found["bytes"] = "estimated"
        return found

    def seconds(self, flops: float, machine: Machine) -> float:
        """The least time it takes on a GPU, by its memory and by its arithmetic."""
        return max((self.read + self.written) / machine.bytes, flops / machine.instructions)


#: No bytes, and no launches.
NOTHING = Cost(launches=0)


def on_host(step: DeviceStep) -> Cost:
    """The cost of a step where each is one call, on the CPU."""
    if isinstance(step, Eqn):
        return of_flow(step, whole_on_host) or of_eqn(step)
    read = sum(v.aval.nbytes for v in step_inputs(step))
    return Cost(1, read, sum(v.aval.nbytes for v in step_outputs(step)))


def whole_on_host(graph: Graph) -> Cost:
    """The cost of all steps of a Graph on the CPU."""
    return total(plan_graph(graph), on_host)


def total(plan: Plan, of: Callable[[DeviceStep], Cost]) -> Cost:
    """The cost of all steps of a plan."""
    return sum(map(of, plan.steps), NOTHING)


def of_eqn(eqn: Eqn) -> Cost:
    """The cost of an equation that is a separate step; views are free."""
    if eqn.primitive.kind is Kind.VIEW or eqn.primitive.same_bytes:
        return NOTHING
    read = eqn_reads(eqn)
    return Cost(1, read, eqn_bytes(eqn) - read)


def of_flow(
    eqn: Eqn, of: Callable[[Graph], Cost], asked: Callable[[Atom], Cost] = lambda a: NOTHING
) -> Cost | None:
    """The cost of a loop or branch, given that of its Graphs; None for other equations.

    Parameters
    ----------
    asked :
        The cost of sending the host a number by which it decides how to continue.
    """
    flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
    if isinstance(flow, Choice):
        # One branch runs, perhaps the dearest.
        return max(map(of, flow.branches), key=lambda c: c.read + c.written) + asked(eqn.invars[0])
    if not isinstance(flow, Loop):
        return None
    turn = of(flow.body)
    # A row of each stacked result is copied to its place.
    rows = flow.body.out_avals[len(flow.carry) :]
    stacked = sum(a.nbytes for a in rows)
    turn += Cost(len(rows), stacked, stacked)
    if flow.length is not None:
        return turn.times(flow.length)
    # A condition is evaluated once more than the body runs.
    assert flow.condition is not None
    test = of(flow.condition) + asked(flow.condition.outvars[0])
    return (turn + test).replace(guessed=True).times(int(TARGET.guessed_steps)) + test
