"""Loops of a thread in turns: in each it reads several vectors, and then computes them.

Floor 3. In: a pass of a kernel. Out: `TurnLoops`, the part of the templates of rows, columns and
batches that writes such loops. Where a loop has neither branches nor stores, the compiler moves its
reads ahead by itself, and it stays a plain one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gpuarray.compiler.cuda.template import Template
from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import bracketed
from gpuarray.core.graph import Var
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Turns(Struct):
    """A loop in turns: its head, and the elements that a thread takes in each of them.

    Attributes
    ----------
    place, last, step :
        The position of vector `u` of a turn, that of the last one, and the distance between two.
    guard :
        A condition that holds beyond the end, or an empty text.
    begin :
        The position of a turn.
    follows :
        Whether a loop over another part of the same rows comes before it.
    end :
        Whether it takes the few elements at an end of a row that are no whole vector.
    """

    head: str
    place: str
    last: str
    step: int
    guard: str
    count: int
    width: int
    reduced: list[int]
    begin: str = "k"
    follows: bool = False
    end: bool = False


class TurnLoops(Template):
    """Loops in turns."""

    def in_turns(self, one: Pass) -> bool:
        """Whether a loop has to read some elements before it computes any. In others the compiler
        does so by itself; but it moves no read past a branch, such as that of a quotient of small
        numbers, and then a thread waits for every element.
        """
        dear = any(m.eqn.primitive.weight > 1 for m in one.members)
        return bool(one.halves or one.stored) or dear

    def loads_to_hold(self, members: Sequence[Member], width: int) -> dict[tuple, Load]:
        """What members read from memory and may be held in registers: each once."""
        loads = (o for m in members for o in m.operands if isinstance(o, Load))
        return {(x.key, x.dims): x for x in loads if self.can_hold(x, width)}

    def loads_to_read(self, members: Sequence[Member], width: int) -> dict[tuple, Load]:
        """Those of them that are not held yet."""
        loads = self.loads_to_hold(members, width)
        return {key: x for key, x in loads.items() if key not in self.registers}

    def read_turn(self, turns: Turns, loads: dict[tuple, Load]) -> None:
        """Read the vectors of a turn."""
        if not loads:
            return
        held = self.declare_held("turn", loads, turns.width, turns.count, "[u]", depth=2)
        texts = [self.from_turn(turns, load, k) for k, (_, load) in enumerate(held)]
        self.open_turn(turns, "read")
        for (name, load), text in zip(held, texts, strict=True):
            if text is None:
                self.read_held([(name, load)], turns.width, 3)
                continue
            self.touched.note(load.source, self.load_index(load), width=turns.width)
            self.line(3, f"{name} = {text};")
            self.registers[load.key, load.dims] = name
        self.line(2, "}")

    def from_turn(self, turns: Turns, load: Load, number: int) -> str | None:
        """Vector `u` of a load by its distance from the turn's first one, which is constant: the
        compiler may not assume that of positions, which could wrap, and computes each address. None
        where vectors of a turn are not at equal distances in memory.
        """
        if turns.count == 1 or len(turns.reduced) != 1 or self.is_inlined(load):
            return None
        index, (axis,) = self.load_index(load), turns.reduced
        # Backwards, a distance would wrap to one of 2**32 elements.
        if (stride := index.coefficient(axis) or 0) <= 0:
            return None
        names, self.axis_name = self.axis_name, self.axis_name | {axis: turns.begin}
        position, self.position = self.position, turns.begin if self.position else ""
        kind, start = ct.memory_type(load.source.aval), self.at(index)
        self.axis_name, self.position = names, position
        where = f"{self.in_name[load.source]} + {bracketed(start)}"
        self.line(2, f"const {kind}* const from{number} = {where};")
        place = f"u * {self.number(stride * turns.step)}"
        if turns.width == 1:
            return f"from{number}[{place}]"
        return f"ga_load<{turns.width}>(from{number} + {place})"

    def begin_vector(self, members: Sequence[Member], width: int) -> None:
        """Lines before the elements of a vector of a turn."""

    def turns_to(
        self, start: str, spans: tuple[int, int], step: int, ahead: int, width: int, axes: list[int]
    ) -> list[Turns]:
        """The turns of a thread over a span of elements: it begins `start` behind the first, and
        goes on by `step`. Of many turns the last may be a loop of its own, so that no other has
        tests.
        """
        n, made = self.number, []
        first, length = spans
        whole, rest = divmod(length - first, step * ahead)
        apart = rest and ahead > 1 and whole >= TARGET.whole_turns
        cut = length - rest if apart else length
        for begin, end, count in ((first, cut, ahead), (cut, length, -(-rest // step))):
            if begin < end:
                at = f"{n(begin)} + {start}" if begin else start
                head = f"for ({self.index_type} k = {at}; k < {n(end)}; k += {n(step * count)}) {{"
                guard = f"j >= {n(end)}" if count > 1 and (end - begin) % (step * count) else ""
                place = f"k + u * {n(step)}" if count > 1 else "k"
                last = n(end - width) if guard else f"k + {n(step * (count - 1))}"
                last = last if count > 1 else "k"
                made.append(
                    Turns(head, place, last, step, guard, count, width, axes, follows=begin > 0)
                )
        return made

    def pass_in_turns(
        self, one: Pass, turns: Sequence[Turns], states: dict[Var, str], comment: str
    ) -> None:
        """Write the loops of a pass that reads the elements of a turn, and then computes them."""
        for each in turns:
            with self.counting(each):
                self._one_in_turns(one, each, states, comment)

    @contextlib.contextmanager
    def counting(self, turns: Turns) -> Iterator[None]:
        """Count what a loop reads, but for the few elements at the ends of rows."""
        most = self.touched.most
        self.touched.most = 0 if turns.end else most
        yield
        self.touched.most = most

    def _one_in_turns(self, one: Pass, turns: Turns, states: dict[Var, str], comment: str) -> None:
        loads = self.loads_to_read(one.members, turns.width)
        self.open_turns(turns, comment)
        if turns.end:
            self.name_position(2, "j", turns.place)
            self.define_axes(2, "j", turns.reduced)
            self.elements(2, one.members, one.stored, states, turns.width)
            self.line(1, "}")
            return
        self.read_turn(turns, loads)
        self.open_turn(turns, "compute")
        self.begin_vector(one.members, turns.width)
        self.elements(3, one.members, one.stored, states, turns.width)
        self.line(2, "}")
        self.line(1, "}")
        for load in loads.values():
            del self.registers[load.key, load.dims]

    def open_turns(self, turns: Turns, comment: str) -> None:
        """Open a loop in turns."""
        ends = {False: "before its first whole vector", True: "behind its last whole vector"}
        self.line(1, turns.head, ends[turns.follows] if turns.end else comment)
        # Loops over the parts of a row are one pass over it.
        (self.touched.unrolled if turns.follows else self.touched.begin)(turns.count)

    def open_turn(self, turns: Turns, comment: str, depth: int = 2) -> None:
        if turns.count == 1:
            self.line(depth, "{", comment)
        else:
            self.line(depth, "#pragma unroll")
            self.line(depth, f"for (unsigned u = 0; u < {turns.count}u; ++u) {{", comment)
        self.name_position(depth + 1, "j", turns.place)
        if turns.guard:
            self.line(depth + 1, f"if ({turns.guard}) continue;")
        self.define_axes(depth + 1, "j", turns.reduced)
