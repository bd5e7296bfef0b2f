"""Spectra of pieces of signals: stft and its inverse, csd, welch.

Floor 6. In: samples along an axis. Out: frequencies (and times) and spectra. Pieces are read by one
gather and assembled by one scatter-add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.operands import array, promoted_inexact
from gpuarray.runtime.memory import accounted
from gpuarray.scipy.signal.trends import remover
from gpuarray.util import canonical_axis, lazy_module

_signal = lazy_module("scipy.signal")


def _segments(
    window: Any, nperseg: int | None, noverlap: int | None, nfft: int | None, longest: int
) -> tuple[np.ndarray, int, int, int]:
    """The window's values, the length of a piece, the step between two, the transform's length."""
    # A window by name, or its samples.
    if isinstance(window, (str, tuple)):
        nperseg = min(256 if nperseg is None else nperseg, longest)
        values = _signal.get_window(window, nperseg)
    else:
        values = np.asarray(window)
        if values.ndim != 1:
            raise ValueError(f"window must be 1-D, got shape {values.shape}")
        if len(values) > longest:
            raise ValueError(
                f"window is longer than input signal: {len(values)} values for {longest} samples"
            )
        if nperseg is not None and nperseg != len(values):
            raise ValueError(
                "value specified for nperseg is different from length of window: "
                f"{nperseg} and {len(values)}"
            )
        nperseg = len(values)
    step, nfft = _lengths(nperseg, noverlap, nperseg if nfft is None else nfft)
    return values, nperseg, step, nfft


def _lengths(nperseg: int, noverlap: int | None, nfft: int) -> tuple[int, int]:
    nfft = util.index(nfft)
    if nfft < nperseg:
        raise ValueError(
            f"nfft must be greater than or equal to nperseg. Got FFT length ({nfft}), which must "
            f"be longer than nperseg ({nperseg})."
        )
    # SciPy's default: pieces that overlap by half.
    noverlap = nperseg // 2 if noverlap is None else util.index(noverlap)
    if noverlap >= nperseg:
        raise ValueError(f"noverlap must be less than nperseg. Got {noverlap} and {nperseg}.")
    return nperseg - noverlap, nfft


def _positive(nperseg: int | None) -> int | None:
    if nperseg is None:
        return None
    nperseg = int(util.number(nperseg, "an int"))
    if nperseg < 1:
        raise ValueError(f"nperseg must be a positive integer, got {nperseg}")
    return nperseg


# SciPy's names for the continuation of a signal, as modes of `pad`.
_BOUNDARIES = {"even": "reflect", "odd": "reflect", "constant": "edge", "zeros": "constant"}


def _extended(x: Array, boundary: str, n: int) -> Array:
    """n more samples at both ends of the last axis."""
    edges = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary == "odd":
        return gnp.pad(x, edges, "reflect", reflect_type="odd")
    return gnp.pad(x, edges, _BOUNDARIES[boundary])


def _spectrogram(
    x: Array,
    y: Array | None,
    fs: Any,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    onesided: bool,
    scaling: str,
    axis: int,
    power: bool,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and spectra (…, f, …, t), plain or x's conjugates times y's (`power`)."""
    if boundary is not None and not util.known(boundary, _BOUNDARIES):
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: {[*_BOUNDARIES, None]}"
        )
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling}")
    nperseg = _positive(nperseg)
    signals = [s for s in (x, y) if s is not None]
    place = canonical_axis(axis, max(s.ndim for s in signals))
    # Along the last axis from here on.
    signals = [gnp.moveaxis(s, canonical_axis(axis, s.ndim), -1) for s in signals]
    if len(signals) == 2:
        try:
            gnp.broadcast_shapes(*(s.shape[:-1] for s in signals))
        except ValueError as error:
            raise ValueError(
                f"x and y cannot be broadcast together. Got shapes {x.shape} and {y.shape}."  # pyright: ignore[reportOptionalMemberAccess]
            ) from error
    kind = signals[0].dtype
    real = dtypes.to_floating_dtype(kind)
    length = max(s.shape[-1] for s in signals)
    # As in SciPy, an empty input gives an empty result.
    if any(s.size == 0 for s in signals):
        empty = gnp.zeros(x.shape, dtypes.to_complex_dtype(kind))
        return gnp.zeros(x.shape, real), gnp.zeros(x.shape, real), empty
    # Signals of one length; then the boundary, and zeros to fill the last segment.
    signals = [_lengthened(s, length) for s in signals]
    values, nperseg, step, nfft = _segments(window, nperseg, noverlap, nfft, length)
    if boundary is not None:
        signals = [_extended(s, boundary, nperseg // 2) for s in signals]
    if padded:
        missing = (-(signals[0].shape[-1] - nperseg) % step) % nperseg
        signals = [_lengthened(s, s.shape[-1] + missing) for s in signals]
    length = signals[0].shape[-1]
    onesided = onesided and dtypes.kind_of(kind) != "c"
    # Window, detrend and transform every segment.
    taper = gnp.asarray(values.astype(real if values.dtype.kind != "c" else kind))
    spectra = [_transforms(s, taper, nperseg, step, nfft, remover(detrend), onesided)
               for s in signals]  # fmt: skip
    out = spectra[0]
    if power:
        out = gnp.conj(out) * spectra[-1]
    # Per hertz, or per line of the spectrum.
    squares = float(np.sum(np.abs(values) ** 2))
    scale = 1 / (fs * squares) if scaling == "density" else 1 / float(np.sum(values)) ** 2
    scale = gnp.asarray(scale, real)
    out = out * (scale if power else gnp.sqrt(scale))
    if power and onesided:  # the other half of the frequencies has as much
        # Zero and Nyquist frequency have no counterpart in the other half.
        twice = np.full(out.shape[-1], 2)
        twice[0] = 1
        if nfft % 2 == 0:
            twice[-1] = 1
        out = out * twice.astype(real)
    steps = gnp.fft.rfftfreq if onesided else gnp.fft.fftfreq
    frequencies = steps(nfft, 1 / gnp.asarray(fs, real), dtype=real)
    # The middle of each segment.
    times = gnp.arange(nperseg / 2, length - nperseg / 2 + 1, step, dtype=real) / fs
    if boundary is not None:
        times = times - (nperseg / 2) / fs
    return frequencies, times, gnp.moveaxis(out, -1, place)


def _lengthened(x: Array, n: int) -> Array:
    missing = n - x.shape[-1]
    return gnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)]) if missing else x


def _pieces(length: int, nperseg: int, step: int) -> np.ndarray:
    # A row of sample positions for each piece.
    starts = np.arange(0, length - nperseg + 1, step)
    return starts[:, None] + np.arange(nperseg)


def _transforms(
    x: Array, taper: Array, nperseg: int, step: int, nfft: int, without: Any, onesided: bool
) -> Array:
    """The spectra of all pieces: (…, pieces, frequencies)."""
    pieces = x[..., _pieces(x.shape[-1], nperseg, step)]
    if without is not None:
        pieces = without(pieces)
    pieces = pieces * taper
    return (gnp.fft.rfft if onesided else gnp.fft.fft)(pieces, n=nfft)


@accounted("stft")
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and the Fourier transforms of overlapping pieces of a signal.

    (…, n) -> (f,), (t,), (…, f, t). window: the name of a taper or its values. boundary: how x is
    extended at its ends ("zeros", "even", "odd", "constant"), or None. padded: zeros fill the last
    segment.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> f, t, z = scipy.signal.stft(gnp.ones(16), nperseg=8)
    >>> f, z.shape
    (Array([0.   , 0.125, 0.25 , 0.375, 0.5  ], dtype=float32), (5, 5))
    """
    (x,) = promoted_inexact("stft", x)
    return _spectrogram(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis,
        power=False, boundary=boundary, padded=padded,
    )  # fmt: skip


@accounted("csd")
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies and the cross spectral density of two signals, by Welch's method.

    (…, n) twice -> (f,), (…, f). scaling: "density" or "spectrum". average: "mean" or "median" over
    segments. With y None, the spectrum of x with itself.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.csd(gnp.ones(16), gnp.ones(16), nperseg=8)[1].shape
    (5,)
    """
    if average not in ("mean", "median"):
        raise ValueError(f'average must be "median" or "mean", got {average}')
    if y is None:
        (first,) = promoted_inexact("csd", x)
        second = None
    else:
        first, second = promoted_inexact("csd", x, y)
    frequencies, _, out = _spectrogram(
        first, second, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling,
        axis, power=True,
    )  # fmt: skip
    if second is None:
        # A spectrum times its own conjugate is real.
        out = gnp.real(out)
    if out.size == 0:
        return frequencies, out
    if average == "mean":
        return frequencies, out.mean(-1)
    # Complex numbers have no median: parts have.
    middle = gnp.median(gnp.real(out), axis=-1)
    if second is not None:
        middle = lax.complex(middle, gnp.median(gnp.imag(out), axis=-1))
    return frequencies, middle / middle.dtype.type(_median_bias(out.shape[-1]))


def _median_bias(n: int) -> float:
    """The expected median of n exponential variables, as a multiple of their mean."""
    # 1 - 1/2 + 1/3 - ...: Allen et al., "FINDCHIRP" (2012), as SciPy has it.
    twice = 2.0 * np.arange(1, (n - 1) // 2 + 1)
    return float(1 + np.sum(1 / (twice + 1) - 1 / twice))


@accounted("welch")
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies and the power spectral density of a signal: `csd` of it with itself, real.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.welch(gnp.arange(16.) % 2, nperseg=4)[1].argmax()
    Array(2, dtype=int32)
    """
    x = array("welch", x)
    return csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Times and the signal that `stft` transforms to this: (…, f, t) -> (n,), (…, n).

    Arguments are those that `stft` was given; boundary: whether it extended the signal.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> z = scipy.signal.stft(gnp.arange(8.), nperseg=4)[2]
    >>> scipy.signal.istft(z, nperseg=4)[1].round(4)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    z = array("istft", Zxx)
    if z.ndim < 2:
        raise ValueError(f"Input stft must be at least 2d! Got shape {z.shape}.")
    freq, time = (canonical_axis(i, z.ndim) for i in (freq_axis, time_axis))
    if freq == time:
        raise ValueError("Must specify differing time and frequency axes!")
    z = lax.convert_element_type(z, dtypes.to_complex_dtype(dtypes.to_inexact_dtype(z.dtype)))
    real = dtypes.to_floating_dtype(z.dtype)
    count = z.shape[freq]
    # The length of a transform, from the number of its frequencies.
    expected = 2 * (count - 1) if input_onesided else count
    nperseg = _positive(nperseg or None)
    nperseg = expected if nperseg is None else nperseg
    if nfft is None:
        # SciPy's rule: an odd length is guessed where nperseg says so.
        nfft = nperseg if input_onesided and nperseg == expected + 1 else expected
    step, nfft = _lengths(nperseg, noverlap, nfft)
    if isinstance(window, (str, tuple)):
        values = _signal.get_window(window, nperseg)
    else:
        values = np.asarray(window)
        if values.ndim != 1:
            raise ValueError(f"window must be 1-D, got shape {values.shape}")
        if len(values) != nperseg:
            raise ValueError(f"window must have length of {nperseg}, got {len(values)}")
    z = gnp.moveaxis(z, (time, freq), (-2, -1))
    pieces = (gnp.fft.irfft if input_onesided else gnp.fft.ifft)(z, n=nfft)[..., :nperseg]
    length = nperseg + (z.shape[-2] - 1) * step
    at = _pieces(length, nperseg, step)
    # Weighted overlap-add: multiply by the window again; its sum undoes the scaling of `stft`.
    pieces = pieces * (values * values.sum()).astype(real)
    x = gnp.zeros((*pieces.shape[:-2], length), pieces.dtype).at[..., at].add(pieces)
    # The sum of squared windows at each sample, known now: x is divided by it.
    weight = np.bincount(at.ravel(), np.tile(np.abs(values) ** 2, len(at)), length)
    if boundary:
        # Remove the extension that `stft` added at the ends.
        middle = slice(nperseg // 2, length - nperseg // 2)
        x, weight = x[..., middle], weight[middle]
    # Where no window reaches, the signal is unknown: do not divide.
    x = x / np.where(weight > 1e-10, weight, 1.0).astype(real)
    times = gnp.arange(x.shape[-1], dtype=real) / fs
    return times, gnp.moveaxis(x, -1, time - (freq < time))
