"""Facts recorded when text is written, so that no text has to be parsed.

Floor 3. In: facts recorded by writers. Out: `Known` of an expression, `Facts` of the lines of a
function, and lines with alternatives, which are chosen when the surrounding loop, or the function,
is complete.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from gpuarray.compiler.lower.traffic import PlacesRead
from gpuarray.core.graph import Var
from gpuarray.core.index import Axis, Index, Quotient, Remainder


class Facts(PlacesRead):
    """Facts about the lines of a function.

    Parameters
    ----------
    in_order :
        Axes along which neither loops are unrolled nor vectors made: those of tasks.

    Attributes
    ----------
    arrays :
        The arguments that are read or written.
    backwards :
        Whether inputs are read from their ends, along other axes than these.
    conditional :
        Whether lines, or reads in them, are under conditions.
    branches :
        How many of these are an `if` with an `else`.
    edges :
        Where along an axis tests begin or end to hold, while its loop is not split there.
    other_tests :
        Whether there are tests besides these.
    distances :
        Strides of neighbours that the compiler must not know.
    streams :
        Whether results are stored past the cache.
    """

    def __init__(self, in_order: Collection[int] = ()) -> None:
        super().__init__()
        self._in_order = in_order
        self.arrays: set[Var | str] = set()
        self.backwards = self.conditional = self.other_tests = self.streams = False
        self.branches = 0
        self.edges: dict[int, set[int]] = {}
        self.distances: set[int] = set()

    def note(self, source: Var, index: Index, most: int | None = None, width: int = 1) -> None:
        """Note that elements at `index` are read."""
        self.arrays.add(source)
        terms = list(index.terms)
        for atom, step in terms:
            if isinstance(atom, Quotient | Remainder):
                terms += atom.inner.terms
            elif isinstance(atom, Axis) and step < 0 and atom.number >= 0:
                self.backwards |= atom.number not in self._in_order


class Known(NamedTuple):
    """Facts about an expression, recorded when it is written.

    Attributes
    ----------
    reads :
        Whether it reads memory.
    chooses :
        Whether there is a choice in it.
    is_flag :
        Whether it is the read of a bool at positions of loops.
    is_half :
        Whether it is the read of a half, along neighbours in the innermost loop.
    """

    reads: bool = False
    chooses: bool = False
    is_flag: bool = False
    is_half: bool = False


NOTHING = Known()


class Front:
    """The lines in front of an innermost loop, while that is written.

    Attributes
    ----------
    rows :
        Names of places of rows, which are defined there.
    """

    def __init__(self, lines: list[str], depth: int):
        self._lines, self._depth = lines, depth
        self.rows: dict[str, str] = {}

    def line(self, text: str) -> None:
        """Write a line in front of the loop."""
        self._lines.append("    " * self._depth + text)


class LoopHead(str):
    """The line that opens a loop, and its form if the loop must remain one: compilers would unroll
    or vectorise it, instead of the loop around it.
    """

    __slots__ = ("kept",)

    kept: tuple[str, ...]

    def __new__(cls, text: str, *kept: str) -> LoopHead:
        made = super().__new__(cls, text)
        made.kept = kept
        return made


class FlagRead(str):
    """A line that names a bool in memory, and the parts it consists of."""

    __slots__ = ("comment", "depth", "read", "variable")

    depth: int
    variable: str
    read: str
    comment: str

    def __new__(cls, text: str, depth: int, variable: str, read: str, comment: str) -> FlagRead:
        made = super().__new__(cls, text)
        made.depth, made.variable, made.read, made.comment = depth, variable, read, comment
        return made


class SearchLine(str):
    """A line that names the result of a function for an element of a row.

    Attributes
    ----------
    call :
        The beginning of the call of the function for the whole row.
    element :
        The element of the row.
    types :
        Of the element and of the result.
    """

    __slots__ = ("call", "depth", "element", "types", "variable")

    depth: int
    variable: str
    call: str
    element: str
    types: tuple[str, str]

    def __new__(
        cls, text: str, depth: int, variable: str, call: str, element: str, types: tuple[str, str]
    ) -> SearchLine:
        made = super().__new__(cls, text)
        made.depth, made.variable, made.call = depth, variable, call
        made.element, made.types = element, types
        return made


class EachLine(str):
    """A line that names what a function returns which has a form for many elements: `f_for_many`
    beside `f` in kernels/native.

    Attributes
    ----------
    call :
        The text before the call, the function, its operands, and the text behind it.
    kind :
        The type of the value.
    """

    __slots__ = ("call", "depth", "kind", "variable")

    depth: int
    variable: str
    call: tuple[str, str, str, str]
    kind: str

    def __new__(
        cls, text: str, depth: int, variable: str, call: tuple[str, str, str, str], kind: str
    ) -> EachLine:
        made = super().__new__(cls, text)
        made.depth, made.variable, made.call, made.kind = depth, variable, call, kind
        return made
