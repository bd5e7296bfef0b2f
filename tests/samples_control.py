"""Samples of primitives that hold a Graph, and of those that order work."""

from __future__ import annotations

from gpuarray.memory import Space
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
    "device_put": [
        ([((2, 3), "float32")], {"space": Space.Host}, "any"),
        ([((0,), "int32")], {"space": Space.Device}, "any"),
        ([((), "complex64")], {"space": Space.Host}, "any"),
        ([((4,), "key<fry>")], {"space": Space.Host}, None),
    ],
    "optimization_barrier": [
        ([((), "float32")], {}, "any"),
        ([((0,), "int32"), ((1,), "bool")], {}, "any"),
        ([((2, 3), "float32"), ((), "key<fry>")], {}, None),
    ],
}

# ---- recurrences ----

for _shape, _axis in [((0,), 0), ((1,), 0), ((3, 4), 0), ((3, 4), 1)]:
    for _pattern in ((0, 0),), ((0, 0), (0, 1), (1, 0)):
        for _reverse in (False, True):
            _count = len(_pattern) + max(_pattern[-1]) + 1
            _params = {"pattern": _pattern, "axis": _axis, "reverse": _reverse}
            SAMPLES.setdefault("linear_recurrence", []).append(
                ([(_shape, "float32")] * _count, _params, None)
            )
