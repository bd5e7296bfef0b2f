"""Iterations of a loop as CUDA graphs: many iterations are one call, without Python for each.

Floor 4. In: a loop whose iterations launch only kernels and products, and its
iteration-by-iteration implementation. Out: one by graphs, if that saves time: of many iterations if
their number is known, else of one iteration followed by the condition, which the host reads before
the next. (CuPy 14.2 has no bindings for the conditional nodes of CUDA's graphs, which
cupy/cupy#8615 would add.)

A graph has its own memory for the carries and for the elements that its iterations read and write:
they are copied there and back, since operands have other addresses at each call. Constants are read
in place: a graph is bound to their addresses, and to memory that its caller holds.

CuPy refuses cuBLAS while a stream is being recorded. cuBLASLt, which is called directly and with a
workspace of the caller's, can be recorded; so it is used for the products of such loops, even in
iterations that are not recorded: another library would sum in another order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from gpuarray.backends.cuda import graphs, library
from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.borrowed import Kept
from gpuarray.backends.cuda.device import Buffer, Gpu
from gpuarray.backends.cuda.fused_products import gemm_lt_p, multiplies
from gpuarray.backends.cuda.products import gemm_p
from gpuarray.backends.cuda.substitutes import parts_graph
from gpuarray.compiler.lower.kernel import Batch
from gpuarray.compiler.pipeline import Plan
from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Eqn, Graph, storage_dtype, talks
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.util import references

#: Graphs that a loop keeps, each for the addresses of its constants.
_KEPT = 2


class Makes(Protocol):
    """Compiles Graphs to functions for a GPU (program.Inside)."""

    gpu: Gpu

    def __call__(self, graph: Graph, donated: frozenset[int] = ...) -> Callable[..., list]: ...
    def plan(self, graph: Graph) -> Plan: ...
    def recorded(self, room: Gpu) -> Makes: ...
    @property
    def turns(self) -> Makes: ...


def recorded(
    eqn: Eqn, make: Callable[[Makes], Callable[..., Any]], inside: Makes
) -> Callable[..., Any]:
    """Return a loop's implementation by graphs of its iterations, or the result of `make` if there
    is nothing to gain.
    """
    loop = None if eqn.primitive.flow is None or talks(eqn) else eqn.primitive.flow(eqn)
    count = _turns_together(loop, inside) if isinstance(loop, Loop) else 0
    if not count:
        return make(inside)
    assert isinstance(loop, Loop)
    inside = inside.turns
    kind = _Turns if loop.condition is None else _While
    return kind(loop, count, make(inside), inside)


def _turns_together(loop: Loop, inside: Makes) -> int:
    """Return how many iterations of a loop become a graph; 0 if it is not worthwhile."""
    launches = _launches(loop.body, inside)
    if loop.condition is not None:
        tested = _launches(loop.condition, inside)
        # Elements that stop at different iterations have a condition each.
        if not launches or not tested or loop.condition.out_avals[0].ndim:
            return 0
        # Carries are copied back at every iteration.
        return int(launches + tested >= TARGET.graph_run)
    if not loop.length or not launches:
        return 0
    most = max(TARGET.graph_nodes // launches, 1)
    # The graph has memory for carries and scanned elements.
    rows = sum(a.nbytes for a in _through(loop))
    if rows:
        most = min(most, TARGET.graph_bytes // rows)
    if min(most, loop.length) < TARGET.graph_turns:
        return 0
    # Equally many iterations in each graph, so that few remain.
    return loop.length // -(-loop.length // most)


def _launches(graph: Graph, inside: Makes) -> int:
    """Return the number of launches of a Graph; 0 if it cannot be recorded, or takes long."""
    steps = _recordable(graph, inside)
    moved = inside.plan(graph).on_device.bytes_moved
    return 0 if steps is None or moved > steps * TARGET.graph_kernel_bytes else steps


def _recordable(graph: Graph, inside: Makes) -> int | None:
    """Return how many kernels and products a Graph launches; None if it does anything else."""
    found = 0
    for step in inside.plan(graph).on_device.steps:
        if _is_view(step):
            continue
        # Tables of addresses, other routines and loops inside are not recorded.
        if isinstance(step, Eqn):
            more = _of_product(step, inside)
        else:
            more = None if isinstance(step, Batch) else 1
        if more is None:
            return None
        found += more
    return found


def _of_product(eqn: Eqn, inside: Makes) -> int | None:
    """Return the same for an equation, if that is a product or is implemented by products."""
    if eqn.primitive in (gemm_p, gemm_lt_p):
        return 1 if multiplies(eqn) else None
    parts = library.product_parts(eqn)
    return None if parts is None else _recordable(parts_graph(parts, eqn), inside)


def _is_view(step: Any) -> bool:
    is_eqn = isinstance(step, Eqn)
    return is_eqn and (step.primitive.kind is Kind.VIEW or step.primitive.same_bytes)


def _through(loop: Loop) -> list[ShapedArray]:
    """Return the avals of an iteration's elements of xs and ys."""
    body, first = loop.body, len(loop.consts) + len(loop.carry)
    return [*body.in_avals[first:], *body.out_avals[len(loop.carry) :]]


class _Room(Gpu):
    """A GPU as programs see it whose launches are recorded.

    Its stream is that of the recording, and its memory stays with the graph: freed memory is reused
    by later iterations, in the order of the recording.
    """

    def __init__(self, gpu: Gpu):
        self.real, self.device, self.index, self.arch = gpu, gpu.device, gpu.index, gpu.arch
        self.ordinal, self.name, self.recent = gpu.ordinal, gpu.name, gpu.recent
        self.libraries = gpu.libraries
        with gpu.device:
            self.stream = cupy.cuda.Stream(non_blocking=True)
        self._kept: dict[int, list] = {}
        self.malloc = self._take
        # Done now and not at each replay: constants, and workspaces that kernels leave zeroed.
        self.upload, self.zeroed, self.launched = gpu.upload, gpu.zeroed, gpu.launched
        self.retried, self.shared_bytes = gpu.retried, gpu.shared_bytes

    def _take(self, nbytes: int) -> Any:
        kept = self._kept.setdefault(nbytes, [])
        for memory in kept:
            # References: the list's and this name's.
            if references((memory,)) <= 2:
                return memory
        # From the part of the pool that all else uses, not from one of the recording's stream.
        with cupy.cuda.Stream.null:
            kept.append(self.real.allocate(nbytes))
        return kept[-1]


class _Recording:
    """A graph of some iterations, with the memory that it works on.

    `goes_on` is the result of the condition at its end.
    """

    goes_on: Buffer

    def __init__(self, turns: _Turns, consts: Sequence[Buffer], tested: Sequence[Buffer] = ()):
        gpu, loop, count = turns.gpu, turns.loop, turns.count
        self.room = room = _Room(gpu)
        body = turns.inside.recorded(room)(loop.body, turns.donated)
        ins, outs, carries = loop.body.in_avals, loop.body.out_avals, len(loop.carry)
        with gpu.device:
            # Before the recording: memory shared between the graph and its callers.
            self.carry = [_empty(room, a) for a in outs[:carries]]
            self.xs = [_empty(room, a, count) for a in ins[len(consts) + carries :]]
            self.ys = [_empty(room, a, count) for a in outs[carries:]]
        test = None if loop.condition is None else turns.inside.recorded(room)(loop.condition)
        tested = [Buffer(c.pointer, c.shape, c.dtype, c.memory, room, 0) for c in tested]
        here = [Buffer(c.pointer, c.shape, c.dtype, c.memory, room, 0) for c in consts]
        order = range(count - 1, -1, -1) if loop.reverse else range(count)

        def launches() -> None:
            last = turns.go(body, here, self.carry, self.xs, self.ys, order)
            # The last carries may be in one another's memory: those are copied away first.
            places = {c.pointer for c in self.carry}
            last = [
                room.copy(new) if new.pointer in places and new.pointer != c.pointer else new
                for new, c in zip(last, self.carry, strict=True)
            ]
            for new, c in zip(last, self.carry, strict=True):
                if new.pointer != c.pointer:
                    room.write(c.pointer, new.pointer, c.nbytes)
            if test is not None:
                (self.goes_on,) = test(*tested, *self.carry)

        self.graph = graphs.record(gpu, room.stream, launches)
        # A graph has the addresses of code and constants, and holds neither.
        self._kept = Kept(gpu, (self.graph, room, body, test))


class _Turns:
    """Runs a loop by graphs of `count` iterations; the remaining ones run one by one."""

    def __init__(self, loop: Loop, count: int, run: Callable[..., Any], inside: Makes):
        self.loop, self.count, self.run, self.inside = loop, count, run, inside
        self.gpu = inside.gpu
        self.donated = frozenset(range(len(loop.consts), len(loop.consts) + len(loop.carry)))
        # The last iterations, if any; the body allocates their results.
        self.left = loop.length % count if loop.length else 0
        self._body: Callable[..., list] | None = None
        self._test: Callable[..., list] | None = None
        self._kept: dict[tuple[int, ...], _Recording | None] = {}
        self._works = True
        self._made = self._used = 0  # graphs, and calls that they served
        # Two calls would mix their carries.
        self._lock = threading.Lock()

    def __call__(self, *args: Buffer) -> list[Buffer]:
        if self._works:
            with self._lock:
                try:
                    kept = self._find(args)
                    if kept is not None:
                        return self._replayed(kept, args)
                except Exception as error:
                    # The operands are unchanged: run the whole loop again.
                    graphs.give_up(error)
                    self._works = False
                    self.gpu.hold(self._kept)  # they may be running
                    self._kept = {}
        return self.run(*args)

    def _find(self, args: Sequence[Buffer]) -> _Recording | None:
        """Return a graph for the constants of a call; None if it is not worth one yet."""
        loop, consts = self.loop, [args[i] for i in self.loop.consts]
        tested = [args[i] for i in self.loop.condition_consts]
        key = tuple(c.pointer for c in (*consts, *tested))
        found = self._kept.get(key)
        if found is None:
            # The most recently used one comes last.
            again = key in self._kept
            while len(self._kept) >= _KEPT and not again:
                oldest = next(iter(self._kept))
                self.gpu.hold(self._kept.pop(oldest))
            # Recording takes longer than a call: not where graphs are thrown away unused.
            wasted = self._made >= 2 * _KEPT and self._used < 4 * self._made
            long = (loop.length or 0) >= TARGET.graph_turns * self.count
            if (again or long) and not wasted:
                found = _Recording(self, consts, tested)
                self._made += 1
        self._used += found is not None
        self._kept.pop(key, None)
        self._kept[key] = found
        return found

    def _replayed(self, kept: _Recording, args: Sequence[Buffer]) -> list[Buffer]:
        loop, count, gpu = self.loop, self.count, self.gpu
        assert loop.length is not None
        carries, length = len(loop.carry), loop.length
        xs = [args[i] for i in loop.xs]
        with gpu.device:
            ys = [_empty(gpu, a, length) for a in loop.body.out_avals[carries:]]
            for place, i in zip(kept.carry, loop.carry, strict=True):
                gpu.write(place.pointer, args[i].pointer, place.nbytes)
            # `count` iterations in each launch of the graph; the remaining ones run one by one.
            for number in range(length // count):
                first = length - (number + 1) * count if loop.reverse else number * count
                for place, x in zip(kept.xs, xs, strict=True):
                    gpu.write(place.pointer, _row(x, first), place.nbytes)
                kept.graph.launch(gpu.stream)
                for place, y in zip(kept.ys, ys, strict=True):
                    gpu.write(_row(y, first), place.pointer, place.nbytes)
            carry = [_empty(gpu, a) for a in loop.body.out_avals[:carries]]
            for new, place in zip(carry, kept.carry, strict=True):
                gpu.write(new.pointer, place.pointer, place.nbytes)
        if self.left:
            if self._body is None:
                self._body = self.inside(loop.body, self.donated)
            order = (
                range(self.left - 1, -1, -1) if loop.reverse else range(length - self.left, length)
            )
            consts = [args[i] for i in loop.consts]
            carry = self.go(self._body, consts, carry, xs, ys, order)
        return [*carry, *ys]

    def go(
        self,
        body: Any,
        consts: Sequence[Buffer],
        carry: Sequence[Buffer],
        xs: Sequence[Buffer],
        ys: Sequence[Buffer],
        order: Iterable[int],
    ) -> Sequence[Buffer]:
        """Run the iterations `order`, and return the carries after them."""
        carries = len(self.loop.carry)
        # The initial carries do not belong to the body; later ones it may overwrite.
        ours = frozenset(len(consts) + i for i in body.fresh if i < carries)
        owned: list[frozenset[int]] = [frozenset()] if self.donated else []
        for i in order:
            out = body(*consts, *carry, *[x[i] for x in xs], *owned)
            carry = out[:carries]
            if owned:
                owned = [ours]
            for y, value in zip(ys, out[carries:], strict=True):
                y[i] = value
        return carry


class _While(_Turns):
    """Runs a loop by graphs of one iteration and the condition after it."""

    def _replayed(self, kept: _Recording, args: Sequence[Buffer]) -> list[Buffer]:
        loop, gpu = self.loop, self.gpu
        if self._test is None:
            assert loop.condition is not None
            self._test = self.inside(loop.condition)
        carry = [args[i] for i in loop.carry]
        (goes_on,) = self._test(*[args[i] for i in loop.condition_consts], *carry)
        if not goes_on:
            return carry
        with gpu.device:
            for place, value in zip(kept.carry, carry, strict=True):
                gpu.write(place.pointer, value.pointer, place.nbytes)
            flag = kept.goes_on
            while goes_on:
                kept.graph.launch(gpu.stream)
                # A new Buffer, since a Buffer is read from the GPU once.
                ticket = gpu.launched()
                goes_on = Buffer(flag.pointer, (), flag.dtype, flag.memory, gpu, ticket)
            return [
                gpu.copy(Buffer(c.pointer, c.shape, c.dtype, c.memory, gpu, 0)) for c in kept.carry
            ]


def _empty(gpu: Gpu, aval: ShapedArray, *first: int) -> Buffer:
    return gpu.empty((*first, *aval.shape), storage_dtype(aval))


def _row(buffer: Buffer, number: int) -> int:
    """Return the address of an element along the first axis."""
    return buffer.pointer + number * (buffer.nbytes // max(buffer.shape[0], 1))
