"""Functions of matrices: exponential, square root, any function; Schur and polar forms; Sylvester's
equation.

Floor 6. In: square matrices, promoted to floats. Out: matrices. Triangular systems are solved
column by column in a loop with a fixed number of steps, so that everything can be traced; square
roots, polar factors and solutions of Sylvester's equation have custom derivatives, from the
equations that define them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.api.jvp import jvp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.numpy.linalg.decompositions import adjoint, identity, is_complex, product
from gpuarray.numpy.operands import array, promoted_inexact


def _eps(dtype) -> float:
    return float(dtypes.finfo(dtype).eps)


def _over_batch(core: Callable, *xs: Array) -> Any:
    """`core`, written for single matrices, over the batch axes of `xs`."""
    if all(x.ndim == 2 for x in xs):
        return core(*xs)
    # The loops below are for one matrix: mapped over the axes in front.
    signature = ",".join(f"(a{i},b{i})" for i in range(len(xs)))
    return gnp.vectorize(core, signature=f"{signature}->(m,n)")(*xs)


def _diagonal(a: Array) -> Array:
    return gnp.diagonal(a, axis1=-2, axis2=-1)


# ---- the exponential ----

# The numerator of the Pade approximant of e^x of order m, and the norm up to which it is exact in
# the arithmetic that it is used for (N. Higham, 2005).
_PADE = {
    32: (7, 3.925724783138660),
    64: (13, 5.371920351148152),
}


def _pade_coefficients(m: int) -> list[float]:
    out = [1.0]
    # Each coefficient from the one before: c_k = c_(k-1) (m - k + 1) / (k (2m - k + 1)).
    for k in range(1, m + 1):
        out.append(out[-1] * (m - k + 1) / (k * (2 * m - k + 1)))
    return out


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of a square matrix: (…, n, n) -> (…, n, n).

    A is halved until its norm is small, a rational approximation taken there and squared as often;
    where that takes more than `max_squarings`, the result is NaN.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.expm(gnp.array([[0., 1.], [0., 0.]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    (a,) = promoted_inexact("expm", A)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"Expected A to be a (batched) square matrix, got A.shape={a.shape}. numpy.exp is the "
            "exponential of each element."
        )
    if dtypes.to_floating_dtype(a.dtype).itemsize < 4:
        raise TypeError(f"A.dtype={a.dtype} is not supported: convert it to float32.")
    if a.size == 0:
        return a
    return _over_batch(
        lambda a: _expm(a, upper_triangular, int(util.number(max_squarings, "an int"))), a
    )


def _expm(a: Array, upper: bool, most: int) -> Array:
    real = dtypes.to_floating_dtype(a.dtype)
    order, limit = _PADE[real.itemsize * 8]
    # Scaling and squaring: e^a = (e^(a / 2^s))^(2^s), with a / 2^s small enough for the
    # approximant. No gradient through the norm: it only determines the number of squarings.
    norm = lax.stop_gradient(abs(a).sum(0).max())
    halvings = gnp.maximum(0, gnp.ceil(gnp.log2(norm / real.type(limit))))
    a = a * lax.convert_element_type(gnp.exp2(-gnp.minimum(halvings, most)), a.dtype)
    one, square = identity(a.shape[-1], a.dtype), product(a, a)
    coefficients = _pade_coefficients(order)

    def polynomial(start: int) -> Array:
        """Every other term, by Horner's rule in a^2."""
        found = one * coefficients[-1 if (order - start) % 2 == 0 else -2]
        for c in reversed(coefficients[start : order - 1 : 2]):
            found = product(found, square) + c * one
        return found

    # The approximant is (even + odd) / (even - odd), since the denominator is the numerator at -a.
    even, odd = polynomial(0), product(a, polynomial(1))
    if upper:
        r = lax.linalg.triangular_solve(even - odd, even + odd, left_side=True)
    else:
        r = gnp.linalg.solve(even - odd, even + odd)

    def squared(r: Array, i: Array) -> tuple[Array, None]:
        return lax.cond(i < halvings, lambda r: product(r, r), lambda r: r, r), None

    # A fixed number of steps, of which only the needed ones square.
    r, _ = lax.scan(squared, r, gnp.arange(most, dtype=real))
    return gnp.where(halvings <= most, r, r.dtype.type(np.nan))


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """expm(A) and its derivative in the direction E, or the latter alone: (…, n, n) each.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.expm_frechet(gnp.zeros((1, 1)), gnp.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float32)
    """
    a, e = array("expm_frechet", A), array("expm_frechet", E)
    for name, x in (("A", a), ("E", e)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(
                f"expected {name} to be a (batched) square matrix, got {name}.shape={x.shape}"
            )
    if a.shape != e.shape:
        raise ValueError(
            f"expected A and E to be the same shape, got A.shape={a.shape} E.shape={e.shape}"
        )
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"method must be None, 'SPS' or 'blockEnlarge', got {method!r}")
    # The Fréchet derivative is the directional one.
    value, derivative = jvp(expm, (a,), (e,))
    return (value, derivative) if compute_expm else derivative


# ---- Schur forms ----


def schur(a: Any, output: str = "real") -> tuple[Array, Array]:
    """T and Z with a = Z T Z^H, T triangular: (…, n, n) each.

    A real a keeps 2 x 2 blocks on the diagonal for complex pairs, unless output is "complex".

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> gnp.diag(scipy.linalg.schur(gnp.array([[1., 2.], [0., 3.]]))[0])
    Array([1., 3.], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got {output=}.")
    a = gnp.asarray(a)
    if output == "complex":
        # Over the complex numbers every matrix has a triangular form.
        a = lax.convert_element_type(a, dtypes.to_complex_dtype(a.dtype))
    t, z = lax.linalg.schur(a)
    return t, z


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Array, Array]:
    """The triangular complex Schur form of a real one with blocks: (…, n, n) each.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> t, z = scipy.linalg.schur(gnp.array([[0., 1.], [-1., 0.]]))
    >>> t, z = scipy.linalg.rsf2csf(t, z)
    >>> abs(t[1, 0])
    Array(0., dtype=float32)
    """
    t, z = promoted_inexact("rsf2csf", T, Z)
    for name, x in (("Z", z), ("T", t)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square.")
    if t.shape[-1] != z.shape[-1]:
        raise ValueError(f"Input array shapes must match: Z: {z.shape} vs. T: {t.shape}")
    kind = dtypes.to_complex_dtype(t.dtype)
    t, z = lax.convert_element_type(t, kind), lax.convert_element_type(z, kind)
    if t.ndim == z.ndim == 2:
        return _rsf2csf(t, z)
    return gnp.vectorize(_rsf2csf, signature="(n,n),(n,n)->(n,n),(n,n)")(t, z)


def _rsf2csf(t: Array, z: Array) -> tuple[Array, Array]:
    n = t.shape[0]
    eps = _eps(t.dtype)
    # Row numbers, for masks: slices of a length that varies could not be traced.
    at = lax.iota("int32", n)

    def rotated(step: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        """Clear t[m, m - 1] with a rotation of two neighbouring rows and columns."""
        t, z = state
        # From the last row up: each rotation clears one entry below the diagonal.
        m = n - 1 - step
        rows = lax.dynamic_slice_in_dim(t, m - 1, 2, 0)
        block = lax.dynamic_slice_in_dim(rows, m - 1, 2, 1)
        low = block[1, 0]
        # An entry that small is rounding: cleared without a rotation.
        needed = abs(low) > eps * (abs(block[0, 0]) + abs(block[1, 1]))
        # The Givens rotation that makes the 2 x 2 block triangular.
        mu = gnp.linalg.eigvals(block)[0] - block[1, 1]
        r = gnp.hypot(abs(mu), abs(low))
        r = lax.convert_element_type(gnp.where(r == 0, 1, r), t.dtype)
        c, s = mu / r, low / r
        g = gnp.array([[gnp.conj(c), s], [-s, c]])
        # The rows, to the right of the column; then the columns, down to the row; then the vectors.
        turned = gnp.where(at >= m - 1, product(g, rows), rows)
        new_t = lax.dynamic_update_slice_in_dim(t, turned, m - 1, 0)
        columns = lax.dynamic_slice_in_dim(new_t, m - 1, 2, 1)
        turned = gnp.where(at[:, None] <= m, product(columns, adjoint(g)), columns)
        new_t = lax.dynamic_update_slice_in_dim(new_t, turned, m - 1, 1)
        columns = product(lax.dynamic_slice_in_dim(z, m - 1, 2, 1), adjoint(g))
        new_z = lax.dynamic_update_slice_in_dim(z, columns, m - 1, 1)
        cleared = gnp.where(needed, new_t, t).at[m, m - 1].set(0)
        return cleared, gnp.where(needed, new_z, z)

    return lax.fori_loop(0, n - 1, rotated, (t, z)) if n > 1 else (t, z)


# ---- functions of triangular matrices, column by column ----


def _columns(t: Array, first: Array, right: Callable, shift: Callable) -> Array:
    """The upper triangular F with the diagonal `first`, whose columns above it solve (S_j) f = r_j.

    S_j is the result of `shift(F, j)` for the columns before j, r_j that of `right(F, j)`; rows
    from j on are excluded in both.
    """
    n = t.shape[0]
    at = lax.iota("int32", n)
    one = identity(n, t.dtype)

    def column(j: Any, f: Array) -> Array:
        # Only the leading j x j part is known: the rest is the identity, with zeros on the right.
        above = at < j
        system = gnp.where(above[:, None] & above, shift(f, j), one)
        # A zero on the diagonal (equal eigenvalues) skips the division.
        d = _diagonal(system)
        system = system + one * gnp.where(d == 0, 1, 0)
        r = gnp.where(above, right(f, j), t.dtype.type(0))
        x = lax.linalg.triangular_solve(system, r[:, None], left_side=True)[:, 0]
        return f.at[:, j].set(gnp.where(at == j, first[j], x))

    return lax.fori_loop(0, n, column, gnp.zeros_like(t)) if n else t


def _sqrt_of_triangle(t: Array) -> Array:
    roots = gnp.sqrt(_diagonal(t))
    one = identity(t.shape[0], t.dtype)
    # F F = T in column j: (F + f_jj) f = t_j.
    return _columns(t, roots, lambda f, j: t[:, j], lambda f, j: f + roots[j] * one)


def sqrtm(A: Any, blocksize: int = 1) -> Array:
    """The principal square root of a matrix, complex: (…, n, n) -> (…, n, n).

    A singular matrix may have no square root: divisions by zero are skipped.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> abs(scipy.linalg.sqrtm(gnp.array([[4., 0.], [0., 9.]])))
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if util.index(blocksize) > 1:
        raise NotImplementedError(
            f"Blocked version is not implemented: got {blocksize=}; the result is the same with 1."
        )
    (a,) = promoted_inexact("sqrtm", A)
    if a.ndim < 2:
        raise TypeError(f"Input 0 to schur must have rank at least 2, but got shape={a.shape}")
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"The input to schur must be a square matrix. Got shape {a.shape}.")
    a = lax.convert_element_type(a, dtypes.to_complex_dtype(a.dtype))
    return _over_batch(_sqrtm, a)


@custom_jvp
def _sqrtm(a: Array) -> Array:
    t, z = schur(a, output="complex")
    return product(product(z, _sqrt_of_triangle(t)), adjoint(z))


@_sqrtm.defjvp
def _sqrtm_jvp(primals, tangents):
    # X X = A, so X dX + dX X = dA.
    (a,), (da,) = primals, tangents
    root = _sqrtm(a)
    return root, _sylvester(root, root, da, _by_schur_forms, 0.0)


def funm(A: Any, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """A function of a matrix, given for numbers: (n, n) -> (n, n), complex.

    By Parlett's recurrence on the Schur form, which is inaccurate where eigenvalues are close
    together. disp: False gives an estimate of the relative error too.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> abs(scipy.linalg.funm(gnp.array([[2., 0.], [0., 3.]]), gnp.square))
    Array([[4., 0.],
           [0., 9.]], dtype=float32)
    """
    a = gnp.asarray(A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"expected square array_like input, got shape {a.shape}")
    # The real form shows exactly which eigenvalues are real, and so where `func` has a cut.
    t, z = schur(a)
    if dtypes.kind_of(t.dtype) != "c":
        t, z = rsf2csf(t, z)
    values = func(_diagonal(t))
    values = lax.convert_element_type(values, t.dtype)
    one = identity(t.shape[0], t.dtype)
    # F T = T F, read off in column j.
    f = _columns(
        t,
        values,
        lambda f, j: product(f, t[:, j]) - values[j] * t[:, j],
        lambda f, j: t - t[j, j] * one,
    )
    out = product(product(z, f), adjoint(z))
    if disp:
        return out
    eps = _eps(t.dtype)
    d = _diagonal(t)
    above = np.triu(np.ones(t.shape, bool), 1)
    # SciPy's estimate: close eigenvalues magnify errors.
    closest = gnp.where(above, abs(d[:, None] - d), abs(d[0])).min()
    spread = abs(gnp.where(above, t, 0)).sum(0).max()
    error = gnp.clip(eps / gnp.where(closest == 0, eps, closest) * spread, eps, 1)
    error = gnp.where(gnp.isfinite(out).all(), error, np.inf)
    return out, lax.convert_element_type(error, dtypes.to_floating_dtype(t.dtype))


# ---- Sylvester's equation ----


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """X with A X + X B = C: (…, m, m), (…, n, n), (…, m, n) -> (…, m, n).

    Where an eigenvalue of A plus one of B is smaller than `tol`, there is no unique X: NaN.

    Parameters
    ----------
    method :
        "schur" or "eigen": the form of A and B that is used.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.solve_sylvester(gnp.eye(2), gnp.eye(2), gnp.ones((2, 2)))
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    a, b, c = promoted_inexact("solve_sylvester", A, B, C)
    shapes = a.shape[-2:], b.shape[-2:], c.shape[-2:]
    square = all(len(s) == 2 for s in shapes) and a.shape[-2] == a.shape[-1]
    if not square or b.shape[-2] != b.shape[-1] or c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            f"Incompatible shapes for Sylvester equation:\nA: {a.shape}\nB: {b.shape}\nC: {c.shape}"
        )
    if method not in ("schur", "eigen"):
        raise ValueError(
            f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".'
        )
    solve = _by_schur_forms if method == "schur" else _by_eigenvectors
    return _over_batch(lambda a, b, c: _sylvester(a, b, c, solve, tol), a, b, c)


def _sylvester(a: Array, b: Array, c: Array, solve: Callable, tol: float) -> Array:
    """Linear in C, so its derivatives are solutions of such equations too."""
    return lax.custom_linear_solve(
        lambda x: product(a, x) + product(x, b),
        c,
        solve=lambda _, c: solve(a, b, c, tol),
        transpose_solve=lambda _, c: solve(a.T, b.T, c, tol),
    )


def _by_schur_forms(a: Array, b: Array, c: Array, tol: float) -> Array:
    (t, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    # With a = u T u^H and b = v S v^H: T Y + Y S = F, one column of Y after the other.
    f = product(product(adjoint(u), lax.convert_element_type(c, u.dtype)), v)
    one = identity(t.shape[0], t.dtype)

    def column(y: Array, j: Array) -> tuple[Array, None]:
        # Column j of T Y + Y S = F, where later columns of Y are still zero.
        r = f[:, j] - product(y, s[:, j])
        x = lax.linalg.triangular_solve(t + s[j, j] * one, r[:, None], left_side=True)[:, 0]
        return y.at[:, j].set(x), None

    y = lax.scan(column, gnp.zeros_like(f), gnp.arange(f.shape[1]))[0] if f.size else f
    x = product(product(u, y), adjoint(v))
    return _solution(x, _diagonal(t)[:, None] + _diagonal(s), a, tol)


def _by_eigenvectors(a: Array, b: Array, c: Array, tol: float) -> Array:
    (w, u), (s, v) = gnp.linalg.eig(a), gnp.linalg.eig(b)
    # In the eigenvectors' basis the equation is a division by sums of eigenvalues.
    sums = w[:, None] + s
    # In the basis of eigenvectors: C becomes u^-1 C v.
    f = product(gnp.linalg.solve(u, lax.convert_element_type(c, u.dtype)), v)
    return _solution(gnp.linalg.solve(v.T, product(u, f / sums).T).T, sums, a, tol)


def _solution(x: Array, sums: Array, a: Array, tol: float) -> Array:
    """x, real if the equation is; NaN if a vanishing sum of eigenvalues shows that there is no
    solution.
    """
    x = x if is_complex(a) else lax.real(x)
    return gnp.where((abs(sums) < tol).any(), x.dtype.type(np.nan), x)


# ---- the polar form ----


def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """U with orthonormal columns (rows) and a positive semidefinite P with a = U P ("right") or a =
    P U ("left").

    (…, m, n) -> (…, m, n) and (…, n, n), or (…, m, m). `method` "qdwh" takes a tall matrix for the
    right and a wide one for the left side, "svd" any. Both use the singular value decomposition,
    unless `eps` or `max_iterations` request the QDWH iteration, for one matrix only.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> u, p = scipy.linalg.polar(gnp.array([[0., -2.], [3., 0.]]))
    >>> gnp.round(p, 3)
    Array([[3., 0.],
           [0., 2.]], dtype=float32)
    """
    a = gnp.asarray(a)
    if a.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    if dtypes.kind_of(a.dtype) in "biu":
        raise ValueError(f"data type {a.dtype} not inexact: convert the matrix to floats first")
    m, n = a.shape[-2:]
    if method == "qdwh" and (m < n if side == "right" else m > n):
        raise NotImplementedError(
            "method='qdwh' only supports mxn matrices with m >= n where side='right' and m <= n "
            f"where side='left', got {a.shape} with {side=}: take method='svd'"
        )
    steps = {"eps": eps, "max_iterations": max_iterations}
    if any(x is not None for x in steps.values()):
        if method == "svd":
            raise ValueError(f"polar: method='svd' has no steps to limit, got {steps}")
        parts = lambda x: lax.linalg.qdwh(x, **steps)[:2]
    else:
        parts = _polar
    # a = P U is a^H = U^H P in the other form.
    if side == "left":
        u, p = parts(adjoint(a))
        return adjoint(u), p
    return parts(a)


@custom_jvp
def _polar(a: Array) -> tuple[Array, Array]:
    # a = (u vh)(vh^H s vh).
    u, s, vh = gnp.linalg.svd(a, full_matrices=False)
    weights = lax.convert_element_type(s, a.dtype)[..., :, None]
    return product(u, vh), product(adjoint(vh), weights * vh)


@_polar.defjvp
def _polar_jvp(primals, tangents):
    # A = U P gives U^H dA = W P + dP with W = U^H dU skew, so P W + W P = U^H dA - dA^H U. In the
    # basis of P's eigenvectors that is a division by sums of singular values: equal ones are no
    # problem.
    (a,), (da,) = primals, tangents
    u, p = _polar(a)
    s, v = gnp.linalg.eigh(p)
    turned = product(adjoint(u), da)
    skew = turned - adjoint(turned)
    sums = s[..., :, None] + s[..., None, :]
    inner = product(product(adjoint(v), skew), v)
    # Where both singular values are 0 the polar form is not unique: no derivative is taken there.
    safe = gnp.where(sums > 0, sums, 1)
    w = gnp.where(sums > 0, inner / lax.convert_element_type(safe, a.dtype), 0)
    w = product(product(v, w), adjoint(v))
    dp = turned - product(w, p)
    dp = (dp + adjoint(dp)) / 2
    # The component outside the columns of U: (I - U U^H) dA P^-1.
    rest = da - product(u, turned)
    inverse = gnp.where(s > 0, 1 / gnp.where(s > 0, s, 1), 0)
    rest = product(
        product(rest, v) * lax.convert_element_type(inverse, a.dtype)[..., None, :], adjoint(v)
    )
    if a.shape[-2] == a.shape[-1]:
        return (u, p), (product(u, w), dp)
    return (u, p), (product(u, w) + rest, dp)
