"""The workloads: functions, their arrays, sizes for CPUs and GPUs, how exact results must be.

In: nothing. Out: WORKLOADS, most important first. Arrays are random and the same in every run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from bench import functions as f

Size = tuple[int, ...]

#: So many numbers are drawn for an array; a larger one repeats them.
DRAWN = 1 << 24
#: Of long arrays the first, the middle and the last so many elements are compared with float64.
PIECE = 1 << 16


class Draw:
    """Random arrays of one type."""

    def __init__(self, dtype: str):
        self._rng = np.random.default_rng(0)
        self.dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))

    def uniform(self, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        """Evenly distributed between low and high."""
        drawn = self._rng.random(min(int(np.prod(shape)), DRAWN), np.float32)
        return np.resize((drawn * (high - low) + low).astype(self.dtype), shape)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        """Whole numbers."""
        return self._rng.integers(0, limit, shape, dtype=np.int32)


Data = Callable[..., list[np.ndarray]]


@dataclass(frozen=True)
class Workload:
    """A function of (m, *arrays), its arrays, and how exact its results must be.

    data(draw, *size) makes the arrays. cpu, gpu: sizes to measure, None: not there. small: for
    --quick, and to compare all of the results with float64
    compiled: whether peers may compile it (else it runs eagerly, operation by operation)
    sample: the axis of each input, then of each output, along which rows are independent, so that
    a large result is compared row by row (None: all of that input is needed, that output is left
    out); "all": a large result is compared whole; "": it is not, the small one is
    instructions(*size): at least so many of a GPU's, where memory is not what takes the time;
    products: likewise operations of matrix products
    """

    name: str
    title: str
    function: Callable[..., Any]
    data: Data
    cpu: Size | None = None
    gpu: Size | None = None
    small: Size = ()
    dtype: str = "float32"  # on GPUs; CPUs compute with float32
    compiled: bool = True
    tolerance: float = 1e-5
    gpu_tolerance: float = 0.0
    sample: str | tuple[tuple[int | None, ...], tuple[int | None, ...]] = ""
    judge: Callable[[Any, list[np.ndarray]], float] | None = None
    takes_size: bool = False
    pointwise: bool = False
    instructions: Callable[..., float] | None = None
    products: Callable[..., float] | None = None

    def size(self, gpu: bool, quick: bool) -> Size:
        """The size to measure."""
        size = self.small if quick else self.gpu if gpu else self.cpu
        assert size is not None
        return size

    def arrays(self, size: Size, dtype: str = "float32") -> list[np.ndarray]:
        """The arguments."""
        return self.data(Draw(dtype), *size)

    def at(self, size: Size) -> Callable[..., Any]:
        """The function for this size."""
        if not self.takes_size:
            return self.function
        return functools.wraps(self.function)(functools.partial(self.function, size=size[0]))

    def allowed(self, dtype: str) -> float:
        """The relative error that is allowed: bfloat16 is rounded after each step by some."""
        if self.gpu_tolerance and dtype != "float32":
            return self.gpu_tolerance
        return self.tolerance if dtype == "float32" else max(self.tolerance, 3e-2)

    def labelled(self, size: Size) -> str:
        """Title and size."""
        return f"{self.title}, {'x'.join(map(length, size))}"


def length(n: int) -> str:
    """A length as one writes it.

    >>> length(1 << 28), length(8_000_000), length(1000)
    ('2^28', '8M', '1000')
    """
    if n >= 1 << 17 and n & (n - 1) == 0:
        return f"2^{n.bit_length() - 1}"
    return f"{n // 1_000_000}M" if n >= 1_000_000 and n % 1_000_000 == 0 else str(n)


# ---- arrays ----


def vectors(count: int, low: float = -2.0, high: float = 2.0) -> Data:
    """`count` vectors."""
    return lambda draw, n: [draw.uniform(n, low=low, high=high) for _ in range(count)]


def matrices(*others: str) -> Data:
    """A matrix and, for each of `others`, one more: same, transposed, row."""

    def data(draw: Draw, r: int, c: int) -> list[np.ndarray]:
        shapes = {"same": (r, c), "transposed": (c, r), "row": (c,)}
        return [draw.uniform(r, c), *(draw.uniform(*shapes[o]) for o in others)]

    return data


def _options(draw: Draw, n: int) -> list[np.ndarray]:
    return [draw.uniform(n, low=a, high=b) for a, b in ((10, 50), (10, 50), (0.2, 2.0))]


def _plane(draw: Draw, r: int, c: int) -> list[np.ndarray]:
    real = np.resize(np.linspace(-2.0, 0.6, c, dtype=np.float32), (r, c))
    return [real, np.repeat(np.linspace(-1.2, 1.2, r, dtype=np.float32), c).reshape(r, c)]


def _bodies(draw: Draw, n: int) -> list[np.ndarray]:
    places = [draw.uniform(n) for _ in range(3)]
    return [*places, *places, draw.uniform(n, low=0.1, high=1.0) / n]


def _labels(draw: Draw, r: int, c: int) -> list[np.ndarray]:
    return [draw.uniform(r, c, low=-8.0, high=8.0), draw.below(c, r)]


def _optimizer(draw: Draw, *shape: int) -> list[np.ndarray]:
    """Parameters, gradients, and the averages of gradients and their squares."""
    count, n = shape if len(shape) == 2 else (1, shape[0])
    return [
        draw.uniform(n, low=low, high=high)
        for low, high in ((-1.0, 1.0), (-0.1, 0.1), (-0.1, 0.1), (1e-4, 1e-2))
        for _ in range(count)
    ]


def _network(draw: Draw, batch: int, width: int, layers: int) -> list[np.ndarray]:
    side = (3.0 / width) ** 0.5
    weights = [draw.uniform(width, width, low=-side, high=side) for _ in range(layers)]
    biases = [draw.uniform(width, low=-0.1, high=0.1) for _ in range(layers)]
    return [draw.uniform(batch, width), draw.uniform(batch, width), *weights, *biases]


def _key(draw: Draw, *shape: int) -> list[np.ndarray]:
    key = np.array([0, 42], np.uint32)
    return [key] if len(shape) == 1 else [key, draw.uniform(shape[0], low=0.5)]


def _dropped(draw: Draw, n: int) -> list[np.ndarray]:
    return _key(draw, n, 1)


# ---- judging what float64 cannot ----


def _differing(got: Any, arrays: list[np.ndarray]) -> float:
    """The share of points with another count than in float64: rounding decides a few."""
    x, y = (a.astype(np.float64) for a in arrays)
    real, imaginary, count = x, y, np.zeros(x.shape, np.int32)
    with np.errstate(all="ignore"):
        for _ in range(256):
            xx, yy = x * x, y * y
            count += xx + yy < 4.0
            x, y = xx - yy + real, 2.0 * x * y + imaginary
    return float(np.mean(np.asarray(got) != count))


def _below_largest(got: Any, arrays: list[np.ndarray]) -> float:
    """How far the element found is below the largest."""
    return float(arrays[0].max() - arrays[0].flat[int(got)])


def _unevenness(got: Any, arrays: list[np.ndarray]) -> float:
    """How far numbers are from evenly distributed in [0, 1): mean, variance, tenths."""
    got = np.asarray(got, np.float64)
    if not (0.0 <= got.min() and got.max() < 1.0):
        return float("inf")
    tenths = np.bincount((got * 10).astype(int), minlength=10) / got.size
    return float(max(abs(got.mean() - 0.5), abs(got.var() - 1 / 12), np.abs(tenths - 0.1).max()))


def _not_dropped(got: Any, arrays: list[np.ndarray]) -> float:
    """Whether elements are zero or larger, and a tenth of them zero."""
    got, want = np.asarray(got, np.float64), arrays[1].astype(np.float64) / 0.9
    kept = got != 0
    worst = np.abs(got[kept] - want[kept]).max(initial=0.0)
    return float(max(worst, abs(kept.mean() - 0.9)))


ROWS = ((0,), (0,))
M8 = (8_000_000,)
SHEET = (2000, 3000)  # float32, so 24 MB: larger than the caches of most CPUs
SMALL = (420, 420)  # large enough to be cut in tiles
LINE = (1 << 17,)


def _softmax(name: str, rows: int, columns: int) -> Workload:
    small = (16, columns)
    return Workload(
        name, "softmax of rows", f.softmax, matrices(), gpu=(rows, columns), small=small,
        dtype="bfloat16", sample=ROWS,
    )  # fmt: skip


# A square root near 0 magnifies the rounding of what is under it: hence the tolerance of chains.
WORKLOADS = (
    Workload(
        "saxpy", "a*x+y", f.saxpy, vectors(2), M8, (1 << 28,), LINE, sample=((0, 0), (0,)),
        pointwise=True,
    ),
    Workload(
        "softmax", "softmax of rows", f.softmax, matrices(), SHEET, (131072, 1024), SMALL,
        "bfloat16", sample=ROWS,
    ),
    Workload(
        "layer_norm", "layer norm of rows", f.layer_norm, matrices("row", "row"), SHEET,
        (32768, 4096), SMALL, "bfloat16", sample=((0, None, None), (0,)),
    ),
    Workload(
        "full_sum", "sum of all", f.full_sum, vectors(1, 0.0, 1.0), M8, (1 << 28,), LINE,
        sample="all", pointwise=True,
    ),
    Workload(
        "gelu_residual", "bias+GELU+residual", f.gelu_residual, matrices("row", "same"), SHEET,
        (16384, 8192), SMALL, "bfloat16", sample=((0, None, 0), (0,)), pointwise=True,
    ),
    Workload(
        "dispatch_jit", "10 operations, compiled", f.ten, vectors(1), (1024,), (1024,), (1024,),
    ),
    Workload(
        "mandelbrot", "256 steps of a loop", f.mandelbrot, _plane, (256, 256), (4096, 4096),
        (64, 64), tolerance=0.02, judge=_differing, sample=((0, 0), (0,)),
        instructions=lambda r, c: 256.0 * 8 * r * c,
    ),
    Workload(
        "transposed_sum", "(A.T+B)*c", f.transposed_sum, matrices("transposed"), (2500, 3000),
        (16384, 16384), SMALL, sample=((1, 0), (0,)),
    ),
    Workload(
        "column_sum", "sum, axis 0", f.column_sum, matrices(), (8000, 1000), (65536, 1024), SMALL,
        tolerance=1e-4, sample=((1,), (0,)),
    ),
    Workload(
        "cross_entropy", "cross entropy and its gradient", f.cross_entropy, _labels, (512, 8000),
        (8192, 128256), (64, 3000), "bfloat16", sample=((0, 0), (None, 0)),
    ),
    Workload(
        "adam", "Adam, one large parameter", f.adam, _optimizer, (2_000_000,), (355_000_000,),
        LINE, sample=((0,) * 4, (0,) * 3), pointwise=True,
    ),
    Workload(
        "uniform", "random numbers (threefry)", f.uniform, _key, (2_000_000,), (1 << 28,), LINE,
        tolerance=0.01, judge=_unevenness, takes_size=True, sample=((None,), (0,)),
        instructions=lambda n: 155.0 * n,
    ),
    Workload(
        "mlp_step", "training step of a network", f.mlp_step, _network, (256, 256, 4),
        (8192, 4096, 4), (64, 64, 4), "bfloat16", tolerance=1e-4, gpu_tolerance=4e-2,
        products=lambda b, w, n: 2.0 * b * w * w * (3 * n - 1),
    ),
    Workload(
        "nbody", "forces of all on all", f.nbody, _bodies, (2048,), (65536,), (500,),
        tolerance=1e-4, sample=((0, 0, 0, None, None, None, None), (0, 0, 0)),
        instructions=lambda n: 20.0 * n * n,
    ),
    Workload(
        "black_scholes", "Black-Scholes", f.black_scholes, _options, (4_000_000,), (1 << 26,),
        LINE, tolerance=1e-4, sample=((0,) * 3, (0, 0)), pointwise=True,
    ),
    Workload(
        "layer_norm_grad", "gradient of layer norm", f.layer_norm_grad,
        matrices("row", "row", "same"), SHEET, (32768, 4096), SMALL, "bfloat16", tolerance=1e-4,
        sample=((0, None, None, 0), (0, None, None)),
    ),
    Workload(
        "mean_squares", "mean((a-b)**2)", f.mean_squared_difference, vectors(2), M8, (1 << 27,),
        LINE, sample="all", pointwise=True,
    ),
    Workload(
        "adam_many", "Adam, many small parameters", f.adam_many, _optimizer, (50, 4096),
        (1000, 4096), (5, 300),
    ),
    Workload(
        "dispatch_eager", "10 operations, eager", f.ten, vectors(1), (1024,), (1024,), (1024,),
        compiled=False,
    ),
    Workload(
        "stencil", "5-point stencil", f.stencil, matrices(), SHEET, (8192, 8192), SMALL,
        sample="all",
    ),
    _softmax("softmax_64k", 2048, 65536),
    Workload(
        "logsumexp", "logsumexp of rows", f.logsumexp, matrices(), SHEET, (32768, 4096), SMALL,
        sample=ROWS,
    ),
    Workload(
        "argmax", "argmax of all", f.argmax, vectors(1), M8, (1 << 27,), LINE, tolerance=0.0,
        judge=_below_largest, sample="all",
    ),
    Workload(
        "rms_norm_residual", "residual, then RMS norm", f.rms_norm_residual,
        matrices("same", "row"), SHEET, (32768, 4096), SMALL, "bfloat16",
        sample=((0, 0, None), (0, 0)),
    ),
    Workload(
        "dropout", "dropout (threefry)", f.dropout, _dropped, (2_000_000,), (1 << 28,), LINE,
        tolerance=0.01, judge=_not_dropped, sample=((None, 0), (0,)),
        instructions=lambda n: 155.0 * n,
    ),
    Workload(
        "full_sum_short", "sum of all", f.full_sum, vectors(1, 0.0, 1.0), None, (1 << 20,), LINE,
        sample="all", pointwise=True,
    ),
    Workload(
        "column_sum_short", "sum, axis 0", f.column_sum, matrices(), None, (2048, 256), SMALL,
        tolerance=1e-4, sample="all",
    ),
    Workload(
        "variance_rows", "variance, axis 1", f.variance_rows, matrices(), SHEET, (16384, 4096),
        SMALL, sample=ROWS,
    ),
    Workload(
        "variance_columns", "variance, axis 0", f.variance_columns, matrices(), SHEET,
        (16384, 4096), SMALL, sample=((1,), (0,)),
    ),
    Workload(
        "mlp_narrow", "training step of a narrow network", f.mlp_step, _network, (1024, 64, 4),
        (8192, 64, 4), (64, 16, 4), "bfloat16", tolerance=1e-4, gpu_tolerance=4e-2,
        products=lambda b, w, n: 2.0 * b * w * w * (3 * n - 1),
    ),
    _softmax("softmax_4k", 32768, 4096),
    _softmax("softmax_16k", 8192, 16384),
    _softmax("softmax_256k", 512, 262144),
    Workload(
        "chain_jit", "7 operations, compiled", f.chain, vectors(2), M8, (1 << 27,), LINE,
        tolerance=1e-4, sample=((0, 0), (0,)), pointwise=True,
    ),
    Workload(
        "chain_eager", "7 operations, eager", f.chain, vectors(2), M8, (1 << 27,), LINE,
        compiled=False, tolerance=1e-4, sample=((0, 0), (0,)),
    ),
    Workload("sum_squares", "sum((a-b)**2)", f.sum_of_squares, vectors(2), M8, None, LINE),
)  # fmt: skip

BY_NAME = {w.name: w for w in WORKLOADS}
