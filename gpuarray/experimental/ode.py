"""Ordinary differential equations: `odeint`, adaptive and differentiable.

Floor 6. In: y' = f(y, t, *args), the value at the first of some times. Out: values at all of them.
Steps are Dormand and Prince's of order 5(4); values inside a step come from their interpolant of
order 4. Derivatives solve the adjoint equation backwards, so no step is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.api.closures import closure_convert
from gpuarray.api.vjp import vjp
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_inexact
from gpuarray.core.value import Array
from gpuarray.flatten_util import ravel_pytree
from gpuarray.functions.custom_vjp import custom_vjp
from gpuarray.names import explain_names as _explain_names
from gpuarray.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

# The tableau: stage times, stages from those before, the step (its last stage starts the next one),
# the error, and the interpolant's extra term (Hairer, Norsett, Wanner: DOPRI5).
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = [
    np.array([1 / 5]),
    np.array([3 / 40, 9 / 40]),
    np.array([44 / 45, -56 / 15, 32 / 9]),
    np.array([19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729]),
    np.array([9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656]),
    np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]),
]
_LOWER = np.array([5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40])
# The step of order 5 minus that of order 4.
_ERROR = np.append(_STAGES[-1], 0) - _LOWER
_DENSE = np.array(
    [
        -12715105075 / 11282082432,
        0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ]
)


class _Step(NamedTuple):
    """The last step taken: from t0 to t, and the polynomial between."""

    y: Array
    slope: Array
    t: Array
    dt: Array
    t0: Array
    polynomial: Array  # (5, n): see `_inside`
    count: Array


def odeint(
    func: Callable,
    y0: Any,
    t: Array,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of y' = func(y, t, *args) from y0 at t[0], at all times t.

    The result is like y0, with a leading axis as long as t, which must increase. Reverse mode
    differentiates with respect to y0, t, args and values that func closes over.

    Parameters
    ----------
    y0 :
        The state at the first time: an array or a pytree of arrays, as `func` returns them.
    args :
        Further arguments of `func`: arrays, scalars, or pytrees of them.
    rtol, atol :
        The error that is allowed in a step, relative and absolute.
    mxstep :
        The greatest number of steps between two times.
    hmax :
        The longest step.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.ode import odeint
    >>> decay = lambda rate: odeint(lambda y, t: -rate * y, 1., gnp.array([0., 1.]))[-1]
    >>> decay(2.).round(4), ga.grad(decay)(2.).round(4)
    (Array(0.1353, dtype=float32), Array(-0.1353, dtype=float32))
    """
    for value in tree_leaves(args):
        try:
            aval_of(value)
        except TypeError as error:
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {value}."
            ) from error
    if dtypes.kind_of(aval_of(t).dtype) != "f":
        raise TypeError(f"t must be an array of floats, but got {t}.")
    t = gnp.asarray(t)
    if t.ndim != 1 or t.shape[0] == 0:
        raise ValueError(f"t must hold at least one time along one axis, got shape {t.shape}")
    # The state as one flat vector of floats.
    y0 = tree_map(_inexact, y0)
    converted, closed_over = closure_convert(func, y0, t[0], *args)
    flat, unravel = ravel_pytree(y0)

    def flat_func(y: Array, t: Array, *args: Any) -> Array:
        slope, _ = ravel_pytree(converted(unravel(y), t, *args))
        if slope.shape != y.shape:
            raise TypeError(
                f"func must give as much as y0 holds: {y.size} elements, got {slope.size}"
            )
        return lax.convert_element_type(slope, y.dtype)

    # Differentiable values become arguments of the rule; the others are closed over.
    leaves, spec = tree_flatten((*args, *closed_over))
    moving = [is_inexact(aval_of(x)) for x in leaves]
    fixed = [x for x, m in zip(leaves, moving, strict=True) if not m]

    def dynamics(y: Array, t: Array, *given: Any) -> Array:
        """As flat_func, with the leaves that can have derivatives as arguments."""
        numbers, others = iter(given), iter(fixed)
        found = [next(numbers) if m else next(others) for m in moving]
        return flat_func(y, t, *tree_unflatten(spec, found))

    given = [gnp.asarray(x) for x, m in zip(leaves, moving, strict=True) if m]
    ys = _solve(dynamics, (rtol, atol, mxstep, hmax), flat, t, *given)
    return _over_times(unravel, ys)


def _inexact(x: Any) -> Array:
    x = gnp.asarray(x)
    return lax.convert_element_type(x, dtypes.to_inexact_dtype(x.dtype))


def _over_times(unravel: Callable, ys: Array) -> Any:
    """`unravel` on every row, as one reshape for each leaf."""
    # Shapes and dtypes of the leaves, from one row.
    rows = [tree_flatten(unravel(ys[i])) for i in range(min(1, ys.shape[0]))]
    _, spec = rows[0]
    leaves, start = [], 0
    for leaf in rows[0][0]:
        piece = ys[:, start : start + leaf.size].reshape(ys.shape[0], *leaf.shape)
        leaves.append(lax.convert_element_type(piece, leaf.dtype))
        start += leaf.size
    return tree_unflatten(spec, leaves)


# ---- one step ----


def _stages(f: Callable, y: Array, slope: Array, t: Array, dt: Array) -> tuple[Array, Array]:
    """The seven slopes of a step (7, n), and where it leads."""
    # First same as last: the first stage is the last one of the step before.
    slopes = [slope]
    end = y
    for time, weights in zip(_TIMES, _STAGES, strict=True):
        end = y + dt.astype(y.dtype) * _mixed(weights, slopes)
        slopes.append(f(end, t + dt * dt.dtype.type(time)))
    return gnp.stack(slopes), end


def _mixed(weights: np.ndarray, slopes: Any) -> Array:
    return sum(s * s.dtype.type(w) for w, s in zip(weights, slopes, strict=False) if w)  # pyright: ignore[reportReturnType]


def _polynomial(y: Array, end: Array, slopes: Array, dt: Array) -> Array:
    dt = dt.astype(y.dtype)
    change = end - y
    # Hairer, Norsett and Wanner, II.6: the interpolant by nested products.
    bend = dt * slopes[0] - change
    return gnp.stack([y, change, bend, change - dt * slopes[6] - bend, dt * _mixed(_DENSE, slopes)])


def _inside(p: Array, share: Array) -> Array:
    """The interpolant at a share of the step, 0 at its start and 1 at its end."""
    x = share.astype(p.dtype)
    z = 1 - x
    return p[0] + x * (p[1] + z * (p[2] + x * (p[3] + z * p[4])))


def _ratio(error: Array, y: Array, end: Array, rtol: Any, atol: Any) -> Array:
    """The error of a step relative to the tolerance: the root of the mean square."""
    allowed = atol + rtol * gnp.maximum(abs(y), abs(end))
    return gnp.sqrt(gnp.mean((abs(error) / allowed) ** 2))


def _next_length(dt: Array, ratio: Array) -> Array:
    """0.2 to 10 times as long, by how the error of order 5 compares; no shorter after a success."""
    # After a good step never shorter; at most ten times longer.
    shortest = gnp.where(ratio < 1, 1.0, 0.2)
    safe = gnp.where(ratio == 0, 1, ratio)
    # The error grows with the fifth power of the length; nine tenths, so that the next step holds.
    factor = gnp.clip(0.9 * safe**-0.2, shortest, 10.0)
    return dt * gnp.where(ratio == 0, 10.0, factor).astype(dt.dtype)


def _first_length(f: Callable, t: Array, y: Array, slope: Array, rtol: Any, atol: Any) -> Array:
    """A first step of about the right length (Hairer, Norsett, Wanner: section II.4)."""
    # Hairer, Norsett and Wanner, II.4: a first step by the sizes of y, y' and a guess of y''.
    size = atol + rtol * abs(y)
    d0, d1 = gnp.linalg.norm(y / size), gnp.linalg.norm(slope / size)
    flat = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = gnp.where(flat, 1e-6, 0.01 * d0 / gnp.where(d1 == 0, 1, d1)).astype(t.dtype)
    after = f(y + h0.astype(y.dtype) * slope, t + h0)
    d2 = gnp.linalg.norm((after - slope) / size) / h0
    largest = gnp.maximum(d1, d2)
    tiny = largest <= 1e-15
    h1 = gnp.where(tiny, gnp.maximum(1e-6, h0 * 1e-3), (0.01 / gnp.where(tiny, 1, largest)) ** 0.2)
    return gnp.minimum(100 * h0, h1).astype(t.dtype)


# ---- the solution, and its adjoint ----


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _solve(f: Callable, options: tuple, y0: Array, times: Array, *args: Array) -> Array:
    return _forward(f, options, y0, times, args)


def _forward(f: Callable, options: tuple, y0: Array, times: Array, args: tuple) -> Array:
    rtol, atol, mxstep, hmax = options
    func = lambda y, t: f(y, t, *args)

    def advance(s: _Step) -> _Step:
        dt = gnp.minimum(s.dt, hmax).astype(times.dtype)
        slopes, end = _stages(func, s.y, s.slope, s.t, dt)
        # Accepted where the error is within the tolerance, else again with a shorter step.
        ratio = _ratio(dt.astype(s.y.dtype) * _mixed(_ERROR, slopes), s.y, end, rtol, atol)
        longer = gnp.clip(_next_length(dt, ratio), 0, hmax).astype(times.dtype)
        polynomial = _polynomial(s.y, end, slopes, dt)
        done = _Step(end, slopes[6], s.t + dt, longer, s.t, polynomial, s.count + 1)
        again = s._replace(dt=longer, count=s.count + 1)
        # Both outcomes are computed: there is no branch for each element of a vmap.
        return tree_map(partial(gnp.where, ratio <= 1), done, again)

    def until(s: _Step, time: Array) -> tuple[_Step, Array]:
        # Step beyond the requested time, then evaluate the interpolant.
        going = lambda s: (s.t < time) & (s.count < mxstep) & (s.dt > 0)
        s = lax.while_loop(going, advance, s._replace(count=gnp.zeros((), np.int32)))
        length = s.t - s.t0
        share = (time - s.t0) / gnp.where(length == 0, 1, length)
        # Times that descend, and steps that no longer move t, have no answer.
        share = gnp.where((time < s.t0) | ((s.t < time) & ~(s.dt > 0)), np.nan, share)
        return s, _inside(s.polynomial, share)

    slope = func(y0, times[0])
    dt = _first_length(func, times[0], y0, slope, rtol, atol)
    flat = gnp.zeros((5, y0.size), y0.dtype).at[0].set(y0)
    start = _Step(y0, slope, times[0], dt, times[0], flat, gnp.zeros((), np.int32))
    _, ys = lax.scan(until, start, times[1:])
    return gnp.concatenate([y0[None], ys])


def _solve_fwd(f: Callable, options: tuple, y0: Array, times: Array, *args: Array) -> tuple:
    # Call the function with the rule, for derivatives of derivatives.
    ys = _solve(f, options, y0, times, *args)
    return ys, (ys, times, args)


def _solve_bwd(f: Callable, options: tuple, kept: tuple, given: Array) -> tuple:
    ys, times, args = kept

    def backwards(state: tuple, back: Array, *args: Array) -> tuple:
        """Reversed in time: y, its cotangent, and the accumulated cotangents of t and args."""
        y, y_bar, _, _ = state
        # The adjoint: y runs back, and with it the cotangents of y, t and the arguments.
        slope, pull = vjp(f, y, -back, *args)
        y_dot, t_dot, *args_dot = pull(y_bar)
        return -slope, y_dot, t_dot, args_dot

    def interval(carry: tuple, at: tuple) -> tuple[tuple, Array]:
        y_bar, t0_bar, args_bar = carry
        y, y_before, g, t, t_before = at
        # Add the cotangent of each requested time.
        y_bar = y_bar + g
        # The cotangent of a requested time: its result's cotangent times the slope there.
        t_bar = gnp.real((f(y, t, *args) * g).sum()).astype(times.dtype)
        state = (y, y_bar, t0_bar - t_bar, args_bar)
        flat, unravel = ravel_pytree(state)
        func = lambda s, back, *args: ravel_pytree(backwards(unravel(s), back, *args))[0].astype(
            flat.dtype
        )
        # Backwards in time is forwards in -t.
        ends = gnp.stack([-t, -t_before])
        _, y_bar, t0_bar, args_bar = unravel(_solve(func, options, flat, ends, *args)[1])
        return (y_bar, t0_bar, args_bar), t_bar

    zero = gnp.zeros((), times.dtype)
    start = gnp.zeros_like(ys[-1]), zero, [gnp.zeros_like(a) for a in args]
    rows = ys[1:], ys[:-1], given[1:], times[1:], times[:-1]
    (y_bar, t0_bar, args_bar), t_bars = lax.scan(interval, start, rows, reverse=True)
    return y_bar + given[0], gnp.concatenate([t0_bar[None], t_bars]), *args_bar


_solve.defvjp(_solve_fwd, _solve_bwd)


__getattr__ = _explain_names(__name__)
