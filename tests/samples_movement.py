"""Samples of index maps and generators: (), empty arrays and length-1 axes for every primitive."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples import Table

F32 = "float32"
#: Moving touches no value: one dtype of each width, and random keys.
KINDS = [F32, "int8", "bool", "bfloat16", "complex64", "uint32", "key<fry>"]

SAMPLES: Table = {}


def rows(name: str, shape: tuple[int, ...], more: list[Any] | None = None, /, **params) -> None:
    """One row in float32; `more` lists further operands as (shape, dtype)."""
    SAMPLES.setdefault(name, []).append(([(shape, F32), *(more or [])], params, None))


def every_kind(
    name: str, shapes: list[tuple[int, ...]], params: dict, more=None, domain=None
) -> None:
    """One row in every other dtype."""
    for kind in KINDS[1:]:
        operands = [(s, kind) for s in shapes] + (more or [])
        SAMPLES.setdefault(name, []).append((operands, params, domain))


def _broadcast(shape, target, dims):
    params = {"shape": target, "broadcast_dimensions": dims, "sharding": None}
    rows("broadcast_in_dim", shape, **params)
    return params


_broadcast((), (), ())
_broadcast((), (2, 3), ())
_broadcast((0,), (2, 0), (1,))
_broadcast((1,), (5,), (0,))
_broadcast((3,), (3, 2), (0,))
_broadcast((2, 1, 3), (2, 4, 3), (0, 1, 2))
_broadcast((2, 3), (3, 1, 2), (2, 0))
_broadcast((7,), (300, 7), (1,))
every_kind("broadcast_in_dim", [(3,)], _broadcast((3,), (2, 3), (1,)))

for _shape, _new, _order in [
    ((), (), None),
    ((), (1, 1), None),
    ((0, 3), (5, 0), None),
    ((1,), (), None),
    ((2, 6), (3, 4), None),
    ((2, 3, 2), (6, 2), (2, 0, 1)),
]:
    rows("reshape", _shape, new_sizes=_new, dimensions=_order, sharding=None)
every_kind("reshape", [(2, 3)], {"new_sizes": (6,), "dimensions": None, "sharding": None})

rows("squeeze", (), dimensions=())
rows("squeeze", (1, 0), dimensions=(0,))
rows("squeeze", (1,), dimensions=(0,))
rows("squeeze", (1, 3, 1), dimensions=(0, 2))
every_kind("squeeze", [(1, 3)], {"dimensions": (0,)})

rows("transpose", (), permutation=())
rows("transpose", (0, 2), permutation=(1, 0))
rows("transpose", (1,), permutation=(0,))
rows("transpose", (2, 3, 4), permutation=(2, 0, 1))
every_kind("transpose", [(2, 3)], {"permutation": (1, 0)})


def _slice(shape, start, limit, strides=None):
    rows("slice", shape, start_indices=start, limit_indices=limit, strides=strides)


_slice((), (), ())
_slice((0,), (0,), (0,))
_slice((1,), (0,), (1,), (3,))
_slice((5, 4), (1, 0), (5, 4), (2, 3))
_slice((5, 4), (2, 2), (2, 4))
every_kind("slice", [(5,)], {"start_indices": (1,), "limit_indices": (4,), "strides": (2,)})

rows("rev", (), dimensions=())
rows("rev", (0,), dimensions=(0,))
rows("rev", (1,), dimensions=(0,))
rows("rev", (2, 3, 2), dimensions=(0, 2))
every_kind("rev", [(3,)], {"dimensions": (0,)})

_VALUE = [((), F32)]
rows("pad", (), _VALUE, padding_config=())
rows("pad", (0,), _VALUE, padding_config=((1, 2, 3),))
rows("pad", (1,), _VALUE, padding_config=((1, 2, 3),))
rows("pad", (3, 4), _VALUE, padding_config=((1, 0, 2), (0, 2, 0)))
rows("pad", (3, 4), _VALUE, padding_config=((-1, 1, 1), (2, -3, 0)))
rows("pad", (3, 4), _VALUE, padding_config=((-1, -2, 0), (0, 0, 0)))
rows("pad", (3,), _VALUE, padding_config=((-3, -2, 2),))
every_kind("pad", [(2,), ()], {"padding_config": ((1, 1, 1),)})

rows("concatenate", (0,), [((0,), F32)], dimension=0)
rows("concatenate", (1,), dimension=0)
rows("concatenate", (2, 3), [((2, 0), F32), ((2, 1), F32)], dimension=1)
every_kind("concatenate", [(2,), (3,)], {"dimension": 0})

rows("stack", (), [((), F32)], axis=0)
rows("stack", (0,), [((0,), F32)], axis=1)
rows("stack", (1,), axis=0)
rows("stack", (2, 3), [((2, 3), F32)], axis=1)
every_kind("stack", [(2,), (2,)], {"axis": 1})

rows("unstack", (0, 2), axis=0)
rows("unstack", (1,), axis=0)
rows("unstack", (2, 3), axis=1)
every_kind("unstack", [(2, 2)], {"axis": 0})

rows("split", (0,), sizes=(0, 0), axis=0)
rows("split", (1,), sizes=(1,), axis=0)
rows("split", (2, 6), sizes=(1, 0, 3, 2), axis=1)
every_kind("split", [(3,)], {"sizes": (1, 2), "axis": 0})

rows("tile", (), reps=())
rows("tile", (0, 2), reps=(2, 2))
rows("tile", (1,), reps=(1,))
rows("tile", (2, 3), reps=(3, 2))
rows("tile", (2, 3), reps=(0, 1))
every_kind("tile", [(2,)], {"reps": (2,)})


def _starts(n: int, dtype: str = "int32") -> list[tuple[tuple[()], str]]:
    return [((), dtype)] * n


# Starts from -4 to 8: before, inside and beyond the array.
_WIDE = (-4, 8)
for _shape, _size in [((), ()), ((0,), (0,)), ((1,), (1,)), ((5, 4), (2, 3)), ((5, 4), (0, 4))]:
    _n = len(_shape)
    SAMPLES.setdefault("dynamic_slice", []).append(
        ([(_shape, F32), *_starts(_n)], {"slice_sizes": _size}, [None] + [_WIDE] * _n)
    )
    SAMPLES.setdefault("dynamic_update_slice", []).append(
        ([(_shape, F32), (_size, F32), *_starts(_n)], {}, [None, None] + [_WIDE] * _n)
    )
for _dtype in ("int8", "uint8", "int64"):
    SAMPLES["dynamic_slice"].append(
        ([((5,), F32), ((), _dtype)], {"slice_sizes": (2,)}, [None, (0, 8)])
    )
every_kind("dynamic_slice", [(5,)], {"slice_sizes": (2,)}, _starts(1), [None, _WIDE])
every_kind("dynamic_update_slice", [(5,), (2,)], {}, _starts(1), [None, None, _WIDE])

SAMPLES["iota"] = [
    ([], {"dtype": np.dtype(d), "shape": s, "dimension": i, "sharding": None}, None)
    for d, s, i in [
        ("int32", (5,), 0),
        ("float32", (0,), 0),
        ("float32", (1,), 0),
        ("float32", (2, 3), 1),
        ("int8", (300,), 0),
        ("uint32", (3, 1, 2), 0),
        ("complex64", (4,), 0),
        ("float16", (2100,), 0),
    ]
]
SAMPLES["empty"] = [
    ([], {"shape": s, "dtype": np.dtype(d), "out_sharding": None}, None)
    for s, d in [((), F32), ((0, 2), F32), ((1,), "int8"), ((2, 3), "complex64")]
]
SAMPLES["rng_uniform"] = [
    ([((), d), ((), d)], {"shape": s}, [(0, 1), (5, 9)])
    for s, d in [
        ((), F32),
        ((0,), F32),
        ((1,), F32),
        ((100,), F32),
        ((9,), "bfloat16"),
        ((9,), "int32"),
    ]
]
