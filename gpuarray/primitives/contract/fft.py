"""Fourier transforms over the last axes: complex, real and inverse real, in one primitive.

Floor 2. In: an array and the lengths of its last axes. Out: the `fft` primitive on SciPy's
pocketfft, which works in the precision of its input (complex64 stays complex64).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes, threads
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.primitive import LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Fourier, Rewrite
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.contract.factors import fft_factors
from gpuarray.primitives.elementwise.arithmetic import mul_p
from gpuarray.primitives.elementwise.convert import conj_p, real_p
from gpuarray.primitives.movement.ops import pad_p
from gpuarray.util import lazy_module, prod

_fft = lazy_module("scipy.fft")

#: Elements of transforms that threads share: fewer are done before another thread is awake.
_SHARED = 1 << 16


class FftType(enum.IntEnum):
    """Kind of transform: complex (FFT, IFFT), real to half-spectrum (RFFT) and back (IRFFT).

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
        # No axes: the identity.
        return x.strip_weak_type()
    outer, last = x.shape[: x.ndim - rank], fft_lengths[-1]
    # IRFFT takes a half-spectrum, which does not determine the length of the result.
    expected = fft_lengths
    if fft_type is FftType.IRFFT:
        expected = (*fft_lengths[:-1], last // 2 + 1 if last else 0)
    if x.shape[x.ndim - rank :] != expected:
        note = f", that is {expected} as a half-spectrum" if fft_type is FftType.IRFFT else ""
        raise ValueError(
            f"{name} input shape {x.shape} minor dimensions must be equal to fft_lengths "
            f"{fft_lengths}{note}"
        )
    # A real signal has a symmetric spectrum, of which the first half is kept.
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
        # No axes: the transform is the identity; np.positive copies.
        return np.positive
    if aval.size == 0 or prod(avals[0].shape) == 0:
        return lambda x: np.zeros(aval.shape, aval.dtype)
    axes = tuple(range(aval.ndim - rank, aval.ndim))
    name = {FftType.FFT: "fftn", FftType.IFFT: "ifftn", FftType.RFFT: "rfftn"}.get(
        fft_type, "irfftn"
    )
    # Only IRFFT needs the length: n // 2 + 1 frequencies belong to n or n + 1 samples.
    lengths = {"s": fft_lengths} if fft_type is FftType.IRFFT else {}
    large = max(aval.size, prod(avals[0].shape)) >= _SHARED

    def transform(x):
        # SciPy is loaded here, at the first transform. Threads share whole transforms, so results
        # do not depend on how many there are.
        workers = threads.thread_count() if large else 1
        return getattr(_fft, name)(x, axes=axes, workers=workers, **lengths)

    return transform


def _transpose(ct, x, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
    """Transposes: a complex transform's matrix is symmetric; real ones use half of its spectrum."""
    rank = len(fft_lengths)
    if fft_type in (FftType.FFT, FftType.IFFT) or not rank:
        # The matrix exp(-2 pi i j k / n) is symmetric in j and k.
        return (fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths),)
    if fft_type is FftType.RFFT:
        # rfft is the first half of the fft of a real signal: pad, transform, take the real part.
        missing = fft_lengths[-1] - aval_of(ct).shape[-1]
        zero = np.zeros((), aval_of(ct).dtype)[()]
        config = tuple((0, 0, 0) for _ in aval_of(ct).shape[:-1]) + ((0, missing, 0),)
        whole = pad_p.bind(ct, zero, padding_config=config)
        full = fft_p.bind(whole, fft_type=FftType.FFT, fft_lengths=fft_lengths)
        return (real_p.bind(full),)
    # irfft uses every frequency but the first (and the middle one) twice, once conjugated.
    half = fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
    twice = np.full(aval_of(half).shape[-1], 2.0)
    twice[0] = 1.0
    if fft_lengths[-1] % 2 == 0 and twice.size > 1:
        twice[-1] = 1.0
    # The inverse transform divides by the number of samples.
    scale = (twice / prod(fft_lengths)).astype(aval_of(half).dtype)
    shape = (1,) * (aval_of(half).ndim - 1) + scale.shape
    return (conj_p.bind(mul_p.bind(half, scale.reshape(shape)), input_dtype=aval_of(x).dtype),)


def _batch(axis, args, dims, **params):
    # All other axes precede the transformed ones, so the batch axis goes first.
    (x,), (dim,) = args, dims
    return fft_p.bind(move_axis(x, dim, 0), **params), 0


def _fourier(eqn) -> Fourier:
    kind = eqn.params["fft_type"]
    real = {FftType.RFFT: "operand", FftType.IRFFT: "result"}.get(kind, "")
    return Fourier(eqn.params["fft_lengths"], real, kind in (FftType.IFFT, FftType.IRFFT))


fft_p = Primitive(
    "fft",
    Kind.LIBRARY,
    aval=_aval,
    numpy_pick=_numpy,
    jvp=LINEAR,
    transpose=_transpose,
    batch=_batch,
    factors=fft_factors,
    rewrite=Rewrite(fourier=_fourier),
    weight=50.0,
)
