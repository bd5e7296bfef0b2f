"""How far a value may be from the reference, by name and dtype.

In: the name of a case. Out: a `Tolerance` for each float width. Integers, booleans and everything that is
no float compare exactly. The widths below 4 ulp say "must be the same number"; the wide ones are there
because the reference itself is that far from the true value (measured against its own float64), or because
the order of summation is free.
"""

import fnmatch
import functools

import numpy as np

from .compare import Tolerance

EXACT = Tolerance(ulp=0)
DEFAULT = Tolerance(ulp=4)
SUMMED = Tolerance(ulp=8, norm=True, zero_sign=False)
SOLVED = Tolerance(ulp=64, norm=True, zero_sign=False)

# First match wins; patterns are shell-style over names without their namespace.
RULES: list[tuple[str, Tolerance]] = []


def rule(names: str, tolerance: Tolerance) -> None:
    RULES.extend((name, tolerance) for name in names.split())


@functools.cache
def tolerance_for(name: str) -> Tolerance:
    """The tolerance of a public name."""
    for pattern, tolerance in RULES:
        if fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name.rpartition(".")[2], pattern):
            return tolerance
    return DEFAULT


_ = np
