"""Which inputs of a kernel may share the memory of one of its outputs.

Floor 3. In: a Kernel, one of its outputs. Out: the inputs of which each element is read only by the
thread that writes the output's element at the same position, before it writes. All others must be
in separate memory: threads run in any order.
"""

from __future__ import annotations

import math

from gpuarray.compiler.lower.kernel import Batch, Kernel, Map
from gpuarray.core.element import Element, parts
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Index


def overwritable(kernel: Kernel, output: Var) -> frozenset[Var]:
    """The inputs that may share the memory of an output."""
    if isinstance(kernel, Batch):
        return _in_batch(kernel, output)
    group, accesses = kernel.group, kernel.accesses
    # Memory can be shared only if elements have the same size and positions.
    alike = {v for v in kernel.inputs if _alike(v, output)}
    if kernel.aliases and math.prod(group.axes) == 1:
        return frozenset(alike)  # one thread, which writes when it has read everything
    if not alike or group.joined or not isinstance(kernel, Map):
        return frozenset()
    dims = group.made[output].dims
    if any(n > 1 and axis not in dims for axis, n in enumerate(accesses.axes)):
        return frozenset()  # other threads also read for themselves
    written = _terms(accesses.output_index(output))
    for load in accesses.loads():
        # Each element must be read where it is written, by the thread that then overwrites it.
        for part in parts(accesses.of(load)):
            if not isinstance(part, Element):
                alike -= {getattr(part, "source", None)}  # an address to search from
            elif _terms(part.index) != written:
                alike.discard(part.source)
    return frozenset(alike)


def _in_batch(batch: Batch, output: Var) -> frozenset[Var]:
    """The same for one of many arrays: a thread's reads at the position it writes are all in one
    part of the batch.
    """
    (part,) = (p for p in batch.parts if output in p.outputs)
    # The result of a reduction is written while other blocks may still read; so are scalars.
    if output.aval.size == 1:
        return frozenset()
    others = {v for p in batch.parts if p is not part for v in p.inputs}
    return frozenset(v for v in part.inputs if _alike(v, output) and v not in others)


def _alike(v: Var, output: Var) -> bool:
    """Whether elements have the same place and size in memory."""
    size = storage_dtype(v.aval).itemsize
    return v.aval.size == output.aval.size and size == storage_dtype(output.aval).itemsize


def _terms(index: Index) -> tuple[frozenset, int]:
    """An index, whatever the order of its terms."""
    return frozenset(index.terms), index.constant
