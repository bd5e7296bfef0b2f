"""Sparse arrays: every operation against NumPy on the dense array, over all layouts of its axes.

The layouts have duplicates, indices beyond the shape and batches that share their indices.
"""

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import sparse
from gpuarray.experimental.sparse.base import SparseInfo
from gpuarray.experimental.sparse.bcoo import bcoo_eliminate_zeros

LAYOUTS = [(b, d) for b in range(4) for d in range(4 - b)]
SHAPE = (2, 3, 4)


def random_array(shape=SHAPE, n_batch=0, n_dense=0, nse=5, seed=0):
    """A BCOO array with duplicates and with room that is not used."""
    rng = np.random.default_rng(seed)
    sparse_shape = shape[n_batch : len(shape) - n_dense]
    size = (*shape[:n_batch], nse)
    # One more than there are: beyond the shape.
    columns = [rng.integers(0, n + 1, size) for n in sparse_shape]
    indices = np.stack(columns, -1) if columns else np.zeros((*size, 0), int)
    data = rng.standard_normal((*size, *shape[len(shape) - n_dense :])).astype(np.float32)
    return sparse.BCOO((data, indices.astype(np.int32)), shape=shape)


def dense(x):
    """The dense array, written out with loops."""
    data, indices = np.asarray(x.data), np.asarray(x.indices)
    out = np.zeros(x.shape, data.dtype)
    for at in np.ndindex(*x.shape[: x.n_batch]):
        own = lambda a, at=at: a[tuple(0 if n == 1 else i for i, n in zip(at, a.shape))]
        for value, index in zip(own(data), own(indices), strict=True):
            if all(i < n for i, n in zip(index, x.shape[x.n_batch :])):
                out[(*at, *index)] += value
    return out


def close(got, expected):
    if isinstance(got, sparse.JAXSparse):
        got = dense(got) if isinstance(got, sparse.BCOO) else got.todense()
    np.testing.assert_allclose(np.asarray(got), expected, rtol=2e-5, atol=2e-5)
    assert np.asarray(got).shape == np.shape(expected)


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_every_layout(n_batch, n_dense):
    """What any layout can do gives what NumPy gives of the dense array, also under jit."""
    x = random_array(n_batch=n_batch, n_dense=n_dense)
    d = dense(x)
    n_sparse = 3 - n_batch - n_dense
    close(x.todense(), d)
    close(ga.jit(sparse.todense)(x), d)
    again = sparse.BCOO.fromdense(d, n_batch=n_batch, n_dense=n_dense)
    assert (again.n_batch, again.n_dense, again.n_sparse) == (n_batch, n_dense, n_sparse)
    close(again, d)
    for axes in (a for n in range(4) for a in itertools.combinations(range(3), n)):
        close(x.sum(axes), d.sum(axes))
        if axes:
            close(sparse.bcoo_rev(x, axes), np.flip(d, axes))
    close(x.sort_indices(), d)
    if n_sparse:
        rows = np.asarray(x.sort_indices().indices).reshape(-1, x.nse, n_sparse).tolist()
        assert all(row == sorted(row) for row in rows)
    for remove in (False, True):
        summed = x.sum_duplicates(remove_zeros=remove)
        close(summed, d)
        close(ga.jit(lambda x, r=remove: x.sum_duplicates(nse=7, remove_zeros=r))(x), d)
        assert summed.unique_indices and summed.indices_sorted
    close(x[1], d[1])
    close(x[:, 1:3, ::2], d[:, 1:3, ::2])
    close(x[..., ::-1], d[..., ::-1])
    close(x[None], d[None])
    close(2 * x / 4, d / 2)
    close(abs(x), abs(d))
    close(x**2, d**2)
    close(-x + x * 3, 2 * d)
    close(x - x, 0 * d)
    close(x * gnp.arange(4.0), d * np.arange(4))
    close(gnp.ones(SHAPE) + x, 1 + d)
    close(x.astype("bfloat16").astype("float32"), d.astype(ga.dtypes.bfloat16).astype("float32"))
    close(sparse.bcoo_dynamic_slice(x, (1, gnp.int32(1), 9), (1, 2, 3)), d[1:, 1:, 1:])
    picked = sparse.bcoo_extract(x, gnp.ones(SHAPE), assume_unique=True)
    valid = dense(sparse.BCOO((np.ones(x.data.shape, "float32"), x.indices), shape=SHAPE))
    close(picked, valid)
    close(sparse.bcoo_extract(x, gnp.ones(SHAPE), assume_unique=False), valid > 0)
    for new_batch, new_dense in LAYOUTS:
        close(x.update_layout(n_batch=new_batch, n_dense=new_dense, on_inefficient=None), d)
    batch = list(itertools.permutations(range(n_batch)))[-1]
    middle = list(itertools.permutations(range(n_batch, 3 - n_dense)))[-1]
    behind = list(itertools.permutations(range(3 - n_dense, 3)))[-1]
    close(x.transpose((*batch, *middle, *behind)), d.transpose((*batch, *middle, *behind)))


def test_products_of_every_kind():
    """Contracted, batch and free axes of each sort, against einsum."""
    rng = np.random.default_rng(1)
    for n_batch, n_dense in LAYOUTS:
        x = random_array(n_batch=n_batch, n_dense=n_dense, seed=2)
        d, contractible = dense(x), range(3 - n_dense)
        for n in range(3):
            for contract in itertools.permutations(contractible, n):
                paired = [a for a in range(n_batch) if a not in contract][:1]
                for batch in ([], paired) if paired else ([],):
                    shape = [SHAPE[a] for a in (*batch, *contract)]
                    y = rng.standard_normal((*shape, 2)).astype(np.float32)
                    at = range(len(batch), len(shape))
                    numbers = ((contract, at), (batch, range(len(batch))))
                    expected = np.asarray(lax.dot_general(d, y, numbers))
                    names = "abc"
                    left = "".join(names[a] for a in (*batch, *contract))
                    free = "".join(names[a] for a in range(3) if names[a] not in left)
                    result = "".join(names[a] for a in batch) + free + "z"
                    by_name = np.einsum(f"abc,{left}z->{result}", d, y)
                    np.testing.assert_allclose(expected, by_name, rtol=1e-4, atol=1e-5)
                    close(sparse.bcoo_dot_general(x, y, dimension_numbers=numbers), by_name)
                    turned = ((tuple(at), contract), (tuple(range(len(batch))), tuple(batch)))
                    got = sparse.bcoo_dot_general(y, x, dimension_numbers=turned)
                    order = "".join(names[a] for a in batch) + "z" + free
                    close(got, np.einsum(f"abc,{left}z->{order}", d, y))


def test_products_of_two_sparse_arrays():
    x, y = random_array((3, 4)), random_array((4, 5), seed=3)
    close(x @ y, dense(x) @ dense(y))
    close(ga.jit(lambda a, b: a @ b)(x, y), dense(x) @ dense(y))
    u, v = random_array((2, 3, 4), n_batch=1), random_array((2, 4, 5), n_batch=1, seed=3)
    close(u @ v, dense(u) @ dense(v))
    close(u @ y, dense(u) @ dense(y))
    close(x * random_array((3, 4), seed=4), dense(x) * dense(random_array((3, 4), seed=4)))
    close(x * random_array((1, 4), seed=4), dense(x) * dense(random_array((1, 4), seed=4)))
    close(
        u * random_array(SHAPE, n_batch=2, seed=5),
        dense(u) * dense(random_array(SHAPE, 2, 0, 5, 5)),
    )


def test_shapes_change_as_in_dense_arrays():
    x = random_array((2, 6, 4))
    d = dense(x)
    for shape in ((48,), (12, 4), (2, 2, 3, 4), (1, 2, 6, 4, 1)):
        close(x.reshape(shape), d.reshape(shape))
    b = random_array((2, 6, 4), n_batch=1, n_dense=1)
    close(b.reshape(1, 2, 3, 2, 2, 2), dense(b).reshape(1, 2, 3, 2, 2, 2))
    with pytest.raises(ValueError, match="cannot mix batch and sparse"):
        b.reshape(12, 4)
    for axis, (n_batch, n_dense) in itertools.product(range(2), [(0, 0), (1, 0), (1, 1), (0, 1)]):
        parts = [random_array(SHAPE, n_batch, n_dense, nse=4 + i, seed=i) for i in range(3)]
        got = sparse.bcoo_concatenate(parts, dimension=axis)
        close(got, np.concatenate([dense(p) for p in parts], axis))
    stacked = sparse.sparsify(lambda *xs: gnp.stack(xs, 1))(x, x)
    close(stacked, np.stack([d, d], 1))
    close(x[gnp.array([[1, 0], [0, 1]])], d[np.array([[1, 0], [0, 1]])])
    close(x[:, gnp.array([5, 2, 2])], d[:, [5, 2, 2]])
    one = sparse.bcoo_squeeze(random_array((1, 3, 1)), dimensions=(0, 2))
    close(one, dense(random_array((1, 3, 1)))[0, :, 0])
    assert [len(row.shape) for row in x] == [2, 2]


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_derivatives_keep_the_pattern(n_batch, n_dense):
    """Gradients of stored elements are the dense gradient at their places."""
    x = random_array(n_batch=n_batch, n_dense=n_dense)
    weights = np.random.default_rng(6).standard_normal(SHAPE).astype(np.float32)

    def f(x):
        return (weights * gnp.sin(sparse.todense(x))).sum()

    at = dense(sparse.bcoo_extract(x, weights * np.cos(dense(x)), assume_unique=True))
    value, gradient = sparse.value_and_grad(f)(x)
    close(gradient, at)
    assert (gradient.indices == x.indices).all()
    close(value, (weights * np.sin(dense(x))).sum())
    close(ga.jit(sparse.grad(f))(x), at)
    forward = sparse.jacfwd(lambda x: f(x))(x)
    close(forward, at)


def test_derivatives_of_products():
    x, v = random_array((3, 4)), np.linspace(-1, 1, 4, dtype=np.float32)
    f = lambda x, v: ((x @ v) ** 2).sum()
    by_x, by_v = sparse.grad(f, (0, 1))(x, v)
    d = dense(x)
    close(by_v, 2 * d.T @ (d @ v))
    close(by_x.todense(), dense(sparse.bcoo_extract(x, 2 * np.outer(d @ v, v), assume_unique=True)))
    rows = sparse.jacrev(lambda x: x @ v)(x)
    assert repr(rows) == "BCOO(float32[3, 3, 4], nse=5, n_batch=1)"
    picked = sparse.bcoo_dot_general_sampled(
        d, np.eye(4, dtype="float32"), x.indices, dimension_numbers=(([1], [0]), ([], []))
    )
    close(picked, np.asarray(sparse.bcoo_extract(x, d, assume_unique=True).data))
    y = random_array((4, 2), seed=8)
    of_sparse = sparse.grad(lambda x: (x @ y).todense().sum())(x)
    expected = np.ones((3, 2)) @ dense(y).T
    close(of_sparse, dense(sparse.bcoo_extract(x, expected.astype("float32"), assume_unique=True)))


def test_vmap_takes_the_batch():
    x = random_array((4, 3, 5), n_batch=1)
    v = np.arange(5, dtype=np.float32)
    d = dense(x)
    close(ga.vmap(lambda m: m @ v)(x), d @ v)
    close(ga.vmap(lambda m, v: m @ v)(x, np.ones((4, 5), "float32")), d.sum(-1))
    turned = ga.vmap(lambda m: m.T)(x)
    assert turned.shape == (4, 5, 3) and turned.n_batch == 1
    close(turned, d.transpose(0, 2, 1))
    close(ga.jit(ga.vmap(ga.grad(lambda v, m: (m @ v).sum()), in_axes=(None, 0)))(v, x), d.sum(1))
    made = ga.vmap(lambda row: sparse.BCOO.fromdense(row, nse=2))(np.eye(3, dtype="float32"))
    close(made, np.eye(3))
    assert ga.vmap(lambda m, x: x, in_axes=(None, 0))(x, v).shape == (5,)
    with pytest.raises(ValueError, match="in_axes for batched BCOO operations"):
        ga.vmap(lambda m: m.sum(), in_axes=1)(x)
    with pytest.raises(ValueError, match="inconsistent sizes"):
        ga.vmap(lambda m, v: m @ v)(x, np.ones((3, 5)))
    rows = sparse.BCSR.from_bcoo(random_array((4, 3, 5), n_batch=1).sum_duplicates(nse=5))
    close(ga.vmap(lambda m: m @ v)(rows), d @ v)


@pytest.mark.parametrize("kind", ["bcsr", "coo", "csr", "csc"])
def test_other_formats(kind):
    make = getattr(sparse, kind.upper())
    d = np.where(np.random.default_rng(0).random((5, 7)) < 0.4, 1.5, 0).astype(np.float32)
    d[2] = 0
    x = make.fromdense(d)
    assert x.nse == np.count_nonzero(d) and x.dtype == np.float32
    close(x.todense(), d)
    close(ga.jit(lambda x: x.todense())(make.fromdense(d, nse=20)), d)
    v, m = np.arange(7, dtype=np.float32), np.ones((7, 2), np.float32)
    close(x @ v, d @ v)
    close(ga.jit(lambda x, m: x @ m)(x, m), d @ m)
    by_v = ga.grad(lambda v: ((x @ v) ** 2).sum())(v)
    close(by_v, 2 * d.T @ (d @ v))
    gradient = sparse.grad(lambda x: (x @ v).sum())(x)
    assert type(gradient) is make
    close(gradient.todense(), (d != 0) * v)
    close(sparse.empty((5, 7), sparse_format=kind).todense(), np.zeros((5, 7)))
    close(pickle.loads(pickle.dumps(x)).todense(), d)
    if kind != "bcsr":
        close(x.T.todense(), d.T)
        for k in (-6, -2, 0, 1, 9):
            close(sparse.eye(5, 7, k, sparse_format=kind).todense(), np.eye(5, 7, k))
    with pytest.raises(NotImplementedError):
        x + x


def test_from_scipy():
    matrix = scipy.sparse.random(6, 5, 0.3, random_state=0, dtype=np.float32)
    close(sparse.BCOO.from_scipy_sparse(matrix), matrix.toarray())
    close(sparse.BCSR.from_scipy_sparse(matrix), matrix.toarray())
    rows = sparse.BCSR.from_scipy_sparse(matrix)
    assert (np.asarray(rows.indptr) == matrix.tocsr().indptr).all()
    close(rows.to_bcoo(), matrix.toarray())
    close(sparse.bcsr_concatenate([rows, rows], dimension=0), np.tile(matrix.toarray(), (2, 1)))
    wide = sparse.bcsr_broadcast_in_dim(rows, shape=(2, 6, 5), broadcast_dimensions=(1, 2))
    close(wide, np.broadcast_to(matrix.toarray(), (2, 6, 5)))
    twice = sparse.BCSR(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert sparse.bcsr_sum_duplicates(twice).data.tolist() == [3.0, 3.0]
    close(twice.sum_duplicates(), [[0, 3], [3, 0]])


def test_eye_and_empty():
    for n_batch, n_dense, k in itertools.product(range(3), range(3), (-3, -1, 0, 2, 5)):
        if n_batch + n_dense <= 2:
            close(sparse.eye(3, 4, k, n_batch=n_batch, n_dense=n_dense), np.eye(3, 4, k))
    assert (
        repr(sparse.empty((2, 3, 4), n_batch=1, nse=2))
        == "BCOO(float32[2, 3, 4], nse=2, n_batch=1)"
    )
    with pytest.raises(ValueError, match="sparse_format='odd' not recognized"):
        sparse.empty((2,), sparse_format="odd")


def test_random_arrays():
    x = sparse.random_bcoo(ga.random.key(0), (2, 5, 6), nse=0.3, n_batch=1, sorted_indices=True)
    assert x.nse == math.ceil(0.3 * 30) and x.indices_sorted
    for places in np.asarray(x.indices):
        assert len({tuple(p) for p in places}) == x.nse and (places < (5, 6)).all()
    with pytest.raises(ValueError, match="expected to be between 0 and 4"):
        sparse.random_bcoo(ga.random.key(0), (2, 2), nse=5)


def test_control_flow_carries_sparse_arrays():
    x = random_array((3, 3))
    d = dense(x)
    thrice = lambda x: lax.fori_loop(0, 3, lambda i, x: 2 * x, x)
    close(sparse.sparsify(thrice)(x), 8 * d)
    chosen = sparse.sparsify(lambda c, x: lax.cond(c, lambda x: 2 * x, lambda x: -x, x))
    close(ga.jit(chosen)(True, x), 2 * d)
    close(chosen(False, x), -d)
    steps = lambda x, v: lax.scan(lambda c, v: (c * 2, c @ v), x, v)
    last, ys = sparse.sparsify(steps)(x, np.eye(3, dtype="float32"))
    close(last, 8 * d)
    close(ys, np.stack([d[:, 0], 2 * d[:, 1], 4 * d[:, 2]]))
    close(sparse.sparsify(ga.jit(lambda x: gnp.sin(x).sum(0)))(x), np.sin(d).sum(0))
    close(sparse.sparsify(lambda x: gnp.exp(sparse.todense(x)))(x), np.exp(d))
    close(sparse.sparsify(ga.jit(lambda x: 1 + sparse.todense(2 * x)))(x), 1 + 2 * d)
    # A rule's `fwd` is opened, where it is an equation of its own too.
    for optimize in (False, True):
        f = ga.custom_vjp(lambda m, v: m @ v)
        f.defvjp(lambda m, v: (m @ v, m), lambda m, ct: (None, ct @ m), optimize_remat=optimize)
        slope = lambda m, f=f: ga.grad(lambda v: ga.jit(f)(m, v).sum())(np.ones(len(d.T), d.dtype))
        close(sparse.sparsify(slope)(x), d.sum(0))


def test_nothing_becomes_dense_unasked():
    x = random_array((3, 4))
    for f in (gnp.exp, gnp.cos, lambda x: x > 1, lambda x: x**0, lambda x: 1 / x):
        with pytest.raises(NotImplementedError, match="dense output"):
            sparse.sparsify(f)(x)
    with pytest.raises(NotImplementedError, match="sparse rule for sort"):
        sparse.sparsify(gnp.sort)(x)
    with pytest.raises(NotImplementedError, match="todense"):
        x + gnp.ones(4)
    with pytest.raises(sparse.SparseEfficiencyError, match="n_batch from 0 to 1"):
        x.update_layout(n_batch=1)
    with pytest.warns(sparse.SparseEfficiencyWarning):
        x.update_layout(n_dense=1, on_inefficient="warn")


def test_bad_arrays_say_so():
    ones = gnp.ones(2)
    for args, shape, match in (
        ((ones, [[0], [1]]), (2, 2, 2), "Invalid data.shape"),
        ((ones, [0, 1]), (2,), "indices have the axes"),
        ((ones, [[0, 0, 0], [1, 1, 1]]), (2, 2), "more than the shape"),
        ((ones, gnp.zeros((3, 2, 1), int)), (2, 2), "indices batch dimensions"),
    ):
        with pytest.raises(ValueError, match=match):
            sparse.BCOO(args, shape=shape)
    with pytest.raises(TypeError, match="indices of BCOO must be integers"):
        sparse.BCOO((ones, gnp.ones((2, 1))), shape=(2,))
    with pytest.raises(TypeError, match="isn't a permutation"):
        sparse.eye(2).transpose((0, 0))
    with pytest.raises(ValueError, match="nse must be specified"):
        ga.jit(lambda x: x.sum_duplicates())(sparse.eye(2))
    with pytest.raises(ga.errors.ConcretizationTypeError, match="nse argument of bcoo_fromdense"):
        ga.jit(sparse.BCOO.fromdense)(gnp.eye(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(sparse.eye(2))
    close(bcoo_eliminate_zeros(sparse.BCOO((ones * 0, [[0], [1]]), shape=(2,))), [0, 0])


def test_printed_and_as_pytrees():
    x = sparse.eye(3)
    leaves, spec = ga.tree.flatten(x)
    assert [leaf.shape for leaf in leaves] == [(3,), (3, 2)]
    assert repr(ga.tree.unflatten(spec, [1, 2])) == "BCOO(<invalid>)"
    assert repr(pickle.loads(pickle.dumps(x))) == "BCOO(float32[3, 3], nse=3)"
    assert ga.jit(lambda x: x)(x).unique_indices
    traces = []
    f = ga.jit(lambda x: (traces.append(1), x.sum())[1])
    f(x), f(sparse.eye(3) * 2.0), f(sparse.eye(3, k=1))
    assert len(traces) == 2  # the last one stores fewer elements
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(np.ones(3, "float32") @ x, np.ones(3))


def test_convolution():
    rng = np.random.default_rng(0)
    signal = np.where(rng.random(9) < 0.5, rng.standard_normal(9), 0).astype(np.float32)
    window = rng.standard_normal(3).astype(np.float32)
    for padding, mode in (("VALID", "valid"), ([(2, 2)], "full"), ("SAME", "same")):
        got = sparse.bcoo_conv_general_dilated(
            sparse.BCOO.fromdense(signal[None, None]),
            window[None, None, ::-1],
            window_strides=(1,),
            padding=padding,
        )
        close(got, np.convolve(signal, window, mode)[None, None])


def test_spsolve():
    rng = np.random.default_rng(0)
    d = (np.eye(6) * 4 + np.where(rng.random((6, 6)) < 0.3, 1, 0)).astype(np.float32)
    b = rng.standard_normal(6).astype(np.float32)
    x = sparse.CSR.fromdense(d)
    for reorder in range(4):
        close(
            sparse.linalg.spsolve(*x.tree_flatten()[0], b, reorder=reorder), np.linalg.solve(d, b)
        )
    solve = lambda data, b: sparse.linalg.spsolve(data, x.indices, x.indptr, b)
    by_data, by_b = ga.jit(ga.grad(lambda data, b: solve(data, b).sum(), (0, 1)))(x.data, b)
    adjoint = np.linalg.solve(d.T, np.ones(6))
    close(by_b, adjoint)
    full = -np.outer(adjoint, np.linalg.solve(d, b))
    close(by_data, full[d != 0])
    assert np.isnan(sparse.linalg.spsolve(x.data * 0, x.indices, x.indptr, b)).all()
    with pytest.raises(ValueError, match="reorder must be 0, 1, 2 or 3"):
        sparse.linalg.spsolve(*x.tree_flatten()[0], b, reorder=7)


def test_lobpcg():
    n, k = 60, 3
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.geomspace(100, 1, n)
    a = ((basis * values) @ basis.T).astype(np.float32)
    start = rng.standard_normal((n, k)).astype(np.float32)
    for operand in (a, lambda x: gnp.matmul(a, x), sparse.BCOO.fromdense(a)):
        found, vectors, steps = sparse.linalg.lobpcg_standard(operand, start, m=80)
        np.testing.assert_allclose(found, values[:k], rtol=1e-4)
        np.testing.assert_allclose(a @ vectors, vectors * found, atol=2e-2)
        assert 0 < steps < 80
    with pytest.raises(ValueError, match="search dim"):
        sparse.linalg.lobpcg_standard(a, np.ones((n, 20), np.float32))


def test_kernels_of_a_simulator():
    """The CUDA text of a sparse product, run on the CPU."""
    x, v = random_array((6, 5), nse=9), np.arange(5, dtype=np.float32)
    with ga.default_device("simulator"):
        inside = sparse.BCOO((gnp.array(x.data), gnp.array(x.indices)), shape=x.shape)
        close(ga.jit(lambda m, v: m @ v)(inside, gnp.array(v)), dense(x) @ v)
        close(ga.jit(lambda m: m.todense())(inside), dense(x))


def test_primitives_of_jax_are_bound_to_the_parts():
    dense = np.array([[0, 2, 0], [3, 0, -1]], np.float32)
    x, v = sparse.BCOO.fromdense(dense), np.arange(3, dtype=np.float32)
    info, numbers = SparseInfo(dense.shape), (((1,), (0,)), ((), ()))
    parts = x.data, x.indices
    bind = lambda name, *args, **params: getattr(sparse, name).bind(*args, **params)
    np.testing.assert_array_equal(bind("bcoo_todense_p", *parts, spinfo=info), dense)
    turned = bind("bcoo_transpose_p", *parts, permutation=(1, 0), spinfo=info)
    np.testing.assert_array_equal(sparse.BCOO(turned, shape=(3, 2)).todense(), dense.T)
    params = {"dimension_numbers": numbers, "preferred_element_type": None, "lhs_spinfo": info}
    np.testing.assert_array_equal(bind("bcoo_dot_general_p", *parts, v, **params), dense @ v)
    y = sparse.CSR.fromdense(dense)
    csr = y.data, y.indices, y.indptr
    found = bind("csr_matvec_p", *csr, v, shape=dense.shape, transpose=False)
    np.testing.assert_array_equal(found, dense @ v)
    loss = lambda data: bind("csr_todense_p", data, *csr[1:], shape=dense.shape)[1, 2] ** 2
    np.testing.assert_array_equal(ga.grad(loss)(y.data), [0, 0, -2])
    leaves, spec = ga.tree.flatten(x)
    np.testing.assert_array_equal(
        ga.jit(lambda *b: bind("todense_p", *b, tree=spec))(*leaves), dense
    )
    assert pickle.loads(pickle.dumps(sparse.bcsr_extract_p)) is sparse.bcsr_extract_p


def test_branches_of_other_formats_are_refused_by_name():
    @sparse.sparsify
    def first_or_second(x, y):
        return lax.cond(False, lambda x: x[0], lambda x: x[1], (x, y))

    x = gnp.arange(5.0)
    mat = sparse.BCOO.fromdense(x)
    assert first_or_second(mat, mat).todense().tolist() == x.tolist()
    with pytest.raises(TypeError, match="sparsified true_fun output must have same type structure"):
        first_or_second(mat, x)
