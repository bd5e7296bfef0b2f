"""Which random keys were used: with the setting `debug_key_reuse` a second use is an error.

Floor 5. In: keys, and the programs that take them. Out: KeyReuseError.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from gpuarray.core import trace as traces
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.errors import KeyReuseError
from gpuarray.transforms.tracing import GraphTrace

#: Operations that use their first operand, a key, up.
_USING = ("random_bits", "random_split", "random_gamma")
#: Keys that were used outside of traces, by id.
_used: dict[int, weakref.ref] = {}


def use_up(name: str, key: Any) -> None:
    """Remember that a key was used; raise if it was used before."""
    # While tracing, within one trace; else as long as the key lives.
    trace = key._trace if isinstance(key, traces.Tracer) else _jitted()
    if trace is not None:
        used = trace.__dict__.setdefault("used_keys", {})
        # The same object: an id alone may have been given to another key since.
        again = used.get(id(key)) is key
        used[id(key)] = key
    else:
        ident = id(key)
        again = ident in _used and _used[ident]() is key
        _used[ident] = weakref.ref(key, lambda _: _used.pop(ident, None))
    if again:
        raise KeyReuseError(
            f"Previously-consumed key passed to {name}: a key used twice gives the same numbers "
            "twice. Split it (key, subkey = random.split(key)), or say that it is meant with "
            "random.clone(key)."
        )


def _jitted() -> GraphTrace | None:
    """The trace of a jitted function around: a key is a constant there, which each call uses."""
    trace = traces.state.trace
    while trace is not None:
        if isinstance(trace, GraphTrace) and trace.info.purpose == "jit":
            return trace
        trace = trace.parent
    return None


def use_up_operands(graph: Graph, leaves: Sequence[Any]) -> None:
    """Remember the keys that a call of a jitted function uses, arguments and constants."""
    found = set(_used_by(graph))
    for var, x in zip((*graph.constvars, *graph.invars), (*graph.consts, *leaves), strict=True):
        if var in found:
            use_up("jit-compiled function", x)


def _used_by(graph: Graph) -> Iterator[Var]:
    for eqn in graph.eqns:
        if eqn.primitive.name in _USING and isinstance(eqn.invars[0], Var):
            yield eqn.invars[0]
        for inner in _graphs(eqn):
            # Operands of a Graph are the last ones: the index that selects a branch is not among
            # them.
            outer = dict(zip(inner.invars[::-1], eqn.invars[::-1], strict=False))
            for var in _used_by(inner):
                if isinstance(above := outer.get(var), Var):
                    yield above


def _graphs(eqn: Eqn) -> Iterator[Graph]:
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, Graph):
                yield each
