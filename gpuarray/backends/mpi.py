"""Collectives between devices of several processes, by MPI.

Floor 4. In: a collective's equation, and the operands of this process's devices. Out: their
results. Values are combined among this process's devices first, then between processes.

All traffic is on private communicators, by nonblocking calls: waiting can be interrupted, and the
watchdog (runtime/processes.py) sees what is being waited for.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.backends.mpi_numbers import ReductionCode, code_of, same, sum_code
from gpuarray.backends.shared import groups_of, meaning, run_once
from gpuarray.compiler.lower.overlap import Half
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.primitives.collective import ops, together
from gpuarray.primitives.collective.once import once_p, once_with_effect_p

MPI = util.lazy_module("mpi4py.MPI", "pip install 'gpuarray-runtime[mpi]' brings it, with an MPI")

#: Elements or bytes in one call of MPI.
CHUNK = 1 << 30
#: Bytes up to which an array is sent in one buffer with others.
PACKED = 1 << 16
#: Tries before a process that waits gives its core away: with a core for each process (then about
#: a millisecond), and without. Two that share a core after all would each use up their time on it.
PATIENT, POLITE = 1000, 20


class Waiting(NamedTuple):
    """A process's current operation with the others, for the watchdog."""

    number: int
    what: str
    since: float
    thread: int
    limit: float | None


#: An exchange between processes: it yields the requests to wait for, and returns results.
Steps = Generator[list, None, list]


class PendingExchange(NamedTuple):
    """An exchange in progress, or the results of one that sends nothing."""

    steps: Steps | None
    requests: list
    results: list[list]


class World:
    """The processes of a job, as this one sees them."""

    def __init__(self):
        everyone = MPI.COMM_WORLD
        self.rank: int = everyone.Get_rank()
        self.size: int = everyone.Get_size()
        #: The current operation, None between exchanges.
        self.waiting: Waiting | None = None
        self.number = 0
        #: Exchanges in progress by id: MPI writes to their memory, whatever becomes of the program.
        self.going: dict[int, PendingExchange] = {}
        self._patience = POLITE
        self._teams: dict[tuple[int, ...], Any] = {}

    def connect(self, limit: float) -> None:
        """Make the communicators; `limit` is how long the other processes may take."""
        everyone = MPI.COMM_WORLD
        self.begin("the start of the other processes", limit)
        self.wait([everyone.Ibarrier()])
        self._comm = everyone.Dup()
        # A separate communicator: MPI pairs calls in the order of each communicator, and a check
        # must not be paired with an exchange of a program.
        self._checks = everyone.Dup()
        # Processes of one machine, which share its cores.
        node = everyone.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = node.Get_rank(), node.Get_size()
        node.Free()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._patience = PATIENT if self.local_size <= cores else POLITE
        self.end()

    # ---- the current operation ----
    def begin(self, what: str, limit: float | None = None) -> None:
        """Record the current operation with the other processes."""
        self.number += 1
        self.waiting = Waiting(self.number, what, time.monotonic(), threading.get_ident(), limit)

    def end(self) -> None:
        """Note that it is done."""
        self.waiting = None

    def wait(self, requests: list) -> None:
        """Wait until all calls are done."""
        tries, done = 0, MPI.Request.Testall
        while not done(requests):
            tries += 1
            if tries > self._patience:
                time.sleep(2e-5)

    def abort(self, code: int) -> None:
        """End all processes."""
        MPI.COMM_WORLD.Abort(code)

    # ---- exchanges ----
    def among(self, processes: tuple[int, ...]) -> Any:
        """Return the communicator of some processes, in the order of their numbers."""
        if len(processes) == self.size:
            return self._comm
        found = self._teams.get(processes)
        if found is None:
            # Made once: `Create_group` is called by these processes alone, the others need not take
            # part.
            group = self._comm.Get_group().Incl(processes)
            found = self._teams[processes] = self._comm.Create_group(group, processes[0])
        return found

    def reduce(self, value: np.ndarray, op: Any, comm: Any) -> tuple[np.ndarray, list]:
        """Start to reduce arrays over processes; return the result to be, and the requests."""
        sent = np.ascontiguousarray(value).reshape(-1)
        made = np.empty_like(sent)
        requests = [
            comm.Iallreduce(sent[i : i + CHUNK], made[i : i + CHUNK], op)
            for i in range(0, sent.size, CHUNK)
        ]
        return made.reshape(value.shape), requests

    def reduced(self, values: list[np.ndarray], op: Any, comm: Any) -> tuple[list, list]:
        """Start to reduce several arrays, small ones of a dtype together; return as `reduce`."""
        # Small arrays of a dtype in one call: each call costs a latency, however little it sends.
        together: dict[Any, list[int]] = {}
        for i, x in enumerate(values):
            key = x.dtype if x.nbytes <= PACKED else i
            together.setdefault(key, []).append(i)
        made: list[Any] = [None] * len(values)
        requests = []
        for some in together.values():
            if len(some) == 1:
                (i,) = some
                made[i], more = self.reduce(values[i], op, comm)
            else:
                packed = np.concatenate([values[i].ravel() for i in some])
                flat, more = self.reduce(packed, op, comm)
                # Views into the one result, which is complete when its request is.
                end = 0
                for i in some:
                    start, end = end, end + values[i].size
                    made[i] = flat[start:end].reshape(values[i].shape)
            requests += more
        return made, requests

    def gather(self, mine: np.ndarray, counts: Sequence[int], comm: Any) -> tuple[list, list]:
        """Start to gather bytes; return the future buffers of each process, and the requests."""
        # The start of each process's bytes in the gathered buffer.
        ends = np.cumsum([0, *counts])
        made = np.empty(int(ends[-1]), np.uint8)
        requests = []
        # Counts of MPI are C ints: larger arrays go in several calls.
        step = max(1, CHUNK // len(counts))
        for start in range(0, max(counts), step):
            part = [min(max(n - start, 0), step) for n in counts]
            own = mine[start : start + part[comm.Get_rank()]]
            where = [int(e) + start for e in ends[:-1]]
            requests.append(comm.Iallgatherv([own, MPI.BYTE], [made, part, where, MPI.BYTE]))
        return [made[a:b] for a, b in zip(ends, ends[1:], strict=False)], requests

    def send(self, value: np.ndarray, process: int, tag: int) -> list:
        """Start to send an array; return the requests, which keep it alive."""
        data = as_bytes(value)
        return [
            self._comm.Isend([data[i : i + CHUNK], MPI.BYTE], process, tag)
            for i in range(0, data.size, CHUNK)
        ]

    def receive(self, value: np.ndarray, process: int, tag: int) -> list:
        """Start to fill a contiguous array; return the requests."""
        data = value.reshape(-1).view(np.uint8)
        return [
            self._comm.Irecv([data[i : i + CHUNK], MPI.BYTE], process, tag)
            for i in range(0, data.size, CHUNK)
        ]

    # ---- among all processes of a team, separate from the programs' exchanges ----
    def gathered(self, data: bytes, processes: tuple[int, ...], what: str) -> list[bytes]:
        """Return the data of each of some processes; all of them must call it."""
        self.begin(what)
        comm = self._checks if len(processes) == self.size else self.among(processes)
        mine = np.frombuffer(data, np.uint8)
        # Processes' data may differ in length: first exchange the lengths, then the bytes.
        size = np.array([mine.size], np.int64)
        sizes = np.empty(len(processes), np.int64)
        self.wait([comm.Iallgather(size, sizes)])
        found, requests = self.gather(mine, sizes.tolist(), comm)
        self.wait(requests)
        self.end()
        return [part.tobytes() for part in found]

    def agree(self, number: int, processes: tuple[int, ...], what: str) -> bool:
        """Whether some processes give the same number below 2^63; all of them must call it."""
        self.begin(what)
        comm = self._checks if len(processes) == self.size else self.among(processes)
        # The maximum of `n` and of `-n` are the largest and, up to its sign, the smallest `n`.
        ends, requests = self.reduce(np.array([number, -number]), MPI.MAX, comm)
        self.wait(requests)
        self.end()
        return int(ends[0]) == -int(ends[1])

    def barrier(self, what: str, limit: float | None = None) -> None:
        """Wait until all processes are here."""
        self.begin(what, limit)
        self.wait([self._checks.Ibarrier()])
        self.end()


def as_bytes(value: Any) -> np.ndarray:
    """Return the bytes of an array or scalar in row-major order."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


class DeviceGroup(NamedTuple):
    """A group of devices that talk to each other, some of them ours.

    Attributes
    ----------
    members :
        The numbers of its devices in the grid, in the order of the named axes.
    mine :
        Places of our devices among the members, and in the lists of operands.
    processes :
        Those of the members, in order.
    """

    members: list[int]
    mine: list[tuple[int, int]]
    processes: tuple[int, ...]


class Processes:
    """The engine of devices in several processes.

    Parameters
    ----------
    sizes :
        The axes of the grid of devices, in order, with their lengths.
    owners :
        The process of each device of the grid.
    """

    def __init__(self, sizes: Mapping[Any, int], owners: Sequence[int], world: World):
        self.sizes = dict(sizes)
        self.owners = list(owners)
        self.world = world
        #: Our devices' numbers in the grid.
        self.mine = [i for i, p in enumerate(self.owners) if p == world.rank]
        self._by_eqn: dict[int, tuple[Eqn, Callable, str]] = {}

    def __call__(self, asked: Eqn | Half, operands: list) -> list:
        eqn = asked.eqn if isinstance(asked, Half) else asked
        known = self._by_eqn.get(id(eqn))
        if known is None:
            what = f"{eqn.primitive.name} ({eqn.site})"
            known = self._by_eqn[id(eqn)] = (eqn, self._exchange(eqn), what)
        world = self.world
        world.begin(known[2])
        try:
            if not isinstance(asked, Half):
                return self._ended(self._started(known[1], operands))
            if asked.is_start:
                # One exchange for all our devices: each carries the same object to where it waits.
                return [self._started(known[1], operands)] * len(operands)
            return self._ended(operands[0])
        finally:
            world.end()

    def among(self, asked: Eqn | Half) -> list[tuple[list[int], Callable[[list], list]]]:
        """Return the groups of this process's devices that are served separately, and their
        functions.
        """
        ours = range(len(self.mine))
        # A device knows its own index without waiting; everything else is for all devices together.
        if asked.primitive is ops.axis_index_p:
            said = self(asked, [[] for _ in ours])
            return [([i], lambda operands, i=i: [said[i]]) for i in ours]
        return [([*ours], lambda operands: self(asked, operands))]

    def _started(self, exchange: Callable, operands: list[list]) -> PendingExchange:
        """Start an exchange."""
        steps = exchange(operands)
        if isinstance(steps, list):  # no communication
            return PendingExchange(None, [], steps)
        going = PendingExchange(steps, next(steps), [])
        self.world.going[id(going)] = going
        return going

    def _ended(self, going: PendingExchange) -> list[list]:
        """Wait for an exchange; return the results of our devices."""
        if going.steps is None:
            return going.results
        self.world.wait(going.requests)
        del self.world.going[id(going)]
        try:
            next(going.steps)
        except StopIteration as end:
            return end.value
        raise AssertionError("an exchange waits once")

    def _parts(self, params: dict) -> list[DeviceGroup]:
        names = ops.names_in(params)
        place = {device: i for i, device in enumerate(self.mine)}
        found = []
        for group in groups_of(self.sizes, names, params.get("axis_index_groups")):
            mine = [(at, place[d]) for at, d in enumerate(group) if d in place]
            if mine:
                processes = tuple(sorted({self.owners[d] for d in group}))
                found.append(DeviceGroup(group, mine, processes))
        return found

    def _exchange(self, eqn: Eqn) -> Callable[[list[list]], list[list]]:
        prim, params = eqn.primitive, eqn.params
        parts = self._parts(params)
        avals = tuple(a.aval for a in eqn.invars)
        if prim is ops.axis_index_p:
            answer: list = [None] * len(self.mine)
            for part in parts:
                for at, i in part.mine:
                    answer[i] = [np.int32(at)]
            return lambda operands: answer
        if prim in (once_p, once_with_effect_p):
            return self._once(eqn)
        # Only changes a type, and moves nothing.
        if prim is ops.pcast_p or not avals:
            return lambda operands: operands
        if prim in (ops.psum_p, ops.pmax_p, ops.pmin_p):
            # Sums, maxima and minima by MPI where it can compute with these numbers.
            codes = [code for aval in avals if (code := code_of(prim, aval)) is not None]
            if len(codes) == len(avals):
                return self._reduction(prim, params, avals, codes, parts)
        if together.alone(prim) is ops.reduce_scatter_p and sum_code(avals[0]):
            return self._scattered(together.members(prim, params, len(avals)), avals, parts)
        if prim is ops.all_to_all_p:
            return self._to_all(params, avals[0], parts)
        if prim is ops.ppermute_p:
            return self._permuted(params, avals[0], parts)
        return self._on_all(prim, params, avals, parts)

    # ---- one process runs it, and sends the results to the others ----
    def _once(self, eqn: Eqn) -> Callable:
        run = run_once(eqn)
        avals = tuple(v.aval for v in eqn.outvars)
        dtypes = [storage_dtype(a) for a in avals]
        sizes = [a.size * dtype.itemsize for a, dtype in zip(avals, dtypes, strict=True)]
        ends = np.cumsum([0, *sizes])
        # The first device's process; operands of the others are ignored.
        first, processes = self.owners[0], tuple(sorted(set(self.owners)))
        counts = [int(ends[-1]) if p == first else 0 for p in processes]
        world = self.world

        def exchange(operands: list[list]) -> Steps:
            out = run(operands[0]) if world.rank == first else []
            data = np.concatenate([np.empty(0, np.uint8), *map(as_bytes, out)])
            found, requests = world.gather(data, counts, world.among(processes))
            yield requests
            row = next(_rows(dtypes, avals, ends)(found[processes.index(first)]))
            # All devices of a process get the same arrays.
            return [row] * len(operands)

        return exchange

    # ---- every process computes the results of its devices from all operands ----
    def _on_all(self, prim: Any, params: dict, avals: tuple, parts: list[DeviceGroup]) -> Callable:
        functions = [meaning(prim, avals, params, len(part.members)) for part in parts]
        dtypes = [storage_dtype(a) for a in avals]
        sizes = [a.size * dtype.itemsize for a, dtype in zip(avals, dtypes, strict=True)]
        ends = np.cumsum([0, *sizes])
        world, owners = self.world, self.owners

        def exchange(operands: list[list]) -> Steps:
            started = []
            for part in parts:
                mine = [as_bytes(x) for _, i in part.mine for x in operands[i]]
                data = np.concatenate(mine) if mine else np.empty(0, np.uint8)
                counts = [
                    sum(owners[d] == p for d in part.members) * int(ends[-1])
                    for p in part.processes
                ]
                started.append((data, *world.gather(data, counts, world.among(part.processes))))
            yield [r for _, _, requests in started for r in requests]
            results: list = [None] * len(operands)
            for part, function, (_, found, _) in zip(parts, functions, started, strict=True):
                # The devices of a process are in the order of the group.
                at = dict(zip(part.processes, map(_rows(dtypes, avals, ends), found), strict=True))
                rows = [next(at[owners[d]]) for d in part.members]
                # Those of this process were sent along, and are available directly.
                for place, i in part.mine:
                    rows[place] = operands[i]
                out = function(rows)
                for place, i in part.mine:
                    results[i] = out[place]
            return results

        return exchange

    # ---- sums, maxima, minima ----
    def _reduction(
        self,
        prim: Any,
        params: dict,
        avals: tuple,
        codes: list[ReductionCode],
        parts: list[DeviceGroup],
    ) -> Callable:
        # Sent values are wider than the operands, so local sums are, too.
        wide = tuple(a.update(dtype=c.dtype) for a, c in zip(avals, codes, strict=True))
        params = {**params, "axis_index_groups": None}
        # Devices of one process are combined before sending. Numbers in `axes` are those of the
        # array itself, which are folded in the same call.
        own = any(isinstance(axis, int) for axis in params["axes"])
        locals_ = [
            meaning(prim, wide, params, len(part.mine)) if own or len(part.mine) > 1 else same
            for part in parts
        ]
        dtypes = [storage_dtype(a) for a in avals]
        world = self.world
        op = {ops.psum_p: "SUM", ops.pmax_p: "MAX", ops.pmin_p: "MIN"}[prim]

        def exchange(operands: list[list]) -> Steps:
            started, requests = [], []
            for part, function in zip(parts, locals_, strict=True):
                rows = [
                    [c.widened(x) for c, x in zip(codes, operands[i], strict=True)]
                    for _, i in part.mine
                ]
                values = map(np.asarray, function(rows)[0])
                if len(part.processes) > 1:
                    coded = [c.encoded(x) for c, x in zip(codes, values, strict=True)]
                    comm = world.among(part.processes)
                    sums, more = world.reduced(coded, getattr(MPI, op), comm)
                    requests += more
                    started.append(list(zip(sums, coded, strict=True)))  # coded stays alive
                else:
                    started.append([(x, None) for x in values])
            yield requests
            results: list = [None] * len(operands)
            for part, sums in zip(parts, started, strict=True):
                row = [
                    (x if sent is None else c.decoded(x)).astype(dtype, copy=False)[()]
                    for c, dtype, (x, sent) in zip(codes, dtypes, sums, strict=True)
                ]
                for _, i in part.mine:
                    results[i] = row
            return results

        return exchange

    def _scattered(
        self, each: list[dict], avals: tuple[ShapedArray, ...], parts: list[DeviceGroup]
    ) -> Callable:
        # Several operands have one dtype, and the data for a device is sent together.
        axes = [params["scatter_dimension"] for params in each]
        code = sum_code(avals[0])
        assert code is not None
        wide = tuple(a.update(dtype=code.dtype) for a in avals)
        summed = {"axes": ops.names_in(each[0]), "axis_index_groups": None}
        locals_ = [
            meaning(ops.psum_p, wide, summed, len(part.mine)) if len(part.mine) > 1 else same
            for part in parts
        ]
        dtype, world, owners = storage_dtype(avals[0]), self.world, self.owners

        def exchange(operands: list[list]) -> Steps:
            requests: list = []
            # Data being sent is kept in `sent` until the requests are done: MPI reads it meanwhile.
            kept, sent = [], []
            for part, function in zip(parts, locals_, strict=True):
                rows = [[code.widened(x) for x in operands[i]] for _, i in part.mine]
                totals = map(np.asarray, function(rows)[0])
                count = len(part.members)
                cut = [np.split(x, count, axis) for x, axis in zip(totals, axes, strict=True)]
                # For each device its pieces of all operands, in a row.
                pieces = [_in_a_row(row) for row in zip(*cut, strict=True)]
                for piece, device in zip(pieces, part.members, strict=True):
                    if owners[device] != world.rank:
                        sent.append(piece)
                        requests += world.send(piece, owners[device], device)
                shapes = [x[0].shape for x in cut]
                for at, i in part.mine:
                    terms = []
                    for process in part.processes:
                        term = pieces[at]
                        if process != world.rank:
                            term = np.empty(term.shape, term.dtype)
                            requests += world.receive(term, process, part.members[at])
                        terms.append(term)
                    kept.append((i, terms, shapes))
            yield requests
            results: list = [None] * len(operands)
            for i, terms, shapes in kept:
                # In the order of processes: all add up alike.
                found = terms[0].copy()
                for term in terms[1:]:
                    found += term
                found = found.astype(dtype, copy=False)
                ends = np.cumsum([math.prod(shape) for shape in shapes])
                row = [
                    x.reshape(s) for x, s in zip(np.split(found, ends[:-1]), shapes, strict=True)
                ]
                results[i] = [
                    x if p["tiled"] else x.squeeze(p["scatter_dimension"])[()]
                    for x, p in zip(row, each, strict=True)
                ]
            return results

        return exchange

    # ---- pieces from device to device ----
    def _to_all(self, params: dict, aval: ShapedArray, parts: list[DeviceGroup]) -> Callable:
        split, joined = params["split_axis"], params["concat_axis"]
        world, owners, count = self.world, self.owners, len(self.owners)

        def exchange(operands: list[list]) -> Steps:
            requests: list = []
            kept, sent = [], []
            for part in parts:
                n = len(part.members)
                cut = {at: np.split(np.asarray(operands[i][0]), n, split) for at, i in part.mine}
                shape = next(iter(cut.values()))[0].shape
                for at, i in part.mine:
                    # In the order of members: from a device of this process immediately, from
                    # others when they arrive.
                    me, pieces = part.members[at], []
                    for place, device in enumerate(part.members):
                        other = owners[device]
                        if other == world.rank:
                            pieces.append(cut[place][at])
                            continue
                        away = np.ascontiguousarray(cut[at][place])
                        sent.append(away)
                        # A tag for each pair of devices: several devices of a process may send to
                        # one another.
                        requests += world.send(away, other, me * count + device)
                        pieces.append(np.empty(shape, away.dtype))
                        requests += world.receive(pieces[-1], other, device * count + me)
                    kept.append((i, pieces))
            yield requests
            results: list = [None] * len(operands)
            for i, pieces in kept:
                results[i] = [np.concatenate(pieces, joined)]
            return results

        return exchange

    def _permuted(self, params: dict, aval: ShapedArray, parts: list[DeviceGroup]) -> Callable:
        perm, dtype = params["perm"], storage_dtype(aval)
        world, owners = self.world, self.owners

        def exchange(operands: list[list]) -> Steps:
            requests: list = []
            sent: list = []
            results: list = [[np.zeros(aval.shape, dtype)] for _ in operands]
            for part in parts:
                mine = dict(part.mine)
                for source, target in perm:
                    # The receiver's number is the tag: it gets one value.
                    device = part.members[target]
                    if source in mine and target in mine:
                        # A copy: the sender may write over its operand before the receiver reads.
                        results[mine[target]] = [np.array(operands[mine[source]][0])]
                    elif source in mine:
                        sent.append(np.ascontiguousarray(operands[mine[source]][0]))
                        requests += world.send(sent[-1], owners[device], device)
                    elif target in mine:
                        value = np.empty(aval.shape, dtype)
                        results[mine[target]] = [value]
                        requests += world.receive(value, owners[part.members[source]], device)
            yield requests
            return results

        return exchange


def _in_a_row(values: Sequence[np.ndarray]) -> np.ndarray:
    """Return the elements of arrays of one dtype as one contiguous vector."""
    if len(values) == 1:
        return np.ascontiguousarray(values[0]).reshape(-1)
    return np.concatenate([x.ravel() for x in values])


def _rows(dtypes: list, avals: tuple, ends: np.ndarray) -> Callable:
    """Return a function that yields the operands of each device from their bytes."""

    def rows(data: np.ndarray) -> Any:
        for start in range(0, data.size, int(ends[-1])) if ends[-1] else ():
            yield [
                data[start + a : start + b].view(dtype).reshape(aval.shape)
                for dtype, aval, a, b in zip(dtypes, avals, ends, ends[1:], strict=False)
            ]
        # Arrays without elements take no bytes, so the data does not say how many devices there
        # are: the reader stops.
        while not ends[-1]:
            yield [np.empty(aval.shape, dt) for dt, aval in zip(dtypes, avals, strict=True)]

    return rows
