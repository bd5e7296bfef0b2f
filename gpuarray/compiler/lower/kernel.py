"""Kernels: groups with their loop form chosen, once.

Floor 3. Plain data, made by choose.py (and horizontal.py), read by the templates, the backends and
`explain`. A form tells how threads share the work; their number depends on the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpuarray.compiler.fuse.group import FusedGroup, Load
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.passes import Pass
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import NoKernel as NoKernel
from gpuarray.util import Struct


class Kernel(Struct, eq=False):
    """A group with its loop form: one of `FORMS`.

    Attributes
    ----------
    accesses :
        The group, the axes that threads go over, and how it reads.
    name :
        Name of the kernel, which includes its form.
    """

    form: ClassVar[str] = ""

    accesses: Accesses
    name: str

    @property
    def group(self) -> FusedGroup:
        """The equations, with the producers that are inlined."""
        return self.accesses.group

    @property
    def outputs(self) -> tuple[Var, ...]:
        """The values it writes, in the order of its arguments."""
        return self.group.outputs

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The values in memory that it needs, including those that its outputs start from."""
        return self.group.inputs

    @property
    def aliases(self) -> Mapping[Var, Var]:
        """Outputs that start with the contents of an input, which is copied there first."""
        return {}


class Map(Kernel):
    """Pointwise: a thread computes a few neighbouring elements.

    Attributes
    ----------
    order :
        The axes from the slowest to the fastest.
    """

    form = "map"
    order: tuple[int, ...]


class Tiles(Kernel):
    """Pointwise, where some values are contiguous along `x` and others along `y`: a block computes
    a square of both axes, and values contiguous along `y` are transposed in shared memory.
    """

    form = "tiles"
    order: tuple[int, ...]
    y: int
    x: int


class Rows(Kernel):
    """Reductions along the axis that is contiguous in memory: threads share a row.

    Attributes
    ----------
    passes :
        Passes over the row.
    length :
        Elements of a row.
    shared :
        A row is so long, and rows are so few, that several blocks share each.
    """

    form = "rows"
    passes: tuple[Pass, ...]
    rows: int
    length: int
    shared: bool


class RowColumns(Rows):
    """Rows, each block over many of them, with folds of the columns of its own rows.

    Attributes
    ----------
    slots :
        Blocks, each of which leaves a result for every column.
    """

    form = "rowcolumns"
    slots: int


class Columns(Kernel):
    """Reductions along another axis: neighbouring threads go down neighbouring columns.

    Attributes
    ----------
    passes :
        Passes down the columns.
    length :
        Elements of a column.
    """

    form = "columns"
    passes: tuple[Pass, ...]
    columns: int
    length: int


class Scan(Kernel):
    """A running fold along one axis."""

    form = "scan"


class Sort(Kernel):
    """Short rows, each sorted by threads in shared memory."""

    form = "sort"


class Top(Kernel):
    """The few largest elements of long rows: each thread keeps those that it has seen."""

    form = "top"


class Scatter(Kernel):
    """Updates: each is written by one thread, into memory that starts as the operand."""

    form = "scatter"

    @property
    def aliases(self) -> Mapping[Var, Var]:
        (member,) = self.group.members
        operand = member.operands[0]
        assert isinstance(operand, Load)
        return {self.outputs[0]: operand.source}


class Tables(Kernel):
    """Updates of few places: each warp folds its own in tables in shared memory."""

    form = "tables"


class RegisterLoop(Kernel):
    """Loops and branches in registers: a thread runs all steps for its element."""

    form = "loop"


class Batch(Kernel):
    """Groups of one structure, each on its own arrays; `group` has all their members.

    Attributes
    ----------
    parts :
        The groups; the text is that of the first.
    pass_ :
        The pass of the first over its arrays, which it may reduce.
    """

    form = "batch"
    parts: tuple[FusedGroup, ...]
    pass_: Pass


class Sweep(Kernel):
    """Products whose elements are used where they are made: a block owns rows or columns."""

    form = "sweep"


class User(Kernel):
    """A kernel that a user wrote."""

    form = "user"


FORMS: tuple[type[Kernel], ...] = (
    Map, Rows, RowColumns, Columns, Tiles, Scan, Sort, Top, Scatter, Tables, RegisterLoop, Batch,
    Sweep, User,
)  # fmt: skip

#: A device's steps: a kernel, a group without one (a dtype or an operation not available in CUDA
#: text, so NumPy's rules run it), or a single equation: a view, a library routine.
DeviceStep = Kernel | FusedGroup | Eqn
