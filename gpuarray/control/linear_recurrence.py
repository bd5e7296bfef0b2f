"""`linear_recurrence` as a primitive: y[i] = J[i] y[i - 1] + u[i] along an axis.

Floor 4. In: the nonzero entries of small square matrices J, each entry an array over all positions,
and the vectors u in the same form. Out: the vectors y; y at the first position is u there. It is
linear in u, and its transpose is a recurrence from the other end: so the derivative of an
associative scan costs a scan, whatever the length.

Compilers see the associative scan of affine maps that it is: (J, u) after (J', u') is
(J J', J u' + u).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, Graph
from gpuarray.core.linear import is_undefined, is_zero
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import add_any, full_like, instantiate, zeros
from gpuarray.transforms.batch import BatchAxis
from gpuarray.transforms.tracing import TracedFunction, stage

#: Where the matrices have entries: (row, column) pairs, in order.
Pattern = tuple[tuple[int, int], ...]


def linear_recurrence(
    jacobian: Mapping[tuple[int, int], Any], u: Sequence[Any], axis: int, reverse: bool
) -> list:
    """Return y of the recurrence, one for each component of the vectors that is on its own."""
    out: list[Any] = [None] * len(u)
    for group in _groups(jacobian, len(u)):
        pattern = tuple(sorted(at for at in jacobian if at[0] in group))
        place = {k: n for n, k in enumerate(group)}
        # There is no recurrence: the results are the elements.
        if not pattern:
            (k,) = group
            out[k] = u[k]
            continue
        found = linear_recurrence_p.bind(
            *(jacobian[at] for at in pattern),
            *(u[k] for k in group),
            pattern=tuple((place[row], place[column]) for row, column in pattern),
            axis=axis,
            reverse=reverse,
        )
        for k, y in zip(group, found, strict=True):
            out[k] = y
    return out


def _groups(jacobian: Mapping[tuple[int, int], Any], count: int) -> list[list[int]]:
    """The components of the vectors, those together that an entry connects."""
    group = list(range(count))
    for row, column in jacobian:
        old, new = group[row], group[column]
        group = [new if g == old else g for g in group]
    return [[k for k in range(count) if group[k] == g] for g in dict.fromkeys(group)]


def _closed(pattern: Pattern) -> Pattern:
    """The entries that products of such matrices can have."""
    found = set(pattern)
    while True:
        more = {(r, c) for r, k in found for j, c in found if j == k} - found
        if not more:
            return tuple(sorted(found))
        found |= more


def _cut(operands: Sequence[Any], pattern: Pattern) -> tuple[dict[tuple[int, int], Any], list]:
    """The entries of the matrices by their place, and the vectors."""
    entries = dict(zip(pattern, operands, strict=False))
    return entries, list(operands[len(pattern) :])


def _aval(*avals: ShapedArray, pattern: Pattern, axis: int, reverse: bool) -> list[ShapedArray]:
    return list(avals[len(pattern) :])


# ---- as an associative scan ----


@functools.lru_cache(256)
def _affine(pattern: Pattern, count: int, dtype: Any) -> Graph:
    """One affine map after another as a Graph of scalars: (J, u) after (K, v) is (J K, J v + u)."""

    def merge(*scalars: Any) -> list:
        half = len(scalars) // 2
        (k, v), (j, u) = (_cut(part, pattern) for part in (scalars[:half], scalars[half:]))
        product: dict[tuple[int, int], Any] = {}
        for (row, inner), x in j.items():
            for (other, column), y in k.items():
                if inner == other:
                    at, term = (row, column), do.mul(x, y)
                    product[at] = do.add(product[at], term) if at in product else term
        moved = list(u)
        for (row, column), x in j.items():
            moved[row] = do.add(do.mul(x, v[column]), moved[row])
        return [*(product.get(at, zeros(scalar)) for at in pattern), *moved]

    scalar = ShapedArray((), dtype)
    avals = [scalar] * (2 * (len(pattern) + count))
    return stage(merge, avals, TracedFunction(merge, "associative_scan"))


def _scanned(*operands, pattern: Pattern, axis: int, reverse: bool) -> list:
    entries, u = _cut(operands, pattern)
    # Products of the matrices may have more entries than they, which begin as zeros.
    closed = _closed(pattern)
    full = [entries[at] if at in entries else full_like(u[0], 0) for at in closed]
    jaxpr = _affine(closed, len(u), aval_of(u[0]).dtype)
    out = do.associative_scan(*full, *u, jaxpr=jaxpr, axis=axis, reverse=reverse)
    return out[len(closed) :]


def _inline(eqn: Eqn) -> Graph:
    def fun(*operands: Any) -> list:
        return _scanned(*operands, **eqn.params)

    return stage(fun, [a.aval for a in eqn.invars], TracedFunction(fun, "linear_recurrence"))


# ---- transformations ----


def _jvp(primals: list, tangents: list, *, pattern: Pattern, axis: int, reverse: bool):
    """dy[i] = J[i] dy[i - 1] + (dJ[i] y[i - 1] + du[i]): a recurrence with the same matrices."""
    out = linear_recurrence_p.bind(*primals, pattern=pattern, axis=axis, reverse=reverse)
    d_entries, du = _cut(tangents, pattern)
    if not all(is_zero(t) for t in d_entries.values()):
        before = [_shifted(y, axis, 1, reverse) for y in out]
        for (row, column), t in d_entries.items():
            if not is_zero(t):
                du[row] = add_any(du[row], do.mul(t, before[column]))
    dy = linear_recurrence_p.bind(
        *primals[: len(pattern)],
        *map(instantiate, du),
        pattern=pattern,
        axis=axis,
        reverse=reverse,
    )
    return out, dy


def _transpose(cts: list, *operands, pattern: Pattern, axis: int, reverse: bool) -> list:
    """The cotangent at a position is passed to the previous position by the transposed matrix of
    this one: a recurrence from the other end.
    """
    entries, u = _cut(operands, pattern)
    # Transposed, each matrix moves to the place that its product leads to.
    turned = sorted((column, row) for row, column in pattern)
    moved = [_shifted(entries[row, column], axis, -1, reverse) for column, row in turned]
    found = linear_recurrence_p.bind(
        *moved,
        *map(instantiate, cts),
        pattern=tuple(turned),
        axis=axis,
        reverse=not reverse,
    )
    given = [ct if is_undefined(x) else None for ct, x in zip(found, u, strict=True)]
    return [None] * len(pattern) + given


def _shifted(x: Any, axis: int, by: int, reverse: bool) -> Any:
    """Elements moved on by one place in the direction of the recurrence (-1: back); 0 comes in."""
    by = -by if reverse else by
    config = tuple((by, -by, 0) if d == axis else (0, 0, 0) for d in range(aval_of(x).ndim))
    return do.pad(x, aval_of(x).dtype.type(0), padding_config=config)


def _batch(mapped: BatchAxis, args: list, dims: list, *, pattern, axis, reverse):
    xs = [with_axis(x, d, 0, mapped.size) for x, d in zip(args, dims, strict=True)]
    out = linear_recurrence_p.bind(*xs, pattern=pattern, axis=axis + 1, reverse=reverse)
    return out, [0] * len(out)


linear_recurrence_p = Primitive(
    "linear_recurrence",
    Kind.CALL,
    multiple_results=True,
    aval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    decompose=_scanned,
    inline=_inline,
)
