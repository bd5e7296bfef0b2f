"""Meshes with Explicit axes: `reshard`, and parts of programs with other axis types.

Floor 6. In: values and their new shardings. Out: the same values; functions that are traced with
other axis types.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from gpuarray.core import trace as traces
from gpuarray.core.abstract_mesh import AbstractMesh, AxisType
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.layout import cuts_of, unclear_is_whole
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec, contexts
from gpuarray.core.mesh_context import get_abstract_mesh, use_abstract_mesh
from gpuarray.core.spec import UNCONSTRAINED, names_of
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.primitives.reshard import laid, without_types
from gpuarray.pytree import tree
from gpuarray.runtime.transfer import device_put
from gpuarray.util import elements, wraps, wrong_type


def _ends(x: Any) -> bool:
    return x is None or isinstance(x, (NamedSharding, PartitionSpec))


@boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """Reshard values over a mesh; along its Explicit axes the new sharding is part of their types.

    Parameters
    ----------
    xs :
        A pytree of arrays, traced or not.
    out_shardings :
        A NamedSharding, or a PartitionSpec over the mesh in context, for each leaf, as a prefix of
        the pytree.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.sharding import NamedSharding, PartitionSpec as P, reshard
    >>> mesh = ga.make_mesh((1,), ("x",))
    >>> reshard(gnp.arange(4), NamedSharding(mesh, P("x")))
    Array([0, 1, 2, 3], dtype=int32)
    """
    leaves, spec = tree.flatten(xs)
    given = tree.prefix_broadcast(out_shardings, xs, _ends, "reshard out_shardings")
    return tree.unflatten(spec, [_resharded(x, s) for x, s in zip(leaves, given, strict=True)])


def _resharded(x: Any, sharding: Any) -> Any:
    if sharding is None:
        raise ValueError(
            "Reshard should only be used with out_shardings which are non-None and have a "
            "non-empty mesh. Got sharding None."
        )
    if not isinstance(sharding, (NamedSharding, PartitionSpec)):
        raise TypeError(
            "`out_sharding` argument of reshard only supports instances of `NamedSharding` or "
            f"`PartitionSpec`. Got {sharding} of type: {type(sharding)}"
        )
    if isinstance(sharding, PartitionSpec):
        sharding = _over_mesh_of(x, sharding, "reshard")
    else:
        _check_explicit(sharding, "reshard", "NamedSharding")
    aval = aval_of(x)
    # Errors name the value now: inside a program they would name an operation of the library.
    sharding.check_compatible_aval(aval.shape)
    sharding.shard_shape(aval.shape)  # raises where it does not divide the shape
    # Traced, the type changes, and partitioning finds the exchange; else the array moves now.
    if isinstance(x, traces.Tracer):
        return laid(x, _open_along_auto(sharding, aval))
    return device_put(x, _with_devices(sharding, x)._of_rank(aval.ndim))


def _open_along_auto(sharding: NamedSharding, aval: ShapedArray) -> NamedSharding:
    """Return a sharding that leaves Auto axes of its mesh to the compiler: no type names them."""
    mesh = sharding.mesh.abstract_mesh
    if not mesh.auto_axes:
        return sharding
    given = cuts_of(aval.layout) or ((),) * aval.ndim
    spec = sharding.spec.partitions
    # Axes that are sharded along Explicit axes, and should not be, must be gathered.
    parts = [
        UNCONSTRAINED if part is None and not {*mesh.explicit_axes}.intersection(cut) else part
        for part, cut in zip_longest(spec, given)
    ]
    return NamedSharding(sharding.mesh, sharding.spec.update(partitions=parts))


def _over_mesh_of(x: Any, spec: PartitionSpec, what: str) -> NamedSharding:
    """Return a spec over the mesh in context, else over that of a value's type."""
    mesh = get_abstract_mesh()
    if mesh.empty:
        # The mesh of the type first, then that of the array.
        mesh = aval_of(x).sharding.mesh
    if mesh.empty:
        own = getattr(x, "sharding", None) if not isinstance(x, traces.Tracer) else None
        mesh = own.mesh if isinstance(own, NamedSharding) else mesh
    if mesh.empty:
        raise ValueError(
            f"PartitionSpec cannot be passed to {what} when there is no mesh in context. Set one "
            f"with `gpuarray.set_mesh(mesh)`, or pass NamedSharding(mesh, spec). Got {spec}"
        )
    sharding = NamedSharding(mesh, spec)
    _check_explicit(sharding, what, "PartitionSpec")
    return sharding


def _check_explicit(sharding: NamedSharding, what: str, given: str) -> None:
    mesh = sharding.mesh
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for part in sharding.spec.partitions:
        if part is PartitionSpec.UNCONSTRAINED:
            raise ValueError(
                f"{given} passed to {what} cannot be UNCONSTRAINED along an axis: {sharding.spec}. "
                "with_sharding_constraint takes that."
            )
        for name in names_of(part):
            if types[name] is not AxisType.Explicit:
                raise ValueError(
                    f"PartitionSpec passed to {what} cannot contain axis names that are of type "
                    f"Auto or Manual. Got PartitionSpec: {sharding.spec} with axis name: {name} of "
                    f"type: {types[name]!r}. Along Auto axes use with_sharding_constraint or "
                    "device_put."
                )


def _with_devices(sharding: NamedSharding, x: Any) -> NamedSharding:
    """Return a sharding over an AbstractMesh as one over the devices that are meant."""
    if not isinstance(sharding.mesh, AbstractMesh):
        return sharding
    own = getattr(x, "sharding", None)
    # The mesh in context comes first, then that of the value itself.
    known = (contexts.concrete, own.mesh if isinstance(own, NamedSharding) else None)
    for mesh in known:
        if isinstance(mesh, Mesh) and mesh.shape_tuple == sharding.mesh.shape_tuple:
            return sharding.update(mesh=mesh)
    raise ValueError(
        f"reshard over {sharding.mesh} does not know its devices: set the mesh with "
        "gpuarray.set_mesh(mesh), or give NamedSharding(mesh, spec)."
    )


def makes_terms(out_sharding: Any) -> bool:
    """Whether an operation that runs immediately should return terms of a sum.

    It has to run as a program (`as_program`): on its own it would make the sum.
    """
    spec = getattr(out_sharding, "spec", out_sharding)
    return isinstance(spec, PartitionSpec) and bool(spec.unreduced) and traces.is_base()


def as_program(f: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function as one program of the arrays among its arguments."""
    return _traced(lambda values, call: call(values), f, args, kwargs)


# ---- parts of a program with other types of axes ----


def auto_axes(
    f: Callable | None = None,
    /,
    *,
    axes: str | Sequence[str] | None = None,
    out_sharding: Any = None,
) -> Any:
    """Make a function inside which the compiler decides shardings along Explicit axes.

    It is a way out where a layout does not follow from types: only the results need one.

    Parameters
    ----------
    axes :
        The axes of the mesh to leave to the compiler; by default all that are Explicit.
    out_sharding :
        The sharding of each result: a PartitionSpec or NamedSharding, as a prefix of the result. It
        may be given in the call instead, as `out_sharding=`.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.sharding import PartitionSpec as P, auto_axes
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",))):
    ...     auto_axes(lambda x: x.reshape(4), out_sharding=P("x"))(gnp.ones((2, 2)))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    _check_options("auto_axes", f, axes, "out_sharding", out_sharding)

    @boundary
    @wraps(f)
    def decided(*args, **kwargs):
        outs = _option("out_sharding", out_sharding, kwargs)
        mesh = _mesh_for(args, "auto_axes", outs)
        if mesh is None:
            return f(*args, **kwargs)  # without a mesh the compiler decides everything
        # The body is traced under the same mesh with other types of axes: its values lose their
        # layouts by type.
        inside = mesh.update_axis_types(_changed(mesh, axes, AxisType.Auto, "auto_axes"))

        def body(leaves: list, call: Callable) -> Any:
            with use_abstract_mesh(inside), unclear_is_whole():
                out = call([without_types(x, inside) for x in leaves])
            return _all_laid(out, outs, mesh, "auto_axes")

        return _traced(body, f, args, kwargs)

    return decided


def explicit_axes(
    f: Callable | None = None,
    /,
    *,
    axes: str | Sequence[str] | None = None,
    in_sharding: Any = None,
) -> Any:
    """Make a function inside which types record shardings along Auto axes.

    Parameters
    ----------
    axes :
        The axes of the mesh that become Explicit; by default all that are Auto.
    in_sharding :
        The sharding of each argument inside: a PartitionSpec or NamedSharding, as a prefix of the
        arguments. It may be given in the call instead, as `in_sharding=`.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.sharding import AxisType, PartitionSpec as P, explicit_axes
    >>> with ga.set_mesh(ga.make_mesh((1,), ("x",), (AxisType.Auto,))):
    ...     explicit_axes(gnp.sin, in_sharding=P("x"))(gnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    _check_options("explicit_axes", f, axes, "in_sharding", in_sharding)

    @boundary
    @wraps(f)
    def decided(*args, **kwargs):
        ins = _option("in_sharding", in_sharding, kwargs)
        mesh = _mesh_for(args, "explicit_axes", ins)
        if mesh is None:
            raise ValueError(
                "Context mesh cannot be empty for explicit_axes. Set one with "
                "`gpuarray.set_mesh(mesh)`, or lay an argument over a mesh."
            )
        inside = mesh.update_axis_types(_changed(mesh, axes, AxisType.Explicit, "explicit_axes"))
        specs = tree.prefix_broadcast(ins, args, _ends, "explicit_axes in_sharding")
        leaves = tree.flatten(args)[0]
        # Keyword arguments, which come after the others, keep their sharding.
        specs = [s for s, x in zip(specs, leaves, strict=True) if _is_array(x)]

        def body(leaves: list, call: Callable) -> Any:
            with use_abstract_mesh(inside):
                given = [_laid(x, s, inside) for x, s in zip_longest(leaves, specs)]
                out = call(given)
            # Outside, the mesh has its own axis types again, for which these layouts are
            # meaningless.
            found, structure = tree.flatten(out)
            return tree.unflatten(structure, [without_types(x, mesh) for x in found])

        return _traced(body, f, args, kwargs)

    return decided


def _option(name: str, value: Any, kwargs: dict) -> Any:
    """Return an option given either earlier or in this call, and remove it from the keyword
    arguments.
    """
    found = kwargs.pop(name, None) if value is None else value
    if found is None:
        raise TypeError(f"Missing required keyword argument: {name!r}")
    return found


def _check_options(what: str, f: Any, axes: Any, name: str, shardings: Any) -> None:
    """Refuse options of other types at the call that takes them."""
    if not callable(f):
        raise TypeError(f"{what} expected a callable value, got {f!r}")
    if not (axes is None or isinstance(axes, str)):
        for axis in elements(axes, f"`axes` of {what}: names of axes of the mesh"):
            if not isinstance(axis, Hashable):
                raise wrong_type(axis, f"`axes` of {what}: names of axes of the mesh")
    for sharding in tree.tree_flatten(shardings, _ends)[0]:
        if not _ends(sharding):
            raise TypeError(
                f"`{name}` of {what} takes PartitionSpecs and NamedShardings, got {sharding!r} of "
                f"type {type(sharding)}"
            )


def _mesh_for(args: Any, what: str, given: Any) -> AbstractMesh | None:
    """Return the mesh in context, else that of `given` shardings or of an argument; else None."""
    mesh = get_abstract_mesh()
    for s in tree.flatten(given)[0]:
        if not isinstance(s, NamedSharding) or s.mesh.empty:
            continue
        if not mesh.empty and mesh.shape_tuple != s.mesh.shape_tuple:
            raise ValueError(
                f"{what} got a sharding over {s.mesh}, and its other shardings or the mesh in "
                f"context have the axes {mesh}: give PartitionSpecs, or set the same mesh."
            )
        mesh = s.mesh.abstract_mesh if mesh.empty else mesh
    if not mesh.empty:
        return mesh
    for x in tree.flatten(args)[0]:
        sharding = x.aval.sharding if isinstance(x, traces.Tracer) else getattr(x, "sharding", None)
        if isinstance(sharding, NamedSharding) and not sharding.mesh.empty:
            return sharding.mesh.abstract_mesh
    return None


def _changed(mesh: AbstractMesh, axes: Any, kind: AxisType, what: str) -> dict:
    """Return the axes that become another type, with that type."""
    manual = set(mesh.manual_axes)
    if axes is None:
        return {n: kind for n in mesh.axis_names if n not in manual}
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    for name in names:
        if name not in mesh.axis_names:
            raise ValueError(
                f"{what} got the axis {name!r}, and the mesh has the axes {mesh.axis_names}"
            )
        if name in manual:
            raise NotImplementedError(
                f"Going from `Manual` AxisType to `Auto` or `Explicit` AxisType is not allowed: "
                f"{what} got the axis {name!r}, which is Manual by a shard_map around"
            )
    return dict.fromkeys(names, kind)


def _is_array(x: Any) -> bool:
    return isinstance(x, (Array, np.ndarray, np.generic))


def _traced(body: Callable, f: Callable, args: tuple, kwargs: dict) -> Any:
    """Trace `body` on the arrays among the arguments, in a new program if there is none."""
    leaves, spec = tree.flatten((args, kwargs))
    # Only arrays are traced: other arguments, such as functions, are passed unchanged.
    here = [i for i, x in enumerate(leaves) if _is_array(x)]

    def call(values: list) -> Any:
        filled = list(leaves)
        for i, x in zip(here, values, strict=True):
            filled[i] = x
        args, kwargs = tree.unflatten(spec, filled)
        return f(*args, **kwargs)

    arrays = [leaves[i] for i in here]
    # Layouts inside are decided only in a program, so make one if there is none.
    if traces.is_base():
        return jit(lambda values: body(values, call))(arrays)
    return body(arrays, call)


def _all_laid(out: Any, shardings: Any, mesh: AbstractMesh, what: str) -> Any:
    leaves, spec = tree.flatten(out)
    given = tree.prefix_broadcast(shardings, out, _ends, f"{what} out_sharding")
    return tree.unflatten(spec, [_laid(x, s, mesh) for x, s in zip(leaves, given, strict=True)])


def _laid(x: Any, sharding: Any, mesh: AbstractMesh) -> Any:
    if isinstance(sharding, PartitionSpec):
        sharding = NamedSharding(mesh, sharding)
    if sharding is None:
        return x
    sharding.check_compatible_aval(aval_of(x).shape)
    sharding.shard_shape(aval_of(x).shape)
    return laid(x, sharding)
