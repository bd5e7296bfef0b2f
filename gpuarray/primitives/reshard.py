"""Resharding values over a mesh: `reshard`, and constraints on automatic shardings.

Floor 2. In: a value and a NamedSharding. Out: the same value; along Explicit axes of the mesh its
type has that sharding. On one device, and on the pieces of several, it does nothing:
`transforms/partition` finds the necessary moves by the `flow` rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core import layout as layouts
from gpuarray.core.abstract_mesh import AbstractMesh, Axes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dtypes import ExtendedDType
from gpuarray.core.flow import ByDevice
from gpuarray.core.graph import Eqn, Graph, Var, subgraphs
from gpuarray.core.mesh import (
    NamedSharding,
    PartitionSpec,
    contexts,
    cuts_along,
    sums_along,
    with_types_of,
)
from gpuarray.core.primitive import LINEAR, Kind, Primitive
from gpuarray.core.spec import UNCONSTRAINED, names_of
from gpuarray.primitives import laying
from gpuarray.primitives.define import do
from gpuarray.util import prod

P = PartitionSpec
layouts.set_rule(laying.of_results)


def _aval(x: ShapedArray, *, sharding: NamedSharding) -> ShapedArray:
    mesh = sharding.mesh.abstract_mesh
    cuts = cuts_along(mesh, sharding.spec, x.ndim)
    check_terms(x, sharding)
    sums = sums_along(mesh, sharding.spec)
    return x.update(layout=layouts.layout(x.vma, mesh, cuts, sums, layouts.space_in(x)))


def check_terms(aval: ShapedArray, sharding: Any) -> None:
    """Refuse a value that cannot be terms of a sum, and a mesh whose types do not say it."""
    if not isinstance(sharding, NamedSharding) or not sharding.spec.unreduced:
        return
    if isinstance(aval.dtype, ExtendedDType):
        raise TypeError(
            f"random keys cannot be terms of a sum: got {aval.str_short()} and {sharding.spec}"
        )
    if not sharding.mesh.are_all_axes_explicit:
        raise NotImplementedError(
            f"unreduced values need a mesh of which all axes are Explicit: got {sharding}"
        )


def _itself(eqn: Eqn) -> Graph:
    v = Var(eqn.invars[0].aval)
    return Graph([v], [v], [], debug_name=eqn.primitive.name)


def _flow(eqn: Eqn) -> ByDevice:
    sharding = eqn.params["sharding"]
    axes = sharding.mesh.abstract_mesh
    # Types do not cover Auto axes of a mesh that also has Explicit ones: along them a value keeps
    # its sharding.
    beside = eqn.primitive is reshard_p and axes.explicit_axes
    named = {n for part in sharding.spec.partitions for n in names_of(part)}
    automatic = frozenset(axes.auto_axes).difference(named) if beside else frozenset()
    return ByDevice(_itself(eqn), sharding.mesh, (sharding.spec,), (sharding.spec,), automatic)


def _batch(prim: Primitive):
    def rule(axis: Any, args: Sequence[Any], dims: Sequence[Any], *, sharding: NamedSharding):
        (x,), (d,) = args, dims
        spec, mesh = sharding.spec, sharding.mesh
        _check_spread(axis.spread, sharding)
        # One entry for each axis, so that the batch axis gets its own at `d`.
        parts = [*spec.partitions, *[None] * (aval_of(x).ndim - 1 - len(spec.partitions))]
        # The batch axis keeps its sharding, or has that of vmap's spmd_axis_name.
        parts.insert(d, axis.spread or (UNCONSTRAINED if mesh.auto_axes else None))
        cuts = layouts.cuts_of(aval_of(x).layout)
        if cuts is not None and not axis.spread:
            taken = {n for part in spec.partitions for n in names_of(part)}
            parts[d] = tuple(n for n in cuts[d] if n not in taken)
        return prim.bind(x, sharding=NamedSharding(mesh, spec.update(partitions=parts))), d

    return rule


def _check_spread(names: tuple, sharding: NamedSharding) -> None:
    """Refuse a `spmd_axis_name` of a vmap around that cannot cut the batch axis of a value."""
    mesh = sharding.mesh
    if unknown := [n for n in names if n not in mesh.axis_names]:
        raise ValueError(
            f"vmap spmd_axis_name {unknown[0]!r} is not an axis of the mesh of the shard_map or "
            f"sharding constraint inside: {mesh.axis_names}"
        )
    named = {n for part in sharding.spec.partitions for n in names_of(part)}
    if taken := sorted(map(str, named.intersection(names))):
        raise ValueError(
            f"vmap spmd_axis_name cannot appear in the sharding of a value inside: "
            f"{', '.join(map(repr, taken))} is in {sharding.spec}"
        )


def _reshard_transpose(ct: Any, x: Any, *, sharding: NamedSharding):
    # The cotangent is resharded to the operand's sharding.
    return (as_typed(ct, cotangent_aval(x.aval), sharding.mesh),)


def _constraint_transpose(ct: Any, x: Any, *, sharding: NamedSharding):
    return (sharding_constraint_p.bind(ct, sharding=sharding),)


def _laying(name: str, transpose: Any, show: Any = None) -> Primitive:
    prim = Primitive(
        name,
        Kind.CALL,
        aval=_aval,
        jvp=LINEAR,
        transpose=transpose,
        flow=_flow,
        decompose=lambda x, *, sharding: x,
        show=show,
    )
    prim.batch = _batch(prim)
    return prim


#: The type of the result records the sharding.
reshard_p = _laying("reshard", _reshard_transpose, show=lambda params: {})

#: Constrains the sharding at this point of a program, independent of types.
sharding_constraint_p = _laying("sharding_constraint", _constraint_transpose)


def laid(x: Any, sharding: NamedSharding | None) -> Any:
    """Return a traced value with the given sharding; None leaves it unchanged.

    An axis that the mesh does not divide is not cut.
    """
    if sharding is None:
        return x
    mesh, spec, shape = sharding.mesh, sharding.spec, aval_of(x).shape
    around = contexts.abstract
    named = {n for part in spec.partitions for n in names_of(part)}
    if around is not None and (taken := named.intersection(around.manual_axes)):
        raise ValueError(
            f"the sharding {sharding} of a value inside of shard_map contains a manual axes "
            f"{tuple(sorted(taken, key=str))} of mesh {around}: the value is one device's piece "
            "there already. Name only axes that are not in axis_names."
        )
    parts = []
    for part, n in zip(spec.partitions, shape, strict=False):
        # An axis that the mesh does not divide is left whole.
        parts.append(part if n % prod(mesh.shape[name] for name in names_of(part)) == 0 else None)
    # Along Explicit axes the sharding is part of the type.
    prim = reshard_p if mesh.explicit_axes else sharding_constraint_p
    return prim.bind(x, sharding=NamedSharding(mesh, spec.update(partitions=parts)))


def as_typed(x: Any, aval: ShapedArray, mesh: Any = None) -> Any:
    """Return a value resharded to the layout of an aval."""
    have, want = aval_of(x).layout, aval.layout
    if have is want:
        return x
    sums = layouts.sums_of(want)
    if layouts.cuts_of(have) == layouts.cuts_of(want) and layouts.sums_of(have) == sums:
        return x
    # The axis names of the wanted cuts may differ from those of `mesh`.
    named = want.mesh if want is not None and want.mesh is not None else None
    if mesh is None or (named is not None and named.shape_tuple != mesh.shape_tuple):
        mesh = named
    mesh = mesh or (have and have.mesh)
    if mesh is None:
        return _summed_as(x, sums)
    spec = P(*(layouts.cuts_of(want) or ()), unreduced=sums[0], reduced=sums[1])
    return reshard_p.bind(x, sharding=NamedSharding(mesh, spec))


def _summed_as(x: Any, want: layouts.Sums) -> Any:
    """Return a value of a shard_map as terms along other axes of it, and reduced along others."""
    unreduced, reduced = layouts.sums_of(aval_of(x).layout)
    along = lambda names: tuple(sorted(names, key=str))
    # Terms that are not wanted any more are summed up first.
    if gone := along(unreduced - want[0]):
        x = do.unreduced_psum(x, axes=gone)
    for name in along(want[0] - unreduced):
        varies = name in aval_of(x).vma
        if name in reduced:
            x = do.reduced_vary_cast(x, axes=(name,))
        elif not varies:
            x = do.pcast(x, axis_name=(name,))
        if not varies:
            # One device has the value, and the others have zeros.
            here = do.eq(do.axis_index(axis_name=name), np.int32(0))
            nothing = np.zeros((), aval_of(x).dtype)[()]
            if shape := aval_of(x).shape:
                nothing = do.broadcast_in_dim(
                    nothing, shape=shape, broadcast_dimensions=(), sharding=None
                )
            x = do.select_n(here, nothing, x)
        x = do.vary_unreduced_cast(x, axes=(name,))
    more = along(n for n in want[1] - reduced if n not in aval_of(x).vma)
    return do.preduced(x, axes=more) if more else x


def cotangent_aval(aval: ShapedArray) -> ShapedArray:
    """Return the aval of a value's cotangent: the same sharding, with unreduced and reduced
    exchanged.
    """
    layout = layouts.of_cotangents(aval.layout)
    return aval if layout is aval.layout else aval.update(layout=layout)


def without_types(x: Any, mesh: AbstractMesh) -> Any:
    """Return a traced value whose type says only how Explicit axes of `mesh` cut it.

    It stays where it is. Along Auto axes of the mesh its type may have said more.
    """
    cuts = layouts.cuts_of(aval_of(x).layout)
    if cuts is None:
        return x
    kept = tuple(tuple(n for n in names if n in mesh.explicit_axes) for names in cuts)
    unreduced, reduced = (
        names.intersection(mesh.explicit_axes) for names in layouts.sums_of(aval_of(x).layout)
    )
    if kept == cuts and layouts.sums_of(aval_of(x).layout) == (unreduced, reduced):
        return x
    # An axis without an Explicit cut is left to the compiler.
    parts = [names or UNCONSTRAINED for names in kept]
    spec = P(*parts, unreduced=unreduced, reduced=reduced)
    return reshard_p.bind(x, sharding=NamedSharding(mesh, spec))


# ---- meshes in a Graph ----


def _flow_of(eqn: Eqn) -> ByDevice | None:
    flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
    return flow if isinstance(flow, ByDevice) else None


def stated(graph: Graph, main: Any) -> list[NamedSharding | None]:
    """Return the shardings of the results of a Graph, from the out_specs that they come from.

    Those over an abstract mesh are stated over the devices of `main`, if that has the same axes.
    """
    made_by = {v: (eqn, i) for eqn in graph.eqns for i, v in enumerate(eqn.outvars)}
    found: list[NamedSharding | None] = []
    for v in graph.outvars:
        eqn, i = made_by.get(v, (None, 0)) if isinstance(v, Var) else (None, 0)
        # Only the results of `reshard`, of constraints and of `shard_map` are stated so.
        flow = None if eqn is None else _flow_of(eqn)
        if flow is None:
            found.append(None)
            continue
        mesh, spec = flow.mesh, flow.out_specs[i]
        if isinstance(mesh, AbstractMesh) and mesh.shape_tuple == main.shape_tuple:
            mesh = with_types_of(main, mesh)
        if UNCONSTRAINED in spec.partitions:
            # An axis keeps its sharding. Types do not record another mesh: the axis is whole.
            if mesh is main or isinstance(mesh, AbstractMesh):
                found.append(None)
                continue
            parts = [None if part is UNCONSTRAINED else part for part in spec.partitions]
            spec = spec.update(partitions=parts)
        known = not isinstance(mesh, AbstractMesh)
        found.append(NamedSharding(mesh, spec) if known else None)
    return found


def meshes_in(graph: Graph) -> tuple[Axes, ...]:
    """Return the meshes that the equations of a Graph, at any depth, run on; () for one device."""
    # Kept with the graph: this is asked at every call of a jitted function.
    found = graph.derived.get("meshes")
    if found is None:
        meshes: dict[Axes, None] = {}
        for eqn in graph.eqns:
            flow = _flow_of(eqn)
            if flow is not None:
                meshes[flow.mesh] = None
            for inner in subgraphs(eqn):
                meshes.update(dict.fromkeys(meshes_in(inner)))
        found = graph.derived["meshes"] = tuple(meshes)
    return found


def named_by(graph: Graph) -> str | None:
    """Return the name of the operation that determines the devices of a Graph; None if there is
    none.
    """
    for eqn in graph.eqns:
        if _flow_of(eqn) is not None:
            # The shardings of a jitted function inside are constraints of the line that calls it.
            calls = [e for e in graph.eqns if e.primitive.kind is Kind.CALL and e.site == eqn.site]
            beside = (
                e for e in calls if {*eqn.outvars} & {*e.invars} or {*e.outvars} & {*eqn.invars}
            )
            return next(beside, eqn).primitive.name
        for inner in subgraphs(eqn):
            if (name := named_by(inner)) is not None:
                return name
    return None
