"""Samples of primitives that carry a user's rule, compute twice, or call Python.

Their rules are the derivatives of what they compute: generic tests compare with differences.
"""

from __future__ import annotations

import numpy as np

from gpuarray.api.callbacks import FlatCallback
from gpuarray.control.custom_vmap import FlatRule
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import registry
from gpuarray.pytree import tree
from gpuarray.transforms.jvp import jvp_flat
from tests.samples import Table


def product(shape: tuple[int, ...]) -> Graph:
    """(a, b) -> sin(a) * b."""
    aval = ShapedArray(shape, np.float32)
    a, b, s, out = Var(aval), Var(aval), Var(aval), Var(aval)
    return Graph(
        [a, b],
        [out],
        [Eqn(registry["sin"], [a], [s], {}), Eqn(registry["mul"], [s, b], [out], {})],
    )


def product_and_residuals(shape: tuple[int, ...]) -> Graph:
    """(a, b) -> sin(a) * b, and what its derivative reads: an operand and a value on the way."""
    graph = product(shape)
    (sine, _), (a, _) = graph.eqns, graph.invars
    return Graph(graph.invars, [*graph.outvars, a, *sine.outvars], graph.eqns)


def twice(shape: tuple[int, ...]) -> Graph:
    """x -> x + x: its own transpose."""
    aval = ShapedArray(shape, np.float32)
    x, out = Var(aval), Var(aval)
    return Graph([x], [out], [Eqn(registry["add"], [x, x], [out], {})])


def _mul(x, y):
    return registry["mul"].bind(x, y)


def _flat(a, b):
    return [_mul(_sin(a), b)]


def _jvp(primals, tangents):
    return jvp_flat(_flat, primals, tangents)


def _fwd(primals, perturbed):
    return _flat(*primals), list(primals)


def _bwd(residuals, cotangents):
    a, b = residuals
    (ct,) = cotangents
    return [_mul(_mul(ct, b), registry["cos"].bind(a, accuracy=None)), _mul(ct, _sin(a))]


def _sin(x):
    return registry["sin"].bind(x, accuracy=None)


def _vmap_rule(size, batched, values):
    a, b = values
    grown = [
        x
        if flag
        else registry["broadcast_in_dim"].bind(
            x,
            shape=(size, *x.shape),
            broadcast_dimensions=tuple(range(1, x.ndim + 1)),
            sharding=None,
        )
        for x, flag in zip((a, b), batched, strict=True)
    ]
    return _flat(*grown), [True]


SHAPES = [(), (1,), (0,), (2, 3)]
PAIR = {s: [(s, "float32")] * 2 for s in SHAPES}
ONE = tree.structure(((0,), {}))
LEAF = tree.structure(0)


def _same(shape: tuple[int, ...]) -> dict:
    return {"result_avals": (ShapedArray(shape, np.float32),), "sharding": None}


def _python(kind: str, spec=LEAF) -> FlatCallback:
    return FlatCallback(np.negative, ONE, kind, spec)


def _rows(params) -> list:
    return [(PAIR[s], params(s), None) for s in SHAPES]


def _vjp_call(optimize_remat: bool):
    rules = {"fwd": _fwd, "bwd": _bwd, "optimize_remat": optimize_remat}
    return lambda s: {"call_jaxpr": product(s), **rules, **_CALL}


def _single(params) -> list:
    return [([(s, "float32")], params(s), None) for s in SHAPES]


_CALL = {"name": "f", "num_consts": 0, "symbolic_zeros": False}

SAMPLES: Table = {
    "custom_jvp_call": _rows(lambda s: {"call_jaxpr": product(s), "jvp": _jvp, **_CALL}),
    "custom_vjp_call": _rows(_vjp_call(False)) + _rows(_vjp_call(True))[-1:],
    "custom_vjp_fwd": _rows(lambda s: {"jaxpr": product_and_residuals(s), "alone": product(s)}),
    "custom_vmap_call": _rows(
        lambda s: {
            "call": product(s),
            "rule": FlatRule(_vmap_rule, _vmap_rule),
            "in_tree": ONE,
            "out_tree": LEAF,
        }
    ),
    "remat2": _rows(
        lambda s: {
            "jaxpr": product(s),
            "differentiated": s == (1,),
            "policy": None,
            "prevent_cse": True,
        }
    ),
    "linear_call": _single(lambda s: {"callee": twice(s), "transpose": twice(s), "num_res": 0}),
    "name": _single(lambda s: {"name": "x"}),
    "pure_callback": _single(
        lambda s: {
            "callback": _python("pure_callback"),
            "vmap_method": "expand_dims",
            **_same(s),
        }
    ),
    "io_callback": _single(
        lambda s: {"callback": _python("io_callback"), "ordered": False, **_same(s)}
    ),
    "debug_callback": _single(
        lambda s: {"callback": _python("debug.callback", None), "effect": "DebugEffect"}
    ),
    "debug_print": _single(lambda s: {"callback": _python("debug.print", None), "fmt": "{}"}),
}
