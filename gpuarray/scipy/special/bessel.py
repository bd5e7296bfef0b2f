"""Bessel functions of the first kind, modified and not, and spherical harmonics.

Floor 6. In: array-likes. Out: Arrays. Each function is pointwise; bessel_jn puts its orders in
front.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.operands import arrays, need_concrete
from gpuarray.numpy.smooth import bessel_i0, bessel_i1
from gpuarray.scipy.special.operands import inexact, like, recorded_steps, strong


def i0e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0, times exp(-|x|). Any shape; same shape out.

    >>> i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.bessel_i0e(*inexact("i0e", x))


def i1e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1, times exp(-|x|). Any shape; same shape out.

    >>> i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.bessel_i1e(*inexact("i1e", x))


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0. Any shape; same shape out.

    >>> i0(1.0).round(4)
    Array(1.2661, dtype=float32, weak_type=True)
    """
    return bessel_i0(*inexact("i0", x))


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 1. Any shape; same shape out.

    >>> i1(1.0).round(4)
    Array(0.5652, dtype=float32, weak_type=True)
    """
    return bessel_i1(*inexact("i1", x))


# ---- orders 0 to v ----


def _first_orders(z: Array, last: int, n_iter: int) -> list[Array]:
    """J_0 ... J_last through the ratios J_k / J_(k-1), backwards from k = n_iter + 1.

    Ratios neither overflow nor vanish where the functions themselves would. J_0 follows from
    J_0 + 2 (J_2 + J_4 + ...) = 1.
    """
    at_zero = z == 0
    safe = gnp.where(at_zero, like(1, z), z)
    ratios = [like(0, z)]
    # The ratios J_k / J_(k-1) by their continued fraction, from the back.
    for k in range(n_iter + 1, 0, -1):
        ratios.append(1 / (2 * k / safe - ratios[-1]))
    ratios.reverse()  # ratios[k - 1] is J_k / J_(k-1)
    tail = like(0, z)
    # J_0 + 2 (J_2 + J_4 + ...) = 1 fixes the size.
    for k in range(n_iter // 2 * 2, 0, -2):
        tail = ratios[k - 1] * ratios[k - 2] * (1 + tail)
    out = [1 / (1 + 2 * tail)]
    for k in range(last):
        out.append(out[-1] * ratios[k])
    return [gnp.where(at_zero, like(float(k == 0), z), j) for k, j in enumerate(out)]


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _orders(z: Array, last: int, n_iter: int) -> Array:
    return gnp.stack(_first_orders(z, last, n_iter))


@_orders.defjvp
def _orders_slope(last, n_iter, primals, tangents):
    """J_k' = (J_(k-1) - J_(k+1)) / 2, and J_0' = -J_1."""
    (z,), (t,) = primals, tangents
    j = _first_orders(z, last + 1, n_iter)
    # J_0' = -J_1, J_k' = (J_(k-1) - J_(k+1)) / 2.
    slopes = [-j[1], *((j[k - 1] - j[k + 1]) / 2 for k in range(1, last + 1))]
    return gnp.stack(j[:-1]), t * gnp.stack(slopes)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind J_0(z), J_1(z), ..., J_v(z), of real z.

    The result has shape [v + 1, *z.shape]. The recurrence starts at order `n_iter`, which should
    exceed |z|; orders beyond `n_iter` are omitted.

    >>> import gpuarray.numpy as gnp
    >>> bessel_jn(gnp.array([0.0, 1.0]), v=1).round(4)
    Array([[1.    , 0.7652],
           [0.    , 0.4401]], dtype=float32)
    """
    z = gnp.asarray(z)
    (z,) = strong(inexact("bessel_jn", z))
    if dtypes.kind_of(z.dtype) == "c":
        raise TypeError(
            f"bessel_jn does not accept dtype {z.dtype}. Accepted dtypes are subtypes of floating."
        )
    v, n_iter = util.index(v), recorded_steps("bessel_jn", "n_iter", n_iter)
    if v < 0:
        return gnp.zeros((0, *z.shape), z.dtype)
    return _orders(z, min(v, n_iter), n_iter)


# ---- spherical harmonics ----


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonic of degree n and order m at the polar angle theta and azimuth phi.

    n and m are integers with |m| <= n; all shapes broadcast, and the result is complex. Under `jit`
    the greatest degree `n_max` has to be given; greater degrees are treated as `n_max`.

    >>> import gpuarray.numpy as gnp
    >>> sph_harm_y(gnp.array([1]), gnp.array([0]), gnp.array([0.0]), gnp.array([0.0])).round(4)
    Array([0.4886+0.j], dtype=complex64)
    """
    if diff_n is not None:
        raise NotImplementedError(
            "The 'diff_n' argument to sph_harm_y is not supported: differentiate with "
            "gpuarray.jacfwd instead."
        )
    n, m, theta, phi = arrays("sph_harm_y", n, m, theta, phi)
    for k in (n, m):
        if dtypes.kind_of(k.dtype) not in "iu":
            raise TypeError(f"sph_harm_y needs integers n and m, got dtype {k.dtype}.")
    if n_max is None:
        if isinstance(n, Tracer):
            need_concrete(n, "the `n_max` argument of sph_harm_y, which must be given under jit")
        n_max = int(np.max(np.asarray(n), initial=0))
    theta, phi = [as_type(x, dtypes.to_inexact_dtype(x.dtype)) for x in (theta, phi)]
    legendre = _legendre(n, m, theta, recorded_steps("sph_harm_y", "n_max", n_max))
    # exp(i m phi), by its parts.
    turn = phi * m.astype(phi.dtype)
    return lax.complex(*gnp.broadcast_arrays(legendre * lax.cos(turn), legendre * lax.sin(turn)))


def _legendre(n: Array, m: Array, theta: Array, n_max: int) -> Array:
    """Normalized associated Legendre functions of cos(theta), by recurrence over the degree."""
    # Of negative order: (-1)^m times that of positive order.
    size = lax.abs(m) if dtypes.kind_of(m.dtype) == "i" else m
    degree = gnp.minimum(n, n_max)
    cosine, sine = lax.cos(theta), lax.sin(theta)
    # Functions of the cosine alone, also where theta is no polar angle; derivatives at 0 stay.
    sine = gnp.where(sine < 0, -sine, sine)
    square = (size * size).astype(theta.dtype)
    before = now = out = gnp.zeros(np.broadcast_shapes(n.shape, m.shape, theta.shape), theta.dtype)
    seed = like(math.sqrt(0.25 / math.pi), theta)  # of degree and order l
    for l in range(n_max + 1):
        # From degree l - 1 and l - 2 to l; the order's own first degree comes from `seed`.
        above = size < l
        up = gnp.where(above, (4.0 * l * l - 1) / (l * l - gnp.where(above, square, -1)), 0)
        back = gnp.where(size < l - 1, ((l - 1.0) ** 2 - square) / (4.0 * (l - 1) ** 2 - 1), 0)
        moved = lax.sqrt(up) * (cosine * now - lax.sqrt(back) * before)
        before, now = now, gnp.where(size == l, seed, moved)
        out = gnp.where(degree == l, now, out)
        seed = -seed * sine * math.sqrt((2 * l + 3) / (2 * l + 2))
    odd = (m < 0) & (m % 2 != 0)
    return gnp.where(odd, -out, out)
