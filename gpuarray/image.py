"""`gpuarray.image`: images made larger or smaller, shifted and scaled.

Floor 6. In: arrays, any number of axes of which may be resized. Out: arrays; pixels along an
axis are sums of few others (one when the method is "nearest"), or a product with all weights.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.api.linear_call import linear_call as _linear_call
from gpuarray.core import dims, dtypes
from gpuarray.core.target import TARGET
from gpuarray.core.value import Array
from gpuarray.functions.inspect import ensure_compile_time_eval as _ensure_compile_time_eval
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.operands import promoted_inexact
from gpuarray.util import canonical_axis


class ResizeMethod(enum.Enum):
    """How values between pixels are found.

    >>> from gpuarray import image
    >>> image.ResizeMethod.from_string("bicubic")
    <ResizeMethod.CUBIC: 4>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of this name."""
        method = _NAMES.get(s)
        if method is None:
            raise ValueError(f'Unknown resize method "{s}": expected one of {list(_NAMES)}')
        return method


# A method may also be named for its number of axes (bilinear) or its kernel (triangle).
_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    if not isinstance(method, ResizeMethod):
        raise TypeError(f"method must be a ResizeMethod or the name of one, got {method!r}")
    return method


# ---- kernels: the weight of a pixel at distance x ----


def _triangle(x: Array) -> Array:
    # Linear interpolation: the weight falls to 0 at the next pixel.
    return gnp.maximum(0, 1 - x)


def _cubic(x: Array, a: float = -0.5) -> Array:
    # Keys' cubic convolution; a is the slope at distance 1.
    # Two cubics by Horner's rule, for distances below 1 and from 1 to 2.
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return gnp.where(x >= 2, 0, gnp.where(x >= 1, far, near))


def _lanczos(radius: int) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        # sinc(x) sinc(x / radius), with its limit 1 at 0.
        # The inner `where` keeps the derivative finite at 0, too.
        at = gnp.where(x > 1e-3, x, 1) * np.pi
        value = radius * gnp.sin(at) * gnp.sin(at / radius) / (at * at)
        return gnp.where(x > radius, 0, gnp.where(x > 1e-3, value, 1))

    return kernel


_KERNELS: dict[ResizeMethod, Callable[[Array], Array]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic,
    ResizeMethod.CUBIC_PYTORCH: _cubic,
}


def _weights(
    given: int, wanted: int, scale: Array, translation: Array, method: ResizeMethod, antialias: bool
) -> Array:
    """The weight of every input pixel in every output pixel: an array of shape (given, wanted)."""
    dtype = scale.dtype
    # Output coordinate = scale * input coordinate + translation; pixel i covers i to i + 1.
    inverse = 1 / scale
    start = gnp.arange(wanted, dtype=dtype)
    # Rows are input pixels, columns output pixels.
    pixels = gnp.arange(given, dtype=dtype)[:, None]
    if method is ResizeMethod.AREA:  # the share of the output pixel that the input pixel covers
        low, high = (start - translation) * inverse, (start + 1 - translation) * inverse
        covered = gnp.minimum(high, pixels + 1) - gnp.maximum(low, pixels)
        return _normalized(gnp.maximum(covered, 0))
    # Position of each output pixel's centre in the input.
    centres = (start + 0.5 - translation) * inverse - 0.5
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        # Another slope at distance 1; and the first and last pixels extend beyond the edges.
        beyond = gnp.arange(-2, given + 2, dtype=dtype)[:, None]
        weights = _cubic(abs(centres - beyond), -0.75)
        # A weight beyond an edge counts for the edge's pixel.
        inner = gnp.clip(gnp.arange(-2, given + 2), 0, given - 1)
        weights = gnp.zeros((given, wanted), dtype).at[inner].add(weights)
    else:
        # Shrinking widens the kernel, so that every input pixel counts.
        width = gnp.maximum(inverse, 1) if antialias else 1
        weights = _normalized(_KERNELS[method](abs(centres - pixels) / width))
    # Pixels outside the image contribute nothing.
    return gnp.where((centres >= -0.5) & (centres <= given - 0.5), weights, 0)


class _Band(NamedTuple):
    """The weights of an axis that are not 0: K for each new pixel, of pixels next to each other.

    Attributes
    ----------
    pixels, weights :
        (K, wanted): the pixel, and its weight.
    """

    pixels: np.ndarray
    weights: np.ndarray


def _band(weights: np.ndarray) -> _Band:
    given, wanted = weights.shape
    found = weights != 0
    first = found.argmax(0)
    last = np.where(found.any(0), given - 1 - found[::-1].argmax(0), first)
    pixels = first + np.arange((last - first).max() + 1)[:, None]
    inside = pixels < given
    pixels = np.minimum(pixels, given - 1)
    weights = np.where(inside, weights[pixels, np.arange(wanted)], 0)
    return _Band(pixels.astype(np.int32), weights.astype(weights.dtype))


@functools.lru_cache(128)
def _bands(
    given: int, wanted: int, method: ResizeMethod, antialias: bool, dtype: np.dtype
) -> tuple[_Band, _Band]:
    """The weights of new pixels, and of given ones in the transpose."""
    with _ensure_compile_time_eval():
        scale, shift = gnp.asarray(wanted / given, dtype), gnp.asarray(0, dtype)
        weights = np.asarray(_weights(given, wanted, scale, shift, method, antialias))
    return _band(weights), _band(weights.T)


def _sums(x: Array, band: _Band, axis: int) -> Array:
    """Sums of the pixels of a band along an axis, each times its weight."""
    along = (-1, *(1,) * (x.ndim - 1 - axis))
    # Halves are added as float32, and rounded once; so are products of matrices.
    exact = gnp.promote_types(x.dtype, np.float32)
    weights = gnp.asarray(band.weights).astype(x.dtype).astype(exact)
    total = None
    for pixels, weight in zip(band.pixels, weights, strict=True):
        taken = gnp.take(x, gnp.asarray(pixels), axis=axis, mode="clip")
        term = taken.astype(exact) * weight.reshape(along)
        total = term if total is None else total + term
    assert total is not None
    return total.astype(x.dtype)


def _normalized(weights: Array) -> Array:
    total = weights.sum(0, keepdims=True)
    # Weights that sum to zero belong to pixels outside the image.
    enough = abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return gnp.where(enough, weights / gnp.where(total != 0, total, 1), 0)


def _is_narrow(band: _Band, length: int) -> bool:
    """Whether sums of a band take less than a product with all weights of an axis of `length`."""
    count = len(band.pixels)
    return count <= TARGET.band and count * TARGET.band_share <= length


def _exact(x: Array) -> np.dtype:
    """The dtype of weights: halves would not tell neighbouring pixels of a large image apart."""
    real = dtypes.to_floating_dtype(x.dtype)
    return np.dtype(np.float32) if real.itemsize < 4 else real


def _transformed(
    x: Array,
    lengths: dict[int, int],
    scales: Sequence[Any],
    translations: Sequence[Any],
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Array:
    exact = _exact(x)
    for (axis, n), scale, shift in zip(lengths.items(), scales, translations, strict=True):
        scale, shift = gnp.asarray(scale, exact), gnp.asarray(shift, exact)
        weights = _weights(x.shape[axis], n, scale, shift, method, antialias)
        weights = lax.convert_element_type(weights, x.dtype)
        # tensordot puts the new axis last; move it back.
        x = gnp.moveaxis(gnp.tensordot(x, weights, (axis, 0), precision=precision), -1, axis)
    return x


def _resized(
    x: Array, axis: int, wanted: int, method: ResizeMethod, antialias: bool, precision: Any
) -> Array:
    """An image with another length of an axis: sums of few pixels, or a product."""
    given = x.shape[axis]
    if dims.Dim not in map(type, (given, wanted)):
        there, back = _bands(given, wanted, method, antialias, _exact(x))
        if _is_narrow(there, given) and _is_narrow(back, wanted):
            # The derivative is a sum over a band too, instead of a scatter for each pixel.
            sums = lambda band: lambda _, x: _sums(x, band, axis)
            return _linear_call(sums(there), sums(back), (), x)
    scales, shifts = [wanted / given], [0.0]
    return _transformed(x, {axis: wanted}, scales, shifts, method, antialias, precision)


def _nearest(x: Array, lengths: dict[int, int]) -> Array:
    for axis, n in lengths.items():
        given = x.shape[axis]
        # The input pixel under the middle of each output pixel.
        if dims.Dim in map(type, (given, n)):
            place = (gnp.arange(n, dtype=np.float32) + 0.5) * given / n
            x = gnp.take(x, gnp.floor(place).astype(np.int32), axis=axis)
            continue
        # By NumPy, since lengths are known while tracing.
        at = np.floor((np.arange(n) + 0.5) * (given / max(n, 1))).astype(int)
        x = gnp.take(x, np.minimum(at, max(given - 1, 0)), axis=axis)
    return x


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """Resize an image to `shape`, which has as many axes; axes of the same length are not changed.

    Parameters
    ----------
    method :
        "nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5" or "area".
    antialias :
        Pixels are blurred before they are thinned out.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import image
    >>> image.resize(gnp.array([[0., 4.]]), (1, 4), "linear")
    Array([[0., 1., 3., 4.]], dtype=float32)
    """
    shape = tuple(dims.larger(util.index(n), 0) for n in shape)
    x = gnp.asarray(image)
    if len(shape) != x.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {shape} vs {x.shape}"
        )
    method = _method(method)
    # Axes that keep their length are left alone.
    lengths = {i: n for i, n in enumerate(shape) if n != x.shape[i]}
    if method is ResizeMethod.NEAREST:
        return _nearest(x, lengths)
    (x,) = promoted_inexact("resize", x)
    if math.prod(shape) == 0 or x.size == 0:
        return gnp.zeros(shape, x.dtype)
    # One axis after the other: a kernel is a product over axes.
    for axis, n in lengths.items():
        x = _resized(x, axis, n, method, bool(antialias), precision)
    return x


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Array,
    translation: Array,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image scaled, then shifted, along some axes, seen through a frame of another shape.

    Pixels outside the image are 0. Also differentiable in scale and translation.

    Parameters
    ----------
    spatial_dims :
        The k axes that are resized.
    scale, translation :
        (k,): one number for each of them.
    method :
        As in `resize`, but for "nearest".

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import image
    >>> x = gnp.array([1., 2., 3.])
    >>> image.scale_and_translate(x, (3,), (0,), gnp.ones(1), gnp.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    shape = tuple(max(util.index(n), 0) for n in shape)
    (x,) = promoted_inexact("scale_and_translate", image)
    if len(shape) != x.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {shape} vs {x.shape}"
        )
    method = _method(method)
    if method is ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for scale_and_translate."
        )
    # Axes that are not named keep their pixels.
    axes = [canonical_axis(i, x.ndim) for i in spatial_dims]
    if len(set(axes)) != len(axes):
        raise ValueError(f"spatial_dims must be distinct, got {tuple(spatial_dims)}")
    scale, translation = gnp.asarray(scale), gnp.asarray(translation)
    for name, given in (("scale", scale), ("translation", translation)):
        if given.shape != (len(axes),):
            raise AssertionError(
                f"{name} must have a number for each of {len(axes)} spatial_dims, got shape "
                f"{given.shape}"
            )
    lengths = {i: shape[i] for i in axes}
    # One number for each axis; under a transformation these are tracers.
    scales, shifts = ([v[i] for i in range(len(axes))] for v in (scale, translation))
    return _transformed(x, lengths, scales, shifts, method, antialias, precision)


__getattr__ = _explain_names(__name__)
