"""Minima of functions of many variables: BFGS, and L-BFGS, which keeps few vectors.

Floor 6. In: a function that gives a scalar, and where to start. Out: an `OptimizeResults`. Each
method is one loop that can be traced: it runs under jit and vmap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.api.grad import value_and_grad
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.linalg.decompositions import identity, product
from gpuarray.scipy.optimize.line_search import line_search


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    Attributes
    ----------
    x :
        The place.
    success :
        Whether the gradient is small enough there.
    status :
        0 (success), 1 (too many steps), 3 (no lower value along the last direction).
    fun, jac :
        Value and gradient.
    hess_inv :
        The estimate of the inverse Hessian, or None.
    nfev, njev, nit :
        Counts of values, gradients and steps.
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


class State(NamedTuple):
    """The state of a search; `model` is the method's approximation of the Hessian."""

    x: Array
    value: Array
    gradient: Array
    model: Any
    steps: Array
    values: Array
    converged: Array
    failed: Array


def _descend(
    fun: Callable,
    x0: Array,
    model: Any,
    direction: Callable,
    update: Callable,
    small: Callable,
    maxiter: float,
    maxls: int,
    maxfun: float = np.inf,
) -> State:
    """Steps along `direction(model, gradient)`, each followed by `update(model, s, y)`."""
    # One loop for all methods: a direction by the model, a line search, an update of the model.
    value, gradient = fun(x0)
    one, no = gnp.asarray(1), gnp.asarray(False)
    start = State(x0, value, gradient, model, one * 0, one, small(None, value, gradient), no)

    def going(s: State) -> Array:
        return ~s.converged & ~s.failed & (s.steps < maxiter) & (s.values < maxfun)

    def step(s: State) -> State:
        p = direction(s.model, s.gradient)
        point, values, failed = line_search(fun, s.x, s.value, s.gradient, p, maxls)
        # The step s and the change of the gradient y, from which the model learns the curvature.
        moved, change = point.step * p, point.gradient - s.gradient
        return State(
            s.x + moved,
            point.value,
            point.gradient,
            update(s.model, moved, change),
            s.steps + 1,
            s.values + values,
            small(s.value, point.value, point.gradient) & ~failed,
            failed,
        )

    return lax.while_loop(going, step, start)


def _bfgs(
    fun: Callable,
    x0: Array,
    maxiter: int | None = None,
    norm: float = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> tuple[State, Array | None]:
    one = identity(x0.shape[0], x0.dtype)

    def update(model: Any, s: Array, y: Array) -> Any:
        H, known = model
        slope = product(s, y)
        good = slope > 0  # otherwise H would not stay positive definite
        # The first step gives a step length for directions not searched yet.
        H = gnp.where(good & ~known, slope / gnp.where(good, product(y, y), 1), 1) * H
        # H <- (I - rho s y^T) H (I - rho y s^T) + rho s s^T.
        rho = 1 / gnp.where(good, slope, 1)
        left = one - rho * gnp.outer(s, y)
        new = product(product(left, H), left.T) + rho * gnp.outer(s, s)
        return gnp.where(good, new, H), known | good

    end = _descend(
        fun, x0, (one, gnp.asarray(False)), lambda model, g: -product(model[0], g), update,
        lambda _, value, g: gnp.linalg.norm(g, ord=norm) < gtol,
        x0.size * 200 if maxiter is None else maxiter, line_search_maxiter,
    )  # fmt: skip
    return end, end.model[0]


def _lbfgs(
    fun: Callable,
    x0: Array,
    maxiter: float | None = None,
    norm: float = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-05,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> tuple[State, Array | None]:
    n = x0.size
    limits = [15000 if m is None else m for m in (maxfun, maxgrad)]
    # The last steps and changes of the gradient, the newest last; a weight of 0 is an empty place.
    empty = gnp.zeros((maxcor, n), x0.dtype)
    model = empty, empty, gnp.zeros(maxcor, x0.dtype), gnp.ones_like(x0[0])

    def direction(model: Any, g: Array) -> Array:
        steps, changes, weights, scale = model
        # The two-loop recursion: newest correction first, then back.
        q, alphas = -g, []
        # In Python: there are few corrections, and their number is known.
        for i in reversed(range(maxcor)):
            alpha = weights[i] * product(steps[i], q)
            q = q - alpha * changes[i]
            alphas.append(alpha)
        q = scale * q
        for i, alpha in zip(range(maxcor), reversed(alphas), strict=True):
            q = q + steps[i] * (alpha - weights[i] * product(changes[i], q))
        return q

    def update(model: Any, s: Array, y: Array) -> Any:
        # A correction without positive curvature is skipped.
        slope, square = product(s, y), product(y, y)
        good = (slope > 0) & (square > 0)
        weight = 1 / gnp.where(good, slope, 1)
        scale = slope / gnp.where(good, square, 1)
        # The oldest correction makes room for the newest.
        new = [gnp.concatenate([old[1:], v[None]]) for old, v in zip(model, (s, y, weight))]
        return tuple(gnp.where(good, a, b) for a, b in zip((*new, scale), model, strict=True))

    def small(before: Any, value: Array, g: Array) -> Array:
        # SciPy's two tests: the gradient, and the relative decrease.
        flat = gnp.linalg.norm(g, ord=norm) < gtol
        if before is None:
            return flat
        size = gnp.maximum(gnp.maximum(abs(before), abs(value)), 1)
        return flat | (before - value <= ftol * size)

    end = _descend(
        fun, x0, model, direction, update, small, n * 200 if maxiter is None else maxiter, maxls,
        min(limits),
    )  # fmt: skip
    return end, None


def _as_reals(x0: Array) -> tuple[Array, Callable[[Array], Array]]:
    """The unknowns as one vector of real numbers, and a function that restores an array like x0."""
    if not dtypes.issubdtype(x0.dtype, np.complexfloating):
        return x0.ravel(), lambda x: x.reshape(x0.shape)
    n = x0.size
    # Real and imaginary parts are separate variables.
    both = gnp.concatenate([x0.real.ravel(), x0.imag.ravel()])
    return both, lambda x: lax.complex(x[:n], x[n:]).reshape(x0.shape)


_METHODS = {"bfgs": _bfgs, "l-bfgs-experimental-do-not-rely-on-this": _lbfgs}


def minimize(
    fun: Callable,
    x0: Array,
    args: tuple = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Minimise a differentiable function, starting from x0.

    fun(x, *args) gives a scalar. method: "BFGS" (options maxiter, norm, gtol, line_search_maxiter),
    or "l-bfgs-experimental-do-not-rely-on-this" (maxiter, norm, maxcor, ftol, gtol, maxfun,
    maxgrad, maxls). tol: the `gtol` when options do not say it. The parts of complex unknowns are
    searched as twice as many real ones: first all real parts, then all imaginary ones, also in
    `hess_inv`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> found = scipy.optimize.minimize(lambda x: ((x - 3) ** 2).sum(), gnp.zeros(2), method="BFGS")
    >>> found.x.round(3), found.success
    (Array([3., 3.], dtype=float32), Array(True, dtype=bool))
    """
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to minimize must be a tuple, got {args}")
    search = _METHODS.get(method.lower())
    if search is None:
        raise ValueError(f"Method {method} not recognized: expected one of {list(_METHODS)}")
    x0 = gnp.asarray(x0)
    if not isinstance(options, (dict, type(None))):
        raise util.wrong_type(options, "a dict or None")
    given = dict(options or {})
    if tol is not None:
        given.setdefault("gtol", tol)
    start, where = _as_reals(x0)
    end, inverse = search(value_and_grad(lambda x: fun(where(x), *args)), start, **given)
    # SciPy's codes: 0 converged, 1 too many steps, 3 the line search failed.
    status = gnp.where(end.converged, 0, gnp.where(end.failed, 3, 1))
    return OptimizeResults(
        x=where(end.x),
        success=end.converged & ~end.failed,
        status=status,
        fun=end.value,
        # The gradient of complex unknowns is conjugated, as `grad` returns it.
        jac=where(end.gradient).conj(),
        hess_inv=inverse,
        nfev=end.values,
        # Value and gradient are always computed together.
        njev=end.values,
        nit=end.steps,
    )
