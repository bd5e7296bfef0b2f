"""Tracing: run a Python function on tracers and record its operations as a Graph.

Floor 3. In: a function and the avals of its flat inputs. Out: a Graph with the same flat results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import config, errors, sites, util
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.debug_info import DebugInfo
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, params_key, verify
from gpuarray.core.layout import resolving
from gpuarray.core.linear import check_defined
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.value import Array
from gpuarray.transforms.leaks import check_leaks
from gpuarray.util import name_of


class TracedFunction:
    """Name, location and argument names of a function being traced, for error messages.

    It does not hold the function itself, because a trace is cached as long as the function lives.
    """

    __slots__ = ("arg_names", "code", "name", "purpose")

    def __init__(self, fun: Callable, purpose: str, arg_names: Sequence[str] = ()):
        self.name: str = name_of(fun)
        self.purpose = purpose
        self.arg_names = tuple(arg_names)
        # The user's function behind the wrappers.
        inner: Any = fun
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        self.code = getattr(inner, "__code__", None)

    @property
    def debug_info(self) -> DebugInfo:
        """The same under JAX's names."""
        return DebugInfo(self.purpose, str(self), self.arg_names or None)

    def __str__(self) -> str:
        code = self.code
        at = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        return f"{self.name}{at}"


class GraphTracer(traces.Tracer):
    """A value of a function being staged: it has an aval and a variable, but no data."""

    __slots__ = ("_var", "site")

    _trace: GraphTrace

    def __init__(self, trace: GraphTrace, aval: ShapedArray, var: Var, site: Any = None):
        self._trace = trace
        self.aval = aval
        self._var = var
        # The user's line that made it.
        self.site = site

    def origin(self) -> str:
        info = self._trace.info
        lines = [f"The error occurred while tracing the function {info} for {info.purpose}."]
        names = self._trace.argument_names(self._var)
        if names:
            plural = "s" if len(names) > 1 else ""
            lines.append(
                "This concrete value was not available in Python because it depends on the "
                f"value{plural} of the argument{plural} {', '.join(names)}."
            )
        if self.site is not None:
            lines.append(f"The value was made at {self.site}.")
        return " ".join(lines)

    @property
    def _known(self) -> Any:
        """The function that returns the values of tracers, if the trace has one."""
        trace = self._trace
        return trace.known if trace.alive else None

    def __repr__(self) -> str:
        if self._known is not None:
            return self._known.show(self)
        weak = "~" if self.aval.weak_type else ""
        return f"JitTracer({weak}{self.aval.str_short(short_dtypes=False)})"


def _if_known(name: str) -> Callable:
    """Return a method that needs a concrete value: it works if the trace knows it."""
    refuse = getattr(traces.Tracer, name)

    def method(self: GraphTracer, *args: Any) -> Any:
        value = None if self._known is None else self._known(self)
        return refuse(self, *args) if value is None else getattr(value, name)(*args)

    method.__name__ = name
    return method


for _name in ("__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist"):
    setattr(GraphTracer, _name, _if_known(_name))


class GraphTrace(traces.Trace):
    """A trace that records every primitive as an equation."""

    #: Function that returns the value of a tracer, or None: for traces outside of `jit`.
    known: Any = None

    def __init__(self, info: TracedFunction):
        self.parent = traces.state.trace
        self.info = info
        self.invars: list[Var] = []
        self.eqns: list[Eqn] = []
        # Constants by id, with the constants themselves, so that no id is used twice.
        self.constvars: dict[int, tuple[Var, Any]] = {}
        self.copies: dict[tuple, Any] = {}  # of NumPy arrays, by type and content
        self.adopted: dict[int, Any] = {}  # scalars made while tracing
        # References from outside that were accessed, with their previous values; None if they must
        # not be accessed, not even to find out which they are.
        self.outside: list[tuple[Any, Any, Any]] | None = None
        self.alive = True

    # ---- inputs and outputs ----
    def new_input(self, aval: ShapedArray) -> GraphTracer:
        var = Var(aval)
        self.invars.append(var)
        return GraphTracer(self, aval, var)

    def atom(self, x) -> Atom:
        """Return the Var or Literal of a value: one of this trace, a constant, or a scalar."""
        if type(x) is GraphTracer and x._trace is self:
            return x._var
        # A scalar that the library made while tracing: written into the Graph as a literal.
        if id(x) in self.adopted:
            return Literal(np.asarray(x)[()], x.aval)
        # NumPy arrays are copied, because the caller may write to them later.
        if isinstance(x, np.ndarray):
            x = self.array_of(x) if x.ndim else x[()]
        if isinstance(x, Array):
            return self.constant(x)
        check_defined(x, "an operation")
        return Literal(x, aval_of(x))

    def array_of(self, x: Any, aval: ShapedArray | None = None) -> Any:
        """Return a NumPy value as an Array of this trace: one for all that are equal."""
        if not isinstance(x, np.ndarray) or not x.ndim:
            return super().array_of(x, aval)
        data = np.ascontiguousarray(x).reshape(-1).view(np.uint8).data
        content = hashlib.blake2b(data, digest_size=16).digest()
        key = (aval or aval_of(x), x.dtype, config.state.default_device, content)
        if key not in self.copies:
            self.copies[key] = super().array_of(x, aval)
        return self.copies[key]

    def adopt(self, constant: Any) -> None:
        self.adopted[id(constant)] = constant

    def has_adopted(self, constant: Any) -> bool:
        return id(constant) in self.adopted

    def constant(self, x) -> Var:
        """Return the variable of a value from outside the function."""
        if isinstance(x, traces.Tracer):
            check_alive(x)
        entry = self.constvars.get(id(x))
        if entry is None:
            entry = self.constvars[id(x)] = (Var(aval_of(x)), x)
        return entry[0]

    # ---- references from outside ----
    def stand_in(self, ref: Any) -> None:
        """Have a reference from outside hold a value of this trace until it ends.

        The Graph will not do, since it cannot write to the reference; but the function runs on, and
        shows which others it accesses.
        """
        if self.outside is None:
            raise ReferenceAccessed([ref])
        self.outside.append((ref, ref._home, ref._value))
        ref._home, ref._value = self, self.new_input(aval_of(ref._value))

    def put_back(self) -> None:
        """Restore the previous values of references from outside."""
        for ref, home, value in reversed(self.outside or ()):
            ref._home, ref._value = home, value
        self.outside = None

    # ---- recording ----
    def process(self, prim: Primitive, args: tuple, params: dict):
        if not self.alive:
            raise errors.UnexpectedTracerError(f"the trace of {self.info} has ended")
        invars = [self.atom(a) for a in traces.same_widths(args)]
        avals = infer(prim, tuple([v.aval for v in invars]), params)
        outvars = [Var(a) for a in avals]
        site = sites.user_frame()
        # Nothing is computed: the equation is recorded, with the user's line for messages.
        self.eqns.append(Eqn(prim, invars, outvars, params, site))
        out = [GraphTracer(self, v.aval, v, site) for v in outvars]
        return out if prim.multiple_results else out[0]

    def finish(self, outputs: Sequence[Any]) -> Graph:
        """End the trace and return its Graph with the given results."""
        outvars = [self.atom(x) for x in outputs]
        self.alive = False
        pairs = list(self.constvars.values())
        # Outside values belong to the Graph from now on: a rule may keep the trace alive.
        self.constvars, self.copies, self.adopted = {}, {}, {}
        graph = Graph(
            self.invars,
            outvars,
            self.eqns,
            [v for v, _ in pairs],
            [c for _, c in pairs],
            debug_name=self.info.name,
        )
        graph.origin = self.info
        return graph

    def argument_names(self, var: Var) -> list[str]:
        """Return the names of the function's arguments that a variable depends on."""
        position = {v: i for i, v in enumerate(self.invars)}
        made_by = {v: eqn for eqn in self.eqns for v in eqn.outvars}
        found: set[int] = set()
        stack, seen = [var], set()
        # Backwards from the variable; iteratively, since graphs may be deep.
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if v in position:
                found.add(position[v])
            elif v in made_by:
                stack.extend(a for a in made_by[v].invars if isinstance(a, Var))
        names = self.info.arg_names
        return [names[i] for i in sorted(found) if i < len(names)]


def check_alive(x: traces.Tracer) -> None:
    """Raise UnexpectedTracerError if a tracer outlived the function that made it."""
    trace = x._trace
    if trace.alive:
        return
    info, site = getattr(trace, "info", None), getattr(x, "site", None)
    traced = (
        f" The function being traced when the value leaked was {info} traced for {info.purpose}."
        if info is not None
        else ""
    )
    made = f" The leaked value was created on line {site}." if site is not None else ""
    raise errors.UnexpectedTracerError(
        "Encountered an unexpected tracer. A function transformed by gpuarray had a side effect: "
        f"an intermediate value with type {x.aval.str_short()} wrapped in a {type(x).__name__} "
        f"escaped the scope of the transformation.{traced}{made} Return the value from the "
        "function instead of saving it in global state: a list, a global or an attribute."
    )


# Result avals by (primitive, operand avals, params).
inferred = util.Recent(1 << 14)


def infer(prim: Primitive, avals: tuple[ShapedArray, ...], params: dict) -> list[ShapedArray]:
    """Return the result avals of a primitive, memoised: avals are interned, so the key is cheap.

    Calls are not memoised: the memo would keep their Graphs, which know their avals anyway.
    """
    if prim.kind is Kind.CALL:
        return prim.out_avals(avals, params)
    # These settings decide which results are errors: ambiguous layouts, types that differ.
    strict = resolving.depth > 0, config.state.auto_pcast
    known = params_key(params) if prim.by_value else tuple(params.items())
    key: tuple | None = (prim, avals, known, strict)
    try:
        found = inferred.get(key) or inferred.find(key)
    except TypeError:  # params that cannot be hashed
        found = key = None
    if found is None:
        found = prim.out_avals(avals, params)
        # A function among the params must not be kept alive with all that it captures.
        if key is not None and not any(callable(x) and util.captures(x) for x in params.values()):
            inferred.put(key, found)
    return found


class ReferenceAccessed(BaseException):
    """Signals that a function that was staged accesses references from outside.

    A BaseException, because it is meant for the code that stages the function, and must not be
    caught by the function itself.
    """

    def __init__(self, refs: list):
        super().__init__(*refs)
        self.refs = refs


class ReferenceKept(BaseException):
    """Raised if a rule keeps a reference that only represents one of a jitted function's caller.

    The function is staged again with the caller's reference itself, to which the rule can write.
    """

    def __init__(self, ref: Any):
        super().__init__(ref)
        self.ref = ref


def stage(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[ShapedArray],
    info: TracedFunction,
    threads: bool = False,
) -> Graph:
    """Trace `fun`, which takes flat tracers and returns a flat list, into a Graph.

    With `threads` the caller catches `ReferenceAccessed` and traces again, with the references as
    arguments.
    """
    return stage_aux(lambda *tracers: (fun(*tracers), None), avals, info, threads)[0]


def stage_scalars(
    op: str, fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], function: Callable
) -> Graph:
    """Trace a user's `function` of an operation on scalars; it may not use outside traced
    values.
    """
    graph = stage(fun, avals, TracedFunction(function, op))
    if any(isinstance(c, traces.Tracer) for c in graph.consts):
        raise NotImplementedError(
            f"the function given to {op} uses a value from outside that is traced; it may use "
            "its arguments and constants. Use the value before or afterwards."
        )
    return graph


def stage_aux(
    fun: Callable[..., tuple[Sequence[Any], Any]],
    avals: Sequence[ShapedArray],
    info: TracedFunction,
    threads: bool = False,
) -> tuple[Graph, Any]:
    """Trace `fun`, which returns a flat list and auxiliary output (the structure of its result, for
    example), into a Graph; return both.
    """
    outer = traces.state.trace
    trace = GraphTrace(info)
    trace.outside = []
    tracers = [trace.new_input(a) for a in avals]
    # The staged Graph may be reused in other scopes: the call records them.
    scope = sites.enter_scope("") if sites.scopes else ""
    try:
        with traces.current(trace):
            try:
                outputs, aux = fun(*tracers)
            except Exception:
                # Tried again with the references as arguments, which decides about the error.
                if not trace.outside:
                    raise
            if trace.outside:
                raise ReferenceAccessed([ref for ref, *_ in trace.outside])
            graph = trace.finish(outputs)
        # A setting for debugging: the Graph is type-checked as it was recorded.
        if config.state.enable_checks:
            verify(graph)
    except ReferenceAccessed as touched:
        if threads:
            raise
        raise ValueError(
            f"{info} traced for {info.purpose} reads or writes a mutable array reference of type "
            f"{touched.refs[0].type} from outside. Give it the value as an argument, and return "
            "the new one."
        ) from None
    finally:
        traces.state.trace = outer
        trace.put_back()
        trace.alive = False
        if scope:
            sites.enter_scope(scope)
    # Not where it failed: the error's traceback holds tracers. Our own list must not count.
    del tracers, outputs
    check_leaks(trace, f"DynamicJaxprTrace of {info}")
    return graph, aux
