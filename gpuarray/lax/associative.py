"""`associative_scan`: all partial results of an associative function.

Floor 6. In: a function of two pytrees and the elements along an axis. Out: the elements combined
from the first up to each. A function that works element by element becomes one operation; any other
is called on many pairs together, level by level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.control.associative_scan import associative_scan_p
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.primitive import Primitive
from gpuarray.core.trace import Tracer
from gpuarray.core.tracebacks import boundary
from gpuarray.lax.bodies import check_operands
from gpuarray.lax.scans import as_array
from gpuarray.lax.shapes import rev
from gpuarray.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p
from gpuarray.primitives.reduce.cumulative import cummax_p, cummin_p, cumprod_p, cumsum_p
from gpuarray.primitives.reduce.prefixes import prefixes
from gpuarray.primitives.scalar_graph import scalar_of
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.util import canonical_axis


@boundary
def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine the elements along an axis by an associative `fn(a, b)`, from the first up to each.

    Shapes: every leaf of `elems` has the same length along `axis`, and keeps its shape. `fn` is
    called on arrays of many elements: once if it works elementwise on leaves of one shape, since
    the scan is then one kernel; else about 2 log2(n) times. reverse: from the last element to the
    first.

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

    def combine(a: Sequence, b: Sequence) -> list:
        # The primitives do not know the user's pytrees: leaves in, leaves out.
        result = fn(tree.unflatten(spec, a), tree.unflatten(spec, b))
        out, out_spec = tree.flatten(result)
        # As many leaves in the same order are enough: a list may come for a tuple.
        if len(out) != len(leaves):
            raise ValueError(
                f"associative_scan: fn must return a result of the structure {spec} of its "
                f"operands, got {out_spec}"
            )
        return out

    out = _in_one(combine, fn, leaves, axis, reverse)
    if out is None:
        # From the end: the same on the reversed arrays.
        back = [rev(x, [axis]) for x in leaves] if reverse else leaves
        out = prefixes(combine, back, axis)
        out = [rev(x, [axis]) for x in out] if reverse else out
    return tree.unflatten(spec, out)


#: Scans with their own primitive, by the operation that merges.
_KNOWN = {add_p: cumsum_p, mul_p: cumprod_p, max_p: cummax_p, min_p: cummin_p}


def _in_one(combine: Callable, fn: Callable, leaves: list, axis: int, reverse: bool) -> list | None:
    """The scan as one operation, if `fn` merges element by element; else None."""
    avals = [aval_of(x) for x in leaves]
    shape = list(avals[0].shape)
    length = shape[axis]  # a number, or an exported program's length, which may be symbolic
    # A scan of at most one element merges nothing.
    if len({a.shape for a in avals}) > 1 or (isinstance(length, int) and length < 2):
        return None
    if any(isinstance(a.dtype, dtypes.ExtendedDType) for a in avals):
        return None
    half = len(leaves)

    def flat(*values: Any) -> list:
        return combine(values[:half], values[half:])

    # As the recursion calls it first: on as many elements as there are pairs.
    shape[axis] = length // 2 if isinstance(length, int) else length
    pairs = [a.update(shape=tuple(shape)) for a in avals]
    staged = stage(flat, pairs * 2, TracedFunction(fn, "associative_scan"))
    jaxpr = None if any(isinstance(c, Tracer) for c in staged.consts) else scalar_of(staged)
    if jaxpr is None or [a.dtype for a in jaxpr.out_avals] != [a.dtype for a in avals]:
        return None
    known = _known(jaxpr)
    if known is not None and dtypes.kind_of(avals[0].dtype) in "iufc":
        return [known.bind(*leaves, axis=axis, reverse=reverse)]
    return associative_scan_p.bind(*leaves, jaxpr=jaxpr, axis=axis, reverse=reverse)


def _known(jaxpr: Graph) -> Primitive | None:
    """The dedicated primitive of a scan, if there is one."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    # The merge of both, in either order: these operations commute.
    if set(eqn.invars) != set(jaxpr.invars) or list(eqn.outvars) != list(jaxpr.outvars):
        return None
    return _KNOWN.get(eqn.primitive)
