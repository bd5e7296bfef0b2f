"""Parts of a program other than arithmetic: named units, choices by platform, tokens, placement.

Floor 6. In: functions and pytrees. Out: their results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from itertools import zip_longest
from typing import Any

from gpuarray.control.callbacks import debug_callback_p
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.axes import spread_names
from gpuarray.core.layout import cuts_of, sums_of
from gpuarray.core.mesh import (
    NamedSharding,
    PartitionSpec,
    contexts,
    cuts_along,
    sums_along,
    with_types_of,
)
from gpuarray.core.mesh_context import sharding_in_context
from gpuarray.core.sharding import Sharding, devices_of, laid_out
from gpuarray.core.spec import UNCONSTRAINED, names_of
from gpuarray.core.trace import Tracer
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.functions.argnums import Statics
from gpuarray.functions.jit import jit
from gpuarray.lax.bodies import check_operands
from gpuarray.lax.creation import full
from gpuarray.lax.elementwise import optimization_barrier
from gpuarray.primitives.reshard import laid
from gpuarray.pytree import tree
from gpuarray.runtime.device import default_place
from gpuarray.runtime.moves import stays_at
from gpuarray.runtime.transfer import device_put
from gpuarray.util import prod


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """Wrap `decomposition` as a named unit, which printed programs show as one call.

    Arrays are passed by position; keyword arguments are attributes, constants of the unit.

    Parameters
    ----------
    version :
        Number that is kept in the program, for its readers.

    Examples
    --------

    >>> from gpuarray import lax
    >>> scaled = lax.composite(lambda x, *, by: by * x, "my.scaled")
    >>> scaled(2.0, by=3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a composite must be a string, got {name!r}")

    # One jitted function for equal attributes, so that calls are found in its cache.
    @functools.lru_cache(256)
    def unit(attributes: Statics) -> Callable:
        return _named(functools.partial(decomposition, **dict(attributes)))

    def _named(function: Callable) -> Callable:
        # A new function: `decomposition` must not be renamed, and a partial has no name.
        def run(*args: Any) -> Any:
            return function(*args)

        run.__name__ = name
        return jit(run)

    @boundary
    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        # With attributes that cannot be keys, make a new unit for this call.
        values = attributes.values()
        if all(isinstance(v, Hashable) and not isinstance(v, Array) for v in values):
            return unit(Statics(attributes.items()))(*args)
        return _named(functools.partial(decomposition, **attributes))(*args)

    call.__dict__.update(name=name, version=version)
    return call


@boundary
def platform_dependent(
    *args: Any, default: Callable | None = None, **per_platform: Callable
) -> Any:
    """Call the function given for the platform that programs run on, with `args`.

    Platforms are named as lowering platforms, such as "cpu" and "cuda"; the default device at the
    time of tracing decides. The functions should compute the same result.

    >>> from gpuarray import lax
    >>> lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: 1 + x)
    Array(3., dtype=float32, weak_type=True)
    """
    # Refused as in JAX: "gpu" names a kind of device, "cuda" a lowering platform.
    if "gpu" in per_platform:
        raise ValueError(
            "lax.platform_dependent got a function for 'gpu': its platforms are those of programs. "
            "Use 'cuda' or 'rocm' for lax.platform_dependent."
        )
    platform = default_place().device.lowering_platform
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has a function for {', '.join(per_platform) or 'no platform'} and "
            f"none for {platform}: give one, or a `default`"
        )
    # Jitted, so that the choice is one call in the program, whatever the function consists of.
    return jit(chosen)(*args)


# ---- order ----


def create_token(_: Any = None) -> Array:
    """A token: operations that take it run after its creation.

    >>> from gpuarray import lax
    >>> lax.create_token().size
    0
    """
    # An empty array: it costs nothing and still orders operations.
    return full((0,), False)


def after_all(*operands: Any) -> Array:
    """A token that is available when all operands are.

    >>> from gpuarray import lax
    >>> lax.after_all(lax.create_token(), lax.create_token()).size
    0
    """
    # The barrier ties the token to the operands: it is an output of the same operation.
    return optimization_barrier((create_token(), *operands))[0]


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep `val` from being removed as dead code.

    >>> from gpuarray import lax
    >>> lax.dce_sink(1.0)
    """
    leaves = check_operands(tree.flatten(val)[0])
    # An operation with an effect is never removed: this one has an empty callback.
    debug_callback_p.bind(*leaves, callback=_sink, effect="DebugEffect", partitioned=False)


def _sink(avals: Any, buffers: Any, result_avals: Any) -> list:
    return []


# ---- devices ----


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The values placed on devices by `shardings`, which is a prefix of their pytree.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> here = ga.sharding.SingleDeviceSharding(ga.devices()[0])
    >>> ga.lax.with_sharding_constraint(gnp.ones(2), here)
    Array([1., 1.], dtype=float32)
    """
    leaves, spec = tree.flatten(x)
    # A sharding or None is a leaf; anything else is a prefix of the pytree.
    # A PartitionSpec is a tuple, which would otherwise be read as a pytree.
    one_for_all = isinstance(shardings, (Sharding, PartitionSpec)) or shardings is None
    given = (
        [shardings] * len(leaves)
        if one_for_all
        else tree.prefix_broadcast(shardings, x, _ends, "with_sharding_constraint shardings")
    )
    return tree.unflatten(
        spec, [_constrained(leaf, s) for leaf, s in zip(leaves, given, strict=True)]
    )


def _ends(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))


def _constrained(x: Any, sharding: Any) -> Any:
    if sharding is None:
        raise ValueError(
            "One of with_sharding_constraint arguments got sharding None which is not allowed: "
            "pass a Sharding"
        )
    if isinstance(sharding, PartitionSpec):
        sharding = sharding_in_context(
            sharding, "with_sharding_constraint", "shardings", error=RuntimeError
        )
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "shardings leaf specifications are expected to be PartitionSpec instances or None, "
            f"but got {sharding!r}. A Sharding is right, too."
        )
    aval = aval_of(x)
    if not isinstance(sharding, NamedSharding):
        if spread := spread_names():
            raise ValueError(
                "If you are using spmd_axis_name parameter of jax.vmap, please make sure to run "
                "your jitted function inside the mesh context manager, and give "
                f"with_sharding_constraint a NamedSharding: {sharding} has no mesh whose axis "
                f"{sorted(map(str, spread))} could cut the mapped axis."
            )
        if isinstance(x, Tracer):
            return stays_at(x, laid_out(sharding))
        _check_movable(x, sharding)
        return device_put(x, sharding)
    if sharding.mesh.empty:
        raise ValueError(
            f"One of shardings leaf specifications got an empty NamedSharding: {sharding} which is "
            "not allowed. Its mesh has no devices."
        )
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ValueError(
            "One of with_sharding_constraint arguments is incompatible with its sharding "
            f"annotation. {error}"
        ) from None
    traced = isinstance(x, Tracer)
    if sharding.mesh.are_all_axes_explicit:
        return _asserted(x, aval, sharding)
    sharding = _with_explicit_cuts(sharding, aval)
    if isinstance(sharding.mesh, AbstractMesh):
        sharding = _over_devices(sharding, x, traced)
    if traced:
        # One device has everything. Its plain placement is cheaper and equivalent to the
        # constraint, unless an enclosing vmap adds an axis to the spec.
        several = sharding.mesh.is_spread or spread_names()
        return laid(x, sharding) if several else stays_at(x, laid_out(sharding))
    if UNCONSTRAINED in sharding.spec.partitions:
        # The other axes keep their sharding, as in a program.
        return jit(lambda x: laid(x, sharding))(x)
    _check_movable(x, sharding)
    return device_put(x, sharding)


def _with_explicit_cuts(sharding: NamedSharding, aval: ShapedArray) -> NamedSharding:
    """Return a sharding along Auto axes, completed by the type's sharding along Explicit ones."""
    mesh, spec = sharding.mesh.abstract_mesh, sharding.spec
    explicit = {*mesh.explicit_axes}
    if not explicit:
        return sharding
    if any(name in explicit for part in spec.partitions for name in names_of(part)):
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto "
            f"axes of the mesh. Got spec={spec} and mesh={mesh}. You probably meant to use "
            "`reshard` API?"
        )
    cuts = cuts_of(aval.layout)
    if cuts is None:
        return sharding
    # The type's sharding is kept; unconstrained axes, and those that do not divide evenly, are not
    # sharded further.
    parts = []
    for part, cut, n in zip_longest(spec.partitions, cuts, aval.shape):
        names = (*cut, *names_of(part))
        even = n % prod(mesh.shape[name] for name in names) == 0
        parts.append(((names if even else cut) if cut else part) or None)
    while parts and parts[-1] is None:
        parts.pop()
    return NamedSharding(sharding.mesh, spec.update(partitions=parts))


def _asserted(x: Any, aval: ShapedArray, sharding: NamedSharding) -> Any:
    """Return a value whose type has the asserted sharding; AssertionError if it has another."""
    mesh, ndim = sharding.mesh.abstract_mesh, aval.ndim
    cuts = cuts_of(aval.layout) or ((),) * ndim
    parts = (*sharding.spec.partitions, *[None] * (ndim - len(sharding.spec.partitions)))
    wanted = cuts_along(mesh, sharding.spec, ndim)
    same = [UNCONSTRAINED is p or c == w for p, c, w in zip(parts, cuts, wanted, strict=True)]
    if all(same) and sums_of(aval.layout) == sums_along(mesh, sharding.spec):
        return x
    raise AssertionError(
        "`with_sharding_constraint` acts as an assert when all axes of mesh are of type "
        f"`Explicit`. The array sharding: {aval.sharding.spec} did not match the sharding "
        f"provided: {sharding.spec}. Please use `jax.sharding.reshard` to shard your input to the "
        "sharding you want."
    )


def _check_movable(x: Any, sharding: Sharding) -> None:
    """Refuse a value that was put on other devices: a constraint does not move between them."""
    place = getattr(x, "_place", None)
    if place is not None and place.committed and place.all_devices != devices_of(sharding):
        raise ValueError(
            "Received incompatible devices for jitted computation: the operand of "
            f"with_sharding_constraint is on {[d.id for d in place.all_devices]}, and the sharding "
            f"asks for {[d.id for d in devices_of(sharding)]}, in this order. device_put moves it."
        )


def _over_devices(sharding: NamedSharding, x: Any, traced: bool) -> NamedSharding:
    """Return a sharding over an AbstractMesh as one over the devices that are meant."""
    shape = sharding.mesh.shape_tuple
    concrete = contexts.concrete
    if concrete is not None and concrete.shape_tuple == shape:
        # `use_abstract_mesh` may have changed the types of its axes.
        return sharding.update(mesh=with_types_of(concrete, sharding.mesh))
    if traced:
        return sharding  # the program's devices are those of its arguments
    if not isinstance(x, Array):
        raise ValueError(
            "Target sharding contains a `gpuarray.sharding.AbstractMesh` which requires the input "
            f"passed should be a `jax.Array`. Got {type(x)} with shape {aval_of(x).str_short()}"
        )
    there = x.sharding
    if not isinstance(there, NamedSharding):
        raise TypeError(
            "The sharding on the input must be a `NamedSharding` since the target sharding has an "
            f"`AbstractMesh` in it. Got sharding type {type(there)} for shape "
            f"{aval_of(x).str_short()}"
        )
    if there.mesh.shape_tuple != shape:
        raise ValueError(
            f"Mesh shape of the input {there.mesh.shape_tuple} does not match the mesh shape of "
            f"the target sharding {shape} for shape {aval_of(x).str_short()}"
        )
    return sharding.update(mesh=there.mesh)
