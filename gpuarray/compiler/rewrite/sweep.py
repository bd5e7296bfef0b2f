"""Sweeps: products whose elements are used where they are made, and never are in memory.

Floor 3. Plain data, made by sweep_products.py and emitted by cuda/sweep.py. A SweepSpace has batch
axes, row axes and column axes. A block of threads owns some rows and sweeps over all columns, or
the reverse: tile by tile it multiplies, computes the pointwise equations, and folds. The form of
its kernel is `Sweep` (lower/kernel.py).
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index, linear
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.util import Struct


class Read(Struct):
    """Where an element is read: the number of an operand, and the position in it.

    The index is over the axes of the space; the axis after them is that of features.
    """

    source: int
    index: Index


class Computed(Struct, eq=False):
    """A value that depends on the place of an element alone, such as a mask that compares rows with
    columns: an equation of such values, or of a position.
    """

    eqn: Eqn
    operands: tuple[Computed | Literal, ...]
    places: tuple[Index, ...]


class Factor(Struct, eq=False):
    """A product of rows by columns, summed over `steps` features."""

    value: Var
    row: Read
    column: Read
    steps: int


class Online(Struct, eq=False):
    """Weights that are exponentials of differences to the largest score, which is not known yet.

    Earlier terms are rescaled when a larger score appears, and divided by the sum at the end.

    Attributes
    ----------
    largest, total :
        The folds.
    exponential :
        The equation that makes the weights.
    """

    largest: Eqn
    total: Eqn
    exponential: Eqn


class SweepSpace(Struct, eq=False):
    """The computations of one kernel over a space of products.

    Attributes
    ----------
    space, batch, rows :
        Lengths of its axes; the number of batch axes and, after them, of row axes.
    owns_rows :
        Whether blocks own rows and sweep over columns, or the other way round.
    members :
        Pointwise equations on elements, in order; `leaves` are the values they read from memory, or
        compute from the place of the element.
    value :
        The element that is folded (by `fold`), or multiplied with the `features` of `other`.
    exact :
        Whether products of float32 are not to be rounded.
    out :
        The axis that each dimension of a product's result is: batch, owned, or features.
    """

    space: tuple[int, ...]
    batch: int
    rows: int
    owns_rows: bool
    factors: tuple[Factor, ...]
    leaves: tuple[tuple[Var, Read | Literal | Computed], ...]
    members: tuple[Eqn, ...]
    value: Var
    fold: Eqn | None
    other: Read | None
    features: int
    out: tuple[int, ...]
    online: Online | None
    avals: tuple[ShapedArray, ...]
    exact: bool

    @property
    def feature(self) -> int:
        """The number of the axis of features."""
        return len(self.space)

    def shared_bytes(self, own: int, beside: int) -> int:
        """Bytes of shared memory for tiles of `own` owned and `beside` swept elements."""
        # Tiles of both operands; one element more for each row avoids bank conflicts.
        floats = sum(f.steps * (own + 1 + beside + 1) for f in self.factors)
        if self.other is not None:
            # The weights of a tile, and `other` unless it is the operand of a factor.
            floats += beside * (own + 1 + (self.features if self.shared is None else 0))
        return 4 * floats

    @property
    def shared(self) -> int | None:
        """The number of the factor whose swept operand is `other`: one tile serves both."""
        swept = [f.column if self.owns_rows else f.row for f in self.factors]
        return swept.index(self.other) if self.other in swept else None

    @property
    def place(self) -> Index:
        """Where a product is written, over batch axes, those that are owned, and the features."""
        shape = self.avals[0].shape
        return linear([Index.axis(i, n) for i, n in zip(self.out, shape, strict=True)], shape)

    @property
    def owned(self) -> range:
        """The axes of which a block has a part."""
        end = self.batch + self.rows
        return range(self.batch, end) if self.owns_rows else range(end, len(self.space))

    @property
    def swept(self) -> range:
        """The axes that a block goes along."""
        end = self.batch + self.rows
        return range(end, len(self.space)) if self.owns_rows else range(self.batch, end)


def _no_numpy(*_, sweep: SweepSpace):
    raise AssertionError("a sweep is made for devices only, whose kernel runs it")


def _work(avals, *, sweep: SweepSpace) -> float:
    size = 1
    for n in sweep.space:
        size *= n
    # An element takes a product for each factor, and one with the features of `other`.
    return float(size * (sum(f.steps for f in sweep.factors) + sweep.features))


# Not registered: no program contains it, only the plan of a device.
sweep_p = Primitive(
    "sweep",
    Kind.LIBRARY,
    multiple_results=True,
    register=False,
    aval=lambda *avals, sweep: list(sweep.avals),
    numpy=_no_numpy,
    work=_work,
)


def swept(sweep: SweepSpace, operands: list[Var], results: list[Var], site: Any) -> Eqn:
    """Return the equation of a sweep."""
    return Eqn(sweep_p, list(operands), list(results), {"sweep": sweep}, site)


def is_sweep(eqn: Eqn) -> bool:
    """Whether an equation is a sweep."""
    return eqn.primitive is sweep_p
