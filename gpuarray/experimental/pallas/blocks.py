"""The position of each program's block: index maps, with simple ones recognised.

Floor 6. In: an array's shape, its BlockSpec and the grid. Out: a Mapping with the length of blocks
along each axis and the value of the index map: a number, the position along an axis of the grid, or
a value that has to be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Graph, Literal, evaluate
from gpuarray.core.value import Array
from gpuarray.experimental.pallas import programs
from gpuarray.experimental.pallas.specs import (
    Blocked,
    BlockSpec,
    Element,
    Squeezed,
    no_block_spec,
    uninitialised,
)
from gpuarray.transforms.tracing import TracedFunction, stage

#: The type of a position in the grid.
POSITION = ShapedArray((), np.dtype(np.int32))


class Mapping(NamedTuple):
    """How one array is cut into blocks.

    Attributes
    ----------
    sizes :
        The length of a block along each axis of the array.
    squeezed :
        The axes that the kernel does not see.
    steps :
        The unit of the index map's numbers along each axis, in elements.
    paddings :
        How many elements are added before and after each axis: by the caller, and so that blocks
        fit.
    graph :
        The index map: from positions in the grid to one number for each axis of the array.
    sources :
        For each axis of the array the axis of the grid whose position the index map gives, or a
        number below 0: -1 - k where it always gives k; None where it has to be computed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any
    sizes: tuple[int, ...]
    squeezed: tuple[int, ...]
    steps: tuple[int, ...]
    paddings: tuple[tuple[int, int], ...]
    graph: Graph
    sources: tuple[int | None, ...]

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape including the padding at the ends."""
        return tuple(a + n + b for n, (a, b) in zip(self.shape, self.paddings, strict=True))

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of a block as the kernel sees it."""
        return tuple(n for i, n in enumerate(self.sizes) if i not in self.squeezed)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks along each axis, if they are adjacent."""
        return tuple(n // b if b else 1 for n, b in zip(self.padded, self.sizes, strict=True))

    def is_tiled(self, grid: Sequence[Any]) -> bool:
        """Whether blocks are adjacent and inside the array, each axis following one of the grid."""
        # Each axis of the array follows another one of the grid, block by block, and no program
        # is beyond the last block.
        used = [s for s in self.sources if s is not None and s >= 0]
        return (
            None not in self.sources
            and len(set(used)) == len(used)
            and self.steps == self.sizes
            and all(
                (grid[s] if s >= 0 else -s) <= n
                for s, n in zip(self.sources, self.counts, strict=True)
                if s is not None
            )
        )

    def pad(self, x: Array) -> Array:
        """An array with its padding, whose elements are uninitialised."""
        if not any(a or b for a, b in self.paddings):
            return x
        return lax.pad(x, uninitialised((), self.dtype), [(a, b, 0) for a, b in self.paddings])

    def cut(self, x: Array) -> Array:
        """The array without the padding."""
        if not any(a or b for a, b in self.paddings):
            return x
        starts = [a for a, _ in self.paddings]
        return lax.slice(x, starts, [a + n for a, n in zip(starts, self.shape, strict=True)])

    def starts(self, ids: Sequence[Any]) -> list[Any]:
        """The first element of the block of the program at this position."""
        numbers = evaluate(self.graph, *ids)
        return [
            i if n == 1 else lax.mul(_int32(i), np.int32(n))
            for i, n in zip(map(_int32, numbers), self.steps, strict=True)
        ]

    def read(self, x: Array, starts: Sequence[Any]) -> Array:
        """The block of a padded array that begins there; one over the end is moved inside."""
        out = lax.dynamic_slice(x, starts, self.sizes) if starts else x
        return lax.squeeze(out, self.squeezed)

    def write(self, x: Array, block: Array, starts: Sequence[Any]) -> Array:
        """The padded array with another block."""
        # A scalar: it has no axis to slice, and the block is all of it.
        if not starts:
            return block
        return lax.dynamic_update_slice(x, lax.expand_dims(block, self.squeezed), starts)


def _int32(i: Any) -> Any:
    return np.int32(i) if isinstance(i, int) else lax.convert_element_type(i, np.int32)


def mapping(name: str, aval: Any, spec: Any, grid: Sequence[Any]) -> Mapping:
    """The Mapping of an array of this type."""
    spec = BlockSpec() if spec is no_block_spec else spec
    if not isinstance(spec, BlockSpec):
        raise TypeError(f"The spec of {name} must be a pl.BlockSpec, got {spec!r}.")
    shape = tuple(aval.shape)
    dims = tuple(map(Blocked, shape)) if spec.block_shape is None else spec.block_shape
    if len(dims) != len(shape):
        raise ValueError(
            f"Block shape for {name} (= {dims}) must have the same number of dimensions as the "
            f"array shape {shape}."
        )
    sizes = tuple(1 if isinstance(d, Squeezed) else d.block_size for d in dims)
    # Only windows may be padded by the caller; blocks are padded so that the last one is
    # whole.
    margins = tuple(d.padding if isinstance(d, Element) else (0, 0) for d in dims)
    # The caller's padding, and then padding to whole blocks.
    paddings = tuple(
        (low, high + -(low + n + high) % max(size, 1))
        for n, size, (low, high) in zip(shape, sizes, margins, strict=True)
    )
    steps = tuple(
        1 if isinstance(d, Element) else size for d, size in zip(dims, sizes, strict=True)
    )
    # Traced even if it is simple: its value is read from the Graph.
    graph = _staged(name, spec, len(shape), grid)
    squeezed = tuple(i for i, d in enumerate(dims) if isinstance(d, Squeezed))
    sources = tuple(_source(a, graph) for a in graph.outvars)
    return Mapping(name, shape, aval.dtype, sizes, squeezed, steps, paddings, graph, sources)


def _staged(name: str, spec: BlockSpec, ndim: int, grid: Sequence[Any]) -> Graph:
    """The index map as a Graph of scalars."""
    index_map = spec.index_map or (lambda *_: (0,) * ndim)

    def flat(*ids: Any) -> list[Any]:
        with programs.at(ids, grid):
            found = index_map(*ids)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != ndim:
            raise ValueError(
                f"The index map of {name} must return {ndim} values, one for each axis of the "
                f"array. Currently returning {len(found)} values: {found}."
            )
        for i, x in enumerate(found):
            dtype = getattr(x, "dtype", None)
            whole = dtypes.kind_of(dtype) in "iu" if dtype is not None else type(x) is int
            if not whole or getattr(x, "shape", ()):
                raise ValueError(
                    f"The index map of {name} must return integer scalars. Output[{i}] is {x!r}."
                )
        return list(found)

    return stage(flat, [POSITION] * len(grid), TracedFunction(index_map, "pallas_call index_map"))


def _source(a: Any, graph: Graph) -> int | None:
    # A constant, one position of the grid, or a computed value.
    if isinstance(a, Literal):
        # Written as -1 - k: numbers from 0 on are axes of the grid.
        return -1 - int(a.val) if int(a.val) >= 0 else None
    return graph.invars.index(a) if a in graph.invars else None
