"""The logarithm of the gamma function in the complex plane.

Floor 6. In: complex Arrays. Out: the branch that is analytic except for a cut along the negative
axis.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.scipy.special.operands import like, polynomial

# Coefficients B_2j / (2j (2j - 1)) of Stirling's series, the highest power first.
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def complex_loggamma(z: Array) -> Array:
    """By Stirling's formula at z + 8; from the left half of the plane by reflection."""
    # By symmetry only the upper half of the plane is computed.
    below = gnp.signbit(lax.imag(z))
    up = gnp.where(below, lax.conj(z), z)
    # Reflection: log gamma(z) = log(pi / sin(pi z)) - log gamma(1 - z).
    left = lax.real(up) < 0.5
    right = gnp.where(left, 1 - up, up)  # its imaginary part is <= 0 where it was reflected
    direct = _right_half(right)
    # log sin(πz) = log(1 - e^(2πiz)) - iπz + iπ/2 - log 2 in the upper half, without a jump
    safe = gnp.where(left, up, like(0.25 + 1j, up))
    period = safe - lax.round(lax.real(safe), lax.RoundingMethod.TO_NEAREST_EVEN)
    sine = lax.log(-lax.expm1(2j * math.pi * period)) - 1j * math.pi * safe
    reflected = math.log(2 * math.pi) - 0.5j * math.pi - sine - direct
    out = gnp.where(left, reflected, direct)
    out = gnp.where(below, lax.conj(out), out)
    pole = (lax.imag(z) == 0) & (lax.real(z) <= 0) & (lax.real(z) == lax.floor(lax.real(z)))
    return gnp.where(pole, like(complex(np.nan, np.nan), out), out)


def _right_half(z: Array) -> Array:
    """log gamma for real parts of at least 1/2, where no sum of two angles leaves (-π, π)."""
    total = like(0, z)
    # Moved right by 8, where Stirling's series is exact to the last digits.
    for k in range(0, 8, 2):
        total = total + lax.log((z + k) * (z + (k + 1)))
    w = z + 8
    series = polynomial(_STIRLING, 1 / (w * w)) / w
    return (w - 0.5) * lax.log(w) - w + 0.5 * math.log(2 * math.pi) + series - total
