"""The tutorial "control flow": Python's under grad and jit, and cond, switch, select, while_loop,
fori_loop, scan and map, with every transformation of each.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, jit, lax, vmap


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


# ---- Python's ----


def kinked(x):
    return 3.0 * x**2 if x < 3 else -4 * x


def test_grad_follows_python():
    assert [float(grad(kinked)(x)) for x in (2.0, 4.0)] == [12.0, -4.0]


def test_loops_over_static_bounds():
    @jit
    def tripled(x):
        for _ in range(3):
            x = 2 * x
        return x

    @jit
    def total(x):
        y = 0.0
        for i in range(x.shape[0]):
            y = y + x[i]
        return y

    assert int(tripled(3)) == 24
    assert float(total(jnp.array([1.0, 2.0, 3.0]))) == 6.0


@pytest.mark.parametrize("f", [kinked, lambda x: (x > 0) and (x < 3)])
def test_branches_on_tracers(f):
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jit(f)(2)


def test_branches_on_static_arguments():
    assert float(jit(kinked, static_argnames="x")(2.0)) == 12.0

    def head(x, n):
        y = 0.0
        for i in range(n):
            y = y + x[i]
        return y

    assert float(jit(head, static_argnames="n")(jnp.array([2.0, 3.0, 4.0]), 2)) == 5.0


def test_shapes_must_be_static():
    def filled(length, value):
        return jnp.ones((length,)) * value

    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values") as e:
        jit(filled)(10, 4)
    assert "JitTracer(~int32[])" in str(e.value)
    assert jit(filled, static_argnames="length")(3, 4).tolist() == [4, 4, 4]


def test_logical_operators():
    def python_way(x):
        return x % 2 == 0 and (x > 0)

    @jit
    def array_way(x):
        return jnp.logical_and(x % 2 == 0, x > 0)

    x = jnp.array([-2, 2, 5])
    assert array_way(x).tolist() == [False, True, False]
    assert bool(array_way(24)) is python_way(24) is True
    with pytest.raises(ValueError, match="truth value of an array with more than one element"):
        python_way(x)


# ---- cond, switch, select ----


def test_cond():
    x = jnp.array([3.0])
    assert lax.cond(True, lambda x: x + 1, lambda x: x - 1, x).tolist() == [4.0]
    assert jit(lambda p: lax.cond(p, lambda x: x + 1, lambda x: x - 1, x))(False).tolist() == [2.0]
    assert float(lax.cond(x[0] > 2, lambda: 1.0, lambda: 0.0)) == 1.0


def test_cond_runs_one_branch(capsys):
    def loud(x):
        jax.debug.print("loud {}", x)
        return x

    for p in (True, False):
        jit(lambda p: lax.cond(p, loud, lambda x: -x, 2.0))(p)
    jax.effects_barrier()
    assert capsys.readouterr().out == "loud 2.0\n"


def test_cond_checks_its_branches():
    with pytest.raises(TypeError, match="cond branches must have equal output types"):
        lax.cond(True, lambda x: x, lambda x: x.astype("int32"), jnp.ones(2))
    with pytest.raises(TypeError, match="tree structure|pytree"):
        lax.cond(True, lambda x: (x, x), lambda x: x, 1.0)


def test_grad_and_vmap_of_cond():
    def f(x):
        return lax.cond(x < 3, lambda x: 3.0 * x**2, lambda x: -4.0 * x, x)

    xs = jnp.array([2.0, 4.0])
    assert [float(grad(f)(x)) for x in xs] == [12.0, -4.0]
    close(jit(vmap(f))(xs), [12.0, -16.0])
    close(vmap(jit(grad(f)))(xs), [12.0, -4.0])


def test_switch():
    branches = [lambda x: x, lambda x: x * x, lambda x: -x]
    got = [float(lax.switch(i, branches, 3.0)) for i in (-5, 0, 1, 2, 9)]
    assert got == [3.0, 3.0, 9.0, -3.0, -3.0]
    close(vmap(lambda i: lax.switch(i, branches, 3.0))(jnp.arange(3)), [3, 9, -3])


def test_select():
    a, b = jnp.arange(3), -jnp.arange(3)
    pred = jnp.array([True, False, True])
    assert lax.select(pred, a, b).tolist() == [0, -1, 2]
    assert lax.select_n(jnp.array([0, 1, 2]), a, b, a * 10).tolist() == [0, -1, 20]
    assert jnp.select([a < 1, a < 2], [a + 5, a + 50], 7).tolist() == [5, 51, 7]
    assert jnp.piecewise(1.0 * a, [a < 1], [lambda x: x - 1, lambda x: x * 3]).tolist() == [
        -1,
        3,
        6,
    ]


def test_where_needs_a_safe_value_on_both_sides():
    def naive(x):
        return jnp.where(x > 0, jnp.log(x), 0.0)

    def safe(x):
        return jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)

    assert np.isnan(grad(naive)(0.0)) and float(grad(safe)(0.0)) == 0.0
    assert float(grad(safe)(4.0)) == 0.25


# ---- loops ----


def test_while_loop():
    assert int(lax.while_loop(lambda x: x < 10, lambda x: x + 1, 0)) == 10
    doubled = jit(
        lambda x: lax.while_loop(lambda s: s[0] < 100.0, lambda s: (2 * s[0], s[1] + 1), x)
    )
    value, count = doubled((3.0, 0))
    assert (float(value), int(count)) == (192.0, 6)


def test_while_loop_under_vmap_stops_one_by_one():
    counts = vmap(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 2, 0))(jnp.arange(5))
    assert counts.tolist() == [0, 2, 2, 4, 4]


def test_derivatives_of_while_loop():
    def f(x):
        return lax.while_loop(lambda x: x < 100.0, lambda x: 2 * x, x)

    value, slope = jax.jvp(f, (3.0,), (1.0,))
    assert (float(value), float(slope)) == (192.0, 64.0)
    with pytest.raises(
        ValueError, match="Reverse-mode differentiation does not work for lax.while"
    ):
        grad(f)(3.0)


def test_while_loop_checks_its_carry():
    with pytest.raises(TypeError, match="carry input and carry output must have equal types"):
        lax.while_loop(lambda x: x < 3, lambda x: x + 1.5, jnp.int32(0))


def test_fori_loop():
    assert int(lax.fori_loop(0, 10, lambda i, x: x + i, 0)) == 45
    assert int(lax.fori_loop(3, 1, lambda i, x: x + i, 7)) == 7
    with_dynamic_end = jit(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0))
    assert [int(with_dynamic_end(n)) for n in (0, 4, 10)] == [0, 6, 45]


def test_grad_of_fori_loop_with_a_static_end():
    def power(x):
        return lax.fori_loop(0, 5, lambda i, y: y * x, 1.0)

    close(grad(power)(2.0), 80.0)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jit(grad(lambda x, n: lax.fori_loop(0, n, lambda i, y: y * x, 1.0)))(2.0, 5)


def test_scan():
    final, sums = lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(5))
    assert (int(final), sums.tolist()) == (10, [0, 0, 1, 3, 6])
    final, sums = lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(5), reverse=True)
    assert (int(final), sums.tolist()) == (10, [10, 9, 7, 4, 0])
    final, none = lax.scan(lambda c, _: (c * 2, None), 1, None, length=6)
    assert int(final) == 64 and none is None


def test_scan_of_pytrees():
    def step(carry, x):
        return {"n": carry["n"] + 1, "s": carry["s"] + x["a"] * x["b"]}, (carry["n"], x["a"])

    xs = {"a": jnp.arange(3.0), "b": jnp.ones(3)}
    carry, (ns, kept) = lax.scan(step, {"n": 0, "s": 0.0}, xs)
    assert (int(carry["n"]), float(carry["s"])) == (3, 3.0)
    assert (ns.tolist(), kept.tolist()) == ([0, 1, 2], [0.0, 1.0, 2.0])


def test_scan_checks_its_carry_and_lengths():
    with pytest.raises(TypeError, match="carry"):
        lax.scan(lambda c, x: (c + 0.5, x), jnp.int32(0), jnp.arange(3))
    with pytest.raises(ValueError, match="scan got"):
        lax.scan(lambda c, x: (c, x[0]), 0, (jnp.arange(3), jnp.arange(4)))


def test_grad_of_scan():
    def norm(x):
        return lax.scan(lambda c, v: (c + v**2, None), 0.0, x)[0]

    x = jnp.arange(4.0)
    close(jit(grad(norm))(x), 2 * np.arange(4))
    close(jax.jacfwd(norm)(x), 2 * np.arange(4))
    close(vmap(grad(norm))(jnp.stack([x, -x])), [2 * np.arange(4), -2 * np.arange(4)])


def test_map_and_unroll():
    x = jnp.arange(6.0)
    close(lax.map(lambda v: v**2, x), np.arange(6.0) ** 2)
    close(lax.map(lambda v: v**2, x, batch_size=4), np.arange(6.0) ** 2)
    out = [lax.scan(lambda c, v: (c + v, c), 0.0, x, unroll=n)[1] for n in (1, 2, True)]
    for o in out:
        close(o, [0, 0, 1, 3, 6, 10])


def test_associative_scan():
    x = jnp.arange(1, 6)
    assert lax.associative_scan(jnp.multiply, x).tolist() == [1, 2, 6, 24, 120]
    assert lax.associative_scan(jnp.add, x, reverse=True).tolist() == [15, 14, 12, 9, 5]


def test_jaxprs_of_control_flow():
    def branchy(x):
        return lax.cond(x > 0, lambda y: y + 1.0, lambda y: y - 1.0, x)

    def loopy(x):
        return lax.scan(lambda c, v: (c + v, c), 0.0, x)

    text = str(jax.make_jaxpr(branchy)(1.0))
    assert "cond[" in text and "branches=(" in text and "convert_element_type" in text
    text = str(jax.make_jaxpr(loopy)(jnp.ones(4)))
    for part in ("scan[", "length=4", "num_carry=1", "num_consts=0", "reverse=False"):
        assert part in text
    text = str(jax.make_jaxpr(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0))(3))
    assert "while[" in text and "body_jaxpr=" in text and "cond_jaxpr=" in text
