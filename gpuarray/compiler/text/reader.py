"""Element expressions as text: how a kernel computes a value that an inlined producer defines.

Floor 3. In: trees of accesses (core/element.py). Out: `Reader`, the part of a writer that turns an
access into an expression, after the statements it needs. Positions read from memory are named once
in a scope; a guard is a `?:` if both sides are expressions, and an `if` otherwise. The same text is
used for every target, except for the type of positions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

from gpuarray.compiler.fuse.group import FusedGroup, Load
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.traffic import PlacesRead
from gpuarray.compiler.text import folds
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import expression, repeated
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Below,
    Constant,
    Element,
    Guarded,
    InRegister,
    Lookup,
    SerialFold,
    Test,
    atoms,
    children,
)
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Index
from gpuarray.core.target import TARGET

Scope = dict  # names of values read in a scope, by the key of their load or position

#: Operands that need no brackets inside an expression: names, calls, subscripts, casts, brackets.
_ATOM = re.compile(
    r"[\w.]+|\([\w ]+\)[\w.]+|[\w.]+\[[^\[\]]*\]|\w+(<[\w<>, ]+>)?\([^()]*\)|\([^()]*\)"
)

#: Expressions that may be repeated: names, constants, elements of vectors.
_SHORT = re.compile(r"-?[\w.]+(\[e\])?|ga_value\([\w.]+\[e\]\)")

#: The beginning of a call, which has its type; operations on bits, which make an int of two bools.
_CALL = re.compile(r"\w+(<[^()]*>)?\(")
_CALLED = re.compile(r"\b(\w+)(<[^()]*>)?\(")
_BITS = re.compile(r"(?<!&)&(?!&)|(?<!\|)\|(?!\|)|\^|~")


def is_call(text: str) -> bool:
    """Whether an expression is one call: its first bracket closes at the end."""
    found = _CALL.match(text)
    depth = 0
    for i in range(found.end() - 1 if found else 0, len(text) if found else 0):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i == len(text) - 1
    return False


def truncated(text: str, aval: ShapedArray) -> str:
    """The result of an operation, for use inside an expression."""
    # C computes with short integers as with ints: they would not be truncated.
    dtype = storage_dtype(aval)
    short = dtype.kind in "iu" and dtype.itemsize < 4 and not is_call(text)
    if short or (dtype.kind == "b" and _BITS.search(text)):
        return f"({ct.value_type(aval)}){bracketed(text)}"
    return text


def call_in(text: str, names: Collection[str]) -> tuple[str, str, str, str] | None:
    """The first call of one of some functions in an expression: the text before it, the function,
    its operands, and the text behind it.
    """
    found = next((m for m in _CALLED.finditer(text) if m[1] in names), None)
    if found is None:
        return None
    begin, depth = found.end(), 1
    end = begin
    while depth:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    return text[: found.start()], found[0][:-1], text[begin : end - 1], text[end:]


class PositionLine(str):
    """The line that defines a position, and the variable that holds it."""

    __slots__ = ("variable",)

    variable: str

    def __new__(cls, text: str, variable: str) -> PositionLine:
        made = super().__new__(cls, text)
        made.variable = variable
        return made


class Reader:
    """The part of a Writer that reads: from memory, or through inlined producers."""

    group: FusedGroup
    lines: list[str]
    in_name: dict[Var, str]
    axis_name: dict[int, str]
    position: str
    whole: Index
    #: The type of positions, and the suffix of its literals.
    index_type: str
    suffix: str
    last: int | None

    def __init__(self, accesses: Accesses):
        self.accesses = accesses
        self.group, self.axes = accesses.group, accesses.axes
        self.reach = accesses.inliner
        self.along, self.position_along = accesses.along, accesses.position_along
        self.load_index, self.output_index = accesses.load_index, accesses.output_index
        self.is_inlined, self.elements_of = accesses.is_inlined, accesses.elements_of
        self.counted: set[tuple] = set()  # loads whose accesses are in `uses`
        self.uses: dict[Access, int] = {}  # number of accesses that each access is an operand of
        self.reads = 0  # number of names given to values read
        self.guards = 0  # number of guards around the current expression
        self.touched = PlacesRead()  # the places that are read

    def line(self, depth: int, text: str, comment: str = "") -> None:
        self.lines.append(commented("    " * depth + text, comment))

    def name_position(self, depth: int, name: str, text: str) -> None:
        """Write the line that names a position; it is removed if the name is not read."""
        line = f"const {self.index_type} {name} = {text};"
        self.lines.append(PositionLine("    " * depth + line, name))

    def define(
        self, depth: int, aval: ShapedArray, name: str, text: str, comment: str = ""
    ) -> None:
        """Write the line that names a value."""
        self.line(depth, f"const {ct.value_type(aval)} {name} = {text};", comment)

    def open_loop(
        self, depth: int, name: str, begin: str, end: str, comment: str = "", unrolled: bool = False
    ) -> None:
        """Write the line that opens a loop over positions; the compiler is to unroll it if
        `unrolled`.
        """
        if unrolled:
            self.line(depth, "#pragma unroll")
        head = f"for ({self.index_type} {name} = {begin}; {name} < {end}; ++{name}) {{"
        self.line(depth, head, comment)

    def number(self, n: int) -> str:
        return f"{n}{self.suffix}"

    def distance(self, atom: Any, n: int) -> str:
        """The stride along an axis, or of looked-up places, in an index."""
        return self.number(n)

    # ---- trees ----
    def access_of(self, load: Load) -> Access:
        """The access tree of one element of a load."""
        found, key = self.accesses.of(load), (load.key, load.dims)
        # A load that several members read is counted once: they share its text.
        if key not in self.counted:
            self.counted.add(key)
            self.count_uses(found)
        return found

    def count_uses(self, access: Access) -> None:
        """Count the uses of each part of an access: shared parts get a name."""
        self.uses[access] = self.uses.get(access, 0) + 1
        waiting = [access] if self.uses[access] == 1 else []
        while waiting:
            for part in children(waiting.pop()):
                self.uses[part] = self.uses.get(part, 0) + 1
                # Parts below are counted once: a tree with shared parts can be of exponential size.
                if self.uses[part] == 1:
                    waiting.append(part)

    # ---- positions ----
    def at(self, index: Index, scope: Scope | None = None) -> str:
        """An index as text: the row-major position of the whole space if it equals that."""
        # No quotients and remainders only to multiply them together again.
        if self.position and set(index.terms) == set(self.whole.terms):
            text = self.position
            if index.constant:
                sign = "+" if index.constant > 0 else "-"
                text = f"{text} {sign} {self.number(abs(index.constant))}"
            return text
        names: dict = dict(self.axis_name)
        # Without a scope an index has no lookups.
        for atom in atoms(index) if scope else ():
            if isinstance(atom, Lookup):
                assert scope is not None
                names[atom.name] = scope[atom.name]
        return ct.index_text(index, names, self.suffix, self.distance)

    def look_up(self, index: Index, depth: int, scope: Scope) -> None:
        """Read the positions that an index looks up in memory, and name them in the scope."""
        for atom in atoms(index):
            if not isinstance(atom, Lookup) or atom.name in scope:
                continue
            read = self.value(atom.access, depth, scope)
            # Clipped, so that no index reads outside the array; `ga_find` instead makes one out of
            # range so large that the following test rejects it.
            function = "ga_find" if atom.find else "ga_clip"
            name = scope[atom.name] = f"at{self.reads}"
            self.reads += 1
            most = self.number(atom.most)
            self.line(depth, f"const {self.place_type(atom)} {name} = {function}({read}, {most});")

    def place_type(self, atom: Lookup) -> str:
        """The type of a position that is looked up."""
        return self.index_type

    def lookups(self, index: Index) -> list[Lookup]:
        """The positions that an index looks up in memory."""
        return [a for a in atoms(index) if isinstance(a, Lookup)]

    def test(self, test: Test, scope: Scope, fails: bool = False) -> str:
        """A test as text, or that it fails."""
        equal, below = ("!=", ">=") if fails else ("==", "<")
        if not isinstance(test, Below):
            return f"{bracketed(self.at(test.index, scope))} % {self.number(test.of)} {equal} 0"
        # `a - b < 1`, both unsigned, is `a == b`, which reads better.
        added = Index(tuple((a, k) for a, k in test.index.terms if k > 0), test.index.constant)
        subtracted = Index(tuple((a, -k) for a, k in test.index.terms if k < 0))
        if test.bound == 1 and subtracted.terms and added.constant >= 0:
            return f"{self.at(added, scope)} {equal} {self.at(subtracted, scope)}"
        # Positions are unsigned: below 0 they wrap, so this tests 0 <= index as well.
        return f"{self.at(test.index, scope)} {below} {self.number(test.bound)}"

    def tests(self, tests: tuple[Test, ...], depth: int, scope: Scope) -> str:
        for test in tests:
            self.look_up(test.index, depth, scope)
        return " && ".join(self.test(t, scope) for t in tests)

    def fails(self, tests: tuple[Test, ...], depth: int, scope: Scope, either: str = " || ") -> str:
        """Whether one of several tests fails."""
        for test in tests:
            self.look_up(test.index, depth, scope)
        return either.join(self.test(t, scope, fails=True) for t in tests)

    # ---- values ----
    def value(self, access: Access, depth: int, scope: Scope, named: bool = False) -> str:
        """The expression for an access, after the statements it needs.

        Long and shared expressions become named constants; `named` means that the caller will name
        this one.
        """
        # Accesses that are cheap to repeat are never named.
        if isinstance(access, Constant):
            return ct.constant(access.value, access.aval)
        if isinstance(access, InRegister):
            return self.held(depth, access.value, scope)
        if isinstance(access, Address):
            self.look_up(access.index, depth, scope)
            # An address is a pointer into an input, for helpers that search from there.
            name, at = self.in_name[access.source], self.at(access.index, scope)
            self.touched.note(access.source, Index.axis(0, access.source.aval.size))
            return name if access.index == Index() else f"{name} + {at}"
        # Computed in this scope already?
        if access in scope:
            return scope[access]
        # Compute it, operands first.
        if isinstance(access, Element):
            text, aval = self.loaded(access, depth, scope), access.source.aval
        elif isinstance(access, Guarded):
            text, aval = self.guarded(access, depth, scope), access.aval
        elif isinstance(access, SerialFold):
            text, aval = self.serial_fold(access, depth, scope), access.aval
        else:
            text, aval = self.applied(access, depth, scope), access.aval
        # Name it if that is worth a line, with the operation as comment unless the text shows it. A
        # bare name needs no second one.
        if re.fullmatch(r"\w+", text):
            scope[access] = text
        elif self.needs_name(access, text, named):
            # Numbered by reads, in the order of the text, so equal kernels have equal text.
            name = scope[access] = f"t{self.reads}"
            self.reads += 1
            what = access.eqn if isinstance(access, Applied) else None
            said = what is None or what.primitive.name in text
            comment = "" if said or what is None else what.primitive.name
            self.define(depth, aval, name, text, comment)
            return name
        return text

    def held(self, depth: int, value: Any, scope: Scope) -> str:
        """The text of a value in a register; only kernels with loops have such values."""
        raise AssertionError(f"only kernels with loops hold values in registers, got {value!r}")

    def needs_name(self, access: Access, text: str, named: bool) -> bool:
        """Whether an expression becomes a named constant: if it is long, or used more than once.

        Inside a guard only if it is long: a statement would turn its `?:` into an `if`.
        """
        # A choice over several lines, or a long expression, is hard to read inside another one.
        if "\n" in text or len(text) > TARGET.name_from:
            return not named
        return self.uses.get(access, 0) > 1 and not self.guards

    def loaded(self, access: Element, depth: int, scope: Scope) -> str:
        self.look_up(access.index, depth, scope)
        self.touched.note(access.source, access.index)
        text = f"{self.in_name[access.source]}[{self.at(access.index, scope)}]"
        return self.read_from(text, access.source.aval)

    def read_from(self, place: str, aval: ShapedArray) -> str:
        """The value of an element in memory."""
        return f"ga_value({place})" if ct.is_half(aval) else place

    def applied(self, access: Applied, depth: int, scope: Scope) -> str:
        # Positions that the operation looks up are read before its operands.
        for index in access.places:
            self.look_up(index, depth, scope)
        texts = [self.value(o, depth, scope) for o in access.operands]
        if access.eqn is not None and not self.guards and not all(map(_SHORT.fullmatch, texts)):
            often = repeated(access.eqn, len(texts) + len(access.places))
            for k in (k for k in often if k < len(texts)):
                texts[k] = self.name_repeated(access.operands[k], texts[k], depth, scope)
        texts += [self.at(index, scope) for index in access.places]
        texts = self.operands_of(access, texts, depth, scope)
        texts = [bracketed(t) for t in texts]
        # Without an equation it is a template, with the types that it may use.
        if access.eqn is None:
            types = {"T": ct.value_type(access.aval), "M": ct.memory_type(access.aval)}
            return access.template.format(*texts, **types, **ct.TYPES)
        return truncated(expression(access.eqn, texts)[access.number], access.aval)

    def operands_of(self, access: Applied, texts: list[str], depth: int, scope: Scope) -> list[str]:
        """The operands and places of an operation in its text; forms may want names for some."""
        return texts

    def name_repeated(self, access: Access, text: str, depth: int, scope: Scope) -> str:
        """A name for an operand that an operation names more than once, unless it is short."""
        if _SHORT.fullmatch(text) or not isinstance(access, Element | Applied | Guarded):
            return text
        name = scope[access] = f"t{self.reads}"
        self.reads += 1
        aval = access.source.aval if isinstance(access, Element) else access.aval
        self.define(depth, aval, name, text)
        return name

    def guarded(self, access: Guarded, depth: int, scope: Scope) -> str:
        # Tests need their positions outside the guard; each side has a separate scope.
        tests = self.tests(access.tests, depth, scope)
        sides = [self.in_own_scope(a, depth + 1, scope) for a in (access.inside, access.outside)]
        return self.select(tests, sides, ct.value_type(access.aval), depth)

    def select(self, tests: str, sides: list[tuple[list[str], str]], kind: str, depth: int) -> str:
        """A choice between two expressions, each with the statements it needs."""
        (before, one), (after, two) = sides
        # Without statements a `?:`, which reads only on the side that is taken. Choices nested on
        # the right need no brackets.
        if not before and not after:
            sides_text = bracketed(one), two if "? " in two else bracketed(two)
            if len(tests) + len(one) + len(two) < TARGET.choice_width:
                return "{} ? {} : {}".format(tests, *sides_text)
            space = "\n" + "    " * (depth + 1)
            return "{0}{1}? {2}{1}: {3}".format(tests, space, *sides_text)
        # Otherwise an `if` that assigns to a variable.
        name = f"g{self.reads}"
        self.reads += 1
        self.line(depth, f"{kind} {name};")
        self.line(depth, f"if ({tests}) {{")
        self.lines += before
        self.line(depth + 1, f"{name} = {one};")
        self.line(depth, "} else {")
        self.lines += after
        self.line(depth + 1, f"{name} = {two};")
        self.line(depth, "}")
        return name

    def in_own_scope(self, access: Access, depth: int, scope: Scope) -> tuple[list[str], str]:
        """The statements of an expression, separate from the other lines, and its text.

        Names it defines are local: the caller opens a block for them.
        """
        outside, self.lines = self.lines, []
        self.guards += 1
        # A copy: names defined on one side of a guard do not exist on the other.
        text = self.value(access, depth, dict(scope))
        self.guards -= 1
        lines, self.lines = self.lines, outside
        return lines, text

    def serial_fold(self, access: SerialFold, depth: int, scope: Scope) -> str:
        """A loop in which one thread folds several elements; its result as text."""
        # Declare the states with their initial values.
        states: list[str] = []
        for kind, first in folds.states_of(access):
            start = first if isinstance(first, str) else self.value(first, depth, scope)
            states.append(f"f{self.reads}")
            self.reads += 1
            self.line(depth, f"{kind} {states[-1]} = {start};")
        inner, own = self.open_fold(access, depth, scope)
        inner = self.fold_step(access, states, inner, own, inner == depth)
        for level in range(inner - 1, depth - 1, -1):
            self.line(level, "}")
        return folds.result_of(access, states)

    def open_fold(self, access: SerialFold, depth: int, scope: Scope) -> tuple[int, Scope]:
        """Open the loops of a fold; returns the depth inside, and the names there."""
        # A loop for each axis. Short ones are unrolled, so that all their reads are in flight
        # together. Numbers of axes of loops are negative, those of the group are not.
        inner = depth
        turns = math.prod(axis.length for axis in access.loops)
        for k, axis in enumerate(access.loops):
            w = self.axis_name[axis.number] = f"w{self.reads}"
            self.reads += 1
            begin, end = "0", self.number(axis.length)
            short = turns <= TARGET.written_out or (
                k == len(access.loops) - 1 and axis.length <= TARGET.written_out
            )
            # A loop over a whole axis, unless its bounds are found in memory.
            if access.spans:
                begin, end = (self.value(a, inner, scope) for a in access.spans[k])
                # Named, since each iteration would compute it.
                if not re.fullmatch(r"\w+", end):
                    self.line(inner, f"const {self.index_type} end{w[1:]} = {end};")
                    end = f"end{w[1:]}"
                # Several iterations are unrolled, so that their reads are in flight together.
                self.touched.in_turns[axis.number] = TARGET.updates_ahead
                self.line(inner, f"#pragma unroll {TARGET.updates_ahead}")
            self.open_loop(inner, w, begin, end, unrolled=short and not access.spans)
            inner += 1
        # Skip elements that fail a test, before anything is read for them. Without a loop here
        # `continue` would leave the one around.
        own = dict(scope)
        if access.tests and access.loops:
            self.line(inner, f"if ({self.fails(access.tests, inner, own)}) continue;")
        elif access.tests:
            self.line(inner, f"if ({self.tests(access.tests, inner, own)}) {{")
            inner += 1
        return inner, own

    def fold_step(
        self, access: SerialFold, states: list[str], inner: int, own: Scope, block: bool
    ) -> int:
        """The statements of one step of a fold, in a block of their own if that is needed; returns
        the depth inside.
        """
        # Read the terms; those that the update names several times are read into constants.
        terms: list[str] = []
        for i, term in enumerate(access.terms):
            text = self.value(term, inner, own)
            if not re.fullmatch(r"\w+", text) and folds.times_read(access, i) > 1:
                name = f"t{self.reads}"
                self.reads += 1
                self.line(inner, f"const auto {name} = {text};")
                text = name
            terms.append(bracketed(text))
        places: list[str] = []
        # Positions that the update needs, such as that of the best element so far.
        for index in access.places:
            self.look_up(index, inner, own)
            places.append(bracketed(self.at(index, own)))
        # Update the states.
        steps = folds.steps_of(access, states, terms, places)
        if block and len(steps) > len(states):
            self.line(inner, "{")
            inner += 1
        for step in steps:
            self.line(inner, step)
        return inner


def commented(line: str, comment: str | None) -> str:
    """A line with a comment; comments in one column are easier to skim."""
    return f"{line:<72}  // {comment}" if comment else line


def bracketed(text: str) -> str:
    """An expression as an operand: in brackets unless it needs none."""
    if _ATOM.fullmatch(text) or (text.startswith("ga_") and _closes_last(text)):
        return text
    return f"({text})"


def _closes_last(text: str) -> bool:
    """Whether the first bracket closes at the end: one call, and nothing after it."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and c == ")":
            return i == len(text) - 1
    return False
