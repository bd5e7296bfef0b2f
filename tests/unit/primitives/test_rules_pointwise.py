"""Derivatives of pointwise operations where formulas are not enough: ties, edges, powers of 0.

The values are those of mathematics where it has one, and a choice that is kept where it has none.
What holds everywhere is in tests/generic/test_transforms.py.
"""

import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.primitive import registry
from tests.generic import test_transforms as laws
from tests.generic import test_vmap

INF, NAN = math.inf, math.nan

#: function, where, its derivative there
POINTS = [
    (lax.abs, [-2.0, 0.0, 3.0], [-1, 1, 1]),
    (lax.sign, [-2.0, 0.0, 3.0], [0, 0, 0]),
    (lax.floor, [0.5, 1.0], [0, 0]),
    (lax.sqrt, [0.0, 4.0], [INF, 0.25]),
    (lax.rsqrt, [4.0], [-1 / 16]),
    (lax.cbrt, [0.0, 8.0], [INF, 1 / 12]),
    (lax.log, [0.0, 2.0], [INF, 0.5]),
    (lax.square, [-3.0, 0.0], [-6, 0]),
    (lax.tanh, [0.0, INF, -INF], [1, 0, 0]),
    (lax.logistic, [0.0, INF, -INF], [0.25, 0, 0]),
    (lax.asin, [0.0, 1.0, -1.0], [1, INF, INF]),
    (lax.acosh, [1.0], [INF]),
    (lax.erf_inv, [0.0, 1.0], [math.sqrt(math.pi) / 2, INF]),
    (lax.bessel_i1e, [0.0], [0.5]),
    (lax.stop_gradient, [2.0], [0]),
    (lambda x: lax.integer_pow(x, 0), [0.0, 2.0], [0, 0]),
    (lambda x: lax.integer_pow(x, 1), [0.0, 2.0], [1, 1]),
    (lambda x: lax.integer_pow(x, 2), [0.0, 3.0], [0, 6]),
    (lambda x: lax.integer_pow(x, -1), [2.0], [-0.25]),
    (lambda x: lax.pow(x, 0), [0.0, 2.0], [0, 0]),
    (lambda x: lax.pow(x, 2), [0.0, 3.0], [0, 6]),
    (lambda x: lax.pow(x, 0.5), [0.0], [INF]),
    (lambda x: lax.pow(0.0, x), [2.0], [0]),
    (lambda x: lax.max(x, 1.0), [0.0, 1.0, 2.0], [0, 0.5, 1]),
    (lambda x: lax.min(x, 1.0), [0.0, 1.0, 2.0], [1, 0.5, 0]),
    (lambda x: lax.clamp(0.0, x, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0], [0, 0, 1, 0, 0]),
    (lambda x: lax.clamp(x, 0.5, 1.0), [0.0, 0.7], [0, 1]),
    (lambda x: lax.clamp(0.0, 0.5, x), [0.2, 0.7], [1, 0]),
    (lambda x: lax.rem(x, 3.0), [5.0, -5.0], [1, 1]),
    (lambda x: lax.rem(5.0, x), [3.0, -3.0], [-1, 1]),
    (lambda x: lax.atan2(x, 1.0), [0.0], [1]),
    (lambda x: gnp.where(x > 0, x, 0.0), [-1.0, 2.0], [0, 1]),
    (lambda x: lax.convert_element_type(x, np.int32) * 1.0, [2.5], [0]),
    (lambda x: lax.reduce_precision(x, 5, 3), [1.5], [1]),
]


@pytest.mark.parametrize(("f", "xs", "slopes"), POINTS)
def test_derivatives_at_special_points(f, xs, slopes):
    for x, slope in zip(xs, slopes, strict=True):
        x = np.float32(x)
        np.testing.assert_allclose(np.asarray(ga.grad(f)(x)), slope, 1e-6, err_msg=f"at {x}")
        forward = ga.jvp(f, (x,), (np.float32(1),))[1]
        np.testing.assert_allclose(np.asarray(forward), slope, 1e-6, err_msg=f"at {x}, forward")


def test_what_is_not_chosen_does_not_matter():
    """A nan in the branch that `where` does not take is multiplied by no cotangent."""

    def f(x):
        return gnp.where(x > 0, lax.log(gnp.where(x > 0, x, 1.0)), 0.0)

    assert float(ga.grad(f)(-1.0)) == 0.0
    assert float(ga.grad(f)(2.0)) == 0.5


def test_both_share_a_tie():
    assert [float(t) for t in ga.grad(lax.max, (0, 1))(1.0, 1.0)] == [0.5, 0.5]
    assert [float(t) for t in ga.grad(lax.max, (0, 1))(2.0, 1.0)] == [1.0, 0.0]


def test_stretched_operands_get_sums():
    x, y = np.full((2, 1), 2, np.float32), np.full((1, 3), 5, np.float32)
    cases = {
        lax.add: ([[3], [3]], [[2, 2, 2]]),
        lax.sub: ([[3], [3]], [[-2, -2, -2]]),
        lax.mul: ([[15], [15]], [[4, 4, 4]]),
        lax.div: ([[0.6], [0.6]], [[-0.16, -0.16, -0.16]]),
        lax.max: ([[0], [0]], [[2, 2, 2]]),
    }
    for f, expected in cases.items():
        found = ga.grad(lambda a, b, f=f: f(a, b).sum(), (0, 1))(x, y)
        for ct, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(ct), want, 1e-6)
    # One operand alone takes the same way back, and a scalar sums over everything.
    np.testing.assert_array_equal(np.asarray(ga.grad(lambda a: (a + y).sum())(x)), [[3], [3]])
    assert float(ga.grad(lambda s: (x * y * s).sum())(2.0)) == 60


COMPLEX = [
    # Cotangents are not conjugated: grad is the derivative by Re z minus i times that by Im z.
    (lambda z: lax.real(z), 1),
    (lambda z: lax.imag(z), -1j),
    (lambda z: lax.abs(z), (3 - 4j) / 5),
    (lambda z: lax.real(lax.conj(z)), 1),
    (lambda z: lax.imag(lax.conj(z)), 1j),
    (lambda z: lax.real(lax.square(z)), 2 * (3 + 4j)),
    (lambda z: lax.real(lax.exp(z)), np.exp(3 + 4j)),
    (lambda z: lax.real(lax.complex(lax.real(z), lax.real(z))), 1),
]


@pytest.mark.parametrize(("f", "expected"), COMPLEX)
def test_complex_convention(f, expected):
    found = np.asarray(ga.grad(f)(np.complex64(3 + 4j)))
    np.testing.assert_allclose(found, expected, 1e-5)


def test_absolute_value_at_complex_zero():
    assert complex(ga.grad(lax.abs)(np.complex64(0))) == 0


@pytest.mark.parametrize("z", [-1 + 0.5j, 0.3 - 0.8j, -0.2 - 0.3j])
@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh", "rsqrt"])
def test_holomorphic_derivatives_have_the_right_branch(name, z):
    f = getattr(lax, name)
    with ga.enable_x64(True):
        found = complex(ga.grad(f, holomorphic=True)(np.complex128(z)))
        h = 1e-6
        assert abs(found - (complex(f(z + h)) - complex(f(z - h))) / (2 * h)) < 1e-6


PRINTED = [
    (lax.sin, "c:f32[3] = cos a", "e:f32[3] = mul d c"),
    (lax.exp, "b:f32[3] = exp a", "d:f32[3] = mul c b"),
    (lax.neg, "b:f32[3] = neg a", "d:f32[3] = neg c"),
    (lax.square, "c:f32[3] = mul 2.0:f32[] a", "e:f32[3] = mul d c"),
]


@pytest.mark.parametrize(("f", "known", "linear"), PRINTED)
def test_printed_gradients(f, known, linear):
    text = str(ga.make_jaxpr(ga.grad(lambda x: f(x).sum()))(gnp.ones(3)))
    assert known in text
    assert linear in text


def test_conversions_take_cotangents_back():
    half = ga.grad(lambda x: lax.convert_element_type(x, np.float16).sum())(np.ones(3, np.float32))
    assert half.dtype == np.float32
    out = ga.grad(lambda x: lax.convert_element_type(x, np.complex64).real.sum())(
        np.ones(3, np.float32)
    )
    assert (out.dtype, out.tolist()) == (np.float32, [1, 1, 1])


def test_wide_products_of_narrow_numbers():
    mul = registry["mul"]
    x = np.full(2, 3, np.float16)

    def f(a):
        return mul.bind(a, x, out_dtype=np.dtype(np.float32)).sum()

    found = ga.grad(f)(x)
    assert (found.dtype, found.tolist()) == (np.float16, [3, 3])


def test_weak_types_survive():
    for f in (lax.square, lax.tan, lax.max, lax.bessel_i1e, lax.erf):
        args = (0.5, 0.25) if f is lax.max else (0.5,)
        assert ga.jvp(f, args, (1.0,) * len(args))[1].weak_type, f


def test_barriers_let_derivatives_through():
    def f(x):
        a, b = lax.optimization_barrier((x, x * 2))
        return a * b

    assert float(ga.grad(f)(3.0)) == 12


def test_laws_see_a_wrong_rule(monkeypatch):
    """The generic tests fail where a derivative, a transpose or a rule of batches is wrong."""
    sine = next(s for s in laws.DIFFERENTIABLE if s.primitive.name == "sin" and s.number == 3)
    monkeypatch.setattr(registry["sin"], "jvp", (lambda t, y, x, **_: registry["mul"].bind(t, y),))
    with pytest.raises(AssertionError):
        laws.test_derivative_is_what_differences_say.check(sine)
    monkeypatch.undo()
    product = next(s for s in laws.DIFFERENTIABLE if s.primitive.name == "mul" and s.number == 3)
    monkeypatch.setattr(registry["mul"], "transpose", lambda ct, x, y: (ct, ct))
    with pytest.raises(AssertionError):
        laws.test_transpose_is_the_adjoint.check(product)
    monkeypatch.undo()
    monkeypatch.setattr(registry["cos"], "jvp", (lambda t, y, x, **_: registry["mul"].bind(t, y),))
    laws.test_derivative_is_what_differences_say.check(sine)
    with pytest.raises(AssertionError):
        laws.test_hessian_is_what_differences_of_gradients_say(sine)
    monkeypatch.undo()
    running = next(s for s in laws.ROWS if str(s) == "cumsum.8-float32[3,4]")

    def forgets_its_axis(size, args, dims, **params):
        return registry["cumsum"].bind(*args, **params), dims[0]

    test_vmap.check(running, 3, [(0,)])
    monkeypatch.setattr(registry["cumsum"], "batch", forgets_its_axis)
    with pytest.raises(AssertionError):
        test_vmap.check(running, 3, [(0,)])
