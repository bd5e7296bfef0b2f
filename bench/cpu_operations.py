"""Rows of `python -m bench --cpu`: single operations and short chains of them.

In: nothing. Out: ROWS, functions written once for libraries with NumPy's and JAX's names, their
arrays, and a text for NumPy where it has names of its own for the purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import scipy.linalg
import scipy.ndimage
import scipy.special

#: Arrays, or numbers of NumPy.
Arrays = list[Any]
RNG = np.random.Generator


@dataclass(frozen=True)
class Row:
    """A function of arrays, as every library computes it.

    make(library): the function, which is compiled as a whole
    data(rng, small): its arrays; small ones for --quick
    numpy: the same in NumPy's and SciPy's own names; None where `make` serves, or nothing does
    tolerance: the error that is allowed, relative to the largest element of a result
    random: results are other random numbers in every library, and are not compared
    behind: why another library may be ahead, where that is known
    """

    name: str
    title: str
    make: Callable[[Any], Callable[..., Any]]
    data: Callable[[RNG, bool], Arrays]
    numpy: Callable[..., Any] | None = None
    tolerance: float = 1e-4
    random: bool = False
    behind: str = ""


def normal(*shape: int, count: int = 1, dtype: Any = np.float32) -> Callable[[RNG, bool], Arrays]:
    """Normal numbers; the first axis is cut to a hundredth for --quick."""

    def data(rng: RNG, small: bool) -> Arrays:
        first = max(2, shape[0] // 100) if small else shape[0]
        size = (first, *shape[1:])
        return [rng.standard_normal(size, np.float32).astype(dtype) for _ in range(count)]

    return data


def uniform(low: float, high: float, *shape: int) -> Callable[[RNG, bool], Arrays]:
    """Evenly distributed numbers."""

    def data(rng: RNG, small: bool) -> Arrays:
        first = max(2, shape[0] // 100) if small else shape[0]
        return [rng.uniform(low, high, (first, *shape[1:])).astype(np.float32)]

    return data


def matrices(count: int, n: int, *others: int) -> Callable[[RNG, bool], Arrays]:
    """A stack of matrices that are positive definite, and more stacks with `others` columns."""

    def data(rng: RNG, small: bool) -> Arrays:
        k = max(2, count // 100) if small else count
        a = rng.standard_normal((k, n, n), np.float32)
        spd = a @ a.mT + 2 * np.eye(n, dtype=np.float32)
        return [spd, *(rng.standard_normal((k, n, m), np.float32) for m in others)]

    return data


def _table(rows: int, width: int, places: int) -> Callable[[RNG, bool], Arrays]:
    """A table, and random rows of it."""

    def data(rng: RNG, small: bool) -> Arrays:
        scale = 100 if small else 1
        table = rng.standard_normal((rows // scale, *([width] * bool(width))), np.float32)
        return [table, rng.integers(0, rows // scale, places // scale, dtype=np.int32)]

    return data


def _segments(count: int, segments: int, *width: int) -> Callable[[RNG, bool], Arrays]:
    """Values, and the segment of each, in any order."""

    def data(rng: RNG, small: bool) -> Arrays:
        n = count // 100 if small else count
        x = rng.standard_normal((n, *width), np.float32)
        return [x, rng.integers(0, segments, n, dtype=np.int32)]

    return data


def _integers(rng: RNG, small: bool) -> Arrays:
    return [rng.integers(0, 1000, 80_000 if small else 8_000_000, dtype=np.int32)]


def _flags(rng: RNG, small: bool) -> Arrays:
    n = 80_000 if small else 8_000_000
    return [rng.random(n) < 0.5 for _ in range(2)]


def _sorted_and_asked(rng: RNG, small: bool) -> Arrays:
    n = 10_000 if small else 1_000_000
    x = np.sort(rng.standard_normal(n // 10, np.float32))
    return [x, rng.standard_normal(n, np.float32)]


def _points(rng: RNG, small: bool) -> Arrays:
    n = 10_000 if small else 1_000_000
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    return [rng.standard_normal(n, np.float32), x, np.sin(x)]


def _image_places(rng: RNG, small: bool) -> Arrays:
    side = 50 if small else 500
    image = rng.standard_normal((side, side), np.float32)
    return [image, (rng.random((2, side * side)) * (side - 1)).astype(np.float32)]


def _images(rng: RNG, small: bool) -> Arrays:
    batch = 2 if small else 16
    return [
        rng.standard_normal((batch, 32, 32, 16), np.float32),
        rng.standard_normal((3, 3, 16, 32), np.float32) * 0.1,
        np.ones(32, np.float32),
        np.zeros(32, np.float32),
    ]


def _bytes(rng: RNG, small: bool) -> Arrays:
    n = 64 if small else 512
    return [rng.integers(-128, 128, (n, n), dtype=np.int8) for _ in range(2)]


def _complex(rng: RNG, small: bool) -> Arrays:
    n = 64 if small else 256
    return [(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))).astype(np.complex64)]


def _boxes(rng: RNG, small: bool) -> Arrays:
    corners = rng.random((50 if small else 500, 2), np.float32)
    return [np.concatenate([corners, corners + 0.2], 1)]


def _system(rng: RNG, small: bool) -> Arrays:
    n = 20 if small else 200
    a = rng.standard_normal((n, n), np.float32) + 20 * np.eye(n, dtype=np.float32)
    return [a, rng.standard_normal(n, np.float32)]


def _key(rng: RNG, small: bool) -> Arrays:
    return []


# ---- functions ----


def _softmax(m) -> Callable:
    def softmax(x):
        e = m.np.exp(x - m.np.max(x, -1, keepdims=True))
        return e / m.np.sum(e, -1, keepdims=True)

    return softmax


def _layer_norm(m) -> Callable:
    def layer_norm(x):
        mean = m.np.mean(x, -1, keepdims=True)
        return (x - mean) / m.np.sqrt(m.np.var(x, -1, keepdims=True) + 1e-5)

    return layer_norm


def _half_chain(m) -> Callable:
    # A step of a network in half precision: a scale, a bias, an activation.
    return lambda x, y: m.np.maximum(x * y + x, 0) * y - m.np.exp(-m.np.abs(x))


def _embedding_gradient(m) -> Callable:
    def loss(table, places):
        return m.np.sum(table[places] ** 2)

    return m.top.grad(loss)


def _conv(m, x, w):
    numbers = m.lax.conv_dimension_numbers(x.shape, w.shape, ("NHWC", "HWIO", "NHWC"))
    return m.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def _conv_norm(m) -> Callable:
    def loss(x, w, scale, shift):
        y = _conv(m, x, w)
        mean, var = m.np.mean(y, (0, 1, 2)), m.np.var(y, (0, 1, 2))
        y = (y - mean) / m.np.sqrt(var + 1e-5) * scale + shift
        return m.np.mean(m.np.maximum(y, 0) ** 2)

    return m.top.grad(loss, argnums=(1, 2, 3))


def _normal_numbers(m) -> Callable:
    return lambda: m.random.normal(m.random.key(0), (1_000_000,))


def _byte_product(m) -> Callable:
    return lambda a, b: m.np.matmul(a, b, preferred_element_type=m.np.int32)


def _overlaps(m) -> Callable:
    def overlaps(boxes):
        low = m.np.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = m.np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        inside = m.np.prod(m.np.clip(high - low, 0), -1)
        area = m.np.prod(boxes[:, 2:] - boxes[:, :2], -1)
        return inside / (area[:, None] + area[None] - inside)

    return overlaps


def _solve_gradient(m) -> Callable:
    loss = lambda a, b: m.np.sum(m.np.linalg.solve(a, b) ** 2)
    return m.top.grad(loss, argnums=(0, 1))


def _attention(m) -> Callable:
    def attention(q, k, v):
        scores = m.np.einsum("bqd,bkd->bqk", q, k) / 8.0
        e = m.np.exp(scores - m.np.max(scores, -1, keepdims=True))
        return m.np.einsum("bqk,bkd->bqd", e / m.np.sum(e, -1, keepdims=True), v)

    return attention


def _numpy_scatter(x, ids, segments: int):
    out = np.zeros((segments, *x.shape[1:]), x.dtype)
    np.add.at(out, ids, x)
    return out


def _numpy_top(x):
    part = np.argpartition(-x, 8, axis=-1)[:, :8]
    found = np.take_along_axis(x, part, -1)
    order = np.argsort(-found, axis=-1, kind="stable")
    return np.take_along_axis(found, order, -1)


def _special(
    name: str, low: float, high: float, tolerance: float = 1e-4, n: int = 1 << 20, behind: str = ""
) -> Row:
    function = getattr(scipy.special, name)
    return Row(
        name,
        f"{name} of {n >> 10}k",
        lambda m: getattr(m.special, name),
        uniform(low, high, n),
        function,
        tolerance,
        behind=behind,
    )


BF16 = ml_dtypes.bfloat16
LONG = 8_000_000

ROWS = (
    # ---- chains and elementwise functions ----
    Row(
        "chain",
        "8 operations, 8M",
        lambda m: lambda a, b: (((a * b + 1.5) * a - b) * 0.5 + a * 0.25) - b,
        normal(LONG, count=2),
        tolerance=1e-5,
    ),
    Row(
        "integer_chain",
        "integers, counted, 8M",
        lambda m: lambda i: m.np.sum(((i * 3 + 7) % 11 < 5) & (i > 2)),
        _integers,
    ),
    Row("boolean_chain", "bools, 8M", lambda m: lambda a, b: (a & ~b) | (a ^ b), _flags),
    Row(
        "bf16_chain",
        "6 operations in bfloat16, 1M",
        _half_chain,
        normal(1 << 20, count=2, dtype=BF16),
        tolerance=4e-2,
    ),
    Row(
        "f16_chain",
        "6 operations in float16, 1M",
        _half_chain,
        normal(1 << 20, count=2, dtype=np.float16),
        tolerance=4e-3,
    ),
    Row(
        "bf16_sum",
        "sum of rows in bfloat16, 1000x1000",
        lambda m: lambda x: m.np.sum(x, 1),
        normal(1000, 1000, dtype=BF16),
        tolerance=4e-2,
    ),
    Row(
        "gelu",
        "gelu of 4M",
        lambda m: lambda x: 0.5 * x * (1 + m.np.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
        normal(4_000_000),
    ),
    Row("exp", "exp of 1M", lambda m: m.np.exp, normal(1 << 20)),
    Row("sin", "sin of 1M", lambda m: m.np.sin, normal(1 << 20)),
    Row("tanh", "tanh of 1M", lambda m: m.np.tanh, normal(1 << 20)),
    Row(
        "power",
        "x ** 2.7 of 1M",
        lambda m: lambda x: x ** np.float32(2.7),
        uniform(0.1, 4.0, 1 << 20),
    ),
    Row(
        "where",
        "a choice by a random sign, 8M",
        lambda m: lambda a, b: m.np.where(a > 0, a, b * 0.1),
        normal(LONG, count=2),
    ),
    _special(
        "erf", -3, 3, behind="two polynomials, within 1.4 ULP; JAX's quotient of two is within 5.5"
    ),
    _special("erfinv", -0.99, 0.99),
    _special("digamma", 0.1, 20),
    _special("gammaln", 0.1, 20),
    Row(
        "polygamma",
        "polygamma(1, x) of 128k",
        lambda m: lambda x: m.special.polygamma(1, x),
        uniform(0.5, 20, 1 << 17),
        lambda x: scipy.special.polygamma(1, x),
        1e-3,
    ),
    Row(
        "gammainc",
        "gammainc(2.5, x) of 128k",
        lambda m: lambda x: m.special.gammainc(np.float32(2.5), x),
        uniform(0.1, 10, 1 << 17),
        lambda x: scipy.special.gammainc(np.float32(2.5), x),
        1e-3,
    ),
    _special("i0e", -10, 10, n=1 << 17),
    _special("log_ndtr", -5, 5, 1e-3, n=1 << 17),
    _special("expit", -5, 5),
    # ---- reductions ----
    Row(
        "squared_distance",
        "sum((a - b) ** 2), 8M",
        lambda m: lambda a, b: m.np.sum((a - b) ** 2),
        normal(LONG, count=2),
    ),
    Row("softmax", "softmax 2000x3000", _softmax, normal(2000, 3000)),
    Row("layer_norm", "layer norm 2000x3000", _layer_norm, normal(2000, 3000)),
    Row(
        "variance",
        "variance of columns, 2000x3000",
        lambda m: lambda x: m.np.var(x, axis=0),
        normal(2000, 3000),
    ),
    Row(
        "logsumexp",
        "logsumexp of rows, 2000x1000",
        lambda m: lambda x: m.special.logsumexp(x, axis=1),
        normal(2000, 1000),
        lambda x: scipy.special.logsumexp(x, axis=1),
    ),
    Row(
        "argmax",
        "argmax of rows, 2000x3000",
        lambda m: lambda x: m.np.argmax(x, 1),
        normal(2000, 3000),
    ),
    Row(
        "cumsum",
        "cumsum of rows, 1000x4000",
        lambda m: lambda x: m.np.cumsum(x, 1),
        normal(1000, 4000),
    ),
    Row(
        "transpose_add",
        "(A.T + B) * 3, 2000x2000",
        lambda m: lambda a, b: (a.T + b) * 3,
        lambda rng, small: normal(2000, 20 if small else 2000, count=2)(rng, small),
    ),
    # ---- order ----
    Row("sort", "sort 1M", lambda m: m.np.sort, normal(1_000_000)),
    Row("argsort", "argsort 200k", lambda m: m.np.argsort, normal(200_000)),
    Row(
        "argsort_rows",
        "argsort of rows, 1000x100",
        lambda m: lambda x: m.np.argsort(x, 1),
        normal(1000, 100),
    ),
    Row(
        "top_k",
        "top 8 of 1000 rows of 3000",
        lambda m: lambda x: m.lax.top_k(x, 8)[0],
        normal(1000, 3000),
        _numpy_top,
    ),
    Row(
        "median",
        "median of rows, 500x2000",
        lambda m: lambda x: m.np.median(x, axis=1),
        normal(500, 2000),
    ),
    Row(
        "searchsorted",
        "1M in 100k",
        lambda m: lambda x, v: m.np.searchsorted(x, v),
        _sorted_and_asked,
    ),
    Row("interp", "1M in 1000 points", lambda m: lambda x, xp, fp: m.np.interp(x, xp, fp), _points),
    Row(
        "map_coordinates",
        "map_coordinates 500x500, order 1",
        lambda m: lambda a, p: m.ndimage.map_coordinates(a, [p[0], p[1]], 1, mode="nearest"),
        _image_places,
        lambda a, p: scipy.ndimage.map_coordinates(a, [p[0], p[1]], order=1, mode="nearest"),
        1e-3,
    ),
    # ---- gathers and scatters ----
    Row("gather", "1M of 8M", lambda m: lambda x, i: x[i] * 2, _table(LONG, 0, 1_000_000)),
    Row(
        "gather_rows",
        "100k rows of 64",
        lambda m: lambda x, i: x[i],
        _table(50_000, 64, 100_000),
        behind="memory: it moves as many bytes a second as a copy",
    ),
    Row(
        "take_along",
        "1 of each of 1M rows of 4",
        lambda m: lambda x: m.np.take_along_axis(x, m.np.argmin(x, 1)[:, None], 1),
        normal(1_000_000, 4),
    ),
    Row(
        "scatter_add",
        "1M into 1000",
        lambda m: lambda x, i: m.np.zeros(1000).at[i].add(x),
        _segments(1_000_000, 1000),
        lambda x, i: np.bincount(i, x, 1000),
    ),
    Row(
        "embedding_gradient",
        "gradient of 20k rows of 64 of 50k",
        _embedding_gradient,
        _table(50_000, 64, 20_000),
        lambda t, i: _numpy_scatter(2 * t[i], i, len(t)),
    ),
    Row(
        "segment_sum",
        "1M into 1000",
        lambda m: lambda x, i: m.top.ops.segment_sum(x, i, num_segments=1000),
        _segments(1_000_000, 1000),
        lambda x, i: np.bincount(i, x, 1000),
    ),
    Row(
        "segment_rows",
        "100k rows of 64 into 1000",
        lambda m: lambda x, i: m.top.ops.segment_sum(x, i, num_segments=1000),
        _segments(100_000, 1000, 64),
        lambda x, i: _numpy_scatter(x, i, 1000),
    ),
    Row(
        "segment_max",
        "1M into 1000",
        lambda m: lambda x, i: m.top.ops.segment_max(x, i, num_segments=1000),
        _segments(1_000_000, 1000),
    ),
    Row(
        "remainder",
        "remainders of 1M integers",
        lambda m: lambda x, y: x % y,
        lambda rng, small: [rng.integers(1, 1000, 1000 if small else 1 << 20) for _ in range(2)],
    ),
    Row(
        "histogram",
        "histogram of 1M in 100 bins",
        lambda m: lambda x: m.np.histogram(x, 100)[0],
        normal(1_000_000),
        tolerance=1e-2,
    ),
    # ---- linear algebra ----
    Row(
        "matmul",
        "1000x1000 by 1000x1000",
        lambda m: lambda a, b: a @ b,
        lambda rng, small: [rng.standard_normal((50 if small else 1000,) * 2, np.float32)] * 2,
    ),
    Row(
        "small_matmul",
        "100k products of 4x4",
        lambda m: lambda a, b: a @ b,
        matrices(100_000, 4, 4),
    ),
    Row("int8_matmul", "int8 512x512 by 512x512", _byte_product, _bytes),
    Row(
        "complex_matmul",
        "absolute values of a complex product, 256x256",
        lambda m: lambda a: m.np.abs(a @ m.np.conj(a.T)),
        _complex,
    ),
    Row("overlaps", "overlaps of all pairs of 500 boxes", _overlaps, _boxes),
    Row(
        "attention",
        "attention, 8 heads of 512x64",
        _attention,
        normal(8, 512, 64, count=3),
        behind="most of it is two products by BLAS",
    ),
    Row(
        "solve_2x2",
        "100k systems of 2",
        lambda m: m.np.linalg.solve,
        matrices(100_000, 2, 1),
        tolerance=1e-3,
    ),
    Row(
        "solve_6x6",
        "20k systems of 6",
        lambda m: m.np.linalg.solve,
        matrices(20_000, 6, 1),
        tolerance=1e-3,
    ),
    Row(
        "solve_gradient",
        "gradient of a system of 200",
        _solve_gradient,
        _system,
        tolerance=1e-3,
    ),
    Row(
        "inv_3x3",
        "100k inverses of 3x3",
        lambda m: m.np.linalg.inv,
        matrices(100_000, 3),
        tolerance=1e-3,
    ),
    Row(
        "det_4x4",
        "100k determinants of 4x4",
        lambda m: m.np.linalg.det,
        matrices(100_000, 4),
        tolerance=1e-3,
    ),
    Row(
        "cholesky_8x8",
        "20k factors of 8x8",
        lambda m: m.np.linalg.cholesky,
        matrices(20_000, 8),
        tolerance=1e-3,
    ),
    Row(
        "expm",
        "expm of 100 of 16x16",
        lambda m: m.linalg.expm,
        lambda rng, small: [rng.standard_normal((100, 16, 16), np.float32) * 0.3],
        scipy.linalg.expm,
        1e-3,
    ),
    Row(
        "eigh",
        "eigh of 200 of 16x16",
        lambda m: lambda a: m.np.linalg.eigh(a)[0],
        matrices(200, 16),
        lambda a: np.linalg.eigh(a)[0],
        1e-3,
    ),
    Row(
        "fft",
        "fft of 256 of 4096",
        lambda m: lambda x: m.np.abs(m.np.fft.fft(x)),
        normal(256, 4096),
    ),
    Row(
        "rfft",
        "a filter of 64 rows of 4096 by rfft and irfft",
        lambda m: lambda x, k: m.np.fft.irfft(m.np.fft.rfft(x) * m.np.fft.rfft(k)),
        lambda rng, small: [normal(64, 4096)(rng, small)[0], rng.standard_normal(4096, np.float32)],
    ),
    Row(
        "convolution",
        "3x3, 16 to 32 channels, 16 images of 32x32",
        lambda m: lambda x, w, *_: _conv(m, x, w),
        _images,
        tolerance=1e-3,
    ),
    Row(
        "conv_norm_gradient",
        "gradient of convolution and batch norm",
        _conv_norm,
        _images,
        tolerance=1e-2,
    ),
    # ---- random numbers ----
    Row(
        "normal",
        "1M normal numbers",
        _normal_numbers,
        _key,
        lambda: np.random.default_rng(0).standard_normal(1_000_000, np.float32),
        random=True,
    ),
    Row(
        "uniform",
        "1M numbers",
        lambda m: lambda: m.random.uniform(m.random.key(0), (1_000_000,)),
        _key,
        lambda: np.random.default_rng(0).random(1_000_000, np.float32),
        random=True,
    ),
    Row(
        "permutation",
        "permutation of 100k",
        lambda m: lambda: m.random.permutation(m.random.key(0), 100_000),
        _key,
        lambda: np.random.default_rng(0).permutation(100_000),
        random=True,
        behind="two sorts by random numbers, as JAX's stream asks; PyTorch exchanges elements",
    ),
    Row(
        "gamma",
        "100k gamma numbers",
        lambda m: lambda: m.random.gamma(m.random.key(0), 2.5, (100_000,)),
        _key,
        lambda: np.random.default_rng(0).gamma(2.5, size=100_000),
        random=True,
    ),
)
