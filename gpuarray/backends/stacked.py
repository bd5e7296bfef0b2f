"""Programs of devices that share memory and hold little data, run for all of them together.

Floor 4. In: the program of one device. Out: a function of the operands of all devices: the program
under a batch axis of devices, on stacked operands. An iteration of a loop then takes one NumPy call
for each operation, and not one for each operation and device.

Each value of the stack is what its device would have computed: operations do not mix elements along
a batch axis, and the meaning of a collective is its batch rule (shared.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpuarray.backends.numpy.program import compile_graph
from gpuarray.core.dtypes import ExtendedDType
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Eqn, Graph, called, evaluate, has_effect, has_exchanges
from gpuarray.core.primitive import Kind
from gpuarray.errors import MissingRuleError
from gpuarray.transforms.batch import BatchAxis, batch_flat
from gpuarray.transforms.tracing import TracedFunction, stage

#: Maximum number of elements of a device's values: for larger ones the calls themselves do not
#: dominate, and stacking would copy.
SMALL = 1 << 10
#: Operations whose batch rules are as fast, and do not change any element's bits: a matrix product
#: may add in another order in a batch.
_ALIKE = frozenset(
    {Kind.POINTWISE, Kind.REDUCTION, Kind.VIEW, Kind.MOVEMENT, Kind.GENERATOR, Kind.COLLECTIVE}
)


def stacked(graph: Graph, sizes: Mapping[Any, int]) -> Callable[[list[list]], list[list]] | None:
    """Return the program of all devices, from rows with a buffer for each to such rows.

    None if it is not worthwhile, or devices may diverge: only loops with exchanges run this way.
    """
    loops = [e for e in graph.eqns if e.primitive.kind is Kind.CALL and _exchanges(e)]
    # Along several mesh axes nested batches would add in another order.
    if len(sizes) != 1 or not loops or not _is_alike(graph):
        return None
    ((name, size),) = sizes.items()
    dims: list[int | None] = []

    def fun(*stacks: Any) -> list:
        of_one = lambda *values: evaluate(graph, *values)
        out, found = batch_flat(of_one, BatchAxis(size, name), stacks, [0] * len(stacks))
        dims.extend(found)
        return out

    avals = [a.update(shape=(size, *a.shape), layout=None) for a in graph.in_avals]
    try:
        run = compile_graph(stage(fun, avals, TracedFunction(fun, "devices")))
    except MissingRuleError:  # a primitive of the user's may have no batch rule
        return None

    def together(inputs: list[list]) -> list[list]:
        found = run(*map(np.array, inputs))
        # A value that is the same on all devices is stored once.
        return [
            [x] * size if dim is None else list(np.moveaxis(x, dim, 0))
            for x, dim in zip(found, dims, strict=True)
        ]

    return together


def _exchanges(eqn: Eqn) -> bool:
    flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
    return isinstance(flow, Loop) and has_exchanges(flow.body)


def _is_alike(graph: Graph) -> bool:
    """Whether all devices take the same way through a Graph of small values."""
    return all(map(_is_small, graph.in_avals)) and all(map(_goes_alike, graph.eqns))


def _goes_alike(eqn: Eqn) -> bool:
    if has_effect(eqn) or not all(_is_small(v.aval) for v in eqn.outvars):
        return False
    if eqn.primitive.kind is not Kind.CALL:
        # A batch has no groups of devices.
        one_group = eqn.params.get("axis_index_groups") is None
        return eqn.primitive.kind in _ALIKE and one_group
    flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
    if isinstance(flow, Loop):
        return flow.condition is None and _is_alike(flow.body)
    body = called(eqn)
    return body is not None and _is_alike(body)


def _is_small(aval: Any) -> bool:
    return not isinstance(aval.dtype, ExtendedDType) and aval.size <= SMALL
