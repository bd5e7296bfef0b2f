"""Samples of primitives that branch and loop."""

from __future__ import annotations

import numpy as np

from gpuarray.control.linear_solve import System
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Literal, Var
from gpuarray.core.primitive import registry
from tests.samples import Table, scalar_graph

FLOAT, FLOATS = ShapedArray((), "float32"), ShapedArray((0,), "float32")


def unary_graph(name: str, aval: ShapedArray = FLOAT, **params) -> Graph:
    """x -> p(x)."""
    x, y = Var(aval), Var(aval)
    return Graph([x], [y], [Eqn(registry[name], [x], [y], params)])


def step_graph() -> Graph:
    """(w, c, x) -> (w * c, c + x): a constant, a carry and an x of a scan."""
    w, c, x = Var(FLOAT), Var(FLOAT), Var(FLOAT)
    carried, y = Var(FLOAT), Var(FLOAT)
    eqns = [Eqn(registry["mul"], [w, c], [carried], {}), Eqn(registry["add"], [c, x], [y], {})]
    return Graph([w, c, x], [carried, y], eqns)


def counting_graphs() -> dict:
    """while i < 3: i, x = i + 1, x * w."""
    count = ShapedArray((), "int32")
    i, x, going = Var(count), Var(FLOAT), Var(ShapedArray((), "bool"))
    less = Eqn(registry["lt"], [i, Literal(np.int32(3))], [going], {})
    w, j, y, k, z = Var(FLOAT), Var(count), Var(FLOAT), Var(count), Var(FLOAT)
    eqns = [
        Eqn(registry["add"], [j, Literal(np.int32(1))], [k], {}),
        Eqn(registry["mul"], [y, w], [z], {}),
    ]
    return {
        "cond_jaxpr": Graph([i, x], [going], [less]),
        "body_jaxpr": Graph([w, j, y], [k, z], eqns),
        "cond_nconsts": 0,
        "body_nconsts": 1,
    }


def never_graphs(aval: ShapedArray) -> dict:
    """while False: x = -x."""
    x = Var(aval)
    return {
        "cond_jaxpr": Graph([x], [Literal(np.bool_(False))], []),
        "body_jaxpr": unary_graph("neg", aval),
        "cond_nconsts": 0,
        "body_nconsts": 0,
    }


SCAN = {"num_consts": 1, "num_carry": 1, "reverse": False, "unroll": 1, "jaxpr": step_graph()}
ARGUMENTS = [((), "float32"), ((), "float32")]


def index(rng, shape, dtype):
    return rng.integers(0, 2, shape)


def halving(aval: ShapedArray = FLOAT) -> dict:
    """The system w * x == b with a constant w, and b / w, which solves it."""
    w, x, product = Var(FLOAT), Var(aval), Var(aval)
    v, b, quotient = Var(FLOAT), Var(aval), Var(aval)
    matvec = Graph([w, x], [product], [Eqn(registry["mul"], [w, x], [product], {})])
    solve = Graph([v, b], [quotient], [Eqn(registry["div"], [b, v], [quotient], {})])
    return {
        "const_lengths": System(1, 1, 1, 1),
        "jaxprs": System(matvec, matvec, solve, solve),
    }


def away_from_zero(rng, shape, dtype):
    return rng.uniform(0.5, 2, shape)


WEIGHTS = [((), "float32")] * 4

SAMPLES: Table = {
    "cond": [
        (
            [((), "int32"), ((), "float32")],
            {"branches": (unary_graph("sin"), unary_graph("neg"))},
            [index, None],
        ),
        (
            [((), "int32"), ((), "float32"), ((), "float32")],
            {"branches": (scalar_graph("add"), scalar_graph("mul"))},
            [index, None, None],
        ),
        (
            [((), "int32"), ((0,), "float32")],
            {"branches": (unary_graph("sin", FLOATS), unary_graph("neg", FLOATS))},
            [index, None],
        ),
    ],
    "custom_linear_solve": [
        ([*WEIGHTS, ((), "float32")], halving(), [away_from_zero] * 4 + [None]),
        ([*WEIGHTS, ((0,), "float32")], halving(aval=FLOATS), [away_from_zero] * 4 + [None]),
    ],
    "scan": [
        ([*ARGUMENTS, ((4,), "float32")], SCAN | {"length": 4}, None),
        ([*ARGUMENTS, ((3,), "float32")], SCAN | {"length": 3, "reverse": True}, None),
        ([*ARGUMENTS, ((0,), "float32")], SCAN | {"length": 0}, None),
        ([*ARGUMENTS, ((1,), "float32")], SCAN | {"length": 1, "unroll": 2}, None),
    ],
    "while": [
        ([((), "float32"), ((), "int32"), ((), "float32")], counting_graphs(), None),
        ([((), "float32")], never_graphs(FLOAT), None),
        ([((0,), "float32")], never_graphs(FLOATS), None),
    ],
}
