"""Removing trends from signals.

Floor 6. In: samples along an axis. Out: the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.numpy.operands import promoted_inexact


def detrend(
    data: Any,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """The samples minus a fitted straight line ("linear") or their mean ("constant").

    Parameters
    ----------
    bp :
        Positions at which a new line starts, so that each piece loses its own trend.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.signal.detrend(gnp.array([1., 2., 6.]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented: arrays are immutable.")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (x,) = promoted_inexact("detrend", data)
    if not -x.ndim <= util.index(axis) < x.ndim:
        raise IndexError(f"detrend: axis {axis} is out of bounds for shape {x.shape}")
    if type == "constant":
        return x - x.mean(axis, keepdims=True)
    n = x.shape[axis]
    # The ends are break points as well; a line is fitted to each piece.
    breaks = np.unique(np.append(np.atleast_1d(np.asarray(bp)), [0, n])).astype(int)
    if (breaks < 0).any() or (breaks > n).any():
        raise ValueError(
            "Breakpoints must be non-negative and less than length of data along given axis."
        )
    x = gnp.moveaxis(x, axis, -1)
    pieces = [_without_line(x[..., i:j]) for i, j in zip(breaks[:-1], breaks[1:], strict=True)]
    return gnp.moveaxis(gnp.concatenate(pieces, axis=-1), -1, axis)


def _without_line(x: Array) -> Array:
    n = x.shape[-1]
    # Orthonormal: the projection on these two is the line of best fit.
    basis, _ = np.linalg.qr(np.stack([np.ones(n), np.arange(n) / max(n, 1)], -1))
    q = gnp.asarray(basis.astype(x.dtype))
    # Low precision would leave parts of the trend behind.
    high = lax.Precision.HIGHEST
    return x - gnp.matmul(gnp.matmul(x, q, precision=high), q.T, precision=high)


def remover(kind: Any) -> Any:
    """The function for a `detrend=` argument, over the last axis; None if it is falsy."""
    if kind is False or kind is None:
        return None
    return kind if callable(kind) else lambda x: detrend(x, type=kind)
