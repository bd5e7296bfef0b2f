"""More of `jax.scipy.special` and `jax.scipy.stats`: odd arguments of every function.

Integers, booleans, weak scalars, empty arrays, nan and infinities, mixed dtypes, errors.
"""

# fmt: off

from .dsl import calls, expressions

ODD = ["True", "2", "i32([1, 2])", "f32(0)", "np.float64(0.5)", "f16(3, kind='prob')", "'a'"]
ODD_TWO = [
    "True, 1", "i32([1, 2]), 0.5", "f32(0), f32(0)", "f16([0.5]), f32([0.5])",
    "f32([np.nan, 1.0]), 1.0", "f32(2, 1, kind='pos'), 2", "'a', 1.0",
]
SPECIAL = [
    ("digamma entr erf erfc erfcx erfinv expit gammaln i0 i0e i1 i1e logit loggamma", ODD),
    ("dawsn exp1 gamma gammasgn log_ndtr ndtr ndtri spence factorial wofz fresnel sici", ODD),
    ("expi", ["True", "2", "i32([1, 2])", "f32(0)", "np.float64(0.5)", "'a'"]),
    ("beta betaln kl_div rel_entr xlogy xlog1py gammainc gammaincc", ODD_TWO),
    ("poch boxcox boxcox1p owens_t zeta", ODD_TWO),
    ("comb", [*ODD_TWO, "3, 5", "5, -1", "0, 0, repetition=True", "5, 2, True"]),
    ("polygamma", [
        "2, 3", "1, f32(0)", "True, 1.0", "1.0, 2.0", "i32([1, 2]), 0.5", "[1], 2.0", "1, f16([2])",
    ]),
    ("expn", [
        "2, 3", "i32([1, 2]), 0.5", "2, f32(0)", "[1.0], 1.0", "3, c64(2)", "2, f32([np.nan])",
    ]),
    ("zeta", ["2", "i32([2, 3]), 2", "1.0, 2.0", "f32([np.nan]), 1.0", "2.0, 0.0", "[2.0], 1.0"]),
    ("multigammaln", [
        "3, 1", "f32([3.0]), 2.0", "f32([2.0]), 0", "f32(0), 2", "bf16([3.0]), 2", "[2.0], 2",
        "f32([2.0]), 'a'",
    ]),
    ("betainc hyp1f1", [
        "1, 2, 0.5", "i32([1]), i32([2]), i32([1])", "bf16([1.0]), 2, 0.5", "f32(0), 1.0, 0.5",
        "1.0, 2.0, f32([np.nan])", "c64(2), 2.0, 0.5", "f32(2), f32(3), 1.0",
    ]),
    ("hyp2f1", [
        "1, 2, 3, 0.5", "f32(0), 1.0, 2.0, 0.5", "bf16([1.0]), 2, 3.0, 0.5", "1.0, 2.0, 3.5, 1.0",
        "1.0, 2.0, 3.0, f32([-0.5, 0.0, 0.9])",
    ]),
    ("bernoulli", ["12", "True", "2.0", "'a'", "i32(3)"]),
    ("bessel_jn", [
        "f32(1, 2), v=1, n_iter=10", "f32([1.0]), v=3, n_iter=3", "0.5, v=1.5", "0.5, v=-1",
        "f32([1.0]), 2", "0.5, v=1, n_iter=0", "c64(1), v=1",
    ]),
    ("sph_harm_y", [
        "i32([2, 3]), i32([-1, -3]), f32([0.4, 0.5]), f32([1.1, 2.0])",
        "i32([0]), i32([0]), f32([0.4]), f32([1.1])", "f32([2]), f32([1]), f32([0.4]), f32([1.1])",
        "i32([2]), i32([1]), f32([0.4]), f32([1.1]), diff_n=1",
        "i32([2, 1]), i32([1]), f32([0.4]), f32([1.1])", "i32([2]), i32([1]), i32([1]), i32([1])",
    ]),
    ("logsumexp", [
        "2", "i32([1, 2])", "f32(0)", "[1.0]", "c64(3)", "f32(2), axis=3", "f32(3), where=b1(3)",
        "f32(3), b=-1.0", "f32([np.inf, 1.0])", "f32([-np.inf, -np.inf])",
    ]),
    ("softmax log_softmax", [
        "2", "bf16(3)", "f32(2, 3), axis=(0, 1)", "f32(2), axis=3", "[1.0]", "f32(0)", "f32(2), 0",
    ]),
]

SPREAD = "f32([-1.0, 0.0, 0.3, 1.0, 2.0, -np.inf])"
COUNTS = "i32([-1, 0, 1, 2, 4, 9])"
UNIT = "f32([-0.5, 0.0, 0.25, 0.5, 1.0, 1.5])"
# module: functions, first operands of all but quantiles, the parameters, loc and scale
DENSITIES = {
    "bernoulli": ("pmf logpmf", COUNTS, "0.3", "1"),
    "beta": ("pdf logpdf cdf sf logcdf logsf", SPREAD, "2.0, 1.5", "0.1, 2"),
    "betabinom": ("pmf logpmf", COUNTS, "5, 1.5, 2.0", "1"),
    "binom": ("pmf logpmf", COUNTS, "5, 0.3", "1"),
    "cauchy": ("pdf logpdf cdf sf logcdf logsf ppf isf", SPREAD, "", "0.1, 2"),
    "chi2": ("pdf logpdf cdf sf logcdf logsf", SPREAD, "3.0", "0.1, 2"),
    "expon": ("pdf logpdf cdf sf logcdf logsf ppf", SPREAD, "", "0.1, 2"),
    "gamma": ("pdf logpdf cdf sf logcdf logsf", SPREAD, "2.5", "0.1, 2"),
    "gennorm": ("pdf logpdf cdf", SPREAD, "1.5", ""),
    "geom": ("pmf logpmf", COUNTS, "0.3", "1"),
    "gumbel_l": ("pdf logpdf cdf sf logcdf logsf ppf", SPREAD, "", "0.1, 2"),
    "gumbel_r": (
        "pdf logpdf cdf sf logcdf logsf ppf", "f32([-1.0, 0.0, 0.3, 2.0, np.inf])", "", "0.1, 2",
    ),
    "laplace": ("pdf logpdf cdf", SPREAD, "", "0.1, 2"),
    "logistic": ("pdf logpdf cdf sf ppf isf", SPREAD, "", "0.1, 2"),
    "nbinom": ("pmf logpmf", COUNTS, "5, 0.3", "1"),
    "norm": ("pdf logpdf cdf sf logcdf logsf ppf isf", SPREAD, "", "0.1, 2"),
    "pareto": ("pdf logpdf cdf sf logcdf logsf ppf", SPREAD, "2.0", "0.1, 2"),
    "poisson": ("pmf logpmf cdf", COUNTS, "2.5", "1"),
    "t": ("pdf logpdf", SPREAD, "3.0", "0.1, 2"),
    "truncnorm": ("pdf logpdf cdf sf logcdf logsf", SPREAD, "-1.0, 2.0", "0.1, 2"),
    "uniform": ("pdf logpdf cdf ppf", SPREAD, "", "0.1, 2"),
    "vonmises": ("pdf logpdf", "f32([-1.0, 0.0, 3.0, np.nan])", "2.0", ""),
    "wrapcauchy": ("pdf logpdf", SPREAD, "0.5", ""),
}


def rows(module: str) -> list[str]:
    """Calls of every function: spread values, moved and scaled, scalars, halves, errors."""
    functions, values, given, moved = DENSITIES[module]
    found = []
    for f in functions.split():
        name, x = f"scipy.stats.{module}.{f}", UNIT if f in ("ppf", "isf") else values
        first = "0.25" if f in ("ppf", "isf") else "1"
        more = f", {given}" if given else ""
        place = f", {moved}" if moved else ""
        found += [
            f"{name}({x}{more})", f"{name}({x}{more}{place})", f"{name}({first}{more})",
            f"{name}(f32(0){more})", f"{name}([1.0]{more})", f"{name}(f16([0.5]){more})",
        ]
    return found


def of(name: str, *arguments: str) -> tuple[str, list[str]]:
    """Calls of one name, and what is in the result."""
    return name, [f"{name}({a})" for a in arguments]


def within(name: str, *calls: str) -> tuple[str, list[str]]:
    """Calls of functions of one module."""
    return name, [f"{name}.{c}" for c in calls]


STATS = [
    *[(f"scipy.stats.{module}", rows(module)) for module in DENSITIES],
    within(
        "scipy.stats.bernoulli", f"cdf({SPREAD}, 0.3)", f"ppf({UNIT}, 0.3)", "cdf(1, 2.0)",
        "ppf(0.5, 0.5)", "cdf([1], 0.3)",
    ),
    within(
        "scipy.stats.poisson", "entropy(f32([0.0, 0.5, 5.0, 20.0, 200.0]))", "entropy(-1.0)",
        "entropy(3)", "entropy(5.0, 1)", "entropy(f32(0))",
    ),
    within(
        "scipy.stats.dirichlet", "logpdf(f32([0.2, 0.3]), f32([1, 2, 3]))",
        "logpdf(f32([[0.2, 0.3], [0.3, 0.7], [0.5, 0.0]]), f32([1, 2, 3]))",
        "pdf(f32([0.2, 0.3, 0.6]), f32([1, 2, 3]))", "pdf(f32([0.2, 0.3, 0.5]), f32([[1, 2, 3]]))",
        "pdf(0.5, 1.0)", "pdf([0.5], [1.0])", "pdf(f32([[0.2, 0.3, 0.5]]), f32([1, 2, 3]))",
    ),
    within(
        "scipy.stats.multinomial", "pmf(i32([1, 2, 0]), 4, f32([0.2, 0.3, 0.5]))",
        "pmf(i32([1, 2, 0]), 3.0, f32([0.2, 0.3, 0.5]))", "pmf(f32([1, 2]), 3, f32([0.2, 0.8]))",
        "logpmf(i32([1, 2, 0]), i32([3, 2]), f32([0.2, 0.8, 0.0]))", "logpmf([1], 1, f32([1.0]))",
    ),
    within(
        "scipy.stats.multivariate_normal", "logpdf(f32([1, 2]), 0.0, 1.0)", "logpdf(1.0, 0.0, 2.0)",
        "logpdf(f32([1, 2]), f32([0, 0]), 2.0)", "logpdf(f32([1, 2]), f32([0, 0]), f32([2.0]))",
        "logpdf(f32(3, 2), f32(2), spd('f32', 2))", "logpdf(f32(2), f32(2), f32(2, 3))",
        "logpdf(f32(2), f32(3), spd('f32', 2))",
        "pdf(i32([1, 2]), i32([0, 0]), i32([[1, 0], [0, 2]]))",
        "logpdf(f32(2), f32(2), spd('f32', 2), allow_singular=True)", "logpdf([1.0], 0.0, 1.0)",
        "logpdf(f32(2), f32(2), jnp.stack([spd('f32', 2)] * 3))",
    ),
    of(
        "scipy.stats.mode", "f32([1, np.nan, np.nan])", "f32([1, 2]), nan_policy='omit'", "f32(0)",
        "5", "f32(2), axis=2", "[1, 2]", "f32(2), nan_policy='odd'", "b1([1, 0, 1])", "f32(0, 3)",
        "f32(3, 0)", "f32(1, 2), axis=None, keepdims=True", "bf16([1, 1, 2])", "c64([1, 1])",
    ),
    of(
        "scipy.stats.rankdata", "f32([3, np.nan, 2])", "f32(2), nan_policy='omit'", "5", "[1, 2]",
        "f32(0)", "f32(2), axis=1", "bf16(3)", "i32(2, 3), method='min', axis=1",
        "i32(2, 3), 'ordinal'", "i32(4, 2), 'dense', axis=0", "f32(2), nan_policy='raise'",
    ),
    of(
        "scipy.stats.sem", "f32(2, 3), 1", "f32([1, np.nan, 4])", "i32([1, 2, 4])", "5", "[1, 2]",
        "f32([1, np.nan, 4]), nan_policy='omit'", "f32(2), nan_policy='odd'", "f32(0)", "f32(1)",
        "f32(3), keepdims=True", "f32(2, 2), axis=None, keepdims=True", "f32(2), axis=3", "bf16(4)",
        "c64(3)",
    ),
    ("scipy.stats.gaussian_kde", [
        "scipy.stats.gaussian_kde(f32(9)).covariance", "scipy.stats.gaussian_kde(f32(1))",
        "scipy.stats.gaussian_kde([1.0, 2.0])",
        "scipy.stats.gaussian_kde(f32(9), 'silverman').pdf(f32(3))",
        "scipy.stats.gaussian_kde(f32(9), weights=f32(9, kind='pos')).neff",
        "scipy.stats.gaussian_kde(f32(9), weights=f32(8, kind='pos'))",
        "scipy.stats.gaussian_kde(f32(9), 'odd')", "scipy.stats.gaussian_kde(c64(9))",
        "scipy.stats.gaussian_kde(f32(9)).integrate_box_1d(-1.0, 1.0)",
        "scipy.stats.gaussian_kde(f32(9)).integrate_gaussian(0.5, 2.0)",
        "scipy.stats.gaussian_kde(f32(2, 9)).integrate_kde(scipy.stats.gaussian_kde(f32(2, 8)))",
        "scipy.stats.gaussian_kde(f32(2, 9)).evaluate(f32(3, 4))",
        "scipy.stats.gaussian_kde(f32(9)).resample(key(1), (4,)).shape",
        "scipy.stats.gaussian_kde(f32(2, 9)).integrate_box_1d(-1.0, 1.0)",
        "scipy.stats.gaussian_kde(f32(9)).set_bandwidth(1.0)",
    ]),
]

CASES = [*calls("scipy.special", "scipy.special.", SPECIAL), *expressions("scipy.stats", STATS)]
