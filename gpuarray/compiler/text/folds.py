"""Serial folds as statements: how each element updates the states.

Floor 3. In: a SerialFold (core/element.py), and the names of its states, terms and positions. Out:
the types and initial values of the states, the statements of one step, and the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer, expression
from gpuarray.core.element import Access, Best, Reduced, SerialFold
from gpuarray.core.graph import Eqn, Graph, Literal, Var, called


def states_of(fold: SerialFold) -> list[tuple[str, Access | str]]:
    """Type and initial value of each state; the value is an access, or text."""
    # A reduction knows its partial result; other folds give their initial values.
    if isinstance(fold.how, Reduced):
        reducer = Reducer(fold.how.eqn)
        return [(reducer.state, reducer.nothing)]
    return [(ct.value_type(aval), start) for aval, start in fold.states]


def steps_of(
    fold: SerialFold, states: Sequence[str], terms: Sequence[str], places: Sequence[str]
) -> list[str]:
    """The statements that update the states with one element."""
    how = fold.how
    # A reduction, of which only elements with a matching number may count (a histogram).
    if isinstance(how, Reduced):
        reducer = Reducer(how.eqn)
        element = terms[-1] if how.of is None else expression(how.of, terms)[0]
        step = f"{states[0]} = {reducer.merge(states[0], reducer.lift(element, '0u'))};"
        return [f"if ({terms[0]} == {places[0]}) {step}" if how.matching else step]
    # The best element so far, and its companions. `any_yet` is needed because no initial value is
    # worse than all elements (nan, infinities).
    if isinstance(how, Best):
        kept, best, any_yet = states
        (holds,) = expression(how.better, [best, terms[0]])
        keep = terms[1] if len(terms) > 1 else places[0]
        taken = f"{{ {best} = {terms[0]}; {kept} = {keep}; }}"
        return [f"if (!{any_yet} || !({holds})) {taken}", f"{any_yet} = true;"]
    # A function of states and terms.
    lines, results = merged(how.by, states, terms)
    if len(states) > 1:  # all results, before any state changes
        types = [ct.value_type(aval) for aval, _ in fold.states]
        lines += [
            f"const {t} n{i} = {r};" for i, (t, r) in enumerate(zip(types, results, strict=True))
        ]
        results = [f"n{i}" for i in range(len(states))]
    return lines + [f"{s} = {r};" for s, r in zip(states, results, strict=True)]


def times_read(fold: SerialFold, term: int) -> int:
    """Number of times that the statements use a term."""
    # Write the statements with a marker in place of each term, and count the markers.
    marks = [f"term{i}" for i in range(len(fold.terms))]
    states = [f"state{i}" for i in range(len(states_of(fold)))]
    places = [f"place{i}" for i in range(len(fold.places))]
    return sum(line.count(marks[term]) for line in steps_of(fold, states, marks, places))


def result_of(fold: SerialFold, states: Sequence[str]) -> str:
    """The result, after all elements."""
    # Only a reduction has a last step: other folds keep their results as states.
    if isinstance(fold.how, Reduced):
        return Reducer(fold.how.eqn).finish(states[0])
    return states[fold.number]


def merged(
    by: Eqn | Graph | None, states: Sequence[str], terms: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Statements that merge terms into states, and the new states as expressions."""
    if by is None:
        return [], list(terms)
    if isinstance(by, Eqn):
        return [], expression(by, [*states, *terms])
    lines: list[str] = []
    return lines, _written(by, [*states, *terms], lines, count())


def _written(graph: Graph, operands: list[str], lines: list[str], names) -> list[str]:
    """The results of a Graph of scalars; its statements are appended to `lines`."""
    # Inner graphs share the counter `names`, so that no name is given twice in a kernel.
    env: dict[Var, str] = dict(zip(graph.invars, operands, strict=True))

    def text(a) -> str:
        return ct.constant(a.val, a.aval) if isinstance(a, Literal) else env[a]

    for eqn in graph.eqns:
        given = [text(a) for a in eqn.invars]
        inner = called(eqn)
        # A call has no text: its equations are written in its place.
        if inner is not None:
            env.update(zip(eqn.outvars, _written(inner, given, lines, names), strict=True))
            continue
        for v, result in zip(eqn.outvars, expression(eqn, given), strict=True):
            name = env[v] = f"c{next(names)}"
            lines.append(f"const {ct.value_type(v.aval)} {name} = {result};")
    return [text(a) for a in graph.outvars]
