"""Overlap: exchanges start as soon as their operands are ready, and are waited for where their
results are first read; steps that depend on neither run in between.

Floor 3. In: the steps of a plan. Out: the same steps in another order, and for each exchange where
it has to be done. For engines that exchange values while devices compute.

It cannot deadlock. Every device runs these steps in this one order, which depends on the Graph
alone, and starting an exchange does not wait. Consider the first place in that order at which a
device is stuck: it waits for an exchange that starts before it on every device, and no device is
stuck earlier. So all have started it, and it ends.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import step_eqns, step_inputs, step_outputs
from gpuarray.core.graph import Atom, Eqn, Var, has_effect
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET


class Half:
    """The start of an exchange, or the wait for its end: a program's request to the engine."""

    __slots__ = ("eqn", "is_start")

    def __init__(self, eqn: Eqn, is_start: bool):
        self.eqn, self.is_start = eqn, is_start

    @property
    def primitive(self) -> Primitive:
        return self.eqn.primitive

    @property
    def site(self):
        return self.eqn.site


class Halves(NamedTuple):
    """An exchange in two halves, and the number of the step before which it is waited for."""

    start: Half
    wait: Half
    until: int


def is_split(step: DeviceStep) -> bool:
    """Whether a step is an exchange that can overlap with others."""
    if not isinstance(step, Eqn) or step.primitive.kind is not Kind.COLLECTIVE:
        return False
    # An axis_index has no operands: nothing is sent. A step with effects keeps its place.
    return bool(step_inputs(step)) and not has_effect(step)


def overlapped(
    steps: Sequence[DeviceStep], results: Sequence[Atom]
) -> tuple[list[DeviceStep], dict[int, Halves]]:
    """Return steps in an order in which exchanges overlap with others, and by id their halves."""
    if not any(map(is_split, steps)):
        return list(steps), {}
    ordered, until = _ordered(steps)
    # The first reader of a result, if nothing waited for it before.
    made_by = {v: id(s) for s in ordered if is_split(s) for v in step_outputs(s)}
    for i, step in enumerate(ordered):
        # Where the order below has set an earlier end, it stays.
        for v in step_inputs(step):
            if v in made_by:
                until.setdefault(made_by[v], i)
    halves = {
        id(s): Halves(Half(s, True), Half(s, False), until.get(id(s), len(ordered)))
        for s in ordered
        if isinstance(s, Eqn) and is_split(s)
    }
    return ordered, halves


def last_reads(halves: Mapping[int, Halves], steps: Sequence[DeviceStep]) -> dict[Var, int]:
    """Return for the operands of exchanges the last step that may read them; they must not change
    before.
    """
    found: dict[Var, int] = {}
    for step in steps:
        if id(step) in halves:
            for v in step_inputs(step):
                found[v] = max(found.get(v, 0), halves[id(step)].until)
    return found


def _ordered(steps: Sequence[DeviceStep]) -> tuple[list[DeviceStep], dict[int, int]]:
    """Start exchanges first, and prefer other steps that wait for none.

    The second result has, by id, the exchanges that have to end before a step starts another one.
    """
    maker = {v: i for i, step in enumerate(steps) for v in step_outputs(step)}
    readers: list[list[int]] = [[] for _ in steps]
    missing: list[int] = []
    effect: int | None = None
    for i, step in enumerate(steps):
        needed = {maker[v] for v in step_inputs(step) if v in maker}
        if any(map(has_effect, step_eqns(step))):  # these keep their order
            needed |= set() if effect is None else {effect}
            effect = i
        missing.append(len(needed))
        for j in needed:
            readers[j].append(i)
    # A list schedule with two queues. `going` holds the exchanges on the way, the oldest
    # first.
    exchanges: list[int] = []
    others: list[int] = []
    going: deque[int] = deque()
    found: list[DeviceStep] = []
    until: dict[int, int] = {}

    def ready(i: int) -> None:
        # The smallest number first: the order of the plan if nothing else decides.
        heapq.heappush(exchanges if is_split(steps[i]) else others, i)

    def done(i: int) -> None:
        for j in readers[i]:
            missing[j] -= 1
            if not missing[j]:
                ready(j)

    def held(i: int) -> int:
        return sum(v.aval.nbytes for v in (*step_inputs(steps[i]), *step_outputs(steps[i])))

    for i, count in enumerate(missing):
        if not count:
            ready(i)
    while exchanges or others or going:
        if exchanges:
            i = heapq.heappop(exchanges)
            # Buffers of exchanges on the way stay taken: wait for the oldest before another one
            # starts.
            while going and sum(map(held, going)) + held(i) > TARGET.exchanged_bytes:
                until[id(steps[going[0]])] = len(found)
                done(going.popleft())
            found.append(steps[i])
            going.append(i)
        # Wait for nothing while there is work to do.
        elif others:
            i = heapq.heappop(others)
            found.append(steps[i])
            done(i)
        else:
            # No work is left: wait for the oldest exchange.
            done(going.popleft())
    return found, until
