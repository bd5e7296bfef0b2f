"""Products and convolutions by NumPy's rules, in native code and in kernels: one result.

Algorithms that round operands round them wherever a product is computed; bools are multiplied by
`and` and summed by `or`, and counted where the result is a number, as in JAX.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.samples import dtype_named
from tests.support import everywhere

everywhere.need_compiler()

RNG = np.random.default_rng(0)
F16, F32 = np.float16, np.float32
PRESETS = lax.DotAlgorithmPreset
#: Algorithms, and what they round the operands to.
ROUNDING = {
    "F16_F16_F32": (PRESETS.F16_F16_F32, F16, F16),
    "F16_F16_F16": (PRESETS.F16_F16_F16, F16, F16),
    "float16": (lax.DotAlgorithm(F16, F16, F32), F16, F16),
    "bfloat16": (lax.DotAlgorithm(*[dtype_named("bfloat16")] * 2, F32), *["bfloat16"] * 2),
    "one of them": (lax.DotAlgorithm(F16, F32, F32), F16, F32),
    "three products": (lax.DotAlgorithm(F16, F16, F32, 1, 1, 3), F32, F32),
}


def drawn(*shape: int) -> np.ndarray:
    """Numbers that float16 rounds down, each by a quarter of a unit."""
    return ((RNG.integers(1024, 2048, shape) + 0.25) / 1024).astype(F32)


def squares(x, y, **how):
    return (gnp.matmul(x, y, **how) ** 2).sum(-1)


def attention(x, y, **how):
    return gnp.matmul(ga.nn.softmax(gnp.matmul(x, y, **how)), y.T, **how)


def in_a_loop(x, y, **how):
    return lax.fori_loop(0, 3, lambda i, y: gnp.matmul(x, y, **how) / 8, y)


#: Ways in which products become something else: sums, registers of a loop, a sweep.
PRODUCTS = {
    "numbers": (gnp.matmul, (40,), (40,)),
    "a vector": (gnp.matmul, (5, 40), (40,)),
    "matrices": (gnp.matmul, (64, 64), (64, 64)),
    "small ones": (gnp.matmul, (200, 3, 3), (200, 3, 3)),
    "outer": (gnp.matmul, (7, 1), (1, 8)),
    "reduced": (squares, (330, 16), (16, 400)),
    "attention": (attention, (33, 16), (16, 40)),
    "in a loop": (in_a_loop, (3, 3), (3,)),
}


@pytest.mark.parametrize("name", ROUNDING)
def test_algorithms_round_operands(name):
    """The same numbers as of operands rounded beforehand; others than without the algorithm."""
    algorithm, left, right = ROUNDING[name]
    cases, plain = [], []
    for function, *shapes in PRODUCTS.values():
        operands = tuple(drawn(*shape) for shape in shapes)
        cases.append((lambda x, y, f=function: f(x, y, precision=algorithm), operands))
        plain.append((lambda x, y, f=function: f(x, y, precision="highest"), operands))
    by_algorithm, by_none = everywhere.computed(cases), everywhere.computed(plain)
    rounds = (left, right) != (F32, F32)
    for key, found, exact in zip(PRODUCTS, by_algorithm, by_none, strict=True):
        reference = found["numpy"][0]
        for way, (x,) in found.items():
            # Of weights that are nearly a tie, one way may round up what another rounds down.
            near = 2e-4 if key == "attention" else 3e-6
            np.testing.assert_allclose(x, reference, near, err_msg=f"{key} by {way}")
        apart = np.abs(reference - exact["numpy"][0]) > 1e-5 * np.abs(reference)
        assert apart.any() if rounds else not apart.any(), key


@pytest.mark.parametrize("name", ROUNDING)
def test_operands_rounded_beforehand(name):
    algorithm, left, right = ROUNDING[name]
    x, y = drawn(20, 30), drawn(30, 20)
    ((found),) = everywhere.computed([(lambda x, y: gnp.matmul(x, y, precision=algorithm), (x, y))])
    rounded = [z.astype(dtype_named(np.dtype(to).name)) for z, to in ((x, left), (y, right))]
    expected = np.matmul(*[z.astype(np.float64) for z in rounded])
    for way, (z,) in found.items():
        np.testing.assert_allclose(z, expected, 1e-6, err_msg=way)


def windows(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """How many pairs of ones are in the sum of each element, without padding."""
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("ncijab,fcab->nfij", seen.astype(int), w.astype(int))


@pytest.mark.parametrize("kind", [None, "bool", "int32", "float32", "complex64"])
def test_convolutions_of_bools(kind):
    """Short ones, which kernels write out, and one of many channels."""
    given = None if kind is None else np.dtype(kind)

    def convolved(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "VALID", preferred_element_type=given)

    cases, expected = [], []
    for channels, n in ((1, 2), (3, 3), (40, 3)):
        x, w = (RNG.random(shape) < 0.3 for shape in ((2, channels, 9, 8), (4, channels, n, n)))
        cases.append((convolved, (x, w)))
        expected.append(windows(x, w).astype(kind or bool))
    for found, wanted in zip(everywhere.computed(cases, written=False), expected, strict=True):
        for way, (y,) in found.items():
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y, wanted, way)


#: Formats, with the type in whose words numbers are rounded.
FORMATS = {
    "float8_e8m0fnu": F32,
    **dict.fromkeys(
        "float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2 "
        "float8_e5m2fnuz float6_e2m3fn float6_e3m2fn float4_e2m1fn".split(),
        F16,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_reduced_precision_of_narrow_floats(name):
    dtype, wide = dtype_named(name), FORMATS[name]
    bits = gnp.finfo(dtype).bits
    x = np.arange(1 << bits, dtype=np.uint8).view(dtype)
    to = [(8, 0), (8, 3), (5, 2), (5, 10), (4, 3), (3, 1), (2, 0)]
    cases = [(lambda x, e=e, m=m: lax.reduce_precision(x, e, m), (x,)) for e, m in to]
    for (e, m), found in zip(to, everywhere.computed(cases), strict=True):
        expected = np.asarray(lax.reduce_precision(x.astype(wide), e, m)).astype(dtype)
        for way, (y,) in found.items():
            np.testing.assert_array_equal(
                y.astype(np.float32), expected.astype(np.float32), f"{e}, {m} by {way}"
            )
