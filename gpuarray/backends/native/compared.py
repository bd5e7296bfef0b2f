"""Whether native code computes the same as NumPy, up to the order of sums.

Floor 4. In: the results of both. Out: yes or no. It is asked once for each program, before native
code takes over: a compiler's mistake gives other numbers or shapes, not just other last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.graph import Graph

#: Allowed difference, relative to an element, to a hundredth of the largest one, and to a
#: thousandth of the largest input: sums may cancel.
NEAR = 1e-3
#: The same for numbers of 16 bits and fewer.
NEAR_SHORT = 5e-2
#: The part of the elements that may differ by more: those that choose between two that are almost
#: equal, or count steps up to a bound.
FEW = 0.01


def agree(found: Sequence, wanted: Sequence, given: Sequence, exact: bool) -> bool:
    """Whether two lists of results are the same; `exact` if there is no rounding."""
    arrays = [np.asarray(x) for x in given]
    scale = max((_largest(x) for x in arrays if x.dtype.kind in "fcV"), default=0.0)
    pairs = zip(found, wanted, strict=True)
    return all(_near(np.asarray(a), np.asarray(b), scale, exact) for a, b in pairs)


def is_exact(graph: Graph) -> bool:
    """Whether a program has integers and bools alone, which have one right answer; floats are
    compared within rounding.
    """
    avals = [a.aval for e in graph.eqns for a in (*e.invars, *e.outvars)]
    return not any(dtypes.issubdtype(a.dtype, np.inexact) for a in avals)


def is_unsteady(
    found: Sequence, wanted: Sequence, given: Sequence, exact: bool, run: Callable[[list], list]
) -> bool:
    """Whether NumPy, which is `run`, disagrees with itself when the last digits of its inputs
    change: a chain that accepts or rejects, a chaotic step. Then only the kind of the results can
    be compared.
    """
    other = None if exact else nudged(given)
    if other is None or not alike(found, wanted):
        return False
    return not agree(run(other), wanted, given, exact)


def nudged(given: Sequence) -> list | None:
    """Inputs whose floats are changed in the last digit; None if there are none.

    >>> nudged([np.float32([1, 2, 0]), 3])
    [array([1.0000001, 1.9999998, 0.       ], dtype=float32), 3]
    """
    changed = [_nudged(np.asarray(x)) for x in given]
    if all(x is None for x in changed):
        return None
    return [x if y is None else y for x, y in zip(given, changed, strict=True)]


def _nudged(x: np.ndarray) -> np.ndarray | None:
    if x.dtype.kind not in "fc" or x.dtype.itemsize < 4 or not x.size:
        return None
    # Alternately up and down: a common change might cancel.
    step = np.finfo(x.dtype).eps * np.where(np.arange(x.size) % 2, -1, 1).reshape(x.shape)
    with np.errstate(all="ignore"):
        return (x + x * step).astype(x.dtype)


def alike(found: Sequence, wanted: Sequence) -> bool:
    """Whether two lists of results are of one kind: types, magnitudes, and number of finite
    elements.
    """
    for a, b in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind in "fcV" and a.size:
            x, y = _wide(a), _wide(b)
            finite = abs(np.count_nonzero(np.isfinite(x)) - np.count_nonzero(np.isfinite(y)))
            if finite > FEW * a.size or not _largest(b) / 10 <= _largest(a) <= _largest(b) * 10:
                return False
    return True


def _near(a: np.ndarray, b: np.ndarray, scale: float, exact: bool) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if (exact and a.dtype.itemsize) or not a.size:
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        short = a.dtype.itemsize < 4 and a.dtype.kind not in "biu"
        x, y = _wide(a), _wide(b)
        near = NEAR_SHORT if short else NEAR
        bound = near * (np.abs(y) + _largest(b) / 100 + scale / 1000)
        same = (x == y) | (np.abs(x - y) <= bound) | (np.isnan(x) & np.isnan(y))
    return bool(np.count_nonzero(~same) <= FEW * a.size)


def _wide(x: np.ndarray) -> np.ndarray:
    if not x.dtype.itemsize:  # float0, the derivatives of integers, have nothing to compare
        return np.zeros(x.shape)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _largest(x: np.ndarray) -> float:
    """The largest finite number of an array."""
    with np.errstate(all="ignore"):
        size = np.abs(_wide(x))
        return float(np.max(size, initial=0.0, where=np.isfinite(size)))
