"""`shard_map`: a function that each device of a mesh applies to its pieces.

Floor 6. In: a function of pieces, and how arguments and results are sharded along the axes of a
mesh. Out: the function of whole arrays. It is traced once for each set of argument types; inside,
collectives such as `lax.psum` name axes of the mesh.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.api import shard_map_specs as specs_of
from gpuarray.api.shard_map_specs import Infer as Infer
from gpuarray.api.shard_map_values import Values
from gpuarray.control.graph_edits import cut, opened
from gpuarray.control.shard_map import axes_inside, names_in_spec, piece_aval, shard_map_p
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.layout import unreduced_of
from gpuarray.core.mesh import Mesh, PartitionSpec, contexts, in_types, sums_along
from gpuarray.core.tracebacks import boundary
from gpuarray.primitives.collective.ops import pcast_p
from gpuarray.primitives.collective.sums import vary_unreduced_cast_p
from gpuarray.pytree import tree
from gpuarray.transforms import passing, references, trace_cache
from gpuarray.transforms.tracing import TracedFunction, stage_aux
from gpuarray.util import name_of, wraps


def shard_map(
    f: Callable | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Map a function over the pieces that the devices of a mesh hold.

    Parameters
    ----------
    f :
        Function of pieces. Along the mesh's axes it may use collectives. Mutable references among
        its arguments are references to pieces; the written pieces are assembled with the same
        sharding.
    out_specs, in_specs :
        A PartitionSpec for each result and argument, as a prefix of their pytrees: the mesh axes
        that shard each axis of the array. None as an in_spec passes an argument unchanged. By
        default arguments keep their sharding along the mesh's Explicit axes.
    mesh :
        The devices, in a grid whose axes have names. By default the mesh in context (`set_mesh`).
        An AbstractMesh takes its devices from there or from the arguments.
    axis_names :
        The set of axes of the mesh along which `f` is given pieces; by default all. Along the
        others the layout is automatic.
    check_vma :
        Whether to prove that results are the same on all devices along axes that `out_specs` does
        not mention.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> total = ga.shard_map(
    ...     lambda v: ga.lax.psum(v.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
    ... )
    >>> total(gnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise TypeError(f"Expected a callable value, got {f}")
    if not isinstance(check_vma, bool):
        raise TypeError(f"shard_map check_vma must be a bool, got {check_vma!r}")
    # A list of specs is treated as a tuple: as a pytree it would not be a prefix of the arguments.
    in_specs = tuple(in_specs) if type(in_specs) is list else in_specs
    # The resolved mesh and axes, by what is in context.
    known: dict[Any, tuple[Any, frozenset]] = {}

    def meant() -> tuple[Any, frozenset]:
        found = known.get(contexts.key)
        if found is None:
            real = specs_of.mesh_meant(mesh)
            manual = specs_of.manual_axes(real, axis_names)
            if in_specs is Infer:
                specs_of.check_inferable(real, manual)
            else:
                specs_of.check_specs("in_specs", in_specs, real, manual)
            specs_of.check_specs("out_specs", out_specs, real, manual)
            found = known[contexts.key] = (real, manual)
        return found

    @boundary
    @wraps(f)
    def mapped(*args, **kwargs):
        if kwargs:
            raise TypeError(
                f"shard_map passes arguments by position only, got {', '.join(map(repr, kwargs))} "
                "by name"
            )
        real, manual = meant()
        leaves, spec = tree.flatten(args)
        refs = {i: x for i, x in enumerate(leaves) if isinstance(x, references.Ref)}
        # References enter as values and return as results: the function of one device gets its own
        # references.
        if refs:
            passing.taken_out(args, "shard_map")  # raises where one is passed twice
            leaves = [x.get() if i in refs else x for i, x in enumerate(leaves)]
        # 1. The mesh with its devices, and how each leaf of the arguments is cut.
        real = specs_of.with_devices(real, leaves)
        if in_specs is Infer:
            specs = [specs_of.inferred(x, real, manual) for x in leaves]
        else:
            specs = specs_of.over(in_specs, args, "in_specs")
        # Arguments whose spec is None are not arrays: the function gets them unchanged.
        for i, ref in refs.items():
            if specs[i] is None:
                raise ValueError(
                    f"shard_map in_specs is None for {tree.leaf_paths(args)[i]}, a reference of "
                    f"type {ref.type}: give it the PartitionSpec of its array"
                )
        # 2. Separate arrays from the rest: only arrays are sharded, and their specs have to fit
        # them.
        fixed = tuple(None if s is not None else (x,) for x, s in zip(leaves, specs, strict=True))
        referred = _Referred(tuple(refs), tuple(specs[i] for i in refs))
        leaves = [x for x, s in zip(leaves, specs, strict=True) if s is not None]
        paths = [p for p, s in zip(tree.leaf_paths(args), specs, strict=True) if s is not None]
        specs = [s for s in specs if s is not None]
        avals = [aval_of(x) for x in leaves]
        specs_of.check_left(real, manual, specs, out_specs)
        for path, aval, s in zip(paths, avals, specs, strict=True):
            specs_of.check_fits(f, path, aval, s, real)
            specs_of.check_types(path, aval, s, real, manual)
        # 3. The function of one device, traced on the types of its pieces.
        pieces = tuple(
            piece_aval(a, s, real, manual, check_vma) for a, s in zip(avals, specs, strict=True)
        )
        inside = _Inside(f, spec, fixed, referred, real, manual, out_specs, check_vma)
        values = None
        # Outside `jit` the arrays are available, so Python code in the function may read values
        # that are the same on all devices.
        if traces.is_base() and isinstance(real, Mesh):
            values = Values(leaves, specs, real, manual, check_vma)
        traced = _traced(inside, pieces, values)
        # 4. One equation of all devices, whose last results are the new values of references.
        out = _bound(traced, leaves, specs, real, manual, check_vma)
        out, written = cut(out, len(out) - len(refs))
        references.write_back(list(refs.values()), written)
        return tree.unflatten(traced.out_spec, out)

    return mapped


def smap(
    f: Callable | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any
) -> Any:
    """Map a function over pieces along one axis of the mesh in context.

    Parameters
    ----------
    f :
        Function of pieces.
    in_axes, out_axes :
        The sharded axis of each argument and result, as a prefix of their pytrees; None for values
        that are the same on all devices.
    axis_name :
        The axis of the mesh.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",))):
    ...     ga.smap(lambda v: v * 2, in_axes=0, out_axes=0, axis_name="x")(gnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, (list, tuple)):
        raise TypeError(f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}")
    if not (in_axes is None or in_axes is Infer or isinstance(in_axes, (int, tuple))):
        raise TypeError(
            "smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries for the "
            f"positional arguments, but got {in_axes}."
        )

    def specs(name: str, axes: Any) -> Any:
        if axes is Infer:
            return axes
        leaves, structure = tree.tree_flatten(axes, lambda x: x is None)
        if not all(x is None or isinstance(x, int) for x in leaves):
            raise TypeError(
                f"smap {name} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes}."
            )
        cut = [PartitionSpec() if d is None else _along(d, axis_name) for d in leaves]
        return tree.unflatten(structure, cut)

    return shard_map(
        f,
        in_specs=specs("in_axes", in_axes),
        out_specs=specs("out_axes", out_axes),
        axis_names={axis_name},
    )


def _along(axis: int, name: Any) -> PartitionSpec:
    return PartitionSpec(*[None] * axis, name)


def _bound(
    traced: _Traced,
    leaves: Sequence[Any],
    specs: Sequence[PartitionSpec],
    mesh: Any,
    manual: frozenset,
    check_vma: bool,
) -> list:
    # Values that the function closes over are replicated operands.
    consts = traced.graph.consts
    for aval in map(aval_of, consts):
        if unreduced_of(aval.layout):
            raise ValueError(
                "a function of shard_map closes over a value of type "
                f"{aval.str_short(True)}, whose devices hold terms of a sum: give it as an "
                "argument, and say unreduced in its in_specs, or sum it up first with reshard."
            )
    return shard_map_p.bind(
        *consts,
        *leaves,
        jaxpr=opened(traced.graph),
        mesh=mesh,
        in_specs=(*[PartitionSpec()] * len(consts), *specs),
        out_specs=traced.out_specs,
        manual_axes=manual,
        check_vma=check_vma,
    )


def by_device(
    f: Callable,
    leaves: Sequence[Any],
    specs: Sequence[PartitionSpec],
    mesh: Any,
) -> tuple[list, Any]:
    """Run a flat function of one device on flat values, without types that record what varies.

    Also returns the specs of the results, and the structure of the whole result.
    """
    manual = frozenset(mesh.axis_names)
    pieces = [
        piece_aval(aval_of(x), s, mesh, manual, False) for x, s in zip(leaves, specs, strict=True)
    ]
    with axes_inside(mesh, manual, False):
        graph, beside = stage_aux(f, pieces, TracedFunction(f, "pmap"))
    traced = _Traced(graph, *beside)
    return _bound(traced, leaves, specs, mesh, manual, False), traced.out_spec


class _Traced(NamedTuple):
    """The traced function of one device, and the specs of its results."""

    graph: Graph
    out_specs: tuple[PartitionSpec, ...]
    out_spec: Any


class _Referred(NamedTuple):
    """The leaves of the arguments that are mutable references, and how their arrays are cut."""

    places: tuple[int, ...]
    specs: tuple[PartitionSpec, ...]


class _Inside(NamedTuple):
    """The function of one device, and everything that its trace depends on except the types of its
    pieces.
    """

    f: Callable
    spec: Any
    #: For each leaf of the arguments, (value,) if it is passed unchanged.
    fixed: tuple
    referred: _Referred
    mesh: Any
    manual: frozenset
    out_specs: Any
    typed: bool

    def arguments(self, pieces: Sequence[Any]) -> tuple[Any, list[references.Ref]]:
        """Return the arguments of the function, which has these pieces among them.

        The second result has the references that hold pieces.
        """
        given = iter(pieces)
        leaves = [next(given) if one is None else one[0] for one in self.fixed]
        refs = [references.Ref(leaves[i]) for i in self.referred.places]
        for i, ref in zip(self.referred.places, refs, strict=True):
            leaves[i] = ref
        return tree.unflatten(self.spec, leaves), refs

    def written(self, refs: Sequence[references.Ref]) -> list:
        """Return the pieces that references hold when the function has returned."""
        path, pairs = " of the array of a reference", zip(refs, self.referred.specs, strict=True)
        return [self.checked(ref.get(), spec, path) for ref, spec in pairs]

    def results(self, result: Any) -> tuple[list, Any, tuple[PartitionSpec, ...]]:
        """Return the leaves of a result, their structure, and their specs."""
        leaves, structure = tree.flatten(result)
        specs = specs_of.over(self.out_specs, result, "out_specs")
        paths = tree.leaf_paths(result)
        out = [self.checked(*one) for one in zip(leaves, specs, paths, strict=True)]
        return out, structure, tuple(specs)

    def checked(self, x: Any, spec: PartitionSpec | None, path: str) -> Any:
        """Return a result with the type of its spec; raise if it cannot be assembled that way."""
        references.refuse_reference(x, TracedFunction(self.f, "shard_map"))
        if spec is None:
            raise ValueError(
                f"shard_map out_specs{path} is None, and the result there is {x!r}: give P() for "
                "what is the same on all devices"
            )
        aval, mesh = aval_of(x), self.mesh
        specs_of.check_rank(self.f, "out_specs", f"the result{path}", aval, spec)
        if not self.typed:
            return x
        # A replicated value may be assembled like pieces: a cast marks it as varying.
        lacking = in_types(mesh).intersection(names_in_spec(spec)) - aval.vma
        if names := tuple(n for n in mesh.axis_names if n in lacking):
            x = pcast_p.bind(x, axis_name=names)
        lacking = sums_along(mesh, spec)[0] - unreduced_of(aval.layout)
        if names := tuple(n for n in mesh.axis_names if n in lacking):
            x = vary_unreduced_cast_p.bind(x, axes=names)
        specs_of.check_replicated(self.f, path, aval_of(x), spec, mesh, self.manual)
        specs_of.check_sums(path, aval_of(x), spec, mesh)
        return x


def _traced(inside: _Inside, pieces: tuple[ShapedArray, ...], values: Values | None) -> _Traced:
    f = inside.f

    def make() -> _Traced:
        def flat(*given):
            # The staging trace calls this when Python needs the value of a tracer.
            traces.state.trace.known = values  # pyright: ignore[reportAttributeAccessIssue]
            arguments, refs = inside.arguments(given)
            leaves, out_spec, specs = inside.results(f(*arguments))
            beside = (*specs, *inside.referred.specs), out_spec
            return [*leaves, *inside.written(refs)], beside

        with axes_inside(inside.mesh, inside.manual, inside.typed):
            graph, beside = stage_aux(flat, pieces, TracedFunction(f, "shard_map"))
        graph.debug_name = name_of(f)
        return _Traced(graph, *beside)

    if any(one is not None for one in inside.fixed):
        return make()  # those values are unknown here
    leaves, structure = tree.tree_flatten(inside.out_specs, specs_of.is_spec)
    key = (pieces, inside.spec, inside.fixed, inside.referred, inside.mesh, inside.manual)
    # Outside of jit functions may look at values, and are refused to leave the mesh's devices.
    key = (*key, tuple(leaves), structure, inside.typed, values is None)
    # Where Python has looked at values, another call may go another way: that is not kept.
    looked = () if values is None else values.looked
    return trace_cache.remembered(f, key, make, lambda made: [*made.graph.consts, *looked])
