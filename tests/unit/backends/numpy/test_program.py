"""The functions that NumPy's backend writes: small values go ways of their own, with one result."""

import operator

import numpy as np
import pytest

import gpuarray as ga

OPERATIONS = {
    name: getattr(operator, name) for name in "add sub mul truediv lt le eq ne gt ge".split()
}
DTYPES = ["int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"]


def values(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of numbers, with the ends of their range among them."""
    dtype = np.dtype(dtype) if dtype != "bfloat16" else ga.numpy.bfloat16.dtype
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        some = np.array([info.min, info.max, 0, 1, 3, info.max - 1], dtype)
    else:
        some = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 1 / 3, 6e4], dtype)
    x, y = np.meshgrid(some, some)
    return x.ravel(), y.ravel()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_scalars_are_computed_as_elements_of_arrays_are(name, dtype):
    f = ga.jit(OPERATIONS[name])
    x, y = values(dtype)
    of_scalars = np.array([np.asarray(f(a, b)) for a, b in zip(x, y, strict=True)])
    same(of_scalars, np.asarray(f(x, y)))
    if name != "truediv":  # of integers ours is another type
        with np.errstate(all="ignore"):
            same(of_scalars, OPERATIONS[name](x, y))


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal numbers of one dtype; zeros have the same sign."""
    assert found.dtype == wanted.dtype
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(found, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number])


@pytest.mark.parametrize("literal", [2.0, -0.0, float("nan")])
def test_literals_are_of_their_dtype(literal):
    x = np.arange(3, dtype=np.float16)
    found = np.asarray(ga.jit(lambda x: x * literal)(x))
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, x * np.float16(literal))
