"""Derivatives of public functions against differences: none is zero or nan in silence."""

import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

NAMESPACES = {"numpy": gnp, "lax": lax, "scipy.special": ga.scipy.special, "nn": ga.nn}

#: Where no function of these namespaces has a corner, a jump or a pole.
ONE = [(x,) for x in (-2.63, -1.37, -0.61, -0.23, 0.37, 0.71, 1.43, 2.77, 6.31)]
MORE = [
    *((0.61, 1.43), (1.37, 0.71), (2.77, 0.37), (2.77, 5.31), (-0.37, 2.3)),
    *((2, 0.71), (0.71, 3), (1.3, 0.61, 0.37), (0.41, 1.3, 0.71), (2.3, 3.7, 4.9)),
]

#: What is as it should be: the derivative is stopped on purpose; the standard deviation of one
#: number has a corner; orders of expn are integers.
EXCEPT = {"stop_gradient", "std", "nanstd", "expn"}
STEP = 1e-5


def _functions(namespace):
    module = NAMESPACES[namespace]
    for name in sorted(dir(module)):
        f = getattr(module, name)
        if not name.startswith("_") and callable(f) and not isinstance(f, type):
            yield name, f


def _of_one(f, args, i):
    def run(x):
        given = [x if k == i else a if isinstance(a, int) else gnp.asarray(a)
                 for k, a in enumerate(args)]  # fmt: skip
        out = f(*given)
        return out[0] if isinstance(out, (tuple, list)) else out

    return run


def _slope(run, x):
    """The difference quotient, or None where the function is not one of floats."""
    try:
        y = run(gnp.asarray(x))
        if not isinstance(y, ga.Array) or y.shape or y.dtype != np.float64:
            return None
        around = float(run(gnp.asarray(x - STEP))), float(run(gnp.asarray(x + STEP)))
    except Exception:  # not a function of so many numbers
        return None
    slope = (around[1] - around[0]) / (2 * STEP)
    return slope if np.isfinite(slope) else None


@pytest.mark.parametrize("samples", [ONE, MORE], ids=["one", "more"])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_derivatives_are_differences(namespace, samples):
    wrong, compared = [], 0
    with ga.enable_x64(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, f in _functions(namespace):
            for args in () if name in EXCEPT else samples:
                for i, x in enumerate(args):
                    run = _of_one(f, args, i)
                    slope = None if isinstance(x, int) else _slope(run, x)
                    if slope is None:
                        continue
                    try:
                        got = float(ga.grad(run)(gnp.asarray(x)))
                    except (NotImplementedError, ValueError):
                        continue  # it says that it has none
                    compared += 1
                    if not np.isclose(got, slope, rtol=1e-4, atol=1e-7):
                        wrong.append(f"{name}{args}, argument {i}: {got}, not {slope}")
    assert not wrong, "\n".join(wrong)
    assert compared > 50


# ---- powers of two ----


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_and_frexp_are_numpys_for_any_bits(dtype):
    rng = np.random.default_rng(0)
    bits = np.dtype(f"uint{8 * np.dtype(dtype).itemsize}")
    x = rng.integers(0, np.iinfo(bits).max, 4000, dtype=bits, endpoint=True).view(dtype)
    x[:5] = 0, -0.0, np.inf, -np.inf, np.nan
    reach = 3 * np.finfo(dtype).maxexp
    n = rng.integers(-reach, reach, x.size, dtype=np.int32)
    n[5:500] = rng.choice([-(2**31), 2**31 - 1, -1, 0, 1], 495)
    with np.errstate(all="ignore"), ga.enable_x64():
        np.testing.assert_array_equal(gnp.ldexp(x, n), np.ldexp(x, n))
        x = x[np.isfinite(x)]
        for got, want in zip(gnp.frexp(x), np.frexp(x), strict=True):
            np.testing.assert_array_equal(got, want)


def test_ldexp_takes_exponents_of_any_type():
    assert gnp.ldexp(0.0, 1000) == 0 and gnp.ldexp(np.inf, -1000) == np.inf
    assert gnp.ldexp(np.uint32(3), np.uint32(2**31 + 5)) == np.inf
    assert gnp.ldexp(np.uint32(2**31), np.uint32(1)) == 2.0**32
    assert gnp.ldexp(gnp.array([3.0, 0.0]), np.int8(-2)).tolist() == [0.75, 0.0]
    with ga.enable_x64():
        assert gnp.ldexp(1.0, np.int64(2**32)) == np.inf
        assert gnp.ldexp(1.0, np.uint64(2**63)) == np.inf


def test_derivatives_of_ldexp_and_frexp():
    assert ga.grad(gnp.ldexp)(3.0, 2) == 4
    assert ga.grad(gnp.ldexp)(1e-45, 0) == 1
    assert ga.grad(ga.grad(lambda x: gnp.ldexp(x * x, 3)))(2.0) == 16
    assert ga.grad(lambda x: gnp.frexp(x)[0])(3.0) == 0.25
    slopes = ga.vmap(ga.grad(lambda x: gnp.frexp(x)[0]))(gnp.array([3.0, 0.2, -5.0]))
    assert slopes.tolist() == [0.25, 4.0, 0.125]


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_rules_an_argument_pass_over_integers(name):
    f = getattr(ga.scipy.special, name)
    for at, given in ((0, (2.0, 3)), (1, (2, 3.0))):
        floats = ga.grad(f, at)(*map(float, given))
        assert ga.grad(f, at)(*given) == pytest.approx(float(floats), rel=1e-6)
