"""Simplify a Graph without changing a bit of any result.

Floor 3. In: a Graph. Out: a Graph without calls, repeated or dead equations, with scalars where a
constant had been broadcast, and broadcasts after equations that may be computed before them. Only
safe algebra: 0*x stays (x may be nan), x+0 stays (x may be -0.0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.core.graph import (
    Atom,
    Eqn,
    Graph,
    Literal,
    Var,
    has_effect,
    params_key,
    storage_dtype,
)
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build


def simplify(graph: Graph) -> Graph:
    """The simplified graph: same inputs, same outputs."""
    # Calls first, so that equal equations meet; dead ones are removed before views sink, since a
    # value that is also read by a dead equation would count as read twice.
    flat = drop_dead(merge_equal(inline_calls(graph)))
    sunk = sink_views(flat)
    return flat if sunk is flat else drop_dead(sunk)


def inline_calls(
    graph: Graph, only: Sequence[Primitive] | None = None, to_split: bool = False
) -> Graph:
    """Replace calls by the equations of their Graphs; with `only`, calls of these primitives alone.
    Constants of inner graphs become the outer one's.

    With `to_split`, a call with its own factors stays one equation.
    """
    constvars, consts = list(graph.constvars), list(graph.consts)
    # Constants by identity: inner graphs often hold the array of the outer one.
    hoisted: dict[int, Var] = {id(c): v for v, c in zip(constvars, consts, strict=True)}
    eqns: list[Eqn] = []
    env: dict[Var, Atom] = {}

    def read(env: dict[Var, Atom], a: Atom) -> Atom:
        return env.get(a, a) if isinstance(a, Var) else a

    # An explicit stack instead of recursion: (equations still to do, environment, results to bind
    # at the end, named scope around them).
    stack: list[Any] = [(iter(graph.eqns), env, None, "")]
    while stack:
        todo, env_now, on_end, scope = stack[-1]
        eqn = next(todo, None)
        # The end of a Graph: its results are those of the enclosing call.
        if eqn is None:
            stack.pop()
            if on_end is not None:
                outer_env, outvars, inner_outs = on_end
                for v, a in zip(outvars, inner_outs, strict=True):
                    outer_env[v] = read(env_now, a)
            continue
        ins = [read(env_now, a) for a in eqn.invars]
        prim = eqn.primitive
        # The user's scopes nest: an equation of a call is in the scope of the call too.
        site = eqn.site.within(scope) if scope and eqn.site is not None else eqn.site
        inner: Graph | None = None
        # A call: continue inside it. One constant of several calls is hoisted once.
        stays = to_split and prim.factors is not None
        if prim.inline is not None and (only is None or prim in only) and not stays:
            inner = prim.inline(eqn)
        if inner is not None:
            inner_env: dict[Var, Atom] = {}
            for v, c in zip(inner.constvars, inner.consts, strict=True):
                outer = hoisted.get(id(c))
                if outer is None:
                    outer = hoisted[id(c)] = Var(v.aval)
                    constvars.append(outer)
                    consts.append(c)
                inner_env[v] = outer
            inner_env.update(zip(inner.invars, ins, strict=True))
            on_end = (env_now, eqn.outvars, inner.outvars)
            within = scope if site is None else site.scope
            stack.append((iter(inner.eqns), inner_env, on_end, within))
            continue
        # Fresh variables: the same inner graph may be inlined twice.
        outvars = [Var(v.aval) for v in eqn.outvars]
        env_now.update(zip(eqn.outvars, outvars, strict=True))
        eqns.append(Eqn(eqn.primitive, ins, outvars, eqn.params, site))
    outs = [read(env, a) for a in graph.outvars]
    return Graph(graph.invars, outs, eqns, constvars, consts, graph.debug_name)


def merge_equal(graph: Graph) -> Graph:
    """Common subexpressions become one; a broadcast or converted scalar stays a scalar where that
    suffices.
    """
    env: dict[Var, Atom] = {}
    # Keys of equations to their results; a Var is its own key, as it is defined once.
    seen: dict[tuple, list[Var]] = {}
    scalar_of: dict[Atom, Atom] = {}  # broadcasts of a scalar, and views of them
    spread: dict[Atom, Eqn] = {}  # broadcasts of anything else
    made_by: dict[Atom, Eqn] = {}  # equations of one result
    eqns: list[Eqn] = []

    def atom_key(a: Atom):
        return a.key if isinstance(a, Literal) else a

    waiting = graph.eqns[::-1]
    while waiting:
        eqn = waiting.pop()
        prim, outvars = eqn.primitive, eqn.outvars
        # 1. Operands: their replacements; scalars for broadcasts of them.
        ins = [env.get(a, a) if isinstance(a, Var) else a for a in eqn.invars]
        if is_elementwise(eqn):
            ins = _scalars_for_broadcasts(ins, outvars[0].aval.shape, scalar_of)
        eqn = Eqn(prim, ins, outvars, eqn.params, eqn.site)
        # 2. Equations whose result is there already, or is a constant.
        known = _known(eqn)
        if known is None and (rule := prim.rewrite.seen_through) is not None:
            found = rule(eqn, made_by.get)
            if isinstance(found, Eqn):
                eqn = found
            else:
                known = found
        if known is not None:
            env[outvars[0]] = known
            continue
        filled = _same_number(eqn, scalar_of)
        if filled is not None:
            eqn = build.broadcast(filled, outvars[0].aval.shape, (), eqn.site, outvars[0])
        # 3. Reductions over axes of length 1 only change the shape.
        if _reduces_nothing(eqn):
            shape = outvars[0].aval.shape
            if shape == ins[0].aval.shape:
                env[outvars[0]] = ins[0]
                continue
            eqn = build.reshape(ins[0], shape, eqn.site, outvars[0])
        # 4. A value that is constant along an axis is computed once, and then broadcast; what is
        # short for others becomes these.
        rule = eqn.primitive.rewrite.written_out
        several = _before_broadcast(eqn, spread) or (rule and rule(eqn))
        if several:
            waiting += several[::-1]
            continue
        # 5. An equal equation seen before, unless it has effects.
        key = (eqn.primitive, tuple(map(atom_key, eqn.invars)), params_key(eqn.params))
        found = None if has_effect(eqn) else seen.get(key)
        if found is not None:
            env.update(zip(outvars, found, strict=True))
            continue
        # 6. A new equation. Broadcasts are recorded for their readers.
        seen[key] = outvars
        if eqn.primitive.rewrite.repeats and not eqn.invars[0].aval.shape:
            scalar_of[outvars[0]] = eqn.invars[0]
        elif eqn.primitive.kind is Kind.VIEW and ins[0] in scalar_of:
            scalar_of.update(dict.fromkeys(outvars, scalar_of[ins[0]]))
        elif eqn.primitive.rewrite.repeats and eqn.primitive.kind is Kind.VIEW:
            spread[outvars[0]] = eqn
        eqns.append(eqn)
        if len(eqn.outvars) == 1:
            made_by[eqn.outvars[0]] = eqn
    outs = [env.get(a, a) if isinstance(a, Var) else a for a in graph.outvars]
    return Graph(graph.invars, outs, eqns, graph.constvars, graph.consts, graph.debug_name)


def _before_broadcast(eqn: Eqn, spread: dict[Atom, Eqn]) -> list[Eqn]:
    """An elementwise equation whose operands are broadcast in the same way: the equation on the
    operands before broadcasting, and a broadcast of its result; empty for others.
    """
    if not spread or len(eqn.outvars) != 1:
        return []
    wide = [a for a in eqn.invars if a.aval.shape]
    # The first operand decides nearly always.
    if not wide or wide[0] not in spread or not all(a in spread for a in wide):
        return []
    how, others = spread[wide[0]], [spread[a] for a in wide[1:]]
    shape = how.invars[0].aval.shape
    alike = all(
        m.invars[0].aval.shape == shape and params_key(m.params) == params_key(how.params)
        for m in others
    )
    smaller = math.prod(shape) < eqn.outvars[0].aval.size
    if not (alike and smaller and is_elementwise(eqn)) or has_effect(eqn):
        return []
    ins = [spread[a].invars[0] if a.aval.shape else a for a in eqn.invars]
    aval = eqn.outvars[0].aval
    narrow = Var(how.invars[0].aval.update(dtype=aval.dtype, weak_type=aval.weak_type))
    return [
        eqn.replace(invars=ins, outvars=[narrow]),
        how.replace(invars=[narrow], outvars=eqn.outvars),
    ]


def _known(eqn: Eqn) -> Atom | None:
    """The result of an equation, if nothing has to be computed for it at run time."""
    # First the primitive's own rule: a conversion to the dtype it has is its operand.
    same_as = eqn.primitive.rewrite.same_as
    operand = None if same_as is None else same_as(eqn)
    return _constant(eqn) if operand is None else operand


def _same_number(eqn: Eqn, scalar_of: dict[Atom, Atom]) -> Literal | None:
    """The number that all elements of an elementwise result are equal to; None if not known."""
    if not scalar_of or len(eqn.outvars) != 1 or not eqn.outvars[0].aval.shape:
        return None
    numbers = [scalar_of.get(a) if a.aval.shape else a for a in eqn.invars]
    if not all(isinstance(a, Literal) for a in numbers) or not is_elementwise(eqn):
        return None
    number = Var(eqn.outvars[0].aval.update(shape=()))
    return _constant(eqn.replace(invars=numbers, outvars=[number]))


def _constant(eqn: Eqn) -> Literal | None:
    """The result of exact arithmetic on constants. Operations with a non-finite result are kept,
    for `debug_nans` to find.
    """
    prim, ins = eqn.primitive, eqn.invars
    # Heavier functions may differ in the last bit between NumPy and the device.
    if (
        prim.kind is not Kind.POINTWISE
        or prim.weight > TARGET.exact_weight
        or len(eqn.outvars) != 1
    ):
        return None
    operands = [a for a in ins if isinstance(a, Literal)]
    if not ins or len(operands) < len(ins) or has_effect(eqn):
        return None
    function = prim.numpy_function([a.aval for a in operands], eqn.params)
    # Overflow and invalid operations give inf and nan, which the next test leaves in the program.
    with np.errstate(all="ignore"):
        scalars = (np.asarray(a.val).astype(storage_dtype(a.aval))[()] for a in operands)
        value = np.asarray(function(*scalars))
    if value.shape or not np.all(np.isfinite(value.astype(np.complex128))):
        return None
    return Literal(value[()], eqn.outvars[0].aval)


def _reduces_nothing(eqn: Eqn) -> bool:
    """Whether a sum (or the like) runs over axes of length 1 only: a change of shape."""
    prim = eqn.primitive
    # A fold with a lift or a finish (a count, an argmax) does change elements.
    if prim.kind is not Kind.REDUCTION or prim.plain_fold is None:
        return False
    operand = eqn.invars[0].aval
    same = operand.dtype == eqn.outvars[0].aval.dtype
    return same and all(operand.shape[d] == 1 for d in eqn.params["axes"])


def _scalars_for_broadcasts(
    ins: Sequence[Atom], shape: tuple[int, ...], scalar_of: dict[Atom, Atom]
) -> list[Atom]:
    """Replace broadcast scalars by scalars in pointwise operations, if one operand still gives the
    shape.
    """
    out = list(ins)
    for i, a in enumerate(out):
        if isinstance(a, Var) and a in scalar_of:
            rest = out[:i] + out[i + 1 :]
            # A scalar result, or another operand of full shape, so that the shape is not lost.
            if any(b.aval.shape == shape for b in rest) or not shape:
                out[i] = scalar_of[a]
    return out


def is_elementwise(eqn: Eqn) -> bool:
    """Whether each element of a result comes from the operands' elements at the same index. Not so
    a bitcast to another width, which is of the pointwise kind but splits or joins elements.
    """
    if eqn.primitive.kind is not Kind.POINTWISE:
        return False
    shape = eqn.outvars[0].aval.shape
    shapes = [a.aval.shape for a in eqn.invars]
    if shape in shapes and {shape, ()}.issuperset(shapes):  # nearly always
        return True
    if all(len(own) < len(shape) for own in shapes):
        return False  # a number has become a vector of its pieces
    # Otherwise every operand is a scalar, or has the result's rank with lengths that broadcast.
    for own in shapes:
        if not own or own == shape:
            continue
        if len(own) != len(shape) or any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
            return False
    return True


def sink_views(graph: Graph) -> Graph:
    """Replace view(f(x, y)) by f(view(x), view(y)) if f has no other reader.

    A view of an input only changes where the kernel of f reads, while a view of f's result would
    often keep that result from fusing with its readers.
    """
    # Views that sink are rare: without one the graph is returned unchanged.
    if not any(e.primitive.rewrite.sinks for e in graph.eqns):
        return graph
    index = GraphIndex(graph)
    gone: set[int] = set()
    todo = list(graph.eqns)
    kept: list[Eqn] = []
    # From the end: views that have sunk below one equation may sink below its producers as well.
    while todo:
        eqn = todo.pop()
        if id(eqn) in gone:
            continue
        maker = index.maker(eqn.invars[0]) if eqn.primitive.rewrite.sinks else None
        if maker is None or not _only_viewed(maker, index):
            kept.append(eqn)
            continue
        # A view of each operand; those of length 1 are broadcast first, scalars are unchanged.
        shape = maker.outvars[0].aval.shape
        gone.add(id(maker))
        views: list[Eqn] = []
        ins: list[Atom] = []
        for a in maker.invars:
            if not a.aval.shape and shape:
                ins.append(a)
                continue
            if a.aval.shape != shape:
                views.append(build.broadcast(a, shape, tuple(range(len(shape))), eqn.site))
                a = views[-1].outvars[0]
            viewed = Var(eqn.outvars[0].aval.update(dtype=a.aval.dtype, weak_type=a.aval.weak_type))
            views.append(Eqn(eqn.primitive, [a], [viewed], eqn.params, eqn.site))
            ins.append(viewed)
        moved = Eqn(maker.primitive, ins, eqn.outvars, maker.params, maker.site)
        index.remove(eqn)
        index.remove(maker)
        index.add([*views, moved])
        kept.append(moved)
        todo.extend(views)  # these may sink further
    kept.reverse()
    return Graph(graph.invars, graph.outvars, kept, graph.constvars, graph.consts, graph.debug_name)


def _only_viewed(eqn: Eqn, index: GraphIndex) -> bool:
    """Whether an equation works element by element, and its result is read in one place."""
    return len(eqn.outvars) == 1 and index.uses[eqn.outvars[0]] == 1 and is_elementwise(eqn)


def drop_dead(graph: Graph) -> Graph:
    """Remove equations whose results are not read."""
    # From the end, so that one walk finds everything that results depend on.
    live = {a for a in graph.outvars if isinstance(a, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        if has_effect(eqn) or any(v in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(a for a in eqn.invars if isinstance(a, Var))
    kept.reverse()
    return Graph(graph.invars, graph.outvars, kept, graph.constvars, graph.consts, graph.debug_name)
