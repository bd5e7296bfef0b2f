"""Values inside a `shard_map` that is called outside of `jit`: Python may look at them.

Floor 6. In: the trace of the function of one device, and the arrays it is called with. Out: the
value of a tracer on each device. All equations that it depends on are run, so `if` works on values
that are the same on all devices, and `print` shows each device's piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.control.graph_edits import opened
from gpuarray.control.shard_map import shard_map_p
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, Var
from gpuarray.core.layout import unreduced_of
from gpuarray.core.mesh import Mesh, PartitionSpec
from gpuarray.transforms.tracing import GraphTrace, GraphTracer


class Values:
    """The values of a trace, on the devices of a mesh."""

    def __init__(
        self,
        leaves: Sequence[Any],
        specs: Sequence[PartitionSpec],
        mesh: Mesh,
        manual: frozenset,
        typed: bool,
    ):
        self.leaves, self.specs = leaves, specs
        self.mesh, self.manual, self.typed = mesh, manual, typed
        #: The tracers whose values were looked at: another call may go another way.
        self.looked: list[GraphTracer] = []

    def __call__(self, x: GraphTracer) -> Any:
        """Return the value of a tracer if it is the same on all devices, else None."""
        if self.typed and (x.aval.vma | unreduced_of(x.aval.layout)) & self.manual:
            return None
        pieces = self.pieces(x)
        # Without types only the values themselves show whether they are the same.
        bits = [np.asarray(p).tobytes() for p in pieces]
        same = self.typed or all(b == bits[0] for b in bits)
        return pieces[0] if same else None

    def show(self, x: GraphTracer) -> str:
        """Return the piece of each device, as text."""
        names = ", ".join(map(str, self.mesh.axis_names))
        places = np.ndindex(self.mesh.axis_sizes)
        shown = zip(self.mesh.devices.flat, places, self.pieces(x), strict=True)
        return "\n\n".join(
            f"On {device} at mesh coordinates ({names}) = {place}:\n{np.asarray(piece)}"
            for device, place, piece in shown
        )

    def pieces(self, x: GraphTracer) -> list:
        """Return the value of a tracer on each device, in the mesh's order."""
        # The function's control flow may depend on this value: its trace is not reused for other
        # calls.
        self.looked.append(x)
        graph = _up_to(x._trace, x._var)
        with traces.base_trace():
            # As if all devices had the same: each keeps its own.
            (out,) = shard_map_p.bind(
                *graph.consts,
                *self.leaves,
                jaxpr=opened(graph),
                mesh=self.mesh,
                in_specs=(*[PartitionSpec()] * len(graph.consts), *self.specs),
                out_specs=(PartitionSpec(),),
                manual_axes=self.manual,
                check_vma=False,
            )
            shards = {s.device: s.data for s in out.addressable_shards}
        return [shards[device] for device in self.mesh.devices.flat]


def _up_to(trace: GraphTrace, var: Var) -> Graph:
    """Return the Graph of one value of a trace: the preceding equations that it depends on."""
    needed, kept = {var}, []
    # The trace is still open: run only the equations that this value needs.
    for eqn in reversed(trace.eqns):
        if needed.intersection(eqn.outvars):
            kept.append(eqn)
            needed.update(a for a in eqn.invars if isinstance(a, Var))
    consts = [(v, c) for v, c in trace.constvars.values() if v in needed]
    # Only arrays: outside all transformations there are no other tracers to close over.
    assert not any(aval_of(c).layout for _, c in consts)
    return Graph(
        trace.invars,
        [var],
        kept[::-1],
        [v for v, _ in consts],
        [c for _, c in consts],
        debug_name=trace.info.name,
    )
