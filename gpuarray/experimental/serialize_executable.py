"""Compiled functions as bytes, to be loaded by another process without the code they came from.

Floor 6. In: `jit(f).lower(x).compile()`. Out: bytes and the structures of arguments and result. The
program is stored as `export` stores it, so it is checked and compiled where it is loaded; compiled
kernels come from the cache on disk, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core.sharding import SingleDeviceSharding
from gpuarray.export.exported import Exported, deserialize
from gpuarray.functions.jit import jit
from gpuarray.functions.stages import Compiled, ShapeDtypeStruct
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.runtime.device import Device, devices
from gpuarray.util import elements

__all__ = ["deserialize_and_load", "serialize"]

__getattr__ = _explain_names(__name__)


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled function as bytes, with the structures of (args, kwargs) and of the result.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import serialize_executable as se
    >>> compiled = ga.jit(lambda x: {"y": x + 1}).lower(gnp.ones(2)).compile()
    >>> se.deserialize_and_load(*se.serialize(compiled))(gnp.zeros(2))
    {'y': Array([1., 1.], dtype=float32)}
    """
    if not isinstance(compiled, Compiled):
        raise TypeError(
            f"serialize takes a compiled function, jit(f).lower(x).compile(), got {compiled!r}."
        )
    if compiled.touched is not None:
        raise ValueError(
            "A function of mutable references cannot be stored: give it their values as arguments, "
            "and return the new ones."
        )
    if len(compiled._devices()) > 1:
        raise ValueError(
            "A program of several devices cannot be stored: store the one of a single device, and "
            "say where arrays lie when it runs."
        )
    program = Exported(compiled.jaxpr, compiled.in_tree, compiled.out_tree, compiled.fun_name)
    return bytes(program.serialize()), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """The compiled function in bytes that `serialize` made.

    Parameters
    ----------
    in_tree, out_tree :
        The structures that came with them.
    backend, execution_devices :
        The platform, or the one device, to compile for; by default the default one.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import serialize_executable as se
    >>> stored = se.serialize(ga.jit(gnp.sin).lower(gnp.ones(2)).compile())
    >>> se.deserialize_and_load(*stored, backend="cpu")(gnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    program = deserialize(serialized)
    if program.in_tree != in_tree or program.out_tree != out_tree:
        raise ValueError(
            "in_tree and out_tree must be the structures that `serialize` returned with the bytes: "
            f"{program.in_tree} and {program.out_tree}. Got {in_tree} and {out_tree}."
        )
    place = _device(backend, execution_devices)
    sharding = None if place is None else SingleDeviceSharding(place)
    args, kwargs = tree.tree_unflatten(
        in_tree,
        [ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in program.in_avals],
    )
    run = lambda *args, **kwargs: program.call(*args, **kwargs)
    run.__name__ = program.fun_name
    return jit(run).lower(*args, **kwargs).compile()


def _device(backend: Any, execution_devices: Sequence[Device] | None) -> Device | None:
    if execution_devices is not None:
        given = elements(execution_devices, "a sequence of one Device")
        if len(given) != 1:
            raise ValueError(
                f"A stored program runs on one device, got execution_devices={execution_devices!r}."
            )
        (device,) = given
        if not isinstance(device, Device):
            raise TypeError(f"execution_devices holds a Device, as devices() has, got {device!r}.")
        platform = getattr(backend, "platform", backend)
        if platform is not None and device.platform != platform:
            raise ValueError(
                "Execution devices belong to a client other than `backend`. Got backend "
                f"{platform!r} and a device of {device.platform!r}."
            )
        return device
    if backend is None:
        return None
    return devices(getattr(backend, "platform", backend))[0]
