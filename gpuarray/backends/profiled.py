"""Programs with a range of time around each step, for profiles.

Floor 4. In: the generated function of a plan. Out: another one of the same steps, written when it
is first asked for, so that the one without ranges knows nothing of them. The scopes that steps were
recorded in (`named_scope`) are ranges around theirs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import step_bytes, step_eqns
from gpuarray.core.graph import Eqn
from gpuarray.core.ranges import Range

#: So many operations of a kernel are named.
_NAMED = 4


class Steps:
    """What the generated text of a plan is made of, kept beside its function.

    text: its lines; of: the step that a line runs, or the name of what is none
    holders: equations that hold Graphs, by the name that the text calls them by
    inside: makes functions of these Graphs
    """

    def __init__(
        self,
        name: str,
        text: str,
        of: Mapping[int, DeviceStep | str],
        holders: Mapping[str, Eqn],
        inside: Callable[..., Callable[..., list]],
    ):
        self.name, self.text, self.of = name, text, of
        self.holders, self.inside = holders, inside


def profiled(function: Any) -> Any:
    """The function of a plan with a range around each step."""
    if "steps" not in function.__dict__:  # the host runs the whole plan
        return function
    found = function.__dict__.get("profiled")
    if found is None:
        found = function.profiled = _written(function, function.steps)
    return found


def _written(function: Any, steps: Steps) -> Any:
    head, *lines = steps.text.split("\n")
    space = dict(function.__globals__)
    made = [head, "    with ranges() as at:"]
    sites: dict[int, Eqn] = {}
    for number, line in enumerate(lines, 1):
        step = steps.of.get(number)
        if step is not None:
            space[f"step_{number}"] = _Step(step)
            indent = line[: len(line) - len(line.lstrip())]
            made.append(f"    {indent}with at(step_{number}):")
            line = "    " + line
        made.append("    " + line)
        if number in function.sites:
            sites[len(made) - 1] = function.sites[number]
    inside = lambda *args: profiled(steps.inside(*args))
    for name, eqn in steps.holders.items():
        assemble = eqn.primitive.assemble
        assert assemble is not None
        space[name] = assemble([a.aval for a in eqn.invars], inside, **eqn.params)
    space["ranges"] = lambda: _Ranges(steps.name)
    exec(compile("\n".join(made), "<plan>", "exec"), space)  # noqa: S102 - text made here, of generated names only
    found = space.pop("plan")
    found.sites, found.fresh = sites, function.fresh
    return found


class _Step:
    """A step as a range shows it."""

    __slots__ = ("args", "name", "scopes")

    def __init__(self, step: DeviceStep | str):
        self.args: dict[str, Any] = {}
        self.scopes: tuple[str, ...] = ()
        if isinstance(step, str):
            self.name = step
            return
        eqns = step_eqns(step)
        names = list(dict.fromkeys(e.primitive.name for e in eqns))
        self.name = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        sites = [e.site for e in eqns if e.site is not None]
        if not isinstance(step, Eqn):
            self.name = f"{step.name}: {self.name}"
            self.args["operations"] = ", ".join(e.primitive.name for e in eqns)
        if sites:
            self.args["recorded at"] = str(sites[0])
        self.args["bytes"] = step_bytes(step)
        scopes = [site.scope.split("/") if site.scope else [] for site in sites]
        self.scopes = tuple(os.path.commonprefix(scopes))  # of lists, as of strings


class _Ranges:
    """The ranges of one run: that of the program, those of scopes, which begin and end as its steps
    come from others, and those of steps.
    """

    def __init__(self, name: str):
        self._whole = Range(name, "run")
        self._scopes: tuple[str, ...] = ()
        self._open: list[Range] = []

    def __enter__(self) -> Callable[[_Step], Range]:
        self._whole.__enter__()
        return self._at

    def _at(self, step: _Step) -> Range:
        if step.scopes != self._scopes:
            self._move(step.scopes)
        return Range(step.name, "step", step.args)

    def _move(self, scopes: tuple[str, ...]) -> None:
        same = len(os.path.commonprefix([self._scopes, scopes]))
        while len(self._open) > same:
            self._open.pop().__exit__()
        for name in scopes[same:]:
            self._open.append(Range(name, "scope").__enter__())
        self._scopes = scopes

    def __exit__(self, *_: object) -> None:
        self._move(())
        self._whole.__exit__()
