"""`gpuarray.numpy.fft`: discrete Fourier transforms.

Floor 6. In: arrays, lengths and axes. Out: complex (or real) spectra; the work is done by lax.fft
over the last axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.arithmetic import mod
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.axes import roll as _roll
from gpuarray.numpy.functions import conj
from gpuarray.numpy.operands import array, as_tuple
from gpuarray.runtime.transfer import device_put
from gpuarray.util import canonical_axis


def _transform(name: str, kind: str, a, s, axes, norm) -> Array:
    """Cut or pad to lengths `s`, transform over `axes`, scale as `norm` says."""
    a = array(f"jax.numpy.fft.{name}", a)
    inverse, real = kind.startswith("I"), "R" in kind
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    s = None if s is None else util.indices(s)
    # NumPy's default: all axes, or as many of the last ones as there are lengths.
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    axes = [canonical_axis(i, a.ndim) for i in util.indices(axes)]
    if s is not None and len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    if len(set(axes)) != len(axes):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support repeated axes. Got axes {list(axes)}."
        )
    if real and not inverse and dtypes.kind_of(a.dtype) == "c":
        raise ValueError(f"only real valued inputs supported for {name}")
    # A transform over no axes is the identity.
    if not axes:
        return a
    # lax.fft takes the last axes only.
    a = moveaxis(a, axes, range_tuple(a.ndim - len(axes), a.ndim))
    given = list(a.shape[a.ndim - len(axes) :])
    # The lengths of the transform, in terms of real numbers: an inverse real one makes 2 (n - 1).
    if s is None:
        lengths = list(given)
        if kind == "IRFFT":
            lengths[-1] = max(2 * (given[-1] - 1), 0)
    else:
        lengths = list(s)
    if s is not None and any(n < 1 for n in lengths):
        raise ValueError("Shape should be positive.")
    # How many elements of the operand that needs.
    wanted = list(lengths)
    if kind == "IRFFT":
        wanted[-1] = lengths[-1] // 2 + 1
    if 0 in lengths:  # lengths of `a`, which is empty
        return _nothing(a, kind, lengths, axes)
    a = _fit(a, given, wanted)
    # No FFT of half floats or integers: they become float32.
    if a.dtype.itemsize < 4 or dtypes.kind_of(a.dtype) in "biu":
        a = lax.convert_element_type(a, dtypes.to_inexact_dtype(np.dtype(np.float32)))
    # Transform, scale, and put the axes back.
    out = _by_threes(a, kind, lengths)
    out = _scaled(out, math.prod(lengths), inverse, norm)
    return moveaxis(out, range_tuple(out.ndim - len(axes), out.ndim), axes)


def _nothing(a: Array, kind: str, lengths: list[int], axes: Sequence[int]) -> Array:
    """The transform of an array without elements, or the inverse real transform to no elements."""
    if kind == "RFFT" and not lengths[-1]:
        raise ValueError(f"rfft of an empty axis: the shape is {a.shape}")
    wide = dtypes.to_complex_dtype(a.dtype)
    dtype = dtypes.to_real_dtype(wide) if kind == "IRFFT" else wide
    last = lengths[-1] // 2 + 1 if kind == "RFFT" else lengths[-1]
    shape = (*a.shape[: a.ndim - len(axes)], *lengths[:-1], last)
    out = lax.full(shape, 0, dtype)
    return moveaxis(out, range_tuple(out.ndim - len(axes), out.ndim), axes)


def range_tuple(start: int, stop: int) -> tuple[int, ...]:
    """The integers from start up to stop."""
    return tuple(range(start, stop))


def _fit(a: Array, given: list[int], wanted: list[int]) -> Array:
    if given == wanted:
        return a
    lead = a.ndim - len(given)
    # Cut at the end, or padded with zeros at the end.
    cut = tuple(slice(0, min(n, m)) for n, m in zip(given, wanted, strict=True))
    a = a[(slice(None),) * lead + cut]
    missing = [(0, max(0, m - n), 0) for n, m in zip(given, wanted, strict=True)]
    if any(high for _, high, _ in missing):
        a = lax.pad(a, a.dtype.type(0), [(0, 0, 0)] * lead + missing)
    return a


def _by_threes(a: Array, kind: str, lengths: list[int]) -> Array:
    """Transforms take up to three axes at a time: more are done in turn, the real one at its proper
    end.
    """
    count = len(lengths)
    if count <= 3:
        return lax.fft(a, kind, tuple(lengths))
    plain = "IFFT" if kind.startswith("I") else "FFT"
    # The last three axes are one transform; those before them follow, moved to the end for it.
    first = count - 3
    lead = a.ndim - count

    def others(x: Array) -> Array:
        front, back = range_tuple(lead, lead + first), range_tuple(x.ndim - first, x.ndim)
        x = _by_threes(moveaxis(x, front, back), plain, lengths[:first])
        return moveaxis(x, back, front)

    # The real transform is of the last axis: it comes last when going back, first when going there.
    if kind == "IRFFT":
        return lax.fft(others(a), kind, tuple(lengths[first:]))
    return others(lax.fft(a, kind, tuple(lengths[first:])))


def _scaled(out: Array, n: int, inverse: bool, norm: str | None) -> Array:
    """The inverse divides by n already; `ortho` shares that between both ways, `forward` leaves it
    to the other.
    """
    # Factors relative to lax.fft, which leaves the forward transform unscaled.
    if norm == "ortho":
        return out * (math.sqrt(n) if inverse else 1 / math.sqrt(n))
    if norm == "forward":
        return out * float(n) if inverse else out / float(n)
    return out


def _one(name: str, kind: str, a, n, axis, norm) -> Array:
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use "
            f"jax.numpy.fft.{name}n. Got axis = {axis!r}."
        )
    return _transform(name, kind, a, None if n is None else [n], [axis], norm)


def fft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform along an axis: X[k] = sum_j a[j] exp(-2πi jk / n).

    Parameters
    ----------
    n :
        The length, `a` being cut or filled up with zeros.
    norm :
        "backward" (nothing here, 1/n in the inverse), "ortho" (1/sqrt(n) both ways) or "forward"
        (1/n here).

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.fft(gnp.array([1., 0., 0., 0.]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("fft", "FFT", a, n, axis, norm)


def ifft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.ifft(gnp.array([4., 0., 0., 0.]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("ifft", "IFFT", a, n, axis, norm)


def rfft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform of real input, without the redundant half: n -> n // 2 + 1.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.rfft(gnp.array([1., 0., 0., 0.]))
    Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("rfft", "RFFT", a, n, axis, norm)


def irfft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: m -> n, by default 2 (m - 1).

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.irfft(gnp.array([4., 0., 0.]))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return _one("irfft", "IRFFT", a, n, axis, norm)


# The Hermitian transforms are real ones in the other direction: their scalings swap.
_OTHER_WAY = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _swapped(norm):
    if not util.known(norm, _OTHER_WAY):
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return _OTHER_WAY[norm]


def hfft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform of Hermitian input, of which half is given; the result is real.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.hfft(gnp.array([1., 0., 0.]))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    # hfft(a) = irfft(conj(a)) but for the scaling; ihfft is the reverse.
    a = array("jax.numpy.fft.hfft", a)
    return _one("hfft", "IRFFT", conj(a), n, axis, _swapped(norm))


def ihfft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.ihfft(gnp.array([4., 0., 0., 0.]))
    Array([1.-0.j, 1.-0.j, 1.-0.j], dtype=complex64)
    """
    a = array("jax.numpy.fft.ihfft", a)
    return conj(_one("ihfft", "RFFT", a, n, axis, _swapped(norm)))


def fftn(
    a, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The Fourier transform over several axes, all of them by default.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.fftn(gnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("fftn", "FFT", a, s, axes, norm)


def ifftn(
    a, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `fftn`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.ifftn(gnp.ones((2, 2)))
    Array([[1.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("ifftn", "IFFT", a, s, axes, norm)


def rfftn(
    a, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The Fourier transform of real input over several axes, the last one without its redundant
    half.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.rfftn(gnp.ones((2, 4))).shape
    (2, 3)
    """
    return _transform("rfftn", "RFFT", a, s, axes, norm)


def irfftn(
    a, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `rfftn`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.irfftn(gnp.ones((2, 3))).shape
    (2, 4)
    """
    return _transform("irfftn", "IRFFT", a, s, axes, norm)


def _two(name: str, kind: str, a, s, axes, norm) -> Array:
    if len(util.indices(axes)) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}.")
    return _transform(name, kind, a, s, axes, norm)


def fft2(
    a, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The Fourier transform over two axes, by default the last ones.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.fft2(gnp.ones((2, 2)))[0, 0]
    Array(4.+0.j, dtype=complex64)
    """
    return _two("fft2", "FFT", a, s, axes, norm)


def ifft2(
    a, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `fft2`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.ifft2(gnp.ones((2, 2)))[0, 0]
    Array(1.+0.j, dtype=complex64)
    """
    return _two("ifft2", "IFFT", a, s, axes, norm)


def rfft2(
    a, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The Fourier transform of real input over two axes.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.rfft2(gnp.ones((2, 4))).shape
    (2, 3)
    """
    return _two("rfft2", "RFFT", a, s, axes, norm)


def irfft2(
    a, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `rfft2`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.irfft2(gnp.ones((2, 3))).shape
    (2, 4)
    """
    return _two("irfft2", "IRFFT", a, s, axes, norm)


def _frequencies(name: str, n, d, dtype, device, first: int, count: int) -> Array:
    if isinstance(d, (list, tuple)) or np.ndim(d) != 0:
        raise ValueError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {d}."
        )
    kind = dtypes.default_float() if dtype is None else dtypes.requested_dtype(dtype, name)
    steps = lax.iota(dtypes.default_int(), count)
    if first:  # the second half of the frequencies is negative
        steps = mod(steps + first, n) - first
    # Divided as floats even if integers are requested.
    through = dtypes.to_inexact_dtype(kind)
    unit = lax.convert_element_type(array(name, d) * n, through)
    out = lax.convert_element_type(lax.convert_element_type(steps, through) / unit, kind)
    return out if device is None else device_put(out, device)


def _length(name: str, n) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(
            f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {list(n)}."
        )
    return util.index(n)


def fftfreq(n: int, d=1.0, *, dtype=None, device=None) -> Array:
    """The frequencies of `fft`'s result for samples at distance d: 0, 1, …, -1 over n d.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    n = _length("fftfreq", n)
    return _frequencies("fftfreq", n, d, dtype, device, n // 2, n)


def rfftfreq(n: int, d=1.0, *, dtype=None, device=None) -> Array:
    """The frequencies of `rfft`'s result for samples at distance d: 0, 1, …, n // 2 over n d.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    n = _length("rfftfreq", n)
    return _frequencies("rfftfreq", n, d, dtype, device, 0, n // 2 + 1)


def _shift_axes(x: Array, axes) -> tuple[int, ...]:
    return (
        range_tuple(0, x.ndim)
        if axes is None
        else tuple(canonical_axis(i, x.ndim) for i in as_tuple(axes))
    )


def fftshift(x, axes: Any = None) -> Array:
    """Frequency 0 moved to the middle of the axes.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.fftshift(gnp.array([0, 1, -2, -1]))
    Array([-2, -1,  0,  1], dtype=int32)
    """
    x = array("jax.numpy.fft.fftshift", x)
    chosen = _shift_axes(x, axes)
    # Frequency 0 moves from place 0 to place n // 2.
    return _roll(x, tuple(x.shape[i] // 2 for i in chosen), chosen)


def ifftshift(x, axes: Any = None) -> Array:
    """The inverse of `fftshift`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fft.ifftshift(gnp.array([-2, -1, 0, 1]))
    Array([ 0,  1, -2, -1], dtype=int32)
    """
    x = array("jax.numpy.fft.ifftshift", x)
    chosen = _shift_axes(x, axes)
    # Back by the same amount: for odd lengths the two shifts differ.
    return _roll(x, tuple(-(x.shape[i] // 2) for i in chosen), chosen)


__getattr__ = _explain_names(__name__)
