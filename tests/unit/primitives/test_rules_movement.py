"""Derivatives and batching of index maps, reductions, running folds, sorts and windows.

The laws (differences, adjoint, vmap is a loop) are tried in tests/generic/test_transforms.py. Here
are the values at points where a derivative is a choice, the printed gradients, and the refusals.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.primitive import registry

NAN, INF = float("nan"), float("inf")


def f32(values):
    return np.asarray(values, np.float32)


def weighted(fun):
    """A scalar function whose gradient tells the outputs of `fun` apart."""

    def total(*args):
        out = fun(*args)
        weights = np.arange(1.0, out.size + 1, dtype=np.float32).reshape(out.shape)
        return (out * weights).sum()

    return total


def gradient(fun, *args):
    return np.asarray(ga.grad(weighted(fun))(*map(f32, args)))


# ---- gradients of index maps ----

GRADIENTS = {
    "broadcast": (
        lambda x: lax.broadcast_in_dim(x, (2, 3), (1,)),
        [0, 0, 0],
        [1 + 4, 2 + 5, 3 + 6],
    ),
    "broadcast of length 1": (
        lambda x: lax.broadcast_in_dim(x, (2, 2), (0, 1)),
        [[1], [2]],
        [[3], [7]],
    ),
    "broadcast that permutes": (
        lambda x: registry["broadcast_in_dim"].bind(
            x, shape=(3, 2), broadcast_dimensions=(1, 0), sharding=None
        ),
        np.zeros((2, 3)),
        [[1, 3, 5], [2, 4, 6]],
    ),
    "reshape": (lambda x: lax.reshape(x, (6,), (1, 0)), np.zeros((2, 3)), [[1, 3, 5], [2, 4, 6]]),
    "squeeze": (lambda x: lax.squeeze(x, (0, 2)), np.zeros((1, 2, 1)), [[[1], [2]]]),
    "transpose": (lambda x: x.T, np.zeros((2, 2)), [[1, 3], [2, 4]]),
    "slice": (lambda x: x[1:4:2], np.zeros(6), [0, 1, 0, 2, 0, 0]),
    "empty slice": (lambda x: lax.slice(x, (2,), (2,), (3,)), np.zeros(4), [0, 0, 0, 0]),
    "rev": (lambda x: x[::-1], np.zeros(3), [3, 2, 1]),
    "pad": (
        lambda x: lax.pad(x, np.float32(0), ((1, 0, 1), (-1, 1, 0))),
        np.zeros((2, 2)),
        [[0, 3], [0, 7]],
    ),
    "padding value": (
        lambda v: lax.pad(f32([0, 0]), v, ((1, 1, 1),)),
        0,
        1 + 3 + 5,
    ),
    "tile": (lambda x: gnp.tile(x, 2), np.zeros(2), [1 + 3, 2 + 4]),
    "concatenate": (lambda x: lax.concatenate([x, f32([0]), x], 0), np.zeros(2), [1 + 4, 2 + 5]),
    "stack": (lambda x: gnp.stack([x, x * 2]), np.zeros(2), [1 + 6, 2 + 8]),
    "split": (lambda x: lax.split(x, [1, 2])[1], np.zeros(3), [0, 1, 2]),
    "unstack": (lambda x: gnp.unstack(x, axis=1)[1], np.zeros((2, 2)), [[0, 1], [0, 2]]),
    "dynamic_slice, moved inside": (
        lambda x: lax.dynamic_slice(x, (9,), (2,)),
        np.zeros(4),
        [0, 0, 1, 2],
    ),
    "dynamic_update_slice": (
        lambda x: lax.dynamic_update_slice(x, f32([0, 0]), (1,)),
        np.zeros(4),
        [1, 0, 0, 4],
    ),
    "dynamic_update_slice, update": (
        lambda u: lax.dynamic_update_slice(np.zeros(4, np.float32), u, (-1,)),
        np.zeros(2),
        [3, 4],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    fun, at, expected = GRADIENTS[name]
    np.testing.assert_array_equal(gradient(fun, at), f32(expected))
    np.testing.assert_array_equal(np.asarray(ga.jit(ga.grad(weighted(fun)))(f32(at))), expected)


# ---- where a derivative is a choice ----

CHOICES = {
    "max, tie": (lambda x: x.max(), [1, 3, 3], [0, 0.5, 0.5]),
    "max, nan": (lambda x: x.max(), [1, NAN, 3], [NAN, NAN, NAN]),
    "min, tie of three": (lambda x: x.min(), [2, 2, 2], [1 / 3] * 3),
    "prod, one zero": (lambda x: x.prod(), [2, 0, 3], [0, 6, 0]),
    "prod, two zeros": (lambda x: x.prod(), [0, 0, 3], [0, 0, 0]),
    "prod of one": (lambda x: x.prod(), [5], [1]),
    "prod of none": (lambda x: x.prod(), [], []),
    "cummax, tie": (lambda x: lax.cummax(x), [1, 2, 2], [1, 2 + 3 / 2, 3 / 2]),
    "cummin, reversed": (lambda x: lax.cummin(x, reverse=True), [1, 2, 0], [0, 0, 6]),
    "cumprod, zeros": (lambda x: lax.cumprod(x), [2, 0, 3], [1, 2 * 2 + 3 * 6, 0]),
    "cumsum, reversed": (lambda x: lax.cumsum(x, reverse=True), [0, 0, 0], [1, 3, 6]),
    "sort, ties keep order": (lambda x: lax.sort(x), [2, 1, 1, NAN], [3, 1, 2, 4]),
    "sort by another": (
        lambda x: lax.sort((f32([2, 1, 3]), x), num_keys=1)[1],
        [0, 0, 0],
        [2, 1, 3],
    ),
    "top_k": (lambda x: lax.top_k(x, 2)[0], [2, 5, 5], [0, 1, 2]),
    "approx_max_k": (lambda x: lax.approx_max_k(x, 1)[0], [2, 7, 5], [0, 1, 0]),
    "argmax": (lambda x: x.argmax() * x[:1], [1, 2], [1, 0]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_where_a_derivative_is_a_choice(name):
    fun, at, expected = CHOICES[name]
    np.testing.assert_allclose(gradient(fun, at), f32(expected), rtol=1e-6)


def test_second_derivative_of_a_product_with_zeros():
    hessian = ga.hessian(gnp.prod)(f32([0, 2, 0, 3]))
    expected = np.zeros((4, 4))
    expected[0, 2] = expected[2, 0] = 6
    np.testing.assert_array_equal(np.asarray(hessian), expected)


def test_second_derivative_of_a_running_logsumexp():
    # d²/dx² log sum exp x = diag(p) - p pᵀ with p = softmax x, also between equal elements
    x = f32([1, 2, 2])
    p = np.exp(x) / np.exp(x).sum()
    hessian = ga.hessian(lambda x: lax.cumlogsumexp(x)[-1])(x)
    np.testing.assert_allclose(np.asarray(hessian), np.diag(p) - np.outer(p, p), atol=1e-6)


def test_running_logsumexp_of_complex_numbers_stays_on_its_branch():
    z = np.array([3j, 2.9j + 0.1, 1 - 3j], np.complex64)
    out, _ = ga.jvp(lax.cumlogsumexp, (z,), (z,))
    direct = lax.cumlogsumexp(z)
    np.testing.assert_allclose(np.asarray(out), np.asarray(direct), rtol=1e-5)


# ---- windows ----


def pool(x, reducer=lax.max, start=-INF, **kwargs):
    params = {"window_dimensions": (2,), "window_strides": (2,), "padding": "VALID", **kwargs}
    return lax.reduce_window(x, np.float32(start), reducer, **params)


WINDOWS = {
    "max": (pool, [1, 4, 3, 2], [0, 1, 2, 0]),
    "max, the first of equals": (pool, [4, 4, 2, 2], [1, 0, 2, 0]),
    "max, overlapping": (lambda x: pool(x, window_strides=(1,)), [1, 4, 3], [0, 3, 0]),
    "max, holes in the operand": (lambda x: pool(x, base_dilation=(2,)), [5, 6], [1, 0]),
    "max, holes in the window": (
        lambda x: pool(x, window_strides=(1,), window_dilation=(2,), padding=((1, 1),)),
        [1, 4, 3, 2],
        [0, 1 + 3, 2 + 4, 0],
    ),
    "max, cut off": (lambda x: pool(x, padding=((-1, 0),)), [9, 4, 3], [0, 1, 0]),
    "min": (lambda x: pool(x, lax.min, INF), [1, 4, 3, 2], [1, 0, 0, 2]),
    "sum": (lambda x: pool(x, lax.add, 0), [1, 4, 3, 2], [1, 1, 2, 2]),
    "sum, strides leave some out": (
        lambda x: pool(x, lax.add, 0, window_strides=(3,)),
        [0] * 6,
        [1, 1, 0, 2, 2, 0],
    ),
    "sum, holes in both": (
        lambda x: pool(
            x,
            lax.add,
            0,
            window_strides=(1,),
            base_dilation=(2,),
            window_dilation=(2,),
            padding=((1, 2),),
        ),
        [0] * 3,
        [2, 2 + 4, 4 + 6],
    ),
    "any fold": (lambda x: pool(x, lax.mul, 1), [1, 4, 3, 2], [4, 1, 4, 6]),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    fun, at, expected = WINDOWS[name]
    np.testing.assert_array_equal(gradient(fun, at), f32(expected))


def test_every_window_may_start_from_its_own_value():
    starts, x = f32([1, 2, 3]), f32([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    found = ga.vmap(lambda x, s: lax.reduce_window(x, s, lax.mul, (2,), (1,), ((1, 0),)))(x, starts)
    # The padding counts as the start too.
    first = starts[:, None] ** 2 * x[:, :1]
    rest = starts[:, None] * x[:, :-1] * x[:, 1:]
    np.testing.assert_array_equal(np.asarray(found), np.concatenate([first, rest], 1))


def test_every_fold_may_start_from_its_own_value():
    fold = ga.vmap(lambda x, s: lax.reduce(x, s, lambda a, b: a * b, (0,)))
    found = fold(f32([[1, 2, 3], [4, 5, 6]]), f32([10, 20]))
    np.testing.assert_array_equal(np.asarray(found), [60, 2400])


def test_a_fold_that_is_not_pointwise_has_a_derivative():
    def fold(a, b):
        return gnp.prod(gnp.stack([a, b]))

    found = ga.grad(lambda x: lax.reduce(x, np.float32(1), fold, (0,)))(f32([2, 3, 5]))
    np.testing.assert_array_equal(np.asarray(found), [15, 10, 6])


# ---- batches ----


def test_every_element_may_have_its_own_padding():
    found = ga.vmap(lambda x, v: lax.pad(x, v, ((1, 0, 1),)))(f32([[1, 2], [3, 4]]), f32([8, 9]))
    np.testing.assert_array_equal(np.asarray(found), [[8, 1, 8, 2], [9, 3, 9, 4]])


def test_random_keys_are_batched_like_numbers():
    keys = ga.random.split(ga.random.key(0), 3)
    one = ga.random.key(7)
    found = ga.vmap(lambda k: gnp.stack([k, one]))(keys)
    assert found.shape == (3, 2)
    words = ga.random.key_data(found)
    np.testing.assert_array_equal(words[:, 0], ga.random.key_data(keys))
    np.testing.assert_array_equal(words[:, 1], np.stack([ga.random.key_data(one)] * 3))


@pytest.mark.parametrize("start", [-5, 0, 1, 9])
def test_batched_starts_are_moved_inside(start):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    starts = np.array([start, 1], np.int32)
    read = ga.vmap(lambda i: lax.dynamic_slice(x, (i, i), (2, 2)))(starts)
    written = ga.vmap(lambda i: lax.dynamic_update_slice(x, np.zeros((2, 2), np.float32), (i, i)))
    for n, i in enumerate(starts):
        row, column = np.clip(i, 0, 1), np.clip(i, 0, 2)
        window = (slice(row, row + 2), slice(column, column + 2))
        np.testing.assert_array_equal(np.asarray(read[n]), x[window])
        expected = x.copy()
        expected[window] = 0
        np.testing.assert_array_equal(np.asarray(written(starts)[n]), expected)


def test_gradient_through_overlapping_batched_windows_adds_up():
    starts = np.array([0, 1, 1], np.int32)

    def windows(x):
        return ga.vmap(lambda i: lax.dynamic_slice(x, (i,), (2,)))(starts)

    np.testing.assert_array_equal(gradient(windows, np.zeros(3)), [1, 2 + 3 + 5, 4 + 6])


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("axes", [(0, 0), (1, 0), (None, 0), (0, None)])
def test_searches_in_batches(axes, size):
    ordered = np.sort(np.random.default_rng(0).integers(0, 9, (size, 5)), -1).astype(np.float32)
    query = np.arange(size * 4, dtype=np.float32).reshape(size, 2, 2)
    first = np.arange(5, dtype=np.float32) if axes[0] is None else ordered
    second = np.float32([[1, 4], [2, 9]]) if axes[1] is None else query
    lines = [first if axes[0] is None else first[n] for n in range(size)]
    asked = [second if axes[1] is None else second[n] for n in range(size)]
    expected = [np.searchsorted(a, q) for a, q in zip(lines, asked, strict=True)]
    given = first.T if axes[0] == 1 else first
    found = ga.vmap(gnp.searchsorted, in_axes=axes)(given, second)
    np.testing.assert_array_equal(np.asarray(found), np.reshape(expected, (size, 2, 2)))


def test_the_generator_of_a_device_refuses_batched_bounds():
    bind = registry["rng_uniform"].bind
    with pytest.raises(TypeError, match="Batching rule for 'rng_uniform' not implemented"):
        ga.vmap(lambda low: bind(low, np.float32(1), shape=(2,)))(f32([0, 0.5]))


# ---- printed gradients ----

PRINTED = {
    "max": (
        lambda x: x.max(0).sum(),
        "reduce_max reshape eq convert_element_type reduce_sum reduce_sum broadcast_in_dim div "
        "broadcast_in_dim mul",
    ),
    "slice": (lambda x: x[1:].sum(), "slice reduce_sum broadcast_in_dim pad"),
    "broadcast": (
        lambda x: lax.broadcast_in_dim(x, (3, 2, 2), (1, 2)).sum(),
        "broadcast_in_dim reduce_sum broadcast_in_dim reduce_sum",
    ),
    "pooling": (
        lambda x: lax.reduce_window(x, -INF, lax.max, (2, 1), (1, 1), "VALID").sum(),
        "reduce_window_max reduce_sum broadcast_in_dim select_and_scatter_add",
    ),
    "sort": (
        lambda x: lax.sort(x).sum(),
        "iota sort broadcast_in_dim reduce_sum broadcast_in_dim broadcast_in_dim scatter-add",
    ),
    "top_k": (
        lambda x: lax.top_k(x, 1)[0].sum(),
        "top_k reshape reduce_sum broadcast_in_dim broadcast_in_dim scatter-add",
    ),
    "cumsum": (lambda x: lax.cumsum(x).sum(), "cumsum reduce_sum broadcast_in_dim cumsum"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_gradients_are_made_of(name):
    fun, operations = PRINTED[name]
    graph = ga.make_jaxpr(ga.grad(fun))(np.zeros((2, 2), np.float32))
    assert [e.primitive.name for e in graph.eqns] == operations.split()
