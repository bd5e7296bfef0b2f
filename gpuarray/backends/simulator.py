"""The simulator: kernels for a GPU, run and checked on the CPU.

Floor 4. In: a Plan. Out: a function on NumPy buffers, as in the NumPy backend, in which groups are
launches of the emitted CUDA text. Library steps and views follow the NumPy rules. Every access of a
kernel is checked (see kernels/host). It is slow, and for tests.

Kernels are compiled when the first of them is launched, together with all that are waiting then.
Kernels that differ only in their names and comments are compiled once per process.
"""

from __future__ import annotations

import contextlib
import functools
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpuarray import util
from gpuarray.backends import hostcc
from gpuarray.backends.numpy import program as host
from gpuarray.backends.writer import NOTHING, compiled_once
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.steps import group_in, inlined_eqns
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.compiler.text.prelude import complete
from gpuarray.config import state
from gpuarray.core.graph import Graph, storage_dtype
from gpuarray.core.primitive import Kind, NoKernel
from gpuarray.errors import CompileError, DeviceError, FallbackError, FallbackWarning

#: The most kernels that are compiled together.
BATCH = 128
#: Seed of the order in which blocks and threads run.
_seed = 1

#: Receives the data moved by each launch, by kernel; None: it is not counted.
_counter: Callable[[KernelSource, dict[str, Moved]], None] | None = None

_lock = util.lock()
_waiting: list[weakref.ref[Launcher]] = []
#: Compiled kernels by their body: the library, and the name in it. Never unloaded.
_made: dict[str, tuple[hostcc.Library, str]] = {}


@contextlib.contextmanager
def order_drawn_from(seed: int) -> Iterator[None]:
    """Context manager: run the threads and blocks of all kernels in the order drawn from `seed`."""
    # Launches read the seed when they run, long after their kernels were compiled.
    global _seed
    before, _seed = _seed, seed
    try:
        yield
    finally:
        _seed = before


class Moved(NamedTuple):
    """Bytes of an array that a launch reads and writes.

    Attributes
    ----------
    loaded, stored :
        The bytes of every load and store.
    read, written :
        The same, but each byte once for each time between two meetings of threads (barriers,
        exchanges between lanes) in which it is read or written.
    """

    loaded: int
    stored: int
    read: int
    written: int


@contextlib.contextmanager
def counting(counter: Callable[[KernelSource, dict[str, Moved]], None]) -> Iterator[None]:
    """Context manager: call `counter` with each kernel that runs and the data it moves of each of
    its arrays, by their names in the text.
    """
    global _counter
    before, _counter = _counter, counter
    try:
        yield
    finally:
        _counter = before


class Launcher:
    """An emitted kernel as a function of its input buffers."""

    def __init__(self, emitted: KernelSource):
        self.emitted = emitted
        self.body = _body(emitted)
        self.library: hostcc.Library | None = None
        self.name = ""
        # A workspace outlives its launches: each leaves the tickets at zero for the next one.
        self.work = _aligned(np.zeros(emitted.workspace, np.uint8))
        if any(v.aval.size for v in emitted.outputs):  # others are never launched
            _waiting.append(weakref.ref(self))

    def __call__(self, *buffers) -> list[np.ndarray]:
        emitted = self.emitted
        # Operands that are updated in place come last, and start the outputs.
        buffers, begun = buffers[: len(emitted.inputs)], buffers[len(emitted.inputs) :]
        outs = [np.empty(v.aval.shape, storage_dtype(v.aval)) for v in emitted.outputs]
        aliased = [emitted.outputs.index(v) for v in emitted.kernel.aliases]
        # Start with a copy of the operand: the user's value must not change.
        for i, before in zip(aliased, begun, strict=True):
            outs[i] = _aligned(np.array(before, order="C"))
        if not any(x.size for x in outs):
            return outs
        # Compiled at the first launch, together with all that wait by then.
        with _lock:
            library = self.library or _compile(self)
        ins = [_aligned(np.asarray(b)) for b in buffers]
        # Tell the runtime which memory the kernel may access, and how.
        used = [(x, hostcc.INPUT, f"in{i}") for i, x in enumerate(ins)]
        used += [
            (x, hostcc.WORK if i in aliased else hostcc.OUTPUT, f"out{i}")
            for i, x in enumerate(outs)
        ]
        if emitted.workspace:
            used.append((self.work, hostcc.WORK, "work"))
        regions = [
            hostcc.Region(x.ctypes.data, x.nbytes, kind, 4 if x is self.work else x.itemsize, name)
            for x, kind, name in used
        ]
        addresses = [r.address for r in regions]
        # Kernels over many small operands read addresses from a table.
        if emitted.tiles is not None:
            arrays = *emitted.inputs, *emitted.outputs
            at = dict(zip(arrays, addresses, strict=False))  # followed by the workspace
            table = np.array([at[v] for v in emitted.table], np.uint64)
            tables = (table, "table"), (emitted.tiles, "tiles")
            regions += [
                hostcc.Region(x.ctypes.data, x.nbytes, hostcc.INPUT, x.itemsize, name)
                for x, name in tables
            ]
            addresses[: len(arrays)] = [r.address for r in regions[-2:]]
        s = emitted.schedule
        try:
            # Blocks run in an order drawn from the seed, to find kernels that depend on it.
            counts = None if _counter is None else np.zeros((len(regions), 4), np.uint64)
            library.launch(self.name, addresses, s.grid, s.threads, regions, _seed, counts=counts)
        except DeviceError as error:
            self.work[...] = 0  # the next launch must find it zero
            message = f"kernel {emitted.name} ({emitted.text.splitlines()[0][3:]}): {error}"
            raise DeviceError(message) from None
        if _counter is not None and counts is not None:
            moved = (Moved(*row) for row in counts.tolist())
            _counter(emitted, {r.name: m for r, m in zip(regions, moved, strict=True)})
        return outs


def _aligned(x: np.ndarray) -> np.ndarray:
    """Return the same elements contiguous and aligned as on a GPU."""
    x = np.ascontiguousarray(x)
    if x.ctypes.data % 16 == 0:
        return x
    memory = np.empty(x.nbytes + 16, np.uint8)
    start = -memory.ctypes.data % 16
    y = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


def _body(emitted: KernelSource) -> str:
    """Return a kernel's text without comments and name: the key by which it is compiled once."""
    # Comments name operations and users' lines; the code below them is the same for many kernels.
    code = re.sub(r"^ *//.*\n| +// [^\"\n]*$", "", emitted.text, flags=re.MULTILINE)
    return code.replace(f" {emitted.name}(", " NAME(")


def _compile(wanted: Launcher) -> hostcc.Library:
    """Compile a kernel together with others that wait, and return its library."""
    batch, fresh = [wanted], {wanted.body} - _made.keys()
    # Fill the batch with pending kernels: compiling several takes little longer than one, and those
    # compiled before cost nothing.
    for kernel in [k for r in _waiting if (k := r()) is not None and k is not wanted]:
        if kernel.body in _made or kernel.body in fresh or 0 < len(fresh) < BATCH:
            batch.append(kernel)
            fresh |= {kernel.body} - _made.keys()
    try:
        compile_kernels(batch)
    except CompileError:
        if len(batch) == 1:
            raise
        batch = [wanted]  # the error may be in another kernel
        compile_kernels(batch)
    done = {id(k) for k in batch}
    # Dropped kernels, and those that have been compiled, no longer wait.
    _waiting[:] = [r for r in _waiting if (k := r()) is not None and id(k) not in done]
    assert wanted.library is not None
    return wanted.library


def compile_kernels(batch: list[Launcher]) -> None:
    """Give kernels their libraries; all that are new are compiled into one."""
    fresh = {k.body: k.emitted for k in batch if k.body not in _made}
    if fresh:
        names = [f"k{i}" for i in range(len(fresh))]
        # Renamed by the preprocessor, so that names do not clash.
        parts = [
            f"#define {e.name} {name}\n{e.text}#undef {e.name}"
            for e, name in zip(fresh.values(), names, strict=True)
        ]
        library = hostcc.compile_library(complete("\n".join(parts)), names)
        _made.update((body, (library, name)) for body, name in zip(fresh, names, strict=True))
    for kernel in batch:
        kernel.library, kernel.name = _made[kernel.body]


class SimulatorProgramWriter(host.NumpyProgramWriter):
    """Writes plans whose groups are kernels."""

    def planned(self, graph: Graph) -> Plan:
        """Return the plan of a Graph that is written out where it is used."""
        plan = plan_graph(graph).on_device
        return plan.overlapped if self.plan.overlaps else plan

    def kernel(self, number: int, step: Kernel | FusedGroup) -> None:
        """Write a launch."""
        group = group_in(step)
        try:
            emitted = emit(step)
        # Without a kernel the group runs by NumPy's rules, and inlined equations become steps
        # again.
        except NoKernel as error:  # no rule, or a dtype that CUDA has no type for
            _fall_back(group, error)
            for eqn in inlined_eqns(group):
                self.call(eqn)
            super().kernel(number, step)
            return
        ins = ", ".join(self.names[v] for v in (*emitted.inputs, *emitted.kernel.aliases.values()))
        outs = ", ".join(self.name(v) for v in emitted.outputs)
        kernel = self.bind(emitted.name, Launcher(emitted))
        self.line(f"{outs}, = {kernel}({ins})", group.members[0].eqn, group)


def on_host(plan: Plan) -> list[str]:
    """Return the operations of a plan that follow the NumPy rules: by name, in order."""
    steps = [s for s in plan.device_steps if not isinstance(s, Kernel | FusedGroup)]
    return [s.primitive.name for s in steps if s.primitive.kind is not Kind.VIEW]


def _fall_back(group: FusedGroup, error: NoKernel) -> None:
    """Warn, or in strict mode raise, that a group runs by the NumPy rules."""
    ops = ", ".join(m.eqn.primitive.name for m in group.members)
    message = f"no kernel for {group.name} ({ops}), so NumPy runs it: {error}"
    # Tests always run in strict mode, so that a missing kernel is noticed.
    if state.strict:
        raise FallbackError(f"{message}. Strict mode refuses that: switch `strict` off.")
    warnings.warn(message, FallbackWarning, stacklevel=2)


def build(plan: Plan, consts: Sequence, donated: frozenset[int] = NOTHING) -> Callable[..., list]:
    """Return a function from buffers to a list of buffers, as `backends.numpy.program.build`."""
    return SimulatorProgramWriter(plan.on_device, consts, donated, compile_graph).function()


def compile_graph(
    graph: Graph, donated: frozenset[int] = NOTHING, overlaps: bool = False
) -> Callable[..., list]:
    """Compile a Graph inside another (a branch, a loop body) to a function on buffers."""
    made = functools.partial(build, donated=donated)
    return compiled_once(graph, ("simulated", donated), made, overlaps)
