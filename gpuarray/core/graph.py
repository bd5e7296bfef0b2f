"""The Graph: a typed list of equations in SSA form, the one IR of the library.

It is the representation that `jit`, lazy eager execution, `make_jaxpr`, differentiation and export
work on. Floor 1. In: equations recorded by a trace. Out: a graph that can be verified, evaluated,
hashed by structure and printed. Nothing here recurses over equations: chains of tens of thousands
of operations are normal.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import sites, util
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.debug_info import DebugInfo
from gpuarray.core.effects import Effect
from gpuarray.core.layout import unclear_is_whole
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.trace import array_of, immutable


class Var:
    """A value of a Graph, defined once. It gets a name when it is printed."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval.str_short(short_dtypes=True)})"


class Literal:
    """A scalar constant written into an equation."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray | None = None):
        self.val = val
        self.aval = aval_of(val) if aval is None else aval

    @property
    def operand(self) -> Any:
        """The value to bind, of the type it was recorded with, whatever the settings are now."""
        # A weakly typed array of one element is recorded as a NumPy scalar, which is strong.
        now = aval_of(self.val)
        if now.dtype == self.aval.dtype and now.weak_type == self.aval.weak_type:
            return self.val
        return array_of(self.val, self.aval)

    @property
    def key(self) -> tuple:
        """The literal by its bits: unlike `==`, nan equals itself and -0.0 differs from 0.0."""
        return ("lit", np.asarray(self.val, storage_dtype(self.aval)).tobytes(), self.aval)

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short(short_dtypes=True)}"


Atom = Var | Literal


def storage_dtype(aval: ShapedArray):
    """Return the NumPy dtype that stores values of this aval (keys are stored as integers)."""
    return getattr(aval.dtype, "storage", aval.dtype)


class SourceInfo(NamedTuple):
    """Origin of an equation: the user's line and the names of the scopes around it."""

    site: Any
    name_stack: str

    @property
    def traceback(self) -> Any:
        """The user's line, as interpreters of users' hand it to `source_info_util.user_context`."""
        return self.site


class EqnContext:
    """Settings of one equation: empty, since its params contain everything."""

    @property
    def manager(self) -> contextlib.AbstractContextManager:
        """The context in which an interpreter of a user's binds the equation."""
        return contextlib.nullcontext()


class Eqn:
    """One equation: `outvars = primitive[params](invars)`, and the user's line that made it."""

    __slots__ = ("invars", "outvars", "params", "primitive", "site")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        params: dict[str, Any],
        site: Any = None,
    ):
        self.primitive = primitive
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.params = params
        self.site = site

    @property
    def source_info(self) -> SourceInfo:
        """The user's line and the names of the scopes around it."""
        return SourceInfo(self.site, "" if self.site is None else self.site.scope)

    @property
    def effects(self) -> frozenset[Effect]:
        """Its side effects, and those in the Graphs it holds."""
        return frozenset(map(_effect, effectful(self)))

    @property
    def ctx(self) -> EqnContext:
        """The settings under which the equation is evaluated."""
        return EqnContext()

    def replace(self, **changes) -> Eqn:
        """Return the same equation with some fields changed."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return Eqn(**(fields | changes))

    def __deepcopy__(self, memo: dict) -> Eqn:
        memo[id(self.primitive)] = self.primitive  # programs compare primitives with `is`
        fields = [copy.deepcopy(getattr(self, name), memo) for name in self.__slots__]
        made = memo[id(self)] = Eqn(**dict(zip(self.__slots__, fields, strict=True)))
        return made

    def __repr__(self) -> str:
        return f"{self.primitive.name}({', '.join(map(repr, self.invars))})"


class _Derived(dict):
    """Results derived from a Graph, at most 64: a loop over sizes would make ever more."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        # Dicts keep insertion order: the first key is the oldest.
        if len(self) >= 64:
            self.pop(next(iter(self)), None)
        super().__setitem__(key, value)


class Graph:
    """`{ lambda constvars ; invars. let eqns in outvars }`, with the values of the constants."""

    __slots__ = (
        "_key",
        "consts",
        "constvars",
        "debug_name",
        "derived",
        "eqns",
        "invars",
        "origin",
        "outvars",
    )

    def __init__(
        self,
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Eqn],
        constvars: Sequence[Var] = (),
        consts: Sequence[Any] = (),
        debug_name: str = "",
    ):
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.eqns = list(eqns)
        self.constvars = list(constvars)
        self.consts = list(consts)
        self.debug_name = debug_name
        # Made on first use: most graphs are never hashed.
        self._key: tuple | None = None
        self.derived = _Derived()  # memo of transformed versions
        # A DebugInfo, or an object that has one: the function that was traced.
        self.origin: Any = None

    # Libraries that expect a closed graph read `.jaxpr`, `.literals` and the avals.
    @property
    def jaxpr(self) -> Graph:
        return self

    @property
    def literals(self) -> list[Any]:
        return self.consts

    def with_consts(self, consts: Sequence[Any]) -> Graph:
        """Return the same equations with other values for the constants."""
        return self.replace(consts=consts)

    def replace(self, **changes: Any) -> Graph:
        """Return the same Graph with some fields changed; `jaxpr` gives all but the constants.

        `effects` are taken for programs that give them: a Graph has those of its equations.
        """
        changes.pop("effects", None)
        base = changes.pop("jaxpr", self)
        info = changes.pop("debug_info", base.origin)
        names = ("invars", "outvars", "eqns", "constvars", "consts", "debug_name")
        fields: dict[str, Any] = {name: getattr(base, name) for name in names}
        fields.update({"consts": self.consts} | changes)
        made = Graph(**fields)
        made.origin = info
        return made

    @property
    def effects(self) -> frozenset[Effect]:
        """The side effects of its equations and the Graphs they hold."""
        return frozenset().union(*(eqn.effects for eqn in self.eqns))

    @property
    def debug_info(self) -> DebugInfo:
        """The function that it was traced from: its place, and a name for each input."""
        if self.origin is None:  # made from another Graph: only the name is known
            return DebugInfo("", self.debug_name, None)
        return getattr(self.origin, "debug_info", self.origin)

    def pretty_print(self, *, source_info: bool = False, name_stack: bool = False, **_: Any) -> str:
        """Return the text that printing shows; `source_info` adds the users' lines, `name_stack`
        the names of scopes.

        Other options of JAX, such as `use_color`, are accepted and have no effect.
        """
        assert _printer[0] is not None
        return _printer[0](self, source_info=source_info, name_stack=name_stack)

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    def __repr__(self) -> str:
        from_printer = _printer[0]
        return from_printer(self) if from_printer else object.__repr__(self)

    @property
    def key(self) -> tuple:
        """The structure as a hashable tuple, equal for graphs that compute the same way.

        Constants count by identity.
        """
        if self._key is None:
            # Variables are numbered in order of definition, so that names do not matter.
            number: dict[Var, int] = {}
            for v in (*self.constvars, *self.invars):
                number[v] = len(number)
            rows = []
            for eqn in self.eqns:
                ins = tuple(a.key if isinstance(a, Literal) else number[a] for a in eqn.invars)
                for v in eqn.outvars:
                    number[v] = len(number)
                rows.append((eqn.primitive, ins, params_key(eqn.params), len(eqn.outvars)))
            outs = tuple(a.key if isinstance(a, Literal) else number[a] for a in self.outvars)
            avals = tuple(v.aval for v in (*self.constvars, *self.invars))
            # The constants themselves, not their ids: while they are held, no id is used again.
            consts = tuple(_Identity(c) for c in self.consts)
            self._key = (avals, len(self.constvars), tuple(rows), outs, consts)
        return self._key

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, Graph) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


class _Identity:
    """A constant that hashes and compares by identity, and is kept alive."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return id(self.value)

    def __eq__(self, other):
        return isinstance(other, _Identity) and self.value is other.value


# The printer (core/printing.py) imports Graph, so it is installed here instead of being imported.
_printer: list[Callable[..., str] | None] = [None]


def set_printer(function: Callable[..., str]) -> None:
    _printer[0] = function


def params_key(params: dict[str, Any]) -> tuple:
    """Return parameters as a hashable tuple."""
    # Sorted: the order in which params were given does not matter.
    if not params:
        return ()
    return tuple([(name, _value_key(params[name])) for name in sorted(params)])


#: Types of most parameters: they are their own keys.
_PLAIN = frozenset({int, str, type(None)})


def _value_key(value):
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return ("tuple", *map(_value_key, value))
    # By value: an array in params is part of the program.
    if isinstance(value, np.ndarray):
        return ("ndarray", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return (value.dtype.str, value.tobytes())
    if isinstance(value, float):
        return ("float", value.hex())  # nan equals itself, -0.0 is not 0.0
    if isinstance(value, complex):
        return ("complex", value.real.hex(), value.imag.hex())
    # The type counts: a list and a tuple print differently.
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_value_key, value))
    if isinstance(value, dict):
        return params_key(value)
    if isinstance(value, bool):
        return ("bool", value)  # True == 1 in Python, not here
    return value


def stored_constants(graph: Graph) -> list[np.ndarray]:
    """Return the values of a graph's constants in stored form: for keys, their words."""
    # An Array refuses to be made a NumPy array if it holds keys.
    return [np.asarray(getattr(c, "_value", c)) for c in graph.consts]


def is_view(eqn: Eqn) -> bool:
    """Whether an equation is one index map of its operand, which its readers can apply."""
    return eqn.primitive.kind is Kind.VIEW and not eqn.primitive.multiple_results


def subgraphs(eqn: Eqn) -> Iterator[Graph]:
    """Yield the Graphs that an equation holds in its parameters."""
    return graphs_in(eqn.params)


def graphs_in(params: dict[str, Any]) -> Iterator[Graph]:
    """Yield the Graphs among parameters."""
    for value in params.values():
        if isinstance(value, Graph):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (item for item in value if isinstance(item, Graph))


def called(eqn: Eqn) -> Graph | None:
    """Return the Graph that an equation applies once to its operands, if it is such a call."""
    # Loops and branches have a `flow` rule; a call without one applies its Graph just once.
    if eqn.primitive.kind is not Kind.CALL or eqn.primitive.flow is not None:
        return None
    # The operands of a custom rule, for example, are not those of its Graph one by one.
    body = eqn.params.get("jaxpr")
    if not isinstance(body, Graph) or len(body.invars) != len(eqn.invars):
        return None
    return body if len(body.outvars) == len(eqn.outvars) else None


def is_pure_structure(graph: Graph) -> bool:
    """Whether a Graph holds no array and no function that captures one: it may be kept for long."""
    if graph.consts:
        return False
    for eqn in graph.eqns:
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, Graph):
                    if not is_pure_structure(item):
                        return False
                elif callable(item) and util.captures(item):
                    return False
    return True


def scopes(graph: Graph) -> tuple[str, ...]:
    """Return the scope names of all equations, inner Graphs' too; () if there is none."""
    found = graph.derived.get("scopes")
    if found is None:
        names: list[str] = []
        for eqn in graph.eqns:
            names.append(eqn.source_info.name_stack)
            for inner in subgraphs(eqn):
                names += scopes(inner)
        found = graph.derived["scopes"] = tuple(names) if any(names) else ()
    return found


def effectful(eqn: Eqn) -> Iterator[Eqn]:
    """Yield the equations with side effects: this one, or those in the Graphs it holds."""
    if eqn.primitive.effect:
        yield eqn
    elif eqn.primitive.kind is Kind.CALL:
        for graph in subgraphs(eqn):
            for inner in graph.eqns:
                yield from effectful(inner)


def _effect(eqn: Eqn) -> Effect:
    named = eqn.primitive.effect
    return named(**eqn.params) if callable(named) else Effect()


def has_effect(eqn: Eqn) -> bool:
    """Whether an equation, or one in a Graph it holds, has side effects."""
    return next(effectful(eqn), None) is not None


def talks(eqn: Eqn) -> bool:
    """Whether an equation is a collective, or holds one."""
    kind = eqn.primitive.kind
    return kind is Kind.COLLECTIVE or (
        kind is Kind.CALL and any(map(has_exchanges, subgraphs(eqn)))
    )


def has_exchanges(graph: Graph) -> bool:
    """Whether a Graph holds a collective, at any depth."""
    found = graph.derived.get("talks")
    if found is None:
        found = graph.derived["talks"] = any(map(talks, graph.eqns))
    return found


def verify(graph: Graph) -> None:
    """Check the laws of the IR.

    - Every variable is defined once, and before it is used.
    - Every aval is that of the primitive's rule.
    """
    defined: set[Var] = set()

    def define(v: Var):
        if v in defined:
            raise ValueError(f"variable {v!r} is defined twice")
        defined.add(v)

    if len(graph.constvars) != len(graph.consts):
        raise ValueError(f"{len(graph.constvars)} constvars but {len(graph.consts)} constants")
    for v in (*graph.constvars, *graph.invars):
        define(v)
    for index, eqn in enumerate(graph.eqns):
        where = f"equation {index} ({eqn.primitive.name})"
        for a in eqn.invars:
            if isinstance(a, Var) and a not in defined:
                raise ValueError(f"{where} reads {a!r} before it is defined")
        # The rule also checks params and operand dtypes.
        with unclear_is_whole():  # a user's argument may have determined the layout of results
            expected = eqn.primitive.out_avals([a.aval for a in eqn.invars], eqn.params)
        found = [v.aval for v in eqn.outvars]
        for want, have in zip(expected, found, strict=True):
            # Weak types may differ: rewrites do not keep them.
            if (want.shape, want.dtype) != (have.shape, have.dtype):
                raise ValueError(f"{where} has result {have}, but its rule says {want}")
        for v in eqn.outvars:
            define(v)
        for sub in subgraphs(eqn):
            verify(sub)
    for a in graph.outvars:
        if isinstance(a, Var) and a not in defined:
            raise ValueError(f"output {a!r} is never defined")


@sites.replays
def evaluate(graph: Graph, *args) -> list[Any]:
    """Run a Graph by binding its equations one after another in the current trace."""
    env: dict[Var, Any] = dict(zip(graph.constvars, graph.consts, strict=True))
    env.update(zip(graph.invars, args, strict=True))
    last_use = last_uses(graph)
    before = sites.replaying.site
    try:
        # Any refusal was already raised when the Graph was made.
        with unclear_is_whole():
            for index, eqn in enumerate(graph.eqns):
                sites.replaying.site = eqn.site
                bind(eqn, env)
                for v in last_use.get(index, ()):
                    env.pop(v, None)  # release memory after the last use
    finally:
        sites.replaying.site = before
    return [a.operand if isinstance(a, Literal) else env[a] for a in graph.outvars]


def eval_jaxpr(graph: Graph, consts: Sequence[Any], *args: Any, **_: Any) -> list[Any]:
    """Apply a Graph's equations to values, one after another.

    >>> import gpuarray as ga
    >>> graph = ga.make_jaxpr(lambda x: x * 2 + 1)(3.0)
    >>> ga.core.eval_jaxpr(graph.jaxpr, graph.consts, 4.0)
    [Array(9., dtype=float32, weak_type=True)]
    """
    own = graph.consts
    if len(consts) != len(graph.constvars):
        raise TypeError(
            f"a program with {len(graph.constvars)} constants takes as many values, got "
            f"{len(consts)}"
        )
    if len(consts) != len(own) or any(a is not b for a, b in zip(consts, own, strict=True)):
        graph = graph.with_consts(consts)
    return evaluate(graph, *map(immutable, args))


def bind(eqn: Eqn, env: dict[Var, Any]) -> None:
    """Bind one equation to the values of its variables, and store its results."""
    values = [a.operand if isinstance(a, Literal) else env[a] for a in eqn.invars]
    out = eqn.primitive.bind(*values, **eqn.params)
    env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))


def last_uses(graph: Graph) -> dict[int, list[Var]]:
    """Return, for each equation, the variables that are not read after it."""
    last: dict[Var, int] = {}
    for index, eqn in enumerate(graph.eqns):
        # A result that is never read ends with its own equation.
        for v in eqn.outvars:
            last[v] = index
        for a in eqn.invars:
            if isinstance(a, Var):
                last[a] = index
    # Outputs are needed to the end.
    for a in graph.outvars:
        if isinstance(a, Var):
            last.pop(a, None)
    by_eqn: dict[int, list[Var]] = {}
    for v, index in last.items():
        by_eqn.setdefault(index, []).append(v)
    return by_eqn
