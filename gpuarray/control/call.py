"""`jit` as a primitive: a call that holds a Graph.

Floor 4. In: a Graph and its arguments. Out: a primitive that the compiler inlines, and that
transforms turn into calls of transformed Graphs, so that a jitted function stays one unit.
"""

from __future__ import annotations

from typing import Any

from gpuarray.control import typed
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, Var, evaluate, subgraphs
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Kind
from gpuarray.core.sharding import Device
from gpuarray.transforms.batch import BatchAxis
from gpuarray.transforms.dead import narrow_call, set_narrow_rule
from gpuarray.transforms.graphs import batch_graph, jvp_graph, transpose_graph

# Params that a printed graph leaves out while they have these values.
_HIDDEN = {"keep_unused": False, "inline": False, "donated_invars": None, "device": None}


def _show(params: dict) -> dict:
    shown = {k: v for k, v in params.items() if not (k in _HIDDEN and not v)}
    if not any(params.get("donated_invars") or ()):
        shown.pop("donated_invars", None)
    return shown


def _jit_aval(*avals, jaxpr, **_):
    return jaxpr.out_avals


# Donation belongs to the arguments of the original call, which are others here.
def _call(graph: Graph, args: list, params: dict) -> list:
    return jit_p.bind(*args, **(params | {"jaxpr": graph, "donated_invars": None}))


def _jit_jvp(primals: list, tangents: list, *, jaxpr: Graph, **params) -> tuple[list, list]:
    # Do not pass tangents and cotangents that are zero.
    nonzero = tuple(not is_zero(t) for t in tangents)
    # The jvp of a Graph is made once for each pattern of tangents, and found again.
    derived = jvp_graph(jaxpr, nonzero)
    given = [t for t in tangents if not is_zero(t)]
    out = _call(derived.graph, [*primals, *given], params)
    count = len(jaxpr.outvars)
    # The outputs are the results, then the tangents that are not zero.
    rest = iter(out[count:])
    out_tangents: list[Any] = [
        next(rest) if has else Zero(tangent_aval(aval_of(x)))
        for x, has in zip(out[:count], derived.outputs, strict=True)
    ]
    return out[:count], out_tangents


def _jit_transpose(cts: list, *operands, jaxpr: Graph, **params) -> list:
    linear = tuple(is_undefined(x) for x in operands)
    nonzero = tuple(not is_zero(ct) for ct in cts)
    derived = transpose_graph(jaxpr, linear, nonzero)
    known = [x for x in operands if not is_undefined(x)]
    given = [ct for ct in cts if not is_zero(ct)]
    call = lambda graph, args: _call(graph, args, params)
    found = iter(derived.call(call, *known, *given))
    has = iter(derived.outputs)
    return [
        None if not is_linear else (next(found) if next(has) else Zero(x.aval))
        for x, is_linear in zip(operands, linear, strict=True)
    ]


def _jit_batch(axis: BatchAxis, args: list, dims: list, *, jaxpr: Graph, **params):
    layouts = tuple(aval_of(x).layout for x in args)
    derived = batch_graph(jaxpr, axis, tuple(dims), layouts=layouts)
    return _call(derived.graph, args, params), list(derived.outputs)


def needed_device(graph: Graph) -> Device | None:
    """Return the device that the calls in a graph, at any depth, must run on; None for any."""
    # Kept with the graph: this is asked at every call of a jitted function.
    if "device" in graph.derived:
        return graph.derived["device"]
    found: Device | None = None
    for eqn in graph.eqns:
        own = eqn.params.get("device") if eqn.primitive is jit_p else None
        for device in (own, *map(needed_device, subgraphs(eqn))):
            found = same_device(found, device)
    graph.derived["device"] = found
    return found


def same_device(a: Device | None, b: Device | None) -> Device | None:
    """Return the device that two parts of a computation need; raise ValueError if they differ."""
    if a is not None and b is not None and a is not b:
        raise ValueError(
            f"Received incompatible devices for jitted computation: one part of it needs {a} and "
            f"another one {b}, by shardings or devices given inside. Name one device, or make two "
            "computations of it."
        )
    return b if a is None else a


def constrained(x: Any, device: Device) -> Any:
    """Constrain a traced value to a device, which the whole computation then runs on."""
    # A call of an identity: its only purpose is the param `device`.
    v = Var(aval_of(x))
    graph = Graph([v], [v], [], debug_name="sharding_constraint")
    (out,) = jit_p.bind(x, name="sharding_constraint", jaxpr=graph, device=device)
    return out


jit_p = typed.TypedCall(
    "jit",
    Kind.CALL,
    retype=typed.once,
    multiple_results=True,
    aval=_jit_aval,
    jvp=_jit_jvp,
    transpose=_jit_transpose,
    batch=_jit_batch,
    decompose=lambda *args, jaxpr, **_: evaluate(jaxpr, *args),
    inline=lambda eqn: eqn.params["jaxpr"],
    show=_show,
)
set_narrow_rule(jit_p, lambda eqn, used: narrow_call(eqn, used, "donated_invars"))
