"""Functions whose work differs from element to element, computed side by side in native code.

In: incomplete gamma functions of small and large operands, near one another and far apart, with
all special values; gamma numbers of all streams. Out: SciPy's values in double precision; NumPy's
numbers; the same bits whichever elements are neighbours, and one by one inside a fold.
"""

import numpy as np
import pytest
import scipy.special

import gpuarray as ga
import gpuarray.numpy as gnp
import gpuarray.scipy.special as gsp
from gpuarray import random
from tests.support import natively

natively.need_compiler()

N = 1300
SPECIAL = [0, -0.0, 1e-45, 1e-38, 0.1, 0.25, 1, 1e5, 1.1e5, 1e30, 3e38, np.inf, -1, np.nan]
BOTH = ("gammainc", "gammaincc")

#: Gamma numbers: the generator, whether streams are partitionable, the dtype, the function.
DRAWN = {
    "float32": ("threefry2x32", False, "float32", random.gamma),
    "float64": ("threefry2x32", True, "float64", random.loggamma),
    "bfloat16": ("unsafe_rbg", False, "bfloat16", random.gamma),
}
SHAPES = np.concatenate([np.random.default_rng(0).uniform(0.01, 5, N - 8), SPECIAL[-8:]])


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = 10 ** rng.uniform(-3, 5, N)
    x = a * 10 ** rng.normal(0, 0.2, N) + rng.exponential(1, N) * rng.choice([0, 1, 5], N)
    every = [np.ravel(y) for y in np.meshgrid(SPECIAL, SPECIAL)]
    pairs = (np.concatenate([y, z]).astype(np.float32) for y, z in zip((a, x), every, strict=True))
    return tuple(pairs)


def draw(name: str):
    impl, _, dtype, function = DRAWN[name]
    return lambda a: function(random.key(3, impl=impl), a, a.shape, dtype)


def written(function, *arrays):
    with ga.enable_x64(True):
        return natively.written(ga.jit(function).lower(*arrays).jaxpr)


@pytest.fixture(scope="module")
def programs():
    found = {}
    a, x = operands()
    for name in BOTH:
        f = getattr(gsp, name)
        found[name] = written(f, a, x)
        found[name, "turned"] = written(lambda a, x, f=f: f(a[::-1], x[::-1])[::-1], a, x)
        found[name, "few"] = written(lambda a, x, f=f: f(a[3:40], x[3:40]), a, x)
        # Along rows of one element, in a fold, no function of many elements is called.
        found[name, "alone"] = written(lambda a, x, f=f: f(a, x)[:, None].max(1), a, x)
    for name, (_, partitionable, _, _) in DRAWN.items():
        with ga.threefry_partitionable(partitionable):
            found[name] = written(draw(name), SHAPES.astype(name if name != "bfloat16" else "f4"))
    natively.compile_all(list(found.values()))
    return found


@pytest.mark.parametrize("name", BOTH)
def test_incomplete_gamma_functions(name, programs):
    """Within a unit in the last place: a sum in double precision is rounded once."""
    a, x = operands()
    (found,) = programs[name](a, x)
    want = getattr(scipy.special, name)(a.astype(float), x.astype(float))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    here = ~np.isnan(want)
    unit = np.spacing(np.abs(want[here]).astype(np.float32)).astype(float)
    assert np.max(np.abs(found[here] - want[here]) / unit) < 1


@pytest.mark.parametrize("other", ["turned", "few", "alone"])
@pytest.mark.parametrize("name", BOTH)
def test_neighbours_do_not_matter(name, other, programs):
    a, x = operands()
    (whole,), (found,) = programs[name](a, x), programs[name, other](a, x)
    np.testing.assert_array_equal(found, whole[3:40] if other == "few" else whole)


@pytest.mark.parametrize("name", DRAWN)
def test_gamma_numbers(name, programs):
    """NumPy's: the same proposals are accepted, and functions differ in their last digits."""
    impl, partitionable, dtype, _ = DRAWN[name]
    alpha = SHAPES.astype("f4" if name == "bfloat16" else dtype)
    (found,) = programs[name](alpha)
    with ga.enable_x64(True), ga.threefry_partitionable(partitionable):
        want = np.asarray(draw(name)(gnp.asarray(alpha)))
    exact = {"float32": 1e-4, "float64": 1e-11, "bfloat16": 2e-2}[name]
    wide = np.longdouble if name == "float64" else np.float32
    np.testing.assert_allclose(found.astype(wide), want.astype(wide), exact, exact)


def test_they_are_called_for_many_elements(programs):
    texts = {k: "\n".join(x.text for x in p.kernels) for k, p in programs.items()}
    called = {k for k, text in texts.items() if "_for_many" in text}
    assert called >= {*BOTH, ("gammainc", "turned"), ("gammaincc", "few"), *DRAWN}
