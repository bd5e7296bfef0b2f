"""Many maps or reductions of whole arrays in one launch: each block handles a tile of one of them.

Floor 3. In: a Batch kernel. Out: its KernelSource. The kernel reads the addresses of its arrays
from a table, so its text does not depend on their number and sizes, and one compile serves all.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.compiler.cuda.template import KernelSource, Options
from gpuarray.compiler.cuda.turns import TurnLoops, Turns
from gpuarray.compiler.fuse.group import Load, Member, members_in_order
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.collapse import collapse
from gpuarray.compiler.lower.horizontal import arrays_of, is_one
from gpuarray.compiler.lower.kernel import Batch
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.lower.schedule import Schedule, turns_ahead
from gpuarray.compiler.lower.traffic import Traffic
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.target import TARGET

#: Where the arrays of each part are, and which block has which part of them.
_TABLES = ("unsigned long long", "table"), ("unsigned", "tiles")


class BatchTemplate(TurnLoops):
    """The text for the first group; the others have the same structure."""

    def __init__(self, kernel: Batch, options: Options):
        # Text is emitted for the first part alone; `batch` has all of them for the launch.
        accesses = collapse(Accesses(kernel.parts[0]))
        super().__init__(Batch(accesses, kernel.name, kernel.parts, kernel.pass_), options)
        self.batch = kernel
        self.are_whole = False  # whether the loop that is written has no vector at an end

    def source(self) -> KernelSource:
        """The kernel of all parts."""
        parts, one, threads = self.batch.parts, self.batch.pass_, TARGET.block_threads
        sizes = [math.prod(p.axes) for p in parts]
        width = self.width()
        # A reduction has as many blocks as fit at a time, each of which leaves a result; maps have
        # more, so that the last ones keep few waiting.
        turn = threads * width
        folds = bool(one.partial)
        least, most = (4 * turn, 2 * TARGET.full_grid) if folds else (turn, TARGET.batch_grid)
        # An array may end within a tile: without these tiles as many blocks as are aimed at.
        whole = max(most - len(parts), most // 2)
        tiles = tiles_of(sizes, least * max(1, -(-sum(sizes) // (least * whole))), folds)
        s = Schedule(threads, width, len(tiles), threads)
        # Where a block works: numbers of a tile, and the addresses of the arrays.
        self.begin(tiles.shape[1])
        # The loop over the tile, by strides of the block. How many reads are under way may depend
        # on the structure alone, as all text.
        ahead = turns_ahead(self.bytes_read(width), s.replace(grid=most), 1, len(one.members))
        states = self.declare_partials(one)
        # All arrays have the same layout, so `i` is the position in each of them.
        head = f"unsigned i = threadIdx.x{f' * {width}u' if width > 1 else ''}"
        if folds:
            # Few blocks: first turns of vectors that are whole, so that several are under way.
            self.line(1, f"{head};")
            self.whole_turns(one, states, turn, ahead, width)
            head = ""
        else:
            self.touched.begin(ahead)
            self.line(1, f"#pragma unroll {ahead}")
        self.position = "i"
        self.line(1, f"for ({head}; i < tile[2]; i += {turn}u) {{")
        if width > 1:
            self.line(2, "const unsigned left = tile[2] - i;")
        self.elements(2, one.members, one.stored, states, width)
        self.position = ""
        self.line(1, "}")
        work = self.merge_tiles(states, s) if folds else 0
        for m in one.after:
            self.member(m, 1, self.read_before)
        self.write_reduced([one], "threadIdx.x == 0")
        return self.whole_source(s, tiles, width, ahead, work)

    def whole_turns(
        self, one: Pass, states: dict[Var, str], turn: int, ahead: int, width: int
    ) -> None:
        """The loop over turns of vectors of which none is at the end of the tile."""
        last = f"i + {(ahead - 1) * turn + width}u <= tile[2]"
        head = f"for (; {last}; i += {ahead * turn}u) {{"
        self.position, self.are_whole = "j", True
        place = f"i + u * {turn}u" if ahead > 1 else "i"
        turns = Turns(head, place, "", turn, "", ahead, width, self.order, "i")
        self.pass_in_turns(one, [turns], states, "whole vectors")
        self.are_whole = False

    def begin(self, numbers: int) -> None:
        """The tile of a block, the addresses of its arrays, and values common to all its
        elements.
        """
        one, arrays = self.batch.pass_, arrays_of(self.group)
        what = "array, first, length" + (", tiles before it, its tiles" * (numbers > 3))
        self.line(1, f"const unsigned* tile = tiles + blockIdx.x * {numbers}u;", what)
        self.line(1, f"const unsigned long long* at = table + tile[0] * {len(arrays)}u;")
        # Single numbers are at 0, all else is from the tile's first element on.
        single = {x.source for x in self.group.loads() if is_one(x)}
        for k, v in enumerate(arrays):
            output = k >= len(arrays) - len(self.outputs)
            kind = f"{'' if output else 'const '}{ct.memory_type(v.aval)}*"
            name = self.out_name[v] if output else self.in_name[v]
            first = " + tile[1]" if (v in one.stored if output else v not in single) else ""
            self.line(1, f"{kind} {self.restrict}{name} = ({kind})at[{k}]{first};")
        for member in members_in_order(self.group):
            for o in member.operands:
                if isinstance(o, Load) and is_one(o):
                    self.operand(o, self.read_before, 1)

    # ---- vectors ----
    def width(self) -> int:
        """Elements of a vector access: tiles begin at multiples of it, however long arrays are."""
        wide = self.wide_arrays()
        if not self.aligned or self.last is None or not wide:
            return 1
        return TARGET.vector_bytes // max(storage_dtype(v.aval).itemsize for v in wide)

    def wide_arrays(self) -> list[Var]:
        """The arrays of the first group whose every element is read or written."""
        read = {x.source for x in self.group.loads() if not is_one(x)}
        return [v for v in arrays_of(self.group) if v in read or v in self.batch.pass_.stored]

    def bytes_read(self, width: int) -> int:
        """Bytes that a thread reads in an iteration."""
        read = {x.source for x in self.group.loads() if not is_one(x)}
        return width * sum(storage_dtype(v.aval).itemsize for v in read)

    def vector_read(self, load: Load, width: int, depth: int = 2, scope=None) -> str:
        if self.are_whole:
            return super().vector_read(load, width, depth, scope)
        return f"ga_load_part<{width}>({self.in_name[load.source]} + i, left)"

    def vector_store(self, place: str, vector: str) -> str:
        if self.are_whole:
            return super().vector_store(place, vector)
        return f"ga_store_part({place}, {vector}, left);"

    def vector_end(self, states: dict[Var, str]) -> str:
        # Elements beyond the end are computed too, but not folded.
        return "e < left" if states and not self.are_whole else ""

    # ---- partial results ----
    def place_in_row(self, m: Member) -> str:
        return f"tile[1] + {super().place_in_row(m)}"

    def merge_tiles(self, states: dict[Var, str], s: Schedule) -> int:
        """Merge the results of the tiles of each array; return the bytes of the workspace."""
        self.reduce_over_block(states, s)
        slots, steps = ("threadIdx.x == 0", "blockIdx.x", "tile[3] + b"), ("threadIdx.x", s.threads)
        self.line(1, "const unsigned others = tile[4] - 1u;")
        work = self.merge_blocks(states, s, slots, len(self.batch.parts), 1, " + tile[0]", steps)
        self.reduce_over_block(states, s)
        for v, name in states.items():
            self.finish_reduction(v, name)
        return work

    def slots_of(self, s: Schedule, rows: int, many: int) -> int:
        return s.grid

    def behind(self, slots: int, room: int) -> str:
        return f"gridDim.x * {slots * TARGET.slot_bytes}u"

    def sharing(self, s: Schedule, but: int = 0) -> str:
        return "others" if but else "tile[4]"

    # ---- the whole ----
    def whole_source(
        self, s: Schedule, tiles: np.ndarray, width: int, ahead: int, work: int
    ) -> KernelSource:
        """The kernel with its launch: a row of the table has the addresses of a part's arrays."""
        whole = self.batch
        read, written = ({v: v.aval.nbytes for v in of} for of in (whole.inputs, whole.outputs))
        once = sum(read.values())
        count = sum(math.prod(p.axes) for p in whole.parts) * len(self.wide_arrays())
        sizes = {name: nbytes for name, (_, nbytes) in self.structs.items()}
        passes = ((once, self.bytes_read(width) * ahead),)
        return KernelSource(
            whole,
            self.text(s, work),
            s,
            list(whole.inputs),
            list(whole.outputs),
            work,
            self.threads_meet,
            table=[v for p in whole.parts for v in arrays_of(p)],
            tiles=tiles,
            traffic=Traffic(read, written, self.partial, once, passes, -(-count // width)),
            shared_bytes=sum(ct.declared_bytes(t, sizes) for t in self.shared.values()),
        )

    def text(self, s: Schedule, work: int) -> str:
        """Return the lines so far as a kernel. The compiled text contains neither the names nor the
        number of parts.
        """
        self.tidy()
        formulas = ", ".join(m.eqn.primitive.name for m in members_in_order(self.group))
        ins = ", ".join(v.aval.dtype.name for v in arrays_of(self.group))
        params = [f"const {kind}* __restrict__ {name}" for kind, name in _TABLES]
        params += ["unsigned char* work"] * bool(work)
        top = [f"    {text}" for text, _ in self.structs.values()]
        top += [f"    __shared__ {text};" for text in self.shared.values()]
        top += [f"    {text}" for text in self.name_mergers()]
        head = [
            f"// {self.kernel.name}: {formulas}",
            f"//   many arrays at once, each with its own sizes: {ins}",
            f'extern "C" __global__ void __launch_bounds__({s.threads}) {self.kernel.name}(',
            "    " + ",\n    ".join(params) + ") {",
        ]
        return "\n".join([*head, *top, *self.lines, "}"]) + "\n"


def tiles_of(sizes: list[int], length: int, count: bool = False) -> np.ndarray:
    """For each block which array it works on, from which element on, and on how many; with `count`,
    also which block is the first of that array, and how many there are.

    >>> tiles_of([5, 1500], 1024).tolist()
    [[0, 0, 5], [1, 0, 1024], [1, 1024, 476]]
    >>> tiles_of([5, 1500], 1024, True)[:, 3:].tolist()
    [[0, 1], [1, 2], [1, 2]]
    """
    counts = np.array(sizes)
    # Blocks of each part: as many as cover it.
    blocks = -(-counts // length)
    arrays = np.repeat(np.arange(len(sizes)), blocks)
    before = np.repeat(np.cumsum(blocks) - blocks, blocks)
    # Where each tile begins: the number of the tile within its part, times its length.
    first = (np.arange(len(arrays)) - before) * length
    columns = [arrays, first, np.minimum(counts[arrays] - first, length)]
    if count:
        columns += [before, blocks[arrays]]
    return np.stack(columns, 1).astype(np.uint32)
