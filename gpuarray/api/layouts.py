"""The options `device`, `in_shardings` and `out_shardings` of `jit`.

Floor 6. In: those options. Out: the device or devices that the compiled function runs on, which
arguments may be moved to them, and where each result is said to lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuarray.control.call import same_device
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Graph
from gpuarray.core.mesh import NamedSharding, PartitionSpec
from gpuarray.core.sharding import Device, Place, Sharding, laid_out, one_device, place_of
from gpuarray.pytree import tree
from gpuarray.runtime import device as devices
from gpuarray.runtime import lazy, pieces, spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.execute import Constants, Executable, launch
from gpuarray.runtime.transfer import to_place


class Prefix(NamedTuple):
    """Shardings as a prefix of a pytree, in a form that can be hashed."""

    name: str
    leaves: tuple[Sharding | None, ...]
    spec: Any

    def over(self, full: Any, avals: Sequence[ShapedArray]) -> list[Sharding | None]:
        """The sharding of every leaf of `full`; a ValueError if it does not fit."""
        prefix = tree.tree_unflatten(self.spec, self.leaves)
        # None and PartitionSpec are leaves here, not empty containers.
        found = tree.prefix_broadcast(prefix, full, _ends, f"jit {self.name}")
        for sharding, aval in zip(found, avals, strict=True):
            if isinstance(sharding, NamedSharding):
                # Raises where the mesh does not divide the shape.
                sharding.shard_shape(aval.shape)
        return found


class Layouts(NamedTuple):
    """Where a jitted function runs: part of its cache key.

    `device` is None where several devices are named.
    """

    device: Device | None
    moves_all: bool = False  # every argument goes there, wherever it was put
    ins: Prefix | None = None
    outs: Prefix | None = None

    def for_call(self, args: tuple, kwargs: dict, result: Any, graph: Graph) -> Where:
        """Where arguments and results of these structures go."""
        # device= and backend= move every argument; in_shardings those that it names.
        ins: list[Sharding | None] = [None] * len(graph.invars)
        if self.ins is not None:
            if kwargs:
                raise ValueError(
                    "jit does not support kwargs when in_shardings is specified: pass all "
                    "arguments by position."
                )
            ins = self.ins.over(args, graph.in_avals)
        wanted: list[Sharding | None] = [None] * len(graph.outvars)
        if self.outs is not None:
            wanted = self.outs.over(result, graph.out_avals)
        moved = tuple(self.moves_all or s is not None for s in ins)
        return Where(self.device, moved, tuple(ins), tuple(wanted))


class Where(NamedTuple):
    """For one kind of call the device (None: several), whether each flat argument goes there from
    any other device, and the shardings of flat arguments and results, as far as they were given.
    """

    device: Device | None
    moved: tuple[bool, ...]
    ins: tuple[Sharding | None, ...]
    outs: tuple[Sharding | None, ...]

    def places(self) -> tuple[Place, ...]:
        """Return the Place of each result of a program for one device."""
        assert self.device is not None
        return tuple(devices.place_for(self.device if s is None else s) for s in self.outs)


def run(
    executable: Executable,
    inputs: list[ArrayImpl],
    donated: frozenset[int],
    where: Where | None,
    constants: Constants,
) -> list[ArrayImpl]:
    """The results of a program: where its inputs are, or where `where` and the program say."""
    if where is not None and where.device is None:
        inputs = [
            x if s is None else _given_as(x, s, i)
            for i, (x, s) in enumerate(zip(inputs, where.ins, strict=True))
        ]
    # The place that the inputs agree on, but for those that may be moved.
    place = None
    device = same_device(executable.device, None if where is None else where.device)
    for i, x in enumerate(inputs):
        if where is None or where.device is None or not where.moved[i]:
            place = x._place if place is None else lazy.common_place(place, x._place)
    # A device that was asked for wins, unless an input is committed to another one.
    if device is not None:
        chosen = place_of(device, True)
        if place is not None:
            lazy.common_place(place, chosen)  # raises
        place = chosen
    # No inputs at all, or all of them moved.
    place = place or devices.default_place()
    # Deleted inputs raise here, before anything is launched.
    for x in inputs:
        if x.is_deleted():
            x._buffer()  # raises
    # Pending operations run first: the program may donate what they read.
    lazy.flush_all()
    several = where is not None and where.device is None
    if several or executable.meshes or not place.is_single:
        wanted = [None] * len(executable.out_avals) if where is None else where.outs
        return spread.run(executable, inputs, wanted, donated, constants.values)
    places = (place,) * len(executable.out_avals) if where is None else where.places()
    # Results exist at once, without buffers; the launch fills them in.
    arrays = [ArrayImpl(a, p, None) for a, p in zip(executable.out_avals, places, strict=True)]
    launch(executable, inputs, arrays, place, donated, constants=constants)
    return arrays


def layouts(target: Any, in_shardings: Any, out_shardings: Any) -> Layouts | None:
    """The options of `jit`, checked and combined; None if none is given."""
    device = None if target is None else devices.place_for(target).device
    # The arguments are a tuple.
    ins = _prefix(
        "in_shardings", tuple(in_shardings) if type(in_shardings) is list else in_shardings
    )
    outs = _prefix("out_shardings", out_shardings)
    named = [s for p in (ins, outs) if p is not None for s in p.leaves if s is not None]
    if any(len(s.device_set) > 1 for s in named):
        if target is not None:
            raise ValueError(
                f"jit takes device={target!r} or shardings over several devices, not both"
            )
        return Layouts(None, False, ins, outs)
    # All that is named has to be one and the same device.
    for sharding in named:
        device = same_device(device, one_device(sharding, "jit"))
    return None if device is None else Layouts(device, target is not None, ins, outs)


def _given_as(x: ArrayImpl, sharding: Sharding, number: int) -> ArrayImpl:
    """Return an argument as in_shardings wants it: only what nobody placed may be moved."""
    place = laid_out(sharding)
    if x._place is place or not x._place.committed:
        return to_place(x, place)
    same = x._place.all_devices == place.all_devices and pieces.regions(
        x._place, x.shape
    ) == pieces.regions(place, x.shape)
    if not same:
        raise ValueError(
            "Sharding passed to jit does not match the sharding on the respective arg. Got "
            f"sharding: {sharding}, and arg sharding: {x.sharding}, with arg shape: {x.shape}, flat "
            f"argument {number}. Move it with gpuarray.device_put(x, sharding), or leave its "
            "in_shardings None."
        )
    return x


def _ends(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))


def _prefix(name: str, shardings: Any) -> Prefix | None:
    leaves, spec = tree.tree_flatten(shardings, _ends)
    for leaf in leaves:
        if isinstance(leaf, PartitionSpec):
            raise RuntimeError(
                f"jit requires a mesh for the PartitionSpec {leaf} in {name}: give "
                "NamedSharding(mesh, spec) instead."
            )
        if not _ends(leaf):
            raise TypeError(
                f"{name} leaf specifications are expected to be Sharding instances or None, but "
                f"got {leaf!r}"
            )
    if all(leaf is None for leaf in leaves):
        return None
    return Prefix(name, tuple(leaves), spec)
