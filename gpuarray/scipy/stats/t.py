"""Student's distribution with df degrees of freedom.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

from gpuarray import lax
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.0]), 3.0).round(4)
    Array([-1.5763, -1.0009], dtype=float32)
    """
    x, df, loc, scale = floats("t.logpdf", x, df, loc, scale)
    y = (x - loc) / scale
    # The normalising constant is 1 / (sqrt(df) B(df / 2, 1 / 2)).
    front = -special.betaln(0.5 * df, 0.5) - 0.5 * lax.log(df) - lax.log(scale)
    return front - 0.5 * (df + 1) * lax.log1p(y * y / df)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.0]), 3.0).round(4)
    Array([0.2067, 0.3676], dtype=float32)
    """
    return lax.exp(logpdf(x, df, loc, scale))
