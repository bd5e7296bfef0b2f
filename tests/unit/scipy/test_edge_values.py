"""Values at the edges of what functions are defined for, as NumPy, SciPy, JAX or mathematics have
them: no observations, no steps, places off a support, nan, infinities.
"""

import inspect

import numpy as np
import pytest
from scipy import linalg, special
from scipy import stats as scipy_stats

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.scipy import linalg as ours
from gpuarray.scipy import special as ours_special
from gpuarray.scipy import stats
from gpuarray.scipy.optimize import minimize
from tests.support import simulated

NAN, INF = np.nan, np.inf


def same(found, wanted):
    np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


# ---- least squares, covariances, polynomials ----


@pytest.mark.parametrize("columns", [(), (2,)])
def test_least_squares_of_zeros(columns):
    x, residuals, rank, s = gnp.linalg.lstsq(gnp.zeros((3, 2)), gnp.ones((3, *columns)))
    same(x, np.zeros((2, *columns), "f"))
    same(residuals, np.full(columns or (1,), 3, "f"))
    assert rank == 0
    same(s, np.zeros(2, "f"))


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("options", [{}, {"bias": True}, {"ddof": 2}, {"ddof": -1}])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_covariance_of_no_observations(shape, options, dtype):
    found = gnp.cov(np.ones(shape, dtype), **options)
    same(found, np.full(shape[:1] * 2 if len(shape) > 1 else (), NAN, dtype))


def test_covariance_of_several_fits():
    x = np.arange(6.0, dtype="f")
    y = np.stack([x**2, x**2 + 1, np.sin(x)], 1)
    c, found = gnp.polyfit(x, y, 1, cov=True)
    wanted = np.polyfit(x, y, 1, cov=True)[1]
    assert found.shape == wanted.shape == (2, 2, 3)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert gnp.polyfit(x, y, 1, cov="unscaled")[1].shape == (2, 2, 1)
    weighted = gnp.polyfit(x, y, 1, w=x + 1, cov=True)[1]
    np.testing.assert_allclose(weighted, np.polyfit(x, y, 1, w=x + 1, cov=True)[1], rtol=1e-4)


@pytest.mark.parametrize("start", [0.0, np.zeros(2, "f"), np.zeros((2, 1), "f")], ids=np.shape)
@pytest.mark.parametrize(
    ("num", "endpoint", "step"), [(0, True, None), (0, False, None), (1, True, None), (1, False, 4)]
)
def test_linspace_without_steps(start, num, endpoint, step):
    """Where there is no step it is one nan, as NumPy has it."""
    out, found = gnp.linspace(start, 4.0, num, endpoint=endpoint, retstep=True)
    assert out.shape == (num, *np.shape(start))
    same(found, np.float32(NAN) if step is None else np.full(np.shape(start), step, "f"))


def test_hermitian_tridiagonal_matrices():
    """A complex e stands above the diagonal."""
    d, e = np.array([1, 2, 3], "F"), np.array([1 + 2j, 3 - 1j], "F")
    full = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    w, v = map(np.asarray, ours.eigh_tridiagonal(d, e))
    np.testing.assert_allclose(w, linalg.eigvalsh(full), rtol=1e-5)
    np.testing.assert_allclose(full @ v, v * w, atol=1e-5)
    np.testing.assert_allclose(ours.eigh_tridiagonal(d, e, eigvals_only=True), w, rtol=1e-5)
    first = lambda e: ours.eigh_tridiagonal(d, e, eigvals_only=True)[0]
    plain = lambda e: gnp.linalg.eigvalsh(gnp.diag(d) + gnp.diag(e, 1) + gnp.diag(e.conj(), -1))[0]
    np.testing.assert_allclose(ga.grad(first)(e), ga.grad(plain)(e), rtol=1e-5)


# ---- sets ----


def test_sets_that_are_said_to_be_unique():
    """Repeated elements count as shared ones then, as with NumPy."""
    a, b = np.array([1, 1, 2]), np.array([2, 3, 4])
    same(gnp.setxor1d(a, b, assume_unique=True), np.array([3, 4], "int32"))
    same(gnp.setxor1d(a, b), np.array([1, 3, 4], "int32"))
    same(gnp.setxor1d(a, np.array([5]), assume_unique=True), np.array([2, 5], "int32"))
    same(gnp.setxor1d(a[:0], b[:0], assume_unique=True), np.array([], "int32"))


@pytest.mark.parametrize("assume_unique", [False, True])
def test_exclusive_or_against_numpy(assume_unique):
    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b = (rng.choice(np.array([0, 1, 2, NAN, INF], "f"), n) for n in rng.integers(0, 6, 2))
        if assume_unique:
            a, b = np.unique(a), np.unique(b)
        wanted = np.setxor1d(a, b, assume_unique)
        same(gnp.setxor1d(a, b, assume_unique=assume_unique), wanted)
        traced = ga.jit(lambda a, b: gnp.setxor1d(a, b, assume_unique, size=12, fill_value=-1))
        filled = np.full(12, -1, "f")
        filled[: wanted.size] = wanted
        same(traced(a, b), filled)


def test_a_complex_nan_is_one_value():
    """Whichever part of a number is nan: nan + 0i stands for all of them."""
    x = np.array([complex(NAN, 1), complex(1, NAN), complex(NAN, NAN), 1, complex(1, NAN)], "F")
    values, first, inverse, counts = gnp.unique(x, True, True, True)
    same(values, np.array([1, NAN], "F"))
    same(first, np.array([3, 0], "int32"))
    same(inverse, np.array([1, 1, 1, 0, 1], "int32"))
    same(counts, np.array([1, 4], "int32"))
    same(gnp.unique(x, equal_nan=False), np.array([1, NAN, NAN, NAN, NAN], "F"))
    same(gnp.unique(x[:, None], axis=0), np.array([[1], [NAN]], "F"))
    same(gnp.union1d(x[:1], x[1:]), np.array([1, NAN], "F"))


# ---- distributions ----

#: Parameters of distributions that need some.
GIVEN = {
    "beta": (2.0, 3.0), "chi2": (3.0,), "gamma": (2.0,), "gennorm": (1.5,), "pareto": (2.0,),
    "t": (3.0,), "truncnorm": (-1.0, 2.0), "vonmises": (1.0,), "wrapcauchy": (0.3,),
    "bernoulli": (0.3,), "betabinom": (5, 2.0, 3.0), "binom": (5, 0.3), "geom": (0.3,),
    "nbinom": (3.0, 0.4), "poisson": (2.0,),
}  # fmt: skip

PLACES = np.array([-INF, -1, -0.0, 0, 0.3, 0.5, 1, 1.5, 2, INF, NAN], "f")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("beta", {"a": -1, "b": 2}), ("beta", {"a": 0, "b": 2}), ("beta", {"a": 2, "b": -1}),
        ("beta", {"a": 2, "b": 3, "scale": 0}), ("beta", {"a": 2, "b": 3, "scale": -1}),
        ("pareto", {"b": 2, "scale": -1}), ("pareto", {"b": 2, "scale": 0}),
        ("gamma", {"a": 0}), ("gamma", {"a": -1}), ("chi2", {"df": 0}), ("poisson", {"mu": -1}),
        ("uniform", {"scale": -1}), ("uniform", {"scale": 0}),
    ],
    ids=str,
)  # fmt: skip
def test_there_is_no_such_distribution(name, given):
    """SciPy has nan everywhere then; infinities in densities of gamma and chi2 stay as in JAX."""
    module = getattr(stats, name)
    some = {"gamma": ("cdf", "logcdf"), "chi2": ("cdf", "logcdf"), "uniform": ("cdf",)}.get(name)
    some = some or {"pareto": ("cdf", "sf", "logcdf", "logsf"), "poisson": ("logpmf", "pmf")}.get(
        name, ("logpdf", "pdf")
    )
    for function in some:
        found = getattr(module, function)(PLACES, **given)
        assert np.isnan(found).all(), function


@pytest.mark.parametrize("name", ["beta", "gamma", "chi2", "pareto", "uniform", "poisson"])
def test_places_off_the_support(name):
    x = PLACES if name != "poisson" else np.array([-2, -1, -0.0, 0, 1, 2, 7], "f")
    for function in ("logpdf", "pdf", "logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"):
        call = getattr(getattr(stats, name), function, None)
        if call is not None:
            with np.errstate(all="ignore"):
                wanted = getattr(getattr(scipy_stats, name), function)(
                    x.astype("d"), *GIVEN.get(name, ())
                )
            np.testing.assert_allclose(
                call(x, *GIVEN.get(name, ())), wanted, rtol=2e-5, err_msg=function
            )


def _functions():
    """Every function of a distribution of numbers."""
    for name in dir(stats):
        module = getattr(stats, name)
        vectors = ("dirichlet", "multinomial", "multivariate_normal", "operands", "kde", "ranks")
        if not inspect.ismodule(module) or name in vectors or name.startswith("_"):
            continue
        for key, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not key.startswith("_"):
                yield pytest.param(function, id=f"{name}.{key}")


@pytest.mark.parametrize("function", list(_functions()))
def test_shapes_broadcast_over_all_parameters(function):
    """Also over those that change nothing in the value."""
    names = list(inspect.signature(function).parameters)
    low = ("loc", "p", "q", "c", "x")
    values = [np.float32(0.5 if n in low else 2) for n in names]
    for k in range(len(names)):
        one = [np.full(3, v) if i == k else v for i, v in enumerate(values)]
        assert function(*one).shape == (3,), names[k]
    shapes = [(1,) * k + (2,) + (1,) * (len(names) - k - 1) for k in range(len(names))]
    each = [np.full(s, v) for s, v in zip(shapes, values, strict=True)]
    assert function(*each).shape == (2,) * len(names)
    assert function(np.zeros(0, "f"), *values[1:]).shape == (0,)


@pytest.mark.parametrize("function", list(_functions()))
def test_nobody_knows_what_nan_is(function):
    name = function.__module__.rsplit(".", 1)[1]
    given = GIVEN.get(name, ())
    assert np.isnan(function(NAN, *(() if function.__name__ == "entropy" else given)))


# ---- special functions ----


def test_sine_and_cosine_integrals_at_the_ends():
    x = np.array([-INF, INF, NAN, -0.0, 0, -1, -3], "f")
    for found, wanted in zip(ours_special.sici(x), special.sici(x.astype("d")), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.signbit(ours_special.sici(np.float32(-0.0))[0])


# ---- special functions and distributions: values and slopes ----

#: Name, operands, values: SciPy's in double precision (nan to infinity as said above).
VALUES = [
    ("special.loggamma", ([0, -0.0, -1.5],), [INF, INF, NAN]),
    ("special.i0", ([89, -89, INF, -INF],), [1.9012424e37, 1.9012424e37, INF, INF]),
    ("special.i1", ([89, -89, INF, -INF],), [1.8905298e37, -1.8905298e37, INF, -INF]),
    ("special.rel_entr", ([4.5, 1e-6, 1.0, 1.0], [1e-38, 3e38, 1.0000001, INF]),
     [400.51007, -1.0241237e-4, -1.1920928e-7, -INF]),
    ("special.kl_div", ([10.0], [1e-38]), [888.0085]),
    ("special.boxcox", ([0.5, 2, 0], [1e-44, -1e-44, 2]), [-0.6931472, 0.6931472, -0.5]),
    ("stats.cauchy.logpdf", ([1e20, -3e38],), [-93.248134, -178.33836]),
    ("stats.cauchy.cdf", ([-1e5, -1e10, 0, INF, -INF],), [3.1830989e-6, 3.1830989e-11, 0.5, 1, 0]),
    ("stats.cauchy.sf", ([1e10, 0, INF],), [3.1830989e-11, 0.5, 0]),
    ("stats.cauchy.logcdf", ([-1e10, 1e10, 0],), [-24.170581, -3.1830989e-11, -0.6931472]),
    ("stats.cauchy.logsf", ([1e20, -1e5],), [-47.196432, -3.1831039e-6]),
    ("stats.cauchy.ppf", ([0, 1, 1e-20, 0.25, 0.5, 0.9, -0.1, 1.1],),
     [-INF, INF, -3.1830989e19, -1, 0, 3.0776835, NAN, NAN]),
    ("stats.cauchy.isf", ([0, 1, 1e-20],), [INF, -INF, 3.1830989e19]),
    ("stats.expon.logcdf", ([-1, 0, 12.5, 50],), [-INF, -INF, -3.7266601e-6, -1.9287499e-22]),
    ("stats.gumbel_r.logsf", ([-3, 88, 200],), [-1.8921786e-9, -88, -200]),
    ("stats.gumbel_l.logcdf", ([3, -88, -200],), [-1.8921786e-9, -88, -200]),
    ("stats.poisson.entropy", ([0, 1e-4, 2.5],), [0, 1.0210375e-3, 1.8307266]),
    # log x - digamma(a), times Q / density at such a distance
    ("lax.random_gamma_grad", ([1, 0.5], [1e4, 1e4]), [9.787656, 11.173392]),
]  # fmt: skip

#: Name, operands, the derivative by the first one: closed forms in double precision.
SLOPES = [
    ("special.erfcx", ([50, 1e4, 1e10],), [-2.2554070e-4, -5.6418957e-9, -5.6418958e-21]),
    ("special.dawsn", ([50, -1e4, 1e10],), [-2.0012012e-4, -5.0000001e-9, -5e-21]),
    ("special.i0e", ([100, -100, 1e10],), [-2.0022627e-4, 2.0022627e-4, -1.9947114e-16]),
    ("special.i1e", ([100, -100, 1e10],), [-1.9721526e-4, -1.9721526e-4, -1.9947114e-16]),
    ("special.i1", ([0, 1e-44, -1e-38],), [0.5, 0.5, 0.5]),
    ("special.loggamma", ([-1.5, 1],), [NAN, -0.57721566]),
    ("special.rel_entr", ([4.5, 1e-6, 0, -1], [1e-38, 3e38, 1, 1]), [90.00224, -101.41237, 0, 0]),
    ("special.boxcox", ([0, 0, 1e-38, 4], [0, 1, 1, 0.5]), [INF, 1, 1, 0.5]),
    ("special.boxcox1p", ([-1, -1, 3], [0.5, 1, 0.5]), [INF, 1, 0.5]),
    ("special.fresnel sine", ([7, 709, 1e4, 3e20],), [1, 1, 0, 0]),
    ("special.fresnel cosine", ([8, 12345.67, -3e38],), [1, -0.960245, 1]),
    ("numpy.sinc", ([0, 1e-44, 1e-7, -1e-3, 1],), [0, 0, -3.2898681e-7, 3.2898649e-3, -1]),
    ("numpy.hypot", ([3e38, -3e38, 1e-38, 0], [3e38, 3e38, 1e-38, 1]),
     [0.5**0.5, -(0.5**0.5), 0.5**0.5, 0]),
    ("nn.log1mexp", ([1e-9, 1e-30, 1, 50],), [1e9, 1e30, 0.5819767, 1.9287499e-22]),
    ("stats.laplace.cdf", ([0, -1, 1],), [0.5, 0.18393972, 0.18393972]),
    ("stats.expon.cdf", ([-1000, 0, 1],), [0, 1, 0.36787944]),
    ("stats.expon.logcdf", ([-1000, 1, 20],), [0, 0.5819767, 2.0611536e-9]),
    ("stats.gumbel_r.logsf", ([-3, 89],), [-3.8005423e-8, -1]),
    ("stats.gumbel_l.logcdf", ([3, -89],), [3.8005423e-8, 1]),
    ("stats.cauchy.logcdf", ([-1e10, 0, 1e5],), [1e-10, 2 / np.pi, 3.1830989e-11]),
    ("stats.cauchy.ppf", ([0, 0.5, 1e-10],), [INF, np.pi, 3.1830989e19]),
]  # fmt: skip


def _function(name: str):
    if name.startswith("special.fresnel "):
        return lambda x: ours_special.fresnel(x)[name.endswith("cosine")]
    found = {"special": ours_special, "stats": stats, "lax": ga.lax, "numpy": gnp, "nn": ga.nn}
    first, *rest = name.split(".")
    found = found[first]
    for key in rest:
        found = getattr(found, key)
    return found


def _values(name, given):
    return _function(name)(*given)


def _slopes(name, given):
    x, *others = given
    f = lambda x: _function(name)(x, *others)
    return ga.jvp(f, (x,), (gnp.ones_like(x),))[1], ga.grad(lambda x: f(x).sum())(x)


def _single(given):
    return [np.float32(x) for x in given]


@pytest.mark.parametrize(("name", "given", "wanted"), VALUES, ids=[row[0] for row in VALUES])
def test_values_at_the_ends(name, given, wanted):
    np.testing.assert_allclose(_values(name, _single(given)), wanted, rtol=3e-6, atol=1e-35)


@pytest.mark.parametrize(("name", "given", "wanted"), SLOPES, ids=[row[0] for row in SLOPES])
def test_slopes_at_the_ends(name, given, wanted):
    for found in _slopes(name, _single(given)):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-35)


@pytest.mark.parametrize(("table", "of"), [(VALUES, _values), (SLOPES, _slopes)])
def test_kernels_at_the_ends(table, of):
    """Subnormal operands are left to processors: a kernel may take them for 0."""
    simulated.need_compiler()
    given = [_single(row[1]) for row in table]
    names = [row[0] for row in table]
    every = lambda given: [of(name, xs) for name, xs in zip(names, given, strict=True)]
    kernels = simulated.built(ga.jit(every).lower(given).jaxpr)
    found = ga.tree.unflatten(
        ga.tree.structure(ga.eval_shape(every, given)),
        simulated.run(kernels, ga.tree.leaves(given)),
    )
    for (name, _, wanted), each in zip(table, found, strict=True):
        for one in each if isinstance(each, tuple) else [each]:
            np.testing.assert_allclose(one, wanted, rtol=2e-4, atol=1e-35, err_msg=name)


@pytest.mark.parametrize("name", ["i0e", "i1e", "erfcx", "dawsn"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_slopes_of_narrow_numbers(name, dtype):
    """No coefficient of a series overflows."""
    f, x = getattr(ours_special, name), np.array([1, 9, 12, 31, 300], "f")
    narrow = ga.vmap(ga.grad(f))(gnp.array(x, dtype))
    np.testing.assert_allclose(np.asarray(narrow, "f"), ga.vmap(ga.grad(f))(x), rtol=0.1, atol=0.02)


def test_narrow_entropies_stay_narrow():
    for dtype in ("float16", "bfloat16"):
        assert stats.poisson.entropy(gnp.array([2.5], dtype)).dtype == dtype


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7, 61, 63, 259, 260, 262, 1001])
def test_bernoulli_numbers_beyond_all_doubles(n, x64):
    with ga.enable_x64(x64), np.errstate(over="ignore"):
        found = ours_special.bernoulli(n)
        wanted = special.bernoulli(max(n, 1))[: n + 1].astype(found.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_arguments_that_set_the_length_of_a_loop():
    """Nothing is worked out number by number before it is known to fit."""
    assert ours_special.bernoulli(10**12).shape == (10**12 + 1,)
    one = np.ones(1, "f")
    with pytest.raises(ValueError, match="n_iter is 1000000000, and at most 10000"):
        ours_special.bessel_jn(one, v=3, n_iter=10**9)
    for given in ((10**9, None), (3, 10**9)):
        with pytest.raises(ValueError, match="n_max is 1000000000, and at most 10000"):
            ours_special.sph_harm_y(
                np.full(1, given[0]), np.zeros(1, int), one, one, n_max=given[1]
            )
    for f in (gnp.linspace, gnp.logspace):
        with pytest.raises((ga.errors.OutOfMemory, MemoryError)):
            f(0.0, 1.0, 10**14)


# ---- minima ----

#: Functions with a small value at their minimum, and where a search for it starts.
FUNCTIONS = {
    "scaled": (lambda x: (gnp.array([1.0, 100.0, 1e4]) * (x - 1) ** 2).sum(), [3.0, -2.0, 5.0]),
    "steep": (lambda x: 100 * ((x - 2) ** 2).sum(), [3.0, 1.0]),
    "very steep": (lambda x: 1e6 * (x**2).sum(), [3.0, 1.0]),
    "flat": (lambda x: 1e-4 * (x**2).sum(), [300.0, 100.0]),
    "Zakharov": (
        lambda x: (
            (x**2).sum() + (s := (gnp.arange(1.0, len(x) + 1) * x / 2).sum()) ** 2 + s**4
        ),
        [1.0, 2.0, 3.0, 4.0],
    ),
    "Himmelblau": (
        lambda x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2,
        [100.0, 100.0],
    ),
    "complex": (lambda z: (abs(z**2 - 1j) ** 2).sum(), [1 + 1j, 2 - 1j]),
}  # fmt: skip


@pytest.mark.parametrize("method", ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_searches_arrive(method, name):
    f, start = FUNCTIONS[name]
    found = minimize(f, gnp.array(start), method=method)
    assert found.success
    assert found.fun < 1e-6
    assert found.nfev < 100


def test_the_gradient_of_complex_unknowns_is_that_of_grad():
    f, start = FUNCTIONS["complex"]
    found = minimize(f, gnp.array(start), method="BFGS", options={"maxiter": 1})
    assert found.x.dtype == found.jac.dtype == np.complex64
    np.testing.assert_allclose(found.jac, ga.grad(f)(found.x), rtol=1e-4, atol=1e-4)
