"""What a program says beside its arithmetic: units with a name, choices by platform, tokens, where
values lie.

Floor 6. In: functions and pytrees. Out: their results. What needs several devices that run side by
side says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import numpy as np

from gpuarray.api.jit import jit
from gpuarray.control.callbacks import debug_callback_p
from gpuarray.control.shard_map import laid
from gpuarray.core.avals import aval_of
from gpuarray.core.mesh import NamedSharding, PartitionSpec
from gpuarray.core.sharding import Sharding
from gpuarray.core.trace import Tracer
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.lax.bodies import check_operands
from gpuarray.lax.collectives import axis_size
from gpuarray.lax.elementwise import optimization_barrier
from gpuarray.lax.shapes import full
from gpuarray.pytree import tree
from gpuarray.runtime.device import default_place
from gpuarray.runtime.transfer import device_put


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """`decomposition` as a unit of this name: printed programs show it as one call.

    Arrays go in by position; keyword arguments are attributes, constants of the unit. version: for
    readers of programs, kept as the function's `version`.

    >>> from gpuarray import lax
    >>> scaled = lax.composite(lambda x, *, by: by * x, "my.scaled")
    >>> scaled(2.0, by=3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a composite must be a string, got {name!r}")

    # One jitted function for equal attributes, so that calls are found in its cache.
    @functools.lru_cache(256)
    def unit(names: tuple[str, ...], values: tuple) -> Callable:
        return _named(functools.partial(decomposition, **dict(zip(names, values, strict=True))))

    def _named(function: Callable) -> Callable:
        def run(*args: Any) -> Any:
            return function(*args)

        run.__name__ = name
        return jit(run)

    @boundary
    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        names, values = tuple(attributes), tuple(attributes.values())
        # Attributes that cannot be keys make a unit of their own for this call.
        if all(isinstance(v, Hashable) and not isinstance(v, Array) for v in values):
            return unit(names, values)(*args)
        return _named(functools.partial(decomposition, **attributes))(*args)

    call.__dict__.update(name=name, version=version)
    return call


@boundary
def platform_dependent(
    *args: Any, default: Callable | None = None, **per_platform: Callable
) -> Any:
    """`function(*args)` of the function given for the platform that programs run on.

    Platforms are those of programs, "cpu" and "cuda" among them; that of the default device counts
    when the call is traced. The functions are different ways to compute the same.

    >>> from gpuarray import lax
    >>> lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: 1 + x)
    Array(3., dtype=float32, weak_type=True)
    """
    # Refused as in JAX: "gpu" names a kind of device, "cuda" what programs are made for.
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
    return jit(chosen)(*args)


# ---- order ----


def create_token(_: Any = None) -> Array:
    """A token: operations that take it run after its creation.

    >>> from gpuarray import lax
    >>> lax.create_token().size
    0
    """
    # An array of no elements: it costs nothing and orders all the same.
    return full((0,), False)


def after_all(*operands: Any) -> Array:
    """A token that is available when all operands are.

    >>> from gpuarray import lax
    >>> lax.after_all(lax.create_token(), lax.create_token()).size
    0
    """
    return optimization_barrier((create_token(), *operands))[0]


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep `val` from being removed as dead code.

    >>> from gpuarray import lax
    >>> lax.dce_sink(1.0)
    """
    leaves = check_operands(tree.flatten(val)[0])
    # An effect is what keeps an operation: this one does nothing.
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
    one_for_all = isinstance(shardings, (Sharding, PartitionSpec)) or shardings is None
    given = [shardings] * len(leaves) if one_for_all else tree.prefix_broadcast(shardings, x)
    return tree.unflatten(
        spec, [_constrained(leaf, s) for leaf, s in zip(leaves, given, strict=True)]
    )


def _constrained(x: Any, sharding: Any) -> Any:
    if sharding is None:
        raise ValueError(
            "One of with_sharding_constraint arguments got sharding None which is not allowed: "
            "pass a Sharding"
        )
    if isinstance(sharding, PartitionSpec):
        raise RuntimeError(
            "with_sharding_constraint requires a non-empty mesh in context if you are passing "
            f"`PartitionSpec`s to shardings, got {sharding}. Pass NamedSharding(mesh, spec)."
        )
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "shardings leaf specifications are expected to be Sharding or PartitionSpec instances, "
            f"but got {sharding!r}"
        )
    shape = aval_of(x).shape
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        raise ValueError(
            "One of with_sharding_constraint arguments is incompatible with its sharding "
            f"annotation {sharding}: it is only valid for values of rank at least "
            f"{len(sharding.spec)}, but was applied to a value of rank {len(shape)}"
        )
    if isinstance(x, Tracer) and isinstance(sharding, NamedSharding) and sharding.mesh.size > 1:
        return laid(x, sharding)
    return device_put(x, sharding)


def psend(x: Any, axis_name: Any, perm: Any) -> NoReturn:
    """Send a value along a named axis to devices that wait for it in `precv`."""
    _needs_devices("psend", axis_name)


def precv(token: Any, out_shape: Any, axis_name: Any, perm: Any) -> NoReturn:
    """Receive what another device sent along a named axis with `psend`."""
    _needs_devices("precv", axis_name)


def _needs_devices(name: str, axis_name: Any) -> NoReturn:
    size = axis_size(axis_name)  # an unbound name is the first thing to be said
    raise NotImplementedError(
        f"{name} along {axis_name!r}: it needs {np.int64(size)} devices that run at once. Along an "
        "axis of vmap use ppermute, all_to_all or all_gather."
    )
