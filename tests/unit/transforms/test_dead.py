"""Dead results inside loops and branches: what is left computes the same, and no more."""

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.graph import evaluate, subgraphs, verify
from gpuarray.interpreters.partial_eval import dce_jaxpr, dce_jaxpr_consts
from gpuarray.transforms.dead import shortened


def names(graph) -> list[str]:
    """Names of all operations, at any depth."""
    found = []
    for eqn in graph.eqns:
        inner = list(subgraphs(eqn))
        found += [n for g in inner for n in names(g)] if inner else [eqn.primitive.name]
    return sorted(found)


XS = np.linspace(0.1, 0.9, 4, dtype=np.float32)


def scan(a, b, c):
    def step(carry, x):
        a, b, c = carry
        return (gnp.sin(a) * x, gnp.cos(b) + a, gnp.tanh(c)), (a * x, gnp.exp(b))

    (a, b, c), (ys, zs) = lax.scan(step, (a, b, c), XS)
    return a, b, c, ys, zs


def branches(a, b, c):
    return lax.cond(
        a > 0,
        lambda a, b, c: (gnp.sin(a), gnp.cos(b), gnp.tanh(c), a * b, c),
        lambda a, b, c: (a, gnp.exp(b), c, b * c, gnp.sqrt(c)),
        a, b, c,
    )  # fmt: skip


def loop(a, b, c):
    def step(s):
        a, b, c, n, m = s
        return gnp.sin(a), gnp.cos(b) + a, gnp.tanh(c), n + 1, gnp.exp(m)

    return lax.while_loop(lambda s: s[3] < 3, step, (a, b, c, 0, c))


def nested(a, b, c):
    def step(carry, x):
        a, b, c, d, e = branches(*carry)
        return (a, gnp.sin(b) * x, c), (d, e)

    (a, b, c), (ys, zs) = ga.jit(lambda a, b, c: lax.scan(step, (a, b, c), XS))(a, b, c)
    return a, b, c, ys, zs


@pytest.mark.parametrize("program", [scan, branches, loop, nested], ids=lambda f: f.__name__)
@pytest.mark.parametrize("used", list(itertools.product([False, True], repeat=5))[1:])
def test_what_is_left_computes_the_same(program, used):
    given = [np.float32(0.5), np.float32(0.3), np.float32(0.7)]
    graph = ga.make_jaxpr(program)(*given).jaxpr
    expected = [x for x, u in zip(evaluate(graph, *given), used, strict=True) if u]
    for short, read in (dce_jaxpr(graph, used), dce_jaxpr_consts(graph, used)[::2]):
        verify(short)
        inputs = [x for x, r in zip(given, read, strict=True) if r]
        for x, y in zip(evaluate(short, *inputs), expected, strict=True):
            np.testing.assert_array_equal(x, y)
        assert len(names(short)) <= len(names(graph))
    short, read = shortened(graph, used)
    verify(short)
    for x, y in zip(evaluate(short, *given), expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "program, used, left, gone",
    [
        (scan, 0, "sin", "cos tanh exp"),  # a alone
        (scan, 2, "tanh", "sin cos exp"),
        (scan, 4, "sin cos exp", "tanh"),  # exp(b), and b reads a
        (branches, 1, "cos exp", "sin tanh sqrt"),
        (loop, 2, "tanh", "sin cos exp"),
        (loop, 1, "sin cos", "tanh exp"),
        (nested, 2, "tanh", "sqrt"),
    ],
)
def test_what_nobody_reads_is_gone(program, used, left, gone):
    graph = ga.make_jaxpr(program)(0.5, 0.3, 0.7).jaxpr
    short, _ = dce_jaxpr(graph, [i == used for i in range(5)])
    found = names(short)
    assert set(left.split()) <= set(found) and not set(gone.split()) & set(found)


def test_effects_stay():
    def step(c, x):
        ga.debug.print("{}", x)
        return c, gnp.sin(x)

    graph = ga.make_jaxpr(lambda c, xs: lax.scan(step, c, xs))(1.0, XS).jaxpr
    short, read = dce_jaxpr(graph, [True, False])
    assert "debug_print" in names(short) and "sin" not in names(short) and read == [True, True]
