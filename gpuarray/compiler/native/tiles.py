"""Pointwise kernels with transposed values: `a.T + b`, batches of it, transposed copies.

Floor 3. In: a Tiles kernel. Out: its NativeSource. A task is a tile of the result. Operands that
are contiguous along y are transposed into a small array that is contiguous along x, and results
that are contiguous along y are transposed when they are stored, so that no loop walks across cache
lines: each step of such a walk waits for another page.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import Load, members_in_order
from gpuarray.compiler.lower.choose import values_of
from gpuarray.compiler.lower.kernel import Tiles
from gpuarray.compiler.native.schedule import tile_sides
from gpuarray.compiler.native.writer import NativeSource, NativeWriter
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Var
from gpuarray.core.index import Index


class TilesWriter(NativeWriter):
    """Tiles of `high` rows along y and `wide` columns along x."""

    def __init__(self, kernel: Tiles, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        self.order = list(kernel.order)
        self.axis_name = {i: f"i{k}" for k, i in enumerate(self.order)}
        self.y, self.x = kernel.y, kernel.x
        self.high, self.wide = tile_sides(self.axes[self.y], self.axes[self.x])
        # Transposed values, and the array of the tile that holds each.
        self.turned: dict[tuple | Var, str] = {}

    def source(self) -> NativeSource:
        """Transpose operands, compute along x, transpose results."""
        down, across = -(-self.axes[self.y] // self.high), -(-self.axes[self.x] // self.wide)
        outer = [i for i in self.order if i not in (self.y, self.x)]
        tasks = down * across * math.prod(self.axes[i] for i in outer)
        with self.over(1, "task", "first", "last"):
            self.define_origin(2, down, across, outer)
            # Values that walk along x go through arrays of the tile.
            crossing = [(v, index) for v, index in values_of(self.accesses) if self.crosses(index)]
            for value, index in crossing:
                if isinstance(value, Load):
                    self.facts.arrays.add(value.source)
                    self.turn(2, self.declare_tile(value), self.in_name[value.source], index, True)
            for v in (v for v, _ in crossing if not isinstance(v, Load)):
                self.declare_tile(v)
            # The loops themselves are those of any map, within the tile.
            ends = {self.y: ("top", "top + height"), self.x: ("left", "left + width")}
            members = list(members_in_order(self.group))
            self.nest(2, set(outer), [self.y, self.x], members, self.outputs, {}, ends)
            for value, index in crossing:
                if isinstance(value, Var):
                    self.facts.arrays.add(value)
                    self.turn(2, self.turned[value], self.out_name[value], index, False)
        grain = self.grain(self.high * self.wide)
        self.end_function(self.kernel.name, self.parameters(), tasks, grain)
        shape = " x ".join(str(self.axes[i]) for i in self.order)
        return self.finish(f"{shape} elements, tiles of {self.high} x {self.wide}")

    def crosses(self, index: Index) -> bool:
        """Whether a value is contiguous along y and walks along x, by the same step everywhere."""
        return index.coefficient(self.y) == 1 and bool(index.coefficient(self.x))

    def define_origin(self, depth: int, down: int, across: int, outer: list[int]) -> None:
        """Define where the tile of a task begins and how large it is: less at the edges."""
        n = self.number
        if outer:
            self.line(depth, f"const ga_index batch = task / {n(down * across)};")
            self.define_axes(depth, "batch", outer)
        # Tasks go over batches, then down the tiles, then across: the last changes fastest.
        row = "task" if across == 1 else f"task / {n(across)}"
        if outer and down > 1:
            row = f"{row} % {n(down)}"
        column = "task" if down == 1 and not outer else f"task % {n(across)}"
        places = (
            ("top", "height", row if down > 1 else "", self.high, self.axes[self.y]),
            ("left", "width", column if across > 1 else "", self.wide, self.axes[self.x]),
        )
        for begin, size, number, side, length in places:
            self.line(
                depth, f"const ga_index {begin} = {f'{number} * {n(side)}' if number else 0};"
            )
            whole = f"ga_least({n(side)}, {n(length)} - {begin})" if length % side else n(side)
            self.line(depth, f"const ga_index {size} = {whole};")

    def declare_tile(self, value: Load | Var) -> str:
        """Declare the array of a tile for a transposed value."""
        aval = value.source.aval if isinstance(value, Load) else value.aval
        name = f"turned{len(self.turned)}"
        self.turned[(value.key, value.dims) if isinstance(value, Load) else value] = name
        self.line(2, f"GA_LOCAL {ct.memory_type(aval)} {name}[{self.high}][{self.wide}];")
        return name

    def turn(self, depth: int, tile: str, array: str, index: Index, inwards: bool) -> None:
        """Write the call that transposes an operand into its tile, or a tile into a result."""
        # The place where the tile begins in the array.
        names = dict(self.axis_name)
        self.axis_name |= {self.y: "top", self.x: "left"}
        place = f"{array} + {self.at(index)}"
        self.axis_name = names
        # The stride along x; along y they are neighbours in memory.
        step = index.coefficient(self.x)
        if inwards:
            text = f"ga_turn(*{tile}, {self.wide}, {place}, {step}, height, width);"
        else:
            text = f"ga_turn({place}, {step}, *{tile}, {self.wide}, width, height);"
        self.line(depth, text, array)

    def in_tile(self, tile: str) -> str:
        """The element of a tile for the current position."""
        return f"{tile}[{self.axis_name[self.y]} - top][{self.axis_name[self.x]} - left]"

    def read(self, load: Load) -> str:
        """One element of an operand, from its tile if it is transposed."""
        tile = self.turned.get((load.key, load.dims))
        if tile is None:
            return super().read(load)
        return self.read_from(self.in_tile(tile), load.source.aval)

    def write(self, depth: int, v: Var) -> None:
        """Store one element of a result, in its tile if it is transposed."""
        if v in self.turned:
            self.line(depth, f"{self.in_tile(self.turned[v])} = {self.as_stored(v)};")
        else:
            super().write(depth, v)
