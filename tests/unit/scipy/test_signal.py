"""scipy.signal: SciPy judges the values; derivatives agree with differences; jit and vmap agree."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.signal as reference

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.scipy import signal as ss
from gpuarray.test_util import check_grads

rng = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def doubles():
    with ga.enable_x64(True):
        yield


def general(*shape, dtype="f8"):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype == "c16" else x).astype(dtype)


def close(found, expected, tol=1e-10):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


SHAPES = [((7,), (3,)), ((3,), (7,)), ((6,), (6,)), ((6,), (4,)), ((1,), (1,)), ((4, 5), (2, 3)),
          ((2, 3), (4, 5)), ((2, 5, 3), (2, 2, 2)), ((4, 5), (2, 2)), ((3, 2), (4, 4))]  # fmt: skip


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_convolve_and_correlate(shapes, mode, dtype):
    x, y = (general(*shape, dtype=dtype) for shape in shapes)
    for name, method in itertools.product(("convolve", "correlate"), ("direct", "fft")):
        if name == "correlate" and mode != "full" and shapes[0] != max(shapes):
            continue  # below
        expected = getattr(reference, name)(x, y, mode, method)
        close(getattr(ss, name)(x, y, mode, method), expected)
    close(ss.fftconvolve(x, y, mode), reference.fftconvolve(x, y, mode))
    if x.ndim == 2:
        close(ss.convolve2d(x, y, mode), reference.convolve2d(x, y, mode))
        close(ss.correlate2d(x, y, mode), reference.correlate2d(x, y, mode))


def test_correlate_with_the_longer_one_second_is_the_convolution_with_it_turned():
    x, y = general(3, dtype="c16"), general(7, dtype="c16")
    for mode in ("same", "valid"):
        close(ss.correlate(x, y, mode), ss.convolve(x, y[::-1].conj(), mode))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_boundaries_of_planes(boundary, mode):
    x, y = general(5, 6), general(3, 2)
    fillvalue = 2.5
    for name in ("convolve2d", "correlate2d"):
        expected = getattr(reference, name)(x, y, mode, boundary, fillvalue)
        close(getattr(ss, name)(x, y, mode, boundary, fillvalue), expected)


def test_fftconvolve_over_some_axes():
    x, y = general(3, 6), general(3, 4)
    for mode in ("full", "same", "valid"):
        close(ss.fftconvolve(x, y, mode, axes=1), reference.fftconvolve(x, y, mode, axes=1))
    close(ss.fftconvolve(x, x, axes=()), x * x)
    assert ss.fftconvolve(x[:, :0], y).shape == (5, 3)


@pytest.mark.parametrize("kind", ["linear", "constant"])
@pytest.mark.parametrize(("axis", "bp"), [(-1, 0), (0, 0), (1, [3, 5]), (1, 4)])
def test_detrend(kind, axis, bp):
    x = general(4, 9).cumsum(1)
    if kind == "constant":
        bp = 0
    close(ss.detrend(x, axis, kind, bp), reference.detrend(x, axis, kind, bp))


OPTIONS = [
    {"nperseg": 8},
    {"nperseg": 9, "nfft": 16, "fs": 4.0},
    {"nperseg": 8, "noverlap": 2, "window": "boxcar"},
    {"nperseg": 7, "window": ("tukey", 0.3)},
    {"window": np.arange(1.0, 6.0)},
    {"nperseg": 8, "return_onesided": False},
    {"nperseg": 10, "detrend": "linear"},
    {},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_spectra(options, dtype):
    x, y = general(2, 43, dtype=dtype), general(43, dtype=dtype)
    with warnings.catch_warnings():  # SciPy says when nperseg is cut to the signal's length
        warnings.simplefilter("ignore")
        for scaling, average in (("density", "mean"), ("spectrum", "median")):
            more = dict(scaling=scaling, average=average, **options)
            for found, expected in [
                (ss.welch(x, **more), reference.welch(x, **more)),
                (ss.csd(x, y, **more), reference.csd(x, y, **more)),
            ]:
                close(found[0], expected[0])
                close(found[1], expected[1])
        for axis in (-1, 0) if "nperseg" in options else ():
            given = x if axis == -1 else x.T
            for f, e in zip(ss.stft(given, axis=axis, **options),
                            reference.stft(given, axis=axis, **options), strict=True):  # fmt: skip
                close(f, e)


@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant", None])
def test_boundaries_of_stft(boundary):
    x = general(30)
    for padded in (True, False):
        options = {"nperseg": 8, "boundary": boundary, "padded": padded}
        for f, e in zip(ss.stft(x, **options), reference.stft(x, **options), strict=True):
            close(f, e)


@pytest.mark.parametrize("options", OPTIONS[:4] + OPTIONS[5:6], ids=str)
def test_istft_gives_the_signal_back(options):
    x = general(3, 40)
    z = reference.stft(x, **options)[2]
    onesided = options.get("return_onesided", True)
    options = {k: v for k, v in options.items() if k != "return_onesided"}
    options["input_onesided"] = onesided
    found = ss.istft(z, **options)
    close(found[1], reference.istft(z, **options)[1])
    close(found[0], np.arange(found[1].shape[-1]) / options.get("fs", 1.0))
    close(np.asarray(found[1])[:, :40].real, x)
    z = np.moveaxis(z, (0, 1, 2), (1, 2, 0))
    turned = dict(time_axis=0, freq_axis=2, **options)
    close(ss.istft(z, **turned)[1], reference.istft(z, **turned)[1])


def test_nothing_and_too_little():
    assert all(x.size == 0 for x in ss.welch(gnp.zeros(0)))
    assert ss.welch(gnp.ones(5))[1].shape == (3,)


X, Y = general(9), general(4)
DIFFERENTIABLE = {
    "convolve": lambda x, y: ss.convolve(x, y, "same"),
    "correlate": ss.correlate,
    "fftconvolve": lambda x, y: ss.fftconvolve(x, y, "valid"),
    "convolve2d": lambda x, y: ss.convolve2d(x[None], y[None], boundary="symm"),
    "detrend": lambda x, y: ss.detrend(x, bp=3),
    "welch": lambda x, y: ss.welch(x, nperseg=4)[1],
    "csd": lambda x, y: gnp.real(ss.csd(x, y, nperseg=4)[1]),
    "istft": lambda x, y: ss.istft(ss.stft(x, nperseg=4)[2] * 2, nperseg=4)[1],
}


@pytest.mark.parametrize("what", DIFFERENTIABLE)
def test_derivatives_jit_and_vmap(what):
    f = DIFFERENTIABLE[what]
    check_grads(f, (X, Y), order=2, atol=1e-4, rtol=1e-4)
    close(ga.jit(f)(X, Y), f(X, Y))
    mapped = ga.vmap(f, in_axes=(0, None))(np.stack([X, 2 * X]), Y)
    close(mapped, np.stack([f(X, Y), f(2 * X, Y)]))


ONE = gnp.ones(32, "float32")
ERRORS = [
    (ValueError, "mode must be one of", lambda: ss.convolve(X, Y, "odd")),
    (ValueError, "expected 'auto', 'fft', or 'direct'", lambda: ss.convolve(X, Y, method="odd")),
    (ValueError, "same number of dimensions", lambda: ss.convolve(X, Y[None])),
    (ValueError, "zero-size arrays", lambda: ss.convolve(X, Y[:0])),
    (ValueError, "smaller than the other in every", lambda: ss.convolve(
        gnp.ones((2, 5)), gnp.ones((5, 2)), "valid")),
    (ValueError, "2-dimensional", lambda: ss.convolve2d(X, Y)),
    (ValueError, "boundary must be one of", lambda: ss.convolve2d(
        gnp.ones((2, 2)), gnp.ones((2, 2)), boundary="odd")),
    (ValueError, "mapped axes must have same", lambda: ss.fftconvolve(
        gnp.ones((2, 5)), gnp.ones((3, 2)), axes=1)),
    (ValueError, "Trend type", lambda: ss.detrend(X, type="odd")),
    (ValueError, "Breakpoints", lambda: ss.detrend(X, bp=99)),
    (NotImplementedError, "overwrite_data", lambda: ss.detrend(X, overwrite_data=True)),
    (ValueError, "average must be", lambda: ss.csd(ONE, ONE, average="odd")),
    (ValueError, "Unknown scaling", lambda: ss.csd(ONE, ONE, scaling="odd")),
    (ValueError, "nfft must be greater", lambda: ss.csd(ONE, ONE, nperseg=8, nfft=4)),
    (ValueError, "noverlap must be less", lambda: ss.csd(ONE, ONE, nperseg=8, noverlap=8)),
    (ValueError, "positive integer", lambda: ss.csd(ONE, ONE, nperseg=-1)),
    (ValueError, "different from length of window",
     lambda: ss.csd(ONE, ONE, nperseg=8, window=np.ones(4))),
    (ValueError, "window must be 1-D", lambda: ss.csd(ONE, ONE, window=np.ones((4, 4)))),
    (ValueError, "longer than input", lambda: ss.csd(ONE, ONE, window=np.ones(64))),
    (ValueError, "broadcast together", lambda: ss.csd(gnp.ones((3, 9)), gnp.ones((2, 9)))),
    (ValueError, "Unknown boundary", lambda: ss.stft(ONE, boundary="odd one")),
    (ValueError, "at least 2d", lambda: ss.istft(ONE)),
    (ValueError, "differing time and frequency",
     lambda: ss.istft(gnp.ones((5, 3)), time_axis=0, freq_axis=0)),
    (ValueError, "window must have length of 8",
     lambda: ss.istft(gnp.ones((5, 3)), window=np.ones(4))),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "call"), ERRORS, ids=[w for _, w, _ in ERRORS])
def test_misuse_is_an_error(error, words, call):
    with pytest.raises(error, match=words):
        call()
