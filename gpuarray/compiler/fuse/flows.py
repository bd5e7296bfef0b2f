"""Flows: the statements that a kernel with loops and branches runs for each element.

Floor 3. Plain data, made by loops.py, written as text by cuda/loop.py: statements on registers and
on elements of memory, every value labelled with the axes that it runs along. `flow_lines` puts one
into words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuarray.compiler.fuse.operands import Dims, Load
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Literal
from gpuarray.util import Struct

# ---- values ----


class Register(Struct, frozen=False, eq=False):
    """A value of which a thread holds its own element. `labels` are those of loops.py during
    unification; `dims`, axes of the space, replace them at the end.
    """

    aval: ShapedArray
    labels: list[int | None]
    operand: int | None = None  # which operand of the outermost equation it is, if it is one
    same: Register | None = None  # the register that it is a view of
    dims: Dims = ()
    read: bool = False

    @property
    def base(self) -> Register:
        """The register that holds it."""
        # A view of a view: follow the chain to the register that has a variable in the kernel.
        return self if self.same is None else self.same.base


class Turn(Struct):
    """The current step of a loop, used as an axis of the arrays that the loop scans. Its number is
    negative, unlike those of the space's axes; `length` is the number of steps.
    """

    number: int
    length: int


class Picked(Struct, frozen=False, eq=False):
    """Elements at an index that the kernel computes: a dynamic slice, a gather. `values` are the
    operands of the equation after the first.
    """

    eqn: Eqn
    values: dict[int, Value]


class Seen(Struct, frozen=False, eq=False):
    """An element of an operand in memory. `path` selects it: views, steps of loops and computed
    indices, applied in order.
    """

    aval: ShapedArray
    labels: list[int | None]
    operand: int
    path: tuple[Eqn | Turn | Picked, ...]
    dims: Dims = ()
    read: bool = False


Value = Literal | Register | Seen


# ---- statements ----


class Compute(Struct, frozen=False, eq=False):
    """An equation on elements."""

    eqn: Eqn
    operands: list[Value]
    results: list[Register]


class Carry(Struct, frozen=False, eq=False):
    """A value that a loop carries from step to step."""

    start: Value
    inside: Register
    next: Value | None = None


class Repeat(Struct, frozen=False, eq=False):
    """A loop: `test` and `going` are its condition, if it has one, and `turn` its steps, if they
    are counted. `stacked`: the value that each step writes, by the number of the result.
    """

    eqn: Eqn
    turn: Turn | None
    reverse: bool
    carries: dict[int, Carry]
    test: list[Statement] = []
    going: Value | None = None
    body: list[Statement] = []
    stacked: dict[int, Value] = {}


class Choose(Struct, frozen=False, eq=False):
    """Branches: the statements of each, and its values for those results that are read."""

    eqn: Eqn
    which: Value
    branches: list[tuple[list[Statement], list[Value]]]
    results: dict[int, Register]


Statement = Compute | Repeat | Choose


class Flow(Struct, frozen=False, eq=False):
    """The statements that a kernel runs for each element of a space.

    Attributes
    ----------
    values :
        Operands that an element starts from, by number, in the order of the member's operands.
    memory :
        Operands that are read step by step, by number.
    seen :
        The elements of them that are read.
    results :
        The dims of the results that are read, by number; `whole` are those over all axes.
    weight :
        Multiply-adds an element.
    """

    statement: Repeat | Choose
    shape: tuple[int, ...]
    values: dict[int, Register]
    memory: dict[int, Load]
    seen: list[Seen]
    results: dict[int, Dims]
    weight: float

    def reads_of(self, operand: int) -> int:
        """How many times each element of the space reads an operand in memory."""
        # Once for each combination of steps of the loops around the read.
        paths = [x.path for x in self.seen if x.operand == operand]
        return sum(math.prod(p.length for p in path if isinstance(p, Turn)) for path in paths)

    @property
    def whole(self) -> list[int]:
        """The results of which a thread holds one element at the end."""
        # A dimension of length 1 has no axis, as everywhere.
        full = tuple(None if n == 1 else d for d, n in enumerate(self.shape))
        # Stacked results are written at every step. Others may run along fewer axes than the
        # space, so that many threads hold the same element.
        stacked = self.statement.stacked if isinstance(self.statement, Repeat) else {}
        return [k for k, dims in self.results.items() if k not in stacked and dims == full]


# ---- in words ----


def _step_name(step: Eqn | Turn | Picked) -> str:
    # A description of where a read goes: the step of a loop, or the name of the view or gather.
    if isinstance(step, Turn):
        return "step"
    return (step if isinstance(step, Eqn) else step.eqn).primitive.name


def flow_lines(flow: Flow, operands: Sequence[str]) -> list[tuple[Eqn, str]]:
    """The statements for an element: a line for each equation, indented by the loops around it. The
    first is that of the whole, without its results.

    Parameters
    ----------
    operands :
        The names of `values`, then of `memory`.
    """
    # Operands have the kernel's names; registers get names as they appear, e0, e1, ...
    names: dict[object, str] = dict(zip(flow.values.values(), operands, strict=False))
    in_memory = dict(zip(flow.memory, operands[len(flow.values) :], strict=True))
    lines: list[tuple[Eqn, str]] = []

    def name(x: Value | None) -> str:
        if x is None or isinstance(x, Literal):
            return "" if x is None else f"{x.val}"
        if isinstance(x, Seen):
            return ".".join([in_memory[x.operand], *map(_step_name, x.path)])
        # A view of a register has its name.
        return names.setdefault(x.base, f"e{len(names)}")

    def block(statements: Sequence[Statement], depth: int) -> None:
        for s in statements:
            if isinstance(s, Compute):
                given = ", ".join(map(name, s.operands))
                results = ", ".join(map(name, s.results))
                text = f"{results} = {s.eqn.primitive.name}({given})"
                lines.append((s.eqn, "  " * depth + text))
            else:
                structure(s, depth)

    def structure(s: Repeat | Choose, depth: int) -> None:
        # The line of the structure itself, then its statements, one level deeper.
        indent, what = "  " * depth, s.eqn.primitive.name
        if isinstance(s, Choose):
            lines.append((s.eqn, f"{indent}{what}({name(s.which)})"))
            for statements, _ in s.branches:
                block(statements, depth + 1)
            return
        starts = [f"{name(c.inside)} from {name(c.start)}" for c in s.carries.values()]
        steps = "" if s.turn is None else f"{s.turn.length} steps: "
        lines.append((s.eqn, f"{indent}{what}({steps}{', '.join(starts)})"))
        block(s.test, depth + 1)
        block(s.body, depth + 1)

    structure(flow.statement, 0)
    return lines
