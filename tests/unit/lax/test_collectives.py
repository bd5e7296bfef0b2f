"""Collectives along a named axis of vmap: values from NumPy, derivatives by central differences."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

X = np.arange(48, dtype=np.float32).reshape(4, 4, 3)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-5)


def everyone(value):
    return np.broadcast_to(value, (4, *value.shape))


CASES = {
    "psum": (lambda x: lax.psum(x, "i"), everyone(X.sum(0))),
    "pmean": (lambda x: lax.pmean(x, "i"), everyone(X.mean(0))),
    "pmax": (lambda x: lax.pmax(x, "i"), everyone(X.max(0))),
    "pmin": (lambda x: lax.pmin(x, "i"), everyone(X.min(0))),
    "psum of two axes": (lambda x: lax.psum(x, (1, "i")), everyone(X.sum((0, 2)))),
    "all_gather": (lambda x: lax.all_gather(x, "i", axis=1), everyone(X.transpose(1, 0, 2))),
    "all_gather tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        everyone(X.transpose(1, 0, 2).reshape(4, 12)),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), X.sum(0)),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x, "i", tiled=True),
        X.sum(0).reshape(4, 1, 3),
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), X.transpose(1, 2, 0)),
    "all_to_all back": (
        lambda x: lax.all_to_all(x.T, "i", 1, 0),
        X.transpose(1, 0, 2),
    ),
    "all_to_all tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
        X.transpose(1, 0, 2).reshape(4, 1, 12),
    ),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "i", 0), X.transpose(1, 0, 2)),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]),
        np.stack([X[3], X[0], X[1], 0 * X[0]]),
    ),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 3, 0, 1]), X[[2, 3, 0, 1]]),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), everyone(X[2])),
    "axis_index": (lambda x: x + lax.axis_index("i"), X + np.arange(4)[:, None, None]),
    "axis_size": (lambda x: x * lax.axis_size("i"), X * 4),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    f, expected = CASES[name]
    mapped = ga.vmap(f, axis_name="i")
    close(mapped(X), expected)
    close(ga.jit(mapped)(X), expected)
    close(ga.vmap(ga.jit(f), axis_name="i")(X), expected)
    # Another mapped axis, inside and outside, goes through unchanged.
    pair = np.stack([X, X + 1])
    both = np.stack([np.asarray(mapped(pair[0])), np.asarray(mapped(pair[1]))])
    close(ga.vmap(mapped)(pair), both)
    inner = ga.vmap(ga.vmap(f, in_axes=2, out_axes=0), in_axes=0, axis_name="i", out_axes=1)
    close(inner(pair.transpose(1, 2, 3, 0)), both)
    # The mapped axis may be any.
    close(ga.vmap(f, in_axes=1, axis_name="i")(X.transpose(1, 0, 2)), expected)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("pmax", "pmin")])
def test_derivatives(name):
    f = ga.vmap(CASES[name][0], axis_name="i")
    rng = np.random.default_rng(0)
    tangent = rng.standard_normal(X.shape).astype(np.float32)
    out, pushed = ga.jvp(f, (X,), (tangent,))
    weights = rng.standard_normal(out.shape).astype(np.float32)
    # All of these are affine in x, so the difference is the derivative.
    close(pushed, np.asarray(f(X + tangent)) - np.asarray(f(X)))
    pulled = ga.vjp(f, X)[1](gnp.asarray(weights))[0]
    close(np.vdot(weights, pushed), np.vdot(pulled, tangent))
    close(ga.jit(lambda x: ga.vjp(f, x)[1](gnp.asarray(weights))[0])(X), pulled)


def test_grad_inside():
    x = gnp.arange(3.0)
    close(ga.vmap(ga.grad(lambda x: lax.psum(x * x, "i")), axis_name="i")(x), [0, 6, 12])
    close(ga.vmap(ga.grad(lambda x: lax.pmean(x * x, "i")), axis_name="i")(x), [0, 2, 4])
    gather = ga.grad(lambda x: lax.all_gather(x * x, "i").sum())
    close(ga.vmap(gather, axis_name="i")(x), [0, 6, 12])


def test_values_that_are_the_same_for_all():
    x = gnp.arange(4.0)
    close(ga.vmap(lambda x: lax.psum(gnp.ones(2), "i"), axis_name="i")(x), np.full((4, 2), 4))
    close(ga.vmap(lambda x: lax.pmax(gnp.ones(2), "i"), axis_name="i")(x), np.ones((4, 2)))
    close(ga.vmap(lambda x: lax.all_gather(2.0, "i"), axis_name="i")(x), np.full((4, 4), 2.0))
    close(ga.vmap(lambda x: lax.psum(1, "i"), axis_name="i")(x), [4] * 4)
    close(ga.vmap(lambda x: ga.jit(lambda: lax.axis_index("i"))(), axis_name="i")(x), range(4))
    tree = ga.vmap(lambda x: lax.psum({"a": x, "b": (x > 1,)}, "i"), axis_name="i")(x)
    close(tree["a"], [6.0] * 4)
    close(tree["b"][0], [2] * 4)


def test_two_names():
    x = gnp.arange(6.0).reshape(2, 3)

    def both(f):
        return np.asarray(ga.vmap(ga.vmap(f, axis_name="i"), axis_name="j")(x))

    close(both(lambda x: lax.psum(x, ("i", "j"))), np.full((2, 3), 15.0))
    close(both(lambda x: lax.psum(x, "j")), np.tile(np.asarray(x).sum(0), (2, 1)))
    close(both(lambda x: lax.axis_index(("j", "i"))), np.arange(6).reshape(2, 3))
    close(both(lambda x: lax.all_gather(x, ("j", "i")))[1, 2], np.arange(6))
    close(both(lambda x: lax.axis_size(("i", "j")) * x), 6 * np.asarray(x))


def test_lengths_are_not_remembered():
    f = ga.jit(lambda x: x / lax.psum(1, "i") + lax.all_gather(x, "i").sum())
    mapped = ga.vmap(f, axis_name="i")
    close(mapped(gnp.ones(4)), [4.25] * 4)
    close(mapped(gnp.ones(8)), [8.125] * 8)
    with pytest.raises(NameError, match="unbound axis name: i"):
        f(1.0)


def test_inside_custom_rules():
    f = ga.custom_jvp(lambda x: lax.psum(x, "i"))
    f.defjvps(lambda t, out, x: 10 * lax.psum(t, "i"))
    x = gnp.arange(3.0)
    close(ga.vmap(f, axis_name="i")(x), [3, 3, 3])
    close(ga.grad(lambda x: ga.vmap(f, axis_name="i")(x).sum())(x), [30, 30, 30])


@pytest.mark.parametrize(
    "call, kind, phrase",
    [
        (lambda x: lax.psum(x, "k"), NameError, "unbound axis name: k"),
        (lambda x: lax.axis_index("k"), NameError, "unbound axis name: k"),
        (lambda x: lax.axis_size("k"), NameError, "unbound axis name: k"),
        (
            lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
            NotImplementedError,
            "axis_index_groups not supported",
        ),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), ValueError, "must be unique"),
        (lambda x: lax.pshuffle(x, "i", [0, 0, 1, 2]), ValueError, "permutation"),
        (lambda x: lax.all_to_all(x, "i", 1, 0), ValueError, "requires the size"),
        (lambda x: lax.psum_scatter(x, "i", scatter_dimension=1), ValueError, "must match"),
        (lambda x: lax.psum([None, "a"], "i"), TypeError, "not a valid JAX type"),
        (ga.grad(lambda x: lax.pmax(x, "i").sum()), NotImplementedError, "'pmax' not implemented"),
    ],
)
def test_errors(call, kind, phrase):
    with pytest.raises(kind, match=phrase):
        ga.vmap(call, axis_name="i")(X)
