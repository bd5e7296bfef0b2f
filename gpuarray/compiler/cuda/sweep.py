"""Kernels of products whose elements are consumed as they are computed: attention and similar
patterns.

Floor 3. In: a Sweep kernel. Out: its KernelSource. A block of 16 x 16 threads owns a tile of rows
(or columns) and goes along all columns (or rows), a tile at a time: operands are loaded into shared
memory, a thread multiplies a few rows by a few columns, computes the pointwise operations in
registers, and folds. Products are summed in float32 with an fma for each step.
"""

from __future__ import annotations

import math
import re

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.lower.kernel import Kernel, NoKernel
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.rewrite.sweep import Computed, Factor, Online, Read, SweepSpace
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer, expression
from gpuarray.compiler.text.reader import bracketed, truncated
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index, linear
from gpuarray.core.target import TARGET

# A name, or an element of an array: text that needs no brackets as an operand.
_NAME = re.compile(r"[\w.\[\]]+")


class SweepTemplate(Template):
    """One sweep: its tiles, the elements, and the fold or the product that reads them.

    A subclass may give the elements of a tile to other threads (`mine`, `theirs`, `column`), and
    hold and multiply tiles in other ways.
    """

    #: Threads that have elements of one row.
    beside_each_other = TARGET.sweep_side

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        (member,) = kernel.group.members
        self.eqn = member.eqn
        self.sweep: SweepSpace = self.eqn.params["sweep"]
        self.operands = [a for a in self.eqn.invars if isinstance(a, Var)]
        # Positions are written by `place` below, not by the loops over axes of other templates.
        self.set_order([])
        sweep = self.sweep
        self.owned = math.prod(sweep.space[i] for i in sweep.owned)
        self.swept = math.prod(sweep.space[i] for i in sweep.swept)
        self.own_tile, self.tile = self.tiles()
        self.share()

    def tiles(self) -> tuple[int, int]:
        """The largest tiles that fit into shared memory."""
        # They are tried from the largest on: the more rows a tile has, the fewer times operands
        # are read.
        for own, beside in TARGET.sweep_tiles:
            if self.sweep.shared_bytes(own, beside) <= TARGET.shared_bytes:
                return own, beside
        raise NoKernel(f"{self.kernel.name} needs more shared memory than a block has")

    def share(self) -> None:
        """Say how many elements of a tile a thread has, along both sides, and of the result."""
        side = TARGET.sweep_side
        self.threads = side * side
        self.own, self.beside = self.own_tile // side, self.tile // side
        self.columns = -(-self.sweep.features // side)

    # ---- places ----
    def place(self, read: Read, names: dict[int, str]) -> str:
        """An element of an operand as text, given the names of axes."""
        v = self.operands[read.source]
        self.touched.note(v, read.index)
        at = self.text_of(read.index, names)
        return self.read_from(f"{self.in_name[v]}[{at}]", v.aval)

    def text_of(self, index: Index, names: dict[int, str]) -> str:
        """A position as text."""
        return ct.index_text(index, names, self.suffix) if index != Index() else "0"

    def computed(self, value: Computed, names: dict[int, str]) -> str:
        """A value that depends on the place of an element, as text."""
        texts = [ct.index_text(at, names, self.suffix) for at in value.places]
        for a in value.operands:
            literal = isinstance(a, Literal)
            texts.append(ct.constant(a.val, a.aval) if literal else self.computed(a, names))
        texts = [t if _NAME.fullmatch(t) else bracketed(t) for t in texts]
        (text,) = expression(value.eqn, texts)
        return truncated(text, value.eqn.outvars[0].aval)

    def define(self, depth: int, position: str, axes: range, prefix: str) -> dict[int, str]:
        """Define the positions along axes from their common one; return their names."""
        lengths = [(i, self.sweep.space[i]) for i in axes if self.sweep.space[i] > 1]
        # The common position is that of the only axis longer than 1.
        if len(lengths) == 1:
            return {lengths[0][0]: position}
        names, stride = {}, math.prod(n for _, n in lengths)
        for k, (i, n) in enumerate(lengths):
            stride //= n
            text = f"{position} / {self.number(stride)}" if stride > 1 else position
            if k:
                # The slowest axis needs no remainder.
                text = f"{bracketed(text)} % {self.number(n)}"
            names[i] = f"{prefix}{k}"
            self.name_position(depth, names[i], text)
        return names

    # ---- the text ----
    def source(self) -> KernelSource:
        """A block for each owned tile, in each batch."""
        sweep, n = self.sweep, self.number
        self.threads_meet = True
        # Blocks of one batch; the grid has them for each batch.
        blocks = -(-self.owned // self.own_tile)
        batches = math.prod(sweep.space[: sweep.batch])
        s = Schedule(self.threads, grid=batches * blocks)
        self.name_thread()
        first = f"blockIdx.x % {n(blocks)} * {n(self.own_tile)}" if blocks > 1 else "0"
        self.line(1, f"const {self.index_type} own0 = {first};")
        self.batch = {}
        if batches > 1:
            batch = f"blockIdx.x / {n(blocks)}" if blocks > 1 else "blockIdx.x"
            self.name_position(1, "batch", batch)
            self.batch = self.define(1, "batch", range(sweep.batch), "b")
        self.declare_tiles()
        if sweep.other is not None:
            self.line(1, f"float sum[{self.own}][{self.columns}] = {{}};")
        self.begin()
        # Each iteration: a tile of operands, its elements, and their uses.
        self.touched.begin()
        self.line(
            1,
            f"for ({self.index_type} at0 = 0; at0 < {n(self.swept)}; at0 += {n(self.tile)}) {{",
            "sweep",
        )
        self.line(2, "__syncthreads();", "the tile before is done with")
        # Tiles of both factors are loaded into shared memory, multiplied, and consumed immediately.
        self.load_tiles()
        self.line(2, "__syncthreads();")
        self.look_ahead()
        self.skip()
        for k, f in enumerate(sweep.factors):
            self.multiply(k, f)
        self.elements()
        if sweep.online is not None:
            self.rescale(sweep.online)
        if sweep.other is not None:
            self.accumulate()
        self.line(1, "}")
        self.end()
        what, beside = ("rows", "columns") if sweep.owns_rows else ("columns", "rows")
        done = [e.primitive.name for e in sweep.members]
        if sweep.online is not None:
            done += ["rescaled weights"]
        if sweep.fold is not None:
            done.append(sweep.fold.primitive.name)
        if sweep.other is not None:
            done.append(f"times {sweep.features} features")
        space = " x ".join(map(str, sweep.space))
        note = (
            f"{space} sums of {' and '.join(str(f.steps) for f in sweep.factors)} products: "
            f"{', '.join(done)}\n//   {self.own_tile} {what} a block, {self.tile} {beside} a turn"
        )
        return self.finish(s, note)

    def name_thread(self) -> None:
        """Name the places of a thread along both sides of a tile."""
        # 16 x 16 threads; each has `own` x `beside` elements of the tile, so that an operand in a
        # register is used in several products.
        self.line(1, "const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;")

    def declare_tiles(self) -> None:
        """Declare the tiles in shared memory, and load those that are owned."""
        sweep = self.sweep
        for k, f in enumerate(sweep.factors):
            # One column more than the tile has: threads that go down a column hit different banks.
            self.shared[f"mine{k}"] = f"float mine{k}[{f.steps}][{self.own_tile + 1}]"
            self.shared[f"theirs{k}"] = f"float theirs{k}[{f.steps}][{self.tile + 1}]"
            # The owned side stays in shared memory for the whole sweep.
            self.load(1, f"mine{k}", f, owned=True)
        if sweep.other is not None:
            # Elements of the tile as the second product reads them, by all threads of a row.
            self.shared["w"] = f"float w[{self.tile}][{self.own_tile + 1}]"
            if sweep.shared is None:
                self.shared["v"] = f"float v[{self.tile}][{sweep.features}]"

    def load_tiles(self) -> None:
        """Bring the tiles of a turn to shared memory."""
        for k, f in enumerate(self.sweep.factors):
            self.load(2, f"theirs{k}", f, owned=False)
        if self.sweep.other is not None and self.sweep.shared is None:
            self.load_other(self.sweep.other)

    def look_ahead(self) -> None:
        """Begin what the next turn needs."""

    def skip(self) -> None:
        """Leave out what adds nothing."""

    def load(self, depth: int, name: str, factor: Factor, owned: bool) -> None:
        """Bring a tile of an operand to shared memory, features first; zeros beyond the end."""
        # Whether this operand belongs to the rows: the owned one if blocks own rows, else the swept
        # one.
        rows = owned == self.sweep.owns_rows
        read = factor.row if rows else factor.column
        length, tile = (self.owned, self.own_tile) if owned else (self.swept, self.tile)
        axes = self.sweep.owned if owned else self.sweep.swept
        first = "own0" if owned else "at0"
        n = self.number(factor.steps)
        count = self.number(tile * factor.steps)
        # Neighbouring threads read neighbouring features; the tile is stored with features first.
        self.line(depth, f"for (unsigned i = threadIdx.x; i < {count}; i += 256u) {{")
        self.line(depth + 1, f"const {self.index_type} f = i % {n}, at = {first} + i / {n};")
        names = self.batch | {self.sweep.feature: "f"}
        names |= self.define(depth + 1, "at", axes, "t")
        value = self.place(read, names)
        if length % tile:
            value = f"at < {self.number(length)} ? {value} : 0.0f"
        self.line(depth + 1, f"{name}[f][i / {n}] = {value};")
        self.line(depth, "}")

    def load_other(self, read: Read) -> None:
        """Bring a tile of the second operand to shared memory; zeros beyond the end."""
        features = self.number(self.sweep.features)
        count = self.number(self.tile * self.sweep.features)
        self.line(2, f"for (unsigned i = threadIdx.x; i < {count}; i += 256u) {{")
        line = f"const {self.index_type} f = i % {features}, at = at0 + i / {features};"
        self.line(3, line)
        names = self.batch | {self.sweep.feature: "f"}
        names |= self.define(3, "at", self.sweep.swept, "t")
        value = self.place(read, names)
        if self.swept % self.tile:
            value = f"at < {self.number(self.swept)} ? {value} : 0.0f"
        self.line(3, f"v[i / {features}][f] = {value};")
        self.line(2, "}")

    def multiply(self, k: int, factor: Factor) -> None:
        """The elements of a product that a thread has."""
        own, beside = self.own, self.beside
        self.line(2, f"float s{k}[{own}][{beside}] = {{}};")
        self.line(2, "#pragma unroll 8")
        self.line(2, f"for (unsigned f = 0; f < {self.number(factor.steps)}; ++f) {{")
        self.square(
            3,
            f"s{k}[i][j] = fmaf(mine{k}[f][{self.mine}], theirs{k}[f][{self.theirs}], s{k}[i][j]);",
        )
        self.line(2, "}")

    def square(self, depth: int, text: str) -> None:
        """A statement for each element that a thread has."""
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned i = 0; i < {self.own}u; ++i)")
        self.line(depth + 1, "#pragma unroll")
        self.line(depth + 1, f"for (unsigned j = 0; j < {self.beside}u; ++j)")
        self.line(depth + 2, text)

    @property
    def mine(self) -> str:
        """The position of a thread's element in the owned tile."""
        return f"y * {self.own}u + i" if self.own > 1 else "y + i"

    @property
    def theirs(self) -> str:
        """The position of a thread's element in the swept tile."""
        return f"x * {self.beside}u + j" if self.beside > 1 else "x + j"

    @property
    def column(self) -> str:
        """The feature of a thread's sum."""
        return "x + c * 16u"

    def keep(self, depth: int, value: str) -> None:
        """Keep an element for the second product, whose threads may be others."""
        self.line(depth, f"w[{self.theirs}][{self.mine}] = {value};")

    def open_elements(self, comment: str = "") -> None:
        """Open the loops over a thread's elements of a tile, and name their positions."""
        self.line(2, "#pragma unroll")
        self.line(2, f"for (unsigned i = 0; i < {self.own}u; ++i) {{", comment)
        self.line(3, "#pragma unroll")
        self.line(3, f"for (unsigned j = 0; j < {self.beside}u; ++j) {{")
        self.name_position(4, "own", f"own0 + {self.mine}")
        self.name_position(4, "at", f"at0 + {self.theirs}")

    def elements(self) -> None:
        """Compute the value of each element from its products and the values read from memory."""
        sweep = self.sweep
        # The exponential turns it into a weight of 0, or it adds nothing.
        outside = "-GA_INFF" if sweep.online is not None else "0.0f"
        self.open_elements()
        # Beyond the ends nothing is read or added.
        tests = []
        if self.owned % self.own_tile:
            tests.append(f"own < {self.number(self.owned)}")
        if self.swept % self.tile:
            tests.append(f"at < {self.number(self.swept)}")
        depth = 5 if tests else 4
        if tests and sweep.fold is None:
            self.line(4, f"{ct.value_type(sweep.value.aval)} value = {outside};")
        if tests:
            self.line(4, f"if ({' && '.join(tests)}) {{")
        names = dict(self.batch)
        names |= self.define(depth, "own", sweep.owned, "o")
        names |= self.define(depth, "at", sweep.swept, "t")
        # Operands of the members: products, then values of memory, then each other.
        known = {}
        for k, f in enumerate(sweep.factors):
            known[f.value], text = f"s{k}[i][j]", ct.rounded(f"s{k}[i][j]", f.value.aval)
            # A product of 16-bit operands is rounded as in the program.
            if text != known[f.value]:
                known[f.value] = f"p{k}"
                self.line(depth, f"const {ct.value_type(f.value.aval)} p{k} = {text};")
        for k, (v, read) in enumerate(sweep.leaves):
            if isinstance(read, Literal):
                known[v] = ct.constant(read.val, read.aval)
                continue
            known[v] = f"x{k}"
            if isinstance(read, Computed):
                value = self.computed(read, names)
            else:
                value = self.place(read, names)
            self.line(depth, f"const {ct.value_type(v.aval)} x{k} = {value};")
        for k, eqn in enumerate(sweep.members):
            known[eqn.outvars[0]] = self.pointwise(depth, f"v{k}", eqn, known)
        value = known[sweep.value]
        if sweep.fold is not None:
            # Elements beyond the ends are excluded.
            reducer = Reducer(sweep.fold)
            lifted = reducer.lift(value, "(unsigned long long)at")
            self.line(depth, f"state[i] = {reducer.merge('state[i]', lifted)};")
        if tests:
            if sweep.fold is None:
                self.line(depth, f"value = {value};")
            self.line(4, "}")
            value = "value"
        if sweep.online is not None:
            # Scores stay in the registers of the first product until `rescale` makes weights of
            # them.
            self.line(4, f"s0[i][j] = {value};")
        elif sweep.other is not None:
            self.keep(4, value)
        self.line(3, "}")
        self.line(2, "}")

    def pointwise(self, depth: int, name: str, eqn: Eqn, known: dict[Var, str]) -> str:
        """Define the result of a pointwise equation; return its name."""
        texts = [
            ct.constant(a.val, a.aval) if isinstance(a, Literal) else known[a] for a in eqn.invars
        ]
        (text,) = expression(eqn, [t if _NAME.fullmatch(t) else bracketed(t) for t in texts])
        line = f"const {ct.value_type(eqn.outvars[0].aval)} {name} = {text};"
        self.line(depth, line, self.comment(eqn, text))
        return name

    # ---- folds and products ----
    def begin(self) -> None:
        """Declare the variables that live through the sweep."""
        if self.sweep.fold is not None:
            reducer = Reducer(self.sweep.fold)
            self.line(1, f"{reducer.state} state[{self.own}];")
            self.line(1, "#pragma unroll")
            self.line(
                1, f"for (unsigned i = 0; i < {self.own}u; ++i) state[i] = {reducer.identity};"
            )
        if self.sweep.online is not None:
            self.line(1, f"float most[{self.own}], total[{self.own}];")
            self.line(1, "#pragma unroll")
            text = "most[i] = -GA_INFF, total[i] = 0.0f;"
            self.line(1, f"for (unsigned i = 0; i < {self.own}u; ++i) {text}")

    def exponential(self, online: Online) -> Eqn:
        """The equation that makes weights of differences of scores."""
        return online.exponential

    def rescale(self, online: Online) -> None:
        """Turn scores into weights: earlier sums shrink when a larger score appears."""
        larger = Reducer(online.largest)
        power = lambda text: expression(self.exponential(online), [text])[0]
        self.line(2, "#pragma unroll")
        self.line(2, f"for (unsigned i = 0; i < {self.own}u; ++i) {{", "the largest so far")
        self.line(3, "float high = most[i];")
        self.line(3, "#pragma unroll")
        text = f"high = {larger.merge('high', 's0[i][j]')};"
        self.line(3, f"for (unsigned j = 0; j < {self.beside}u; ++j) {text}")
        # The threads of a row agree on its largest element; the sums so far are scaled to it.
        self.line(3, f"high = {self.over_row('high', larger)};")
        # A row of nothing but -inf has no largest element to subtract: -inf - -inf is nan.
        self.line(3, "const float from = high == -GA_INFF ? 0.0f : high;")
        self.line(3, f"const float shrink = {power('most[i] - from')};")
        self.line(3, "most[i] = high;")
        # Earlier terms had the old maximum subtracted: multiply by exp(old - new).
        self.line(3, "total[i] = total[i] * shrink;")
        self.line(3, "#pragma unroll")
        self.line(3, f"for (unsigned j = 0; j < {self.beside}u; ++j) {{")
        self.line(4, f"const float weight = {power('s0[i][j] - from')};")
        self.line(4, "total[i] = total[i] + weight;")
        self.keep(4, "weight")
        self.line(3, "}")
        self.line(3, "#pragma unroll")
        text = "sum[i][c] = sum[i][c] * shrink;"
        self.line(3, f"for (unsigned c = 0; c < {self.columns}u; ++c) {text}")
        self.line(2, "}")

    def over_row(self, name: str, reducer: Reducer) -> str:
        """A partial result merged over the threads of a row, as text."""
        return f"ga_warp_reduce<{self.beside_each_other}>({name}, {self.merger(reducer.merger)})"

    def accumulate(self) -> None:
        """Multiply the elements of a tile with the second operand."""
        # The threads of a row of the tile are in one warp.
        self.line(2, "__syncwarp();")
        self.line(2, "#pragma unroll 8")
        self.line(2, f"for (unsigned k = 0; k < {self.number(self.tile)}; ++k) {{")
        self.line(3, "#pragma unroll")
        self.line(3, f"for (unsigned i = 0; i < {self.own}u; ++i)")
        self.line(4, "#pragma unroll")
        self.line(4, f"for (unsigned c = 0; c < {self.columns}u; ++c)")
        # If 16 does not divide the features, some threads have none at the end.
        guard = ""
        if self.sweep.features % TARGET.sweep_side:
            guard = f"if ({self.column} < {self.number(self.sweep.features)}) "
        shared = self.sweep.shared
        # The tile of a factor has features first.
        read = f"v[k][{self.column}]" if shared is None else f"theirs{shared}[{self.column}][k]"
        text = f"sum[i][c] = fmaf(w[k][{self.mine}], {read}, sum[i][c]);"
        self.line(5, guard + text)
        self.line(2, "}")

    def end(self) -> None:
        """Write the folds or sums."""
        sweep, n = self.sweep, self.number
        self.line(1, "#pragma unroll")
        self.line(1, f"for (unsigned i = 0; i < {self.own}u; ++i) {{")
        # The threads of a row each have a part of its columns.
        reducer = Reducer(sweep.fold) if sweep.fold is not None else None
        if reducer is not None:
            self.line(2, f"state[i] = {self.over_row('state[i]', reducer)};")
        if sweep.online is not None:
            adder = Reducer(sweep.online.total)
            self.line(2, f"const float whole = {self.over_row('total[i]', adder)};")
        self.name_position(2, "own", f"own0 + {self.mine}")
        if self.owned % self.own_tile:
            self.line(2, f"if (own >= {n(self.owned)}) continue;")
        names = self.batch | self.define(2, "own", sweep.owned, "o")
        # Results of rows have the order of the rows, batches first.
        axes = [*range(sweep.batch), *sweep.owned]
        kept = [sweep.space[i] for i in axes]
        row = linear([Index.axis(i, m) for i, m in zip(axes, kept, strict=True)], kept)
        at = self.text_of(row, names)
        if reducer is not None:
            (v,) = self.outputs
            text = reducer.finish("state[i]")
            self.line(2, f"if (x == 0) {self.out_name[v]}[{at}] = {self.stored(text, v)};")
        else:
            v = self.outputs[0]
            names |= {sweep.feature: "f"}
            self.line(2, "#pragma unroll")
            self.line(2, f"for (unsigned c = 0; c < {self.columns}u; ++c) {{")
            self.line(3, f"const unsigned f = {self.column};")
            text = "sum[i][c] / whole" if sweep.online is not None else "sum[i][c]"
            there = self.columns * self.beside_each_other
            guard = f"if (f < {n(sweep.features)}) " if sweep.features < there else ""
            to = self.text_of(sweep.place, names)
            self.line(3, f"{guard}{self.out_name[v]}[{to}] = {self.stored(text, v)};")
            self.line(2, "}")
            # Values that derivatives of a softmax need: the largest element and the sum of each
            # row.
            for v, name in zip(self.outputs[1:], ("most[i]", "whole"), strict=False):
                self.line(2, f"if (x == 0) {self.out_name[v]}[{at}] = {name};")
        self.line(1, "}")

    def stored(self, text: str, v: Var) -> str:
        """A float as stored in memory."""
        return f"{ct.memory_type(v.aval)}({text})" if ct.is_half(v.aval) else text
