"""Cotangents of products whose sums have another dtype than the operands, against NumPy."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

X = np.array([[1.5, 2, 0.5], [3, -1, 2], [0.25, 1, 1], [2, 2, -3]])
Y = np.array([[1, 2], [2, -3], [4, 1]])
CT = np.cos(np.arange(8.0)).reshape(4, 2)
DTYPES = ("float32", "bfloat16", "float16", "int8", "float8_e4m3fn", "complex64")


def dot(x, y, dtype):
    numbers = (((1,), (0,)), ((), ()))
    return lax.dot_general(x, y, numbers, preferred_element_type=dtype)


def ragged(x, y, dtype):
    sizes = gnp.array([4], "int32")
    return lax.ragged_dot(x, y[None], sizes, preferred_element_type=dtype)


def near(got, expected, like, ct) -> None:
    """Assert that a cotangent has the dtype of its operand and its value to the digits that the
    operand and what it was computed from hold.
    """
    assert got.dtype == like.dtype
    if not gnp.issubdtype(like.dtype, gnp.complexfloating):
        expected = expected.real
    got = np.asarray(got).astype(expected.dtype)
    eps = max(float(gnp.finfo(d.dtype).eps) for d in (like, ct))
    np.testing.assert_allclose(got, expected, atol=2 * eps * abs(expected).max())


@pytest.mark.parametrize("product", [dot, ragged])
@pytest.mark.parametrize("left", DTYPES)
def test_products_of_any_two_dtypes(product, left):
    for right in DTYPES:
        x, y = gnp.asarray(X).astype(left), gnp.asarray(Y).astype(right)
        wide = "complex64" if "complex64" in (left, right) else "float32"
        ct = gnp.asarray(CT * (1 + 0.5j if wide == "complex64" else 1)).astype(wide)
        a, b, c = (np.asarray(v).astype("complex128") for v in (x, y, ct))
        if left != "int8":
            (got,) = ga.vjp(lambda v, y=y, wide=wide: product(v, y, wide), x)[1](ct)
            near(got, c @ b.T, x, ct)
        if right != "int8":
            (got,) = ga.vjp(lambda v, x=x, wide=wide: product(x, v, wide), y)[1](ct)
            near(got, a.T @ c, y, ct)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_what_float16_cannot_hold_reaches_the_operands(kind):
    """Sums in float32 have cotangents beyond float16's largest and smallest numbers."""
    tiny, huge = 2.0**-30, 2.0**30
    x = gnp.array([[huge**0.5]], kind)

    def loss(a, b):
        return dot(a, b, "float32")[0, 0] * tiny

    a, b = ga.grad(loss, (0, 1))(x, x)
    assert float(a[0, 0]) == float(b[0, 0]) == 2.0**-15

    def convolved(a, b):
        return lax.conv(a[None], b[None], (1,), "VALID", preferred_element_type="float32").sum()

    a, b = ga.grad(lambda a, b: convolved(a, b) * tiny, (0, 1))(x, x)
    assert float(a[0, 0]) == float(b[0, 0]) == 2.0**-15
    assert a.dtype == b.dtype == x.dtype


def test_bfloat16_is_multiplied_as_it_is():
    """A product of two bfloat16 operands has cotangents that tensor cores compute."""
    x = gnp.ones((4, 4), "bfloat16")
    text = str(ga.make_jaxpr(ga.grad(lambda x: dot(x, x.T, "float32").sum()))(x))
    assert "f32[4,4] = dot_general" in text
    assert text.count("bf16[4,4] = dot_general") == 2
