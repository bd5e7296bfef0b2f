"""Linear systems solved by iteration: cg, bicgstab, gmres.

Floor 6. In: a linear function of pytrees (or a matrix), a right side of the same structure. Out:
the solution. Derivatives solve such systems too (lax.custom_linear_solve): they cost one more
solution each, however many steps the first one took.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.convert import convert as _convert
from gpuarray.names import explain_names as _explain_names
from gpuarray.tree_util import tree_leaves, tree_map, tree_reduce, tree_structure

# ---- pytrees as vectors ----

# The arithmetic of vectors, leaf by leaf.
_add = partial(tree_map, operator.add)
_sub = partial(tree_map, operator.sub)


def _scaled(scale: Any, x: Any) -> Any:
    return tree_map(lambda v: lax.convert_element_type(scale, v.dtype) * v, x)


def _dot(x: Any, y: Any) -> Array:
    # Conjugated on the left, in full precision: the methods rely on orthogonality.
    one = lambda a, b: gnp.vdot(a, b, precision=lax.Precision.HIGHEST)
    return tree_reduce(operator.add, tree_map(one, x, y))


def _square(x: Any) -> Array:
    """|x|^2, real."""
    one = lambda a: gnp.real(gnp.vdot(a, a, precision=lax.Precision.HIGHEST))
    return tree_reduce(operator.add, tree_map(one, x))


def _chosen(which: Any, x: Any, y: Any) -> Any:
    return tree_map(partial(gnp.where, which), x, y)


def _identity(x: Any) -> Any:
    return x


def _operator(a: Any) -> Callable:
    """A linear function: the given one, or the product with the given matrix."""
    if callable(a):
        return a
    if not isinstance(a, (Array, np.ndarray)):
        # An operator of the user's that can be multiplied with arrays is as good.
        if hasattr(a, "__matmul__"):
            return partial(operator.matmul, a)
        raise TypeError(f"linear operator must be either a function or ndarray: {a}")
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"linear operator must be a square matrix, but has shape: {a.shape}")
    # In full precision: the residual would not fall below what a product was rounded to.
    return partial(gnp.dot, gnp.asarray(a), precision=lax.Precision.HIGHEST)


def _solve(
    iterate: Callable,
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    maxiter: int | None,
    symmetric: bool = False,
    **options: Any,
) -> Any:
    """Check the arguments and solve by `iterate(A, b, x0, M=..., maxiter=..., **options)`."""
    b = tree_map(gnp.asarray, b)
    x0 = tree_map(gnp.zeros_like, b) if x0 is None else tree_map(gnp.asarray, x0)
    of = b, x0
    # SciPy's default.
    if maxiter is None:
        maxiter = 10 * sum(v.size for v in tree_leaves(b))
    # The iteration adds x0 and b leaf by leaf.
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(
            f"x0 and b must have matching tree structure: {tree_structure(x0)} vs "
            f"{tree_structure(b)}"
        )
    shapes = [[v.shape for v in tree_leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}"
        )
    product, M = _operator(A), _identity if M is None else _operator(M)
    # The carry of the iteration has the dtype of A b.
    kinds = [dtypes.to_inexact_dtype(gnp.result_type(x, y)) for x, y in
             zip(tree_leaves(b), tree_leaves(product(x0)), strict=False)]  # fmt: skip
    if len(kinds) == len(shapes[1]):
        leaves = iter(kinds * 2)
        b, x0 = (tree_map(lambda v: lax.convert_element_type(v, next(leaves)), t) for t in (b, x0))
        b = tree_map(gnp.asarray, b)

    # The same iteration solves the transposed system, for derivatives.
    def solve(product: Callable, b: Any) -> Any:
        return iterate(product, b, x0, M=M, maxiter=maxiter, **options)

    real = all(dtypes.kind_of(v.dtype) != "c" for v in tree_leaves(b))
    found = lax.custom_linear_solve(
        product, b, solve=solve, transpose_solve=solve, symmetric=symmetric and real
    )
    # Python numbers in, numbers that promote as these do out; of `cg`, as in JAX, not.
    weak = not symmetric and all(v.weak_type for v in tree_leaves(of))
    return tree_map(lambda v: _convert(v, v.dtype, weak), found)


def _target(b: Any, tol: Any, atol: Any) -> Array:
    """The largest |residual|^2 that is good enough."""
    return gnp.maximum(gnp.square(tol) * _square(b), gnp.square(atol))


# ---- the methods ----


def _cg(A: Callable, b: Any, x0: Any, *, M: Callable, maxiter: int, tol: Any, atol: Any) -> Any:
    target = _target(b, tol, atol)

    def going(state):
        _, r, gamma, _, k = state
        # Without a preconditioner gamma is |r|**2 already.
        size = gnp.real(gamma) if M is _identity else _square(r)
        return (size > target) & (k < maxiter)

    def step(state):
        x, r, gamma, p, k = state
        Ap = A(p)
        # The step that minimises the error along p; then the next conjugate direction.
        alpha = gamma / lax.convert_element_type(_dot(p, Ap), gamma.dtype)
        x, r = _add(x, _scaled(alpha, p)), _sub(r, _scaled(alpha, Ap))
        z = M(r)
        new = lax.convert_element_type(_dot(r, z), gamma.dtype)
        return x, r, new, _add(z, _scaled(new / gamma, p)), k + 1

    r = _sub(b, A(x0))
    z = M(r)
    return lax.while_loop(going, step, (x0, r, _dot(r, z), z, 0))[0]


def _bicgstab(
    A: Callable, b: Any, x0: Any, *, M: Callable, maxiter: int, tol: Any, atol: Any
) -> Any:
    target = _target(b, tol, atol)

    def going(state):
        _, r, *_, k = state
        # k < 0: the recurrence broke down.
        return (_square(r) > target) & (k < maxiter) & (k >= 0)

    def step(state):
        x, r, shadow, alpha, omega, rho, p, q, k = state
        # van der Vorst (1992): a step of BiCG, smoothed by one of minimal residual.
        new_rho = _dot(shadow, r)
        beta = new_rho / rho * alpha / omega
        p = _add(r, _scaled(beta, _sub(p, _scaled(omega, q))))
        turned = M(p)
        q = A(turned)
        alpha = new_rho / _dot(shadow, q)
        s = _sub(r, _scaled(alpha, q))
        # Half a step may be enough: the other half would divide by zero.
        early = _square(s) < target
        half = M(s)
        t = A(half)
        omega = _dot(t, s) / _dot(t, t)
        at = _add(x, _scaled(alpha, turned))
        new = _chosen(early, at, _add(at, _scaled(omega, half)))
        rest = _chosen(early, s, _sub(s, _scaled(omega, t)))
        broken = new_rho == 0
        # SciPy's codes for a breakdown.
        k = gnp.where(broken, -10, gnp.where((omega == 0) | (alpha == 0), -11, k + 1))
        x, r = _chosen(broken, x, new), _chosen(broken, r, rest)
        return x, r, shadow, alpha, omega, new_rho, p, q, k

    r = _sub(b, A(x0))
    # alpha, omega and rho of the step before the first are 1, and its directions are zero.
    one = gnp.ones((), _dot(r, r).dtype)
    zero = tree_map(gnp.zeros_like, r)
    # The residual serves as its own shadow.
    start = (x0, r, r, one, one, one, zero, zero, gnp.asarray(0))
    return lax.while_loop(going, step, start)[0]


def _norm(x: Any) -> Array:
    return gnp.sqrt(_square(x))


def _unit(x: Any, limit: Any) -> tuple[Any, Array]:
    """x / |x| and |x|; zeros and 0 when it is no longer than `limit`."""
    norm = _norm(x)
    long = norm > limit
    safe = gnp.where(long, norm, 1)
    unit = tree_map(lambda v: gnp.where(long, v / lax.convert_element_type(safe, v.dtype), 0), x)
    return unit, gnp.where(long, norm, 0)


def _project(basis: Any, x: Any) -> Array:
    """The inner products of x with the vectors of a basis (..., n)."""
    # The basis vectors are along the last axis of every leaf.
    one = lambda q, v: gnp.einsum("...n,...->n", gnp.conj(q), v, precision=lax.Precision.HIGHEST)
    return tree_reduce(operator.add, tree_map(one, basis, x))


def _combined(basis: Any, weights: Array) -> Any:
    return tree_map(
        lambda q: gnp.tensordot(
            q, lax.convert_element_type(weights, q.dtype), 1, precision=lax.Precision.HIGHEST
        ),
        basis,
    )


def _arnoldi(A: Callable, M: Callable, v: Any, count: int) -> tuple[Any, Array]:
    """An orthonormal basis (count + 1) of the Krylov space and A in it: (count + 1, count)."""
    kind = gnp.result_type(*tree_leaves(v))
    eps = float(dtypes.finfo(kind).eps)
    # Room for all vectors is allocated in advance: shapes must not change within a loop.
    basis = tree_map(lambda x: gnp.pad(x[..., None], [(0, 0)] * x.ndim + [(0, count)]), v)
    H = gnp.zeros((count + 1, count), kind)

    def step(k: Any, state: tuple[Any, Array]) -> tuple[Any, Array]:
        basis, H = state
        w = M(A(tree_map(lambda q: q[..., k], basis)))
        # A vector reduced to rounding errors was already in the space.
        before = _norm(w)
        column = gnp.zeros(count + 1, kind)
        for _ in range(2):  # twice, against rounding errors of the first pass
            h = _project(basis, w)
            w = _sub(w, _combined(basis, h))
            column = column + h
        w, size = _unit(w, eps * before)
        basis = tree_map(lambda q, x: q.at[..., k + 1].set(x), basis, w)
        column = column.at[k + 1].set(lax.convert_element_type(size, kind))
        return basis, H.at[:, k].set(column)

    return lax.fori_loop(0, count, step, (basis, H))


def _gmres(
    A: Callable,
    b: Any,
    x0: Any,
    *,
    M: Callable,
    maxiter: int,
    tol: Any,
    atol: Any,
    restart: int,
) -> Any:
    limit = gnp.maximum(tol * _norm(b), atol)
    # The residual that is made small is M's: the limit is scaled as b's is.
    limit = limit * gnp.minimum(1, _norm(M(b)) / gnp.where(_norm(b) == 0, 1, _norm(b)))

    def going(state):
        _, _, norm, k = state
        return (k < maxiter) & (norm > limit)

    def residual(x):
        return _unit(M(_sub(b, A(x))), 0)

    def cycle(state):
        x, unit, norm, k = state
        basis, H = _arnoldi(A, M, unit, restart)
        # The residual in the basis: its length times the first vector.
        first = gnp.zeros(restart + 1, H.dtype).at[0].set(lax.convert_element_type(norm, H.dtype))
        # The combination of directions that leaves the smallest residual.
        y = gnp.linalg.lstsq(H, first)[0]
        x = _add(x, _combined(tree_map(lambda q: q[..., :-1], basis), y))
        return x, *residual(x), k + 1

    return lax.while_loop(going, cycle, (x0, *residual(x0), 0))[0]


# ---- public functions ----

_SHARED = """

    A: a function that multiplies a pytree like b by a matrix, or the matrix. Shapes: b, x0 and x
    are alike. The search ends when |A x - b| <= max(tol |b|, atol), or after `maxiter` steps (10
    times the size of b). M: an approximation of A's inverse, a function or a matrix.
"""


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x, None) with A x = b by conjugate gradients: A is symmetric (Hermitian) and positive
    definite.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[2., 0.], [0., 4.]])
    >>> scipy.sparse.linalg.cg(lambda x: a @ x, gnp.array([2., 4.]))[0].round(4)
    Array([1., 1.], dtype=float32)
    """
    return _solve(_cg, A, b, x0, M, maxiter, symmetric=True, tol=tol, atol=atol), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x, None) with A x = b by stabilised biconjugate gradients, for any invertible A.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[2., 1.], [0., 4.]])
    >>> scipy.sparse.linalg.bicgstab(a, gnp.array([3., 4.]))[0].round(4)
    Array([1., 1.], dtype=float32)
    """
    return _solve(_bicgstab, A, b, x0, M, maxiter, tol=tol, atol=atol), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """(x, info) with A x = b by generalised minimal residuals, for any invertible A.

    info is 0, or -1 when A x - b holds NaN. restart: how many directions a round takes; `maxiter`
    counts rounds. solve_method: "batched" or "incremental", which give the same x.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[2., 1.], [0., 4.]])
    >>> scipy.sparse.linalg.gmres(a, gnp.array([3., 4.]))[0].round(4)
    Array([1., 1.], dtype=float32)
    """
    if solve_method not in ("incremental", "batched"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'"
        )
    # A Krylov space has no more dimensions than the unknowns.
    size = sum(gnp.size(v) for v in tree_leaves(b))
    restart = min(util.index(restart), size)
    if restart < 1:
        raise IndexError(f"gmres: restart must be at least 1, got {restart}")
    x = _solve(_gmres, A, b, x0, M, maxiter, tol=tol, atol=atol, restart=restart)
    matvec = _operator(A)
    residual = _sub(tree_map(gnp.asarray, b), matvec(x))
    # As in JAX: -1 where the result is nan. Whether the search converged is not said.
    return x, gnp.where(gnp.isnan(_norm(residual)), -1, 0)


for _function in (cg, bicgstab, gmres):
    if _function.__doc__:  # not under python -OO
        _first, _, _rest = _function.__doc__.partition("\n\n")
        _function.__doc__ = _first + _SHARED + "\n" + _rest

__getattr__ = _explain_names(__name__)
