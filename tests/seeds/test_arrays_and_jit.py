"""The acceptance tests of the founding texts: arrays, indexing, random keys, asynchrony, jit. One
test an item.

They read as the texts do, with the name of the library changed.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import jit, lax, random


def printed(capsys, *values) -> str:
    for value in values:
        print(value)
    return capsys.readouterr().out


def test_prints_as_numpy(capsys):
    assert printed(capsys, jnp.array([(1, 2, 3), (4, 5, 6)])) == "[[1 2 3]\n [4 5 6]]\n"
    assert printed(capsys, jnp.arange(5)) == "[0 1 2 3 4]\n"
    assert printed(capsys, jnp.zeros(2)) == "[0. 0.]\n"
    assert printed(capsys, jnp.linspace(0, 2, 9)) == (
        "[0.   0.25 0.5  0.75 1.   1.25 1.5  1.75 2.  ]\n"
    )


def test_types():
    x = jnp.zeros((2, 3))
    assert isinstance(x, jax.Array)
    assert x.dtype == np.dtype("float32")
    assert jax.device_put(np.ones((2, 3))).dtype == np.dtype("float32")


def test_arrays_are_immutable():
    a = jnp.arange(5)
    with pytest.raises(TypeError, match=r"arrays are immutable.*\.at\[") as caught:
        a[0] = 9
    assert "does not support item assignment" in str(caught.value)
    np.testing.assert_array_equal(a.at[0].set(9), [9, 1, 2, 3, 4])
    np.testing.assert_array_equal(a, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("value", [[1.0, 2.0], (1.0, 2.0)])
def test_lists_are_rejected(value):
    message = f"sum requires ndarray or scalar arguments, got {type(value)}"
    with pytest.raises(TypeError) as caught:
        jnp.sum(value)
    assert message in str(caught.value)


def test_out_of_bounds():
    a = jnp.arange(5)
    assert int(a[10]) == 4
    np.testing.assert_array_equal(a.at[10].set(7), [0, 1, 2, 3, 4])
    assert int(a.at[10].get(mode="fill", fill_value=-1)) == -1
    assert int(a.at[10].get(mode="clip")) == 4


def test_the_at_table():
    x = jnp.array([1.0, 2.0, 3.0, 4.0])
    i = jnp.array([1, 3])
    table = [
        (x.at[i].set(9), [1, 9, 3, 9]),
        (x.at[i].add(1), [1, 3, 3, 5]),
        (x.at[i].multiply(2), [1, 4, 3, 8]),
        (x.at[i].divide(2), [1, 1, 3, 2]),
        (x.at[i].power(2), [1, 4, 3, 16]),
        (x.at[i].min(3), [1, 2, 3, 3]),
        (x.at[i].max(3), [1, 3, 3, 4]),
        (x.at[i].apply(jnp.negative), [1, -2, 3, -4]),
        (x.at[i].get(), [2, 4]),
    ]
    for got, expected in table:
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    inside = jit(lambda x: x.at[i].add(1).at[0].set(0))(x)
    np.testing.assert_array_equal(inside, [0, 3, 3, 5])


def test_random_keys(capsys):
    key = random.PRNGKey(18)
    assert printed(capsys, key) == "[ 0 18]\n"
    one, two = random.split(key)
    assert printed(capsys, one, two) == "[4197003906 1654466292]\n[1685972163 1654824463]\n"
    key, subkey = random.split(key)
    x = random.normal(subkey, (3, 2))
    assert x.shape == (3, 2) and x.dtype == np.float32
    np.testing.assert_allclose(x[0], [1.0465655, 0.1074554], rtol=3e-7)


def test_both_streams_exist():
    default = random.bits(random.PRNGKey(0), (3,))
    with jax.threefry_partitionable(True):
        newer = random.bits(random.PRNGKey(0), (3,))
    assert default.dtype == newer.dtype == np.uint32
    assert not np.array_equal(default, newer)


def test_asynchronous_dispatch():
    x = random.normal(random.PRNGKey(8), (500, 500))
    y = jnp.sin(x) @ x
    assert y.block_until_ready() is y
    assert y.is_ready()


def test_sum_squared_error_three_ways():
    key, one, two = random.split(random.PRNGKey(8), 3)
    a, b = random.normal(one, (500, 500)), random.normal(two, (500, 500))

    def sum_squared_error(a, b):
        return jnp.sum((a - b) ** 2)

    @jit
    def decorated(a, b):
        return jnp.sum((a - b) ** 2)

    jitted = jit(sum_squared_error)
    values = [f(a, b) for f in (sum_squared_error, jitted, jit(sum_squared_error), decorated)]
    expected = ((np.asarray(a, np.float64) - np.asarray(b)) ** 2).sum()
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_traced_condition():
    @jit
    def cond_func(x):
        if x < 0.0:
            return x**2.0
        else:
            return x**3.0

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        cond_func(1.0)
    text = str(caught.value)
    assert "Attempted boolean conversion of traced array with shape bool[]" in text
    assert __file__.rsplit("/", 1)[-1] in text


@pytest.mark.parametrize("how", [{"static_argnums": (0,)}, {"static_argnames": "x"}])
def test_static_condition(how):
    def cond_func(x):
        if x < 0.0:
            return x**2.0
        else:
            return x**3.0

    f = jit(cond_func, **how)
    assert (float(f(2.0)), float(f(-2.0))) == (8.0, 4.0)


def test_traced_shape():
    @jit
    def traced(x):
        return x.reshape(jnp.array(x.shape).prod())

    with pytest.raises(
        TypeError, match="Shapes must be 1D sequences of concrete values of integer type"
    ):
        traced(jnp.ones((2, 3)))

    @jit
    def static(x):
        return x.reshape(np.prod(x.shape))

    np.testing.assert_array_equal(static(jnp.ones((2, 3))), np.ones(6))


def test_make_jaxpr():
    x, y = jnp.array([1.0, 4.0, 3.0]), jnp.array([8.0, 1.0, 2.0])
    text = str(jax.make_jaxpr(lambda x, y: 2 * x**2 + y)(x, y))
    assert text == (
        "{ lambda ; a:f32[3] b:f32[3]. let\n"
        "    c:f32[3] = integer_pow[y=2] a\n"
        "    d:f32[3] = mul 2.0:f32[] c\n"
        "    e:f32[3] = add d b\n"
        "  in (e,) }"
    )


def test_outputs_based_only_on_inputs(capsys):
    a = jnp.ones(3)

    def f(x):
        return a + x

    assert printed(capsys, jit(f)(jnp.ones(3))) == "[2. 2. 2.]\n"
    a = jnp.zeros(3)
    assert printed(capsys, jit(f)(jnp.ones(3))) == "[2. 2. 2.]\n"
    a = jnp.zeros(4)
    assert printed(capsys, jit(f)(jnp.ones(4))) == "[1. 1. 1. 1.]\n"


def test_side_effects_happen_once(capsys):
    def f(a, b):
        print("Calculating sum")
        return a + b

    assert printed(capsys, jit(f)(jnp.arange(3), jnp.arange(3))) == "Calculating sum\n[0 2 4]\n"
    assert printed(capsys, jit(f)(jnp.arange(3), jnp.arange(3))) == "[0 2 4]\n"


def test_donation():
    x, y = jax.device_put(np.ones((2, 3))), jax.device_put(np.ones((2, 3)))
    z = jit(lambda x, y: x + y, donate_argnums=(1,))(x, y)
    np.testing.assert_array_equal(z, np.full((2, 3), 2))
    assert y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        y + 1


def test_lax_is_below_numpy():
    with pytest.raises(TypeError, match="same dtypes"):
        lax.add(1, 1.0)
    assert float(jnp.add(1, 1.0)) == 2.0


def test_leaked_tracer():
    saved = []
    jit(lambda x: saved.append(x))(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        saved[0] + 1
