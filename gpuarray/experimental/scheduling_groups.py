"""Functions whose operations are to be scheduled together: `scheduling_group`.

Floor 6. In: a function, and notes on it. Out: the function as one call in programs, in a named
scope that holds the notes. Programs run in the order in which they are recorded, whatever they say.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.trace import immutable
from gpuarray.experimental.xla_metadata import scope_of
from gpuarray.functions.inspect import named_scope
from gpuarray.functions.jit import jit
from gpuarray.interpreters.partial_eval import dce_jaxpr_closed_call_rule
from gpuarray.lax.elsewhere import Elsewhere
from gpuarray.names import explain_names as _explain_names
from gpuarray.util import wraps, wrong_type

__all__ = [
    "dce_jaxpr_xla_metadata_rule",
    "scheduling_group",
    "xla_metadata_call",
    "xla_metadata_call_p",
]


def _evaluated(*args: Any, jaxpr: Graph, **_: str) -> list[Any]:
    return evaluate(jaxpr, *map(immutable, args))


#: JAX's equation for such a call: bound here, it is equivalent to its Graph.
xla_metadata_call_p = Elsewhere("xla_metadata_call", _evaluated, True)
dce_jaxpr_xla_metadata_rule = dce_jaxpr_closed_call_rule


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the operations of the function are recorded as one call, in a scope of this
    name.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.scheduling_groups import scheduling_group
    >>> f = scheduling_group("first")(lambda x: x * x)
    >>> f(3.0), ga.make_jaxpr(f)(3.0).eqns[0].source_info.name_stack
    (Array(9., dtype=float32, weak_type=True), 'scheduling_group=first')
    """
    return xla_metadata_call(scheduling_group=name)


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: str) -> Callable[..., Any]:
    """A function as one call, in a scope that holds these notes; without it, a decorator.

    >>> from gpuarray.experimental.scheduling_groups import xla_metadata_call
    >>> xla_metadata_call(lambda x: x + 1, stage="last")(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    if f is None:
        return functools.partial(xla_metadata_call, **meta)
    for name, value in meta.items():
        if not isinstance(value, str):
            raise wrong_type(value, f"a str for {name}")
    scope, called = scope_of(meta), jit(f)

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return called(*args, **kwargs)

    return call


__getattr__ = _explain_names(__name__)
