"""How far two arrays may be apart where both are right: for any BLAS, and any CPU.

In: arrays, and for sums the size of their terms. Out: distances in units of rounding, assertions.
A sum in another order differs by units of its largest terms, which may be many units of the sum
itself where terms of both signs cancel: nothing here compares a sum with itself alone.
"""

from __future__ import annotations

import numpy as np

from gpuarray.backends.numpy import program as host
from gpuarray.core import dtypes
from tests.samples import Sample, values

#: Primitives whose results are sums of elements of their operands, or of products of them.
SUMS = {
    "conv_general_dilated",
    "cumsum",
    "dot_general",
    "ragged_dot_general",
    "reduce_sum",
    "reduce_window_sum",
    "scatter-add",
    "scatter-sub",
    "symmetric_product",
}


def terms_of(sample: Sample) -> list[np.ndarray | float]:
    """The sum of the sizes of the terms of each element of a sample's results; 0 where they are no
    sums.
    """
    count = len(sample.primitive.out_avals(sample.avals, sample.params))
    if sample.primitive.name not in SUMS:
        return [0.0] * count
    sizes = [np.abs(x).astype(x.dtype) if _is_float(x) else x for x in values(sample)]
    params = sample.params
    if sample.primitive.name == "scatter-sub":
        sizes[2] = -sizes[2]
    if sample.primitive.name == "symmetric_product":
        params = params | {k: abs(params[k]) for k in ("alpha", "beta")}
    rule = sample.primitive.numpy_function(sample.avals, params)
    with np.errstate(all="ignore"):
        out = host.local.run(rule, *sizes)
    listed = [np.abs(_wide(np.asarray(x))) for x in (out if isinstance(out, list) else [out])]
    return [np.nan_to_num(x, nan=0.0, posinf=0.0) for x in listed]


def ulps(found: np.ndarray, expected: np.ndarray, terms: np.ndarray | float = 0.0) -> float:
    """How far apart two arrays are, in half units in the last place (of complex numbers: of their
    size; of sums: of their terms, where those are larger).
    """
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if not _is_float(expected) or expected.size == 0:
        return 0.0 if np.array_equal(found, expected) else float("inf")
    info = dtypes.finfo(dtypes.to_real_dtype(expected.dtype))
    a, b = _wide(found), _wide(expected)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    size = np.maximum(np.maximum(np.abs(b), terms), float(info.smallest_normal))
    with np.errstate(all="ignore"):
        off = np.abs(a - b) / (size * (float(info.eps) / 2))
        return float(np.where(same, 0.0, np.nan_to_num(off, nan=np.inf)).max())


def largest(x: np.ndarray) -> float:
    """The size of the largest finite element, which terms of sums of like numbers have."""
    if not _is_float(x):
        return 0.0
    sizes = np.abs(_wide(x))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def assert_near(found: np.ndarray, expected: np.ndarray, what: str = "", units: float = 64) -> None:
    """Floats that differ by few units in the last place of the largest one, or of 1 where all are
    smaller; the rest is the same.
    """
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
    if not _is_float(expected):
        np.testing.assert_array_equal(found, expected, what)
        return
    unit = units * float(dtypes.finfo(dtypes.to_real_dtype(expected.dtype)).eps)
    found, expected = _wide(found), _wide(expected)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    np.testing.assert_allclose(found, expected, unit, unit * scale, err_msg=what)


def _is_float(x: np.ndarray) -> bool:
    return dtypes.kind_of(x.dtype) in "fc"


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if dtypes.kind_of(x.dtype) == "c" else np.float64)
