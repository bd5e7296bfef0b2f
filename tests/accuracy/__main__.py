"""`python -m tests.accuracy`: measure every row of the table and write docs/accuracy.md.

Out: the file, and the rows that are over their limits; exit status 1 if there are any.
"""

import sys
from pathlib import Path

from .table import ROWS, measure

HEAD = """# How exact the special functions are

Written by `python -m tests.accuracy`, on the CPU. SciPy in float64 is the judge: each function is
called at 4000 points, numbers of the dtype, and compared with SciPy's value there. Errors are in
units in the last place (ULP) of the result's dtype; where a function has zeros, an error near one
is measured against the size in the column "floor". Where SciPy computes a function for us, the
error in float64 is 0 by construction; generated kernels have their own code for it, which is held
to SciPy by `tests/unit/backends/test_simulator.py`.

| function | operands | floor | float32 max ULP | median | float64 max ULP | median |
|---|---|---|---|---|---|---|
"""


def shown(span) -> str:
    return "whole numbers" if callable(span) else f"{span[0]:g} … {span[1]:g}"


def main() -> int:
    lines, over = [], []
    for row in ROWS:
        errors = [measure(row, dtype) for dtype in ("float32", "float64")]
        for found, limit, dtype in zip(errors, row.limits, ("float32", "float64"), strict=True):
            if not found.worst <= limit:
                over.append(f"{row.name} {dtype}: {found.worst:.3g} ULP at {found.at} > {limit}")
        numbers = " | ".join(f"{e.worst:.2g} | {e.typical:.1g}" for e in errors)
        operands = "; ".join(map(shown, row.spans))
        lines.append(f"| {row.name} | {operands} | {row.floor or ''} | {numbers} |")
    path = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(*over, sep="\n")
    print(f"{len(ROWS)} functions measured, {len(over)} over their limits: {path}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
