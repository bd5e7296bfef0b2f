"""Rules that users write: custom_jvp, custom_vjp, custom_gradient, closure_convert, linear_call.

Every rule here is wrong on purpose (scaled by a number of its own), so that a test sees whether it
was used.
"""

from functools import partial

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import custom_derivatives as cd
from gpuarray import lax
from gpuarray.interpreters.partial_eval import dce_jaxpr


@ga.custom_jvp
def scaled(x, y):
    return gnp.sin(x) * y


@scaled.defjvp
def scaled_jvp(primals, tangents):
    (x, y), (tx, ty) = primals, tangents
    return scaled(x, y), 10 * gnp.cos(x) * tx * y + 100 * ty


@ga.custom_vjp
def pulled(x, y):
    return gnp.sin(x) * y


pulled.defvjp(
    lambda x, y: (pulled(x, y), (x, y)),
    lambda r, ct: (10 * ct * gnp.cos(r[0]) * r[1], 100 * ct),
)

X = np.linspace(0.1, 1.0, 4).astype(np.float32)
BOTH = pytest.mark.parametrize("f", [scaled, pulled], ids=["jvp", "vjp"])


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-6, atol=1e-6)


@BOTH
@pytest.mark.parametrize("outer", [lambda f: f, ga.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("inner", [lambda f: f, ga.jit], ids=["plain", "jitted"])
def test_rule_is_used(f, outer, inner):
    fun = inner(f)
    close(outer(fun)(0.5, 2.0), np.sin(0.5) * 2)
    gx, gy = outer(ga.grad(fun, (0, 1)))(0.5, 2.0)
    close(gx, 20 * np.cos(0.5))
    close(gy, 100.0)
    both = outer(ga.vmap(ga.grad(fun, (0, 1)), in_axes=(0, None)))(X, 2.0)
    close(both[0], 20 * np.cos(X))
    close(both[1], np.full(4, 100.0))
    total = outer(ga.grad(lambda x, y: ga.vmap(fun, in_axes=(0, None))(x, y).sum(), (0, 1)))(X, 2.0)
    close(total[0], 20 * np.cos(X))
    close(total[1], 400.0)
    turned = ga.vmap(ga.vmap(fun, in_axes=(0, None)), in_axes=(1, 0), out_axes=1)
    grid = np.outer(X, X).astype(np.float32)
    close(outer(turned)(grid, X), np.sin(grid) * X)
    back = outer(ga.grad(lambda a: turned(a, X).sum()))(grid)
    close(back, 10 * np.cos(grid) * X)


def test_second_order_goes_through_the_rule():
    # The rule's own derivative: d/dx 10 cos(x) y = -10 sin(x) y, its inner call of `scaled` aside.
    close(ga.grad(ga.grad(scaled))(0.5, 2.0), -20 * np.sin(0.5))
    close(ga.jvp(ga.grad(scaled), (0.5, 2.0), (1.0, 0.0))[1], -20 * np.sin(0.5))
    close(ga.grad(ga.grad(pulled))(0.5, 2.0), -20 * np.sin(0.5))
    close(ga.grad(ga.jit(ga.grad(ga.jit(pulled))))(0.5, 2.0), -20 * np.sin(0.5))
    close(ga.hessian(scaled)(0.5, 2.0), -20 * np.sin(0.5))


def test_python_control_flow_sees_values():
    @ga.custom_jvp
    def f(x):
        return x * 2 if x > 0 else x * 3

    f.defjvps(lambda t, out, x: t * (7 if x > 0 else 8))
    close([f(1.0), f(-1.0)], [2.0, -3.0])
    close([ga.grad(f)(1.0), ga.grad(f)(-1.0)], [7.0, 8.0])
    with pytest.raises(ga.errors.TracerBoolConversionError):
        ga.jit(f)(1.0)


def test_jvp_of_custom_jvp():
    out, tangent = ga.jvp(scaled, (0.5, 2.0), (1.0, 1.0))
    close([out, tangent], [np.sin(0.5) * 2, 20 * np.cos(0.5) + 100])
    out, f_lin = ga.linearize(scaled, 0.5, 2.0)
    close(f_lin(2.0, 0.0), 40 * np.cos(0.5))


def test_forward_mode_of_custom_vjp():
    with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
        ga.jvp(pulled, (1.0, 2.0), (1.0, 1.0))
    with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
        ga.jvp(ga.jit(pulled), (1.0, 2.0), (1.0, 1.0))


def test_a_linear_function_leaves_out_what_no_result_depends_on():
    f = ga.custom_vjp(lambda x: gnp.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct,))

    def unused(x):
        f(x)  # has no rule for tangents, and needs none
        return x * 2

    for outer in (lambda g: g, ga.jit):
        assert outer(lambda x: ga.linearize(unused, x)[1](1.0))(3.0) == 2.0
    _, linear = ga.linearize(lambda x: (gnp.exp(x), gnp.sum(x))[1], gnp.ones(1000))
    assert sum(x.size for x in ga.tree.leaves(linear)) == 0


def test_jacrev_of_custom_vjp():
    f = ga.custom_vjp(lambda x: gnp.sin(x))
    f.defvjp(lambda x: (gnp.sin(x), gnp.cos(x)), lambda c, ct: (3 * c * ct,))
    close(ga.jacrev(f)(X), np.diag(3 * np.cos(X)))


def test_pytrees_and_none():
    @ga.custom_vjp
    def f(p, n):
        return {"s": p["a"] * p["b"][0], "n": n}

    f.defvjp(
        lambda p, n: (f(p, n), p),
        lambda p, ct: ({"a": ct["s"] * 5, "b": None}, None),
    )
    g = ga.grad(lambda p: f(p, 3)["s"])({"a": 2.0, "b": [3.0, 4.0]})
    close(g["a"], 5.0)
    close(g["b"][0], 0.0)
    close(g["b"][1], 0.0)


def test_nondiff_argnums():
    apply = ga.custom_vjp(lambda f, x: f(x), nondiff_argnums=(0,))
    apply.defvjp(lambda f, x: (f(x), x), lambda f, r, ct: (2 * ct * f(r),))
    close(ga.grad(apply, 1)(gnp.sin, 2.0), 2 * np.sin(2.0))
    power = ga.custom_jvp(lambda x, n: x**n, nondiff_argnames=("n",))
    power.defjvp(lambda n, p, t: (p[0] ** n, n * t[0]))
    close(ga.grad(power)(2.0, n=5), 5.0)
    close(ga.grad(power, 1)(2.0, 5.0), 0.0)
    with pytest.raises(ga.errors.UnexpectedTracerError, match="nondiff_argnums"):
        late = ga.custom_vjp(lambda n, x: x * n, nondiff_argnums=(0,))
        late.defvjp(lambda n, x: (x * n, x), lambda n, r, ct: (ct,))
        ga.jit(lambda n: late(n, 1.0))(2.0)


def test_symbolic_zeros():
    seen = []
    f = ga.custom_jvp(lambda x, y: x * y)

    def rule(primals, tangents):
        seen.append(type(tangents[1]))
        return primals[0] * primals[1], tangents[0] * primals[1]

    f.defjvp(rule, symbolic_zeros=True)
    close(ga.grad(f)(3.0, 4.0), 4.0)
    g = ga.custom_vjp(lambda x, y: (x * y, x))

    def fwd(x, y):
        seen.append(tuple(ga.tree.map(lambda p: p.perturbed, (x, y))))  # each is one leaf
        return (x.value * y.value, x.value), y.value

    def bwd(y, cts):
        seen.append(type(cts[1]))
        return cts[0] * y, None

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    close(ga.grad(lambda x, y: g(x, y)[0])(3.0, 4.0), 4.0)
    assert seen == [cd.SymbolicZero, (True, False), cd.SymbolicZero]


def test_closures():
    # A mapped value that the function closes over is one along the same axis, not a second one.
    def f(w, x):
        inner = ga.custom_jvp(lambda x: x * w)
        inner.defjvp(lambda p, t: (p[0] * w, t[0] * w * 10))
        return inner(x)

    close(ga.vmap(f)(X, X), X * X)
    close(ga.vmap(f, in_axes=(0, None))(X, 2.0), X * 2)
    close(ga.vmap(ga.grad(f, 1))(X, X), 10 * X)
    close(ga.jit(ga.vmap(f))(X, X), X * X)
    close(ga.jit(lambda w: ga.grad(f, 1)(w, 1.0))(2.0), 20.0)


def test_closed_over_derivative_is_refused():
    def f(w, x):
        inner = ga.custom_jvp(lambda x: x * w)
        inner.defjvp(lambda p, t: (p[0] * w, t[0] * w))
        return inner(x)

    with pytest.raises(ga.errors.UnexpectedTracerError, match="closed-over"):
        ga.grad(f, (0, 1))(2.0, 3.0)


def test_custom_gradient():
    f = ga.custom_gradient(lambda x, y: (x * y, lambda ct: (5 * ct * y, ct * x)))
    close(ga.grad(f, (0, 1))(3.0, 4.0), [20.0, 3.0])
    close(ga.jit(ga.vmap(ga.grad(f)))(X, X), 5 * X)
    one = ga.custom_gradient(lambda x: (x**2, lambda ct: 7 * ct * x))
    close(ga.grad(one)(3.0), 21.0)
    close(ga.grad(ga.grad(one))(3.0), 7.0)


def test_closure_convert():
    def g(w, n):
        h, values = ga.closure_convert(lambda x: x * w + n, 1.0)
        assert len(values) == 1
        return h(2.0, *values)

    close(ga.grad(g)(3.0, 1), 2.0)
    h, values = ga.closure_convert(lambda x: {"a": x}, gnp.ones(2))
    assert values == []
    with pytest.raises(TypeError, match="Pytree structure"):
        h([1.0])


def test_linear_call():
    def f(r, x):
        return cd.linear_call(lambda r, x: x / r, lambda r, ct: 10 * ct / r, r, x)

    close(f(2.0, 3.0), 1.5)
    close(ga.jit(ga.grad(f, 1))(2.0, 3.0), 5.0)
    close(ga.vmap(ga.grad(f, 1), in_axes=(0, None))(X, 3.0), 10 / X)
    close(ga.grad(lambda x: ga.vmap(f, in_axes=(0, None))(X, x).sum())(3.0), (10 / X).sum())


def test_control_flow_inside_and_outside():
    def body(x):
        return ga.lax.fori_loop(0, 3, lambda i, c: scaled(c, 1.0), x)

    x = 0.3
    expected = 1.0
    for _ in range(3):
        expected *= 10 * np.cos(x)
        x = np.sin(x)
    close(ga.grad(body)(0.3), expected)
    close(ga.jit(ga.grad(body))(0.3), expected)
    pull = lambda x: ga.lax.fori_loop(0, 3, lambda i, c: pulled(c, 1.0), x)
    close(ga.jit(ga.grad(pull))(0.3), expected)


def test_printing():
    text = str(ga.make_jaxpr(scaled)(1.0, 2.0))
    assert text == (
        "{ lambda ; a:f32[] b:f32[]. let\n"
        "    c:f32[] = custom_jvp_call[\n"
        "      name=scaled\n"
        "      call_jaxpr={ lambda ; d:f32[] e:f32[]. let\n"
        "          f:f32[] = sin d\n"
        "          g:f32[] = mul f e\n"
        "        in (g,) }\n"
        "      jvp=scaled_jvp\n"
        "      symbolic_zeros=False\n"
        "    ] a b\n"
        "  in (c,) }"
    )
    text = str(ga.make_jaxpr(pulled)(1.0, 2.0))
    assert "custom_vjp_call[\n      name=pulled\n      bwd=<lambda>\n      call_jaxpr=" in text
    assert "      fwd=<lambda>\n      symbolic_zeros=False\n" in text


def test_calls_are_written_out_and_fuse():
    f = ga.jit(lambda x: scaled(x * 2, x) + 1)
    close(f(X), np.sin(X * 2) * X + 1)
    assert len(ga.explain(f)(gnp.ones(1000)).kernels) == 1


def jvp_rule(rule, fun=lambda x: x * 1.0):
    f = ga.custom_jvp(fun)
    f.defjvp(rule)
    return lambda: ga.jvp(f, (1.0,), (1.0,))


def vjp_rule(fwd, bwd):
    f = ga.custom_vjp(lambda x, y: x * y)
    f.defvjp(fwd, bwd)
    return lambda: ga.grad(f)(1.0, 2.0)


def fine(x, y):
    return x * y, None


@pytest.mark.parametrize(
    "call, kind, phrase",
    [
        (lambda: ga.custom_jvp(lambda x: x)(1.0), AttributeError, "No JVP defined for custom_jvp"),
        (lambda: ga.custom_vjp(lambda x: x)(1.0), AttributeError, "No VJP defined for custom_vjp"),
        (jvp_rule(lambda p, t: p[0]), TypeError, "must produce a pair"),
        (jvp_rule(lambda p, t: (p[0], (t[0],))), TypeError, "equal container"),
        (jvp_rule(lambda p, t: (p[0], gnp.ones(3))), TypeError, "corresponding shapes and dtypes"),
        (jvp_rule(lambda p, t: (p[0], np.float16(1))), TypeError, r"but got float16\[\]"),
        (vjp_rule(lambda x, y: x * y, lambda r, c: (c, c)), TypeError, "fwd rule .* a pair"),
        (vjp_rule(fine, lambda r, c: c), TypeError, "same container"),
        (vjp_rule(fine, lambda r, c: (c,)), TypeError, "same container"),
        (vjp_rule(fine, lambda r, c: (gnp.ones(3), c)), ValueError, "shapes do not match"),
        (lambda: scaled(1.0), TypeError, "could not be resolved"),
        (lambda: scaled("a", 1.0), TypeError, "not a valid"),
        (lambda: ga.custom_jvp(3), TypeError, "Expected a callable"),
    ],
)
def test_errors(call, kind, phrase):
    with pytest.raises(kind, match=phrase):
        call()


def test_keyword_arguments():
    close(scaled(y=2.0, x=0.5), np.sin(0.5) * 2)
    close(ga.grad(lambda x: scaled(y=2.0, x=x))(0.5), 20 * np.cos(0.5))


@pytest.mark.parametrize(
    "f, at, slopes",
    [
        (ga.nn.relu, [-1, 0, 1], [0, 0, 1]),
        (ga.nn.relu6, [-1, 0, 3, 6, 7], [0, 0, 1, 0, 0]),
        (ga.nn.hard_sigmoid, [-3, 0, 3], [0, 1 / 6, 0]),
        (ga.nn.softplus, [-200, 0, 200], [0, 0.5, 1]),
        (ga.nn.log_sigmoid, [-200, 0, 200], [1, 0.5, 0]),
        (lambda x: gnp.logaddexp(x, -np.inf), [0.0, 3.0], [1, 1]),
        (lambda x: gnp.logaddexp2(x, 0.0), [0.0, 200.0], [0.5, 1]),
        (gnp.i0, [0.0, 1.0, -1.0], [0, 0.5651591, -0.5651591]),
    ],
)
def test_slopes_of_the_library_at_its_corners(f, at, slopes):
    at = np.asarray(at, np.float32)
    close([ga.grad(f)(x) for x in at], slopes)
    close(ga.jit(ga.vmap(ga.grad(f)))(at), slopes)


def test_softmax_with_its_own_rule():
    x = np.array([[0.5, -1.0, 2.0], [0.0, 0.0, 1.0]], np.float32)
    mask = np.array([[True, False, True], [True, True, True]])
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)

    def loss(x, where):
        return gnp.sum(ga.nn.softmax(x, where=where) * weights)

    for where in (None, mask):
        plain = ga.grad(loss)(x, where)
        with ga.softmax_custom_jvp(True):
            close(ga.grad(loss)(x, where), plain)
            close(ga.jit(ga.grad(loss))(x, where), plain)
            assert "custom_jvp_call" in str(ga.make_jaxpr(lambda x: ga.nn.softmax(x))(x))


# ---- calls by position, and what a rule's result must be ----


@pytest.mark.parametrize("made", [ga.custom_jvp, ga.custom_vjp])
def test_arguments_by_name(made):
    f = made(partial(lambda x, y, factor: x * y * factor, factor=3.0))
    if made is ga.custom_jvp:
        f.defjvp(lambda p, t: (f(*p), 5.0 * t[0]))
    else:
        f.defvjp(lambda x, y: (f(x, y), None), lambda _, g: (5.0 * g, g))
    assert ga.grad(f)(1.0, 2.0) == 5.0 and f(1.0, 2.0) == 6.0
    g = made(lambda x, *, z=1.0: x * z)
    if made is ga.custom_jvp:
        g.defjvp(lambda p, t: (p[0], t[0]))
    else:
        g.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    assert g(2.0) == 2.0
    with pytest.raises(TypeError, match="(?s)could not be resolved to positions: z"):
        g(2.0, z=3.0)
    with pytest.raises(TypeError, match="(?s)The input arguments to the .*missing a required arg"):
        g()


@pytest.mark.parametrize(
    ("result", "phrase"),
    [
        (lambda x: (x, x), r"container/pytree structure:\n    \(float32\[\], float32\[\]\)"),
        (lambda x: gnp.zeros(3) + x, r"shapes/dtypes of:\n    float32\[3\]"),
        (lambda x: x.astype("float16"), r"shapes/dtypes of:\n    float16\[\]"),
    ],
)
def test_a_rule_returns_what_the_function_does(result, phrase):
    loop = lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
    f = ga.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (result(x), None), lambda _, g: (g,))
    with pytest.raises(TypeError, match=f"fwd rule output's first element had {phrase}"):
        ga.grad(loop(f))(np.float32(1.0))
    g = ga.custom_jvp(lambda x: x)
    g.defjvp(lambda p, t: (result(*p), result(*t)))
    with pytest.raises(TypeError, match=f"JVP rule output's first element had {phrase}"):
        ga.jvp(loop(g), (np.float32(1.0),), (np.float32(1.0),))


@pytest.mark.parametrize("made", [ga.custom_jvp, ga.custom_vjp])
@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["staged", "jit"])
def test_sums_over_a_mapped_axis_are_the_same_for_all(made, wrap):
    total = made(lambda x: lax.psum(x, "n"))
    if made is ga.custom_jvp:
        total.defjvp(lambda p, t: (lax.psum(p[0], "n"), 3.0 * lax.psum(t[0], "n")))
    else:
        total.defvjp(lambda x: (lax.psum(x, "n"), None), lambda _, g: (3.0 * lax.psum(g, "n"),))

    def staged(x):  # the call is in a Graph when it is mapped
        graph = ga.make_jaxpr(total, axis_env=[("n", 4)])(x)
        return ga.core.eval_jaxpr(graph.jaxpr, graph.consts, x)[0]

    f = staged if wrap is not ga.jit else ga.jit(total)
    over = lambda x: ga.vmap(lambda _, x: f(x), (0, None), None, axis_name="n")(gnp.arange(4.0), x)
    assert float(over(2.0)) == 8.0
    assert float(ga.grad(over)(2.0)) == 12.0
    # A mapped argument: one result for each.
    each = ga.vmap(f, axis_name="n")(gnp.arange(4.0))
    assert each.tolist() == [6.0] * 4 and each.shape == (4,)


# ---- results that nobody reads ----


def _two_by_jvp():
    @ga.custom_jvp
    def f(x, y):
        return gnp.sin(x), x + gnp.cos(y)

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), (2 * gnp.cos(x) * dx, 1.5 * dx - 0.5 * gnp.sin(y) * dy)

    return f


def _two_by_vjp():
    @ga.custom_vjp
    def f(x, y):
        return gnp.sin(x), x + gnp.cos(y)

    def bwd(kept, cts):
        (cos_x, sin_y), (a, b) = kept, cts
        return 2 * cos_x * a + 1.5 * b, -0.5 * sin_y * b

    f.defvjp(lambda x, y: (f(x, y), (gnp.cos(x), gnp.sin(y))), bwd)
    return f


@pytest.mark.parametrize("make", [_two_by_jvp, _two_by_vjp])
@pytest.mark.parametrize("number, absent", [(0, "cos"), (1, "sin")])
def test_unread_results_are_not_computed_and_rules_stay(make, number, absent):
    graph = ga.make_jaxpr(make())(0.1, -1.3).jaxpr
    short, _ = dce_jaxpr(graph, [i == number for i in range(2)])
    (call,) = short.eqns
    inside = [eqn.primitive.name for eqn in call.params["call_jaxpr"].eqns]
    assert absent not in inside and len(call.outvars) == 1
    f = lambda x, y: ga.core.eval_jaxpr(short, [], x, y)[0]
    x, y = 0.1, -1.3
    slopes = [(2 * np.cos(x), 0.0), (1.5, -0.5 * np.sin(y))][number]
    np.testing.assert_allclose(ga.grad(f, (0, 1))(x, y), slopes, rtol=1e-6)
    np.testing.assert_allclose(ga.jit(ga.grad(f, (0, 1)))(x, y), slopes, rtol=1e-6)
    xs, ys = gnp.full(3, x), gnp.full(3, y)
    mapped = ga.vmap(ga.grad(f, (0, 1)))(xs, ys)
    np.testing.assert_allclose(mapped, np.repeat(slopes, 3).reshape(2, 3), rtol=1e-6)
    total = ga.grad(lambda x, y: ga.vmap(f)(x, y).sum(), (0, 1))(xs, ys)
    np.testing.assert_allclose(total, np.repeat(slopes, 3).reshape(2, 3), rtol=1e-6)


def test_rules_that_return_other_shapes_are_named():
    f = ga.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (gnp.zeros((3,)), tangents[0]))
    step = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
    words = r"and in particular with leaves of the same shape/dtype\), but instead the JVP rule"
    with pytest.raises(TypeError, match=words):
        ga.jvp(step, (1.0,), (1.0,))
    g = ga.custom_vjp(lambda x, y, z: (x, y, z))
    fwd = lambda x, y, z: (g(x.value, y.value, z.value), None)
    g.defvjp(fwd, lambda _, cts: (cts[1], cts[0], cts[2]), symbolic_zeros=True)
    with pytest.raises(ValueError, match="a symbolic zero of type .* just returning a None here"):
        ga.grad(lambda x, y, z: g(x, y, z)[2].sum(), 2)(gnp.ones(1), gnp.ones(2), gnp.ones(3))


def test_missing_arguments_of_custom_vmap():
    f = ga.custom_batching.custom_vmap(lambda x, y: gnp.sin(x) * y)
    f.def_vmap(lambda axis_size, in_batched, xs, ys: (gnp.sin(xs) * ys, True))
    with pytest.raises(TypeError, match="custom_vmap-decorated function(.|\n)*missing .*'y'"):
        f(0.5)


@pytest.mark.parametrize("inside", [lambda f: f, ga.jit, ga.vmap], ids=["plain", "jit", "vmap"])
def test_a_forward_rule_is_left_out_where_its_residuals_are_computed_again(inside):
    # The function and the result of its rule differ, which shows which of them ran.
    def value(optimize, around):
        f = ga.custom_vjp(gnp.tan)
        f.defvjp(
            lambda x: (gnp.sin(x), x), lambda x, ct: (gnp.cos(x) * ct,), optimize_remat=optimize
        )
        return ga.value_and_grad(lambda x: around(inside(f))(x).sum() * 2)(gnp.array([3.0]))

    same = lambda f: f
    loop = lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
    for optimize, around, expected in [
        (True, ga.checkpoint, np.tan),
        (True, lambda f: ga.checkpoint(loop(f)), np.tan),
        (True, lambda f: loop(ga.checkpoint(f)), np.tan),
        (False, ga.checkpoint, np.sin),
        (True, same, np.sin),
    ]:
        found, slope = value(optimize, around)
        np.testing.assert_allclose(found, 2 * expected(3.0), rtol=1e-5)
        np.testing.assert_allclose(slope, [2 * np.cos(3.0)], rtol=1e-5)


@pytest.mark.parametrize(
    "staged", [lambda f: f, ga.jit, ga.checkpoint], ids=["plain", "jit", "remat"]
)
@pytest.mark.parametrize("axes", [1, 2])
def test_a_rule_sees_the_whole_cotangent_of_what_is_not_mapped(staged, axes):
    # A rule that clips is not linear: of the sum of the cotangents, not of each.
    clip = ga.custom_vjp(lambda x: x * 1.0)
    clip.defvjp(lambda x: (clip(x), None), lambda _, ct: (gnp.clip(ct, -1.0, 1.0),))
    f = staged(clip)
    weights = gnp.array([3.0, -2.5])
    inner = lambda x: ga.vmap(lambda w: f(x) * w)(weights).sum()
    outer = lambda x: ga.vmap(lambda _: inner(x))(gnp.zeros(3)).sum()
    total = {1: inner, 2: outer}[axes]
    assert float(ga.grad(total)(2.0)) == min(0.5 * 3 ** (axes - 1), 1.0)
    # What is mapped has a cotangent for each element, and so has what the function closes over.
    each = ga.grad(lambda x: ga.vmap(lambda w: f(x * w))(weights).sum())(2.0)
    assert float(each) == 0.5
    closed = ga.grad(lambda x: ga.vmap(lambda w: _clipped_times(w)(x))(weights).sum())(2.0)
    assert float(closed) == 2.0


def _clipped_times(w):
    f = ga.custom_vjp(lambda x: x * w)
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (gnp.clip(ct * 9, -1.0, 1.0),))
    return f
