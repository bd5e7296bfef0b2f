"""`shard_map` as a primitive: a Graph that each device of a mesh runs on its pieces.

Floor 4. In: arrays, and the sharding of each along the axes of a mesh. Out: arrays assembled from
the devices' results. The Graph is that of one device: its inputs are pieces, and collectives in it
name axes of the mesh. Every transformation of a `shard_map` is one of a transformed Graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.control.graph_edits import chosen, cut, merged, others, staged
from gpuarray.control.keeping import KeptInside, Separate, set_keep_rule
from gpuarray.core import trace as traces
from gpuarray.core.abstract_mesh import AxisType
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.axes import NamedAxis, named_axes, spread_names
from gpuarray.core.flow import ByDevice
from gpuarray.core.graph import Eqn, Graph, Var, evaluate
from gpuarray.core.layout import NO_SUMS, cuts_of, layout, space_in, sums_of, with_names
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.mesh import PartitionSpec, contexts, cuts_along, in_types, sums_along
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.spec import names_of
from gpuarray.primitives.collective.ops import psum_p
from gpuarray.primitives.define import do
from gpuarray.primitives.reshard import cotangent_aval
from gpuarray.transforms.batch import BatchAxis, names_axis
from gpuarray.transforms.dead import narrow_call, set_narrow_rule
from gpuarray.transforms.graphs import batch_graph, jvp_graph, transpose_graph
from gpuarray.transforms.partial import PartialTrace, set_partial_rule, split_graph
from gpuarray.util import prod

P = PartitionSpec


def names_of_axis(part: Any) -> tuple:
    """Return the mesh axes that cut one axis of an array."""
    return names_of(part)


def names_in_spec(spec: PartitionSpec) -> tuple:
    """Return all mesh axes that a PartitionSpec mentions."""
    return tuple(name for part in spec.partitions for name in names_of_axis(part))


def _cuts(spec: PartitionSpec, mesh: Any, ndim: int) -> list[int]:
    """Return into how many pieces each axis is cut."""
    cuts = [prod(mesh.shape[n] for n in names_of_axis(part)) for part in spec.partitions]
    return cuts + [1] * (ndim - len(cuts))


def piece_aval(
    aval: ShapedArray, spec: PartitionSpec, mesh: Any, manual: frozenset, typed: bool
) -> ShapedArray:
    """Return the aval of one device's piece of a value."""
    cuts = _cuts(spec, mesh, aval.ndim)
    shape = tuple(n // c for n, c in zip(aval.shape, cuts, strict=True))
    # Axes of an enclosing shard_map along which it varied are kept.
    around = aval.vma - manual
    names = around | in_types(mesh).intersection(names_in_spec(spec)) if typed else around
    if typed and any(sums := sums_along(mesh, spec)):
        # All axes are manual then.
        return aval.update(shape=shape, layout=layout(names, sums=sums, space=space_in(aval)))
    cuts = cuts_of(aval.layout)
    # Explicit axes that are not manual cut the piece as they cut the whole.
    rest = cuts and tuple(tuple(n for n in part if n not in manual) for part in cuts)
    inside = None if aval.layout is None else aval.layout.mesh
    if inside is not None:
        kinds = {n: AxisType.Manual for n in inside.axis_names if n in manual}
        inside = inside.update_axis_types(kinds)
    return aval.update(shape=shape, layout=layout(names, inside, rest, space=space_in(aval)))


def _whole_aval(aval: ShapedArray, spec: PartitionSpec, mesh: Any, manual: frozenset):
    cuts = _cuts(spec, mesh, aval.ndim)
    shape = tuple(n * c for n, c in zip(aval.shape, cuts, strict=True))
    # Along Explicit axes of the mesh the type records the sharding of the spec.
    own = cuts_along(mesh.abstract_mesh, spec, aval.ndim)
    kept = cuts_of(aval.layout) or ((),) * aval.ndim
    cuts = tuple((*a, *b) for a, b in zip(own, kept, strict=True))
    sums = sums_along(mesh, spec)
    found = layout(aval.vma - manual, mesh.abstract_mesh, cuts, sums, space_in(aval))
    return aval.update(shape=shape, layout=found)


class axes_inside:
    """Context manager inside a `shard_map`: its axes have names, and are manual in the mesh."""

    __slots__ = ("_block", "_mesh", "_names")

    def __init__(self, mesh: Any, manual: frozenset, typed: bool):
        spoken_of = in_types(mesh) if typed else ()
        self._names = named_axes(
            {n: NamedAxis(mesh.shape[n], n in spoken_of) for n in mesh.axis_names if n in manual}
        )
        # Inside another shard_map over the mesh, its axes are manual already.
        around = contexts.abstract
        if around is None or around.shape_tuple != mesh.shape_tuple:
            around = mesh.abstract_mesh
        self._mesh = around.update_axis_types(dict.fromkeys(manual, AxisType.Manual))

    def __enter__(self) -> None:
        self._block = contexts.changed(abstract=self._mesh)
        self._block.__enter__()
        self._names.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._names.__exit__()
        self._block.__exit__(*exc)


def _aval(*avals, jaxpr: Graph, mesh, in_specs, out_specs, manual_axes, check_vma):
    for number, (aval, spec, v) in enumerate(zip(avals, in_specs, jaxpr.invars, strict=True)):
        piece = piece_aval(aval, spec, mesh, manual_axes, check_vma)
        if (piece.shape, piece.dtype) != (v.aval.shape, v.aval.dtype):
            raise TypeError(
                f"shard_map: operand {number} of type {aval.str_short()} under {spec} has pieces "
                f"of type {piece.str_short()}; its Graph takes {v.aval.str_short()}"
            )
    return [
        _whole_aval(a, spec, mesh, manual_axes)
        for a, spec in zip(jaxpr.out_avals, out_specs, strict=True)
    ]


def _inside(params: dict) -> axes_inside:
    """Return the context to transform the Graph in: rules of the user's may be traced."""
    return axes_inside(params["mesh"], params["manual_axes"], params["check_vma"])


# ---- derivatives ----


def _jvp(primals: list, tangents: list, *, jaxpr: Graph, in_specs, out_specs, **params):
    nonzero = tuple(not is_zero(t) for t in tangents)
    with _inside(params):
        derived = jvp_graph(jaxpr, nonzero)
    out = shard_map_p.bind(
        *primals,
        *chosen(tangents, nonzero),
        jaxpr=derived.graph,
        # A tangent is sharded like its primal.
        in_specs=(*in_specs, *chosen(in_specs, nonzero)),
        out_specs=(*out_specs, *chosen(out_specs, derived.outputs)),
        **params,
    )
    out, found = cut(out, len(out_specs))
    none = [Zero(tangent_aval(aval_of(x))) for x in others(out, derived.outputs)]
    return out, merged(derived.outputs, found, none)


def _transpose(cts, *operands, jaxpr, mesh, in_specs, out_specs, manual_axes, check_vma):
    linear = tuple(map(is_undefined, operands))
    nonzero = tuple(not is_zero(ct) for ct in cts)
    with axes_inside(mesh, manual_axes, check_vma):
        graph, outputs, refs, _ = transpose_graph(jaxpr, linear, nonzero)
    if refs:
        raise ValueError(
            "a rule for cotangents inside of shard_map reads or writes a mutable array reference "
            f"of type {refs[0].type} from outside: each device would write another value. Return "
            "the value as a cotangent."
        )
    known_specs = others(in_specs, linear)
    linear_specs = [spec.to_ct_spec() for spec in chosen(in_specs, linear)]
    ct_specs = [spec.to_ct_spec() for spec in chosen(out_specs, nonzero)]
    # Shardings carry over: the cotangent of an operand is sharded like the operand, that of a
    # result like the result.
    found_specs = chosen(linear_specs, outputs)
    if not check_vma:
        # Mesh axes that shard an enclosing vmap hold different elements, not replicas.
        shared = manual_axes - spread_names()
        graph = _without_types(graph, mesh, shared, len(known_specs), ct_specs, found_specs)
    found = shard_map_p.bind(
        *others(operands, linear),
        *chosen(cts, nonzero),
        jaxpr=graph,
        mesh=mesh,
        in_specs=(*known_specs, *ct_specs),
        out_specs=tuple(found_specs),
        manual_axes=manual_axes,
        check_vma=check_vma,
    )
    none = [Zero(cotangent_aval(x.aval)) for x in others(chosen(operands, linear), outputs)]
    return merged(linear, merged(outputs, found, none), [None] * (len(operands) - sum(linear)))


def _without_types(
    graph: Graph, mesh: Any, manual: frozenset, known: int, ct_specs: list, found_specs: list
) -> Graph:
    """Return a transposed Graph that is right even though types do not record replication.

    A result that is replicated along some axes is one device's, so each device gets its share of
    the cotangent; a replicated operand gets the sum of all devices' cotangents.
    """
    named = lambda spec: {*names_in_spec(spec), *spec.unreduced}
    left_out = lambda spec: tuple(n for n in mesh.axis_names if n in manual - named(spec))
    key = ("without types", mesh, manual, known, tuple(ct_specs), tuple(found_specs))
    if key not in graph.derived:

        def fun(*values):
            fixed, cts = cut(values, known)
            shares = []
            for ct, spec in zip(cts, ct_specs, strict=True):
                # This many devices have the same result, and each would contribute the whole
                # cotangent.
                size = prod(mesh.shape[n] for n in left_out(spec))
                shares.append(ct if size == 1 else do.div(ct, _like(ct, size)))
            found = evaluate(graph, *fixed, *shares)
            return [
                psum_p.bind(x, axes=left_out(spec), axis_index_groups=None)[0]
                if left_out(spec)
                else x
                for x, spec in zip(found, found_specs, strict=True)
            ]

        graph.derived[key] = staged(fun, graph.in_avals, "transpose", graph.debug_name)
    return graph.derived[key]


def _like(x: Any, value: float) -> Any:
    """Return a number as a scalar of the dtype of `x`."""
    return aval_of(x).dtype.type(value)


# ---- partial evaluation: known now, unknown later ----


def _partial(trace: PartialTrace, args: tuple, flags: list[bool], params: dict) -> list:
    """Split into two: the first runs now, and returns the residuals of each device.

    A residual is returned with one more leading axis, sharded along all mesh axes along which it
    may vary: so no device needs data of another one.
    """
    params = dict(params)
    jaxpr, in_specs, out_specs = (params.pop(k) for k in ("jaxpr", "in_specs", "out_specs"))
    mesh, manual = params["mesh"], params["manual_axes"]
    with _inside(params):
        split = split_graph(jaxpr, flags)
    avals = split.known.out_avals[len(split.known.outvars) - split.residuals :]
    typed = params["check_vma"]
    # Known results and residuals leave the first half; the second one takes residuals and
    # unknown operands.
    specs = [_residual_spec(a, mesh, manual, typed) for a in avals]
    known_graph = _with_stacked(split.known, split.residuals, False)
    rest_graph = _with_stacked(split.unknown, split.residuals, True)
    assert trace.parent is not None
    with traces.current(trace.parent):
        out = shard_map_p.bind(
            *others(args, flags),
            jaxpr=known_graph,
            in_specs=tuple(others(in_specs, flags)),
            out_specs=(*others(out_specs, split.out_unknown), *specs),
            **params,
        )
    # Residuals are the last results of the first half.
    known, residuals = cut(out, len(out) - split.residuals)
    rest = trace.unknown.process(
        shard_map_p,
        (*residuals, *chosen(args, flags)),
        {
            "jaxpr": rest_graph,
            "in_specs": (*specs, *chosen(in_specs, flags)),
            "out_specs": tuple(chosen(out_specs, split.out_unknown)),
            **params,
        },
    )
    return merged(split.out_unknown, rest, known)


def _keep(eqn: Eqn, separate: Separate) -> KeptInside | None:
    """A value has a piece on each device: these are stacked along one more axis."""
    params, made = eqn.params, separate(eqn.params["jaxpr"])
    if not made.values:
        return None
    mesh, manual, typed = params["mesh"], params["manual_axes"], params["check_vma"]
    # Kept values leave stacked along a new first axis, as residuals do.
    specs = tuple(_residual_spec(v.aval, mesh, manual, typed) for v in made.values)
    count = len(specs)
    now = params | {
        "jaxpr": _with_stacked(made.now, count, False),
        "out_specs": (*params["out_specs"], *specs),
    }
    again = params | {
        "jaxpr": _with_stacked(made.again, count, True),
        "in_specs": (*specs, *params["in_specs"]),
    }
    found = shard_map_p.out_avals([a.aval for a in eqn.invars], now)
    values = [Var(a) for a in found[len(eqn.outvars) :]]
    return KeptInside(
        eqn.replace(outvars=[*eqn.outvars, *values], params=now),
        eqn.replace(invars=[*values, *eqn.invars], params=again),
        values,
    )


def _narrow(eqn: Eqn, used: list[bool]) -> Eqn:
    specs = tuple(chosen(eqn.params["out_specs"], used))
    return narrow_call(eqn.replace(params=eqn.params | {"out_specs": specs}), used, "in_specs")


def _residual_spec(aval: ShapedArray, mesh: Any, manual: frozenset, typed: bool) -> PartitionSpec:
    # Along axes that a vmap around cuts, devices have other elements, each with its residual.
    along = aval.vma if typed else manual - spread_names()
    names = tuple(n for n in mesh.axis_names if n in along and n in manual)
    unreduced, reduced = sums_of(aval.layout) if typed else NO_SUMS
    return P(names or None, unreduced=unreduced, reduced=reduced)


def _with_stacked(graph: Graph, count: int, at_inputs: bool) -> Graph:
    """Return a Graph whose residuals (its first inputs, or last outputs) have one more axis."""
    key = ("stacked", count, at_inputs)
    if key not in graph.derived:
        longer = lambda a: a.update(shape=(1, *a.shape))

        def fun(*values):
            values, rest = cut(values, count if at_inputs else len(values))
            if at_inputs:
                # A device has one element along the new axis: its own.
                values = [_reshape(x, aval_of(x).shape[1:]) for x in values]
            out = evaluate(graph, *values, *rest)
            if at_inputs:
                return out
            out, residuals = cut(out, len(out) - count)
            return [*out, *(_reshape(x, (1, *aval_of(x).shape)) for x in residuals)]

        avals = list(graph.in_avals)
        if at_inputs:
            avals[:count] = map(longer, avals[:count])
        graph.derived[key] = staged(fun, avals, "partial evaluation", graph.debug_name)
    return graph.derived[key]


def _reshape(x: Any, shape: Sequence[int]) -> Any:
    return do.reshape(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


# ---- batching ----


def _batch(axis: BatchAxis, args: list, dims: list, *, jaxpr, in_specs, out_specs, **params):
    mesh, manual, typed = params["mesh"], params["manual_axes"], params["check_vma"]
    named = {n for spec in (*in_specs, *out_specs) for n in names_in_spec(spec)}
    # The mesh axes that shard the batch axis, as given to vmap or in the operands' types.
    if not axis.spread:
        axis = axis._replace(spread=_spread_by_types(args, dims, manual - named))
    # Mesh axes along which the batch axis is cut (vmap's spmd_axis_name).
    if unknown := [n for n in axis.spread if n not in mesh.axis_names]:
        raise ValueError(
            f"vmap spmd_axis_name {unknown[0]!r} is not an axis of the mesh of the shard_map or "
            f"sharding constraint inside: {mesh.axis_names}"
        )
    spread = tuple(n for n in axis.spread if n in manual)
    if taken := sorted(map(str, named.intersection(spread))):
        raise ValueError(
            f"vmap spmd_axis_name cannot appear in shard_map in_specs or out_specs: "
            f"{', '.join(map(repr, taken))} is in {[*in_specs, *out_specs]}"
        )
    # Devices along these axes have other elements, which a collective would mix.
    if heard := [n for n in spread if names_axis(shard_map_p, {"jaxpr": jaxpr}, n)]:
        raise mapped_along(manual, mesh, heard[0])
    cuts = prod(mesh.shape[n] for n in spread)
    if axis.size % cuts:
        raise ValueError(
            f"vmap maps over {axis.size} elements, and spmd_axis_name {spread} spreads them over "
            f"{cuts} devices, which must evenly divide them"
        )
    inside = axis._replace(
        size=axis.size // cuts,
        spread=tuple(n for n in axis.spread if n not in spread),
        # Inside, a mesh axis of the same name is meant.
        name=None if axis.name in manual else axis.name,
    )
    # Devices along these axes have other elements, so mapped inputs vary along them.
    if spread and typed:
        jaxpr = _varying_more(jaxpr, tuple(d is not None for d in dims), spread)
    put = lambda spec, dim: with_axis(spec, dim, spread)
    # With the batch axis put into its spec, each operand is cut as before, and types of pieces
    # follow.
    layouts = tuple(
        piece_aval(aval_of(x), put(spec, d), mesh, manual, typed).layout
        for x, spec, d in zip(args, in_specs, dims, strict=True)
    )
    with axes_inside(mesh, manual, typed):
        derived = batch_graph(jaxpr, inside, tuple(dims), layouts=layouts)
    outputs = derived.outputs
    if spread:
        # Every result differs between the devices that have different elements.
        outputs = tuple(0 if d is None else d for d in outputs)
        with axes_inside(mesh, manual, typed):
            derived = batch_graph(jaxpr, inside, tuple(dims), outputs, layouts)
    out = shard_map_p.bind(
        *args,
        jaxpr=derived.graph,
        in_specs=tuple(map(put, in_specs, dims)),
        out_specs=tuple(map(put, out_specs, outputs)),
        **params,
    )
    return out, list(outputs)


def mapped_along(manual: frozenset, mesh: Any, name: Any) -> ValueError:
    """Return the error for a mesh axis that already shards the elements of an enclosing vmap."""
    given, left = (sorted(map(str, names)) for names in (manual, {*mesh.axis_names} - {name}))
    return ValueError(
        f"jax.shard_map requires axis_names={given} to be a subset of the axes of the mesh that "
        f"vmap leaves, {left}: the axis that vmap maps over is cut along {name!r}, so a device "
        "has only its own elements, and specs and collectives cannot name it. Lay the arguments "
        "of vmap otherwise, or map over pieces inside of shard_map."
    )


def _spread_by_types(args: Sequence[Any], dims: Sequence[Any], free: frozenset) -> tuple:
    """Return those of these mesh axes that shard the batch axis according to types."""
    for x, d in zip(args, dims, strict=True):
        cuts = cuts_of(aval_of(x).layout)
        if d is not None and cuts and (names := tuple(n for n in cuts[d] if n in free)):
            return names
    return ()


def _varying_more(graph: Graph, which: tuple[bool, ...], names: tuple) -> Graph:
    """Return a Graph some of whose inputs vary along more axes."""
    key = ("varying more", which, names)
    if key not in graph.derived:
        avals = [
            a.update(layout=with_names(a.layout, a.vma.union(names))) if more else a
            for a, more in zip(graph.in_avals, which, strict=True)
        ]
        fun = lambda *values: evaluate(graph, *values)
        graph.derived[key] = staged(fun, avals, "vmap", graph.debug_name)
    return graph.derived[key]


def with_axis(spec: PartitionSpec, dim: int | None, names: tuple) -> PartitionSpec:
    """Return the spec of a value that has a batch axis, which is cut along these mesh axes."""
    if dim is None:
        return spec
    part = None if not names else names[0] if len(names) == 1 else names
    parts = [*spec.partitions, *[None] * (dim - len(spec))]
    return spec.update(partitions=(*parts[:dim], part, *parts[dim:]))


def _flow(eqn: Eqn) -> ByDevice:
    params = eqn.params
    mesh = params["mesh"]
    automatic = frozenset(mesh.axis_names) - params["manual_axes"]
    return ByDevice(params["jaxpr"], mesh, params["in_specs"], params["out_specs"], automatic)


shard_map_p = Primitive(
    "shard_map",
    Kind.CALL,
    multiple_results=True,
    aval=_aval,
    flow=_flow,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
)
set_partial_rule(shard_map_p, _partial)
set_narrow_rule(shard_map_p, _narrow)
set_keep_rule(shard_map_p, _keep)
