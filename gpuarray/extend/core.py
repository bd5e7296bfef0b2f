"""Primitives of a user's own, and the parts of Graphs by JAX's names.

Floor 6. In: a name. Out: a Primitive whose rules are given one by one: `def_impl`,
`def_abstract_eval`, and the tables of `gpuarray.interpreters`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray
from gpuarray.core.avals import ShapedArray as AbstractValue
from gpuarray.core.avals import aval_of as get_aval
from gpuarray.core.graph import Atom as Atom
from gpuarray.core.graph import Eqn as JaxprEqn
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.graph import Graph as ClosedJaxpr
from gpuarray.core.graph import Graph as Jaxpr
from gpuarray.core.graph import Literal as Literal
from gpuarray.core.graph import Var as Var
from gpuarray.core.graph import eval_jaxpr as eval_jaxpr
from gpuarray.core.graph import graphs_in as jaxprs_in_params
from gpuarray.core.primitive import Kind
from gpuarray.core.primitive import Primitive as _Primitive
from gpuarray.core.trace import Trace as Trace
from gpuarray.core.trace import Tracer as Tracer
from gpuarray.errors import MissingRuleError
from gpuarray.extend import primitives as primitives
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import lazy
from gpuarray.util import read_only

__all__ = [
    "AbstractValue",
    "Atom",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Var",
    "eval_jaxpr",
    "find_top_trace",
    "get_aval",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "primitives",
    "unmapped_aval",
]


class Primitive(_Primitive):
    """An operation defined from outside, rule by rule.

    `def_abstract_eval` gives shapes and dtypes, `def_impl` the result for NumPy arrays; instead of
    the latter, `interpreters.mlir.register_lowering` says what it is made of. `multiple_results`
    may be set before either.

    >>> from gpuarray.extend.core import Primitive
    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_abstract_eval(lambda x: x)
    >>> _ = double_p.def_impl(lambda x: 2 * x)
    >>> ga.jit(lambda x: double_p.bind(x) + 1)(gnp.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """

    def __init__(self, name: str):
        # Not in the registry: two libraries may give their primitives the same name.
        super().__init__(name, Kind.LIBRARY, aval=self._no_shapes, register=False)
        self._impl: Callable[..., Any] | None = None

    def _no_shapes(self, *_, **__):
        raise MissingRuleError(
            f"Abstract evaluation for '{self.name}' not implemented: give it by def_abstract_eval"
        )

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation. One without a shape rule yet calls its `def_impl` on values."""
        # Whether all operands are values: no transformation is going on.
        known = traces.state.trace is lazy.base and not any(isinstance(x, Tracer) for x in args)
        # Compared by ==, since every look-up of a method makes a new object.
        if self.aval != self._no_shapes or not known:
            return super().bind(*args, **params)
        if self._impl is None:
            raise MissingRuleError(
                f"Evaluation rule for '{self.name}' not implemented: give it by def_impl"
            )
        # At once and unrecorded: without shapes there is nothing to record.
        return self._impl(*args, **params)

    def __reduce__(self):
        # Primitives are pickled by their registered names, and this one has none.
        raise TypeError(f"primitive {self.name!r} was defined by a user and cannot be pickled")

    def def_impl(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give the function of NumPy arrays that computes the results."""

        def numpy(*buffers, **params):
            # Read-only: an operand's memory belongs to an array, which never changes.
            out = function(*map(read_only, buffers), **params)
            # Copies: the function may keep what it returned, and write to it.
            return [np.array(x) for x in out] if self.multiple_results else np.array(out)

        self.numpy, self._impl = numpy, function
        return function


def find_top_trace(_: Any = None) -> Trace:
    """The innermost trace: what interprets operations right now."""
    return traces.state.trace


def jaxpr_as_fun(graph: Graph) -> Callable[..., list[Any]]:
    """A Graph as a function of its inputs.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import jaxpr_as_fun
    >>> jaxpr_as_fun(ga.make_jaxpr(lambda x: x * x)(3.0))(5.0)
    [Array(25., dtype=float32, weak_type=True)]
    """
    return lambda *args: evaluate(graph, *map(traces.owned, args))


# In both, an axis of None means an operand that is not mapped: its aval stays.
def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The aval of one element along an axis.

    >>> from gpuarray.extend.core import ShapedArray, mapped_aval
    >>> mapped_aval(3, 0, ShapedArray((3, 4), "float32"))
    ShapedArray(float32[4])
    """
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(f"{aval} has no axis {axis} of length {size}")
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The aval of `size` elements along a new axis.

    >>> from gpuarray.extend.core import ShapedArray, unmapped_aval
    >>> unmapped_aval(3, 1, ShapedArray((4,), "float32"))
    ShapedArray(float32[4,3])
    """
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


__getattr__ = _explain_names(__name__)
