"""`associative_scan` as a primitive: prefixes of arrays under a merging function given as a Graph.

Floor 4. In: arrays of one shape, and a Graph of scalars that merges two elements (one scalar of
each array) into one. Out: at each position the merge of all elements from the first up to it. It is
one primitive, so that compilers can make it one kernel that reads each element once, where the
recursion over pairs takes about 2 log2(n) passes over memory.

Its derivative is a linear recurrence (control/linear_recurrence.py): the prefix at a place is the
merge of the prefix before and the element there, whatever the order in which it was computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.control.graph_edits import fixed_point, jvp_filled, others, staged
from gpuarray.control.linear_recurrence import linear_recurrence
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import along, with_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import broadcast_like, full_like, instantiate, zeros
from gpuarray.primitives.reduce.prefixes import prefixes
from gpuarray.primitives.scalar_graph import bind_on_arrays, on_arrays
from gpuarray.transforms.batch import BatchAxis
from gpuarray.transforms.graphs import jvp_graph
from gpuarray.transforms.jvp import jvp_flat
from gpuarray.transforms.transpose import transpose_flat

#: Pointwise operations whose derivative is complex linear: any other that complex numbers may pass
#: through (conj, abs, real) is differentiated by parts.
_HOLOMORPHIC = frozenset("add add_any sub mul div neg integer_pow exp log select_n".split())


def _aval(*avals: ShapedArray, jaxpr: Graph, axis: int, reverse: bool) -> list[ShapedArray]:
    if len({a.shape for a in avals}) != 1:
        raise TypeError(
            "associative_scan merges arrays of one shape, got "
            f"{[a.str_short() for a in avals]}: broadcast them first"
        )
    given, made = [a.dtype for a in avals], [a.dtype for a in jaxpr.out_avals]
    if given != made or [a.dtype for a in jaxpr.in_avals] != given * 2:
        raise TypeError(
            f"associative_scan of {[a.str_short() for a in avals]} needs a function that merges "
            f"two of their elements into one of the same dtypes, got {jaxpr.in_avals} -> "
            f"{jaxpr.out_avals}"
        )
    # A result is weakly typed if the elements are, and stay so when they are merged.
    weak = [a.weak_type and b.weak_type for a, b in zip(avals, jaxpr.out_avals, strict=True)]
    return [a.update(weak_type=w) for a, w in zip(avals, weak, strict=True)]


def _pick(avals, *, jaxpr: Graph, axis: int, reverse: bool) -> Callable[..., list[np.ndarray]]:
    merge = on_arrays(jaxpr)

    def scan(*arrays):
        # The scanned axis in front, from its end if `reverse`: views, no copies.
        xs = [np.moveaxis(x, axis, 0)[:: -1 if reverse else 1] for x in arrays]
        out = _prefixes(merge, xs)
        return [np.moveaxis(y[:: -1 if reverse else 1], 0, axis) for y in out]

    return scan


def _prefixes(merge: Callable, xs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Prefixes along the first axis: prefixes of pairs give every other one, the rest need one more
    merge.
    """
    n = len(xs[0])
    if n < 2:
        return [x.copy() for x in xs]
    pairs = merge(*(x[: n - 1 : 2] for x in xs), *(x[1::2] for x in xs))
    odd = _prefixes(merge, pairs)
    out = [np.empty(x.shape, x.dtype) for x in xs]
    for y, x, at_odd in zip(out, xs, odd, strict=True):
        y[0], y[1::2] = x[0], at_odd
    if n > 2:
        between = merge(*(y[: (n - 1) // 2] for y in odd), *(x[2::2] for x in xs))
        for y, at_even in zip(out, between, strict=True):
            y[2::2] = at_even
    return out


def _parts(*xs, jaxpr: Graph, axis: int, reverse: bool) -> list:
    """The recursion over pairs, for backends without a kernel and for derivatives by parts."""
    back = [do.rev(x, dimensions=(axis,)) for x in xs] if reverse else list(xs)
    out = prefixes(lambda a, b: bind_on_arrays(jaxpr, *a, *b), back, axis)
    return [do.rev(y, dimensions=(axis,)) for y in out] if reverse else out


def _batch(mapped: BatchAxis, args: list, dims: list, *, jaxpr, axis, reverse):
    xs = [with_axis(x, d, 0, mapped.size) for x, d in zip(args, dims, strict=True)]
    out = associative_scan_p.bind(*xs, jaxpr=jaxpr, axis=axis + 1, reverse=reverse)
    return out, [0] * len(out)


# ---- the derivative ----


def _jvp(primals: list, tangents: list, **params) -> tuple[list, list]:
    """Each result is the merge of the result before and the element: a recurrence, which is linear
    in the tangents.
    """
    jaxpr: Graph = params["jaxpr"]
    # With fewer than two elements there is no merge; a symbolic length counts as many.
    n = aval_of(primals[0]).shape[params["axis"]]
    if isinstance(n, int) and n < 2:
        return list(primals), list(tangents)
    given = [not is_zero(t) for t in tangents]
    # A result varies if its element does, or a result before that it is merged with.
    varies = fixed_point(given, lambda state: _varying(jaxpr, (*state, *given)))
    if not _is_linear(jaxpr, varies):
        return jvp_flat(lambda *xs: _parts(*xs, **params), primals, tangents)
    out = associative_scan_p.bind(*primals, **params)
    found = iter(_recurrence(primals, tangents, out, given, varies, **params))
    fixed = [Zero(tangent_aval(aval_of(y))) for y in out]
    return out, [next(found) if v else zero for v, zero in zip(varies, fixed, strict=True)]


def _varying(jaxpr: Graph, nonzero: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which results of a merge have a tangent, given which of its operands do."""
    return jvp_graph(jaxpr, nonzero).outputs


def _is_linear(jaxpr: Graph, varies: Sequence[bool]) -> bool:
    """Whether tangents of one dtype follow a recurrence that is linear in them."""
    kinds = {a.dtype for a, v in zip(jaxpr.out_avals, varies, strict=True) if v}
    if len(kinds) != 1:
        return False
    if not dtypes.issubdtype(kinds.pop(), np.complexfloating):
        return True
    return all(e.primitive.name in _HOLOMORPHIC for e in jaxpr.eqns)


def _recurrence(
    xs: list, dxs: list, ys: list, given: list[bool], varies: list[bool], *, jaxpr, axis, reverse
) -> list:
    """The tangents of the results that vary: dy[i] = J[i] dy[i - 1] + u[i]."""
    aval = aval_of(xs[0])
    n, count, wanted = aval.shape[axis], len(xs), tuple(varies)
    # Each element is merged with the result before it, and the first, which has none, with itself:
    # a merge of real elements, since arbitrary numbers might not be mergeable.
    merged = [*(_before(y, x, axis, n, reverse) for x, y in zip(xs, ys, strict=True)), *xs]
    yes, no = (broadcast_like(np.bool_(flag), aval) for flag in (True, False))
    first = _before(no, yes, axis, n, reverse)
    # u: the contribution of the element's tangent; the first result is the first element.
    graph = jvp_filled(jaxpr, (False,) * count + tuple(given), wanted)
    moved = bind_on_arrays(graph, *merged, *(t for t in dxs if not is_zero(t)))[count:]
    tangents = [instantiate(t) for t, v in zip(dxs, varies, strict=True) if v]
    u = [do.select_n(first, m, t) for t, m in zip(tangents, moved, strict=True)]
    # J by columns: the tangent of a merge along each of the numbers that are carried on.
    jacobian: dict[tuple[int, int], Any] = {}
    numbers = [k for k, v in enumerate(varies) if v]
    for column, k in enumerate(numbers):
        graph, rows = jvp_graph(jaxpr, tuple(j == k for j in range(2 * count)))
        entries = iter(bind_on_arrays(graph, *merged, full_like(merged[k], 1))[count:])
        for row, nonzero in zip(range(count), rows, strict=True):
            if nonzero:
                entry = next(entries)
                zero = full_like(entry, 0)
                jacobian[numbers.index(row), column] = do.select_n(first, entry, zero)
    return linear_recurrence(jacobian, u, axis, reverse)


def _before(y: Any, x: Any, axis: int, n: int, reverse: bool) -> Any:
    """At each place the result before it; at the first one the element."""
    if reverse:
        return do.concatenate(along(y, axis, 1, n), along(x, axis, n - 1, n), dimension=axis)
    return do.concatenate(along(x, axis, 0, 1), along(y, axis, 0, n - 1), dimension=axis)


# ---- the transpose ----


def _transpose(cts: list, *operands, **params) -> list:
    """A scan that is linear in some of its operands is its own derivative along them."""
    jaxpr: Graph = params["jaxpr"]
    linear = [is_undefined(x) for x in operands]
    _check_linear(jaxpr, linear)

    def fun(*values: Any) -> list:
        primals = [zeros(aval_of(x)) if f else x for x, f in zip(values, linear, strict=True)]
        along = [x if f else Zero(aval_of(x)) for x, f in zip(values, linear, strict=True)]
        return [instantiate(t) for t in _jvp(primals, along, **params)[1]]

    avals = [x.aval if f else aval_of(x) for x, f in zip(operands, linear, strict=True)]
    graph = staged(fun, avals, "transpose", jaxpr.debug_name)
    given = iter(transpose_flat(graph, linear, others(operands, linear), cts))
    return [next(given) if f else None for f in linear]


def _check_linear(jaxpr: Graph, linear: Sequence[bool]) -> None:
    """Raise TypeError if the merge is not linear in these of its operands: if its derivative along
    them depends on them.
    """
    varies = fixed_point(linear, lambda state: _varying(jaxpr, (*state, *linear)))
    graph = jvp_graph(jaxpr, (*varies, *linear)).graph
    reached = set(itertools.compress(graph.invars, (*varies, *linear)))
    for eqn in graph.eqns:
        if not reached.isdisjoint(eqn.invars):
            reached.update(eqn.outvars)
    if not reached.isdisjoint(graph.outvars[len(jaxpr.outvars) :]):
        raise TypeError(
            "cannot transpose an associative_scan whose function is not linear in the operands "
            f"that depend on the arguments: {jaxpr}"
        )


associative_scan_p = Primitive(
    "associative_scan",
    Kind.SCAN,
    multiple_results=True,
    aval=_aval,
    numpy_pick=_pick,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    decompose=_parts,
    weight=4.0,
)
