"""The bytes that `explain` says a kernel moves, against every load and store of the simulator.

In: programs whose kernels have all forms, on small arrays. Out: for each kernel what its text says
that it reads and writes, and what the simulator counts: each byte once for each pass, that is
between two meetings of threads. Loads of one byte by many threads count once: caches serve them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends import simulator
from gpuarray.compiler.cuda.emit import KernelSource
from gpuarray.compiler.lower.kernel import FORMS
from gpuarray.compiler.lower.traffic import elements
from gpuarray.core.index import Index
from tests import golden
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()

RANDOM = np.random.default_rng(0)


def normal(*lengths: int) -> np.ndarray:
    return RANDOM.standard_normal(lengths).astype(np.float32)


def half(*lengths: int) -> Any:
    return gnp.asarray(normal(*lengths)).astype("bfloat16")


def places(below: int, count: int) -> np.ndarray:
    """Different numbers below a limit."""
    return RANDOM.permutation(below)[:count].astype(np.int32)


def distances(p):
    return (((p[None] - p[:, None]) ** 2).sum(-1) ** 0.5).sum(1)


def dropped(x):
    return gnp.where(ga.random.bernoulli(ga.random.key(0), 0.5, x.shape), 2.0 * x, 0.0)


def rows_of(x, i, j):
    return x[i, j] * 2.0


def both_ways(x):
    """Rows and columns in one pass."""
    y = nn.softmax(x)
    return y, (y * x).sum(0)


def pooled(x):
    return lax.reduce_window(x, -gnp.inf, lax.max, (3, 3), (2, 2), "SAME")


TALL, GRID = normal(4096, 64), normal(64, 96)
COMPLEX = (normal(32, 32) + 1j * normal(32, 32)).astype(np.complex64)
ROW = (half(256), half(256))

PROGRAMS: dict[str, tuple[Callable, tuple]] = {
    # pointwise
    "saxpy": (lambda x, y: 2 * x + y, (normal(5000), normal(5000))),
    "odd length": (lambda x, y: 2 * x + y, (normal(1001), normal(1001))),
    "bias and gelu": (lambda x, b: nn.gelu(x + b), (normal(64, 128), normal(128))),
    "a number a row": (lambda x, b: x + b[:, None], (normal(64, 128), normal(64))),
    "dropout": (dropped, (GRID,)),
    # views, stencils, lookups
    "halves": (lambda x: x[:, :32] * x[:, 64:], (GRID,)),
    "every second row": (lambda x: x[::2] + 1, (GRID,)),
    "five points": (golden.five_point, (normal(50, 64),)),
    "padded stencil": (golden.padded_stencil, (normal(48, 64),)),
    "pooling": (pooled, (normal(64, 64),)),
    "concatenate": (
        lambda a, b: gnp.concatenate([a, b]) * 2,
        (normal(30, 64), normal(50, 64)),
    ),
    "gather of rows": (lambda x, i: x[i] * 2, (normal(300, 32), places(300, 40))),
    "gather of pairs": (rows_of, (normal(300, 32), places(300, 20), places(32, 20))),
    "dynamic slice": (
        lambda x, i: lax.dynamic_slice(x, (i, 0), (4, 32)) * 2,
        (normal(300, 32), np.int32(7)),
    ),
    "search": (gnp.searchsorted, (np.sort(normal(1000)), normal(50))),
    "rotary": (golden.rotated, (half(20, 4, 64), half(4, 32), half(4, 32))),
    # tiles
    "transposed": (lambda a, b: (a.T + b) * 3, (normal(64, 96), normal(96, 64))),
    "transposed result": (lambda a, b: a.T * b.T, (normal(51, 103), normal(51, 103))),
    "both ways": (lambda a: a + a.T, (normal(64, 64),)),
    # rows
    "softmax": (nn.softmax, (normal(20, 1024),)),
    "softmax, in shared memory": (nn.softmax, (normal(5, 10001),)),
    "softmax, read again": (nn.softmax, (normal(40, 30000),)),
    "softmax, short rows": (nn.softmax, (half(101, 48),)),
    "layer norm": (golden.layer_norm, (half(40, 256), *ROW)),
    "sum of all": (gnp.sum, (normal(1 << 16),)),
    "argmax of all": (gnp.argmax, (normal(1 << 16),)),
    "argmin of rows": (lambda x: gnp.argmin(x, 1), (normal(100, 77),)),
    "cross-entropy": (golden.cross_entropy, (normal(32, 500), places(500, 32))),
    "nearest": (golden.nearest, (normal(300, 8), normal(16, 8))),
    "pairs": (distances, (normal(100, 3),)),
    # columns
    "sum of columns": (lambda x: x.sum(0), (TALL,)),
    "variance of columns": (lambda x: x.var(0), (TALL,)),
    "softmax of columns": (lambda x: nn.softmax(x, 0), (GRID,)),
    # scans, sorts, updates
    "rows and columns": (both_ways, (normal(90, 300),)),
    "cumsum and more": (lambda x: gnp.exp(gnp.cumsum(x, 1)) / (x + 1), (GRID,)),
    "sort and more": (lambda x: -gnp.sort(-x, 1), (GRID,)),
    "cumsum": (lambda x: gnp.cumsum(x, 1), (GRID,)),
    "cumsum in pieces": (gnp.cumsum, (normal(1 << 16),)),
    "cumsum of columns": (lambda x: gnp.cumsum(x, 0), (normal(128, 8),)),
    "sort": (lambda x: gnp.sort(x, 1), (GRID,)),
    "argsort": (lambda x: gnp.argsort(x, 1), (GRID,)),
    "largest": (lambda x: lax.top_k(x, 5), (GRID,)),
    "largest of long rows": (lambda x: lax.top_k(x, 5), (normal(3, 3000),)),
    "rows set": (
        lambda x, i, v: x.at[i].set(v, unique_indices=True),
        (normal(1000, 64), places(1000, 40), normal(40, 64)),
    ),
    "rows added, sorted": (
        lambda x, i, v: x.at[i].add(v),
        (normal(500, 8), RANDOM.integers(0, 500, 100), normal(100, 8)),
    ),
    "numbers added in tables": (
        lambda i, v: (ga.ops.segment_sum(v, i, 40), ga.ops.segment_sum(gnp.ones_like(v), i, 40)),
        (RANDOM.integers(0, 40, 9000), normal(9000)),
    ),
    "integers added": (
        lambda x, i, v: x.at[i].add(v),
        (places(9000, 9000), places(9000, 700), places(700, 700)),
    ),
    "slice updated": (
        lambda c, new, at: lax.dynamic_update_slice(c, new, (0, at, 0)),
        (normal(8, 512, 16), normal(8, 1, 16), np.int32(5)),
    ),
    # loops, many arrays
    "mandelbrot": (golden.mandelbrot, (COMPLEX,)),
    "moving averages": (golden.ema_scan, (half(32, 64),)),
    "attention": (
        lambda q, k, v: nn.dot_product_attention(q, k, v),
        (normal(2, 96, 3, 16), normal(2, 96, 3, 16), normal(2, 96, 3, 16)),
    ),
    "many arrays": (lambda xs: [x * 2 + 1 for x in xs], ([normal(10 + i) for i in range(20)],)),
}
#: Programs of which the text says more than the simulator counts, and why.
MORE = {
    "search": "paths of a search meet at the top, and which places they share depends on the data",
}
#: Programs that read more than their text says, and why.
AGAIN = {"cumsum and more": "a tile is read again before the next one: it is in the caches"}


@pytest.fixture(scope="module")
def waiting() -> dict[str, tuple[Callable, list]]:
    """The programs, made before any is compiled."""
    made = {}
    for name, (function, arguments) in PROGRAMS.items():
        graph = ga.jit(function).lower(*arguments).jaxpr
        with pytest.MonkeyPatch.context() as patch:
            if name == "rows and columns":  # which many long rows take otherwise
                plan_for(patch, multiprocessors=1, partials_worth=0, row_column_least=32)
            if name == "attention":  # whose scores would stay in the caches
                plan_for(patch, multiprocessors=1, swept_bytes=0)
            made[name] = simulated.built(graph), ga.tree.leaves(arguments)
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_are_those_that_are_counted(name, waiting):
    function, arguments = waiting[name]
    seen: list[tuple[KernelSource, dict[str, simulator.Moved]]] = []
    with simulator.counting(lambda kernel, moved: seen.append((kernel, moved))):
        simulated.run(function, arguments)
    assert seen
    for kernel, moved in seen:
        # What a kernel over many arrays reads to find them is no array of the program.
        arrays = [m for k, m in moved.items() if k not in ("table", "tiles")]
        read, written = sum(m.read for m in arrays), sum(m.written for m in arrays)
        said = kernel.traffic
        assert written == said.bytes_written, kernel.name
        assert read <= said.bytes_read * (2 if name in AGAIN else 1), kernel.name
        assert name in MORE or said.bytes_read <= 1.01 * read, kernel.name
        assert sum(m.loaded for m in arrays) >= read, "a byte is loaded each time it is read"


def test_every_form_is_counted(waiting):
    spaces = [function.__globals__.values() for function, _ in waiting.values()]
    made = {type(v.emitted.kernel) for s in spaces for v in s if isinstance(v, simulator.Launcher)}
    # What a user's own text reads is not known.
    missing = {form.form for form in FORMS} - {form.form for form in made}
    assert missing == {"user"}


@pytest.mark.parametrize(
    "steps", [(1, 0), (3, 0), (1, 0, 1), (2, 0, 1), (1, 0, 5), (4, 2, 9), (2, 1, 0, 7)]
)
def test_elements_at_shifted_places(steps):
    """Whole arrays of places are counted as NumPy counts them."""
    step, *shifts = steps
    row = Index.axis(0, 20) * step
    counted = {i * step + shift for i in range(20) for shift in shifts}
    said = elements([row.shifted(s) for s in shifts])
    assert len(counted) <= said <= len(shifts) * 20
    if step == 1:
        assert said == len(counted)


def test_elements_of_windows():
    """A window that moves by less than its length sees each element of the stretch once."""
    for step, window in ((1, 3), (2, 3), (3, 3), (4, 3)):
        at = Index.axis(0, 10) * step + Index.axis(1, window)
        assert elements([at]) == len({step * i + j for i in range(10) for j in range(window)})
