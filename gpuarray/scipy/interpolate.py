"""Values between the points of a grid.

Floor 6. In: the grid's coordinates and the values on it. Out: a function of places.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.indexer import known_value
from gpuarray.numpy.operands import promoted_inexact

METHODS = ("linear", "nearest")


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not defined: expected one of {list(METHODS)}")


class RegularGridInterpolator:
    """A function through values on a grid whose coordinates need not be evenly spaced.

    Call it with places (..., d), or a tuple of d arrays.

    Parameters
    ----------
    points :
        Vectors of n_i coordinates, ascending or descending, one for each of the d axes.
    values :
        (n_1, ..., n_d, ...): the function at these points.
    method :
        "linear" or "nearest".
    fill_value :
        Value outside of the grid; None extrapolates.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> x, y = gnp.array([0., 1., 3.]), gnp.array([0., 2.])
    >>> f = scipy.interpolate.RegularGridInterpolator((x, y), x[:, None] + y)
    >>> f(gnp.array([[2., 1.], [9., 9.]]))
    Array([ 3., nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ):
        _check_method(method)
        if bounds_error:
            raise NotImplementedError(
                "`bounds_error` takes no effect under JIT: look for fill_value in the result"
            )
        (values,) = promoted_inexact("RegularGridInterpolator", values)
        if len(points) > values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {values.ndim} dimensions"
            )
        if fill_value is not None:
            fill_value = gnp.asarray(fill_value)
            # A complex fill value cannot become real, nor a float an integer.
            if not np.can_cast(fill_value.dtype, values.dtype, casting="same_kind"):
                raise ValueError(
                    "fill_value must be either 'None' or of a type compatible with values, got "
                    f"{fill_value.dtype} for {values.dtype}"
                )
        grid = []
        for i, (p, n) in enumerate(zip(points, values.shape)):
            (p,) = promoted_inexact("RegularGridInterpolator", p)
            if p.ndim != 1:
                raise ValueError(f"the points in dimension {i} must be 1-dimensional")
            if p.shape[0] != n:
                raise ValueError(f"there are {p.shape[0]} points and {n} values in dimension {i}")
            # A known grid is checked, and reversed if it descends.
            known = known_value(p)
            if known is not None:
                steps = np.diff(known)
                if steps.size and (steps < 0).all():
                    p, values = gnp.flip(p), gnp.flip(values, axis=i)
                elif not (steps > 0).all():
                    raise ValueError(
                        f"the points in dimension {i} must be strictly ascending or descending"
                    )
            grid.append(p)
        self.grid = tuple(grid)
        self.values = values
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at places (..., d), or at those that a tuple of d arrays gives together."""
        method = self.method if method is None else method
        _check_method(method)
        d = len(self.grid)
        # One array a dimension, which broadcast; or points along the last axis.
        if isinstance(xi, tuple):
            columns = gnp.broadcast_arrays(*promoted_inexact("RegularGridInterpolator", *xi))
        else:
            (xi,) = promoted_inexact("RegularGridInterpolator", xi)
            if xi.ndim == 0:
                raise IndexError("the places must have at least one axis; got a scalar")
            if xi.ndim == 1 and d == 1:
                xi = xi[:, None]
            columns = [xi[..., i] for i in range(xi.shape[-1])]
        if len(columns) != d:
            raise ValueError(
                f"the requested sample points xi have dimension {len(columns)}, but this "
                f"RegularGridInterpolator has dimension {d}"
            )
        shape = columns[0].shape
        columns = [c.ravel() for c in columns]
        # Axes of the values beyond the grid's: each place has a whole array of them.
        rest = self.values.shape[d:]
        out = self._interpolated(columns, method == "nearest").reshape(*shape, *rest)
        if self.fill_value is None:
            return out
        # Outside in any dimension.
        outside = np.bool_(False)
        for x, g in zip(columns, self.grid, strict=True):
            outside = outside | (x < g[0]) | (x > g[-1])
        outside = gnp.asarray(outside).reshape(shape + (1,) * len(rest))
        return gnp.where(outside, lax.convert_element_type(self.fill_value, out.dtype), out)

    def _interpolated(self, columns: list[Array], nearest: bool) -> Array:
        below, shares = [], []
        for x, g in zip(columns, self.grid, strict=True):
            # The cell of each point, and the point's relative position in it.
            at = gnp.clip(gnp.searchsorted(g, x) - 1, 0, max(g.shape[0] - 2, 0))
            above = gnp.minimum(at + 1, g.shape[0] - 1)
            width = g[above] - g[at]
            below.append((at, above))
            # A cell of no width has share 0: no division by zero.
            shares.append((x - g[at]) / gnp.where(width == 0, 1, width))
        if nearest:
            at = [gnp.where(t <= 0.5, i, j) for (i, j), t in zip(below, shares, strict=True)]
            return self.values[tuple(at)]
        total: Any = 0
        kind = dtypes.to_floating_dtype(self.values.dtype)
        lead = (slice(None),) + (None,) * (self.values.ndim - len(self.grid))
        # Every corner of the cell by the product of its shares.
        for corner in itertools.product((0, 1), repeat=len(self.grid)):
            weight: Any = kind.type(1)
            for side, t in zip(corner, shares, strict=True):
                weight = weight * (t if side else 1 - t)
            at = tuple(pair[side] for side, pair in zip(corner, below, strict=True))
            total = total + gnp.asarray(weight)[lead] * self.values[at]
        return total


__getattr__ = _explain_names(__name__)
