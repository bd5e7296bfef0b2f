"""Devices in lockstep: results, loops and branches that differ, and mismatches told."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.backends import lockstep
from gpuarray.backends.numpy.program import build
from gpuarray.backends.shared import SharedMemory
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.axes import NamedAxis, named_axes


def run(fun, values: np.ndarray) -> list[list]:
    """A function of one device's value on as many devices as there are values."""
    count = len(values)
    with named_axes({"i": NamedAxis(count)}):
        graph = ga.make_jaxpr(fun)(values[0]).jaxpr
    plan = plan_graph(graph)
    function = build(plan, [np.asarray(c) for c in plan.graph.consts])
    started = [function(v) for v in values]
    engine = SharedMemory({"i": count})
    return lockstep.run(started, engine, engine.among) if function.talks else started


def mean_then_max(x):
    y = x - lax.pmean(x, "i")
    return lax.pmax(y * y, "i"), lax.axis_index("i") + y


def a_loop(x):
    step = lambda carry, row: (carry + lax.psum(row, "i"), carry)
    return lax.scan(step, jnp.zeros(3), x.reshape(2, 3), reverse=True)


def a_short_loop(x):
    """Of few steps that do little, one in another, with a constant and a branch inside."""
    rows = np.arange(6, dtype=np.float32)

    def inner(i, v):
        v = lax.cond(i > 1, lambda v: v - lax.pmax(v, "i"), lambda v: v * 0.5, v)
        return v / (1 + lax.psum(v * v, "i")) + rows

    def outer(i, carry):
        v, count = carry
        return lax.fori_loop(0, 3, inner, v) + i, count + 1

    return lax.fori_loop(0, 2, outer, (x, 0))


def a_loop_whose_number_nobody_reads(x):
    def step(i, v):
        lax.axis_index("i")
        return v * 2

    return lax.fori_loop(0, 3, step, x)


def one_loop_twice(x):
    """The same loop again and within another, with random numbers and positions inside."""
    key = ga.random.fold_in(ga.random.key(0), lax.axis_index("i"))

    def draw(i, carry):
        key, v = carry
        key, now = ga.random.split(key)
        drawn = ga.random.uniform(now, (6,)) + jnp.arange(6) * i
        return key, lax.psum(drawn, "i") + v[::-1]

    def loop(carry):
        return lax.fori_loop(0, 2, draw, carry)

    first = loop((key, x))
    second = loop(first)
    last = lax.fori_loop(0, 2, lambda i, c: loop((c[0], c[1])), loop(second))
    swapped = lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] + lax.psum(c[1], "i")), (x, last[1]))
    return first[1], second[1], last[1], swapped


def a_while(x):
    total = lambda v: lax.psum(v.sum(), "i") < 100
    return lax.while_loop(total, lambda v: v * 2 + lax.pmax(v, "i"), jnp.abs(x))


def a_branch(x):
    same = lax.psum(x.sum(), "i") > 0
    return lax.cond(same, lambda v: lax.psum(v, "i"), lambda v: -v, x)


def own_turns(x):
    """No collective inside: each device goes round as often as it needs to."""
    found = lax.while_loop(lambda v: v.sum() < 50, lambda v: v * 2, jnp.abs(x) + 1)
    return lax.psum(found, "i"), found


@pytest.mark.parametrize(
    "fun",
    [
        mean_then_max,
        a_loop,
        a_short_loop,
        a_loop_whose_number_nobody_reads,
        one_loop_twice,
        a_branch,
        a_while,
        own_turns,
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_devices_are_what_vmap_says(fun, count):
    values = np.random.default_rng(0).normal(size=(count, 6)).astype(np.float32)
    wanted = ga.tree.leaves(ga.vmap(fun, axis_name="i")(values))
    found = run(fun, values)
    for k, want in enumerate(wanted):
        got = np.stack([np.asarray(row[k]) for row in found])
        np.testing.assert_allclose(got, np.asarray(want), rtol=2e-6, atol=2e-6)


def on_grid(fun, values: np.ndarray) -> np.ndarray:
    """A function of one device's value on a grid of devices, with axes `i` and `j`."""
    rows, columns = values.shape[:2]
    sizes = {"i": rows, "j": columns}
    with named_axes({name: NamedAxis(n) for name, n in sizes.items()}):
        graph = ga.make_jaxpr(fun)(values[0, 0]).jaxpr
    plan = plan_graph(graph)
    function = build(plan, [np.asarray(c) for c in plan.graph.consts])
    engine = SharedMemory(sizes)
    started = [function(v) for v in values.reshape(rows * columns, *values.shape[2:])]
    found = [np.asarray(out) for (out,) in lockstep.run(started, engine, engine.among)]
    return np.stack(found).reshape(rows, columns, *found[0].shape)


def branches_of_one_row(x):
    """Rows take different branches, and what a branch exchanges stays in its row."""
    branches = [lambda v: lax.psum(v, "j"), lambda v: 2 * lax.pmax(v, "j"), lambda v: -v]
    return lax.switch(lax.axis_index("i"), branches, x)


def turns_of_one_row(x):
    """Rows take as many turns as their number; all add up in the end."""
    last = lambda s: s[0] < lax.axis_index("i")
    turn = lambda s: (s[0] + 1, s[1] + lax.pmean(s[1], "j") + lax.axis_index("j"))
    return lax.psum(lax.while_loop(last, turn, (0, x))[1], "i")


def what_rows_should_find(fun, x):
    """The same by NumPy: x [i, j]."""
    if fun is branches_of_one_row:
        both = np.ones_like(x[:1])
        return np.stack([both[0] * x[0].sum(), both[0] * 2 * x[1].max(), -x[2]])
    rows = []
    for i, row in enumerate(x):
        for _ in range(i):
            row = row + row.mean() + np.arange(len(row))
        rows.append(row)
    return np.broadcast_to(np.sum(rows, axis=0), x.shape)


@pytest.mark.parametrize("fun", [branches_of_one_row, turns_of_one_row])
def test_devices_may_part_from_those_that_they_exchange_nothing_with(fun):
    x = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
    np.testing.assert_allclose(on_grid(fun, x), what_rows_should_find(fun, x), rtol=1e-5)


def test_devices_of_one_row_may_not_part():
    def differs(x):
        return lax.cond(lax.axis_index("j") > 0, lambda v: lax.psum(v, "j"), lambda v: v, x)

    with pytest.raises(RuntimeError, match="device 1 is at psum .* device 0 at its end"):
        on_grid(differs, np.ones((3, 2), np.float32))


def test_a_loop_that_only_asks_where_it_is_may_differ():
    number = lambda x: lax.while_loop(lambda v: v < lax.axis_index("i"), lambda v: v + 1, x)
    found = run(number, np.zeros(4, np.int32))
    assert [int(out) for (out,) in found] == [0, 1, 2, 3]


def test_branches_that_differ_between_devices_are_told():
    def differs(x):
        return lax.cond(x[0] > 0, lambda v: lax.psum(v, "i"), lambda v: lax.pmax(v, "i"), x)

    values = np.array([[1.0], [1.0], [-1.0]], np.float32)
    with pytest.raises(RuntimeError, match=r"device 2 is at pmax \(test_lockstep.py:\d+.*device 0"):
        run(differs, values)


def test_a_device_that_ends_before_the_others_is_told():
    def more(x):
        return lax.while_loop(lambda v: v[0] < 8, lambda v: v + lax.pmin(v, "i"), x)

    with pytest.raises(RuntimeError, match="device 1 is at its end, device 0 at pmin"):
        run(more, np.array([[1.0], [9.0]], np.float32))


def test_the_other_programs_are_closed():
    closed: list = []

    def program(number):
        try:
            yield eqns[number], []
        finally:
            closed.append(number)

    graph = ga.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(x)))(1.0).jaxpr
    eqns = graph.eqns
    with pytest.raises(RuntimeError, match="device 1 is at cos"):
        lockstep.run([program(0), program(1)], lambda eqn, operands: operands)
    assert closed == [0, 1]
