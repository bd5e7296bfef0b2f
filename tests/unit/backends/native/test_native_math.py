"""Elementary functions of native code: how near they are, and their special values.

In: floats of every size. Out: errors in units of the last place against the C library's in double,
and NumPy's values for zeros, infinities, nan and subnormal numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests.support import natively

natively.need_compiler()


def odd(function):
    """A function of SciPy's that forgets the sign of zero, with it."""
    return lambda x: np.copysign(function(x), x)


#: Name -> function, in double, and the greatest error in units of the last place.
FUNCTIONS = {
    "exp": (gnp.exp, np.exp, 1.0),
    "expm1": (gnp.expm1, np.expm1, 1.5),
    "log": (gnp.log, np.log, 0.9),
    "log1p": (gnp.log1p, np.log1p, 1.4),
    "tanh": (gnp.tanh, np.tanh, 2.5),
    "logistic": (nn.sigmoid, special.expit, 2.5),
    "erf": (lax.erf, special.erf, 1.4),
    "erfc": (lax.erfc, special.erfc, 1.0),
    "erf_inv": (lax.erf_inv, odd(special.erfinv), 3.5),
    "i0e": (lax.bessel_i0e, special.i0e, 1.0),
    "i1e": (lax.bessel_i1e, odd(special.i1e), 1.0),
    "lgamma": (lax.lgamma, lambda x: special.gammaln(np.where(x == -np.inf, np.inf, x)), 2.0),
    # nan at both zeros, as JAX has it: the pole has no sign.
    "digamma": (lax.digamma, lambda x: special.digamma(np.where(x == 0, np.nan, x)), 1.0),
    "sin": (gnp.sin, np.sin, 1.6),
    "cos": (gnp.cos, np.cos, 1.6),
    "exp2": (gnp.exp2, np.exp2, 1.0),
    "sinh": (gnp.sinh, np.sinh, 2.2),
    "cosh": (gnp.cosh, np.cosh, 2.0),
    "asinh": (gnp.arcsinh, np.arcsinh, 2.0),
    "acosh": (gnp.arccosh, np.arccosh, 2.2),
    "atanh": (gnp.arctanh, np.arctanh, 2.1),
}
#: In double against long double, where that is longer.
LONG = {
    "exp": (gnp.exp, np.exp, 1.0),
    "log": (gnp.log, np.log, 0.9),
    "tanh": (gnp.tanh, np.tanh, 2.6),
    "exp2": (gnp.exp2, np.exp2, 1.1),
    "expm1": (gnp.expm1, np.expm1, 2.0),
    "log1p": (gnp.log1p, np.log1p, 1.5),
    "sinh": (gnp.sinh, np.sinh, 2.5),
    "cosh": (gnp.cosh, np.cosh, 2.0),
    "asinh": (gnp.arcsinh, np.arcsinh, 2.5),
    "acosh": (gnp.arccosh, np.arccosh, 2.5),
    "atanh": (gnp.arctanh, np.arctanh, 2.5),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-39]
SPECIAL += [88.7, 88.8, -103.9, -104.1, 3e38, -3e38]


@pytest.fixture(scope="module")
def compiled():
    """A function on an array of any length, for each name and dtype."""
    made = {}
    with ga.enable_x64(True):
        for kind, table in (("float32", FUNCTIONS), ("float64", LONG)):
            for name, (f, _, _) in table.items():
                argument = ga.ShapeDtypeStruct((1 << 14,), kind)
                made[name, kind] = natively.written(ga.jit(f).lower(argument).jaxpr)
    natively.compile_all(list(made.values()))

    def call(name: str, x: np.ndarray) -> np.ndarray:
        program, size = made[name, x.dtype.name], 1 << 14
        padded = np.concatenate([x, np.ones(-len(x) % size, x.dtype)])
        found = [program(padded[i : i + size])[0] for i in range(0, len(padded), size)]
        return np.concatenate(found)[: len(x)]

    return call


def errors(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Distances in units of the last place; values that are not finite have to be the same."""
    with np.errstate(over="ignore"):
        near = wanted.astype(found.dtype)
    finite = np.isfinite(near)
    assert np.array_equal(found[~finite], near[~finite], equal_nan=True)
    assert np.isfinite(found[finite]).all()
    assert np.array_equal(np.signbit(found[near == 0]), np.signbit(near[near == 0]))
    unit = np.spacing(np.abs(near[finite])).astype(wanted.dtype)
    return np.abs(found[finite].astype(wanted.dtype) - wanted[finite]) / unit


def floats(step: int) -> np.ndarray:
    """Every so many of all float32."""
    return np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def check(name: str, x: np.ndarray, compiled) -> None:
    table = FUNCTIONS if x.dtype == np.float32 else LONG
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    _, reference, most = table[name]
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(wide))
    assert errors(compiled(name, x), wanted).max() <= most


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_size_of_float(name, compiled):
    check(name, floats(65_537), compiled)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_floats(name, compiled):
    for part in np.array_split(floats(61), 64):
        check(name, part, compiled)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no longer")
@pytest.mark.parametrize("name", LONG)
def test_double(name, compiled, rng):
    x = np.concatenate([rng.standard_normal(20_000) * s for s in (1e-8, 0.1, 1, 30, 300)])
    check(name, np.abs(x) if name == "log" else x, compiled)


def test_beside_the_zeros_of_log_gamma(compiled):
    near = np.array([1, 2], np.float32)
    below, above = near, near
    found = [near]
    for _ in range(50):
        below, above = np.nextafter(below, np.float32(0)), np.nextafter(above, np.float32(3))
        found += [below, above]
    check("lgamma", np.concatenate(found), compiled)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name, compiled):
    check(name, np.array(SPECIAL, np.float32), compiled)


def test_sizes_of_complex_numbers():
    """Of parts of every size beside one another, and beside special values."""
    special_ = np.array(SPECIAL, np.float32)
    re, im = floats(262_147), np.roll(floats(262_147), 1)
    # The same exponents too, and any other digits.
    near = (im.view(np.uint32) ^ 0x12345).view(np.float32)
    re = np.concatenate([re, near, np.repeat(special_, len(SPECIAL))])
    im = np.concatenate([im[::-1], im, np.tile(special_, len(SPECIAL))])
    for wide in (False, True):
        with np.errstate(all="ignore"):
            parts = (re.astype(np.float64), im.astype(np.float64)) if wide else (re, im)
        with ga.enable_x64(wide):
            lowered = ga.jit(lambda x, y: gnp.abs(lax.complex(x, y))).lower(*parts)
            program = natively.written(lowered.jaxpr)
            natively.compile_all([program])
            (found,) = program(*parts)
        with np.errstate(all="ignore"):
            wanted = np.hypot(*(x.astype(np.longdouble if wide else np.float64) for x in parts))
            assert errors(found, wanted).max() <= 1.6


# ---- halves ----


def test_floats_as_halves_and_back():
    size = 1 << 16
    aval = ga.ShapeDtypeStruct
    to = ga.jit(lambda x: x.astype(gnp.float16)).lower(aval((size,), "float32")).jaxpr
    # A product of halves is rounded to one, and read as a float.
    back = ga.jit(lambda h: (h * h).astype(gnp.float32)).lower(aval((size,), "float16")).jaxpr
    narrowed, squared = (natively.written(graph) for graph in (to, back))
    natively.compile_all([narrowed, squared])
    for x in floats(4093)[: 16 * size].reshape(16, size):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(narrowed(x)[0], x.astype(np.float16))
    h = np.arange(size, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(squared(h)[0], (h * h).astype(np.float32))


def test_inverse_of_the_error_function_in_double(rng):
    ends = 1 - 10.0 ** rng.uniform(-16, 0, 5000)
    small = 10.0 ** rng.uniform(-300, -1, 5000)
    x = np.concatenate([rng.uniform(-1, 1, 10_000), ends, -ends, small, [0.0, -0.0, 1, -1, 2]])
    with ga.enable_x64(True):
        program = natively.written(ga.jit(lax.erf_inv).lower(x).jaxpr)
    natively.compile_all([program])
    (found,) = program(x)
    wanted = odd(special.erfinv)(x)
    assert errors(found, wanted).max() <= 6


# ---- zeta functions ----

ZETAS = {
    "trigamma": (lambda x: lax.polygamma(1.0, x), lambda x: special.polygamma(1, x)),
    "tetragamma": (lambda x: lax.polygamma(2.0, x), lambda x: special.polygamma(2, x)),
    "of order 7": (lambda x: lax.polygamma(7.0, x), lambda x: special.polygamma(7, x)),
    "of order 30": (lambda x: lax.polygamma(30.0, x), lambda x: special.polygamma(30, x)),
    "zeta(1.25, x)": (lambda x: lax.zeta(1.25, x), lambda x: special.zeta(1.25, x)),
    "zeta(40, x)": (lambda x: lax.zeta(40.0, x), lambda x: special.zeta(40, x)),
}


@pytest.mark.parametrize("negative", [False, True])
def test_zeta_functions(negative):
    # Numbers of every size; one that is negative makes the block go the long way.
    size = 1 << 14
    x = floats(262_144 - 1)
    x = np.abs(x[np.isfinite(x)])[:size]
    x = np.concatenate([x, np.ones(size - len(x), np.float32)])
    x[:4] = np.nan, 1e-45, 3e37, 12
    if negative:
        x[:2] = 3e38, np.inf
        x[3:200] = -np.linspace(0.3, 40.1, 197)
    argument = ga.ShapeDtypeStruct((size,), "float32")
    programs = [natively.written(ga.jit(f).lower(argument).jaxpr) for f, _ in ZETAS.values()]
    natively.compile_all(programs)
    for program, (name, (_, reference)) in zip(programs, ZETAS.items(), strict=True):
        with np.errstate(all="ignore"):
            wanted = reference(x.astype(np.float64))
        assert errors(program(x)[0], wanted).max() <= 1, name


def test_sums_whose_terms_vanish():
    """All terms are 0, the first one is infinite, or the first one alone is not 0; the pole."""
    orders = np.array([1e30, np.inf, 800, 1e30, np.inf, 1])
    places = np.array([1.5, 2, 3, 0.5, 1, np.nan])
    with ga.enable_x64(True):
        for dtype in ("float32", "float64"):
            given = orders.astype(dtype), places.astype(dtype)
            program = natively.written(ga.jit(lax.zeta).lower(*given).jaxpr)
            natively.compile_all([program])
            np.testing.assert_array_equal(program(*given)[0], [0, 0, 0, np.inf, 1, np.inf])


def test_orders_that_are_elements(rng):
    m = rng.integers(0, 30, 1 << 14).astype(np.float32)
    m[:4] = 0, 1.5, -1, np.nan
    x = rng.uniform(0.1, 30, m.shape).astype(np.float32)
    program = natively.written(ga.jit(lax.polygamma).lower(m, x).jaxpr)
    natively.compile_all([program])
    found = program(m, x)[0]
    assert np.isnan(found[1:4]).all()
    whole = np.r_[0, 4 : len(m)]
    wanted = special.polygamma(m[whole].astype(int), x[whole].astype(np.float64))
    assert errors(found[whole], wanted).max() <= 1


def test_quotients_of_integers_are_exact(rng):
    """Against integers of Python's, with the lowest and highest numbers, 0 and -1 among them."""
    dtypes = [np.dtype(f"{kind}{8 * size}") for kind in ("int", "uint") for size in (1, 2, 4, 8)]
    cases = []
    for dtype in dtypes:
        info = np.iinfo(dtype)
        ends = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 7]
        ends = np.array([*ends, *([-1, -2, -7] if info.min else [])], dtype)
        drawn = rng.integers(info.min, info.max, (2, 300), dtype, endpoint=True)
        x, y = (np.r_[a.ravel(), b] for a, b in zip(np.meshgrid(ends, ends), drawn, strict=True))
        cases.append((np.r_[x, y], np.r_[y, x // 5]))
    with ga.enable_x64(True):
        f = lambda x, y: [lax.div(x, y), lax.rem(x, y)]
        programs = [natively.written(ga.jit(f).lower(*c).jaxpr) for c in cases]
    natively.compile_all(programs)
    for dtype, (x, y), program in zip(dtypes, cases, programs, strict=True):
        whole, rest = program(x, y)
        for a, b, q, r in zip(*(v.tolist() for v in (x, y, whole, rest)), strict=True):
            wanted = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1
            assert q == int(
                np.array(wanted & (2 ** (8 * dtype.itemsize) - 1), np.uint64).astype(dtype)
            )
            assert r == (a - wanted * b if b else a)


@pytest.mark.parametrize("near", [True, False])
def test_remainders_are_exact(near, rng):
    """A few large quotients, infinities and zeros send all numbers the other way."""
    x = (rng.standard_normal(3000) * 10.0 ** rng.integers(-3, 9, 3000)).astype(np.float32)
    y = (rng.standard_normal(3000) * 10.0 ** rng.integers(-2, 3, 3000)).astype(np.float32)
    x[:1500] = np.round(x[:1500] % 1000) * np.abs(y[:1500])  # beside whole quotients
    x[1500:1504] = [0.0, -0.0, 1e-42, -3.0]
    if not near:
        x[:4], y[4:8] = [np.inf, np.nan, 1e38, -1e38], [np.inf, 0.0, np.nan, 1e-40]
    program = natively.written(ga.jit(gnp.fmod).lower(x, y).jaxpr)
    natively.compile_all([program])
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    found = program(x, y)[0]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(
        np.signbit(found), np.signbit(wanted) | np.isnan(wanted) & np.signbit(found)
    )


def test_incomplete_functions_of_few_and_of_none():
    """Orders near 0, where the upper part is small; 0 and infinity, where all is at one place."""
    orders = np.r_[np.geomspace(1e-7, 1e-2, 40), 0, np.inf].astype(np.float32)
    places = np.r_[0, np.geomspace(1e-6, 0.99, 20), 1].astype(np.float32)
    a, x = (v.ravel() for v in np.meshgrid(orders, places))
    b = np.resize(np.float32([0, 2, np.inf, 0.5]), a.shape)
    made = ga.jit(lambda a, b, x: (lax.igamma(a, x), lax.igammac(a, x), lax.betainc(a, b, x)))
    program = natively.written(made.lower(a, b, x).jaxpr)
    natively.compile_all([program])
    a, b, x, found = *(v.astype(np.float64) for v in (a, b, x)), program(a, b, x)
    wanted = special.gammainc(a, x), special.gammaincc(a, x), special.betainc(a, b, x)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(have), np.isnan(want))
        known = ~np.isnan(want)
        assert errors(have[known], want[known]).max() <= 1


def test_angles_beside_nan():
    y, x = (v.ravel() for v in np.meshgrid(*[np.float32([np.nan, 0, -0.0, 1, -np.inf])] * 2))
    program = natively.written(ga.jit(lax.atan2).lower(y, x).jaxpr)
    natively.compile_all([program])
    np.testing.assert_allclose(program(y, x)[0], np.arctan2(y, x), rtol=1e-6)


ORDERS = [1e-30, 1e-10, 1e-3, 1.0, 30.0, 1e3, 1e5, 1e8, 1e12]


def test_incomplete_functions_of_orders_of_every_size(rng):
    """Around the mean, where both parts count; orders near 0, whose upper part is small."""
    a = np.repeat(ORDERS, 500).astype(np.float32)
    b = np.tile(np.repeat(ORDERS, 500 // len(ORDERS)), len(a))[: len(a)].astype(np.float32)
    off = rng.uniform(-3, 3, len(a))
    x = np.where(a < 1, rng.uniform(0, 2, len(a)), np.abs(a + off * np.sqrt(a))).astype(np.float32)
    mean = a / (a.astype(np.float64) + b)
    y = mean + off * np.sqrt(mean * (1 - mean) / (a + b + 1.0))
    y = np.where((y > 0) & (y < 1), y, rng.uniform(0, 1, len(a))).astype(np.float32)
    with ga.enable_x64(True):
        for dtype, most in ((np.float32, 16), (np.float64, 2e9)):
            given = [v.astype(dtype) for v in (a, x, b, y)]
            made = ga.jit(
                lambda a, x, b, y: (lax.igamma(a, x), lax.igammac(a, x), lax.betainc(a, b, y))
            )
            program = natively.written(made.lower(*given).jaxpr)
            natively.compile_all([program])
            a_, x_, b_, y_ = (v.astype(np.float64) for v in given)
            p, q, i = program(*given)
            gamma = most if dtype == np.float32 else 1000
            assert errors(p, special.gammainc(a_, x_)).max() <= gamma
            assert errors(q, special.gammaincc(a_, x_)).max() <= gamma
            assert errors(i, special.betainc(a_, b_, y_)).max() <= most


def _of_binomials(a: int, b: int, x: float) -> float:
    """I_x(a, b) of integers: how likely at least a of a + b - 1 throws are hits."""
    (hit, of), n = x.as_integer_ratio(), a + b - 1
    ways = (math.comb(n, k) * hit**k * (of - hit) ** (n - k) for k in range(a, n + 1))
    return sum(ways) / of**n


def test_incomplete_beta_function_to_its_last_digits():
    """Against sums of integers, halves, and powers: also where SciPy has lost most digits."""
    whole = [(1, 1), (2, 5), (7, 3), (19, 19), (3, 150), (150, 3), (60, 90)]
    rows = [
        (a, b, x, _of_binomials(a, b, x))
        for a, b in whole
        for x in (a / (a + b) + off / (a + b) for off in (-0.5, 0.0, 0.5))
    ]
    rows += [(a, a, 0.5, 0.5) for a in (0.25, 3e4, 1e6, 1.5e7, 1e9, 1e10)]
    rows += [(a, 1.0, x, x**a) for a, x in ((1e4, 0.9999), (1e8, 1 - 2.0**-27), (1e-9, 0.25))]
    rows += [(1.0, b, x, -math.expm1(b * math.log1p(-x))) for b, x in ((1e4, 1e-4), (1e8, 3e-8))]
    a, b, x, wanted = np.array(rows).T
    with ga.enable_x64(True):
        program = natively.written(ga.jit(lax.betainc).lower(a, b, x).jaxpr)
        natively.compile_all([program])
        np.testing.assert_allclose(program(a, b, x)[0], wanted, 3e-14)


def test_zeta_far_below_zero_ends():
    """A sum with a term for each number up to 0 would take years; SciPy's does."""
    q = np.array([-150.25, -1000.5, -(2.0**50) + 0.5, -(2.0**40) - 0.25])
    below = np.array([special.zeta(3.0, v) for v in q[:2]])
    with ga.enable_x64(True):
        order = np.full_like(q, 3.0)
        program = natively.written(ga.jit(lax.zeta).lower(order, q).jaxpr)
        natively.compile_all([program])
        for found in (program(order, q)[0], np.asarray(lax.zeta(order, q))):
            np.testing.assert_allclose(found[:2], below, rtol=1e-9)
            # All terms on both sides of 0 of quarters; those of halves cancel.
            quarters = special.zeta(3.0, 0.75) - special.zeta(3.0, 0.25)
            np.testing.assert_allclose(found[2:], [0.5 / 2.0**100, quarters], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products_of_complex_numbers_have_the_bits_of_numpys(dtype, rng):
    """The second product and the sum are rounded once, where the CPU has an instruction for it."""
    if not np.show_config(mode="dicts")["SIMD Extensions"]["found"]:
        pytest.skip("NumPy's loops are those of any CPU")
    part = lambda: rng.standard_normal(1001) * 10.0 ** rng.integers(-30, 30, 1001)
    a, b = (np.array(part() + 1j * part()).astype(dtype) for _ in range(2))
    with ga.enable_x64(True):
        program = natively.written(ga.jit(lambda a, b: a * b + a).lower(a, b).jaxpr)
    natively.compile_all([program])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(program(a, b)[0], a * b + a)
