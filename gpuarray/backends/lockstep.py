"""Programs of several devices in one process, run in turn: each runs to its next collective.

Floor 4. In: for each device its program, a generator that yields (equation, operands) at every
collective, and an engine that exchanges operands for results. Out: the results of each device.

No thread waits for another, so it cannot deadlock: if devices that have to exchange something reach
different collectives, that is an error immediately. The order of devices is fixed, and so a run
repeats bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Eqn, Graph, called, storage_dtype

#: (equation, operands of each device) -> results of each device. An engine that exchanges values
#: during computations also handles halves (compiler/lower/overlap.py): starting an exchange gives
#: each device the same token, and passing it back gives the results.
Engine = Callable[[Any, list], list]


#: equation -> the groups of devices of an exchange: their numbers, and a function of their
#: operands. Groups that the engine can only serve all together are omitted.
Among = Callable[[Any], list[tuple[list[int], Callable[[list], list]]]]


def run(programs: Sequence[Any], engine: Engine, among: Among | None = None) -> list[list]:
    """Run the programs of all devices to their ends; return the results of each.

    Devices may diverge, in branches and loops that depend on their own values, if those of an
    exchange reach it together: `among` gives its groups.
    """
    sends = [program.send for program in programs]
    answers: list[Any] = [None] * len(programs)
    ends: dict[int, list] = {}
    while True:
        asked: list[Any] = []
        try:
            # Each device in turn, up to its next collective.
            for send, answer in zip(sends, answers, strict=True):
                asked.append(send(answer))
        except StopIteration as end:
            # `asked` has an entry for each device before the one that ended.
            ends[len(asked)] = end.value
            asked = _with_those_behind(programs, answers, asked, ends)
        rows = _rows(asked)
        if rows is None:
            asked = _apart(programs, asked, ends, among)
            # All programs have ended.
            if not asked:
                return [ends[device] for device in range(len(programs))]
            rows = [operands for _, operands in asked]
        # All are at one exchange.
        answers = engine(asked[0][0], rows)


def of_all(parts: list[tuple[list[int], Callable[[list], list]]]) -> Callable[[list], list]:
    """Return an exchange of all devices, from the functions of its groups."""

    def exchange(operands: list) -> list:
        results: list[list] = [[] for _ in operands]
        for group, function in parts:
            found = function([operands[device] for device in group])
            for device, values in zip(group, found, strict=True):
                results[device] = values
        return results

    return exchange


def _rows(asked: Sequence[Any]) -> list | None:
    """Return the operands of all devices; None if one has ended or is at another equation."""
    first, rows = asked[0], []
    for a in asked:
        # The same equation object: all devices run one text.
        if a is None or first is None or a[0] is not first[0]:
            return None
        rows.append(a[1])
    return rows


def _with_those_behind(
    programs: Sequence[Any], answers: list, asked: list, ends: dict[int, list]
) -> list:
    """Return where all devices are, when the first one that is not in `asked` has ended."""
    start = len(asked) + 1
    found = [*asked, None]
    for program, answer in zip(programs[start:], answers[start:], strict=True):
        found.append(_next(program, answer, len(found), ends))
    return found


def _next(program: Any, answer: Any, device: int, ends: dict[int, list]) -> Any:
    """Return a device's next request; None if it ended, with its results in `ends`."""
    try:
        return program.send(answer)
    except StopIteration as end:
        ends[device] = end.value
        return None


def _apart(
    programs: Sequence[Any], asked: list, ends: dict[int, list], among: Among | None
) -> list:
    """Run diverged devices until all meet: return their requests there.

    An exchange waits only for the devices that it is between. Returns None if all have ended.
    """
    while any(a is not None for a in asked):
        if _rows(asked) is not None:
            return asked
        # Not all are at one place, but a group may be complete: its exchange does not involve
        # others.
        meeting = _meeting(asked, among)
        # Deadlock: each waits for a device that waits elsewhere.
        if not meeting:
            raise _mismatch(programs, asked, among)
        for group, exchange in meeting:
            answers = exchange([asked[device][1] for device in group])
            for device, answer in zip(group, answers, strict=True):
                asked[device] = _next(programs[device], answer, device, ends)
    return []


def _meeting(asked: list, among: Among | None) -> list:
    """Return the groups whose devices have all reached one exchange, and its functions."""
    if among is None:
        return []
    eqns = {id(a[0]): a[0] for a in asked if a is not None}
    return [
        (group, exchange)
        for eqn in eqns.values()
        for group, exchange in among(eqn)
        if all(asked[device] is not None and asked[device][0] is eqn for device in group)
    ]


def _mismatch(programs: Sequence[Any], asked: Sequence[Any], among: Among | None) -> RuntimeError:
    """End all programs; return an error that shows each device's position."""
    for program in programs:
        program.close()
    at = ["at its end" if a is None else f"at {a[0].primitive.name} ({a[0].site})" for a in asked]
    eqns = [None if a is None else a[0] for a in asked]
    one, other = _waiting(eqns, among)
    return RuntimeError(
        f"device {other} is {at[other]}, device {one} {at[one]}: branches and loops that depend on "
        "values which differ between devices must not hold collectives of these devices. Make the "
        "condition the same on all of them, as with lax.pmax."
    )


def _waiting(eqns: list, among: Among | None) -> tuple[int, int]:
    """Return two devices at different places, one of which waits for the other."""
    for device, eqn in enumerate(eqns):
        for group, _ in among(eqn) if among is not None and eqn is not None else ():
            for other in group if device in group else ():
                if eqns[other] is not eqn:
                    return min(device, other), max(device, other)
    return 0, next(i for i, eqn in enumerate(eqns) if eqn is not eqns[0])


def steps(
    eqn: Eqn, compile: Callable[[Graph], Callable], room: Callable[..., Any] = np.empty
) -> Callable[..., Any]:
    """Return a loop or branch that holds collectives as a generator function of its operands.

    `room(shape, dtype)` makes a buffer for stacked results. Conditions are read on the host.
    """
    flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
    if isinstance(flow, Choice):
        return _branches(flow, compile)
    if isinstance(flow, Loop):
        return _loop(flow, eqn, compile, room)
    # A Graph that is only applied (a jit inside).
    body = called(eqn)
    if body is not None:
        return _called(body, compile)
    raise NotImplementedError(
        f"{eqn.primitive.name} (at {eqn.site}) holds a collective, and cannot be run step by step"
    )


def _called(graph: Graph, compile: Callable[[Graph], Callable]) -> Callable[..., Any]:
    """Return a compiled Graph as a generator function, whether it talks or not."""
    function = compile(graph)
    if function.talks:  # pyright: ignore[reportFunctionMemberAccess]
        return function

    def silent(*operands: Any) -> Iterator[Any]:
        return function(*operands)
        yield  # makes it a generator

    return silent


def _where(going: Any, new: list, old: Sequence[Any]) -> list:
    """Return the new values of elements that continue in a loop whose condition has an axis; others
    keep their values.
    """
    if not isinstance(going, np.ndarray):
        raise NotImplementedError(
            "a while_loop with collectives in its body, under vmap, runs on CPU devices only: give "
            "all elements one condition, as with jnp.any"
        )
    rows = going.ndim
    return [
        np.where(going.reshape(going.shape + (1,) * (np.ndim(x) - rows)), x, y)
        for x, y in zip(new, old, strict=True)
    ]


def _branches(choice: Choice, compile: Callable[[Graph], Callable]) -> Callable[..., Any]:
    branches = [_called(graph, compile) for graph in choice.branches]
    last = len(branches) - 1

    # The index is clamped into range, as in JAX.
    def chosen(index: Any, *operands: Any) -> Any:
        return (yield from branches[min(max(int(index), 0), last)](*operands))

    return chosen


def _loop(
    loop: Loop, eqn: Eqn, compile: Callable[[Graph], Callable], room: Callable[..., Any]
) -> Callable[..., Any]:
    # Generators: a yield waits for the other devices, and collectives may occur inside an
    # iteration.
    body = _called(loop.body, compile)
    condition = None if loop.condition is None else _called(loop.condition, compile)
    count = len(loop.carry)
    stacked = [v.aval for v in eqn.outvars[count:]]

    def turns(*args: Any) -> Any:
        pick = lambda numbers: [args[i] for i in numbers]
        consts, carry, xs = pick(loop.consts), pick(loop.carry), pick(loop.xs)
        if condition is not None:
            tested = pick(loop.condition_consts)
            while True:
                (going,) = yield from condition(*tested, *carry)
                if not np.any(np.asarray(going)):
                    return list(carry)
                new = yield from body(*consts, *carry)
                # A condition with an axis (vmap): elements that are done keep their values.
                carry = new if going.ndim == 0 else _where(going, new, carry)
        ys = [room(a.shape, storage_dtype(a)) for a in stacked]
        order = range(loop.length or 0)
        for i in reversed(order) if loop.reverse else order:
            out = yield from body(*consts, *carry, *(x[i] for x in xs))
            carry = out[:count]
            for y, value in zip(ys, out[count:], strict=True):
                y[i] = value
        return [*carry, *ys]

    return turns
