"""Which function is compared with which of SciPy's, where, and how exact it has to be.

In: nothing. Out: `ROWS`; `measure(row, dtype)` draws operands, calls both, and gives the errors.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special as sp
from scipy import stats

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.scipy import special
from gpuarray.scipy import stats as ga_stats

POINTS = 4000


class Row(NamedTuple):
    """A function and where it is tried: `spans` are (low, high) of each operand, drawn evenly, or
    log-evenly where both ends are positive and far apart.

    limits: units in the last place, for float32 and float64. floor: below which size of the result
    an error is measured against the floor, because the function has zeros.
    """

    name: str
    ours: Callable[..., Any]
    judge: Callable[..., Any]
    spans: tuple
    limits: tuple[float, float]
    floor: float = 0.0


class Errors(NamedTuple):
    """What `measure` found, in units in the last place, and as a relative error."""

    worst: float
    typical: float
    relative: float
    at: tuple


def _draw(rng: np.random.Generator, span: Any) -> np.ndarray:
    if callable(span):
        return span(rng)
    low, high = span
    if low > 0 and high / low > 50:
        return np.exp(rng.uniform(np.log(low), np.log(high), POINTS))
    return rng.uniform(low, high, POINTS)


def whole(low: int, high: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.integers(low, high + 1, POINTS).astype(np.float64)


def measure(row: Row, dtype: str) -> Errors:
    """Both functions at the same operands, which are numbers of `dtype`."""
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    operands = [_draw(rng, span).astype(dtype) for span in row.spans]
    with ga.enable_x64(dtype == "float64"):
        found = np.asarray(row.ours(*[gnp.asarray(x) for x in operands]), np.float64)
    with np.errstate(all="ignore"):
        wanted = np.asarray(row.judge(*[x.astype(np.float64) for x in operands]), np.float64)
    info = np.finfo(dtype)
    size = np.maximum(np.abs(wanted), max(row.floor, float(info.tiny)))
    normal = (np.abs(wanted) <= float(info.max)) & np.isfinite(wanted)
    assert np.array_equal(np.isnan(found), np.isnan(wanted)), row.name
    error = np.where(normal, np.abs(found - np.where(normal, wanted, 0.0)) / size, 0.0)
    ulps = error / float(info.eps)
    worst = int(np.argmax(ulps))
    at = tuple(float(x[worst]) for x in operands)
    return Errors(float(ulps[worst]), float(np.median(ulps)), float(error.max()), at)


def _same(names: str, spans: tuple, limits: tuple[float, float], floor: float = 0.0) -> list[Row]:
    """Rows of functions that both libraries call the same."""
    return [
        Row(name, getattr(special, name), getattr(sp, name), spans, limits, floor)
        for name in names.split()
    ]


def _parts(name: str, parts: tuple[str, str], span: tuple) -> list[Row]:
    """Rows of a function with two results."""
    return [
        Row(
            f"{name}, {part}",
            lambda x, i=i: getattr(special, name)(x)[i],
            lambda x, i=i: getattr(sp, name)(x)[i],
            (span,),
            (4, 64),
            1e-2,
        )
        for i, part in enumerate(parts)
    ]


def _of(module: str, functions: str, spans: tuple, limits: tuple[float, float]) -> list[Row]:
    """Rows of the functions of a distribution; errors of logarithms are absolute below 1."""
    return [
        Row(
            f"{module}.{f}",
            getattr(getattr(ga_stats, module), f),
            getattr(getattr(stats, module), f),
            spans,
            limits,
            1.0 if "log" in f or f in ("ppf", "isf") else 1e-3,
        )
        for f in functions.split()
    ]


POSITIVE = (1e-3, 50.0)
ROWS = [
    *_same("erf", ((-5, 5),), (4, 8)),
    *_same("erfc", ((-5, 9),), (4, 8)),
    *_same("erfinv", ((-0.999, 0.999),), (8, 16)),
    *_same("erfcx", ((-5, 50),), (2, 16)),
    *_same("dawsn", ((-20, 20),), (2, 64)),
    *_same("ndtr", ((-8, 8),), (64, 128)),
    *_same("ndtri", ((1e-6, 0.9999),), (16, 16), 1e-2),
    *_same("log_ndtr", ((-30, 5),), (16, 32), 1e-3),
    *_same("owens_t", ((-3, 3), (-5, 5)), (2, 256)),
    *_same("expit", ((-30, 30),), (8, 16)),
    *_same("logit", ((0.001, 0.999),), (16, 16), 1.0),
    *_same("xlogy xlog1py", (POSITIVE, POSITIVE), (8, 8), 1e-3),
    *_same("entr", (POSITIVE,), (8, 8), 1e-3),
    *_same("rel_entr", (POSITIVE, POSITIVE), (16, 16), 1.0),
    *_same("kl_div", (POSITIVE, POSITIVE), (64, 64), 1.0),
    *_same("boxcox boxcox1p", ((0.01, 20), (-2, 2)), (64, 64), 1e-1),
    *_same("gamma", ((-10, 30),), (2, 16)),
    *_same("gammaln", ((1e-3, 1e4),), (4, 8), 1e-1),
    *_same("digamma", ((1e-3, 1e3),), (4, 16), 1e-1),
    *_same("gammainc gammaincc", (POSITIVE, POSITIVE), (4, 64)),
    # SciPy loses digits of larger operands: tests/unit/scipy/test_special.py has those.
    *_same("betaln", ((1e-2, 20), (1e-2, 20)), (32, 64), 1.0),
    *_same("beta", ((0.1, 20), (0.1, 20)), (128, 128)),
    *_same("betainc", ((0.1, 20), (0.1, 20), (0.01, 0.99)), (4, 256)),
    *_same("factorial", (whole(0, 30),), (2, 8)),
    *_same("comb", (whole(20, 60), whole(0, 20)), (128, 128)),
    *_same("poch", ((0.1, 10), (0, 10)), (64, 64)),
    *_same("zeta", ((1.1, 20), (0.1, 20)), (4, 64)),
    Row("polygamma", lambda x: special.polygamma(2, x), lambda x: sp.polygamma(2, x),
        ((0.1, 50),), (4, 32)),
    Row("multigammaln", lambda x: special.multigammaln(x, 3),
        lambda x: np.array([sp.multigammaln(v, 3) for v in x]), ((1.5, 500),), (16, 16), 1.0),
    *_same("i0 i1", ((-80, 80),), (8, 16)),
    *_same("i0e i1e", ((-500, 500),), (4, 16)),
    Row("bessel_jn", lambda x: special.bessel_jn(x, v=3)[3], lambda x: sp.jv(3, x),
        ((0.01, 15),), (64, 64), 1e-1),
    *_same("expi", ((-50, 80),), (2, 64), 1e-1),
    *_same("exp1", ((1e-3, 80),), (2, 32)),
    *_same("expn", (whole(0, 20), (1e-3, 80)), (2, 32)),
    *_same("spence", ((1e-3, 1e3),), (2, 32), 1e-2),
    *_parts("sici", ("sine", "cosine"), (1e-3, 200)),
    *_parts("fresnel", ("sine", "cosine"), (1e-3, 50)),
    *_same("hyp1f1", ((-3, 4), (0.3, 4), (-20, 20)), (2, 64), 1e-2),
    *_same("hyp2f1", ((-2, 3), (-2, 3), (0.3, 4), (-3, 0.95)), (2, 64), 1e-2),
    Row("wofz, real part", lambda x, y: gnp.real(special.wofz(x + 1j * y)),
        lambda x, y: sp.wofz(x + 1j * y).real, ((-6, 6), (0.01, 6)), (4, 64), 1e-2),
    Row("loggamma, real part", lambda x, y: gnp.real(special.loggamma(x + 1j * y)),
        lambda x, y: sp.loggamma(x + 1j * y).real, ((-6, 6), (0.1, 6)), (128, 128), 1.0),
    Row("sph_harm_y, real part",
        lambda n, t: gnp.real(special.sph_harm_y(n.astype(int), 2, t, 0.5, n_max=6)),
        lambda n, t: sp.sph_harm_y(n.astype(int), 2, t, 0.5).real,
        (whole(2, 6), (0, 3.1)), (64, 64), 1e-1),
    *_of("norm", "pdf logpdf cdf logcdf sf logsf", ((-6, 6), (-1, 1), (0.5, 2)), (256, 256)),
    *_of("norm", "ppf isf", ((0.01, 0.99), (-1, 1), (0.5, 2)), (32, 32)),
    *_of("cauchy", "pdf logpdf cdf sf logcdf logsf", ((-6, 6), (-1, 1), (0.5, 2)), (32, 32)),
    *_of("expon", "pdf logpdf cdf sf logcdf logsf", ((0.01, 6), (0, 0), (0.5, 2)), (64, 64)),
    *_of("gamma", "pdf logpdf cdf sf logcdf logsf", ((0.1, 20), (0.5, 9)), (128, 128)),
    *_of("chi2", "pdf logpdf cdf sf logcdf logsf", ((0.1, 20), (0.5, 9)), (128, 128)),
    *_of("beta", "pdf logpdf cdf sf logcdf logsf", ((0.02, 0.98), (0.5, 9), (0.5, 9)), (256, 256)),
    *_of("t", "pdf logpdf", ((-6, 6), (1, 30)), (256, 256)),
    *_of("laplace", "pdf logpdf cdf", ((-6, 6), (-1, 1), (0.5, 2)), (32, 32)),
    *_of("logistic", "pdf logpdf cdf sf", ((-6, 6), (-1, 1), (0.5, 2)), (32, 32)),
    *_of("gumbel_r", "pdf logpdf cdf sf logcdf logsf", ((-3, 6), (-1, 1), (0.7, 2)), (128, 256)),
    *_of("gumbel_l", "pdf logpdf cdf sf logcdf logsf", ((-6, 3), (-1, 1), (0.7, 2)), (128, 256)),
    *_of("pareto", "pdf logpdf cdf sf logcdf logsf", ((1.01, 20), (0.5, 5)), (64, 64)),
    *_of("gennorm", "pdf logpdf cdf", ((-3, 3), (0.5, 4)), (64, 64)),
    *_of("vonmises", "pdf logpdf", ((-3, 3), (0.1, 20)), (64, 64)),
    *_of("wrapcauchy", "pdf logpdf", ((0, 6.2), (0.1, 0.9)), (64, 64)),
    *_of("truncnorm", "pdf logpdf cdf sf logcdf logsf",
         ((-1, 2), (-3, -1.1), (2.1, 4)), (256, 512)),
    *_of("bernoulli", "pmf logpmf", (whole(0, 1), (0.05, 0.95)), (16, 16)),
    *_of("binom", "pmf logpmf", (whole(0, 10), whole(10, 40), (0.05, 0.95)), (512, 512)),
    *_of("nbinom", "pmf logpmf", (whole(0, 10), whole(1, 40), (0.05, 0.95)), (512, 512)),
    *_of("geom", "pmf logpmf", (whole(1, 20), (0.05, 0.95)), (64, 64)),
    *_of("poisson", "pmf logpmf cdf", (whole(0, 20), (0.1, 20)), (512, 512)),
    *_of("betabinom", "pmf logpmf", (whole(0, 10), whole(10, 40), (0.5, 5), (0.5, 5)), (512, 512)),
    Row("poisson.entropy", ga_stats.poisson.entropy, lambda mu: stats.poisson(mu).entropy(),
        ((0.1, 100),), (128, 4096)),
]  # fmt: skip
