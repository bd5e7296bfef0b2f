"""Many small pointwise kernels in one launch: each block works on a tile of one of the arrays.

Floor 3. In: a Batch kernel. Out: its KernelSource. The kernel reads the addresses of its arrays
from a table, so its text does not depend on their number and sizes, and one compile serves all.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Load, members_in_order
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.horizontal import arrays_of, is_one
from gpuarray.compiler.lower.kernel import Batch
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.lower.traffic import each_once
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.target import TARGET


class BatchTemplate(Template):
    """The text for the first group; the others have the same structure."""

    def __init__(self, kernel: Batch, options: Options):
        # Text is emitted for the first part alone; `batch` has all of them for the launch.
        first = Batch(Accesses(kernel.parts[0]), kernel.name, kernel.parts)
        super().__init__(first, options)
        self.batch = kernel

    def source(self) -> KernelSource:
        """The kernel of all parts."""
        whole, parts = self.batch, self.batch.parts
        arrays = arrays_of(self.group)
        count = len(arrays)
        # Three numbers a tile: which part, the first element, how many elements.
        self.line(1, "const unsigned* tile = tiles + blockIdx.x * 3u;", "arrays, first, length")
        self.line(1, f"const unsigned long long* at = table + tile[0] * {count}u;")
        # Arrays of one element are read at 0, all others from the tile's first element on.
        single = {x.source for x in self.group.loads() if is_one(x)}
        for k, v in enumerate(arrays):
            output = k >= count - len(self.group.outputs)
            kind = f"{'' if output else 'const '}{ct.memory_type(v.aval)}*"
            name = self.out_name[v] if output else self.in_name[v]
            first = "" if v in single and not output else " + tile[1]"
            self.line(1, f"{kind} __restrict__ {name} = ({kind})at[{k}]{first};")
        # Single elements are read once, before the loop.
        scope: Fetched = {}
        for member in members_in_order(self.group):
            for o in member.operands:
                if isinstance(o, Load) and is_one(o):
                    self.operand(o, scope, 1)
        # The loop over the tile, by strides of the block; a tile is four elements a thread.
        self.position = "i"
        self.line(1, "#pragma unroll 4")
        self.line(
            1, f"for (unsigned i = threadIdx.x; i < tile[2]; i += {TARGET.block_threads}u) {{"
        )
        for member in members_in_order(self.group):
            self.member(member, 2, scope)
        # All arrays lie alike, so `i` is the position in each of them.
        for v in self.group.outputs:
            self.line(2, f"{self.out_name[v]}[i] = {self.as_stored(v)};")
        self.line(1, "}")
        sizes = [math.prod(p.axes) for p in parts]
        tiles = tiles_of(sizes)
        schedule = Schedule(TARGET.block_threads, grid=len(tiles))
        text = self.text(schedule)
        # The table has a row for each part: the addresses of its arrays.
        table = [v for p in parts for v in arrays_of(p)]
        return KernelSource(
            whole,
            text,
            schedule,
            list(whole.inputs),
            list(whole.outputs),
            table=table,
            tiles=tiles,
            traffic=each_once(whole.inputs, whole.outputs),
        )

    def text(self, schedule: Schedule) -> str:
        """The lines so far as a kernel. Neither names nor numbers of parts are in what compiles."""
        formulas = ", ".join(m.eqn.primitive.name for m in members_in_order(self.group))
        ins = ", ".join(v.aval.dtype.name for v in arrays_of(self.group))
        head = [
            f"// {self.kernel.name}: {formulas}",
            f"//   many arrays at once, each with its own sizes: {ins}",
            f'extern "C" __global__ void __launch_bounds__({schedule.threads}) {self.kernel.name}(',
            "    const unsigned long long* __restrict__ table,",
            "    const unsigned* __restrict__ tiles) {",
        ]
        return "\n".join([*head, *self.lines, "}"]) + "\n"


def tiles_of(sizes: list[int]) -> np.ndarray:
    """For each block which arrays it works on, from which element on, and on how many.

    >>> tiles_of([5, 1500]).tolist()
    [[0, 0, 5], [1, 0, 1024], [1, 1024, 476]]
    """
    counts = np.array(sizes)
    tile = TARGET.batch_tile
    # Blocks of each part: as many as cover it.
    blocks = -(-counts // tile)
    arrays = np.repeat(np.arange(len(sizes)), blocks)
    # Where each tile begins: the number of the tile within its part, times its length.
    first = (np.arange(len(arrays)) - np.repeat(np.cumsum(blocks) - blocks, blocks)) * tile
    length = np.minimum(counts[arrays] - first, tile)
    return np.stack([arrays, first, length], 1).astype(np.uint32)
