"""Programs side by side: blocks become axes of the arrays, and the kernel is batched over them.

Floor 6. In: a traced kernel, and the axes of its grid along which programs are independent. Out:
its outputs.

An array whose blocks follow the grid is seen as one of blocks: each axis in two, which block and
where in it. A program's block is then an element of it, so batching reads every block in one
operation without moving any. The other axes of the grid are a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core.value import Array
from gpuarray.experimental.pallas import programs
from gpuarray.experimental.pallas.blocks import Mapping
from gpuarray.functions.vmap import vmap


def run(kernel: Any, axes: tuple[int, ...]) -> tuple[list[Array], list[Array]]:
    """Run a kernel, side by side along `axes`: outputs (padded), and final scratch contents."""
    grid = kernel.grid
    loops = [a for a in range(len(grid)) if a not in axes]
    tiled = [m.is_tiled(grid) for m in kernel.inputs]
    # Inputs as blocks, where they follow the grid; the others are cut by each program.
    inputs = [
        _Tiles(m, grid, axes).open(x) if t else x
        for m, x, t in zip(kernel.inputs, kernel.arrays, tiled, strict=True)
    ]
    views = [_Tiles(m, grid, axes) for m in kernel.outputs]
    first = [v.open(x) for v, x in zip(views, kernel.first, strict=True)]
    lengths = [grid[a] for a in axes]
    kept = [lax.broadcast(x, lengths) for x in kernel.kept]

    def step(number: Any, carry: tuple[list, list]) -> tuple[list, list]:
        outputs, kept = carry
        at = dict(zip(loops, programs.positions(number, [grid[a] for a in loops]), strict=True))
        given = [
            _Tiles(m, grid, axes).at(x, at) if t else x
            for m, x, t in zip(kernel.inputs, inputs, tiled, strict=True)
        ]
        old = [v.at(x, at) for v, x in zip(views, outputs, strict=True)]
        new, kept = _side_by_side(kernel, axes, at, tiled, given, old, kept)
        return [v.put(x, b, at) for v, x, b in zip(views, outputs, new, strict=True)], kept

    count = math.prod(grid[a] for a in loops)
    begin = (first, kept)
    outputs, kept = step(0, begin) if count == 1 else lax.fori_loop(0, count, step, begin)
    # Final scratch contents are not read: with outside references the programs run one after
    # another.
    left = [x[(0,) * len(axes)] for x in kept]
    return [v.close(x, p) for v, x, p in zip(views, outputs, kernel.first, strict=True)], left


def _side_by_side(
    kernel: Any,
    axes: tuple[int, ...],
    at: dict[int, Any],
    tiled: list[bool],
    given: list[Any],
    old: list[Any],
    kept: list[Any],
) -> tuple[list, list]:
    """Apply the kernel to the blocks of all programs: the new blocks, and final scratch
    contents.
    """

    def program(ids: list, given: list, old: list, kept: list) -> tuple[list, list]:
        # A position is that of the loop, or along a mapped axis that of the element.
        where = [at[a] if a in at else ids[axes.index(a)] for a in range(len(kernel.grid))]
        read = [
            x if t else m.read(x, m.starts(where))
            for m, x, t in zip(kernel.inputs, given, tiled, strict=True)
        ]
        out = kernel.apply(where, *read, *old, *kept)[len(read) :]
        return out[: len(old)], out[len(old) :]

    call: Callable = program
    # Blocks are mapped only along the axes of the grid that they follow.
    for i in reversed(range(len(axes))):
        along = axes[i]
        ids = [0 if j == i else None for j in range(len(axes))]
        inputs = [
            0 if t and along in m.sources else None
            for m, t in zip(kernel.inputs, tiled, strict=True)
        ]
        outputs = [0 if along in m.sources else None for m in kernel.outputs]
        # The innermost axis first: each vmap adds its axis in front, so the first axis of the grid
        # ends up first.
        size = kernel.grid[along]
        call = vmap(call, (ids, inputs, outputs, [0] * len(kept)), 0, axis_size=size)
    ids = [lax.iota(np.int32, kernel.grid[a]) for a in axes]
    return call(ids, given, old, kept)


class _Tiles:
    """An array as one of blocks, with an axis for each of the grid that they follow.

    Its axes: those of the grid that are looped over, those along which programs run side by side,
    both in the order of the grid, then those of a block.
    """

    def __init__(self, m: Mapping, grid: Sequence[int], axes: tuple[int, ...]):
        self.m, self.grid, self.axes = m, grid, axes
        self.follows = {s: d for d, s in enumerate(m.sources) if s is not None and s >= 0}
        looped = [a for a in range(len(grid)) if a in self.follows and a not in axes]
        self.looped, self.mapped = looped, [a for a in axes if a in self.follows]
        self.order = [*looped, *self.mapped]

    def _whole(self) -> bool:
        """Whether the programs have all blocks among them."""
        return all(
            (self.grid[s] if s >= 0 else 1) == n
            for s, n in zip(self.m.sources, self.m.counts, strict=True)
            if s is not None
        )

    def _window(self) -> tuple[list[int], list[int]]:
        """The blocks that the programs have: the first along each axis, and how many."""
        sources = [s for s in self.m.sources if s is not None]
        return [0 if s >= 0 else -1 - s for s in sources], [
            self.grid[s] if s >= 0 else 1 for s in sources
        ]

    def open(self, x: Array) -> Array:
        """The blocks of a padded array that the programs have."""
        m = self.m
        if not self._whole():
            starts, counts = self._window()
            first = [s * b for s, b in zip(starts, m.sizes, strict=True)]
            ends = [f + n * b for f, n, b in zip(first, counts, m.sizes, strict=True)]
            x = lax.slice(x, first, ends)
        _, counts = self._window()
        # Each axis in two: which block, where in it.
        x = lax.reshape(x, [n for pair in zip(counts, m.sizes, strict=True) for n in pair])
        # In front the axes of blocks, in the order of loops and maps; after them those in a block.
        # Axes left over have one block, or are squeezed: length 1.
        inner = [2 * d + 1 for d in range(len(m.shape)) if d not in m.squeezed]
        ordered = [*(2 * self.follows[a] for a in self.order), *inner]
        rest = [d for d in range(2 * len(m.shape)) if d not in ordered]
        x = lax.transpose(x, [*rest, *ordered])
        return lax.reshape(x, x.shape[len(rest) :])

    def close(self, x: Array, around: Array) -> Array:
        """The padded array with these blocks; `around`: its contents elsewhere."""
        m = self.m
        starts, counts = self._window()
        inner = [d for d in range(len(m.shape)) if d not in m.squeezed]
        # The inverse of `open`: axes back to where they were, then each pair as one.
        held = [*(2 * self.follows[a] for a in self.order), *(2 * d + 1 for d in inner)]
        rest = [d for d in range(2 * len(m.shape)) if d not in held]
        x = lax.reshape(x, [1] * len(rest) + list(x.shape))
        back = [
            rest.index(d) if d in rest else len(rest) + held.index(d)
            for d in range(2 * len(m.shape))
        ]
        x = lax.transpose(x, back)
        x = lax.reshape(x, [n * b for n, b in zip(counts, m.sizes, strict=True)])
        if self._whole():
            return x
        return lax.dynamic_update_slice(
            around, x, [np.int32(s * b) for s, b in zip(starts, m.sizes, strict=True)]
        )

    def at(self, x: Array, at: dict[int, Any]) -> Array:
        """The blocks of one step of the loop."""
        if not self.looped:
            return x
        starts = [at[a] for a in self.looped] + [np.int32(0)] * (x.ndim - len(self.looped))
        sizes = [1] * len(self.looped) + list(x.shape[len(self.looped) :])
        return lax.reshape(lax.dynamic_slice(x, starts, sizes), sizes[len(self.looped) :])

    def put(self, x: Array, new: Array, at: dict[int, Any]) -> Array:
        """All blocks, with those of one step of the loop."""
        # Blocks of all programs: an output may not depend on axes of one program.
        for i, a in enumerate(self.axes):
            if a not in self.follows:
                new = lax.index_in_dim(new, 0, sum(b in self.follows for b in self.axes[:i]), False)
        if not self.looped:
            return new
        starts = [at[a] for a in self.looped] + [np.int32(0)] * (x.ndim - len(self.looped))
        sizes = [1] * len(self.looped) + list(x.shape[len(self.looped) :])
        return lax.dynamic_update_slice(x, lax.reshape(new, sizes), starts)
