"""The simulator: kernels that a GPU would run, run and checked on the CPU.

Floor 4. In: a Plan. Out: a function on NumPy buffers, as the NumPy driver makes it, in which the
groups are launches of the emitted CUDA text. Library steps and views follow the NumPy rules. Each
access of a kernel is checked: see kernels/host. Slow, and for tests.

Kernels are compiled when the first of them is launched, all that wait by then in one go. Kernels
that differ in nothing but their names and comments are compiled once in a process.
"""

from __future__ import annotations

import contextlib
import re
import warnings
import weakref
from collections.abc import Callable, Iterator

import numpy as np

from gpuarray import util
from gpuarray.backends import hostcc
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.steps import group_in, inlined_eqns
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.compiler.text.prelude import complete
from gpuarray.config import state
from gpuarray.core.graph import Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind
from gpuarray.errors import CompileError, DeviceError, FallbackError, FallbackWarning

#: Kernels that are compiled together at most.
BATCH = 128
#: Where blocks, threads and their order are drawn from.
_seed = 1

_lock = util.lock()
_waiting: list[weakref.ref[Launcher]] = []
#: What was compiled, by its body: the library, and the name in it. Nothing is ever unloaded.
_made: dict[str, tuple[hostcc.Library, str]] = {}


@contextlib.contextmanager
def order_drawn_from(seed: int) -> Iterator[None]:
    """Run the threads and blocks of all kernels in the order that a seed gives."""
    global _seed
    before, _seed = _seed, seed
    try:
        yield
    finally:
        _seed = before


class Launcher:
    """One emitted kernel as a function of its input buffers."""

    def __init__(self, emitted: KernelSource):
        self.emitted = emitted
        self.body = _body(emitted)
        self.library: hostcc.Library | None = None
        self.name = ""
        self.work = _aligned(np.zeros(emitted.workspace, np.uint8))
        if any(v.aval.size for v in emitted.outputs):  # else it is never launched
            _waiting.append(weakref.ref(self))

    def __call__(self, *buffers) -> list[np.ndarray]:
        emitted = self.emitted
        buffers, begun = buffers[: len(emitted.inputs)], buffers[len(emitted.inputs) :]
        outs = [np.empty(v.aval.shape, storage_dtype(v.aval)) for v in emitted.outputs]
        aliased = [emitted.outputs.index(v) for v in emitted.kernel.aliases]
        for i, before in zip(aliased, begun, strict=True):
            outs[i] = _aligned(np.array(before, order="C"))
        if not any(x.size for x in outs):
            return outs
        with _lock:
            library = self.library or _compile(self)
        ins = [_aligned(np.asarray(b)) for b in buffers]
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
        if emitted.tiles is not None:
            at = dict(zip((*emitted.inputs, *emitted.outputs), addresses, strict=True))
            table = np.array([at[v] for v in emitted.table], np.uint64)
            tables = (table, "table"), (emitted.tiles, "tiles")
            regions += [
                hostcc.Region(x.ctypes.data, x.nbytes, hostcc.INPUT, x.itemsize, name)
                for x, name in tables
            ]
            addresses = [r.address for r in regions[-2:]]
        s = emitted.schedule
        try:
            library.launch(self.name, addresses, s.grid, s.threads, regions, _seed)
        except DeviceError as error:
            self.work[...] = 0
            message = f"kernel {emitted.name} ({emitted.text.splitlines()[0][3:]}): {error}"
            raise DeviceError(message) from None
        return outs


def _aligned(x: np.ndarray) -> np.ndarray:
    """The same elements in one piece, aligned as a GPU's memory is."""
    x = np.ascontiguousarray(x)
    if x.ctypes.data % 16 == 0:
        return x
    memory = np.empty(x.nbytes + 16, np.uint8)
    start = -memory.ctypes.data % 16
    y = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


def _body(emitted: KernelSource) -> str:
    """The text of a kernel without comments and without its name: what is compiled once."""
    code = re.sub(r"^ *//.*\n| +// [^\"\n]*$", "", emitted.text, flags=re.MULTILINE)
    return code.replace(f" {emitted.name}(", " NAME(")


def _compile(wanted: Launcher) -> hostcc.Library:
    """The library of a kernel, made now, together with others that wait."""
    batch, fresh = [wanted], {wanted.body} - _made.keys()
    for kernel in [k for r in _waiting if (k := r()) is not None and k is not wanted]:
        if kernel.body in _made or kernel.body in fresh or 0 < len(fresh) < BATCH:
            batch.append(kernel)
            fresh |= {kernel.body} - _made.keys()
    try:
        compile_kernels(batch)
    except CompileError:
        if len(batch) == 1:
            raise
        batch = [wanted]  # the fault may be another's
        compile_kernels(batch)
    done = {id(k) for k in batch}
    _waiting[:] = [r for r in _waiting if (k := r()) is not None and id(k) not in done]
    assert wanted.library is not None
    return wanted.library


def compile_kernels(batch: list[Launcher]) -> None:
    """Give kernels their libraries: one for all that nothing like them was compiled before."""
    fresh = {k.body: k.emitted for k in batch if k.body not in _made}
    if fresh:
        names = [f"k{i}" for i in range(len(fresh))]
        parts = [
            f"#define {e.name} {name}\n{e.text}#undef {e.name}"
            for e, name in zip(fresh.values(), names, strict=True)
        ]
        library = hostcc.compile_library(complete("\n".join(parts)), names)
        _made.update((body, (library, name)) for body, name in zip(fresh, names, strict=True))
    for kernel in batch:
        kernel.library, kernel.name = _made[kernel.body]


class _Writer(host.Writer):
    """Writes plans whose groups are kernels."""

    def __init__(self):
        super().__init__()
        self.compile_graph = compile_graph

    def fused(self, step: Kernel | FusedGroup) -> None:
        group = group_in(step)
        try:
            emitted = emit(step)
        except TypeError as error:  # no rule, or a dtype without a type in CUDA
            _fall_back(group, error)
            for eqn in inlined_eqns(group):
                self.call(eqn, [self.atom(a) for a in eqn.invars])
            super().fused(group)
            return
        self.kernel(emitted, group, emitted.outputs)

    def kernel(self, emitted: KernelSource, group: FusedGroup, results: list[Var]) -> None:
        """A launch."""
        ins = ", ".join(self.names[v] for v in (*emitted.inputs, *emitted.kernel.aliases.values()))
        outs = ", ".join(self.name(v) for v in results)
        kernel = self.bind(emitted.name, Launcher(emitted))
        self.line(f"{outs}, = {kernel}({ins})", group.members[0].eqn, group)


def on_host(plan: Plan) -> list[str]:
    """The operations of a plan that are no kernels, and so follow the NumPy rules: by name, in
    order.
    """
    steps = [s for s in plan.device_steps if not isinstance(s, Kernel | FusedGroup)]
    return [s.primitive.name for s in steps if s.primitive.kind is not Kind.VIEW]


def _fall_back(group: FusedGroup, error: TypeError) -> None:
    """Say, or in strict mode refuse, that a group runs by the NumPy rules."""
    ops = ", ".join(m.eqn.primitive.name for m in group.members)
    message = f"no kernel for {group.name} ({ops}), so NumPy runs it: {error}"
    if state.strict:
        raise FallbackError(f"{message}. Strict mode refuses that: switch `strict` off.")
    warnings.warn(message, FallbackWarning, stacklevel=2)


def build(plan: Plan, consts: list, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
    """A function from buffers to a list of buffers, as `backends.numpy.program.build`."""
    return host.build(plan.on_device, consts, donated, _Writer())


def compile_graph(graph: Graph, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
    """A Graph inside another (a branch, a loop's body) as a function on buffers."""
    key = ("simulated", donated)
    if key not in graph.derived:
        plan = plan_graph(graph)
        consts = [np.asarray(c) for c in plan.graph.consts]
        graph.derived[key] = build(plan, consts, donated)
    return graph.derived[key]
