"""gpuarray.nn against formulas in float64: values, dtypes, shapes, errors, and how many kernels."""

import math

import numpy as np
import pytest
from scipy import special

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, random
from gpuarray.nn import initializers as init

X = np.array([-30.0, -6.5, -3.0, -1.0, -0.75, -0.0, 0.0, 0.25, 0.5, 1.0, 2.5, 3.0, 6.5, 30.0])

FORMULAS = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(x, 0),
    "log_sigmoid": special.log_expit,
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "silu": lambda x: x * special.expit(x),
    "swish": lambda x: x * special.expit(x),
    "hard_silu": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "log1mexp": lambda x: np.log1p(-np.exp(-x)),
}
#: Ends where two nearly equal numbers are subtracted: only the absolute error is small there.
ABSOLUTE = {"squareplus": 2e-6, "gelu": 1e-6}


def f64(x) -> np.ndarray:
    return np.asarray(x).astype(np.float64)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(
    "dtype, digits", [("float32", 2e-6), ("bfloat16", 0.03), ("float16", 0.005)]
)
def test_activation(name, dtype, digits):
    x = gnp.asarray(abs(X) + 0.5 if name == "log1mexp" else X, dtype=dtype)
    out = getattr(nn, name)(x)
    assert (out.dtype, out.shape, out.weak_type) == (x.dtype, x.shape, False)
    expected = FORMULAS[name](f64(x))
    eps = float(gnp.finfo(dtype).eps)
    absolute = ABSOLUTE.get(name, 1e-37) if dtype == "float32" else 30 * eps
    np.testing.assert_allclose(f64(out), expected, digits, absolute)


@pytest.mark.parametrize("name", FORMULAS)
def test_activation_under_jit_and_on_empty(name):
    f = getattr(nn, name)
    x = gnp.asarray(abs(X) + 1.0, dtype="float32")
    np.testing.assert_allclose(ga.jit(f)(x), f(x), 1e-6)
    assert f(gnp.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(TypeError, match="list"):
        f([1.0])


@pytest.mark.parametrize(
    "call, x, dtype, weak",
    [
        (nn.relu, "int", "int32", False),
        (nn.relu, "bool", "int32", True),
        (nn.relu, 2, "int32", True),
        (nn.relu6, "int", "float32", True),
        (nn.hard_tanh, "int", "int32", False),
        (nn.hard_tanh, "bool", "int32", True),
        (nn.leaky_relu, "int", "float32", True),
        (nn.elu, "int", "float32", True),
        (nn.celu, "bool", "float32", True),
        (nn.selu, 2.0, "float32", True),
        (nn.sparse_plus, "int", "float32", True),
        (nn.sparse_sigmoid, 2, "float32", True),
        (nn.hard_silu, "int", "float32", True),
        (nn.squareplus, "int", "float32", False),
        (nn.soft_sign, "bool", "float32", True),
        (nn.softplus, "int", "float32", False),
        (nn.mish, 2, "float32", True),
        (nn.gelu, 2.0, "float32", False),
        (nn.gelu, "int", "float32", False),
        (lambda x: nn.gelu(x, approximate=False), "int", "float32", False),
        (nn.identity, "bool", "bool", False),
        (nn.sigmoid, "complex", "complex64", False),
        (nn.silu, "complex", "complex64", False),
    ],
)
def test_dtype_and_weak_type(call, x, dtype, weak):
    arrays = {
        "int": gnp.arange(4),
        "bool": gnp.arange(4) > 2,
        "complex": gnp.ones(4, "complex64"),
    }
    out = call(arrays.get(x, x) if isinstance(x, str) else x)
    assert (out.dtype.name, out.weak_type) == (dtype, weak)


def test_exact_gelu():
    x = gnp.asarray(X, dtype="float32")
    expected = X * special.ndtr(X)
    np.testing.assert_allclose(nn.gelu(x, approximate=False), expected, 1e-5, 1e-37)


def test_parameters_of_activations_broadcast():
    x = gnp.array([[-1.0, 2.0], [-3.0, 4.0]])
    slopes = gnp.array([0.5, 0.25])
    np.testing.assert_array_equal(nn.leaky_relu(x, slopes), [[-0.5, 2.0], [-1.5, 4.0]])
    for f, alpha in (
        (nn.elu, lambda a, x: a * np.expm1(x)),
        (nn.celu, lambda a, x: a * np.expm1(x / a)),
    ):
        out = f(x, slopes)
        np.testing.assert_allclose(out[:, 0], alpha(0.5, np.array([-1.0, -3.0])), 1e-6)
    np.testing.assert_allclose(nn.squareplus(gnp.array([3.0]), 16.0), [4.0])


def test_large_inputs_stay_finite():
    x = gnp.array([1e4, -1e4])
    np.testing.assert_array_equal(nn.elu(x), [1e4, -1])
    np.testing.assert_array_equal(nn.softplus(x), [1e4, 0])
    np.testing.assert_array_equal(nn.log_sigmoid(x), [0, -1e4])
    np.testing.assert_array_equal(nn.silu(x), [1e4, -0.0])


@pytest.mark.parametrize("name", ["sigmoid", "silu"])
def test_logistic_takes_floats(name):
    with pytest.raises(TypeError, match="logistic does not accept dtype int32"):
        getattr(nn, name)(gnp.arange(3))


def test_glu():
    x = np.arange(8.0, dtype=np.float32).reshape(2, 4) - 4
    expected = x[:, :2] * special.expit(x[:, 2:])
    np.testing.assert_allclose(nn.glu(gnp.asarray(x)), expected, 1e-6)
    np.testing.assert_allclose(nn.glu(gnp.asarray(x), axis=0), x[:1] * special.expit(x[1:]), 1e-6)
    with pytest.raises(AssertionError, match="axis size must be divisible by 2"):
        nn.glu(gnp.ones(3))
    with pytest.raises(IndexError, match="axis 2 is out of bounds"):
        nn.glu(gnp.ones((2, 4)), axis=2)
    with pytest.raises(IndexError):
        nn.glu(1.0)


# ---- whole axes ----


@pytest.fixture
def x(rng):
    return rng.normal(size=(3, 4, 5)).astype(np.float32) * 3


@pytest.fixture
def mask(rng):
    mask = rng.random((3, 4, 5)) < 0.6
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("axis", [-1, 0, 1, (0, 2), None, ()])
def test_softmax(x, mask, axis):
    wide = x.astype(np.float64)
    e = np.exp(wide)
    np.testing.assert_allclose(nn.softmax(x, axis), e / e.sum(axis, keepdims=True), 2e-6)
    log = np.log(e / e.sum(axis, keepdims=True))
    np.testing.assert_allclose(nn.log_softmax(x, axis), log, 1e-5, 1e-6)
    if axis == ():
        return
    e = np.where(mask, e, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.where(mask, e / e.sum(axis, keepdims=True), 0)
        log = np.log(expected)
    np.testing.assert_allclose(nn.softmax(x, axis, where=mask), expected, 2e-6)
    np.testing.assert_allclose(nn.log_softmax(x, axis, where=mask), log, 1e-5, 1e-6)


def test_softmax_of_extremes():
    np.testing.assert_array_equal(nn.softmax(gnp.array([1e38, 0.0, -1e38])), [1, 0, 0])
    np.testing.assert_array_equal(nn.log_softmax(gnp.array([0.0, -1e38])), [0, np.float32(-1e38)])
    np.testing.assert_array_equal(nn.softmax(gnp.array([-np.inf, 0.0])), [0, 1])
    assert np.isnan(nn.softmax(gnp.array([-np.inf, -np.inf]))).all()
    assert nn.softmax(gnp.zeros((2, 0))).shape == (2, 0)
    nothing = nn.softmax(gnp.ones(3), where=gnp.zeros(3, bool))
    np.testing.assert_array_equal(nothing, [0, 0, 0])


def test_softmax_dtypes_and_errors():
    out = nn.softmax(gnp.arange(4))
    np.testing.assert_allclose(out, np.exp(np.arange(4.0)) / np.exp(np.arange(4.0)).sum(), 1e-6)
    assert out.dtype == np.float32
    assert nn.softmax(gnp.ones(4, "bfloat16")).dtype == gnp.bfloat16
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        nn.softmax(gnp.ones((2, 2)), axis=2)
    with pytest.raises(ValueError, match="where must be None or a boolean array"):
        nn.softmax(gnp.ones(2), where=gnp.ones(2))
    with pytest.raises(TypeError, match="sub does not accept dtype bool"):
        nn.softmax(gnp.ones(2) > 0)
    for f in (nn.softmax, nn.log_softmax, nn.logsumexp, nn.logmeanexp, nn.standardize):
        with pytest.raises(TypeError, match="requires ndarray or scalar arguments"):
            f([1.0])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(x, mask, axis, keepdims):
    wide = x.astype(np.float64)
    expected = special.logsumexp(wide, axis, keepdims=keepdims)
    np.testing.assert_allclose(nn.logsumexp(x, axis, keepdims=keepdims), expected, 2e-6, 1e-6)
    with np.errstate(divide="ignore"):
        masked = np.log(np.sum(np.exp(wide), axis, where=mask, keepdims=keepdims))
        counts = np.log(np.sum(mask, axis, keepdims=keepdims))
    out = nn.logsumexp(x, axis, keepdims=keepdims, where=mask)
    np.testing.assert_allclose(out, masked, 1e-5, 1e-6)
    count = np.log(np.mean(np.exp(wide), axis, keepdims=keepdims))
    out = nn.logmeanexp(x, axis, keepdims=keepdims)
    np.testing.assert_allclose(out, count, 1e-5, 1e-6)
    out = nn.logmeanexp(x, axis, mask, keepdims)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(out, masked - counts, 1e-5, 1e-6)


def test_weighted_logsumexp(x):
    b = np.linspace(-1, 2, 5)
    wide, sign = special.logsumexp(x.astype(np.float64), -1, b=b, return_sign=True)
    out, out_sign = nn.logsumexp(x, -1, b=gnp.asarray(b, dtype="float32"), return_sign=True)
    np.testing.assert_allclose(out, wide, 1e-4, 1e-5)
    np.testing.assert_array_equal(out_sign, sign)
    negative = nn.logsumexp(gnp.array([0.0, 1.0]), b=gnp.array([1.0, -1.0]))
    assert np.isnan(negative)
    # A weight of 0 hides its term, however large.
    assert float(nn.logsumexp(gnp.array([0.0, np.inf]), b=gnp.array([1.0, 0.0]))) == 0.0


def test_logsumexp_of_extremes():
    inf = np.inf
    for values, expected in [
        ([inf, 0.0], inf),
        ([-inf, -inf], -inf),
        ([inf, -inf], inf),
        ([1e4, 1e4], 1e4 + math.log(2)),
        ([], -inf),
    ]:
        assert float(nn.logsumexp(gnp.asarray(values, dtype="float32"))) == np.float32(expected)
    assert np.isnan(nn.logsumexp(gnp.array([np.nan, 1.0])))
    z = np.array([1 + 2j, -1j, 0.5])
    out = nn.logsumexp(gnp.asarray(z, dtype="complex64"))
    np.testing.assert_allclose(out, np.log(np.exp(z).sum()), 1e-6)


@pytest.mark.parametrize("algorithm", ["fast", "stable"])
def test_standardize(x, mask, algorithm):
    wide = x.astype(np.float64)
    for axis in (-1, 0, (0, 2), None):
        expected = (wide - wide.mean(axis, keepdims=True)) / np.sqrt(
            wide.var(axis, keepdims=True) + 1e-5
        )
        out = nn.standardize(x, axis, algorithm=algorithm)
        np.testing.assert_allclose(out, expected, 1e-4, 1e-5)
    mean = wide.mean(-1, keepdims=True, where=mask)
    square = np.square(wide - mean).mean(-1, keepdims=True, where=mask)
    out = nn.standardize(x, where=mask, epsilon=0.25, algorithm=algorithm)
    np.testing.assert_allclose(out, (wide - mean) / np.sqrt(square + 0.25), 1e-4, 1e-5)
    out = nn.standardize(x, mean=0.5, variance=4.0, epsilon=0.0, algorithm=algorithm)
    np.testing.assert_allclose(out, (wide - 0.5) / 2, 1e-5, 1e-6)


def test_standardize_errors_and_far_means():
    with pytest.raises(ValueError, match="Unknown algorithm 'odd'"):
        nn.standardize(gnp.ones(3), algorithm="odd")
    with pytest.raises(IndexError, match="out of bounds"):
        nn.standardize(gnp.ones(3), axis=1)
    with pytest.raises(TypeError, match="standardize requires ndarray"):
        nn.standardize(gnp.ones(3), mean=[1.0])
    far = gnp.asarray(1e4 + np.arange(8.0), dtype="float32")
    expected = (np.arange(8) - 3.5) / np.sqrt(5.25 + 1e-5)
    np.testing.assert_allclose(nn.standardize(far, algorithm="stable"), expected, 1e-6)


def test_softmax_and_layer_norm_are_one_kernel():
    x = gnp.ones((64, 512))
    for f in (nn.softmax, nn.log_softmax, nn.standardize, lambda x: nn.logsumexp(x, -1)):
        assert ga.explain(f)(x).launches == 1


# ---- one_hot ----


@pytest.mark.parametrize(
    "x, n, options, expected",
    [
        ([0, 2], 3, {}, [[1, 0, 0], [0, 0, 1]]),
        ([0, 2], 3, {"axis": 0}, [[1, 0], [0, 0], [0, 1]]),
        ([-1, 5], 3, {}, [[0, 0, 0], [0, 0, 0]]),
        (1, 2, {}, [0, 1]),
        (np.zeros(0, int), 2, {}, np.zeros((0, 2))),
        ([0, 1], 0, {}, np.zeros((2, 0))),
        ([[1], [0]], 2, {"axis": 1}, [[[0], [1]], [[1], [0]]]),
    ],
)
def test_one_hot(x, n, options, expected):
    out = nn.one_hot(x, n, **options)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, expected)


def test_one_hot_of_floats_is_deprecated():
    with pytest.warns(DeprecationWarning, match="one_hot input should be integer-typed"):
        assert nn.one_hot(2.0, 3).tolist() == [0, 0, 1]


def test_one_hot_dtypes_and_errors():
    i = gnp.arange(3)
    assert nn.one_hot(i, 3, dtype=gnp.bfloat16).dtype == gnp.bfloat16
    assert nn.one_hot(i, 3, dtype="int8").dtype == np.int8
    np.testing.assert_array_equal(ga.jit(lambda x: nn.one_hot(x, 3))(i), np.eye(3))
    for n, error, words in [
        (-1, TypeError, "nonnegative"),
        (2.5, TypeError, "an int"),
    ]:
        with pytest.raises(error, match=words):
            nn.one_hot(i, n)
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        nn.one_hot(i, 3, axis=2)
    with pytest.raises(NameError, match="unbound axis name"):
        nn.one_hot(i, 3, axis="rows")
    with pytest.raises(ga.errors.ConcretizationTypeError, match="num_classes"):
        ga.jit(nn.one_hot)(i, 3)


# ---- attention ----


def attend(q, k, v, bias=0.0, visible=True, scale=None):
    """Attention head by head in float64; heads of q share those of k and v."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    share = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, share, 2), np.repeat(v, share, 2)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.einsum("btnh,bsnh->bnts", q, k) * scale + bias
    scores = np.where(visible, scores, -1e30)
    weights = special.softmax(scores, -1)
    return np.einsum("bnts,bsnh->btnh", weights, v), special.logsumexp(scores, -1)


@pytest.fixture
def qkv(rng):
    shapes = (2, 6, 4, 8), (2, 5, 2, 8), (2, 5, 2, 8)
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


def test_attention(qkv, rng):
    rows, columns = np.mgrid[:6, :5]
    bias = rng.normal(size=(1, 4, 6, 5)).astype(np.float32)
    mask = rng.random((2, 1, 6, 5)) < 0.7
    mask[..., 0] = True
    for options, expected in [
        ({}, {}),
        ({"scale": 0.25}, {"scale": 0.25}),
        ({"bias": bias}, {"bias": bias}),
        ({"bias": bias[0, 0]}, {"bias": bias[0, 0]}),
        ({"mask": mask}, {"visible": mask}),
        ({"is_causal": True}, {"visible": rows >= columns}),
        ({"local_window_size": (1, 2)}, {"visible": (columns >= rows - 1) & (columns <= rows + 2)}),
        ({"local_window_size": 2}, {"visible": abs(rows - columns) <= 2}),
        ({"is_causal": True, "mask": mask}, {"visible": mask & (rows >= columns)}),
    ]:
        out, residual = nn.dot_product_attention(*qkv, **options, return_residual=True)
        wanted, logs = attend(*qkv, **expected)
        np.testing.assert_allclose(out, wanted, 1e-5, 1e-5)
        np.testing.assert_allclose(residual, logs.transpose(0, 2, 1), 1e-5, 1e-5)
        np.testing.assert_array_equal(nn.dot_product_attention(*qkv, **options), out)


def test_attention_of_shorter_sequences(qkv):
    q_lengths, k_lengths = np.array([4, 6], np.int32), np.array([5, 2], np.int32)
    out = nn.dot_product_attention(
        *qkv, query_seq_lengths=q_lengths, key_value_seq_lengths=k_lengths
    )
    visible = np.arange(5) < k_lengths[:, None]
    expected, _ = attend(*qkv, visible=visible[:, None, None])
    expected[0, 4:] = 0
    np.testing.assert_allclose(out, expected, 1e-5, 1e-5)


def test_attention_without_batch_and_in_halves(qkv):
    q, k, v = qkv
    one = nn.dot_product_attention(q[0], k[0], v[0])
    assert one.shape == (6, 4, 8)
    np.testing.assert_array_equal(one, nn.dot_product_attention(q, k, v)[0])
    half = [gnp.asarray(x, dtype="bfloat16") for x in qkv]
    out = nn.dot_product_attention(*half)
    assert out.dtype == gnp.bfloat16
    np.testing.assert_allclose(f64(out), attend(*map(f64, half))[0], 0.03, 0.02)
    hidden = nn.dot_product_attention(q, k, v, mask=np.zeros((1, 1, 6, 5), bool))
    np.testing.assert_allclose(hidden[0, 0, 0], v[0, :, 0].mean(0), 1e-5, 1e-6)
    assert nn.dot_product_attention(q[:, :0], k, v).shape == (2, 0, 4, 8)
    np.testing.assert_allclose(
        ga.jit(nn.dot_product_attention)(q, k, v), attend(q, k, v)[0], 1e-5, 1e-5
    )


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"value": gnp.ones((2, 4, 2, 8))}, ValueError, r"value shape should be \[2, 5, 2, 8\]"),
        ({"query": gnp.ones((1, 6, 4, 8))}, ValueError, r"query shape should be \[2, -1, -1, 8\]"),
        ({"query": gnp.ones((2, 6, 3, 8))}, ValueError, "multiple of key/value heads"),
        (
            {"value": gnp.ones((2, 5, 2, 8), "bfloat16")},
            ValueError,
            "value dtype should be float32",
        ),
        ({"query": gnp.ones((1, 2, 6, 4, 8))}, ValueError, "ndim should be 4"),
        ({"mask": gnp.ones((6, 5))}, ValueError, "mask dtype should be bool"),
        ({"bias": gnp.ones((3, 6, 5))}, ValueError, "does not broadcast"),
        ({"bias": gnp.ones((1,) * 5)}, ValueError, "bias ndim should be 4"),
        ({"query_seq_lengths": gnp.ones(2)}, ValueError, "dtype should be int32"),
        ({"query_seq_lengths": gnp.arange(3)}, ValueError, r"shape should be \[2\]"),
        ({"key_value_seq_lengths": 3}, ValueError, "ndim should be 1"),
        ({"local_window_size": (1, 2, 3)}, ValueError, "local_window_size"),
        ({"implementation": "odd"}, ValueError, "Unsupported implementation option: odd"),
        ({"implementation": "cudnn"}, RuntimeError, "cuDNN is not detected"),
    ],
)
def test_attention_errors(qkv, change, error, words):
    given = dict(zip(("query", "key", "value"), qkv, strict=True)) | change
    with pytest.raises(error, match=words):
        nn.dot_product_attention(**given)


# ---- initializers ----

KEY = random.key(7)
FANS = {"fan_in": 300, "fan_out": 200, "fan_avg": 250, "fan_geo_avg": math.sqrt(300 * 200)}


@pytest.mark.parametrize("mode", FANS)
@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_variance_scaling(mode, distribution, dtype):
    out = init.variance_scaling(2.0, mode, distribution)(KEY, (300, 200), dtype)
    assert (out.shape, out.dtype.name) == ((300, 200), dtype)
    x = np.asarray(out)
    stddev = math.sqrt(2.0 / FANS[mode])
    np.testing.assert_allclose(np.sqrt(np.mean(abs(x) ** 2)), stddev, 0.02)
    assert abs(x.mean()) < 0.02 * stddev
    if distribution == "uniform":
        largest = math.sqrt(3) if dtype == "float32" else math.sqrt(2)
        assert largest * 0.98 < abs(x).max() / stddev <= largest * 1.000001
    if distribution == "truncated_normal":
        cut = 2 / (0.87962566 if dtype == "float32" else 0.95311164)
        assert cut * 0.98 < abs(x).max() / stddev <= cut * 1.000001


@pytest.mark.parametrize(
    "name, scale, fan, distribution",
    [
        ("glorot_uniform", 1.0, "fan_avg", "uniform"),
        ("glorot_normal", 1.0, "fan_avg", "truncated_normal"),
        ("xavier_uniform", 1.0, "fan_avg", "uniform"),
        ("xavier_normal", 1.0, "fan_avg", "truncated_normal"),
        ("lecun_uniform", 1.0, "fan_in", "uniform"),
        ("lecun_normal", 1.0, "fan_in", "truncated_normal"),
        ("he_uniform", 2.0, "fan_in", "uniform"),
        ("he_normal", 2.0, "fan_in", "truncated_normal"),
        ("kaiming_uniform", 2.0, "fan_in", "uniform"),
        ("kaiming_normal", 2.0, "fan_in", "truncated_normal"),
    ],
)
def test_named_scalings(name, scale, fan, distribution):
    out = getattr(init, name)(dtype="float16")(KEY, (6, 9))
    same = init.variance_scaling(scale, fan, distribution)(KEY, (6, 9), gnp.float16)
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, same)


def test_fans_of_convolutions():
    # Axes: window, window, in, out; the window multiplies both fans.
    out = init.variance_scaling(1.0, "fan_in", "normal")(KEY, (5, 4, 30, 50))
    np.testing.assert_allclose(np.std(out), math.sqrt(1 / 600), 0.02)
    out = init.variance_scaling(1.0, "fan_out", "normal", (0, 2), 3, 1)(KEY, (5, 4, 30, 50))
    np.testing.assert_allclose(np.std(out), math.sqrt(1 / 50), 0.02)
    assert init.variance_scaling(1.0, "fan_in", "normal", in_axis=0)(KEY, (3,)).shape == (3,)


def test_plain_initializers():
    np.testing.assert_array_equal(init.zeros(None, (2, 3)), np.zeros((2, 3)))
    np.testing.assert_array_equal(init.ones(None, 2, "int32"), [1, 1])
    assert init.ones(None, (), gnp.bfloat16).dtype == gnp.bfloat16
    np.testing.assert_array_equal(init.constant(gnp.arange(3))(None, (2, 3)), [[0, 1, 2]] * 2)
    flat = np.asarray(init.uniform(4.0)(KEY, (5000,)))
    assert 0 <= flat.min() < 0.01 and 3.99 < flat.max() < 4.0
    np.testing.assert_allclose(np.std(init.normal(3.0)(KEY, (5000,))), 3.0, 0.03)
    cut = np.asarray(init.truncated_normal(2.0, lower=-1.0, upper=0.5)(KEY, (5000,)))
    assert -2.0 <= cut.min() < -1.99 and 0.99 < cut.max() <= 1.0
    np.testing.assert_array_equal(
        init.normal(1.0)(random.PRNGKey(3), (4,)), random.normal(random.key(3), (4,))
    )


@pytest.mark.parametrize("shape, axis", [((4, 4), -1), ((6, 3), -1), ((3, 6), -1), ((3, 2, 4), 1)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_orthogonal(shape, axis, dtype):
    out = init.orthogonal(2.0, axis, dtype)(KEY, shape)
    assert (out.shape, out.dtype.name) == (shape, dtype)
    rows = np.moveaxis(np.asarray(out), axis, -1).reshape(-1, shape[axis])
    square = rows.conj().T @ rows if rows.shape[0] >= rows.shape[1] else rows @ rows.conj().T
    np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-5)


@pytest.mark.parametrize("window", [(3,), (3, 4), (1, 2, 5)])
def test_delta_orthogonal(window):
    out = np.asarray(init.delta_orthogonal(3.0)(KEY, (*window, 2, 5)))
    centre = tuple((n - 1) // 2 for n in window)
    np.testing.assert_allclose(out[centre] @ out[centre].T, 9 * np.eye(2), atol=1e-5)
    rest = out.copy()
    rest[centre] = 0
    assert not rest.any()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: init.variance_scaling(1, "odd", "normal")(KEY, (2, 2)),
            ValueError,
            "invalid mode",
        ),
        (
            lambda: init.variance_scaling(1, "fan_in", "odd")(KEY, (2, 2)),
            ValueError,
            "invalid distribution",
        ),
        (lambda: init.he_normal()(KEY, (3,)), ValueError, "1-dimensional weights tensor"),
        (lambda: init.he_normal()(KEY, (0, 4)), ZeroDivisionError, "no inputs"),
        (lambda: init.he_normal(in_axis=7)(KEY, (3, 4)), IndexError, "in_axis 7"),
        (lambda: init.he_normal()(KEY, (3, -4)), TypeError, "non-negative"),
        (lambda: init.he_normal()(KEY, "ab"), TypeError, "Shapes must be 1D sequences"),
        (lambda: init.normal()(KEY, (2,), "int32"), ValueError, "must be a float"),
        (lambda: init.orthogonal()(KEY, (3,)), ValueError, "at least a 2D shape"),
        (lambda: init.delta_orthogonal()(KEY, (2, 2)), ValueError, "3D, 4D or 5D"),
        (lambda: init.delta_orthogonal()(KEY, (2, 3, 2)), ValueError, "`fan_in` must be less"),
    ],
)
def test_initializer_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_initializers_are_initializers():
    for f in (init.zeros, init.he_normal(), init.orthogonal()):
        assert isinstance(f, init.Initializer)
    assert not isinstance(3, init.Initializer)


# ---- block scales ----


def test_scaled_matmul(rng):
    a, b = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 8))
    a_scales, b_scales = rng.uniform(1, 2, (2, 3, 2)), rng.uniform(1, 2, (2, 5, 2))
    expected = np.einsum(
        "bmk,bnk->bmn", a * np.repeat(a_scales, 4, 2), b * np.repeat(b_scales, 4, 2)
    )
    arrays = [gnp.asarray(x, dtype="float32") for x in (a, b, a_scales, b_scales)]
    np.testing.assert_allclose(nn.scaled_matmul(*arrays), expected, 1e-4, 1e-5)
    assert nn.scaled_matmul(*arrays, preferred_element_type=gnp.bfloat16).dtype == gnp.bfloat16


@pytest.mark.parametrize("mode, error", [("mxfp8", 0.05), ("nvfp4", 0.2)])
def test_scaled_dot_general(rng, mode, error):
    a, b = rng.normal(size=(4, 2, 64)), rng.normal(size=(64, 4, 3))
    numbers = (((2,), (0,)), ((0,), (1,)))
    a, b = (gnp.asarray(x, dtype="float32") for x in (a, b))
    configs = [nn.get_scaled_dot_general_config(mode)] * 3
    exact = np.asarray(lax.dot_general(a, b, numbers))
    np.testing.assert_array_equal(nn.scaled_dot_general(a, b, numbers), exact)
    out = np.asarray(nn.scaled_dot_general(a, b, numbers, configs=configs))
    assert out.shape == exact.shape
    assert 0 < np.linalg.norm(out - exact) / np.linalg.norm(exact) < error
    # Where the largest number of every block is the format's, nothing is lost.
    largest = {"mxfp8": 448.0, "nvfp4": 6.0}[mode]
    a = gnp.sign(a) * largest / 8
    b = gnp.sign(b) * largest * 4
    out = nn.scaled_dot_general(a, b, numbers, configs=configs)
    np.testing.assert_array_equal(out, lax.dot_general(a, b, numbers))
    zeros = nn.scaled_dot_general(
        gnp.zeros((1, 64)), gnp.ones((1, 64)), (((1,), (1,)), ((), ())), configs=configs
    )
    np.testing.assert_array_equal(zeros, [[0]])


def test_global_scale_and_errors():
    config = nn.get_scaled_dot_general_config("nvfp4", gnp.float32(2.0**10))
    assert (config.mode, config.block_size) == ("nvfp4", 16)
    rows = (((1,), (1,)), ((), ()))
    a, b = gnp.full((1, 16), 6 * 2.0**12), gnp.full((1, 16), 6 * 2.0**10)
    out = nn.scaled_dot_general(a, b, rows, configs=[config] * 3)
    np.testing.assert_array_equal(out, [[16 * 36 * 2.0**22]])
    with pytest.raises(ValueError, match="Unsupported mode: odd"):
        nn.get_scaled_dot_general_config("odd")
    with pytest.raises(ValueError, match="multiple of the block size 16"):
        nn.scaled_dot_general(gnp.ones((1, 8)), gnp.ones((1, 8)), rows, configs=[config] * 3)
    one = gnp.ones((1, 1, 4))
    with pytest.raises(ValueError, match="3-dimensional"):
        nn.scaled_matmul(one[0], one[0], one[0], one[0])
    with pytest.raises(ValueError, match="inputs a and b to have matching batch"):
        nn.scaled_matmul(one, gnp.ones((1, 1, 5)), one, one)
    with pytest.raises(ValueError, match="scales to have matching batch"):
        nn.scaled_matmul(one, one, one, gnp.ones((1, 1, 2)))
    with pytest.raises(ValueError, match="does not go with scales"):
        nn.scaled_matmul(one, one, gnp.ones((1, 1, 3)), gnp.ones((1, 1, 3)))
