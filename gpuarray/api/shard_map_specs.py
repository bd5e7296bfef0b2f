"""The options of `shard_map`: the mesh, its manual axes, and the specs of values.

Floor 6. In: the options of a `shard_map` and the values it is called with. Out: the resolved mesh
and axes, a PartitionSpec for each value, or an error that shows the mismatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray.control.shard_map import mapped_along, names_in_spec, names_of_axis
from gpuarray.core import trace as traces
from gpuarray.core.abstract_mesh import AbstractMesh, Axes, AxisType
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.axes import spread_names
from gpuarray.core.layout import cuts_of, resolving, shown, sums_of
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec, contexts, sums_along
from gpuarray.pytree import tree
from gpuarray.util import prod


class _Infer:
    """The value of `in_specs` that means: as the arguments are sharded."""

    def __repr__(self) -> str:
        return "Infer"

    def __reduce__(self) -> str:
        return "Infer"


Infer = _Infer()


def name_of(f: Any) -> str:
    """Return how a function is called in messages."""
    return getattr(f, "__name__", str(f))


# ---- the mesh ----


def mesh_meant(mesh: Any) -> Any:
    """Return the mesh of a `shard_map`: the one it was given, or the one in context."""
    around = contexts.abstract
    if mesh is None:
        if around is None:
            # The older way, `with mesh:`.
            if contexts.entered:
                return contexts.entered[-1]
            raise ValueError(
                "The context mesh cannot be empty for a shard_map without mesh=: give it "
                "mesh=Mesh(devices, axis_names), or set one with `jax.set_mesh(mesh)`"
            )
        # The mesh with devices, unless `use_abstract_mesh` has changed its axes since.
        concrete = contexts.concrete
        return concrete if concrete is not None and concrete.abstract_mesh is around else around
    if not isinstance(mesh, Axes):
        raise TypeError(
            "shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` instance "
            f"as mesh, but got {mesh!r} of type {type(mesh)}"
        )
    if mesh.empty:
        raise ValueError(f"shard_map requires a non-empty mesh. Got {mesh}")
    if around is not None and around.shape_tuple != mesh.shape_tuple:
        raise ValueError(
            f"The context mesh {around} should match the mesh passed to shard_map {mesh}. Leave "
            "mesh= out to use the one in context."
        )
    return mesh


def with_devices(mesh: Any, leaves: Sequence[Any]) -> Any:
    """Return an abstract mesh with the devices of the arguments, if they are known by now."""
    if not isinstance(mesh, AbstractMesh):
        return mesh
    concrete = contexts.concrete
    if concrete is not None and concrete.shape_tuple == mesh.shape_tuple:
        return concrete
    if not traces.is_base():
        return mesh  # a jitted function learns them from its arguments
    found = None
    # Called with arrays: they must all be on one mesh, which is used.
    for x in leaves:
        sharding = getattr(x, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            if sharding.mesh.shape_tuple != mesh.shape_tuple:
                raise ValueError(
                    f"Mesh shape of the input {sharding.mesh.shape_tuple} does not match the mesh "
                    f"shape passed to shard_map {mesh.shape_tuple}"
                )
            found = found or sharding.mesh
    if found is not None:
        return found
    raise ValueError(
        "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map` when passing "
        f"`AbstractMesh` to the mesh argument: {mesh} has no devices. Or pass a Mesh."
    )


def manual_axes(mesh: Any, axis_names: Iterable[Any]) -> frozenset:
    """Return the axes of a mesh along which the function is given pieces."""
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(
            "`axis_names` argument of shard_map should be of type `frozenset` or `set`. Got type: "
            f"{type(axis_names)}"
        )
    # No names mean all axes.
    given = frozenset(axis_names) or frozenset(mesh.axis_names)
    if not given.issubset(mesh.axis_names):
        raise ValueError(
            f"jax.shard_map requires axis_names={set(given)} to be a subset of "
            f"mesh.axis_names={mesh.axis_names}"
        )
    # Axes of an enclosing shard_map are manual already, which a mesh passed explicitly does not
    # record.
    manual = given.difference(mesh.manual_axes)
    around = contexts.abstract
    if around is not None and (again := manual.intersection(around.manual_axes)):
        raise ValueError(
            f"The context mesh {around} should match the mesh passed to shard_map {mesh}: "
            f"{', '.join(map(repr, sorted(again, key=str)))} is manual already, so arrays are "
            "pieces along it. Leave mesh= out to use the mesh in context, or name the other axes "
            "in axis_names="
        )
    return manual


# ---- specs ----


def is_spec(x: Any) -> bool:
    """Whether `x` is the spec of an argument: a PartitionSpec, or None for an argument that is not
    an array.
    """
    return x is None or isinstance(x, PartitionSpec)


def check_specs(name: str, specs: Any, mesh: Any, manual: frozenset) -> None:
    """Refuse values that are not a PartitionSpec, and specs with axes that are not manual."""
    leaves, spec = tree.tree_flatten(specs, is_spec)
    paths = tree.leaf_paths(tree.unflatten(spec, range(len(leaves))))
    for leaf, path in zip(leaves, paths, strict=True):
        at = f"{name}{path}"
        if leaf is None:
            continue
        if not isinstance(leaf, PartitionSpec):
            raise TypeError(
                f"shard_map {name} argument must be a pytree of `jax.sharding.PartitionSpec` "
                f"instances, but {at} is {leaf!r} of type {type(leaf)}: give P() for what is the "
                "same on all devices"
            )
        _check_sums(name, leaf, mesh, manual)
        names = names_in_spec(leaf)
        for n in names:
            if n not in mesh.axis_names:
                raise ValueError(
                    f"shard_map {at}={leaf} names the axis {n!r}, which the mesh does not have: "
                    f"its axes are {mesh.axis_names}"
                )
            if n not in manual:
                raise ValueError(
                    f"shard_map {name} argument must name axes marked as manual, which are "
                    f"axis_names={sorted(map(str, manual))}, but {at} refers to {n!r}: values are "
                    "laid out automatically along it"
                )
            # Two axes of an array cannot be cut along the same axis of the mesh.
            if names.count(n) > 1:
                raise ValueError(f"shard_map {at}={leaf} names the axis {n!r} twice")


def _check_sums(name: str, spec: PartitionSpec, mesh: Any, manual: frozenset) -> None:
    """Refuse sums that are still owed where they cannot be."""
    if not (spec.unreduced or spec.reduced):
        return
    if manual != frozenset(mesh.axis_names):
        raise NotImplementedError(
            f"unreduced/reduced can only be passed to {name} when shard_map is in full manual "
            f"mode: the mesh has the axes {mesh.axis_names}, and axis_names is "
            f"{sorted(map(str, manual))}"
        )
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for n in (*spec.unreduced, *spec.reduced):
        if types.get(n) is not AxisType.Explicit:
            raise ValueError(
                f"unreduced/reduced in {name} {spec} can only be used when the mesh passed to "
                f"shard_map contains axis names all of type `Explicit`. Got mesh {mesh}"
            )


def over(specs: Any, full: Any, name: str) -> list:
    """Return the spec of every leaf."""
    return tree.prefix_broadcast(specs, full, is_spec, f"shard_map {name}")


def check_rank(f: Callable, name: str, what: str, aval: ShapedArray, spec: PartitionSpec) -> None:
    """Refuse a spec with more entries than the value has axes."""
    if len(spec) <= aval.ndim:
        return
    scalar = (
        f" For a scalar, consider using an {name} entry of `P()`, or give it an axis: x[None]."
        if not aval.ndim
        else ""
    )
    raise ValueError(
        f"shard_map applied to the function '{name_of(f)}' was given an {name} entry that is too "
        f"long: it is {spec}, which has length {len(spec)}, but {what} has type "
        f"{aval.str_short()}, which has rank {aval.ndim}. An entry has one part for each axis at "
        f"most.{scalar}"
    )


def check_fits(f: Callable, path: str, aval: ShapedArray, spec: PartitionSpec, mesh: Any) -> None:
    """Refuse an argument whose shape cannot be sharded as its spec says."""
    check_rank(f, "in_specs", f"args{path}", aval, spec)
    for axis, (part, n) in enumerate(zip(spec.partitions, aval.shape, strict=False)):
        names = names_of_axis(part)
        cuts = prod(mesh.shape[name] for name in names)
        if n % cuts:
            longer = -(-n // cuts) * cuts
            raise ValueError(
                f"shard_map applied to the function '{name_of(f)}' was given an argument that is "
                f"not evenly divisible: axis {axis} of args{path}, of type {aval.str_short()}, has "
                f"length {n}, and in_specs {spec} cuts it into {cuts} pieces (mesh axes "
                f"{', '.join(map(repr, names))}), which must evenly divide it. Pad it to {longer}."
            )


def check_types(
    path: str, aval: ShapedArray, spec: PartitionSpec, mesh: Any, manual: frozenset
) -> None:
    """Refuse an argument whose type has another sharding than its spec.

    A whole argument is cut without moving it; others would have to be moved, which `reshard` is
    for. If the function gets pieces along only some axes of the mesh, arguments are moved, as in
    JAX.
    """
    rows = zip(("unreduced", "reduced"), sums_of(aval.layout), sums_along(mesh, spec), strict=True)
    for word, names, asked in rows:
        if names != asked and not resolving.depth:
            raise ValueError(
                f"in_specs containing {word} {spec} passed to shard_map should be equal to the "
                f"{word} present on the in_aval {aval.str_short(True)} (args{path}). Lay the "
                "argument so with `jax.reshard` first."
            )
    # Only types over an Explicit mesh record a sharding.
    cuts = cuts_of(aval.layout)
    if cuts is None or resolving.depth or manual != frozenset(mesh.axis_names):
        return
    # The spec does not cover the other axes of the mesh.
    mine = tuple(tuple(n for n in part if n in manual) for part in cuts)
    wanted = [names_of_axis(part) for part in spec.partitions]
    # A spec may be shorter than the number of axes.
    wanted += [()] * (aval.ndim - len(wanted))
    if any(names and names != want for names, want in zip(mine, wanted, strict=True)):
        raise ValueError(
            f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
            f"{shown(mine)} for arg: {aval.str_short()} (args{path}). `in_specs` is an optional "
            "argument so you can omit specifying it and shard_map will infer the in_specs from the "
            "arguments. If you want to reshard your inputs, you can use `jax.reshard` on the "
            "arguments and then pass those args to shard_map."
        )


def check_replicated(
    f: Callable, path: str, aval: ShapedArray, spec: PartitionSpec, mesh: Any, manual: frozenset
) -> None:
    """Refuse a result whose spec says that it is replicated although its type does not."""
    names = frozenset(names_in_spec(spec))
    if aval.vma & manual <= names:
        return
    # The message names axes in the order of the mesh, as types print them.
    order = lambda chosen: ",".join(str(n) for n in mesh.axis_names if n in chosen)
    listed = ", ".join(repr(n) for n in mesh.axis_names if n in (aval.vma & manual) - names)
    raise ValueError(
        f"shard_map applied to the function '{name_of(f)}' was given out_specs which require "
        "replication which can't be statically inferred: "
        f"out_specs{path} is {spec} which implies that the corresponding output value is only "
        "varying across mesh axes "
        f"{{{order(names)}}} and not {{{order((aval.vma & manual) - names)}}}, but it was inferred "
        f"to be possibly varying over {{{order(aval.vma)}}} (its type is {aval.str_short()}). "
        f"Reduce it (lax.psum(x, {listed})), gather it "
        f"(lax.all_gather(x, {listed}, to='invarying')), mention the axis in out_specs, "
        "or pass check_vma=False if you know that all devices have the same."
    )


def check_sums(path: str, aval: ShapedArray, spec: PartitionSpec, mesh: Any) -> None:
    """Refuse a result whose unreduced or reduced axes differ between its type and its spec."""
    for word, found, asked in zip(
        ("unreduced", "reduced"), sums_of(aval.layout), sums_along(mesh, spec), strict=True
    ):
        if found != asked:
            raise ValueError(
                f"out_specs passed to shard_map should be equal to the {word} present on the "
                f"out_aval. Got out_specs{path}={spec} and out_aval={aval.str_short(True)}. Sum it "
                "up with lax.psum, or cast it with lax.pcast."
            )


def check_left(mesh: Any, manual: frozenset, in_specs: Iterable[Any], out_specs: Any) -> None:
    """Refuse specs with the mesh axes that shard the elements of an enclosing vmap, according to
    types.
    """
    leaves = [*in_specs, *tree.tree_flatten(out_specs, is_spec)[0]]
    named = {n for spec in leaves if spec is not None for n in names_in_spec(spec)}
    taken = spread_names().intersection(mesh.explicit_axes)
    for name in mesh.axis_names:
        if name in taken and name in named:
            raise mapped_along(manual, mesh, name)


def inferred(x: Any, mesh: Any, manual: frozenset) -> PartitionSpec:
    """Return the sharding of an argument over a mesh, as a PartitionSpec."""
    sharding = getattr(x, "sharding", None)
    if isinstance(x, traces.Tracer):
        sharding = x.aval.sharding
    if isinstance(sharding, NamedSharding) and sharding.mesh.shape_tuple == mesh.shape_tuple:
        spec = sharding.spec
        # Cuts along axes that are not manual are the compiler's, and not in specs.
        kept = [tuple(n for n in names_of_axis(p) if n in manual) for p in spec.partitions]
        parts = [p if len(p) > 1 else p[0] if p else None for p in kept]
        # Specs are written without trailing Nones.
        while parts and parts[-1] is None:
            parts.pop()
        return spec.update(partitions=parts)
    raise ValueError(
        "shard_map without in_specs takes arguments that lie over the same mesh, got one of type "
        f"{aval_of(x).str_short()} with sharding {sharding}. Give in_specs."
    )


def check_inferable(mesh: Any, manual: frozenset) -> None:
    """Refuse to infer specs along axes that do not appear in types."""
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    others = sorted(str(types[n]) for n in manual if types[n] is not AxisType.Explicit)
    if others:
        raise TypeError(
            "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` "
            "instances, but in_specs or in_axes was not specified when "
            f"axis_name={set(manual)} was of type {', '.join(others)}: only where all are "
            "Explicit do arguments say how they lie"
        )
