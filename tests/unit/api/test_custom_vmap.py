"""custom_vmap and sequential_vmap; check_grads. The rule here is wrong on purpose, so it shows."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.api.custom_vmap import custom_vmap, sequential_vmap
from gpuarray.test_util import check_grads

X = np.linspace(0.1, 1.0, 3).astype(np.float32)
CALLS = []


@custom_vmap
def f(x, y):
    return gnp.sin(x) * y


@f.def_vmap
def f_vmap(size, in_batched, x, y):
    CALLS.append((size, in_batched))
    return x * 10 + y, True


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_rule_is_used():
    CALLS.clear()
    close(f(1.0, 2.0), np.sin(1.0) * 2)
    close(ga.jit(f)(1.0, 2.0), np.sin(1.0) * 2)
    assert not CALLS
    close(ga.vmap(f)(X, X), 11 * X)
    close(ga.vmap(f, in_axes=(0, None))(X, 2.0), 10 * X + 2)
    close(ga.jit(ga.vmap(f, in_axes=(None, 0)))(2.0, X), 20 + X)
    close(ga.vmap(ga.jit(f))(X, X), 11 * X)
    assert CALLS == [
        (3, [True, True]),
        (3, [True, False]),
        (3, [False, True]),
        (3, [True, True]),
    ]
    total = custom_vmap(gnp.sum)
    total.def_vmap(lambda size, in_batched, x: (x.sum(1) + size, True))
    wide = np.stack([X, 2 * X])
    close(ga.vmap(total, in_axes=1)(wide), 3 * X + 3)


def test_derivatives():
    close(ga.grad(f)(1.0, 2.0), 2 * np.cos(1.0))
    close(ga.jvp(f, (1.0, 2.0), (1.0, 1.0))[1], 2 * np.cos(1.0) + np.sin(1.0))
    # Mapped first, the rule is what is differentiated.
    close(ga.grad(lambda x: ga.vmap(f)(x, X).sum())(X), [10, 10, 10])
    # Differentiated first, forward mode still keeps it.
    push = lambda x, y: ga.jvp(f, (x, y), (1.0, 1.0))[1]
    close(ga.vmap(push)(X, X), [11, 11, 11])
    close(ga.jit(ga.vmap(push))(X, X), [11, 11, 11])


def test_pytrees_and_parts():
    g = custom_vmap(lambda d, n: {"a": d["a"] + n, "n": n})
    g.def_vmap(lambda size, b, d, n: ({"a": d["a"] * 2, "n": n}, {"a": True, "n": b[1]}))
    out = ga.vmap(g, in_axes=(0, None))({"a": X, "b": X}, 3)
    close(out["a"], 2 * X)
    close(out["n"], [3, 3, 3])


def test_sequential():
    g = sequential_vmap(lambda x, y: gnp.sin(x) * y)
    close(ga.vmap(g, in_axes=(0, None))(X, 2.0), np.sin(X) * 2)
    assert "scan" in str(ga.make_jaxpr(ga.vmap(g))(X, X))
    close(ga.vmap(ga.vmap(g, (0, None)), (None, 0))(X, X), np.outer(X, np.sin(X)))


@pytest.mark.parametrize(
    "rule, kind, phrase",
    [
        (None, AttributeError, "No batching rule defined"),
        (lambda n, b, x: 3.0, TypeError, "must return a pair"),
        (lambda n, b, x: (x[0], True), ValueError, "expected"),
        (lambda n, b, x: ((x, x), True), ValueError, "structure of output"),
    ],
)
def test_errors(rule, kind, phrase):
    g = custom_vmap(lambda x: x * 1.0)
    if rule is not None:
        g.def_vmap(rule)
    with pytest.raises(kind, match=phrase):
        ga.vmap(g)(np.ones((3, 2), np.float32))


def test_check_grads():
    with ga.enable_x64(True):
        x = np.linspace(0.1, 1.0, 3)
        check_grads(lambda x, y: gnp.sin(x) * y["a"], (x, {"a": x}), order=3)
        check_grads(lambda x, n: gnp.sum(x**2) * n, (x, 3), order=2)
        check_grads(lambda z: gnp.exp(z * (1 + 2j)), (x + 1j,), order=2)
        wrong = ga.custom_jvp(gnp.sin)
        wrong.defjvps(lambda t, out, x: t * 1.01 * gnp.cos(x))
        for mode in ("fwd", "rev"):
            with pytest.raises(AssertionError, match="JVP|VJP"):
                check_grads(wrong, (x,), order=1, modes=[mode])
        # The first derivative is right, the second is not.
        late = ga.custom_jvp(gnp.sin)
        late.defjvps(lambda t, out, x: t * ga.lax.stop_gradient(gnp.cos(x)))
        check_grads(late, (x,), order=1)
        with pytest.raises(AssertionError):
            check_grads(late, (x,), order=2)
    check_grads(gnp.tanh, (np.float32(0.3),), order=1, eps=1e-2)
    with pytest.raises(ValueError, match="modes"):
        check_grads(gnp.sin, (1.0,), 1, modes=["both"])


# ---- derivatives, and the rule of what is mapped ----


@pytest.mark.parametrize("mapped", ["tangents", "primals", "both"])
def test_under_jvp_the_rule_sees_what_is_batched_with_its_tangent(mapped):
    seen = []
    g = custom_vmap(gnp.sin)

    @g.def_vmap
    def rule(size, in_batched, x):
        seen.append((size, in_batched))
        return gnp.cos(x), in_batched[0]  # not the sine, so that it shows who computed

    push = lambda x, t: ga.jvp(g, (x,), (t,))
    axes = {"tangents": (None, 0), "primals": (0, None), "both": (0, 0)}[mapped]
    x = X if axes[0] == 0 else X[0]
    t = 2 * X if axes[1] == 0 else X[1]
    out = None if mapped == "tangents" else 0
    y, dy = ga.vmap(push, axes, (out, 0))(x, t)
    close(y, np.cos(x))
    close(dy, -np.sin(x) * t)
    assert seen == [(3, [mapped == "both"])]


def test_jacobians_ask_the_rule():
    g = custom_vmap(gnp.sin)
    g.def_vmap(lambda size, in_batched, x: (gnp.cos(x), in_batched[0]))
    close(ga.jacfwd(g)(X), -np.diag(np.sin(X)))


@pytest.mark.parametrize("outer", [ga.custom_jvp, ga.custom_vjp, custom_vmap])
def test_any_layer_takes_the_rules_of_all(outer):
    kinds = {"defjvp": ga.custom_jvp, "defvjp": ga.custom_vjp, "def_vmap": custom_vmap}
    for name, inner in kinds.items():
        made = outer(inner(gnp.sin))
        assert callable(getattr(made, name))
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            _ = made.other
