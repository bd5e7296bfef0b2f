"""A Primitive: one operation, defined once, with every rule it has.

Floor 1. In: the rules that an operation's definition gives. Out: `bind`, which asks the innermost
Trace. A rule that an operation does not have is an explicit `Sentinel`, never an absent attribute,
so that tests find what is missing before users do.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import config
from gpuarray.core import trace
from gpuarray.core.avals import ShapedArray
from gpuarray.core.effects import HasEffect
from gpuarray.core.fold import Fold
from gpuarray.core.layout import (
    Layout,
    check_alike,
    in_space,
    joined,
    of_results,
    space_in,
    space_of_results,
)
from gpuarray.core.memories import Space
from gpuarray.core.rewrite import NO_REWRITE, Rewrite
from gpuarray.errors import MissingRuleError
from gpuarray.util import Struct


class Kind(enum.Enum):
    """What the compiler may do with an operation; fusability depends on it, not on names."""

    POINTWISE = "pointwise"  # out[i] depends on in[i] alone
    REDUCTION = "reduction"  # P x R -> P
    VIEW = "view"  # an index map without guards: costs no kernel
    MOVEMENT = "movement"  # an index map with guards (pad, concatenate, dynamic_slice)
    GENERATOR = "generator"  # depends on the index alone (iota, random bits from a scalar key)
    INDEXING = "indexing"  # gather and scatter
    SCAN = "scan"  # a running fold along `axis`, possibly in `reverse`
    SORT = "sort"  # elements put in order along an axis: `order`
    LIBRARY = "library"  # matmul, conv, fft, linalg: a separate step
    CALL = "call"  # holds a Graph
    COLLECTIVE = "collective"  # talks to other devices

    @property
    def word(self) -> str:
        """The name that users read: scans and sorts without a kernel are library steps."""
        return "library" if self in (Kind.SCAN, Kind.SORT) else self.value


class Sentinel:
    """A rule that is absent on purpose, and the reason."""

    __slots__ = ("name", "why")

    def __init__(self, name: str, why: str):
        self.name, self.why = name, why

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        return False


#: The rule has not been written.
UNWRITTEN = Sentinel("UNWRITTEN", "this rule has not been written yet")
#: The operation has no rule of this kind.
NOT_LINEAR = Sentinel("NOT_LINEAR", "the operation is not linear in this operand")
NOT_DIFFERENTIABLE = Sentinel("NOT_DIFFERENTIABLE", "the operation has no derivative")
#: The jvp of a linear operation is the operation itself.
LINEAR = Sentinel("LINEAR", "the operation is linear: its derivative is itself")
#: The jvp follows from those of the primitives into which `decompose` splits the operation.
BY_PARTS = Sentinel("BY_PARTS", "the derivative is that of the operation's parts")


class Order(Struct):
    """Names of the params that define how a sort orders its operands, which have the same shape.

    Attributes
    ----------
    axis :
        Param with the axis to sort along.
    keys :
        Param with the number of operands, from the first on, that are compared; None: only the
        first.
    takes :
        Param with the number of elements to keep: the largest in total order, with their positions
        as the second result. None: all are kept.
    """

    axis: str
    keys: str | None = None
    takes: str | None = None


#: Every primitive by name, in order of definition. Meta tests walk it.
registry: dict[str, Primitive] = {}


class NoKernel(TypeError):
    """A group, an operation or a dtype that has no kernel, and why; `cuda` rules raise it too."""


class Primitive:
    """One operation with all its rules.

    A rule is a function unless the list below says otherwise, and `**params` are the parameters of
    an equation.

    Parameters
    ----------
    aval : (*avals, **params) -> ShapedArray, or a list of them with `multiple_results`
        Shape and dtype rule; raises on misuse.
    numpy : (*arrays, **params) -> array(s)
        Reference implementation; a `np.ufunc` where one does the whole job.
    numpy_pick : (avals, **params) -> callable
        Instead of `numpy`, when the best function depends on dtypes or params.
    inplace : (avals, **params) -> callable
        Like `numpy_pick`, but the callable may overwrite its first operand and return it.
    cuda : str, tuple of str, or (avals, **params) -> str
        The operation in CUDA C++: a template such as "ga_sin({0})", one for each result. {0}, {1},
        ... are the operands (16-bit floats come as float), {T} is the type of the result as a
        value, {M} in memory.
    fold : Fold
        How reductions, scans and windows fold elements (core/fold.py).
    order : Order
        For sorts, the sort order.
    jvp, transpose, batch :
        Rules of the transforms, or a `Sentinel`.
    assemble : (avals, compile, **params) -> callable
        For operations that hold Graphs; `compile` makes a Graph a function of buffers that returns
        a list of buffers.
    decompose : (*args, **params) -> values
        The operation in terms of other primitives, for backends that lack it.
    inline : (eqn) -> Graph or None
        For calls that mean no more than a Graph: that Graph, which compilers write out in the
        call's place; None where this call is to stay.
    flow : (eqn) -> Loop or Choice
        For loops and branches, how they run their Graphs (core/flow.py).
    show : (params) -> params
        The params that a printed graph displays.
    view : ViewRule
        For views with one result, which index map it is (core/index.py).
    element : ElementRule, Sentinel or None
        How one element of a result is computed where it is read (core/element_rules.py). None: by
        the rule of the primitive's kind. A Sentinel: it cannot be, and why.
    update : UpdateRule
        For operations that change a part of their first operand.
    rewrite : Rewrite
        How compilers may replace its equations by others (core/rewrite.py).
    layout : (layout, **params) -> Layout or None
        For collectives, along which mesh axes results vary, given that of the operands together.
    factors : (avals, out_avals, params) -> Factors, Sentinel or None
        How axes correspond, so that equations can be evaluated on pieces (core/factors.py). None:
        it follows from the primitive's kind. A Sentinel: it cannot be, and why.
    weight : float
        Cost of one element in plain multiply-adds, for the fusion cost model.
    work : (avals, **params) -> float
        Multiply-adds of the whole, where it is not weight times elements.
    same_bytes : bool
        Whether each result is the operand at its place, byte for byte: no memory is needed.
    effect : bool or (**params) -> Effect
        Whether it has side effects, so that it is never dropped or merged; which one it is.
    """

    def __init__(
        self,
        name: str,
        kind: Kind = Kind.LIBRARY,
        *,
        aval: Callable[..., Any] | Sentinel = UNWRITTEN,
        numpy: Callable[..., Any] | Sentinel = UNWRITTEN,
        numpy_pick: Callable[..., Callable[..., Any]] | None = None,
        inplace: Callable[..., Callable[..., Any]] | None = None,
        cuda: Any = UNWRITTEN,
        fold: Fold | None = None,
        order: Order | None = None,
        jvp: Any = UNWRITTEN,
        transpose: Any = UNWRITTEN,
        batch: Any = UNWRITTEN,
        assemble: Callable[..., Callable[..., Any]] | None = None,
        decompose: Callable[..., Any] | None = None,
        inline: Callable[[Any], Any] | None = None,
        flow: Callable[[Any], Any] | None = None,
        show: Callable[[dict], dict] | None = None,
        view: Any = None,
        element: Any = None,
        update: Any = None,
        layout: Callable[..., Layout | None] | None = None,
        factors: Any = None,
        weight: float = 1.0,
        work: Callable[..., float] | None = None,
        rewrite: Rewrite = NO_REWRITE,
        multiple_results: bool = False,
        same_bytes: bool = False,
        effect: HasEffect = False,
        register: bool = True,
    ):
        self.name = name
        self.kind = kind
        self.aval = aval
        self.numpy = numpy
        self.numpy_pick = numpy_pick
        self.inplace = inplace
        self.cuda = cuda
        self.fold = fold
        self.order = order
        self.jvp = jvp
        self.transpose = transpose
        self.batch = batch
        self.assemble = assemble
        self.decompose = decompose
        self.inline = inline
        self.flow = flow
        self.show = show
        self.view = view
        self.element = element
        self.update = update
        self.layout = layout
        self.factors = factors
        self.weight = weight
        self.work = work
        self.rewrite = rewrite
        self.multiple_results = multiple_results
        self.same_bytes = same_bytes
        self.effect = effect
        if register:
            if name in registry:
                raise ValueError(f"a primitive named {name!r} is already defined")
            registry[name] = self

    @property
    def plain_fold(self) -> Any:
        """The ufunc that folds the unchanged elements, or None if no ufunc does."""
        return None if self.fold is None else self.fold.plain_ufunc

    @property
    def pairwise(self) -> Primitive | None:
        """The operation on two arrays that folds the unchanged elements, or None."""
        if self.fold is None or not self.fold.plain:
            return None
        return self.fold.merge if isinstance(self.fold.merge, Primitive) else None

    @property
    def has_fold(self) -> bool:
        """Whether there is a Fold whose parts all have CUDA text."""
        if self.fold is None:
            return False
        parts = self.fold.lift, self.fold.merge, self.fold.finish
        # A part given as text is its own rule.
        rules = (p.cuda if isinstance(p, Primitive) else p for p in parts)
        return not any(isinstance(rule, Sentinel) for rule in rules)

    #: Whether it calls a function that is given to `bind`. Only an `extend.core.CallPrimitive`
    #: does, since functions are Graphs in params here.
    call_primitive = map_primitive = False
    #: Whether its params may be numbers of any type, so that 1, 1.0 and True must be distinguished.
    by_value = False

    def get_bind_params(self, params: dict) -> tuple[list, dict]:
        """Return the functions to pass to `bind` before the operands (none), and the params."""
        return [], dict(params)

    def bind(self, *args, **params):
        """Apply the operation to values; the innermost Trace decides how."""
        return trace.state.trace.process(self, args, params)

    def bind_with_trace(self, trace_of: trace.Trace, args: Sequence[Any], *about: Any) -> Any:
        """Apply the operation in a trace; the params are the last argument."""
        with trace.current(trace_of):
            return self.bind(*args, **about[-1])

    def out_avals(self, avals: Sequence[ShapedArray], params: dict) -> list[ShapedArray]:
        """Return the avals of the results, always as a list, whatever `multiple_results` is."""
        out = self.aval(*avals, **params)  # pyright: ignore[reportCallIssue]
        if (
            isinstance(out, ShapedArray)
            if self.multiple_results
            else isinstance(out, (list, tuple))
        ):
            wanted = "a list of avals" if self.multiple_results else "one aval"
            raise ValueError(
                f"{self.name}.abstract_eval() method should return a tuple or list exactly where "
                f"multiple_results is true, and so {wanted} here; got {out!r}."
            )
        out = list(out) if self.multiple_results else [out]
        # Graphs determine the layouts of their results; those of other operations are computed
        # here. Two cheap tests first: avals of a program for one device have no layouts.
        given = self.layout is not None or any([a.layout is not None for a in avals])  # noqa: C419
        if given and self.kind is not Kind.CALL:
            if not config.state.auto_pcast and self.kind is not Kind.COLLECTIVE:
                check_alike(self.name, [a.layout for a in avals])
            # Only sharding and sums need the factors of the operation; varying axes are just
            # joined.
            if any([a.layout is not None and a.layout.says_more for a in avals]):  # noqa: C419
                layouts = of_results(self, avals, out, params)
            else:
                layouts = [joined(a.layout for a in avals)] * len(out)
            # Results of operands in the host's memory are there, too.
            if any([a.layout is not None and a.layout.space is not None for a in avals]):  # noqa: C419
                spaces = self._spaces(avals, len(out))
                layouts = [in_space(*pair) for pair in zip(layouts, spaces, strict=True)]
            if self.layout is not None:
                layouts = [self.layout(found, **params) for found in layouts]
            out = [
                a if a.layout is found else a.update(layout=found)
                for a, found in zip(out, layouts, strict=True)
            ]
        return out

    def _spaces(self, avals: Sequence[ShapedArray], count: int) -> list[Space | None]:
        """Return in which memory each result is, where some operand is in the host's."""
        # An update stays where the updated array is, wherever indices and values are.
        if self.kind is Kind.INDEXING and self.update is not None:
            avals = avals[:1]
        # Operands carried along by a sort keep their layout.
        elif self.kind is Kind.SORT and len(avals) == count:
            return [space_in(a) for a in avals]
        return [space_of_results(self.name, avals)] * count

    def has_text(self, avals: Sequence[ShapedArray], params: dict) -> bool:
        """Whether there is CUDA text for elements of these avals."""
        if not callable(self.cuda):
            return isinstance(self.cuda, str | Sequence)
        try:
            self.cuda(avals, **params)
        except TypeError:
            return False
        return True

    def numpy_function(self, avals: Sequence[ShapedArray], params: dict) -> Callable[..., Any]:
        """Return the NumPy callable for these avals, with the params bound to it."""
        # The picked function knows dtypes and params, so it is tried before any general one.
        if self.numpy_pick is not None:
            return self.numpy_pick(avals, **params)
        if isinstance(self.numpy, Sentinel):
            raise MissingRuleError(
                f"Evaluation rule for primitive '{self.name}' not found: {self.numpy.why}"
            )
        return functools.partial(self.numpy, **params) if params else self.numpy

    def __repr__(self) -> str:
        return self.name

    # A primitive has one instance in a process: programs compare primitives with `is`.
    def __reduce__(self):
        return _by_name, (self.name,)

    def __copy__(self) -> Primitive:
        """Another primitive with the same rules, which may get a name and rules of its own."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    # An equation that is copied keeps its primitive (core/graph.py).
    def __deepcopy__(self, memo: dict) -> Primitive:
        return self.__copy__()

    # Rules given after construction, as JAX's primitives allow.
    def def_impl(self, function):
        """Set the NumPy rule after construction; return it, so that it works as a decorator."""
        self.numpy = function
        return function

    def def_abstract_eval(self, function):
        """Set the shape and dtype rule after construction; return it, as decorators do."""
        self.aval = function
        return function


def _by_name(name: str) -> Primitive:
    return registry[name]
