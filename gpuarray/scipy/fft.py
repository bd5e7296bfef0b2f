"""Cosine transforms (type II and its inverse), from complex Fourier transforms of the same length.

Floor 6. In: arrays, lengths and axes. Out: coefficients. Complex input is transformed by parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.operands import promoted_inexact
from gpuarray.runtime.memory import accounted
from gpuarray.util import canonical_axis


def _check(name: str, type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError(f"Only DCT type 2 is implemented. {name} got {type=}.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.{name}: {norm=!r} is not implemented, only 'ortho'")


def _over(name: str, core: Callable, x: Any, lengths: dict[int, int], norm) -> Array:
    """`core` over one axis after the other, each cut or filled to its length first."""
    (x,) = promoted_inexact(name, x)
    # Half precision would lose the sums of a long transform.
    if x.dtype.itemsize < 4:
        x = lax.convert_element_type(x, np.float32)
    # A real transform: complex numbers by parts.
    if dtypes.kind_of(x.dtype) == "c":
        return lax.complex(
            _over(name, core, lax.real(x), lengths, norm),
            _over(name, core, lax.imag(x), lengths, norm),
        )
    for axis, n in lengths.items():
        if n < 1:
            raise TypeError(f"{name}: the number of data points must be positive, got {n}")
        x = gnp.moveaxis(x, axis, -1)[..., :n]
        missing = n - x.shape[-1]
        if missing:
            x = lax.pad(x, x.dtype.type(0), [(0, 0, 0)] * (x.ndim - 1) + [(0, missing, 0)])
        x = gnp.moveaxis(core(x, norm == "ortho"), -1, axis)
    return x


@accounted("a transform")
def _order(n: int) -> np.ndarray:
    """Even positions in order, then odd ones reversed: this turns a cosine transform into a Fourier
    transform.
    """
    return np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])


def _turns(n: int, dtype) -> np.ndarray:
    # exp(-i pi k / 2n): a shift by half a sample, to where the cosines are sampled.
    return np.exp(-0.5j * np.pi * np.arange(n) / n).astype(dtypes.to_complex_dtype(dtype))


def _weights(n: int, dtype) -> np.ndarray:
    """The weights that make the transform orthogonal."""
    out = np.full(n, math.sqrt(1 / (2 * n)))
    # The constant row has twice the squared length of the others.
    out[0] = math.sqrt(1 / (4 * n))
    return out.astype(dtype)


def _dct(x: Array, ortho: bool) -> Array:
    n = x.shape[-1]
    # Makhoul's algorithm: even positions in order, odd ones reversed, one FFT of the same length.
    spectrum = gnp.fft.fft(x[..., _order(n)])
    out = lax.real(spectrum * _turns(n, x.dtype)) * 2
    return out * _weights(n, x.dtype) if ortho else out


def _idct(x: Array, ortho: bool) -> Array:
    n = x.shape[-1]
    x = x / _weights(n, x.dtype) if ortho else x
    # The spectrum of a real signal, made of both ends of the coefficients.
    mirrored = gnp.concatenate([gnp.zeros_like(x[..., :1]), x[..., :0:-1]], axis=-1)
    spectrum = lax.complex(x, -mirrored) * _turns(n, x.dtype).conj() / 2
    # The inverse of the permutation puts the samples back in order.
    return lax.real(gnp.fft.ifft(spectrum))[..., np.argsort(_order(n))]


def _lengths(name: str, x: Any, s: Sequence[int] | None, axes) -> dict[int, int]:
    shape = gnp.shape(x)
    s = None if s is None else util.indices(s)
    if axes is None:
        # Without axes: all of them, or as many of the last ones as there are lengths.
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    elif not isinstance(axes, Sequence):
        axes = [axes]
    places = [canonical_axis(i, len(shape)) for i in axes]
    if len(set(places)) != len(places):
        raise ValueError(f"repeated axis: {tuple(axes)}")
    if s is not None and len(s) != len(places):
        raise ValueError(
            f"{name}: when given, axes and shape arguments have to be of the same length, got "
            f"axes={tuple(axes)} and s={tuple(s)}"
        )
    wanted = [shape[i] for i in places] if s is None else list(s)
    return dict(zip(places, wanted, strict=True))


def dct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The cosine transform of type 2 along an axis: y[k] = 2 sum_j x[j] cos(pi k (2 j + 1) / 2 n).

    Parameters
    ----------
    n :
        Length to which x is cut or filled with zeros.
    norm :
        "ortho" makes it orthogonal.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.fft.dct(gnp.ones(4))
    Array([8., 0., 0., 0.], dtype=float32)
    """
    _check("dct", type, norm)
    return _over("dct", _dct, x, _lengths("dct", x, None if n is None else [n], axis), norm)


def idct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `dct`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.fft.idct(gnp.array([8., 0., 0., 0.]))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    _check("idct", type, norm)
    return _over("idct", _idct, x, _lengths("idct", x, None if n is None else [n], axis), norm)


def dctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The cosine transform over several axes, by default all.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.fft.dctn(gnp.ones((2, 2)))[0, 0]
    Array(16., dtype=float32)
    """
    _check("dctn", type, norm)
    return _over("dctn", _dct, x, _lengths("dctn", x, s, axes), norm)


def idctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.fft.idctn(scipy.fft.dctn(gnp.ones((2, 2)))).round(4)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    _check("idctn", type, norm)
    return _over("idctn", _idct, x, _lengths("idctn", x, s, axes), norm)


__getattr__ = _explain_names(__name__)
