"""Metadata on recorded operations: `set_xla_metadata`.

Floor 6. In: names and values. Out: named scopes that hold them: `explain`, profiles and printed
programs show the metadata, and nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.functions.inspect import named_scope
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.construct import asarray
from gpuarray.pytree import tree
from gpuarray.util import update_wrapper

__all__ = ["set_xla_metadata"]


def scope_of(notes: dict[str, Any]) -> str:
    """The name of the scope that holds these notes."""
    return ",".join(f"{name}={value}" for name, value in notes.items())


class Noted(named_scope):
    """Metadata on the operations recorded in a block, or by a decorated function."""

    def __call__(self, f: Callable[..., Any]) -> NotedFunction:
        return NotedFunction(f, self.name)


class NotedFunction:
    """A function that adds metadata to its calls, and to those of its methods, such as `lower`."""

    def __init__(self, f: Callable[..., Any], scope: str):
        update_wrapper(self, f)
        self._f, self._scope = f, scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with named_scope(self._scope):
            return self._f(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._f, name)
        return NotedFunction(found, self._scope) if callable(found) else found


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Note something on the operations recorded in a block or a function; with arrays, on these.

    Operations have it in their names, as in a `named_scope`. Arrays have none: they are returned
    unchanged.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.xla_metadata import set_xla_metadata
    >>> @set_xla_metadata(stage="forward")
    ... def f(x):
    ...     return 2 * x
    >>> f(3.0), ga.make_jaxpr(f)(3.0).eqns[0].source_info.name_stack
    (6.0, 'stage=forward')
    """
    return Noted(scope_of(kwargs)) if x is None else tree.tree_map(asarray, x)


__getattr__ = _explain_names(__name__)
