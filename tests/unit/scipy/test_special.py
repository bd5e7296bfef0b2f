"""gpuarray.scipy.special: as exact as docs/accuracy.md says, with derivatives, a kernel each."""

import math

import numpy as np
import pytest
from scipy import special as sp

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends import hostcc
from gpuarray.errors import DeviceError
from gpuarray.scipy import special
from tests.accuracy.table import ROWS, measure
from tests.support import ROOT

try:
    hostcc.compiler()
    HAS_COMPILER = True
except DeviceError:
    HAS_COMPILER = False

HERE = [row for row in ROWS if "." not in row.name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", HERE, ids=lambda row: row.name)
def test_accuracy(row, dtype):
    found = measure(row, dtype)
    limit = row.limits[dtype == "float64"]
    assert found.worst <= limit, f"{found.worst:.3g} ULP at {found.at}"


def test_the_documented_table_is_whole():
    text = (ROOT / "docs" / "accuracy.md").read_text("utf-8")
    assert [line.split(" | ")[0][2:] for line in text.splitlines()[11:]] == [r.name for r in ROWS]


# ---- one kernel, derivatives, transforms ----

#: Pointwise functions with operands at which they are smooth.
POINTWISE = {
    "erf": (0.4,), "erfc": (0.4,), "erfinv": (0.4,), "erfcx": (0.4,), "dawsn": (0.4,),
    "ndtr": (0.4,), "ndtri": (0.4,), "log_ndtr": (-2.4,), "owens_t": (0.4, 0.7),
    "expit": (0.4,), "logit": (0.4,), "entr": (0.4,), "xlogy": (0.4, 0.7), "xlog1py": (0.4, 0.7),
    "rel_entr": (0.4, 0.7), "kl_div": (0.4, 0.7), "boxcox": (0.4, 0.7), "boxcox1p": (0.4, 0.001),
    "gamma": (0.4,), "gammaln": (0.4,), "loggamma": (0.4,), "gammasgn": (0.4,),
    "digamma": (0.4,), "gammainc": (0.9, 0.7), "gammaincc": (0.9, 1.7), "betaln": (0.4, 12.0),
    "beta": (0.4, 0.7), "factorial": (2.4,), "comb": (5.4, 2.7), "poch": (0.4, 1.7),
    "zeta": (2.4, 0.7), "i0": (0.4,), "i1": (0.4,), "i0e": (0.4,), "i1e": (0.4,),
    "expi": (0.4,), "exp1": (0.4,), "spence": (0.4,), "sici": (0.4,), "fresnel": (0.4,),
    "hyp1f1": (0.4, 0.7, 1.3), "hyp2f1": (0.4, 0.7, 1.3, 0.6),
}  # fmt: skip
#: Functions whose other operands are constants.
FIXED = {
    "polygamma": (lambda x: special.polygamma(2, x), 0.4),
    "betainc": (lambda x: special.betainc(1.5, 2.5, x), 0.4),
    "expn": (lambda x: special.expn(3, x), 0.4),
    "multigammaln": (lambda x: special.multigammaln(x, 2), 2.4),
    "bessel_jn": (lambda x: special.bessel_jn(x, v=2), 0.4),
    "sph_harm_y": (
        lambda x: gnp.real(special.sph_harm_y(gnp.array([3]), gnp.array([-2]), x, 0.3, n_max=3)),
        0.4,
    ),
    "wofz": (lambda x: gnp.imag(special.wofz(x + 0.3j)), 0.4),
    "loggamma of complex numbers": (lambda x: gnp.real(special.loggamma(x - 2 + 0.3j)), 0.4),
    "softmax": (lambda x: special.softmax(gnp.stack([x, 2 * x])), 0.4),
    "log_softmax": (lambda x: special.log_softmax(gnp.stack([x, 2 * x])), 0.4),
    "logsumexp": (lambda x: special.logsumexp(gnp.stack([x, 2 * x])), 0.4),
}


#: All of them as functions of arrays, with operands.
KERNELS = {name: (getattr(special, name), xs) for name, xs in POINTWISE.items()} | {
    name: (function, (x,)) for name, (function, x) in FIXED.items()
}
#: Why some are no kernel, or more than one.
SEVERAL = {
    "bernoulli": "a table of constants",
}


def test_the_tables_name_every_function():
    public = {n for n, value in vars(special).items() if callable(value) and n[0] != "_"}
    assert {name.partition(" ")[0] for name in KERNELS} | set(SEVERAL) == public
    assert len(public) == 53


def total(function):
    """The sum of all results."""
    return lambda *xs: sum(gnp.sum(leaf) for leaf in ga.tree.leaves(function(*xs)))


def slopes(function, xs: tuple[float, ...]):
    """Derivatives by each operand, and central differences of fourth order."""
    with ga.enable_x64(True):
        points = [gnp.float64(x) for x in xs]
        found = ga.grad(total(function), tuple(range(len(xs))))(*points)
        h = 1e-3
        wanted = []
        for i in range(len(xs)):
            moved = lambda d, i=i: float(
                total(function)(*(p + d if k == i else p for k, p in enumerate(points)))
            )
            wanted.append((8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h))
    return np.array([float(f) for f in found]), np.array(wanted)


@pytest.mark.parametrize("name", POINTWISE)
def test_gradient(name):
    found, wanted = slopes(getattr(special, name), POINTWISE[name])
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", FIXED)
def test_gradient_in_one_operand(name):
    function, x = FIXED[name]
    found, wanted = slopes(function, (x,))
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "function, xs, wanted",
    [
        (special.i0, (0.0,), (0.0,)),
        (special.i1, (0.0,), (0.5,)),
        (special.entr, (0.0,), (math.inf,)),
        (special.xlogy, (0.0, 2.0), (math.log(2), 0.0)),
        (special.xlog1py, (0.0, 0.0), (0.0, 0.0)),
        (special.rel_entr, (0.0, 1.0), (0.0, 0.0)),
        (special.kl_div, (0.0, 1.0), (-1.0, 1.0)),
        (special.boxcox, (2.0, 0.0), (0.5, math.log(2) ** 2 / 2)),
        (special.boxcox1p, (2.0, 0.0), (1 / 3, math.log(3) ** 2 / 2)),
        (special.spence, (1.0,), (-1.0,)),
        (lambda x: special.sici(x)[0], (0.0,), (1.0,)),
    ],
)
def test_gradient_at_limits(function, xs, wanted):
    found = ga.grad(function, tuple(range(len(xs))))(*xs)
    np.testing.assert_allclose([float(f) for f in found], wanted, rtol=1e-6)


def grid(xs: tuple[float, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [(x * rng.uniform(0.8, 1.2, 40)).astype(np.float32) for x in xs]


@pytest.mark.parametrize("name", POINTWISE)
def test_jit_and_vmap(name):
    function, xs = getattr(special, name), grid(POINTWISE[name])
    whole = ga.tree.leaves(function(*map(gnp.asarray, xs)))
    for other in (ga.jit(function), ga.vmap(function)):
        for a, b in zip(whole, ga.tree.leaves(other(*xs)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)
    assert function(*[x[:0] for x in map(gnp.asarray, xs)]) is not None


@pytest.mark.parametrize("name", KERNELS)
def test_one_kernel(name):
    function, xs = KERNELS[name]
    explained = ga.explain(function, platform="cuda")(*grid(xs))
    assert not explained.library_calls
    assert explained.launches == (2 if name in SEVERAL else 1), explained


@pytest.mark.skipif(not HAS_COMPILER, reason="the simulator needs a C++ compiler")
@pytest.mark.parametrize("names", np.array_split(list(KERNELS), 8), ids=lambda n: n[0])
def test_kernels_give_what_numpy_gives(names):
    from gpuarray.backends import simulator
    from gpuarray.backends.numpy import program as host

    for name in names:
        function, xs = KERNELS[name][0], grid(KERNELS[name][1])
        lowered = ga.jit(function).lower(*xs)
        kernels = simulator.build(lowered.plan, [np.asarray(c) for c in lowered.plan.graph.consts])
        with simulator.order_drawn_from(1):
            found = host.local.run(kernels, *xs)
        for f, wanted in zip(found, ga.tree.leaves(function(*map(gnp.asarray, xs))), strict=True):
            np.testing.assert_allclose(f, wanted, rtol=2e-5, atol=1e-6, err_msg=name)


# ---- exact values, limits, errors ----


@pytest.mark.parametrize("dtype, rtol", [("float32", 4e-7), ("float64", 2e-15)])
def test_betaln_of_large_numbers(dtype, rtol):
    """B(1, b) is 1 / b, and B(2, b) is 1 / (b (b + 1))."""
    with ga.enable_x64(True):
        b = np.geomspace(20, 1e8, 200).astype(dtype)
        wide = b.astype(np.float64)
        one = np.asarray(special.betaln(gnp.ones_like(b), b))
        two = np.asarray(special.betaln(gnp.full_like(b, 2), b))
    np.testing.assert_allclose(one, -np.log(wide), rtol)
    np.testing.assert_allclose(two, -np.log(wide) - np.log1p(wide), rtol)


def test_bernoulli_numbers():
    found = np.asarray(special.bernoulli(30), np.float64)
    np.testing.assert_allclose(found, sp.bernoulli(30), rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match="non-negative"):
        special.bernoulli(-1)
    with pytest.raises(TypeError):
        special.bernoulli(2.0)


def test_orders_of_bessel_functions():
    z = np.array([-3.0, 0.0, 0.5, 12.0, 25.0], np.float32)
    found = special.bessel_jn(z, v=4)
    wanted = np.stack([sp.jv(k, z) for k in range(5)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert special.bessel_jn(z, v=-1).shape == (0, 5)


@pytest.mark.parametrize("n", range(5))
def test_spherical_harmonics(n):
    theta, phi = np.linspace(0.1, 3, 7), np.linspace(-3, 3, 7)
    with ga.enable_x64(True):
        for m in range(-n, n + 1):
            orders = [gnp.full(7, k) for k in (n, m)]
            found = special.sph_harm_y(*orders, gnp.asarray(theta), gnp.asarray(phi))
            np.testing.assert_allclose(found, sp.sph_harm_y(n, m, theta, phi), atol=1e-13)


def test_the_logarithm_of_gamma_has_one_branch():
    x = np.linspace(-7.3, 7.3, 41)
    z = (x[:, None] + 1j * np.array([-3, -0.2, 1e-8, 0.5, 4])).reshape(-1)
    with ga.enable_x64(True):
        found = np.asarray(special.loggamma(gnp.asarray(z)))
        np.testing.assert_allclose(found, sp.loggamma(z), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(special.gamma(gnp.asarray(z)), sp.gamma(z), rtol=1e-10)


def test_complex_error_functions():
    x, y = np.meshgrid(np.linspace(-7, 7, 29), np.linspace(-2, 7, 19))
    z = (x + 1j * y).reshape(-1)
    with ga.enable_x64(True):
        np.testing.assert_allclose(special.wofz(gnp.asarray(z)), sp.wofz(z), rtol=1e-12)
        np.testing.assert_allclose(special.erfcx(gnp.asarray(z)), sp.erfcx(z), rtol=1e-12)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: special.zeta(2.0), NotImplementedError, "q != None"),
        (lambda: special.polygamma(1.0, 2.0), ValueError, "must be of integer type"),
        (lambda: special.ndtr(1), TypeError, "not supported, see docstring"),
        (lambda: special.ndtri([0.5]), TypeError, "Cannot determine dtype"),
        (lambda: special.log_ndtr(1.0, 2.5), TypeError, "must be a Python integer"),
        (lambda: special.log_ndtr(1.0, 31), ValueError, "must be <= 30"),
        (lambda: special.expi(1j), ValueError, "does not support complex-valued inputs"),
        (lambda: special.fresnel(1j), NotImplementedError, "complex-valued"),
        (lambda: special.sici(1j), ValueError, "must be real-valued"),
        (lambda: special.factorial(3, exact=True), NotImplementedError, "exact=True"),
        (lambda: special.erf([1.0]), TypeError, "requires ndarray or scalar arguments"),
        (lambda: ga.grad(special.expn)(2.0, 1.0), ValueError, "is not supported"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_weak_types():
    assert special.erf(2).weak_type and special.xlogy(2, 3).weak_type
    for out in (special.gamma(2), special.expi(2.0), special.beta(2, 3), special.ndtr(0.5)):
        assert out.dtype == np.float32 and not out.weak_type


def test_exponential_integrals_have_derivatives_of_any_order():
    x = 1.9
    e = np.exp(-x)
    by_hand = [-e / x, e * (1 / x + 1 / x**2), -e * (1 / x + 2 / x**2 + 2 / x**3)]
    f = special.exp1
    for expected in by_hand:
        f = ga.grad(f)
        assert float(f(x)) == pytest.approx(expected, rel=1e-5)
    assert float(ga.grad(lambda x: special.expn(0, x))(x)) == pytest.approx(-by_hand[1], rel=1e-5)


def test_sph_harm_y_beyond_the_polar_range():
    """A function of the cosine of theta: the sine that it stands on is never negative."""
    theta = np.linspace(-7.0, 7.0, 29)
    for n, m in [(1, 1), (1, -1), (2, 1), (3, 3), (3, -2), (4, -3)]:
        orders = gnp.array([n]), gnp.array([m])
        with ga.enable_x64(True):
            found = special.sph_harm_y(*orders, gnp.asarray(theta), 0.3)
            np.testing.assert_allclose(found, sp.sph_harm_y(n, m, theta, 0.3), atol=1e-13)
    slope = ga.grad(lambda t: special.sph_harm_y(*orders, t, 0.0, n_max=4).real.sum())(0.0)
    assert np.isfinite(slope)
    one = gnp.array([1])
    slope = ga.grad(lambda t: special.sph_harm_y(one, one, t, 0.0, n_max=1).real.sum())(0.0)
    np.testing.assert_allclose(slope, -np.sqrt(3 / (8 * np.pi)), rtol=1e-6)
