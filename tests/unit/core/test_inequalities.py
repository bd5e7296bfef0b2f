"""Bounds from inequalities: never tighter than what enumeration finds, and as tight where rational
arithmetic suffices.
"""

import itertools
import math

import numpy as np
import pytest

from gpuarray.core.inequalities import ONE, Contradiction, limits
from gpuarray.core.intervals import product, quotient, remainder

NAMES = ("a", "b", "c")
SPAN = range(-6, 7)


def _value(row, values):
    return row.get(ONE, 0) + sum(row.get(name, 0) * v for name, v in zip(NAMES, values))


@pytest.mark.parametrize(
    ("value", "rows", "expected"),
    [
        ({"a": 1}, [{"a": 1, ONE: -3}, {"a": -1, ONE: 5}], (3, 5)),
        ({"a": 1}, [{"a": 2, ONE: -5}, {"a": -3, ONE: 10}], (3, 3)),  # 2a >= 5, 3a <= 10
        ({"a": 1, "c": -1}, [{"a": 1, "b": -1}, {"b": 1, "c": -1}], (0, math.inf)),
        ({"a": 1, "b": 1}, [{"a": 2, "b": 3, ONE: -10}, {"a": 1}, {"b": 1}], (4, math.inf)),
        ({"a": 5, ONE: 2}, [], (-math.inf, math.inf)),
        ({ONE: 4}, [{"a": 1}], (4, 4)),
        ({"a": 1, "b": -1}, [{"a": 2, "b": -2, ONE: -3}, {"a": -2, "b": 2, ONE: 5}], (2, 2)),
    ],
)
def test_bounds_that_are_known(value, rows, expected):
    assert limits(value, rows) == expected


def test_rows_without_a_solution():
    for rows in (
        [{"a": 1, ONE: -3}, {"a": -1, ONE: 2}],
        [{"a": 2, ONE: -3}, {"a": -2, ONE: 3}],  # 2a == 3
        [{"a": 1, "b": -1, ONE: -1}, {"b": 1, "c": -1}, {"c": 1, "a": -1}],
    ):
        with pytest.raises(Contradiction):
            limits({"a": 1}, rows)


def test_bounds_hold_for_all_solutions():
    rng = np.random.default_rng(3)
    box = [row for n in NAMES for row in ({n: 1, ONE: 6}, {n: -1, ONE: 6})]
    points = list(itertools.product(SPAN, repeat=3))
    for _ in range(40):
        rows = [
            {**dict(zip(NAMES, rng.integers(-3, 4, 3).tolist())), ONE: int(rng.integers(-8, 9))}
            for _ in range(3)
        ]
        value = dict(zip(NAMES, rng.integers(-3, 4, 3).tolist()))
        inside = [p for p in points if all(_value(r, p) >= 0 for r in rows)]
        found = [_value(value, p) for p in inside]
        try:
            low, high = limits(value, [*rows, *box])
        except Contradiction:
            assert not found
            continue
        assert not found or low <= min(found) <= max(found) <= high


def test_ranges_hold_for_all_numbers():
    ranges = [(-4, -2), (-3, 0), (-2, 3), (0, 4), (1, 5), (2, 2)]
    for a, b in itertools.product(ranges, repeat=2):
        numbers = [(x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)]
        low, high = product(a, b)
        assert (low, high) == (min(x * y for x, y in numbers), max(x * y for x, y in numbers))
        for of, exact in ((quotient, lambda x, y: x // y), (remainder, lambda x, y: x % y)):
            low, high = of(a, b)
            assert all(low <= exact(x, y) <= high for x, y in numbers if y)
    assert quotient((1, math.inf), (2, 2)) == (0, math.inf)
    assert quotient((3, 3), (1, math.inf)) == (0, 3)
    assert quotient((-3, -3), (1, math.inf)) == (-3, -1)
    assert product((0, 0), (1, math.inf)) == (0, 0)
