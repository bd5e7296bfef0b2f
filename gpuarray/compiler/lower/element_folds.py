"""Accesses that fold a few elements: sliding windows, general folds, few updates, search.

Floor 3. In: equations. Out: the rules of elements.py for them: one thread makes one element of the
result, in the order of the reference, so the result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gpuarray.compiler.lower.elements import Get, Places, Windows, rule, type_of
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer, expression
from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Below,
    Element,
    Fixed,
    Folded,
    Multiple,
    Test,
    guarded,
)
from gpuarray.core.graph import Eqn, Graph, Literal, Var
from gpuarray.core.index import Axis, Index, linear
from gpuarray.core.primitive import Kind, Sentinel, registry
from gpuarray.primitives.reduce.ops import extreme

#: Numbers of loop axes: below 0, so that they are no axes of a group.
_numbers = count(-1, -1)


def loop_number() -> int:
    """The number of a new loop axis."""
    return next(_numbers)


def loop(length: int) -> tuple[tuple[Axis, ...], Index]:
    """A loop of its own, and the place along it."""
    if length == 1:
        return (), Index()
    axis = Axis(next(_numbers), length)
    return (axis,), Index(((axis, 1),))


def loops(lengths: Sequence[int]) -> tuple[tuple[Axis, ...], list[Index]]:
    """Nested loops, the first outermost, and the places along them."""
    made = [loop(n) for n in lengths]
    return tuple(a for axes, _ in made for a in axes), [place for _, place in made]


# ---- functions of scalars ----


def is_scalar_graph(graph: Graph) -> bool:
    """Whether a Graph can be written out for scalars in registers."""
    for eqn in graph.eqns:
        inner = eqn.params.get("jaxpr")
        if eqn.primitive.kind is Kind.CALL and isinstance(inner, Graph):
            if not is_scalar_graph(inner):
                return False
        elif eqn.primitive.kind is not Kind.POINTWISE or isinstance(eqn.primitive.cuda, Sentinel):
            return False
    values = [a for e in graph.eqns for a in (*e.invars, *e.outvars)]
    return not graph.consts and all(ct.has_type(a.aval) for a in values)


def written(graph: Graph, operands: Sequence[str]) -> tuple[list[str], list[str]]:
    """A Graph of scalars as lines, and its results; operands are fields of a template."""
    lines: list[str] = []
    names = count()
    return lines, _write(graph, list(operands), lines, names)


def _write(graph: Graph, operands: list[str], lines: list[str], names) -> list[str]:
    env: dict[Var, str] = dict(zip(graph.invars, operands, strict=True))

    def text(a) -> str:
        return escaped(ct.constant(a.val, a.aval)) if isinstance(a, Literal) else env[a]

    for eqn in graph.eqns:
        given = [text(a) for a in eqn.invars]
        inner = eqn.params.get("jaxpr")
        if eqn.primitive.kind is Kind.CALL and isinstance(inner, Graph):
            env.update(zip(eqn.outvars, _write(inner, given, lines, names), strict=True))
            continue
        marked = [f"\0{i}\0" for i in range(len(given))]
        for v, result in zip(eqn.outvars, expression(eqn, marked), strict=True):
            result = escaped(result)
            for mark, real in zip(marked, given, strict=True):
                result = result.replace(mark, real)
            name = env[v] = f"c{next(names)}"
            lines.append(f"const {ct.value_type(v.aval)} {name} = {result};")
    return [text(a) for a in graph.outvars]


def escaped(text: str) -> str:
    """A text that stays as it is when it is a template."""
    return text.replace("{", "{{").replace("}", "}}")


# ---- windows ----


def _window(eqn: Eqn, operand: int, at: Places) -> tuple:
    """Loops over a window, the place they are at in the operand, and tests of its being there."""
    p, shape = eqn.params, eqn.invars[operand].aval.shape
    ones = (1,) * len(shape)
    holes = p.get("base_dilation", ones), p.get("window_dilation", ones)
    axes, steps = loops(p["window_dimensions"])
    places: list[Index] = []
    tests: list[Test] = []
    geometry = zip(at, steps, shape, p["window_strides"], p["padding"], *holes, strict=True)
    for c, w, n, stride, (low, _), base, gap in geometry:
        place = (c * stride + w * gap).shifted(-low)
        tests.append(Below(place, (n - 1) * base + 1 if n else 0))
        if base > 1:
            tests.append(Multiple(place, base))
        places.append(place.divided(base)[0])
    return axes, steps, places, tests


def _as_reduction(eqn: Eqn, name: str) -> Reducer:
    """How elements are folded: as by the reduction of that name."""
    return Reducer(Eqn(registry[name], eqn.invars[:1], eqn.outvars, {}))


def _windowed(reduction: str):
    @rule(f"reduce_window_{reduction}")
    def fold(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
        reducer = _as_reduction(eqn, f"reduce_{reduction}")
        axes, _, places, tests = _window(eqn, 0, at)
        merged = escaped(reducer.merge("\0s\0", reducer.lift("\0t\0", "0u")))
        step = f"{{s0}} = {merged};".replace("\0s\0", "{s0}").replace("\0t\0", "{t0}")
        if any(t.always is False for t in tests):
            return Fixed(reducer.identity)
        return Folded(
            ((reducer.state, Fixed(reducer.identity)),),
            axes,
            tuple(t for t in tests if t.always is None),
            (get(0, places),),
            (step,),
            result=escaped(reducer.finish("\0")).replace("\0", "{s0}"),
        )

    return fold


for _name in ("sum", "max", "min"):
    _windowed(_name)


def _folded_by_graph(
    eqn: Eqn, number: int, axes, terms: list[Access], starts: list[Access]
) -> Access:
    """Elements folded by the equation's Graph, from the initial values on."""
    n = len(terms)
    names = [f"{{s{i}}}" for i in range(n)] + [f"{{t{i}}}" for i in range(n)]
    lines, results = written(eqn.params["jaxpr"], names)
    steps = list(lines)
    if n > 1:  # all results, before any state changes
        types = [type_of(eqn, i) for i in range(n)]
        steps += [
            f"const {t} n{i} = {r};" for i, (t, r) in enumerate(zip(types, results, strict=True))
        ]
        results = [f"n{i}" for i in range(n)]
    steps += [f"{{s{i}}} = {r};" for i, r in enumerate(results)]
    states = tuple((type_of(eqn, i), start) for i, start in enumerate(starts))
    return Folded(states, axes, (), tuple(terms), tuple(steps), result=f"{{s{number}}}")


@rule("reduce_window")
def _reduce_window(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    n = len(eqn.outvars)
    axes, _, places, tests = _window(eqn, 0, at)
    starts = [get(n + i, []) for i in range(n)]

    def term(i: int) -> Access:
        return guarded(tests, type_of(eqn, i), lambda: get(i, places), lambda: starts[i])

    return _folded_by_graph(eqn, number, axes, [term(i) for i in range(n)], starts)


@rule("reduce")
def _reduce(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    n, shape = len(eqn.outvars), eqn.invars[0].aval.shape
    gone = eqn.params["dimensions"]
    axes, steps = loops([shape[d] for d in gone])
    kept, along = iter(at), dict(zip(gone, steps, strict=True))
    places = [along[d] if d in along else next(kept) for d in range(len(shape))]
    starts = [get(n + i, []) for i in range(n)]
    return _folded_by_graph(eqn, number, axes, [get(i, places) for i in range(n)], starts)


def _worst(eqn: Eqn, operand: int) -> str:
    aval = eqn.invars[operand].aval
    return ct.constant(extreme(aval.dtype, eqn.params["select_prim"].name == "le"), aval)


def _first_or(eqn: Eqn, then: str) -> tuple[str, ...]:
    """Take the first element of a window, and each that is better than the best so far."""
    sign = ">=" if eqn.params["select_prim"].name == "ge" else "<="
    test = f"if (!{{s2}} || !({{s1}} {sign} {{t0}}))"
    return f"{test} {{{{ {{s1}} = {{t0}}; {then} }}}}", "{s2} = true;"


@rule("select_and_gather_add")
def _select_and_gather_add(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    kind, zero = type_of(eqn), ct.constant(0, eqn.outvars[0].aval)
    axes, _, places, tests = _window(eqn, 1, at)
    x = guarded(tests, kind, lambda: get(1, places), lambda: Fixed(_worst(eqn, 1)))
    tangent = guarded(tests, kind, lambda: get(0, places), lambda: Fixed(zero))
    return Folded(
        ((kind, Fixed(zero)), (kind, Fixed(_worst(eqn, 1))), ("bool", Fixed("false"))),
        axes,
        (),
        (x, tangent),
        (*_first_or(eqn, "{s0} = {t1};"),),
    )


@rule("select_and_scatter_add")
def _select_and_scatter_add(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """The sum over the windows that hold an element and choose it."""
    p, shape = eqn.params, eqn.invars[1].aval.shape
    windows, strides, padding = (p[k] for k in ("window_dimensions", "window_strides", "padding"))
    counts = eqn.invars[0].aval.shape
    axes, back = loops([-(-w // s) for w, s in zip(windows, strides, strict=True)])
    which: list[Index] = []  # window
    own: list[Index] = []  # place of the element in it
    tests: list[Test] = []
    for c, k, n, m, w, s, (low, high) in zip(
        at, back, shape, counts, windows, strides, padding, strict=True
    ):
        place = c.shifted(low)
        window = (place.divided(s)[0] + k).shifted(1 - -(-w // s))
        inside = place + window * -s
        tests += [Below(place, max(n + low + high, 0)), Below(window, m), Below(inside, w)]
        which.append(window)
        own.append(inside)
    if any(t.always is False for t in tests):
        return Fixed(ct.constant(0, eqn.outvars[0].aval))
    inner, steps, places, there = _window(eqn, 1, which)
    kind = type_of(eqn)
    x = guarded(there, kind, lambda: get(1, places), lambda: Fixed(_worst(eqn, 1)))
    winner = Folded(
        (("unsigned", Fixed("0u")), (kind, Fixed(_worst(eqn, 1))), ("bool", Fixed("false"))),
        inner,
        (),
        (x,),
        (*_first_or(eqn, "{s0} = {p0};"),),
        (linear(steps, windows),),
    )
    adds = _as_reduction(eqn, "reduce_sum")
    merged = escaped(adds.merge("\0s\0", "\0t\0"))
    merged = merged.replace("\0s\0", "{s0}").replace("\0t\0", "{t1}")
    return Folded(
        ((adds.state, Fixed(adds.identity)),),
        axes,
        tuple(t for t in tests if t.always is None),
        (winner, get(0, which)),
        (f"if ({{t0}} == {{p0}}) {{s0}} = {merged};",),
        (linear(own, windows),),
        escaped(adds.finish("\0")).replace("\0", "{s0}"),
    )


# ---- scatters of few updates ----

_MERGES = {"scatter-add": "add", "scatter-sub": "sub", "scatter-mul": "mul",
           "scatter-min": "min", "scatter-max": "max"}  # fmt: skip


def merging(eqn: Eqn) -> tuple[list[str], str]:
    """How an update {t0} changes what is there, {s0}: lines, and the new value."""
    body = eqn.params.get("update_jaxpr")
    name = _MERGES.get(eqn.primitive.name)
    if name is None:
        if body is None:
            return [], "{t0}"
        lines, (result,) = written(body, ["{s0}", "{t0}"])
        return lines, result
    a, b, out = (Var(eqn.outvars[0].aval.update(shape=())) for _ in range(3))
    (text,) = expression(Eqn(registry[name], [a, b], [out], {}), ["\0s\0", "\0t\0"])
    return [], escaped(text).replace("\0s\0", "{s0}").replace("\0t\0", "{t0}")


@rule("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "scatter")
def _scatter(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Every element looks at all updates, in their order."""
    w = Windows(eqn)
    axes, batch = loops(w.batch)
    starts, tests = w.starts(batch, get)
    window = [c + s * -1 for c, s in zip(at, starts, strict=True)]
    tests += [Below(c, n) for c, n in zip(window, w.sizes, strict=True)]
    update = w.update(batch, window)
    lines, result = merging(eqn)
    if not axes and result == "{t0}":
        return guarded(tests, type_of(eqn), lambda: get(2, update), lambda: get(0, at))
    if w.count == 0 or 0 in w.sizes or any(t.always is False for t in tests):
        return get(0, at)
    if not axes:
        # One round of a loop that `continue` can leave.
        axes = (Axis(next(_numbers), 1),)
    return Folded(
        ((type_of(eqn), get(0, at)),),
        axes,
        tuple(t for t in tests if t.always is None),
        (get(2, update),),
        (*lines, f"{{s0}} = {result};"),
    )


# ---- search ----


@rule("searchsorted")
def _searchsorted(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    ordered = eqn.invars[0].aval
    first = get(0, [*at[: ordered.ndim - 1], Index()])
    if not isinstance(first, Element):  # nothing to search in
        return Fixed(ct.constant(0, eqn.outvars[0].aval))
    side = str(eqn.params["side"] == "right").lower()
    half = str(ct.is_half(ordered)).lower()
    suffix = "u" if ordered.size < 2**31 else "ull"
    template = (
        f"({type_of(eqn)})ga_search<{side}, {half}>({{0}}, {ordered.shape[-1]}{suffix}, {{1}})"
    )
    operands = Address(first.source, first.index), get(1, at)
    return Applied(operands, template=template, type=type_of(eqn))
