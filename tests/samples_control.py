"""Samples of primitives that hold a Graph, and of those that order work."""

from __future__ import annotations

from tests.samples import Table, scalar_graph

SAMPLES: Table = {
    "jit": [
        ([((), "float32")] * 2, {"jaxpr": scalar_graph("add"), "name": "f"}, None),
        ([((), "float32")] * 4, {"jaxpr": scalar_graph("mul", "max"), "name": "g"}, None),
    ],
    "shard_alike": [
        ([((2, 3), "float32")] * 2, {}, "any"),
        ([((0,), "int32"), ((0,), "bool")], {}, "any"),
        ([((), "float32")] * 2, {}, None),
    ],
    "optimization_barrier": [
        ([((), "float32")], {}, "any"),
        ([((0,), "int32"), ((1,), "bool")], {}, "any"),
        ([((2, 3), "float32"), ((), "key<fry>")], {}, None),
    ],
}
