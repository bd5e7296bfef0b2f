"""Factors of small matrices and triangular systems as native code.

In: stacks of matrices of several sizes. Out: what NumPy and LAPACK make of them.
"""

import itertools

import numpy as np
import pytest
from scipy.linalg import lapack

import gpuarray as ga
from gpuarray import lax
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

#: Of the last one factors and systems are LAPACK's.
SHAPES = [(1, ()), (2, (3,)), (5, ()), (7, (20,)), (16, (2, 2)), (33, (2,))]


def run(cases):
    """Compile (function, operands) together, run them, and count those with native loops."""
    with ga.enable_x64(True):
        programs = [natively.written(ga.jit(f).lower(*xs).jaxpr) for f, xs in cases]
    natively.compile_all(programs)
    found = [p(*xs) for p, (_, xs) in zip(programs, cases, strict=True)]
    native = [any("_steps(" in k.text for k in p.kernels) for p in programs]
    return found, sum(native) / len(native)


def near(dtype):
    return {"rtol": 2e-4, "atol": 2e-4} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-10}


def signed(vectors, found, dtype):
    """Columns with the signs that were found. Those of float64 are LAPACK's to begin with: in
    float32 its steps may be one more or one less.
    """
    if dtype == "float64":
        return vectors
    return vectors * np.sign(np.sum(vectors * found, axis=-2, keepdims=True))


def drawn(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cholesky(dtype, rng):
    matrices = []
    for n, stack in SHAPES:
        a = drawn(rng, (*stack, n, n), dtype)
        matrices.append((a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(dtype))
    f = lambda x: lax.linalg.cholesky(x * 1, symmetrize_input=False) + 0
    found, native = run([(f, (x,)) for x in matrices])
    assert native == 1
    for x, (factor,) in zip(matrices, found, strict=True):
        np.testing.assert_allclose(factor, np.linalg.cholesky(x), **near(dtype))


def test_no_cholesky_factor_is_nan_for_that_matrix_alone():
    x = np.array([[[4, 2], [2, 5]], [[1, 2], [2, 1]], [[0, 0], [0, 1]]], np.float32)
    f = lambda x: lax.linalg.cholesky(x * 1, symmetrize_input=False) + 0
    ((factor,),), native = run([(f, (x,))])
    assert native == 1
    np.testing.assert_allclose(factor[0], [[2, 0], [1, 2]])
    assert np.isnan(factor[1:][:, [0, 1, 1], [0, 0, 1]]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lu(dtype, rng):
    matrices = [
        drawn(rng, (*stack, m, n), dtype) for n, stack in SHAPES for m in {n, n + 2, max(1, n - 1)}
    ]
    # A column of zeros, and equal candidates.
    matrices.append(np.array([[0, 1, 2], [0, 2, 1], [0, 2, 2]], dtype))
    found, native = run([(lambda x: [*lax.linalg.lu(x * 1), x + 1], (x,)) for x in matrices])
    assert native == 1
    for x, (lu, pivots, rows, _) in zip(matrices, found, strict=True):
        m, n = x.shape[-2:]
        k = min(m, n)
        lower = np.tril(lu[..., :k], -1) + np.eye(m, k)
        swapped = np.take_along_axis(x, rows[..., None].astype(int), -2)
        np.testing.assert_allclose(lower @ np.triu(lu[..., :k, :]), swapped, **near(dtype))
        for index in np.ndindex(x.shape[:-2]):
            getrf = lapack.sgetrf if dtype == "float32" else lapack.dgetrf
            np.testing.assert_array_equal(pivots[index], getrf(x[index])[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_qr(dtype, rng):
    cases = [
        (drawn(rng, (*stack, m, n), dtype), full)
        for n, stack in SHAPES[1::2]
        for m, full in ((n, False), (n + 2, False), (n + 2, True), (n - 1, False))
    ]
    function = lambda x, full: [y * 1 for y in lax.linalg.qr(x * 1, full_matrices=full)]
    found, native = run([(lambda x, full=full: function(x, full), (x,)) for x, full in cases])
    assert native == 1
    for (x, full), (q, r) in zip(cases, found, strict=True):
        np.testing.assert_allclose(q @ r, x, **near(dtype))
        wanted = np.linalg.qr(x, "complete" if full else "reduced")
        np.testing.assert_allclose(q, wanted.Q, **near(dtype))  # the same signs
        np.testing.assert_allclose(r, wanted.R, **near(dtype))


def test_qr_without_its_orthogonal_factor(rng):
    x = drawn(rng, (5, 6, 4), "float32")
    (((r,),), native) = run([(lambda x: [lax.linalg.qr(x * 1, full_matrices=False)[1] * 1], (x,))])
    assert native == 1
    np.testing.assert_allclose(r, np.linalg.qr(x).R, **near("float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))])
def test_triangular_systems(dtype, part, rng):
    """All ways, of two of the shapes in turn; the slow parts have the other shapes."""
    cases, wanted = [], []
    ways = list(itertools.product(*[(True, False)] * 4, (1, 3)))
    drawn_ways = [
        (SHAPES[(i + j) % len(SHAPES)], *way)
        for i, way in enumerate(ways)
        for j in range(2 * part, min(2 * part + 2, len(SHAPES)))
    ]
    for (n, stack), left, lower, turned, unit, k in drawn_ways:
        a = drawn(rng, (*stack, n, n), dtype) + 4 * np.eye(n, dtype=dtype)
        b = drawn(rng, (*stack, n, k) if left else (*stack, k, n), dtype)
        options = {"left_side": left, "lower": lower, "transpose_a": turned}
        options["unit_diagonal"] = unit
        f = lambda x, y, options=options: lax.linalg.triangular_solve(x * 1, y, **options) + 0
        cases.append((f, (a, b)))
        m = np.tril(a) if lower else np.triu(a)
        if unit:
            m = m * (1 - np.eye(n)) + np.eye(n)
        m = np.swapaxes(m, -1, -2) if turned else m
        if left:
            wanted.append(np.linalg.solve(m, b))
        else:
            turn = lambda x: np.swapaxes(x, -1, -2)
            wanted.append(turn(np.linalg.solve(turn(m), turn(b))))
    found, native = run(cases)
    assert native == 1
    for (x,), want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, want, **near(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_triangular_systems_of_few_rows(dtype, rng):
    """Loops go along the systems, however many there are."""
    solve = lambda x, y: lax.linalg.triangular_solve(x, y, left_side=True, lower=True)
    twice = lambda x, y: lax.fori_loop(0, 2, lambda _, y: solve(x, y), y)
    cases, wanted = [], []
    for n, stack in [(1, ()), (3, (6,)), (PROCESSOR.substituted, ())]:
        a = drawn(rng, (*stack, n, n), dtype) + 4 * np.eye(n, dtype=dtype)
        b = drawn(rng, (*stack, n, 5000), dtype)
        cases.append((twice, (a, b)))
        wanted.append(np.linalg.solve(np.tril(a), np.linalg.solve(np.tril(a), b)))
    found, native = run(cases)
    assert native == 1
    for (x,), want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, want, **near(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvalues_are_those_of_lapack(dtype, rng):
    cases, wanted = [], []
    for (n, stack), lower in itertools.product(SHAPES, (True, False)):
        a = drawn(rng, (*stack, n, n), dtype)
        a = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
        options = {"lower": lower, "symmetrize_input": False}
        # What is not read is not there.
        given = a + 7 * (np.triu(np.ones_like(a), 1) if lower else np.tril(np.ones_like(a), -1))
        cases.append((lambda x, o=options: lax.linalg.eigh(x * 1, **o), (given,)))
        wanted.append((a, lower))
    found, native = run(cases)
    assert native == 1
    syevd = lapack.ssyevd if dtype == "float32" else lapack.dsyevd
    for (a, lower), (v, w) in zip(wanted, found, strict=True):
        for index in np.ndindex(a.shape[:-2]):
            values, vectors, _ = syevd(a[index], lower=lower)
            np.testing.assert_allclose(w[index], values, **near(dtype))
            np.testing.assert_allclose(v[index], signed(vectors, v[index], dtype), **near(dtype))


def test_some_eigenvalues_and_matrices_that_have_none(rng):
    a = drawn(rng, (5, 6, 6), "float32")
    a = a + np.swapaxes(a, -1, -2)
    a[1, 2, 3], a[3, 0, 0] = np.nan, np.inf
    f = lambda x: lax.linalg.eigh(x * 1, symmetrize_input=False, subset_by_index=(1, 4))
    ((v, w),), native = run([(f, (a,))])
    assert native == 1
    assert v.shape == (5, 6, 3)
    assert np.isnan(v[[1, 3]]).all()
    assert np.isnan(w[[1, 3]]).all()
    for i in (0, 2, 4):
        values, vectors, _ = lapack.ssyevd(a[i], lower=1)
        np.testing.assert_allclose(w[i], values[1:4], **near("float32"))
        vectors = signed(vectors[:, 1:4], v[i], "float32")
        np.testing.assert_allclose(v[i], vectors, **near("float32"))


def test_vectors_that_nobody_reads_are_not_computed(rng):
    a = drawn(rng, (70, 5, 5), "float32")
    a = a + np.swapaxes(a, -1, -2)
    values = lambda x: lax.linalg.eigh(x)[1] * 1
    both = lambda x: [y * 1 for y in lax.linalg.eigh(x)]
    with ga.enable_x64(True):
        one, two = (natively.written(ga.jit(f).lower(a).jaxpr) for f in (values, both))
    assert any("ga_eigh_of_few<float, 1, 5, 1, 0, 5, 0>" in k.text for k in one.kernels)
    assert any("ga_eigh_of_few<float, 1, 5, 1, 0, 5, 1>" in k.text for k in two.kernels)
    natively.compile_all([one, two])
    np.testing.assert_allclose(one(a)[0], np.linalg.eigvalsh(a), **near("float32"))
    # Many small matrices are computed as doubles, as NumPy does: signs are the same.
    for found, wanted in zip(two(a), np.linalg.eigh(a)[::-1], strict=True):
        np.testing.assert_allclose(found, wanted, **near("float32"))
    e = ga.explain(values, platform="native")(a)
    assert "ga_eigh_of_few<" in "".join(s.source or "" for s in e.steps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvalues_of_general_matrices_are_those_of_lapack(dtype, rng):
    """Of the values, in LAPACK's order, and of vectors of one side; nan where it has none."""
    geev = lapack.sgeev if dtype == "float32" else lapack.dgeev
    cases, matrices = [], []
    for (n, stack), sides in itertools.product(SHAPES, [(0, 0), (0, 1), (1, 0)]):
        a = drawn(rng, (*stack, n, n), dtype)
        if a.size > 9:
            a.reshape(-1, n, n)[-1, 0, n // 2] = np.inf
        left, right = map(bool, sides)
        eig = lambda x, left=left, right=right: lax.linalg.eig(
            x * 1, compute_left_eigenvectors=left, compute_right_eigenvectors=right
        )
        cases.append((eig, (a,)))
        matrices.append((a, sides))
    found, native = run(cases)
    assert native == 1
    for (a, (left, right)), results in zip(matrices, found, strict=True):
        for index in np.ndindex(a.shape[:-2]):
            if not np.isfinite(a[index]).all():
                assert all(np.isnan(x[index]).all() for x in results)
                continue
            re, im, vl, vr, _ = geev(a[index], compute_vl=left, compute_vr=right)
            np.testing.assert_allclose(results[0][index], re + 1j * im, **near(dtype))
            if left or right:
                v, w = results[1][index], results[0][index]
                at = a[index].astype(complex)
                # Columns u of the left: u* A = w u*.
                by = np.conj(at.T) if left else at
                np.testing.assert_allclose(by @ v, v * (np.conj(w) if left else w), **near(dtype))
                whole = vl if left else vr
                real = im == 0
                wanted = signed(whole[:, real], v[:, real].real, dtype)
                np.testing.assert_allclose(v[:, real], wanted, **near(dtype))
                np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, **near(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_values_are_those_of_numpy(dtype, rng):
    shapes = [(1, 1), (40, 3, 3), (2, 6, 6), (20, 20), (33, 5, 3), (2, 3, 5)]
    matrices = [drawn(rng, shape, dtype) for shape in shapes]
    # Nothing to turn, zeros, and numbers whose squares are none.
    special = [np.zeros((4, 4)), np.eye(4)[::-1], np.diag([3, 0, -2, 1]), np.tri(4)]
    size = 1e-30 if dtype == "float32" else 1e-280
    special += [matrices[2][0, :4, :4] * x for x in (size, 1 / size)]
    matrices += [np.stack(special).astype(dtype), special[5].astype(dtype)]
    cases = []
    for x in matrices:
        for full in {False, x.shape[-2] != x.shape[-1]}:
            cases.append((lambda x, f=full: lax.linalg.svd(x * 1, full_matrices=f), (x,)))
        cases.append((lambda x: [lax.linalg.svd(x * 1, compute_uv=False)], (x,)))
    found, native = run(cases)
    assert native == 1
    for (_, (x,)), results in zip(cases, found, strict=True):
        s, vectors = results[len(results) // 2], results[::2] if len(results) > 1 else ()
        wide = x.astype(np.float64)
        largest = np.abs(wide).max(axis=(-2, -1), keepdims=True)
        largest[largest == 0] = 1
        wanted = np.linalg.svd(wide / largest, compute_uv=False)
        np.testing.assert_allclose(s / largest[..., 0], wanted, **near(dtype))
        if not vectors:
            continue
        u, vt = (v.astype(np.float64) for v in vectors)
        for v in (np.swapaxes(u, -1, -2), vt):
            eye = np.broadcast_to(np.eye(v.shape[-2]), (*v.shape[:-1], v.shape[-2]))
            np.testing.assert_allclose(v @ np.swapaxes(v, -1, -2), eye, **near(dtype))
        k = s.shape[-1]
        product = (u[..., :k] * (s / largest[..., 0])[..., None, :]) @ vt[..., :k, :]
        np.testing.assert_allclose(product, wide / largest, **near(dtype))
    # Signs are LAPACK's, as NumPy has them.
    for k in (0, 2):
        (x,) = cases[k][1]
        for v, wanted in zip(found[k], np.linalg.svd(x), strict=True):
            np.testing.assert_allclose(v, wanted, **near(dtype))


def test_some_singular_values_and_matrices_that_have_none(rng):
    a = drawn(rng, (5, 6, 6), "float32")
    a[1, 2, 3], a[3, 0, 0] = np.nan, -np.inf
    some = lambda x: lax.linalg.svd(x * 1, full_matrices=False, subset_by_index=(1, 4))
    whole = lambda x: lax.linalg.svd(x[:, :4] * 1)
    found, native = run([(some, (a,)), (whole, (a,))])
    assert native == 1
    for results in found:
        for x in results:
            assert np.isnan(x[[1, 3]]).all()
            assert np.isfinite(x[[0, 2, 4]]).all()
    good = [0, 2, 4]
    u, s, vt = (x[good] for x in found[0])
    u2, s2, vt2 = np.linalg.svd(a[good])
    assert (u.shape, vt.shape) == ((3, 6, 3), (3, 3, 6))
    np.testing.assert_allclose(s, s2[:, 1:4], **near("float32"))
    product = (u2[:, :, 1:4] * s2[:, None, 1:4]) @ vt2[:, 1:4]
    np.testing.assert_allclose((u * s[:, None]) @ vt, product, **near("float32"))


def test_no_factor_of_a_larger_matrix_is_nan_for_that_matrix_alone(rng):
    a = drawn(rng, (4, 40, 40), "float32")
    a = a @ np.swapaxes(a, -1, -2) + 40 * np.eye(40, dtype=np.float32)
    a[1, 20, 20], a[2, 0, 0] = -1, np.nan
    f = lambda x: lax.linalg.cholesky(x * 1, symmetrize_input=False) + 0
    ((factor,),), native = run([(f, (a,))])
    assert native == 1
    assert np.isnan(np.tril(factor[[1, 2]])[:, *np.tril_indices(40)]).all()
    np.testing.assert_allclose(factor[[0, 3]], np.linalg.cholesky(a[[0, 3]]), **near("float32"))


def test_loops_with_larger_matrices_are_one_call(rng):
    a = drawn(rng, (48, 48), "float64") + 50 * np.eye(48)

    def inverse(a):
        return lax.fori_loop(0, 20, lambda _, x: 0.5 * (x + ga.numpy.linalg.inv(x)), a)

    with ga.enable_x64(True):
        program = natively.written(ga.jit(inverse).lower(a).jaxpr)
    assert not program.writer.by_host
    natively.compile_all([program])
    np.testing.assert_allclose(program(a)[0], np.eye(48), atol=1e-12)


def test_the_largest_matrices_are_for_threads_of_lapack(rng):
    x = drawn(rng, (PROCESSOR.library_rows + 1,) * 2, "float32")
    _, native = run([(lambda x: [*lax.linalg.lu(x * 1), x + 1], (x,))])
    assert native == 0
