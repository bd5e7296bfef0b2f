"""Samples of gather and scatter: rows, columns, points, windows, batching axes, every mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.primitive import registry
from gpuarray.primitives.indexing.ops import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    default_fill,
    update_graph,
)
from tests.samples import Table, dtype_named, scalar_graph

F32 = "float32"
MODES = [
    GatherScatterMode.CLIP,
    GatherScatterMode.FILL_OR_DROP,
    GatherScatterMode.PROMISE_IN_BOUNDS,
]
SCATTERS = ["scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"]

#: (operand shape, indices shape, slice sizes, dimension numbers)
CASES: list[tuple[tuple, tuple, tuple, GatherDimensionNumbers]] = [
    ((5,), (1,), (1,), GatherDimensionNumbers((), (0,), (0,))),  # one point
    ((5,), (3, 1), (1,), GatherDimensionNumbers((), (0,), (0,))),  # points
    ((1,), (2, 1), (1,), GatherDimensionNumbers((), (0,), (0,))),  # one element
    ((5,), (0, 1), (1,), GatherDimensionNumbers((), (0,), (0,))),  # none
    ((5, 4), (3, 1), (1, 4), GatherDimensionNumbers((1,), (0,), (0,))),  # rows
    ((5, 4), (3, 1), (5, 1), GatherDimensionNumbers((0,), (1,), (1,))),  # columns
    ((5, 4), (2, 3, 2), (1, 1), GatherDimensionNumbers((), (0, 1), (0, 1))),  # points in a plane
    ((5, 4), (2, 3, 2), (1, 1), GatherDimensionNumbers((), (0, 1), (1, 0))),
    ((5, 4), (3, 2), (2, 3), GatherDimensionNumbers((1, 2), (), (0, 1))),  # windows
    ((5, 4), (3, 2), (2, 3), GatherDimensionNumbers((0, 1), (), (0, 1))),
    ((5, 4), (2,), (2, 3), GatherDimensionNumbers((0, 1), (), (0, 1))),  # one window
    ((5, 4), (3, 1), (2, 1), GatherDimensionNumbers((1,), (1,), (0,))),  # a column left out
    ((5, 4), (3, 1), (2, 2), GatherDimensionNumbers((0, 2), (), (1,))),  # a trimmed axis
    ((3, 5), (3, 2, 1), (1, 1), GatherDimensionNumbers((), (1,), (1,), (0,), (0,))),  # batching
    ((3, 5, 4), (2, 3, 1), (1, 1, 2), GatherDimensionNumbers((2,), (1,), (1,), (0,), (1,))),
    ((5, 4), (0,), (5, 4), GatherDimensionNumbers((0, 1), (), ())),  # an empty index vector
    ((0, 4), (0, 1), (0, 4), GatherDimensionNumbers((1, 2), (), (0,))),  # an empty operand
]

SAMPLES: Table = {}


def gather_params(numbers, sizes, mode, dtype, fill: Any = None) -> dict[str, Any]:
    if mode is GatherScatterMode.FILL_OR_DROP and fill is None:
        fill = default_fill(dtype_named(dtype))
    return {
        "dimension_numbers": numbers,
        "slice_sizes": sizes,
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": mode,
        "fill_value": fill if mode is GatherScatterMode.FILL_OR_DROP else None,
    }


def scatter_params(name: str, numbers: GatherDimensionNumbers, mode, dtype) -> dict[str, Any]:
    """The scatter which writes where a gather with these dimension numbers reads."""
    return {
        "dimension_numbers": ScatterDimensionNumbers(*numbers),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": mode,
        "update_jaxpr": update_graph(registry[name], dtype_named(dtype)),
        "update_consts": (),
    }


def window_shape(indices: tuple, sizes: tuple, numbers: GatherDimensionNumbers) -> tuple[int, ...]:
    """The shape of a gather's result, and of the updates of its scatter."""
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = iter(n for d, n in enumerate(sizes) if d not in removed)
    batch = iter(indices[:-1])
    rank = len(numbers.offset_dims) + len(indices) - 1
    return tuple(next(windows) if d in numbers.offset_dims else next(batch) for d in range(rank))


def index_domain(shape: tuple[int, ...]) -> tuple[int, int]:
    """Indices from just before to just beyond the array."""
    return -2, max(shape, default=1) + 1


def _add(case, mode, dtype=F32, index_dtype="int32", scatters=("scatter", "scatter-add")) -> None:
    shape, indices, sizes, numbers = case
    low, high = index_domain(shape)
    where = (0, high) if index_dtype.startswith("u") else (low, high)
    operands = [(shape, dtype), (indices, index_dtype)]
    params = gather_params(numbers, sizes, mode, dtype)
    SAMPLES.setdefault("gather", []).append((operands, params, [None, where]))
    updates = (window_shape(indices, sizes, numbers), dtype)
    for name in scatters:
        params = scatter_params(name, numbers, mode, dtype)
        row = [*operands, updates], params, [None, where, None]
        SAMPLES.setdefault(name, []).append(row)


for _case in CASES:
    for _mode in MODES:
        _add(_case, _mode)
for _mode in MODES[:2]:
    for _name in SCATTERS[2:]:
        for _case in CASES[1:5]:
            _add(_case, _mode, scatters=(_name,))
    for _dtype in ("bfloat16", "int8", "uint32", "complex64"):
        _add(CASES[4], _mode, _dtype)
    for _dtype in ("bool", "key<fry>"):
        _add(CASES[4], _mode, _dtype, scatters=("scatter",))
    for _dtype in ("int8", "uint8", "uint32", "int64", "uint64"):
        _add(CASES[4], _mode, index_dtype=_dtype)

SAMPLES["gather"].append(
    (
        [((5,), F32), ((4, 1), "int32")],
        gather_params(CASES[1][3], (1,), GatherScatterMode.FILL_OR_DROP, F32, 7.0),
        [None, (-2, 6)],
    )
)
# A body of the caller's own: it is applied once for every time that a place occurs.
SAMPLES["scatter"].append(
    (
        [((5,), F32), ((6, 1), "int32"), ((6,), F32)],
        scatter_params("scatter", CASES[1][3], GatherScatterMode.FILL_OR_DROP, F32)
        | {"update_jaxpr": scalar_graph("mul")},
        [None, (0, 3), None],
    )
)
_UNIQUE = np.array([[3], [0], [4]])
for _name in SCATTERS:
    SAMPLES[_name].append(
        (
            [((5, 4), F32), ((3, 1), "int32"), ((3, 4), F32)],
            scatter_params(_name, CASES[4][3], GatherScatterMode.PROMISE_IN_BOUNDS, F32)
            | {"unique_indices": True},
            [None, lambda rng, shape, dtype: _UNIQUE, None],
        )
    )
