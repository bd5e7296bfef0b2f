"""Samples of reductions, running folds, sorting and windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.ops.elementwise import ge_p, le_p
from gpuarray.ops.window import window_shape
from tests.samples import Table, distinct, scalar_graph

F32 = "float32"
FLOATS = [F32, "float16", "bfloat16"]
NUMBERS = [*FLOATS, "int32", "int8", "uint8", "complex64"]
ORDERED = ["float16", "bfloat16", "int32", "int8", "uint32", "bool"]
I32 = np.dtype(np.int32)

SAMPLES: Table = {}


def add(name: str, operands: list, params: dict[str, Any], domain: Any = None) -> None:
    SAMPLES.setdefault(name, []).append((operands, params, domain))


# ---- reductions ----

_AXES = [
    ((), ()),
    ((0,), (0,)),
    ((1,), (0,)),
    ((2, 0, 3), (1,)),
    ((2, 3), ()),
    ((4, 5), (0,)),
    ((4, 5), (1,)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (0, 1, 2)),
]


def _reduction(name: str, kinds: list[str], domain: Any, **params) -> None:
    for i, kind in enumerate(kinds):
        for shape, axes in _AXES if i == 0 else [((4, 5), (0,)), ((9,), (0,))]:
            add(name, [(shape, kind)], {"axes": axes, **params}, domain)


_reduction("reduce_sum", NUMBERS, None, out_sharding=None)
_reduction("reduce_prod", NUMBERS, None)
_reduction("reduce_max", [F32, *ORDERED], "any")
_reduction("reduce_min", [F32, *ORDERED], "any")
for _name in ("reduce_and", "reduce_or", "reduce_xor"):
    _reduction(_name, ["int32", "uint8", "bool"], "any")

for _name in ("argmax", "argmin"):
    for _kind in [F32, *ORDERED]:
        for _shape, _axis in [((1,), 0), ((9,), 0), ((4, 5), 1), ((4, 5), 0), ((2, 0, 3), 2)]:
            for _domain in (None, "any"):
                _params = {"axes": (_axis,), "index_dtype": I32}
                add(_name, [(_shape, _kind)], _params, _domain)
    add(_name, [((300,), F32)], {"axes": (0,), "index_dtype": np.dtype(np.uint8)})

for _shape, _dims in [((), ()), ((0, 2), (0,)), ((1,), (0,)), ((3, 4), (1,)), ((2000,), (0,))]:
    _params = {"computation": "add", "jaxpr": scalar_graph("add"), "dimensions": _dims}
    add("reduce", [(_shape, F32), ((), F32)], _params)
add(
    "reduce",
    [((3, 4), F32), ((3, 4), F32), ((), F32), ((), F32)],
    {"computation": "f", "jaxpr": scalar_graph("add", "max"), "dimensions": (0,)},
)

# ---- running folds ----

for _name, _kinds in {
    "cumsum": NUMBERS,
    "cumprod": NUMBERS,
    "cummax": NUMBERS[:-1],
    "cummin": NUMBERS[:-1],
    "cumlogsumexp": [*FLOATS, "complex64"],
}.items():
    for _i, _kind in enumerate(_kinds):
        for _shape, _axis in [((0,), 0), ((1,), 0), ((9,), 0), ((3, 4), 1), ((3, 4), 0)][
            0 if _i == 0 else 3 :
        ]:
            for _reverse in (False, True):
                add(_name, [(_shape, _kind)], {"axis": _axis, "reverse": _reverse})

# ---- sorting ----


def _sort(shapes_kinds: list, axis: int, num_keys: int = 1, domain: Any = None) -> None:
    params = {"dimension": axis, "is_stable": True, "num_keys": num_keys}
    add("sort", shapes_kinds, params, domain)


for _kind in [F32, *ORDERED, "complex64"]:
    for _shape, _axis in [((0,), 0), ((1,), 0), ((9,), 0), ((3, 4), 0), ((3, 4), 1)]:
        _sort([(_shape, _kind)], _axis, 1, "any")
_sort([((5000,), F32)], 0, 1, "any")
_sort([((20,), "int8"), ((20,), F32)], 0, 1, [(0, 3), None])
_sort([((20,), "int8"), ((20,), F32), ((20,), "int32")], 0, 2, [(0, 3), "any", None])
_sort([((3, 4), F32), ((3, 4), "bool"), ((3, 4), "key<fry>")], 1)

for _kind in [F32, *ORDERED]:
    for _shape, _axis, _k in [
        ((1,), 0, 1),
        ((9,), 0, 4),
        ((3, 5), 1, 2),
        ((3, 5), 0, 3),
        ((4,), 0, 0),
    ]:
        add("top_k", [(_shape, _kind)], {"k": _k, "axis": _axis}, "any")
add("top_k", [((2, 2000), F32)], {"k": 7, "axis": 1}, "any")
add("top_k", [((2000,), "int8")], {"k": 7, "axis": 0})

for _shape, _dim, _k, _final in [
    ((9,), 0, 3, True),
    ((3, 5), -1, 2, True),
    ((2, 900), 1, 2, False),
]:
    for _largest in (True, False):
        add(
            "approx_top_k",
            [(_shape, F32)],
            {
                "k": _k,
                "reduction_dimension": _dim,
                "recall_target": 0.95,
                "is_max_k": _largest,
                "reduction_input_size_override": -1,
                "aggregate_to_topk": _final,
            },
            distinct,
        )

# ---- windows ----

_GEOMETRY = "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"


def geometry(rank: int, *given: Any) -> dict[str, Any]:
    """Window parameters; those not given are ones, padding nothing."""
    plain = [(1,) * rank, (1,) * rank, ((0, 0),) * rank, (1,) * rank, (1,) * rank]
    return dict(zip(_GEOMETRY, [*given, *plain[len(given) :]]))


WINDOWS = [
    ((), geometry(0)),
    ((0,), geometry(1, (2,), (1,), ((1, 1),))),
    ((1,), geometry(1, (1,))),
    ((7,), geometry(1, (3,), (2,), ((1, 2),))),
    ((7,), geometry(1, (9,))),
    ((5, 6), geometry(2, (2, 3), (1, 2), ((0, 1), (1, 0)))),
    ((5, 6), geometry(2, (2, 2), (2, 1), ((1, 0), (0, 0)), (2, 1), (1, 3))),
    ((5, 6), geometry(2, (2, 1), (1, 2), ((-1, 0), (1, -2)))),
]
for _shape, _params in WINDOWS:
    for _name in ("reduce_window_sum", "reduce_window_max", "reduce_window_min"):
        add(_name, [(_shape, F32)], _params)
    add(
        "reduce_window",
        [(_shape, F32), ((), F32)],
        {"jaxpr": scalar_graph("mul"), "consts": (), **_params},
    )
for _kind in ("bfloat16", "int8", "int32"):
    for _name in ("reduce_window_sum", "reduce_window_max", "reduce_window_min"):
        add(_name, [((5, 6), _kind)], WINDOWS[5][1])
add(
    "reduce_window",
    [((7,), F32), ((7,), F32), ((), F32), ((), F32)],
    {"jaxpr": scalar_graph("add", "min"), "consts": (), **WINDOWS[3][1]},
)

for _shape, _params in WINDOWS:
    if any(low < 0 or high < 0 for low, high in _params["padding"]):
        continue
    for _select in (ge_p, le_p):
        add(
            "select_and_gather_add",
            [(_shape, F32), (_shape, F32)],
            {"select_prim": _select, **_params},
        )
        _plain = geometry(len(_shape), *list(_params.values())[:3])
        _source = window_shape(_shape, *_plain.values())
        add(
            "select_and_scatter_add",
            [(_source, F32), (_shape, F32)],
            {"select_prim": _select, **{k: _plain[k] for k in _GEOMETRY[:3]}},
        )
