"""Products, einsum, linalg, fft and polynomials of the numpy namespace, against NumPy."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors

fft = importlib.import_module("gpuarray.numpy.fft")
linalg = importlib.import_module("gpuarray.numpy.linalg")

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


A, B, C = normal(2, 3), normal(3, 4), normal(4, 2)
X = normal(2, 3, 4)
S = normal(3, 3) + 3 * np.eye(3, dtype=np.float32)
SS = normal(5, 4, 4) + 4 * np.eye(4, dtype=np.float32)
H = (S + S.T) / 2
P = S @ S.T
U, V = normal(3), normal(3)
Z = (normal(3) + 1j * normal(3)).astype(np.complex64)
K = np.arange(6, dtype=np.int32).reshape(2, 3)


def close(got, want, tol=2e-5):
    """Equal shapes and nearly equal values; sequences element by element."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            close(g, w, tol)
        return
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tol, atol=tol)


class Numpy:
    """NumPy, with its linalg and fft where the tables look for them."""

    linalg, fft = np.linalg, np.fft

    def __getattr__(self, name):
        return getattr(np, name)


class Ours:
    """gpuarray.numpy, likewise."""

    linalg, fft = linalg, fft

    def __getattr__(self, name):
        return getattr(gnp, name)


CALLS = {
    "dot": lambda xp: [
        xp.dot(A, B),
        xp.dot(U, V),
        xp.dot(X, normal4),
        xp.dot(2.0, A),
        xp.dot(K, K.T),
    ],
    "dot ranks": lambda xp: xp.dot(A, X.transpose(0, 1, 2)[:, :, :2]),
    "vdot": lambda xp: [xp.vdot(A, A + 1), xp.vdot(Z, 1j * Z)],
    "inner": lambda xp: [xp.inner(A, A), xp.inner(A, U), xp.inner(np.float32(2), U)],
    "outer": lambda xp: [xp.outer(U, A), xp.outer(K, U)],
    "matmul": lambda xp: [xp.matmul(A, B), xp.matmul(A, U), xp.matmul(U, B), xp.matmul(U, V)],
    "matmul batch": lambda xp: xp.matmul(X, X.transpose(0, 2, 1)),
    "matmul left": lambda xp: xp.matmul(S, X),
    "matmul right": lambda xp: xp.matmul(X, C),
    "matmul vector": lambda xp: [xp.matmul(X, normal4), xp.matmul(U, X)],
    "matmul spread": lambda xp: xp.matmul(normal5[:, None], X[None, 0:1]),
    "matmul ones": lambda xp: xp.matmul(X[:1], X.transpose(0, 2, 1)),
    "matmul ints": lambda xp: xp.matmul(K, K.T),
    "matmul bools": lambda xp: xp.matmul(K > 2, K.T > 3),
    "matvec": lambda xp: [xp.matvec(A, U), xp.matvec(X, normal4), xp.matvec(X, X[0, 0])],
    "vecmat": lambda xp: [xp.vecmat(U, B), xp.vecmat(Z, S), xp.vecmat(A, X[:, :, :3])],
    "vecdot": lambda xp: [xp.vecdot(A, U), xp.vecdot(X, X[:1], axis=1), xp.vecdot(Z, Z)],
    "tensordot": lambda xp: [xp.tensordot(A, B, 1), xp.tensordot(A, A, 2), xp.tensordot(U, V, 0)],
    "tensordot axes": lambda xp: xp.tensordot(X, X, ((0, 1), (0, 1))),
    "tensordot ints": lambda xp: xp.tensordot(A, B, (1, 0)),
    "tensordot negative": lambda xp: xp.tensordot(X, B, ((-1, 1), (-1, 0))),
    "kron": lambda xp: [xp.kron(A, B), xp.kron(U, A), xp.kron(np.float32(2), A)],
    "cross": lambda xp: [xp.cross(U, V), xp.cross(S, U), xp.cross(S, S.T, axis=0)],
    "cross axes": lambda xp: xp.cross(S, S, axisa=0, axisb=1, axisc=0),
    "diagonal": lambda xp: [xp.diagonal(B, k) for k in (-3, -2, -1, 0, 1, 3, 5)],
    "diagonal axes": lambda xp: xp.diagonal(X, 1, 2, 0),
    "trace": lambda xp: [xp.trace(S, 1), xp.trace(X, axis1=1, axis2=2), xp.trace(K)],
    "det": lambda xp: [xp.linalg.det(a) for a in (S, SS, S[:2, :2], S[:1, :1], S[:0, :0])],
    "slogdet": lambda xp: [tuple(xp.linalg.slogdet(a)) for a in (S, SS, -S, S + 1j)],
    "slogdet singular": lambda xp: tuple(xp.linalg.slogdet(np.ones((2, 2), np.float32))),
    "inv": lambda xp: [xp.linalg.inv(S), xp.linalg.inv(SS), xp.linalg.inv(S + 1j)],
    "solve": lambda xp: [xp.linalg.solve(S, U), xp.linalg.solve(S, B), xp.linalg.solve(SS, C)],
    "solve ints": lambda xp: xp.linalg.solve(np.array([[2, 1], [1, 3]]), np.array([1, 2])),
    "pinv": lambda xp: [xp.linalg.pinv(A), xp.linalg.pinv(X)],
    "pinv hermitian": lambda xp: xp.linalg.pinv(H, hermitian=True),
    "pinv cut": lambda xp: xp.linalg.pinv(np.diag(np.float32([1, 1e-3])), rcond=0.1),
    "lstsq": lambda xp: xp.linalg.lstsq(B.T, normal4, rcond=None)[0],
    "lstsq columns": lambda xp: xp.linalg.lstsq(B.T, C, rcond=None),
    "cholesky": lambda xp: [xp.linalg.cholesky(P), xp.linalg.cholesky(P, upper=True)],
    "eigvalsh": lambda xp: [xp.linalg.eigvalsh(H), xp.linalg.eigvalsh(H, UPLO="U")],
    "svdvals": lambda xp: [xp.linalg.svdvals(A), xp.linalg.svd(X, compute_uv=False)],
    "svd hermitian": lambda xp: xp.linalg.svd(H, compute_uv=False, hermitian=True),
    "matrix_power": lambda xp: [xp.linalg.matrix_power(S, n) for n in (0, 1, 2, 5, -1, -2)],
    "matrix_rank": lambda xp: [xp.linalg.matrix_rank(a) for a in (A, P, np.ones((3, 3)), U)],
    "matrix_rank hermitian": lambda xp: xp.linalg.matrix_rank(H, hermitian=True),
    "multi_dot": lambda xp: [xp.linalg.multi_dot([A, B, C]), xp.linalg.multi_dot([U, B, C, V[:2]])],
    "tensorinv": lambda xp: xp.linalg.tensorinv(P4),
    "tensorsolve": lambda xp: xp.linalg.tensorsolve(P4, normal(2, 2) * 0 + 1),
    "norm": lambda xp: [xp.linalg.norm(X), xp.linalg.norm(Z), xp.linalg.norm(K)],
    "norm vectors": lambda xp: [
        xp.linalg.norm(A, o, axis=1) for o in (None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf)
    ],
    "norm matrices": lambda xp: [
        xp.linalg.norm(X, o, axis=(0, 2)) for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ],
    "norm swapped": lambda xp: [xp.linalg.norm(X, o, axis=(2, 0)) for o in (1, -1, np.inf, 2)],
    "norm keepdims": lambda xp: [
        xp.linalg.norm(X, o, axis=(0, 2), keepdims=True) for o in (None, 1, np.inf, "nuc")
    ],
    "matrix_norm": lambda xp: xp.linalg.matrix_norm(X, ord=1, keepdims=True),
    "vector_norm": lambda xp: [
        xp.linalg.vector_norm(X, axis=(0, 1), ord=3),
        xp.linalg.vector_norm(X),
    ],
    "cond": lambda xp: [xp.linalg.cond(S, p) for p in (None, 2, -2, 1, "fro", np.inf)],
    "linalg products": lambda xp: [
        xp.linalg.matmul(A, B),
        xp.linalg.outer(U, V),
        xp.linalg.vecdot(A, U),
        xp.linalg.tensordot(A, B, axes=1),
        xp.linalg.cross(U, V),
        xp.linalg.diagonal(X, offset=1),
        xp.linalg.trace(X),
        xp.linalg.matrix_transpose(X),
    ],
    "fft": lambda xp: [xp.fft.fft(X), xp.fft.ifft(Z), xp.fft.fft(K)],
    "fft length": lambda xp: [xp.fft.fft(U, n) for n in (2, 3, 7)],
    "fft axis": lambda xp: xp.fft.fft(X, axis=1),
    "fft norm": lambda xp: [f(Z, norm=n) for f in (xp.fft.fft, xp.fft.ifft) for n in NORMS],
    "rfft": lambda xp: [xp.fft.rfft(X), xp.fft.rfft(U, 5), xp.fft.rfft(X, axis=0, norm="ortho")],
    "irfft": lambda xp: [xp.fft.irfft(Z), xp.fft.irfft(Z, 5), xp.fft.irfft(Z, norm="forward")],
    "hfft": lambda xp: [xp.fft.hfft(Z, norm=n) for n in NORMS],
    "ihfft": lambda xp: [xp.fft.ihfft(U, norm=n) for n in NORMS],
    "fft2": lambda xp: [
        xp.fft.fft2(X),
        xp.fft.ifft2(X, s=(2, 5)),
        xp.fft.rfft2(X),
        xp.fft.irfft2(X),
    ],
    "fftn": lambda xp: [
        xp.fft.fftn(X),
        xp.fft.ifftn(X, norm="ortho"),
        xp.fft.fftn(X, s=(2, 2), axes=(1, 2)),
    ],
    "fftn axes": lambda xp: [xp.fft.fftn(X, axes=(2, 0)), xp.fft.rfftn(X, axes=(2, 0))],
    "rfftn": lambda xp: [
        xp.fft.rfftn(X),
        xp.fft.irfftn(X),
        xp.fft.irfftn(X, s=(2, 3, 5), axes=(0, 1, 2)),
    ],
    "many axes": lambda xp: [
        xp.fft.fftn(D5),
        xp.fft.rfftn(D5),
        xp.fft.irfftn(D5),
        xp.fft.ifftn(D5),
    ],
    "frequencies": lambda xp: [xp.fft.fftfreq(5), xp.fft.fftfreq(4, 0.5), xp.fft.rfftfreq(5, 2.0)],
    "shifts": lambda xp: [xp.fft.fftshift(X), xp.fft.ifftshift(X), xp.fft.fftshift(X, axes=1)],
    "poly": lambda xp: [xp.poly(U), xp.polyadd(U, A[0, :2]), xp.polysub(A[0, :1], U)],
    "polymul": lambda xp: [xp.polymul(U, V), xp.polymul(U[:1], V)],
    "polyval": lambda xp: [xp.polyval(U, V), xp.polyval(U, np.float32(2)), xp.polyval(K[0], K)],
    "polyder": lambda xp: [xp.polyder(U, n) for n in (0, 1, 2, 5)],
    "polyint": lambda xp: [
        xp.polyint(U, 2),
        xp.polyint(U, 2, k=np.float32([1, 2])),
        xp.polyint(U, 0),
    ],
    "polyfit": lambda xp: xp.polyfit(normal4, C[:, 0], 2),
    "polyfit weights": lambda xp: xp.polyfit(normal4, C, 1, w=np.abs(normal4) + 1),
    "polyfit full": lambda xp: xp.polyfit(normal4, C[:, 0], 1, full=True)[1:4],
    "polyfit cov": lambda xp: xp.polyfit(normal4, C[:, 0], 1, cov="unscaled")[1],
}
NORMS = (None, "backward", "ortho", "forward")
normal4, normal5, D5 = normal(4), normal(5, 2, 3), normal(2, 3, 2, 3, 4)
P4 = (normal(4, 4) + 4 * np.eye(4, dtype=np.float32)).reshape(2, 2, 2, 2)


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name):
    call = CALLS[name]
    # Values that come from a solver are told apart from wrong ones, not from rounding.
    loose = ("lstsq", "polyfit", "pinv", "cond", "solve", "inv", "matrix_power", "norm", "tensor")
    tol = 2e-3 if name.startswith(loose) else 2e-5
    close(call(Ours()), call(Numpy()), tol)


EINSUMS = {
    "ij,jk->ik": (A, B),
    "ij,jk": (A, B),
    "ij,kj->ki": (A, S),
    "ij->ji": (A,),
    "ij->": (A,),
    "ij->j": (A,),
    "ii->i": (S,),
    "ii": (S,),
    "iji->j": (X[:, :, :2],),
    "i,j->ij": (U, V),
    "i,i": (U, V),
    "ij,ij->ij": (A, A),
    "ij,i->j": (A, U[:2]),
    "bij,bjk->bik": (X, X.transpose(0, 2, 1)),
    "bij,bkj->kbi": (X, X),
    "...ij,...j->...i": (X, X[:, 0]),
    "...ij,jk": (X, C),
    "i...->...": (X,),
    "ij,jk,kl->il": (A, B, C),
    "ij,jk,kl": (A, B, C),
    "ij,jk,ki->": (A, B, C),
    "a,b,c->abc": (U, V, U),
    "ab,ab,ab->ab": (A, A, A),
    "aab,b->a": (X[:, :2, :3], U),
    "ij,j->i": (A, U[:1]),
    ",ij->ij": (np.float32(3), A),
    "ijk,ilm,njm,nlk->": (X[:, :2, :2],) * 4,
    " i j , j -> i ": (A, U),
}


@pytest.mark.parametrize("spec", EINSUMS)
def test_einsum(spec):
    operands = EINSUMS[spec]
    if spec == "ij,j->i" and operands[1].shape == (1,):
        want = A.sum(1) * operands[1]  # an axis of length 1 stretches
    else:
        want = np.einsum(spec, *operands)
    close(gnp.einsum(spec, *operands), want)
    close(gnp.einsum(spec, *operands, optimize=False), want)
    close(ga.jit(lambda *xs: gnp.einsum(spec, *xs))(*operands), want)


def test_einsum_with_index_lists():
    close(gnp.einsum(A, [0, 1], B, [1, 2], [2, 0]), np.einsum(A, [0, 1], B, [1, 2], [2, 0]))
    close(gnp.einsum(A, [7, 1], B, [1, 3]), (A @ B).T)
    close(gnp.einsum(X, [..., 0], normal4, [0]), X @ normal4)
    assert gnp.einsum_path("ij,jk,kl->il", A, B, C)[0] == np.einsum_path("ij,jk,kl", A, B, C)[0][1:]


def test_factorisations_multiply_back():
    q, r = linalg.qr(X)
    close(q @ r, X)
    close(np.asarray(q).swapaxes(-1, -2) @ np.asarray(q), np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert linalg.qr(A.T, mode="complete").Q.shape == (3, 3)
    assert linalg.qr(A.T, mode="full").Q.shape == linalg.qr(A.T).Q.shape  # its old name
    close(np.abs(linalg.qr(A, mode="r")), np.abs(np.linalg.qr(A, mode="r")))
    u, s, vh = linalg.svd(X, full_matrices=False)
    close(u * s[:, None] @ vh, X)
    u, s, vh = linalg.svd(H - 2 * np.eye(3, dtype=np.float32), hermitian=True)
    close(u * s @ vh, H - 2 * np.eye(3))
    assert linalg.svd(A).Vh.shape == (3, 3)
    w, v = linalg.eigh(P)
    close(P @ v, v * w, 1e-4)
    result = linalg.eig(S)
    close(
        S.astype(np.complex64) @ result.eigenvectors, result.eigenvectors * result.eigenvalues, 1e-4
    )
    close(np.sort(linalg.eigvals(P).real), np.sort(np.linalg.eigvals(P)), 1e-4)
    close(np.sort(gnp.roots(np.float32([1, -6, 11, -6])).real), [1, 2, 3], 1e-3)
    sign, logdet = linalg.slogdet(S, method="qr")
    close(sign * np.exp(logdet), np.linalg.det(S), 1e-4)


def test_polynomials_beyond_numpy():
    quotient, rest = gnp.polydiv(np.float32([1, 5, 6, 1]), np.float32([1, 2]))
    close([quotient, rest], [np.float32([1, 3, 0]), np.float32([0, 0, 0, 1])])
    close(gnp.polydiv(U, U, trim_leading_zeros=True)[1], np.zeros(0))
    close(gnp.polymul(np.float32([0, 1]), np.float32([0, 2]), trim_leading_zeros=True), [2])
    close(gnp.poly(S), np.poly(S), 1e-3)
    close(gnp.roots(np.float32([0, 0, 1, -2, 0]))[:1], [0])
    traced = ga.jit(lambda p: gnp.roots(p, strip_zeros=False))(np.float32([0, 1, -3, 2]))
    close(np.sort(traced[:2].real), [1, 2], 1e-3)
    assert np.isnan(traced[2])


def test_result_types():
    assert gnp.dot(2, 3).weak_type
    assert gnp.matmul(K, K.T).dtype == np.int32
    assert (
        gnp.matmul(K.astype(np.int8), K.T.astype(np.int8), preferred_element_type="int32").dtype
        == np.int32
    )
    assert gnp.matmul(A.astype("float16"), B).dtype == np.float32
    assert gnp.einsum("ij,jk", A, B, preferred_element_type="bfloat16").dtype == gnp.bfloat16
    assert gnp.trace(K.astype(np.uint8)).dtype == np.uint32
    assert gnp.trace(K > 2).dtype == np.int32
    assert fft.fft(K).dtype == np.complex64 and fft.rfft(A.astype("float16")).dtype == np.complex64
    assert linalg.inv(np.array([[2, 0], [0, 4]])).dtype == np.float32
    assert gnp.polyval(K[0], 2).dtype == np.int32


HALF, WHOLE = np.float16([60000, 2]), np.uint32([4_000_000_000, 3])


@pytest.mark.parametrize(
    "product",
    [
        gnp.dot,
        gnp.matmul,
        gnp.inner,
        gnp.vdot,
        gnp.vecdot,
        lambda *xs, **k: gnp.tensordot(*xs, axes=1, **k),
        lambda *xs, **k: gnp.einsum("i,i", *xs, **k),
        lambda *xs, **k: gnp.einsum("i,i,k->", *xs, np.float32([1]), **k),
    ],
    ids="dot matmul inner vdot vecdot tensordot einsum einsum-of-three".split(),
)
def test_operands_of_a_product_keep_their_types_where_another_is_asked_for(product):
    """Neither becomes float16, their common type, in which the numbers are infinite."""
    wanted = float(HALF.astype(float) @ WHOLE.astype(float))
    for xs in ((HALF, WHOLE), (WHOLE, HALF)):
        found = product(*map(gnp.asarray, xs), preferred_element_type="float32")
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_sum_of_einsum_is_in_the_type_that_is_asked_for():
    found = gnp.einsum("ij->j", np.float16([[60000], [60000]]), preferred_element_type="float32")
    assert found.tolist() == [120000.0]
    assert int(gnp.einsum("i->", np.int8([100, 100]), preferred_element_type="int32")) == 200


@pytest.mark.parametrize(
    "operand, preferred",
    [("int32", "int16"), ("int32", "float16"), ("complex128", "float32"), ("complex128", "c8")],
)
def test_products_that_lose_their_sums_are_refused(operand, preferred):
    with ga.enable_x64(True):
        x = gnp.ones(2, operand)
        for product in (gnp.dot, ga.lax.dot):
            with pytest.raises(TypeError, match="must not be narrower than the original type"):
                product(x, x, preferred_element_type=preferred)


def test_contractions_in_a_graph():
    text = str(ga.make_jaxpr(gnp.matmul)(S, X))
    assert text == (
        "{ lambda ; a:f32[3,3] b:f32[2,3,4]. let\n"
        "    c:f32[3,2,4] = dot_general[\n"
        "      dimension_numbers=(([1], [1]), ([], []))\n"
        "      preferred_element_type=float32\n"
        "    ] a b\n"
        "    d:f32[2,3,4] = transpose[permutation=(1, 0, 2)] c\n"
        "  in (d,) }"
    )


ERRORS = {
    "dot": (lambda: gnp.dot(A, A), TypeError, "contracting dimensions to have the same shape"),
    "matmul scalar": (lambda: gnp.matmul(2, A), ValueError, "must have ndim at least 1"),
    "matmul list": (lambda: gnp.matmul(A, [[1]]), TypeError, "at position 1"),
    "matmul batch": (lambda: gnp.matmul(SS, SS[:2]), ValueError, "broadcasting"),
    "matvec": (lambda: gnp.matvec(U, A), ValueError, "enough dimensions"),
    "vecmat": (lambda: gnp.vecmat(U, A), ValueError, "inconsistent size"),
    "vecdot": (lambda: gnp.vecdot(A, normal4), ValueError, "axes must match"),
    "tensordot": (lambda: gnp.tensordot(A, B, 3), TypeError, "exceeds input ranks"),
    "tensordot lists": (lambda: gnp.tensordot(A, B, ((0, 1), (0,))), TypeError, "equal length"),
    "tensordot text": (lambda: gnp.tensordot(A, B, "x"), TypeError, "tensordot axes argument"),
    "cross": (lambda: gnp.cross(normal4, normal4), ValueError, "either 2 or 3"),
    "diagonal": (lambda: gnp.diagonal(U), ValueError, "at least two dimensions"),
    "einsum sizes": (
        lambda: gnp.einsum("ij,jk", A, A),
        ValueError,
        "does not match previous terms",
    ),
    "einsum rank": (lambda: gnp.einsum("ij", U), ValueError, "correct number of indices"),
    "einsum output": (lambda: gnp.einsum("ij->k", A), ValueError, "did not appear in the input"),
    "einsum count": (lambda: gnp.einsum("ij,jk", A), ValueError, "number of operands"),
    "einsum symbol": (lambda: gnp.einsum("i!", A), ValueError, "not a valid symbol"),
    "einsum out": (lambda: gnp.einsum("ij", A, out=A), NotImplementedError, "'out' argument"),
    "inv": (lambda: linalg.inv(A), ValueError, "must have shape"),
    "det": (lambda: linalg.det(U), ValueError, "must have shape"),
    "solve": (lambda: linalg.solve(S, U[:2]), ValueError, "Invalid shapes for solve"),
    "solve vector": (lambda: linalg.solve(U, U), ValueError, "at least two dimensional"),
    "norm": (lambda: linalg.norm(A, 3), ValueError, "Invalid order '3' for matrix norm"),
    "norm text": (lambda: linalg.norm(U, "fro"), ValueError, "Invalid order 'fro' for vector norm"),
    "norm axes": (lambda: linalg.norm(X, axis=(0, 1, 2)), ValueError, "Improper number of axes"),
    "qr": (lambda: linalg.qr(A, mode="x"), ValueError, "Unsupported QR decomposition mode"),
    "eigh": (lambda: linalg.eigh(S, UPLO="X"), ValueError, "UPLO must be one of"),
    "cond": (lambda: linalg.cond(A, 1), ValueError, "must be square"),
    "matrix_power": (lambda: linalg.matrix_power(S, 1.5), TypeError, "must be an integer"),
    "multi_dot": (lambda: linalg.multi_dot([A]), ValueError, "at least two arrays"),
    "fft norm": (lambda: fft.fft(U, norm="x"), ValueError, "Invalid norm value"),
    "fft length": (lambda: fft.fft(U, 0), ValueError, "Shape should be positive"),
    "rfft": (lambda: fft.rfft(Z), ValueError, "only real valued inputs supported for rfft"),
    "fftn axes": (lambda: fft.fftn(X, axes=(0, 0)), ValueError, "repeated axes"),
    "fftn lengths": (lambda: fft.fftn(X, s=(2,), axes=(0, 1)), ValueError, "different lengths"),
    "fftfreq": (lambda: fft.fftfreq([4]), ValueError, "only takes an int"),
    "polyder": (lambda: gnp.polyder(U, -1), ValueError, "must be positive"),
    "polyint": (lambda: gnp.polyint(U, 2, k=U), ValueError, "length 1 or m"),
    "polyfit": (lambda: gnp.polyfit(A, U, 1), TypeError, "expected 1D vector for x"),
    "roots": (lambda: gnp.roots(A), ValueError, "rank-1 array"),
    "roots traced": (lambda: ga.jit(gnp.roots)(U), errors.ConcretizationTypeError, "strip_zeros"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_determinant_is_smooth_at_singular_matrices(n):
    """Its derivative is the matrix of the cofactors, that of one element 1."""
    holes = np.diag(np.linspace(0, 1, n, dtype=np.float32))
    shifted = np.eye(n, k=1, dtype=np.float32) + 1j * np.eye(n, k=1)
    ramp = np.linspace(0, 1, n * n, dtype=np.float32).reshape(n, n)
    matrices = [0 * holes, ramp, holes, holes[::-1] + holes]
    matrices += [holes + 1, ramp + holes, shifted.astype(np.complex64)]
    found = []
    for a in matrices:
        cofactors = np.empty((n, n), a.dtype)
        for i, j in np.ndindex(n, n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            cofactors[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
        found.append(cofactors)
        holomorphic = a.dtype.kind == "c"
        close(ga.grad(gnp.linalg.det, holomorphic=holomorphic)(a), cofactors, 1e-5)
        close(ga.jacfwd(gnp.linalg.det, holomorphic=holomorphic)(a), cofactors, 1e-5)
    # Regular ones among them.
    stack = np.stack(matrices[:-1])
    close(ga.jit(ga.grad(lambda a: gnp.linalg.det(a).sum()))(stack), np.stack(found[:-1]), 1e-5)
    close(ga.vmap(ga.grad(gnp.linalg.det))(stack), np.stack(found[:-1]), 1e-5)
