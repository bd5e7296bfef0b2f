"""Kernels as CUDA C++ text, meant to be read.

Floor 3. In: a Group. Out: an `Emitted`: the text of one `extern "C"` kernel, its launch numbers and
its arguments. Text depends on the
graph alone: no names of the user's, no ids, no order of building. What every kernel may call
(`ga_*`) is in kernels/.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from gpuarray.compiler import cuda_types as ct
from gpuarray.compiler.group import Group, Inner, Load, Member, Operand
from gpuarray.compiler.indexing import Axis, Index, access, linear
from gpuarray.compiler.kernel import Pass, axis_order, split_passes
from gpuarray.compiler.plan import members_in_order
from gpuarray.compiler.schedule import (
    Schedule,
    schedule_all,
    schedule_columns,
    schedule_map,
    schedule_rows,
    vector_width,
)
from gpuarray.core.graph import Literal, Var
from gpuarray.core.primitive import Kind, Sentinel


@dataclass(frozen=True)
class Combine:
    """The CUDA rule of a reduction: what it starts from and how two partial results merge.

    identity: text with {T} for the type, {LOW} and {HIGH} for its extreme values
    merge: text with {0} and {1}
    """

    identity: str
    merge: str


@dataclass
class Emitted:
    """One kernel as text, and how to launch it."""

    name: str
    text: str
    schedule: Schedule
    inputs: list[Var]
    outputs: list[Var]
    workspace: int = 0  # bytes of partial results, and a ticket after them
    kind: str = ""
    notes: list[str] = field(default_factory=list)


class NoCudaRule(TypeError):
    """An operation that has no CUDA rule was to be emitted."""


def emit(group: Group) -> Emitted:
    """The kernel of a group."""
    writer = _Writer(group)
    if not group.reduced:
        return writer.map()
    passes = split_passes(group)
    if passes is None:
        raise NoCudaRule("a reduction that cannot be split over threads has no CUDA rule yet")
    rows = math.prod(group.axes[i] for i in group.parallel)
    length = math.prod(group.axes[i] for i in group.reduced)
    simple = len(passes) == 1 and passes[0].partial and not passes[0].stored
    if rows == 1 and simple and length > 1 << 14:
        return writer.all(passes[0], length)
    if simple and writer.reads_along_columns():
        return writer.columns(passes[0], rows, length)
    return writer.rows(passes, rows, length)


class _Writer:
    def __init__(self, group: Group):
        self.group = group
        self.order = axis_order(group)
        self.inputs = list(group.read)
        self.outputs = list(group.outputs)
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        self.out_name = {v: f"out{i}" for i, v in enumerate(self.outputs)}
        self.lines: list[str] = []
        self.names: dict[Var, str] = {}
        self.count = 0
        self.axis_name = {i: f"i{k}" for k, i in enumerate(self.order)}
        self.wide = any(v.aval.size >= 2**31 for v in (*self.inputs, *self.outputs))
        self.index_type = "unsigned long long" if self.wide else "unsigned"
        self.suffix = "ull" if self.wide else "u"
        lengths = [group.axes[i] for i in self.order]
        self.whole = linear([Index.axis(i, group.axes[i]) for i in self.order], lengths)
        self.position = ""  # the name of the position in the whole space, where there is one

    # ---- pieces ----
    def put(self, depth: int, text: str, comment: str = "") -> None:
        line = "    " * depth + text
        self.lines.append(f"{line:<72}  // {comment}" if comment else line)

    def number(self, n: int) -> str:
        return f"{n}{self.suffix}"

    def load_index(self, load: Load) -> Index:
        coordinates = [
            Index.axis(d, self.group.axes[d]) if d is not None else Index() for d in load.dims
        ]
        return access(load.views, coordinates, load.source.aval.shape)

    def output_index(self, v: Var) -> Index:
        dims = self.group.made[v].dims
        coordinates = [
            Index.axis(d, self.group.axes[d]) if d is not None else Index() for d in dims
        ]
        return linear(coordinates, v.aval.shape)

    def at(self, index: Index) -> str:
        """An index as text: the running position where it is just that."""
        if self.position and index == self.whole:
            return self.position
        return ct.index_text(index, self.axis_name, self.wide)

    def read(self, load: Load) -> str:
        """One element of an input, as a value."""
        at = self.at(self.load_index(load))
        name = f"{self.in_name[load.source]}[{at}]"
        return f"ga_value({name})" if ct.is_half(load.source.aval) else name

    def write(self, depth: int, v: Var) -> None:
        """Store one element of an output."""
        at = self.at(self.output_index(v))
        value = self.names[v]
        if ct.is_half(v.aval):
            value = f"{ct.memory_type(v.aval)}({value})"
        self.put(depth, f"{self.out_name[v]}[{at}] = {value};")

    def operand(self, o: Operand, fetched: dict[tuple, str], depth: int) -> str:
        if isinstance(o, Literal):
            return ct.constant(o.val, o.aval)
        if isinstance(o, Inner):
            return self.names[o.var]
        key = (o.key, o.dims)
        found = fetched.get(key)
        if found is None:
            found = fetched[key] = f"x{len(fetched)}"
            kind = ct.value_type(o.source.aval)
            self.put(depth, f"const {kind} {found} = {self.read(o)};")
        return found

    def member(self, member: Member, depth: int, fetched: dict[tuple, str]) -> None:
        """One pointwise member: a line for each of its results."""
        eqn = member.eqn
        operands = [self.operand(o, fetched, depth) for o in member.operands]
        texts = expression(eqn, operands)
        for v, text in zip(eqn.outvars, texts, strict=True):
            name = f"v{self.count}"
            self.count += 1
            self.names[v] = name
            comment = eqn.primitive.name if eqn.primitive.name not in text else ""
            self.put(
                depth,
                f"const {ct.value_type(v.aval)} {name} = {ct.rounded(text, v.aval)};",
                comment,
            )

    def axes_from(self, depth: int, position: str, axes: list[int]) -> None:
        """Define the positions along `axes` from their common row-major position."""
        stride = 1
        lines = []
        for k, axis in enumerate(reversed(axes)):
            text = position if stride == 1 else f"{position} / {self.number(stride)}"
            if k < len(axes) - 1:
                text = (
                    f"({text}) % {self.number(self.group.axes[axis])}"
                    if stride > 1
                    else (f"{text} % {self.number(self.group.axes[axis])}")
                )
            lines.append(f"const {self.index_type} {self.axis_name[axis]} = {text};")
            stride *= self.group.axes[axis]
        for line in reversed(lines):
            self.put(depth, line)

    # ---- kernels ----
    def map(self) -> Emitted:
        """Pointwise: a thread makes 16 bytes of a row of the space, or one element where rows do
        not divide.
        """
        total = math.prod(self.group.axes)
        vectors = self.vector_loads()
        stored = [v for v in self.outputs if self.steps_by_one(self.output_index(v))]
        width = self.width([*[x.source for x in vectors], *stored])
        schedule = schedule_map(total, width)
        t, n = self.index_type, self.number
        thread = f"blockIdx.x * {n(schedule.threads)} + threadIdx.x"
        if width == 1:
            self.put(1, f"const {t} i = {thread};")
        else:
            self.put(1, f"const {t} i = ({thread}) * {n(width)};")
        self.put(1, f"if (i >= {n(total)}) return;")
        self.position = "i"
        self.axes_from(1, "i", self.order)
        if width == 1:
            self.body(1)
            return self.finish("map", schedule, f"{total} elements, one a thread")
        fetched = self.fetch_vectors(vectors, width)
        kept = {}
        for k, v in enumerate(stored):
            kept[v] = f"y{k}"
            self.put(1, f"ga_vec<{ct.memory_type(v.aval)}, {width}> y{k};")
        self.put(1, "#pragma unroll")
        self.put(1, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        last = self.order[-1]
        base = self.axis_name[last]
        self.axis_name[last], self.position = f"({base} + e)", "(i + e)"
        self.body(2, fetched, kept)
        self.axis_name[last], self.position = base, "i"
        self.put(1, "}")
        for v, name in kept.items():
            at = self.at(self.output_index(v))
            self.put(1, f"ga_store({self.out_name[v]} + {at}, {name});")
        note = f"{total} elements, {width} a thread in accesses of up to 16 bytes"
        return self.finish("map", schedule, note)

    def body(
        self,
        depth: int,
        fetched: dict[tuple, str] | None = None,
        kept: dict[Var, str] | None = None,
    ) -> None:
        """All members for one element, and its stores (into vectors where `kept` names them)."""
        fetched = {} if fetched is None else fetched
        kept = {} if kept is None else kept
        for m in members_in_order(self.group):
            self.member(m, depth, fetched)
        for v in self.outputs:
            if v in kept:
                value = self.names[v]
                if ct.is_half(v.aval):
                    value = f"{ct.memory_type(v.aval)}({value})"
                self.put(depth, f"{kept[v]}.v[e] = {value};")
            else:
                self.write(depth, v)

    def steps_by_one(self, index: Index) -> bool:
        """Whether neighbours along the last axis are neighbours in memory."""
        return bool(self.order) and index.coefficient(self.order[-1]) == 1

    def vector_loads(self) -> list[Load]:
        """The distinct loads that may come as vectors."""
        found = {
            (x.key, x.dims): x for x in self.group.loads() if self.steps_by_one(self.load_index(x))
        }
        return list(found.values())

    def width(self, values: list[Var]) -> int:
        """Elements of a vector: as many as 16 bytes hold of the narrowest dtype, and aligned
        everywhere.
        """
        if not self.order or not values:
            return 1
        width = vector_width(values, self.group.axes[self.order[-1]])
        last = self.order[-1]
        indices = [self.load_index(x) for x in self.vector_loads()]
        indices += [self.output_index(v) for v in self.outputs]
        while width > 1 and any(
            self.steps_by_one(at) and not _aligned(at, last, width) for at in indices
        ):
            width //= 2
        return width

    def fetch_vectors(self, loads: list[Load], width: int) -> dict[tuple, str]:
        """Load vectors and what is the same for a whole vector; the names of their elements."""
        fetched: dict[tuple, str] = {}
        vectors = {(x.key, x.dims) for x in loads}
        for load in self.group.loads():
            key = (load.key, load.dims)
            if key in fetched:
                continue
            index = self.load_index(load)
            at = self.at(index)
            name = f"x{len(fetched)}"
            source = load.source
            if key in vectors:
                kind = ct.memory_type(source.aval)
                text = f"ga_load<{width}>({self.in_name[source]} + {at})"
                self.put(1, f"const ga_vec<{kind}, {width}> {name} = {text};")
                element = f"{name}.v[e]"
                fetched[key] = f"ga_value({element})" if ct.is_half(source.aval) else element
            elif index.coefficient(self.order[-1]) == 0:
                self.put(1, f"const {ct.value_type(source.aval)} {name} = {self.read(load)};")
                fetched[key] = name
        return fetched

    def rows(self, passes: list[Pass], rows: int, length: int) -> Emitted:
        """A block a row: passes over the row with a block-wide reduction after each."""
        schedule = schedule_rows(rows, length)
        parallel = [i for i in self.order if i not in self.group.reduced]
        reduced = [i for i in self.order if i in self.group.reduced]
        self.put(1, f"const {self.index_type} row = blockIdx.x;")
        self.axes_from(1, "row", parallel)
        shared: dict[str, str] = {}
        for number, one in enumerate(passes):
            if one.members:
                self.sweep(one, reduced, length, schedule, shared, number)
            for m in one.after:
                self.member(m, 1, {})
        rest = [v for v in self.outputs if not any(v in p.stored for p in passes)]
        if rest:
            self.put(1, "if (threadIdx.x == 0) {")
            for v in rest:
                self.write(2, v)
            self.put(1, "}")
        body, self.lines = self.lines, []
        for kind, name in shared.items():
            self.put(1, f"__shared__ {kind} {name}[{schedule.threads // 32}];")
        self.lines += body
        return self.finish("rows", schedule, f"{rows} rows of {length}, a block a row")

    def sweep(
        self,
        one: Pass,
        reduced: list[int],
        length: int,
        schedule: Schedule,
        shared: dict,
        number: int,
    ) -> None:
        """One pass of a block over its row."""
        accumulators = self.accumulators(one, 1)
        step = f"j += {self.number(schedule.threads)}"
        self.put(
            1,
            f"for ({self.index_type} j = threadIdx.x; j < {self.number(length)}; {step}) {{",
            "write the row" if one.stored else f"pass {number + 1} over the row",
        )
        self.axes_from(2, "j", reduced)
        self.inside(one, accumulators, 2)
        self.put(1, "}")
        warps = schedule.threads // 32
        for v, name in accumulators.items():
            kind = accumulator_type(v)
            part = shared.setdefault(kind, f"part{len(shared)}")
            self.put(
                1, f"{name} = ga_block_reduce<{warps}>({name}, {part}, {self.merger(v, kind)});"
            )
            self.close(v, name, 1)

    def accumulators(self, one: Pass, depth: int) -> dict[Var, str]:
        """Declare a running value for each reduction of a pass."""
        found: dict[Var, str] = {}
        for v in one.partial:
            name = f"r{self.count}"
            self.count += 1
            found[v] = name
            eqn = self.group.made[v].eqn
            self.put(
                depth, f"{accumulator_type(v)} {name} = {identity(eqn, v)};", eqn.primitive.name
            )
        return found

    def inside(self, one: Pass, accumulators: dict[Var, str], depth: int) -> None:
        """The body of a pass: members, contributions to reductions, stores."""
        fetched: dict[tuple, str] = {}
        outside = dict(self.names)
        for m in one.members:
            if m.eqn.primitive.kind is not Kind.REDUCTION:
                self.member(m, depth, fetched)
                continue
            v = m.eqn.outvars[0]
            value = self.operand(m.operands[0], fetched, depth)
            merged = rule(m.eqn).merge.format(accumulators[v], value)
            self.put(depth, f"{accumulators[v]} = {merged};")
        for v in one.stored:
            self.write(depth, v)
        # Values of this pass end with its loop.
        self.names = outside | {v: n for v, n in self.names.items() if v in outside}

    def merger(self, v: Var, kind: str) -> str:
        merge = rule(self.group.made[v].eqn).merge.format("p", "q")
        return f"[]({kind} p, {kind} q) {{ return {kind}({merge}); }}"

    def close(self, v: Var, name: str, depth: int) -> None:
        """The finished reduction as a value of its declared dtype."""
        if ct.is_half(v.aval):
            self.put(depth, f"{name} = {ct.rounded(name, v.aval)};")
        self.names[v] = name

    def all(self, one: Pass, length: int) -> Emitted:
        """A full reduction in one launch: the last block to finish merges the partial results, in
        block order.
        """
        schedule = schedule_all(length)
        reduced = list(self.order)
        accumulators = self.accumulators(one, 1)
        stride = self.number(schedule.threads * schedule.grid)
        first = f"blockIdx.x * {self.number(schedule.threads)} + threadIdx.x"
        self.put(
            1, f"for ({self.index_type} j = {first}; j < {self.number(length)}; j += {stride}) {{"
        )
        self.axes_from(2, "j", reduced)
        self.inside(one, accumulators, 2)
        self.put(1, "}")
        warps = schedule.threads // 32
        parts: dict[str, str] = {}
        offset = 0
        offsets: dict[Var, int] = {}
        for v in accumulators:
            offsets[v] = offset
            offset += schedule.grid * 8  # partial results lie 8 bytes apart, whatever their type
        for v, name in accumulators.items():
            kind = accumulator_type(v)
            part = parts.setdefault(kind, f"part{len(parts)}")
            self.put(
                1, f"{name} = ga_block_reduce<{warps}>({name}, {part}, {self.merger(v, kind)});"
            )
        self.put(1, "if (threadIdx.x == 0) {")
        for v, name in accumulators.items():
            kind = accumulator_type(v)
            self.put(2, f"ga_partial<{kind}>(work + {offsets[v]}u, blockIdx.x) = {name};")
        self.put(2, "__threadfence();")
        self.put(
            2,
            f"last = atomicInc((unsigned*)(work + {offset}u), {schedule.grid - 1}u) == "
            f"{schedule.grid - 1}u;",
            "wraps to 0: ready for the next launch",
        )
        self.put(1, "}")
        self.put(1, "__syncthreads();")
        self.put(1, "if (!last) return;")
        self.put(1, "__threadfence();")
        for v, name in accumulators.items():
            kind = accumulator_type(v)
            eqn = self.group.made[v].eqn
            self.put(1, f"{name} = {identity(eqn, v)};")
            self.put(
                1,
                f"for (unsigned b = threadIdx.x; b < {schedule.grid}u; b += {schedule.threads}u) {{",
            )
            merged = rule(eqn).merge.format(name, f"ga_partial<{kind}>(work + {offsets[v]}u, b)")
            self.put(2, f"{name} = {merged};")
            self.put(1, "}")
            self.put(
                1,
                f"{name} = ga_block_reduce<{warps}>({name}, {parts[kind]}, {self.merger(v, kind)});",
            )
            self.close(v, name, 1)
        for m in one.after:
            self.member(m, 1, {})
        self.put(1, "if (threadIdx.x == 0) {")
        for v in self.outputs:
            self.write(2, v)
        self.put(1, "}")
        body, self.lines = self.lines, []
        for kind, name in parts.items():
            self.put(1, f"__shared__ {kind} {name}[{warps}];")
        self.put(1, "__shared__ bool last;")
        self.lines += body
        note = f"{length} elements, one pass, {schedule.grid} partial results merged in order"
        return self.finish("all", schedule, note, workspace=offset + 8)

    def columns(self, one: Pass, rows: int, length: int) -> Emitted:
        """Reductions down columns: 32 columns a block, 8 threads down each."""
        schedule = schedule_columns(rows)
        parallel = [i for i in self.order if i not in self.group.reduced]
        reduced = [i for i in self.order if i in self.group.reduced]
        deep = schedule.threads // 32
        self.put(1, "const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;")
        self.put(1, f"const {self.index_type} column = blockIdx.x * 32u + lane;")
        self.put(1, f"const bool inside = column < {self.number(rows)};")
        self.put(1, f"const {self.index_type} p = inside ? column : 0u;")
        self.axes_from(1, "p", parallel)
        accumulators = self.accumulators(one, 1)
        self.put(1, f"for ({self.index_type} j = deep; j < {self.number(length)}; j += {deep}u) {{")
        self.axes_from(2, "j", reduced)
        self.inside(one, accumulators, 2)
        self.put(1, "}")
        parts: dict[str, str] = {}
        for v, name in accumulators.items():
            kind = accumulator_type(v)
            part = parts.setdefault(kind, f"part{len(parts)}")
            self.put(1, f"{part}[threadIdx.x] = {name};")
            self.put(1, "__syncthreads();")
            self.put(1, "if (deep == 0) {")
            self.put(2, f"for (unsigned d = 1; d < {deep}u; ++d) {{")
            merged = rule(self.group.made[v].eqn).merge.format(name, f"{part}[d * 32u + lane]")
            self.put(3, f"{name} = {merged};")
            self.put(2, "}")
            self.put(1, "}")
            self.put(1, "__syncthreads();")
            self.close(v, name, 1)
        self.put(1, "if (deep == 0 && inside) {")
        for m in one.after:
            self.member(m, 2, {})
        for v in self.outputs:
            self.write(2, v)
        self.put(1, "}")
        body, self.lines = self.lines, []
        for kind, name in parts.items():
            self.put(1, f"__shared__ {kind} {name}[{schedule.threads}];")
        self.lines += body
        return self.finish("columns", schedule, f"{rows} columns of {length}")

    def reads_along_columns(self) -> bool:
        """Whether neighbours in memory are neighbours in P: then threads go along columns."""
        along_p = along_r = 0
        parallel = set(self.group.parallel)
        for load in self.group.loads():
            index = self.load_index(load)
            for axis in range(len(self.group.axes)):
                if index.coefficient(axis) == 1 and load.source.aval.size > 1:
                    if axis in parallel:
                        along_p += load.source.aval.size
                    else:
                        along_r += load.source.aval.size
        return along_p > along_r

    def drop_unused(self) -> None:
        """Remove positions along axes that nothing reads."""
        changed = True
        while changed:
            changed = False
            for k, line in enumerate(self.lines):
                found = re.match(r"\s*const unsigned(?: long long)? (i\d+) = ", line)
                if found and not any(
                    re.search(rf"\b{found[1]}\b", other)
                    for n, other in enumerate(self.lines)
                    if n != k
                ):
                    del self.lines[k]
                    changed = True
                    break

    # ---- the whole ----
    def finish(self, kind: str, schedule: Schedule, note: str, workspace: int = 0) -> Emitted:
        name = self.group.name or "kernel"
        formulas = ", ".join(m.eqn.primitive.name for m in members_in_order(self.group))
        ins = [f"{self.in_name[v]} {v.aval.str_short(True)}" for v in self.inputs]
        outs = [f"{self.out_name[v]} {v.aval.str_short(True)}" for v in self.outputs]
        moved = sum(v.aval.nbytes for v in (*self.inputs, *self.outputs))
        params = [
            f"const {ct.memory_type(v.aval)}* __restrict__ {self.in_name[v]}" for v in self.inputs
        ]
        params += [
            f"{ct.memory_type(v.aval)}* __restrict__ {self.out_name[v]}" for v in self.outputs
        ]
        if workspace:
            params.append("unsigned char* work")
        self.drop_unused()
        head = [
            f"// {name}: {formulas}",
            f"//   {', '.join(ins) or 'no inputs'} -> {', '.join(outs)}    {moved} bytes",
            f"//   {note}; {schedule.grid} x {schedule.threads} threads",
            f'extern "C" __global__ void __launch_bounds__({schedule.threads}) {name}(',
            "    " + ",\n    ".join(params) + ") {",
        ]
        text = "\n".join([*head, *self.lines, "}"]) + "\n"
        return Emitted(name, text, schedule, self.inputs, self.outputs, workspace, kind)


def _aligned(index: Index, last: int, width: int) -> bool:
    """Whether an access that steps by one along the last axis starts at a multiple of the width."""
    others = [k for a, k in index.terms if not (isinstance(a, Axis) and a.number == last)]
    return index.constant % width == 0 and all(k % width == 0 for k in others)


# ---- rules ----


def expression(eqn, operands: list[str]) -> list[str]:
    """The results of a pointwise equation as text."""
    given = eqn.primitive.cuda
    if isinstance(given, Sentinel):
        raise NoCudaRule(f"primitive {eqn.primitive.name!r} has no CUDA rule: {given.why}")
    if callable(given):
        out = given(
            operands, [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars], eqn.params
        )
        return list(out) if isinstance(out, (list, tuple)) else [out]
    return [given.format(*operands, T=ct.value_type(eqn.outvars[0].aval))]


def rule(eqn) -> Combine:
    """The CUDA rule of a reduction."""
    given = eqn.primitive.cuda
    if not isinstance(given, Combine):
        why = given.why if isinstance(given, Sentinel) else "its rule is not a Combine"
        raise NoCudaRule(f"reduction {eqn.primitive.name!r} has no CUDA rule: {why}")
    return given


def accumulator_type(v: Var) -> str:
    """16-bit floats accumulate in float."""
    return ct.value_type(v.aval)


def identity(eqn, v: Var) -> str:
    """What a reduction starts from."""
    kind = accumulator_type(v)
    return rule(eqn).identity.format(
        T=kind, LOW=f"ga_lowest<{kind}>()", HIGH=f"ga_highest<{kind}>()"
    )
