"""Convolutions and correlations in any number of dimensions, directly or by Fourier transforms.

Floor 6. In: two arrays with the same number of axes. Out: sums of products of one with the other,
shifted; the work is done by lax.conv_general_dilated or numpy.fft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.operands import promoted_inexact
from gpuarray.util import canonical_axis

MODES = ("full", "same", "valid")


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {list(MODES)}, got {mode!r}")


def _pair(in1: Any, in2: Any, mode: str) -> tuple[Array, Array]:
    x, y = promoted_inexact("convolve", in1, in2)
    if x.ndim != y.ndim:
        raise ValueError(
            f"in1 and in2 must have the same number of dimensions, got shapes {x.shape} and "
            f"{y.shape}"
        )
    if x.size == 0 or y.size == 0:
        raise ValueError(
            f"zero-size arrays not supported in convolutions, got shapes {x.shape} and {y.shape}."
        )
    _check_mode(mode)
    if mode == "valid" and not _nested(x.shape, y.shape):
        raise ValueError(
            "One input must be smaller than the other in every dimension, got shapes "
            f"{x.shape} and {y.shape}."
        )
    return x, y


def _nested(a: Sequence[int], b: Sequence[int]) -> bool:
    # Whether one of them fits into the other along every axis.
    pairs = list(zip(a, b, strict=True))
    return all(m >= n for m, n in pairs) or all(m <= n for m, n in pairs)


def _slide(x: Array, y: Array, mode: str, precision: Any) -> Array:
    """The convolution by a sliding window: the smaller operand, reversed."""
    shape = x.shape
    # The smaller one is the window.
    if any(m < n for m, n in zip(x.shape, y.shape, strict=True)) and _nested(x.shape, y.shape):
        x, y = y, x
    sizes = list(zip(x.shape, y.shape, shape, strict=True))
    # In terms of the full convolution: where the middle begins, and the padding that yields it.
    if mode == "same":  # as many sums as in1 has elements, from the middle of "full"
        before = [(m + n - 1 - k) // 2 for m, n, k in sizes]
        edges = [(n - 1 - low, k + low - m) for low, (m, n, k) in zip(before, sizes, strict=True)]
    else:
        edges = [(n - 1, n - 1) if mode == "full" else (0, 0) for _, n, _ in sizes]
    out = lax.conv_general_dilated(
        x[None, None],
        gnp.flip(y)[None, None],
        (1,) * x.ndim,
        edges,
        precision=precision,
    )
    return out[0, 0]


def convolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """The convolution of two arrays of as many axes.

    Parameters
    ----------
    mode :
        "full", "same" (the middle, of in1's shape) or "valid" (where they overlap fully).
    method :
        "direct" or "auto" for sums of products, "fft" for long ones.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.convolve(gnp.array([1., 2.]), gnp.array([1., 1., 1.]))
    Array([1., 3., 3., 2.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("direct", "auto"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    x, y = _pair(in1, in2, mode)
    return _slide(x, y, mode, precision)


def correlate(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """The cross-correlation of two arrays: the convolution with in2 reversed and conjugated.

    Parameters
    ----------
    mode, method :
        As in `convolve`.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.correlate(gnp.array([1., 2., 3.]), gnp.array([0., 1.]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    return convolve(in1, gnp.flip(gnp.conj(in2)), mode, method, precision)


def _plane(name: str, in1: Any, in2: Any, mode: str) -> tuple[Array, Array]:
    if gnp.ndim(in1) != 2 or gnp.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs.")
    return _pair(in1, in2, mode)


def _bordered(x: Array, y: Array, boundary: str, fillvalue: Any) -> Array:
    """x with an edge as wide as y can reach."""
    # SciPy's names for the border, as modes of `pad`.
    modes = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
    if not util.known(boundary, modes):
        raise ValueError(f"boundary must be one of {list(modes)}, got {boundary!r}")
    edges = [(n - 1, n - 1) for n in y.shape]
    more = {"constant_values": fillvalue} if boundary == "fill" else {}
    return gnp.pad(x, edges, modes[boundary], **more)


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The convolution of two matrices.

    Parameters
    ----------
    mode :
        As in `convolve`.
    boundary :
        The values around in1: "fill" (`fillvalue`), "wrap" (in1 again) or "symm" (its mirror
        image).

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.convolve2d(gnp.eye(2), gnp.array([[1., 2.]]))
    Array([[1., 2., 0.],
           [0., 1., 2.]], dtype=float32)
    """
    x, y = _plane("convolve2d", in1, in2, mode)
    if mode == "valid" or (boundary == "fill" and _is_zero(fillvalue)):
        return _slide(x, y, mode, precision)
    # Extend the border by the width of the window, so that all windows are inside.
    full = _slide(_bordered(x, y, boundary, fillvalue), y, "valid", precision)
    return full if mode == "full" else _centre(full, x.shape, (0, 1))


def _is_zero(fillvalue: Any) -> bool:
    return isinstance(fillvalue, (int, float)) and fillvalue == 0


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The cross-correlation of two matrices: the convolution with in2 reversed and conjugated.

    Parameters
    ----------
    mode, boundary, fillvalue :
        As in `convolve2d`.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.correlate2d(gnp.eye(2), gnp.array([[1., 2.]]), mode="valid")
    Array([[1.],
           [2.]], dtype=float32)
    """
    x, y = _plane("correlate2d", in1, in2, mode)
    if mode == "valid" and any(m < n for m, n in zip(x.shape, y.shape, strict=True)):
        # The smaller one moves over the larger one, as seen from there.
        return gnp.flip(convolve2d(y, gnp.flip(gnp.conj(x)), mode, precision=precision))
    if mode != "same":
        return convolve2d(x, gnp.flip(gnp.conj(y)), mode, boundary, fillvalue, precision)
    # The middle of an even number of rows or columns is counted from the other end.
    out = convolve2d(gnp.flip(x), gnp.conj(y), mode, boundary, fillvalue, precision)
    return gnp.flip(out)


def _centre(full: Array, shape: Sequence[int], axes: Sequence[int]) -> Array:
    """The middle of `full`, of the given shape along `axes`."""
    for axis in axes:
        start = (full.shape[axis] - shape[axis]) // 2
        full = lax.slice_in_dim(full, start, start + shape[axis], axis=axis)
    return full


def fftconvolve(
    in1: Any, in2: Any, mode: str = "full", axes: Sequence[int] | int | None = None
) -> Array:
    """The convolution by Fourier transforms, over all axes or those given.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.fftconvolve(gnp.array([1., 2.]), gnp.array([1., 1., 1.])).round(4)
    Array([1., 3., 3., 2.], dtype=float32)
    """
    x, y = promoted_inexact("fftconvolve", in1, in2)
    if x.ndim != y.ndim:
        raise ValueError(
            f"in1 and in2 should have the same dimensionality, got shapes {x.shape} and {y.shape}"
        )
    _check_mode(mode)
    given = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    # Each axis once, in the order given.
    over = tuple(dict.fromkeys(canonical_axis(i, x.ndim) for i in util.indices(given)))
    rest = [i for i in range(x.ndim) if i not in over]
    # The axes that are not convolved are batch axes.
    if any(x.shape[i] != y.shape[i] for i in rest):
        raise ValueError(
            f"mapped axes must have same shape; got in1.shape={x.shape} in2.shape={y.shape} "
            f"axes={over}"
        )
    pairs = [(x.shape[i], y.shape[i]) for i in over]
    if mode == "valid":
        if not _nested(*zip(*pairs, strict=True)) if pairs else False:
            raise ValueError(
                "For 'valid' mode, One input must be at least as large as the other in every "
                f"dimension, got shapes {x.shape} and {y.shape}."
            )
        if any(m < n for m, n in pairs):
            x, y = y, x
    # Long enough that the circular convolution does not wrap.
    lengths = [max(m + n - 1, 0) for m, n in pairs]
    if not over:
        # Over no axes a convolution is a product.
        full = x * y
    elif x.size == 0 or y.size == 0:
        # An empty transform: zeros of the full length.
        shape = list(x.shape)
        for i, n in zip(over, lengths, strict=True):
            shape[i] = n
        full = gnp.zeros(shape, x.dtype)
    else:
        # Half the spectrum is enough for real signals.
        real = dtypes.kind_of(x.dtype) != "c"
        fft, ifft = (gnp.fft.rfftn, gnp.fft.irfftn) if real else (gnp.fft.fftn, gnp.fft.ifftn)
        spectrum = fft(x, lengths, axes=over) * fft(y, lengths, axes=over)
        full = lax.convert_element_type(ifft(spectrum, lengths, axes=over), x.dtype)
    if mode == "full":
        return full
    if mode == "same":
        return _centre(full, x.shape, over)
    # "valid": only where the shorter one is entirely within the longer one.
    wanted = [m - n + 1 if i in over else m for i, (m, n) in enumerate(zip(x.shape, y.shape))]
    return _centre(full, wanted, over)
