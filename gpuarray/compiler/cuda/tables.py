"""Kernels that fold updates of few places: a table of the places for each warp, in shared memory.

Floor 3. In: a Tables kernel. Out: its KernelSource; it leaves a table for each block. A warp
processes adjacent updates. Lanes whose updates have the same target merge them first, in the order
of lanes, and the first of them merges the result into the table, so nothing depends on which thread
comes first.
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import schedule_tables
from gpuarray.compiler.rewrite.tables import operands_of
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.core.element import Access, Below, Test, sources
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index, linear
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Table(Struct, eq=False):
    """One of the tables of a warp: the targets and values of updates, and their fold.

    Attributes
    ----------
    new :
        The update; None: it is `eqn`'s literal.
    """

    eqn: Eqn
    out: Var
    place: Index
    tests: tuple[Test, ...]
    new: Access | None
    reducer: Reducer

    @property
    def size(self) -> int:
        """The number of places."""
        return self.eqn.outvars[0].aval.size

    @property
    def bytes(self) -> int:
        """The size of a table."""
        return self.size * self.reducer.bytes


class TablesTemplate(Template):
    """Updates of few targets: every warp has its own tables, and every block leaves theirs."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        self.set_order(list(range(len(self.axes))))
        self.last = None
        tables = [self.table(m.eqn) for m in kernel.group.members]
        # The largest elements first, so that each table begins where its elements may.
        self.tables = sorted(tables, key=lambda t: -t.reducer.bytes)
        read: dict[Var, None] = {}
        for t in self.tables:
            inside = [a.access for index in _indices(t) for a in self.lookups(index)]
            for access in inside if t.new is None else [*inside, t.new]:
                self.count_uses(access)
                read.update(dict.fromkeys(sources(access)))
        self.inputs = list(read)
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}

    def table(self, eqn: Eqn) -> Table:
        """The table of an equation, whose updates may run along the first axes alone."""
        of: Eqn = eqn.params["of"]
        operands, rule = operands_of(eqn), of.primitive.update
        rank = operands[rule.operand].aval.ndim
        at = [Index.axis(i, n) for i, n in enumerate(self.axes)]

        def get(i: int, places):
            a = operands[i]
            assert not isinstance(a, Literal)
            return self.reach.element(a, places)

        places, tests = rule.target(of, at[:rank], get)
        # For updates that are rows, scalar ones are done by the first thread of each row.
        tests = [*tests, *(Below(c, 1) for c in at[rank:])]
        tests = [t for t in dict.fromkeys(tests) if t.always is None]
        new = operands[rule.operand]
        folded = Eqn(rule.among, eqn.outvars, [Var(of.outvars[0].aval)], {"axes": (0,)})
        return Table(
            of,
            eqn.outvars[0],
            linear(places, of.outvars[0].aval.shape),
            tuple(tests),
            None if isinstance(new, Literal) else get(rule.operand, at[:rank]),
            Reducer(folded),
        )

    def source(self) -> KernelSource:
        """Fold updates in tables, then the tables of each block."""
        self.threads_meet = True
        n, t, total = self.number, self.index_type, math.prod(self.axes)
        each = sum(table.bytes for table in self.tables)
        # An update and its target take registers, of which a thread of a large block has 64.
        ahead = max(1, min(TARGET.updates_ahead, 24 // (1 + len(self.tables))))
        blocks = self.tables[0].out.aval.shape[0]
        s = schedule_tables(total, blocks, each, 32 * ahead)
        warps = s.threads // 32
        self.room = warps * each
        self.line(1, f"GA_ROOM(room, {self.room});", "shared memory of the launch")
        # A GPU with less of it has fewer tables.
        self.line(1, f"const unsigned warps = ga_min(GA_ROOM_BYTES(room) / {each}u, {warps}u);")
        self.line(1, "const unsigned warp = threadIdx.x / 32u, lane = threadIdx.x % 32u;")
        before = 0
        for k, table in enumerate(self.tables):
            state = table.reducer.state
            start = f"(room + warps * {before}u)" if before else "room"
            self.line(1, f"{state}* const table{k} = ({state}*){start};")
            self.line(
                1, f"{state}* const own{k} = table{k} + warp * {table.size}u;", "of this warp"
            )
            before += table.bytes
        together = self.together()
        for alike in together:
            size = alike[0].size
            self.open_places(f"warps * {size}u", s.threads)
            for table in alike:
                self.line(2, f"table{self.number_of(table)}[p] = {table.reducer.neutral};")
            self.line(1, "}")
        self.line(1, "__syncthreads();")
        # Updates of a warp are adjacent; it reads several for each lane before it folds them.
        turn = 32 * ahead
        self.line(1, f"const {t} begin = (blockIdx.x * warps + warp) * {n(turn)};")
        head = f"for ({t} first = begin; warp < warps && first < {n(total)};"
        self.line(1, f"{head} first += warps * {n(turn * blocks)}) {{")
        for k, alike in enumerate(together):
            self.line(2, f"unsigned place{k}[{ahead}];")
            for table in alike:
                self.line(2, f"{table.reducer.state} {self.update_of(table)}[{ahead}];")
        self.touched.begin(ahead)
        self.line(2, "#pragma unroll")
        self.line(2, f"for (unsigned u = 0; u < {ahead}u; ++u) {{")
        self.line(3, f"const {t} i = first + u * 32u + lane;")
        self.read_updates(together, total, turn)
        self.line(2, "}")
        self.line(2, "#pragma unroll")
        self.line(2, f"for (unsigned u = 0; u < {ahead}u; ++u) {{")
        for k, alike in enumerate(together):
            self.fold_updates(k, alike)
        # Another lane may have the same place next.
        self.line(3, "__syncwarp();")
        self.line(2, "}")
        self.line(1, "}")
        self.line(1, "__syncthreads();")
        for alike in together:
            self.fold_tables(alike, s.threads)
        places = " and ".join(str(alike[0].size) for alike in together)
        return self.finish(s, f"{total} updates of {places} places, folded in tables of each warp")

    def together(self) -> list[list[Table]]:
        """Tables with the same places, and tests of them."""
        found: dict[tuple, list[Table]] = {}
        for table in self.tables:
            found.setdefault((table.place, table.tests), []).append(table)
        return [*found.values()]

    def number_of(self, table: Table) -> int:
        return self.tables.index(table)

    def update_of(self, table: Table) -> str:
        return f"update{self.number_of(table)}"

    def read_updates(self, together: list[list[Table]], total: int, turn: int) -> None:
        """Read the updates at position `i`, and where each goes: past the last place if nowhere."""
        self.position = "i"
        for k, alike in enumerate(together):
            self.line(3, f"place{k}[u] = {alike[0].size}u;")
            for table in alike:
                self.line(3, f"{self.update_of(table)}[u] = {table.reducer.neutral};")
        if total % turn:
            self.line(3, f"if (i >= {self.number(total)}) continue;")
        self.define_axes(3, "i", self.order)
        scope: dict = {}
        for k, alike in enumerate(together):
            tests, depth = alike[0].tests, 3
            inner = scope
            if tests:
                self.line(3, f"if ({self.tests(tests, 3, scope)}) {{")
                depth, inner = 4, dict(scope)
            self.look_up(alike[0].place, depth, inner)
            self.line(depth, f"place{k}[u] = {self.at(alike[0].place, inner)};")
            for table in alike:
                r = table.reducer
                new = (
                    self.constant(table)
                    if table.new is None
                    else self.value(table.new, depth, inner, True)
                )
                self.line(depth, f"{self.update_of(table)}[u] = {r.lift_all([new], '0u')};")
            if tests:
                self.line(3, "}")

    def fold_updates(self, k: int, alike: list[Table]) -> None:
        """Merge the updates of a warp that have the same place, and fold them there."""
        place = f"place{k}[u]"
        self.line(3, f"const unsigned peers{k} = ga_peers({place}, {place} < {alike[0].size}u);")
        for table in alike:
            update = f"{self.update_of(table)}[u]"
            merged = f"ga_merge_peers({update}, peers{k}, {self.merger(table.reducer.merger)})"
            self.line(3, f"{update} = {merged};")
        self.line(3, f"if (ga_leads(peers{k})) {{")
        for table in alike:
            own = f"own{self.number_of(table)}[{place}]"
            merged = table.reducer.merge(own, f"{self.update_of(table)}[u]")
            self.line(4, f"{own} = {merged};")
        self.line(3, "}")

    def fold_tables(self, alike: list[Table], threads: int) -> None:
        """Fold the tables of all warps in their order."""
        size = alike[0].size
        self.open_places(f"{size}u", threads)
        for table in alike:
            k, r = self.number_of(table), table.reducer
            self.line(2, f"{r.state} folded{k} = table{k}[p];")
            merged = r.merge(f"folded{k}", f"table{k}[w * {size}u + p]")
            self.line(2, f"for (unsigned w = 1; w < warps; ++w) folded{k} = {merged};")
            place = f"blockIdx.x * {self.number(size)} + p"
            self.line(2, f"{self.out_name[table.out]}[{place}] = folded{k};")
        self.line(1, "}")

    def open_places(self, count: str, threads: int) -> None:
        """Open a loop of all threads over places."""
        self.line(1, f"for (unsigned p = threadIdx.x; p < {count}; p += {threads}u) {{")

    def constant(self, table: Table) -> str:
        a = table.eqn.invars[table.eqn.primitive.update.operand]
        assert isinstance(a, Literal)
        return ct.constant(a.val, a.aval)


def _indices(table: Table) -> list[Index]:
    """The indices of a table's updates that may be looked up in memory."""
    return [table.place, *(t.index for t in table.tests)]
