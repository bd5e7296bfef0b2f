"""Workloads that fold: rows, columns, all; losses; normalisations, forward and backward."""

from __future__ import annotations

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests import golden
from tests.golden import shape
from tests.least_bytes.workload import BF, F32, INT, Workload, bytes_of


def rows() -> dict[str, Workload]:
    """Reductions of rows, and what each element does with the result of its own row."""
    x, half = shape(F32, 32768, 4096), shape(BF, 32768, 4096)
    logits, long, short = shape(BF, 8192, 50257), shape(BF, 8192, 131072), shape(BF, 1 << 22, 48)
    i = shape(INT, 32768, 4096)
    return {
        "row sums": Workload(lambda x: gnp.sum(x, -1), (x,), bytes_of(x)),
        "row means of 16 bits": Workload(lambda x: gnp.mean(x, -1), (half,), bytes_of(half)),
        "argmax of rows": Workload(lambda x: gnp.argmax(x, -1), (logits,), bytes_of(logits)),
        "smallest and largest": Workload(
            lambda x: (gnp.min(x, -1), gnp.max(x, -1)), (x,), bytes_of(x)
        ),
        "variance of rows": Workload(lambda x: gnp.var(x, -1), (x,), bytes_of(x)),
        "lengths of rows": Workload(lambda x: gnp.linalg.norm(x, axis=-1), (x,), bytes_of(x)),
        "pairs by a function, rows": Workload(
            lambda x, i: by_function(x, i, 1), (x, i), bytes_of(x, i)
        ),
        "pairs by a function, columns": Workload(
            lambda x, i: by_function(x, i, 0), (x, i), bytes_of(x, i)
        ),
        "rows by a function, and scaled": Workload(scaled, (x,), 2 * bytes_of(x)),
        "any of rows": Workload(lambda x: gnp.any(x > 3, -1), (x,), bytes_of(x)),
        "cosine of rows": Workload(cosine, (x, x), 2 * bytes_of(x)),
        "logsumexp": Workload(lambda x: nn.logsumexp(x, -1), (x,), bytes_of(x)),
        "logsumexp of long rows": Workload(lambda x: nn.logsumexp(x, -1), (long,), bytes_of(long)),
        "softmax": Workload(nn.softmax, (half,), 2 * bytes_of(half)),
        "softmax backwards": Workload(
            golden.backwards(nn.softmax), (half, half), 3 * bytes_of(half)
        ),
        "log softmax": Workload(nn.log_softmax, (x,), 2 * bytes_of(x)),
        "softmax of short rows": Workload(nn.softmax, (short,), 2 * bytes_of(short)),
        "softmax of long rows": Workload(nn.softmax, (long,), 2 * bytes_of(long)),
        "softmax of heads": Workload(heads, (half, shape(BF, 4096)), 2 * bytes_of(half)),
        "masked softmax": Workload(masked, (shape(BF, 256, 1024, 1024),), 2 * 2 << 28),
        "rows of length 1": Workload(
            lambda x: x / gnp.linalg.norm(x, axis=-1, keepdims=True), (x,), 2 * bytes_of(x)
        ),
        "8 largest of 50257": Workload(
            lambda x: lax.top_k(x, 8), (logits,), bytes_of(logits) + 6 * 8 * 8192
        ),
    }


def by_function(x, payload, axis):
    """The largest elements along an axis, and what lies beside them."""

    def larger(a, b):
        mine = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return tuple(gnp.where(mine, x, y) for x, y in zip(a, b, strict=True))

    return lax.reduce((x, payload), (np.float32(-np.inf), np.int32(2**31 - 1)), larger, (axis,))


def scaled(x):
    """Rows divided by their lengths, which a function of two numbers folds."""
    length = lax.reduce(x, 0.0, lambda a, b: gnp.sqrt(a * a + b * b), (1,))
    return x / length[:, None]


def masked(scores):
    """Causal softmax of scores."""
    seen = gnp.tril(gnp.ones(scores.shape[-2:], bool))
    return nn.softmax(gnp.where(seen, scores, -gnp.inf), axis=-1)


def cosine(x, y):
    """Cosines of the angles between rows."""
    return gnp.sum(x * y, -1) / gnp.sqrt(gnp.sum(x * x, -1) * gnp.sum(y * y, -1))


def heads(x, bias):
    """Heads of 64, each a softmax of its own, and joined again."""
    n, wide = x.shape
    return nn.softmax((x + bias).reshape(n, wide // 64, 64), axis=-1).reshape(n, wide) * 2


def columns() -> dict[str, Workload]:
    """Reductions of columns, and of the axes around one."""
    tall, x, half = shape(F32, 65536, 1024), shape(F32, 16384, 4096), shape(BF, 16384, 4096)
    images = shape(BF, 64, 128, 56, 56)
    return {
        "column sums": Workload(lambda x: gnp.sum(x, 0), (tall,), bytes_of(tall)),
        "column sums of 16 bits": Workload(lambda x: gnp.sum(x, 0), (half,), bytes_of(half)),
        "column means": Workload(lambda x: gnp.mean(x, 0), (x,), bytes_of(x)),
        "largest of columns": Workload(lambda x: gnp.max(x, 0), (x,), bytes_of(x)),
        "argmin of columns": Workload(lambda x: gnp.argmin(x, 0), (x,), bytes_of(x)),
        "variance of columns": Workload(lambda x: gnp.var(x, 0), (x,), bytes_of(x)),
        "deviation of columns": Workload(lambda x: gnp.std(x, 0), (half,), bytes_of(half)),
        "logsumexp of columns": Workload(lambda x: nn.logsumexp(x, 0), (x,), bytes_of(x)),
        "softmax of columns": Workload(lambda x: nn.softmax(x, 0), (x,), 3 * bytes_of(x)),
        "columns with mean 0, deviation 1": Workload(
            lambda x: (x - x.mean(0)) / x.std(0), (x,), 3 * bytes_of(x)
        ),
        "gradient of a bias": Workload(
            lambda ct: gnp.sum(ct, (0, 2, 3)), (images,), bytes_of(images)
        ),
        "statistics of channels": Workload(
            lambda x: (x.astype(F32).mean((0, 2, 3)), x.astype(F32).var((0, 2, 3))),
            (images,),
            bytes_of(images),
        ),
        "middle axis": Workload(lambda x: gnp.sum(x, 1), (shape(F32, 64, 4096, 256),), 4 << 26),
    }


def everything() -> dict[str, Workload]:
    """Reductions to one number."""
    big, half = shape(F32, 1 << 26), shape(BF, 1 << 27)
    return {
        "sum of all": Workload(gnp.sum, (big,), 4 << 26),
        "mean squared difference": Workload(
            lambda a, b: gnp.mean((a - b) ** 2), (big, big), 8 << 26
        ),
        "largest of all": Workload(gnp.max, (half,), 2 << 27),
        "argmax of all": Workload(gnp.argmax, (big,), 4 << 26),
        "inner product": Workload(gnp.vdot, (big, big), 8 << 26),
        "sum of distances": Workload(lambda a, b: gnp.sum(gnp.abs(a - b)), (half, half), 4 << 27),
        "all finite": Workload(lambda x: gnp.all(gnp.isfinite(x)), (half,), 2 << 27),
        "range": Workload(lambda x: (gnp.min(x), gnp.max(x)), (big,), 4 << 26),
        "variance of all": Workload(gnp.var, (big,), 4 << 26),
        "logsumexp of all": Workload(nn.logsumexp, (big,), 4 << 26),
        "how many are positive": Workload(lambda x: gnp.count_nonzero(x > 0), (big,), 4 << 26),
    }


def losses() -> dict[str, Workload]:
    """Losses and their gradients."""
    logits, label = shape(BF, 8192, 50257), shape(INT, 8192)
    wide, soft = shape(F32, 32768, 4096), shape(BF, 32768, 4096)
    likelihood = golden.label_likelihood
    return {
        "cross-entropy of labels": Workload(likelihood, (logits, label), bytes_of(logits)),
        "its gradient": Workload(ga.grad(likelihood), (logits, label), 2 * bytes_of(logits)),
        "cross-entropy, 4096 classes": Workload(
            lambda x, y: -gnp.mean(gnp.sum(nn.one_hot(y, 4096) * nn.log_softmax(x), -1)),
            (wide, shape(INT, 32768)),
            bytes_of(wide),
        ),
        "cross-entropy of shares": Workload(
            lambda x, p: -gnp.sum(p * nn.log_softmax(x), -1), (soft, soft), 2 * bytes_of(soft)
        ),
        "its gradient, shares": Workload(
            ga.grad(lambda x, p: -gnp.sum(p * nn.log_softmax(x))), (wide, wide), 3 * bytes_of(wide)
        ),
        "divergence": Workload(
            lambda x, y: gnp.sum(nn.softmax(x) * (nn.log_softmax(x) - nn.log_softmax(y)), -1),
            (soft, soft),
            2 * bytes_of(soft),
        ),
        "squared error backwards": Workload(
            ga.grad(lambda x, y: gnp.mean((x - y) ** 2)), (wide, wide), 3 * bytes_of(wide)
        ),
        "logistic loss": Workload(
            lambda x, y: gnp.mean(nn.softplus(x) - x * y), (wide, wide), 2 * bytes_of(wide)
        ),
        "Huber": Workload(
            lambda x, y: gnp.mean(
                gnp.where(gnp.abs(x - y) < 1, 0.5 * (x - y) ** 2, gnp.abs(x - y) - 0.5)
            ),
            (wide, wide),
            2 * bytes_of(wide),
        ),
        "share that is right": Workload(
            lambda x, y: gnp.mean(gnp.argmax(x, -1) == y), (wide, shape(INT, 32768)), bytes_of(wide)
        ),
        "contrast of pairs": Workload(
            lambda s: gnp.mean(nn.logsumexp(s, 1) - gnp.diagonal(s)),
            (shape(F32, 8192, 8192),),
            4 << 26,
        ),
    }


def norms() -> dict[str, Workload]:
    """Normalisations, forward and backward."""
    rows, gain = shape(BF, 32768, 4096), shape(BF, 4096)
    pictures, channel = shape(BF, 256, 32, 32, 256), shape(BF, 256)
    first, large = shape(F32, 64, 64, 112, 112), shape(F32, 32, 56, 56, 256)
    single = shape(F32, 256)
    norm, rms = golden.layer_norm, golden.rms_norm
    few = shape(BF, 4, 64, 64, 512)
    return {
        "layer norm": Workload(norm, (rows, gain, gain), 2 * bytes_of(rows)),
        "layer norm backwards": Workload(
            golden.backwards(norm), (rows, rows, gain, gain), 3 * bytes_of(rows)
        ),
        "layer norm, 64 features": Workload(
            norm, (shape(BF, 1 << 21, 64), *(shape(BF, 64),) * 2), 4 << 27
        ),
        "layer norm, 65536 features": Workload(
            norm, (shape(F32, 2048, 65536), *(shape(F32, 65536),) * 2), 8 << 27
        ),
        "residual and RMS norm": Workload(residual_norm, (rows, rows, gain), 4 * bytes_of(rows)),
        "RMS norm": Workload(rms, (rows, gain), 2 * bytes_of(rows)),
        "RMS norm backwards": Workload(
            golden.backwards(rms), (rows, rows, gain), 3 * bytes_of(rows)
        ),
        "group norm": Workload(
            golden.group_norm, (pictures, channel, channel), 2 * bytes_of(pictures)
        ),
        "group norm of few images": Workload(
            golden.group_norm, (few, shape(BF, 512), shape(BF, 512)), 2 * bytes_of(few)
        ),
        "instance norm": Workload(instance_norm, (first,), 2 * bytes_of(first)),
        "batch norm": Workload(golden.batch_norm, (large, single, single), 3 * bytes_of(large)),
        "batch norm, trained": Workload(
            lambda x, m, v, g, b: (x - m) * lax.rsqrt(v + 1e-5) * g + b,
            (large, *(single,) * 4),
            2 * bytes_of(large),
        ),
        "spectral scale": Workload(
            lambda w: w / gnp.sqrt(gnp.sum(w * w)), (shape(F32, 8192, 8192),), 12 << 26
        ),
        "weight norm": Workload(
            lambda w, g: g * w / gnp.sqrt(gnp.sum(w * w, 1, keepdims=True)),
            (shape(F32, 8192, 8192), shape(F32, 8192, 1)),
            8 << 26,
        ),
    }


def instance_norm(x):
    """Every image and channel with mean 0 and variance 1, channels first."""
    mean = x.mean((2, 3), keepdims=True)
    return (x - mean) * lax.rsqrt(x.var((2, 3), keepdims=True) + 1e-5)


def residual_norm(x, residual, gain):
    """The sum of two, and its RMS norm."""
    h = x + residual
    return golden.rms_norm(h, gain), h


CHAPTERS = {
    "Rows": rows,
    "Columns": columns,
    "All of an array": everything,
    "Losses": losses,
    "Normalisations": norms,
}
