"""scipy.linalg: SciPy judges the values; derivatives agree with differences; jit and vmap agree."""

import numpy as np
import pytest
import scipy.linalg as reference

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.scipy import linalg as sl
from gpuarray.test_util import check_grads

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def doubles():
    with ga.enable_x64(True):
        yield


def general(*shape, dtype="f8"):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype == "c16" else x).astype(dtype)


def positive(n, dtype="f8"):
    x = general(n, n, dtype=dtype)
    return x @ x.conj().T + n * np.eye(n)


def close(found, expected, tol=1e-9):
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            close(f, e, tol)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


V, W = general(5), general(3)
STRUCTURED = [
    ("block_diag", (general(2, 3), general(1, 1), 4.0)),
    ("toeplitz", (V,)),
    ("toeplitz", (V, W)),
    ("toeplitz", (W, V)),
    ("toeplitz", (general(4, dtype="c16"),)),
    ("hankel", (V,)),
    ("hankel", (V, W)),
    ("hankel", (W, V)),
    ("circulant", (V,)),
    ("companion", (V,)),
    *[("convolution_matrix", (x, n, m)) for x, n in ((V, 3), (W, 5), (V, 5), (V, 1), (W, 6))
      for m in ("full", "same", "valid")],
    ("fiedler", (V,)),
    *[("fiedler_companion", (general(n),)) for n in (2, 3, 4, 5, 6, 7)],
    ("leslie", (V, general(4))),
    *[("dft", (n, s)) for n in (1, 3, 8) for s in (None, "sqrtn", "n")],
    *[("hadamard", (n,)) for n in (1, 2, 8)],
    *[("helmert", (n, f)) for n in (2, 5) for f in (True, False)],
    *[("hilbert", (n,)) for n in (1, 5)],
    *[("invhilbert", (n,)) for n in (1, 2, 6)],
    *[(f, (n, k)) for f in ("pascal", "invpascal") for n in (1, 5)
      for k in ("symmetric", "lower", "upper")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), STRUCTURED, ids=lambda x: x if type(x) is str else "")
def test_structured_matrices(name, args):
    close(getattr(sl, name)(*args), getattr(reference, name)(*args))


@pytest.mark.parametrize(
    "name", ["toeplitz", "hankel", "circulant", "companion", "fiedler_companion"]
)
def test_structured_matrices_have_batch_axes(name):
    stack = general(2, 4)
    expected = np.stack([getattr(reference, name)(row) for row in stack])
    close(getattr(sl, name)(stack), expected)


def test_structured_matrices_of_nothing():
    assert sl.circulant(gnp.zeros(0)).shape == (0, 0)
    assert sl.toeplitz(gnp.zeros(0)).shape == (0, 0)
    assert sl.pascal(0).shape == sl.dft(0).shape == (0, 0)


A, B = general(4, 4), general(3, 3)
C, S = general(4, 4, dtype="c16"), positive(4)
H = positive(3, "c16")
SAME_AS_SCIPY = [
    ("cholesky", (S,)), ("cholesky", (H, True)),
    ("cho_solve", ((np.linalg.cholesky(S), True), V[:4])),
    ("cho_solve", ((np.linalg.cholesky(H).conj().T, False), general(3, 2))),
    ("det", (A,)), ("inv", (C,)),
    ("lu", (A,)), ("lu", (C,)), ("lu", (A[:, :2],)), ("lu", (A[:2], True)),
    ("lu_factor", (A,)),
    *[("lu_solve", (reference.lu_factor(C), general(4, 2), t)) for t in (0, 1, 2)],
    *[("solve_triangular", (C, V[:4], t)) for t in (0, 1, 2, "N", "T", "C")],
    ("solve_triangular", (A, V[:4], 0, True, True)),
    ("solve_triangular", (np.stack([A, A + 1]), general(4, 3))),
    ("solve", (A, V[:4])), ("solve", (S, general(4, 2))),
    ("solve_sylvester", (A, B, general(4, 3))), ("solve_sylvester", (C, H, general(4, 3))),
    ("expm", (A,)), ("expm", (C,)), ("expm", (A * 30,)), ("expm", (A * 1e-9,)),
    ("expm_frechet", (A, general(4, 4))),
    ("funm", (S, np.exp)), ("funm", (B - 3 * np.eye(3), lambda x: x**0.3)),
    ("sqrtm", (S,)), ("sqrtm", (C,)), ("polar", (A,)), ("polar", (C,)),
    ("polar", (A[:, :2],)), ("polar", (A[:2], "left")),
    ("hessenberg", (A,)),
    ("svd", (A, False, False)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), SAME_AS_SCIPY, ids=lambda x: x if type(x) is str else "")
def test_values_are_scipys(name, args):
    expected = getattr(reference, name)(*args)
    if name == "funm":
        args = (args[0], gnp.exp if args[1] is np.exp else args[1])
    close(getattr(sl, name)(*args), expected, 1e-7 if name in ("funm", "expm") else 1e-9)


def test_solve_triangular_takes_a_vector_for_each_matrix():
    a, b = np.stack([A, A + np.eye(4)]), general(2, 4)
    expected = np.stack([reference.solve_triangular(*pair) for pair in zip(a, b, strict=True)])
    close(sl.solve_triangular(a, b), expected)


@pytest.mark.parametrize("a", [A, C, A[:, :2], A[:2]], ids=["real", "complex", "tall", "wide"])
@pytest.mark.parametrize("mode", ["full", "economic"])
def test_qr_gives_back_what_it_factors(a, mode):
    q, r = sl.qr(a, mode=mode)
    close(np.asarray(q) @ np.asarray(r), a)
    assert q.shape == reference.qr(a, mode=mode)[0].shape
    (alone,) = sl.qr(a, mode="r")
    assert alone.shape == a.shape
    q, r, p = map(np.asarray, sl.qr(a, mode=mode, pivoting=True))
    close(q @ r, a[:, p])


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("a", [A, C, general(4, 2)], ids=["real", "complex", "tall"])
def test_qr_multiply(a, conjugate):
    k = min(a.shape)
    for mode, c in [("right", general(3, 4)), ("right", V[:4]), ("left", general(k, 3)),
                    ("left", V[:k])]:  # fmt: skip
        expected = reference.qr_multiply(a, c, mode, conjugate=conjugate)
        found = sl.qr_multiply(a, c, mode, conjugate=conjugate)
        # Factors are unique up to a phase for each column: compare what is free of it.
        close(abs(np.asarray(found[1])), abs(expected[1]))
        if mode == "right":
            close(abs(np.asarray(found[0])), abs(expected[0]))
        assert found[0].shape == expected[0].shape


def test_generalised_eigenvalues():
    a, b = general(4, 4), positive(4)
    a = a + a.T
    for kind in (1, 2, 3):
        w, v = map(np.asarray, sl.eigh(a, b, type=kind))
        close(w, reference.eigh(a, b, type=kind, eigvals_only=True))
        left, right = {1: (a @ v, b @ v), 2: (a @ b @ v, v), 3: (b @ a @ v, v)}[kind]
        close(left, right * w, 1e-8)
        close(sl.eigh(a, b, type=kind, eigvals_only=True), w)
    with pytest.raises(NotImplementedError, match="Only the type=1 case"):
        sl.eigh(a, type=2)


@pytest.mark.parametrize("a", [A, C], ids=["real", "complex"])
def test_schur_and_hessenberg_forms(a):
    for t, z in (sl.schur(a), sl.schur(a, "complex"), sl.rsf2csf(*sl.schur(a)),
                 sl.hessenberg(a, calc_q=True)):  # fmt: skip
        t, z = np.asarray(t), np.asarray(z)
        close(z @ t @ z.conj().T, a)
        close(z.conj().T @ z, np.eye(4))
        assert np.tril(t, -2).any() == False  # noqa: E712
    t, _ = sl.rsf2csf(*sl.schur(a))
    close(np.tril(t, -1), np.zeros((4, 4)))


def test_rsf2csf_is_scipys():
    t, z = reference.schur(general(6, 6))
    close(sl.rsf2csf(t, z), reference.rsf2csf(t, z), 1e-8)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_eigh_tridiagonal(n):
    d, e = general(n), general(n - 1)
    expected = reference.eigh_tridiagonal(d, e, eigvals_only=True)
    close(sl.eigh_tridiagonal(d, e, eigvals_only=True), expected)
    w, v = map(np.asarray, sl.eigh_tridiagonal(d, e))
    close(w, expected)
    close((np.diag(d) + np.diag(e, 1) + np.diag(e, -1)) @ v, v * w)
    some = sl.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(0, n // 2))
    close(some, expected[: n // 2 + 1])
    rough = sl.eigh_tridiagonal(d, e, eigvals_only=True, tol=1e-2)
    close(rough, expected, 1e-2)


def test_eigh_tridiagonal_of_hard_matrices():
    for d, e in [(np.zeros(6), np.zeros(5)), (np.ones(6), np.zeros(5)), (np.zeros(5), np.ones(4)),
                 (np.array([1e10, 1.0, 1e-10]), np.array([1.0, 1e-3]))]:  # fmt: skip
        expected = reference.eigh_tridiagonal(d, e, eigvals_only=True)
        found = np.asarray(sl.eigh_tridiagonal(d, e, eigvals_only=True))
        np.testing.assert_allclose(found, expected, atol=1e-14 * max(1, abs(d).max()))
    d, e = general(5).astype("c16"), general(4, dtype="c16")
    full = np.diag(d) + np.diag(e, -1) + np.diag(e.conj(), 1)
    close(sl.eigh_tridiagonal(d, e, eigvals_only=True), np.linalg.eigvalsh(full))


def test_sqrtm_of_singular_matrices():
    close(sl.sqrtm(gnp.zeros((2, 2))), np.zeros((2, 2)))
    a = np.diag([4.0, 0.0, 9.0])
    close(sl.sqrtm(a), np.diag([2.0, 0.0, 3.0]).astype(complex))


def test_what_has_no_answer_is_nan():
    for method in ("schur", "eigen"):
        x = sl.solve_sylvester(gnp.eye(2), -gnp.eye(2), gnp.ones((2, 2)), method=method)
        assert np.isnan(x).all()
    assert np.isnan(sl.expm(gnp.ones((2, 2)) * 1e8)).all()
    assert np.isfinite(sl.expm(gnp.ones((2, 2)) * -4, max_squarings=3)).all()


def test_funm_says_how_wrong_it_may_be():
    value, error = sl.funm(S, gnp.sin, disp=False)
    expected, scipys = reference.funm(S, np.sin, disp=False)
    close(value, expected, 1e-7)
    assert float(error) == pytest.approx(scipys, rel=1e2) and error.dtype == np.float64
    assert float(sl.funm(np.eye(3), gnp.exp, disp=False)[1]) < 1e-15


# Each scalar function, its derivatives of first and second order against differences.
DIFFERENTIABLE = {
    "expm": (sl.expm, (A / 2,)),
    "expm large": (sl.expm, (A * 3,)),
    "expm upper": (lambda a: sl.expm(gnp.triu(a), upper_triangular=True), (A,)),
    "sqrtm": (lambda a: gnp.real(sl.sqrtm(a)), (S,)),
    "solve_sylvester": (sl.solve_sylvester, (A + 4 * np.eye(4), B + 4 * np.eye(3), general(4, 3))),
    "by eigenvectors": (
        lambda a, b, c: sl.solve_sylvester(a, b, c, method="eigen"),
        (S, positive(3), general(4, 3)),
    ),
    "toeplitz": (sl.toeplitz, (V, W)),
    "companion": (sl.companion, (V,)),
    "fiedler_companion": (sl.fiedler_companion, (V,)),
    "block_diag": (sl.block_diag, (A, B)),
    "cholesky": (lambda a: sl.cholesky(a + a.T), (S,)),
    "cho_solve": (lambda a, b: sl.cho_solve(sl.cho_factor(a @ a.T + S), b), (A, V[:4])),
    "lu": (lambda a: sl.lu(a)[1:], (A,)),
    "lu_solve": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b, trans=1), (A, V[:4])),
    "solve_triangular": (lambda a, b: sl.solve_triangular(a, b, "T"), (A, V[:4])),
    "solve": (lambda a, b: sl.solve(a @ a.T + gnp.eye(4), b, assume_a="pos"), (A, V[:4])),
    "eigh_tridiagonal": (lambda d, e: sl.eigh_tridiagonal(d, e, eigvals_only=True), (V, V[:4])),
    "eigh": (lambda a: sl.eigh(a @ a.T, S, eigvals_only=True), (A,)),
}  # fmt: skip


@pytest.mark.parametrize("what", DIFFERENTIABLE)
def test_derivatives(what):
    f, args = DIFFERENTIABLE[what]
    check_grads(f, args, order=2, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("a", [A, A[:, :2]], ids=["square", "tall"])
def test_derivatives_of_the_polar_form(a):
    check_grads(sl.polar, (a,), order=1, atol=1e-4, rtol=1e-4)


def test_polar_form_of_a_rotation_has_a_derivative():
    q = reference.qr(A)[0]
    check_grads(lambda a: sl.polar(a)[0], (q,), order=1, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (sl.expm, (np.stack([A, 9 * A, A / 9]),)),
        (sl.sqrtm, (np.stack([S, 2 * S]),)),
        (sl.solve_sylvester, (np.stack([A, C.real]), B, general(2, 4, 3))),
        (sl.polar, (general(2, 4, 3),)),
        (sl.rsf2csf, tuple(map(np.asarray, sl.schur(general(2, 4, 4).astype("f4"))))),
        (lambda a: sl.hessenberg(a, calc_q=True), (general(2, 4, 4),)),
        (lambda a: sl.lu(a), (general(2, 4, 3),)),
    ],
    ids=["expm", "sqrtm", "sylvester", "polar", "rsf2csf", "hessenberg", "lu"],
)
def test_batches_are_loops_and_jit_changes_nothing(f, args):
    axes = [0 if np.ndim(x) == 3 else None for x in args]
    found = f(*args)
    for i in range(2):
        one = f(*(x if axis is None else x[i] for x, axis in zip(args, axes, strict=True)))
        several = isinstance(one, tuple)
        close(one, tuple(np.asarray(x[i]) for x in found) if several else found[i], 1e-5)
    by_vmap = ga.vmap(f, in_axes=tuple(axes))(*args)
    for other in (by_vmap, ga.jit(f)(*args)):
        close(other, tuple(map(np.asarray, found)) if isinstance(found, tuple) else found, 1e-5)


ERRORS = [
    (ValueError, "must have at most 2 dimensions", lambda: sl.block_diag(gnp.ones((2, 2, 2)))),
    (ValueError, "at least 2; got shape", lambda: sl.companion(gnp.ones(1))),
    (ValueError, "n must be a positive power of 2", lambda: sl.hadamard(6)),
    (ValueError, "mode must be one of", lambda: sl.convolution_matrix(gnp.ones(3), 2, "odd")),
    (ValueError, "must be a complex", lambda: sl.dft(3, dtype="float32")),
    (ValueError, "square matrix", lambda: sl.cholesky(gnp.ones((2, 3)))),
    (ValueError, "inconsistent size", lambda: sl.cho_solve((gnp.eye(3), True), gnp.ones(2))),
    (ValueError, "Invalid 'trans' value", lambda: sl.solve_triangular(gnp.eye(2), gnp.ones(2), 7)),
    (ValueError, "assume_a to be one of", lambda: sl.solve(A, V[:4], assume_a="odd")),
    (ValueError, "Unsupported QR", lambda: sl.qr(A, mode="raw")),
    (ValueError, "not compatible for c @ Q", lambda: sl.qr_multiply(A, B)),
    (ValueError, "batched.* square matrix", lambda: sl.expm(gnp.ones((2, 3)))),
    (TypeError, "is not supported", lambda: sl.expm(gnp.eye(2, dtype="float16"))),
    (ValueError, "same shape", lambda: sl.expm_frechet(A, B)),
    (ValueError, "Incompatible shapes", lambda: sl.solve_sylvester(A, B, A)),
    (ValueError, "Unrecognized method", lambda: sl.solve_sylvester(A, A, A, method="odd")),
    (ValueError, "either 'right' or 'left'", lambda: sl.polar(A, "up")),
    (NotImplementedError, "method='svd'", lambda: sl.polar(A[:2])),
    (TypeError, "same dtype", lambda: sl.eigh_tridiagonal(V, V[:4].astype("f4"))),
    (ValueError, "empty index range",
     lambda: sl.eigh_tridiagonal(V, V[:4], select="i", select_range=(2, 1))),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "call"), ERRORS, ids=[w for _, w, _ in ERRORS])
def test_misuse_is_an_error(error, words, call):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("count", [2, 3])
def test_a_vector_for_each_matrix_of_a_stack(count):
    """Whichever way the factors were made; with as many vectors as elements, too."""
    stack = np.stack([S[:3, :3] + i * np.eye(3, dtype=S.dtype) for i in range(count)])
    right = np.arange(count * 3, dtype=S.dtype).reshape(count, 3)
    wanted = np.linalg.solve(stack, right[..., None])[..., 0]
    low = np.tril(stack)
    for found in (
        sl.cho_solve(sl.cho_factor(stack), right),
        sl.lu_solve(sl.lu_factor(stack), right),
        sl.solve(stack, right, assume_a="pos"),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    wanted = np.linalg.solve(low, right[..., None])[..., 0]
    found = sl.solve_triangular(low, right, lower=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
