"""Functions that inspect programs without running them, and contexts that affect tracing.

Floor 6. In: Python functions. Out: their Graphs and shapes; contexts that change how code inside
them is traced.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import sites, util
from gpuarray.core import ranges
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.axes import NamedAxis, named_axes
from gpuarray.core.layout import whole_over
from gpuarray.core.mesh import EMPTY, NamedSharding, contexts
from gpuarray.core.tracebacks import boundary
from gpuarray.functions import stages
from gpuarray.functions.argnums import indices
from gpuarray.functions.jitted import JitOptions, Jitted
from gpuarray.runtime.array import ArrayImpl
from gpuarray.transforms.references import AbstractRef, Ref
from gpuarray.transforms.tracing import GraphTrace
from gpuarray.util import name_of, wraps

_AXES = "pairs of a name and a length"


def make_jaxpr(
    fun: Callable,
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Callable[..., Any]:
    """A function that returns the Graph of `fun` for the arguments it is given; printing it shows
    the equations.

    Parameters
    ----------
    axis_env :
        Names and lengths of axes that collectives in `fun` may name.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.make_jaxpr(lambda x: 2 * x)(gnp.ones(3))
    { lambda ; a:f32[3]. let b:f32[3] = mul 2.0:f32[] a in (b,) }
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if abstracted_axes is not None:
        raise NotImplementedError(
            f"make_jaxpr traces static shapes only, got abstracted_axes={abstracted_axes!r}: trace "
            "once for each shape."
        )
    nums = indices(static_argnums, "static_argnums")

    @boundary
    @wraps(fun)
    def trace_it(*args, **kwargs) -> Any:
        # A new wrapper, not the function's cache: printing must show what tracing does now.
        own = wraps(fun)(lambda *a, **k: fun(*a, **k))
        jitted = Jitted(own, JitOptions(static_argnums=nums))
        # The named axes are there for the trace alone.
        given = [util.pair(entry, _AXES) for entry in util.elements(axis_env or (), _AXES)]
        with named_axes({name: NamedAxis(size) for name, size in given}):
            traced = jitted.trace(*args, **kwargs)
        return (traced.jaxpr, traced.out_info) if return_shape else traced.jaxpr

    for attribute in ("__name__", "__qualname__"):
        shown = getattr(fun, attribute, type(fun).__name__)
        setattr(trace_it, attribute, f"make_jaxpr({shown})")
    trace_it.__module__ = __name__.partition(".")[0]
    return trace_it


@boundary
def eval_shape(fun: Callable, *args, **kwargs) -> Any:
    """The structure of `fun(*args, **kwargs)` as ShapeDtypeStructs, without computing anything.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.eval_shape(gnp.sum, ga.ShapeDtypeStruct((3, 4), "float32"))
    ShapeDtypeStruct(shape=(), dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    # The trace is cached with the function, as that of `jit` is.
    return Jitted(fun, JitOptions(purpose="eval_shape")).eval_shape(*args, **kwargs)


def typeof(x):
    """The abstract value of `x`: its shape, dtype and weak type.

    Its `sharding` gives the mesh of an array, and its sharding along Explicit axes of that mesh.

    >>> import gpuarray as ga
    >>> print(ga.typeof(1.0))  # ~ marks a weak type
    ~float32[]
    """
    if isinstance(x, Ref):
        return x.type
    if isinstance(x, stages.ShapeDtypeStruct) and x.is_ref:
        return AbstractRef(x.aval)
    aval = aval_of(x)
    if type(x) is not ArrayImpl or aval.layout is not None:
        return aval
    # The types that programs see do not record a mesh without sharded Explicit axes.
    place, mesh = x._place, None
    if place.is_spread:
        mesh = place.sharding.mesh if isinstance(place.sharding, NamedSharding) else None
    elif place.committed and contexts.abstract is not None:
        mesh = EMPTY
    return aval if mesh is None else aval.update(layout=whole_over(mesh.abstract_mesh, aval.ndim))


class _Entered(threading.local):
    """The trace that was innermost when this thread entered the scope it is in."""

    trace: Any = None


_entered = _Entered()


def _transformed(name: str) -> str:
    """A scope's name within the transformations that began since the scope around was entered."""
    trace: traces.Trace | None = traces.state.trace
    # Up to the Graph being traced: the name already contains the scopes around it.
    while trace is not None and trace is not _entered.trace and not isinstance(trace, GraphTrace):
        if trace.transform:
            name = f"{trace.transform}({name})"
        trace = trace.parent
    return name


class named_scope(contextlib.ContextDecorator):
    """Name the operations recorded inside a block (or a function).

    `explain`, error messages and printed graphs show it with the user's line, nested scopes as
    'outer/inner'; an equation has it as `source_info.name_stack`. Transformations of a function
    enclose the first of its names: 'vmap(jvp(outer))/inner'.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> def f(x):
    ...     with ga.named_scope("model"):
    ...         return gnp.sin(x)
    >>> ga.make_jaxpr(f)(1.0).eqns[0].source_info.name_stack
    'model'
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"named_scope name argument must be a string, got {name!r}")
        self.name = name
        # A stack: the same object may be entered again inside itself.
        self._around: list[tuple[str, Any, ranges.Range | None]] = []

    def __enter__(self) -> None:
        around, trace = sites.current_scope(), _entered.trace
        below = f"{around}/{_transformed(self.name)}".strip("/")
        noted = None if ranges.session is None else ranges.Range(self.name, "scope").__enter__()
        try:
            # Kept for `__exit__`: the scope and the trace around.
            self._around.append((around, trace, noted))
            _entered.trace = traces.state.trace
            sites.enter_scope(below)
        except BaseException:  # Python does not call `__exit__`
            _entered.trace = trace
            sites.enter_scope(around)
            raise

    def __exit__(self, *exc: object) -> None:
        around, trace, noted = self._around[-1]
        try:
            sites.enter_scope(around)
        except BaseException:  # an interrupt (Ctrl-C)
            sites.enter_scope(around)
            raise
        finally:
            _entered.trace = trace
            self._around.pop()
            if noted is not None:
                noted.__exit__()

    def _recreate_cm(self) -> named_scope:  # a decorated function may run on several threads
        return named_scope(self.name)


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """`fun` with everything it records inside `named_scope(name)`.

    >>> import gpuarray as ga
    >>> graph = ga.make_jaxpr(ga.named_call(lambda x: 2 * x, name="twice"))(1.0)
    >>> graph.eqns[0].source_info.name_stack
    'twice'
    """
    scope = name or name_of(fun, "call")

    @wraps(fun)
    def call(*args, **kwargs):
        with named_scope(scope):
            return fun(*args, **kwargs)

    return call


def ensure_compile_time_eval():
    """A context in which operations on concrete values are computed immediately, even while
    tracing.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.jit
    ... def f(x):
    ...     with ga.ensure_compile_time_eval():
    ...         n = int(gnp.sum(gnp.ones(3)))
    ...     return x * n
    >>> f(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    return traces.base_trace()


ShapeDtypeStruct = stages.ShapeDtypeStruct
