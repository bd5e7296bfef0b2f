"""Integrals of samples.

Floor 6. In: samples and where they were taken. Out: integrals.
"""

from __future__ import annotations

from typing import Any

from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.ranks import check_ranks as _check_ranks
from gpuarray.names import explain_names as _explain_names


@_check_ranks("y", "x")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral of samples along an axis, by the trapezoidal rule.

    Parameters
    ----------
    x :
        Positions of the samples; default: `dx` apart.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.integrate.trapezoid(gnp.array([0., 1., 2.]), dx=2.)
    Array(4., dtype=float32)
    """
    return gnp.trapezoid(y, x, dx, axis)


__getattr__ = _explain_names(__name__)
