"""Bounds of a sum of whole numbers, from linear inequalities among them.

Floor 1. In: rows `{name: factor}`, each meaning that the sum, with its constant under `ONE`, is 0
or more. Out: the minimum and maximum of another row. Names are eliminated one after another
(Fourier-Motzkin) until only bounds of the value remain. Names are integers: a row is divided by the
common divisor of its factors, and its constant rounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

Row = Mapping[Any, int]

#: The key of a row's constant.
ONE = ()
#: Rows beyond this number are dropped, the longest first: bounds get looser, and stay right.
_MOST_ROWS = 80
#: Numbers for the constant and for the value; names have those above.
_CONSTANT, _VALUE = 0, 1


class Contradiction(Exception):
    """No numbers fulfil the rows."""


def limits(value: Row, rows: Iterable[Row]) -> tuple[float, float]:
    """The least and the largest value of a row; Contradiction if the rows have no solution."""
    # Names as numbers: rows have an order then that does not depend on hashes.
    number: dict[Hashable, int] = {ONE: _CONSTANT}
    numbered = [
        {number.setdefault(name, len(number) + 1): n for name, n in row.items()}
        for row in (value, *_connected(value, list(rows)))
    ]
    first, *others = numbered
    negative = {i: -n for i, n in first.items()}
    # Fourier-Motzkin elimination: introduce a new name for the value, and eliminate all others.
    left = _tidy([*others, {**first, _VALUE: -1}, {**negative, _VALUE: 1}])
    while True:
        # The name whose elimination makes the fewest rows is next.
        up = Counter(i for row in left for i, n in row.items() if n > 0 and i > _VALUE)
        down = Counter(i for row in left for i, n in row.items() if n < 0 and i > _VALUE)
        names = sorted({*up, *down}, key=lambda i: (up[i] * down[i], i))
        if not names:
            break
        left = _tidy(_without(names[0], left))
    # The remaining rows are bounds of the value alone, rounded to integers.
    low, high = -math.inf, math.inf
    for row in left:
        factor, constant = row[_VALUE], row[_CONSTANT]
        if factor > 0:
            low = max(low, -(constant // factor))
        else:
            high = min(high, constant // -factor)
    if low > high:
        raise Contradiction
    return low, high


def _connected(value: Row, rows: list[Row]) -> list[Row]:
    """The rows that have something to do with a value, directly or through others."""
    names = set(value) - {ONE}
    found: list[Row] = []
    while new := [row for row in rows if not names.isdisjoint(row)]:
        found += new
        rows = [row for row in rows if names.isdisjoint(row)]
        names = names.union(*new) - {ONE}
    return found


def _without(name: int, rows: list[dict[int, int]]) -> list[dict[int, int]]:
    """Eliminate a name: combine each pair of rows of opposite sign, scaled so that it cancels."""
    out = [row for row in rows if not row.get(name)]
    for up in (row for row in rows if row.get(name, 0) > 0):
        for down in (row for row in rows if row.get(name, 0) < 0):
            n, m = -down[name], up[name]
            out.append({i: n * up.get(i, 0) + m * down.get(i, 0) for i in {*up, *down}})
    return out


def _tidy(rows: list[dict[int, int]]) -> list[dict[int, int]]:
    """The rows in lowest terms; of those with the same factors the strictest one."""
    least: dict[tuple, int] = {}
    for row in rows:
        factors = sorted((i, n) for i, n in row.items() if n and i != _CONSTANT)
        constant = row.get(_CONSTANT, 0)
        if not factors:
            if constant < 0:
                raise Contradiction
            continue
        shared = math.gcd(*(n for _, n in factors))
        key = tuple((i, n // shared) for i, n in factors)
        # A sum of integers is an integer, so the constant can be rounded down.
        constant //= shared
        least[key] = min(least.get(key, constant), constant)
    kept = sorted(least, key=len)[:_MOST_ROWS]
    return [{**dict(key), _CONSTANT: least[key]} for key in kept]
