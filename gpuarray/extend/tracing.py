"""The traces and named axes around, for libraries that interpret primitives themselves.

Floor 6. In: this thread's state. Out: contexts that change it, and answers about it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gpuarray import errors
from gpuarray.core import axes, dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.trace import Trace, Tracer
from gpuarray.transforms.batch import BatchTrace
from gpuarray.transforms.jvp import JVPTracer
from gpuarray.transforms.tracing import GraphTrace

#: Makes a trace the innermost one, as a context manager: `with set_current_trace(trace): ...`
set_current_trace = traces.current


class TraceTag:
    """Identity of a transformation, for traces that tell their own tracers from others'."""

    __slots__ = ("__weakref__",)


class take_current_trace:
    """A context that returns the innermost trace, and inside which values are evaluated.

    >>> from gpuarray.extend.core import find_top_trace, take_current_trace
    >>> around = find_top_trace()
    >>> with take_current_trace() as parent:
    ...     parent is around
    True
    """

    __slots__ = ("_inner", "_outer")

    def __enter__(self) -> Trace:
        self._outer = traces.state.trace
        self._inner = traces.base_trace()
        self._inner.__enter__()
        return self._outer

    def __exit__(self, *exc: object) -> None:
        self._inner.__exit__(*exc)


def find_top_trace(_: Any = None) -> Trace:
    """The innermost trace: the current interpreter of operations."""
    return traces.state.trace


class OpaqueTraceState:
    """Which trace was the innermost one; equal to another of the same trace."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace):
        # Weakly, so that objects that outlive a transformation do not keep its values alive.
        self._trace = weakref.ref(trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    def __hash__(self) -> int:
        return hash(self._trace)


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """An identifier of the enclosing transformations: it differs inside of one, and is equal again
    after it.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import get_opaque_trace_state
    >>> before, inside = get_opaque_trace_state(), []
    >>> _ = ga.jit(lambda x: inside.append(get_opaque_trace_state()) or x)(1.0)
    >>> before == inside[0], before == get_opaque_trace_state()
    (False, True)
    """
    return OpaqueTraceState(traces.state.trace)


def trace_state_clean() -> bool:
    """Whether no transformation is around: values are evaluated, and no axis has a name."""
    return traces.is_base() and not axes.axis_env()


def _around(kind: type[Trace]) -> bool:
    trace: Trace | None = traces.state.trace
    while trace is not None:
        if isinstance(trace, kind):
            return True
        trace = trace.parent
    return False


def unsafe_am_i_under_a_jit() -> bool:
    """Whether a function is being traced into a Graph."""
    return _around(GraphTrace)


def unsafe_am_i_under_a_vmap() -> bool:
    """Whether values are batches of a `vmap` around."""
    return _around(BatchTrace)


def unsafe_get_axis_names() -> list[Any]:
    """The names of the axes that collectives can name here.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.extend.core import unsafe_get_axis_names_DO_NOT_USE as names
    >>> found = []
    >>> _ = ga.vmap(lambda x: found.append(names()) or x, axis_name="i")(gnp.ones(2))
    >>> found
    [['i']]
    """
    return axes.axis_names()


def nonempty_axis_env() -> bool:
    """Whether an axis around has a name."""
    return bool(axes.axis_names())


def known_primal(x: Any) -> Any:
    """The value that is differentiated at, of one inside `grad` or `jvp`; others as they are."""
    while isinstance(x, JVPTracer):
        x = x.primal
    return x


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """`force(val)`, or a ConcretizationTypeError that gives `context` for a traced value.

    Inside derivatives values are known, and lose their derivative here.

    >>> from gpuarray.extend.core import concrete_or_error
    >>> concrete_or_error(int, 3.0, "the number of steps")
    3
    """
    val = known_primal(val)
    if isinstance(val, Tracer):
        raise errors.ConcretizationTypeError(val, context)
    return val if force is None else force(val)


def valid_jaxtype(x: Any) -> bool:
    """Whether operations take `x`: an array, a traced value, a number.

    >>> from gpuarray.extend.core import valid_jaxtype
    >>> valid_jaxtype(1.0), valid_jaxtype("1.0")
    (True, False)
    """
    try:
        dtype = aval_of(x).dtype
        # NumPy's objects, records and dates are not valid; float0 is the type of integers'
        # derivatives.
        if dtype != dtypes.float0:
            dtypes.check_user_dtype(dtype)
    except (TypeError, ValueError):
        return False
    return True
