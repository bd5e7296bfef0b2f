"""`jax.scipy` and `jax.ops`: special functions, linear algebra, signals, densities, segments."""

# fmt: off

from .dsl import calls, expressions, over

ONE = [
    *over("f32 bf16 i32", "D(6, kind='pos')"), "f32(6, kind='prob')", "sp('f32')", "0.5", "c64(3)",
    "b1(2)", "[1.0]",
]
TWO = [
    "f32(5, kind='pos'), f32(5, kind='pos', s=1)", "f32(5), f32(5, s=1)",
    "i32(4, kind='pos'), f32(4, kind='pos')", "f32(2, 1, kind='pos'), f32(3, kind='pos')",
    "bf16(4, kind='pos'), bf16(4, kind='pos', s=1)", "2, 0.5", "0.0, 0.0", "f32(2), f32(3)",
    "[1.0], 2.0",
]
THREE = [
    "f32(4, kind='pos'), f32(4, kind='pos', s=1), f32(4, kind='prob')",
    "1.5, 2.0, f32(4, kind='prob')", "i32(3, kind='pos'), 2, 0.3",
]

SPECIAL = [
    ("digamma entr erf erfc erfcx erfinv expit gammaln i0 i0e i1 i1e logit loggamma", ONE),
    ("dawsn exp1 expi gamma gammasgn log_ndtr ndtr ndtri spence factorial wofz", ONE),
    ("fresnel sici", ["f32(6)", "f32([0.0, 5.0, 40.0, -3.0])", "i32(3)", "sp('f32')"]),
    (
        "beta betaln kl_div rel_entr xlogy xlog1py gammainc gammaincc poch boxcox boxcox1p owens_t",
        TWO,
    ),
    ("comb", [
        "5, 2", "f32([5, 6]), f32([2, 3])", "5, 2, repetition=True",
        "i32(3, kind='pos'), i32(3, kind='pos', s=1)",
    ]),
    ("zeta", ["f32(4, kind='ge1'), f32(4, kind='pos')", "f32([2.0, 3.5])", "2.0, 1.0"]),
    ("polygamma", ["1, f32(4, kind='pos')", "i32([0, 1, 2]), f32(3, kind='pos')"]),
    ("expn", ["2, f32(4, kind='pos')", "i32([0, 1, 5]), f32(3, kind='pos')", "f32(2), f32(2)"]),
    ("multigammaln", ["f32(4, kind='ge1') + 2, 2", "5.0, 3", "f32(2), 1.5"]),
    ("betainc hyp1f1", THREE),
    (
        "hyp2f1",
        ["1.0, 2.0, 3.0, f32(4, kind='prob')", "f32(3, kind='pos'), 0.5, 1.5, f32(3, kind='prob')"],
    ),
    ("bernoulli", ["5", "0", "1", "-1"]),
    ("bessel_jn", ["f32([0.5, 1.0, 3.0]), v=2", "f32([0.5, 1.0]), v=1, n_iter=20"]),
    ("sph_harm_y", [
        "i32([2]), i32([1]), f32([0.4]), f32([1.1]), n_max=3",
        "i32([1]), i32([0]), f32([0.4]), f32([1.1])",
        "i32([1, 3]), i32([1, -3]), f32([4.0, -0.5]), f32([1.1, 5.0])",
    ]),
    ("logsumexp", [
        "f32(2, 3)", "f32(2, 3), axis=0, keepdims=True", "f32(3), b=f32(3, s=1), return_sign=True",
    ]),
    ("softmax log_softmax", ["f32(2, 3)", "f32(2, 3), axis=0", "i32(3)"]),
]
LINALG = [
    ("block_diag", ["f32(2, 2), i32(1, 3)", "f32(2), 3.0", "", "f32(2, 2, 2)"]),
    ("cholesky", ["spd('f32', 3)", "spd('c64', 3), lower=True", "f32(2, 3)"]),
    ("cho_factor", ["spd('f32', 3)", "spd('f32', 3), lower=True"]),
    ("cho_solve", [
        "scipy.linalg.cho_factor(spd('f32', 3)), f32(3)",
        "(jnp.linalg.cholesky(spd('f32', 3)), True), f32(3, 2)",
    ]),
    ("circulant", ["f32(3)", "i32(2, 3)", "f32(1)"]),
    ("companion", ["f32([1, 2, 3, 4])", "f32([2, 4])", "f32(1)"]),
    (
        "convolution_matrix",
        ["f32(3), 4", "f32(3), 4, 'same'", "f32(3), 4, mode='valid'", "f32(3), 4, 'odd'"],
    ),
    ("det inv", ["mat('f32', 3)", "f32(2, 3)"]),
    ("dft", ["4", "4, 'sqrtn'", "3, 'n'"]),
    ("expm", [
        "f32(3, 3)", "mat('c64', 2)", "f32(3, 3) * 10",
        "jnp.triu(f32(3, 3)), upper_triangular=True", "f32(2, 3)", "i32(2, 2)", "f32(2, 2, 2)",
    ]),
    (
        "expm_frechet",
        ["f32(3, 3), f32(3, 3, s=1)", "f32(2, 2), f32(2, 2, s=1), compute_expm=False"],
    ),
    ("fiedler fiedler_companion", ["f32([1, 2, 5, 3])", "f32([1.0])", "f32(2, 2)"]),
    ("hadamard", ["4", "1", "8, 'float32'", "3"]),
    ("hankel toeplitz", ["f32(3)", "f32(3), f32(4)", "c64(2)", "i32(3), f32(2)"]),
    ("helmert", ["4", "3, full=True"]),
    ("hilbert invhilbert", ["3", "1"]),
    ("pascal invpascal", ["4", "3, 'lower'", "3, kind='upper'"]),
    ("leslie", ["f32([0.1, 2, 1, 0.1]), f32([0.2, 0.8, 0.7])", "f32(2), f32(2)"]),
    ("lu", ["mat('f32', 3)", "f32(3, 2), permute_l=True"]),
    ("lu_factor", ["mat('f32', 3)", "mat('c64', 3)"]),
    ("lu_solve", [
        "scipy.linalg.lu_factor(mat('f32', 3)), f32(3)",
        "scipy.linalg.lu_factor(mat('f32', 3)), f32(3, 2), trans=1",
    ]),
    ("polar", ["mat('f32', 3)", "mat('f32', 3), side='left'", "mat('f32', 3), method='svd'"]),
    ("solve", [
        "mat('f32', 3), f32(3)", "spd('f32', 3), f32(3, 2), assume_a='pos'",
        "mat('f32', 3), f32(3), assume_a='odd'",
    ]),
    ("solve_triangular", [
        "spd('f32', 3), f32(3)", "spd('f32', 3), f32(3, 2), lower=True",
        "spd('c64', 3), f32(3), trans='C'", "spd('f32', 3), f32(3), 1, unit_diagonal=True",
    ]),
    ("solve_sylvester", ["spd('f32', 3), spd('f32', 2), f32(3, 2)"]),
    ("sqrtm", ["spd('f32', 3)"]),
    ("funm", ["spd('f32', 3), jnp.exp"]),
    ("qr", ["mat('f32', 3)", "mat('f32', 3), mode='r'", "mat('f32', 4, 2), mode='economic'"]),
    ("qr_multiply", ["mat('f32', 3), f32(3, 3)"]),
    ("svd", ["mat('f32', 3), compute_uv=False"]),
    ("eigh", ["spd('f32', 3), eigvals_only=True"]),
    ("eigh_tridiagonal", [
        "f32([1, 2, 3]), f32([0.5, 0.2]), eigvals_only=True",
        "f32([1, 2, 3]), f32([0.5, 0.2]), eigvals_only=True, select='i', select_range=(0, 1)",
    ]),
    ("hessenberg", ["mat('f32', 3)"]),
    ("schur", ["f32(2, 3)", "jnp.triu(mat('f32', 3))"]),
    ("rsf2csf", ["jnp.triu(mat('f32', 3)), jnp.eye(3)"]),
]
MODES = [f"mode='{m}'" for m in ("full", "same", "valid", "odd")]
SIGNAL = [
    (
        "convolve correlate",
        [f"f32(7), f32(3), {m}" for m in MODES]
        + [
            "f32(3, 4), f32(2, 2)", "i32(4), i32(2)", "f32(7), f32(3), method='fft'",
            "c64(4), c64(2)", "f32(3), f32(2, 2)",
        ],
    ),
    (
        "convolve2d correlate2d",
        [f"f32(4, 5), f32(2, 3), {m}" for m in MODES]
        + ["i32(3, 3), i32(2, 2)", "f32(3), f32(2)", "f32(2, 2), f32(3, 3), 'valid'"],
    ),
    (
        "fftconvolve",
        [f"f32(7), f32(3), {m}" for m in MODES]
        + ["f32(3, 4), f32(3, 2), axes=1", "c64(4), c64(2)"],
    ),
    (
        "detrend",
        ["f32(8)", "f32(8), type='constant'", "f32(2, 8), axis=1, bp=4", "f32(8), type='odd'"],
    ),
    ("stft", [
        "f32(32), nperseg=8", "f32(32), nperseg=8, noverlap=2, window='boxcar'",
        "f32(32), 2.0, nperseg=8, padded=False, boundary=None",
    ]),
    ("istft", ["scipy.signal.stft(f32(32), nperseg=8)[2], nperseg=8"]),
    ("welch", ["f32(32), nperseg=8", "f32(32), nperseg=8, scaling='spectrum', detrend=False"]),
    ("csd", ["f32(32), f32(32, s=1), nperseg=8"]),
]
POSITIVE = "f32(4, kind='pos')"
DENSITIES = {
    "bernoulli": ("pmf logpmf cdf", "i32([0, 1, 2]), 0.3"),
    "beta": ("pdf logpdf cdf sf logcdf", "f32(4, kind='prob'), 2.0, 1.5"),
    "betabinom": ("pmf logpmf", "i32([0, 2, 3]), 5, 1.5, 2.0"),
    "binom": ("pmf logpmf", "i32([0, 2, 6]), 5, 0.3"),
    "cauchy": ("pdf logpdf cdf sf ppf isf", "f32(4, kind='prob')"),
    "chi2": ("pdf logpdf cdf sf logcdf", f"{POSITIVE}, 3.0"),
    "dirichlet": ("pdf logpdf", "f32([0.2, 0.3, 0.5]), f32([1, 2, 3])"),
    "expon": ("pdf logpdf cdf sf ppf", "f32(4, kind='prob'), 0.1, 2.0"),
    "gamma": ("pdf logpdf cdf sf logcdf", f"{POSITIVE}, 2.5"),
    "gennorm": ("pdf logpdf cdf", "f32(4), 1.5"),
    "geom": ("pmf logpmf", "i32([0, 1, 4]), 0.3"),
    "gumbel_l": ("pdf logpdf cdf sf ppf", "f32(4, kind='prob')"),
    "gumbel_r": ("pdf logpdf cdf sf ppf", "f32(4, kind='prob')"),
    "laplace": ("pdf logpdf cdf", "f32(4), 0.5, 2.0"),
    "logistic": ("pdf logpdf cdf sf ppf", "f32(4, kind='prob')"),
    "multinomial": ("pmf logpmf", "i32([1, 2, 0]), 3, f32([0.2, 0.3, 0.5])"),
    "multivariate_normal": ("pdf logpdf", "f32(2, 3), f32(3), spd('f32', 3)"),
    "nbinom": ("pmf logpmf", "i32([0, 2]), 5, 0.3"),
    "norm": ("pdf logpdf cdf logcdf sf logsf ppf isf", "f32(4, kind='prob'), 0.1, 2.0"),
    "pareto": ("pdf logpdf cdf sf ppf", "f32(4, kind='ge1'), 2.0"),
    "poisson": ("pmf logpmf cdf", "i32([0, 2, 5]), 2.5"),
    "t": ("pdf logpdf", "f32(4), 3.0"),
    "truncnorm": ("pdf logpdf cdf sf", "f32(4), -1.0, 2.0"),
    "uniform": ("pdf logpdf cdf ppf", "f32(4, kind='prob'), 0.2, 0.5"),
    "vonmises": ("pdf logpdf", "f32(4), 2.0"),
    "wrapcauchy": ("pdf logpdf", "f32(4, kind='pos'), 0.5"),
}
STATS = [
    *[
        (
            f"scipy.stats.{m}",
            [f"scipy.stats.{m}.{f}({args})" for f in fs.split()]
            + [f"scipy.stats.{m}.{fs.split()[0]}('a', 1, 1)"],
        )
        for m, (fs, args) in DENSITIES.items()
    ],
    ("scipy.stats.mode", [
        "scipy.stats.mode(i32(7))", "scipy.stats.mode(i32(3, 4), axis=1, keepdims=True)",
        "scipy.stats.mode(f32(3, 2), axis=None)",
    ]),
    ("scipy.stats.rankdata", [
        f"scipy.stats.rankdata(i32(7), method='{m}')"
        for m in "average min max dense ordinal odd".split()
    ]
    + ["scipy.stats.rankdata(f32(2, 3), axis=1)"],
),
(
    "scipy.stats.sem",
    ["scipy.stats.sem(f32(3, 4))", "scipy.stats.sem(f32(3, 4), axis=None, ddof=0)"],
),
(
    "scipy.stats.gaussian_kde",
    [
        "scipy.stats.gaussian_kde(f32(9)).evaluate(f32(3))",
        "scipy.stats.gaussian_kde(f32(2, 9), bw_method=0.5).logpdf(f32(2, 3))",
    ]),
]
SEGMENT = [
    "f32(6), i32([0, 0, 1, 2, 2, 2])", "f32(6), i32([0, 0, 1, 2, 2, 2]), 5",
    "f32(6, 2), i32([2, 0, 1, 9, 2, -1]), num_segments=3",
    "i32(6), i32([0, 0, 1, 2, 2, 2]), 4, indices_are_sorted=True",
    "f32(6), i32([0, 0, 1, 2, 2, 2]), 3, bucket_size=2",
    "f32(4), i32([0, 5, 1, 1]), 3, mode='clip'", "f32(4), i32([0, 1]), 3",
]

CASES = [
    *calls("scipy.special", "scipy.special.", SPECIAL),
    *calls("scipy.linalg", "scipy.linalg.", LINALG),
    *calls("scipy.signal", "scipy.signal.", SIGNAL), *expressions("scipy.stats", STATS),
    *calls("ops", "ops.", [("segment_sum segment_prod segment_max segment_min", SEGMENT)]),
]
