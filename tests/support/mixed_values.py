"""Values of random programs: their dtypes, whether all their bits are known, how they are compared.

In: arrays. Out: `Value`, and `compare`, which a test calls for each result.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
DTYPES = (*INTEGERS, *FLOATS, *FLOATS, "bool", "complex64", "complex128")
LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 33)
LARGEST = 3000
#: Digits of what is not exact, relative to the largest element.
NEAR = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-4, "complex64": 2e-4}
NEAR |= {"float16": 0.06, "bfloat16": 0.3}


#: How graphs write these types.
SHORT = {"float64": "f64", "complex128": "c128", "float32": "f32", "complex64": "c64"}
SHORT |= {"float16": "f16", "bfloat16": "bf16"}


class Value(NamedTuple):
    x: Any
    exact: bool

    @property
    def kind(self) -> str:
        return "f" if self.x.dtype == ml_dtypes.bfloat16 else np.dtype(self.x.dtype).kind


def but(shape: tuple, axis: int) -> tuple:
    return (*shape[:axis], *shape[axis + 1 :])


def spread(a: tuple | None, b: tuple | None):
    try:
        shape = np.broadcast_shapes(a, b)  # pyright: ignore
    except (ValueError, TypeError):
        return None
    most = max(LARGEST, math.prod(a or ()), math.prod(b or ()))
    return shape if math.prod(shape) <= most else None


def compare(found: np.ndarray, expected: np.ndarray, near: float, what: str) -> None:
    """Assert that two results are equal, or near."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
    name = expected.dtype.name
    if near == 0.0 or name not in NEAR:
        a, b = np.asarray(found), np.asarray(expected)
        same = (a == b) | ((a != a) & (b != b))
        assert same.all(), (
            f"{what}\n{a[~same][:5]} is not {b[~same][:5]} ({(~same).sum()} elements)"
        )
        return
    wide = "complex128" if name.startswith("complex") else "float64"
    a, b = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(b)
    scale = max(1.0, np.abs(b[finite]).max(initial=0.0))
    far = ~np.isclose(a, b, near, near * scale, equal_nan=True)
    assert not far.any(), f"{what}\n{a[far][:5]} is not near {b[far][:5]} ({far.sum()} elements)"
