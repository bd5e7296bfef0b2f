"""The tutorials on debugging: print and debug.print in every transformation, debug.callback,
breakpoints, nans found, checkify.
"""

import functools

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.experimental import checkify


@pytest.fixture
def printed(capsys):
    """What was printed until now, once all that runs has finished."""

    def read():
        jax.effects_barrier()
        return capsys.readouterr().out.splitlines()

    return read


def shown(x):
    jax.debug.print("x is {}", x)
    y = 2 * x
    jax.debug.print("y is {y}", y=y)
    return y


# ---- printing ----


def test_print_shows_tracers(printed):
    @jax.jit
    def f(x):
        print("x", x)
        y = jnp.sin(x)
        print("y", y)
        return y

    f(2.0)
    assert printed() == ["x JitTracer(~float32[])", "y JitTracer(~float32[])"]


def test_debug_print_shows_values(printed):
    shown(2.0)
    assert printed() == ["x is 2.0", "y is 4.0"]
    f = jax.jit(shown)
    for x in (2.0, 3.0):
        f(x)
    assert printed() == ["x is 2.0", "y is 4.0", "x is 3.0", "y is 6.0"]


def test_debug_print_under_vmap(printed):
    jax.vmap(shown)(jnp.arange(2.0))
    assert printed() == ["x is 0.0", "x is 1.0", "y is 0.0", "y is 2.0"]


def test_debug_print_in_loops(printed):
    lax.map(shown, jnp.arange(2.0))
    assert sorted(printed()) == ["x is 0.0", "x is 1.0", "y is 0.0", "y is 2.0"]

    def step(i, c):
        jax.debug.print("{} {}", i, c, ordered=True)
        return c * 2

    lax.fori_loop(0, 3, step, 1)
    assert printed() == ["0 1", "1 2", "2 4"]
    lax.while_loop(lambda c: c < 3, lambda c: step(c, c) // 2 + 1, 1)
    assert printed() == ["1 1", "2 2"]


def test_debug_print_in_the_chosen_branch(printed):
    for p in (True, False):
        lax.cond(p, shown, lambda x: x, 5.0)
    assert printed() == ["x is 5.0", "y is 10.0"]


def test_debug_print_under_grad(printed):
    jax.grad(shown)(1.0)
    assert printed() == ["x is 1.0", "y is 2.0"]


def test_printing_a_cotangent(printed):
    @jax.custom_vjp
    def spy(x):
        return x

    def backward(_, g):
        jax.debug.print("cotangent {}", g)
        return (g,)

    spy.defvjp(lambda x: (x, None), backward)
    jax.jit(jax.grad(lambda x: spy(x) * 3.0))(1.0)
    assert printed() == ["cotangent 3.0"]


def test_order_kept(printed):
    @jax.jit
    def f(x, y):
        jax.debug.print("first {}", x, ordered=True)
        jax.debug.print("second {}", y, ordered=True)
        return x + y

    for i in range(3):
        f(i, 10)
    assert printed() == [line for i in range(3) for line in (f"first {i}", "second 10")]


def test_formats(printed):
    jax.debug.print("{:.2f} {name!r:>5} {{}}", 1.23456, name=jnp.int32(3))
    assert printed()[0].startswith("1.23 ") and printed() == []
    jax.debug.print("whole {}", jnp.arange(3))
    assert printed() == ["whole [0 1 2]"]
    with pytest.raises(ValueError, match="Unused positional arguments"):
        jax.debug.print(f"{1} is baked in", jnp.ones(2))


# ---- callbacks and breakpoints ----


def test_debug_callback():
    log = []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda x: log.append(float(x)), x)
        return x

    f(1.0)
    jax.effects_barrier()
    assert log == [1.0]
    jax.vmap(f)(jnp.arange(3.0))
    jax.grad(f)(5.0)
    jax.effects_barrier()
    assert log == [1.0, 0.0, 1.0, 2.0, 5.0]


def test_a_breakpoint_that_is_not_reached():
    def stop_if_bad(x):
        lax.cond(jnp.isfinite(x).all(), lambda _: None, lambda _: jax.debug.breakpoint(), x)

    @jax.jit
    def f(x, y):
        z = x / y
        stop_if_bad(z)
        return z

    assert float(f(2.0, 1.0)) == 2.0


# ---- flags ----


def test_nans_found():
    jax.config.update("jax_debug_nans", True)

    def f(x):
        return jnp.log(-3 * jnp.square(x))

    for run in (f, jax.jit(f)):
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"):
            run(jnp.float32(5))
    assert np.isfinite(jax.jit(lambda x: jnp.log(x))(2.0))


def test_infinities_found():
    jax.config.update("jax_debug_infs", True)
    with pytest.raises(FloatingPointError, match="inf"):
        jax.jit(lambda x: 1 / x)(jnp.zeros(2))


def test_without_jit():
    kinds = []

    @jax.jit
    def f(x):
        kinds.append(type(x).__name__)
        return x

    f(jnp.ones(2))
    jax.config.update("jax_disable_jit", True)
    f(jnp.ones(2))
    assert "Tracer" in kinds[0] and "Tracer" not in kinds[1]


# ---- checkify ----


def lookup(x, i):
    checkify.check(i >= 0, "index must not be negative")
    return jnp.sin(x[i])


def test_checks_as_values():
    checked = jax.jit(checkify.checkify(lookup))
    err, _ = checked(jnp.ones(5), -1)
    assert err.get().startswith("index must not be negative")
    err, out = checked(jnp.ones(5), 1)
    assert err.get() is None
    err.throw()
    np.testing.assert_allclose(out, np.sin(1.0), rtol=1e-6)


ALL = checkify.user_checks | checkify.index_checks | checkify.float_checks


@pytest.mark.parametrize(
    "x, i, phrase",
    [
        ([1.0] * 5, 100, "out-of-bounds indexing for array of shape \\(5,\\): index 100"),
        ([1.0] * 5, -1, "index must not be negative"),
        ([np.inf, 1.0], 0, "nan generated by primitive: sin"),
    ],
)
def test_checks_added(x, i, phrase):
    err, _ = checkify.checkify(lookup, errors=ALL)(jnp.array(x), jnp.int32(i))
    with pytest.raises(checkify.JaxRuntimeError, match=phrase):
        err.throw()


def test_nothing_wrong():
    err, _ = checkify.checkify(lookup, errors=ALL)(jnp.ones(3), jnp.int32(0))
    err.throw()
    assert err.get() is None


def test_a_check_run_at_once():
    checkify.check(True, "fine")
    with pytest.raises(checkify.JaxRuntimeError, match="number 3"):
        checkify.check(jnp.bool_(False), "number {n}", n=jnp.int32(3))


def test_first_error_wins():
    def f(x):
        checkify.check(x > 0, "first")
        checkify.check(x > 1, "second")
        return x

    checked = checkify.checkify(f)
    assert checked(jnp.float32(-1))[0].get().startswith("first")
    assert checked(jnp.float32(0.5))[0].get().startswith("second")


def test_checks_in_loops_and_batches():
    def f(x):
        def step(i, c):
            checkify.check(c < 5, "too large: {c}", c=c)
            return c + x

        return lax.fori_loop(0, 4, step, 0)

    checked = jax.jit(checkify.checkify(f))
    assert checked(1)[0].get() is None
    assert checked(3)[0].get().startswith("too large: 6")
    err, _ = jax.vmap(checkify.checkify(f))(jnp.array([1, 3]))
    assert "too large" in err.get() and "mapped index 1" in err.get()


def test_divisions_checked():
    f = checkify.checkify(functools.partial(jnp.divide, 1.0), errors=checkify.div_checks)
    assert f(jnp.float32(2))[0].get() is None
    assert "division by zero" in f(jnp.float32(0))[0].get()


def test_errors_by_grad():
    f = checkify.checkify(jax.grad(lambda x: jnp.sqrt(x)), errors=checkify.float_checks)
    err, _ = f(jnp.float32(-1))
    assert "nan generated by primitive" in err.get()
