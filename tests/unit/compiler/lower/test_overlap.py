"""Overlap: exchanges start early and are waited for late, in one order, and no result changes."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import lockstep, writer
from gpuarray.backends.numpy import program
from gpuarray.backends.shared import SharedMemory
from gpuarray.compiler.lower import overlap
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.axes import NamedAxis, named_axes
from tests.support.exchanging import exchanging
from tests.support.targets import plan_for

COUNT = 3


class Late:
    """An engine that reads operands only when it is waited for, and notes what it is asked."""

    def __init__(self):
        self.shared = SharedMemory({"i": COUNT})
        self.asked: list[tuple[str, str]] = []
        self.going = 0

    def __call__(self, asked, operands):
        name = asked.primitive.name
        if not isinstance(asked, overlap.Half):
            self.asked.append(("all", name))
            return self.shared(asked, operands)
        self.asked.append(("start" if asked.is_start else "wait", name))
        self.going += 1 if asked.is_start else -1
        if asked.is_start:
            # Every device is given the same thing.
            return [operands] * COUNT
        assert all(x is operands[0] for x in operands)
        return self.shared(asked.eqn, operands[0])


def plan_of(fun, *values) -> Plan:
    with named_axes({"i": NamedAxis(COUNT)}):
        return plan_graph(ga.make_jaxpr(fun)(*values).jaxpr)


def run(plan: Plan, rows, engine) -> list[list[bytes]]:
    function = program.build(plan, [np.asarray(c) for c in plan.graph.consts])
    found = lockstep.run([function(*row) for row in rows], engine)
    return [[np.asarray(x).tobytes() for x in row] for row in found]


def both(fun, rows) -> Late:
    """Run a program in both ways; what the engine of the second was asked."""
    plan, late = plan_of(fun, *rows[0]), Late()
    assert run(plan.overlapped, rows, late) == run(plan, rows, SharedMemory({"i": COUNT}))
    assert late.going == 0  # all that was started was waited for
    return late


def rows(count: int = 1):
    values = np.random.default_rng(0).normal(size=(COUNT, count, 4, 4)).astype(np.float32)
    return [list(row) for row in values]


def test_an_exchange_starts_before_what_does_not_need_it():
    def fun(x, y):
        total = lax.psum(x, "i")
        a = total @ y  # the first that reads it
        b = gnp.linalg.inv(y @ y.T + 9 * gnp.eye(4))
        return a, b, lax.pmax(x, "i")

    plan = plan_of(fun, *rows(2)[0]).overlapped
    names = [s.primitive.name for s in plan.steps if hasattr(s, "primitive")]
    assert max(map(names.index, ("psum", "pmax"))) < names.index("dot_general")
    late = both(fun, rows(2))
    assert [x for x in late.asked if x[0] == "start"] == late.asked[:2]
    assert late.asked[2] == ("wait", "psum")


def test_nothing_starts_before_its_operands():
    late = both(lambda x: lax.psum(gnp.sin(lax.pmax(x, "i")), "i"), rows())
    order = [("start", "pmax"), ("wait", "pmax"), ("start", "psum"), ("wait", "psum")]
    assert late.asked == order


def test_results_that_nobody_reads_are_waited_for():
    def fun(x):
        a, b = lax.psum((x, x + 1), "i")
        return a, gnp.sin(x)

    assert both(fun, rows()).asked == [("start", "psum"), ("wait", "psum")]


def test_loops_talk_while_others_are_in_progress():
    def fun(x):
        a = lax.psum(x, "i")
        b = lax.fori_loop(0, 3, lambda _, v: v / lax.psum(v * v, "i"), x + 3)
        return a * 2, b

    late = both(fun, rows())
    turn = [("start", "psum"), ("wait", "psum")]
    assert late.asked == [("start", "psum"), *turn * 3, ("wait", "psum")]


def _turn(x, y):
    """Two exchanges of which neither needs the other, and work that needs none."""
    moved = lax.ppermute(y, "i", [(0, 1), (1, 2), (2, 0)])
    total = lax.psum(x, "i") / COUNT
    made = gnp.cumsum(gnp.sin(x) + y, 0)  # memory of its own, which the update may take
    return total + made, made.at[0].set(1.0) - moved


def _scan(x, y, work):
    def step(carry, row):
        a, b = _turn(*carry)
        return (work(a) + row, b), a - b

    return lax.scan(step, (x, y), gnp.stack([x, y, x + y]), reverse=True)


def _while(x, y, work):
    def step(state):
        i, a, b = state
        a, b = _turn(work(a), b)
        return i + 1, a, b

    return lax.while_loop(lambda state: lax.pmax(state[0], "i") < 3, step, (0, x, y))


def _nested(x, y, work):
    def step(_, carry):
        return lax.scan(lambda c, _: (_turn(work(c[0]), c[1]), c[0]), carry, None, length=2)[0]

    return lax.fori_loop(0, 2, step, (x, y))


def _branch(x, y, work):
    def taken(a, b):
        return _turn(work(a), b)

    return lax.cond(lax.psum(x.sum(), "i") < 1e6, taken, lambda a, b: (b, a), x, y)


@pytest.mark.parametrize("work", [lambda a: a, lambda a: gnp.linalg.inv(a @ a.T + 50 * gnp.eye(4))])
@pytest.mark.parametrize(
    ("fun", "turns"), [(_scan, 3), (_while, 3), (_nested, 4), (_branch, 1)], ids=lambda x: str(x)
)
def test_exchanges_in_bodies_overlap(fun, turns, work):
    """In bodies written out where the loop is, and in bodies that are functions of their own."""
    late = both(lambda x, y: fun(x, y, work), rows(2))
    asked = late.asked
    assert asked.count(("start", "ppermute")) == asked.count(("wait", "ppermute")) == turns
    # Both are in progress at a time, at every turn.
    going, most = 0, []
    for half, _ in asked:
        going += 1 if half == "start" else -1
        most.append(going)
    assert most.count(2) >= turns and most[-1] == 0


def test_operands_in_bodies_are_not_written_over_before_the_wait(monkeypatch):
    def step(carry, _):
        made = gnp.cumsum(carry, 0)
        passed = lax.ppermute(made, "i", [(0, 1), (1, 2), (2, 0)])
        return made.at[0].set(7.0), passed

    fun = lambda x: lax.scan(step, x, None, length=2)
    both(fun, rows())
    monkeypatch.setattr(writer, "last_reads", lambda halves, steps: {})
    monkeypatch.setattr(
        program.NumpyProgramWriter, "own", lambda self, eqn: range(len(eqn.outvars))
    )
    with pytest.raises(AssertionError):
        both(fun, rows())


def test_bytes_in_progress_are_limited(monkeypatch):
    def fun(x):
        return [lax.ppermute(x * i, "i", [(0, 1), (1, 2)]) for i in range(6)]

    def most(asked) -> int:
        going = np.cumsum([{"start": 1, "wait": -1}[half] for half, _ in asked])
        return int(going.max())

    assert most(both(fun, rows()).asked) == 6
    # Two operands of 4 x 4 numbers, and their results.
    plan_for(monkeypatch, exchanged_bytes=4 * 64)
    assert most(both(fun, rows()).asked) == 2


def test_operands_are_not_written_over_before_the_wait(monkeypatch):
    def fun(x):
        made = gnp.cumsum(x, 0)  # memory of its own, which the update may take
        passed = lax.ppermute(made, "i", [(0, 1), (1, 2), (2, 0)])
        return made.at[0].set(7.0), passed

    both(fun, rows())
    # The engine that reads late finds out if that is forgotten, and that what is handed on is kept.
    monkeypatch.setattr(writer, "last_reads", lambda halves, steps: {})
    monkeypatch.setattr(
        program.NumpyProgramWriter, "own", lambda self, eqn: range(len(eqn.outvars))
    )
    with pytest.raises(AssertionError):
        both(fun, rows())


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_keep_every_bit(seed):
    fun, given = exchanging(seed, COUNT)
    both(fun, given)
    plan = plan_of(fun, *given[0])
    assert [str(s) for s in plan.overlapped.steps] == [str(s) for s in plan.overlapped.steps]
