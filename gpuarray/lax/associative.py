"""`associative_scan`: all partial results of an associative function, in a tree of few deep steps.

Floor 6. In: a function of two pytrees and the elements along an axis. Out: the elements combined
from the first up to each. No primitive of its own: slices, the function on many pairs at once, and
pads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.tracebacks import boundary
from gpuarray.lax.bits import bitwise_or
from gpuarray.lax.bodies import check_operands
from gpuarray.lax.elementwise import add
from gpuarray.lax.scans import as_array
from gpuarray.lax.shapes import concatenate, pad, rev
from gpuarray.lax.slicing import slice_in_dim
from gpuarray.pytree import tree
from gpuarray.util import canonical_axis


@boundary
def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine the elements along an axis by an associative `fn(a, b)`, from the first up to each.

    Shapes: every leaf of `elems` has the same length along `axis`, and keeps its shape. `fn` is
    called on arrays of many elements, about 2 log2(n) times. reverse: from the last down to each.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.associative_scan(gnp.multiply, gnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, spec = tree.flatten(elems)
    leaves = [as_array(x) for x in check_operands(leaves)]
    if not leaves:
        raise ValueError("associative_scan: elems has no arrays to scan over")
    axis = canonical_axis(axis, aval_of(leaves[0]).ndim)
    lengths = {aval_of(x).shape[axis] for x in leaves}
    if len(lengths) > 1:
        found = [aval_of(x).shape for x in leaves]
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {found}, scanned along axis {axis})"
        )
    # From the end: the same on the reversed arrays.
    if reverse:
        leaves = [rev(x, [axis]) for x in leaves]

    def combine(a: list, b: list) -> list:
        # Leaves in, leaves out: `_prefixes` need not know the user's pytrees.
        result = fn(tree.unflatten(spec, a), tree.unflatten(spec, b))
        out, out_spec = tree.flatten(result)
        if out_spec != spec:
            raise ValueError(
                f"associative_scan: fn must return a result of the structure {spec} of its "
                f"operands, got {out_spec}"
            )
        return out

    # log2(n) levels, each of half the elements.
    out = _prefixes(combine, leaves, axis)
    if reverse:
        out = [rev(x, [axis]) for x in out]
    return tree.unflatten(spec, out)


def _prefixes(combine: Callable, xs: list, axis: int) -> list:
    """Prefixes at odd places from a scan over pairs, those at even places from one more step.

    The recursion of Ladner and Fischer (1980).
    """
    n = xs[0].shape[axis]
    if n < 2:
        return xs
    # An odd length leaves one element without a partner.
    last = n - n % 2
    # (x0, x1), (x2, x3), ...
    pairs = combine(
        [slice_in_dim(x, 0, n - 1, 2, axis) for x in xs],
        [slice_in_dim(x, 1, None, 2, axis) for x in xs],
    )
    # The prefixes of the pairs are those that end at 1, 3, 5, ...
    odd = _prefixes(combine, pairs, axis)
    # A prefix that ends at an even place is the one before it and one element more.
    before = [slice_in_dim(x, 0, -1, 1, axis) for x in odd] if last == n else odd
    even = combine(before, [slice_in_dim(x, 2, None, 2, axis) for x in xs])
    # The first element is its own prefix.
    even = [
        concatenate([slice_in_dim(x, 0, 1, 1, axis), e], axis)
        for x, e in zip(xs, even, strict=True)
    ]
    return [_interleaved(e, o, axis) for e, o in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ...: both spread out with zeros between, and added."""
    longer = even.shape[axis] - odd.shape[axis]
    zero = even.dtype.type(0)

    def spread(x: Any, low: int, high: int) -> Any:
        # (low, high, interior): one zero between neighbours leaves room for the other half.
        config = [(0, 0, 0)] * x.ndim
        config[axis] = (low, high, 1)
        return pad(x, zero, config)

    # Exactly one of the two is not zero at each place; booleans cannot be added.
    join = bitwise_or if even.dtype == np.bool_ else add
    return join(spread(even, 0, 1 - longer), spread(odd, 1, longer))
