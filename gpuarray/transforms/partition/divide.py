"""Divisions: how an equation is evaluated on pieces, found once for each kind of equation.

Floor 3. In: an equation, the sharding of its operands and the wanted sharding of its results. Out:
a `Division`, plain data. It depends on the primitive, its parameters, the avals, and the shardings:
the layers of a model, and programs that are partitioned again, have few different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.core.factors import Factors, spec_of
from gpuarray.core.graph import Eqn, params_key
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.primitive import Kind
from gpuarray.primitives.factors import factors_of
from gpuarray.transforms.partition.cuts import chosen_cut, wanted_of_operands
from gpuarray.util import Recent


class Division(NamedTuple):
    """How one equation is evaluated on pieces.

    Attributes
    ----------
    ins, outs :
        How operands have to be cut, and how results then are.
    params :
        The parameters on a piece.
    owed :
        The pending reduction: how, and along which axes of the grid.
    piece, starts :
        The rule of pieces that depend on their places (`Factors.piece`), and for each factor that
        is cut the axes that cut it and the length of a piece.
    """

    ins: list[Spec]
    outs: list[Spec]
    params: dict
    owed: tuple[tuple[str, tuple], ...] = ()
    piece: Callable[..., list] | None = None
    starts: tuple[tuple[int, tuple, int], ...] = ()


#: Earlier results, by everything that they depend on.
known: Recent = Recent(1 << 13)


def division(
    eqn: Eqn, specs: Sequence[Spec], wanted: Sequence[Spec | None], grid: Grid
) -> Division | None:
    """Return how an equation is evaluated on pieces; None: by every device on whole operands."""
    if _is_plain(eqn):
        found = _of_one_cut(eqn, specs, wanted[0], grid)
        if found is not None:
            return found
    key = ("cut", tuple(specs), tuple(wanted))
    return _known(eqn, key, grid, lambda: _division(eqn, specs, wanted, grid))


def wants(eqn: Eqn, outs: Sequence[Spec | None], grid: Grid) -> Sequence[Spec | None]:
    """Return how operands would have to be cut for results that are cut so."""
    if _is_plain(eqn) and outs[0] is not None:
        # Elementwise: operands as the result; scalars are never cut.
        return [outs[0] if a.aval.ndim else () for a in eqn.invars]
    return _known(
        eqn, ("want", tuple(outs)), grid, lambda: wanted_of_operands(factors_in(eqn), outs, grid)
    )


def _known(eqn: Eqn, key: tuple, grid: Grid, make: Callable[[], Any]) -> Any:
    """Return the cached result for an equation like this one, made by `make` if new."""
    avals = tuple([a.aval for a in eqn.invars])
    # Lengths of the grid's axes: if one is cut in two, the same names may occur in other programs.
    sizes = tuple(grid.sizes.items())
    key = (*key, eqn.primitive, avals, params_key(eqn.params) if eqn.params else (), sizes)
    try:
        found = known.find(key)
    except TypeError:  # a parameter without a hash
        return make()
    return known.put(key, (make(),))[0] if found is None else found[0]


def factors_in(eqn: Eqn) -> Factors:
    """Return the factors of an equation."""
    avals, outs = [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
    return factors_of(eqn.primitive, avals, outs, eqn.params)


def _is_plain(eqn: Eqn) -> bool:
    """Whether an equation is elementwise, of values in one shape and scalars."""
    prim = eqn.primitive
    if prim.kind is not Kind.POINTWISE or prim.factors is not None or len(eqn.outvars) != 1:
        return False
    shape = eqn.outvars[0].aval.shape
    return bool(shape) and all(not a.aval.ndim or a.aval.shape == shape for a in eqn.invars)


def _of_one_cut(
    eqn: Eqn, specs: Sequence[Spec], wanted: Spec | None, grid: Grid
) -> Division | None:
    """Return the result of `_division` if all operands are cut alike; None otherwise."""
    cut: Spec = ()
    for spec in specs:
        if any(spec) and spec != cut:
            if cut:
                return None
            cut = spec
    if wanted is not None and wanted != cut:
        if cut:
            return None
        # Wanted is how something is cut that has this shape, so the lengths divide.
        cut = wanted
    if not any(cut):
        return None
    return Division([cut if a.aval.ndim else () for a in eqn.invars], [cut], eqn.params)


def _division(
    eqn: Eqn, specs: Sequence[Spec], wanted: Sequence[Spec | None], grid: Grid
) -> Division | None:
    factors = factors_in(eqn)
    cut = chosen_cut(factors, eqn, specs, wanted, grid)
    if not cut:
        return None
    cuts = {f: grid.size(names) for f, names in cut.items()}
    owed: dict[str, tuple] = {}
    for f, names in cut.items():
        how = factors.owed.get(f)
        if how is not None:
            owed[how] = owed.get(how, ()) + names
    starts = tuple((f, names, factors.sizes[f] // cuts[f]) for f, names in cut.items())
    return Division(
        # Every operand as the factors of its axes are cut.
        [spec_of(axes, cut) for axes in factors.ins],
        [spec_of(axes, cut) for axes in factors.outs],
        factors.local(eqn.params, cuts),
        tuple(owed.items()),
        factors.piece,
        starts,
    )
