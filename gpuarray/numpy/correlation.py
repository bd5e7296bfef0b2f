"""Convolution, correlation and covariance of samples: convolve, correlate, cov, corrcoef.

Floor 6. In: samples. Out: sums of products, as convolutions and matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.arithmetic import true_divide
from gpuarray.numpy.axes import flip
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.functions import clip, conj, real, sqrt
from gpuarray.numpy.operands import arrays, promoted_inexact
from gpuarray.numpy.products import dot
from gpuarray.numpy.shapes import atleast_2d


def convolve(a, v, mode: str = "full", *, precision=None, preferred_element_type=None) -> Array:
    """The convolution of two (n,) and (m,) arrays: sums of products of one with the other reversed.

    Parameters
    ----------
    mode :
        "full" gives n + m - 1 sums, "same" as many as the longer has, "valid" those where they
        overlap fully.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.convolve(gnp.array([1., 2.]), gnp.array([1., 1., 1.]))
    Array([1., 3., 3., 2.], dtype=float32)
    """
    a, v = _signals("convolve", a, v)
    # Convolution commutes: the longer one is slid over.
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    return _slide(a, v, mode, precision, preferred_element_type)


def correlate(a, v, mode: str = "valid", *, precision=None, preferred_element_type=None) -> Array:
    """The cross-correlation of two (n,) and (m,) arrays: sums of products of one with the other's
    conjugate.

    >>> import gpuarray.numpy as gnp
    >>> gnp.correlate(gnp.array([1., 2., 3.]), gnp.array([0., 1.]))
    Array([2., 3.], dtype=float32)
    """
    a, v = _signals("correlate", a, v)
    # A correlation is a convolution with the other one reversed and conjugated.
    v = flip(conj(v))
    if a.shape[0] >= v.shape[0]:
        return _slide(a, v, mode, precision, preferred_element_type)
    # With the longer one second, "same" counts from its other end.
    if mode == "same":
        return flip(_slide(flip(v), flip(a), mode, precision, preferred_element_type))
    return _slide(v, a, mode, precision, preferred_element_type)


def _signals(name: str, a, v) -> list[Array]:
    found = promoted_inexact(name, a, v)
    if any(x.ndim != 1 for x in found):
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    if not all(x.size for x in found):
        raise ValueError(
            f"{name}: inputs cannot be empty, got shapes {found[0].shape} and {found[1].shape}."
        )
    return found


def _slide(a: Array, v: Array, mode: str, precision, preferred) -> Array:
    wanted = None if preferred is None else dtypes.check_user_dtype(preferred, "convolve")
    # Sums are of floats; where integers are preferred, they are converted in the end.
    rounds = wanted is not None and dtypes.kind_of(wanted) in "iub"
    m = v.shape[0]
    # How far the window may stick out at either end.
    paddings = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}
    if not util.known(mode, paddings):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    # lax does not flip kernels, so the window is flipped here.
    out = lax.conv_general_dilated(
        a[None, None, :],
        flip(v)[None, None, :],
        (1,),
        [paddings[mode]],
        precision=precision,
        preferred_element_type=None if rounds else wanted,
    )
    return as_type(out, wanted)[0, 0, :] if rounds else out[0, 0, :]


def _inexact(name: str, dtype: Any) -> Any:
    wanted = dtypes.check_user_dtype(dtype, name)
    if dtypes.kind_of(wanted) not in "fc":
        raise ValueError(f"{name}: dtype must be a subclass of float or complex; got {dtype=}")
    return wanted


@check_ranks("m", "y")
def cov(
    m,
    y=None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights=None,
    aweights=None,
    dtype=None,
) -> Array:
    """The covariance matrix of variables: (v, n) samples -> (v, v); one variable gives a scalar.

    Parameters
    ----------
    rowvar :
        Whether variables are rows.
    ddof :
        Number that is subtracted from n in the denominator; default: 1, or 0 with `bias`.
    fweights :
        The number of occurrences of each sample.
    aweights :
        The weight of each sample.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.cov(gnp.array([[0., 2.], [1., 5.]]))
    Array([[2., 4.],
           [4., 8.]], dtype=float32)
    """
    if y is not None:
        m, y = promoted_inexact("cov", m, y)
        if y.ndim > 2:
            raise ValueError("y has more than 2 dimensions")
    else:
        (m,) = promoted_inexact("cov", m)
    if m.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    if dtype is not None:
        kind = _inexact("cov", dtype)
        m = lax.convert_element_type(m, kind)
        y = None if y is None else lax.convert_element_type(y, kind)
    # One variable for each row from here on.
    samples = atleast_2d(m)
    if not rowvar and m.ndim != 1:
        samples = samples.T
    if samples.shape[0] == 0:
        return lax.full((0, 0), 0, samples.dtype)
    if y is not None:
        other = atleast_2d(y)
        # NumPy's quirk: a single variable is not transposed.
        other = other.T if not rowvar and other.shape[0] != 1 else other
        samples = lax.concatenate([samples, other], 0)
    # The unbiased estimate by default: n - 1.
    if ddof is None:
        ddof = 0 if bias else 1
    weights = None
    # The number of occurrences of a sample times its weight.
    for given, what in ((fweights, "fweights"), (aweights, "aweights")):
        if given is not None:
            w = arrays("cov", given)[0]
            if w.ndim > 1:
                raise RuntimeError(f"cannot handle multidimensional {what}")
            if w.shape[0] != samples.shape[1]:
                raise RuntimeError(f"incompatible numbers of samples and {what}")
            if what == "fweights" and not dtypes.issubdtype(w.dtype, np.integer):
                raise TypeError("fweights must be integer.")
            # NumPy takes the weights without their signs.
            w = abs(w)
            weights = w if weights is None else weights * w
    count = samples.shape[1]
    # The mean of an empty array.
    if count == 0:
        return lax.full((samples.shape[0],) * 2, np.nan, samples.dtype).squeeze()
    if weights is None:
        mean = samples.sum(1) / count
        scale = count - ddof
        centred = samples - mean[:, None]
        # The sum over all samples of the products of two variables' deviations.
        moments = dot(centred, conj(centred.T), precision=lax.Precision.HIGHEST)
    else:
        total = weights.sum()
        mean = (samples * weights).sum(1) / total
        # NumPy's normalisation: total - ddof * sum(w * aweights) / total.
        if ddof == 0:
            scale = total
        elif aweights is None:
            scale = total - ddof
        else:
            scale = total - ddof * (weights * abs(arrays("cov", aweights)[0])).sum() / total
        centred = samples - mean[:, None]
        weighted = conj((centred * weights).T)
        moments = dot(centred, weighted, precision=lax.Precision.HIGHEST)
    found = true_divide(moments, scale)
    return found.squeeze() if moments.shape == (1, 1) else found


@check_ranks("x", "y")
def corrcoef(x, y=None, rowvar: bool = True, dtype=None) -> Array:
    """The correlation matrix of variables: covariances divided by standard deviations.

    >>> import gpuarray.numpy as gnp
    >>> gnp.corrcoef(gnp.array([[0., 2.], [5., 1.]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    wanted = None if dtype is None else _inexact("corrcoef", dtype)
    c = cov(x, y, rowvar, dtype=wanted)
    # One variable: 1, or nan where it does not vary.
    if c.ndim == 0:
        return c / c
    # Variances are real, of complex variables too.
    deviation = sqrt(real(c.diagonal()))
    c = c / deviation[:, None] / deviation[None, :]
    # Rounding may carry a coefficient just beyond 1.
    if dtypes.kind_of(c.dtype) == "c":
        return lax.complex(clip(lax.real(c), -1, 1), clip(lax.imag(c), -1, 1))
    return clip(c, -1, 1)
