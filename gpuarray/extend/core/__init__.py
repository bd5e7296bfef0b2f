"""Primitives of a user's own, and the parts of Graphs by JAX's names.

Floor 6. In: a name. Out: a Primitive whose rules are given one by one: `def_impl`,
`def_abstract_eval`, and the tables of `gpuarray.interpreters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray
from gpuarray.core.avals import ShapedArray as AbstractValue
from gpuarray.core.avals import aval_of as get_aval
from gpuarray.core.effects import Effect as Effect
from gpuarray.core.graph import Atom as Atom
from gpuarray.core.graph import Eqn as JaxprEqn
from gpuarray.core.graph import Graph, SourceInfo, verify
from gpuarray.core.graph import Literal as Literal
from gpuarray.core.graph import Var as Var
from gpuarray.core.graph import eval_jaxpr as eval_jaxpr
from gpuarray.core.graph import graphs_in as jaxprs_in_params
from gpuarray.core.linear import tangent_aval
from gpuarray.core.primitive import Primitive as _Primitive
from gpuarray.core.trace import Trace as Trace
from gpuarray.core.trace import Tracer as Tracer
from gpuarray.core.value import Array
from gpuarray.errors import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
)
from gpuarray.errors import JaxprTypeError, MissingRuleError
from gpuarray.extend.core import primitives as primitives
from gpuarray.extend.linear_util import DebugInfo, WrappedFun
from gpuarray.extend.tracing import TraceTag as TraceTag
from gpuarray.extend.tracing import concrete_or_error as concrete_or_error
from gpuarray.extend.tracing import find_top_trace as find_top_trace
from gpuarray.extend.tracing import get_opaque_trace_state as get_opaque_trace_state
from gpuarray.extend.tracing import nonempty_axis_env as nonempty_axis_env_DO_NOT_USE
from gpuarray.extend.tracing import set_current_trace as set_current_trace
from gpuarray.extend.tracing import take_current_trace as take_current_trace
from gpuarray.extend.tracing import unsafe_am_i_under_a_jit as unsafe_am_i_under_a_jit_DO_NOT_USE
from gpuarray.extend.tracing import unsafe_am_i_under_a_vmap as unsafe_am_i_under_a_vmap_DO_NOT_USE
from gpuarray.extend.tracing import unsafe_get_axis_names as unsafe_get_axis_names_DO_NOT_USE
from gpuarray.extend.tracing import valid_jaxtype as valid_jaxtype
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import lazy
from gpuarray.util import elements, read_only, wrong_type

__all__ = [
    "AbstractToken",
    "AbstractValue",
    "Atom",
    "CallPrimitive",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Token",
    "Trace",
    "TraceTag",
    "Tracer",
    "Var",
    "array_types",
    "call_impl",
    "check_jaxpr",
    "concrete_or_error",
    "eval_jaxpr",
    "find_top_trace",
    "gensym",
    "get_aval",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype",
    "primitives",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
]


#: The effects of an equation, and the empty set of effects.
Effects = Set[Effect]
no_effects: Effects = frozenset()

#: A token is an array of no elements: `lax.create_token` makes one, operations are ordered by it.
Token = Array
AbstractToken = ShapedArray

#: Types of NumPy values that operations take.
array_types: set[type] = {np.ndarray} | {
    dtypes.as_dtype(name).type for name in dtypes.lattice.NODES if not name.endswith("*")
}


class _OfGraphs(type):
    """The type of JAX's two names for programs: every Graph is an instance of both."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Graph)


class Jaxpr(Graph, metaclass=_OfGraphs):
    """A program built by hand from variables and equations; its constants have no values yet.

    Programs that are traced are both a Jaxpr and a ClosedJaxpr.

    Parameters
    ----------
    effects :
        Taken for programs that give them: a program has those of its equations.

    Examples
    --------

    >>> from gpuarray.extend import core
    >>> x, y = (core.Var(core.ShapedArray((), "float32")) for _ in range(2))
    >>> eqn = core.new_jaxpr_eqn([x], [y], core.primitives.sin_p, {"accuracy": None})
    >>> core.ClosedJaxpr(core.Jaxpr((), [x], [y], [eqn]), [])
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """

    __slots__ = ()

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Set[Effect] = frozenset(),
        debug_info: DebugInfo | None = None,
        is_high: bool = False,
    ):
        if is_high:
            raise ValueError("is_high=True: programs have no types above those of arrays here")
        name = "" if debug_info is None else debug_info.func_name
        super().__init__(invars, outvars, eqns, constvars, debug_name=name)
        self.origin = debug_info


class ClosedJaxpr(Graph, metaclass=_OfGraphs):
    """A program with the values of its constants.

    >>> import gpuarray as ga
    >>> from gpuarray.extend import core
    >>> program = ga.make_jaxpr(lambda x: 2 * x)(1.0)
    >>> core.ClosedJaxpr(program.jaxpr, program.consts) == program
    True
    """

    __slots__ = ()

    def __init__(self, jaxpr: Graph, consts: Sequence[Any]):
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(
                f"a program with {len(jaxpr.constvars)} constants takes as many values, got "
                f"{len(consts)}"
            )
        super().__init__(
            jaxpr.invars, jaxpr.outvars, jaxpr.eqns, jaxpr.constvars, consts, jaxpr.debug_name
        )
        self.origin = jaxpr.origin


class DropVar(Var):
    """A variable that is never read, in an equation made by `new_jaxpr_eqn`.

    Programs traced here have none: an unread variable is a Var there like the others.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Primitive(_Primitive):
    """An operation defined from outside, rule by rule.

    `def_abstract_eval` gives shapes and dtypes, `def_impl` the result for NumPy arrays; instead of
    the latter, `interpreters.mlir.register_lowering` defines it by other operations.
    `multiple_results` may be set before either. A subclass may define all this itself: by a
    `multiple_results` of the class, and by methods `impl` and `abstract_eval`; the latter returns
    avals and effects.

    >>> from gpuarray.extend.core import Primitive
    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_abstract_eval(lambda x: x)
    >>> _ = double_p.def_impl(lambda x: 2 * x)
    >>> ga.jit(lambda x: double_p.bind(x) + 1)(gnp.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """

    by_value = True

    def __init__(self, name: str):
        # Not in the registry: two libraries may give their primitives the same name.
        several = bool(getattr(type(self), "multiple_results", False))
        super().__init__(name, aval=self._no_shapes, multiple_results=several, register=False)
        self._impl: Callable[..., Any] | None = None
        # What a subclass says by methods.
        if type(self).impl is not Primitive.impl and (own := self.impl) is not None:
            self.def_impl(own)
        if shapes := getattr(type(self), "abstract_eval", None):
            self.def_abstract_eval(lambda *avals, **params: shapes(self, *avals, **params)[0])

    def _no_shapes(self, *_, **__):
        raise MissingRuleError(
            f"Abstract evaluation for '{self.name}' not implemented: give it by def_abstract_eval"
        )

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation. One without a shape rule yet calls its `def_impl` on values."""
        # Whether all operands are values, outside any transformation.
        known = traces.state.trace is lazy.base and not any(isinstance(x, Tracer) for x in args)
        # Compared by ==, since every look-up of a method makes a new object.
        if self.aval != self._no_shapes or not known:
            return super().bind(*args, **params)
        if self._impl is None:
            raise MissingRuleError(
                f"Evaluation rule for '{self.name}' not implemented: give it by def_impl"
            )
        # Immediately and unrecorded: without shapes it cannot be recorded.
        return self._impl(*args, **params)

    def __reduce__(self):
        # Primitives are pickled by their registered names, and this one has none.
        raise TypeError(f"primitive {self.name!r} was defined by a user and cannot be pickled")

    @property
    def impl(self) -> Callable[..., Any] | None:
        """The function that `def_impl` was given."""
        return self._impl

    def def_impl(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give the function of NumPy arrays that computes the results."""

        def numpy(*buffers, **params):
            # Read-only: an operand's memory belongs to an array, which never changes.
            out = function(*map(read_only, buffers), **params)
            # Copies: the function may keep the arrays it returned, and write to them.
            return [np.array(x) for x in out] if self.multiple_results else np.array(out)

        # Compiled programs call `numpy`; `_impl` is the user's function.
        self.numpy, self._impl = numpy, function
        return function


class CallPrimitive(Primitive):
    """A primitive that calls a function: `bind(*args, subfuns=(fun,))` gives a list of results.

    >>> from gpuarray.extend import linear_util as lu
    >>> from gpuarray.extend.core import CallPrimitive, call_impl
    >>> marked_p = CallPrimitive("marked")
    >>> _ = marked_p.def_impl(call_impl)
    >>> marked_p.bind(3.0, subfuns=(lu.wrap_init(lambda x: [x + 1]),))
    [4.0]
    """

    call_primitive = True

    def __init__(self, name: str):
        super().__init__(name)
        self.multiple_results = True

    def bind(self, *args: Any, subfuns: Sequence[WrappedFun] = (), **params: Any) -> Any:
        """Apply the operation to a function and its arguments."""
        if self._impl is None:
            raise MissingRuleError(
                f"Evaluation rule for '{self.name}' not implemented: give it by def_impl, "
                "call_impl where the function is to be called and no more."
            )
        # The function is called here: the trace around sees the operations inside of it.
        return self._impl(*subfuns, *args, **params)


def call_impl(f: WrappedFun, *args: Any, **_: Any) -> Any:
    """Call a function: the `def_impl` of a CallPrimitive that only marks it."""
    return f.call_wrapped(*args)


def gensym() -> Callable[[ShapedArray], Var]:
    """A function that makes new variables of an aval; they get their names when printed.

    >>> from gpuarray.extend.core import ShapedArray, gensym
    >>> new = gensym()
    >>> new(ShapedArray((3,), "float32")).aval
    ShapedArray(float32[3])
    """
    return Var


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: _Primitive,
    params: dict[str, Any],
    effects: Effects = no_effects,
    source_info: SourceInfo | None = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation, for Graphs that are built by hand.

    Parameters
    ----------
    effects :
        An equation's are those of its primitive and of the Graphs in its params; others than these
        are refused.
    ctx :
        Taken for programs that give it; an equation has no settings but its params.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.extend import core
    >>> x = core.Var(core.ShapedArray((), "float32"))
    >>> y = core.Var(x.aval)
    >>> eqn = core.new_jaxpr_eqn([x], [y], core.primitives.sin_p, {"accuracy": None})
    >>> graph = core.Jaxpr((), [x], [y], [eqn])
    >>> core.check_jaxpr(graph), core.eval_jaxpr(graph, [], 0.0)
    (None, [Array(0., dtype=float32, weak_type=True)])
    """
    if source_info is not None and not isinstance(source_info, SourceInfo):
        raise wrong_type(source_info, "the source_info of an equation")
    site = None if source_info is None else source_info.site
    eqn = JaxprEqn(primitive, invars, outvars, params, site)
    if others := {*elements(effects, "a set of effects")} - eqn.effects:
        raise ValueError(
            f"an equation of {primitive} has the effects {set(eqn.effects)}, not {others}: they "
            "come from its primitive and the Graphs in its params"
        )
    return eqn


def subjaxprs(jaxpr: Graph) -> Iterator[Graph]:
    """The Graphs in the equations of a Graph, not those inside of these.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import subjaxprs
    >>> graph = ga.make_jaxpr(ga.jit(lambda x: x * x))(3.0)
    >>> [len(inner.eqns) for inner in subjaxprs(graph)]
    [1]
    """
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def check_jaxpr(jaxpr: Graph) -> None:
    """Raise JaxprTypeError for a Graph that is not well formed: a variable that is read before it
    is defined or defined twice, a result of another type than the operation's.
    """
    given = jaxpr
    if not jaxpr.consts:  # a Jaxpr whose constants have no values yet
        given = jaxpr.replace(constvars=(), invars=[*jaxpr.constvars, *jaxpr.invars])
    try:
        verify(given)
    except (TypeError, ValueError) as error:
        raise JaxprTypeError(f"{error}\n\nin the program:\n{jaxpr!r}") from error


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of derivatives: the same for floats and complex numbers, else float0.

    >>> from gpuarray.extend.core import primal_dtype_to_tangent_dtype
    >>> primal_dtype_to_tangent_dtype("bfloat16"), primal_dtype_to_tangent_dtype("int8")
    (dtype(bfloat16), dtype([('float0', 'V')]))
    """
    return tangent_aval(ShapedArray((), dtypes.as_dtype(primal_dtype))).dtype


def jaxpr_as_fun(graph: Graph) -> Callable[..., list[Any]]:
    """A Graph as a function of its inputs.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import jaxpr_as_fun
    >>> jaxpr_as_fun(ga.make_jaxpr(lambda x: x * x)(3.0))(5.0)
    [Array(25., dtype=float32, weak_type=True)]
    """
    return lambda *args: eval_jaxpr(graph, graph.consts, *args)


# In both, an axis of None means an operand that is not mapped: its aval is unchanged.
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
