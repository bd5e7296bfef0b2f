"""What rules for derivatives close over on several devices, inside of loops and branches."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.control.lifting import lift_spread_constants
from gpuarray.core.graph import Graph, subgraphs
from gpuarray.sharding import AxisType, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(8, 8)).astype("float32") / 3
WEIGHTS = RNG.normal(size=(8, 8)).astype("float32") / 3


def laid(values):
    mesh = ga.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    return ga.device_put(values, NamedSharding(mesh, P("x")))


def by_cotangents(w):
    f = ga.custom_vjp(lambda y: gnp.sin(y @ w))
    f.defvjp(lambda y: (f(y), y), lambda y, ct: ((gnp.cos(y @ w) * ct) @ w.T,))
    return f


def by_tangents(w):
    f = ga.custom_jvp(lambda y: gnp.sin(y @ w))
    f.defjvp(lambda p, t: (f(*p), gnp.cos(p[0] @ w) * (t[0] @ w)))
    return f


AROUND = {
    "checkpoint": ga.checkpoint,
    "scan": lambda f: lambda y: lax.scan(lambda c, _: (f(c), None), y, None, length=2)[0],
    "cond": lambda f: lambda y: lax.cond(y[0, 0] < 9, f, lambda a: a, y),
    "switch": lambda f: lambda y: lax.switch(1, [lambda a: a, f, lambda a: f(2 * a)], y),
    "checkpoint of scan": lambda f: ga.checkpoint(AROUND["scan"](f)),
    "scan of checkpoint": lambda f: AROUND["scan"](ga.checkpoint(f)),
    "cond in scan": lambda f: AROUND["scan"](AROUND["cond"](f)),
}


def slope(make, around, w):
    return ga.grad(lambda y: AROUND[around](make(w))(y).sum())


def arrays_inside(graph: Graph, w) -> bool:
    inner = [g for eqn in graph.eqns for g in subgraphs(eqn)]
    return any(any(c is w for c in g.consts) or arrays_inside(g, w) for g in inner)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("make", [by_cotangents, by_tangents])
def test_it_is_an_operand(make, around):
    x, w = laid(VALUES), laid(WEIGHTS)
    graph = ga.make_jaxpr(slope(make, around, w))(x)
    found = lift_spread_constants(graph)
    assert any(c is w for c in found.consts) and not arrays_inside(found, w)
    want = slope(make, around, WEIGHTS)(VALUES)
    for f in (slope(make, around, w), ga.jit(slope(make, around, w))):
        np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("f", [by_tangents])
def test_while_loops(f):
    x, w = laid(VALUES), laid(WEIGHTS)

    def tangent(w):
        def step(state):
            return state[0] + 1 + 0 * (state[1] * w).sum().astype("int32"), f(w)(state[1])

        def goes_on(state):
            return (state[0] < 2) & ((w * w).sum() > 0)

        loop = lambda y: lax.while_loop(goes_on, step, (0, y))[1]
        return lambda y: ga.jvp(loop, (y,), (y,))[1]

    want = tangent(WEIGHTS)(VALUES)
    for g in (tangent(w), ga.jit(tangent(w))):
        np.testing.assert_allclose(g(x), want, rtol=1e-4, atol=1e-5)
    assert not arrays_inside(lift_spread_constants(ga.make_jaxpr(tangent(w))(x)), w)


def test_a_graph_that_holds_none_is_itself():
    graph = ga.make_jaxpr(slope(by_tangents, "scan", gnp.asarray(WEIGHTS)))(VALUES)
    assert lift_spread_constants(graph) is graph
