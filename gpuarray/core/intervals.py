"""Interval arithmetic on integers: the minimum and maximum results of operations.

Floor 1. In: ranges (least, largest), which may be infinite. Out: ranges.
"""

from __future__ import annotations

import math

Range = tuple[float, float]


def product(a: Range, b: Range) -> Range:
    """The range of products."""
    # 0 times infinity: a factor of 0 makes the product 0.
    ends = [x * y if x and y else 0.0 for x in a for y in b]
    return min(ends), max(ends)


def quotient(a: Range, b: Range) -> Range:
    """The range of quotients, rounded down; everything where the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return -math.inf, math.inf
    ends = [_divided(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _divided(x: float, y: float) -> float:
    if math.isinf(y):  # as y grows
        return 0.0 if x * y >= 0 else -1.0
    return math.copysign(math.inf, x * y) if math.isinf(x) else x // y


def remainder(a: Range, b: Range) -> Range:
    """The range of remainders, which have the sign of the divisor."""
    if b[0] <= 0 <= b[1]:
        return -math.inf, math.inf
    if b[0] > 0:
        return 0.0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1
    return b[0] + 1, 0.0


OPERATIONS = {
    "floordiv": quotient,
    "mod": remainder,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}
