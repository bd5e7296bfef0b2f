"""Targets of a scatter's updates, as index arithmetic.

Floor 2. In: an equation of a scatter, and coordinates. Out: coordinates in its operand and in its
updates.
"""

from __future__ import annotations

import math

from gpuarray.core.element import Below, Lookup, clamped, found
from gpuarray.core.element_rules import Get, Places
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index
from gpuarray.primitives.indexing.shapes import GatherScatterMode
from gpuarray.primitives.indexing.transforms import windows_of


class ScatterWindows:
    """The windows of a scatter: index arithmetic between updates and their targets."""

    def __init__(self, eqn: Eqn):
        operand, indices, updates = (a.aval for a in eqn.invars[:3])
        numbers = eqn.params["dimension_numbers"]
        self.eqn, self.numbers = eqn, numbers
        self.shape, self.batch = operand.shape, indices.shape[:-1]
        self.sizes = windows_of(operand.shape, updates.shape, numbers)
        # Axes along which windows have no extent.
        self.removed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        self.clips = eqn.params["mode"] is GatherScatterMode.CLIP
        self.count = math.prod(self.batch)

    def starts(
        self, batch: Places, get: Get, every: bool = False
    ) -> tuple[list[Index], list[Below]]:
        """Return where the window of an index vector starts, and tests of whether it is in bounds.

        Without `every`, omit tests that hold wherever an element is inside the window.
        """
        numbers = self.numbers
        places: list[Index] = [Index()] * len(self.shape)
        tests: list[Below] = []
        pairs = zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        )
        for d, axis in pairs:
            # A batching axis runs in step with an axis of the indices.
            places[d] = batch[axis]
        for k, d in enumerate(numbers.scatter_dims_to_operand_dims):
            most = self.shape[d] - self.sizes[d]
            looked = Lookup(get(1, [*batch, Index(constant=k)]), most)
            if not self.clips:
                places[d], test = found(looked)
                # A window of length 1 at an element of the operand is in bounds.
                if every or self.sizes[d] != 1 or not most:
                    tests.append(test)
            elif most:
                places[d] = clamped(looked)
        return places, tests

    def update(self, batch: Places, window: Places) -> list[Index]:
        """Return the coordinates in the updates of an element of a window."""
        # Coordinates in the order of the updates' axes, which may interleave both kinds.
        inner = iter(c for d, c in enumerate(window) if d not in self.removed)
        outer = iter(batch)
        rank = len(self.batch) + len(self.numbers.update_window_dims)
        axes = self.numbers.update_window_dims
        return [next(inner) if i in axes else next(outer) for i in range(rank)]

    # ---- axes ----
    @property
    def looked_up(self) -> list[int]:
        """Axes of the operand along which indices decide the target."""
        return sorted({*self.numbers.scatter_dims_to_operand_dims, *self.removed})

    @property
    def inner(self) -> list[int]:
        """The looked-up axes that windows keep: there they may be longer than 1."""
        return [d for d in self.looked_up if d not in self.removed]

    @property
    def rows(self) -> tuple[int, ...]:
        """Shape of the targets that are sorted: index vectors, then offsets along `inner`."""
        return (*self.batch, *(self.sizes[d] for d in self.inner))
