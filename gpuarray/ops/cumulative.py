"""Running folds along one axis: sum, product, extremes, log of the sum of exponentials.

In: an array, an axis, and whether to run from its end (`reverse`). Out: an array of that shape.
Half-precision runs accumulate in float32 and round each result once. Floor 2.
"""

from __future__ import annotations

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.ops.define import COMPLEX, FLOATING, NUMERIC, check_dtype
from gpuarray.ops.reduce import wide_of


def _aval(name: str, accepted):
    def aval(operand, *, axis, reverse):
        check_dtype(name, operand.dtype, accepted)
        if axis < 0:
            raise ValueError(
                f"XLA operations do not allow negative axes, got axis={axis} for {name}. "
                f"Count it from the front: {axis + operand.ndim}."
            )
        if axis >= operand.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {operand.shape}")
        return operand

    return aval


def _running(ufunc: np.ufunc):
    """NumPy rule from a ufunc; narrow numbers run in a wider type."""

    def pick(avals, *, axis, reverse):
        dtype = avals[0].dtype
        wide = wide_of(dtype)
        accumulate = ufunc.accumulate

        def forward(x):
            out = accumulate(x, axis, wide)
            return out if wide is dtype else out.astype(dtype)

        return _directed(forward, axis, reverse)

    return pick


def _directed(forward, axis: int, reverse: bool):
    if not reverse:
        return forward
    flip = (slice(None),) * axis + (slice(None, None, -1),)
    return lambda x: forward(x[flip])[flip]


def _cumulative(name: str, pick, accepted=NUMERIC, weight: float = 2.0) -> Primitive:
    return Primitive(name, Kind.LIBRARY, aval=_aval(name, accepted), numpy_pick=pick, weight=weight)


def _logsumexp_pick(avals, *, axis, reverse):
    dtype = avals[0].dtype
    if dtypes.kind_of(dtype) != "c":
        return _running(np.logaddexp)(avals, axis=axis, reverse=reverse)

    def forward(z):
        lanes = np.moveaxis(z, axis, -1)
        out = np.empty(lanes.shape, dtype)
        nothing = dtype.type(-np.inf)
        for i in range(lanes.shape[-1]):
            here = lanes[..., i]
            out[..., i] = _complex_logaddexp(out[..., i - 1] if i else nothing, here)
        return np.moveaxis(out, -1, axis)

    return _directed(forward, axis, reverse)


def _complex_logaddexp(a, b):
    """log(exp a + exp b), its imaginary part in (-pi, pi]."""
    top = np.maximum(a.real, b.real)
    top = np.where(np.isfinite(top), top, 0)
    return top + np.log(np.exp(a - top) + np.exp(b - top))


cumsum_p = _cumulative("cumsum", _running(np.add))
cumprod_p = _cumulative("cumprod", _running(np.multiply))
cummax_p = _cumulative("cummax", _running(np.maximum))
cummin_p = _cumulative("cummin", _running(np.minimum))
cumlogsumexp_p = _cumulative("cumlogsumexp", _logsumexp_pick, FLOATING | COMPLEX, weight=20.0)
