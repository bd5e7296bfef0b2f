"""gpuarray.scipy.stats against SciPy: densities, quantiles, vectors, ranks, estimated densities."""

import numpy as np
import pytest
from scipy import stats as sp

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import random
from gpuarray.scipy import stats
from tests.accuracy.table import ROWS, measure

HERE = [row for row in ROWS if "." in row.name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", HERE, ids=lambda row: row.name)
def test_accuracy(row, dtype):
    found = measure(row, dtype)
    limit = row.limits[dtype == "float64"]
    assert found.worst <= limit, f"{found.worst:.3g} ULP at {found.at}"


CONTINUOUS = {
    "beta": (2.0, 1.5), "cauchy": (), "chi2": (3.0,), "expon": (), "gamma": (2.5,),
    "gennorm": (1.5,), "gumbel_l": (), "gumbel_r": (), "laplace": (), "logistic": (), "norm": (),
    "pareto": (2.0,), "t": (3.0,), "truncnorm": (-1.0, 2.0), "uniform": (), "vonmises": (2.0,),
    "wrapcauchy": (0.5,),
}  # fmt: skip
DISCRETE = {
    "bernoulli": (0.3,), "betabinom": (5, 1.5, 2.0), "binom": (5, 0.3), "geom": (0.3,),
    "nbinom": (5, 0.3), "poisson": (2.5,),
}  # fmt: skip
#: Inside every support.
X = {"pareto": 1.6}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_is_the_derivative_of_the_distribution(name):
    module, given = getattr(stats, name), CONTINUOUS[name]
    x = X.get(name, 0.6)
    density = float(module.pdf(x, *given))
    assert density == pytest.approx(float(np.exp(module.logpdf(x, *given))), rel=1e-5)
    if hasattr(module, "cdf"):
        slope = ga.grad(lambda v: module.cdf(v, *given))(x)
        assert density == pytest.approx(float(slope), rel=1e-4)
    if hasattr(module, "sf"):
        both = module.cdf(x, *given) + module.sf(x, *given)
        assert float(both) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_every_function_is_one_kernel(name):
    module, given = getattr(stats, name), CONTINUOUS[name]
    x = np.full(64, 0.6, np.float32)
    for f in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        if hasattr(module, f):
            few = given if f not in ("ppf", "isf") or name == "pareto" else ()
            xs = [x, *(np.full(64, p, np.float32) for p in few)]
            call = getattr(module, f)
            assert ga.explain(call, platform="cuda")(*xs).launches == 1, f
            found = call(*map(gnp.asarray, xs))
            np.testing.assert_allclose(ga.jit(call)(*xs), found, rtol=2e-6)
            np.testing.assert_allclose(ga.vmap(call)(*xs), found, rtol=2e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_one(name):
    module, given = getattr(stats, name), DISCRETE[name]
    k = gnp.arange(200)
    assert float(gnp.sum(module.pmf(k, *given))) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(module.pmf(k + 3, *given, loc=3), module.pmf(k, *given), rtol=1e-6)
    xs = [np.full(200, p, np.float32) for p in given]
    # betabinom has three beta functions, more operations than one kernel may hold.
    launches = ga.explain(module.logpmf, platform="cuda")(k, *xs).launches
    assert launches == (2 if name == "betabinom" else 1)


@pytest.mark.parametrize(
    "name", ["cauchy", "expon", "gumbel_l", "gumbel_r", "logistic", "norm", "pareto", "uniform"]
)
def test_quantiles_undo_the_distribution(name):
    module, given = getattr(stats, name), CONTINUOUS[name]
    q = np.linspace(0.05, 0.95, 19, dtype=np.float32)
    np.testing.assert_allclose(module.cdf(module.ppf(q, *given), *given), q, rtol=2e-5)
    if hasattr(module, "isf"):
        np.testing.assert_allclose(module.sf(module.isf(q, *given), *given), q, rtol=2e-5)
    edge = module.ppf(gnp.array([-0.1, 1.1, np.nan]), *given)
    assert name == "cauchy" or np.isnan(edge).all()


def test_bernoulli_quantiles():
    found = stats.bernoulli.ppf(gnp.array([0.2, 0.7, 0.71, 2.0]), 0.3)
    np.testing.assert_array_equal(found, [0, 0, 1, np.nan])
    np.testing.assert_allclose(stats.bernoulli.cdf(gnp.array([-1, 0, 1]), 0.3), [0, 0.7, 1])


# ---- vectors ----


def test_multivariate_normal():
    rng = np.random.default_rng(1)
    a, mean, x = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=(5, 3))
    cov = a @ a.T + np.eye(3)
    wanted = sp.multivariate_normal(mean, cov).logpdf(x)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, cov), wanted, rtol=1e-5)
    np.testing.assert_allclose(
        stats.multivariate_normal.pdf(x, mean, cov), np.exp(wanted), rtol=1e-4
    )
    with pytest.raises(ValueError, match="incompatible shapes"):
        stats.multivariate_normal.logpdf(x, mean, np.eye(2))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        stats.multivariate_normal.logpdf(x, mean, cov, True)


def test_dirichlet_and_multinomial():
    x, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.0, 2.0, 3.0])
    wanted = sp.dirichlet(alpha).logpdf(x)
    for given in (x, x[:2]):
        np.testing.assert_allclose(stats.dirichlet.logpdf(given, alpha), wanted, rtol=1e-6)
    assert float(stats.dirichlet.pdf(np.array([0.2, 0.3, 0.6]), alpha)) == 0
    counts, p = np.array([[1, 2, 0], [0, 0, 3], [1, 1, 2]]), np.array([0.2, 0.3, 0.5])
    found = stats.multinomial.pmf(counts, 3, p)
    np.testing.assert_allclose(found, sp.multinomial(3, p).pmf(counts), rtol=1e-5)
    with pytest.raises(ValueError, match="integer type"):
        stats.multinomial.pmf(counts, 3.0, p)


# ---- samples ----


@pytest.mark.parametrize("axis", [0, 1, None])
def test_mode_and_ranks(axis):
    a = np.random.default_rng(2).integers(0, 5, (6, 9))
    found, wanted = stats.mode(a, axis=axis), sp.mode(a, axis=axis)
    np.testing.assert_array_equal(found.mode, wanted.mode)
    np.testing.assert_array_equal(found.count, wanted.count)
    for method in ("average", "min", "max", "dense", "ordinal"):
        np.testing.assert_array_equal(
            stats.rankdata(a, method, axis=axis).ravel(),
            np.ravel(sp.rankdata(a, method, axis=axis)),
        )


def test_nans_in_samples():
    a = np.array([1.0, np.nan, 4.0, np.nan], np.float32)
    assert np.isnan(stats.mode(a).mode) and int(stats.mode(a).count) == 2
    assert np.isnan(stats.rankdata(a)).all()
    assert np.isnan(stats.sem(a))
    wanted = sp.sem(a, nan_policy="omit")
    np.testing.assert_allclose(stats.sem(a, nan_policy="omit"), wanted, rtol=1e-6)
    for function in (stats.mode, stats.rankdata):
        with pytest.raises(NotImplementedError, match="omit"):
            function(a, nan_policy="omit")


@pytest.mark.parametrize("bandwidth", [None, "silverman", 0.4, lambda kde: 0.3])
def test_estimated_density(bandwidth):
    rng = np.random.default_rng(3)
    sample, points, weights = rng.normal(size=(2, 30)), rng.normal(size=(2, 5)), rng.random(30)
    ours = stats.gaussian_kde(sample, bandwidth, weights)
    judge = sp.gaussian_kde(
        sample, bandwidth if not callable(bandwidth) else lambda kde: 0.3, weights
    )
    np.testing.assert_allclose(ours(points), judge(points), rtol=1e-4)
    np.testing.assert_allclose(ours.logpdf(points), judge.logpdf(points), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.integrate_kde(ours), judge.integrate_kde(judge), rtol=1e-4)
    mean, cov = np.array([0.5, 0.0]), np.eye(2)
    np.testing.assert_allclose(
        ours.integrate_gaussian(mean, cov), judge.integrate_gaussian(mean, cov), rtol=1e-4
    )
    drawn = ours.resample(random.key(0), (4000,))
    assert drawn.shape == (2, 4000)
    np.testing.assert_allclose(np.mean(drawn, 1), np.average(sample, 1, weights), atol=0.1)


def test_estimated_density_in_one_dimension_under_jit():
    sample = np.random.default_rng(4).normal(size=50)
    ours, judge = stats.gaussian_kde(sample), sp.gaussian_kde(sample)
    found = ga.jit(lambda kde, x: kde.evaluate(x))(ours, gnp.array([0.1, 0.2]))
    np.testing.assert_allclose(found, judge([0.1, 0.2]), rtol=1e-4)
    np.testing.assert_allclose(
        ours.integrate_box_1d(-1, 0.5), judge.integrate_box_1d(-1, 0.5), rtol=1e-4
    )
    for call in (ours.set_bandwidth, lambda: ours.integrate_box(0, 1)):
        with pytest.raises(NotImplementedError):
            call()
