"""Programs whose kernels are kept as files, so that a change of emitted text is seen in a review.

In: nothing. Out: `programs()`, functions and the shapes they are called with, `text(name)`, their
kernels, and `native_text(name)`, those of some of them for a CPU. `python -m tests.golden` writes
the files anew.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, ops
from gpuarray.backends.native.program import planned
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.native.emit import emit_alone as emit_native
from gpuarray.compiler.native.loops import RoutineWriter
from gpuarray.compiler.pipeline import Plan
from gpuarray.core.graph import Eqn

HERE = pathlib.Path(__file__).parent
Program = tuple[Callable, tuple]


def shape(dtype: str, *lengths: int) -> ga.ShapeDtypeStruct:
    """An argument."""
    return ga.ShapeDtypeStruct(lengths, dtype)


def chain(x):
    """30 operations, one after another."""
    for _ in range(10):
        x = gnp.sin(x) * 2.0 + 1.0
    return x


def layer_norm(x, gain, bias):
    """Rows with mean 0 and variance 1, scaled and shifted."""
    mean = gnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(gnp.var(x, -1, keepdims=True) + 1e-5) * gain + bias


def rms_norm(x, gain):
    """Rows of length 1 on average, scaled."""
    return x * lax.rsqrt(gnp.mean(gnp.square(x), -1, keepdims=True) + 1e-6) * gain


def cross_entropy(logits, label):
    """Minus the log-likelihood of each row's label."""
    hot = gnp.arange(logits.shape[-1]) == label[:, None]
    return -gnp.sum(gnp.where(hot, nn.log_softmax(logits, axis=-1), 0.0), axis=-1)


def attention_gradient(q, k, v, ct):
    """softmax(q k^T) v and its derivatives, without the scores in memory."""
    out, back = ga.vjp(lambda q, k, v: nn.dot_product_attention(q, k, v), q, k, v)
    return out, *back(ct)


def nearest(points, centres):
    """The number of the nearest centre, and the square of its distance."""
    distances = gnp.sum((points[:, None] - centres) ** 2, axis=-1)
    return gnp.argmin(distances, axis=1), gnp.min(distances, axis=1)


def label_likelihood(logits, label):
    """The mean log-likelihood of each row's label, looked up by its number."""
    log = nn.log_softmax(logits, axis=-1)
    return gnp.mean(gnp.take_along_axis(log, label[:, None], -1))


def dropout(x, key):
    """Half of the elements, twice as large."""
    return gnp.where(ga.random.bernoulli(key, 0.5, x.shape), 2.0 * x, 0.0)


def five_point(x):
    """The inner points of a grid, averaged with their neighbours."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return 0.2 * (x[1:-1, 1:-1] + around)


def largest_pairs(x, payload):
    """The largest of each row, and what lies beside it."""

    def larger(a, b):
        mine = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return tuple(gnp.where(mine, x, y) for x, y in zip(a, b, strict=True))

    return lax.reduce((x, payload), (np.float32(-np.inf), np.int32(2**31 - 1)), larger, (1,))


def clipped_gradients(gradients):
    length = gnp.sqrt(sum(gnp.sum(g * g) for g in gradients))
    return [g * gnp.minimum(1, 1 / length) for g in gradients]


def rays(origin, direction):
    """How far along each ray a ball is, by steps as long as it is away."""

    def step(_, far):
        p = origin + far[..., None] * direction
        return far + gnp.linalg.norm(p, axis=-1) - 1

    return lax.fori_loop(0, 64, step, gnp.zeros(direction.shape[:-1]))


def mandelbrot(c):
    """How many of 256 steps a point stays near."""

    def step(_, state):
        z, n = state
        return z * z + c, n + (gnp.square(z.real) + gnp.square(z.imag) < 4)

    return lax.fori_loop(0, 256, step, (gnp.zeros_like(c), gnp.zeros(c.shape, "int32")))[1]


def ema_scan(x):
    """Exponential moving averages along time, all of them kept."""

    def step(mean, now):
        mean = 0.9 * mean + 0.1 * now
        return mean, mean

    return lax.scan(step, x[0], x)[1]


def padded_stencil(x):
    """Every point of a grid, zero around it, and its neighbours."""
    p = gnp.pad(x, 1)
    return 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) - x


def rotated(x, cos, sin):
    """Rotary embedding: pairs of elements, half a row apart, turned in their plane."""
    a, b = gnp.split(x, 2, -1)
    return gnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def each_channel(x, w):
    """Channels last, each with a filter of its own, and an activation."""
    numbers = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=x.shape[-1]
    )
    return nn.relu(y)


def batch_norm(x, gain, offset):
    """Channels last, over all images: a kernel for each pass."""
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(var + 1e-5) * gain + offset


def group_norm(x, gain, offset):
    """Channels last, 32 groups of them, each with mean 0 and variance 1 in every image."""
    groups = x.reshape(*x.shape[:-1], 32, -1)
    mean = groups.mean((1, 2, 4), keepdims=True)
    var = gnp.square(groups - mean).mean((1, 2, 4), keepdims=True)
    return ((groups - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * gain + offset


def in_blocks(x):
    """Rounded to 8 bits in blocks of 32 that share a scale, and read back."""
    blocks = x.reshape(-1, 32)
    scale = gnp.max(gnp.abs(blocks), axis=1, keepdims=True) / 127.0
    return (gnp.round(blocks / scale).astype("int8") * scale).reshape(x.shape) - x


def backwards(function):
    """The cotangents of all arguments, for a cotangent of the result."""
    return lambda ct, *args: ga.vjp(function, *args)[1](ct)


def programs() -> dict[str, Program]:
    """What is kept, by name."""
    rows, wide = shape("float32", 4096, 1024), shape("bfloat16", 8192, 4096)
    return {
        "saxpy": (lambda x, y: 2.0 * x + y, (shape("float32", 1 << 20),) * 2),
        "saxpy_odd": (lambda x, y: 2.0 * x + y, (shape("float32", 1001),) * 2),
        "chain": (chain, (shape("float32", 1 << 20),)),
        "scaled_exp": (lambda x: gnp.exp(x) * 2.0, (shape("float32", 1 << 26),)),
        "gelu_bias": (lambda x, b: nn.gelu(x + b), (wide, shape("bfloat16", 4096))),
        "transposed_add": (lambda a, b: (a.T + b) * 3.0, (shape("float32", 512, 512),) * 2),
        "transposed_batches": (
            lambda a, b: gnp.swapaxes(a, 1, 2) + b,
            (shape("bfloat16", 24, 1000, 72), shape("bfloat16", 24, 72, 1000)),
        ),
        "channels_last": (
            lambda x: gnp.transpose(x, (0, 2, 3, 1)) * 2.0,
            (shape("float32", 32, 64, 56, 56),),
        ),
        "rotary": (
            rotated,
            (shape("bfloat16", 2048, 16, 64), *(shape("bfloat16", 16, 32),) * 2),
        ),
        "each_channel": (
            each_channel,
            (shape("float32", 8, 56, 56, 64), shape("float32", 3, 3, 1, 64)),
        ),
        "batch_norm": (
            batch_norm,
            (shape("float32", 32, 56, 56, 64), *(shape("float32", 64),) * 2),
        ),
        "group_norm": (
            group_norm,
            (shape("bfloat16", 64, 16, 16, 256), *(shape("bfloat16", 256),) * 2),
        ),
        "in_blocks": (in_blocks, (shape("float32", 1 << 22),)),
        "small_products": (lambda a, b: nn.relu(a @ b), (shape("float32", 10_000, 3, 3),) * 2),
        "small_systems": (
            gnp.linalg.solve,
            (shape("float32", 10_000, 2, 2), shape("float32", 10_000, 2, 1)),
        ),
        "transposed_away": (lambda a, b: a.T * b.T, (shape("float32", 501, 1023),) * 2),
        "five_point": (five_point, (shape("float32", 1026, 1026),)),
        "padded_stencil": (padded_stencil, (shape("float32", 1024, 1024),)),
        "concatenate": (
            lambda a, b: gnp.concatenate([a, b]) * 2.0 + 1.0,
            (shape("float32", 300, 256), shape("float32", 500, 256)),
        ),
        "gather": (
            lambda x, i, w, b: x[i] * w + b,
            (shape("bfloat16", 32000, 512), shape("int32", 4096), *(shape("bfloat16", 512),) * 2),
        ),
        "scatter_add": (
            lambda x, i, v: x.at[i].add(v),
            (shape("float32", 5000, 64), shape("int32", 4096), shape("float32", 4096, 64)),
        ),
        "bincount": (lambda x: gnp.bincount(x, length=100), (shape("int32", 1 << 24),)),
        "eight_bits": (
            lambda w, x, scale: (w.astype("float32") @ x) * scale,
            (shape("int8", 4096, 4096), shape("float32", 4096), shape("float32", 4096)),
        ),
        "groups": (
            lambda x, g: ops.segment_sum(x, g, 100) / ops.segment_sum(gnp.ones(g.shape), g, 100),
            (shape("float32", 1 << 22), shape("int32", 1 << 22)),
        ),
        "dynamic_update_slice": (
            lambda cache, new, at: lax.dynamic_update_slice(cache, new, (0, at, 0)),
            (shape("bfloat16", 8, 4096, 64), shape("bfloat16", 8, 1, 64), shape("int32")),
        ),
        "cumsum": (lambda x: gnp.cumsum(x, axis=1), (rows,)),
        "cumsum_long": (gnp.cumsum, (shape("float32", 1 << 22),)),
        "cumsum_columns": (lambda x: gnp.cumsum(x, axis=0), (shape("float32", 1 << 16, 100),)),
        "recurrence": (
            lambda a, b: lax.associative_scan(
                lambda one, two: (one[0] * two[0], two[0] * one[1] + two[1]), (a, b)
            )[1],
            (shape("float32", 4096, 512), shape("float32", 4096, 512)),
        ),
        "transmitted": (lambda x: x * gnp.cumprod(1 - x, axis=1), (rows,)),
        "ranks": (lambda x: gnp.argsort(-x, axis=1) + 1, (shape("float32", 1000, 100),)),
        "sort_rows": (lambda x: gnp.sort(x, axis=1), (shape("float32", 1000, 100),)),
        "largest": (lambda x: lax.top_k(x, 8), (shape("float32", 1024, 50257),)),
        "max_pool": (
            lambda x: lax.reduce_window(x, -gnp.inf, lax.max, (3, 3), (2, 2), "SAME"),
            (shape("float32", 512, 512),),
        ),
        "complex_map": (lambda z: gnp.exp(z) * z, (shape("complex64", 4096),)),
        "integers": (lambda a, b: (a // b) ^ (a << 3), (shape("int32", 4096),) * 2),
        "dropout": (dropout, (shape("float32", 1024, 1024), ga.random.key(0))),
        "full_sum": (gnp.sum, (shape("float32", 1 << 24),)),
        "mean_squared": (lambda a, b: gnp.mean((a - b) ** 2), (shape("float32", 1 << 22),) * 2),
        "argmax": (gnp.argmax, (shape("float32", 1 << 20),)),
        "largest_pairs": (
            largest_pairs,
            (shape("float32", 1024, 4096), shape("int32", 1024, 4096)),
        ),
        "row_argmin": (lambda x: gnp.argmin(x, axis=1), (shape("float16", 1000, 77),)),
        "softmax": (lambda x: nn.softmax(x, axis=-1), (rows,)),
        "softmax_odd": (lambda x: nn.softmax(x, axis=-1), (shape("float32", 512, 10001),)),
        "softmax_long": (lambda x: nn.softmax(x, axis=-1), (shape("bfloat16", 1056, 131072),)),
        "softmax_short": (lambda x: nn.softmax(x, axis=-1), (shape("bfloat16", 1001, 48),)),
        "softmax_columns": (lambda x: nn.softmax(x, axis=0), (rows,)),
        "attention": (
            lambda q, k, v: nn.dot_product_attention(q, k, v),
            (shape("bfloat16", 4, 4096, 16, 64),) * 3,
        ),
        "attention_gradient": (attention_gradient, (shape("float32", 2, 2048, 16, 32),) * 4),
        "logsumexp": (lambda x: nn.logsumexp(x, axis=-1), (rows,)),
        "variance": (lambda x: gnp.var(x, axis=-1), (rows,)),
        "column_sum": (lambda x: gnp.sum(x, axis=0), (rows,)),
        "layer_norm": (layer_norm, (wide, *(shape("bfloat16", 4096),) * 2)),
        "rms_norm": (rms_norm, (wide, shape("bfloat16", 4096))),
        "layer_norm_backwards": (
            backwards(layer_norm),
            (*(shape("bfloat16", 16384, 4096),) * 2, *(shape("bfloat16", 4096),) * 2),
        ),
        "rms_norm_backwards": (
            backwards(rms_norm),
            (*(shape("float32", 16384, 2048),) * 2, shape("float32", 2048)),
        ),
        "clipped_gradients": (
            clipped_gradients,
            ([shape("float32", 2000 + i, 768) for i in range(6)],),
        ),
        "rays": (rays, (shape("float32", 3), shape("float32", 1 << 20, 3))),
        "mandelbrot": (mandelbrot, (shape("complex64", 1024, 1024),)),
        "ema_scan": (ema_scan, (shape("bfloat16", 512, 8192),)),
        "nearest": (nearest, (shape("float32", 100_000, 8), shape("float32", 64, 8))),
        "label_gradient": (
            ga.grad(label_likelihood),
            (shape("bfloat16", 4096, 8192), shape("int32", 4096)),
        ),
        "recurrent": (
            lambda w, h, xs: lax.scan(lambda h, x: (gnp.tanh(h @ w + x), h[:, 0]), h, xs),
            (shape("float32", 24, 24), shape("float32", 3, 24), shape("float32", 50, 3, 24)),
        ),
        "cross_entropy": (cross_entropy, (shape("float32", 512, 32000), shape("int32", 512))),
    }


def plan(name: str) -> Plan:
    """The plan of a program."""
    function, arguments = programs()[name]
    return ga.jit(function).lower(*arguments).plan.on_device


def kernels(name: str) -> list[KernelSource]:
    """The kernels of a program."""
    return [emit(g) for g in plan(name).groups]


def text(name: str) -> str:
    """The kernels of a program as one text."""
    return "\n".join(k.text for k in kernels(name))


def path(name: str) -> pathlib.Path:
    """The file of a program."""
    return HERE / f"{name}.cu"


#: Programs whose native kernels are kept too: one of each kind of loops.
NATIVE = (
    "saxpy", "gelu_bias", "transposed_add", "gather", "padded_stencil", "mean_squared", "softmax",
    "layer_norm", "row_argmin", "column_sum", "softmax_columns", "mandelbrot",
    "ema_scan", "scatter_add", "recurrent", "in_blocks", "cumsum",
    "recurrence",
)  # fmt: skip


def native_text(name: str) -> str:
    """The native kernels and loops of a program as one text."""
    function, arguments = programs()[name]
    steps = ga.jit(function).lower(*arguments).plan.on_native.steps
    texts = []
    for step in steps:
        if isinstance(step, Kernel):
            texts.append(emit_native(step).text)
        elif isinstance(step, Eqn) and step.primitive.flow is not None:
            name = f"routine{len(texts)}"
            texts.append(RoutineWriter(name, planned).routine([step], step.outvars).text)
    return "\n".join(texts)


def native_path(name: str) -> pathlib.Path:
    """The file of a program's native kernels."""
    return HERE / f"{name}.cpp"
