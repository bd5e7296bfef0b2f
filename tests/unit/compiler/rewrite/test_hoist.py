"""What a loop repeats is computed before it: the same values, and what stays in the body.

In: loops whose bodies and conditions make values of constants. Out: the planned graph, and NumPy's
results.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import config, lax

C = np.linspace(0.5, 2.0, 12, dtype=np.float32).reshape(3, 4)
X = np.arange(4, dtype=np.float32)


def planned(function, *arguments):
    """The equations around the only loop, and those of its body."""
    graph = ga.jit(function).lower(*arguments).plan.graph
    (loop,) = [e for e in graph.eqns if e.primitive.flow is not None]
    body = loop.primitive.flow(loop).body
    return [e.primitive.name for e in graph.eqns], [e.primitive.name for e in body.eqns]


def softened(c, x):
    """30 turns of a sum over rows of what is made of c alone."""
    return lax.fori_loop(0, 30, lambda i, x: gnp.tanh(gnp.sum(gnp.exp(c / 0.3) * x, 0)), x)


def softened_by_numpy(c, x):
    for _ in range(30):
        x = np.tanh(np.sum(np.exp(c / np.float32(0.3)) * x, 0))
    return x


def test_what_is_made_of_constants_alone():
    around, body = planned(softened, C, X)
    assert "exp" in around and "div" in around
    assert "exp" not in body and "div" not in body
    np.testing.assert_allclose(ga.jit(softened)(C, X), softened_by_numpy(C, X), 1e-5)


@pytest.mark.parametrize("platform", ["cpu", "simulator"])
def test_constants_of_the_body_move_with_what_is_made_of_them(platform):
    """They are no inputs of the program, as constants outside of loops are."""
    step = lambda i, x: x / 2 + gnp.median((x**2).sum(-1))
    with ga.default_device(platform):
        found = ga.jit(lambda x: lax.fori_loop(0, 3, step, x))(C)
    wanted = C
    for _ in range(3):
        wanted = wanted / 2 + np.median((wanted**2).sum(-1))
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_cheap_values_are_made_again():
    around, body = planned(
        lambda c, x: lax.fori_loop(0, 9, lambda i, x: gnp.sum((c + 1) * x, 0), x), C, X
    )
    assert "add" not in around and "add" in body


def test_values_larger_than_what_they_are_made_of_stay():
    def far(c, x):
        return lax.fori_loop(0, 9, lambda i, x: gnp.exp(c[:, None] - c) @ x, x)

    assert "exp" in planned(far, gnp.linspace(0, 1, 50), gnp.ones(50))[1]


def test_a_value_whose_source_is_read_anyway_has_to_be_worth_its_bytes():
    def both(c, x):
        return lax.fori_loop(0, 9, lambda i, x: gnp.sum(c / 3 + c * x, 0), x)

    assert "div" in planned(both, C, X)[1]


def test_reductions_and_routines():
    def solved(a, x):
        return lax.fori_loop(0, 5, lambda i, x: gnp.linalg.inv(a) @ x + gnp.sum(a), x)

    a = np.diag([2.0, 4.0, 8.0]).astype(np.float32)
    around, body = planned(solved, a, np.ones(3, np.float32))
    assert "reduce_sum" in around and "reduce_sum" not in body
    x = np.ones(3, np.float32)
    for _ in range(5):
        x = np.linalg.inv(a) @ x + a.sum()
    np.testing.assert_allclose(ga.jit(solved)(a, np.ones(3, np.float32)), x, 1e-5)


def test_conditions():
    def run(c, x):
        # The limit is the same in every turn.
        return lax.while_loop(
            lambda x: gnp.sum(x) < gnp.sum(gnp.exp(c)), lambda x: gnp.cumsum(x) * gnp.mean(c), x
        )

    graph = ga.jit(run).lower(C, X).plan.graph
    (loop,) = [e for e in graph.eqns if e.primitive.flow is not None]
    flow = loop.primitive.flow(loop)
    assert "exp" not in [e.primitive.name for e in flow.condition.eqns]
    assert "exp" in [e.primitive.name for e in graph.eqns]
    x = X
    while x.sum() < np.exp(C).sum():
        x = np.cumsum(x) * C.mean()
    np.testing.assert_allclose(ga.jit(run)(C, X), x, 1e-4)


def test_loops_in_loops():
    def nested(c, x):
        def outer(i, x):
            return lax.fori_loop(0, 3, lambda j, x: gnp.cumsum(x) @ gnp.exp(c / 9) / 40, x)

        return lax.fori_loop(0, 4, outer, x)

    c = np.eye(4, dtype=np.float32)
    around, _ = planned(nested, c, X)
    assert "exp" in around
    x = X
    for _ in range(12):
        x = np.cumsum(x) @ np.exp(c / 9) / 40
    np.testing.assert_allclose(ga.jit(nested)(c, X), x, 1e-4)


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_loops_of_any_length_and_what_they_go_through(length):
    def run(c, x, xs):
        def turn(x, z):
            y = gnp.sum(gnp.sqrt(c) * x, 0) / 9 + z
            return y, y * gnp.sqrt(c)[0]

        return lax.scan(turn, x, xs, reverse=True)

    xs = np.arange(4 * length, dtype=np.float32).reshape(length, 4)
    carry, ys = ga.jit(run)(C, X, xs)
    x, expected = X, []
    for z in xs[::-1]:
        x = np.sum(np.sqrt(C) * x, 0) / 9 + z
        expected.insert(0, x * np.sqrt(C)[0])
    np.testing.assert_allclose(carry, x, 1e-5)
    np.testing.assert_allclose(ys, np.array(expected, np.float32).reshape(length, 4), 1e-5)


def test_constants_of_the_body_itself():
    table = gnp.asarray(C)

    def turn(i, x):
        return gnp.cumsum(x) + gnp.sum(gnp.exp(table), 0)

    x = ga.jit(lambda x: lax.fori_loop(0, 3, turn, x))(X)
    y = X
    for _ in range(3):
        y = np.cumsum(y) + np.exp(C).sum(0)
    np.testing.assert_allclose(x, y, 1e-5)


def test_effects_stay_in_their_turns(capsys):
    def turn(i, x):
        ga.debug.print("{}", gnp.sum(gnp.exp(gnp.asarray(C))))
        return gnp.cumsum(x)

    ga.jit(lambda x: lax.fori_loop(0, 3, turn, x))(X).block_until_ready()
    ga.effects_barrier()
    assert len(capsys.readouterr().out.split()) == 3


def test_a_loop_in_registers_keeps_what_it_makes():
    around, body = planned(
        lambda c, x: lax.fori_loop(0, 9, lambda i, x: gnp.sin(x) * gnp.exp(c), x), X, X
    )
    assert "exp" not in around and "exp" in body


def test_derivatives():
    def loss(c, x):
        return gnp.sum(softened(c, x))

    with ga.enable_x64(True):
        c, x = gnp.asarray(C, "float64"), gnp.asarray(X, "float64") / 9
        found = ga.jit(ga.grad(loss, (0, 1)))(c, x)
        eps = 1e-6
        for k, at in ((0, (1, 2)), (1, (2,))):
            step = [gnp.zeros_like(c), gnp.zeros_like(x)]
            step[k] = step[k].at[at].set(eps)
            up, down = loss(c + step[0], x + step[1]), loss(c - step[0], x - step[1])
            np.testing.assert_allclose(found[k][at], (up - down) / (2 * eps), 1e-4, 1e-9)


@pytest.mark.parametrize("native", ["off", "auto", "wait"])
def test_constants_of_a_jitted_body(native):
    # The body is called by itself, so that the loop's program has no constants but the body's.
    d = np.array([1.0, 2.0], np.float32)
    body = ga.jit(lambda x: x * (gnp.sum(x) + gnp.sum(gnp.tan(d))))
    want = np.ones(4, np.float32)
    for _ in range(3):
        want = want * (want.sum() + np.tan(d).sum())
    one = np.ones(4, np.float32)
    loops = {
        "fori": lambda x: lax.fori_loop(0, 3, lambda i, x: body(x), x),
        "scan": lambda x: lax.scan(lambda x, _: (body(x), None), x, None, length=3)[0],
        "while": lambda x: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[1])), (0, x)
        )[1],
    }
    before = config.read("native")
    config.update("native", native)
    try:
        for name, loop in loops.items():
            np.testing.assert_allclose(loop(one), want, 1e-5, err_msg=name)
            np.testing.assert_allclose(ga.jit(loop)(one), want, 1e-5, err_msg=name)
    finally:
        config.update("native", before)
    with ga.default_device("simulator"):
        np.testing.assert_allclose(loops["fori"](one), want, 1e-5)
    stored = ga.export.export(ga.jit(loops["fori"]))(one).serialize()
    np.testing.assert_allclose(ga.export.deserialize(stored).call(one), want, 1e-5)
