"""Programs whose kernels are kept as files, so that a change of emitted text is seen in a review.

In: nothing. Out: `programs()`, functions and the shapes they are called with, and `text(name)`,
their kernels. `python -m tests.golden` writes the files anew.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.compiler.emit_cuda import Emitted, emit
from gpuarray.compiler.plan import Plan

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


def dropout(x, key):
    """Half of the elements, twice as large."""
    return gnp.where(ga.random.bernoulli(key, 0.5, x.shape), 2.0 * x, 0.0)


def five_point(x):
    """The inner points of a grid, averaged with their neighbours."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return 0.2 * (x[1:-1, 1:-1] + around)


def programs() -> dict[str, Program]:
    """What is kept, by name."""
    rows, wide = shape("float32", 4096, 1024), shape("bfloat16", 8192, 4096)
    return {
        "saxpy": (lambda x, y: 2.0 * x + y, (shape("float32", 1 << 20),) * 2),
        "saxpy_odd": (lambda x, y: 2.0 * x + y, (shape("float32", 1001),) * 2),
        "chain": (chain, (shape("float32", 1 << 20),)),
        "gelu_bias": (lambda x, b: nn.gelu(x + b), (wide, shape("bfloat16", 4096))),
        "transposed_add": (lambda a, b: (a.T + b) * 3.0, (shape("float32", 512, 512),) * 2),
        "five_point": (five_point, (shape("float32", 1026, 1026),)),
        "complex_map": (lambda z: gnp.exp(z) * z, (shape("complex64", 4096),)),
        "integers": (lambda a, b: (a // b) ^ (a << 3), (shape("int32", 4096),) * 2),
        "dropout": (dropout, (shape("float32", 1024, 1024), ga.random.key(0))),
        "full_sum": (gnp.sum, (shape("float32", 1 << 24),)),
        "mean_squared": (lambda a, b: gnp.mean((a - b) ** 2), (shape("float32", 1 << 22),) * 2),
        "argmax": (gnp.argmax, (shape("float32", 1 << 20),)),
        "row_argmin": (lambda x: gnp.argmin(x, axis=1), (shape("float16", 1000, 77),)),
        "softmax": (lambda x: nn.softmax(x, axis=-1), (rows,)),
        "softmax_short": (lambda x: nn.softmax(x, axis=-1), (shape("bfloat16", 1001, 48),)),
        "softmax_columns": (lambda x: nn.softmax(x, axis=0), (rows,)),
        "logsumexp": (lambda x: nn.logsumexp(x, axis=-1), (rows,)),
        "variance": (lambda x: gnp.var(x, axis=-1), (rows,)),
        "column_sum": (lambda x: gnp.sum(x, axis=0), (rows,)),
        "layer_norm": (layer_norm, (wide, *(shape("bfloat16", 4096),) * 2)),
        "rms_norm": (rms_norm, (wide, shape("bfloat16", 4096))),
        "cross_entropy": (cross_entropy, (shape("float32", 512, 32000), shape("int32", 512))),
    }


def plan(name: str) -> Plan:
    """The plan of a program."""
    function, arguments = programs()[name]
    return ga.jit(function).lower(*arguments).plan


def kernels(name: str) -> list[Emitted]:
    """The kernels of a program."""
    return [emit(g) for g in plan(name).groups]


def text(name: str) -> str:
    """The kernels of a program as one text."""
    return "\n".join(k.text for k in kernels(name))


def path(name: str) -> pathlib.Path:
    """The file of a program."""
    return HERE / f"{name}.cu"
