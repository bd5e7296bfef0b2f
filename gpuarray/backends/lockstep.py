"""Programs of several devices in one process, run in turn: each goes on to its next collective.

Floor 4. In: for each device its program, a generator that yields (equation, operands) at every
collective, and an engine that exchanges operands for results. Out: the results of each device.

No thread waits for another, so nothing can hang: where devices come to different collectives, that
is an error at once. The order of devices is fixed, and so a run repeats bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Eqn, Graph, called, storage_dtype

#: (equation, operands of each device) -> results of each device. An engine that exchanges values
#: while devices compute is also asked for halves (compiler/lower/overlap.py): to start an exchange,
#: for which each device is given the same thing, and, given that by each, for the results.
Engine = Callable[[Any, list], list]


def run(programs: Sequence[Any], engine: Engine) -> list[list]:
    """Run the programs of all devices to their ends; return the results of each."""
    sends = [program.send for program in programs]
    answers: list[Any] = [None] * len(programs)
    while True:
        asked: list[Any] = []
        try:
            # Each device in turn, up to its next collective.
            for send, answer in zip(sends, answers, strict=True):
                asked.append(send(answer))
        except StopIteration as end:
            return _ends(programs, answers, asked, end.value)
        first = asked[0][0]
        rows = []
        for eqn, operands in asked:
            # The same equation object: all devices run one text.
            if eqn is not first:
                raise _mismatch(programs, asked)
            rows.append(operands)
        answers = engine(first, rows)


def _ends(programs: Sequence[Any], answers: list, asked: list, result: list) -> list[list]:
    """Return the results of all devices, when the first one that is not in `asked` has ended."""
    results = [result]
    # The devices behind it have to end as well, and those before it should have.
    start = len(asked) + 1
    asked = [*asked, None]
    for program, answer in zip(programs[start:], answers[start:], strict=True):
        try:
            asked.append(program.send(answer))
        except StopIteration as end:
            results.append(end.value)
            asked.append(None)
    if len(results) < len(programs):
        raise _mismatch(programs, asked)
    return results


def _mismatch(programs: Sequence[Any], asked: Sequence[Any]) -> RuntimeError:
    """End all programs; return the error that says which device is where."""
    for program in programs:
        program.close()
    at = ["at its end" if a is None else f"at {a[0].primitive.name} ({a[0].site})" for a in asked]
    eqns = [None if a is None else a[0] for a in asked]
    other = next(i for i, eqn in enumerate(eqns) if eqn is not eqns[0])
    return RuntimeError(
        f"device {other} is {at[other]}, device 0 {at[0]}: branches and loops that depend on "
        "values which differ between devices must not hold collectives. Make the condition the "
        "same on all devices, as with lax.pmax."
    )


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
        yield  # what makes it a generator

    return silent


def _where(going: Any, new: list, old: Sequence[Any]) -> list:
    """Return what goes on in a loop whose condition has an axis: others keep their values."""
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
