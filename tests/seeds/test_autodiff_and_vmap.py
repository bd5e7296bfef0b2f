"""The acceptance tests of the founding texts: derivatives of Python functions in every mode and
order, vectorisation, convolutions, optics. One test an item.

They read as the texts do, with the name of the library changed.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, jit, random, vmap


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


def slope(f, x, eps=1e-2):
    """The derivative of a scalar function along every coordinate, by central differences."""
    x = np.asarray(x)
    steps = eps * np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    return np.array([(f(x + s) - f(x - s)) / (2 * eps) for s in steps]).reshape(x.shape)


# ---- grad of what Python can say ----


def cubic(x):
    return x**3 + 2 * x**2 - 3 * x + 8


def test_gradient_of_a_polynomial(capsys):
    dfdx = grad(cubic)
    print(dfdx(1.0))
    assert capsys.readouterr().out == "4.0\n"


def test_composed_with_jit(capsys):
    print(jit(grad(cubic))(1.0))
    print(grad(jit(cubic))(1.0))
    assert capsys.readouterr().out == "4.0\n4.0\n"


def test_derivatives_of_derivatives():
    f, expected = cubic, [cubic(2.0), 17.0, 16.0, 6.0, 0.0]
    for value in expected:
        assert float(f(2.0)) == value
        f = grad(f)


def test_through_loops():
    def power(x, n):
        y = 1.0
        for _ in range(n):
            y = y * x
        return y

    def doubled(x):
        while x < 100.0:  # 192 is the first above 100 for 3
            x = 2.0 * x
        return x

    assert float(grad(power)(2.0, 5)) == 80.0
    assert float(grad(doubled)(3.0)) == 64.0


def test_through_branches():
    def f(x):
        if x < 3.0:
            return x**2
        return -4.0 * x

    assert [float(grad(f)(x)) for x in (2.0, 4.0)] == [4.0, -4.0]


def test_through_recursion():
    def horner(x, coefficients):
        if not coefficients:
            return 0.0
        return coefficients[0] + x * horner(x, coefficients[1:])

    assert float(grad(horner)(2.0, (1.0, 2.0, 3.0, 4.0))) == 2 + 6 * 2 + 12 * 4


def test_through_closures():
    def outer(x):
        def inner(y):
            return x**2 * y**3

        return grad(inner)(2.0)  # 12 x²

    assert float(outer(3.0)) == 108.0
    assert float(grad(outer)(3.0)) == 72.0


def test_through_a_thousand_calls():
    def deep(x):
        for _ in range(1000):
            x = jnp.sin(x)
        return x

    x, d = 0.5, 1.0
    for _ in range(1000):
        x, d = np.sin(x), d * np.cos(x)
    close(grad(deep)(0.5), d, rtol=1e-3)
    close(jit(grad(deep))(0.5), d, rtol=1e-3)


# ---- every mode, every order ----


def test_reverse_mode():
    y, pull = jax.vjp(lambda x, y: jnp.sin(x) * y, 0.5, 2.0)
    close(y, 2 * np.sin(0.5))
    close(pull(3.0), [6 * np.cos(0.5), 3 * np.sin(0.5)])


def test_forward_mode():
    y, t = jax.jvp(lambda x, y: jnp.sin(x) * y, (0.5, 2.0), (1.0, 10.0))
    close(y, 2 * np.sin(0.5))
    close(t, 2 * np.cos(0.5) + 10 * np.sin(0.5))


def test_forward_and_reverse_agree():
    def f(x):
        return jnp.tanh(x) * x[::-1]

    x = random.normal(random.PRNGKey(1), (6,))
    t, ct = random.normal(random.PRNGKey(2), (2, 6))
    _, out_t = jax.jvp(f, (x,), (t,))
    _, pull = jax.vjp(f, x)
    close(jnp.dot(ct, out_t), jnp.dot(pull(ct)[0], t))
    y, linear = jax.linearize(f, x)
    close(linear(t), out_t)


def test_jacobians():
    def f(x):
        return jnp.stack([x[0] * x[1], jnp.sin(x[2]), x[0] ** 2 + x[2]])

    x = jnp.array([1.0, 2.0, 3.0])
    expected = [[2, 1, 0], [0, 0, np.cos(3.0)], [2, 0, 1]]
    close(jax.jacfwd(f)(x), expected)
    close(jax.jacrev(f)(x), expected)


def test_hessian():
    def f(x):
        return x[0] ** 2 * x[1] + x[1] ** 3

    x = jnp.array([2.0, 3.0])
    for second in (
        jax.hessian(f),
        jax.jacfwd(jax.jacrev(f)),
        jax.jacrev(jax.jacfwd(f)),
        jax.jacrev(jax.jacrev(f)),
        jit(jax.jacfwd(jax.jacfwd(f))),
    ):
        close(second(x), [[6, 4], [4, 18]])


def test_modes_compose_in_any_order():
    def f(x):
        return jnp.exp(jnp.sin(x))

    x, eps = 0.7, 1e-5
    exact = lambda x: np.exp(np.sin(x)) * (np.cos(x) ** 2 - np.sin(x))
    third = (exact(x + eps) - exact(x - eps)) / (2 * eps)

    def forward(g):
        return lambda x: jax.jvp(g, (x,), (1.0,))[1]

    close(forward(grad(f))(x), exact(x))
    close(grad(forward(f))(x), exact(x))
    close(forward(forward(f))(x), exact(x))
    close(grad(forward(grad(f)))(x), third, rtol=1e-4)
    close(jit(forward(grad(jit(grad(f)))))(x), third, rtol=1e-4)


def test_gradient_of_a_pytree():
    def loss(params, x):
        return jnp.sum((x @ params["w"] + params["b"]) ** 2)

    params = {"w": jnp.array([1.0, -1.0]), "b": jnp.array(0.5)}
    x = jnp.array([[1.0, 2.0], [3.0, 1.0]])
    residual = np.array([-0.5, 2.5])
    value, g = jax.value_and_grad(loss)(params, x)
    close(value, 6.5)
    assert sorted(g) == ["b", "w"]
    close(g["w"], 2 * np.asarray(x).T @ residual)
    close(g["b"], 2 * residual.sum())


def test_chosen_arguments_and_extra_results():
    def f(x, y):
        return x * y**2, {"seen": x}

    (value, extra), (gx, gy) = jax.value_and_grad(f, argnums=(0, 1), has_aux=True)(3.0, 2.0)
    assert (float(value), float(extra["seen"])) == (12.0, 3.0)
    assert (float(gx), float(gy)) == (4.0, 12.0)


def test_own_forward_rule():
    @jax.custom_jvp
    def softplus(x):
        return jnp.log(1.0 + jnp.exp(x))

    @softplus.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return softplus(x), t / (1.0 + jnp.exp(-x))

    # By the formula of the function the slope at 100 is inf/inf.
    close(grad(softplus)(100.0), 1.0)
    close(jit(grad(softplus))(100.0), 1.0)
    close(vmap(grad(softplus))(jnp.array([0.0, 100.0])), [0.5, 1.0])
    close(grad(grad(softplus))(0.0), 0.25)


def test_own_reverse_rule():
    @jax.custom_vjp
    def limited(x):
        return x

    limited.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))

    def loss(x):
        return 5.0 * limited(x) ** 2

    close(loss(3.0), 45.0)
    close(grad(loss)(3.0), 1.0)
    close(jit(vmap(grad(loss)))(jnp.array([-3.0, 0.01])), [-1.0, 0.1])


def test_complex():
    z = 1.0 + 2.0j
    # Real output: the steepest ascent conjugated. Holomorphic: the complex derivative.
    close(grad(lambda z: jnp.abs(z) ** 2)(z), 2 - 4j)
    close(grad(lambda z: z**2, holomorphic=True)(z), 2 + 4j)
    close(jax.jvp(lambda z: z * z, (z,), (1j,))[1], 2j * z)


def test_gradient_of_an_update():
    x = jnp.array([1.0, 2.0, 3.0])
    close(grad(lambda x: jnp.sum(x.at[1].set(5.0) ** 2))(x), [2, 0, 6])
    close(grad(lambda x: jnp.sum(x.at[jnp.array([0, 0])].add(x[1]) ** 2))(x), [10, 24, 6])


def test_errors_of_grad():
    with pytest.raises(TypeError, match=r"Gradient only defined for scalar-output functions"):
        grad(lambda x: x)(jnp.ones(3))
    with pytest.raises(TypeError, match=r"grad requires real- or complex-valued inputs"):
        grad(lambda x: x)(3)


# ---- vmap ----

SIZES = [784, 512, 512, 10]


def random_layer(m, n, key, scale=1e-2):
    w_key, b_key = random.split(key)
    return scale * random.normal(w_key, (n, m)), scale * random.normal(b_key, (n,))


def random_network(sizes, key):
    keys = random.split(key, len(sizes) - 1)
    return [random_layer(m, n, k) for m, n, k in zip(sizes[:-1], sizes[1:], keys)]


def predict(params, image):
    """The logits of one image: (784,) -> (10,)."""
    x = image
    for w, b in params[:-1]:
        x = jnp.maximum(0, jnp.dot(w, x) + b)
    w, b = params[-1]
    logits = jnp.dot(w, x) + b
    return logits - jnp.log(jnp.sum(jnp.exp(logits)))


@pytest.fixture(scope="module")
def network():
    return random_network(SIZES, random.PRNGKey(0))


def test_predict_one_image(network):
    assert [w.shape for w, _ in network] == [(512, 784), (512, 512), (10, 512)]
    image = random.normal(random.PRNGKey(1), (28 * 28,))
    assert predict(network, image).shape == (10,)


def test_predict_rejects_a_batch(network):
    images = random.normal(random.PRNGKey(1), (10, 28 * 28))
    with pytest.raises(TypeError, match="shape"):
        predict(network, images)


def test_predict_vectorised(network):
    images = random.normal(random.PRNGKey(1), (10, 28 * 28))
    batched = vmap(predict, in_axes=(None, 0))
    out = batched(network, images)
    assert out.shape == (10, 10)
    close(out, np.stack([predict(network, x) for x in images]), rtol=1e-4)
    close(jit(batched)(network, images), out, rtol=1e-4)
    assert batched(network, images[:3]).shape == (3, 10)
    assert batched(network, images[:0]).shape == (0, 10)


def test_network_learns(network):
    """One step of gradient descent on one_hot targets lowers the loss, jitted or not."""
    images = random.normal(random.PRNGKey(1), (10, 28 * 28))
    targets = jnp.array(jnp.arange(10)[:, None] == jnp.arange(10), dtype=jnp.float32)

    def loss(params):
        return -jnp.mean(vmap(predict, in_axes=(None, 0))(params, images) * targets)

    def update(params):
        grads = grad(loss)(params)
        return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, grads)]

    stepped, jitted = update(network), jit(update)(network)
    assert float(loss(stepped)) < float(loss(network))
    for (w, b), (jw, jb) in zip(stepped, jitted):
        close(jw, w)
        close(jb, b)


def test_nested_vmap():
    x = random.normal(random.PRNGKey(3), (2, 3, 4, 5))
    f = jnp.sum
    for depth in range(1, 4):
        f = vmap(f)
        close(f(x), np.asarray(x).sum(axis=tuple(range(depth, 4))), rtol=1e-4)


def test_axes_of_every_level():
    a = random.normal(random.PRNGKey(4), (3, 4))
    b = random.normal(random.PRNGKey(5), (4, 5))
    columns = vmap(jnp.dot, in_axes=(None, 1))
    rows = vmap(columns, in_axes=(0, None))
    close(rows(a, b), np.asarray(a) @ np.asarray(b), rtol=1e-4)
    turned = vmap(columns, in_axes=(0, None), out_axes=1)
    close(turned(a, b), (np.asarray(a) @ np.asarray(b)).T, rtol=1e-4)


def test_axes_of_pytrees():
    def f(layer, x):
        y = layer["w"] @ x + layer["b"]
        return {"y": y, "size": jnp.sum(y)}

    layer = {"w": jnp.arange(24.0).reshape(2, 4, 3), "b": jnp.ones(2)}
    out = vmap(f, in_axes=({"w": 1, "b": None}, 0), out_axes={"y": 1, "size": 0})(
        layer, jnp.ones((4, 3))
    )
    expected = np.asarray(layer["w"]).sum(2) + 1
    close(out["y"], expected)
    close(out["size"], expected.sum(0))


def test_vmap_and_grad_in_any_order():
    def f(x):
        return jnp.sum(jnp.sin(x) ** 2)

    x = random.normal(random.PRNGKey(6), (4, 3))
    expected = np.sin(2 * np.asarray(x))
    close(vmap(grad(f))(x), expected)
    close(grad(lambda x: jnp.sum(vmap(f)(x)))(x), expected)
    close(jit(vmap(jit(grad(f))))(x), expected)
    close(vmap(jax.hessian(f))(x), [np.diag(2 * np.cos(2 * row)) for row in np.asarray(x)])


def test_errors_of_vmap():
    with pytest.raises(ValueError, match="inconsistent sizes"):
        vmap(jnp.add)(jnp.ones(3), jnp.ones(4))
    with pytest.raises(ValueError, match="rank should be at least 1"):
        vmap(jnp.sin)(1.0)


# ---- optics ----


def propagate(field, distance, wavelength=0.5, pitch=1.0):
    """A square field further along the axis, by its angular spectrum."""
    f = jnp.fft.fftfreq(field.shape[0], pitch)
    square = 1 / wavelength**2 - f[:, None] ** 2 - f[None, :] ** 2
    phase = 2 * jnp.pi * distance * jnp.sqrt(jnp.maximum(square, 0.0))
    return jnp.fft.ifft2(jnp.fft.fft2(field) * jnp.exp(1j * phase))


def test_optics_keeps_energy():
    field = random.normal(random.PRNGKey(7), (16, 16)) + 0j
    far = propagate(field, 30.0)
    close(jnp.sum(jnp.abs(far) ** 2), np.sum(np.abs(field) ** 2), rtol=1e-4)
    close(propagate(far, -30.0), field, atol=1e-4)


def test_gradient_of_a_phase_mask():
    def focus(mask):
        return jnp.abs(propagate(jnp.exp(1j * mask), 20.0)[4, 4]) ** 2

    mask = random.normal(random.PRNGKey(8), (8, 8))
    found = grad(focus)(mask)
    assert found.dtype == jnp.float32
    close(found, slope(focus, mask), rtol=2e-2, atol=5e-3)
    close(jit(grad(focus))(mask), found, rtol=1e-3, atol=1e-4)
    assert float(focus(mask + 0.05 * found)) > float(focus(mask))
