"""Moving values to other places: arrays, and tracers of transformations.

Floor 5. In: a value and its destination. Out: the same value there. The primitive moves outside
compiled programs, and its transpose moves back. Inside a program single values do not move: the
whole program runs on the device, or the value is sharded over the mesh.
"""

from __future__ import annotations

from typing import Any

from gpuarray.config import state
from gpuarray.control.call import constrained
from gpuarray.control.shard_map import with_axis
from gpuarray.core import trace as traces
from gpuarray.core.graph import Graph, Var
from gpuarray.core.memories import space_of
from gpuarray.core.mesh import NamedSharding
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.sharding import Place, laid_out
from gpuarray.primitives.memory import in_memory
from gpuarray.primitives.reshard import check_terms, laid
from gpuarray.runtime import device as devices
from gpuarray.runtime import pieces, spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.cache import compiled
from gpuarray.runtime.host import from_host, sent
from gpuarray.runtime.host import spread as pieces_of
from gpuarray.transforms.batch import BatchAxis, BatchTracer
from gpuarray.transforms.jvp import JVPTracer
from gpuarray.transforms.tracing import GraphTrace


def to_place(x: ArrayImpl, place: Place) -> ArrayImpl:
    """Return the same value on another place.

    CPU devices share memory, and arrays are immutable, so nothing is copied between them.
    """
    if x._place is place:
        return x
    if state.transfer_guard_device_to_device is not None and x._place.device is not place.device:
        # On the same set of devices a value is only resharded.
        if {*x._place.all_devices} != {*place.all_devices}:
            devices.guard("device_to_device", f"aval={x.aval}, to {place.device}", explicit=True)
    # From the most special case to the usual one: terms, several processes, one device, pieces.
    if place.sharding._is_terms or x._place.sharding._is_terms:
        return _summed(x, place)
    if place.spans or x._place.spans:
        return _across(x, place)
    if x._place.is_single and place.is_single:
        return ArrayImpl(place.typed(x.aval), place, [sent(x._buffer(), place.device, place.kind)])
    parts = pieces.moved(x.aval.shape, x._buffers(), x._place, place)
    pairs = zip(parts, place.devices, strict=True)
    buffers = [sent(part, device, place.kind) for part, device in pairs]
    return ArrayImpl(place.typed(x.aval), place, buffers)


def _across(x: ArrayImpl, place: Place) -> ArrayImpl:
    """Return the same value on another place, where one of the two spans processes."""
    # This process has all of it, so no other process need take part.
    if x.is_fully_addressable or x.is_fully_replicated:
        return ArrayImpl(place.typed(x.aval), place, pieces_of(x._fetched(explicit=True), place))
    if x._place.all_devices != place.all_devices:
        raise ValueError(
            "cannot move an array that is cut over several processes to other devices: it is on "
            f"{[d.id for d in x._place.all_devices]}, and is to go to "
            f"{[d.id for d in place.all_devices]}. Use "
            "gpuarray.experimental.multihost_utils.process_allgather(x), and put its value there."
        )

    return _by_program(x, place)


def _summed(x: ArrayImpl, place: Place) -> ArrayImpl:
    """Return the same value on another place, where one of the two holds terms of a sum."""
    check_terms(x.aval, place.sharding)
    # The devices stay: they exchange terms for sums, or whole values for terms.
    if x._place.all_devices == place.all_devices:
        return _by_program(x, place)
    # The sum is made where the terms are.
    for known, other in ((x._place, place), (place, x._place)):
        if known.sharding._is_terms and known is not other:
            sharding = known.sharding
            plain = laid_out(sharding.update(spec=sharding.spec.update(unreduced=frozenset())))
            return to_place(to_place(x, plain), place)
    raise AssertionError(f"neither {x.sharding} nor {place.sharding} holds terms")


def _by_program(x: ArrayImpl, place: Place) -> ArrayImpl:
    """Return the same value on another place, by a program that its devices run."""

    def graph() -> Graph:
        # An empty program whose result has another layout: partitioning finds the exchanges.
        v = Var(x.aval)
        return Graph([v], [v], [], debug_name="device_put")

    executable = compiled(("device_put", x.aval), graph, "device_put")
    (moved,) = spread.run(executable, [x], [place.sharding])
    return ArrayImpl(place.typed(x.aval), place, moved._buffers())


def stays_at(x: Any, place: Place) -> Any:
    """Constrain a traced value, and its derivatives, to a place: values in a program do not move
    singly.
    """
    if isinstance(place.sharding, NamedSharding) and place.is_spread:
        x = laid(x, place.sharding)
    else:
        x = constrained(x, place.device)
    return in_memory(x, space_of(place.kind))


class _Move(Primitive):
    def bind(self, x: Any, *, place: Place, src: Place | None) -> Any:  # pyright: ignore
        """Move a value; the innermost Trace decides how."""
        trace = traces.state.trace
        # Under vmap or jvp alone values are concrete, and do move; inside a Graph they cannot.
        while trace is not None and not isinstance(trace, GraphTrace):
            trace = trace.parent
        if trace is None:
            return super().bind(x, place=place, src=src)
        return stays_at(x, place)  # a program is being traced


def _jvp(primals: list, tangents: list, *, place: Place, src: Place | None) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    # Cotangents go back to where the value is.
    src = src or _place_of(x)
    return device_put_p.bind(x, place=place, src=src), device_put_p.bind(
        tangent, place=place, src=src
    )


def _transpose(ct: Any, x: Any, *, place: Place, src: Place | None) -> list:
    return [ct if src is None else device_put_p.bind(ct, place=src, src=place)]


def _batch(
    axis: BatchAxis, args: list, dims: list, *, place: Place, src: Place | None
) -> tuple[Any, Any]:
    ((x,), (dim,)) = args, dims
    back = None if src is None else _with_axis(src, dim, axis.spread)
    out = device_put_p.bind(x, place=_with_axis(place, dim, axis.spread), src=back)
    return out, dim


def _with_axis(place: Place, dim: int, names: tuple) -> Place:
    """Return the place of arrays that have one axis more."""
    sharding = place.sharding
    if not isinstance(sharding, NamedSharding):
        return place
    return laid_out(sharding.update(spec=with_axis(sharding.spec, dim, names)))


def _place_of(x: Any) -> Place | None:
    """Return the place of a value, under any number of transforms; None if its layout is
    another.
    """
    while True:
        if type(x) is JVPTracer:
            x = x.primal
        elif type(x) is BatchTracer and type(x.value) is ArrayImpl and not x.value._place.is_spread:
            x = x.value
        else:
            return laid_out(x._place.sharding) if type(x) is ArrayImpl else None


device_put_p = _Move(
    "device_put",
    Kind.CALL,
    aval=lambda x, *, place, src: place.typed(x),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    decompose=lambda x, *, place, src: to_place(from_host(x), place),
    register=False,
)
