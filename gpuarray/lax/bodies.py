"""Functions given to `cond`, `scan` and the like as Graphs, and errors where they do not fit.

Floor 6. In: Python functions of pytrees. Out: flat Graphs whose constants are leading inputs, or a
TypeError that names the function, the part of the result and the two types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.control.graph_edits import opened
from gpuarray.core import promotion
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.layout import reconciled
from gpuarray.core.value import Array
from gpuarray.errors import ShardingTypeError
from gpuarray.functions.outputs import checked_output
from gpuarray.lax.convert import convert
from gpuarray.primitives.collective.ops import pcast_p
from gpuarray.pytree import tree
from gpuarray.transforms.trace_cache import remembered
from gpuarray.transforms.tracing import TracedFunction, stage_aux


class Body(NamedTuple):
    """A function as a flat Graph, its constants still inside, and how its result is built."""

    graph: Graph
    out_spec: Any
    info: TracedFunction

    @property
    def opened(self) -> Graph:
        return derived(self.graph, "opened", lambda: opened(self.graph))


#: Purposes whose callers pass on the mutable references a body touches (`references.threading`).
_THREADED = ("cond", "switch", "scan", "while_loop", "while_cond")


def derived(graph: Graph, key: Any, make: Callable[[], Any]) -> Any:
    """Something derived from a Graph, computed once and kept with it."""
    found = graph.derived.get(key)
    if found is None:
        found = graph.derived[key] = make()
    return found


def check_operands(leaves: Sequence[Any]) -> list[Any]:
    """Leaves as bindable values; TypeError for anything that is not an array."""
    # The usual types are recognised without a function call.
    return [x if isinstance(x, (Array, float, int)) else _operand(x) for x in leaves]


def _operand(x: Any) -> Any:
    if hasattr(x, "__jax_array__"):
        x = x.__jax_array__()
    try:
        aval_of(x)
    except TypeError:
        raise TypeError(
            f"Argument {x!r} of type {type(x)} is not a valid JAX type: expected arrays, Python "
            "scalars, or containers of them. Other values reach the function by closing over them."
        ) from None
    # A NumPy value becomes an Array, so that the body closes over nothing mutable.
    return traces.immutable(x)


def stage_body(
    fun: Callable,
    purpose: str,
    spec: Any,
    avals: Sequence[ShapedArray],
    shown: Callable | None = None,
    owner: Callable | None = None,
    kind: str = "",
) -> Body:
    """Trace `fun(*args)`, its arguments of the structure `spec`; `shown` is the user's function.

    Parameters
    ----------
    owner :
        A function that, with `kind` and the other arguments, determines `fun`. While it lives,
        `fun` is not traced again for the same arguments.
    """
    # Cached for the user's function: an inner loop is traced once, not once for each step.
    if owner is not None:
        key = (kind or purpose, spec, tuple(avals))
        return remembered(
            owner,
            key,
            lambda: stage_body(fun, purpose, spec, avals, shown),
            lambda body: body.graph.consts,
        )
    args = tree.unflatten(spec, avals)
    info = TracedFunction(shown or fun, purpose, argument_names(shown or fun, args))

    # Tracing sees only leaves; the structure of the result is returned separately.
    def flat(*tracers):
        result = fun(*tree.unflatten(spec, tracers))
        leaves, out_spec = tree.flatten(result)
        return [checked_output(x, result, i, info) for i, x in enumerate(leaves)], out_spec

    graph, out_spec = stage_aux(flat, avals, info, threads=purpose in _THREADED)
    return Body(graph, out_spec, info)


def argument_names(fun: Callable, args: Sequence[Any]) -> list[str]:
    """A name for every leaf of the arguments, for messages: the parameter's, and the path in it."""
    # Without inspect.signature, which takes longer than a small trace.
    code = getattr(fun, "__code__", None)
    known = () if code is None else code.co_varnames[: code.co_argcount]
    names = []
    for i, arg in enumerate(args):
        name = known[i] if i < len(known) else f"args[{i}]"
        names += [name + path for path in tree.leaf_paths(arg)]
    return names


# ---- carries ----


def promoted(init: Sequence[Any], out_avals: Sequence[ShapedArray]) -> list[Any] | None:
    """Initial values with the types of the outputs, if those had to change; else None.

    A weak value takes the output's dtype. A value that is replicated over the devices of a
    `shard_map` is cast to varying if the output varies.
    """
    # A strong value of another dtype is the user's mistake.
    values = [_as_varying(_widened(x, out), out) for x, out in zip(init, out_avals, strict=True)]
    return values if any(new is not x for new, x in zip(values, init, strict=True)) else None


def _as_varying(x: Any, out: ShapedArray) -> Any:
    more = out.vma - aval_of(x).vma
    return pcast_p.bind(x, axis_name=tuple(sorted(more, key=str))) if more else x


def _widened(x: Any, out: ShapedArray) -> Any:
    """A weak value of another dtype than the output's as both promote to, strongly typed."""
    given = aval_of(x)
    if not given.weak_type or given.dtype == out.dtype:
        return x
    return convert(x, promotion.promote2(given.dtype, True, out.dtype, out.weak_type)[0], False)


def check_carry(
    what: str, name: str, in_spec: Any, in_avals: Sequence, out_spec: Any, out_avals: Sequence
) -> None:
    """Raise a TypeError if the body changes the structure or the types of the carry."""
    # Structure first: leaves can be compared only where it is the same.
    if in_spec != out_spec:
        listed = [
            f"The input carry {_component(name, path)} is a {one} but the corresponding component "
            f"of the carry output is a {two}, so {why}."
            for path, one, two, why in tree.equality_errors_treedef(in_spec, out_spec)
        ]
        raise TypeError(
            f"{what} function carry input and carry output must have the same pytree structure, "
            "but they differ:\n\n" + "\n".join(listed) + "\n\nRevise the function so that the "
            "carry output has the same pytree structure as the carry input."
        )
    if not any(map(_differ, in_avals, out_avals)):
        return
    paths = tree.leaf_paths(tree.unflatten(in_spec, in_avals))
    # Every leaf that differs, by its path. The first letter is missing, since a list starts it in
    # lower case.
    wrong = [
        f"he input carry {_component(name, path)} has type {a.str_short()} but the corresponding "
        f"output carry component has type {b.str_short()}, so {_difference(a, b)}"
        for path, a, b in zip(paths, in_avals, out_avals, strict=True)
        if _differ(a, b)
    ]
    raise TypeError(
        f"{what} function carry input and carry output must have equal types, but they differ:"
        f"\n\n{_listed(wrong, 'T', 't')}\n\nRevise the function so that all output types match "
        "the corresponding input types."
    )


def _component(name: str, path: Any) -> str:
    shown = path if isinstance(path, str) else tree.keystr(path)
    return f"component {name}{shown}" if shown else name


def _listed(reasons: list[str], first: str, other: str) -> str:
    # One reason continues the sentence, several become a list.
    if len(reasons) == 1:
        return first + reasons[0] + "."
    return ";\n".join(f"  * {other}{r}" for r in reasons) + "."


def _differ(a: ShapedArray, b: ShapedArray) -> bool:
    # Weak types may differ: they are made equal, where they can be, by `promoted`.
    return a.shape != b.shape or a.dtype != b.dtype or _lie_apart(a, b)


def _lie_apart(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether no layout fits both; an axis sharded by only one of them may be sharded in both."""
    try:
        reconciled(a.layout, b.layout)
    except (ShardingTypeError, TypeError):
        return True
    return False


def _difference(a: ShapedArray, b: ShapedArray) -> str:
    dtypes_differ = "the dtypes do not match" if a.dtype != b.dtype else ""
    shapes_differ = "the shapes do not match" if a.shape != b.shape else ""
    found = " and ".join(filter(None, (dtypes_differ, shapes_differ)))
    return found or "they lie otherwise: lay one as the other with sharding.reshard or device_put"


# ---- branches ----


def check_branches(what: str, bodies: Sequence[Body], names: Sequence[str]) -> None:
    """Raise a TypeError if the branches' results differ in structure or types."""
    # All are compared with the first: equality is transitive.
    first, one = bodies[0], names[0]
    for body, two in zip(bodies[1:], names[1:], strict=True):
        who = f"{one} is {first.info}\n{two} is {body.info}\n\n"
        if first.out_spec != body.out_spec:
            listed = [
                f"{one} output{_at(path)} is a {a} but {two} output{_at(path)} is a {b}, so {why}."
                for path, a, b, why in tree.equality_errors_treedef(first.out_spec, body.out_spec)
            ]
            raise TypeError(
                f"{what} branch outputs must have the same pytree structure, but they differ:\n\n"
                + who
                + "\n".join(listed)
                + f"\n\nRevise {one} and/or {two} so that they have the same pytree structure."
            )
        paths = tree.leaf_paths(tree.unflatten(first.out_spec, first.graph.out_avals))
        wrong = [
            f"he output of {one}{_at(path)} has type {a.str_short()} but the corresponding output "
            f"of {two} has type {b.str_short()}, so {_difference(a, b)}"
            for path, a, b in zip(paths, first.graph.out_avals, body.graph.out_avals, strict=True)
            if _differ(a, b)
        ]
        if wrong:
            raise TypeError(
                f"{what} branches must have equal output types but they differ.\n\n{who}"
                f"{_listed(wrong, 'T', 't')}\n\nRevise {one} and/or {two} so that all output types "
                "match."
            )


def _at(path: Any) -> str:
    shown = path if isinstance(path, str) else tree.keystr(path)
    return f" at path {shown}" if shown else ""


def first_argument(fun: Callable, default: str) -> str:
    """The name of a function's first parameter, used for the carry in messages."""
    code = getattr(fun, "__code__", None)
    if code is None or not code.co_argcount:
        return default
    return code.co_varnames[0]
