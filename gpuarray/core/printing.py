"""Graphs as text, in the layout that users of `make_jaxpr` know.

Floor 1. In: a Graph or one Eqn. Out: text such as

    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }

at most 80 columns wide where it can be broken. Two steps: `_GraphPrinter` turns the graph into a
flat list of tokens (text, possible line ends, marks of groups and indentation); `_render` decides
which of these line ends are taken, by Oppen's rule ("Prettyprinting", 1980): a group that fits is
one line. Both take time linear in the size of the text, and recurse over graphs inside graphs only,
never over equations.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gpuarray.core.graph import Atom, Eqn, Graph, Var, set_printer, subgraphs

WIDTH = 80
#: An inner graph is hoisted in front of the others if it is used twice or has more equations.
INLINE_EQUATIONS = 10
#: Calls whose inner graph uses the names of the arguments and results outside.
_SHARES_NAMES = frozenset({"jit"})
#: Equations whose `name` is printed before their other params.
_NAME_FIRST = frozenset({"jit", "custom_jvp_call", "custom_vjp_call"})
# The same program prints the same text in every process: addresses of objects are masked.
_ADDRESS, _HIDDEN = re.compile(r"\b0x[0-9a-f]{8,}"), "0x" + "X" * 12


def graph_text(graph: Graph, *, source_info: bool = False, name_stack: bool = False) -> str:
    """Return the text of a graph; a margin has the users' lines, or the names of scopes."""
    names = _Names()
    in_front = _hoisted(graph, names)
    out = _GraphPrinter(names, {id(inner): name for inner, name in in_front})
    for inner, name in in_front:
        out.text(f"let {name} = ")
        out.graph(inner)
        out.tokens += (" in", _LINE)
    # As in JAX, unused results are `_`.
    used = _used(graph)
    for eqn in graph.eqns:
        for v in eqn.outvars:
            if v not in used:
                names.give(v, "_")
    out.graph(graph)
    if name_stack:
        return _render(out.tokens, lambda site: f"[{site.scope}]")
    return _render(out.tokens, str if source_info else None)


def eqn_text(eqn: Eqn) -> str:
    """Return the text of one equation, its variables named from `a` on."""
    out = _GraphPrinter(_Names(), {})
    out.eqn(eqn)
    return _render(out.tokens)


def _hoisted(graph: Graph, names: _Names) -> list[tuple[Graph, str]]:
    """Return the inner graphs to write in front, with their names, level by level."""
    # By identity: equal graphs of two functions keep their own names.
    uses: dict[int, int] = {}
    met: list[tuple[Graph, str]] = []
    queue = deque([graph])
    while queue:
        for eqn in queue.popleft().eqns:
            for inner in subgraphs(eqn):
                count = uses[id(inner)] = uses.get(id(inner), 0) + 1
                if count == 1:
                    own = eqn.params.get("name") if eqn.primitive.name in _SHARES_NAMES else None
                    met.append((inner, str(own or "jaxpr").strip("<>")))
                # Only twice matters: what a graph used twice holds is used twice as well.
                if count <= 2:
                    queue.append(inner)
    return [
        (inner, names.reserve(name))
        for inner, name in met
        if uses[id(inner)] > 1 or len(inner.eqns) > INLINE_EQUATIONS
    ]


class _Names:
    """Names given so far: to variables (a, b, ..., z, ba, ...) and to hoisted graphs."""

    def __init__(self):
        self._of: dict[Var, str] = {}
        self._reserved: set[str] = set()
        self._next = 0

    def reserve(self, wanted: str) -> str:
        name, n = wanted, 0
        while name in self._reserved:
            n += 1
            name = f"{wanted}{n}"
        self._reserved.add(name)
        return name

    def of(self, v: Var) -> str:
        name = self._of.get(v)
        if name is None:
            name = _letters(self._next)
            self._next += 1
            # Hoisted graphs may be called like a variable.
            while name in self._reserved:
                name = _letters(self._next)
                self._next += 1
            self._of[v] = name
        return name

    def has(self, v: Var) -> bool:
        return v in self._of

    def give(self, v: Var, name: str) -> None:
        self._of[v] = name


def _letters(n: int) -> str:
    """Return `n` in the digits a to z: a, b, ..., z, ba, bb, ..."""
    out = ""
    while True:
        n, digit = divmod(n, 26)
        out = chr(ord("a") + digit) + out
        if not n:
            return out


# ---- tokens: a str is text; the rest are these ----
_OPEN, _CLOSE = object(), object()  # a group: all its breaks become line breaks, or none does
_IN, _OUT = object(), object()  # indentation by two columns


class _Break:
    """A possible line end; if it is not taken, `flat` is written."""

    __slots__ = ("flat",)

    def __init__(self, flat: str):
        self.flat = flat


class _Note:
    """The user's line for the margin, when source information is shown."""

    __slots__ = ("site",)

    def __init__(self, site: Any):
        self.site = site


_SPACE, _NOTHING, _SEMICOLON, _LINE = _Break(" "), _Break(""), _Break("; "), _Break("\n")


class _GraphPrinter:
    """Turns graphs into tokens."""

    def __init__(self, names: _Names, hoisted: dict[int, str]):
        self.tokens: list[Any] = []
        self.names = names
        self.hoisted = hoisted
        self.text = self.tokens.append

    def words(self, words: Iterable[str], separator: str = "") -> None:
        """Write words that fill each line: each gap is a separate group."""
        self.text(_IN)
        for i, word in enumerate(words):
            if i:
                self.tokens += (separator, _OPEN, _SPACE, _CLOSE)
            self.text(word)
        self.text(_OUT)

    def graph(self, graph: Graph) -> None:
        self.tokens += (_OPEN, _IN, "{ lambda ")
        self.words(map(self.binder, graph.constvars))
        self.text("; ")
        self.words(map(self.binder, graph.invars))
        self.tokens += (". let", _IN, _SPACE)
        for i, eqn in enumerate(graph.eqns):
            if i:
                self.text(_SEMICOLON)
            self.eqn(eqn)
        self.tokens += (_OUT, _SPACE, "in (")
        self.words(map(self.atom, graph.outvars), ",")
        self.tokens += ("," if len(graph.outvars) == 1 else "", ") }", _OUT, _CLOSE)

    def eqn(self, eqn: Eqn) -> None:
        params = eqn.params if eqn.primitive.show is None else eqn.primitive.show(eqn.params)
        if eqn.primitive.name in _SHARES_NAMES:
            self.share_names(eqn)
        if eqn.outvars:
            self.words(map(self.binder, eqn.outvars))
            self.text(" = ")
        self.tokens += (_Note(eqn.site), eqn.primitive.name)
        self.params(eqn.primitive.name, params)
        self.text(" ")
        self.words(map(self.atom, eqn.invars))

    def share_names(self, eqn: Eqn) -> None:
        """Give variables of an inner graph the names of the call's arguments and results."""
        for inner in subgraphs(eqn):
            if id(inner) in self.hoisted:
                continue
            # An argument passed twice gives its name to the first parameter only.
            taken = set()
            for inside, outside in zip(inner.invars, eqn.invars):
                if isinstance(outside, Var) and outside not in taken:
                    taken.add(outside)
                    self.names.give(inside, self.names.of(outside))
            for inside, outside in zip(inner.outvars, eqn.outvars):
                if isinstance(inside, Var) and not self.names.has(inside):
                    self.names.give(inside, self.names.of(outside))

    def params(self, op: str, params: dict[str, Any]) -> None:
        if not params:
            return
        first = "name" if op in _NAME_FIRST else None
        # By name, so that equal equations print alike; the name of a call comes first, as in JAX.
        order = sorted(params, key=lambda k: (k != first, k))
        self.tokens += (_OPEN, "[", _IN)
        for i, key in enumerate(order):
            self.tokens += (_SPACE if i else _NOTHING, f"{key}=")
            self.value(params[key])
        self.tokens += (_OUT, _NOTHING, "]", _CLOSE)

    def value(self, value: Any) -> None:
        if isinstance(value, Graph):
            self.inner(value)
        elif isinstance(value, (tuple, list)) and value and isinstance(value[0], Graph):
            self.tokens += (_OPEN, "(", _IN)
            for i, graph in enumerate(value):
                self.text(_SPACE if i else _NOTHING)
                self.inner(graph)
            self.tokens += (_OUT, _NOTHING, ")", _CLOSE)
        else:
            self.text(_ADDRESS.sub(_HIDDEN, str(value)))

    def inner(self, graph: Graph) -> None:
        name = self.hoisted.get(id(graph))
        if name is None:
            self.graph(graph)
        else:
            self.text(name)

    def binder(self, v: Var) -> str:
        return f"{self.names.of(v)}:{v.aval.str_short(short_dtypes=True)}"

    def atom(self, a: Atom) -> str:
        if isinstance(a, Var):
            return self.names.of(a)
        # NumPy scalars print as plain numbers.
        value = a.val if isinstance(a.val, (bool, int, float, complex)) else np.asarray(a.val)
        if isinstance(value, np.ndarray):
            # Of dtype float0 an array is written into the Graph.
            value = "[...]" if value.ndim else value.item()
        return f"{value}:{a.aval.str_short(short_dtypes=True)}"


def _used(graph: Graph) -> set[Var]:
    """Return the variables that an equation or the graph's result reads."""
    used = {a for a in graph.outvars if isinstance(a, Var)}
    for eqn in graph.eqns:
        used.update(a for a in eqn.invars if isinstance(a, Var))
    return used


def _flat_widths(tokens: list[Any]) -> dict[int, int]:
    """Return, by the index of each _OPEN, the width of its group when written on one line."""
    widths: dict[int, int] = {}
    total = 0
    # Groups that are open: where they began and the width before them.
    started: list[tuple[int, int]] = []
    for i, token in enumerate(tokens):
        if isinstance(token, str):
            total += len(token)
        elif isinstance(token, _Break):
            total += len(token.flat)
        elif token is _OPEN:
            started.append((i, total))
        elif token is _CLOSE:
            start, before = started.pop()
            widths[start] = total - before
    return widths


def _render(tokens: list[Any], noted: Callable[[Any], str] | None = None) -> str:
    """Lay out the tokens: a group that fits into the rest of its line is written flat.

    Parameters
    ----------
    noted :
        Function of an equation's place that returns the text of its margin.
    """
    widths = _flat_widths(tokens)
    lines: list[tuple[str, Any]] = []
    line: list[str] = []
    site = None
    # Inside a flat group everything nested is flat too; the depth shows where it ends.
    column = indent = flat_depth = 0
    for i, token in enumerate(tokens):
        if isinstance(token, str):
            line.append(token)
            column += len(token)
        elif isinstance(token, _Break):
            if flat_depth:
                line.append(token.flat)
                column += len(token.flat)
            else:
                lines.append(("".join(line), site))
                line, site, column = [" " * indent], None, indent
        elif token is _OPEN:
            if flat_depth or column + widths[i] <= WIDTH:
                flat_depth += 1
        elif token is _CLOSE:
            flat_depth -= flat_depth > 0
        elif token is _IN:
            indent += 2
        elif token is _OUT:
            indent -= 2
        else:
            # The first equation on a line gives its margin.
            site = site or token.site
    lines.append(("".join(line), site))
    if noted is None:
        return "\n".join(text for text, _ in lines)
    # Second pass: align the margin after the longest line.
    margin = max(len(text) for text, _ in lines)
    return "\n".join(f"{t:<{margin}} # {noted(s)}" if s is not None else t for t, s in lines)


set_printer(graph_text)
