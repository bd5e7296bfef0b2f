"""Collectives between GPUs by NCCL, NVIDIA's library for that.

Floor 4. In: a collective's equation, and the Buffers of each GPU. Out: Buffers on each GPU, in new
memory, filled in the order of its stream.

One thread calls for all GPUs of the process, between `groupStart` and `groupEnd`. Each GPU has one
stream for exchanges, which all communicators share, so that they follow each other in program
order: concurrent ones could deadlock. That stream and the one that computes wait for each other by
events: the host never waits.

- NCCL adds up sums of float16 and bfloat16 in their own precision, rounding at every step, as it
  does for everybody; engines that share memory add up in float32 and round once.
- Its maximum of floats loses NaN. Such operands are gathered, and every GPU reduces them itself.
- Collectives and types that it does not support are done by copies (peers.py), and moved data are
bytes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuarray.backends.cuda.availability import INSTALL, cupy
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.peers import Peers
from gpuarray.backends.shared import of_stack
from gpuarray.compiler.lower.overlap import Half
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.errors import DeviceError
from gpuarray.primitives.collective import ops, together
from gpuarray.primitives.define import do
from gpuarray.transforms.tracing import TracedFunction, stage
from gpuarray.util import lazy_module

nccl = lazy_module("cupy.cuda.nccl", INSTALL)

_log = logging.getLogger("gpuarray")
#: One exchange at a time, in one order on all GPUs.
_lock = threading.Lock()
#: NCCL's names of dtypes, and how many of its numbers make one of ours.
_DTYPES = {
    "bool": ("NCCL_UINT8", 1),
    "int8": ("NCCL_INT8", 1),
    "uint8": ("NCCL_UINT8", 1),
    "int32": ("NCCL_INT32", 1),
    "uint32": ("NCCL_UINT32", 1),
    "int64": ("NCCL_INT64", 1),
    "uint64": ("NCCL_UINT64", 1),
    "float16": ("NCCL_FLOAT16", 1),
    "bfloat16": ("NCCL_BFLOAT16", 1),
    "float32": ("NCCL_FLOAT32", 1),
    "float64": ("NCCL_FLOAT64", 1),
    "complex64": ("NCCL_FLOAT32", 2),
    "complex128": ("NCCL_FLOAT64", 2),
}
#: (communicator of the group, number in it, stream) -> calls of NCCL for one GPU.
Calls = Callable[[Any, int, int], None]


def available() -> bool:
    """Whether CuPy finds NCCL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns at import if the library is missing
        return bool(nccl.available)


@functools.cache
def say_missing() -> None:
    """Log, once, that GPUs exchange values by copies."""
    _log.warning(
        "NCCL is not there, so collectives between GPUs are copies to one of them and back, which "
        "is slow. Install it: pip install nvidia-nccl-cu13 (or nvidia-nccl-cu12)."
    )


class Party(NamedTuple):
    """GPUs of several processes, some of which belong to this one.

    Attributes
    ----------
    owners :
        The process of each device of the grid.
    here :
        The number of this process.
    told : (processes, bytes) -> bytes
        Returns the first process's value to all of some processes; all of them call it, in one
        order.
    """

    owners: tuple[int, ...]
    here: int
    told: Callable[[tuple[int, ...], bytes], bytes]


def engine(gpus: Sequence[Gpu], sizes: dict, party: Party | None = None) -> Peers:
    """Return the engine that exchanges values between GPUs: NCCL, or copies if it cannot be used.

    `party` describes other processes' GPUs, if they have some of the grid.
    """
    if party is not None:
        if not available():
            raise DeviceError(
                "GPUs of several processes exchange values by NCCL, and it is not there. Install "
                "it: pip install nvidia-nccl-cu13 (or nvidia-nccl-cu12)."
            )
        return Nccl(gpus, sizes, party)
    # NCCL refuses two ranks on one GPU, as logical GPUs are.
    alone = len({gpu.ordinal for gpu in gpus}) == len(gpus)
    if not alone or len(gpus) == 1:
        return Peers(gpus, sizes)
    if available():
        return Nccl(gpus, sizes)
    say_missing()
    return Peers(gpus, sizes)


class _Way(NamedTuple):
    """How a collective is done: what is sent and received, and what is computed from that."""

    before: list[Callable[..., list]] | None  # by GPU: operands -> data to send
    room: list[tuple[tuple[int, ...], Any]]  # shapes and dtypes of received data
    calls: Callable[[list[Buffer], list[Buffer], Gpu], Calls]
    after: list[Callable[..., list]] | None  # by GPU: received data -> results


class _Going(NamedTuple):
    """An exchange in progress: its results, its events, and the memory that it reads until then."""

    way: _Way | None
    received: list[list]
    events: list
    reads: list


class Nccl(Peers):
    """The engine of the GPUs of this process, each of which is one rank.

    With a `party`, other ranks are GPUs of other processes, which run the same programs.
    """

    overlaps = True

    def __init__(self, gpus: Sequence[Gpu], sizes: Mapping[Any, int], party: Party | None = None):
        numbers = None
        if party is not None:
            numbers = [i for i, p in enumerate(party.owners) if p == party.here]
        super().__init__(gpus, sizes, numbers)
        self.party = party
        # The implementation of each equation.
        self._ways: dict[int, tuple[Eqn, _Way | None, list[list[int]]]] = {}

    def __call__(self, asked: Eqn | Half, operands: list) -> list:
        if not isinstance(asked, Half):
            return super().__call__(asked, operands)
        if not asked.is_start:
            return self._end(operands[0])
        way, groups = self._known(asked.eqn)
        if way is None:
            # Copies are done immediately: both halves belong to the start.
            return [_Going(None, super().__call__(asked.eqn, operands), [], [])] * len(operands)
        return [self._start(way, groups, operands)] * len(operands)

    def exchange(self, eqn: Eqn) -> Callable[[list[list]], list[list]]:
        way, groups = self._known(eqn)
        if way is None:
            return super().exchange(eqn)
        return lambda operands: self._end(self._start(way, groups, operands))

    def among(self, eqn: Eqn | Half) -> list[tuple[list[int], Callable[[list], list]]]:
        # Exchanges are enqueued for all GPUs together.
        if isinstance(eqn, Half) or eqn.primitive is not ops.axis_index_p:
            return [(list(range(len(self.gpus))), lambda operands: self(eqn, operands))]
        return super().among(eqn)

    def _known(self, eqn: Eqn) -> tuple[_Way | None, list[list[int]]]:
        """Return NCCL's implementation of an equation, None if there is none; and its groups."""
        known = self._ways.get(id(eqn))
        if known is None:
            # Groups of other processes only are theirs to serve.
            groups = [g for g in self.groups(eqn) if not self.rows.keys().isdisjoint(g)]
            # A group of one has nothing to send.
            way = None if len(groups[0]) == 1 else self._way(eqn, groups)
            if way is None and eqn.invars and not self.is_ours(groups):
                way = self._gathered(eqn, groups)
            known = self._ways[id(eqn)] = (eqn, way, groups)
        return known[1:]

    # ---- running ----
    def _start(self, way: _Way, groups: list[list[int]], operands: list[list]) -> _Going:
        """Enqueue an exchange after the work that fills its operands."""
        gpus = self.gpus
        sends = operands if way.before is None else self._each(way.before, operands)
        received = [[gpu.attempt(gpu.empty, *room) for room in way.room] for gpu in gpus]
        with _lock:
            # After the work that fills the operands, and after the last use of the receive buffers.
            for gpu in gpus:
                gpu.exchanges.wait_event(gpu.mark())
            calls = []
            for group in groups:
                communicators = self._communicators(group)
                for i, number in enumerate(group):
                    d = self.rows.get(number)
                    if d is not None:
                        call = way.calls(sends[d], received[d], gpus[d])
                        calls.append((call, communicators[i], i, gpus[d].exchanges.ptr))
            try:
                # As one group: one thread starts the calls of all GPUs, each of which would wait
                # for the others.
                nccl.groupStart()
                for call, communicator, i, stream in calls:
                    call(communicator, i, stream)
                nccl.groupEnd()
            except Exception as error:
                # Calls that were enqueued may never end: the communicators are of no use any more.
                self._abandon(groups)
                raise DeviceError(f"an exchange between GPUs failed: {error}") from error
            # Later work of each GPU waits for its event; the host does not wait.
            events = []
            for gpu in gpus:
                with gpu.device:
                    events.append(cupy.cuda.Event(disable_timing=True))
                events[-1].record(gpu.exchanges)
        return _Going(way, received, events, [operands, sends])

    def _end(self, going: _Going) -> list[list]:
        """Make later work on the GPUs wait for an exchange; return its results."""
        # Later work may read the results, and write to the operands' memory.
        for gpu, event in zip(self.gpus, going.events, strict=False):
            gpu.stream.wait_event(event)
        if going.way is None or going.way.after is None:
            return going.received
        return self._each(going.way.after, going.received)

    def settle(self) -> None:
        for gpu in self.gpus:
            with gpu.device:
                event = cupy.cuda.Event(disable_timing=True)
            event.record(gpu.exchanges)
            gpu.stream.wait_event(event)

    def _each(self, functions: Sequence[Callable[..., list]], rows: list[list]) -> list[list]:
        """Run a program on each GPU."""
        given = zip(self.gpus, functions, rows, strict=True)
        return [gpu.attempt(function, *row) for gpu, function, row in given]

    def is_ours(self, groups: list[list[int]]) -> bool:
        """Whether all GPUs of some groups belong to this process."""
        return all(number in self.rows for group in groups for number in group)

    def _key(self, group: list[int]) -> tuple[dict, tuple]:
        """Return where the communicators of a group are kept, and under which key."""
        known = self.gpus[next(self.rows[d] for d in group if d in self.rows)].communicators
        if self.is_ours([group]):
            return known, tuple(self.gpus[self.rows[d]].ordinal for d in group)
        assert self.party is not None
        # A process has one GPU at a place of the grid.
        return known, tuple((self.party.owners[d], d) for d in group)

    def _communicators(self, group: list[int]) -> Mapping[int, Any] | Sequence[Any]:
        """Return the communicators of our GPUs in a group, by place, made when it first talks.

        They are not split from one of all GPUs: in one process that would have to be within
        `groupStart` and `groupEnd`, and CuPy's `commSplit` gives NCCL an address that is invalid by
        then.
        """
        known, key = self._key(group)
        if key not in known:
            if self.is_ours([group]):
                known[key] = nccl.NcclCommunicator.initAll(list(key))
            else:
                known[key] = self._joined(group)
        return known[key]

    def _joined(self, group: list[int]) -> dict[int, Any]:
        """Return communicators with GPUs of other processes: the first process names them."""
        assert self.party is not None
        owners = [self.party.owners[d] for d in group]
        processes = tuple(sorted({*owners}))
        own = nccl.get_unique_id() if processes[0] == self.party.here else b""
        name = self.party.told(processes, own)
        made = {}
        # Each call waits for the others of the group, and this thread makes several.
        nccl.groupStart()
        for i, number in enumerate(group):
            if number in self.rows:
                with self.gpus[self.rows[number]].device:
                    made[i] = nccl.NcclCommunicator(len(group), name, i)
        nccl.groupEnd()
        return made

    def _abandon(self, groups: list[list[int]]) -> None:
        """Give up communicators that failed: they cannot be used again."""
        with contextlib.suppress(Exception):
            nccl.groupEnd()
        for group in groups:
            known, key = self._key(group)
            made = known.pop(key, ())
            for communicator in made.values() if isinstance(made, dict) else made:
                with contextlib.suppress(Exception):
                    communicator.abort()

    # ---- each collective ----
    def _way(self, eqn: Eqn, groups: list[list[int]]) -> _Way | None:
        """Return NCCL's implementation of a collective; None if it has none."""
        prim, params, avals = eqn.primitive, eqn.params, [a.aval for a in eqn.invars]
        outs = [(v.aval.shape, storage_dtype(v.aval)) for v in eqn.outvars]
        # One shape for all devices, and something to send.
        if len({len(group) for group in groups}) > 1 or not all(a.size for a in avals):
            return None
        size = len(groups[0])
        if prim in _REDUCED and not any(isinstance(a, int) for a in params["axes"]):
            exact = all(a.dtype.kind in "biu" for a in avals)
            # NaN would be lost (see above).
            if prim is not ops.psum_p and not exact:
                return self._gathered(eqn, groups)
            if not all(_summed(a.dtype, prim) for a in avals):
                return None
            return _Way(None, outs, functools.partial(_reduce, _REDUCED[prim]), None)
        alone = together.alone(prim)
        if alone in (ops.all_gather_p, ops.all_gather_invariant_p):
            return self._gathered(eqn, groups)
        if alone is ops.reduce_scatter_p and all(_summed(a.dtype, ops.psum_p) for a in avals):
            axes = [p["scatter_dimension"] for p in together.members(prim, params, len(avals))]
            # NCCL splits contiguous memory: the pieces of an axis have to be consecutive.
            cuts = lambda *values: [_cut(x, n, size) for x, n in zip(values, axes, strict=True)]
            return _Way(self._made(cuts, avals), outs, _scatter, None)
        if prim is ops.all_to_all_p:
            cut = lambda x: [_cut(x, params["split_axis"], size)]
            (a,), axis, join = avals, params["split_axis"], params["concat_axis"]
            shape = (*a.shape[:axis], a.shape[axis] // size, *a.shape[axis + 1 :])
            stacks = [a.update(shape=(size, *shape), layout=None)]
            joined = lambda x: [_joined(x, join)]
            room = [((size, *shape), storage_dtype(a))]
            return _Way(
                self._made(cut, avals), room, functools.partial(_trade, size),
                self._made(joined, stacks),
            )  # fmt: skip
        if prim is ops.ppermute_p:
            return _Way(None, outs, functools.partial(_permute, tuple(params["perm"])), None)
        return None

    def _gathered(self, eqn: Eqn, groups: list[list[int]]) -> _Way:
        """Gather the operands; each GPU makes its results of all of them, by the batch rule."""
        avals, size = [a.aval for a in eqn.invars], len(groups[0])
        after: list[Any] = [None] * len(self.gpus)
        made: dict[int, Any] = {}
        if len({len(group) for group in groups}) > 1:
            raise DeviceError(
                f"{eqn.primitive.name} among groups of different lengths, of GPUs of several "
                f"processes: {groups}. Give groups of one length."
            )
        for group in groups:
            for i, number in enumerate(group):
                d = self.rows.get(number)
                if d is not None:
                    if i not in made:
                        made[i] = of_stack(eqn.primitive, avals, eqn.params, size, i)
                    after[d] = self.insides[d](made[i])
        room = [((size, *a.shape), storage_dtype(a)) for a in avals]
        return _Way(None, room, _gather, after)

    def _made(self, fun: Callable[..., Any], avals: Sequence[Any]) -> list[Callable[..., list]]:
        """Return a function of values, which returns a list, as a program for each GPU."""
        flat = [a.update(layout=None) for a in avals]
        graph = stage(fun, flat, TracedFunction(fun, "a collective"))
        return [inside(graph) for inside in self.insides]


_REDUCED = {ops.psum_p: "NCCL_SUM", ops.pmax_p: "NCCL_MAX", ops.pmin_p: "NCCL_MIN"}


def _summed(dtype: Any, prim: Any) -> bool:
    """Whether NCCL reduces numbers of this dtype correctly."""
    return dtype.name in _DTYPES and not (prim is ops.psum_p and dtype.kind == "b")


# ---- calls of each GPU ----
def _number(buffer: Buffer) -> tuple[int, int]:
    """Return the number and the NCCL type of the elements of a buffer."""
    name, times = _DTYPES[buffer.dtype.name]
    return buffer.size * times, getattr(nccl, name)


def _reduce(op: str, sends: list[Buffer], received: list[Buffer], gpu: Gpu) -> Calls:
    def calls(communicator: Any, i: int, stream: int) -> None:
        for a, b in zip(sends, received, strict=True):
            what = (*_number(a), getattr(nccl, op))
            communicator.allReduce(a.pointer, b.pointer, *what, stream)

    return calls


def _scatter(sends: list[Buffer], received: list[Buffer], gpu: Gpu) -> Calls:
    def calls(communicator: Any, i: int, stream: int) -> None:
        for a, b in zip(sends, received, strict=True):
            what = (*_number(b), nccl.NCCL_SUM)
            communicator.reduceScatter(a.pointer, b.pointer, *what, stream)

    return calls


def _gather(sends: list[Buffer], received: list[Buffer], gpu: Gpu) -> Calls:
    def calls(communicator: Any, i: int, stream: int) -> None:
        for a, b in zip(sends, received, strict=True):
            communicator.allGather(a.pointer, b.pointer, a.nbytes, nccl.NCCL_UINT8, stream)

    return calls


def _trade(size: int, sends: list[Buffer], received: list[Buffer], gpu: Gpu) -> Calls:
    (a,), (b,) = sends, received
    count = a.nbytes // size

    def calls(communicator: Any, i: int, stream: int) -> None:
        for peer in range(size):
            at = peer * count
            communicator.send(a.pointer + at, count, nccl.NCCL_UINT8, peer, stream)
            communicator.recv(b.pointer + at, count, nccl.NCCL_UINT8, peer, stream)

    return calls


def _permute(perm: tuple, sends: list[Buffer], received: list[Buffer], gpu: Gpu) -> Calls:
    (a,), (b,) = sends, received

    def calls(communicator: Any, i: int, stream: int) -> None:
        for source, target in perm:
            if source == i:
                communicator.send(a.pointer, a.nbytes, nccl.NCCL_UINT8, target, stream)
            if target == i:
                communicator.recv(b.pointer, b.nbytes, nccl.NCCL_UINT8, source, stream)
        if all(target != i for _, target in perm):  # nobody sends: zeros
            with gpu.device:
                cupy.cuda.runtime.memsetAsync(b.pointer, 0, b.nbytes, stream)

    return calls


# ---- pieces of an axis, in front and back ----
def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return do.reshape(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def _cut(x: Any, axis: int, size: int) -> Any:
    """Return the pieces of an axis, stacked in front."""
    shape = x.aval.shape
    x = _reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))
    order = (axis, *(i for i in range(len(shape) + 1) if i != axis))
    return do.transpose(x, permutation=order)


def _joined(x: Any, axis: int) -> Any:
    """Return pieces that are stacked in front as one axis."""
    size, *shape = x.aval.shape
    x = do.transpose(x, permutation=(*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)))
    return _reshape(x, (*shape[:axis], size * shape[axis], *shape[axis + 1 :]))
