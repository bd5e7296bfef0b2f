"""Derivatives and batching of factorisations, systems of equations and random keys.

The laws (differences, adjoint, vmap is a loop) are tried in tests/generic/test_transforms.py, there
without the phases of vectors. Here are derivatives of vectors as the library leaves them, values
where there is no derivative, the refusals, and what a batch costs.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random
from gpuarray.primitives.random.ops import implementations

A = np.array([[2.0, 1, 0], [0, 3, 1], [1, 0, 1]])
T = np.array([[1.0, 0, 2], [0, 1, 0], [3, 0, 1]])
TALL = np.array([[1.0, 2], [3, 5], [2, 0], [1, 1]])
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _double():
    with ga.enable_x64(True):
        yield


def tangents(fun, x, t):
    out = ga.jvp(fun, (x,), (t,))[1]
    return [np.asarray(y) for y in (out if isinstance(out, (tuple, list)) else [out])]


def differences(fun, x, t, h=1e-6):
    ahead, behind = fun(x + h * t), fun(x - h * t)
    return [(np.asarray(a) - np.asarray(b)) / (2 * h) for a, b in zip(ahead, behind, strict=True)]


# ---- vectors ----


def random_matrix(shape, is_complex, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if is_complex else x


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(5, 2), (3, 3), (2, 4), (2, 4, 2)])
@pytest.mark.parametrize("full", [False, True])
def test_qr_keeps_the_signs_of_reflections(shape, full, is_complex):
    x, t = (random_matrix(shape, is_complex, seed) for seed in (0, 1))

    def qr(x):
        return lax.linalg.qr(x, full_matrices=full)

    for found, expected in zip(tangents(qr, x, t), differences(qr, x, t), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("is_complex", [False, True])
def test_qr_with_pivots(is_complex):
    x, t = (random_matrix((5, 3), is_complex, seed) for seed in (0, 1))

    def qr(x):
        return lax.linalg.qr(x, pivoting=True, full_matrices=False)[:2]

    for found, expected in zip(tangents(qr, x, t), differences(qr, x, t), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("is_complex", [False, True])
def test_eigenvectors_keep_length_and_phase(is_complex):
    x, t = (random_matrix((4, 4), is_complex, seed) for seed in (0, 1))

    def eig(x):
        return lax.linalg.eig(x, enable_eigvec_derivs=True)

    w, *vectors = (np.asarray(y) for y in eig(x))
    dw, *turned = tangents(eig, x, t)
    left, right = vectors
    np.testing.assert_allclose(dw, np.diag(np.linalg.solve(right, t @ right)), atol=1e-12)
    for v, dv in zip(vectors, turned, strict=True):
        np.testing.assert_allclose((v.conj() * dv).real.sum(0), 0, atol=1e-12)
        largest = np.abs(v).argmax(0)
        np.testing.assert_allclose(dv[largest, range(4)].imag, 0, atol=1e-12)
    dl, dr = turned
    np.testing.assert_allclose(t @ right + x @ dr, dr * w + right * dw, atol=1e-12)
    th, xh = t.conj().T, x.conj().T
    np.testing.assert_allclose(th @ left + xh @ dl, dl * w.conj() + left * dw.conj(), atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5)])
def test_complex_singular_vectors(shape):
    x, t = (random_matrix(shape, True, seed) for seed in (0, 1))
    u, s, vh = (np.asarray(y) for y in lax.linalg.svd(x, full_matrices=False))
    du, ds, dvh = tangents(lambda x: lax.linalg.svd(x, full_matrices=False), x, t)
    np.testing.assert_allclose(du * s @ vh + u * ds @ vh + u * s @ dvh, t, atol=1e-12)
    skew_u, skew_v = u.conj().T @ du, vh @ dvh.conj().T
    np.testing.assert_allclose(skew_u + skew_u.conj().T, 0, atol=1e-12)
    np.testing.assert_allclose(np.diag(skew_v), 0, atol=1e-12)  # phases are U's


def test_equal_values_have_no_vectors_to_follow():
    """The values move as the matrix inside their space does; the vectors' derivatives blow up."""
    (dv, dw) = tangents(lax.linalg.eigh, np.diag([3.0, 2, 2]), A)
    np.testing.assert_array_equal(dw, [3, 1, 2])
    assert not np.isfinite(dv[1, 1]) and dv[1, 2] == 0.5
    du, ds, dvh = tangents(
        lambda x: lax.linalg.svd(x, full_matrices=False), np.diag([3.0, 2, 2]), A
    )
    np.testing.assert_array_equal(ds, [2, 1, 3])
    np.testing.assert_allclose(du[1:, 0], [0.4, 0.6])
    assert not np.isfinite(dvh[1:, 1:]).any()


def test_values_alone_need_no_gaps():
    x = np.outer([1.0, 2, 3], [1, 0, 1])  # rank 1
    (ds,) = tangents(lambda x: lax.linalg.svd(x, compute_uv=False), x, T)
    assert np.isfinite(ds).all()


# ---- one triangle ----


def test_cholesky_takes_the_tangent_as_it_is():
    (found,) = tangents(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), A @ A.T, A)
    expected = [
        [0.4472135955, 0, 0],
        [-0.2683281573, 0.5447756307, 0],
        [0.2683281573, -0.1683046664, 0.4323346823],
    ]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("columns", [1, 3, 5])
def test_triangular_solve_reads_one_triangle(lower, unit, columns):
    """Either order of the product gives the same gradient: zero where nothing is read."""
    b = random_matrix((3, columns), False)

    def total(a):
        x = lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, unit_diagonal=unit)
        return (x * np.arange(1.0, x.size + 1).reshape(x.shape)).sum()

    found = np.asarray(ga.grad(total)(A))
    read = np.tri(3, k=-int(unit)) if lower else np.tri(3, k=-int(unit)).T
    np.testing.assert_array_equal(found[read == 0], 0)
    for i, j in np.argwhere(read):
        step = np.zeros((3, 3))
        step[i, j] = 1e-6
        slope = (float(total(A + step)) - float(total(A - step))) / 2e-6
        assert abs(found[i, j] - slope) < 1e-6


def test_one_matrix_for_a_batch_is_one_solve():
    text = str(
        ga.make_jaxpr(
            ga.vmap(lambda b: lax.linalg.triangular_solve(A, b, left_side=True), in_axes=1)
        )(np.ones((3, 7, 2)))
    )
    assert text.count("triangular_solve[") == 1
    assert "f64[3,14]" in text


# ---- what has no derivative ----

REFUSALS = {
    "geqrf": lambda x: lax.linalg.geqrf(x),
    "schur": lambda x: lax.linalg.schur(x),
    "hessenberg": lambda x: lax.linalg.hessenberg(x),
    "tridiagonal": lambda x: lax.linalg.tridiagonal(x),
    "householder_product": lambda x: lax.linalg.householder_product(x, np.ones(3)),
    "ormqr": lambda x: lax.linalg.ormqr(x, np.ones(3), A),
    "cholesky_update": lambda x: lax.linalg.cholesky_update(x, np.ones(3)),
    "full matrices": lambda x: lax.linalg.svd(x[:2], full_matrices=True),
    "only valid": lambda x: lax.linalg.eig(x),
    "partial": lambda x: lax.linalg.eigh(x, subset_by_index=(0, 2)),
    "subset_by_index": lambda x: lax.linalg.svd(
        x, full_matrices=False, compute_uv=True, subset_by_index=(0, 2)
    ),
}


@pytest.mark.parametrize("words", REFUSALS)
def test_refusals(words):
    with pytest.raises(NotImplementedError, match=words):
        ga.jvp(REFUSALS[words], (A,), (T,))


def test_pivots_are_integers():
    found = ga.vmap(lambda p: lax.linalg.lu_pivots_to_permutation(p, 3), in_axes=1)(
        np.array([[1, 2], [2, 2]], np.int32)
    )
    np.testing.assert_array_equal(found, [[1, 2, 0], [2, 0, 1]])


# ---- random keys ----

KEYED = {
    "bits": lambda key: random.bits(key, (5,)),
    "normal": lambda key: random.normal(key, (2, 3)),
    "split": lambda key: random.key_data(random.split(key, (2, 2))),
    "fold_in": lambda key: random.key_data(random.fold_in(key, 7)),
    "gamma": lambda key: random.gamma(key, 2.0, (3,)),
    "permutation": lambda key: random.permutation(key, 6),
}


#: With generators that have a state, the first key of a batch draws for all of it, as in JAX.
BY_KEY = [impl for impl in implementations if not impl.endswith("rbg")]


@pytest.mark.on_cpu("kernels reject numbers by some generators only")
@pytest.mark.parametrize("impl", BY_KEY)
@pytest.mark.parametrize("name", KEYED)
def test_every_key_makes_its_own_numbers(name, impl):
    keys = random.split(random.key(3, impl=impl), (2, 3))
    found = np.asarray(ga.vmap(ga.vmap(KEYED[name]), in_axes=1)(keys))
    for i in range(3):
        for j in range(2):
            np.testing.assert_array_equal(found[i, j], KEYED[name](keys[j, i]))


def test_one_key_and_many_numbers_to_fold_in():
    key = random.key(0)
    found = ga.vmap(lambda i: random.key_data(random.fold_in(key, i)))(gnp.arange(3))
    expected = [np.asarray(random.key_data(random.fold_in(key, i))) for i in range(3)]
    np.testing.assert_array_equal(found, expected)


def test_seeds_in_a_batch():
    found = ga.vmap(lambda s: random.key_data(random.key(s)))(np.arange(3))
    np.testing.assert_array_equal(found, [[0, 0], [0, 1], [0, 2]])


def test_gamma_samples_keep_their_quantile():
    """d sample / d alpha of an exponential's neighbour, from differences of the distribution."""
    special = pytest.importorskip("scipy.special")
    key, alpha = random.key(0), np.array([0.5, 2.0, 3.0])
    sample, slope = (
        np.asarray(x) for x in ga.jvp(lambda a: random.gamma(key, a), (alpha,), (np.ones(3),))
    )
    quantile, h = special.gammainc(alpha, sample), 1e-5
    ahead, behind = (special.gammaincinv(alpha + d, quantile) for d in (h, -h))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-5)
    logs, log_slope = ga.jvp(lambda a: random.loggamma(key, a), (alpha,), (np.ones(3),))
    ahead, behind = (
        np.log(special.gammaincinv(alpha + d, special.gammainc(alpha, np.exp(logs))))
        for d in (h, -h)
    )
    np.testing.assert_allclose(log_slope, (ahead - behind) / (2 * h), rtol=1e-5)
