"""Fourier transforms as calls of functions of native code.

Floor 3. In: an equation with a rule `fourier`. Out: calls of functions of
kernels/native/49_transforms.cuh, axis by axis, with the tables of roots of unity that they read.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.target import PROCESSOR


class TransformCall(NamedTuple):
    """A function, its tasks, operations of each, and its arguments: `in`, `out`, a room or a table
    by its name.
    """

    function: str
    tasks: int
    work: float
    arguments: tuple[str, ...]


class TransformCalls(NamedTuple):
    """The type of the numbers and its bytes, the calls, numbers of each room, and tables."""

    number: str
    size: int
    calls: list[TransformCall]
    rooms: dict[str, int]
    tables: dict[str, np.ndarray]


def transform_calls(eqn: Eqn) -> TransformCalls:
    """The calls that compute a Fourier transform."""
    rule = eqn.primitive.rewrite.fourier
    assert rule is not None
    lengths, real, inverse = rule(eqn)
    aval = eqn.outvars[0].aval
    if not lengths or not aval.size or not eqn.invars[0].aval.size:
        raise NoKernel("a transform of nothing")
    # Real elements are transformed in pairs, as half as many complex ones.
    if real and lengths[-1] % 2:
        raise NoKernel("a transform of an odd number of real elements")
    outer = math.prod(aval.shape[: aval.ndim - len(lengths)])
    dtype = storage_dtype(aval).type(0).real.dtype
    w = _Writer(dtype, inverse)
    # Pairs of real numbers are transformed as complex ones, then separated; or the reverse.
    *others, last = lengths
    half = last // 2
    rows = outer * math.prod(others)
    count, width = (half, half + 1) if real else (last, last)
    # The division of an inverse is done in the pass over rows, which touches every element once
    # more anyway. For pairs the divisor is their number: `ga_fft_to_real` halves once more.
    share = count * math.prod(others) if inverse else 1
    if real == "operand":
        w.rooms["pairs"] = 2 * rows * half
        w.rows(rows, count, "in", "pairs", share)
        w.halves("ga_fft_of_real", rows, half, "pairs", "out")
        w.columns(outer, others, width, "out", "out")
    elif real == "result":
        at = "in"
        if others:
            # The half spectrum is along the last axis, so the other axes come first. Operands are
            # never overwritten: their transforms have separate memory.
            at, w.rooms["spectra"] = "spectra", 2 * rows * width
            w.columns(outer, others, width, "in", at)
        w.rooms["pairs"] = 2 * rows * half
        w.halves("ga_fft_to_real", rows, half, at, "pairs")
        w.rows(rows, count, "pairs", "out", share)
    else:
        w.rows(rows, count, "in", "out", share)
        w.columns(outer, others, width, "out", "out")
    return TransformCalls(w.number, dtype.itemsize, w.calls, w.rooms, w.tables)


class _Writer:
    """The calls, rooms and tables of a transform."""

    def __init__(self, dtype: np.dtype, inverse: bool):
        self.dtype, self.swap = dtype, str(inverse).lower()
        self.number = "float" if dtype.itemsize == 4 else "double"
        self.calls: list[TransformCall] = []
        self.rooms: dict[str, int] = {}
        self.tables: dict[str, np.ndarray] = {}

    def call(self, name: str, numbers: tuple, tasks: int, work: float, *arguments: str) -> None:
        """Add a call; `numbers` are its template's arguments after the type."""
        text = f"{name}<{', '.join(map(str, (self.number, *numbers)))}>"
        self.calls.append(TransformCall(text, tasks, work, arguments))

    def table(self, name: str, numbers: np.ndarray) -> str:
        """Add a table, which is there once."""
        self.tables.setdefault(name, numbers.astype(self.dtype))
        return name

    def rows(self, rows: int, n: int, here: str, there: str, share: int) -> None:
        """Transforms of `rows` rows of n elements, which divide by `share`."""
        # A row that can be factored is a matrix of n1 x n2: transforms across it, twiddle factors,
        # then transforms along it. Others are transformed whole, as interleaved sequences.
        pair = _split(n)
        work, some = _work(n), PROCESSOR.sequences
        if pair is None:
            self.lines(rows, n, 1, 1, rows, n, 0, here, there, share)
            return
        n1, n2 = pair
        w = self.table(f"roots{n}", _of_rows(n1, n2))
        sizes = (some, n1, n2)
        # A few long rows: each of the steps is shared; else a row is a task, in a near cache.
        near = 4 * n * self.dtype.itemsize <= PROCESSOR.transformed_bytes
        if near and (rows > 1 or work < PROCESSOR.product_task):
            self.call("ga_fft_rows", (self.swap, share, *sizes), rows, work, here, there, w)
            return
        self.rooms["columns"] = self.rooms["turned"] = 2 * rows * n
        # Tasks take a group of sequences of a row; between the calls, one holds its real and one
        # its imaginary parts.
        across, along = -(-n2 // some), -(-n1 // some)
        part = work / 2
        self.call(
            "ga_fft_across", (self.swap, *sizes), rows * across, part / across, here, "columns", w
        )
        self.call("ga_fft_turned", (n1, n2), 2 * rows, float(n), "columns", "turned")
        numbers = (self.swap, share, *sizes)
        self.call("ga_fft_along", numbers, rows * along, part / along, "turned", there, w)

    def columns(self, outer: int, others: list[int], width: int, here: str, there: str) -> None:
        """Transforms along the other axes, where the last one has `width` elements."""
        for axis in reversed(range(len(others))):
            n, inner = others[axis], math.prod(others[axis + 1 :]) * width
            groups = outer * math.prod(others[:axis])
            self.lines(groups * inner, n, inner, groups, inner, 1, n * inner, here, there, 1)
            here = there

    def lines(
        self,
        count: int,
        n: int,
        step: int,
        groups: int,
        across: int,
        apart: int,
        group: int,
        here: str,
        there: str,
        share: int,
    ) -> None:
        """Transforms of `count` sequences of n elements, side by side."""
        if (
            n > PROCESSOR.transformed
            or max(_factors(n), default=1) > PROCESSOR.transform_primes[-1]
        ):
            raise NoKernel("a transform of a length that SciPy has other ways for")
        w = self.table(f"powers{n}", _powers(n))
        some = PROCESSOR.sequences
        tasks = groups * -(-across // some)
        numbers = (self.swap, share, some, n, step, across, apart, group)
        self.call("ga_fft_lines", numbers, tasks, _work(n) * count / tasks, here, there, w)

    def halves(self, name: str, rows: int, half: int, here: str, there: str) -> None:
        """The step between the transforms of pairs of real numbers and those of the numbers."""
        w = self.table(f"halves{half}", _powers(2 * half)[: 2 * half])
        self.call(name, (half,), rows, 8.0 * half, here, there, w)


def _work(n: int) -> float:
    return 2.0 * n * math.log2(max(2, n))


@functools.lru_cache(256)
def _factors(n: int) -> tuple[int, ...]:
    """The prime factors of n; a remaining factor is one of them."""
    found: list[int] = []
    for p in PROCESSOR.transform_primes:
        while n % p == 0:
            found.append(p)
            n //= p
    return (*found, n) if n > 1 else tuple(found)


@functools.lru_cache(256)
def _split(n: int) -> tuple[int, int] | None:
    """Rows and columns of a matrix with n elements, about equally many, that fill registers; None
    if there is none.
    """
    if max(_factors(n), default=1) > PROCESSOR.transform_primes[-1]:
        return None
    most = PROCESSOR.transformed

    def cost(a: int) -> float:
        """Registers that hold the sequences of both steps, for the work in them."""
        b = n // a
        return (
            sum(-(-c // PROCESSOR.sequences) * PROCESSOR.sequences / c for c in (a, b))
            # Among splits that fill registers alike, the squarer: its longer step is shorter.
            + abs(math.log2(a / b)) / 8
        )

    found = [a for a in range(8, most + 1) if n % a == 0 and 8 <= n // a <= most]
    return min(((a, n // a) for a in found), key=lambda pair: cost(pair[0]), default=None)


def _powers(n: int) -> np.ndarray:
    """exp(-2 pi i k / n) for k < n: alternating cosines and sines."""
    # In long double, then rounded once: angles are rounded too, and by the more the larger they
    # are.
    turn = 8 * np.arctan(np.longdouble(1))
    angles = np.arange(n, dtype=np.longdouble) * turn / n
    return np.stack([np.cos(angles), -np.sin(angles)], 1).ravel()


def _of_rows(n1: int, n2: int) -> np.ndarray:
    """The tables of a row of n1 x n2 elements; registers may reach past the end."""
    between = _powers(n1 * n2).reshape(-1, 2)[np.multiply.outer(np.arange(n1), np.arange(n2))]
    # Factors are read a register at a time, the last one of a row past its end.
    behind = np.zeros(PROCESSOR.sequences)
    return np.concatenate(
        [_powers(n1), _powers(n2), between[..., 0].ravel(), between[..., 1].ravel(), behind]
    )
