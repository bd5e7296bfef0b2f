"""NCCL in the stand-in: exchanges between devices, and what would hang or go wrong on real ones.

In: calls by `cupy.cuda.nccl`'s names. Out: work on the streams given; each rank reads when its
stream comes there, and what it receives is written when all ranks have come. Mistakes that would
hang a real machine are faults, and an error.
"""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.fake_cupy.errors import NcclError
from tests.fake_cupy.memory import use_of, view
from tests.fake_cupy.world import Use, site, world

NCCL_INT8 = NCCL_CHAR = 0
NCCL_UINT8 = 1
NCCL_INT32 = NCCL_INT = 2
NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = 3, 4, 5
NCCL_FLOAT16 = NCCL_HALF = 6
NCCL_FLOAT32 = NCCL_FLOAT = 7
NCCL_FLOAT64 = NCCL_DOUBLE = 8
NCCL_BFLOAT16 = 9
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)

_DTYPES = [
    np.dtype(kind)
    for kind in ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16)
]
# The maximum of floats is that of CUDA's fmax, which loses NaN.
_REDUCE = {NCCL_SUM: np.add, NCCL_PROD: np.multiply, NCCL_MAX: np.fmax, NCCL_MIN: np.fmin}
_numbers = itertools.count(1)


class _Call(NamedTuple):
    """What one rank asks for: `what` must be the same on all ranks."""

    communicator: NcclCommunicator
    what: tuple
    stream: int
    sends: tuple[int, int] | None  # address and bytes
    receives: tuple[int, int] | None
    peer: int
    site: str


class _Group(threading.local):
    def __init__(self):
        self.machine = -1

    def open(self) -> _Group:
        """The group of this thread, on the machine as it is."""
        if self.machine != world.machine:
            self.machine, self.depth = world.machine, 0
            self.calls: list[_Call] = []
        return self


_groups = _Group()


def get_version() -> int:
    """The version of the library."""
    return 22809


def get_unique_id() -> bytes:
    """What the processes of a communicator share: 128 bytes (a tuple before CuPy 14)."""
    return next(_numbers).to_bytes(127, "little") + b"\xff"


def groupStart() -> None:
    """The calls that follow belong together."""
    _groups.open().depth += 1


def groupEnd() -> None:
    """The calls since `groupStart` start."""
    group = _groups.open()
    if not group.depth:
        raise NcclError(5)
    group.depth -= 1
    if group.depth:
        return
    calls, group.calls = group.calls, []
    world.count("exchange")
    if any(call.communicator._apart for call in calls):
        _meet_others(calls)
    elif not world.idle:
        with world.lock:
            _start(calls)


class NcclCommunicator:
    """One rank of a communicator."""

    def __init__(self, ndev: int, commId: bytes, rank: int, config=None):
        # Threads stand for processes; each calls for the ranks that it has made.
        if type(commId) is not bytes:
            raise TypeError(f"Argument 'commId' has incorrect type (got {type(commId).__name__})")
        if len(commId) != 128 or not 0 <= rank < ndev:
            world.fault(f"rank {rank} of {ndev} under a name {commId!r}, at {site()}")
            raise NcclError(4)
        self._clique, self._rank, self._size = hash(commId), rank, ndev
        self._device = world.thread.device
        self._usable_still, self._apart = True, True

    @staticmethod
    def initAll(devices) -> list[NcclCommunicator]:
        listed = list(range(devices)) if isinstance(devices, int) else list(devices)
        if len(set(listed)) != len(listed):
            world.fault(f"two ranks on one GPU: {listed}, at {site()}")
            raise NcclError(5)
        if not all(0 <= d < world.devices for d in listed):
            raise NcclError(4)
        clique, made = next(_numbers), []
        for rank, device in enumerate(listed):
            one = NcclCommunicator.__new__(NcclCommunicator)
            one._clique, one._rank, one._size, one._device = clique, rank, len(listed), device
            one._usable_still = True
            made.append(one)
        return made

    _clique: int
    _rank: int
    _size: int
    _device: int
    _usable_still = False
    _apart = False  # whether other ranks are those of other threads

    def device_id(self) -> int:
        return self._device

    def rank_id(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def destroy(self) -> None:
        self._usable_still = False

    def abort(self) -> None:
        self._usable_still = False

    def check_async_error(self) -> None:
        self._usable("check_async_error")

    def commSplit(self, color, key, config=None):
        world.fault(f"commSplit in one process gives NCCL an address that is gone, at {site()}")
        raise NcclError(5)

    def _usable(self, name: str) -> None:
        if not self._usable_still:
            world.fault(f"{name} on a communicator that was aborted or destroyed, at {site()}")
            raise NcclError(4)

    def _call(self, name, count, datatype, stream, sends, receives, op=0, peer=-1) -> None:
        """Note a call; `sends` and `receives`: address, and how many times `count`."""
        self._usable(name)
        if count and (sends, receives) == (None, None):
            raise NcclError(4)
        nbytes = count * _DTYPES[datatype].itemsize
        made = _Call(
            self,
            (name, count, datatype, op),
            stream,
            None if sends is None else (sends[0], sends[1] * nbytes),
            None if receives is None else (receives[0], receives[1] * nbytes),
            peer,
            site(),
        )
        group = _groups.open()
        if not group.depth and self._size > 1:
            world.fault(
                f"{name} of rank {self._rank} of {self._size} outside of a group hangs: one thread "
                f"calls for several devices, at {made.site}"
            )
            raise NcclError(5)
        group.calls.append(made)

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream) -> None:
        self._call("allReduce", count, datatype, stream, (sendbuf, 1), (recvbuf, 1), op)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream) -> None:
        given = ((sendbuf, self._size), (recvbuf, 1))
        self._call("reduceScatter", recvcount, datatype, stream, *given, op)

    def allGather(self, sendbuf, recvbuf, count, datatype, stream) -> None:
        self._call("allGather", count, datatype, stream, (sendbuf, 1), (recvbuf, self._size))

    def send(self, sendbuf, count, datatype, peer, stream) -> None:
        self._call("send", count, datatype, stream, (sendbuf, 1), None, peer=peer)

    def recv(self, recvbuf, count, datatype, peer, stream) -> None:
        self._call("recv", count, datatype, stream, None, (recvbuf, 1), peer=peer)


# ---- groups of several threads ----
_others = threading.Condition()
_waiting: dict[int, list[_Call]] = {}


def _meet_others(calls: list[_Call]) -> None:
    """Start the calls of a communicator when those of all its ranks have come; wait for that.

    Who neither sends nor receives does not come.
    """
    for clique in dict.fromkeys(call.communicator._clique for call in calls):
        own = [call for call in calls if call.communicator._clique == clique]
        everybody = set(range(own[0].communicator._size))
        with _others:
            met = _waiting.setdefault(clique, [])
            met += own
            come = {call.communicator._rank for call in met}
            meant = set().union(*(everybody if c.peer < 0 else {c.peer} for c in met))
            if meant <= come:
                del _waiting[clique]
                with world.lock:
                    _start(met)
                _others.notify_all()
            elif not _others.wait_for(lambda met=met, c=clique: _waiting.get(c) is not met, 20):
                _hang(f"ranks {come} wait for {meant - come}, and nobody comes")


# ---- a group ----
def _start(calls: list[_Call]) -> None:
    """Put the calls of all ranks on their streams."""
    cliques: dict[int, dict[int, list[_Call]]] = {}
    for call in calls:
        _check(call)
        ranks = cliques.setdefault(call.communicator._clique, {})
        ranks.setdefault(call.communicator._rank, []).append(call)
    for ranks in cliques.values():
        _meet(ranks)


def _check(call: _Call) -> None:
    queue, device = world.find(call.stream), call.communicator._device
    if queue.captured is not None:
        raise NcclError(5)
    if queue.device != device:
        world.fault(f"{call.what[0]} of device {device} on a stream of device {queue.device}")
        raise NcclError(1)
    for side in (call.sends, call.receives):
        if side is not None and side[1]:
            block = use_of(*side, False).block
            if block.device != device:
                world.fault(f"{call.what[0]} of device {device} uses {block}, at {call.site}")
                raise NcclError(1)


def _meet(ranks: dict[int, list[_Call]]) -> None:
    """Let the ranks of one communicator exchange what they have."""
    whole = {r: [c for c in calls if c.peer < 0] for r, calls in ranks.items()}
    size = next(iter(ranks.values()))[0].communicator._size
    wanted = {r: [c.what for c in calls] for r, calls in whole.items()}
    if any(wanted.values()):
        for rank in range(size):
            if wanted.get(rank) != wanted[0 if 0 in wanted else min(wanted)]:
                _hang(f"rank {rank} of {size} calls {wanted.get(rank, [])}, others {wanted}")
    pairs = _pairs(ranks)
    # Each rank reads its own memory when its stream comes there.
    arrived: dict[int, list] = {}
    data: dict[int, list[np.ndarray]] = {}
    for rank, calls in ranks.items():
        sides = [c.sends for c in calls if c.sends is not None and c.sends[1]]
        data[rank] = kept = [np.empty(n, np.uint8) for _, n in sides]
        views = [view(*s) for s in sides]
        work = _put(calls[0], "arrives", _copied(views, kept), [use_of(*s, False) for s in sides])
        arrived[rank] = [] if work is None else [work]
    # What it receives is there when those that send have come.
    for rank, calls in ranks.items():
        everybody = bool(whole[rank])
        froms = {c.peer for c in calls if c.what[0] == "recv"} | {rank}
        after = [w for r, ws in arrived.items() if everybody or r in froms for w in ws]
        sides = [c.receives for c in calls if c.receives is not None and c.receives[1]]
        run = _Receive(rank, calls, data, pairs, ranks)
        work = _put(calls[0], "receives", run, [use_of(*s, True) for s in sides], after)
        communicator, device = calls[0].communicator, calls[0].communicator._device
        _one_after_another(communicator, device, work)


def _one_after_another(communicator: NcclCommunicator, device: int, work) -> None:
    """Exchanges of several communicators on one device must follow each other."""
    last = world.exchanged.get(device)
    if last is not None and last[0] != communicator._clique and last[1] is not None:
        known = max(work.clock.get(id(last[1].stream), 0), world.host.get(id(last[1].stream), 0))
        if known < last[1].number:
            world.fault(f"two communicators at once on device {device}: they may hang")
    world.exchanged[device] = (communicator._clique, work)


def _hang(text: str) -> None:
    world.fault(f"NCCL hangs: {text}")
    raise NcclError(3)


def _pairs(ranks: dict[int, list[_Call]]) -> dict[tuple[int, int], list[_Call]]:
    """Sends by (source, target), each of which must meet a recv of the same kind."""
    sends: dict[tuple[int, int], list[_Call]] = {}
    receives: dict[tuple[int, int], list[_Call]] = {}
    for rank, calls in ranks.items():
        for c in calls:
            if c.what[0] == "send":
                sends.setdefault((rank, c.peer), []).append(c)
            elif c.what[0] == "recv":
                receives.setdefault((c.peer, rank), []).append(c)
    for key in sends.keys() | receives.keys():
        given = [c.what[1:] for c in sends.get(key, [])]
        taken = [c.what[1:] for c in receives.get(key, [])]
        if given != taken:
            _hang(f"rank {key[0]} sends {given} to rank {key[1]}, which expects {taken}")
    return sends


def _put(call: _Call, label: str, run, uses: list[Use], after=()):
    queue = world.find(call.stream)
    world.report(queue.device)
    name = f"NCCL's {call.what[0]} of rank {call.communicator._rank} {label}"
    return world.put(queue, name, run, uses, after)


def _copied(views: list[np.ndarray], kept: list[np.ndarray]):
    def run() -> None:
        for source, target in zip(views, kept, strict=True):
            target[...] = source

    return run


class _Receive:
    """What one rank receives, made of what all ranks have sent."""

    def __init__(self, rank, calls, data, pairs, ranks):
        self.rank, self.calls, self.data = rank, calls, data
        self.targets = [
            None if c.receives is None or not c.receives[1] else view(*c.receives) for c in calls
        ]
        # Which of a rank's operands a call sends.
        self.numbers: dict[int, dict[int, int]] = {}
        for r, theirs in ranks.items():
            sending = [c for c in theirs if c.sends is not None and c.sends[1]]
            self.numbers[r] = {id(c): i for i, c in enumerate(sending)}
        self.pairs = {key: iter(list(sent)) for key, sent in pairs.items() if key[1] == rank}
        self.whole = {r: [c for c in theirs if c.peer < 0] for r, theirs in ranks.items()}

    def _sent(self, rank: int, call: _Call) -> np.ndarray:
        return self.data[rank][self.numbers[rank][id(call)]]

    def __call__(self) -> None:
        turn = 0
        for call, target in zip(self.calls, self.targets, strict=True):
            name, _, datatype, op = call.what
            if name == "recv" and target is not None:
                source = next(self.pairs[call.peer, self.rank])
                target[...] = self._sent(call.peer, source)
            if call.peer >= 0:
                continue
            if target is not None:
                theirs = [self._sent(r, c[turn]) for r, c in sorted(self.whole.items())]
                target[...] = self._made(name, theirs, _DTYPES[datatype], op)
            turn += 1

    def _made(self, name: str, theirs: list[np.ndarray], dtype: np.dtype, op: int) -> np.ndarray:
        if name == "allGather":
            return np.concatenate(theirs)
        with np.errstate(all="ignore"):
            total = theirs[0].view(dtype)
            for x in theirs[1:]:
                total = _REDUCE[op](total, x.view(dtype)).astype(dtype)
        if name == "reduceScatter":
            total = total.reshape(len(theirs), -1)[self.rank]
        return np.ascontiguousarray(total).view(np.uint8)
