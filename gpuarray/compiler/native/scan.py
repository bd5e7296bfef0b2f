"""Running folds: along rows one element after another, down columns many of them side by side.

Floor 3. In: a Scan kernel. Out: its NativeSource. Elements are merged in the order of the axis,
as NumPy does it: cutting a row would make other sums. Several rows are gone along at a time, since
each sum waits for the one before it.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import Scan
from gpuarray.compiler.native.folds import declared
from gpuarray.compiler.native.writer import NativeSource, NativeWriter
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.compiler.text.reader import bracketed
from gpuarray.core.target import PROCESSOR


class ScanWriter(NativeWriter):
    """A task is a few rows, or a block of neighbouring columns."""

    def __init__(self, kernel: Scan, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        (self.scan,) = self.group.members
        eqn = self.scan.eqn
        self.axis, self.reverse = eqn.params["axis"], eqn.params["reverse"]
        self.length, self.fold = self.axes[self.axis], Reducer(eqn)
        # Lanes go along the last axis or, where that is the scanned one, along the one before it.
        others = [i for i in range(len(self.axes)) if i != self.axis]
        self.outer, self.across = others[:-1], others[-1] if others else None
        self.in_rows = math.prod(self.axes[self.axis + 1 :]) == 1

    def source(self) -> NativeSource:
        """One function: the lanes' folds side by side, and the loop along the axis."""
        many = 1 if self.across is None else self.axes[self.across]
        width = min(many, PROCESSOR.scanned_rows if self.in_rows else PROCESSOR.columns)
        blocks = -(-many // max(1, width))
        tasks = blocks * math.prod(self.axes[i] for i in self.outer)
        self.line(1, "for (ga_index task = first; task < last; ++task) {")
        if self.outer:
            self.line(2, f"const ga_index row = task / {blocks};")
            self.define_axes(2, "row", self.outer)
        left = f"task % {blocks} * {width}" if self.outer else f"task * {width}"
        if many % max(1, width):
            # A last block that is shorter has a text of its own: the others are of a fixed width.
            self.line(2, f"const ga_index left = {left};")
            self.line(2, f"if (left + {width} <= {many}) {{")
            self.lanes(3, str(width))
            self.line(2, "} else {")
            self.lanes(3, str(many % width))
            self.line(2, "}")
        else:
            self.line(2, f"const ga_index left = {left};")
            self.lanes(2, str(width))
        self.line(1, "}")
        size = self.length * width
        self.end_function(self.kernel.name, self.parameters(), tasks, self.grain(size))
        way = " from the end" if self.reverse else ""
        return self.finish(f"scan of {math.prod(self.axes) // max(1, self.length)} rows{way}")

    def lanes(self, depth: int, width: str) -> None:
        """The folds of a block of so many lanes."""
        self.line(depth, declared("sum", self.fold, int(width), self.fold.neutral))
        last = self.length - 1
        self.line(depth, f"for (ga_index j = 0; j < {self.length}; ++j) {{")
        self.line(depth + 1, f"for (ga_index lane = 0; lane < {width}; ++lane) {{")
        # A scan from the end counts its positions down; memory is read backwards then.
        self.axis_name[self.axis] = f"({last} - j)" if self.reverse else "j"
        if self.across is not None:
            self.axis_name[self.across] = "i"
            self.line(depth + 2, "const ga_index i = left + lane;")
        (x,) = self.scan.operands
        assert isinstance(x, Load)
        (v,) = self.outputs
        element = self.fold.lift(bracketed(self.element_of(x, depth + 2, {})), "0u")
        self.line(depth + 2, f"sum[lane] = {self.fold.merge('sum[lane]', element)};")
        value = self.fold.finish("sum[lane]")
        # The sum itself stays wide: rounding at every step would add up.
        if ct.is_half(v.aval):
            value = f"ga_exact<{ct.memory_type(v.aval)}>({value})"
        place = f"{self.out_name[v]}[{self.at(self.output_index(v))}]"
        self.line(depth + 2, f"{place} = {value};")
        self.line(depth + 1, "}")
        self.line(depth, "}")
