"""Running folds: along rows one element after another, down columns many of them side by side.

Floor 3. In: a Scan kernel. Out: its NativeSource. Elements are merged in the order of the axis, as
in NumPy: cutting a row would give other sums. Several rows are processed together, since each sum
waits for the previous one.
"""

from __future__ import annotations

import abc
import math
from contextlib import nullcontext

import numpy as np

from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import Scan
from gpuarray.compiler.lower.scans import merge_graph
from gpuarray.compiler.native.folds import declared
from gpuarray.compiler.native.writer import NativeSource, NativeWriter
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.compiler.text.merges import Merger
from gpuarray.compiler.text.reader import bracketed
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var
from gpuarray.core.target import PROCESSOR


def scan_writer(kernel: Scan, user_lines: bool = False) -> ScanWriter:
    """The writer of a scan, by the kind of its merge."""
    merged = merge_graph(kernel.group.members[0].eqn) is not None
    return (MergeWriter if merged else ScanFoldWriter)(kernel, user_lines)


class ScanWriter(NativeWriter, abc.ABC):
    """A task is a few rows, or a block of neighbouring columns."""

    def __init__(self, kernel: Scan, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        (self.scan,) = self.group.members
        params = self.scan.eqn.params
        self.axis, self.reverse = params["axis"], params["reverse"]
        self.length = self.axes[self.axis]
        # Lanes go along the last axis or, where that is the scanned one, along the one before it.
        others = [i for i in range(len(self.axes)) if i != self.axis]
        self.outer, self.across = others[:-1], others[-1] if others else None
        self.in_rows = math.prod(self.axes[self.axis + 1 :]) == 1
        self.in_order |= {i for i in (self.axis, self.across) if i is not None}

    def source(self) -> NativeSource:
        """One function: the lanes' folds side by side, and the loop along the axis."""
        many = 1 if self.across is None else self.axes[self.across]
        # Lanes are rows that are read side by side, or columns, which are neighbours in memory.
        width = min(many, PROCESSOR.scanned_rows if self.in_rows else PROCESSOR.columns)
        # The threads share a few columns, as long as each has its own cache lines.
        rows = math.prod(self.axes[i] for i in self.outer)
        while not self.in_rows and width >= 2 * PROCESSOR.least_columns and rows * many < 8 * width:
            width //= 2
        blocks = -(-many // max(1, width))
        tasks = blocks * math.prod(self.axes[i] for i in self.outer)
        with self.over(1, "task", "first", "last"):
            if self.outer:
                self.line(2, f"const ga_index row = task / {blocks};")
                self.define_axes(2, "row", self.outer)
            left = f"task % {blocks} * {width}" if self.outer else f"task * {width}"
            if many % max(1, width):
                # A shorter last block has a separate text: the others have a fixed width.
                self.line(2, f"const ga_index left = {left};")
                self.facts.conditional = True
                self.line(2, f"if (left + {width} <= {many}) {{")
                self.lanes(3, str(width))
                self.line(2, "} else {")
                self.lanes(3, str(many % width))
                self.line(2, "}")
            else:
                self.line(2, f"const ga_index left = {left};")
                self.lanes(2, str(width))
        size = self.length * width
        self.end_function(self.kernel.name, self.parameters(), tasks, self.grain(size))
        way = " from the end" if self.reverse else ""
        return self.finish(f"scan of {math.prod(self.axes) // max(1, self.length)} rows{way}")

    @abc.abstractmethod
    def lanes(self, depth: int, width: str) -> None:
        """The folds of a block of this many lanes."""

    def steps(self, depth: int, start: str, width: str, first: bool = False) -> None:
        """The loop along the axis, or its first step alone, for all lanes of a block."""
        # A scan from the end counts its positions down; memory is read backwards then.
        j, last = "0" if first else "j", self.length - 1
        self.axis_name[self.axis] = f"({last} - {j})" if self.reverse else j
        along = nullcontext() if first else self.over(depth, "j", start, str(self.length))
        inside = depth if first else depth + 1
        with along, self.over(inside, "lane", "0", width):
            if self.across is not None:
                self.axis_name[self.across] = "i"
                self.line(inside + 1, "const ga_index i = left + lane;")
            self.step(inside + 1, first)

    @abc.abstractmethod
    def step(self, depth: int, first: bool) -> None:
        """Merge an element of a lane, and store the result."""

    def store(self, depth: int, v: Var, value: str) -> None:
        """Store an element of a result."""
        if ct.is_half(v.aval):
            value = f"ga_exact<{ct.memory_type(v.aval)}>({value})"
        self.facts.arrays.add(v)
        self.line(depth, f"{self.out_name[v]}[{self.at(self.output_index(v))}] = {value};")


class ScanFoldWriter(ScanWriter):
    """A scan with a Fold: a partial result for each lane, which starts empty."""

    def lanes(self, depth: int, width: str) -> None:
        self.fold = Reducer(self.scan.eqn)
        state = self.fold.state
        # Of many floats a sum is a double, as NumPy has it (primitives/reduce/cumulative.py): the
        # errors of millions of steps would add up.
        if self.length >= PROCESSOR.long_scan and self.fold.fold.plain_ufunc is np.add:
            state = "double" if state == "float" else state
        self.line(depth, declared("sum", self.fold, int(width), self.fold.neutral, state))
        self.steps(depth, "0", width)

    def step(self, depth: int, first: bool) -> None:
        (x,) = self.scan.operands
        assert isinstance(x, Load)
        (v,) = self.outputs
        element = self.fold.lift(bracketed(self.element_of(x, depth, {})), "0u")
        self.line(depth, f"sum[lane] = {self.fold.merge('sum[lane]', element)};")
        # The sum itself stays wide: rounding at every step would add up.
        self.store(depth, v, self.fold.finish("sum[lane]"))


class MergeWriter(ScanWriter):
    """A scan whose elements a Graph merges: a number for each part of a partial result and lane."""

    def __init__(self, kernel: Scan, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        results = self.scan.eqn.outvars
        self.merger = Merger(self.scan.eqn)
        # Only values on which the results depend are carried along the axis.
        self.parts = self.merger.carried({results.index(v) for v in self.outputs})

    def lanes(self, depth: int, width: str) -> None:
        for k in sorted(self.parts):
            self.line(depth, f"GA_LOCAL {self.merger.types[k]} s{k}[{width}];")
        # The first element is its own prefix.
        self.steps(depth, "0", width, first=True)
        self.steps(depth, "1", width)

    def step(self, depth: int, first: bool) -> None:
        scope: Fetched = {}
        used = self.parts if first else self.merger.read(self.parts)
        elements = {k: self.operand(self.scan.operands[k], scope, depth) for k in sorted(used)}
        state = [f"s{k}[lane]" for k in range(len(self.merger.types))]
        made = elements
        if not first:
            x = [elements.get(k, "") for k in range(len(state))]
            lines, made = self.merger.statements(state, x, self.parts)
            for line in lines:
                self.line(depth, line)
        # All parts are merged before one of them changes.
        for k in sorted(self.parts):
            self.line(depth, f"{state[k]} = {made[k]};")
        for k, v in enumerate(self.scan.eqn.outvars):
            if v in self.outputs:
                self.store(depth, v, state[k])
