"""Kernels that sort short rows: a bitonic network, a thread for each element.

Floor 3. In: a Sort kernel, rows of at most 1024 elements. Out: its KernelSource. The network is not
stable; comparing positions of equal keys makes it so. For elements of up to 32 bits, one integer
holds the key and the position. Longer rows are sorted by a library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Inner, Load, members_in_order
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.rewrite.sorted_places import kept_places
from gpuarray.compiler.rewrite.sorts import axis_of, is_narrow, keys_of, length_of, takes_largest
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Var
from gpuarray.core.index import Index, linear
from gpuarray.core.target import TARGET


class SortTemplate(Template):
    """Short rows, sorted in registers within the lanes of a warp."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        group = kernel.group
        # The sort, then its epilogue.
        sort, *self.epilogue = members_in_order(group)
        self.eqn = sort.eqn
        self.axis, self.length = axis_of(self.eqn), length_of(self.eqn)
        self.loads = [o for o in sort.operands if isinstance(o, Load)]
        self.set_order(list(range(len(group.axes))))

    def source(self) -> KernelSource:
        """A thread for each element; a block sorts one or several rows."""
        # Launch numbers: the network needs a power of two of threads a row.
        self.threads_meet = True
        eqn, n = self.eqn, self.number
        side = max(2, 1 << (self.length - 1).bit_length())
        rows = math.prod(self.axes) // self.length
        # Short rows share a block.
        many = max(1, TARGET.block_threads // side)
        s = Schedule(max(32, side * many), 1, -(-rows // many), side)
        keys = self.loads[: keys_of(eqn)]
        top = takes_largest(eqn)
        # One number holds the order of narrow elements and their position; else a thread has all
        # keys and the position. Other operands are permuted at the end.
        self.is_one = len(keys) == 1 and is_narrow(keys[0].source.aval)
        self.ranks = {f"key{k}": self.key_type(x, top) for k, x in enumerate(keys)}
        self.ranks["place"] = "unsigned"
        if self.is_one:
            self.ranks = {"key": "unsigned long long"}
        self.line(1, "const unsigned t = threadIdx.x;")
        self.line(1, f"const unsigned lane = t % {side}u;")
        row = f"blockIdx.x * {n(many)} + t / {side}u" if many > 1 else "blockIdx.x"
        whole = rows % many == 0
        if not whole:
            # Threads without a row sort row 0, since barriers need all threads, and write nothing.
            self.line(1, f"const bool inside = {row} < {n(rows)};")
        first = row if whole else f"inside ? {row} : 0u"
        self.line(1, f"const {self.index_type} row = {first};")
        self.define_axes(1, "row", [a for a in self.order if a != self.axis])
        # Read keys, sort them with their positions, write all operands.
        self.keep_values(keys, top, s.threads)
        self.read_keys(keys, top, side)
        if not self.is_one:
            self.compare(len(keys), top, side)
        self.network(side, s.threads)
        # Of top_k only the first `count` places of each row are written.
        kept, count = kept_places(self.eqn), self.eqn.outvars[0].aval.shape[self.axis]
        count = count if kept is None else side
        beyond = [] if whole else ["!inside"]
        beyond += [] if count == side else [f"lane >= {count}u"]
        if self.kept and side <= 32:
            # Longer rows have met in the network.
            self.line(1, "__syncwarp();", "all elements are kept")
        if kept is not None:
            # The number of a thread's place among those that are kept; others have nothing to
            # write.
            self.line(1, f"const unsigned kept = {_number_among(kept)};")
            beyond.append(f"kept == {len(kept)}u")
        if beyond:
            self.line(1, f"if ({' || '.join(beyond)}) return;")
        self.place = "lane" if kept is None else "kept"
        self.write_all(top)
        note = f"{rows} rows of {self.length}, each sorted by {side} threads"
        return self.finish(s, note if kept is None else f"{note}, {len(kept)} places kept")

    def key_type(self, load: Load, top: bool) -> str:
        """Type of the keys: that of values, or integers in the total order of floats."""
        kind = ct.value_type(load.source.aval)
        return {"float": "int", "double": "long long"}.get(kind, kind) if top else kind

    def keep_values(self, keys: list[Load], top: bool, threads: int) -> None:
        """Declare shared arrays for keys that are results, if integers replace them in the sort."""
        self.kept: dict[int, str] = {}
        for k, _ in self.wanted() if self.is_one or top else ():
            if k < len(keys):
                name = self.kept[k] = f"kept{k}"
                self.shared[name] = f"{ct.value_type(keys[k].source.aval)} {name}[{threads}]"

    def wanted(self) -> list[tuple[int, Var]]:
        """The results that are written, or read by the epilogue, and their numbers."""
        inside = {o.var for m in self.epilogue for o in m.operands if isinstance(o, Inner)}
        outs = enumerate(self.eqn.outvars)
        return [(k, v) for k, v in outs if v in self.out_name or v in inside]

    def read_keys(self, keys: list[Load], top: bool, side: int) -> None:
        self.axis_name[self.axis] = "lane"
        # The lines of the reads are collected separately: they may go under an `if`.
        outside, self.lines = self.lines, []
        full = side == self.length
        depth, scope = (1 if full else 2), {}
        before: dict[str, str] = {}  # keys beyond the end of the row
        for k, load in enumerate(keys):
            text = self.element_of(load, depth, scope)
            aval = load.source.aval
            floats = ct.value_type(aval) in ("float", "double")
            if k in self.kept:
                self.line(depth, f"const {ct.value_type(aval)} own{k} = {text};")
                self.line(depth, f"{self.kept[k]}[t] = own{k};")
                text = f"own{k}"
            if self.is_one:
                name, nothing = "key", "~0ull"
                order = f"ga_rising({text})"
                if top:  # the largest first, in the total order of floats
                    falling = f"((unsigned)ga_order({text}) ^ 0x7fffffffu)"
                    order = falling if floats else f"~{order}"
                text = f"(unsigned long long){order} << 32 | lane"
            else:
                name, nothing = f"key{k}", "0" if top and floats else ct.constant(0, aval)
                text = f"ga_order({text})" if top and floats else text
            before[name] = nothing
            self.line(depth, f"{f'{self.ranks[name]} ' if full else ''}{name} = {text};")
        lines, self.lines = self.lines, outside
        if not self.is_one:
            self.line(1, "unsigned place = lane;")
        # A full row has an element for each thread: no test.
        if not full:
            for name, nothing in before.items():
                what = "behind the row: last" if self.is_one else "behind the row: never compared"
                self.line(1, f"{self.ranks[name]} {name} = {nothing};", what)
            self.line(1, f"if (lane < {self.length}u) {{")
            lines.append("    }")
        self.lines += lines

    def compare(self, keys: int, top: bool, side: int) -> None:
        """Define `before(…)`: whether the element of another thread comes before this one's.

        Threads beyond the row come last, by position, so their keys are never compared.
        """
        theirs = ", ".join(f"{kind} {name}_other" for name, kind in self.ranks.items())
        self.line(1, f"const auto before = [&]({theirs}) -> bool {{")
        # Positions beyond the row mark the threads that have no element.
        if self.length < side:
            n = f"{self.length}u"
            line = f"if (place >= {n} || place_other >= {n}) return place_other < place;"
            self.line(2, line)
        for k in range(keys):
            one, two = f"key{k}_other", f"key{k}"
            # Integers in the total order of floats: the largest first, nan before infinity.
            if top:
                self.line(2, f"if ({one} != {two}) return {one} > {two};")
                continue
            self.line(2, f"if (ga_before({one}, {two})) return true;")
            self.line(2, f"if (ga_before({two}, {one})) return false;")
        # Equal keys keep their order: that makes the sort stable.
        self.line(2, "return place_other < place;")
        self.line(1, "};")

    def network(self, side: int, threads: int) -> None:
        """Emit the bitonic network: runs of doubling length, merged by exchanges `apart`.

        Both threads of a pair compare, and each keeps the element for its position. Lanes of a warp
        exchange registers; only steps with a larger distance go through shared memory.
        """
        beyond = side > 32
        # Where there is room for two halves, one is written while others still read the other one.
        turns = beyond and self.is_one
        if turns:
            self.line(1, "unsigned half = 0;")
        self.line(1, f"for (unsigned run = 2; run <= {side}u; run *= 2) {{")
        self.line(2, "for (unsigned apart = run / 2; apart > 0; apart /= 2) {")
        if beyond:
            for name, kind in self.ranks.items():
                self.shared[f"{name}_all"] = f"{kind} {name}_all[{threads * (1 + turns)}]"
                self.line(3, f"{kind} {name}_other;")
            self.line(3, "if (apart >= 32u) {")
            if turns:
                self.line(4, f"half ^= {threads}u;")
            half = "half + " if turns else ""
            for name in self.ranks:
                self.line(4, f"{name}_all[{half}t] = {name};")
            self.line(4, "__syncthreads();")
            for name in self.ranks:
                own = "(t ^ apart)" if turns else "t ^ apart"
                self.line(4, f"{name}_other = {name}_all[{half}{own}];")
            if not turns:
                self.line(4, "__syncthreads();")
            self.line(3, "} else {", "lanes of a warp")
        for name, kind in self.ranks.items():
            declared = "" if beyond else f"const {kind} "
            self.line(3 + beyond, f"{declared}{name}_other = ga_shuffle({name}, (int)apart);")
        if beyond:
            self.line(3, "}")
        # Bitonic: the direction of a run is given by its bit of the position.
        self.line(3, "const bool first = ((lane & apart) == 0) == ((lane & run) == 0);")
        if self.is_one:
            self.line(3, "if ((key_other < key) == first) key = key_other;")
        else:
            theirs = ", ".join(f"{name}_other" for name in self.ranks)
            self.line(3, f"if (before({theirs}) == first) {{")
            for name in self.ranks:
                self.line(4, f"{name} = {name}_other;")
            self.line(3, "}")
        self.line(2, "}")
        self.line(1, "}")

    def write_all(self, top: bool) -> None:
        """Write every operand in the new order; all but the keys are read again, permuted."""
        results = self.wanted()
        self.touched.begin()
        scope: dict = {}
        if any(k >= len(self.ranks) - 1 or self.is_one for k, _ in results) or top:
            self.line(
                1, f"const {self.index_type} from = {'(unsigned)key' if self.is_one else 'place'};"
            )
        for k, v in results:
            if k in self.kept:
                value = f"{self.kept[k]}[t - lane + from]"
            elif top:
                # The position itself is the second result of top_k.
                value = f"({ct.value_type(v.aval)})from"
            elif k < keys_of(self.eqn):
                value = f"key{k}"
            else:
                self.axis_name[self.axis] = "from"
                value = self.element_of(self.loads[k], 1, scope)
            if self.epilogue:
                self.name_result(1, v, value)
                continue
            if ct.is_half(v.aval):
                value = f"ga_exact<{ct.memory_type(v.aval)}>({value})"
            # Read at the old place, written at the new one.
            self.axis_name[self.axis] = self.place
            self.line(1, f"{self.out_name[v]}[{self.at(self.place_of(v))}] = {value};")
        if self.epilogue:
            self.axis_name[self.axis] = "lane"
            self.element(1, self.epilogue, self.outputs, {}, {})

    def place_of(self, v: Var) -> Index:
        """Index of a thread's element in a result; top_k has shorter rows than its operand."""
        axes = [Index.axis(i, n) for i, n in enumerate(self.axes)]
        return linear(axes, v.aval.shape)


def _number_among(places: Sequence[int]) -> str:
    """The number that a lane's place has among some, or how many there are if it has none."""
    runs: list[list[int]] = []
    for p in places:
        if runs and runs[-1][-1] == p - 1:
            runs[-1].append(p)
        else:
            runs.append([p])
    text, before = f"{len(places)}u", len(places)
    for run in reversed(runs):
        before -= len(run)
        less = f" - {run[0] - before}u" if run[0] > before else ""
        inside = f"lane - {run[0]}u" if run[0] else "lane"
        text = f"{inside} < {len(run)}u ? lane{less} : {text}"
    return text
