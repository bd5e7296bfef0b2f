"""Derivatives up to the third where a formula divides by zero or changes its branch.

In: functions that are smooth at a point where their text is not. Out: derivatives, beside
differences of the derivative before them, taken on both sides of the point; and those of float32
beside those of float64.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.scipy import special, stats
from gpuarray.scipy.spatial.transform import Rotation

#: Functions, and points where they are smooth.
SMOOTH = {
    "log_ndtr": (special.log_ndtr, (0.0, -1.0)),
    "norm.logcdf": (stats.norm.logcdf, (0.0,)),
    "norm.logsf": (stats.norm.logsf, (0.0,)),
    "numpy.i0": (gnp.i0, (0.0, 1.0, -1.0)),
    "i0": (special.i0, (0.0,)),
    "i1": (special.i1, (0.0, 1.0, -1.0)),
    "sine integral": (lambda x: special.sici(x)[0], (0.0, 0.5, -0.5)),
    "spence": (special.spence, (1.0, 1.3, 0.7)),
    "sinc": (gnp.sinc, (0.0, 1.0)),
    "dawsn": (special.dawsn, (0.0,)),
    "erfcx": (special.erfcx, (0.0,)),
    "ndtri": (special.ndtri, (0.5,)),
    "erfinv": (special.erfinv, (0.0,)),
    "fresnel": (lambda x: special.fresnel(x)[0], (0.0, 1.0)),
    "bessel_jn": (lambda x: special.bessel_jn(x, v=2)[2], (1.0,)),
    "hyp1f1": (lambda x: special.hyp1f1(1.0, 2.0, x), (0.0,)),
    "hyp2f1": (lambda x: special.hyp2f1(1.0, 1.5, 2.0, x), (0.0,)),
    "digamma": (special.digamma, (1.0, 2.0, -0.5)),
    "gammaln": (special.gammaln, (1.0, 2.0, -0.5)),
    "expit": (special.expit, (0.0,)),
    "log_sigmoid": (nn.log_sigmoid, (0.0,)),
    "softplus": (nn.softplus, (0.0,)),
    "logaddexp": (lambda x: gnp.logaddexp(x, 0.0), (0.0,)),
    "logaddexp2": (lambda x: gnp.logaddexp2(x, 1.0), (1.0,)),
    "gelu": (lambda x: nn.gelu(x, approximate=False), (0.0,)),
    "silu": (nn.silu, (0.0,)),
    "mish": (nn.mish, (0.0,)),
    "squareplus": (nn.squareplus, (0.0,)),
    "cube": (lambda x: x**3, (0.0,)),
    "product": (lambda x: gnp.prod(gnp.stack([x, x, x + 1])), (0.0,)),
    "cumulative product": (lambda x: gnp.cumprod(gnp.stack([x, x, x]))[2], (0.0,)),
    "xlog1py": (lambda x: special.xlog1py(x, x), (0.0,)),
    "tanh": (lax.tanh, (0.0,)),
    "expm1": (lax.expm1, (0.0,)),
    "logistic": (stats.logistic.logpdf, (0.0,)),
    "complex modulus": (lambda x: gnp.abs(x + 1j), (0.0,)),
}
#: Sixth-order differences, and how far apart their points are.
WEIGHTS, STEP = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60, 0.004


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_the_slopes_beside_a_point(name):
    f, points = SMOOTH[name]
    at = np.asarray(points)[:, None]
    with ga.enable_x64(True):
        for order in (1, 2, 3):
            before, f = f, ga.grad(f)
            beside = at + STEP * np.arange(-3, 4)
            values = np.asarray(ga.jit(ga.vmap(ga.vmap(before)))(gnp.asarray(beside)))
            slopes = values @ WEIGHTS / STEP
            found = np.asarray(ga.jit(ga.vmap(f))(gnp.asarray(at[:, 0])))
            np.testing.assert_allclose(found, slopes, 1e-6, 1e-7, err_msg=f"order {order}")


@pytest.mark.parametrize("name", ["i0", "i1", "sine integral", "spence", "log_ndtr", "sinc"])
def test_third_derivatives_in_float32_keep_their_digits(name):
    f, points = SMOOTH[name]
    third = ga.vmap(ga.grad(ga.grad(ga.grad(f))))
    beside = points[0] + np.array([-0.3, -1e-2, -1e-3, 0, 1e-4, 1e-2, 0.2])
    beside = beside.astype("float32")
    found = np.asarray(third(gnp.asarray(beside)))
    with ga.enable_x64(True):
        exact = np.asarray(third(gnp.asarray(beside.astype("float64"))))
    np.testing.assert_allclose(found, exact, 2e-3, 2e-4)


#: Functions of two numbers, and points where a rule compares them, or one of them with a number.
TOGETHER = {
    "hypot": (gnp.hypot, [(2.0, 2.0), (2.0, -2.0), (3.0, 0.0)]),
    "boxcox": (special.boxcox, [(2.0, 0.0), (2.0, 1.0)]),
    "boxcox1p": (special.boxcox1p, [(1.0, 0.0), (1.0, 1.0)]),
    "betaln": (special.betaln, [(2.0, 2.0), (20.0, 20.0)]),
    "logaddexp": (gnp.logaddexp, [(1.0, 1.0)]),
    "logaddexp2": (gnp.logaddexp2, [(1.0, 1.0)]),
    "arctan2": (gnp.arctan2, [(1.0, 1.0), (0.0, 1.0)]),
    "kl_div": (special.kl_div, [(2.0, 2.0)]),
    "xlogy": (special.xlogy, [(1.0, 1.0), (0.0, 2.0)]),
    "power": (gnp.power, [(2.0, 0.0), (2.0, 1.0), (1.0, 2.0)]),
    "t.logpdf": (stats.t.logpdf, [(0.0, 1.0)]),
    "vonmises.logpdf": (stats.vonmises.logpdf, [(0.0, 1.0)]),
    "truncnorm.logpdf": (lambda a, b: stats.truncnorm.logpdf(0.5, a, b), [(0.0, 2.0)]),
    "truncnorm.logcdf": (lambda x, b: stats.truncnorm.logcdf(x, -3.0, b), [(0.0, 2.0)]),
    "truncnorm.logsf": (lambda x, a: stats.truncnorm.logsf(x, a, 2.0), [(1.0, 0.0)]),
    "truncnorm in a tail": (lambda a, b: stats.truncnorm.logpdf(-19.5, a, b), [(-20.0, -19.0)]),
    "truncnorm near an end": (lambda x, b: stats.truncnorm.logcdf(x, -20.0, b), [(-9.0, 20.0)]),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_mixed_derivatives_are_the_slopes_beside_a_point(name):
    f, points = TOGETHER[name]
    first = lambda v: f(v[0], v[1])
    with ga.enable_x64(True):
        for before in (first, ga.grad(first), ga.hessian(first)):
            beside = np.asarray(points)[:, None, None] + (
                STEP * np.arange(-3, 4)[:, None, None] * np.eye(2)
            ).reshape(7, 2, 2)
            at = np.asarray(points)
            found = np.asarray(ga.jit(ga.vmap(ga.jacfwd(before)))(gnp.asarray(at)))
            values = np.asarray(ga.jit(ga.vmap(ga.vmap(ga.vmap(before))))(gnp.asarray(beside)))
            slopes = np.moveaxis(np.einsum("pk...,k->p...", values, WEIGHTS) / STEP, 1, -1)
            scale = np.abs(slopes).max()
            np.testing.assert_allclose(found, slopes, 1e-6, 1e-6 * max(1, scale))


ROTATIONS = {
    "matrix": lambda v: Rotation.from_rotvec(v).as_matrix(),
    "quaternion": lambda v: Rotation.from_rotvec(v).as_quat(),
    "there and back": lambda v: (
        Rotation.from_rotvec(v) * Rotation.from_euler("x", v[0])
    ).as_rotvec(),
    "parameters": lambda v: Rotation.from_rotvec(v).as_mrp(),
}


@pytest.mark.parametrize("name", ROTATIONS)
@pytest.mark.parametrize("size", [0.0, 1e-4, 0.5, 2.0])
def test_derivatives_of_small_rotations(name, size):
    """At no rotation at all, and on both sides of where a series takes over."""
    f, at = ROTATIONS[name], np.array([0.6, 0.0, -0.8]) * size
    along = np.array([0.5, 1.0, 0.25])

    def on_the_line(s):
        return f(at + s * along)

    with ga.enable_x64(True):
        before = on_the_line
        for _ in range(3):
            found = ga.jacfwd(before)(0.0)
            values = np.stack([before(STEP * k) for k in range(-3, 4)])
            slope = np.einsum("k...,k->...", values, WEIGHTS) / STEP
            np.testing.assert_allclose(found, slope, 1e-6, 1e-6)
            before = ga.jacfwd(before)


@pytest.mark.parametrize("name", ["gamma", "chi2", "beta", "truncnorm", "pareto", "expon"])
@pytest.mark.parametrize("what", ["cdf", "sf"])
def test_probabilities_beyond_the_support_have_no_slope(name, what):
    parameters = {
        "gamma": (0.5,),
        "chi2": (1.0,),
        "beta": (0.5, 0.5),
        "expon": (),
        "pareto": (2.0,),
    }
    given = parameters.get(name, (-1.0, 2.0))
    x = gnp.asarray([-2.0, -1.5] + ([1.5, 3.0] if name == "beta" else []))
    slope = ga.grad(lambda x: getattr(getattr(stats, name), what)(x, *given))
    assert (ga.vmap(slope)(x) == 0).all()
