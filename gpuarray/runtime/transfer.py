"""Transfers: host memory to arrays, arrays to other devices, arrays back to the host.

Floor 5. In: NumPy values, Python scalars, arrays. Out: ArrayImpls that own their memory, or NumPy
arrays.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from gpuarray.config import state
from gpuarray.control.shard_map import names_in_spec
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.abstract_mesh import AbstractMesh, AxisType
from gpuarray.core.avals import MASKED, ShapedArray, aval_of
from gpuarray.core.formats import Format
from gpuarray.core.formats import Layout as MemoryLayout
from gpuarray.core.layout import cuts_of
from gpuarray.core.memories import KIND_OF, Space
from gpuarray.core.mesh import NamedSharding, PartitionSpec, contexts
from gpuarray.core.mesh_context import entered_mesh, get_abstract_mesh, sharding_in_context
from gpuarray.core.sharding import Device, Place, Sharding, laid_out, one_device
from gpuarray.core.value import Array
from gpuarray.primitives.elementwise.arithmetic import stage_p
from gpuarray.primitives.memory import in_memory
from gpuarray.primitives.reshard import laid
from gpuarray.pytree import tree
from gpuarray.runtime import device as devices
from gpuarray.runtime import lazy, processes, spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.host import from_host
from gpuarray.runtime.moves import device_put_p, stays_at, to_place
from gpuarray.runtime.stream import wait_for_all


def _check_same(x: Any, place: Place) -> None:
    """Raise on all processes unless each puts the same value on devices of them all."""
    what = f"device_put of {aval_of(x).str_short()} to devices of several processes"
    value = x._fetched(explicit=True) if type(x) is ArrayImpl else np.asarray(x)
    if not processes.same_bytes([np.ascontiguousarray(value).tobytes()], place.all_devices, what):
        raise ValueError(
            f"{what}: the value is not the same in all processes. Where each has a part of it, use "
            "gpuarray.make_array_from_process_local_data(sharding, part)."
        )


def borrowed(x: Any, place: Place) -> ArrayImpl:
    """Return an array over the memory of a GPU's DLPack capsule, which its owner keeps."""
    gpu = devices.gpu_of(place.device)
    assert gpu is not None
    buffer = gpu.import_dlpack(x)
    return ArrayImpl(ShapedArray(buffer.shape, buffer.dtype), place, [buffer])


def device_put(x, device=None, *, src=None, donate=False, may_alias=None):
    """Move the leaves of a pytree to a device, by default to the default device.

    Parameters
    ----------
    x :
        A pytree of arrays, NumPy values and Python scalars.
    device :
        A Device, Sharding, Format, name of a device or `memory.Space`, or a pytree of them that is
        a prefix of `x`.
    src :
        The device or Sharding that the leaves must have now.
    donate :
        Whether to free the memory of leaves that move.
    may_alias :
        False copies arrays that are on the device already.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga
    >>> ga.device_put(np.ones((2, 3))).dtype
    dtype('float32')
    """
    leaves, spec = tree.flatten_raw(x)
    options = {"device": device, "src": src, "donate": donate, "may_alias": may_alias}
    rows = zip(leaves, *(_for_each(*o, x, len(leaves)) for o in options.items()), strict=True)
    return tree.unflatten_raw(spec, [_put_leaf(*row) for row in rows])


def _for_each(name: str, given: Any, x: Any, count: int) -> list:
    """Return an option of device_put for each leaf; None in a tree of options means no
    preference.
    """
    if isinstance(given, PartitionSpec):
        given = sharding_in_context(given, "device_put", "device")
    if given is None or isinstance(given, (bool, Device, Sharding, str, Place, Format, Space)):
        return [given] * count
    if isinstance(given, MemoryLayout):
        raise ValueError(
            "`device_put` takes a Device, a Sharding, a Format or a pytree of these, and got a "
            f"Layout: {given}. Say where the array is to lie, too: Format(layout, sharding)."
        )
    ends = lambda d: d is None or isinstance(d, PartitionSpec)
    found = tree.prefix_broadcast(given, x, ends, f"device_put {name}")
    return [
        sharding_in_context(d, "device_put", "device") if isinstance(d, PartitionSpec) else d
        for d in found
    ]


def _as_array(x: Any) -> Any:
    """Return `x`; in a derivative a Python number is converted as operations convert it."""
    return stage_p.bind(x) if isinstance(x, Array) and x.bare else x


def _put_leaf(x, target, src, donate: bool, may_alias: bool | None) -> Any:
    # 1. The request: a Format or a kind of memory as the equivalent place.
    x = _as_array(x)
    if donate and may_alias:
        raise ValueError("may_alias and donate cannot be True at the same time.")
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(MASKED)
    if isinstance(target, Format):
        if target.layout is MemoryLayout.AUTO:
            raise ValueError(
                "sharding and layout in a `Format` must be concrete for device_put. Got "
                f"{target} for input {aval_of(x).str_short()}"
            )
        target = target.sharding_of(aval_of(x).shape, "the argument of device_put")
    if isinstance(target, Space):
        here = x._place if type(x) is ArrayImpl else devices.default_place()
        if isinstance(x, traces.Tracer):
            return x if target is Space.Any else in_memory(x, target)
        kind = here.kind if target is Space.Any else KIND_OF[target]
        target = laid_out(here.sharding.with_memory_kind(kind), here.committed)
    # 2. Whether that can be: the sharding fits, and `src` does not contradict.
    place = None if target is None else devices.place_for(target)
    if isinstance(target, NamedSharding):
        target.check_compatible_aval(np.shape(x))
    # In a shard_map called outside jit a value would leave the devices of the mesh. In a jitted one
    # nothing moves: a request for a device there concerns the whole program.
    if place is not None and not place.is_spread and getattr(traces.state.trace, "known", None):
        raise ValueError(
            "device_put inside of shard_map must leave values on the devices of its mesh, and got "
            f"device {place.device}: leave the device out, or call device_put outside"
        )
    back = None if src is None else devices.place_for(src)
    # Only where the user has put an array can contradict `src`.
    put = type(x) is ArrayImpl and x._place.committed
    if put and back is not None and x._place.devices != back.devices:
        where = ", ".join(map(str, x._place.devices))
        raise ValueError(f"device_put got src={src!r}, and an array that is on {where}")
    # 3. A traced value: the move is recorded, or the program constrained.
    if isinstance(x, traces.Tracer):
        return x if place is None else device_put_p.bind(x, place=place, src=back)
    if state.transfer_guard_host_to_device is not None and not isinstance(x, Array):
        devices.guard("host_to_device", f"aval={aval_of(x)}", explicit=True)
    if place is not None and place.spans and not (type(x) is ArrayImpl and x._place.spans):
        _check_same(x, place)
    # 4. A concrete one: own its memory, then move it.
    try:
        # The copy is explicit, so guards against implicit copies do not apply.
        if isinstance(x, np.ndarray):
            with devices.copying(x.nbytes, "the caller", "the host"):
                copied = np.array(x)
            # Of terms of a sum no device gets a part of the value.
            here = None if place is None or place.sharding._is_terms else place
            array = from_host(copied, None, here, copy=False)
        else:
            array = from_host(x)
    except TypeError:
        if isinstance(x, (np.ndarray, np.generic)):
            raise  # no array has its dtype, as the error says
        raise TypeError(
            f"Argument {x!r} of type {type(x)} is not a valid JAX type: device_put takes arrays, "
            "NumPy values, Python scalars and containers of them"
        ) from None
    if may_alias is False and array is x:
        array = deepcopy(array)
    if place is not None:
        array = to_place(array, place)
    # Nothing to free if the array is returned unchanged.
    if donate and array is not x and type(x) is ArrayImpl:
        x._bufs = None
    return array


def placed(what: str, x: Any, sharding: Any, device: Any = None) -> Any:
    """Return a result placed by the options `out_sharding` or `device` of function `what`.

    If both are None it stays in place.
    """
    if sharding is None:
        return x if device is None else device_put(x, device)
    if device is not None:
        raise ValueError(
            f"{what} takes `device` or `out_sharding`, not both: got {device!r} and {sharding!r}"
        )
    if isinstance(sharding, PartitionSpec):
        if get_abstract_mesh().empty and entered_mesh().empty:
            raise ValueError(
                f"Using PartitionSpec when you are not under a mesh context is not allowed: {what} "
                f"got out_sharding={sharding}. Set one with gpuarray.set_mesh(mesh), or pass "
                "NamedSharding(mesh, spec)."
            )
        sharding = sharding_in_context(sharding, what, "out_sharding")
    elif not isinstance(sharding, (Sharding, Device)):
        one_device(sharding, f"`out_sharding` argument of {what}")  # raises
    if isinstance(sharding, NamedSharding):
        _check_explicit(what, sharding)
    return placed_like(x, sharding)


def placed_like(x: Any, sharding: Sharding | Device | None) -> Any:
    """Return a value with a given sharding, such as that of the array it is made like.

    If None it stays in place.
    """
    if sharding is None:
        return x
    if isinstance(sharding, NamedSharding):
        aval = aval_of(x)
        sharding = sharding._of_rank(aval.ndim)
        sharding.shard_shape(aval.shape)  # raises for a spec with too many axes
        if sharding.mesh.empty:  # `typeof(x).sharding` without a mesh
            return x
        # The program decides the layout of values made while tracing.
        if sharding.mesh.is_spread and (isinstance(x, traces.Tracer) or not traces.is_base()):
            return laid(x, sharding)
        sharding = over_devices(sharding) or sharding
    if isinstance(x, traces.Tracer):
        return stays_at(x, devices.place_for(sharding))
    # As a place: a sharding given by the user may name no more axes than there are.
    return device_put(x, devices.place_for(sharding))


def _check_explicit(what: str, sharding: NamedSharding) -> None:
    """Refuse a sharding for a result that its type cannot express."""
    around = get_abstract_mesh()
    own = sharding.mesh.abstract_mesh
    if not (around.empty or own.empty) and (around.shape_tuple, around.axis_types) != (
        own.shape_tuple,
        own.axis_types,
    ):
        raise ValueError(
            f"Context mesh {around} should match the mesh of sharding {own} passed to {what}. Lay "
            "a result over another mesh with device_put, or set that mesh."
        )
    kinds = dict(zip(sharding.mesh.axis_names, sharding.mesh.axis_types, strict=True))
    for name in names_in_spec(sharding.spec):
        if kinds[name] is not AxisType.Explicit:
            raise ValueError(
                f"PartitionSpec passed to {what} cannot contain axis names that are of type Auto "
                f"or Manual. Got {sharding.spec} with the axis {name!r}, which is "
                f"{kinds[name].name}. Lay the result with lax.with_sharding_constraint or "
                "device_put."
            )


def over_devices(sharding: NamedSharding) -> NamedSharding | None:
    """Return a sharding over an AbstractMesh as one over the mesh in context; None if it has other
    axes, or there is none.
    """
    if not isinstance(sharding.mesh, AbstractMesh):
        return sharding
    here = contexts.concrete
    if here is None or here.shape_tuple != sharding.mesh.shape_tuple:
        return None
    return sharding.update(mesh=here)


def laid_in_context(x: ArrayImpl) -> ArrayImpl:
    """Return an array that was just made of host memory on the devices of the mesh in context."""
    if contexts.concrete is None or not traces.is_base():
        return x
    place = spread.place_of_new()
    return x if place is None else to_place(x, place)


def sharding_like(x: Any, shape: tuple[int, ...]) -> Sharding | None:
    """Return the sharding of an array of this shape made like `x`; None leaves it open."""
    if isinstance(x, traces.Tracer):
        return x.aval.sharding if x.shape == shape and cuts_of(x.aval.layout) else None
    if type(x) is ArrayImpl and not x._place.committed:
        return None
    # A ShapeDtypeStruct may say it as well.
    sharding = getattr(x, "sharding", None)
    if isinstance(sharding, NamedSharding):
        around = None if traces.is_base() else contexts.abstract
        # A program over the very axes learns its devices later.
        if around is None or around.shape_tuple != sharding.mesh.shape_tuple:
            sharding = over_devices(sharding)
    # An array of another shape can have the same sharding if it is replicated.
    if isinstance(sharding, Sharding) and (shape == x.shape or sharding.is_fully_replicated):
        return sharding
    return None


def device_get(x):
    """Return the leaves of a pytree as NumPy arrays on the host.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.device_get({"a": gnp.arange(3)})
    {'a': array([0, 1, 2], dtype=int32)}
    """
    leaves, spec = tree.flatten_raw(x)
    # Start all copies before waiting for the first.
    for leaf in leaves:
        if isinstance(leaf, ArrayImpl):
            leaf.copy_to_host_async()
    return tree.unflatten_raw(spec, [_fetched(v) for v in leaves])


def _fetched(x: Any) -> Any:
    """Return the host value of an array; random keys and traced values are returned unchanged."""
    if isinstance(x, ArrayImpl) and not isinstance(x.dtype, dtypes.ExtendedDType):
        return x._fetched(explicit=True)
    return x


def block_until_ready(x):
    """Wait for every array in a pytree; return the pytree."""
    leaves = tree.flatten_raw(x)[0]
    for leaf in leaves:
        if hasattr(leaf, "is_ready"):
            leaf.is_ready()  # dispatch everything before waiting for the first
    for leaf in leaves:
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x):
    """Start copying all arrays in a pytree to the host, others' too; return the pytree."""
    for leaf in tree.flatten_raw(x)[0]:
        if isinstance(leaf, ArrayImpl):
            leaf.copy_to_host_async()
        elif not isinstance(leaf, Array) and hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def effects_barrier() -> None:
    """Wait until everything dispatched so far has run, callbacks included."""
    lazy.flush_all()
    wait_for_all()
    devices.wait_for_gpus()
