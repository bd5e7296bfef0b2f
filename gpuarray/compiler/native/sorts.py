"""Sorts, and the few largest elements of rows, as native functions.

Floor 3. In: an equation of `Kind.SORT`. Out: an `Ordering`: functions over rows, or over pieces of
long ones, and the phases that call them; the sorting code itself is in kernels/native.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.compiler.native.code import Code
from gpuarray.compiler.native.writer import Phase
from gpuarray.compiler.rewrite.sorts import axis_of, has_kernel, keys_of, length_of, takes_largest
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.target import PROCESSOR
from gpuarray.util import Struct


class Ordering(Struct):
    """Functions that put rows in order, and their phases: arguments are `in0`, `out0`, names in
    `room`.

    Attributes
    ----------
    room :
        Arrays between phases, by name: the type of their elements, how many, and their bytes.
    work :
        Operations on elements, roughly.
    """

    functions: str
    phases: tuple[Phase, ...]
    room: dict[str, tuple[str, int, int]]
    work: float


def ordering(eqn: Eqn, name: str, wanted: Sequence[int], alone: bool) -> Ordering:
    """The functions of a sort, or of a selection of the largest, of which the results `wanted` are
    read. If it has none, NoKernel gives the reason; `alone` means outside loops, where NumPy can be
    called.
    """
    if not has_kernel(eqn):
        raise NoKernel(f"{eqn.primitive.name} of no elements, or of a dtype that kernels lack")
    if length_of(eqn) >= 1 << 31:
        raise NoKernel("rows that are too long to number their elements")
    if takes_largest(eqn):
        n, count = length_of(eqn), eqn.outvars[0].aval.shape[axis_of(eqn)]
        if count <= PROCESSOR.largest_kept and count <= max(1, n * PROCESSOR.largest_part):
            return _largest(eqn)
    # In a loop there is no way back to Python: the slower kernel is the only one there.
    elif alone and _for_numpy(eqn):
        raise NoKernel("values alone are sorted by NumPy, which has vector instructions for it")
    if length_of(eqn) > PROCESSOR.sorted_in_memory:
        return _LongRows(eqn, name, wanted).ordering()
    if length_of(eqn) > PROCESSOR.sorted_row:
        return _in_memory(_Writer(eqn, name, wanted))
    return _rows(_Writer(eqn, name, wanted))


def _for_numpy(eqn: Eqn) -> bool:
    """Whether NumPy sorts faster, for all that another call costs: many real values alone."""
    aval = eqn.invars[0].aval
    real = len(eqn.invars) == 1 and storage_dtype(aval).kind != "c"
    return real and aval.size > PROCESSOR.sorted_alone


def _largest(eqn: Eqn) -> Ordering:
    """A few of the largest: kept in order while a row is read."""
    n, axis = length_of(eqn), axis_of(eqn)
    (aval,) = (a.aval for a in eqn.invars)
    count, inside = eqn.outvars[0].aval.shape[axis], math.prod(aval.shape[axis + 1 :])
    rows = aval.size // n
    numbers, kind = f"{count}, {n}, {inside}", ct.memory_type(aval)
    # Few long rows are cut, or most threads would be idle.
    pieces = min(PROCESSOR.many_tasks, n // PROCESSOR.piece)
    if rows >= PROCESSOR.many_tasks or pieces < 2:
        # Enough rows for all threads: each is a task, without merging.
        grain = max(1, PROCESSOR.task // n)
        phase = Phase(f"ga_top<{numbers}, {kind}>", rows, grain, ("in0", "out0", "out1"))
        return Ordering("", (phase,), {}, 2.0 * aval.size)
    placed = f"ga_placed<{_key_type(eqn, 0)[0]}>"
    # Otherwise pieces of rows find their own largest, and then a task for each row merges them.
    of_pieces = f"ga_top_pieces<{numbers}, {pieces}, {kind}, {placed}>"
    merging = f"ga_top_merge<{numbers}, {pieces}, {kind}, {placed}>"
    phases = (
        Phase(of_pieces, rows * pieces, 1, ("in0", "part0")),
        Phase(merging, rows, rows, ("part0", "in0", "out0", "out1")),
    )
    room = {"part0": (placed, rows * pieces * count, 2 * _key_type(eqn, 0)[1])}
    return Ordering("", phases, room, 2.0 * aval.size)


def _key_type(eqn: Eqn, number: int) -> tuple[str, int]:
    """The type of the keys of an operand, and its bytes."""
    dtype = storage_dtype(eqn.invars[number].aval)
    # The parts of a complex number are separate keys.
    wide = dtype.itemsize // (2 if dtype.kind == "c" else 1) > 4
    return ("unsigned long long", 8) if wide else ("unsigned", 4)


class _Writer(Code):
    """The text of a sort: keys of its operands, the last one first, each sorted stably."""

    def __init__(self, eqn: Eqn, name: str, wanted: Sequence[int]):
        super().__init__()
        self.eqn, self.name, self.wanted = eqn, name, wanted
        self.n, axis = length_of(eqn), axis_of(eqn)
        shape = eqn.invars[0].aval.shape
        self.inside = math.prod(shape[axis + 1 :])
        self.rows = math.prod(shape) // self.n
        self.largest = takes_largest(eqn)
        self.count = eqn.outvars[0].aval.shape[axis]
        # The keys by weight, the least first: operand, part of a complex number.
        self.keys = [
            (k, part)
            for k in reversed(range(keys_of(eqn)))
            for part in ((".im", ".re") if storage_dtype(eqn.invars[k].aval).kind == "c" else ("",))
        ]
        self.done: list[str] = []
        self.used: set[str] = set()  # operands and results that the lines name

    def at(self, place: str) -> str:
        """The position in memory of an element of a row."""
        return f"at + {place}" if self.inside == 1 else f"at + {place} * {self.inside}"

    def define_row(self) -> None:
        """Where the row begins in memory."""
        i, n = self.inside, self.n
        begin = f"row * {n}" if i == 1 else f"row / {i} * {n * i} + row % {i}"
        self.line(f"const ga_index at = {begin};")

    def key(self, number: int, place: str) -> str:
        """The key of an element, by the number of the key."""
        operand, part = self.keys[number]
        total = str(self.largest).lower()
        self.used.add(f"in{operand}")
        # An unsigned number that orders as the value does, so that one sort serves all dtypes.
        text = f"ga_ordinal<{total}>(in{operand}[{self.at(place)}]{part})"
        # Inverted, as sorts put the smallest first.
        return f"~{text}" if self.largest else text

    def store(self, place: str) -> None:
        """Put the element at `place` of its row where it belongs, as the j-th."""
        to = self.at("j")
        if self.largest and self.count != self.n:
            i, k = self.inside, self.count
            # A result of fewer elements than the operand has another row length.
            begin = f"row * {k}" if i == 1 else f"row / {i} * {k * i} + row % {i}"
            to = f"{begin} + j" if i == 1 else f"{begin} + j * {i}"
        for k in self.wanted:
            # The second result of a selection is where the elements were.
            if self.largest and k:
                value = f"(int){place}"
            else:
                value = f"in{k}[{self.at(place)}]"
                self.used.add(f"in{k}")
            self.line(f"out{k}[{to}] = {value};")
            self.used.add(f"out{k}")

    def arrays(self, prefix: str) -> list[tuple[str, str]]:
        """The operands or the results that the lines name, as parameters."""
        values = self.eqn.invars if prefix == "in" else self.eqn.outvars
        const = "const " if prefix == "in" else ""
        named = [(v, f"{prefix}{k}") for k, v in enumerate(values) if f"{prefix}{k}" in self.used]
        return [(f"{const}{ct.memory_type(v.aval)}*", name) for v, name in named]

    def end_function(self, name: str, given: list[tuple[str, str]]) -> tuple[str, ...]:
        """End the function that the lines are the body of; return the names of its arguments."""
        parameters = [f"{kind} GA_ALONE {a}" for kind, a in given]
        head = f"GA_TASKS {name}(\n    ga_index first, ga_index last,\n    "
        self.done += [head + ",\n    ".join(parameters) + ") {", *self.lines, "}"]
        self.lines, self.used = [], set()
        return tuple(a for _, a in given)

    @property
    def work(self) -> float:
        return self.rows * self.n * self.eqn.primitive.weight


def _rows(w: _Writer) -> Ordering:
    """Rows that are a task each, in memory of the function's own."""
    n = w.n
    # Short rows count, for each element, those before it: no branches, but n * n comparisons.
    short = n <= PROCESSOR.ranked_row
    function = "ga_put_in_order" if short else "ga_put_in_order_by_digits"
    with w.block("for (ga_index row = first; row < last; ++row) {"):
        w.define_row()
        w.line(f"GA_LOCAL unsigned order[{n}];")
        w.line(f"for (ga_index j = 0; j < {n}; ++j) order[j] = (unsigned)j;")
        # Each key sorts what is already in order by the lesser keys, stably.
        for number, (operand, _) in enumerate(w.keys):
            kind, _ = _key_type(w.eqn, operand)
            w.line(f"GA_LOCAL {kind} key{number}[{n}];")
            key = w.key(number, "order[j]" if number else "j")
            w.line(f"for (ga_index j = 0; j < {n}; ++j) key{number}[j] = {key};")
            w.line(f"{function}<{n}>(key{number}, order);")
        with w.block(f"for (ga_index j = 0; j < {w.count}; ++j) {{"):
            w.store("order[j]")
    given = w.end_function(w.name, [*w.arrays("in"), *w.arrays("out")])
    phase = Phase(w.name, w.rows, max(1, PROCESSOR.task // (4 * n)), given)
    return Ordering("\n".join(w.done) + "\n", (phase,), {}, w.work)


def _in_memory(w: _Writer) -> Ordering:
    """Rows that are a task each, too long for the stack."""
    n, elements = w.n, w.n * w.rows
    # One array serves all keys, so its elements have room for the widest.
    kind, size = max((_key_type(w.eqn, k) for k, _ in w.keys), key=lambda found: found[1])
    placed = f"ga_placed<{kind}>"
    place = placed, elements, 2 * size
    room = {"part0": place, "part1": place}
    with w.block("for (ga_index row = first; row < last; ++row) {"):
        w.define_row()
        w.line(f"{placed}*here = part0 + row * {n}, *there = part1 + row * {n};")
        for number in range(len(w.keys)):
            with w.block(f"for (ga_index j = 0; j < {n}; ++j) {{"):
                if number:
                    w.line(f"here[j].key = {w.key(number, 'here[j].at')};")
                else:
                    w.line(f"here[j] = {{{w.key(number, 'j')}, (unsigned)j}};")
            sort = f"ga_sort_by_digits<{PROCESSOR.digit_bits}>(here, there, {n})"
            if number + 1 < len(w.keys):
                w.line(f"if ({sort} == there) {{")
                w.line(f"    {placed}* const other = here;")
                w.line("    here = there, there = other;")
                w.line("}")
            else:
                w.line(f"here = {sort};")
        with w.block(f"for (ga_index j = 0; j < {w.count}; ++j) {{"):
            w.store("here[j].at")
    arrays = [(f"{placed}*", name) for name in room]
    given = w.end_function(w.name, [*w.arrays("in"), *arrays, *w.arrays("out")])
    phase = Phase(w.name, w.rows, 1, given)
    return Ordering("\n".join(w.done) + "\n", (phase,), room, w.work)


class _LongRows(_Writer):
    """Rows in pieces, each a task: a radix sort that counts the digits of the keys and moves
    elements to the places of their digits, from the lowest digits on.
    """

    def ordering(self) -> Ordering:
        n, cut = self.n, PROCESSOR.piece
        pieces = -(-n // cut)
        tasks = self.rows * pieces
        phases: list[Phase] = []
        kinds = [_key_type(self.eqn, k) for k, _ in self.keys]
        # One array serves all keys, so its elements have room for the widest.
        kind, size = max(kinds, key=lambda found: found[1])
        placed, bits = f"ga_placed<{kind}>", PROCESSOR.digit_bits
        elements = self.rows * n
        room = {
            "part0": (placed, elements, 2 * size),
            "part1": (placed, elements, 2 * size),
            # The number of occurrences of each digit in each piece.
            "counts": ("unsigned", tasks << bits, 4),
        }
        # Elements go to and fro between two arrays, once for each digit.
        here, there = "part0", "part1"
        for number in range(len(self.keys)):
            # The keys of all elements, in the order so far.
            function = f"{self.name}_keys{number}"
            with self.piece(pieces, cut):
                if number:
                    self.line(f"{placed}& one = {here}[row * {n} + j];")
                    self.line(f"one.key = {self.key(number, 'one.at')};")
                else:
                    key = self.key(number, "j")
                    self.line(f"{here}[row * {n} + j] = {{{key}, (unsigned)j}};")
            given = self.end_function(function, [*self.arrays("in"), (f"{placed}*", here)])
            phases.append(Phase(function, tasks, 1, given))
            # Three phases for each digit: the number of its occurrences in each piece, the start of
            # each piece's elements with that digit, and the moves. Pieces keep their order, and so
            # do equal digits.
            for shift in range(0, 8 * self.key_bytes(number), bits):
                numbers = f"{n}, {pieces}, {cut}, {shift}, {bits}"
                counted = ("counts",)
                phases += [
                    Phase(f"ga_count_digits<{numbers}, {kind}>", tasks, 1, (here, *counted)),
                    Phase(f"ga_place_digits<{pieces}, {bits}>", self.rows, 1, counted),
                    Phase(f"ga_move_digits<{numbers}, {kind}>", tasks, 1, (here, "counts", there)),
                ]
                here, there = there, here
        # The elements in their order.
        with self.piece(pieces, cut, self.count):
            self.store(f"{here}[row * {n} + j].at")
        given = [*self.arrays("in"), (f"const {placed}*", here), *self.arrays("out")]
        phases.append(Phase(self.name, tasks, 1, self.end_function(self.name, given)))
        return Ordering("\n".join(self.done) + "\n", tuple(phases), room, self.work)

    @contextmanager
    def piece(self, pieces: int, cut: int, end: int | None = None) -> Iterator[None]:
        """The loops over tasks and over the elements of a piece."""
        with self.block("for (ga_index task = first; task < last; ++task) {"):
            self.line(f"const ga_index row = task / {pieces}, begin = task % {pieces} * {cut};")
            self.define_row()
            over = f"ga_least(begin + {cut}, {self.n if end is None else end})"
            self.line(f"const ga_index end = {over};")
            with self.block("for (ga_index j = begin; j < end; ++j) {"):
                yield

    def key_bytes(self, number: int) -> int:
        return _key_type(self.eqn, self.keys[number][0])[1]
