"""Fourier transforms by native code: lengths, axes, precision, loops, threads.

In: complex and real arrays. Out: SciPy's values within rounding, the same bits for any number of
threads; lengths that SciPy has other ways for are left to it.
"""

import numpy as np
import pytest
import scipy.fft

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.config import config
from tests.support import natively

natively.need_compiler()

#: All ways: one element, short rows side by side, rows as matrices, long rows step by step; every
#: prime factor; lengths that fill no register.
LENGTHS = [1, 2, 3, 8, 13, 21, 50, 64, 77, 144, 1000, 4096, 1 << 15]
SHAPES = [(3, 4), (5, 16, 8), (100, 12), (64, 130), (2, 6, 10, 14)]


def drawn(shape, dtype, rng) -> np.ndarray:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def check(cases) -> None:
    """Compile and run (function's name, operand, its arguments), and compare with SciPy's in wider
    numbers: errors grow with the logarithm of the length.
    """
    programs = []
    for name, x, given in cases:
        f = lambda x, name=name, given=given: getattr(gnp.fft, name)(x, **given)
        with ga.enable_x64(True):
            programs.append(natively.written(ga.jit(f).lower(x).jaxpr))
    natively.compile_all(programs)
    for p, (name, x, given) in zip(programs, cases, strict=True):
        assert "ga_fft" in p.kernels[0].text, (name, x.shape)
        (found,) = p(x)
        wide = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
        wanted = getattr(scipy.fft, name)(wide, **given)
        assert found.shape == wanted.shape
        assert found.dtype == getattr(scipy.fft, name)(x, **given).dtype
        scale = np.sqrt(np.mean(np.abs(wanted) ** 2))
        error = np.sqrt(np.mean(np.abs(found - wanted) ** 2)) / scale
        assert error <= 2 * np.finfo(found.dtype).eps, (name, x.shape, x.dtype, error)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_any_length(dtype, rng, every):
    real = np.dtype(dtype).type(0).real.dtype
    names = ["fft", "ifft"] if dtype == "complex64" else ["ifft", "fft"]
    cases = [(names[i % 2], drawn(n, dtype, rng), {}) for i, n in enumerate(LENGTHS)]
    if every:  # else a length has one direction in single precision and the other in double
        cases += [(names[(i + 1) % 2], drawn(n, dtype, rng), {}) for i, n in enumerate(LENGTHS)]
    for n in (n for n in LENGTHS if n % 2 == 0):
        cases += [("rfft", drawn(n, real, rng), {})]
        # The imaginary parts at both ends do not count.
        cases += [("irfft", drawn(n // 2 + 1, dtype, rng), {"n": n})]
    check(cases)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_any_axes(dtype, rng, every):
    real = np.dtype(dtype).type(0).real.dtype
    cases = []
    for k, shape in enumerate(SHAPES):
        x = drawn(shape, dtype, rng)
        some = [("fft", x, {}), ("ifft", x, {"axis": 0})]
        axes = {"axes": (-3, -2, -1)[-min(3, len(shape)) :]}
        some += [("fftn", x, axes), ("ifftn", x, axes), ("rfftn", drawn(shape, real, rng), axes)]
        half = drawn((*shape[:-1], shape[-1] // 2 + 1), dtype, rng)
        some += [("irfftn", half, {"s": shape[-3:], **axes})]
        # Of each kind some shapes in single precision, and the others in double.
        cases += some if every else some[(k + (dtype == "complex128")) % 2 :: 2]
    check(cases)


def test_other_lengths_are_scipys(rng):
    for n in (17, 1013, 5000 * 17):
        x = drawn(n, "complex64", rng)
        p = natively.written(ga.jit(gnp.fft.fft).lower(x).jaxpr)
        assert p.writer.by_host
        np.testing.assert_allclose(p(x)[0], np.fft.fft(x), rtol=1e-3, atol=1e-2)
    x = drawn(9, "float32", rng)
    assert natively.written(ga.jit(gnp.fft.rfft).lower(x).jaxpr).writer.by_host


def test_in_a_loop_for_any_number_of_threads(rng):
    u, n = drawn((40, 512), "float32", rng), 512

    def f(u):
        k = gnp.fft.rfftfreq(n).astype(gnp.float32)
        step = lambda _, u: gnp.fft.irfft(gnp.fft.rfft(u) * gnp.exp(-k * k), n)
        return lax.fori_loop(0, 5, step, u), gnp.fft.fft(u.ravel())

    p = natively.written(ga.jit(f).lower(u).jaxpr)
    assert not p.writer.by_host
    natively.compile_all([p])
    before, found = config.num_threads, []
    for threads in (1, 2, 7):
        config.update("num_threads", threads)
        found.append(p(u))
    config.update("num_threads", before)
    for several in zip(*found, strict=True):
        assert all(np.array_equal(several[0], other) for other in several[1:])
    k = np.fft.rfftfreq(n)
    wanted = np.fft.irfft(np.fft.rfft(u.astype(float)) * np.exp(-k * k) ** 5, n)
    np.testing.assert_allclose(found[0][0], wanted, rtol=1e-4, atol=1e-5)
