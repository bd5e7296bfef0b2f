"""Derivatives and batching of convolutions and ragged products: all layouts, groups and holes.

Convolutions are bilinear, so a transpose is right when <ct, conv(t, rhs)> = <transpose(ct), t>;
a batch is right when it is a loop.
"""

import itertools

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax


@pytest.fixture(autouse=True)
def _double():
    with ga.enable_x64(True):
        yield


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


CONVOLUTIONS = {
    "plain": ((2, 3, 5, 6), (4, 3, 2, 3), {"window_strides": (1, 1), "padding": "VALID"}),
    "holes everywhere": (
        (2, 3, 5, 6),
        (4, 3, 2, 3),
        {
            "window_strides": (2, 3),
            "padding": ((1, 2), (0, -1)),
            "lhs_dilation": (2, 1),
            "rhs_dilation": (1, 2),
        },
    ),
    "feature groups": (
        (2, 4, 5, 6),
        (6, 2, 2, 3),
        {
            "window_strides": (2, 1),
            "padding": ((1, 2), (0, 1)),
            "feature_group_count": 2,
            "rhs_dilation": (2, 1),
        },
    ),
    "batch groups": (
        (4, 3, 5, 6),
        (6, 3, 2, 3),
        {"window_strides": (2, 1), "padding": ((1, 2), (0, 1)), "batch_group_count": 2},
    ),
    "channels last, feature groups": (
        (2, 5, 6, 4),
        (2, 3, 2, 6),
        {
            "window_strides": (2, 1),
            "padding": "SAME",
            "feature_group_count": 2,
            "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
        },
    ),
    "mixed layout, batch groups": (
        (5, 4, 6, 4),
        (6, 2, 3, 4),
        {
            "window_strides": (2, 1),
            "padding": "SAME",
            "batch_group_count": 2,
            "dimension_numbers": ("HNWC", "OHWI", "WNCH"),
        },
    ),
    "depthwise": (
        (2, 6, 7),
        (6, 1, 3),
        {"window_strides": (1,), "padding": "SAME", "feature_group_count": 6},
    ),
    "no space": ((2, 3), (4, 3), {"window_strides": (), "padding": ()}),
}
each = pytest.mark.parametrize("name", CONVOLUTIONS)


def convolution(name):
    lhs, rhs, params = CONVOLUTIONS[name]
    return lhs, rhs, lambda x, w: lax.conv_general_dilated(x, w, **params)


@each
def test_transposes_are_adjoints(name):
    lhs, rhs, conv = convolution(name)
    x, w, t, u = noise(*lhs), noise(*rhs, seed=1), noise(*lhs, seed=2), noise(*rhs, seed=3)
    out, pull = ga.vjp(conv, x, w)
    ct = noise(*out.shape, seed=4)
    to_x, to_w = (np.asarray(g) for g in pull(ct))
    assert (to_x.shape, to_w.shape) == (lhs, rhs)
    np.testing.assert_allclose((to_x * t).sum(), (ct * np.asarray(conv(t, w))).sum())
    np.testing.assert_allclose((to_w * u).sum(), (ct * np.asarray(conv(x, u))).sum())
    (moved,) = [ga.jvp(conv, (x, w), (t, u))[1]]
    np.testing.assert_allclose(moved, np.asarray(conv(t, w)) + np.asarray(conv(x, u)))


@each
def test_grad_under_jit_and_of_jit(name):
    lhs, rhs, conv = convolution(name)
    x, w = noise(*lhs), noise(*rhs, seed=1)

    def total(x, w):
        return (conv(x, w) ** 2).sum()

    expected = ga.grad(total, (0, 1))(x, w)
    for found in (ga.jit(ga.grad(total, (0, 1)))(x, w), ga.grad(ga.jit(total), (0, 1))(x, w)):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("size", [3, 1, 0])
@each
def test_batches(name, size):
    lhs, rhs, conv = convolution(name)
    shape = conv(noise(*lhs), noise(*rhs)).shape
    for axes in itertools.product((None, 0, 1, len(lhs)), (None, 0, 1, len(rhs))):
        if axes == (None, None):
            continue
        args = [
            noise(*s, seed=k) if d is None else noise(*s[:d], size, *s[d:], seed=k)
            for k, (s, d) in enumerate(zip((lhs, rhs), axes, strict=True))
        ]
        found = np.asarray(ga.vmap(conv, in_axes=axes)(*args))
        assert found.shape == (size, *shape)
        for i in range(size):
            one = [a if d is None else a.take(i, d) for a, d in zip(args, axes, strict=True)]
            np.testing.assert_allclose(found[i], conv(*one), atol=1e-12, err_msg=f"{axes}")


def test_a_batch_of_both_is_one_convolution_of_groups():
    text = str(
        ga.make_jaxpr(ga.vmap(lambda x, w: lax.conv(x, w, (1, 1), "VALID")))(
            np.ones((5, 2, 3, 4, 4)), np.ones((5, 6, 3, 2, 2))
        )
    )
    assert text.count("conv_general_dilated[") == 1
    assert "feature_group_count=5" in text


def test_gradients_are_convolutions_of_the_operands_dtype():
    x, w = np.ones((1, 2, 5), "bfloat16"), np.ones((3, 2, 2), "bfloat16")

    def total(x, w):
        return lax.conv_general_dilated(
            x, w, (1,), "VALID", preferred_element_type=np.float32
        ).sum()

    to_x, to_w = ga.grad(total, (0, 1))(x, w)
    assert to_x.dtype == to_w.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(to_x, np.float32)[0, 0], [3, 6, 6, 6, 3])
    np.testing.assert_array_equal(np.asarray(to_w, np.float32), np.full((3, 2, 2), 4))


# ---- ragged products ----

# lhs, rhs, group sizes, axes as in dot_general, ragged axis, axis of groups
RAGGED = {
    "rows": ((6, 4), (3, 4, 5), [2, 3, 1], (((1,), (1,)), ((), ())), 0, (0,)),
    "rows left over": ((6, 4), (3, 4, 5), [2, 0, 1], (((1,), (1,)), ((), ())), 0, (0,)),
    "rows, sizes of their own": (
        *((2, 6, 4), (2, 3, 4, 5), [[2, 3, 1], [1, 0, 4]]),
        *((((2,), (2,)), ((0,), (0,))), 1, (1,)),
    ),
    "rows, axes out of order": (
        *((2, 6, 4, 7), (5, 7, 3, 4), [[2, 3, 1], [1, 1, 1]]),
        *((((3, 2), (1, 3)), ((), ())), 1, (2,)),
    ),
    "sums": ((4, 6), (6, 5), [2, 3, 0], (((1,), (0,)), ((), ())), 1, ()),
    "sums, sizes of their own": (
        *((2, 4, 6), (6, 5, 2), [[2, 3, 1], [1, 0, 4]]),
        *((((2,), (0,)), ((0,), (2,))), 2, ()),
    ),
    "batches": ((6, 2, 4), (5, 6, 4), [2, 3, 1], (((2,), (2,)), ((0,), (1,))), 0, ()),
}


def ragged(name):
    lhs, rhs, sizes, dot, axis, groups = RAGGED[name]
    numbers = lax.RaggedDotDimensionNumbers(dot, (axis,), groups)

    def product(x, y, sizes):
        return lax.ragged_dot_general(x, y, sizes, numbers)

    return noise(*lhs), noise(*rhs, seed=1), np.array(sizes, np.int32), product


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_transposes_are_adjoints(name):
    x, y, sizes, product = ragged(name)
    t, u = noise(*x.shape, seed=2), noise(*y.shape, seed=3)
    out, pull = ga.vjp(lambda x, y: product(x, y, sizes), x, y)
    ct = noise(*out.shape, seed=4)
    to_x, to_y = (np.asarray(g) for g in pull(ct))
    np.testing.assert_allclose((to_x * t).sum(), (ct * np.asarray(product(t, y, sizes))).sum())
    np.testing.assert_allclose((to_y * u).sum(), (ct * np.asarray(product(x, u, sizes))).sum())


@pytest.mark.parametrize("size", [3, 1, 0])
@pytest.mark.parametrize("name", RAGGED)
def test_ragged_batches(name, size):
    *single, product = ragged(name)
    shape = product(*single).shape
    rng = np.random.default_rng(0)
    for mapped in itertools.product((False, True), repeat=3):
        if not any(mapped):
            continue
        args = [
            np.array([rng.permuted(a, axis=-1) for _ in range(size)], a.dtype).reshape(
                size, *a.shape
            )
            if m
            else a
            for a, m in zip(single, mapped, strict=True)
        ]
        found = np.asarray(ga.vmap(product, in_axes=tuple(0 if m else None for m in mapped))(*args))
        assert found.shape == (size, *shape)
        for i in range(size):
            one = [a[i] if m else a for a, m in zip(args, mapped, strict=True)]
            np.testing.assert_allclose(found[i], product(*one), atol=1e-12, err_msg=f"{mapped}")
