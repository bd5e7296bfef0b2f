"""Pointwise kernels with transposed values: `a.T + b`, batches of it, transposed copies.

Floor 3. In: a Tiles kernel. Out: its KernelSource. A block computes a square tile of the result.
Operands that are contiguous along y are read along y into shared memory, and read from there along
x; results that are contiguous along y are written by way of shared memory too. So all accesses to
global memory are coalesced.
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.map import MapTemplate
from gpuarray.compiler.cuda.template import KernelSource, Options
from gpuarray.compiler.fuse.group import Load, members_in_order
from gpuarray.compiler.lower.choose import values_of
from gpuarray.compiler.lower.kernel import Tiles
from gpuarray.compiler.lower.schedule import Schedule, schedule_tiles
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Index, axes_of
from gpuarray.core.target import TARGET


class TilesTemplate(MapTemplate):
    """Square tiles, transposed in shared memory."""

    def __init__(self, kernel: Tiles, options: Options):
        super().__init__(kernel, options)
        self.x, self.y = kernel.x, kernel.y
        self.down = "down"  # name of the row of a tile that a thread works on
        self.tiled_loads: dict[tuple, tuple[str, Load]] = {}  # operands read through tiles
        self.tiled_outputs: dict[Var, str] = {}  # outputs written through tiles

    def crosses(self, index: Index) -> bool:
        """Whether a value is contiguous along y and depends on x: it has to be transposed."""
        return index.coefficient(self.y) == 1 and self.x in axes_of(index)

    # ---- the kernel ----
    def source(self) -> KernelSource:
        """Read tiles along y, compute along x, write transposed results along y."""
        self.threads_meet = True
        # Which values are transposed, and a shared array for each. Its rows are padded (`stride`),
        # so that the threads of a warp access different banks both along rows and down columns.
        chosen = [(v, index) for v, index in values_of(self.accesses) if self.crosses(index)]
        avals = [v.source.aval if isinstance(v, Load) else v.aval for v, _ in chosen]
        lengths = [self.axes[a] for a in self.order]
        s = schedule_tiles(lengths, [storage_dtype(a).itemsize for a in avals], self.both_widths())
        # Tiles that do not fit into shared memory are left out: their values are read across.
        for (value, _), aval, stride in zip(chosen, avals, s.strides, strict=False):
            name = f"tile{len(self.shared)}"
            self.shared[name] = f"{ct.memory_type(aval)} {name}[{s.side}][{stride}]"
            if isinstance(value, Load):
                self.tiled_loads[value.key, value.dims] = name, value
            else:
                self.tiled_outputs[value] = name
        # With a single row of the tile a thread, `deep` is the row itself.
        self.down = "down" if s.steps > 1 else "deep"
        self.define_origin(s)
        # Fill the tiles; the barrier makes them visible to the other threads of the block.
        self.touched.begin(s.steps)
        if self.tiled_loads:
            self.prefetch(s)
            self.open_tile_loop(s, self.y, self.x, "read along")
            self.fill_tiles(s.width)
            self.line(1, "}")
            self.line(1, "__syncthreads();")
            self.touched.begin(s.steps)
        # Compute along x.
        self.open_tile_loop(s, self.x, self.y, "compute along")
        self.elements(2, list(members_in_order(self.group)), self.outputs, {}, s.width)
        self.line(1, "}")
        # Write transposed results along y.
        if self.tiled_outputs:
            self.line(1, "__syncthreads();")
            self.open_tile_loop(s, self.y, self.x, "write along")
            self.write_tiles(s.width)
            self.line(1, "}")
        names = [self.in_name[load.source] for _, load in self.tiled_loads.values()]
        names += [self.out_name[v] for v in self.tiled_outputs]
        through = ", ".join(dict.fromkeys(names))
        note = f"tiles of {s.side} x {s.side}, {through} turned in shared memory"
        return self.finish(s, note)

    def both_widths(self) -> int:
        """Vector length that suits accesses along x and along y."""
        # `width` looks along `last`: once for reads along y, once along x.
        self.last = self.y
        along_y = self.width()
        self.last = self.x
        return min(self.width(), along_y)

    def define_origin(self, s: Schedule) -> None:
        """Define where the tile begins, and the position of a thread in it."""
        n, t = self.number, self.index_type
        down, across = (-(-self.axes[a] // s.side) for a in (self.y, self.x))
        scale = f" * {s.width}u" if s.width > 1 else ""
        # Threads of a tile: `lane` along the row in memory, `deep` across it.
        self.line(1, f"const unsigned lane = threadIdx.x % {s.lanes}u{scale};")
        self.line(1, f"const unsigned deep = threadIdx.x / {s.lanes}u;")
        others = [a for a in self.order if a not in (self.x, self.y)]
        block = f"blockIdx.x / {n(across)}" if across > 1 else "blockIdx.x"
        # Blocks go over the tiles of one matrix first, then over the batch.
        if math.prod(self.axes[a] for a in others) > 1:
            block = f"{block} % {n(down)}"
            self.line(1, f"const {t} batch = blockIdx.x / {n(across * down)};")
            self.define_axes(1, "batch", others)
        self.line(1, f"const {t} top = {block} * {n(s.side)};")
        left = f"blockIdx.x % {n(across)} * {n(s.side)}" if across > 1 else n(0)
        self.line(1, f"const {t} left = {left};")

    def open_tile_loop(self, s: Schedule, along: int, across: int, comment: str) -> None:
        """Open the loop over the vectors of a tile that a thread handles."""
        self.last = along
        first, second = self.axis_name[along], self.axis_name[across]
        place = {along: "lane", across: self.down}
        place = {a: f"{'top' if a == self.y else 'left'} + {at}" for a, at in place.items()}
        # Only tiles at an edge that the side does not divide need a test.
        ragged = [a for a in (self.y, self.x) if self.axes[a] % s.side]
        ends = {a: self.number(self.axes[a]) for a in ragged}
        comment = f"{comment} {first}"
        if s.steps > 1:
            self.line(1, "#pragma unroll")
            self.line(1, f"for (unsigned u = 0; u < {s.steps}u; ++u) {{", comment)
            down = f"deep * {s.steps}u + u" if s.near else f"u * {s.side // s.steps}u + deep"
            self.line(2, f"const unsigned down = {down};")
        else:
            tests = " && ".join(f"{place[a]} < {end}" for a, end in ends.items())
            self.line(1, f"if ({tests}) {{" if tests else "{", comment)
        for axis, name in ((along, first), (across, second)):
            self.name_position(2, name, place[axis])
        # At the edge of the array tiles reach over the end.
        if s.steps > 1 and ragged:
            tests = " || ".join(f"{self.axis_name[a]} >= {end}" for a, end in ends.items())
            self.line(2, f"if ({tests}) continue;")

    def prefetch(self, s: Schedule) -> None:
        """Read values contiguous along x before the barrier, to keep more bytes in flight."""
        self.last = self.x
        direct = {
            (x.key, x.dims): x
            for x in self.group.loads()
            if not self.is_inlined(x) and self.load_index(x).coefficient(self.x) == 1
        }
        nbytes = sum(storage_dtype(x.source.aval).itemsize for x in direct.values())
        # Only as many as registers hold; others are read while computing.
        if direct and nbytes * s.width * s.steps <= TARGET.ahead_bytes:
            room = self.declare_held("ahead", direct, s.width, s.steps, "[u]")
            self.open_tile_loop(s, self.x, self.y, "read along")
            self.read_held(room, s.width)
            self.line(1, "}")

    def fill_tiles(self, width: int) -> None:
        """Read vectors of all transposed operands into their tiles."""
        if width == 1:
            for name, load in self.tiled_loads.values():
                self.line(2, f"{name}[{self.down}][lane] = {self.raw(load)};")
            return
        for k, (_, load) in enumerate(self.tiled_loads.values()):
            kind = self.vector_of(load.source, width)
            self.line(2, f"const {kind} x{k} = {self.vector_read(load, width)};")
        self.line(2, "#pragma unroll")
        self.line(2, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        for k, (name, _) in enumerate(self.tiled_loads.values()):
            self.line(3, f"{name}[{self.down}][lane + e] = x{k}.v[e];")
        self.line(2, "}")

    def write_tiles(self, width: int) -> None:
        """Write vectors of all transposed outputs from their tiles."""
        for k, (v, name) in enumerate(self.tiled_outputs.items()):
            at, out = self.at(self.output_index(v)), self.out_name[v]
            if width == 1:
                self.line(
                    2, f"{self.first_thread_guard(v)}{out}[{at}] = {name}[{self.down}][lane];"
                )
                continue
            self.line(2, f"{self.vector_of(v, width)} y{k};")
            self.line(2, "#pragma unroll")
            head = f"for (unsigned e = 0; e < {width}u; ++e) "
            self.line(2, f"{head}y{k}.v[e] = {name}[{self.down}][lane + e];")
            self.line(2, f"{self.first_thread_guard(v)}ga_store({out} + {at}, y{k});")

    # ---- elements of tiles, while computing along x ----
    def transposed(self, tile: str) -> str:
        """An element of a tile with row and column exchanged."""
        # Within a vector the innermost position is `(... + e)`.
        in_vector = self.axis_name[self.x].startswith("(")
        return f"{tile}[{'lane + e' if in_vector else 'lane'}][{self.down}]"

    def read(self, load: Load) -> str:
        key = load.key, load.dims
        if key not in self.tiled_loads:
            return super().read(load)
        text = self.transposed(self.tiled_loads[key][0])
        return f"ga_value({text})" if ct.is_half(load.source.aval) else text

    def write(self, depth: int, v: Var) -> None:
        if v in self.tiled_outputs:
            self.line(depth, f"{self.transposed(self.tiled_outputs[v])} = {self.as_stored(v)};")
        else:
            super().write(depth, v)
