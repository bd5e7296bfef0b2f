"""Mutable references among arguments: functions of them as functions of their values.

Floor 3. In: functions, and arguments with Refs among them. Out: functions and arguments without.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from gpuarray.primitives.define import do
from gpuarray.pytree import tree
from gpuarray.transforms.references import Ref, ReturnedReference, holding, values_of, write_back
from gpuarray.transforms.tracing import ReferenceAccessed, ReferenceKept
from gpuarray.util import Struct, name_of, update_wrapper, wraps


class Slot(Struct):
    """Placeholder for the i-th Ref among arguments: a static part of their structure."""

    number: int
    kind: str | None = None


tree.register_static(Slot)


def taken_out(
    args: Any, purpose: str = "", names: Callable[[], Sequence[str]] | None = None
) -> tuple[list[Ref], Any]:
    """Return the Refs among arguments, and the arguments with Slots in their places.

    Parameters
    ----------
    purpose :
        The name of the function that takes the arguments, for messages.
    names :
        Function that returns a name for each leaf.
    """
    leaves, spec = tree.flatten_raw(args)
    places: dict[int, int] = {}  # the leaf of each Ref, by its id
    refs: list[Ref] = []
    for i, x in enumerate(leaves):
        if isinstance(x, Ref):
            # A Ref passed twice would have two values inside, and one place to write them to.
            first = places.setdefault(id(x), i)
            if first != i:
                called = tree.leaf_paths(args) if names is None else names()
                raise ValueError(
                    "only one reference to a mutable array may be passed as an argument to a "
                    f"function, but one of type {x.type}{purpose and ' for ' + purpose} appeared "
                    f"at both {called[first]} and {called[i]}. Pass it once."
                )
            leaves[i] = Slot(len(refs), x.kind)
            refs.append(x)
    return refs, tree.unflatten_raw(spec, leaves)


def check_aliases(
    functions: Sequence[Callable], args: Any, purpose: str, names: Callable[[], Sequence[str]]
) -> None:
    """Raise ValueError for a Ref that is passed twice, or passed and closed over by a function."""
    leaves = tree.flatten_raw(args)[0]
    if any(isinstance(x, Ref) for x in leaves):
        refs, _ = taken_out(args, purpose, names)
        for fun in functions:
            # Only closures are examined: values that a global refers to may not be read.
            cells = inspect.getclosurevars(fun).nonlocals if inspect.isfunction(fun) else {}
            for ref in refs:
                if any(x is ref for x in cells.values()):
                    _refuse_both(fun, ref, leaves, names)


def _refuse_both(
    fun: Callable, ref: Ref, leaves: Sequence[Any], names: Callable[[], Sequence[str]]
) -> NoReturn:
    called = next(n for n, x in zip(names(), leaves, strict=True) if x is ref)
    name = name_of(fun, "the function")
    raise ValueError(
        f"when tracing {name}, a mutable array reference of type {ref.type} was both closed over "
        f"and passed as the argument {called}. Use one of the two."
    )


def _is_slot(x: Any) -> bool:
    return isinstance(x, Slot)


def _put_in(args: Any, refs: Sequence[Any]) -> Any:
    """Return arguments with Refs in the places of their Slots."""
    fill = lambda x: refs[x.number] if _is_slot(x) else x
    return tree.tree_map(fill, args, is_leaf=_is_slot)


def whole(args: Any) -> Any:
    """Return arguments unchanged: the second result of `emptied` if there is nothing to put
    back.
    """
    return args


class RefArguments:
    """Refs among flat arguments of a function with rules, which gets their values in their places.

    Function and rules get the Refs themselves, which hold the values while one of them runs.
    """

    def __init__(self, leaves: Sequence[Any]):
        self.at = [i for i, x in enumerate(leaves) if isinstance(x, Ref)]
        self.refs: list[Ref] = [leaves[i] for i in self.at]
        for ref in self.refs:
            ref.check_kept()
        #: Which of them were written to, in any run.
        self.written = [False] * len(self.refs)

    def emptied(self, leaves: Sequence[Any]) -> list:
        """Return leaves with values in the places of Refs."""
        return [x.get() if isinstance(x, Ref) else x for x in leaves]

    def call(self, fun: Callable[[list], Any], leaves: Sequence[Any]) -> tuple[list, Any]:
        """Return the new values of the Refs, and `fun(leaves)` with them in their places."""
        given = list(leaves)
        # The values come in place of the Refs, which are restored for `fun`.
        values = [given[i] for i in self.at]
        for i, ref in zip(self.at, self.refs, strict=True):
            given[i] = ref
        with holding(self.refs, values):
            result = fun(given)
            new = [ref._value for ref in self.refs]
        changed = [a is not b for a, b in zip(new, values, strict=True)]
        self.written = [a or b for a, b in zip(self.written, changed, strict=True)]
        return new, result

    def write_back(self, values: Sequence[Any]) -> None:
        """Store new values. A rule gives no derivative of them."""
        for ref, value, written in zip(self.refs, values, self.written, strict=True):
            if written:
                ref.put(do.stop_gradient(value))


def with_values(
    fun: Callable, refs: Sequence[Ref], values: Sequence[Any], *args: Any
) -> tuple[list, Any]:
    """Call `fun` with Refs in the places of Slots that hold these values: new values, result.

    The Refs that it gets are those of the caller: a function may close over them as well.
    """
    with holding(refs, values):
        result = fun(*_put_in(args, refs))
        return [ref._value for ref in refs], result


def emptied(
    args: Any, purpose: str = "", names: Callable[[], Sequence[str]] | None = None
) -> tuple[Callable[[Any], Any], Any]:
    """Return arguments with None in place of Refs, and the function that puts them back."""
    if not any(isinstance(x, Ref) for x in tree.flatten_raw(args)[0]):
        return whole, args
    refs, slotted = taken_out(args, purpose, names)
    # The structure with Slots in it: leaves that are put in later come between them.
    spec = tree.flatten_raw(slotted)[1]

    def refill(given: Any) -> Any:
        return _put_in(tree.unflatten_raw(spec, tree.flatten_raw(given)[0]), refs)

    drop = lambda x: None if _is_slot(x) else x
    return refill, tree.tree_map(drop, slotted, is_leaf=_is_slot)


def closed_over(
    functions: Sequence[Callable],
    args: tuple,
    purpose: str,
    names: Callable[[], Sequence[str]] | None = None,
) -> tuple[Sequence[Callable], tuple]:
    """Return functions closed over the Refs among their arguments, and arguments without them."""
    refill, rest = emptied(args, purpose, names)
    if rest is args:
        return functions, args

    def closed(fun: Callable) -> Callable:
        return update_wrapper(lambda *given: fun(*refill(given)), fun)

    return [closed(f) for f in functions], rest


def without_references(
    fun: Callable,
    closed_over: Sequence[Ref],
    signature: inspect.Signature | None,
    kept: Mapping[int, Ref],
    calls: Referring,
) -> Callable:
    """Return `fun` as a function of values of Refs and of arguments with Slots.

    It returns the new values (None where it only reads), and the result. `kept` are numbers of
    passed Refs that it receives themselves; others represent those of each of the `calls`.
    """

    closed_over, kept = list(closed_over), dict(kept)

    @wraps(fun)
    def pure(values: Sequence[Any], *args: Any, **kwargs: Any) -> tuple[list, Any]:
        # Values of passed Refs come first, then those of Refs closed over.
        count = len(values) - len(closed_over)
        slots = [x for x in tree.tree_leaves((args, kwargs), _is_slot) if _is_slot(x)]
        kinds = {x.number: x.kind for x in slots}
        # Refs of the trace that stages this function.
        passed = [
            kept[i] if i in kept else Ref(v, kinds[i], (calls, i))
            for i, v in enumerate(values[:count])
        ]
        args, kwargs = _put_in((args, kwargs), passed)
        # The caller's own Refs hold their values while this runs.
        held = [values[i] for i in kept]
        with holding([*kept.values(), *closed_over], [*held, *values[count:]]):
            result = fun(*args, **kwargs)
            new = [ref._value for ref in (*passed, *closed_over)]
        # Unchanged values are not written back.
        return [None if a is b else a for a, b in zip(new, values, strict=True)], result

    # jit looks at the signature for names of arguments: one more comes first.
    rest = inspect.signature(lambda *args, **kwargs: None) if signature is None else signature
    first = inspect.Parameter("references", inspect.Parameter.POSITIONAL_ONLY)
    vars(pure)["__signature__"] = rest.replace(parameters=[first, *rest.parameters.values()])
    return pure


class Referring:
    """Calls of a function that accesses Refs, through a function without side effects.

    Parameters
    ----------
    statics :
        Numbers and names of arguments that are passed unchanged.
    jitted :
        Makes the compiled function of the one without side effects; it lets `ReferenceAccessed`
        pass.
    touched :
        Refs from outside that the function is known to access.
    names :
        Gives a name for each leaf of (signature, arguments by position and by name, static ones).
    """

    def __init__(
        self,
        fun: Callable,
        signature: inspect.Signature | None,
        statics: tuple[Sequence[int], Sequence[str]],
        jitted: Callable[[Callable], Callable],
        touched: list[Ref],
        names: Callable[..., Sequence[str]],
    ):
        self.names = names
        self.fun, self.signature, self.statics, self.jitted = fun, signature, statics, jitted
        self.touched = touched
        # Refs, by number or not, and the function for them.
        self.made: tuple[list[Ref], dict[int, Ref], Callable] | None = None
        self.kept: set[int] = set()  # numbers of passed Refs that the function keeps

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        call = lambda jitted, given, named: jitted(*given, **named)
        (values, result), refs = self.apply(args, kwargs, call)
        write_back(refs, values)
        return result

    def apply(self, args: tuple, kwargs: dict, use: Callable[..., Any]) -> tuple[Any, list[Ref]]:
        """Return `use(jitted, args, kwargs)`, values of Refs the first argument, and the Refs."""
        nums, names = self.statics
        fixed = {n if n >= 0 else len(args) + n for n in nums}
        # Static arguments are not changed: only the others are searched for Refs.
        dynamic = {i: a for i, a in enumerate(args) if i not in fixed}
        named = {k: v for k, v in kwargs.items() if k not in names}
        given = (*dynamic.values(),), named, frozenset(fixed)
        called = lambda: self.names(self.signature, *given)
        leaves = tree.flatten_raw((dynamic, named))[0]
        passed, (dynamic, named) = taken_out((dynamic, named), "jit", called)
        args = tuple(dynamic.get(i, a) for i, a in enumerate(args))
        # References of traces that have ended cannot be accessed again.
        self.touched = [ref for ref in self.touched if ref.is_alive()]
        # As a rule the first round finds all Refs that the function accesses.
        while True:
            self._check_distinct(passed, leaves, called)
            refs = [*passed, *self.touched]
            held = values_of(refs)
            # Made again only if another Ref has appeared.
            kept = {i: passed[i] for i in self.kept if i < len(passed)}
            if self.made is None or self.made[:2] != (self.touched, kept):
                pure = without_references(self.fun, self.touched, self.signature, kept, self)
                self.made = list(self.touched), kept, self.jitted(pure)
            try:
                return use(self.made[2], (held, *args), kwargs | named), refs
            # The function accesses Refs from outside: traced again, with their values as arguments.
            except ReferenceAccessed as touched:
                self.touched += touched.refs
            except ReturnedReference as error:
                raise self._explained(error, leaves, called) from None
            # A rule for cotangents keeps a Ref of ours: traced again with the caller's own in its
            # place.
            except ReferenceKept as signal:
                calls, number = signal.ref._passed
                if calls is not self:
                    raise
                self.kept.add(number)

    def _explained(
        self, error: ReturnedReference, leaves: list, names: Callable[[], Sequence[str]]
    ) -> ValueError:
        """The error for a Ref that is returned, with the argument that it was passed as."""
        calls, number = error.ref._passed or (None, 0)
        if calls is not self:
            return error
        called = [n for n, x in zip(names(), leaves, strict=True) if isinstance(x, Ref)][number]
        return ValueError(
            f"{error}\n\nThe returned reference was passed in as the argument {called}."
        )

    def _check_distinct(
        self, passed: list[Ref], leaves: list, names: Callable[[], Sequence[str]]
    ) -> None:
        """Refuse a Ref that is passed and closed over: it would have two values."""
        for ref in passed:
            if any(ref is other for other in self.touched):
                _refuse_both(self.fun, ref, leaves, names)
