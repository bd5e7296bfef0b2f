"""The tutorial "external callbacks": pure_callback, io_callback and debug.callback in every
transformation, and a special function of SciPy with its derivative.
"""

import functools

import numpy as np
import pytest
import scipy.special

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.experimental import io_callback

X = jnp.arange(5.0)


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


# ---- pure_callback ----


def host_sin(x):
    return np.sin(x).astype(x.dtype)


def called(x):
    shape = jax.ShapeDtypeStruct.like(x)
    return jax.pure_callback(host_sin, shape, x, vmap_method="sequential")


@pytest.mark.parametrize(
    "run",
    [
        called,
        jax.jit(called),
        jax.vmap(called),
        lambda x: lax.scan(lambda c, v: (c, called(v)), None, x)[1],
        lambda x: lax.map(called, x),
        jax.jit(lambda x: called(x) * 1),
    ],
)
def test_pure_callback(run):
    close(run(X), np.sin(np.arange(5.0)))


def test_pure_callback_has_no_derivative():
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP.*custom_jvp"):
        jax.grad(lambda x: called(x))(2.0)


def test_a_result_nobody_needs_is_not_computed():
    calls = []

    def host():
        calls.append(1)
        return np.int32(0)

    @jax.jit
    def unused():
        jax.pure_callback(host, np.int32(0))
        return 1.0

    assert float(unused()) == 1.0 and not calls
    assert int(jax.jit(lambda: jax.pure_callback(host, np.int32(0)))()) == 0 and calls


def test_shapes_are_checked():
    def wrong(x):
        return np.zeros(7, "float32")

    with pytest.raises(Exception, match="shape"):
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(wrong, x, x))(X))


@pytest.mark.parametrize(
    "method, shapes",
    [
        ("sequential", [(), (), ()]),
        ("expand_dims", [(3,)]),
        ("broadcast_all", [(3,)]),
    ],
)
def test_ways_to_batch(method, shapes):
    seen = []

    def host(x, y):
        seen.append(np.shape(x))
        return np.asarray(x + y, "float32")

    def f(x, y):
        return jax.pure_callback(
            host, jax.ShapeDtypeStruct((), jnp.float32), x, y, vmap_method=method
        )

    close(jax.vmap(f, (0, None))(X[:3], 10.0), [10, 11, 12])
    assert seen == shapes


def test_batching_must_be_chosen():
    f = lambda x: jax.pure_callback(host_sin, x, x)
    with pytest.raises(NotImplementedError, match="vmap is only supported.*vmap_method"):
        jax.vmap(f)(X)
    assert float(lax.cond(True, lambda x: -x, f, 2.0)) == -2.0


def test_several_results_and_containers():
    def host(p):
        return {"sum": np.float32(p["a"] + p["b"]), "list": [np.int32(3)]}

    shape = {
        "sum": jax.ShapeDtypeStruct((), "float32"),
        "list": [jax.ShapeDtypeStruct((), "int32")],
    }
    out = jax.jit(lambda p: jax.pure_callback(host, shape, p))({"a": 1.0, "b": 2.0})
    assert (float(out["sum"]), int(out["list"][0])) == (3.0, 3)


# ---- io_callback ----


@pytest.fixture
def draw():
    """A function with the state of a generator on the host, and the shapes it was asked for."""
    generator, asked = np.random.default_rng(0), []

    def host(x):
        asked.append(x.shape)
        return generator.uniform(size=x.shape).astype(x.dtype)

    return host, asked


FIRST = [0.6369617, 0.26978672, 0.04097353, 0.01652764, 0.8132702]


def test_io_callback(draw):
    host, asked = draw
    f = jax.jit(lambda x: io_callback(host, x, x))
    close(f(X), FIRST)
    assert sorted(np.asarray(jax.vmap(f)(X[:3])).tolist()) == sorted(
        np.random.default_rng(0).uniform(size=8).astype("float32")[5:].tolist()
    )
    assert asked == [(5,), (), (), ()]


def test_ordered_io_callback(draw):
    host, asked = draw
    f = jax.jit(lambda x: io_callback(host, x, x, ordered=True))
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        jax.vmap(f)(X)
    close(lax.scan(lambda c, x: (c, f(x)), None, X)[1], FIRST)
    assert asked == [()] * 5


def test_io_callback_and_derivatives(draw):
    host, _ = draw
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        jax.grad(lambda x: io_callback(host, x, x))(1.0)
    greeted = []

    @jax.jit
    def f(x):
        io_callback(lambda: greeted.append("hello"), None)
        return x

    assert float(jax.grad(f)(1.0)) == 1.0
    jax.effects_barrier()
    assert greeted == ["hello"]


def test_io_callback_is_never_dropped():
    seen = []

    @jax.jit
    def f(x):
        io_callback(lambda v: seen.append(int(v)), None, x)
        return 0

    f(3), f(4)
    jax.effects_barrier()
    assert seen == [3, 4]


# ---- debug.callback ----


def test_debug_callback_everywhere():
    log = []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda v: log.append(float(v)), x)
        return x

    for run, expected in (
        (lambda: f(1.0), [1.0]),
        (lambda: jax.vmap(f)(X[:3]), [0.0, 1.0, 2.0]),
        (lambda: jax.grad(f)(4.0), [4.0]),
        (lambda: lax.map(f, X[:2]), [0.0, 1.0]),
    ):
        run()
        jax.effects_barrier()
        assert sorted(log) == expected
        log.clear()


# ---- a function of SciPy with its derivative ----


@jax.custom_jvp
def bessel(order, z):
    order, z = jnp.asarray(order), jnp.asarray(z)
    z = z.astype(jnp.result_type(float, z.dtype))
    shape = jax.ShapeDtypeStruct(jnp.broadcast_shapes(order.shape, z.shape), z.dtype)
    host = lambda order, z: np.asarray(scipy.special.jv(order, z)).astype(z.dtype)
    return jax.pure_callback(host, shape, order, z, vmap_method="broadcast_all")


@bessel.defjvp
def bessel_rule(primals, tangents):
    (order, z), (_, dz) = primals, tangents
    below, above = bessel(order - 1, z), bessel(order + 1, z)
    zero_order = jnp.where(order == 0, -above, 0.5 * (below - above))
    return bessel(order, z), zero_order * dz


J1 = functools.partial(bessel, 1)


def test_bessel_functions():
    expected = scipy.special.jv(1, np.arange(5.0))
    for f in (J1, jax.jit(J1), jax.vmap(J1)):
        close(f(X), expected)


def test_derivatives_of_bessel_functions():
    f = lambda z: J1(z)
    close(jax.grad(f)(2.0), scipy.special.jvp(1, 2.0), rtol=1e-4)
    close(jax.jit(jax.vmap(jax.grad(f)))(X), scipy.special.jvp(1, np.arange(5.0)), rtol=1e-4)
    close(jax.grad(jax.grad(f))(2.0), scipy.special.jvp(1, 2.0, 2), rtol=1e-3)
    close(jax.grad(lambda z: bessel(0, z))(2.0), scipy.special.jvp(0, 2.0), rtol=1e-4)
