"""Colocated functions.

Floor 6. In: a Python function. Out: an object that calls it on the host of its arrays: this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.core.sharding import Device
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.runtime.array import ArrayImpl
from gpuarray.util import update_wrapper


class Colocated:
    """A colocated function with its specialization."""

    __name__: str

    def __init__(self, fun: Callable[..., Any], in_specs: Any, out_specs_fn: Any, over: Any):
        # update_wrapper replaces this where the function has a name.
        self.__name__ = type(fun).__name__
        update_wrapper(self, fun)
        self._fun, self._in_specs, self._out_specs_fn = fun, in_specs, out_specs_fn
        self._over = over

    def specialize(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Device] | None = None,
    ) -> Colocated:
        """The function for arguments of types, results of types that `out_specs_fn` gives for
        them, and for devices.

        Parameters
        ----------
        in_specs :
            The arguments' types, as (args, kwargs).
        """
        if in_specs is not None and self._in_specs is not None:
            raise ValueError("in_specs already specified")
        return Colocated(
            self._fun,
            self._in_specs if in_specs is None else in_specs,
            out_specs_fn or self._out_specs_fn,
            devices or self._over,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = tree.tree_leaves((args, kwargs))
        over = [x for x in leaves if isinstance(x, ArrayImpl)]
        if not over and not self._over:
            raise ValueError(
                f"No devices found: colocated Python function {self.__name__} without input "
                "arguments must be first specialized with devices."
            )
        for x in over:
            if not x.is_fully_addressable:
                raise ValueError(
                    f"{self.__name__} runs in process {Device.here}, and an argument of type "
                    f"{x.aval} lies on devices of other processes, too: give it its "
                    "addressable_shards."
                )
        if self._in_specs is not None:
            self._check("arguments", (args, kwargs), self._in_specs)
        out = self._fun(*args, **kwargs)
        if self._out_specs_fn is not None:
            self._check("results", out, self._out_specs_fn(*args, **kwargs))
        return out

    def _check(self, what: str, given: Any, specs: Any) -> None:
        leaves = [tree.tree_leaves(x) for x in (given, specs)]
        types = [[(x.shape, x.dtype) for x in map(aval_of, xs)] for xs in leaves]
        if types[0] != types[1]:
            raise TypeError(
                f"{self.__name__} was specialised for {what} {types[1]}, and these are {types[0]}"
            )


def make_callable(fun: Callable[..., Any]) -> Colocated:
    """A function as a colocated one.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.colocated_python.func import make_callable
    >>> make_callable(lambda x: x + 1)(gnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return Colocated(fun, None, None, None)


__getattr__ = _explain_names(__name__)
