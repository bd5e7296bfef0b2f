"""Loops of threads over a row, and rows of which as much as fits is held.

Floor 3. In: a Rows kernel whose passes read a row several times. Out: `RowLoops`, the part of its
template that writes loops along a row. A row that is too long for registers is held in shared
memory, which the launch sets aside, and its beginning in registers if that is too small. On a GPU
with less of it, the rest is read again by each pass. Each thread has its own locations there, so no
barrier is needed.

Long rows whose length no vector divides begin anywhere within a vector: the elements up to the
first one that is whole (`head`), and those from the last one on (`body`), are taken one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuarray.compiler.cuda.online import OnlineTemplate
from gpuarray.compiler.cuda.template import Options
from gpuarray.compiler.cuda.turns import Turns
from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.kernel import Rows
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.lower.schedule import Schedule, row_room, turns_ahead
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import bracketed
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import axes_of
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Stretch(Struct):
    """A part of a row for which each pass has a loop: `steps` vectors a thread, from `first` on.

    steps: 0 where there are many
    held: loads that are in registers, and in which
    apart: loads that may be in shared memory, each with the array there
    """

    first: int = 0
    steps: int = 0
    held: Fetched = {}
    apart: tuple[tuple[Load, str], ...] = ()


class RowLoops(OnlineTemplate):
    """Loops along rows."""

    def __init__(self, kernel: Rows, options: Options):
        super().__init__(kernel, options)
        self.passes = list(kernel.passes)
        self.sums: dict[Var, str] = {}  # folds of columns, and where a thread has its own
        self.stretches = [Stretch()]
        self.part = Stretch()  # that a loop goes over
        self.filled: set[str] = set()  # arrays in shared memory that some pass has filled
        # Where the vectors of a row begin and end, if not at its own ends.
        self.ends: tuple[int | str, int | str] | None = None

    # ---- rows that begin within a vector ----
    def width_between_ends(self, length: int, reduced: list[int]) -> int:
        """The width of vectors if the ends of rows are taken element by element: that of vectors
        without ends, if there is no need for them, or no place where whole vectors begin.
        """
        width, (wide, _) = self.width(), self.between_ends()
        loads = {x.key: x.source for x in self.group.loads() if self.last in x.dims}
        held = length * sum(storage_dtype(v.aval).itemsize for v in loads.values())
        # Rows that several passes read are held element by element where a block has room.
        held_so = len(self.passes) > 1 and held <= TARGET.row_shared_bytes
        return width if held_so or len(reduced) > 1 or wide <= 2 * width else wide

    def find_ends(self, length: int) -> None:
        """Define where whole vectors begin in a row (`head`), and where they end (`body`)."""
        n, (wide, begin) = self.number, self.between_ends()
        if not begin.terms:
            # The same for all rows.
            head = -begin.constant % wide
            self.ends = head, head + (length - head) // wide * wide
            return
        self.ends = "head", "body"
        start = bracketed(self.at(begin))
        self.line(1, f"const unsigned head = (0u - (unsigned){start}) % {wide}u;")
        whole = f"({n(length)} - head) / {wide}u * {wide}u"
        self.line(1, f"const {self.index_type} body = head + {whole};")

    def turns_between_ends(
        self, length: int, lanes: int, ahead: int, width: int, reduced: list[int]
    ) -> list[Turns]:
        """The elements before the first whole vector, vectors, and the elements behind the last."""
        assert self.ends is not None
        t, n, step, (head, body) = self.index_type, self.number, lanes * width, self.ends
        until, rest = self._sum(body), f"{n(length)} - body"
        if isinstance(body, int):
            rest = n(length - body) if length > body else ""

        def end(before: int | str, place: str, follows: bool) -> Turns:
            text = f"if (lane < {before}) {{"
            return Turns(text, place, place, 0, "", 1, 1, reduced, follows=follows, end=True)

        def middle(first: int, until: str, count: int, guarded: bool) -> Turns:
            start = self._sum(first, head, f"lane * {n(width)}")
            text = f"for ({t} k = {start}; k < {until}; k += {n(step * count)}) {{"
            place = f"k + u * {n(step)}" if count > 1 else "k"
            last = f"{self._sum(body)} - {n(width)}" if guarded else f"k + {n(step * (count - 1))}"
            follows, guard = bool(first or head), f"j >= {self._sum(body)}" if guarded else ""
            return Turns(text, place, last, step, guard, count, width, reduced, follows=follows)

        # As many whole turns as every row has; the last one is a loop of its own, with tests.
        whole = (length - 2 * (width - 1)) // (step * ahead)
        cut = whole * step * ahead if ahead > 1 and whole >= TARGET.whole_turns else 0
        made = [end(self._sum(head), "lane", False)] if head else []
        made += [middle(0, self._sum(cut, head), ahead, False)] if cut else []
        count = min(ahead, -(-(length - cut) // step))
        made.append(middle(cut, until, count, count > 1))
        return [*made, end(rest, self._sum(body, "lane"), True)] if rest else made

    def _sum(self, *terms: int | str) -> str:
        """A sum of numbers and texts."""
        number = sum(x for x in terms if isinstance(x, int))
        texts = [x for x in terms if isinstance(x, str)]
        return " + ".join([self.number(number), *texts] if number else texts)

    def open_row_loop(
        self,
        s: Schedule,
        length: int,
        reduced: list[int],
        comment: str,
        members: Sequence[Member] = (),
    ) -> None:
        """Open the loop of a thread over its vectors of a row; neighbours take neighbours."""
        t, n, operations = self.index_type, self.number, len(members)
        scale = f" * {n(s.width)}" if s.width > 1 else ""
        # One vector for each thread: no loop.
        if s.steps == 1:
            self.touched.begin()
            whole = s.lanes * s.width == length
            self.line(1, "{" if whole else f"if (lane{scale} < {n(length)}) {{", comment)
            self.name_position(2, "j", f"lane{scale}")
        elif s.steps:
            # A known number. Arrays in registers need constant indices, so their loops are
            # unrolled; others only while the code stays short.
            often = (
                not (self.registers or self.carried or self.sums)
                and s.steps * s.width * operations > TARGET.row_copies
            )
            self.touched.begin(1 if often else s.steps)
            self.line(1, "#pragma unroll 1" if often else "#pragma unroll")
            self.line(1, f"for (unsigned u = 0; u < {s.steps}u; ++u) {{", comment)
            place = f"u * {n(s.lanes)} + lane"
            self.name_position(2, "j", f"({place}){scale}" if scale else place)
            # The last vectors may be beyond the row.
            if s.steps * s.lanes * s.width != length:
                self.line(2, f"if (j >= {n(length)}) continue;")
        else:
            # A long row: by strides of all threads.
            stride = n(s.lanes * s.width)
            head = f"for ({t} j = lane{scale}; j < {n(length)}; j += {stride}) {{"
            turn = self.bytes_a_turn(s.width, members)
            ahead = turns_ahead(turn, s, 2, operations, self.room) if turn else 2
            self.touched.begin(ahead)
            self.line(1, f"#pragma unroll {ahead}")
            self.line(1, head, comment)
        self.define_axes(2, "j", reduced)

    def enter(self, part: Stretch) -> None:
        """Go on with another part of the row: what is held of it is read from there."""
        self.part = part
        self.registers |= part.held
        for load, _ in part.apart:
            self.registers.pop((load.key, load.dims), None)

    def is_long(self, s: Schedule) -> bool:
        """Whether the part has more vectors for each thread than are written out."""
        return bool(self.part.apart) or not (s.steps or self.part.steps)

    def open_stretch(
        self,
        s: Schedule,
        length: int,
        reduced: list[int],
        comment: str,
        members: Sequence[Member] = (),
    ) -> None:
        """Open the loop of a pass over a part of a row."""
        if steps := self.part.steps:
            s, length = s.replace(steps=steps), steps * s.lanes * s.width
        self.open_row_loop(s, length, reduced, comment, members)

    def turns_of(
        self, one: Pass, s: Schedule, length: int, reduced: list[int], first: int = 0
    ) -> list[Turns]:
        """The turns of a block over a long row from its element `first` on."""
        n = self.number
        members = [] if one.halves else one.members
        turn = self.bytes_a_turn(s.width, members)
        ahead = turns_ahead(turn, s, 2, len(one.members), self.room) if turn else 2
        step, scale = s.lanes * s.width, f" * {n(s.width)}" if s.width > 1 else ""
        loads = self.loads_to_read(one.members, s.width)
        if loads and all(self.is_left(x) for x in loads.values()):
            # Shared memory answers soon.
            each = sum(storage_dtype(x.source.aval).itemsize for x in loads.values())
            ahead = min(ahead, max(1, 2 * TARGET.vector_bytes // (s.width * each)))
        ahead = self.turns_at_most(one, s.width, ahead, (length - first) / step)
        if self.ends is not None:
            return self.turns_between_ends(length, s.lanes, ahead, s.width, reduced)
        return self.turns_to(f"lane{scale}", (first, length), step, ahead, s.width, reduced)

    def is_left(self, load: Load) -> bool:
        """Whether an earlier pass has left a load in shared memory."""
        found = (a for x, a in self.part.apart if (x.key, x.dims) == (load.key, load.dims))
        return any(array in self.filled for array in found)

    def reads_in_turns(self, one: Pass, width: int) -> bool:
        """Whether a loop of a pass reads some vectors before it computes any."""
        by_itself = not (self.loads_to_read(one.members, width) and self.in_turns(one))
        return bool(self.part.apart) or self.ends is not None or not by_itself

    def read_turn(self, turns: Turns, loads: dict[tuple, Load]) -> None:
        """Read the vectors of a turn: from shared memory, where an earlier pass has left them."""
        if turns.end:
            return super().read_turn(turns, loads)
        room = {(x.key, x.dims): array for x, array in self.part.apart if array in self.filled}
        new = {key: x for key, x in loads.items() if key not in room}
        super().read_turn(turns, new)
        left = {key: x for key, x in loads.items() if key in room}
        if not left:
            return None
        held = self.declare_held("left", left, turns.width, turns.count, "[u]", depth=2)
        self.line(2, f"if ({self.in_room(turns.last, turns.width)} < fits) {{")
        self.open_turn(turns, "read what is left of it", 3)
        self.line(4, f"const {self.index_type} at = {self.in_room('j', turns.width)};")
        for (name, _), array in zip(held, (room[key] for key in left), strict=True):
            self.line(4, f"{name} = {array}[at];")
        self.line(3, "}")
        # Reads on a GPU with less room are not part of the plan, and are not counted.
        most, self.touched.most = self.touched.most, 0
        self.line(2, "} else {")
        self.open_turn(turns, "read again", 3)
        self.read_held(held, turns.width, 4)
        self.line(3, "}")
        self.line(2, "}")
        self.touched.most = most

    def in_room(self, position: str, width: int) -> str:
        """The index of a vector in shared memory, which starts after those in registers."""
        if self.ends is not None and self.ends[0]:
            position = f"({position} - {self._sum(self.ends[0])})"
        at = f"{bracketed(position)} / {self.number(width)}" if width > 1 else position
        return f"{at} - {self.number(self.part.first // width)}" if self.part.first else at

    def begin_vector(self, members: Sequence[Member], width: int) -> None:
        """Leave what has been read in shared memory, as much as fits."""
        needed = self.loads_to_hold(members, width)
        new = [(x, a) for x, a in self.part.apart if a not in self.filled]
        new = [((x.key, x.dims), array) for x, array in new if (x.key, x.dims) in needed]
        if new:
            self.line(3, f"const {self.index_type} at = {self.in_room('j', width)};")
        for key, array in new:
            self.line(3, f"if (at < fits) {array}[at] = {self.registers[key]};")

    def has_filled(self, members: Sequence[Member], width: int) -> None:
        """Note that a pass has left its loads in shared memory."""
        needed = self.loads_to_hold(members, width)
        self.filled.update(a for x, a in self.part.apart if (x.key, x.dims) in needed)

    def hold_apart(
        self, passes: list[Pass], s: Schedule, length: int, reduced: list[int]
    ) -> list[Stretch] | None:
        """Hold values of a row that several passes read in shared memory that the launch sets
        aside, and the beginning of the row in registers if that is too small. None if both are.
        """
        found = self.reread_loads(passes, s.width)
        # The largest first, so that each array begins where its vectors may.
        loads = sorted(found.values(), key=lambda x: -storage_dtype(x.source.aval).itemsize)
        each = s.width * sum(storage_dtype(x.source.aval).itemsize for x in loads)
        room = row_room(s, length, each, self.warp_bytes(passes) * s.threads // 32)
        if not loads or room is None or self.reads_again(passes):
            return None
        # Registers would hold vectors alone, not the elements at the ends.
        if self.ends is not None and room[0]:
            return None
        steps, self.room = room
        made = []
        # 1. The beginning, in registers.
        if steps:
            whole = {(x.key, x.dims): x for x in loads}
            names = self.declare_held("row", whole, s.width, steps, "[u]")
            self.open_row_loop(
                s.replace(steps=steps), steps * s.lanes * s.width, reduced, "read the beginning"
            )
            self.touched.most = 0  # reads of the rest count for the whole row
            self.read_held(names, s.width)
            self.touched.most = None
            self.line(1, "}")
            made.append(Stretch(0, steps, dict(self.registers)))
            self.registers.clear()
        # 2. The rest, as much as shared memory holds: passes put it there.
        self.line(1, f"GA_ROOM(room, {self.room});", "shared memory of the launch")
        self.line(1, f"const unsigned fits = GA_ROOM_BYTES(room) / {each}u;")
        apart, before = [], 0
        for k, load in enumerate(loads):
            vector = self.vector_of(load.source, s.width)
            kind = vector if s.width > 1 else ct.memory_type(load.source.aval)
            start = f"room + fits * {before}u" if before else "room"
            self.line(1, f"{kind}* const rest{k} = ({kind}*)({start});")
            before += s.width * storage_dtype(load.source.aval).itemsize
            apart.append((load, f"rest{k}"))
        return [*made, Stretch(steps * s.lanes * s.width, 0, {}, tuple(apart))]

    def reads_again(self, passes: list[Pass]) -> bool:
        """Whether several passes compute something along a row from values in memory."""
        seen: set[tuple] = set()
        for one in passes:
            loads = {
                (o.key, o.dims): o
                for m in one.members
                for o in m.operands
                if isinstance(o, Load) and self.last in o.dims and self.is_inlined(o)
            }
            places = (i for k, x in loads.items() if k in seen for _, i in self.elements_of(x))
            if any(self.group.reduced & axes_of(i) for i in places):
                return True
            seen |= loads.keys()
        return False
