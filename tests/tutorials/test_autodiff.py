"""The tutorials "automatic differentiation" and "autodiff cookbook": grad, pytrees of parameters,
Jacobians, Hessians, products with them, vjp and jvp, per-example gradients.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, hessian, jacfwd, jacrev, jit, jvp, random, value_and_grad, vjp, vmap
from gpuarray.test_util import check_grads


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


# ---- a logistic regression ----

INPUTS = jnp.array([[0.5, 1.0, 0.75], [0.9, -1.1, 0.15], [0.5, 0.05, -1.3], [0.75, -2.5, 1.4]])
TARGETS = jnp.array([True, True, False, True])


def sigmoid(x):
    return 0.5 * (jnp.tanh(x / 2) + 1)


def predict(w, b, inputs):
    return sigmoid(inputs @ w + b)


def loss(w, b):
    preds = predict(w, b, INPUTS)
    return -jnp.sum(jnp.log(preds * TARGETS + (1 - preds) * (1 - TARGETS)))


@pytest.fixture(scope="module")
def weights():
    return jnp.array([0.25, -0.5, 1.0]), jnp.array(0.3)


def exact(w, b):
    """Loss and gradients in double precision, by the formula of the logistic loss."""
    x, t = np.asarray(INPUTS, float), np.asarray(TARGETS, float)
    w, b = np.asarray(w, float), float(b)
    p = 1 / (1 + np.exp(-(x @ w + b)))
    return -np.sum(np.log(np.where(t, p, 1 - p))), x.T @ (p - t), np.sum(p - t)


def test_higher_derivatives_of_tanh():
    t = np.tanh(2.0)
    close(grad(jnp.tanh)(2.0), 1 - t**2)
    close(grad(grad(jnp.tanh))(2.0), -2 * t * (1 - t**2))
    close(grad(grad(grad(jnp.tanh)))(2.0), (1 - t**2) * (6 * t**2 - 2))


def test_polynomial_at_one():
    f = lambda x: x**3 + 2 * x**2 - 3 * x + 1
    values = []
    for _ in range(4):
        f = grad(f)
        values.append(float(f(1.0)))
    assert values == [4.0, 10.0, 6.0, 0.0]


def test_argnums(weights):
    _, gw, gb = exact(*weights)
    close(grad(loss)(*weights), gw)
    close(grad(loss, argnums=0)(*weights), gw)
    close(grad(loss, 1)(*weights), gb)
    both = grad(loss, (0, 1))(*weights)
    assert type(both) is tuple
    close(both[0], gw)
    close(both[1], gb)
    close(grad(loss, argnums=-1)(*weights), gb)


def test_argnums_out_of_range():
    with pytest.raises(TypeError, match="requires at least 3 positional arguments"):
        grad(loss, argnums=2)(jnp.ones(3), 1.0)


def test_dicts_of_parameters(weights):
    def loss2(p):
        return loss(p["w"], p["b"])

    g = grad(loss2)({"w": weights[0], "b": weights[1]})
    assert list(g) == ["b", "w"]
    close(g["w"], exact(*weights)[1])
    close(g["b"], exact(*weights)[2])


def test_value_and_grad(weights):
    value, grads = value_and_grad(loss, (0, 1))(*weights)
    expected = exact(*weights)
    close(value, expected[0])
    close(value, loss(*weights))
    close(grads[0], expected[1])


def test_auxiliary_results():
    def f(x):
        y = jnp.sin(x)
        return y * x, {"sine": y}

    g, aux = grad(f, has_aux=True)(2.0)
    close(g, 2 * np.cos(2.0) + np.sin(2.0))
    close(aux["sine"], np.sin(2.0))
    (value, aux), g = value_and_grad(f, has_aux=True)(2.0)
    close(value, 2 * np.sin(2.0))
    with pytest.raises(TypeError, match="two-element tuple|pair"):
        grad(lambda x: x, has_aux=True)(1.0)


def test_against_finite_differences(weights):
    w, b = weights
    eps = 1e-2
    close((loss(w, b + eps / 2) - loss(w, b - eps / 2)) / eps, grad(loss, 1)(w, b), rtol=1e-2)
    direction = random.normal(random.key(1), w.shape)
    direction /= jnp.sqrt(jnp.vdot(direction, direction))
    around = [loss(w + s * eps / 2 * direction, b) for s in (1, -1)]
    close(
        (around[0] - around[1]) / eps, jnp.vdot(grad(loss)(w, b), direction), rtol=1e-2, atol=1e-3
    )


def test_check_grads(weights):
    wrong = jax.custom_jvp(lambda x: x**2)
    wrong.defjvps(lambda t, ans, x: 3 * x * t)
    check_grads(loss, weights, order=2)
    with pytest.raises(AssertionError):
        check_grads(wrong, (1.0,), order=1)


# ---- vectors ----


def test_grad_of_a_norm_at_zero():
    def norm(x):
        return jnp.sqrt(jnp.sum(x**2))

    assert np.isnan(grad(norm)(jnp.zeros(2))).all()
    close(grad(norm)(jnp.array([3.0, 4.0])), [0.6, 0.8])


def test_jacobians_agree(weights):
    w, b = weights
    f = lambda w: predict(w, b, INPUTS)
    p = np.asarray(f(w))
    expected = (p * (1 - p))[:, None] * np.asarray(INPUTS)
    for jacobian in (jacfwd, jacrev, jax.jacobian):
        close(jacobian(f)(w), expected)


def test_jacobians_of_pytrees(weights):
    def f(p, x):
        return predict(p["w"], p["b"], x)

    j = jacrev(f)({"w": weights[0], "b": weights[1]}, INPUTS)
    assert {k: v.shape for k, v in j.items()} == {"b": (4,), "w": (4, 3)}
    nested = hessian(lambda p: jnp.sum(p["a"] ** 2) * p["b"])({"a": jnp.arange(2.0), "b": 3.0})
    assert nested["a"]["a"].tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert nested["a"]["b"].tolist() == [0.0, 2.0] == nested["b"]["a"].tolist()


def test_hessians(weights):
    w, b = weights
    f = lambda w: predict(w, b, INPUTS)
    h = hessian(f)(w)
    p, x = np.asarray(f(w)), np.asarray(INPUTS)
    expected = (p * (1 - p) * (1 - 2 * p))[:, None, None] * x[:, :, None] * x[:, None, :]
    assert h.shape == (4, 3, 3)
    close(h, expected)
    close(jacfwd(jacrev(f))(w), expected)


# ---- products with Jacobians and Hessians ----


def quartic(x):
    return jnp.sum(x**4) + jnp.prod(x)


def test_jvp(weights):
    w, b = weights
    f = lambda w: predict(w, b, INPUTS)
    v = random.normal(random.key(2), w.shape)
    y, u = jvp(f, (w,), (v,))
    close(y, f(w))
    close(u, jacfwd(f)(w) @ v)


def test_vjp(weights):
    w, b = weights
    f = lambda w: predict(w, b, INPUTS)
    y, pull = vjp(f, w)
    u = random.normal(random.key(3), y.shape)
    (got,) = pull(u)
    close(got, u @ jacrev(f)(w))
    close(jit(lambda w, u: vjp(f, w)[1](u)[0])(w, u), got)


def test_vjp_checks_cotangents():
    _, pull = vjp(jnp.sin, jnp.ones(3))
    with pytest.raises((TypeError, ValueError)):
        pull(jnp.ones(4))
    with pytest.raises((TypeError, ValueError)):
        pull((jnp.ones(3), jnp.ones(3)))


def test_jvp_checks_tangents():
    with pytest.raises(TypeError, match="primal and tangent"):
        jvp(jnp.sin, (1.0,), (jnp.int32(1),))
    with pytest.raises(TypeError, match="same tree structure"):
        jvp(jnp.sin, (1.0,), ((1.0, 2.0),))
    with pytest.raises(ValueError, match="different primal and tangent shapes"):
        jvp(jnp.sin, (jnp.ones(3),), (jnp.ones(2),))


def hvp_forward_reverse(f, primals, tangents):
    return jvp(grad(f), primals, tangents)[1]


def hvp_reverse_forward(f, primals, tangents):
    return grad(lambda primals: jvp(f, primals, tangents)[1])(primals)[0]


def hvp_reverse_reverse(f, primals, tangents):
    return grad(lambda *xs: jnp.vdot(grad(f)(*xs), tangents[0]))(*primals)


@pytest.mark.parametrize("hvp", [hvp_forward_reverse, hvp_reverse_forward, hvp_reverse_reverse])
def test_hessian_vector_products(hvp):
    x, v = jnp.array([1.0, 2.0, -1.5]), jnp.array([0.5, -1.0, 2.0])
    close(hvp(quartic, (x,), (v,)), hessian(quartic)(x) @ v, rtol=1e-4)
    close(jit(lambda x, v: hvp(quartic, (x,), (v,)))(x, v), hvp(quartic, (x,), (v,)), rtol=1e-4)


def test_matrix_products_row_by_row_or_at_once():
    x = random.normal(random.key(4), (6,))
    rows = random.normal(random.key(5), (3, 4))
    f = lambda x: jnp.sin(x[:4]) * x[2:]
    _, pull = vjp(f, x)
    by_loop = jnp.stack([pull(row)[0] for row in rows])
    (at_once,) = vmap(pull)(rows)
    close(at_once, by_loop)
    columns = random.normal(random.key(6), (3, 6))
    push = lambda v: jvp(f, (x,), (v,))[1]
    close(vmap(push, out_axes=1)(columns), jacfwd(f)(x) @ columns.T, rtol=1e-4)


def test_own_jacobians_from_vmap():
    def my_jacrev(f):
        def jacobian(x):
            y, pull = vjp(f, x)
            return vmap(pull)(jnp.eye(len(y)))[0]

        return jacobian

    def my_jacfwd(f):
        return lambda x: vmap(lambda v: jvp(f, (x,), (v,))[1], out_axes=-1)(jnp.eye(len(x)))

    f = lambda x: jnp.stack([x[0] * x[1], jnp.exp(x[2])])
    x = jnp.array([1.0, 2.0, 0.5])
    for mine in (my_jacrev(f), my_jacfwd(f)):
        close(mine(x), jacrev(f)(x))


def test_linearize():
    f = lambda x: jnp.sin(x) * x
    y, push = jax.linearize(f, 2.0)
    close(y, 2 * np.sin(2.0))
    for t in (1.0, -3.0):
        close(push(t), t * (np.sin(2.0) + 2 * np.cos(2.0)))


def test_linear_transpose():
    f = lambda x: 3 * x[1:] - x[:-1]
    (ct,) = jax.linear_transpose(f, jnp.ones(3))(jnp.array([1.0, 10.0]))
    assert ct.tolist() == [-1.0, -7.0, 30.0]


# ---- what may be differentiated ----


def test_integers():
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs.*int32"):
        grad(lambda x: x * 2.0)(3)
    g = grad(lambda x: x * 2.0, allow_int=True)(3)
    assert g.dtype == jax.dtypes.float0
    with pytest.raises(TypeError, match="scalar-output functions.*shape \\(3,\\)|shape: \\(3,\\)"):
        grad(jnp.sin)(jnp.ones(3))


def test_complex_outputs_need_holomorphic():
    with pytest.raises(TypeError, match="holomorphic"):
        grad(lambda x: x * 1j)(1.0)
    with pytest.raises(TypeError, match="holomorphic=True requires inputs with complex dtype"):
        grad(jnp.sin, holomorphic=True)(1.0)
