"""Reverse mode: `vjp` and `linear_transpose`.

Floor 6. In: functions of pytrees. Out: Pullbacks, which are functions of cotangents and pytrees of
the residuals of the forward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from gpuarray.api.derivatives import (
    FlatFunction,
    LikePartial,
    aval_of_tangent,
    check_callable,
    check_varies_alike,
    like_its_primal,
    real_array,
)
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of, stated_aval
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import Zero, is_inexact, is_zero, tangent_aval
from gpuarray.core.tracebacks import boundary
from gpuarray.functions import argnums
from gpuarray.pytree import tree
from gpuarray.pytree.registration import Partial
from gpuarray.transforms.dead import without_dead
from gpuarray.transforms.linearize import Linearized, linearize_flat
from gpuarray.transforms.partial import split_graph
from gpuarray.transforms.passing import closed_over
from gpuarray.transforms.references import Ref
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.transforms.transpose import transpose_flat
from gpuarray.util import name_of

#: How messages name the value to cast if a cotangent varies more than its primal.
_OUTPUT = "the output of the function"


class _Mark:
    """A marker without content: all of one class are equal, and in a pytree they are structure."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class GradValue(_Mark):
    """Given to `with_refs`: the cotangent of this argument is returned."""


class DontWant(_Mark):
    """Given to `with_refs`: the cotangent of this argument is not wanted."""


@tree.register_static
class GradRef(_Mark):
    """Replaces a cotangent that was added to a reference instead of being returned."""


@tree.register_static
class DidntWant(_Mark):
    """Replaces a cotangent that was not requested."""


@tree.register_static
class NotNeeded(_Mark):
    """In `args_res`: an argument that the backward pass does not read."""


ad = SimpleNamespace(DidntWant=DidntWant, DontWant=DontWant, GradRef=GradRef, GradValue=GradValue)


class PullbackForm(NamedTuple):
    """All of a pullback but the values it keeps, which `graph` has places for."""

    graph: Graph
    in_linear: tuple[bool, ...]
    out_linear: tuple[bool, ...]
    in_avals: tuple
    out_avals: tuple
    in_spec: Any
    out_spec: Any
    name: str  # the function's, for messages
    origins: tuple[int | None, ...]  # of each value kept, which flat argument it is


class Pullback:
    """The result of `vjp`: maps cotangents of the result to cotangents of the arguments.

    It is a pytree of the values kept from the forward pass, so that jit takes and returns it.

    Attributes
    ----------
    args_res : list
        The arguments that are among those values, NotNeeded in place of others. They may be
        removed, so as not to be stored twice, and restored before the call.
    opaque_residuals : list
        The other values.
    jaxpr : Graph
        The linear program from tangents of the arguments to those of the result.
    """

    def __init__(
        self, primals: Sequence[Any], in_spec: Any, out_spec: Any, lin: Linearized, name: str = ""
    ):
        self.in_spec, self.out_spec, self.lin, self.name = in_spec, out_spec, lin, name
        self.in_avals = [aval_of(p) for p in primals]
        self.out_avals = [aval_of(x) for x in lin.outputs]
        self._form: PullbackForm | None = None
        # `separate` finds the positions of the values; a pullback used once does not need them.
        self._kept: list = []  # the arguments that are among them, flat
        self._args_res: list | None = None
        self.opaque_residuals: list = []
        self._origins: tuple[int | None, ...] | None = None

    @property
    def jaxpr(self) -> Graph:
        """The linear program from tangents of the arguments to those of the result."""
        return self.lin.graph

    def separate(self, primals: Sequence[Any]) -> None:
        """Tell the arguments among the values it keeps from the others."""
        values = self.lin.graph.consts
        # By identity: an argument that the backward pass reads is the very object that was given.
        place = {id(p): i for i, p in enumerate(primals)}
        self._origins = tuple(place.get(id(x)) for x in values)
        used = set(self._origins)
        self._kept = [p if i in used else NotNeeded() for i, p in enumerate(primals)]
        pairs = zip(values, self._origins, strict=True)
        self.opaque_residuals = [x for x, origin in pairs if origin is None]

    # Built on first use: a user's pytree node may not accept NotNeeded for an array.
    @property
    def args_res(self) -> list:
        if self._args_res is None:
            self._args_res = list(tree.unflatten(self.in_spec, self._kept))
        return self._args_res

    @args_res.setter
    def args_res(self, values: list) -> None:
        self._args_res = values

    def _values(self) -> list:
        """The values that the graph has places for."""
        if self._origins is None:
            return self.lin.graph.consts
        if not any(origin is not None for origin in self._origins):
            return self.opaque_residuals
        rest = iter(self.opaque_residuals)
        if self._args_res is None:
            return [next(rest) if i is None else self._kept[i] for i in self._origins]
        try:
            # An argument may be None, or contain None: that is not a leaf. A removed value is None
            # in place of one leaf, or of several.
            given = self.in_spec.flatten_up_to(tuple(self.args_res))
            missing = any(given[i] is None for i in self._origins if i is not None)
        except (TypeError, ValueError):
            given, missing = [], True
        if missing:
            raise ValueError(
                f"The function returned by `vjp` applied to {self.name} needs the arguments that "
                f"were taken out of args_res: put them back before the call, got {self.args_res}."
            )
        return [next(rest) if i is None else given[i] for i in self._origins]

    def take_apart(self) -> tuple[tuple, PullbackForm]:
        """The values it keeps, and the rest."""
        if self._origins is None:
            self.separate([NotNeeded()] * len(self.in_avals))
        assert self._origins is not None
        if self._form is None:
            lin = self.lin
            avals = tuple(self.in_avals), tuple(self.out_avals)
            self._form = PullbackForm(
                # The values leave the graph, so that equal programs have equal forms and jit finds
                # its cache.
                lin.graph.with_consts([None] * len(lin.graph.consts)),
                tuple(lin.in_linear), tuple(lin.out_linear), *avals, self.in_spec, self.out_spec,
                self.name, self._origins,
            )  # fmt: skip
        return (self.args_res, self.opaque_residuals), self._form

    @classmethod
    def put_together(cls, form: PullbackForm, values: Sequence[Any]) -> Pullback:
        """The inverse of `take_apart`."""
        # Not through __init__: transformations put tracers and other objects into the leaves.
        new = object.__new__(cls)
        new._kept, (new._args_res, new.opaque_residuals) = [], values
        new._origins = form.origins
        new.lin = Linearized([], form.graph, list(form.in_linear), list(form.out_linear))
        new.in_avals, new.out_avals = list(form.in_avals), list(form.out_avals)
        new.in_spec, new.out_spec, new._form = form.in_spec, form.out_spec, form
        new.name = form.name
        return new

    def __repr__(self) -> str:
        return f"Pullback(from {self.out_spec} to {self.in_spec}, {self.lin.graph})"

    @boundary
    def __call__(self, *cotangent):
        return tree.unflatten(self.in_spec, self.typed(self._checked(cotangent)))

    def typed(self, cotangents: Sequence[Any]) -> list:
        """Flat cotangents of all arguments as arrays, which vary as the arguments do."""
        return list(map(real_array, cotangents, self.in_avals))

    def with_refs(self, *wanted: Any) -> Callable[[Any], Any]:
        """The same function, which adds cotangents to references instead of returning them.

        Parameters
        ----------
        wanted :
            Like the arguments: a reference to add to, `ad.GradValue()` for a cotangent to be
            returned, `ad.DontWant()` for one that is not needed.

        Examples
        --------

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> total = ga.new_ref(gnp.zeros(2))
        >>> _, f_vjp = ga.vjp(lambda x: 3.0 * x, gnp.ones(2))
        >>> f_vjp.with_refs(total)(gnp.ones(2)), total
        ((GradRef(),), Ref([3., 3.], dtype=float32))
        """
        leaves, spec = tree.flatten(wanted)
        if spec != self.in_spec:
            raise ValueError(
                f"with_refs takes what to do with the cotangents of all arguments of {self.name}, "
                f"in their structure {self.in_spec}, got {spec}"
            )

        @boundary
        def add(*cotangent):
            found = self._checked(cotangent, [not isinstance(x, DontWant) for x in leaves])
            return tree.unflatten(self.in_spec, list(map(_delivered, leaves, found, self.in_avals)))

        return add

    def _checked(self, cotangent: tuple, wanted: Sequence[bool] | None = None) -> list:
        """Flat cotangents of all arguments, of a result's cotangent that is checked."""
        if len(cotangent) != 1:
            raise TypeError(
                f"The function returned by `vjp` applied to {self.name} was called with "
                f"{len(cotangent)} arguments, but functions returned by `vjp` must be called with "
                f"a single argument corresponding to the single value returned by {self.name}, "
                "even if that value is a tuple or another container: write f_vjp((a, b))."
            )
        (cotangents,) = cotangent
        # Check structure, then types, here: an error in the transposed graph could not name the
        # user's values.
        leaves, spec = tree.flatten(cotangents)
        if spec != self.out_spec:
            raise ValueError(
                "unexpected tree structure of argument to vjp function: the cotangent must have "
                f"the tree structure of the function's output, {self.out_spec}, got {spec}"
            )
        for want, ct in zip(self.out_avals, leaves, strict=True):
            given = aval_of_tangent(ct)
            expected = tangent_aval(want)
            # Any cotangent is accepted for a result without derivative: none is used.
            unused = expected.dtype == dtypes.float0
            if given.shape != expected.shape or not (unused or given.dtype == expected.dtype):
                raise ValueError(
                    "unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                    f"{given.str_short()}, but expected {expected.str_short()} because the "
                    f"corresponding output of the function has type {want.str_short()}"
                )
            what = "unexpected JAX type for argument to vjp function"
            check_varies_alike(want, given, "cotangent", _OUTPUT, what, ValueError)
        return self.pull(leaves, wanted)

    def pull(self, cotangents: Sequence[Any], wanted: Sequence[bool] | None = None) -> list:
        """Flat cotangents of all arguments; Zero if there is none, or it is not wanted."""
        lin = self.lin
        # Outputs that depend on no input are not part of the linear graph.
        given = [ct for ct, linear in zip(cotangents, lin.out_linear, strict=True) if linear]
        graph = lin.graph if self._origins is None else lin.graph.with_consts(self._values())
        # Cotangents that are not needed are not computed.
        if wanted is not None:
            wanted = [w for w, linear in zip(wanted, lin.in_linear, strict=True) if linear]
        found = iter(transpose_flat(graph, [True] * len(graph.invars), [], given, wanted))
        return [
            next(found) if linear else Zero(tangent_aval(a))
            for linear, a in zip(lin.in_linear, self.in_avals, strict=True)
        ]


def _delivered(wanted: Any, ct: Any, primal: Any) -> Any:
    """Deliver a cotangent as `with_refs` requested; return the value that replaces it."""
    if isinstance(wanted, Ref):
        if not is_zero(ct):
            wanted.write("addupdate", ..., ct)
        return GradRef()
    return DidntWant() if isinstance(wanted, DontWant) else real_array(ct, primal)


tree.register_pytree_node(Pullback, Pullback.take_apart, Pullback.put_together)


@boundary
def vjp(fun: Callable, *primals, has_aux: bool = False, reduce_axes: tuple = ()) -> tuple[Any, ...]:
    """The result of `fun(*primals)`, and the function that pulls cotangents of the result back to
    the arguments.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> y, f_vjp = ga.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> f_vjp(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if reduce_axes:
        raise NotImplementedError(
            "reduce_axes argument to vjp is deprecated: use collectives instead"
        )
    check_callable(fun)
    # Mutable references have no cotangents: the function closes over them.
    names = functools.partial(argnums.leaf_names, argnums.signature_of(fun), primals, {})
    (fun,), primals = closed_over([fun], primals, "vjp", names)
    flat = FlatFunction(fun, primals, has_aux=has_aux)
    lin = linearize_flat(flat, flat.leaves)
    # A pullback may live long: do not keep values that only dead operations read.
    lin = lin._replace(graph=without_dead(lin.graph))
    name = name_of(fun)
    f_vjp = Pullback(flat.leaves, flat.in_spec, flat.out_spec, lin, name)
    f_vjp.separate(flat.leaves)
    result = flat.result(lin.outputs), f_vjp
    return (*result, flat.aux) if has_aux else result


@boundary
def linear_transpose(fun: Callable, *primals, reduce_axes: tuple = ()) -> Callable:
    """The transpose of a function that is linear in its arguments, which are given by shape and
    dtype.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError(
            f"linear_transpose does not sum over named axes, got reduce_axes={reduce_axes}: use "
            "lax.psum on its result."
        )
    flat = FlatFunction(fun, primals)
    # Only shapes and dtypes of the arguments are needed. Whatever does not depend on the tangents
    # is evaluated now, even if a loop computes it together with what does: each remaining equation
    # is linear.
    avals = [stated_aval(p) for p in flat.leaves]
    graph = _with_known(stage(flat, avals, TracedFunction(fun, "linear_transpose")))
    # A map from floats to integers cannot be linear. All integers are allowed, as in JAX.
    inexact = all(is_inexact(a) for a in avals + graph.out_avals)
    if not inexact and any(dtypes.kind_of(a.dtype) not in "iu" for a in avals + graph.out_avals):
        ins, outs = (", ".join(a.str_short() for a in group) for group in (avals, graph.out_avals))
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer "
            f"-> integer functions, but got [{ins}] -> [{outs}]."
        )

    # As for the result of `linearize`: a pytree of the constants, equal for equal programs.
    about = tuple(avals), flat.in_spec, flat.out_spec
    form = graph.with_consts([None] * len(graph.consts))
    return Partial(LikePartial(_transposed, form, about), graph.consts)


def _with_known(graph: Graph) -> Graph:
    """A Graph whose constants are the values that it computes of its constants alone."""
    split = split_graph(graph, [True] * len(graph.invars), [True] * len(graph.outvars))
    found, rest = evaluate(split.known), split.unknown
    ins, own = rest.invars[split.residuals :], rest.invars[: split.residuals]
    consts = [*rest.consts, *found]
    return rest.replace(invars=ins, constvars=[*rest.constvars, *own], consts=consts)


@boundary
def _transposed(graph: Graph, about: tuple, consts: Sequence[Any], cotangents: Any) -> Any:
    """Cotangents of results to cotangents of arguments; the graph lacks its constants."""
    avals, in_spec, out_spec = about
    leaves, spec = tree.flatten(cotangents)
    if spec != out_spec:
        raise TypeError(
            f"cotangent tree does not match function output, expected {out_spec} but got {spec}"
        )
    for want, given in zip(graph.out_avals, map(aval_of, leaves), strict=True):
        if (want.shape, want.dtype) != (given.shape, given.dtype):
            raise TypeError(
                f"cotangent type does not match function output, expected {want.str_short()} "
                f"but got {given.str_short()}"
            )
        what = "cotangent type does not match function output"
        check_varies_alike(want, given, "cotangent", _OUTPUT, what, TypeError)
    cts = transpose_flat(graph.with_consts(consts), [True] * len(avals), [], leaves)
    # A weak cotangent gives weak results, as multiplying by hand would.
    given_weak = any(aval_of(x).weak_type for x in leaves)
    typed = [
        real_array(ct, a) if given_weak else like_its_primal(ct, a)
        for ct, a in zip(cts, avals, strict=True)
    ]
    return tree.unflatten(in_spec, typed)
