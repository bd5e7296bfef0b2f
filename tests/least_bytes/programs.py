"""Workloads of many parts or of forms of their own: optimisers, scans, sorts, scatters, attention,
products, small matrices, images.
"""

from __future__ import annotations

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, ops
from tests import golden
from tests.golden import shape
from tests.least_bytes.workload import BF, F32, INT, Workload, bytes_of

#: Parameters of a transformer of twelve blocks.
_WEIGHTS = (768, 2304), (768, 768), (768, 3072), (3072, 768), *((768, 768),) * 4
_BLOCK = *_WEIGHTS, (2304,), (3072,), *((768,),) * 8
SIZES = (50257, 768), (1024, 768), *_BLOCK * 12


def adam(p, g, m, v):
    """One step for one array."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (gnp.sqrt(v) + 1e-8), m, v


def each(step):
    """The same step for all arrays of a model."""
    return lambda *lists: [step(*arrays) for arrays in zip(*lists, strict=True)]


def clipped(gradients):
    """Gradients whose common length is 1 at most."""
    length = gnp.sqrt(sum(gnp.sum(g * g) for g in gradients))
    scale = gnp.minimum(1.0, 1.0 / length)
    return [g * scale for g in gradients]


def lion(p, g, m):
    """The sign of an average decides."""
    return p - 1e-4 * gnp.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g


def lars(p, g):
    """As long a step as the array is, whatever the gradient's length."""
    return p - 0.1 * gnp.linalg.norm(p) / gnp.linalg.norm(g) * g


def lamb(p, g, m, v):
    """The same for Adam: its updates are computed for their length, and again to be applied."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    u = m / (gnp.sqrt(v) + 1e-6) + 0.01 * p
    return p - 1e-3 * gnp.linalg.norm(p) / gnp.linalg.norm(u) * u, m, v


def adafactor(g):
    """Rows and columns of squared gradients."""
    s = g * g
    return gnp.mean(s, 0), gnp.mean(s, 1)


def optimisers() -> dict[str, Workload]:
    """Steps of one array, and of a model's many."""
    big = shape(F32, 1 << 26)
    many = [shape(F32, *s) for s in SIZES]
    total = bytes_of(*many)
    return {
        "Adam": Workload(adam, (big,) * 4, 28 << 26),
        "Adam, 218 arrays": Workload(each(adam), (many,) * 4, 7 * total),
        "momentum, 218 arrays": Workload(
            each(lambda p, g, m: (p - 0.1 * (0.9 * m + g), 0.9 * m + g)), (many,) * 3, 5 * total
        ),
        "Lion, 218 arrays": Workload(each(lion), (many,) * 3, 5 * total),
        "average of parameters": Workload(
            each(lambda a, p: 0.999 * a + 0.001 * p), (many,) * 2, 3 * total
        ),
        "length of all gradients": Workload(
            lambda gs: gnp.sqrt(sum(gnp.sum(g * g) for g in gs)), (many,), total
        ),
        "clipped to a common length": Workload(clipped, (many,), 3 * total),
        "LARS, 218 arrays": Workload(each(lars), (many,) * 2, 5 * total),
        "LAMB, 218 arrays": Workload(each(lamb), (many,) * 4, 10 * total),
        "copies in 16 bits": Workload(each(lambda p: p.astype(BF)), (many,), total * 3 // 2),
        "rows and columns of squares": Workload(adafactor, (shape(F32, 16384, 4096),), 4 << 26),
    }


def scans() -> dict[str, Workload]:
    """Running folds."""
    big, rows, tall = shape(F32, 1 << 26), shape(F32, 16384, 4096), shape(F32, 4096, 16384)
    return {
        "cumsum": Workload(gnp.cumsum, (big,), 8 << 26),
        "cumsum of rows": Workload(lambda x: gnp.cumsum(x, 1), (rows,), 8 << 26),
        "cumsum of columns": Workload(lambda x: gnp.cumsum(x, 0), (tall,), 8 << 26),
        "running maximum": Workload(lambda x: lax.cummax(x, axis=1), (rows,), 8 << 26),
        "running logsumexp": Workload(lambda x: lax.cumlogsumexp(x, axis=1), (rows,), 8 << 26),
        "light that is left": Workload(lambda x: x * gnp.cumprod(1 - x, axis=1), (rows,), 8 << 26),
        "discounted returns": Workload(
            lambda r: lax.scan(
                lambda g, r: (r + 0.99 * g,) * 2, gnp.zeros(r.shape[1]), r, reverse=True
            )[1],
            (shape(F32, 512, 1 << 17),),
            8 << 26,
        ),
        "linear recurrence": Workload(
            lambda a, b: lax.associative_scan(
                lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (a, b), axis=1
            )[1],
            (shape(F32, 8192, 4096),) * 2,
            12 << 25,
        ),
        "derivative of a recurrence": Workload(
            lambda a, b, ct: ga.vjp(
                lambda a, b: lax.associative_scan(
                    lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (a, b), axis=1
                )[1],
                a,
                b,
            )[1](ct),
            (shape(F32, 8192, 4096),) * 3,
            20 << 25,
            "the recurrence and its transpose: results of the first are written and read again",
        ),
        "sums of windows": Workload(
            lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 8), (1, 1), "SAME"), (rows,), 8 << 26
        ),
    }


def sorts() -> dict[str, Workload]:
    """Sorted, and what only needs some of it."""
    short, points = shape(F32, 1 << 20, 64), shape(F32, 100_000, 8)
    return {
        "short rows": Workload(lambda x: gnp.sort(x, -1), (short,), 8 << 26),
        "order of short rows": Workload(lambda x: gnp.argsort(x, -1), (short,), 8 << 26),
        "ranks from the top": Workload(lambda x: gnp.argsort(-x, -1) + 1, (short,), 8 << 26),
        "medians of 64": Workload(
            lambda x: gnp.sort(x, -1)[:, 31:33].mean(-1),
            (short,),
            4 << 26,
            "three places of each sorted row are written and read again",
        ),
        "32 largest": Workload(
            lambda x: lax.top_k(x, 32)[0], (shape(F32, 8192, 8192),), (4 << 26) + 4 * 32 * 8192
        ),
        "nearest of 64 centres": Workload(
            golden.nearest, (points, shape(F32, 64, 8)), bytes_of(points) + 8 * 100_000
        ),
        "places in a sorted array": Workload(
            lambda a, x: gnp.searchsorted(a, x), (shape(F32, 1024), shape(F32, 1 << 26)), 8 << 26
        ),
    }


def indices() -> dict[str, Workload]:
    """Looked up and written by number."""
    table, words = shape(BF, 50257, 768), shape(INT, 8192)
    numbers, samples = shape(INT, 1 << 27), shape(F32, 1 << 27)
    cache, new = shape(BF, 64, 4096, 1024), shape(BF, 64, 1, 1024)
    rows, order = shape(F32, 1 << 17, 512), shape(INT, 1 << 17)
    return {
        "rows of a table": Workload(lambda t, w: t[w] * 2.0, (table, words), 2 * 2 * 8192 * 768),
        "table, positions and scale": Workload(
            lambda t, w, p: t[w] * 27.7 + p, (table, words, shape(BF, 8192, 768)), 6 * 8192 * 768
        ),
        "rows in another order": Workload(lambda x, p: x[p], (rows, order), 8 << 26),
        "one of each row": Workload(
            lambda x, y: gnp.take_along_axis(x, y[:, None], 1), (rows, order), (4 + 4 + 4) << 17
        ),
        "step of a cache, donated": Workload(
            ga.jit(lambda c, n, at: lax.dynamic_update_slice(c, n, (0, at, 0)), donate_argnums=0),
            (cache, new, shape(INT)),
            2 * bytes_of(new),
        ),
        "rows written": Workload(
            ga.jit(lambda x, p, v: x.at[p].set(v, unique_indices=True), donate_argnums=0),
            (rows, shape(INT, 8192), shape(F32, 8192, 512)),
            8 * 8192 * 512,
        ),
        "bincount of 100": Workload(lambda x: gnp.bincount(x, length=100), (numbers,), 4 << 27),
        "histogram of 100": Workload(lambda x: gnp.histogram(x, 100)[0], (samples,), 8 << 27),
        "sums of sorted segments": Workload(
            lambda x, s: ops.segment_sum(x, s, 1 << 12, indices_are_sorted=True),
            (rows, order),
            bytes_of(rows, order) + (8 << 20),
        ),
        "means of 1000 groups": Workload(
            lambda x, g: ops.segment_sum(x, g, 1000) / ops.segment_sum(gnp.ones(1 << 22), g, 1000),
            (shape(F32, 1 << 22), shape(INT, 1 << 22)),
            8 << 22,
            "each of 132 blocks leaves its sums and counts for the last kernel",
        ),
        "bins of 8 columns": Workload(
            lambda x, g: (ops.segment_sum(x, g, 64), ops.segment_max(x, g, 64)),
            (shape(F32, 1 << 22, 8), shape(INT, 1 << 22)),
            36 << 22,
        ),
        "columns by number": Workload(
            lambda x, p: x[:, p], (shape(F32, 1 << 16, 1024), shape(INT, 1024)), 8 << 26
        ),
    }


def attention() -> dict[str, Workload]:
    """Attention whose scores are never in memory, and around it."""
    heads, small = shape(BF, 4, 4096, 16, 64), shape(F32, 2, 2048, 16, 32)
    scores = shape(F32, 64, 1024, 1024)
    token, cache = shape(BF, 8, 1, 32, 128), shape(BF, 8, 4096, 8, 128)
    return {
        "one token, grouped queries": Workload(
            lambda q, k, v: nn.dot_product_attention(q, k, v),
            (token, cache, cache),
            2 * bytes_of(cache, token),
            "scores are written, and read twice",
        ),
        "attention": Workload(
            lambda q, k, v: nn.dot_product_attention(q, k, v), (heads,) * 3, 4 * bytes_of(heads)
        ),
        "attention in float32": Workload(
            lambda q, k, v: nn.dot_product_attention(q, k, v), (small,) * 3, 4 * bytes_of(small)
        ),
        "softmax of biased scores": Workload(
            lambda s, b: nn.softmax(s * 0.125 + b), (scores, shape(F32, 1024, 1024)), 8 << 26
        ),
        "scores with slopes": Workload(
            lambda s, m: nn.softmax(s + m[:, None, None] * gnp.arange(1024.0)),
            (scores, shape(F32, 64)),
            8 << 26,
        ),
        "dropped weights": Workload(
            lambda s, k: nn.softmax(s) * ga.random.bernoulli(k, 0.9, s.shape) / 0.9,
            (scores, ga.random.key(0)),
            8 << 26,
        ),
    }


def products() -> dict[str, Workload]:
    """Products of matrices, with what is done before and behind them; small matrices."""
    x, w, half = shape(F32, 8192, 4096), shape(F32, 4096, 4096), shape(BF, 16384, 4096)
    many, small = shape(F32, 1 << 20, 4, 4), shape(F32, 1 << 18, 4, 4)
    matrix, vector = shape(F32, 16384, 4096), shape(F32, 4096)
    return {
        "product": Workload(lambda x, w: x @ w, (x, w), bytes_of(x, w, x)),
        "product of 16 bits": Workload(
            lambda x, w: x @ w, (half, shape(BF, 4096, 4096)), bytes_of(half) * 2 + (2 << 24)
        ),
        "A^T B": Workload(lambda a, b: a.T @ b, (x, x), 2 * bytes_of(x) + (4 << 24)),
        "product, bias, GELU": Workload(
            lambda x, w, b: nn.gelu(x @ w + b),
            (x, w, vector),
            bytes_of(x, w, x),
        ),
        "product of 8 bits": Workload(
            lambda x, w: lax.dot_general(
                x, w, (((1,), (1,)), ((), ())), preferred_element_type="int32"
            ),
            (shape("int8", 16384, 4096), shape("int8", 4096, 4096)),
            (64 << 20) + (16 << 20) + (256 << 20),
        ),
        "matrix times vector": Workload(lambda a, v: a @ v, (matrix, vector), bytes_of(matrix)),
        "vector times matrix": Workload(
            lambda v, a: v @ a, (shape(F32, 16384), matrix), bytes_of(matrix)
        ),
        "matrix, vector, softmax": Workload(
            lambda a, v: nn.softmax(a @ v), (matrix, vector), bytes_of(matrix)
        ),
        "pairs of vectors": Workload(
            lambda a, b: gnp.einsum("ij,ij->i", a, b), (matrix, matrix), 2 * bytes_of(matrix)
        ),
        "products of 4 x 4": Workload(lambda a, b: a @ b, (many, many), 3 * bytes_of(many)),
        "4 x 4 times vectors": Workload(
            lambda a, v: gnp.einsum("nij,nj->ni", a, v), (many, shape(F32, 1 << 20, 4)), 96 << 20
        ),
        "determinants of 3 x 3": Workload(
            determinant, (shape(F32, 1 << 22, 3, 3),), (36 + 4) << 22
        ),
        "cross products": Workload(gnp.cross, (shape(F32, 1 << 23, 3),) * 2, 36 << 23),
        "turned by quaternions": Workload(
            turned, (shape(F32, 1 << 22, 4), shape(F32, 1 << 22, 3)), 40 << 22
        ),
        "systems of 4 x 4": Workload(
            gnp.linalg.solve,
            (small, shape(F32, 1 << 18, 4, 1)),
            bytes_of(small) * 3 // 2,
        ),
        "inverses of 4 x 4": Workload(gnp.linalg.inv, (small,), 2 * bytes_of(small)),
        "determinants of 4 x 4": Workload(gnp.linalg.det, (small,), bytes_of(small) + (4 << 18)),
        "gradient of determinants": Workload(
            ga.grad(lambda a: gnp.linalg.det(a).sum()), (small,), 2 * bytes_of(small)
        ),
        "logarithms of determinants": Workload(
            gnp.linalg.slogdet, (small,), bytes_of(small) + (8 << 18)
        ),
        "factors of 4 x 4": Workload(gnp.linalg.cholesky, (small,), 2 * bytes_of(small)),
        "derivative of systems": Workload(
            ga.grad(lambda a, b: gnp.sum(gnp.linalg.solve(a, b)), (0, 1)),
            (small, shape(F32, 1 << 18, 4, 1)),
            bytes_of(small) * 5 // 2,
        ),
        "forces between bodies": Workload(forces, (shape(F32, 16384, 3),), 24 << 14),
    }


def determinant(a):
    """By the first row."""
    minor = lambda i, j: a[:, 1, i] * a[:, 2, j] - a[:, 1, j] * a[:, 2, i]
    return a[:, 0, 0] * minor(1, 2) - a[:, 0, 1] * minor(0, 2) + a[:, 0, 2] * minor(0, 1)


def turned(q, v):
    """Vectors turned by quaternions."""
    u, s = q[:, 1:], q[:, :1]
    return v + 2 * gnp.cross(u, s * v + gnp.cross(u, v))


def forces(x):
    """What all bodies do to each."""
    d = x[None] - x[:, None]
    r = gnp.sum(d * d, -1, keepdims=True) + 1e-3
    return gnp.sum(d / (r * gnp.sqrt(r)), 1)


def convolved(x, w, step=1):
    """Channels last."""
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (step, step), "SAME", dimension_numbers=names)


def images() -> dict[str, Workload]:
    """Short convolutions and windows, images, pooling."""
    picture, channels = shape(F32, 64, 512, 512), shape(BF, 256, 32, 32, 256)
    each, filters = shape(F32, 32, 112, 112, 64), shape(F32, 3, 3, 1, 64)
    return {
        "pooling": Workload(pooled, (channels, shape(BF, 256)), bytes_of(channels) * 5 // 4),
        "largest of 2 x 2": Workload(
            lambda x: lax.reduce_window(x, -gnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"),
            (picture,),
            bytes_of(picture) * 5 // 4,
        ),
        "a filter a channel": Workload(golden.each_channel, (each, filters), 2 * bytes_of(each)),
        "convolution of 64 channels": Workload(
            convolved,
            (each, shape(F32, 3, 3, 64, 64)),
            2 * bytes_of(each) + 9 * 4 * 64 * 64,
        ),
        "the same backwards by filters": Workload(
            lambda x, w, t: ga.vjp(lambda w: convolved(x, w), w)[1](t),
            (each, shape(F32, 3, 3, 64, 64), each),
            2 * bytes_of(each) + 9 * 4 * 64 * 64,
        ),
        "every second pixel backwards": Workload(
            lambda x, w, t: ga.vjp(lambda x: convolved(x, w, 2), x)[1](t),
            (each, shape(F32, 3, 3, 64, 64), shape(F32, 32, 56, 56, 64)),
            bytes_of(each) * 5 // 4 + 9 * 4 * 64 * 64,
            "padding that differs on two sides: zeros are written around the smaller images",
        ),
        "edges": Workload(sobel, (picture,), 2 * bytes_of(picture)),
        "blurred": Workload(
            lambda x: gnp.pad(x, ((0, 0), (1, 1), (1, 1)))[:, :-2, 1:-1] * 0.25 + x * 0.75,
            (picture,),
            2 * bytes_of(picture),
        ),
        "global pooling": Workload(
            lambda x: x.astype(F32).mean((1, 2)), (channels,), bytes_of(channels)
        ),
        "grey": Workload(
            lambda x: x @ gnp.array([0.3, 0.59, 0.11]), (shape(F32, 64, 512, 512, 3),), 16 << 24
        ),
        "mirrored, cut and scaled": Workload(
            lambda x: (x[:, 16:-16, 16:-16][:, :, ::-1] - 0.5) / 0.25,
            (picture,),
            8 * 64 * 480 * 480,
        ),
    }


def pooled(x, bias):
    """Means of 2 x 2 pixels, and a bias, as a row an image."""
    n, h, w, c = x.shape
    windows = nn.relu(x).reshape(n, h // 2, 2, w // 2, 2, c)
    return (windows.mean((2, 4)) + bias).reshape(n, -1) * 2


def sobel(x):
    """How steep an image is."""
    p = gnp.pad(x, ((0, 0), (1, 1), (1, 1)))
    a, b, c = p[:, :, :-2], p[:, :, 1:-1], p[:, :, 2:]
    across = (c - a)[:, :-2] + 2 * (c - a)[:, 1:-1] + (c - a)[:, 2:]
    down = (a + 2 * b + c)[:, 2:] - (a + 2 * b + c)[:, :-2]
    return gnp.sqrt(across**2 + down**2)


CHAPTERS = {
    "Optimisers": optimisers,
    "Scans": scans,
    "Sorts and searches": sorts,
    "Indices": indices,
    "Attention": attention,
    "Products and small matrices": products,
    "Images": images,
}
