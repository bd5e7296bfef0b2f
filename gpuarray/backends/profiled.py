"""Generated functions with a profiler range around each step.

Floor 4. In: the generated function of a plan. Out: a second function of the same steps, generated
when a profile first needs it, so that the usual one has no overhead. Named scopes (`named_scope`)
are ranges around the steps recorded in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import step_bytes, step_eqns
from gpuarray.compiler.pipeline import Plan
from gpuarray.core import ranges
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind
from gpuarray.core.ranges import Range

#: How many operations of a kernel its range names.
_NAMED = 4


class Together(NamedTuple):
    """Steps that run as one call of native code."""

    name: str
    steps: tuple[DeviceStep, ...]


class Steps:
    """The generated text of a plan and the steps of its lines, kept with its function.

    Parameters
    ----------
    text :
        The lines.
    of :
        Line number -> the step it runs, or a name if it is not a step.
    holders :
        Name in the text -> the equation with Graphs that it calls.
    inside :
        Makes functions of these Graphs.
    plan :
        The plan.
    clock :
        Returns an object that times the steps on a GPU, in a session; None if the host does.
    """

    def __init__(
        self,
        name: str,
        text: str,
        of: Mapping[int, DeviceStep | Together | str],
        holders: Mapping[str, Eqn],
        inside: Callable[..., Callable[..., list]],
        plan: Plan,
        clock: Callable[[ranges.Session], Any] | None = None,
    ):
        self.name, self.text, self.of = name, text, of
        self.holders, self.inside = holders, inside
        self.plan, self.clock = plan, clock


def profiled(function: Any) -> Any:
    """Return the function of a plan with a range around each step."""
    if "steps" not in function.__dict__:  # the host runs the whole plan
        return function
    found = function.__dict__.get("profiled")
    if found is None:
        found = function.profiled = _written(function, function.steps)
    return found


def _written(function: Any, steps: Steps) -> Any:
    # The same lines, indented, each step in its own `with` statement.
    head, *lines = steps.text.split("\n")
    space = dict(function.__globals__)
    made = [head, "    with ranges() as at:"]
    sites: dict[int, Eqn] = {}
    for number, line in enumerate(lines, 1):
        step = steps.of.get(number)
        if step is not None:
            space[f"step_{number}"] = _Step(step)
            indent = line[: len(line) - len(line.lstrip())]
            # The indentation of the line itself, which may be inside a `with`.
            made.append(f"    {indent}with at(step_{number}):")
            line = "    " + line
        made.append("    " + line)
        # Errors are reported by line number, and lines have moved.
        if number in function.sites:
            sites[len(made) - 1] = function.sites[number]
    # Branches and loop bodies have ranges too.
    inside = lambda *args: profiled(steps.inside(*args))
    for name, eqn in steps.holders.items():
        assemble = eqn.primitive.assemble
        assert assemble is not None
        space[name] = assemble([a.aval for a in eqn.invars], inside, **eqn.params)
    space["ranges"] = lambda: _Ranges(steps)
    exec(compile("\n".join(made), "<plan>", "exec"), space)  # noqa: S102 - text made here, of generated names only
    found = space.pop("plan")
    found.sites, found.fresh = sites, function.fresh
    return found


class _Step:
    """Name and details of a step's range."""

    __slots__ = ("args", "name", "scopes", "step")

    def __init__(self, step: DeviceStep | Together | str):
        self.step = step
        self.args: dict[str, Any] = {}
        self.scopes: tuple[str, ...] = ()
        if isinstance(step, str):
            self.name = step
            self.args["kind"] = "kernels"
            return
        # The name lists the operations of the step, each once.
        steps = step.steps if isinstance(step, Together) else (step,)
        eqns = [e for s in steps for e in step_eqns(s)]
        names = list(dict.fromkeys(e.primitive.name for e in eqns))
        self.name = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        sites = [e.site for e in eqns if e.site is not None]
        if isinstance(step, Together):
            parts = [s.primitive.name if isinstance(s, Eqn) else s.name for s in step.steps]
            self.name = f"{step.name}: {' '.join(parts)}"
            self.args["operations"] = ", ".join(e.primitive.name for e in eqns)
        elif not isinstance(step, Eqn):
            self.name = f"{step.name}: {self.name}"
            self.args["operations"] = ", ".join(e.primitive.name for e in eqns)
        if sites:
            self.args["recorded at"] = str(sites[0])
        kinds = {kind_of(s) for s in steps}
        self.args["kind"] = "loop" if "loop" in kinds else kind_of(steps[0])
        self.args["bytes"] = sum(map(step_bytes, steps))
        # The scope that all operations of the step share.
        scopes = [site.scope.split("/") if site.scope else [] for site in sites]
        self.scopes = tuple(os.path.commonprefix(scopes))  # of lists, as of strings


def kind_of(step: DeviceStep) -> str:
    """Return "kernel", "exchange" (with other devices), "loop" or "library" (a routine)."""
    if not isinstance(step, Eqn):
        return "kernel"
    if step.primitive.kind is Kind.COLLECTIVE:
        return "exchange"
    return "library" if step.primitive.assemble is None else "loop"


class _Ranges:
    """The ranges of one run: the program's, those of its scopes, and those of its steps.

    A scope's range begins and ends where consecutive steps were recorded in different scopes.
    """

    def __init__(self, steps: Steps):
        self._whole = Range(steps.name, "run", about=steps)
        session = ranges.session
        # A GPU finishes a step long after its launch: use its own times.
        self._clock = None
        if steps.clock is not None and session is not None:
            self._clock = steps.clock(session)
        self._scopes: tuple[str, ...] = ()
        self._open: list[Range] = []

    def __enter__(self) -> Callable[[_Step], Any]:
        self._whole.__enter__()
        return self._at

    def _at(self, step: _Step) -> Any:
        if step.scopes != self._scopes:
            self._move(step.scopes)
        made = Range(step.name, "step", step.args, step.step)
        return made if self._clock is None else self._clock.timed(made)

    def _move(self, scopes: tuple[str, ...]) -> None:
        # Close the scopes that were left, innermost first, and open the new ones. Common scopes
        # stay open.
        same = len(os.path.commonprefix([self._scopes, scopes]))
        while len(self._open) > same:
            self._open.pop().__exit__()
        for name in scopes[same:]:
            self._open.append(Range(name, "scope").__enter__())
        self._scopes = scopes

    def __exit__(self, *_: object) -> None:
        self._move(())
        self._whole.__exit__()
