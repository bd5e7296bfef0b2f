"""Taylor mode against derivatives of derivatives, and against series that are known."""

import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import jet as jets
from gpuarray.experimental.jet import jet
from gpuarray.extend.core import Primitive

ORDER = 4
FUNCTIONS = {
    "exp": gnp.exp,
    "tan": gnp.tan,
    "log": gnp.log,
    "power of itself": lambda x: x**x,
    "quotient": lambda x: gnp.sin(x) / (1 + x * x),
    "lgamma": lax.lgamma,
    "gelu": ga.nn.gelu,
    "relu": ga.nn.relu,
    "logsumexp": lambda x: ga.nn.logsumexp(gnp.stack([x, 2 * x, x * x])),
    "sort": lambda x: gnp.sort(gnp.stack([gnp.sin(x), x * x]))[0],
    "maximum": lambda x: gnp.maximum(x * x, x),
    "cumprod": lambda x: gnp.cumprod(gnp.stack([x, x * x, gnp.sin(x)]))[-1],
    "matmul": lambda x: (gnp.array([[x, 1.0], [2.0, x]]) @ gnp.array([x, x * x])).sum(),
    "inverse": lambda x: gnp.linalg.inv(gnp.array([[x, gnp.sin(x)], [1.0, 2 + x]]))[0, 0],
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * gnp.sin(c) + x, x),
    "while": lambda x: lax.while_loop(lambda c: c < 5.0, lambda c: c * x * 2, x),
    "cond": lambda x: lax.cond(x > 0, gnp.sin, gnp.cos, x),
    "scan": lambda x: lax.scan(lambda c, y: (c * y, c + x), x, gnp.arange(1.0, 4.0))[1].sum(),
    "jit": ga.jit(lambda x: gnp.sin(x) * x),
    "remat": ga.checkpoint(lambda x: gnp.sin(gnp.cos(x))),
    "norm": lambda x: gnp.linalg.norm(gnp.stack([x, x * x])),
}


def nested(f, x, order):
    """All derivatives up to an order, each of the one before."""
    found = []
    for _ in range(order):
        f = (lambda g: lambda t: ga.jvp(g, (t,), (gnp.ones_like(t),))[1])(f)
        found.append(float(f(x)))
    return found


@pytest.fixture(autouse=True)
def wide():
    with ga.enable_x64(True):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_terms_are_derivatives(name):
    f, x = FUNCTIONS[name], np.float64(0.7)
    value, terms = jet(f, (x,), ([1.0] + [0.0] * (ORDER - 1),))
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(terms, nested(f, x, ORDER), rtol=1e-8, atol=1e-9)


def test_a_path_through_a_function_of_two():
    """f(t², sin t): all terms of the path count, in each argument."""
    t = np.float64(0.3)
    f = lambda a, b: gnp.exp(a) * b / (1 + a * b)
    first = nested(lambda t: t * t, t, 4)
    second = nested(gnp.sin, t, 4)
    value, terms = jet(f, (t * t, np.sin(t)), (first, second))
    whole = lambda t: f(t * t, gnp.sin(t))
    np.testing.assert_allclose(value, whole(t))
    np.testing.assert_allclose(terms, nested(whole, t, 4), rtol=1e-9)


def test_high_orders_take_polynomial_work():
    """Derivatives of derivatives would take 2**30 steps."""
    order = 30
    _, terms = jet(lambda x: gnp.exp(gnp.sin(x)) / (1 - x), (0.0,), ([1.0] + [0.0] * 29,),
                   factorial_scaled=False)  # fmt: skip
    sine = [0 if k % 2 == 0 else (-1) ** (k // 2) / math.factorial(k) for k in range(order + 1)]
    # exp of a series, from y' = y s'.
    y = [1.0]
    for k in range(1, order + 1):
        y.append(sum((j * sine[j]) * y[k - j] for j in range(1, k + 1)) / k)
    expected = np.cumsum(y)[1:]
    np.testing.assert_allclose(terms, expected, rtol=1e-10)


def test_a_rule_for_cotangents_has_no_part_in_it():
    """The terms of x^3 behind x = 2 + t: 12 and 12."""
    cube = ga.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (cube(x), None), lambda _, ct: (0 * ct,))
    for f in (cube, ga.jit(cube)):
        out, terms = jet(f, (2.0,), ([1.0, 0.0],))
        np.testing.assert_allclose([out, *terms], [8, 12, 12], rtol=1e-6)


def test_scales_trees_and_transforms():
    x = np.linspace(0.1, 0.9, 3)
    f = lambda x: {"sin": gnp.sin(x), "one": gnp.ones(2)}
    value, terms = jet(f, (x,), ([np.ones(3), np.zeros(3)],), factorial_scaled=False)
    np.testing.assert_allclose(terms["sin"], [np.cos(x), -np.sin(x) / 2])
    np.testing.assert_allclose(terms["one"], np.zeros((2, 2)))
    second = lambda x: jet(gnp.sin, (x,), ([1.0, 0.0],))[1][1]
    np.testing.assert_allclose(ga.jit(ga.vmap(second))(x), -np.sin(x))
    np.testing.assert_allclose(ga.vmap(ga.grad(second))(x), -np.cos(x))
    inner = lambda x: jet(gnp.exp, (x,), ([1.0],))[1][0] * x
    np.testing.assert_allclose(jet(inner, (0.5,), ([1.0],))[1][0], np.exp(0.5) * 1.5)


def test_bools_have_no_terms():
    which = np.array([True, False])
    series = [which], [np.array([1.0, 2.0])], [np.array([3.0, 4.0])]
    _, (first,) = jet(gnp.where, (which, gnp.ones(2), gnp.zeros(2)), series)
    np.testing.assert_allclose(first, [1, 4])


def test_bad_arguments_say_so():
    with pytest.raises(ValueError, match="inconsistent lengths"):
        jet(gnp.add, (1.0, 2.0), ([1.0], [1.0, 0.0]))
    with pytest.raises(ValueError, match="position 0 is not an array"):
        jet(gnp.sin, ((1.0,),), ([1.0],))
    with pytest.raises(TypeError, match="got int64"):
        jet(gnp.sin, (1,), ([1],))


GIVEN = {
    "deriv": lambda p: jets.def_deriv(p, lambda x: 3 * x * x),
    "comp": lambda p: jets.def_comp(p, lambda x: x * x * x),
}


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
@pytest.mark.parametrize("give", GIVEN.values(), ids=GIVEN)
def test_rules_of_users(give):
    # (a + b t + c t^2 + d t^3)^3, by the multiplication of polynomials.
    path = [0.5, 2.0, -1.0, 3.0]
    cube = np.polynomial.polynomial.polypow(path, 3)[:4]
    prim = Primitive("cube")
    prim.def_abstract_eval(lambda x: x)
    prim.def_impl(lambda x: x**3)
    give(prim)
    f = lambda x: jet(lambda y: 2 * prim.bind(y), (x,), (path[1:],), factorial_scaled=False)
    value, terms = ga.jit(f)(path[0])
    np.testing.assert_allclose([value, *terms], 2 * cube, rtol=1e-12)


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_rules_of_several_results_and_without_slopes():
    prim = Primitive("both")
    prim.multiple_results = True
    prim.def_abstract_eval(lambda x, y: [x, y])
    prim.def_impl(lambda x, y: [x + y, x - y])
    jets.deflinear(prim)
    terms = jet(prim.bind, (1.0, 2.0), ([3.0, 1.0], [4.0, 5.0]))[1]
    np.testing.assert_allclose(terms, [[7, 6], [-1, -4]])
    jets.jet_rules[prim] = lambda xs, _: (prim.bind(*xs), [jets.zero_series, [jets.zero_term] * 2])
    assert not np.any(jet(prim.bind, (1.0, 2.0), ([3.0, 1.0], [4.0, 5.0]))[1])
