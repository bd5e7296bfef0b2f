"""Cuts: along which axes of the grid the factors of an equation are cut.

Floor 3. In: the `Factors` of an equation, how its operands are cut and how its results are wanted.
Out: for each factor, the grid's axes that cut it: those that need the fewest bytes to be sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Axes, Cut, Factors, are_runs, given_to, spec_of
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.layout import cuts_of
from gpuarray.transforms.partition.moves import received
from gpuarray.util import prod

#: Operands whose layouts compete, beyond which the largest comes first untried.
_TRIED = 3


def chosen_cut(
    factors: Factors, eqn: Eqn, specs: Sequence[Spec], wanted: Sequence[Spec | None], grid: Grid
) -> Cut:
    """Return how factors are cut: as operands are, and where these leave them whole, as wanted."""
    laid = [i for i, spec in enumerate(specs) if any(spec)]
    laid.sort(key=lambda i: -eqn.invars[i].aval.size)
    orders = itertools.permutations(laid) if 1 < len(laid) <= _TRIED else [tuple(laid)]
    best: Cut = {}
    least = float("inf")
    for order in orders:
        cut: Cut = {}
        for i in order:
            _extend(cut, factors, factors.ins[i], specs[i], grid)
        sent = _bytes_sent(cut, factors, eqn, specs, grid)
        # On a tie the first one, where the largest operand keeps its sharding.
        if sent < least:
            best, least = cut, sent
        # Nothing to send: no order is better.
        if not sent:
            break
    for axes, spec in zip(factors.outs, wanted, strict=True):
        if spec is not None:
            _extend(best, factors, axes, spec, grid)
    return _with_the_rest(best, factors, eqn, specs, grid) if laid else best


def _with_the_rest(cut: Cut, factors: Factors, eqn: Eqn, specs: Sequence[Spec], grid: Grid) -> Cut:
    """Cut another axis where one has to be whole: an exchange sends less than a gather."""
    largest = max((i for i, s in enumerate(specs) if any(s)), key=lambda i: eqn.invars[i].aval.size)
    axes, shape = factors.ins[largest], eqn.invars[largest].aval.shape
    used = {n for names in cut.values() for n in names}
    for names in specs[largest]:
        if not names or used.intersection(names):
            continue
        for d in sorted(range(len(axes)), key=lambda d: -shape[d]):
            # A pending sum would be sent again.
            if any(f in cut or f in factors.owed for f in axes[d]):
                continue
            trial = dict(cut)
            tried = tuple(names if i == d else () for i in range(len(axes)))
            _extend(trial, factors, axes, tried, grid)
            before, after = (_bytes_sent(c, factors, eqn, specs, grid) for c in (cut, trial))
            if trial != cut and after < before:
                cut = trial
                break
    return cut


def wanted_of_operands(
    factors: Factors, wanted: Sequence[Spec | None], grid: Grid
) -> list[Spec | None]:
    """Return how operands would have to be cut for results that are cut so."""
    cut: Cut = {}
    for axes, spec in zip(factors.outs, wanted, strict=True):
        if spec is not None:
            _extend(cut, factors, axes, spec, grid)
    return [spec_of(axes, cut) for axes in factors.ins]


def _extend(cut: Cut, factors: Factors, axes: Axes, spec: Spec, grid: Grid) -> None:
    """Cut factors according to the axes of one operand or result, unless they are cut already."""
    for axis, names in zip(axes, spec, strict=True):
        if not names or any(n in taken for taken in cut.values() for n in names):
            continue
        given = given_to(factors, axis, names, grid.sizes)
        # Pieces of an axis of several factors are runs of it only so.
        if given is None or any(f in cut for f in given):
            continue
        # Try it: pieces must stay runs of the axes of every operand and result.
        trial = cut | given
        if all(
            are_runs(factors, some, trial, grid.sizes) for some in (*factors.ins, *factors.outs)
        ):
            cut.update(given)


def _bytes_sent(cut: Cut, factors: Factors, eqn: Eqn, specs: Sequence[Spec], grid: Grid) -> float:
    """Return the bytes that a device receives: moves of the operands, and pending sums."""
    total = 0.0
    for a, axes, spec in zip(eqn.invars, factors.ins, specs, strict=True):
        want = spec_of(axes, cut)
        if want != spec:
            total += received(spec, want, a.aval.size, grid.sizes) * storage_dtype(a.aval).itemsize
    # Over how many devices each result is a sum.
    owed = grid.size(n for f in factors.owed for n in cut.get(f, ()))
    if owed > 1:
        for v, axes in zip(eqn.outvars, factors.outs, strict=True):
            held = v.aval.size / grid.size(n for names in spec_of(axes, cut) for n in names)
            # A sum over n devices sends about 2 (n - 1) / n of its result, by a ring.
            total += 2 * held * (owed - 1) / owed * storage_dtype(v.aval).itemsize
    return total


def as_type_says(aval: ShapedArray, spec: Spec | None, grid: Grid) -> Spec:
    """Return `spec` with the sharding of the type along Explicit axes."""
    mesh = (aval.layout and aval.layout.mesh) or grid.main
    want = tuple(grid.names(mesh, names) for names in cuts_of(aval.layout) or ((),) * aval.ndim)
    # Types do not cover the other mesh axes: keep the sharding there.
    if spec is None or spec == want or not mesh.auto_axes:
        return want
    spoken = frozenset(grid.names(mesh, mesh.explicit_axes))
    kept = []
    for n, names, part in zip(aval.shape, want, spec, strict=True):
        said = tuple(name for name in part if name in spoken)
        more = part if said == names else (*names, *(n for n in part if n not in spoken))
        # A part of a longer axis may be cut unevenly, which its type does not allow for.
        kept.append(more if n % prod(grid.sizes[name] for name in more) == 0 else names)
    return tuple(kept)
