"""Derivatives and batching of gather and scatter: every mode, places named more than once, batches.

The laws (differences, adjoint, vmap is a loop) are tried in tests/generic/test_transforms.py. Here
are the values where indices are out of bounds, equal to one another, or tied, and the refusals.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
TO_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
#: One row twice, and one that does not exist.
INDICES = np.array([[0], [2], [0], [7]], np.int32)


def f32(values):
    return np.asarray(values, np.float32)


X = f32([[1, 3, 2], [0, 1, 5], [2, 2, 4]])
U = f32([[5, 3, 0], [2, 1, 9], [5, 2, 1], [6, 6, 6]])
#: Cotangents that tell the elements apart.
OF_ROWS = f32(np.arange(1, 13).reshape(4, 3))
OF_X = f32(np.arange(1, 10).reshape(3, 3))


def pulled(fun, ct, *args):
    return [np.asarray(x) for x in ga.vjp(fun, *args)[1](ct)]


# ---- gather ----


@pytest.mark.parametrize(
    ("mode", "last"), [("fill", None), ("clip", 2), ("promise_in_bounds", None), ("one_hot", None)]
)
def test_gather_scatters_back(mode, last):
    indices = INDICES[:3] if mode == "promise_in_bounds" else INDICES
    ct = OF_ROWS[: len(indices)]
    (found,) = pulled(lambda x: lax.gather(x, indices, ROWS, (1, 3), mode=mode), ct, X)
    expected = np.zeros((3, 3))
    expected[0], expected[2] = OF_ROWS[0] + OF_ROWS[2], OF_ROWS[1]
    if last is not None:
        expected[last] += OF_ROWS[3]
    np.testing.assert_array_equal(found, expected)


def test_what_is_filled_in_has_no_tangent():
    def rows(x):
        return lax.gather(x, INDICES, ROWS, (1, 3), mode="fill", fill_value=7.0)

    out, tangent = ga.jvp(rows, (X,), (OF_X,))
    np.testing.assert_array_equal(np.asarray(out), [*X[[0, 2, 0]], [7, 7, 7]])
    np.testing.assert_array_equal(np.asarray(tangent), [*OF_X[[0, 2, 0]], [0, 0, 0]])


# ---- scatters ----


def scatter(name, indices=INDICES, **kwargs):
    return lambda x, u: getattr(lax, name)(x, indices, u, TO_ROWS, **kwargs)


#: (function, mode) -> cotangents of the operand and of the updates, for a cotangent OF_X
PULLED = {
    ("scatter_add", "drop"): (OF_X, [*OF_X[[0, 2, 0]], [0, 0, 0]]),
    ("scatter_add", "clip"): (OF_X, OF_X[[0, 2, 0, 2]]),
    ("scatter_sub", "drop"): (OF_X, -f32([*OF_X[[0, 2, 0]], [0, 0, 0]])),
    # Of several updates of one place the last one counts.
    ("scatter", "drop"): ([[0] * 3, OF_X[1], [0] * 3], [[0] * 3, OF_X[2], OF_X[0], [0] * 3]),
    ("scatter", "clip"): ([[0] * 3, OF_X[1], [0] * 3], [[0] * 3, [0] * 3, OF_X[0], OF_X[2]]),
    # Row 0: 1 3 2 against 5 3 0 and 5 2 1; row 2: 2 2 4 against 2 1 9.
    ("scatter_max", "drop"): (
        [[0, 1, 3], OF_X[1], [3.5, 8, 0]],
        [[0.5, 1, 0], [3.5, 0, 9], [0.5, 0, 0], [0, 0, 0]],
    ),
    ("scatter_min", "drop"): (
        [[1, 0, 0], OF_X[1], [3.5, 0, 9]],
        [[0, 0, 3], [3.5, 8, 0], [0, 2, 0], [0, 0, 0]],
    ),
}


@pytest.mark.parametrize(("name", "mode"), PULLED)
def test_scatters_pull_back(name, mode):
    fun = scatter(name, mode=mode)
    for found, expected in zip(pulled(fun, OF_X, X, U), PULLED[name, mode], strict=True):
        np.testing.assert_allclose(found, f32(expected), rtol=1e-6)
    # And forward: the same numbers by the other road.
    _, tangent = ga.jvp(fun, (X, U), (OF_X, OF_ROWS))
    given = sum((f32(e) * t).sum() for e, t in zip(PULLED[name, mode], (OF_X, OF_ROWS)))
    assert np.isclose(float((np.asarray(tangent) * OF_X).sum()), given)


def test_scatter_keeps_its_value_under_differentiation():
    fun = scatter("scatter")
    out, _ = ga.jvp(fun, (X, U), (X, U))
    np.testing.assert_array_equal(np.asarray(out), np.asarray(fun(X, U)))


def test_scatter_of_different_places_is_linear():
    fun = scatter("scatter", INDICES[:2], unique_indices=True)
    of_x, of_u = pulled(fun, OF_X, X, U[:2])
    np.testing.assert_array_equal(of_x, [[0] * 3, OF_X[1], [0] * 3])
    np.testing.assert_array_equal(of_u, OF_X[[0, 2]])
    graph = ga.make_jaxpr(lambda x, u: ga.jvp(fun, (x, u), (x, u))[1])(X, U[:2])
    assert [e.primitive.name for e in graph.eqns].count("scatter") == 2


def test_scatter_mul_of_different_places():
    fun = scatter("scatter_mul", INDICES[:2], unique_indices=True)
    of_x, of_u = pulled(fun, OF_X, X, U[:2])
    np.testing.assert_array_equal(of_x, [OF_X[0] * U[0], OF_X[1], OF_X[2] * U[1]])
    np.testing.assert_array_equal(of_u, OF_X[[0, 2]] * X[[0, 2]])


def test_scatter_mul_of_equal_places():
    fun = scatter("scatter_mul")
    (of_x,) = pulled(lambda x: fun(x, U), OF_X, X)
    np.testing.assert_array_equal(of_x, [OF_X[0] * U[0] * U[2], OF_X[1], OF_X[2] * U[1]])
    with pytest.raises(NotImplementedError, match="only implemented if `unique_indices=True`"):
        ga.grad(lambda u: fun(X, u).sum())(U)


def test_scatter_apply_has_no_derivative():
    def squared(x):
        return lax.scatter_apply(x, INDICES, lambda v: v * v, TO_ROWS, update_shape=(4, 3)).sum()

    with pytest.raises(NotImplementedError, match="scatter_apply JVP not implemented"):
        ga.grad(squared)(X)


def test_a_nan_that_nobody_touches_keeps_its_tangent():
    x = f32([[1, 1, 1], [np.nan, 1, 1], [1, 1, 1]])
    _, tangent = ga.jvp(lambda x: scatter("scatter_max")(x, U), (x,), (OF_X,))
    np.testing.assert_array_equal(np.asarray(tangent)[1], OF_X[1])


def test_second_derivative():
    def fun(x, u):
        return (gnp.asarray(x).at[np.array([0, 0, 2])].add(u * u) ** 2).sum()

    x, u = f32([1, 2, 3]), f32([1, 2, 3])
    hessian = np.asarray(ga.hessian(fun, 1)(x, u))
    # f = (x0 + u0² + u1²)² + (x2 + u2²)²: f_ij = 8 ui uj (same place) + 4 s (i = j)
    first, last = 1 + 1 + 4, 3 + 9
    expected = np.zeros((3, 3))
    expected[:2, :2] = 8 * np.outer(u[:2], u[:2]) + 4 * first * np.eye(2)
    expected[2, 2] = 8 * 9 + 4 * last
    np.testing.assert_allclose(hessian, expected)


# ---- batches ----


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("axes", [(0, 0), (1, None), (None, 1), (2, 1)])
def test_gradient_of_a_batched_gather(axes, mode):
    rng = np.random.default_rng(0)
    rows, n = 3, 2
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    at = np.array([[0], [2], [2], [9]], np.int32)
    xs = x if axes[0] is None else np.stack([x, -2 * x], axes[0])
    indices = at if axes[1] is None else np.stack([at, at[::-1]], axes[1])

    def one(x, i):
        return (lax.gather(x, i, ROWS, (1, 4), mode=mode) ** 3).sum()

    def looped(xs):
        part = (lambda k: xs) if axes[0] is None else (lambda k: gnp.take(xs, k, axes[0]))
        which = (lambda k: at) if axes[1] is None else (lambda k: indices.take(k, axes[1]))
        return sum(one(part(k), which(k)) for k in range(n))

    if mode == "fill":  # NaN otherwise
        indices, at = np.minimum(indices, 2), np.minimum(at, 2)
    found = ga.grad(lambda xs: ga.vmap(one, axes)(xs, indices).sum())(xs)
    np.testing.assert_allclose(np.asarray(found), np.asarray(ga.grad(looped)(xs)), rtol=1e-6)


@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_max"])
@pytest.mark.parametrize("axes", [(0, 0, 0), (None, 1, None), (1, None, None), (None, None, 2)])
def test_gradient_of_a_batched_scatter(name, axes):
    """Batched, then differentiated, and the other way round."""

    def cube(x, i, u):
        return getattr(lax, name)(x, i, u, TO_ROWS) ** 3

    def stacked(v, axis):
        return v if axis is None else np.stack([v, v[::-1]], axis)

    args = [stacked(v, a) for v, a in zip((X, INDICES, U), axes, strict=True)]
    batched = ga.vmap(cube, axes)
    nums = [k for k in (0, 2) if axes[k] is not None] or [0]
    for k in nums:
        found = ga.grad(lambda *a: batched(*a).sum(), k)(*args)
        each = ga.vmap(ga.grad(lambda *a: cube(*a).sum(), k), axes)(*args)
        expected = each.sum(0) if axes[k] is None else gnp.moveaxis(each, 0, axes[k])
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)


def test_batches_of_batches_use_batching_dimensions():
    x, i = np.zeros((6, 5, 3, 4), np.float32), np.zeros((6, 5, 2, 1), np.int32)
    graph = ga.make_jaxpr(ga.vmap(ga.vmap(lambda x, i: lax.gather(x, i, ROWS, (1, 4)))))(x, i)
    (eqn,) = graph.eqns
    assert eqn.params["dimension_numbers"] == ((3,), (2,), (2,), (0, 1), (0, 1))
    assert eqn.params["slice_sizes"] == (1, 1, 1, 4)


def test_windows_of_one_operand_are_no_longer_unique():
    def row(i):
        return lax.gather(X, i, ROWS, (1, 3), unique_indices=True, indices_are_sorted=True)

    graph = ga.make_jaxpr(ga.vmap(row))(np.zeros((4, 1, 1), np.int32))
    (eqn,) = graph.eqns
    assert not eqn.params["unique_indices"]
    assert not eqn.params["indices_are_sorted"]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_batches_of_any_size(size):
    x = np.arange(size * 9, dtype=np.float32).reshape(size, 3, 3)
    i = np.zeros((size, 2, 1), np.int32) + 1
    taken = ga.vmap(lambda x, i: lax.gather(x, i, ROWS, (1, 3)))(x, i)
    np.testing.assert_array_equal(np.asarray(taken), x[:, [1, 1]])
    added = ga.vmap(lambda x, i: lax.scatter_add(x, i, U[:2], TO_ROWS))(x, i)
    expected = x.copy()
    expected[:, 1] += U[0] + U[1]
    np.testing.assert_array_equal(np.asarray(added), expected)


# ---- through the numpy namespace ----

AT = {
    "set": (lambda x, y: x.at[np.array([0, 0])].set(y), [0, 1], [0, 1]),
    "add": (lambda x, y: x.at[np.array([0, 0])].add(y), [1, 1], [1, 1]),
    "max": (lambda x, y: x.at[np.array([1, 1])].max(y), [1, 0], [0.5, 0.5]),
}


@pytest.mark.parametrize("name", AT)
def test_updates_in_place(name):
    fun, of_x, of_y = AT[name]
    x, y = f32([1, 2]), f32([4, 4])
    found = ga.jit(ga.grad(lambda x, y: fun(x, y).sum(), (0, 1)))(x, y)
    np.testing.assert_allclose(np.asarray(found[0]), of_x)
    np.testing.assert_allclose(np.asarray(found[1]), of_y)
