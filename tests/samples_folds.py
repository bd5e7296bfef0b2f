"""Samples of primitives that fold or order elements: reductions, cumulations, windows, sorts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import registry
from gpuarray.primitives.elementwise.arithmetic import ge_p, le_p
from tests.samples import Table, distinct, ordered, scalar_graph

FLOATS = ["float32", "float16", "bfloat16", "float64"]
INTEGERS = ["int32", "int8", "uint8", "int64"]
NUMBERS = [*FLOATS, *INTEGERS, "complex64"]

SAMPLES: Table = {}


def rows(names: str, kinds: list[str], cases: list[tuple], domain: Any = None, **common) -> None:
    """Cases (shape, params): all of them in the first dtype, the last one in each other."""
    for name in names.split():
        for i, kind in enumerate(kinds):
            for shape, params in cases if i == 0 else cases[-1:]:
                SAMPLES.setdefault(name, []).append(([(shape, kind)], {**params, **common}, domain))


# ---- reductions ----

_AXES: list[tuple] = [
    ((), {"axes": ()}),
    ((0,), {"axes": (0,)}),
    ((1,), {"axes": (0,)}),
    ((0, 3), {"axes": (0,)}),
    ((3, 0), {"axes": (0,)}),
    ((2, 3), {"axes": ()}),
    ((2, 3, 4), {"axes": (0, 2)}),
    ((2, 3, 4), {"axes": (1,)}),
    ((5, 7), {"axes": (0, 1)}),
    ((5, 7), {"axes": (1,)}),
]
rows("reduce_sum", NUMBERS, _AXES, out_sharding=None)
rows("reduce_prod", NUMBERS, _AXES, out_sharding=None)
rows("reduce_max reduce_min", [*FLOATS, *INTEGERS, "bool"], _AXES)
rows("reduce_max reduce_min", FLOATS, [((4, 9), {"axes": (1,)})], "any")
rows("reduce_and reduce_or reduce_xor", ["bool", "int32", "uint8"], _AXES)
rows(
    "argmax argmin",
    [*FLOATS, *INTEGERS, "bool"],
    [
        (s, {"axes": a})
        for s, a in [((1,), (0,)), ((0, 3), (1,)), ((2, 3, 4), (1,)), ((5, 7), (1,))]
    ],
    index_dtype=dtypes.int32,
)
rows("argmax argmin", FLOATS, [((4, 9), {"axes": (1,)})], "any", index_dtype=dtypes.int32)

for _shape, _dims in [((0,), (0,)), ((1,), (0,)), ((), ()), ((3, 4), (0, 1)), ((3, 4), (1,))]:
    _one = {"computation": None, "jaxpr": scalar_graph("add"), "dimensions": _dims}
    _two = {"computation": None, "jaxpr": scalar_graph("max", "mul"), "dimensions": _dims}
    SAMPLES.setdefault("reduce", []).extend(
        [
            ([(_shape, "float32"), ((), "float32")], _one, None),
            ([(_shape, "float32")] * 2 + [((), "float32")] * 2, _two, None),
        ]
    )

# ---- cumulations ----

_ALONG: list[tuple] = [
    (shape, {"axis": axis, "reverse": reverse})
    for shape, axis in [((0,), 0), ((1,), 0), ((2, 0), 0), ((0, 3), 1), ((3, 4), 0), ((3, 4), 1)]
    for reverse in (False, True)
]
rows("cumsum cumprod", NUMBERS, _ALONG)
rows("cummax cummin", [*FLOATS, *INTEGERS], _ALONG)
rows("cummax cummin", FLOATS, _ALONG[-2:], "any")
rows("cumlogsumexp", FLOATS, _ALONG)


def affine(count: int, dtype: str = "float32") -> Graph:
    """x -> a x + b after another such map; with `count` 1, a alone."""
    a, b, c, d, ac, cb, out = (Var(ShapedArray((), np.dtype(dtype))) for _ in range(7))
    eqns = [Eqn(registry["mul"], [a, c], [ac], {})]
    if count == 1:
        return Graph([a, c], [ac], eqns)
    eqns += [Eqn(registry["mul"], [c, b], [cb], {}), Eqn(registry["add"], [cb, d], [out], {})]
    return Graph([a, b, c, d], [ac, out], eqns)


for _shape, _params in _ALONG:
    SAMPLES.setdefault("associative_scan", []).append(
        ([(_shape, "float32")] * 2, {"jaxpr": affine(2), **_params}, None)
    )
SAMPLES["associative_scan"] += [
    ([((3, 4), kind)], {"jaxpr": affine(1, kind), "axis": 0, "reverse": False}, None)
    for kind in ("float64", "float16", "int32", "uint8", "complex64")
]

# ---- sorting and searching ----

_SORTED: list[tuple] = [
    (shape, {"dimension": axis, "is_stable": stable, "num_keys": 1})
    for shape, axis, stable in [
        ((0,), 0, True),
        ((1,), 0, True),
        ((2, 0), 0, True),
        ((7, 3), 0, True),
        ((3, 7), 1, True),
    ]
]
rows("sort", [*FLOATS, *INTEGERS, "bool"], _SORTED)
rows("sort", FLOATS, [((40,), {"dimension": 0, "is_stable": True, "num_keys": 1})], "any")
SAMPLES["sort"] += [
    (
        [((9,), "int32"), ((9,), "float32"), ((9,), "bool")],
        {"dimension": 0, "is_stable": True, "num_keys": keys},
        [(0, 3), None, None],
    )
    for keys in (1, 2)
]
rows(
    "top_k",
    [*FLOATS, *INTEGERS],
    [
        (s, {"k": k, "axis": a})
        for s, k, a in [((0,), 0, 0), ((1,), 1, 0), ((5, 3), 2, 0), ((3, 6), 3, 1)]
    ],
)
for _largest in (True, False):
    rows(
        "approx_top_k",
        FLOATS[:3],
        [((1,), {"k": 1}), ((3, 9), {"k": 2})],
        distinct,
        reduction_dimension=-1,
        recall_target=0.95,
        is_max_k=_largest,
        reduction_input_size_override=-1,
        aggregate_to_topk=True,
    )
for _side in ("left", "right"):
    for _n, _query in [(0, (3,)), (1, ()), (5, (0,)), (5, (2, 3))]:
        for _kind in ("float32", "int32", "bfloat16"):
            SAMPLES.setdefault("searchsorted", []).append(
                (
                    [((_n,), _kind), (_query, _kind)],
                    {"side": _side, "dtype": dtypes.int32},
                    [ordered, None],
                )
            )

# ---- windows ----

_NO_DILATION = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
_WINDOWS: list[tuple] = [
    ((0, 3), {"window_dimensions": (1, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}),
    ((1, 1), {"window_dimensions": (1, 1), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}),
    ((5, 6), {"window_dimensions": (2, 3), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}),
    ((5, 6), {"window_dimensions": (2, 3), "window_strides": (2, 2), "padding": ((1, 0), (1, 1))}),
]
#: Windows side by side, and with gaps between them: no element is in two.
_APART: list[tuple] = [
    ((n, m), {"window_dimensions": (2, 3), "window_strides": t, "padding": ((0, 0), (0, 0))})
    for n, m, t in [(4, 9, (2, 3)), (6, 9, (3, 4))]
]
_DILATED = (
    (5, 6),
    {
        "window_dimensions": (2, 2),
        "window_strides": (1, 2),
        "padding": ((1, 1), (0, 2)),
        "base_dilation": (2, 1),
        "window_dilation": (1, 3),
    },
)
_ALL_WINDOWS = [(s, {**_NO_DILATION, **p}) for s, p in _WINDOWS] + [_DILATED]
_SCALAR = {"base_dilation": (), "window_dilation": (), "window_dimensions": ()}
_ZERO_D: list[tuple] = [((), {**_SCALAR, "window_strides": (), "padding": ()})]
rows("reduce_window_sum", NUMBERS, _ZERO_D + _ALL_WINDOWS)
rows("reduce_window_max reduce_window_min", [*FLOATS, *INTEGERS], _ZERO_D + _ALL_WINDOWS)
for _shape, _params in _ALL_WINDOWS:
    SAMPLES.setdefault("reduce_window", []).append(
        (
            [(_shape, "float32"), ((), "float32")],
            {**_params, "jaxpr": scalar_graph("add"), "consts": ()},
            None,
        )
    )
for _select in (ge_p, le_p):
    # All values differ, so one element wins each window.
    for _shape, _params in _ALL_WINDOWS:
        SAMPLES.setdefault("select_and_gather_add", []).append(
            ([(_shape, "float32")] * 2, {**_params, "select_prim": _select}, [None, distinct])
        )
    _counts = [(0, 2), (1, 1), (4, 4), (3, 3), (2, 3), (2, 2)]
    for (_shape, _params), _windows in zip(_WINDOWS + _APART, _counts, strict=True):
        SAMPLES.setdefault("select_and_scatter_add", []).append(
            (
                [(_windows, "float32"), (_shape, "float32")],
                {**_params, "select_prim": _select},
                [None, distinct],
            )
        )
