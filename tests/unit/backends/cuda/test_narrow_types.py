"""Types of 8 bits and fewer in kernels: every value and every pair of them, against ml_dtypes and
the NumPy rules.

In: all bit patterns of a type. Out: what the simulator makes of them, in one program for each type.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.config import strict
from tests.support import simulated

simulated.need_compiler()

INTEGERS = ["int4", "uint4", "int2", "uint2"]
FLOATS = (
    "float8_e4m3 float8_e3m4 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz float8_e5m2 "
    "float8_e4m3fn float6_e3m2fn float6_e2m3fn float4_e2m1fn"
).split()


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(gnp, name).dtype)


def every(name: str) -> np.ndarray:
    bits = int(name[-1]) if "int" in name else gnp.finfo(name).bits
    return np.arange(1 << bits, dtype=np.uint8).view(dtype_of(name))


def compare(function, *arguments) -> None:
    """Each result of a program on the simulator is that of the NumPy rules."""
    found = []
    for platform in ("simulator", "cpu"):
        with strict(True), ga.default_device(ga.devices(platform)[0]):
            made = ga.jit(function)(*map(gnp.asarray, arguments))
            found.append({name: np.asarray(x) for name, x in made.items()})
    one, two = found
    for name, x in one.items():
        assert x.dtype == two[name].dtype, name
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        np.testing.assert_array_equal(x.astype(wide), two[name].astype(wide), name)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_few_bits(name):
    dtype, values = dtype_of(name), every(name)
    bits = int(name[-1])
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    divisors = np.where(y.astype(int) == 0, 1, y.astype(int)).astype(dtype)
    two = (
        "add sub mul max min bitwise_and bitwise_or bitwise_xor shift_left shift_right_logical "
        "shift_right_arithmetic lt eq mulhi"
    )
    one = "neg bitwise_not sign population_count clz" + (" abs" if name[0] == "i" else "")
    same_width = {4: gnp.uint4, 2: gnp.uint2}[bits]

    def program(x, y, divisors, floats, wide, bytes_):
        rows, places = x.reshape(4, -1), gnp.arange(x.size) % 4
        return {
            **{n: getattr(lax, n)(x, y) for n in two.split()},
            **{n: getattr(lax, n)(x) for n in one.split()},
            **{n: getattr(lax, n)(x, divisors) for n in ("div", "rem")},
            "select": lax.select(x > y, x, y),
            "power": lax.integer_pow(x, 3),
            **{n: getattr(gnp, n)(rows, axis=1) for n in "sum prod max min argmax cumsum".split()},
            "sort": gnp.sort(x),
            "largest": lax.top_k(x, 3)[0],
            "search": gnp.searchsorted(gnp.sort(x), y),
            "bits": lax.bitcast_convert_type(x, same_width),
            "bytes": lax.bitcast_convert_type(x.reshape(-1, 8 // bits), gnp.uint8),
            "of bytes": lax.bitcast_convert_type(bytes_, dtype),
            "gather": x[places],
            "index": wide[x],
            "scatter": gnp.zeros(4, dtype).at[places].add(x),
            "write": x.at[3].set(1),
            "product": lax.dot(rows, rows.T, preferred_element_type=np.int32),
            "scan": lax.scan(lambda c, v: (c + v, c * v), x[0], x)[1],
            "of floats": floats.astype(dtype),
            "of integers": wide.astype(dtype),
            **{n: x.astype(n) for n in "int8 int32 uint8 float16 float32 bool complex64".split()},
        }

    floats = np.float32([-300, -8.5, -1.5, -0.0, 0.9, 1.5, 3.7, 15.2, 1e9, np.inf, np.nan])
    wide, bytes_ = np.arange(-300, 300, dtype=np.int32), np.arange(256, dtype=np.uint8)
    compare(program, x, y, divisors, floats, wide, bytes_)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_few_bits(name):
    dtype, values = dtype_of(name), every(name)
    # All floats that end in 16 zeros, their neighbours, and what is halfway between two of them.
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    floats = np.concatenate([upper, upper + 1, upper + 0x8000, upper | 0xFFFF]).view(np.float32)
    x, y = np.repeat(values, 8), np.tile(values, 8)

    def program(values, floats, x, y):
        return {
            "wide": values.astype("float32"),
            "narrow": floats.astype(dtype),
            **{n: getattr(lax, n)(x, y) for n in "add sub mul max min lt eq".split()},
            **{n: getattr(lax, n)(x) for n in "neg abs exp".split()},
            **{n: getattr(gnp, n)(y.reshape(8, -1), axis=1) for n in ("sum", "max", "sort")},
            "nan": gnp.isnan(values),
            "sign": gnp.signbit(values),
            "largest": lax.top_k(values, 5)[1],
        }

    with np.errstate(all="ignore"):
        compare(program, values, floats, x, y)
        expected = floats.astype(dtype)
    with strict(True), ga.default_device(ga.devices("simulator")[0]):
        found = np.asarray(ga.jit(lambda x: x.astype(dtype))(gnp.asarray(floats)))
    number = ~np.isnan(floats)
    np.testing.assert_array_equal(found[number].view(np.uint8), expected[number].view(np.uint8))
