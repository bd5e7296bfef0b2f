"""Values of native kernels: reads, choices and tests as compilers make vectors of them.

Floor 3. In: a Kernel. Out: `ValueWriter`, which writes the expression of a value, and records the
facts that decide how the loops around it are written (facts.py).
"""

from __future__ import annotations

import numpy as np

from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.native.accesses import always_read, chosen_from
from gpuarray.compiler.native.facts import (
    NOTHING,
    EachLine,
    Facts,
    FlagRead,
    Front,
    Known,
    SearchLine,
)
from gpuarray.compiler.native.halves import READ, ROUNDED, HalfLine
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import chooses
from gpuarray.compiler.text.prelude import for_many
from gpuarray.compiler.text.reader import call_in, is_call
from gpuarray.compiler.text.statements import Fetched, Statements
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Below,
    Best,
    Element,
    Guarded,
    InRegister,
    Lookup,
    Reduced,
    SerialFold,
    Test,
)
from gpuarray.core.graph import Eqn, Literal, Var, storage_dtype
from gpuarray.core.index import Axis, Index, axes_of


class ValueWriter(Statements):
    """The values of one kernel."""

    #: Positions have 64 bits: a CPU computes them for free, and with fewer the compiler could not
    #: know that neighbours stay neighbours. Unsigned, so that one comparison tests both ends.
    index_type = "ga_index"
    suffix = ""
    #: The axis of the innermost loop, for forms whose loops are vectorised.
    inner: int | None = None

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        # In the innermost of a nest of loops: the lines in front of it, and the names that these
        # give to the places of rows.
        self.front: Front | None = None
        self.known: dict[str, Known] = {}  # of expressions, by their text
        self.operands_known = Known()  # of the operands of the current operation
        self.operand_texts: list[str] = []
        self.in_order: set[int] = set()  # axes that only tasks go along
        # Of bools that test numbers: whether one of them is compared with an integer.
        self.of_numbers: dict[Var, bool] = {}
        self.begin_facts()

    def begin_facts(self) -> None:
        """Begin a function, without facts."""
        self.touched = self.facts = Facts(self.in_order)

    def define_axes(self, depth: int, position: str, axes: list[int]) -> None:
        """Define positions along axes; of a single axis it is that of the task."""
        if len(axes) == 1 and self.axis_name[axes[0]] != position:
            self.in_order.add(axes[0])
        super().define_axes(depth, position, axes)

    def known_of(self, text: str) -> Known:
        """The facts about an expression; a name or a constant has none."""
        return self.known.get(text, NOTHING)

    # ---- reads ----
    def read_from(self, place: str, aval: ShapedArray) -> str:
        """The value of an element in memory. A loop with conditions that are bools in memory is not
        vectorised, one with bytes that are compared is.
        """
        is_flag = storage_dtype(aval).kind == "b"
        text = f"ga_flag({place})" if is_flag else super().read_from(place, aval)
        self.known.setdefault(text, Known(reads=True))
        return text

    def read(self, load: Load) -> str:
        text = super().read(load)
        self.note_kind(text, self.load_index(load), load.source.aval)
        return text

    def loaded(self, access: Element, depth: int, scope: Fetched) -> str:
        text = super().loaded(access, depth, scope)
        self.note_kind(text, access.index, access.source.aval)
        return text

    def note_kind(self, text: str, index: Index, aval: ShapedArray) -> None:
        """Record the read of a bool that may be read before the loop (see `nests.py`), and of a
        half among neighbours (see `halves.py`).
        """
        along = self.inner is not None and index.coefficient(self.inner) == 1
        if storage_dtype(aval) == np.float16 and along:
            self.known[text] = Known(reads=True, is_half=True)
        axes = all(isinstance(a, Axis) and a.number >= 0 for a, _ in index.terms)
        if storage_dtype(aval).kind == "b" and axes:
            self.known[text] = Known(reads=True, is_flag=True)

    def define(
        self, depth: int, aval: ShapedArray, name: str, text: str, comment: str = ""
    ) -> None:
        super().define(depth, aval, name, text, comment)
        if self.known_of(text).is_flag:
            self.lines[-1] = FlagRead(self.lines[-1], depth, name, text, comment)
        elif self.known_of(text).is_half:
            self.lines[-1] = HalfLine(self.lines[-1], READ, name, text[len(READ) : -1])
        elif text.startswith(ROUNDED) and is_call(text):
            self.lines[-1] = HalfLine(self.lines[-1], ROUNDED, name, text[len(ROUNDED) : -1])
        elif self.front is not None and (call := call_in(text, for_many())):
            self.lines[-1] = EachLine(self.lines[-1], depth, name, call, ct.value_type(aval))

    def pointwise(self, eqn: Eqn, operands: list[str]) -> list[str]:
        """The results of a pointwise equation as text. g++ makes a conversion of the test whether a
        number is even, or another of 0 and 1, and does not vectorise what joins it with another
        test; it does what joins choices.
        """
        texts = super().pointwise(eqn, operands)
        out, kinds = eqn.outvars[0], {storage_dtype(a.aval).kind for a in eqn.invars}
        if storage_dtype(out.aval).kind != "b" or len(operands) > 2:
            return texts
        if kinds != {"b"}:
            constant = kinds <= {"i", "u"} and any(isinstance(a, Literal) for a in eqn.invars)
            self.of_numbers[out] = constant and texts[0] in _joined(operands, "==", "!=")
            return texts
        tests = [self.of_numbers.get(a) for a in eqn.invars if not isinstance(a, Literal)]
        if None in tests:
            return texts
        self.of_numbers[out] = any(tests)
        if not any(tests):
            return texts
        chosen = [f"({o} ? 1 : 0)" for o in operands]
        ways = zip(_joined(operands, *"&|^"), _joined(chosen, *"&|^"), strict=True)
        return [dict(ways).get(texts[0], texts[0])]

    def place_type(self, atom: Lookup) -> str:
        """Positions that are looked up and are never negative have 32 bits where all arrays are so
        small that no product of them overflows: as many as floats go into a vector then.
        """
        few = all(v.aval.size < 1 << 28 for v in (*self.inputs, *self.outputs))
        return "int" if few and not atom.find else super().place_type(atom)

    # ---- tests ----
    def test(self, test: Test, scope: Fetched, fails: bool = False) -> str:
        """A test as text, or its negation: positions below 0 wrap, 32-bit ones too."""
        self.note_edges(test)
        narrow = any(self.place_type(a) == "int" for a in self.lookups(test.index))
        if narrow and isinstance(test, Below):
            below = ">=" if fails else "<"
            return f"(ga_index)({self.at(test.index, scope)}) {below} {test.bound}"
        return super().test(test, scope, fails)

    def note_edges(self, test: Test) -> None:
        """Note where a test begins or ends to hold, if it is about the position along one axis."""
        # Axes of loops in the element have negative numbers: a window's.
        terms = [(a, k) for a, k in test.index.terms if not isinstance(a, Axis) or a.number >= 0]
        within = [k * a.largest for a, k in test.index.terms if (a, k) not in terms]
        atom, step = terms[0] if len(terms) == 1 else (None, 0)
        if not isinstance(test, Below) or not isinstance(atom, Axis) or abs(step) != 1:
            self.facts.other_tests = True
            return
        # Before the first and after the last piece they fail for a part of the window.
        self.facts.other_tests |= bool(within)
        least, most = (sum(x for x in within if x * sign > 0) for sign in (-1, 1))
        # 0 <= i + c < bound, or 0 <= c - i < bound, wherever in the window.
        c, bound = test.index.constant, test.bound
        ends = (
            (-c - least, bound - c - most) if step == 1 else (c + most - bound + 1, c + least + 1)
        )
        self.facts.edges.setdefault(atom.number, set()).update(ends)

    # ---- choices ----
    def operands_of(
        self, access: Applied, texts: list[str], depth: int, scope: Fetched
    ) -> list[str]:
        """The alternatives of a choice are read before it: a loop of choices of values is
        vectorised, one of choices of reads is not.
        """
        choice = any(self.known_of(text).chooses for text in texts)
        choice |= access.eqn is not None and chooses(access.eqn)
        named = list(texts)
        # A function of the prelude has them as arguments.
        if choice and access.eqn is not None:
            for k in (k for k, text in enumerate(texts) if self.known_of(text).reads):
                named[k] = self.name_repeated(access.operands[k], texts[k], depth, scope)
        self.operands_known = Known(any(self.known_of(text).reads for text in named), choice)
        self.operand_texts = named
        return named

    def applied(self, access: Applied, depth: int, scope: Fetched) -> str:
        text = super().applied(access, depth, scope)
        known = self.known.setdefault(text, self.operands_known)
        if known.reads and known.chooses:
            self.facts.conditional = self.facts.other_tests = True
        if access.each:
            return self.named_search(access, text, depth)
        if self.front is None or self.guards or not call_in(text, for_many()):
            return text
        name = f"t{self.reads}"
        self.reads += 1
        self.define(depth, access.aval, name, text)
        return name

    def named_search(self, access: Applied, text: str, depth: int) -> str:
        """A name for the result of a function for an element of a row: see `nests.py`."""
        *before, asked = access.operands
        moves = any(isinstance(o, Address) and self.inner in axes_of(o.index) for o in before)
        if self.front is None or self.guards or moves or isinstance(asked, InRegister | Address):
            return text
        name = f"t{self.reads}"
        self.reads += 1
        *given, row = self.operand_texts
        aval = asked.source.aval if isinstance(asked, Element) else asked.aval
        types = ct.value_type(aval), ct.value_type(access.aval)
        self.define(depth, access.aval, name, text)
        call = f"{access.each}({', '.join(given)}"
        self.lines[-1] = SearchLine(self.lines[-1], depth, name, call, row, types)
        return name

    def guarded(self, access: Guarded, depth: int, scope: Fetched) -> str:
        """A choice; between places of one array, the same for a whole row, a single read from the
        chosen place: a loop of such reads is vectorised, a loop of choices is not.
        """
        if self.inner is None:
            return self.chosen(access, depth, scope)
        leaves, tests = chosen_from(access)
        steps = {x.index.coefficient(self.inner) for x in leaves}
        indices = [*(x.index for x in leaves), *(t.index for t in tests)]
        if (
            len(steps) != 1
            or None in steps
            or len({x.source for x in leaves}) > 1
            or any(self.inner in axes_of(t.index) for t in tests)
            or any(self.lookups(index) for index in indices)
        ):
            return self.chosen(access, depth, scope)
        # The reader is not called for them, so their reads are recorded here.
        for x in leaves:
            self.touched.note(x.source, x.index)
        # All leaves go along the innermost axis alike: only where the row begins is chosen.
        (step,) = steps
        along = Index(tuple((a, k) for a, k in leaves[0].index.terms if self.inner in a.axes))
        place = self.place_of(access, scope)
        if self.front is not None:
            place = self.name_row(self.front, place)
        if step:
            place = f"{self.at(along, scope)} + {place}"
        return self.read_from(f"{self.in_name[leaves[0].source]}[{place}]", leaves[0].source.aval)

    def name_row(self, front: Front, place: str) -> str:
        """A name for the place of a row, which is chosen in front of the innermost loop: within it
        g++ would make a choice of reads of the read from a place that is chosen.
        """
        if place not in front.rows:
            name = front.rows[place] = f"row{self.count}"
            self.count += 1
            front.line(f"const ga_index {name} = {place[1:-1]};")
        return front.rows[place]

    def chosen(self, access: Guarded, depth: int, scope: Fetched) -> str:
        """A choice; reads common to both sides come before it."""
        other = set(always_read(access.outside))
        for part in (x for x in always_read(access.inside) if x in other):
            self.name_repeated(part, self.value(part, depth, scope), depth, scope)
        return super().guarded(access, depth, scope)

    def select(self, tests: str, sides: list[tuple[list[str], str]], kind: str, depth: int) -> str:
        text = super().select(tests, sides, kind, depth)
        if any(before for before, _ in sides):
            self.facts.conditional = True
            self.facts.branches += 1
            return text
        reads = any(self.known_of(side).reads for _, side in sides)
        self.facts.conditional |= reads
        self.known[text] = Known(reads, chooses=True)
        return text

    def leave(self, depth: int, test: str, how: str = "continue") -> None:
        """Leave an iteration, or the function, if a test holds."""
        self.facts.conditional = True
        self.line(depth, f"if ({test}) {how};")

    def serial_fold(self, access: SerialFold, depth: int, scope: Fetched) -> str:
        how = access.how
        skips = bool(access.tests) or isinstance(how, Best)
        self.facts.conditional |= skips or (isinstance(how, Reduced) and how.matching)
        return super().serial_fold(access, depth, scope)

    def place_of(self, access: Access, scope: Fetched) -> str:
        """The place of the row that is read, without the position along the innermost axis."""
        if isinstance(access, Guarded):
            tests = " && ".join(Statements.test(self, t, scope) for t in access.tests)
            one, two = (self.place_of(x, scope) for x in (access.inside, access.outside))
            return f"({tests} ? {one} : {two})"
        assert isinstance(access, Element)
        index = access.index
        terms = tuple((a, k) for a, k in index.terms if self.inner not in a.axes)
        return self.at(Index(terms, index.constant), scope)


def _joined(operands: list[str], *by: str) -> list[str]:
    """Two operands joined by each of some operators; nothing of one."""
    return [f" {b} ".join(operands) for b in by] if len(operands) == 2 else []
