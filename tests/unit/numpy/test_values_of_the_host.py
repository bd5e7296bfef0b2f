"""Values of the host that an array's dtype cannot hold: every way in narrows them alike.

The reference is the conversion of an array: floats saturate, nan is 0, integers wrap.
"""

import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

FLOATS = [300.7, -1.5, float("nan"), 1e10, 1e300, np.float64(300.7), np.float32(-1.5), np.inf]
WAYS_IN = {
    "set a window": lambda x, v: x.at[0].set(v)[0],
    "set at indices": lambda x, v: x.at[gnp.array([1, 0])].set(v)[0],
    "set under a mask": lambda x, v: x.at[x == 0].set(v)[0],
    "set while tracing": lambda x, v: ga.jit(lambda x: x.at[0].set(v))(x)[0],
    "set at traced indices": lambda x, v: ga.jit(lambda x, i: x.at[i].set(v))(x, 0)[0],
    "pad": lambda x, v: gnp.pad(x, 1, constant_values=v)[0],
    "pad with pairs": lambda x, v: gnp.pad(x, 1, constant_values=(v, v))[0],
    "full": lambda x, v: lax.full((), v, x.dtype),
}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_floats_saturate(dtype, way):
    x = gnp.zeros(2, dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for value in FLOATS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = WAYS_IN[way](x, value)
        expected = 0 if np.isnan(value) else int(min(max(np.trunc(float(value)), low), high))
        assert (found.dtype, int(found)) == (dtype, expected), value


def test_set_takes_numpy_s_wide_scalars():
    x, i = gnp.zeros(3, "int32"), gnp.array([2, 0])
    for put in (lambda x: x.at[i].set(np.int64(7)), lambda x: x.at[0].set(np.int64(7))):
        assert put(x).tolist() == ga.jit(put)(x).tolist()
        assert put(x).dtype == "int32"
    assert gnp.zeros(3).at[i].set(np.float64(7)).dtype == "float32"


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
def test_complex_numbers_of_python_are_no_real_ones(dtype):
    x = gnp.zeros(2, dtype)
    for make in (
        lambda: lax.full((2,), 2j, dtype),
        lambda: lax.convert_element_type(2j, dtype),
        lambda: gnp.full_like(x, 2j),
        lambda: x.at[5].get(mode="fill", fill_value=2j),
    ):
        with pytest.raises(TypeError, match="complex"):
            make()
    assert lax.full((), 2j, bool)  # no zero


def test_values_that_fill_up_promote():
    x = gnp.array([0, 3, 0], "int8")
    for f in (
        lambda x: gnp.nonzero(x, size=2, fill_value=np.nan)[0],
        lambda x: gnp.intersect1d(x, gnp.array([3], "int8"), size=2, fill_value=np.nan),
        lambda x: gnp.setxor1d(x, gnp.array([0], "int8"), size=2, fill_value=np.nan),
    ):
        for g in (f, ga.jit(f)):
            found = g(x)
            assert found.dtype == "float32"
            assert np.isnan(found[1])
            assert found[0] == (1 if f(x)[0] == 1 else 3)
    assert gnp.nonzero(x, size=2, fill_value=-1)[0].dtype == "int32"
    with pytest.raises(ValueError, match="fill_value must be a scalar"):
        gnp.nonzero(x, size=2, fill_value=[1])
    with pytest.raises(ValueError, match="fill_value must be a scalar"):
        x.at[5].get(mode="fill", fill_value=[1])
    with pytest.raises(TypeError, match="must be a number"):
        x.at[5].get(mode="fill", fill_value="1")


@pytest.mark.parametrize("value", [np.int64(2**40 + 3), np.int64(-(2**33)), np.uint64(2**63 + 5)])
@pytest.mark.parametrize(
    "function",
    [
        gnp.sqrt,
        gnp.exp2,
        lambda v: gnp.float32(1) + v,
        lambda v: v * gnp.ones(2, "float16"),
        lambda v: gnp.maximum(v, 1.5),
        lambda v: gnp.where(True, v, 0.5),
        lambda v: gnp.power(v, 0.5),
        lambda v: gnp.arctan2(v, gnp.ones(1, "complex64").real),
    ],
)
def test_wide_integers_of_numpy_are_narrowed_as_their_arrays_are(value, function):
    """Without x64; by a compiled function too, so a value does not depend on `jit`."""
    kind = np.uint32 if isinstance(value, np.uint64) else np.int32
    expected = np.asarray(function(np.asarray([value]).astype(kind)))
    for given in (value, np.asarray(value), np.asarray([value])):
        for call in (function, ga.jit(function)):
            np.testing.assert_allclose(np.ravel(call(given))[-1], expected[-1], rtol=1e-6)
