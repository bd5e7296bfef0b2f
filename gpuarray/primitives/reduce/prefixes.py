"""Prefixes of arrays under an associative function, as slices, merges of many pairs, and pads.

Floor 2. In: a function that merges two lists of arrays element by element, and arrays along an
axis. Out: at each position the merge of all elements from the first up to it, in about 2 log2(n)
steps over arrays (the recursion of Ladner and Fischer, 1980). It consists of other primitives,
which all transformations handle; operations with a dedicated kernel do not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.primitives.axes import along
from gpuarray.primitives.define import do
from gpuarray.primitives.elementwise.bits import or_p

#: Merges two lists of arrays, element by element, into one such list.
Merge = Callable[[list, list], Sequence[Any]]


def prefixes(merge: Merge, xs: list, axis: int) -> list:
    """Return the prefixes along `axis`: at odd positions those of pairs, at even ones one step
    more.
    """
    n = aval_of(xs[0]).shape[axis]
    if n < 2:
        return xs
    # (x0, x1), (x2, x3), ...: an odd length leaves one element without a partner.
    pairs = merge([along(x, axis, 0, n - 1, 2) for x in xs], [along(x, axis, 1, n, 2) for x in xs])
    # The prefixes of the pairs are those that end at 1, 3, 5, ...
    odd = prefixes(merge, list(pairs), axis)
    # A prefix that ends at an even position is the previous one and one more element; with an even
    # length the last odd one has no successor.
    before = [along(x, axis, 0, (n - 1) // 2) for x in odd]
    even = merge(before, [along(x, axis, 2, n, 2) for x in xs])
    # The first element is its own prefix.
    even = [
        do.concatenate(along(x, axis, 0, 1), e, dimension=axis)
        for x, e in zip(xs, even, strict=True)
    ]
    return [_alternate(e, o, axis) for e, o in zip(even, odd, strict=True)]


def _alternate(even: Any, odd: Any, axis: int) -> Any:
    """Interleave two arrays along `axis`: even[0], odd[0], even[1], ..."""
    a, b = aval_of(even), aval_of(odd)
    # Whether the result ends with an element of `even`.
    last = a.shape[axis] > b.shape[axis]

    def spaced(x: Any, low: int, high: int) -> Any:
        # One hole between neighbours, and an end where the other array has the first or last
        # element.
        config = tuple((low, high, 1) if d == axis else (0, 0, 0) for d in range(a.ndim))
        return do.pad(x, a.dtype.type(0), padding_config=config)

    # Each place holds one element and one padding 0; booleans cannot be added.
    join = or_p.bind if a.dtype == np.bool_ else do.add
    return join(spaced(even, 0, 0 if last else 1), spaced(odd, 1, 1 if last else 0))
