"""Primitives that programs of JAX have and programs of this library do not.

Floor 6. JAX primitives that are not primitives here. In: their operands. Out: the result of the
equivalent function, which records other primitives. Interpreters of programs may have rules for
these names, but will not encounter them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.trace import immutable
from gpuarray.lax.programs import after_all, create_token, dce_sink
from gpuarray.lax.ragged import ragged_all_to_all
from gpuarray.lax.selections import select_and_scatter
from gpuarray.runtime.transfer import device_put

#: Those of all modules, by JAX's names in printed programs.
_all: dict[str, Primitive] = {}


class Elsewhere(Primitive):
    """A primitive that no program has: `bind` calls a function that records others.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import primitives
    >>> primitives.closed_call_p.bind(2.0, call_jaxpr=ga.make_jaxpr(lambda x: x * x)(1.0))[0]
    Array(4., dtype=float32, weak_type=True)
    """

    def __init__(self, name: str, function: Callable[..., Any], multiple_results: bool = False):
        kind = Kind.CALL if multiple_results else Kind.LIBRARY
        super().__init__(name, kind, multiple_results=multiple_results, register=False)
        self._function = function
        _all[name] = self

    def bind(self, *args: Any, **params: Any) -> Any:
        """Return the result of the function for these operands."""
        return self._function(*args, **params)

    def __reduce__(self):
        return _named, (self.name,)


def _named(name: str) -> Primitive:
    return _all[name]


def _refused(name: str, instead: str) -> Callable[..., Any]:
    def function(*_: Any, **__: Any) -> Any:
        raise TypeError(f"{name} has no `bind`, as no program here has it: use {instead}")

    return function


def _call(function: Callable[..., Any], *args: Any) -> list[Any]:
    return list(function(*args))


def _closed_call(*args: Any, call_jaxpr: Graph) -> list[Any]:
    return evaluate(call_jaxpr, *map(immutable, args))


def _device_put(*args: Any, devices: Any, **_: Any) -> list[Any]:
    return [device_put(x, device) for x, device in zip(args, devices, strict=True)]


def _dce_sink(x: Any, *, prevent_mlir_dce: bool = False) -> list[Any]:
    dce_sink(x, prevent_mlir_dce=prevent_mlir_dce)
    return []


def _remat_opt(*args: Any, fwd_jaxpr: Graph, **_: Any) -> list[Any]:
    return evaluate(fwd_jaxpr, *map(immutable, args))


after_all_p = Elsewhere("after_all", after_all)
call_p = Elsewhere("call", _call, True)
closed_call_p = Elsewhere("closed_call", _closed_call, True)
create_token_p = Elsewhere("create_token", lambda: create_token())
dce_sink_p = Elsewhere("dce_sink", _dce_sink, True)
device_put_p = Elsewhere("device_put", _device_put, True)
ragged_all_to_all_p = Elsewhere(
    "ragged_all_to_all",
    lambda *args, axis_name, axis_index_groups=None, **_: ragged_all_to_all(
        *args, axis_name=axis_name, axis_index_groups=axis_index_groups
    ),
)
empty2_p = Elsewhere("empty2", _refused("empty2_p", "gpuarray.numpy.empty"))
get_p = Elsewhere("get", _refused("get_p", "ref[index]"))
swap_p = Elsewhere("swap", _refused("swap_p", "ref[index] = value"))
remat_opt_p = Elsewhere("remat_opt", _remat_opt, True)
select_and_scatter_p = Elsewhere("select_and_scatter", select_and_scatter)

#: Each by the name that JAX has for it.
BY_NAME = {name: value for name, value in globals().items() if isinstance(value, Elsewhere)}
