"""Shardings of results over a mesh with Explicit axes, from the factors of their operation.

Floor 2. In: a primitive, and operands some of which are sharded. Out: Layouts of its results; a
ShardingTypeError if they do not follow, or if an operand would have to be resharded first.

A factor (core/factors.py) is cut as the operands' axes that have it are, and so are the axes of the
results that have it. Errors are: two operands that cut a factor differently, one mesh axis that
would cut two axes of a result, pieces of an axis that are not pieces of the result (most reshapes),
and a sharded axis that the operation needs whole. In programs that are derived from a user's,
ambiguous results are whole (`layout.unclear_is_whole`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpuarray.core import layout as layouts
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Cut, Factors, given_to, spec_of
from gpuarray.core.layout import Cuts, Layout, names_of
from gpuarray.core.mesh import contexts
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.errors import ShardingTypeError
from gpuarray.primitives import sums
from gpuarray.primitives.factors import factors_of, runs_once

#: Operations whose result has the axes of its operand, longer or shorter: they stay cut.
_SAME_AXES = frozenset(
    """
    slice split dynamic_slice pad rev concatenate roll fft conv_general_dilated
    reduce_window reduce_window_sum reduce_window_max reduce_window_min
    select_and_gather_add select_and_scatter_add
    dynamic_update_slice scatter scatter-add scatter-mul scatter-min scatter-max scatter-sub
    """.split()
)

#: Operations whose summed axes must not be sharded, in either operand.
_SUMS_OF_WHOLE = frozenset({"conv_general_dilated"})

#: Operations that reshard a value, possibly over another mesh than that in context.
_LAYS = frozenset({"reshard", "sharding_constraint"})

#: The message of an operation that needs an axis whole, in JAX's words.
_WHOLE = {
    "sort": "Arguments to sort must be unsharded over the sorting dimension",
    "unstack": "unstack operand cannot be sharded on the unstacking axis",
    "tile": "an axis cannot be sharded where tiling is non-trivial",
} | dict.fromkeys(
    ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
    "Input should be unsharded over the axis being reduced",
)

#: JAX's word for an operation whose result would have uneven pieces.
_ON_SHARDED = {"slice": "slicing", "pad": "padding"} | dict.fromkeys(
    ("reduce_window_sum", "reduce_window_max", "reduce_window_min"), "reduce_window"
)

#: Folds by a user's function: sharded axes are removed. So is an axis of one element, which only
#: mesh axes of one device can shard.
_FOLDS = frozenset({"reduce", "squeeze"})


def of_results(
    prim: Primitive, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
) -> list[Layout | None]:
    """Return the layouts of an operation's results, given that some operand is sharded."""
    mesh = _mesh_of(prim, avals)
    varying = frozenset().union(*(names_of(a.layout) for a in avals))
    concerned = sums.of_results(prim, avals, outs, params)
    if mesh is None:
        return [layouts.layout(varying, sums=s) for s in concerned]
    _check_context(prim, mesh, avals)
    if prim.kind is Kind.COLLECTIVE:
        # It works along axes of a shard_map; the others cut a result as they cut its operand.
        found = [
            _beside(avals[min(i, len(avals) - 1)], out, params, mesh.shape)
            for i, out in enumerate(outs)
        ]
    else:
        found = _Rule(prim, avals, outs, params, mesh.shape).found()
    return [
        _apart(prim, layouts.layout(varying, mesh, cuts or ((),) * out.ndim, s))
        for cuts, out, s in zip(found, outs, concerned, strict=True)
    ]


def _beside(operand: ShapedArray, out: ShapedArray, params: dict, sizes: Any) -> Cuts | None:
    """Return how a collective's result is cut along other axes of the mesh: as its operand."""
    cuts = layouts.cuts_of(operand.layout)
    if cuts is None:
        return None
    cuts = list(cuts)
    # Stacked pieces form a new axis, and one scattered by its elements is removed.
    if out.ndim == operand.ndim + 1:
        cuts.insert(params["all_gather_dimension"], ())
    elif out.ndim == operand.ndim - 1 and "scatter_dimension" in params:
        cuts.pop(params["scatter_dimension"])
    elif out.ndim != operand.ndim:
        gone = {a for a in params["axes"] if isinstance(a, int)}
        cuts = [names for d, names in enumerate(cuts) if d not in gone]
    # An axis that became too short to be cut evenly is whole.
    return tuple(
        () if n % math.prod(sizes[m] for m in names) else names
        for n, names in zip(out.shape, cuts, strict=True)
    )


def _apart(prim: Primitive, found: Layout | None) -> Layout | None:
    """Return the layout of a result that no axis of the mesh cuts along which sums concern it."""
    if found is None or found.cuts is None:
        return found
    concerned = found.unreduced | found.reduced
    if not concerned.intersection(n for part in found.cuts for n in part):
        return found
    if not layouts.resolving.depth:
        raise ShardingTypeError(
            f"{prim.name} got operands of which one is cut as {layouts.shown(found.cuts)}, and "
            f"another one is unreduced or reduced along {set(concerned)}. Lay one of them anew "
            "first, with sharding.reshard."
        )
    return found.but(
        cuts=tuple(tuple(n for n in part if n not in concerned) for part in found.cuts)
    )


def _mesh_of(prim: Primitive, avals: Sequence[ShapedArray]) -> Any:
    """Return the one mesh over which operands are sharded; None if there is none."""
    known = [a.layout.mesh for a in avals if a.layout is not None and a.layout.cuts is not None]
    for other in known[1:]:
        if other.shape_tuple != known[0].shape_tuple:
            raise ShardingTypeError(
                f"{prim.name} got operands over different meshes, {known[0]} and {other}: move one "
                "of them with device_put."
            )
    return known[0] if known else None


def _check_context(prim: Primitive, mesh: Any, avals: Sequence[ShapedArray]) -> None:
    """Refuse operands that are cut along an axis that is the compiler's, by the mesh in context."""
    around = contexts.abstract
    if around is None or around is mesh or layouts.resolving.depth or prim.name in _LAYS:
        return
    sizes, automatic = around.shape, around.auto_axes
    cuts = [part for a in avals for part in layouts.cuts_of(a.layout) or ()]
    for name in (n for part in cuts for n in part):
        same = sizes.get(name, mesh.shape[name]) == mesh.shape[name]
        if name in automatic or not same:
            types = ", ".join(a.str_short(True) for a in avals)
            why = "of type Auto" if same else f"{sizes[name]} long"
            raise ValueError(
                f"For primitive {prim.name}, context mesh {around} should match the aval mesh "
                f"{mesh}: operands are of type {types}, and {name!r} is {why} in context. Lay them "
                "anew with sharding.reshard first."
            )


class _Rule:
    """The cuts of one operation's results, and the ambiguities about them."""

    def __init__(self, prim: Primitive, avals, outs, params: dict, sizes: Any):
        self.prim = prim
        self.avals = avals
        self.outs = outs
        self.sizes = sizes
        # An operation that one device runs for all is given whole operands, however they are
        # sharded.
        self.strict = not layouts.resolving.depth and not runs_once(prim)
        self.factors: Factors = factors_of(prim, avals, outs, params)
        self.given = [layouts.cuts_of(a.layout) or ((),) * a.ndim for a in avals]

    def found(self) -> list[Cuts]:
        """Return the cuts of every result."""
        cut = self.of_factors()
        found = [list(spec_of(axes, cut)) for axes in self.factors.outs]
        if self.prim.name in _SAME_AXES:
            for cuts, axes, out in zip(found, self.factors.outs, self.outs, strict=True):
                self.keep_axes(cuts, axes, out)
        for cuts in found:
            self.check_once(cuts, found)
        return [tuple(cuts) for cuts in found]

    def of_factors(self) -> Cut:
        """Return how operands cut the factors."""
        factors, cut = self.factors, {}
        # 1. The cut of each factor in each operand, which must agree.
        for a, axes, cuts in zip(self.avals, factors.ins, self.given, strict=True):
            for d, (axis, names) in enumerate(zip(axes, cuts, strict=True)):
                if not names:
                    continue
                if not axis:
                    if a.size and not self.stays():
                        self.unclear(self.needs_whole(a, d, names))
                    continue
                given = given_to(factors, axis, names, self.sizes)
                if given is None:
                    self.unclear(self.no_pieces(a))
                    continue
                for f, some in given.items():
                    # The first operand that cuts a factor decides; a derived program uses it.
                    if cut.setdefault(f, some) != some:
                        self.unclear(self.differ(f))
        # 2. Factors that go: sums over them.
        self.check_sums(cut)
        kept = {f for axes in factors.outs for axis in axes for f in axis}
        taken = {n for f, names in cut.items() if f in kept for n in names}
        # A summed axis is gathered first if its mesh axis cuts the result.
        cut = {f: names for f, names in cut.items() if f in kept or not taken.intersection(names)}
        # 3. Every axis of a result has to be cut into even pieces by its factors.
        parts = {f: math.prod(self.sizes[n] for n in names) for f, names in cut.items()}
        for axes in factors.outs:
            for axis in axes:
                if factors.parts_of(axis, parts) is None and not self.merges(axis, cut):
                    self.unclear(self.no_pieces(self.avals[0]))
                    for f in axis:
                        cut.pop(f, None)
        return cut

    def merges(self, axis: tuple[int, ...], cut: Cut) -> bool:
        """Whether a reshape makes one axis of several that are all cut: by the axes of all."""
        # Cut factors before whole ones: otherwise a piece of the merged axis is not contiguous.
        cuts = [bool(cut.get(f)) for f in axis]
        return self.prim.name == "reshape" and cuts == sorted(cuts, reverse=True)

    def stays(self) -> bool:
        """Whether an axis that is needed whole may be cut: the result has none, or the same."""
        return self.prim.kind is Kind.REDUCTION or self.prim.name in _SAME_AXES | _FOLDS

    def check_sums(self, cut: Cut) -> None:
        """Refuse products of two operands that are cut alike along the summed axes."""
        owed = [f for f in self.factors.owed if f in cut]
        if len(self.avals) < 2 or self.prim.kind is Kind.REDUCTION:
            return
        # Both operands cut alike leave partial sums on the devices. Where they are to be added is a
        # choice, which JAX leaves to the user.
        for f in owed:
            cutters = [
                names
                for axes, cuts in zip(self.factors.ins, self.given, strict=True)
                for axis, names in zip(axes, cuts, strict=True)
                if f in axis and names
            ]
            if self.prim.name in _SUMS_OF_WHOLE:
                self.unclear(
                    f"{self.prim.name} got operands {', '.join(map(layouts.shown, self.given))}, "
                    f"which are sharded along the features that it sums over, by {cutters[0]}. "
                    "Gather them first with sharding.reshard, or specify the output sharding via "
                    "the `out_sharding` parameter."
                )
            if len(cutters) > 1:
                self.unclear(
                    "Contracting dimensions are sharded and it is ambiguous how the output should "
                    "be sharded. Please specify the output sharding via the `out_sharding` "
                    f"parameter. Got lhs_contracting_spec={cutters[0]} and "
                    f"rhs_contracting_spec={cutters[1]}"
                )

    def keep_axes(self, cuts: list, axes: tuple, out: ShapedArray) -> None:
        """Cut the axes of a result that have no factors as those of its operands are."""
        for a, given in zip(self.avals, self.given, strict=True):
            if a.ndim != out.ndim:
                continue
            for d, names in enumerate(given):
                if not names or axes[d] or cuts[d] == names:
                    continue
                # The axis may have another length now, which need not be divisible.
                pieces = math.prod(self.sizes[n] for n in names)
                if cuts[d]:
                    self.unclear(self.differ())
                elif out.shape[d] % pieces:
                    what = _ON_SHARDED.get(self.prim.name, self.prim.name)
                    self.unclear(
                        f"{what} on sharded dims where out dim ({out.shape[d]}) "
                        f"is not divisible by mesh axes ({pieces}) with spec ({','.join(names)}) "
                        f"is not implemented. Got input type={a.str_short(True)} and output "
                        f"shape={out.shape}. Lay the operand anew first: "
                        f"sharding.reshard(x, {self.without(a, d)})."
                    )
                else:
                    cuts[d] = names

    def check_once(self, cuts: list, found: list) -> None:
        """Refuse a result if one mesh axis would cut two of its axes."""
        names = [n for part in cuts for n in part]
        if len(names) == len(set(names)):
            return
        types = ", ".join(a.str_short(True) for a in self.avals)
        self.unclear(
            f"{self.prim.name} operation with inputs: {types} produces an illegally sharded "
            f"result: {layouts.shown(tuple(cuts))} names an axis of the mesh twice. Lay one "
            "operand anew first with sharding.reshard."
        )
        # In a derived program: the first axis that an axis of the mesh cuts keeps it.
        seen: set = set()
        for d, part in enumerate(cuts):
            if seen.intersection(part):
                cuts[d] = ()
            seen.update(part)

    # ---- errors ----
    def unclear(self, why: str) -> None:
        if self.strict:
            raise ShardingTypeError(why)

    def without(self, a: ShapedArray, axis: int) -> str:
        given = layouts.cuts_of(a.layout) or ()
        return layouts.shown((*given[:axis], (), *given[axis + 1 :]))

    def needs_whole(self, a: ShapedArray, axis: int, names: tuple) -> str:
        if self.prim.name == "reshape":
            return self.no_pieces(a)
        return (
            f"{self.prim.name} needs axis {axis} of its operand of type {a.str_short(True)} whole, "
            f"and it is sharded along {', '.join(map(repr, names))}: "
            f"{_WHOLE.get(self.prim.name, 'Input should be unsharded over that axis')}. Gather it "
            f"first: sharding.reshard(x, {self.without(a, axis)})."
        )

    def no_pieces(self, a: ShapedArray) -> str:
        sizes = ", ".join(str(out.shape) for out in self.outs)
        why = _WHOLE.get(self.prim.name, "Pieces of the operand are no pieces of the result")
        return (
            f"This {self.prim.name} is not supported. Please specify the sharding of the output "
            f"via the `out_sharding` argument. Got operand type: {a.str_short()}, new sizes: "
            f"{sizes}. {why}."
        )

    def differ(self, factor: int | None = None) -> str:
        given = ", ".join(layouts.shown(cuts) for cuts in self.given)
        what = f"{self.prim.name} got incompatible shardings for broadcasting: {given}"
        if self.prim.name == "dot_general" and factor is not None:
            batch = "lhs batch dimensions and rhs batch dimensions to have the"
            which = "contracting dimensions to have" if factor in self.factors.owed else batch
            what = f"dot_general requires {which} consistent sharding, got {given}"
        elif self.prim.name == "select_n":
            what = f"select cases must have the same shardings, got {given}"
        elif self.prim.name in ("concatenate", "stack"):
            what = f"All operands should have the same sharding. Got shardings {given}"
        return f"{what}. Lay one operand as the other with sharding.reshard."
