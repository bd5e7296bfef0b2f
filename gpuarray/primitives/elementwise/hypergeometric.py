"""Pointwise primitives: the hypergeometric functions 1F1 and 2F1 and their parameter derivatives.

Floor 2. In: the factory of `special.py`, NumPy, and SciPy at the first call. Out: 1F1 (Kummer's
function), 2F1 (Gauss's), and their derivatives with respect to a parameter. All are computed in
double precision and rounded once. Formulas are numbered as in the DLMF.
"""

from __future__ import annotations

import functools

import numpy as np

from gpuarray import util
from gpuarray.core.primitive import Primitive
from gpuarray.primitives.define import FLOATING, do, elementwise
from gpuarray.primitives.elementwise.special import in_double, no_derivative, special_function
from gpuarray.primitives.linear import constant
from gpuarray.primitives.numpy_rules import by_dtype

sp = util.lazy_module("scipy.special")


# x + 1, for the contiguous functions that derivatives lead to.
def _next(x):
    return do.add(x, constant(x, 1))


def _ratio(above, below):
    """Divide the product of `above` by that of `below`; an empty product is 1."""
    top, bottom = (functools.reduce(do.mul, ps) if ps else None for ps in (above, below))
    if top is None:
        top = constant(bottom, 1)
    return top if bottom is None else do.div(top, bottom)


def _by_x(name: str):
    """d/dx: a/b 1F1(a+1, b+1, x) (13.3.15), or a b/c 2F1(a+1, b+1, c+1, x) (15.5.1)."""

    def rule(t, y, *operands):
        # The last operand is x; the last of the others is the parameter in the denominator.
        *ps, x = operands
        shifted = getattr(do, name)(*map(_next, ps), x)
        return do.mul(t, do.mul(_ratio(ps[:-1], ps[-1:]), shifted))

    return rule


# There is no closed form: a separate primitive, by finite differences.
def _by_parameter(name: str, of: int):
    slope = f"{name}_slope"
    return lambda t, y, *operands: do.mul(t, getattr(do, slope)(*operands, of=of))


# ---- NumPy's rules ----
#: Beyond, SciPy's 1F1 takes seconds (from 1e8) or for ever, or leaves its stack, which ends the
#: process. It also does for some first operands of about 1e-300.
_FAR, _TINY = 1e6, 1e-290
#: Terms of a series, which is nan where they are not enough.
_TERMS = 1000


def _hyp1f1(a, b, x):
    near = (np.abs(a) <= _FAR) & (np.abs(b) <= _FAR) & (np.abs(x) <= _FAR)
    near &= (a == 0) | (np.abs(a) >= _TINY)
    out = sp.hyp1f1(*(np.where(near, v, 1.0) for v in (a, b, x)))
    if np.all(near):
        return out
    return np.where(near, out, _far_1f1(*(np.where(near, 1.0, v) for v in (a, b, x))))


def _far_1f1(a, b, x):
    """1F1 of large operands: by a series where it converges, otherwise nan."""
    pole = lambda v: (v <= 0) & (v == np.floor(v))
    ends = pole(a)  # a polynomial
    left = (x < 0) & ~ends  # 1F1(a, b, x) = e^x 1F1(b - a, b, -x) (13.2.39)
    p, size, turned = np.where(left, b - a, a), np.where(left, -x, x), np.where(left, x, 0.0)
    # For large x the terms of another series shrink (13.7.2).
    far = ~ends & (size >= 40 + 2 * (p * p + b * b))
    kind = lambda here, there: np.where(far, here, there)
    term, total, most = (np.ones_like(size) for _ in range(3))
    going, turns = np.full(size.shape, True), np.full(size.shape, False)
    for k in range(_TERMS):
        ratio = kind(
            (b - p + k) * (1 - p + k) / ((k + 1.0) * size), (p + k) / ((b + k) * (k + 1.0)) * size
        )
        term = np.where(going, term * ratio, term)
        turns |= going & (ratio < 0)
        going &= ~(far & (np.abs(ratio) > 1))  # no better than this
        total = np.where(going, total + term, total)
        most = np.maximum(most, np.abs(term))
        going &= np.abs(term) > 1e-17 * np.abs(total)
        if not going.any():
            break
    # After cancellation of larger terms the sum has no correct digits.
    lost = turns & ((most > 1e12 * np.abs(total)) | np.isinf(most))
    total = np.where((going & ~far) | lost, np.nan, total)
    logs = [sp.gammaln(b), -sp.gammaln(p), size + turned, (p - b) * np.log(np.abs(size))]
    power = np.where(np.isinf(size) & ~left, np.inf, sum(logs))
    lost = (sum(map(np.abs, logs)) > 1e6) & (np.abs(power) < 1e3)
    sign = np.where(lost, np.nan, sp.gammasgn(b) * sp.gammasgn(p))
    out = total * kind(np.where(pole(p), 0.0, sign * np.exp(power)), np.exp(turned))
    out = np.where(pole(b) & ~(ends & (a >= b)), np.inf, out)
    return np.where((a == 0) | (x == 0), 1.0, np.where(np.isnan(a + b + x), np.nan, out))


def _hyp2f1(a, b, c, x):
    # SciPy's function leaves its stack for some operands if another is nan.
    known = ~np.isnan(a + b + c + x)
    return np.where(known, sp.hyp2f1(*(np.where(known, v, 0.5) for v in (a, b, c, x))), np.nan)


hyp1f1_p = special_function(
    "hyp1f1",
    in_double(_hyp1f1),
    3,
    weight=300,
    jvp=(_by_parameter("hyp1f1", 0), _by_parameter("hyp1f1", 1), _by_x("hyp1f1")),
)
hyp2f1_p = special_function(
    "hyp2f1",
    in_double(_hyp2f1),
    4,
    weight=600,
    jvp=(*(_by_parameter("hyp2f1", i) for i in range(3)), _by_x("hyp2f1")),
)

# ---- slopes ----


def _differences(function, of: int):
    """Return d/dp for parameter number `of`, by central differences of eighth order.

    Steps stay small against the distance to the poles, which the last parameter has at 0, -1, -2,
    ...
    """

    def rule(*operands):
        # The error of order step^8 and the rounding error of 1e-16 / step are both below 1e-13.
        p = operands[of]
        step = 0.01 * np.ones_like(p)
        # The last parameter: near a pole the step follows the distance to it.
        if of == len(operands) - 2:
            step = 0.01 * np.where(p > 0.5, 1.0, np.maximum(np.abs(p - np.rint(p)), 1e-3))
        total = 0.0
        # Coefficients of the central difference of order 8.
        for k, weight in ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280)):
            sides = [
                function(*operands[:of], p + s * k * step, *operands[of + 1 :]) for s in (1, -1)
            ]
            total = total + weight * (sides[0] - sides[1])
        return total / step

    return rule


def _slope(name: str, function, arity: int, weight: float) -> Primitive:
    """Define the primitive `name`_slope, whose parameter `of` is the number of the operand."""
    full, operands = f"{name}_slope", ", ".join(f"{{{i}}}" for i in range(arity))

    def by_x(t, y, *xs, of: int):
        """Differentiate ratio * F(shifted): the slope of F, and that of the ratio."""
        *ps, x = xs
        shifted = [*map(_next, ps), x]
        inner = do.mul(_ratio(ps[:-1], ps[-1:]), getattr(do, full)(*shifted, of=of))
        # d(ab/c)/da is b/c; d(ab/c)/dc is -ab/c².
        if of < len(ps) - 1:
            ratio = _ratio([p for i, p in enumerate(ps[:-1]) if i != of], ps[-1:])
        else:
            ratio = do.neg(_ratio(ps[:-1], [ps[-1], ps[-1]]))
        return do.mul(t, do.add(inner, do.mul(ratio, getattr(do, name)(*shifted))))

    return elementwise(
        full,
        arity=arity,
        dtypes=FLOATING,
        numpy_pick=lambda avals, of: by_dtype(floating=in_double(_differences(function, of)))(
            avals
        ),
        cuda=lambda avals, of: f"ga_{full}<{of}>({operands})",
        weight=weight,
        jvp=(*(no_derivative(full, "a parameter") for _ in range(arity - 1)), by_x),
    )


hyp1f1_slope_p = _slope("hyp1f1", _hyp1f1, 3, 2400)
hyp2f1_slope_p = _slope("hyp2f1", _hyp2f1, 4, 4800)
