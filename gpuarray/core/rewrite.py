"""Rewrite rules of primitives: how a compiler may replace an equation by others.

Floor 1. In: equations of a primitive. Out: operands, axes, or equations with the same results. With
these rules the compiler's passes need no primitive by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.util import Struct


class Extents(NamedTuple):
    """Lengths of the axes of a product, by the operands that have them.

    Attributes
    ----------
    batch :
        Axes in both operands and the result.
    rows, columns :
        Axes in the left operand only, and in the right operand only.
    steps :
        Axes in both operands that are summed.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: tuple[int, ...]


class Roles(NamedTuple):
    """The axes of one operand of a product, by number: in both, only in this one, summed."""

    batch: tuple[int, ...]
    own: tuple[int, ...]
    steps: tuple[int, ...]


class Epilogue(NamedTuple):
    """Elementwise work on a product that a library does before it writes the elements.

    Attributes
    ----------
    formula : Graph
        The new element, as a function of scalars: of the element, and of one of each further
        operand.
    whole : int
        How many of the further operands, the last ones, have an element for each of the product;
        the others have one for each column.
    either_way : tuple of Primitive
        The operations in it whose two operands may be exchanged.
    joined : (product, operands, out) -> Eqn
        The product with that, given the further operands and the result.
    """

    formula: Any
    whole: int
    either_way: tuple[Any, ...]
    joined: Callable[[Any, Sequence[Any], Any], Any]


class Product(Struct):
    """Rules of operations that sum products of the elements of two operands.

    Attributes
    ----------
    extents : (eqn) -> Extents
        Lengths of the axes.
    roles : (eqn) -> (Roles, Roles)
        Which axes of the left and of the right operand these are.
    exchanged : (eqn, order, out) -> Eqn or None
        The product with its operands exchanged, whose result `out` has its axes in `order`. None if
        exchanging gives another order.
    turned : (eqn, side, order, operand) -> Eqn or None
        The product that reads `operand` in place of its operand `side`, whose axes are those of
        `operand` in `order`. None if a library would have to copy `operand` for it.
    expanded : (eqn) -> list of Eqn
        The product as elementwise multiplication and sum.
    split : (eqn, side) -> list of Eqn
        A product for each row of its operand `side`, one of whose own axes is longer than 1, and
        the stack of them.
    laid : (eqn, side) -> list of Eqn
        The product that reads a copy of its operand `side` with the axes of each role side by side:
        batch, own, summed.
    epilogues : (eqn) -> sequence of Epilogue
        The elementwise function that a library applies before it writes the product.
    """

    extents: Callable[[Any], Extents]
    roles: Callable[[Any], tuple[Roles, Roles]]
    exchanged: Callable[[Any, tuple[int | None, ...], Any], Any]
    turned: Callable[[Any, int, tuple[int, ...], Any], Any]
    expanded: Callable[[Any], list[Any]]
    split: Callable[[Any, int], list[Any]]
    laid: Callable[[Any, int], list[Any]]
    epilogues: Callable[[Any], Sequence[Epilogue]] = lambda eqn: ()


class Loops(NamedTuple):
    """An operation on each of many matrices as a hand-written function of native code.

    Attributes
    ----------
    function, numbers :
        Its name, and its template arguments after the type of the first operand.
    tasks :
        How many matrices there are. They are operands and results one after the other.
    work :
        Operations on numbers for one of them.
    many :
        Whether operations may be many: the function calls LAPACK, or is as fast.
    """

    function: str
    numbers: tuple[int, ...]
    tasks: int
    work: float
    many: bool = False


class WindowAxis(NamedTuple):
    """One axis along which windows move, in elements.

    Attributes
    ----------
    length, window, result :
        Of the left operand, of the window (the right operand) and of the result.
    stride, dilation :
        From one window to the next, and from one element of a window to the next.
    low, spread :
        Padding in front of the left operand, and the spacing of its elements.
    """

    length: int
    window: int
    result: int
    stride: int
    dilation: int
    low: int
    spread: int


class WindowedProduct(NamedTuple):
    """Sums of products over windows: out[g, n, f, s] = Σ left[g, n, c, s·stride + w·dilation]
    right[g, f, c, w] over c and w.

    Attributes
    ----------
    groups, images, features, channels :
        Lengths of g, n, f and c.
    space : tuple of WindowAxis
        The axes of s and w.
    left, right, out :
        How many elements apart neighbours are, along g, n, c, *space; g, f, c, *window; and g, n,
        f, *space.
    """

    groups: int
    images: int
    features: int
    channels: int
    space: tuple[WindowAxis, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]


class Apart(NamedTuple):
    """The components of a value along its short axes.

    Attributes
    ----------
    axes :
        These axes, in order.
    entries :
        By the positions along them, the value over all other axes.
    """

    axes: tuple[int, ...]
    entries: np.ndarray


#: Operand number and short axes -> its entries.
Take = Callable[[int, tuple[int, ...]], np.ndarray]


class Fourier(NamedTuple):
    """A Fourier transform over the last axes of the only operand.

    Attributes
    ----------
    lengths :
        Those of the axes, in the domain of time.
    real :
        "operand" or "result", if one of them is real; then the other is half of a spectrum.
    inverse :
        Whether it is the inverse transform, which divides by the number of elements.
    """

    lengths: tuple[int, ...]
    real: str
    inverse: bool


class Rewrite(Struct):
    """The rewrite rules of one primitive; None where it has none.

    Attributes
    ----------
    same_as : (eqn) -> Atom or None
        The operand that the result equals, if nothing is computed.
    seen_through : (eqn, maker) -> Atom, Eqn or None
        The same with the equations of its operands: an operand of these that the result equals, or
        an equation that reads it. `maker(a)` is the equation that makes an operand, or None.
    written_out : (eqn) -> list of Eqn, or None
        The equations of which it is short for, such as conversions of operands that parameters ask
        for. None if it is not.
    component : (eqn, axis, part) -> Eqn or Atom
        One component of the result along `axis`; `part(operand, axis)` is one of an operand.
    piece : (eqn, number) -> (axis, first, length)
        The slice of the operand that a result is.
    cropped : (eqn, first, lengths) -> Eqn or None
        The equation that computes only a part of the result: from the element `first` on along each
        axis, `lengths` elements. None if there is none.
    joins : (eqn) -> int
        The axis of the result along which the operands are concatenated.
    sinks : bool
        Whether view(f(x, y)) may be rewritten as f(view(x), view(y)) for a pointwise f.
    product : Product
        Rules of a product.
    loops : (eqn, read) -> Loops or None
        The native function that computes it for small matrices, given which of the results are
        read.
    entries : (eqn, take, do) -> list of Apart, or None
        The results of an operation on small matrices, by entries; `take` gives entries of the
        operands, and `do` adds equations, by the names of their primitives. None if the rule does
        not apply to this equation.
    windows : (eqn) -> WindowedProduct
        The windows that it sums over.
    fourier : (eqn) -> Fourier
        Which Fourier transform it is.
    adds_to : int
        The operand to which it adds: f(x, ...) is x + f(0, ...).
    by_axis : (eqn) -> list of (params, aval)
        Equivalent folds along one axis each, one after another, that take fewer steps; none if
        there are none.
    reduces : (eqn) -> (shape, axes, Graph) or None
        The shape to which operands are reshaped, the axes of it that are reduced, and the function
        of scalars that reduces them: of two partial results, a number for each operand. After the
        operands come the initial values.
    loop : (eqn, loop) -> Eqn
        The equation of another Loop; its operands are set afterwards.
    algebra : str or (eqn) -> str
        The algebraic property of its values: "exponential" (f(x - y) is f(x) / f(y)), "difference",
        "quotient", "larger" (of two values), "squared", "choice" (by the first operand),
        "conversion" (to another dtype), or "contributions" (their sum, in any order).
    """

    same_as: Callable[[Any], Any] | None = None
    seen_through: Callable[[Any, Callable[[Any], Any]], Any] | None = None
    written_out: Callable[[Any], list[Any] | None] | None = None
    component: Callable[[Any, int, Callable[[Any, int], Any]], Any] | None = None
    piece: Callable[[Any, int], tuple[int, int, int]] | None = None
    cropped: Callable[[Any, tuple[int, ...], tuple[int, ...]], Any] | None = None
    joins: Callable[[Any], int] | None = None
    sinks: bool = False
    product: Product | None = None
    loops: Callable[[Any, tuple[bool, ...]], Loops | None] | None = None
    entries: Callable[[Any, Take, Any], list[Apart] | None] | None = None
    windows: Callable[[Any], WindowedProduct] | None = None
    fourier: Callable[[Any], Fourier] | None = None
    adds_to: int | None = None
    by_axis: Callable[[Any], Any] | None = None
    reduces: Callable[[Any], tuple[tuple[int, ...], tuple[int, ...], Any] | None] | None = None
    loop: Callable[[Any, Any], Any] | None = None
    algebra: str | Callable[[Any], str] = ""

    @property
    def repeats(self) -> bool:
        """Whether a view is a broadcast, which repeats elements."""
        return self.component is not None


NO_REWRITE = Rewrite()


def algebra_of(eqn: Any) -> str:
    """The algebraic property of an equation's values; empty if its primitive has none."""
    known = eqn.primitive.rewrite.algebra
    return known if isinstance(known, str) else known(eqn)
