"""Sums of products: dot_general, ragged products, convolutions, Fourier transforms."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.primitives.contract import convolution
from gpuarray.primitives.contract.convolution import conv_general_dilated_p
from gpuarray.primitives.contract.ops import integer_product, joined_dtype

rng = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16


def normal(shape, dtype=np.float32):
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def integers(shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


# ---- dot_general ----

DOTS = [
    ((2, 3), (3, 4), (((1,), (0,)), ((), ())), "ij,jk->ik"),
    ((3, 2), (4, 3), (((0,), (1,)), ((), ())), "ji,kj->ik"),
    ((3,), (3,), (((0,), (0,)), ((), ())), "i,i->"),
    ((2, 3), (4,), (((), ()), ((), ())), "ij,k->ijk"),
    ((), (), (((), ()), ((), ())), ",->"),
    ((5, 2, 3), (5, 3, 4), (((2,), (1,)), ((0,), (0,))), "bij,bjk->bik"),
    ((3, 5, 2), (4, 2, 3, 5), (((0, 2), (2, 1)), ((1,), (3,))), "jbl,kljb->bk"),
    ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ())), "ijk,kjl->il"),
    ((0, 3), (3, 4), (((1,), (0,)), ((), ())), "ij,jk->ik"),
    ((2, 0), (0, 4), (((1,), (0,)), ((), ())), "ij,jk->ik"),
]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float16, BF16])
@pytest.mark.parametrize("lhs, rhs, numbers, formula", DOTS)
def test_dot_general_is_einsum(lhs, rhs, numbers, formula, dtype):
    a, b = normal(lhs, dtype), normal(rhs, dtype)
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    expected = np.einsum(formula, a.astype(wide), b.astype(wide))
    out = np.asarray(lax.dot_general(a, b, numbers))
    assert out.dtype == dtype and out.shape == expected.shape
    eps = 2.0 * float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(out.astype(wide), expected, rtol=eps, atol=20 * eps)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
@pytest.mark.parametrize("size", [3, 60])
def test_integers_wrap(dtype, size):
    a, b = integers((size, size + 1), dtype), integers((size + 1, size), dtype)
    exact = a.astype(object) @ b.astype(object)
    bits = np.iinfo(dtype).bits
    expected = (exact % 2**bits).astype(f"uint{bits}").astype(dtype)
    assert (np.asarray(lax.dot(a, b)) == expected).all()
    wide = (exact % 2**32).astype(np.uint32).astype(np.int32)
    assert (np.asarray(lax.dot(a, b, preferred_element_type=np.int32)) == wide).all() or bits == 32


@pytest.mark.parametrize("small", [True, False])
def test_wide_integers_wrap(small):
    a, b = integers((40, 50), np.int64), integers((50, 40), np.int64)
    if small:
        a, b = a % 1000, b % 1000
    expected = (a.astype(object) @ b.astype(object)) % 2**64
    out = integer_product(a, b, np.dtype(np.int64))
    assert (out.astype(np.uint64) == expected.astype(np.uint64)).all()


def test_bools_and_or():
    a, b = rng.random((4, 9)) < 0.2, rng.random((9, 4)) < 0.2
    expected = (a.astype(int) @ b.astype(int)) > 0
    assert (np.asarray(lax.dot(a, b)) == expected).all() and not expected.all()


@pytest.mark.parametrize(
    "lhs, rhs, expected",
    [
        ("int8", "uint8", "int8"),
        ("int8", "int16", "int16"),
        ("uint32", "int32", "int32"),
        ("bool", "float32", "float32"),
        ("float16", "bfloat16", "bfloat16"),
        ("float32", "int32", "float32"),
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2"),
        ("complex64", "float64", "complex64"),
    ],
)
def test_operands_of_two_types(lhs, rhs, expected):
    dtypes = [ga.core.dtypes.as_dtype(n) for n in (lhs, rhs)]
    assert joined_dtype("dot_general", *dtypes).name == expected
    assert joined_dtype("dot_general", *dtypes[::-1]).name == expected


def test_sums_are_kept_wide():
    half = np.array([[65504.0, 65504, -65504, -65504]], np.float16)
    assert float(lax.dot(half, np.ones((4, 1), np.float16))[0, 0]) == 0
    many = np.full((1, 4096), 1, BF16)
    assert float(lax.dot(many, many.T)[0, 0]) == 4096
    large = np.array([[1e6, 1e6]], np.float32)
    saturated = lax.dot(large, large.T, preferred_element_type=np.int32)
    assert int(saturated[0, 0]) == 2**31 - 1
    unit = np.array([[1j, 2]], np.complex64)
    assert float(lax.dot(unit, unit.T, preferred_element_type=np.float32)[0, 0]) == 3


@pytest.mark.on_cpu("kernels compute some products in float32")
def test_precision_words():
    words = {"highest": 2, "float32": 2, "tensorfloat32": 1, "default": 0, None: 0}
    assert all(lax.Precision(w).value == v for w, v in words.items())
    x = np.eye(2, dtype=np.float32)
    for precision in ("high", ("highest", "default"), lax.DotAlgorithmPreset.F32_F32_F32):
        assert (np.asarray(lax.dot(x, x, precision=precision)) == x).all()
    rounded = lax.DotAlgorithm(np.float16, np.float16, np.float32)
    third = np.full((1, 1), 1 / 3, np.float32)
    out = float(lax.dot(third, np.ones((1, 1), np.float32), precision=rounded)[0, 0])
    assert out == float(np.float16(1 / 3))


def test_dot_prints_lists_and_hides_defaults():
    x = np.ones((2, 3), np.float32)
    text = str(ga.make_jaxpr(lax.dot)(x, x.T))
    assert "dot_general[dimension_numbers=(([1], [0]), ([], []))] a b" in text
    with ga.default_matmul_precision("float32"):
        assert "(Precision.HIGHEST, Precision.HIGHEST)" in str(ga.make_jaxpr(lax.dot)(x, x.T))


# ---- ragged products ----


def test_ragged_rows():
    x, y, sizes = normal((7, 3)), normal((3, 3, 2)), np.array([2, 0, 4], np.int32)
    expected = np.concatenate([x[:2] @ y[0], x[2:6] @ y[2], np.zeros((1, 2))])
    np.testing.assert_allclose(lax.ragged_dot(x, y, sizes), expected, rtol=1e-5)


def test_ragged_sums_and_batches():
    x, y, sizes = normal((4, 6)), normal((6, 5)), np.array([1, 5], np.int32)
    numbers = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), (1,), ())
    expected = np.stack([x[:, :1] @ y[:1], x[:, 1:] @ y[1:]])
    np.testing.assert_allclose(
        lax.ragged_dot_general(x, y, sizes, numbers), expected, rtol=1e-4, atol=1e-5
    )
    x, y = normal((4, 2, 3)), normal((4, 3, 5))
    numbers = lax.RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), (0,), ())
    out = np.asarray(lax.ragged_dot_general(x, y, np.array([1, 2], np.int32), numbers))
    np.testing.assert_allclose(out[:3], (x @ y)[:3], rtol=1e-4, atol=1e-5)
    assert not out[3].any()


def test_ragged_groups_of_every_batch():
    x, y = normal((2, 5, 3)), normal((2, 2, 3, 4))
    sizes = np.array([[1, 4], [3, 1]], np.int32)
    numbers = lax.RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), (1,), (0,))
    out = np.asarray(lax.ragged_dot_general(x, y, sizes, numbers))
    expected = np.zeros((2, 5, 4), np.float32)
    expected[0, :1], expected[0, 1:] = x[0, :1] @ y[0, 0], x[0, 1:] @ y[1, 0]
    expected[1, :3], expected[1, 3:4] = x[1, :3] @ y[0, 1], x[1, 3:4] @ y[1, 1]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


# ---- convolution ----


def by_definition(x, w, strides, padding, lhs_dilation, rhs_dilation, groups, batch_groups):
    """out[n, o, s] = sum_{c, k} x[n, c, s * stride + k * dilation] w[o, c, k], in plain loops."""
    rank = x.ndim - 2
    spread = [1 + d * (n - 1) for n, d in zip(x.shape[2:], lhs_dilation)]
    wide = np.zeros((*x.shape[:2], *spread), x.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, d) for d in lhs_dilation))] = x
    for axis, (low, high) in enumerate(padding):
        pads = [(0, 0)] * wide.ndim
        pads[2 + axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, pads)
        cut = slice(max(-low, 0), wide.shape[2 + axis] - max(-high, 0))
        wide = wide[(slice(None),) * (2 + axis) + (cut,)]
    reach = [1 + d * (k - 1) for k, d in zip(w.shape[2:], rhs_dilation)]
    out_spatial = [
        max(0, (n - k) // s + 1) for n, k, s in zip(wide.shape[2:], reach, strides, strict=True)
    ]
    n_out = x.shape[0] // batch_groups
    out = np.zeros((n_out, w.shape[0], *out_spatial), x.dtype)
    features = w.shape[0] // (groups * batch_groups)
    for n, o in itertools.product(range(n_out), range(w.shape[0])):
        group = o // features
        image = wide[n + (group * n_out if batch_groups > 1 else 0)]
        first = group * w.shape[1] if groups > 1 else 0
        for s in np.ndindex(*out_spatial):
            at = tuple(
                slice(s[i] * strides[i], s[i] * strides[i] + reach[i], rhs_dilation[i])
                for i in range(rank)
            )
            out[(n, o, *s)] = (image[(slice(first, first + w.shape[1]), *at)] * w[o]).sum()
    return out


CONVS = [  # lhs, rhs, and what differs from the defaults
    ((1, 2, 5, 5), (3, 2, 3, 3), {}),
    ((2, 4, 6, 5), (6, 2, 3, 2), {"strides": (2, 1), "groups": 2}),
    ((2, 3, 6, 5), (6, 1, 3, 2), {"groups": 3, "padding": [(1, 0), (-1, 2)]}),
    ((4, 2, 7), (6, 2, 3), {"batch_groups": 2, "padding": [(1, 1)]}),
    ((2, 3, 7), (4, 3, 3), {"lhs_dilation": (2,), "rhs_dilation": (3,), "padding": [(-1, -2)]}),
    ((2, 3, 5), (6, 1, 3), {"groups": 3, "lhs_dilation": (3,), "padding": [(-4, -4)]}),
    ((1, 1, 30), (1, 1, 7), {"padding": [(6, 6)]}),
    ((2, 3), (4, 3), {}),
    ((2, 3, 4, 5, 3), (2, 3, 2, 2, 2), {"strides": (1, 1, 2)}),
    ((1, 2, 3), (3, 2, 5), {}),
    ((0, 2, 5), (3, 2, 3), {}),
]


@pytest.mark.parametrize("piece", [1 << 22, 50], ids=["whole", "pieces"])
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("lhs, rhs, options", CONVS)
def test_convolution_by_definition(lhs, rhs, options, dtype, last, piece, monkeypatch):
    processor = convolution.PROCESSOR.replace(windows_laid=piece)
    monkeypatch.setattr(convolution, "PROCESSOR", processor)
    rank = len(lhs) - 2
    ones = (1,) * rank
    strides, padding, lhs_dilation, rhs_dilation, groups, batch_groups = (
        options.get(name, default)
        for name, default in [
            ("strides", ones), ("padding", [(0, 0)] * rank), ("lhs_dilation", ones),
            ("rhs_dilation", ones), ("groups", 1), ("batch_groups", 1),
        ]
    )  # fmt: skip
    x, w = (rng.integers(-9, 9, s).astype(dtype) for s in (lhs, rhs))
    expected = by_definition(
        x, w, strides, padding, lhs_dilation, rhs_dilation, groups, batch_groups
    )
    spatial = "HWD"[:rank]
    numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C") if last else None
    if last:
        x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (1, 0), (-2, -1))
    out = np.asarray(
        lax.conv_general_dilated(
            x, w, strides, padding, lhs_dilation, rhs_dilation, numbers, groups, batch_groups
        )
    )
    assert out.dtype == dtype
    assert (np.moveaxis(out, -1, 1) if last else out).tolist() == expected.tolist()


def test_string_paddings():
    assert lax.padtype_to_pads((5, 6), (3, 3), (2, 2), "SAME") == [(1, 1), (0, 1)]
    assert lax.padtype_to_pads((5, 6), (3, 3), (2, 2), "same_lower") == [(1, 1), (1, 0)]
    of_numpy = [np.array(x) for x in ((5, 6), (3, 3), (2, 2))]
    assert lax.padtype_to_pads(*of_numpy, "SAME") == [(1, 1), (0, 1)]
    x, k = normal((1, 1, 5, 6)), normal((2, 1, 3, 3))
    assert lax.conv(x, k, (2, 2), "SAME").shape == (1, 2, 3, 3)
    assert lax.conv(x, k, (2, 2), "VALID").shape == (1, 2, 2, 2)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("s", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_a_transposed_convolution_is_the_transpose(k, s, padding):
    """<conv(y), x> = <y, conv_transpose(x)> with the same kernel."""
    n = 6
    kernel = normal((k, 1, 1))
    y_shape = (1, n * s if padding == "SAME" else n * s + max(k - s, 0), 1)
    names = ("NHC", "HIO", "NHC")
    x, y = normal((1, n, 1)), normal(y_shape)
    back = lax.conv_transpose(x, kernel, (s,), padding, transpose_kernel=True)
    assert (
        back.shape
        == y_shape
        == lax.conv_transpose_shape_tuple(x.shape, kernel.shape, (s,), padding, names)
    )
    forward = lax.conv_general_dilated(y, kernel, (s,), padding, dimension_numbers=names)
    if padding == "SAME" and k < s:
        return  # the forward convolution pads nothing here, and places windows elsewhere
    np.testing.assert_allclose(
        float(np.vdot(forward, x)), float(np.vdot(y, np.asarray(back))), rtol=1e-4
    )


def test_patches_and_local_kernels():
    x = normal((2, 3, 5, 6))
    patches = np.asarray(lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "VALID"))
    assert patches.shape == (2, 18, 4, 2)
    assert (patches[:, :, 1, 1] == x[:, :, 1:3, 2:5].reshape(2, 18)).all()
    kernel = normal((4, 18, 4, 2))
    out = np.asarray(lax.conv_general_dilated_local(x, kernel, (1, 2), "VALID", (2, 3)))
    np.testing.assert_allclose(
        out, np.einsum("ncij,ocij->noij", patches, kernel), rtol=1e-4, atol=1e-5
    )


@pytest.mark.on_cpu("kernels multiply no bools")
def test_half_and_bool_convolutions():
    x = np.full((1, 1, 600), 1, BF16)
    assert float(lax.conv_general_dilated(x, x, (1,), "VALID")[0, 0, 0]) == 600
    b = np.ones((1, 1, 4), bool)
    assert np.asarray(lax.conv_general_dilated(b, b[..., :2], (1,), "VALID")).all()


# ---- Fourier transforms ----

FFTS = [
    ("FFT", (4, 3), (3,), np.fft.fftn),
    ("IFFT", (4, 3), (4, 3), np.fft.ifftn),
    ("RFFT", (2, 7), (7,), np.fft.rfftn),
    ("RFFT", (2, 4, 8), (4, 8), np.fft.rfftn),
    ("IRFFT", (2, 4), (7,), np.fft.irfftn),
    ("IRFFT", (2, 4, 4), (4, 6), np.fft.irfftn),
    ("FFT", (0, 4), (4,), np.fft.fftn),
    ("FFT", (3,), (), None),
]


@pytest.mark.parametrize("kind, shape, lengths, reference", FFTS)
def test_fft(kind, shape, lengths, reference):
    x = normal(shape, np.float32 if kind == "RFFT" else np.complex64)
    axes = tuple(range(len(shape) - len(lengths), len(shape)))
    expected = reference(x, s=lengths, axes=axes) if reference else x
    out = np.asarray(lax.fft(x, kind, lengths))
    assert out.dtype == (np.float32 if kind == "IRFFT" else np.complex64)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    assert (np.asarray(lax.fft(x, lax.FftType[kind], lengths)) == out).all()


def test_threads_change_no_bits_of_an_fft(monkeypatch):
    x = normal((37, 3000), np.complex64)
    found = []
    for count in (1, 2, 3, 5):
        monkeypatch.setattr("gpuarray.core.threads.thread_count", lambda count=count: count)
        found.append([np.asarray(f(x)) for f in (gnp.fft.fft, gnp.fft.ifft2, gnp.fft.irfft)])
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found[0][0], np.fft.fft(x), rtol=1e-4, atol=1e-3)


def test_fft_takes_any_numbers():
    assert lax.fft(np.arange(4), "fft", (4,)).dtype == np.complex64
    assert lax.fft(np.arange(4) > 1, "rfft", (4,)).dtype == np.complex64
    with ga.enable_x64(True):
        assert lax.fft(np.arange(4), "fft", (4,)).dtype == np.complex128


# ---- misuse ----

A, B = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
X, K = np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)
C = np.ones((4, 3), np.complex64)


def conv(x, k, strides=(1, 1), padding="SAME", **options):
    return lambda: lax.conv_general_dilated(x, k, strides, padding, **options)


def dot(numbers, a=A, b=B, **options):
    return lambda: lax.dot_general(a, b, numbers, **options)


PLAIN = (((1,), (0,)), ((), ()))
WRONG = [
    (lambda: lax.dot(A, A), ValueError, "dimension_numbers must be specified"),
    (lambda: lax.dot([1.0], B), TypeError, "Error interpreting argument to dot.*position 0"),
    (
        dot((((1,), (1,)), ((), ()))),
        TypeError,
        r"contracting dimensions to have the same shape, got .*The operands have the shapes \(",
    ),
    (dot((((2,), (0,)), ((), ()))), TypeError, "nonnegative and less than the number of axes"),
    (dot((((1, 1), (0, 0)), ((), ()))), TypeError, "to be distinct"),
    (dot((((1,), (0,)), ((1,), (0,)))), TypeError, "disjoint from contracting"),
    (dot((((1,), (0,)), ((0,), ()))), TypeError, "equal numbers of lhs_batch and rhs_batch"),
    (dot((((1,), (0,)), ((0,), (1,)))), TypeError, "batch dimensions to have the same shape"),
    (dot(PLAIN, precision="foo"), ValueError, "Precision argument must be one of"),
    (
        dot(PLAIN, A.astype(np.int32), B.astype(np.int32), preferred_element_type=np.int8),
        TypeError,
        "must not be narrower",
    ),
    (lambda: lax.batch_matmul(A[0], A[0]), ValueError, "must be at least 2D"),
    (
        lambda: lax.ragged_dot(A, np.ones((2, 3, 4), np.float32), np.ones(2, np.float32)),
        TypeError,
        "group_sizes.dtype",
    ),
    (conv(X, K, (1,)), ValueError, "same number of dimensions"),
    (conv(X, K, padding="X"), RuntimeError, "Unrecognized padding type"),
    (conv(X, K, padding=[(0, 0)]), TypeError, "expected 2, got 1"),
    (conv(X, K, padding=[(0, 0, 0)] * 2), ValueError, r"sequence of \(low, high\) pairs"),
    (conv(X, K, padding=[(-3, -3), (0, 0)]), ValueError, "Negative padding is larger"),
    (conv(X, K[:, :1]), ValueError, "lhs feature dimension size divided by"),
    (conv(X, K[:, :1], feature_group_count=2), ValueError, "3 is not a multiple of 2"),
    (conv(X, K, feature_group_count=0), ValueError, "must be a positive integer"),
    (conv(X, K, batch_group_count=2), ValueError, "2 does not divide 1"),
    (conv(X, K, lhs_dilation=(2, 1)), ValueError, "String padding is not implemented"),
    (conv(X, K, rhs_dilation=(0, 1)), TypeError, "All dilations must be positive"),
    (conv(X, K, (0, 1), [(0, 0)] * 2), ValueError, "must all be positive"),
    (conv(X, K.astype(BF16)), TypeError, "to have the same dtypes"),
    (conv(X, K[0]), TypeError, "ndim to be equal, got 4 and 3"),
    (conv(X, K, preferred_element_type=np.int32), TypeError, "incompatible with"),
    (conv(X, K, dimension_numbers=("NHWW", "HWIO", "NHWC")), TypeError, "exactly once"),
    (conv(X, K, dimension_numbers=("NXYC", "HWIO", "NHWC")), TypeError, "same set of spatial"),
    (lambda: lax.fft(C, "foo", (3,)), ValueError, "Unknown FFT type 'foo'"),
    (lambda: lax.fft(C, 3, (3,)), TypeError, "Unknown FFT type value"),
    (lambda: lax.fft(C, "fft", (4,)), ValueError, "must be equal to fft_lengths"),
    (lambda: lax.fft(C, "fft", (4, 4, 3)), ValueError, "at least as many input dimensions"),
    (lambda: lax.fft(C, "rfft", (3,)), ValueError, "only real valued inputs"),
    (lambda: lax.fft(A.astype(BF16), "rfft", (3,)), ValueError, "must be float32 or float64"),
]


@pytest.mark.parametrize("call, kind, text", WRONG)
def test_misuse(call, kind, text):
    with pytest.raises(kind, match=re.compile(text, re.DOTALL)):
        call()


def test_all_parameters_of_a_convolution_are_printed():
    eqn = ga.make_jaxpr(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))(X, K).eqns[0]
    assert eqn.primitive is conv_general_dilated_p
    assert eqn.params["padding"] == ((1, 1), (1, 1)) and eqn.params["lhs_dilation"] == (1, 1)
    assert gnp.sum(lax.conv(X, K, (1, 1), "VALID")) == 2 * 9 * 9 * 3


def test_scaled_dot_rounds_to_bfloat16_first():
    x, y = normal((4, 32)), normal((32, 3))
    got = lax.scaled_dot(x, y, preferred_element_type="float32")
    want = x.astype(BF16).astype(np.float32) @ y.astype(BF16).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert not np.allclose(got, x @ y, rtol=1e-5, atol=1e-5)


def test_einsum_path_without_optimisation_goes_by_pairs():
    xs = (gnp.ones((2, 3)), gnp.ones((3, 4)), gnp.ones((4, 2)))
    assert gnp.einsum_path("ij,jk,kl", *xs, optimize=False)[0] == [(0, 1), (0, 1)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("nij,njk->nik", (200, 3, 3), (200, 3, 3)),
        ("nij,nj->ni", (9000, 3, 3), (9000, 3)),
        ("ni,nij->nj", (130, 2), (130, 2, 4)),
        ("ni,nj->nij", (300, 4), (300, 5)),
        ("abij,abkj->abik", (20, 10, 2, 3), (20, 10, 4, 3)),
        ("jin,knj->nki", (3, 4, 160), (2, 160, 3)),
    ],
)
def test_many_small_products(text, left, right, dtype):
    rng = np.random.default_rng(0)
    with ga.enable_x64(True):
        x, y = (rng.standard_normal(s).astype(dtype) for s in (left, right))
        got = gnp.einsum(text, x, y)
        wide = "complex128" if dtype == "complex64" else "float64"
        wanted = np.einsum(text, x.astype(wide), y.astype(wide))
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        swapped = gnp.einsum(text, x[::-1], gnp.flip(gnp.asarray(y), 0)[::-1])
        assert swapped.shape == wanted.shape


def test_one_matrix_among_many_does_not_disturb_the_others():
    x = np.ones((300, 3, 3), np.float32)
    x[7] = np.nan
    x[8] = np.inf
    got = np.asarray(gnp.matmul(x, x))
    assert np.isnan(got[7]).all() and np.isinf(got[8]).all()
    assert (np.delete(got, [7, 8], 0) == 3).all()


@pytest.mark.parametrize(
    ("ragged", "groups", "message"),
    [
        (2, (3,), "less than the number of axes"),
        (-1, (3,), "nonnegative"),
        (0, (), "rank of group"),
    ],
)
def test_ragged_products_of_wrong_axes(ragged, groups, message):
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [ragged], [0])
    with pytest.raises(TypeError, match=message):
        lax.ragged_dot_general(
            gnp.ones((4, 5)), gnp.ones((3, 5, 7)), gnp.ones(groups, "int32"), numbers
        )
