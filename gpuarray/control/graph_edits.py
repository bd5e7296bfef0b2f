"""Edits of Graphs for branches and loops: open constants, fill in tangents, reorder.

Floor 4. In: Graphs. Out: Graphs that compute the same, with other inputs and outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Eqn, Graph, Literal, Var, evaluate, storage_dtype, subgraphs
from gpuarray.core.linear import Zero, tangent_aval
from gpuarray.core.primitive import Kind, registry
from gpuarray.core.trace import Tracer
from gpuarray.primitives.linear import instantiate, zeros
from gpuarray.transforms.graphs import jvp_graph
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.transforms.transpose import transpose_flat


def cut(items: Iterable[Any], *sizes: int) -> list[list]:
    """Split a list into pieces of the given sizes, and one more with the rest."""
    rest = iter(items)
    return [list(itertools.islice(rest, n)) for n in sizes] + [list(rest)]


def chosen(items: Iterable[Any], flags: Iterable[bool]) -> list:
    """Return the items whose flag is set."""
    return list(itertools.compress(items, flags))


def others(items: Iterable[Any], flags: Iterable[bool]) -> list:
    """Return the items whose flag is not set."""
    return [x for x, flag in zip(items, flags, strict=True) if not flag]


def merged(flags: Sequence[bool], if_set: Iterable[Any], if_not: Iterable[Any]) -> list:
    """Merge two lists into one by flags: the inverse of `chosen` and `others`."""
    yes, no = iter(if_set), iter(if_not)
    return [next(yes) if flag else next(no) for flag in flags]


def fixed_point(
    carry: Sequence[bool], after_step: Callable[[list[bool]], Sequence[bool]]
) -> list[bool]:
    """Return which carries of a loop have a property, given which of its initial values have it.

    `after_step` gives the carries that have it after a step, given those that have it before. A
    carry has one type at all steps, so if it has it at any step it has it from the first on.

    >>> fixed_point([True, False, False], lambda before: [False, before[0], before[1]])
    [True, True, True]
    """
    carry = list(carry)
    while True:
        grown = [a or b for a, b in zip(carry, after_step(carry), strict=True)]
        if grown == carry:
            return carry
        carry = grown


def opened(graph: Graph, constvars: Sequence[Var] | None = None) -> Graph:
    """Make a graph's constants leading inputs; `constvars` may name other variables for them."""
    lead = graph.constvars if constvars is None else constvars
    return Graph([*lead, *graph.invars], graph.outvars, graph.eqns, debug_name=graph.debug_name)


def lifted(graph: Graph) -> tuple[Graph, list]:
    """A Graph as a primitive may hold it, and the operands that go before its own.

    A Graph holds concrete constants on one device only: if a function closed over values of an
    outer trace, or over arrays on several devices, its constants become leading inputs.
    """
    # A tracer in a Graph would outlive its trace wherever the Graph is kept.
    if any(isinstance(c, Tracer) or is_spread(c) for c in graph.consts):
        return opened(graph), list(graph.consts)
    return graph, []


def is_spread(x: Any) -> bool:
    """Whether a constant is an array that programs lay out over devices."""
    place = getattr(x, "_place", None)
    return place is not None and place.is_spread


def opened_together(graphs: Sequence[Graph]) -> tuple[list[Graph], list]:
    """Make the constants of several graphs leading inputs of each; return graphs and constants."""
    # By identity: the same array in two graphs is one input.
    consts: dict[int, Any] = {}
    for graph in graphs:
        consts.update((id(c), c) for c in graph.consts)
    made = []
    for graph in graphs:
        own = {id(c): v for v, c in zip(graph.constvars, graph.consts, strict=True)}
        # A constant that a graph does not have becomes an input that it does not read.
        lead = [own.get(key) or Var(_aval_in(graphs, key)) for key in consts]
        made.append(opened(graph, lead))
    return made, list(consts.values())


def _aval_in(graphs: Sequence[Graph], key: int) -> ShapedArray:
    # Any of the graphs that have this constant: its aval is the same in all.
    pairs = ((v, c) for g in graphs for v, c in zip(g.constvars, g.consts, strict=True))
    return next(v.aval for v, c in pairs if id(c) == key)


def forwarded(graph: Graph) -> list[int | None]:
    """For each result of a graph, the number of the input that it equals; None if it is computed.

    It is followed through calls, and through loops that carry it unchanged.
    """
    numbers = {v: i for i, v in enumerate(graph.invars)}
    made_by = {v: (e, k) for e in graph.eqns for k, v in enumerate(e.outvars)}

    def source(a: Any) -> int | None:
        # Back from the result, equation by equation; calls are entered.
        while isinstance(a, Var) and a not in numbers:
            if a not in made_by:
                return None
            eqn, k = made_by[a]
            prim = eqn.primitive
            called = None if prim.inline is None else prim.inline(eqn)
            if called is not None:
                place = forwarded(called)[k]
                if place is None:
                    return None
            else:
                flow = None if prim.flow is None else prim.flow(eqn)
                # Results of branches, and ys of a loop, may differ from every operand.
                if not isinstance(flow, Loop) or k >= len(flow.carry):
                    return None
                # A carry that each iteration returns unchanged: it equals its value before the
                # loop.
                if forwarded(flow.body)[k] != len(flow.consts) + k:
                    return None
                place = flow.carry[k]
            a = eqn.invars[place]
        return numbers.get(a) if isinstance(a, Var) else None

    return [source(a) for a in graph.outvars]


def reordered(graph: Graph, invars: Sequence[Var], outputs: Sequence[Any]) -> Graph:
    """Return a graph of the same equations with these inputs and outputs."""
    return Graph(invars, outputs, graph.eqns, graph.constvars, graph.consts, graph.debug_name)


def empty_graph(aval: ShapedArray) -> Graph:
    """Return a Graph without inputs whose result is new memory, to be filled."""
    v, params = Var(aval), {"shape": aval.shape, "dtype": aval.dtype, "out_sharding": None}
    return Graph([], [v], [Eqn(registry["empty"], [], [v], params)], debug_name="empty")


def jvp_filled(graph: Graph, nonzero: tuple[bool, ...], wanted: tuple[bool, ...]) -> Graph:
    """`jvp_graph` with a tangent for every output in `wanted`, zeros where it has none."""
    made = jvp_graph(graph, nonzero)
    # Usually the tangents are those that are wanted already.
    if made.outputs == wanted:
        return made.graph
    key = ("jvp filled", nonzero, wanted)
    if key not in graph.derived:
        count = len(graph.outvars)

        def fun(*values):
            # The results, then the tangents that there are; zeros are put between them.
            out = evaluate(made.graph, *values)
            found = iter(out[count:])
            tangents = [
                next(found) if has else (zeros(tangent_aval(v.aval)) if want else None)
                for v, has, want in zip(graph.outvars, made.outputs, wanted, strict=True)
            ]
            return [*out[:count], *(t for t in tangents if t is not None)]

        graph.derived[key] = staged(fun, made.graph.in_avals, "jvp", graph.debug_name)
    return graph.derived[key]


def transpose_filled(graph: Graph, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> Graph:
    """Return the transposed Graph, with a cotangent for every linear input.

    Its inputs are the values of the other inputs, then the cotangents that are not zero.
    """
    key = ("transpose filled", linear, nonzero)
    if key not in graph.derived:
        known = others(graph.in_avals, linear)

        def fun(*values):
            values, given = cut(values, len(known))
            # Outputs without a cotangent have a symbolic zero.
            none = [Zero(a) for a in others(graph.out_avals, nonzero)]
            found = transpose_flat(graph, linear, values, merged(nonzero, given, none))
            return [instantiate(ct) for ct in found]

        avals = known + chosen(graph.out_avals, nonzero)
        graph.derived[key] = staged(fun, avals, "transpose", graph.debug_name)
    return graph.derived[key]


def staged(
    fun: Any, avals: Sequence[ShapedArray], purpose: str, name: str, threads: bool = False
) -> Graph:
    """Stage a flat function as a Graph with the name of the one it comes from.

    With `threads` the caller takes references along that it touches (see `stage`).
    """
    graph = stage(fun, avals, TracedFunction(fun, purpose), threads)
    graph.debug_name = name
    return graph


def check_operands(what: str, given: Sequence[ShapedArray], expected: Sequence[ShapedArray]):
    """Raise TypeError if a primitive is bound to operands that its Graph does not take."""
    wrong = len(given) != len(expected) or any(
        (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(given, expected, strict=True)
    )
    if wrong:
        have, want = (", ".join(a.str_short() for a in avals) for avals in (given, expected))
        raise TypeError(f"{what} called with operands of types ({have}); its Graph takes ({want})")


def check_counts(what: str, graph: Graph, *counts: int) -> None:
    """Raise ValueError unless the kinds of inputs of a loop's Graph add up to its inputs."""
    if min(counts) < 0 or sum(counts) != len(graph.invars):
        shown = " + ".join(map(str, counts))
        raise ValueError(f"a Graph of {what} has {len(graph.invars)} inputs, not {shown}")


def looping(
    compile: Callable, graph: Graph, first: int, count: int
) -> tuple[Callable[..., list], frozenset[int] | None]:
    """Compile a loop's body, whose `count` inputs from `first` on are its previous outputs.

    If anything can be overwritten, the compiled body takes one more argument: the numbers of inputs
    that it may write into. The second result is the set of those inputs whose memory was allocated
    by the previous step; None if the body overwrites nothing, or has no suitable carry.
    """
    if not count or not _overwrites(graph):
        # Nothing works in place, so no such argument is needed.
        return compile(graph), None
    body = compile(graph, frozenset(range(first, first + count)))
    return body, frozenset(first + i for i in body.fresh if i < count)


# Whether an equation, or one in a call that is inlined, can work in place.
def _overwrites(graph: Graph) -> bool:
    return any(
        e.primitive.inplace is not None
        or (e.primitive.inline is not None and any(map(_overwrites, subgraphs(e))))
        for e in graph.eqns
    )


def graph_work(graph: Graph) -> float:
    """Estimate the multiply-adds of one run of a Graph."""
    if "work" not in graph.derived:
        total = 0.0
        for eqn in graph.eqns:
            prim = eqn.primitive
            # Views move no data.
            if prim.kind is Kind.VIEW:
                continue
            # A dedicated rule, the Graphs inside, or weight times elements.
            if prim.work is not None:
                total += prim.work([a.aval for a in eqn.invars], **eqn.params)
            elif prim.kind is Kind.CALL:
                total += sum(graph_work(g) for g in subgraphs(eqn))
            else:
                # The larger of bytes read and written: reductions read, broadcasts write.
                sizes = [a.aval.size for a in (*eqn.invars, *eqn.outvars)]
                total += prim.weight * max(sizes, default=0)
        graph.derived["work"] = total
    return graph.derived["work"]


def interpreted(graph: Graph, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
    """Return a Graph as a function on buffers, by NumPy rules alone: the reference."""
    steps = []
    # Choose rules once; only the code in `run` is repeated.
    for eqn in graph.eqns:
        # A call becomes a separate function, which returns a list.
        whole = None if eqn.primitive.inline is None else eqn.primitive.inline(eqn)
        if whole is not None:
            steps.append((eqn, interpreted(whole), True))
            continue
        function = eqn.primitive.numpy_function([a.aval for a in eqn.invars], eqn.params)
        steps.append((eqn, function, eqn.primitive.multiple_results))

    def run(*args):
        env = dict(zip(graph.constvars, map(np.asarray, graph.consts), strict=True))
        env.update(zip(graph.invars, args[: len(graph.invars)], strict=True))

        def read(a):
            if isinstance(a, Literal):
                return np.asarray(a.val).astype(storage_dtype(a.aval))[()]
            return env[a]

        for eqn, function, several in steps:
            out = function(*map(read, eqn.invars))
            env.update(zip(eqn.outvars, out if several else [out], strict=True))
        return [read(a) for a in graph.outvars]

    # No memory is reused: a loop may not overwrite any result.
    run.fresh = frozenset()
    return run
