"""Differences, sums and interpolation of samples: diff, gradient, trapezoid, unwrap, interp.

Floor 6. In: samples of a function. Out: arrays of the same kind of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.dims import larger
from gpuarray.core.value import Array
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.arithmetic import divmod, mod
from gpuarray.numpy.comparison import logical_and
from gpuarray.numpy.functions import clip
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.operands import array, arrays, as_tuple, promoted, promoted_inexact
from gpuarray.numpy.promotion import constant
from gpuarray.numpy.selection import choose_by, where
from gpuarray.numpy.shapes import broadcast_to, ravel, reshape, shape
from gpuarray.numpy.sorting import argsort, searchsorted
from gpuarray.util import canonical_axis


def _along(a: Array, axis: int, start: int | None, stop: int | None) -> Array:
    # The other axes are taken whole.
    return getitem(a, (slice(None),) * axis + (slice(start, stop),))


def diff(a, n: int = 1, axis: int = -1, prepend=None, append=None) -> Array:
    """The differences of neighbours along an axis, taken n times: (…, m, …) -> (…, m - n, …).

    >>> import gpuarray.numpy as gnp
    >>> gnp.diff(gnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a, n = array("diff", a), util.index(n)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional; got a scalar")
    axis = canonical_axis(axis, a.ndim)
    # Concatenate `prepend`, the samples and `append` before taking differences.
    parts = [a]
    for side, extra in ((0, prepend), (1, append)):
        if extra is not None:
            extra = array("diff", extra)
            if extra.ndim == 0:
                shape = list(a.shape)
                shape[axis] = 1
                # A scalar is broadcast to a whole slice.
                extra = broadcast_to(extra, tuple(shape))
            # side 0: before everything, side 1: after.
            parts.insert(len(parts) * side, extra)
    if len(parts) > 1:
        a = lax.concatenate(promoted("diff", *parts), axis)
    # The difference of booleans is whether they differ, as in NumPy.
    minus = lax.ne if a.dtype == np.bool_ else lax.sub
    for _ in range(min(n, a.shape[axis])):  # once the axis is empty, so are further differences
        a = minus(_along(a, axis, 1, None), _along(a, axis, None, -1 if a.shape[axis] else None))
    return a


def ediff1d(ary, to_end=None, to_begin=None) -> Array:
    """The differences of neighbours in the flattened array, with elements put before and after
    them.

    >>> import gpuarray.numpy as gnp
    >>> gnp.ediff1d(gnp.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int32)
    """
    flat = ravel(array("ediff1d", ary))
    parts = [lax.sub(getitem(flat, slice(1, None)), getitem(flat, slice(None, -1)))]
    if to_begin is not None:
        parts.insert(0, ravel(array("ediff1d", to_begin)))
    if to_end is not None:
        parts.append(ravel(array("ediff1d", to_end)))
    if len(parts) == 1:
        return parts[0]
    # The ends take the dtype of the array, not the other way round.
    return lax.concatenate([lax.convert_element_type(p, flat.dtype) for p in parts], 0)


def gradient(f, *varargs, axis=None, edge_order: int | None = None) -> Any:
    """The derivative of samples along each axis: central differences inside, one-sided at the ends.

    One axis gives an array, several give a list.

    Parameters
    ----------
    varargs :
        The spacing: one number for all axes, or for each axis a number or the (n,) positions.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.gradient(gnp.array([0., 1., 4., 9.]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError(
            "The 'edge_order' argument to jnp.gradient is not supported: it is 1 always."
        )
    # Positions and samples are divided by one another: convert all to floats of one dtype.
    f, *spacing = promoted_inexact("gradient", f, *varargs)
    axes = tuple(range(f.ndim)) if axis is None else as_tuple(axis)
    axes = tuple(canonical_axis(a, f.ndim) for a in axes)
    # One step for all axes, one for each, or none: 1.
    if not spacing:
        steps: list[Any] = [constant(1, f)] * len(axes)
    elif len(spacing) == 1:
        steps = spacing * len(axes)
    elif len(spacing) == len(axes):
        steps = spacing
    else:
        raise TypeError(f"Invalid number of spacing arguments {len(spacing)} for {axis=}")
    if any(f.shape[a] < 2 for a in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are "
            "required."
        )
    found = [_slope(f, h, a) for h, a in zip(steps, axes, strict=True)]
    return found[0] if len(found) == 1 else found


def _slope(f: Array, h, axis: int) -> Array:
    n = f.shape[axis]
    # The two neighbours of every inner point, and the one-sided differences at the ends.
    ahead, behind = _along(f, axis, 2, None), _along(f, axis, None, n - 2)
    first = _along(f, axis, 1, 2) - _along(f, axis, 0, 1)
    last = _along(f, axis, n - 1, n) - _along(f, axis, n - 2, n - 1)
    # Even spacing: (f[i+1] - f[i-1]) / 2h inside.
    if np.ndim(h) == 0:
        slopes = promoted("gradient", first / h, (ahead - behind) * 0.5 / h, last / h)
        return lax.concatenate(slopes, axis)
    if h.ndim > 1 or h.shape[0] != n:
        raise ValueError(
            f"Spacing arrays must be 1D and match the length of their axis: got shape {h.shape} "
            f"for length {n}"
        )
    # Uneven spacing: the n - 1 steps, along this axis.
    shape = [1] * f.ndim
    shape[axis] = n - 1
    steps = reshape(h[1:] - h[:-1], shape)
    # The steps before and after each inner point.
    left, right = _along(steps, axis, None, n - 2), _along(steps, axis, 1, None)
    # The parabola through three neighbours, and its slope in the middle.
    inside = (
        -right / (left * (left + right)) * behind
        + (right - left) / (left * right) * _along(f, axis, 1, n - 1)
        + left / (right * (left + right)) * ahead
    )
    ends = first / _along(steps, axis, 0, 1), last / _along(steps, axis, n - 2, n - 1)
    return lax.concatenate([ends[0], inside, ends[1]], axis)


@check_ranks("y", "x")
def trapezoid(y, x=None, dx=1.0, axis: int = -1) -> Array:
    """The integral of samples along an axis by the trapezoidal rule, with positions `x` or the
    distance `dx`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.trapezoid(gnp.array([1., 2., 3.]))
    Array(4., dtype=float32)
    """
    if x is None:
        (y,) = promoted_inexact("trapezoid", y)
        # Even spacing: every sample once, the two ends half.
        if np.ndim(dx) == 0:
            at = canonical_axis(axis, y.ndim)
            ends = _along(y, at, 0, 1) + _along(y, at, y.shape[at] - 1, None)
            return dx * (y.sum(axis) - 0.5 * ends.sum(axis))
        y, widths = promoted_inexact("trapezoid", y, dx)
    else:
        y, x = promoted_inexact("trapezoid", y, x)
        at = canonical_axis(axis, y.ndim)
        if x.ndim == 1:  # positions along the axis alone
            widths = reshape(diff(x), [-1 if i == at else 1 for i in range(y.ndim)])
        else:
            widths = diff(x, axis=axis)
    at = canonical_axis(axis, y.ndim)
    # Each interval is its width times the mean of its two ends.
    return 0.5 * (widths * (_along(y, at, 1, None) + _along(y, at, 0, -1))).sum(axis)


def unwrap(p, discont=None, axis: int = -1, period=2 * np.pi) -> Array:
    """Undo jumps of more than half a period along an axis by adding multiples of the period.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unwrap(gnp.array([0, 3, 7, 13]), period=6)
    Array([0, 3, 1, 1], dtype=int32)
    """
    p = array("unwrap", p)
    if dtypes.kind_of(p.dtype) == "c":
        raise ValueError("jnp.unwrap does not support complex inputs.")
    axis = canonical_axis(axis, p.ndim)
    # There is no first element to start from.
    if p.shape[axis] == 0:
        return promoted("unwrap", p, period)[0]
    p, turn = promoted("unwrap", p, period)
    if dtypes.issubdtype(p.dtype, np.integer):
        # With an odd integer period no jump is exactly half of it.
        half, odd = divmod(turn, 2)
        at_boundary: Any = lax.eq(odd, odd.dtype.type(0))
    else:
        half, at_boundary = turn / 2, True
    limit = half if discont is None else discont
    steps = diff(p, axis=axis)
    # Each step brought into [-half, half).
    folded = mod(steps + half, turn) - half
    # A jump of exactly half a period keeps its direction.
    up = logical_and(logical_and(at_boundary, folded == -half), steps > 0)
    folded = where(up, half, folded)
    # Steps below the limit stay; the corrections add up along the axis.
    correction = where(abs(steps) < limit, 0, folded - steps)
    # The first element stays where it is.
    rest = _along(p, axis, 1, None) + correction.cumsum(axis)
    return lax.concatenate(promoted("unwrap", _along(p, axis, 0, 1), rest), axis)


def interp(x, xp, fp, left=None, right=None, period=None) -> Array:
    """Values at `x` of the function that is linear between the (n,) points (xp, fp), xp ascending.

    Parameters
    ----------
    left, right :
        Values outside of the range (default: those at its ends), or "extrapolate".
    period :
        Period of the function, if it has one.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.interp(1.5, gnp.array([1., 2.]), gnp.array([10., 20.]))
    Array(15., dtype=float32)
    """
    # Strings first: they cannot become arrays.
    for name, end in (("left", left), ("right", right)):
        if isinstance(end, str) and end != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{name}` is 'extrapolate', but got: {end!r}"
            )
    x, xp, fp = arrays("interp", x, xp, fp)
    if xp.shape != fp.shape or xp.ndim != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    (fp,) = promoted_inexact("interp", fp)
    x, xp = promoted_inexact("interp", x, xp)
    if dtypes.kind_of(x.dtype) == "c":
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        if shape(period):
            raise ValueError(f"period must be a scalar; got an array of shape {shape(period)}")
        x, xp, fp = _periodic(x, xp, fp, period)
    n = xp.shape[0]
    # The segment that each x falls into; outside the ends it is the nearest one.
    below = clip(searchsorted(xp, x, side="right") - 1, 0, larger(n - 2, 0))
    above = clip(below + 1, 0, n - 1)
    x0, f0, x1, f1 = (_known_places(a, i) for i in (below, above) for a in (xp, fp))
    rise, run = f1 - f0, x1 - x0
    # Two points at one place: the lower one's value, without dividing by zero.
    flat = abs(run) <= np.spacing(dtypes.finfo(xp.dtype).eps)
    run = choose_by(flat, constant(1, run), run)
    value = where(flat, f0, f0 + (x - x0) / run * rise)
    # "extrapolate" keeps the line of the outermost segment.
    if not isinstance(left, str):
        value = where(x < xp[0], fp[0] if left is None else left, value)
    if not isinstance(right, str):
        value = where(x > xp[-1], fp[-1] if right is None else right, value)
    return value


def _known_places(a: Array, i: Array) -> Array:
    """Elements at positions that are known to be in bounds."""
    return a.at[i].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _periodic(x: Array, xp: Array, fp: Array, period):
    """All positions within one period, and the points continued by one on either side."""
    # The sign of a period has no meaning.
    turn = abs(period)
    x, xp = mod(x, turn), mod(xp, turn)
    # Ascending again after the modulo.
    order = argsort(xp)
    xp, fp = xp[order], fp[order]
    # The last point before the first one, and the first one after the last.
    xp = lax.concatenate([xp[-1:] - turn, xp, xp[:1] + turn], 0)
    return x, xp, lax.concatenate([fp[-1:], fp, fp[:1]], 0)
