"""Density estimation: a normal distribution around each point of a sample.

Floor 6. In: a sample as array-like. Out: `gaussian_kde`, a pytree whose methods give Arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuarray import lax, nn, random
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.promotion import check_arraylike, promote_dtypes_inexact
from gpuarray.scipy import special
from gpuarray.tree_util import register_pytree_node_class

Bandwidth = None | str | ArrayLike | Callable[[Any], Array]


@register_pytree_node_class
@dataclass(frozen=True, init=False)
class gaussian_kde:
    """A density estimated from a sample by normal kernels.

    Parameters
    ----------
    dataset :
        The sample, (n,) or, of vectors, (d, n).
    bw_method :
        Width of a kernel, against the sample's covariance: "scott" (also None), "silverman", a
        number, or a function of this object that returns one.
    weights :
        (n,); equal weights if None.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> density = gaussian_kde(gnp.array([0.0, 1.0, 2.0]))
    >>> density(gnp.array([1.0])).round(4)
    Array([0.3182], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self, dataset: ArrayLike, bw_method: Bandwidth = None, weights: ArrayLike | None = None
    ):
        check_arraylike("gaussian_kde", dataset)
        (points,) = promote_dtypes_inexact(gnp.atleast_2d(gnp.asarray(dataset)))
        if dtypes.kind_of(points.dtype) == "c":
            raise NotImplementedError("gaussian_kde does not support complex data")
        if points.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        d, n = points.shape
        if weights is None:
            shares = gnp.full(n, 1 / n, points.dtype)
        else:
            check_arraylike("gaussian_kde", weights)
            points, shares = promote_dtypes_inexact(points, gnp.atleast_1d(gnp.asarray(weights)))
            if shares.ndim != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if len(shares) != n:
                raise ValueError(f"`weights` input should be of length {n}, got {len(shares)}")
            shares = shares / gnp.sum(shares)
        self._set("dataset", points)
        self._set("weights", shares)
        # How many equally weighted points would say as much.
        self._set("neff", 1 / gnp.sum(shares * shares))
        # The kernel is the sample's covariance, scaled by the bandwidth squared.
        factor = self._factor(bw_method, d)
        covariance = gnp.atleast_2d(gnp.cov(points, rowvar=True, bias=False, aweights=shares))
        self._set("covariance", covariance * factor**2)
        self._set("inv_cov", gnp.linalg.inv(covariance) / factor**2)

    # The dataclass is frozen: attributes are set past its guard, while the object is made.
    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _factor(self, bw_method: Bandwidth, d: int) -> Array:
        if bw_method is None or bw_method == "scott":
            # Scott's rule (1992), then Silverman's (1986), as SciPy has them.
            return gnp.power(self.neff, -1.0 / (d + 4))
        if bw_method == "silverman":
            return gnp.power(self.neff * (d + 2) / 4.0, -1.0 / (d + 4))
        if callable(bw_method):
            return bw_method(self)
        if isinstance(bw_method, str) or gnp.ndim(bw_method) != 0:
            raise ValueError(
                "`bw_method` should be 'scott', 'silverman', a scalar, or a callable, got "
                f"{bw_method!r}."
            )
        return gnp.asarray(bw_method, self.dataset.dtype)

    def tree_flatten(self):
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        # Leaves may be tracers or placeholders: do not check or compute anything.
        made = object.__new__(cls)
        for name, value in zip(
            ("neff", "dataset", "weights", "covariance", "inv_cov"), children, strict=True
        ):
            made._set(name, value)
        return made

    @property
    def d(self) -> int:
        """How many components a point has."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """How many points the sample has."""
        return self.dataset.shape[1]

    # ---- densities ----

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points of shape [m], or [d, m]; the result is [m]."""
        check_arraylike("logpdf", x)
        points = self._points(x)
        # Distances in the kernel's metric: |L^T (x - point)|.
        root = gnp.linalg.cholesky(self.inv_cov)
        away = self.dataset[:, :, None] - points[:, None, :]
        scaled = gnp.einsum("ij,ink->jnk", root, away, precision=lax.Precision.HIGHEST)
        size = self.d * math.log(2 * math.pi) / 2 - gnp.sum(lax.log(gnp.diagonal(root)))
        exponents = lax.log(self.weights)[:, None] - 0.5 * gnp.sum(lax.square(scaled), 0)
        # Summed as logarithms: far from all points every exponential underflows.
        out: Any = nn.logsumexp(exponents, axis=0)
        return out - size

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points of shape [m], or [d, m]; the result is [m]."""
        check_arraylike("evaluate", points)
        return lax.exp(self.logpdf(points))

    def __call__(self, points: ArrayLike) -> Array:
        """The density at points; as evaluate."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """The density at points; as evaluate."""
        return self.evaluate(x)

    def _points(self, points: ArrayLike) -> Array:
        made = gnp.atleast_2d(gnp.asarray(points))
        if dtypes.kind_of(made.dtype) == "c":
            raise NotImplementedError("gaussian_kde does not support complex coordinates")
        d, m = made.shape
        if d != self.d:
            if d == 1 and m == self.d:  # one point
                made = made.reshape(self.d, 1)
            else:
                raise ValueError(
                    f"points have dimension {d}, dataset has dimension {self.d}: points are "
                    "columns."
                )
        return as_type(made, self.dataset.dtype)

    # ---- integrals ----

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal one; mean has shape [d], cov [d, d]."""
        centre: Any = gnp.atleast_1d(gnp.squeeze(mean))
        spread: Any = gnp.atleast_2d(cov)
        if centre.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}: its shape is {centre.shape}")
        if spread.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}: it is {spread.shape}")
        return self._overlap(self.covariance + spread, centre[:, None], gnp.ones(1, centre.dtype))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two estimated densities."""
        if other.d != self.d:
            raise ValueError(f"KDEs are not the same dimensionality: {self.d} and {other.d}")
        both = self.covariance + other.covariance
        return self._overlap(both, other.dataset, other.weights)

    def _overlap(self, cov: Array, centres: Array, weights: Array) -> Array:
        """The sum over all pairs of normal densities of the distance between their centres."""
        # The product of two normal densities integrates to a normal density of the distance.
        root = gnp.linalg.cholesky(cov)
        away = (self.dataset[:, :, None] - centres[:, None, :]).reshape(self.d, -1)
        scaled = lax.linalg.triangular_solve(root, away, left_side=True, lower=True)
        size = self.d * math.log(2 * math.pi) / 2 + gnp.sum(lax.log(gnp.diagonal(root)))
        each = lax.exp(-0.5 * gnp.sum(lax.square(scaled), 0) - size)
        return gnp.sum(each * (self.weights[:, None] * weights[None, :]).reshape(-1))

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between two bounds, of a sample of numbers."""
        if self.d != 1:
            raise ValueError(f"integrate_box_1d() only handles 1D pdfs, this one is {self.d}D")
        if gnp.ndim(low) != 0 or gnp.ndim(high) != 0:
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        spread = lax.sqrt(self.covariance[0, 0])
        bounds = [as_type(gnp.asarray(b), self.dataset.dtype) for b in (low, high)]
        # The mass of each kernel between the bounds.
        below, above = (special.ndtr((b - self.dataset[0]) / spread) for b in bounds)
        return gnp.sum(self.weights * (above - below))

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None):
        """Not available: there is no closed form for boxes of vectors."""
        raise NotImplementedError(
            "integrate_box is not available: the integral over a box has no closed form. "
            "integrate_box_1d is for samples of numbers; otherwise average over resample()."
        )

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """New points drawn from the density: the result has shape [d, *shape]."""
        # A point of the sample by its weight, and a draw from the kernel.
        which, noise = random.split(key)
        centres = random.choice(which, self.n, shape=shape, replace=True, p=self.weights)
        # L z has the covariance L L^T.
        root = gnp.linalg.cholesky(self.covariance)
        drawn = random.normal(noise, (*shape, self.d), self.dataset.dtype)
        moved = gnp.einsum("...i,ji->...j", drawn, root, precision=lax.Precision.HIGHEST)
        moved = self.dataset.T[centres] + moved
        return gnp.moveaxis(moved, -1, 0)

    def set_bandwidth(self, bw_method: Bandwidth = None):
        """Not available: the object does not change. Make another one."""
        raise NotImplementedError(
            "set_bandwidth would change the object, which is immutable: make a new gaussian_kde "
            "with the bw_method."
        )
