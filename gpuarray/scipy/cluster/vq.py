"""Vector quantisation: the nearest of some points.

Floor 6. In: observations and a code book. Out: which code is nearest to each, and how far it is.
"""

from __future__ import annotations

from typing import Any

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.operands import promoted_inexact


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Array, Array]:
    """The number of the code nearest to each observation, and its distance: (m, n), (k, n) -> (m,),
    (m,).

    Vectors count as columns. check_finite is accepted and has no effect.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.cluster.vq.vq(gnp.array([[0., 1.], [5., 5.]]), gnp.array([[4., 5.], [0., 0.]]))
    (Array([1, 0], dtype=int32), Array([1., 1.], dtype=float32))
    """
    points, codes = promoted_inexact("vq", obs, code_book)
    if points.ndim != codes.ndim:
        raise ValueError(
            f"Observation and code_book should have the same rank, got shapes {points.shape} and "
            f"{codes.shape}"
        )
    if points.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    if points.ndim != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    if points.shape[1] != codes.shape[1]:
        raise TypeError(
            "vq got incompatible shapes: observations and codes must have as many columns, got "
            f"{points.shape} and {codes.shape}"
        )
    # All pairs together: [m, n] against [k, n] is an array of m x k distances.
    distances = gnp.linalg.norm(points[:, None, :] - codes[None, :, :], axis=-1)
    code = gnp.argmin(distances, axis=-1)
    return lax.convert_element_type(code, "int32"), distances.min(-1)


__getattr__ = _explain_names(__name__)
