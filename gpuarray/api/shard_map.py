"""`shard_map`: a function that each device of a mesh applies to its pieces.

Floor 6. In: a function of pieces, and how arguments and results are cut along the axes of a mesh.
Out: the function of whole arrays. It is traced once for each kind of arguments; inside, collectives
such as `lax.psum` name axes of the mesh.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gpuarray.control.graph_edits import opened
from gpuarray.control.shard_map import (
    axes_inside,
    names_in_spec,
    names_of_axis,
    piece_aval,
    shard_map_p,
)
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec
from gpuarray.core.tracebacks import boundary
from gpuarray.primitives.collective.ops import pcast_p
from gpuarray.pytree import tree
from gpuarray.transforms import trace_cache
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.util import elements, prod


class _Infer:
    """The value of `in_specs` that says: as the arguments lie."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Callable | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Any = None,
    axis_names: Iterable[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Map a function over the pieces that the devices of a mesh hold.

    Parameters
    ----------
    f :
        Function of pieces. Along the mesh's axes it may use collectives.
    out_specs, in_specs :
        A PartitionSpec for each result and argument, as a prefix of their pytrees: which axes of
        the array are cut along which axes of the mesh. By default arguments are cut as they lie.
    mesh :
        The devices, in a grid whose axes have names.
    axis_names :
        The axes of the mesh along which `f` is given pieces; by default all. Along the others
        values are laid out automatically.
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
    manual = _manual_axes(mesh, axis_names)
    in_specs = tuple(in_specs) if type(in_specs) is list else in_specs
    if in_specs is not Infer:
        _check_specs("in_specs", in_specs, mesh, manual)
    _check_specs("out_specs", out_specs, mesh, manual)
    if not isinstance(check_vma, bool):
        raise TypeError(f"shard_map check_vma must be a bool, got {check_vma!r}")

    @boundary
    @functools.wraps(f)
    def mapped(*args, **kwargs):
        if kwargs:
            raise TypeError(
                f"shard_map passes arguments by position only, got {', '.join(map(repr, kwargs))} "
                "by name"
            )
        leaves, spec = tree.flatten(args)
        avals = [aval_of(x) for x in leaves]
        specs = (
            [_inferred(x, mesh) for x in leaves]
            if in_specs is Infer
            else _over(in_specs, args, "in_specs")
        )
        what = getattr(f, "__name__", type(f).__name__)
        paths = tree.leaf_paths(args)
        for number, (aval, s) in enumerate(zip(avals, specs, strict=True)):
            _check_fits(f"in_specs of {what}, args{paths[number]}", aval, s, mesh)
        pieces = tuple(
            piece_aval(a, s, mesh, manual, check_vma) for a, s in zip(avals, specs, strict=True)
        )
        traced = _traced(f, pieces, spec, mesh, manual, out_specs, check_vma)
        out = _bound(traced, leaves, specs, mesh, manual, check_vma)
        return tree.unflatten(traced.out_spec, out)

    return mapped


def _bound(
    traced: _Traced,
    leaves: Sequence[Any],
    specs: Sequence[PartitionSpec],
    mesh: Mesh,
    manual: frozenset,
    check_vma: bool,
) -> list:
    # What the function closes over is an operand that every device has whole.
    consts = traced.graph.consts
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
    out_specs: Callable[[], Sequence[PartitionSpec]],
    mesh: Mesh,
) -> list:
    """Run a flat function of one device on flat values, without types of what varies.

    `out_specs` is asked when the function has been traced.
    """
    manual = frozenset(mesh.axis_names)
    pieces = [
        piece_aval(aval_of(x), s, mesh, manual, False) for x, s in zip(leaves, specs, strict=True)
    ]
    with axes_inside(mesh, manual, False):
        graph = stage(f, pieces, TracedFunction(f, "pmap"))
    traced = _Traced(graph, tuple(out_specs()), None)
    return _bound(traced, leaves, specs, mesh, manual, False)


class _Traced(NamedTuple):
    """The function of one device, and how its results are put together."""

    graph: Graph
    out_specs: tuple[PartitionSpec, ...]
    out_spec: Any


def _traced(
    f: Callable,
    pieces: tuple[ShapedArray, ...],
    spec: Any,
    mesh: Mesh,
    manual: frozenset,
    out_specs: Any,
    check_vma: bool,
) -> _Traced:
    def make() -> _Traced:
        specs: list[PartitionSpec] = []
        out_spec: Any = None

        def flat(*values):
            nonlocal specs, out_spec
            result = f(*tree.unflatten(spec, values))
            leaves, out_spec = tree.flatten(result)
            specs = _over(out_specs, result, "out_specs")
            paths = tree.leaf_paths(result)
            return [
                _result(x, s, p, f, mesh, manual, check_vma)
                for x, s, p in zip(leaves, specs, paths, strict=True)
            ]

        with axes_inside(mesh, manual, check_vma):
            graph = stage(flat, pieces, TracedFunction(f, "shard_map"))
        graph.debug_name = getattr(f, "__name__", type(f).__name__)
        return _Traced(graph, tuple(specs), out_spec)

    leaves, structure = tree.tree_flatten(out_specs, _is_spec)
    key = (pieces, spec, mesh, manual, tuple(leaves), structure, check_vma)
    return trace_cache.remembered(f, key, make, lambda made: made.graph.consts)


def _result(
    x: Any, spec: PartitionSpec, path: str, f: Any, mesh: Mesh, manual: frozenset, typed: bool
) -> Any:
    """Check that a result can be put together as its spec says."""
    aval = aval_of(x)
    if len(spec) > aval.ndim:
        raise ValueError(
            f"shard_map out_specs{path} is {spec}, with {len(spec)} entries, and the result of "
            f"{getattr(f, '__name__', f)} there has rank {aval.ndim} (type {aval.str_short()}): an "
            "entry for each axis at most. Add an axis (x[None]) to put scalars together."
        )
    if not typed:
        return x
    names = frozenset(names_in_spec(spec))
    more = sorted(map(str, (aval.vma & manual) - names))
    if more:
        listed = ", ".join(map(repr, more))
        raise ValueError(
            f"shard_map applied to {getattr(f, '__name__', f)} was given out_specs{path}={spec}, "
            f"which requires the result to be replicated along {listed}, and it may vary there: its "
            f"type is {aval.str_short()}. Reduce it (lax.psum(x, {listed})), gather it "
            f"(lax.all_gather(x, {listed}, to='invariant')), mention the axis in out_specs, or pass "
            "check_vma=False if you know that all devices have the same."
        )
    lacking = tuple(n for n in mesh.axis_names if n in names - aval.vma)
    return pcast_p.bind(x, axis_name=lacking) if lacking else x


# ---- specs ----


def _manual_axes(mesh: Any, axis_names: Iterable[Any]) -> frozenset:
    if mesh is None:
        raise ValueError(
            "shard_map needs a mesh: pass mesh=Mesh(devices, axis_names), or set one with "
            "gpuarray.set_mesh"
        )
    if not isinstance(mesh, Mesh):
        raise TypeError(f"shard_map requires a `jax.sharding.Mesh` instance, got {mesh!r}")
    names = (axis_names,) if isinstance(axis_names, str) else axis_names
    given = frozenset(elements(names, "a set of names of axes"))
    unknown = given.difference(mesh.axis_names)
    if unknown:
        raise ValueError(
            f"shard_map axis_names {sorted(map(str, unknown))} are not among the axes of the mesh, "
            f"{mesh.axis_names}"
        )
    return given or frozenset(mesh.axis_names)


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _check_specs(name: str, specs: Any, mesh: Mesh, manual: frozenset) -> None:
    """Refuse what is no PartitionSpec, and specs with axes that the mesh does not have."""
    if specs is None:
        raise TypeError(
            f"shard_map {name} must be a pytree of PartitionSpecs, got None: give P() for what is "
            "the same on all devices"
        )
    leaves, spec = tree.tree_flatten(specs, _is_spec)
    paths = tree.leaf_paths(tree.unflatten(spec, range(len(leaves))))
    for leaf, path in zip(leaves, paths, strict=True):
        at = f"{name}{path}"
        if not isinstance(leaf, PartitionSpec):
            raise TypeError(
                f"shard_map {name} argument must be a pytree of `jax.sharding.PartitionSpec` "
                f"instances, but {at} is {leaf!r} of type {type(leaf)}: give P() for what is the "
                "same on all devices"
            )
        names = names_in_spec(leaf)
        for n in names:
            if n not in mesh.axis_names:
                raise ValueError(
                    f"shard_map {at}={leaf} names the axis {n!r}, which the mesh does not have: its "
                    f"axes are {mesh.axis_names}"
                )
            if n not in manual:
                raise ValueError(
                    f"shard_map {at}={leaf} names the axis {n!r}, which is not among "
                    f"axis_names={sorted(map(str, manual))}: values are laid out automatically "
                    "along it"
                )
            if names.count(n) > 1:
                raise ValueError(f"shard_map {at}={leaf} names the axis {n!r} twice")


def _over(specs: Any, full: Any, name: str) -> list[PartitionSpec]:
    """Return the spec of every leaf."""
    return tree.prefix_broadcast(specs, full, _is_spec, f"shard_map {name}")


def _check_fits(what: str, aval: ShapedArray, spec: PartitionSpec, mesh: Mesh) -> None:
    if len(spec) > aval.ndim:
        raise ValueError(
            f"shard_map {what}: {spec} has {len(spec)} entries, and the argument rank {aval.ndim} "
            f"(type {aval.str_short()}): an entry for each axis at most"
        )
    for axis, (part, n) in enumerate(zip(spec, aval.shape, strict=False)):
        names = names_of_axis(part)
        cuts = prod(mesh.shape[name] for name in names)
        if n % cuts:
            longer = -(-n // cuts) * cuts
            raise ValueError(
                f"shard_map {what}: axis {axis} of {aval.str_short()} has length {n}, and {spec} "
                f"cuts it into {cuts} pieces (mesh axes {', '.join(map(repr, names))}), which must "
                f"evenly divide it. Pad it to {longer}."
            )


def _inferred(x: Any, mesh: Mesh) -> PartitionSpec:
    sharding = getattr(x, "sharding", None)
    if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        return sharding.spec
    raise ValueError(
        "shard_map without in_specs takes arguments that lie over the same mesh, got one of type "
        f"{aval_of(x).str_short()} with sharding {sharding}. Give in_specs."
    )
