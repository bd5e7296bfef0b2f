"""Error functions in units in the last place, against SciPy in doubles, over all of float32."""

import math

import ml_dtypes
import numpy as np
import pytest
from scipy import special as sp

from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import registry
from gpuarray.primitives.numpy_rules import order_key

NAN, INF = math.nan, math.inf


def rule(name: str, x: np.ndarray) -> np.ndarray:
    """What the NumPy rule of a primitive gives."""
    with np.errstate(all="ignore"):
        out = registry[name].numpy_function([ShapedArray(x.shape, x.dtype)], {})(x)
    assert not np.shares_memory(out, x)
    return out


def ulps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distances of two float32 arrays in representable numbers."""
    return np.abs(order_key(x).astype(np.int64) - order_key(y))


def singles(step: int) -> np.ndarray:
    """Every `step`-th finite float32, denormals included, of both signs."""
    x = np.arange(0, 0x7F800000, step, dtype=np.uint32).view(np.float32)
    return np.concatenate([x, -x])


def between(low: float, high: float, n: int = 300_001) -> np.ndarray:
    return np.linspace(low, high, n).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "exact", "spans", "limit"),
    [
        ("erf", sp.erf, [(-4.5, 4.5), (-0.1, 0.1)], 3),  # 2 where NumPy's loops have FMA
        ("erfc", sp.erfc, [(-4.5, 10.2), (-0.1, 0.1), (9, 10.2)], 1),
    ],
)
def test_error_functions(name, exact, spans, limit):
    for x in (singles(8191), *(between(*span) for span in spans)):
        want = exact(x.astype(np.float64)).astype(np.float32)
        assert ulps(rule(name, x), want).max() <= limit


def test_erf_is_odd_and_bounded():
    x = np.abs(singles(8191))
    y = rule("erf", x)
    assert np.array_equal(rule("erf", -x), -y)
    assert y.max() == 1
    assert (y[x >= 4.4] == 1).all()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("erf", [NAN, 1, -1, 0.0, -0.0]),
        ("erfc", [NAN, 0, 2, 1, 1]),
        ("erf_inv", [NAN, NAN, NAN, 0.0, -0.0]),
    ],
)
def test_special_values(name, values):
    x = np.array([NAN, INF, -INF, 0.0, -0.0], np.float32)
    y = rule(name, x)
    assert np.array_equal(y, np.float32(values), equal_nan=True)
    assert np.array_equal(np.signbit(y[3:]), np.signbit(values[3:]))


def test_denormals_stay():
    tiny = np.array([1e-45, -1e-45, 1e-40], np.float32)
    assert ulps(rule("erf", tiny), sp.erf(tiny.astype(np.float64)).astype(np.float32)).max() == 0
    assert (
        rule("erfc", np.float32([10.0, 10.05])).tolist()
        == np.float32([sp.erfc(10.0), sp.erfc(np.float64(np.float32(10.05)))]).tolist()
    )


@pytest.mark.parametrize(("edge", "tolerance"), [(0.99, 4e-7), (0.9999999, 6e-6)])
def test_erf_inv_of_singles(edge, tolerance):
    x = between(-edge, edge, 500_000)
    want = sp.erfinv(x.astype(np.float64))
    assert np.abs(rule("erf_inv", x) / want - 1).max() < tolerance


def test_erf_inv_rounds_as_xla():
    """JAX's results on a CPU, where every rounding on the way shows in normal numbers."""
    table = [
        ("0x1.3c303ap-1", "0x1.3c3474p-1"),
        ("-0x1.3d51cep-1", "-0x1.3daceep-1"),
        ("0x1.446712p-1", "0x1.47018ap-1"),
        ("0x1.474d42p-1", "0x1.4ae366p-1"),
        ("-0x1.4a67aep-1", "-0x1.4f161ep-1"),
        ("0x1.50e562p-1", "0x1.58044ap-1"),
        ("0x1.511b2ap-1", "0x1.584f2ep-1"),
        ("-0x1.5d375ep-1", "-0x1.6992p-1"),
    ]
    x, want = (np.float32([float.fromhex(row[i]) for row in table]) for i in (0, 1))
    assert rule("erf_inv", x).tolist() == want.tolist()


def test_erf_inv_of_doubles():
    x = np.linspace(-0.999, 0.999, 100_000)
    assert np.allclose(rule("erf_inv", x), sp.erfinv(x), rtol=3e-15, atol=0)


@pytest.mark.parametrize("name", ["erf", "erfc", "erf_inv"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_shapes_and_layouts(name, dtype):
    x = np.linspace(-0.9, 0.9, 60_000).astype(dtype)  # more than one block
    flat = rule(name, x)
    assert flat.dtype == dtype
    grid = x.reshape(200, 300)
    assert np.array_equal(rule(name, grid), flat.reshape(200, 300))
    assert np.array_equal(rule(name, grid.T), flat.reshape(200, 300).T)
    assert np.array_equal(rule(name, x[::7]), flat[::7])
    assert rule(name, x[:0].reshape(0, 3)).shape == (0, 3)
    assert np.array_equal(rule(name, x[10].reshape(())), flat[10])
