"""The parts of an explanation, as plain data: steps, their operations and arrays.

Floor 3. Made by facts.py, shown by tables.py.
"""

from __future__ import annotations

import os
from typing import Any

from gpuarray.util import Struct


class Value(Struct):
    """An array that a step reads or writes; `number` is the same wherever it is the same array."""

    number: int
    text: str
    nbytes: int


class OperationRecord(Struct):
    """One operation of a step, as text, and the place in the user's program that recorded it."""

    name: str
    text: str
    file: str = ""
    line: int = 0
    function: str = ""
    scope: str = ""

    @property
    def user_line(self) -> str:
        """`file.py:12`, or an empty string if the place is not known."""
        # The file's name without its folders: tables have little room.
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else ""

    @property
    def origin(self) -> str:
        """The line with the named scopes around it, if there are any: `file.py:12 in model`."""
        return f"{self.user_line} in {self.scope}" if self.scope else self.user_line


class StepRecord(Struct):
    """One step that runs on the device: a fused kernel, or a routine of a library.

    Attributes
    ----------
    kind :
        The form of its kernel (map, rows, columns, ...), or library.
    space :
        Lengths of the axes that run in parallel.
    inner :
        Lengths of the axes that are reduced.
    source :
        Its CUDA C++, where a GPU was named, or its C++, where native code runs it.
    roofline_seconds :
        The least time it can take, where a GPU was named.
    bytes_read, bytes_written :
        Bytes that it moves: for a gather those it picks, for passes over a row and iterations of a
        loop the total, for library routines a lower bound.
    launches :
        Kernels, routines and copies that it starts.
    body :
        The steps in it, of a loop or branch that native code runs.
    """

    name: str
    kind: str
    operations: tuple[OperationRecord, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    flops: float
    space: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
    facts: dict[str, Any] = {}
    source: str = ""
    roofline_seconds: float | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    launches: int = 1
    body: tuple[StepRecord, ...] = ()

    @property
    def grid(self) -> int | None:
        """Blocks of a launch; None unless a GPU was named."""
        return self.facts.get("grid")

    @property
    def block(self) -> int | None:
        """Threads of a block; None unless a GPU was named."""
        return self.facts.get("block")

    @property
    def registers(self) -> int | None:
        """Registers of a thread; None unless a compiler for the named GPU is installed."""
        return self.facts.get("registers")

    @property
    def spills(self) -> int | None:
        """Bytes of registers that a thread spills to memory; None as for `registers`."""
        return self.facts.get("spills")

    @property
    def ops(self) -> tuple[str, ...]:
        """The names of the operations, in the order in which they run."""
        # Repeats stay: each is work that the kernel does.
        return tuple(o.name for o in self.operations)

    @property
    def user_lines(self) -> tuple[str, ...]:
        """The places in the user's program that this step does, each once: `file.py:12`."""
        # dict.fromkeys keeps the order in which the lines run, which a set would not.
        return tuple(dict.fromkeys(o.user_line for o in self.operations if o.file))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The named scopes of its operations, each once: `model/layer`."""
        return tuple(dict.fromkeys(o.scope for o in self.operations if o.scope))


class Boundary(Struct):
    """Two steps of which the second reads results of the first, and the reason why they were not
    fused.
    """

    first: str
    second: str
    reason: str

    def __str__(self) -> str:
        return f"{self.first} -> {self.second}: {self.reason}"


class Intermediate(Struct):
    """A value between operations: whether it is stored in memory, or computed where it is read.

    Attributes
    ----------
    text :
        Its type: `f32[2000,3000]`.
    operation :
        What computes it, and the line that recorded it.
    stored :
        Whether a step writes it to memory.
    steps :
        The step that writes it, or those that compute it.
    reason, thresholds :
        The reason, with the fields of `Target` and `Processor` (`gpuarray/core/target.py`) that it
        depends on.
    cost, times :
        Cost of an element in multiply-adds, and how many times an element would be computed on
        average; None if the decision did not depend on them.
    """

    text: str
    operation: OperationRecord
    stored: bool
    steps: tuple[str, ...]
    reason: str
    thresholds: tuple[str, ...] = ()
    cost: float | None = None
    times: float | None = None

    def __str__(self) -> str:
        line = f" ({self.operation.user_line})" if self.operation.file else ""
        does = "is stored by" if self.stored else "is computed in"
        numbers = ""
        if self.cost is not None:
            numbers = f" [{self.cost:.3g} multiply-adds, read {self.times:.3g} times]"
        what = f"{self.operation.name} {self.text}{line}"
        return f"{what} {does} {', '.join(self.steps)}: {self.reason}{numbers}"


class Record(Struct):
    """The steps of a function in execution order, and their costs.

    Attributes
    ----------
    intermediates :
        Why values between operations are stored or recomputed at their uses: on a GPU, and in
        native code. Values that one step computes and uses itself are not listed.
    bytes_unfused, launches_unfused :
        The same cost if each operation were a separate step.
    temporary_bytes :
        The most memory that values between steps take at one time.
    remarks :
        Remarks on the whole program, one line each.
    """

    name: str
    steps: tuple[StepRecord, ...]
    why_not_fused: tuple[Boundary, ...]
    bytes_unfused: int
    launches_unfused: int
    temporary_bytes: int
    remarks: tuple[str, ...] = ()
    intermediates: tuple[Intermediate, ...] = ()

    @property
    def kernels(self) -> list[StepRecord]:
        """The fused kernels."""
        # Every step except a library routine has a form.
        return [s for s in self.steps if s.kind != "library"]

    @property
    def library_calls(self) -> list[StepRecord]:
        """The steps that are routines of a library, or that only move data."""
        return [s for s in self.steps if s.kind == "library"]

    @property
    def launches(self) -> int:
        """Number of kernels, library routines and copies that one call starts."""
        return sum(s.launches for s in self.steps)

    @property
    def bytes_moved(self) -> int:
        """Bytes that all steps read and write."""
        # A value passed from step to step counts twice: it is written, then read.
        return sum(s.bytes_read + s.bytes_written for s in self.steps)

    @property
    def flops(self) -> float:
        """Multiply-adds, roughly: an `exp` counts as several."""
        return sum(s.flops for s in self.steps)

    def __repr__(self) -> str:
        return f"<Explanation of {self.name}: {self.launches} launches>"
