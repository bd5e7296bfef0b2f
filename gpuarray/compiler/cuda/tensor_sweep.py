"""Sweeps on tensor cores: of operands of 16 bits, and of float32 that may be rounded to TF32.

Floor 3. In: a Sweep kernel. Out: its KernelSource. A warp owns 16 rows. Its threads have elements
as the instructions leave them: of two rows, 8 apart, every fourth pair of columns. Weights go from
the sums of the first product to the operand of the second without leaving their thread. Tiles are
in shared memory as in memory, a row of features each; those of the next turn are read while this
one is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuarray.compiler.cuda.sweep import SweepTemplate
from gpuarray.compiler.cuda.template import Options
from gpuarray.compiler.lower.kernel import Kernel, NoKernel
from gpuarray.compiler.rewrite.sweep import Computed, Factor, Online, Read, SweepSpace
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import bracketed
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index
from gpuarray.core.rewrite import algebra_of
from gpuarray.core.target import TARGET
from gpuarray.primitives.elementwise.transcendental import Tolerance

#: The error of weights that shows no more once they are rounded to 11 bits, or 8.
_ENOUGH = Tolerance(rtol=2.0**-16)


def can_multiply(sweep: SweepSpace, operands: Sequence[ShapedArray]) -> bool:
    """Whether all operands of the products of a sweep are of one type that tensor cores take."""
    reads = [r for f in sweep.factors for r in (f.row, f.column)]
    reads += [] if sweep.other is None else [sweep.other]
    (dtype, *others) = {operands[r.source].dtype.name for r in reads}
    rounded = dtype == "float32" and not sweep.exact
    return not others and (rounded or dtype in ("float16", "bfloat16"))


class TensorSweepTemplate(SweepTemplate):
    """A sweep in which each warp has 16 rows."""

    beside_each_other = 4

    def tiles(self) -> tuple[int, int]:
        """The largest tiles that fit into shared memory."""
        operand = self.operands[self.sweep.factors[0].row.source].aval
        self.kind = ct.memory_type(operand)
        self.rounded_to = "TF32" if self.kind == "float" else ""
        # Numbers in an access of 16 bytes; a product of a warp is over two of them.
        self.wide = TARGET.vector_bytes // operand.dtype.itemsize
        self.steps = 2 * self.wide
        self.features = -(-self.sweep.features // self.steps) * self.steps
        for own, beside in TARGET.tensor_tiles:
            vectors = sum((own + beside) * self.pitch(f.steps) for f in self.sweep.factors)
            if self.sweep.other is not None and self.sweep.shared is None:
                vectors += beside * self.pitch(self.features)
            fits = vectors * TARGET.vector_bytes <= TARGET.shared_bytes
            if fits and own <= max(64, self.owned):
                return own, beside
        raise NoKernel(f"{self.kernel.name} needs more shared memory than a block has")

    def pitch(self, features: int) -> int:
        """Vectors from a row of a tile to the next: one more than it has, so that eight rows are in
        different banks.
        """
        return -(-features // self.steps) * 2 + 1

    def share(self) -> None:
        """A thread has two rows, and of 8 columns two."""
        self.threads = self.own_tile // TARGET.tensor_rows * 32
        self.own, self.beside, self.columns = 2, self.tile // 4, self.features // 4

    def name_thread(self) -> None:
        """Name the places of a thread."""
        self.line(1, "const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;")
        self.line(1, "const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;")

    @property
    def mine(self) -> str:
        """The position of a thread's element in the owned tile."""
        return "y + i * 8u"

    @property
    def theirs(self) -> str:
        """The position of a thread's element in the swept tile."""
        return "x + j / 2u * 8u + j % 2u"

    @property
    def column(self) -> str:
        """The feature of a thread's sum."""
        return "x + c / 2u * 8u + c % 2u"

    def keep(self, depth: int, value: str) -> None:
        """The second product has its elements from where the first left its sums."""
        self.line(depth, f"s0[i][j] = {value};")

    def exponential(self, online: Online) -> Eqn:
        """Weights are rounded to 11 bits or 8: they need no more than a few digits."""
        eqn = online.exponential
        known = "accuracy" in eqn.params and eqn.params["accuracy"] is None
        return eqn.replace(params=eqn.params | {"accuracy": _ENOUGH}) if known else eqn

    # ---- tiles ----
    def declare_tiles(self) -> None:
        """Declare the tiles; load those that are owned, and begin to read the first of others."""
        sweep = self.sweep
        rows = sweep.owns_rows
        # Name, where it is read and how many features it has.
        self.swept_tiles: list[tuple[str, Read, int]] = []
        for k, f in enumerate(sweep.factors):
            self.tile_of(f"mine{k}", self.own_tile, f.steps)
            self.load_owned(f"mine{k}", f)
            self.swept_tiles.append((f"theirs{k}", f.column if rows else f.row, f.steps))
        if sweep.other is not None and sweep.shared is None:
            self.swept_tiles.append(("v", sweep.other, sweep.features))
        for name, read, features in self.swept_tiles:
            self.tile_of(name, self.tile, features)
            self.declare_reader(name, read, features)
        self.look(1, "0")

    def tile_of(self, name: str, rows: int, features: int) -> None:
        """Declare a tile in shared memory."""
        kind = self.vector_type
        self.shared[name] = f"{kind} {name}[{rows}][{self.pitch(features)}]"

    @property
    def vector_type(self) -> str:
        """The type of a vector of a tile."""
        return f"ga_vec<{self.kind}, {self.wide}>"

    def turns(self, rows: int, features: int) -> tuple[int, int]:
        """Vectors in a row of a tile, and how often all threads read one."""
        across = self.pitch(features) - 1
        return across, -(-rows * across // self.threads)

    def load_owned(self, name: str, factor: Factor) -> None:
        """Bring the owned tile of a factor to shared memory."""
        read = factor.row if self.sweep.owns_rows else factor.column
        across, _ = self.turns(self.own_tile, factor.steps)
        count = self.number(self.own_tile * across)
        self.line(1, f"for (unsigned i = threadIdx.x; i < {count}; i += {self.threads}u) {{")
        to = f"{name}[i / {across}u][i % {across}u]"
        if self.kind != "float":
            self.vector(2, to, read, factor.steps, owned=True)
        else:
            self.line(2, f"{self.vector_type} row;")
            self.vector(2, "row", read, factor.steps, owned=True)
            self.line(2, f"{to} = {self.rounded('row')};")
        self.line(1, "}")

    def rounded(self, vector: str) -> str:
        """A vector as tensor cores take it, as text."""
        return f"ga_all_tf32({vector})" if self.kind == "float" else vector

    def declare_reader(self, name: str, read: Read, features: int) -> None:
        """Write a function that reads a tile of the swept side into registers."""
        _, turns = self.turns(self.tile, features)
        self.line(1, f"{self.vector_type} {name}_next[{turns}];")
        self.line(1, f"const auto read_{name} = [&]({self.index_type} at0) {{")
        self.over_tile(2, turns)
        self.vector(3, f"{name}_next[u]", read, features, owned=False)
        self.line(2, "}")
        self.line(1, "};")

    def over_tile(self, depth: int, turns: int) -> None:
        """Open the loop over a thread's vectors of a tile."""
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned u = 0; u < {turns}u; ++u) {{")
        self.line(depth + 1, f"const unsigned i = u * {self.threads}u + threadIdx.x;")

    def vector(self, depth: int, to: str, read: Read, features: int, owned: bool) -> None:
        """Read a vector of a tile, number i of it; zeros beyond the ends."""
        first, rows = ("own0", self.own_tile) if owned else ("at0", self.tile)
        length, axes = (self.owned, self.sweep.owned) if owned else (self.swept, self.sweep.swept)
        across, _ = self.turns(rows, features)
        f, at = f"i % {across}u * {self.wide}u", f"{first} + i / {across}u"
        self.line(depth, f"const {self.index_type} f = {f}, at = {at};")
        names = self.batch | {self.sweep.feature: "f"}
        v = self.operands[read.source]
        self.touched.note(v, read.index)
        tests = [f"at < {self.number(length)}"] if length % rows else []
        if self.is_wide(read.index, features):
            names |= self.define(depth, "at", axes, "t")
            value = f"ga_load<{self.wide}>({self.in_name[v]} + {self.text_of(read.index, names)})"
            tests += [f"f < {features}u"] if features < across * self.wide else []
            if tests:
                zero = f"ga_same<{self.vector_type}>({self.kind}(0.0f))"
                value = f"{' && '.join(tests)} ? {value} : {zero}"
            self.line(depth, f"{to} = {value};")
            return
        # One by one: a GPU reads vectors at multiples of their size only.
        names |= self.define(depth, "at", axes, "t") | {self.sweep.feature: "(f + e)"}
        value = f"{self.in_name[v]}[{self.text_of(read.index, names)}]"
        tests += [f"f + e < {features}u"] if features < across * self.wide else []
        if tests:
            value = f"{' && '.join(tests)} ? {value} : {self.kind}(0.0f)"
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {self.wide}u; ++e) {to}.v[e] = {value};")

    def is_wide(self, index: Index, features: int) -> bool:
        """Whether features are neighbours, and vectors at multiples of their 16 bytes."""
        own = [(a, k) for a, k in index.terms if self.sweep.feature in a.axes]
        others = [k for a, k in index.terms if self.sweep.feature not in a.axes]
        neighbours = len(own) == 1 and own[0] == (Index.axis(self.sweep.feature, features).terms[0])
        aligned = not any(k % self.wide for k in (*others, index.constant))
        return self.aligned and neighbours and aligned and not features % self.wide

    def load_tiles(self) -> None:
        """Bring what was read to shared memory."""
        for name, _, features in self.swept_tiles:
            across, turns = self.turns(self.tile, features)
            self.over_tile(2, turns)
            guard = f"if (i < {self.tile * across}u) " if self.tile * across % self.threads else ""
            value = self.rounded(f"{name}_next[u]")
            self.line(3, f"{guard}{name}[i / {across}u][i % {across}u] = {value};")
            self.line(2, "}")

    def look_ahead(self) -> None:
        """Begin to read the tiles of the next turn."""
        self.look(2, f"at0 + {self.number(self.tile)}")

    def look(self, depth: int, at: str) -> None:
        """Begin to read the tiles from a place on, if there are any."""
        guard = f"if ({at} < {self.number(self.swept)}) " if depth > 1 else ""
        calls = [f"read_{name}({at})" for name, *_ in self.swept_tiles]
        self.line(depth, f"{guard}{', '.join(calls)};", "the next tiles" if guard else "")

    # ---- tiles that add nothing ----
    def mask(self) -> tuple[Computed, str, bool] | None:
        """A condition on the place of a score under which it is a constant: with the constant, and
        whether that is chosen where the condition holds.
        """
        leaves = dict(self.sweep.leaves)
        made = [e for e in self.sweep.members if self.sweep.value in e.outvars]
        if self.sweep.online is None or not made or algebra_of(made[0]) != "choice":
            return None
        where, *cases = made[0].invars
        known = [leaves.get(a) if isinstance(a, Var) else a for a in cases]
        condition = leaves.get(where) if isinstance(where, Var) else None
        if len(cases) != 2 or not isinstance(condition, Computed):
            return None
        for chosen, a in enumerate(known):
            if isinstance(a, Literal) and not np.isnan(a.val):  # nan hides nothing
                return condition, ct.constant(a.val, a.aval), bool(chosen)
        return None

    def skip(self) -> None:
        """A warp leaves a tile out where its rows hide all of it, and have seen scores so much
        larger that the weights would be 0: half of the tiles, if a row sees no later column. What
        would be nan in it, 0 times infinity, is left out too.
        """
        if (found := self.mask()) is None:
            return
        condition, low, hidden = found
        self.line(2, "bool adds = false;")
        self.open_elements("does it add anything?")
        names = self.batch | self.define(4, "own", self.sweep.owned, "o")
        names |= self.define(4, "at", self.sweep.swept, "t")
        text = self.computed(condition, names)
        self.line(4, f"adds = adds || {'!' if hidden else ''}({text});")
        self.line(3, "}")
        # exp of less than -104 and exp2 of less than -150 are 0 in float.
        self.line(3, f"adds = adds || most[i] - {bracketed(low)} < 256.0f;")
        self.line(2, "}")
        self.line(2, "if (!__any_sync(0xffffffffu, adds)) continue;")

    # ---- products ----
    def multiply(self, k: int, factor: Factor) -> None:
        """The elements of a product that a thread has."""
        self.line(2, f"float s{k}[2][{self.beside}] = {{}};")
        self.line(2, "#pragma unroll")
        steps = -(-factor.steps // self.steps)
        self.line(2, f"for (unsigned f = 0; f < {steps}u; ++f) {{", f"{self.steps} features")
        row = f"mine{k}[mine + lane % 16u][f * 2u + lane / 16u]"
        self.line(3, f"const ga_fragment a = ga_read_fragment(&{row});")
        self.line(3, "#pragma unroll")
        self.line(3, f"for (unsigned j = 0; j < {self.beside}u; j += 4u) {{")
        column = f"theirs{k}[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]"
        self.line(4, f"const ga_fragment b = ga_read_fragment(&{column});")
        self.add_products(4, f"s{k}", "j")
        self.line(3, "}")
        self.line(2, "}")

    def add_products(self, depth: int, to: str, at: str) -> None:
        """Add two products of fragments, side by side."""
        for half in range(2):
            place = at if not half else f"{at} + 2u"
            sums = f"&{to}[0][{place}], &{to}[1][{place}]"
            words = f"b.w[{2 * half}], b.w[{2 * half + 1}]"
            self.line(depth, f"ga_add_product<{self.kind}>({sums}, a, {words});")

    def accumulate(self) -> None:
        """Multiply the elements of a tile with the second operand."""
        shared = self.sweep.shared
        name = "v" if shared is None else f"theirs{shared}"
        # Of 16 columns at a time, or 8, and as many features.
        by = self.steps // 4
        self.line(2, "#pragma unroll")
        head = f"for (unsigned j = 0; j < {self.beside}u; j += {by}u) {{"
        self.line(2, head, f"{self.steps} of the tile")
        self.line(3, f"const ga_fragment a = ga_as_fragment<{self.kind}>(&s0[0][j], &s0[1][j]);")
        self.line(3, "#pragma unroll")
        self.line(3, f"for (unsigned c = 0; c < {self.columns}u; c += {by}u) {{")
        if self.kind == "float":
            # Two rows of a column, in the order in which the weights have them.
            for word, row in (("one", ""), ("two", " + 1u")):
                row = f"j * 4u + lane % 4u * 2u{row}"
                text = f"{name}[{row}][c + lane / 16u].v[lane / 4u % 4u]"
                self.line(4, f"const unsigned {word} = __float_as_uint({text});")
            self.line(4, "ga_add_product<float>(&sum[0][c], &sum[1][c], a, one, two);")
        else:
            row = f"{name}[j * 4u + lane % 16u][c / 2u + lane / 16u]"
            self.line(4, f"const ga_fragment b = ga_read_turned(&{row});")
            self.add_products(4, "sum", "c")
        self.line(3, "}")
        self.line(2, "}")


def sweep_template(kernel: Kernel, options: Options) -> type[SweepTemplate]:
    """The template of a sweep's kernel."""
    if not options.tensor_cores:
        return SweepTemplate
    (member,) = kernel.group.members
    operands = [a.aval for a in member.eqn.invars if isinstance(a, Var)]
    cores = can_multiply(member.eqn.params["sweep"], operands)
    return TensorSweepTemplate if cores else SweepTemplate
