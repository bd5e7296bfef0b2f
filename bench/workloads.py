"""What is measured: arithmetic on arrays too large for any cache.

In: a peer's namespace `m` (NumPy's names) and arrays. Out: arrays. One text for all peers, and
for the float64 reference their results are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: `--quick` divides the number of elements by this.
QUICK = 16
_M8 = 8_000_000


@dataclass(frozen=True)
class Workload:
    """A function of (m, *arrays), its arrays, and how exact its results must be.

    compiled: whether peers may compile it (else it runs eagerly, operation by operation)
    data(draw, scale): the arguments; `scale` is 1 or QUICK
    """

    name: str
    title: str
    function: Callable[..., Any]
    data: Callable[[np.random.Generator, int], list[np.ndarray]]
    compiled: bool = True
    tolerance: float = 1e-5

    def arrays(self, quick: bool) -> list[np.ndarray]:
        """The arguments: the same in every run."""
        return self.data(np.random.default_rng(0), QUICK if quick else 1)


def _vectors(count: int, size: int = _M8, low: float = -2.0, high: float = 2.0) -> Callable:
    """`count` vectors, uniform between low and high."""

    def data(draw: np.random.Generator, scale: int) -> list[np.ndarray]:
        return [draw.uniform(low, high, size // scale).astype(np.float32) for _ in range(count)]

    return data


def _matrix(rows: int, columns: int, *others: str) -> Callable:
    """A matrix and, for each of `others`, one more: same, transposed, row."""

    def data(draw: np.random.Generator, scale: int) -> list[np.ndarray]:
        r, c = (rows, columns // scale) if columns > rows else (rows // scale, columns)
        shapes = {"same": (r, c), "transposed": (c, r), "row": (c,)}
        all_shapes = [(r, c), *(shapes[o] for o in others)]
        return [draw.uniform(-2, 2, s).astype(np.float32) for s in all_shapes]

    return data


def chain(m, x, y):
    """Seven operations, two arrays in, one out."""
    return m.sqrt(m.abs(m.sin(x) * y + x)) - y / 3.0


def sum_of_squares(m, a, b):
    """One number out of two arrays."""
    d = a - b
    return m.sum(d * d)


def softmax(m, x):
    """Rows: maximum, exponentials, sum, quotient."""
    e = m.exp(x - m.max(x, axis=1, keepdims=True))
    return e / m.sum(e, axis=1, keepdims=True)


def layer_norm(m, x, scale, shift):
    """Rows: mean and variance, then scaled and shifted by column."""
    centred = x - m.mean(x, axis=1, keepdims=True)
    variance = m.mean(centred * centred, axis=1, keepdims=True)
    return centred / m.sqrt(variance + 1e-5) * scale + shift


def gelu_residual(m, x, bias, residual):
    """bias + GELU (by tanh) + residual, as in a transformer block."""
    t = x + bias
    inner = math.sqrt(2 / math.pi) * (t + 0.044715 * t * t * t)
    return 0.5 * t * (1.0 + m.tanh(inner)) + residual


def black_scholes(m, spot, strike, years):
    """Prices of European calls and puts: logarithm, exponential, two error functions."""
    rate, volatility = 0.02, 0.3
    spread = volatility * m.sqrt(years)
    d1 = (m.log(spot / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    n1 = 0.5 * (1.0 + m.erf(d1 * math.sqrt(0.5)))
    n2 = 0.5 * (1.0 + m.erf(d2 * math.sqrt(0.5)))
    paid = strike * m.exp(-rate * years)
    call = spot * n1 - paid * n2
    return call, call - spot + paid


def logsumexp(m, x):
    """Rows: the logarithm of the sum of exponentials, kept in range by the maximum."""
    top = m.max(x, axis=1, keepdims=True)
    return m.log(m.sum(m.exp(x - top), axis=1)) + top[:, 0]


def variance_rows(m, x):
    """The variance along the axis that lies together in memory."""
    return m.var(x, axis=1)


def variance_columns(m, x):
    """The variance along the axis that is strided in memory."""
    return m.var(x, axis=0)


def column_sum(m, x):
    """The sum along the strided axis."""
    return m.sum(x, axis=0)


def transposed_sum(m, a, b):
    """A transposed operand: its reads and writes cannot both be in order."""
    return (a.T + b) * 1.5


def _options(draw: np.random.Generator, scale: int) -> list[np.ndarray]:
    size = 4_000_000 // scale
    ranges = [(10, 50), (10, 50), (0.2, 2.0)]
    return [draw.uniform(low, high, size).astype(np.float32) for low, high in ranges]


WORKLOADS = (
    # A square root near 0 magnifies the rounding of what is under it: hence the tolerance.
    Workload("chain_jit", "7 operations, 8M, compiled", chain, _vectors(2), tolerance=1e-4),
    Workload("chain_eager", "7 operations, 8M, eager", chain, _vectors(2), False, 1e-4),
    Workload("sum_squares", "sum((a-b)**2), 8M", sum_of_squares, _vectors(2)),
    Workload("softmax", "softmax of rows, 2000x3000", softmax, _matrix(2000, 3000)),
    Workload("layer_norm", "layer norm, 2000x3000", layer_norm, _matrix(2000, 3000, "row", "row")),
    Workload(
        "gelu_residual",
        "bias+GELU+residual, 2000x3000",
        gelu_residual,
        _matrix(2000, 3000, "row", "same"),
    ),
    Workload("black_scholes", "Black-Scholes, 4M", black_scholes, _options, tolerance=1e-4),
    Workload("logsumexp", "logsumexp of rows, 2000x3000", logsumexp, _matrix(2000, 3000)),
    Workload("variance_rows", "variance, axis 1, 2000x3000", variance_rows, _matrix(2000, 3000)),
    Workload(
        "variance_columns", "variance, axis 0, 2000x3000", variance_columns, _matrix(2000, 3000)
    ),
    Workload(
        "column_sum", "sum, axis 0, 8000x1000", column_sum, _matrix(8000, 1000), tolerance=1e-4
    ),
    Workload(
        "transposed_sum", "(A.T+B)*c, 2500x3000", transposed_sum, _matrix(2500, 3000, "transposed")
    ),
)
