"""The tutorials "thinking in JAX", "key concepts" and "tracing": arrays that cannot be written to,
what jit sees, and every transformation once.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, jit, lax, vmap


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


# ---- arrays ----


def test_numpy_spelling():
    x = jnp.linspace(0, 4, 5)
    y = 2 * jnp.sin(x) * jnp.cos(x)
    close(y, np.sin(2 * np.arange(5.0)))
    assert isinstance(x, jax.Array) and not isinstance(np.ones(2), jax.Array)


def test_assignment_is_refused():
    x = jnp.arange(4)
    with pytest.raises(TypeError, match=r"immutable.*x\.at\[idx\]\.set"):
        x[2] = 7
    y = x.at[2].set(7)
    assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [0, 1, 7, 3])


def test_where_an_array_lives():
    x = jnp.arange(3)
    (device,) = x.devices()
    assert device in jax.devices() and x.sharding.device_set == {device}


def test_reprs():
    assert repr(jnp.arange(3)) == "Array([0, 1, 2], dtype=int32)"
    assert repr(jnp.float32(2) * 1.5) == "Array(3., dtype=float32)"
    assert repr(jnp.asarray(2.0)) == "Array(2., dtype=float32, weak_type=True)"
    assert str(jnp.eye(2)) == "[[1. 0.]\n [0. 1.]]"


def test_lax_is_strict_and_numpy_is_not():
    assert float(jnp.add(1, 2.5)) == 3.5
    with pytest.raises(TypeError, match=r"lax\.add requires arguments to have the same dtypes"):
        lax.add(jnp.int32(1), jnp.float32(2.5))
    assert float(lax.add(jnp.float32(1), 2.5)) == 3.5


def test_convolution_by_lax():
    x, k = jnp.array([1.0, 2.0, 1.0]), jnp.ones(4)
    got = lax.conv_general_dilated(
        x.reshape(1, 1, 3), k.reshape(1, 1, 4), window_strides=(1,), padding=[(3, 3)]
    )[0, 0]
    assert got.tolist() == jnp.convolve(x, k).tolist() == [1, 3, 4, 4, 3, 1]


# ---- jit ----


def standardize(m):
    m = m - m.mean(0)
    return m / m.std(0)


def test_compiled_is_the_same_function(rng):
    m = jnp.asarray(rng.standard_normal((50, 4)), "float32")
    close(jit(standardize)(m), standardize(m))
    assert abs(float(standardize(m).std()) - 1) < 1e-3


def test_shapes_must_not_depend_on_values():
    def positives(x):
        return x[x > 0]

    x = jnp.array([3.0, -1.0, 2.0])
    assert positives(x).tolist() == [3.0, 2.0]
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError, match=r"bool\[3\]"):
        jit(positives)(x)


def test_what_print_sees_while_tracing(capsys):
    @jit
    def f(x, y):
        print("x:", x, "y:", y)
        out = jnp.dot(x + 1, y)
        print("out:", out)
        return out

    f(np.ones((2, 3)), np.ones(3))
    f(np.zeros((2, 3)), np.zeros(3))
    assert capsys.readouterr().out == (
        "x: JitTracer(float32[2,3]) y: JitTracer(float32[3])\nout: JitTracer(float32[2])\n"
    )
    f(np.ones((4, 3)), np.ones(3))
    assert "float32[4,3]" in capsys.readouterr().out


def test_jaxpr_of_a_function():
    def f(x, y):
        return jnp.dot(x + 1, y + 1)

    assert str(jax.make_jaxpr(f)(np.ones((3, 4)), np.ones(4))) == (
        "{ lambda ; a:f32[3,4] b:f32[4]. let\n"
        "    c:f32[3,4] = add a 1.0:f32[]\n"
        "    d:f32[4] = add b 1.0:f32[]\n"
        "    e:f32[3] = dot_general[\n"
        "      dimension_numbers=(([1], [0]), ([], []))\n"
        "      preferred_element_type=float32\n"
        "    ] c d\n"
        "  in (e,) }"
    )


def test_python_branch_on_a_traced_value():
    def f(x, neg):
        return -x if neg else x

    with pytest.raises(jax.errors.TracerBoolConversionError, match="boolean conversion"):
        jit(f)(1, True)
    assert int(jit(f, static_argnums=(1,))(1, True)) == -1
    assert int(jit(f, static_argnums=(1,))(1, False)) == 1


def test_shape_arithmetic_stays_in_numpy():
    x = jnp.ones((2, 3))

    def with_jnp(x):
        return x.reshape(jnp.array(x.shape).prod())

    def with_numpy(x):
        return x.reshape((np.prod(x.shape),))

    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values"):
        jit(with_jnp)(x)
    assert jit(with_numpy)(x).shape == (6,)


# ---- the other transformations ----


def total_logistic(x):
    return jnp.sum(1 / (1 + jnp.exp(-x)))


def test_grad():
    x = jnp.arange(4.0)
    s = 1 / (1 + np.exp(-np.arange(4.0)))
    close(grad(total_logistic)(x), s * (1 - s))
    eps, eye = 1e-2, jnp.eye(4)
    steps = [(total_logistic(x + eps * v) - total_logistic(x - eps * v)) / (2 * eps) for v in eye]
    close(jnp.array(steps), s * (1 - s), atol=1e-3)


def test_grad_and_jit_nest():
    close(grad(jit(grad(jit(grad(total_logistic)))))(1.0), -0.0353256)


def test_jacobian_of_an_elementwise_function():
    x = jnp.arange(3.0)
    close(jax.jacobian(jnp.exp)(x), np.diag(np.exp(np.arange(3.0))))
    second = jit(jax.jacfwd(jax.jacrev(total_logistic)))(x)
    close(second, np.diag([0, -0.09085776, -0.07996249]))


def test_vmap_against_two_ways_by_hand():
    key_a, key_x = jax.random.split(jax.random.key(4))
    matrix = jax.random.normal(key_a, (7, 5))
    xs = jax.random.normal(key_x, (3, 5))

    def apply(x):
        return matrix @ x

    one_by_one = jnp.stack([apply(x) for x in xs])
    close(jit(lambda xs: xs @ matrix.T)(xs), one_by_one)
    close(jit(vmap(apply))(xs), one_by_one)
    with pytest.raises(TypeError):
        apply(xs)


def test_what_each_transformation_passes():
    seen = []

    def f(x):
        seen.append((isinstance(x, jax.Array), jax.typeof(x).shape, x.dtype))
        return x * 2.0

    x = jnp.arange(3.0)
    f(x), jit(f)(x), vmap(f)(x), grad(lambda x: f(x).sum())(x)
    assert seen == [(True, shape, jnp.float32) for shape in [(3,), (3,), (), (3,)]]


def test_pytrees_go_through_everything():
    def f(p):
        return {"out": p["w"] * 2, "half": (p["b"] / 2, None)}

    p = {"w": jnp.arange(2.0), "b": jnp.ones(2)}
    for g in (f, jit(f), vmap(f)):
        out = g(p)
        assert out["out"].tolist() == [0, 2] and out["half"][0].tolist() == [0.5, 0.5]
        assert out["half"][1] is None
