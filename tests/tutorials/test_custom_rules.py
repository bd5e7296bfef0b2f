"""The tutorial "custom derivative rules for Python code": custom_jvp and custom_vjp, why they are
wanted, when their functions are called, containers, and arguments that are functions.
"""

import collections
import functools

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import custom_jvp, custom_vjp, grad, jit, jvp, lax, vjp, vmap


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


# ---- the three ways to say sin(x) y ----


def by_one_rule():
    f = custom_jvp(lambda x, y: jnp.sin(x) * y)

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), jnp.cos(x) * dx * y + jnp.sin(x) * dy

    return f


def by_a_rule_an_argument():
    f = custom_jvp(lambda x, y: jnp.sin(x) * y)
    f.defjvps(lambda dx, ans, x, y: jnp.cos(x) * dx * y, lambda dy, ans, x, y: jnp.sin(x) * dy)
    return f


def by_forward_and_backward():
    f = custom_vjp(lambda x, y: jnp.sin(x) * y)
    f.defvjp(
        lambda x, y: (f(x, y), (jnp.cos(x), jnp.sin(x), y)),
        lambda res, g: (res[0] * g * res[2], res[1] * g),
    )
    return f


@pytest.mark.parametrize("make", [by_one_rule, by_a_rule_an_argument, by_forward_and_backward])
def test_three_ways(make):
    f = make()
    close(f(2.0, 3.0), 3 * np.sin(2.0))
    close(grad(f)(2.0, 3.0), 3 * np.cos(2.0))
    close(grad(f, (0, 1))(2.0, 3.0)[1], np.sin(2.0))
    close(jit(vmap(grad(f), (0, None)))(jnp.arange(3.0), 2.0), 2 * np.cos(np.arange(3.0)))
    close(grad(grad(f))(2.0, 3.0), -3 * np.sin(2.0))


@pytest.mark.parametrize("make", [by_one_rule, by_a_rule_an_argument])
def test_forward_mode(make):
    y, dy = jvp(make(), (2.0, 3.0), (1.0, 0.0))
    close((y, dy), (3 * np.sin(2.0), 3 * np.cos(2.0)))


# ---- numerical stability ----


def log1pexp(x):
    return jnp.log(1 + jnp.exp(x))


def test_the_formula_overflows():
    close(jit(grad(log1pexp))(3.0), 1 / (1 + np.exp(-3)))
    assert np.isnan(grad(log1pexp)(100.0))
    assert str(jax.make_jaxpr(grad(log1pexp))(100.0)) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = exp a\n"
        "    c:f32[] = add 1.0:f32[] b\n"
        "    _:f32[] = log c\n"
        "    d:f32[] = div 1.0:f32[] c\n"
        "    e:f32[] = mul d b\n"
        "  in (e,) }"
    )


def test_a_rule_that_does_not_overflow():
    f = custom_jvp(log1pexp)
    f.defjvps(lambda t, ans, x: (1 - 1 / (1 + jnp.exp(x))) * t)
    assert float(grad(f)(100.0)) == 1.0
    close(jit(f)(3.0), np.log1p(np.exp(3)))
    close(vmap(jit(grad(f)))(jnp.arange(3.0)), 1 / (1 + np.exp(-np.arange(3.0))))


def test_a_convention_at_the_edge():
    def f(x):
        return x / (1 + jnp.sqrt(x))

    assert np.isnan(grad(f)(0.0))
    g = custom_jvp(f)
    g.defjvps(lambda t, ans, x: (jnp.sqrt(x) + 2) / (2 * (jnp.sqrt(x) + 1) ** 2) * t)
    assert float(grad(g)(0.0)) == 1.0
    close(grad(g)(4.0), grad(f)(4.0))


# ---- gradients changed on purpose ----


@custom_vjp
def clip_gradient(low, high, x):
    return x


clip_gradient.defvjp(
    lambda low, high, x: (x, (low, high)),
    lambda res, g: (None, None, jnp.clip(g, *res)),
)


def test_clipped_gradients():
    t = jnp.linspace(0, 6, 13)
    f = lambda x: jnp.sin(clip_gradient(-0.75, 0.75, x))
    close(f(t), np.sin(np.linspace(0, 6, 13)))
    close(vmap(grad(f))(t), np.clip(np.cos(np.linspace(0, 6, 13)), -0.75, 0.75))
    assert float(grad(clip_gradient)(0.0, 1.0, 2.0)) == 0.0


def test_looking_at_a_cotangent():
    seen = []
    spy = custom_vjp(lambda x: x)
    spy.defvjp(lambda x: (x, x), lambda x, g: (seen.append((float(x), float(g))), (g,))[1])
    grad(lambda x: jnp.sin(spy(x**2)))(3.0)
    ((x, g),) = seen
    close((x, g), (9.0, np.cos(9.0)))


# ---- implicit differentiation ----


def iterate(f, a, x):
    """x = f(a, x), by iteration until it moves no more."""
    _, out = lax.while_loop(
        lambda s: jnp.abs(s[0] - s[1]) > 1e-6, lambda s: (s[1], f(a, s[1])), (x, f(a, x))
    )
    return out


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, x):
    return iterate(f, a, x)


def fixed_point_forward(f, a, x):
    out = fixed_point(f, a, x)
    return out, (a, out)


def fixed_point_backward(f, res, ct):
    a, out = res
    _, pull_a = vjp(lambda a: f(a, out), a)

    def step(packed, u):
        a, out, ct = packed
        return ct + vjp(lambda x: f(a, x), out)[1](u)[0]

    return pull_a(fixed_point(step, (a, out, ct), ct))[0], jnp.zeros_like(out)


fixed_point.defvjp(fixed_point_forward, fixed_point_backward)


def root(a, solve):
    return solve(lambda a, x: 0.5 * (x + a / x), a, a)


def test_roots_by_iteration():
    close(root(2.0, iterate), np.sqrt(2))
    close(jit(vmap(lambda a: root(a, iterate)))(jnp.arange(1.0, 5)), np.sqrt(np.arange(1, 5)))
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        grad(root)(2.0, iterate)


def test_implicit_derivatives():
    close(root(2.0, fixed_point), np.sqrt(2))
    f = lambda a: root(a, fixed_point)
    close(grad(f)(2.0), 0.5 / np.sqrt(2))
    close(grad(grad(f))(2.0), -0.25 * 2**-1.5, rtol=1e-4)
    close(vmap(grad(f))(jnp.array([1.0, 4.0])), [0.5, 0.25])
    close(jit(grad(f))(9.0), 1 / 6)


# ---- who is called when ----


def chatty_jvp():
    @custom_jvp
    def f(x):
        print("f")
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        print("rule")
        return f(*primals), jnp.cos(primals[0]) * tangents[0]

    return f


@pytest.mark.parametrize(
    "run, printed",
    [
        (lambda f: f(3.0), "f\n"),
        (lambda f: vmap(f)(jnp.arange(3.0)), "f\n"),
        (lambda f: jit(f)(3.0), "f\n"),
        (lambda f: jvp(f, (3.0,), (1.0,)), "rule\nf\n"),
        (lambda f: grad(f)(3.0), "rule\nf\n"),
        (lambda f: grad(grad(f))(3.0), "rule\nrule\nf\n"),
    ],
)
def test_calls_of_custom_jvp(run, printed, capsys):
    run(chatty_jvp())
    assert capsys.readouterr().out == printed


def chatty_vjp():
    @custom_vjp
    def f(x):
        print("f")
        return jnp.sin(x)

    def forward(x):
        print("forward")
        return f(x), jnp.cos(x)

    def backward(cos, g):
        print("backward")
        return (cos * g,)

    f.defvjp(forward, backward)
    return f


def test_calls_of_custom_vjp(capsys):
    f = chatty_vjp()
    close(f(3.0), np.sin(3.0))
    assert capsys.readouterr().out == "f\n"
    close(grad(f)(3.0), np.cos(3.0))
    assert capsys.readouterr().out == "forward\nf\nbackward\n"
    _, pull = vjp(f, 3.0)
    assert capsys.readouterr().out == "forward\nf\n"
    close(pull(1.0)[0], np.cos(3.0))
    assert capsys.readouterr().out == "backward\n"


def test_forward_mode_of_custom_vjp():
    f = by_forward_and_backward()
    with pytest.raises(
        TypeError, match=r"can't apply forward-mode autodiff \(jvp\) to a custom_vjp"
    ):
        jvp(f, (3.0, 1.0), (1.0, 0.0))
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jacfwd(f)(3.0, 1.0)


def test_python_control_flow_in_rules():
    @custom_jvp
    def f(x):
        return jnp.sin(x) if x > 0 else jnp.cos(x)

    @f.defjvp
    def rule(primals, tangents):
        return f(*primals), (2 if primals[0] > 0 else 3) * tangents[0]

    assert (float(grad(f)(1.0)), float(grad(f)(-1.0))) == (2.0, 3.0)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jit(f)(1.0)


def test_rules_may_be_left_out():
    f = custom_jvp(lambda x, y: x**2 * y)
    f.defjvps(lambda dx, ans, x, y: 2 * x * y * dx, None)
    assert [float(grad(f, i)(2.0, 3.0)) for i in (0, 1)] == [12.0, 0.0]


# ---- containers ----

Point = collections.namedtuple("Point", ["x", "y"])


def parts(p):
    return {"a": p.x**2, "b": (jnp.sin(p.x), jnp.cos(p.y))}


def parts_by_jvp():
    f = custom_jvp(parts)

    @f.defjvp
    def rule(primals, tangents):
        (p,), (t,) = primals, tangents
        return f(p), {"a": 2 * p.x * t.x, "b": (jnp.cos(p.x) * t.x, -jnp.sin(p.y) * t.y)}

    return f


def parts_by_vjp():
    f = custom_vjp(parts)

    def backward(p, g):
        b0, b1 = g["b"]
        return (Point(2 * p.x * g["a"] + jnp.cos(p.x) * b0, -jnp.sin(p.y) * b1),)

    f.defvjp(lambda p: (f(p), p), backward)
    return f


@pytest.mark.parametrize("make", [parts_by_jvp, parts_by_vjp])
def test_containers(make):
    f, p = make(), Point(1.0, 2.0)
    out = f(p)
    assert out["a"] == 1.0
    close(out["b"], [np.sin(1.0), np.cos(2.0)])
    g = grad(lambda p: f(p)["a"] + f(p)["b"][0])(p)
    assert type(g) is Point
    close(g, (2 + np.cos(1.0), 0.0))


# ---- arguments that are functions ----


def test_nondiff_argnums_of_custom_jvp():
    @functools.partial(custom_jvp, nondiff_argnums=(0, 2))
    def apply(f, x, g):
        return f(g(x))

    @apply.defjvp
    def rule(f, g, primals, tangents):
        return f(g(*primals)), 3.0 * tangents[0]

    args = (lambda x: x**3, 3.0, lambda y: 5 * y)
    assert float(apply(*args)) == 3375.0
    assert float(grad(apply, 1)(*args)) == 3.0
    assert float(jit(lambda x: grad(apply, 1)(args[0], x, args[2]))(2.0)) == 3.0


def test_nondiff_argnums_of_custom_vjp():
    @functools.partial(custom_vjp, nondiff_argnums=(0,))
    def apply(f, x):
        return f(x)

    apply.defvjp(lambda f, x: (f(x), x), lambda f, x, g: (5 * g,))
    assert float(apply(lambda x: x**2, 4.0)) == 16.0
    assert float(grad(apply, 1)(lambda x: x**2, 4.0)) == 5.0


# ---- mistakes ----


def test_no_rule_given():
    with pytest.raises(AttributeError, match="No JVP defined for custom_jvp function"):
        jvp(custom_jvp(lambda x: x), (1.0,), (1.0,))
    with pytest.raises(AttributeError, match="No VJP defined for custom_vjp function"):
        grad(custom_vjp(lambda x: x))(1.0)


def test_rules_of_the_wrong_form():
    f = custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: None)
    with pytest.raises(TypeError, match="must produce a pair .*primal and tangent outputs"):
        grad(f)(3.0)
    g = custom_jvp(lambda x: x)
    g.defjvp(lambda primals, tangents: (primals[0], jnp.ones(2)))
    with pytest.raises(TypeError, match="Custom JVP rule must produce primal and tangent outputs"):
        grad(g)(3.0)
    h = custom_vjp(lambda x: x)
    h.defvjp(lambda x: (x, None), lambda res, g: g)
    with pytest.raises(TypeError, match="Custom VJP bwd rule"):
        grad(h)(3.0)
    k = custom_vjp(lambda x: x)
    k.defvjp(lambda x: x, lambda res, g: (g,))
    with pytest.raises(TypeError, match="must produce a pair"):
        grad(k)(3.0)


def test_custom_gradient():
    @jax.custom_gradient
    def f(x):
        return x**2, lambda g: (g * x,)

    assert (float(f(3.0)), float(grad(f)(3.0))) == (9.0, 3.0)

    @jax.custom_gradient
    def g(x, y):
        return x * y, lambda ct: (y, x)

    assert [float(v) for v in grad(g, (0, 1))(3.0, 4.0)] == [4.0, 3.0]


def test_custom_root():
    def sqrt(a):
        return lax.custom_root(
            lambda x: x**2 - a,
            1.0,
            lambda f, x: lax.fori_loop(0, 20, lambda _, x: x - f(x) / grad(f)(x), x),
            lambda g, y: y / g(1.0),
        )

    close(sqrt(3.0), np.sqrt(3.0))
    close(grad(sqrt)(3.0), 0.5 / np.sqrt(3.0))
