"""`pmap`: map a function over an axis of its arguments, one element on each device.

Floor 6. In: a function, and the axes of its arguments to map. Out: the function of the whole
arrays. It is `jit` of `shard_map` over a mesh of one axis, with that axis removed from the pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gpuarray.api.shard_map import by_device
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec, contexts
from gpuarray.core.sharding import Device
from gpuarray.core.tracebacks import boundary
from gpuarray.functions.argnums import Statics, hashable, indices, leaf_names, signature_of
from gpuarray.functions.jit import jit
from gpuarray.functions.vmap import checked_axis, mapped_size
from gpuarray.primitives.axes import add_axis
from gpuarray.primitives.define import do
from gpuarray.pytree import tree
from gpuarray.runtime import device as runtime_devices
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.from_pieces import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from gpuarray.runtime.transfer import device_put
from gpuarray.util import Recent, elements, name_of, wraps, wrong_type


class _Unnamed:
    """The axis name if the user gives none: equal to no other name."""

    def __init__(self, fun: Callable):
        # Not the function: what knows a mesh by its axes would keep it, and what it closes over.
        self.of = getattr(fun, "__name__", None) or type(fun).__name__

    def __repr__(self) -> str:
        return f"<axis of {self.of}>"


def pmap(
    fun: Callable,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Map `fun` over an axis of its arguments, with each element on a separate device.

    Parameters
    ----------
    fun :
        Function of one element.
    axis_name :
        Name of the axis for collectives inside.
    in_axes, out_axes :
        The axis of each argument and result, as a prefix of their pytrees; None for arguments that
        all devices are given, and for results that are the same on all.
    static_broadcasted_argnums :
        Arguments that are Python values, part of the cache key.
    devices, backend :
        The devices, or the platform whose first devices are used.
    axis_size :
        The number of elements, if no argument determines it.
    donate_argnums :
        Arguments whose memory the results may use; they are deleted.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.pmap(lambda x: x / ga.lax.psum(x, "i"), axis_name="i")(gnp.ones((1, 3)))
    Array([[1., 1., 1.]], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for axis in tree.tree_flatten(axes, lambda x: x is None)[0]:
            if not (axis is None or type(axis) is int):
                raise TypeError(
                    f"pmap {name} must be an int, None, or (nested) container with those types as "
                    f"leaves, but got {axes}."
                )
    if not (in_axes is None or isinstance(in_axes, (int, tuple))):
        raise wrong_type(in_axes, "an int, None or a tuple with an entry for each argument")
    if not isinstance(axis_name, Hashable):
        raise wrong_type(axis_name, "the name of an axis, which has a hash")
    if devices is not None:
        devices = elements(devices, "a sequence of devices")
        if len(devices) == 0:
            raise ValueError("'devices' argument to pmap must be non-empty, or None.")
        for device in devices:
            if not isinstance(device, Device):
                raise wrong_type(device, "a Device among the devices of pmap")
    statics = indices(static_broadcasted_argnums, "static_broadcasted_argnums")
    donated = indices(donate_argnums, "donate_argnums")
    name = _Unnamed(fun) if axis_name is None else axis_name
    mapping = _Mapping(fun, name, in_axes, out_axes, statics, donated, devices, backend, axis_size)

    @boundary
    @wraps(fun)
    def call(*args, **kwargs):
        jitted = mapping.known(args, kwargs)
        if jitted is not None:
            return jitted(*args)
        jitted, leaves = mapping.call(args, kwargs)
        out = jitted(*leaves)
        return out if runtime_devices.process_count() == 1 else tree.tree_map(_here, out)

    @boundary
    def lower(*args, **kwargs):
        """Trace and simplify without running."""
        return trace(*args, **kwargs).lower()

    @boundary
    def trace(*args, **kwargs):
        """Trace without running."""
        jitted, leaves = mapping.call(args, kwargs)
        # Static arguments have no leaves, so names and structure cover only the others.
        fixed = frozenset(n % len(args) for n in statics)
        dynamic = tuple(x for i, x in enumerate(args) if i not in fixed)
        names = leaf_names(signature_of(fun), dynamic, kwargs, fixed)
        return jitted.trace(*leaves)._of(dynamic, kwargs, names)

    mapped: Any = call
    mapped.__wrapped__ = fun
    mapped.lower, mapped.trace = lower, trace
    mapped.clear_cache = mapping.clear
    return mapped


class _Mapping:
    """How a function is mapped, and its jitted functions, one for each kind of call."""

    def __init__(
        self,
        fun: Callable,
        name: Any,
        in_axes: Any,
        out_axes: Any,
        statics: tuple[int, ...],
        donated: tuple[int, ...],
        devices: Sequence[Device] | None,
        backend: str | None,
        axis_size: int | None,
    ):
        self.fun, self.name = fun, name
        self.in_axes, self.out_axes = in_axes, out_axes
        self.statics, self.donated = statics, donated
        self.devices = None if devices is None else list(devices)
        self.backend, self.axis_size = backend, axis_size
        self.jitted: Recent = Recent(64)
        #: By the types and places of arguments that a jitted function takes unchanged.
        self.direct: Recent = Recent(64)

    def clear(self) -> None:
        self.jitted.clear()
        self.direct.clear()

    def known(self, args: tuple, kwargs: dict) -> Any:
        """Return the jitted function if it was called with similar arrays before; else None."""
        if kwargs or not traces.is_base():
            return None
        around = contexts.abstract
        if around is not None and around.manual_axes:
            return None
        try:
            return self.direct.get((*[x.aval for x in args], *[x._place for x in args]))
        except AttributeError:  # containers, Python scalars, NumPy arrays
            return None

    def call(self, args: tuple, kwargs: dict) -> tuple[Any, list]:
        """Return the jitted function for these arguments, and its own: their leaves."""
        count = len(args)
        if isinstance(self.in_axes, tuple) and len(self.in_axes) != count:
            raise ValueError(
                "pmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"len(in_axes)={len(self.in_axes)}, len(args)={count}"
                + (" (each argument passed by keyword is mapped along axis 0)" if kwargs else "")
            )
        if self.statics and max(self.statics) >= count:
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={self.statics} but was called "
                f"with only {count} positional argument{'s' if count != 1 else ''}. All static "
                "broadcasted arguments must be passed positionally."
            )
        # Static arguments are part of the key, and leave their places empty.
        numbers = {n % count for n in self.statics}
        fixed = Statics((i, hashable(args[i], i)) for i in sorted(numbers))
        kept = tuple(None if i in numbers else x for i, x in enumerate(args))
        leaves, spec = tree.flatten((kept, kwargs))
        named = len(tree.flatten(kwargs)[0]) if kwargs else 0
        axes = (*self._axes(kept, numbers, len(leaves) - named), *[0] * named)
        axes = tuple(checked_axis("pmap", x, d) for x, d in zip(leaves, axes, strict=True))
        size = mapped_size("pmap", self.fun, leaves, list(axes), self.axis_size, args, kwargs)
        if size < 1:
            raise ValueError(f"pmap maps over at least one element, got an axis of length {size}")
        around = contexts.abstract
        if around is not None and around.manual_axes:
            raise ValueError(
                "pmap inside of pmap or shard_map (over "
                f"{', '.join(map(str, around.manual_axes))}): each device has one element already. "
                "Use a mesh of two axes and one shard_map."
            )
        # One jitted function for each kind of call: the mesh and the cuts are constants in it.
        key = (size, axes, spec, fixed)
        found = self.jitted.find(key)
        if found is None:
            mesh = self._mesh(size)
            function = self._on_all(mesh, axes, spec, dict(fixed))
            given = {n % count for n in self.donated if -count <= n < count}
            # By argument as the user counts them, by leaf as the jitted function does.
            donated = [i in given for i, x in enumerate(kept) for _ in tree.flatten(x)[0]]
            numbers = tuple(i for i, gives in enumerate(donated) if gives)
            made = jit(function, donate_argnums=numbers)
            found = self.jitted.put(key, (made, mesh))
        jitted, mesh = found
        if not traces.is_base() and any(not d.is_addressable for d in mesh.devices.flat):
            raise ValueError(
                "pmap over several processes takes the elements of this process, and inside of "
                "jit or another transformation arrays are those of all: call it outside, or use "
                "shard_map."
            )
        if traces.is_base():
            there = [_on_mesh(x, mesh, d) for x, d in zip(leaves, axes, strict=True)]
            # Positional arrays that are the same objects as in the previous call: the next call can
            # skip these checks.
            same = all(x is y for x, y in zip(there, args, strict=False))
            plain = same and not kwargs and all(type(x) is ArrayImpl for x in args)
            if plain and not numbers and runtime_devices.process_count() == 1:
                self.direct.put((*[x.aval for x in args], *[x._place for x in args]), jitted)
            leaves = there
        return jitted, leaves

    def _axes(self, args: tuple, statics: set[int], count: int) -> list[int | None]:
        """Return the axis of each of the `count` leaves of the positional arguments."""
        axes = self.in_axes
        if axes is None or isinstance(axes, int):
            return [axes] * count
        axes = tuple(None if i in statics else a for i, a in enumerate(axes))
        return tree.prefix_broadcast(axes, args, lambda x: x is None, "pmap in_axes")

    def _mesh(self, size: int) -> Mesh:
        """Return the mesh of the first devices, one for each element."""
        every = runtime_devices.devices(self.backend) if self.devices is None else self.devices
        # The first devices of each process, which has an equal share of the elements.
        taken: Counter = Counter()
        devices = []
        for device in every:
            taken[device.process_index] += 1
            if taken[device.process_index] <= size:
                devices.append(device)
        there = min(taken.values(), default=0)
        if there < size and self.devices is not None:
            raise ValueError(
                f"Leading axis size {size} is not equal to number of local devices {there}: pmap "
                f"got devices={every}, and needs one for each element"
            )
        if there < size:
            raise ValueError(
                f"compiling computation that requires {size} logical devices, but only "
                f"{there} XLA devices are available (num_replicas={size}): map over at most "
                f"{there} elements, or set GPUARRAY_NUM_CPU_DEVICES={size} before the start"
            )
        return Mesh(np.array(devices, dtype=object), (self.name,))

    def _on_all(self, mesh: Mesh, axes: tuple, spec: Any, statics: dict[int, Any]) -> Callable:
        """Return the function of the leaves of all elements."""

        def on_all(*leaves: Any) -> Any:
            # The function of one device: in its pieces the mapped axis has length 1.
            def on_one(*pieces: Any) -> tuple[list, Any]:
                values = [
                    x if d is None else _without_axis(x, d)
                    for x, d in zip(pieces, axes, strict=True)
                ]
                args, kwargs = tree.unflatten(spec, values)
                args = tuple(statics.get(i, x) for i, x in enumerate(args))
                results, out_spec = tree.flatten(self.fun(*args, **kwargs))
                # Only now is the structure of the result known, which out_axes are a prefix of.
                wanted = self._out_axes(results, out_spec)
                out = [
                    x if d is None else add_axis(x, d) for x, d in zip(results, wanted, strict=True)
                ]
                return out, (tuple(_spec(self.name, d) for d in wanted), out_spec)

            specs = [_spec(self.name, d) for d in axes]
            out, out_spec = by_device(on_one, leaves, specs, mesh)
            return tree.unflatten(out_spec, out)

        on_all.__name__ = name_of(self.fun)
        return on_all

    def _out_axes(self, results: list, spec: Any) -> list[int | None]:
        axes = self.out_axes
        if axes is None or isinstance(axes, int):
            found = [axes] * len(results)
        else:
            full = tree.unflatten(spec, results)
            found = tree.prefix_broadcast(axes, full, lambda x: x is None, "pmap out_axes")
        for x, d in zip(results, found, strict=True):
            # Results have one axis more than one device's result.
            rank = aval_of(x).ndim + 1
            if d is not None and not -rank <= d < rank:
                raise ValueError(f"pmap out_axes {d} is out of bounds for an output of rank {rank}")
        return [
            None if d is None else d % (aval_of(x).ndim + 1)
            for x, d in zip(results, found, strict=True)
        ]


def _here(x: Any) -> Any:
    """Return the elements of this process, of a result over several."""
    if type(x) is not ArrayImpl or x.is_fully_addressable:
        return x
    mesh, spec = x.sharding.mesh.local_mesh, x.sharding.spec
    # Of an axis that is cut this process has its share.
    shape = [
        n if part is None else n * mesh.size // x.sharding.mesh.size
        for n, part in zip(x.shape, (*spec, *[None] * x.ndim), strict=False)
    ]
    pieces = [shard.data for shard in x.addressable_shards]
    return make_array_from_single_device_arrays(tuple(shape), NamedSharding(mesh, spec), pieces)


def _on_mesh(x: Any, mesh: Mesh, axis: int | None) -> Any:
    """Move an argument that is on other devices, or in another order, to those of the mesh."""
    # Four cases: over processes already; this process's share of a whole; no move needed; on other
    # devices.
    place = x._place if type(x) is ArrayImpl else None
    if place is not None and place.spans:
        return x
    if any(not device.is_addressable for device in mesh.devices.flat):
        spec = _spec(mesh.axis_names[0], axis)
        return make_array_from_process_local_data(NamedSharding(mesh, spec), x)
    if place is None or not place.committed or place.devices == mesh._flat:
        return x
    return device_put(x, NamedSharding(mesh, _spec(mesh.axis_names[0], axis)))


def _spec(name: Any, axis: int | None) -> PartitionSpec:
    """Return how an array is cut whose axis `axis` is mapped."""
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _without_axis(x: Any, axis: int) -> Any:
    return do.squeeze(x, dimensions=(axis,))
