"""Sorts of short rows of which only a few places are read: medians, quantiles, the first of each.

Floor 3. In: a Graph for a device. Out: one in which such a sort gives these places alone, side by
side, so that sorted rows are never in memory.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from gpuarray.compiler.rewrite.sorts import axis_of, is_short_sort, length_of, takes_largest
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element_rules import Taken, rule_of, taking
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, is_view
from gpuarray.core.index import Index
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.movement import build


class Run(NamedTuple):
    """Neighbouring places along a row, as a reader takes them."""

    first: int
    length: int


def keep_places(graph: Graph) -> Graph:
    """The graph with sorts that give few places of their rows; the same one where none do."""
    sorts = [e for e in graph.eqns if is_short_sort(e) and not takes_largest(e)]
    if not sorts:
        return graph
    numbers = _numbers(graph)
    readers: dict[Atom, list[Eqn]] = {}
    for eqn in graph.eqns:
        for a in dict.fromkeys(eqn.invars):
            readers.setdefault(a, []).append(eqn)
    changed: dict[int, list[Eqn]] = {}
    for sort in sorts:
        if not any(v in graph.outvars for v in sort.outvars):
            changed |= _kept(sort, readers, numbers)
    if not changed:
        return graph
    eqns = [e for eqn in graph.eqns for e in changed.get(id(eqn), [eqn])]
    return graph.replace(eqns=eqns)


def _kept(
    sort: Eqn, readers: dict[Atom, list[Eqn]], numbers: dict[Atom, Literal]
) -> dict[int, list[Eqn]]:
    """The replacements of a sort and its readers, by their ids; empty if these need too much."""
    axis, length = axis_of(sort), length_of(sort)
    taken = {
        (id(e), v): (e, _run(e, axis, numbers)) for v in sort.outvars for e in readers.get(v, ())
    }
    runs = [run for _, run in taken.values()]
    if not runs or any(run is None for run in runs):
        return {}
    places = sorted({p for run in runs if run for p in range(run.first, run.first + run.length)})
    # Half of a row hardly saves anything.
    if 2 * len(places) > length:
        return {}
    aval = sort.outvars[0].aval
    shape = (*aval.shape[:axis], len(places), *aval.shape[axis + 1 :])
    few = {v: Var(v.aval.update(shape=shape)) for v in sort.outvars}
    params = {**sort.params, "places": tuple(places)}
    made = {id(sort): [Eqn(_by(sort.primitive), sort.invars, [*few.values()], params, sort.site)]}
    for (number, v), (e, run) in taken.items():
        assert run is not None
        piece = build.piece(few[v], axis, places.index(run.first), run.length, e.site)
        out = e.outvars[0]
        made[number] = [piece, build.reshape(piece.outvars[0], out.aval.shape, e.site, out)]
    return made


def _run(eqn: Eqn, axis: int, numbers: dict[Atom, Literal]) -> Run | None:
    """The places along an axis that an equation takes of its operand, and everything else in order;
    None for those that do anything else.
    """
    rule = rule_of(eqn)
    if rule is None or len(eqn.outvars) != 1 or not (is_view(eqn) or any(_where(eqn, rule))):
        return None
    known = {i: numbers[a] for i in _where(eqn, rule) if (a := eqn.invars[i]) in numbers}
    if len(known) < len(_where(eqn, rule)):
        return None
    shape, own = eqn.outvars[0].aval.shape, eqn.invars[0].aval.shape
    at = [Index.axis(d, n) for d, n in enumerate(shape)]
    found = rule.make(eqn, 0, at, taking(known))
    if not isinstance(found, Taken) or found.operand != 0:
        return None
    here, rest, lengths = found.at[axis], [*found.at], [*own]
    # One place, or a run that goes on as the result does.
    length = here.largest - here.smallest + 1
    run = Index.axis(axis, length)
    if here.terms and here != run.shifted(here.smallest):
        return None
    rest[axis], lengths[axis] = run if length > 1 else Index(), length
    # All other axes are whole, and in order.
    plain = [Index.axis(d, n) for d, n in enumerate(shape) if n > 1]
    if [i for i in rest if i.terms] != plain or math.prod(shape) != math.prod(lengths):
        return None
    return Run(here.smallest, length)


def _where(eqn: Eqn, rule: Any) -> list[int]:
    """The operands that hold indices."""
    return [i for i in range(1, len(eqn.invars)) if rule.where(i)]


def _numbers(graph: Graph) -> dict[Atom, Literal]:
    """The values that are filled with one number."""
    found: dict[Atom, Literal] = {}
    for eqn in graph.eqns:
        a = eqn.invars[0] if eqn.invars else None
        found |= {x: x for x in eqn.invars if isinstance(x, Literal)}
        if is_view(eqn) and a in found:
            found |= dict.fromkeys(eqn.outvars, found[a])
    return found


# One primitive for each, so that equal programs give equal equations. Not registered: no program
# contains it, only the plan of a device.
@functools.lru_cache(8)
def _by(sort: Primitive) -> Primitive:
    """A sort that gives the elements at some places of each row."""
    order = sort.order
    assert order is not None

    def aval(*avals: ShapedArray, places: tuple[int, ...], **params: Any) -> list[ShapedArray]:
        axis = params[order.axis]
        own = avals[0].shape
        shape = (*own[:axis], len(places), *own[axis + 1 :])
        return [ShapedArray(shape, a.dtype) for a in avals]

    return Primitive(
        sort.name,
        Kind.SORT,
        order=order,
        aval=aval,
        weight=sort.weight,
        multiple_results=True,
        register=False,
    )


def kept_places(eqn: Eqn) -> tuple[int, ...] | None:
    """The places of each row that a sort gives; None: all of them."""
    return eqn.params.get("places")
