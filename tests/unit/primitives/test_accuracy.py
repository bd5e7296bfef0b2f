"""Elementwise functions of every dtype in units in the last place, with NumPy in wider numbers as
the judge: what docs/accuracy-elementwise.md shows of one machine, with limits for any.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from bench import ulps
from gpuarray import lax
from gpuarray.scipy import special

#: What is computed in float32 and rounded once is exact to half a unit; log2 and log10 are two
#: steps. The C libraries' functions of doubles are within 1 or 2 units.
LIMITS = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 4, "complex64": 8, "complex128": 8}
#: exp2(z) rounds z log 2, whose absolute error is the result's relative one; 1 + exp(-z) cancels
#: near the poles of the logistic function.
ROUGH = {"exp2": 64, "logistic": 1024}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("row", ulps.ROWS, ids=lambda row: row.name)
def test_elementwise_functions(row, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "c" and row.of_complex is None:
        pytest.skip("not a function of complex numbers")
    limit = ROUGH.get(row.name, LIMITS[dtype.name]) if dtype.kind == "c" else LIMITS[dtype.name]
    x = ulps.numbers(row, dtype)[:: 1 if dtype.itemsize == 2 else 11]
    with ga.enable_x64(dtype.name in ("float64", "complex128")), np.errstate(all="ignore"):
        found = np.asarray(ulps.ours(row)(gnp.asarray(x)))
    assert ulps.worst(found, ulps.judged(row, x)) <= limit


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "log", "logistic", "tan"])
def test_of_few_numbers_all_functions_are_exact(name):
    """A finite difference of float32 magnifies an error of 2 units, and is made of few numbers."""
    row = next(row for row in ulps.ROWS if row.name == name)
    x = ulps.numbers(row, np.dtype("f"))
    x = x[:: max(1, len(x) // 500)][:500]
    assert ulps.worst(np.asarray(ulps.ours(row)(gnp.asarray(x))), ulps.judged(row, x)) <= 0.51


def test_logarithms_to_other_bases_are_as_exact_as_the_natural_one():
    """Near 0.76 NumPy's vectorised loop of float32 errs by 3.4 units, which the base magnifies."""
    x = np.linspace(0.6, 1.6, 200_000, dtype="f")
    for function, judge in ((gnp.log10, np.log10), (gnp.log2, np.log2)):
        assert ulps.worst(np.asarray(function(x)), judge(x.astype("d"))) <= 2
        # CUDA's logarithm is exact enough in float32.
        assert "(double)" not in ga.jit(function).lower(x).cuda_source()


@pytest.mark.parametrize("where", ["cpu", "simulator"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log1p_close_to_minus_one(dtype, where):
    """log(1 + z) of z = -1 + w is log w, and 1 + z gives w again where the real parts are close."""
    w = np.array([1e-6 + 1e-6j, -3e-7 + 1e-7j, 1e-3 - 2e-3j])
    z = (w - 1).astype(dtype)
    with ga.enable_x64(dtype == "complex128"), ga.default_device(where):
        found = np.asarray(lax.log1p(gnp.asarray(z)))
    want = np.log((z.real + z.real.dtype.type(1)) + 1j * z.imag.astype("d"))
    np.testing.assert_allclose(found, want, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("where", ["cpu", "simulator"])
def test_square_of_complex_numbers(where):
    """The real part is (a - b)(a + b): what cancels is exact, what would overflow does not."""
    with ga.default_device(where):
        x = gnp.asarray(
            np.array([1e20 + 1e20j, 1e20 - 1e20j, 1 + (1 + 2.0**-20) * 1j, 3 + 4j], "c8")
        )
        found = np.asarray(lax.square(x))
        # A sum or double of the parts overflows.
        large = np.asarray(lax.square(gnp.asarray(np.array([3e38 + 3e38j, 3e38 + 0.5j], "c8"))))
    assert found.real.tolist() == [0, 0, np.float32(-(2.0**-20) * (2 + 2.0**-20)), -7]
    assert found.imag.tolist() == [np.inf, -np.inf, np.float32(2 + 2.0**-19), 24]
    assert large.tolist() == [complex(0, np.inf), complex(np.inf, np.float32(3e38))]


def test_binomial_coefficients_near_the_largest_half():
    """C(n, 2) up to 1770 and C(34, 3) = 5984 are numbers of float16; n times as much is none."""
    n = np.arange(30, 61)
    with np.errstate(over="ignore"):
        found = np.asarray(special.comb(n.astype("f2"), np.float16(2))).astype("d")
    np.testing.assert_allclose(found, n * (n - 1) / 2, rtol=0.03)
    assert abs(float(special.comb(np.float16(34), np.float16(3))) / 5984 - 1) < 0.05


@pytest.mark.parametrize("where", ["cpu", "simulator"])
@pytest.mark.parametrize("name", ["atanh", "atan"])
def test_inverse_hyperbolic_tangent_near_its_poles(name, where):
    """Its poles are 1 and -1, those of the arc tangent i and -i: nothing cancels beside either."""
    w = np.array([1e-6 + 1e-7j, -3e-9 + 2e-9j, 1e-3 - 2e-3j])
    z = np.concatenate([w + 1, w - 1])
    want = np.arctanh(z.astype(np.clongdouble))
    z, want = (z, want) if name == "atanh" else (z / 1j, want / 1j)
    with ga.enable_x64(True), ga.default_device(where):
        found = np.asarray(getattr(lax, name)(gnp.asarray(z)))
    np.testing.assert_allclose(found, want.astype(complex), rtol=4 * np.finfo(float).eps)
