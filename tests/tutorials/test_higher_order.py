"""The tutorials "higher-order derivatives", "Jacobian-vector products" and "complex
differentiation": stop_gradient, gradients through gradients, per-example gradients, cost of the
modes, and the conventions for complex numbers.
"""

import functools

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, hessian, jacfwd, jacrev, jit, jvp, lax, vjp, vmap
from gpuarray.test_util import check_grads


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


# ---- stop_gradient ----


def value_of(theta, state):
    return jnp.dot(theta, state)


THETA = jnp.array([0.1, -0.1, 0.05])
BEFORE, REWARD, AFTER = jnp.array([1.0, 2.0, -1.0]), 1.0, jnp.array([2.0, 1.0, 0.0])


def td_loss(theta, before, reward, after, stop=True):
    target = reward + value_of(theta, after)
    if stop:
        target = lax.stop_gradient(target)
    return -0.5 * (target - value_of(theta, before)) ** 2


def test_a_target_held_still():
    delta = 1 + 0.1 - (-0.15)
    close(grad(td_loss)(THETA, BEFORE, REWARD, AFTER), delta * np.asarray(BEFORE))
    moving = delta * np.asarray(BEFORE - AFTER)
    close(grad(td_loss)(THETA, BEFORE, REWARD, AFTER, stop=False), moving)


def test_straight_through():
    def through(f):
        def g(x):
            zero = x - lax.stop_gradient(x)
            return zero + lax.stop_gradient(f(x))

        return g

    assert float(grad(jnp.round)(3.2)) == 0.0
    assert float(through(jnp.round)(3.2)) == 3.0 and float(grad(through(jnp.round))(3.2)) == 1.0


def test_stop_gradient_of_pytrees_and_forward_mode():
    out = lax.stop_gradient({"a": jnp.ones(2), "n": 3})
    assert out["n"] == 3 and out["a"].tolist() == [1, 1]
    assert float(jvp(lambda x: lax.stop_gradient(x) * x, (3.0,), (1.0,))[1]) == 3.0


# ---- derivatives of derivatives ----


def test_gradients_an_example():
    states = jnp.stack([BEFORE, BEFORE * 2])
    afters = jnp.stack([AFTER, AFTER])
    rewards = jnp.array([1.0, 1.0])
    each = jit(vmap(grad(td_loss), in_axes=(None, 0, 0, 0)))(THETA, states, rewards, afters)
    assert each.shape == (2, 3)
    for row, s, r, a in zip(each, states, rewards, afters):
        close(row, grad(td_loss)(THETA, s, r, a))


def test_hessian_vector_product():
    def f(x):
        return jnp.sum(x**3)

    def hvp(f, x, v):
        return grad(lambda x: jnp.vdot(grad(f)(x), v))(x)

    x, v = jnp.arange(1.0, 4), jnp.array([1.0, 0.0, 2.0])
    close(hvp(f, x, v), 6 * np.arange(1.0, 4) * np.asarray(v))
    close(hessian(f)(x), np.diag(6 * np.arange(1.0, 4)))


def test_a_gradient_step_inside_a_loss():
    def loss(p, x):
        return (p - x) ** 2

    def meta(p, x, rate=0.25):
        return loss(p - rate * grad(loss)(p, x), x + 1)

    # p' = p - 0.5 (p - x); d/dp (p' - x - 1)² = 2 (p' - x - 1) 0.5
    assert float(grad(meta)(2.0, 1.0)) == 0.5 * 2 * (1.5 - 2.0)
    close(vmap(grad(meta), (None, 0))(2.0, jnp.array([1.0, 3.0])), [-0.5, -1.5])


def test_grad_of_grad_with_containers():
    f = lambda p: p["a"] ** 3 * p["b"]
    second = grad(lambda p: grad(f)(p)["a"])({"a": 2.0, "b": 5.0})
    assert (float(second["a"]), float(second["b"])) == (60.0, 12.0)


def test_tall_and_wide_jacobians():
    tall = lambda x: jnp.outer(x, jnp.arange(1.0, 6)).ravel() ** 2
    wide = lambda x: jnp.sum(x.reshape(2, -1) ** 2, axis=1)
    close(jacfwd(tall)(jnp.ones(2)), jacrev(tall)(jnp.ones(2)))
    assert jacfwd(tall)(jnp.ones(2)).shape == (10, 2)
    close(jacfwd(wide)(jnp.arange(6.0)), jacrev(wide)(jnp.arange(6.0)))


def test_jacobians_of_several_arguments():
    f = lambda x, y: x * y[0]
    jx, jy = jacrev(f, argnums=(0, 1))(jnp.arange(2.0), jnp.ones(3))
    assert (jx.shape, jy.shape) == ((2, 2), (2, 3))
    h = hessian(lambda x, y: jnp.sum(x * y), argnums=(0, 1))(jnp.ones(2), jnp.ones(2))
    assert h[0][0].tolist() == [[0, 0], [0, 0]] and h[0][1].tolist() == [[1, 0], [0, 1]]


def test_vjp_with_auxiliary_results():
    y, pull, aux = vjp(lambda x: (x**2, {"kept": x}), 3.0, has_aux=True)
    assert (float(y), float(pull(1.0)[0]), float(aux["kept"])) == (9.0, 6.0, 3.0)
    y, t, aux = jvp(lambda x: (x**2, x), (3.0,), (1.0,), has_aux=True)
    assert (float(y), float(t), float(aux)) == (9.0, 6.0, 3.0)


def test_pullbacks_are_containers():
    y, pull = jit(lambda x: vjp(jnp.sin, x))(jnp.arange(3.0))
    close(jit(lambda pull, ct: pull(ct))(pull, jnp.ones(3))[0], np.cos(np.arange(3.0)))
    assert jax.tree.leaves(pull)
    close(y, np.sin(np.arange(3.0)))


# ---- complex numbers ----


def on_reals(x, y):
    z = x + 1j * y
    out = jnp.exp(z) * z
    return jnp.real(out), jnp.imag(out)


def test_complex_jvp_is_the_real_jacobian():
    f = lambda z: jnp.exp(z) * z
    z, t = 0.5 + 1.5j, 0.3 - 0.2j
    j = np.array([[float(v) for v in row] for row in jacfwd(on_reals, (0, 1))(z.real, z.imag)])
    _, out = jvp(f, (z,), (t,))
    re, im = j @ [t.real, t.imag]
    close(out, re + 1j * im, rtol=1e-4)


def test_complex_vjp_is_its_transpose():
    f = lambda z: jnp.exp(z) * z
    z, ct = 0.5 + 1.5j, 0.7 + 0.4j
    j = np.array([[float(v) for v in row] for row in jacrev(on_reals, (0, 1))(z.real, z.imag)])
    (out,) = vjp(f, z)[1](jnp.complex64(ct))
    re, im = np.array([ct.real, -ct.imag]) @ j
    close(out, re - 1j * im, rtol=1e-4)


def test_gradient_of_a_real_function_descends():
    f = lambda z: jnp.real(z) ** 2 + jnp.imag(z) ** 2
    z = 3.0 + 4j
    assert complex(grad(f)(z)) == 6 - 8j
    assert float(f(z - 0.1 * jnp.conj(grad(f)(z)))) < float(f(z))


def test_holomorphic():
    z = 0.5 + 1.0j
    close(grad(jnp.sin, holomorphic=True)(z), np.cos(z))
    close(grad(jnp.conj, holomorphic=True)(z), 1.0)
    with pytest.raises(TypeError, match="grad requires real-valued outputs"):
        grad(jnp.sin)(z)


def test_gradient_of_a_complex_cholesky():
    a = jnp.array([[5.0, 2 + 3j, 5j], [2 - 3j, 7.0, 1 + 7j], [-5j, 1 - 7j, 12.0]])

    def f(x):
        low = jnp.linalg.cholesky(x)
        return jnp.sum((low - jnp.sin(low)) ** 2)

    g = np.asarray(grad(f, holomorphic=True)(a))
    close(np.diagonal(g).real, [-0.7534186, -8.904491, 0.01320427], rtol=1e-3, atol=1e-4)
    close(g[0, 1:], [-3.0509028 - 10.940544j, 5.9896846 + 3.5423026j], rtol=1e-3)
    close(g, g.conj().T, atol=1e-4)


# ---- checking ----


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_checked_to_third_order(mode):
    f = functools.partial(lambda x, scale: jnp.tanh(scale * x), scale=0.5)
    check_grads(f, (jnp.array([0.3, -0.8]),), order=3, modes=[mode])
