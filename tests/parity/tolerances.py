"""How far a value may be from the reference, by name.

In: the name of a case. Out: its `Tolerance`. Integers, booleans and whatever is no float compare
exactly, always. EXACT says that there is one right answer; SUMMED and SOLVED measure against the
largest element, because the order of a sum is free; WIDE functions are approximations in the
reference itself, whose own error against its float64 is of that size.
"""

import fnmatch
import functools

from .compare import Tolerance

EXACT = Tolerance(ulp=0)
CLOSE = Tolerance(ulp=4)
SUMMED = Tolerance(ulp=8, norm=True, floor=1.0, zero_sign=False)
SOLVED = Tolerance(ulp=64, norm=True, floor=1.0, zero_sign=False)
ITERATED = Tolerance(ulp=1024, norm=True, floor=1.0, zero_sign=False)
WIDE = Tolerance(ulp=16)
CANCELLING = Tolerance(ulp=16, floor=1.0, zero_sign=False)
APPROXIMATE = Tolerance(ulp=64, floor=1.0, zero_sign=False)

EXACT_NAMES = """
    abs absolute add sub subtract mul multiply neg negative positive sign signbit fabs square real
    imag conj conjugate max min maximum minimum fmax fmin amax amin ptp floor ceil trunc rint
    copysign nextafter spacing ldexp frexp modf clip clamp where select select_n choose sqrt div
    reciprocal rem fmod relu relu6 hard_tanh sort argsort partition sort_complex top_k take
    take_along_axis reshape ravel transpose permute_dims swapaxes moveaxis rollaxis squeeze
    expand_dims broadcast* concat* stack hstack vstack dstack column_stack append block *split
    unstack tile repeat flip* rot90 roll rev pad tril triu diag* fill_diagonal put* place delete
    insert resize trim_zeros compress extract unique* *1d zeros* ones* full* empty* eye identity
    array asarray astype convert_element_type bitcast_convert_type copy reduce_max reduce_min
    reduce_precision cummax cummin gather scatter slice* *dynamic* index* concatenate nan_to_num
    one_hot random.bits random.split random.fold_in random.uniform random.randint
    random.permutation random.choice random.categorical random.bernoulli random.rademacher
    lax.full lax.iota lax.square segment_max segment_min nanmax nanmin arange
    jax.Array.__getitem__
"""
SUMMED_NAMES = """
    sum nansum mean nanmean var std nanvar nanstd prod nanprod average cumsum cumprod cumulative_*
    nancumsum nancumprod reduce_sum reduce_prod reduce_window reduce trace trapezoid dot
    dot_general batch_matmul ragged_dot* matmul shard_map inner outer vdot vecdot matvec vecmat
    tensordot
    kron cross einsum convolve* correlate* fftconvolve conv* cov corrcoef poly* fft* *fft *fft2
    *fftn interp gradient multi_dot norm vector_norm matrix_norm associative_scan scan
    jax.Array.dot scatter_add scatter_mul segment_sum segment_prod logsumexp cumlogsumexp
    logmeanexp standardize dot_product_attention scaled_dot* scaled_matmul stft istft welch csd
    detrend jax.image.resize random.ball random.dirichlet histogram* percentile nanpercentile
    quantile nanquantile median nanmedian digitize unwrap glorot_* he_* lecun_* kaiming_* xavier_*
    variance_scaling circulant dft jax.vmap jax.linear_transpose softmax log_softmax linspace
    bartlett blackman hamming hanning kaiser
"""
SOLVED_NAMES = """
    inv det slogdet solve lstsq pinv svd svdvals eig eigh eigvals eigvalsh cholesky* qr* lu* cond
    matrix_power matrix_rank tensorinv tensorsolve roots polyfit triangular_solve schur hessenberg
    householder_product ormqr tridiagonal* symmetric_product qdwh polar sqrtm expm* solve_*
    cho_* rsf2csf eigh_tridiagonal random.orthogonal random.multivariate_normal orthogonal
    delta_orthogonal multivariate_normal gaussian_kde jax.grad jax.jvp jax.vjp jax.jac*
    jax.hessian jax.checkpoint jax.linearize jax.value_and_grad custom_root invhilbert invpascal
"""
WIDE_NAMES = """
    lgamma digamma erf_inv erf erfc bessel_i0e bessel_i1e i0 sinc log1mexp power pow float_power
    random.truncated_normal geomspace logspace acos* acosh arccosh asin* asinh arcsinh
    atanh arctanh expm1 tan cbrt gelu mish log_sigmoid softplus silu selu celu elu sinh
    random.exponential random.gumbel random.laplace random.logistic random.cauchy random.lognormal
    random.pareto random.rayleigh random.weibull_min random.triangular random.maxwell
    random.double_sided_maxwell truncated_normal
"""
CANCELLING_NAMES = """
    lgamma digamma gelu silu swish mish log1mexp sinh logaddexp logaddexp2 logexpm1
    jax.nn.initializers.truncated_normal random.truncated_normal nn.logsumexp nn.softplus
    log_sigmoid
"""
APPROXIMATE_NAMES = """
    igamma* betainc zeta polygamma random_gamma_grad scipy.special.* scipy.stats.* random.gamma
    random.loggamma random.beta random.chisquare random.t random.f random.wald
    random.generalized_normal random.poisson random.binomial
"""
# First match wins.
RULES = [
    (pattern, tolerance)
    for names, tolerance in (
        ("jnp.linalg.outer jnp.floor_divide", CLOSE),
        ("jax.image.* scipy.fft.* scipy.ndimage.* scipy.interpolate.* scipy.cluster.*", SUMMED),
        ("scipy.integrate.* scipy.spatial.*", SUMMED),
        # Both end where they are close enough, not at the same place.
        ("scipy.sparse.* scipy.optimize.* jax.experimental.ode.*", ITERATED),
        # The reference takes factorials by logarithms.
        ("jet.def_*", APPROXIMATE),
        ("div divide true_divide", Tolerance(ulp=1)),
        ("cosh exp2", Tolerance(ulp=32)),  # the reference loses digits where e^x is large
        ("standardize", Tolerance(ulp=128, floor=1.0, zero_sign=False)),
        # An exponential multiplies the error of the largest eigenvalue by that eigenvalue.
        ("funm", Tolerance(ulp=256, norm=True, floor=1.0, zero_sign=False)),
        (CANCELLING_NAMES, CANCELLING),
        ("random.normal", Tolerance(ulp=2)),
        (APPROXIMATE_NAMES, APPROXIMATE),
        (EXACT_NAMES, EXACT),
        (SUMMED_NAMES, SUMMED),
        (SOLVED_NAMES, SOLVED),
        (WIDE_NAMES, WIDE),
    )
    for pattern in names.split()
]


@functools.cache
def tolerance_for(name: str) -> Tolerance:
    """The tolerance of a public name; a pattern without a dot is for its last part."""
    last = name.rpartition(".")[2]
    for pattern, tolerance in RULES:
        if fnmatch.fnmatchcase(name if "." in pattern else last, pattern):
            return tolerance
    return CLOSE
