"""A Primitive: one operation, defined once, with every rule it has.

Floor 1. In: the rules an op's definition gives. Out: `bind`, which asks the innermost Trace. A rule
that an op does not have is an explicit `Sentinel`, never an absent attribute, so that a hole is
seen by a test
and not by a user.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuarray.core import trace
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import Fold
from gpuarray.core.rewrite import NO_REWRITE, Rewrite
from gpuarray.errors import MissingRuleError


class Kind(enum.Enum):
    """What the compiler may do with an op: fusability follows from this, never from a list of
    names.
    """

    POINTWISE = "pointwise"  # out[i] depends on in[i] alone
    REDUCTION = "reduction"  # P x R -> P
    VIEW = "view"  # an index map without guards: costs no kernel
    MOVEMENT = "movement"  # an index map with guards (pad, concatenate, dynamic_slice)
    GENERATOR = "generator"  # depends on the index alone (iota, random bits from a scalar key)
    INDEXING = "indexing"  # gather and scatter
    SCAN = "scan"  # the fold of an axis as far as each element, by `axis` and `reverse`
    SORT = "sort"  # elements put in order along an axis: `order`
    LIBRARY = "library"  # matmul, conv, fft, linalg: a step of its own
    CALL = "call"  # holds a Graph
    COLLECTIVE = "collective"  # talks to other devices

    @property
    def word(self) -> str:
        """The name people read: a scan or a sort that is no kernel is a library's step too."""
        return "library" if self in (Kind.SCAN, Kind.SORT) else self.value


class Sentinel:
    """A rule that is absent on purpose, and why."""

    __slots__ = ("name", "why")

    def __init__(self, name: str, why: str):
        self.name, self.why = name, why

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        return False


#: The rule belongs to a part of the library that is not there yet.
UNWRITTEN = Sentinel("UNWRITTEN", "this rule has not been written yet")
#: The op has no meaningful rule of that sort.
NOT_LINEAR = Sentinel("NOT_LINEAR", "the operation is not linear in this operand")
NOT_DIFFERENTIABLE = Sentinel("NOT_DIFFERENTIABLE", "the operation has no derivative")
#: The jvp of a linear op is the op itself.
LINEAR = Sentinel("LINEAR", "the operation is linear: its derivative is itself")
#: The jvp is that of the op's parts: of what `decompose` makes of it.
BY_PARTS = Sentinel("BY_PARTS", "the derivative is that of the operation's parts")


@dataclass(frozen=True)
class Order:
    """How a sort orders its operands, all of one shape: the names of the params that say so.

    axis: along which axis elements are put in order
    keys: how many operands, from the first on, decide the order; None: the first alone
    takes: how many elements are kept: the largest in total order, with their positions as the
    second result; None: all are kept, by value
    """

    axis: str
    keys: str | None = None
    takes: str | None = None


#: Every primitive by name, in order of definition. Meta tests walk it.
registry: dict[str, Primitive] = {}


class Primitive:
    """One operation with all its rules.

    aval(*avals, **params) -> ShapedArray (a list of them when `multiple_results`): shape and dtype
    rule, raises on misuse numpy(*arrays, **params) -> array(s): the reference implementation; a
    `np.ufunc` where one does
    the whole job numpy_pick(avals, **params) -> callable: instead of `numpy`, when the best
    function depends on
    dtypes or params inplace(avals, **params) -> callable: like `numpy_pick`, but the callable may
    overwrite its
    first operand and return it
    cuda: how the op is written in CUDA C++: a template such as "ga_sin({0})", one for each result,
    or
    `cuda(avals, **params)` that returns it. {0}, {1}, ... are the operands (16-bit floats come as
    float), {T} is the type of the result as a value, {M} in memory
    fold: how reductions, scans and windows fold elements (core/fold.py)
    order: for sorts, what is put in order
    jvp, transpose, batch: rules of the transforms
    assemble(avals, compile, **params) -> callable: for ops that hold Graphs; `compile` makes a
    Graph a function
        of buffers that returns a list of buffers
    decompose(*args, **params): the op in terms of other primitives, for drivers that lack it
    inline(eqn) -> Graph: for calls that mean no more than a Graph, that Graph, which compilers
        write out in the call's place; None where this call is to stay
    flow(eqn) -> Loop or Choice: for loops and branches, how they run their Graphs (core/flow.py)
    show(params) -> params: which params a printed graph displays
    view: for views with one result, a `ViewRule` (core/index.py): which index map it is
    element: an `ElementRule` (core/element_rules.py): how an element of the results is made where
        it is read, and what that takes; None: as its kind says, a Sentinel: it cannot be, and why
    update: an `UpdateRule`, for ops that change a part of their first operand
    weight: cost of one element in plain multiply-adds, for the fusion cost model
    effect: whether running it does more than make its results, so that it is never dropped or
    merged
    rewrite: how compilers may write its equations in other ways (core/rewrite.py)
    work(avals, **params): multiply-adds of the whole, where weight times elements is not it
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
        weight: float = 1.0,
        work: Callable[..., float] | None = None,
        rewrite: Rewrite = NO_REWRITE,
        multiple_results: bool = False,
        effect: bool = False,
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
        self.weight = weight
        self.work = work
        self.rewrite = rewrite
        self.multiple_results = multiple_results
        self.effect = effect
        if register:
            if name in registry:
                raise ValueError(f"a primitive named {name!r} is already defined")
            registry[name] = self

    @property
    def plain_fold(self) -> Any:
        """The ufunc of which a reduction is the fold of its elements as they are, or None."""
        return None if self.fold is None else self.fold.plain_ufunc

    @property
    def has_fold(self) -> bool:
        """Whether there is a Fold, each part of which has CUDA text."""
        if self.fold is None:
            return False
        parts = self.fold.lift, self.fold.merge, self.fold.finish
        rules = (p.cuda if isinstance(p, Primitive) else p for p in parts)
        return not any(isinstance(rule, Sentinel) for rule in rules)

    def bind(self, *args, **params):
        """Apply the op to values: the innermost Trace decides what that means."""
        return trace.state.trace.process(self, args, params)

    def out_avals(self, avals: Sequence[ShapedArray], params: dict) -> list[ShapedArray]:
        """The avals of the results, as a list whatever `multiple_results` says."""
        out = self.aval(*avals, **params)  # pyright: ignore[reportCallIssue]
        return list(out) if self.multiple_results else [out]

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
        """The NumPy callable for these avals and params, with the params already in it."""
        if self.numpy_pick is not None:
            return self.numpy_pick(avals, **params)
        if isinstance(self.numpy, Sentinel):
            raise MissingRuleError(
                f"Evaluation rule for '{self.name}' not implemented: {self.numpy.why}"
            )
        return functools.partial(self.numpy, **params) if params else self.numpy

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return _by_name, (self.name,)

    # The incremental way of the ecosystem: rules given after the fact.
    def def_impl(self, function):
        """Give the NumPy rule after construction; returns it, so it works as a decorator."""
        self.numpy = function
        return function

    def def_abstract_eval(self, function):
        """Give the shape and dtype rule after construction; returns it, as decorators do."""
        self.aval = function
        return function


def _by_name(name: str) -> Primitive:
    return registry[name]
