"""Fourier transforms over the last axes: complex, real and inverse real, one primitive.

Floor 2. In: an array and the lengths of its last axes. Out: the `fft` primitive on SciPy's
pocketfft, which works in the precision of its input (complex64 stays complex64).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.util import lazy_module, prod

_fft = lazy_module("scipy.fft")


class FftType(enum.IntEnum):
    """Which transform: complex (FFT, IFFT), real to half-spectrum (RFFT) and back (IRFFT).

    >>> FftType.RFFT
    <FftType.RFFT: 2>
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_ACCEPTED = {
    FftType.FFT: (dtypes.complex64, dtypes.complex128),
    FftType.IFFT: (dtypes.complex64, dtypes.complex128),
    FftType.RFFT: (dtypes.float32, dtypes.float64),
    FftType.IRFFT: (dtypes.complex64, dtypes.complex128),
}


def _aval(x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ShapedArray:
    name = fft_type.name
    if x.dtype not in _ACCEPTED[fft_type]:
        names = " or ".join(d.name for d in _ACCEPTED[fft_type])
        raise ValueError(f"{name} input must be {names}, got {x.dtype.name}")
    rank = len(fft_lengths)
    if x.ndim < rank:
        raise ValueError(
            f"{name} input shape {x.shape} must have at least as many input dimensions as "
            f"fft_lengths {fft_lengths}."
        )
    if not rank:
        return x.strip_weak_type()
    outer, last = x.shape[: x.ndim - rank], fft_lengths[-1]
    expected = fft_lengths
    if fft_type is FftType.IRFFT:
        expected = (*fft_lengths[:-1], last // 2 + 1 if last else 0)
    if x.shape[x.ndim - rank :] != expected:
        note = f", that is {expected} as a half-spectrum" if fft_type is FftType.IRFFT else ""
        raise ValueError(
            f"{name} input shape {x.shape} minor dimensions must be equal to fft_lengths "
            f"{fft_lengths}{note}"
        )
    if fft_type is FftType.RFFT:
        complex_ = dtypes.complex128 if x.dtype == np.float64 else dtypes.complex64
        half = last // 2 + 1 if last else 0
        return ShapedArray((*outer, *fft_lengths[:-1], half), complex_)
    if fft_type is FftType.IRFFT:
        real = dtypes.float64 if x.dtype == np.complex128 else dtypes.float32
        return ShapedArray((*outer, *fft_lengths), real)
    return ShapedArray(x.shape, x.dtype)


def _numpy(avals, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Callable[..., Any]:
    aval = _aval(*avals, fft_type=fft_type, fft_lengths=fft_lengths)
    rank = len(fft_lengths)
    if not rank:
        return np.positive
    if aval.size == 0 or prod(avals[0].shape) == 0:
        return lambda x: np.zeros(aval.shape, aval.dtype)
    axes = tuple(range(aval.ndim - rank, aval.ndim))
    name = {FftType.FFT: "fftn", FftType.IFFT: "ifftn", FftType.RFFT: "rfftn"}.get(
        fft_type, "irfftn"
    )
    lengths = {"s": fft_lengths} if fft_type is FftType.IRFFT else {}

    def transform(x):
        return getattr(_fft, name)(x, axes=axes, **lengths)

    return transform


fft_p = Primitive("fft", Kind.LIBRARY, aval=_aval, numpy_pick=_numpy, weight=50.0)
