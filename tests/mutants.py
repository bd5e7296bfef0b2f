"""Kernels with one mistake each: how many does the simulator find?

In: kernels of every form with their arguments; the mistakes are textual, in the emitted text and in
the hand-written blocks it calls: an operator changed, a number off by one, a guard, a barrier, a
fence or a ticket left out. A mistake is found where a check of the simulator speaks up, the result
differs in a bit, or the kernel does not end. Out: the share that is found, and what is not.

`python -m tests.mutants` tries all of them.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import functools
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn, ops
from gpuarray.backends import hostcc
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.text import prelude
from gpuarray.core import dtypes
from gpuarray.core.graph import storage_dtype
from gpuarray.core.target import TARGET, Target
from gpuarray.errors import CompileError, DeviceError
from tests import golden
from tests.alike import reason

SEEDS = (1, 2, 3)
#: Seconds after which a kernel counts as one that does not end.
PATIENCE = 5.0
#: Mutants that are compiled together.
BATCH = 40
#: Blocks of the prelude whose mistakes are tried: what order, types and integers are made of. The
#: mathematics of the others is compared number by number in other tests.
FILES = ("10_types", "12_numbers", "14_bits", "15_vectors", "40_reduce", "44_largest")


# ---- what is mutated ----
def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Normal numbers, with the largest and the smallest of each row now here, now there."""
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape).astype(getattr(dtypes, dtype, dtype))
    n = shape[-1]
    for r, row in enumerate(x.reshape(-1, n)):
        row[(0, min(1023, n - 1), n - 1, r * 37 % n)[min(r, 3)]] = 5
        row[(n // 2, n // 3, (r * 41 + 1) % n)[min(r, 2)]] = -5
    return x


def whole(n: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Two operands: random, and the pairs at which integer arithmetic has rules of its own."""
    rng, info = np.random.default_rng(n), np.iinfo(dtype)
    a, b = rng.integers(max(info.min, -99), 99, (2, n)).astype(dtype)
    bits = 8 * info.dtype.itemsize
    pairs = [(info.min, -1), (info.min, 0), (7, 0), (-7, 2), (7, -2), (-8, bits), (-8, bits - 1)]
    pairs += [(-8, bits + 8), (5, bits - 1), (info.max, info.max), (0, 3), (info.max, bits)]
    pairs += [(info.min, bits), (info.min, bits - 3)]
    for k, pair in enumerate(pairs):
        a[k], b[k] = pair
    return a, b


def ties(x: np.ndarray) -> np.ndarray:
    """The largest and the smallest several times in each row; nan in one of them."""
    x = np.clip(np.round(x), -2, 2).astype(x.dtype)
    x[3, [5, -5]] = np.nan
    return x


def anywhere(n: int, width: int, extreme: float, dtype: str) -> np.ndarray:
    """Rows that have one extreme element each: for each warp of a block, which has 8 rows, in every
    vector of so many elements. The last row has it where the second warp ends.
    """
    row = np.arange(8 * (n // width) + 2)
    place = row // 8 * width + row % width
    place[-1] = 32 * width - 1
    x = np.clip(floats(row.size, n, dtype=dtype), -4, 4)
    x[row, place % n] = extreme
    return x


def deepest() -> np.ndarray:
    """Columns whose largest elements differ, and lie in all depths; so far below zero that what
    nobody read or corrected would be larger than any of them.
    """
    x = np.clip(floats(2300, 20), -4, 4)
    x[(np.arange(20) + 1) * 431 % 2297 - 1, np.arange(20)] = 5 + np.arange(20) / 7
    return x - 300


def apart(n: int) -> np.ndarray:
    """Rows whose largest elements are the last ones, or stand where turns of threads begin and end,
    or come one after another to one warp; and many that are equal.
    """
    x = ties(floats(5, n))
    x[0] = np.sort(floats(n))
    x[1, [1, 255, 256, 2047, 2048, 4095, 4096]] = 9 - np.arange(7)
    x[2, [0, 1, 2, 3, 4, 5, 2048]] = 9, np.nextafter(np.float32(9), 10), 8, 8, 7, 6, 5
    x[4, 2080:2111] = 9
    x[4, n - 1] = 10
    return x


def first(n: int, place: int) -> np.ndarray:
    """Whole numbers with the largest at one place."""
    x = np.round(floats(n))
    x[place] = 9
    return x


def softmax(x):
    return nn.softmax(x, -1)


def integers(a, b):
    powers = a**6, a**8, a**11, -a, a - b
    return (a // b) + a % b, a << (b & 63), a >> (b & 63), abs(a) * gnp.sign(b), *powers


def unsigned(a, b):
    return a >> (b & 63), a << (b & 63), a // b, a % b


def special(x):
    """Values that casts, comparisons and roundings treat apart."""
    y = x.astype("float32") * 1e30
    kinds = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    casts = [v.astype(k) for k in kinds for v in (x, y)]
    return *casts, gnp.maximum(x, 0), gnp.minimum(x, x[::-1]), gnp.sign(x), gnp.abs(x), x**5


def halves(x, h, b):
    """To 16 bits and back."""
    return x.astype("float16"), x.astype("bfloat16"), h.astype("float32"), b.astype("float32")


#: Where rounding to 16 bits changes its way: subnormal, largest, infinite, halfway; often enough
#: for several blocks.
EDGES = np.array(
    [0.0, -0.0, np.nan, np.inf, -np.inf, 65504.0, 65519.9, 65520.0, -65536.0, 6.1e-5, 6.104e-5]
    + [-5.9604645e-8, 2.9802322e-8, 3e-8, -1.5e-7, 8.940697e-8, 1e-30, 3.4e38, 2049.0, 2051.0]
    + [2.0**31, 2.0**63, 2.0**32, 2.0**64, 128.0, 256.0, 32768.0, 65536.0]
    + [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 1.0, -1.5, 3.3895314e38, 1e-40],
    np.float32,
)
EDGES = np.tile(EDGES, 41)
#: Doubles beside what is halfway between two halves: a float in between must not hide the side.
BESIDE = np.array(
    [1 + 2**-11, -1 - 2**-11, 1 + 3 * 2**-11, 2049.0, -2051.0, 1 + 2**-8, 1 + 3 * 2**-8]
)
BESIDE = np.concatenate([EDGES, *(BESIDE * (1 + e) for e in (1e-12, -1e-12))])
#: Halves of all kinds, the smallest negative one among them.
BITS = (np.arange(EDGES.size) * 2427 + 0x8001).astype(np.uint16)
#: The smallest number alone in some columns.
LEAST = np.random.default_rng(0).integers(-128, 127, (300, 33)).astype(np.int8)
LEAST[:, 3:30:4] = -128


def two_sizes(x):
    y = gnp.abs(x[:1])
    return y, y + x


def norm_arguments() -> tuple[np.ndarray, ...]:
    """A cotangent, rows and their gains."""
    return floats(40, 256), floats(40, 256) + 1, floats(256) + 2


def several(dtype: str = "float32") -> tuple[np.ndarray, ...]:
    """Arrays of several tiles and of a part of one, which end within a vector or with it; their
    largest elements are the last of a vector, the smallest the last of all.
    """
    made = [floats(n, dtype=dtype) + n / 1000 for n in (9001, 3, 5120, 2, 1027, 4096)]
    for x in made:
        x[x.size // 8 * 8 - 1], x[-1] = 40, -40
    return tuple(x.astype(made[0].dtype) for x in made)


def digits(*shape: int) -> np.ndarray:
    """Small whole numbers: in matrices of them every row is a pivot, and often several could be."""
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(np.float32)


def often(n: int) -> np.ndarray:
    """Places, of which one is that of half of all updates; some are out of bounds."""
    rng = np.random.default_rng(n)
    return np.where(rng.random(n) < 0.5, 7, rng.integers(-9, 709, n)).astype("i4")


def at_ends(rows: int, n: int) -> np.ndarray:
    """Rows whose largest elements, two of them, are at an end, or at places all over the row."""
    x = np.round(floats(rows, n))
    places = [0, n - 1, 1, n - 2, 2, n - 3, 3, n - 4, *(r * (n // rows) + 5 for r in range(rows))]
    for r, place in zip(range(rows), places, strict=False):
        x[r, [place, min(place + 1, n - 1)]] = 9 + r / 8
    return x


def each_scaled(scale, *xs):
    return [x * scale + x for x in xs]


#: Programs whose kernels only devices have.
ON_DEVICES = (
    "tables",
    "sweep", "sweep, tensor", "sweep, tensor, rounded", "entries", "batch", "scan", "sort", "top",
    "rows and columns", "rows, in one", "rows, held",
)  # fmt: skip
#: Sizes from which kernels take these forms, for small programs.
SMALL = {
    "swept_bytes": 1, "partials_worth": 0, "row_column_least": 32, "scan_row": 1 << 11,
    "scan_threads": 64, "scan_tile_items": 4, "shared_held": 60 << 10, "launch_bytes": 1 << 40,
}  # fmt: skip

#: Programs planned for a machine of so few multiprocessors that threads take several turns.
FEW = {
    "rows, long": 4, "rows, in one pass": 4, "rows, in one pass with ends": 4,
    "columns, in one pass": 1, "columns, softmax in one pass": 1,
    "sweep, tensor": 1, "sweep, tensor, rounded": 1,
}  # fmt: skip

#: name: (function, arguments); the same function with arguments of the same shapes is one kernel.
PROGRAMS = {
    "map, vectors": (lambda x, y: 2.0 * x + y, (floats(2312), floats(2312) + 1)),
    "map, one by one": (lambda x, y: 2.0 * x + y, (floats(1301), floats(1301) + 1)),
    "map, unrolled": (lambda x: x * x, (floats(4100),)),
    "map, unrolled one by one": (lambda x: x[1:] - x[:-1], (floats(2051),)),
    "map, with an end": (lambda x: x * x + x, (floats(262_151),)),
    "map, neighbours": (lambda x: x[1:-1, 1:-1] + x[2:, 1:-1] - x[1:-1, :-2], (floats(40, 42),)),
    "map, two sizes": (two_sizes, (floats(60, 40),)),
    "map, bfloat16": (lambda x: x * x + x, (floats(128, 49, dtype="bfloat16"),)),
    "map, float16": (lambda x: x * x * 3e-4 - x, (floats(199, 24, dtype="float16") * 300,)),
    "map, integers": (integers, whole(1399, "int32")),
    "map, small integers": (integers, whole(1399, "int8")),
    "map, unsigned": (unsigned, tuple(x.view(np.uint32) for x in whole(1399, "int32"))),
    "map, special": (special, (EDGES,)),
    "map, doubles": (
        lambda x: (*special(x), (x * 2).astype("float16"), (x * 3).astype("bfloat16"), x % 0.7),
        (BESIDE,),
    ),
    "map, halves": (
        halves,
        (EDGES, BITS.view(np.float16), BITS.view(dtypes.bfloat16)),
    ),
    "tiles": (lambda a, b: a.T + b, (floats(72, 136), floats(136, 72))),
    "tiles, ragged": (lambda a, b: a.T + b, (floats(33, 47), floats(47, 33))),
    "tiles, whole": (lambda a, b: a.T + b, (floats(64, 96), floats(96, 64))),
    "tiles, out": (lambda a, b: a.T * b.T, (floats(41, 70), floats(41, 70))),
    "tiles, bfloat16": (
        lambda a, b: gnp.swapaxes(a, 1, 2) + b,
        (floats(2, 136, 144, dtype="bfloat16"), floats(2, 144, 136, dtype="bfloat16")),
    ),
    "rows, several a block": (softmax, (floats(101, 12),)),
    "rows, bfloat16": (softmax, (floats(37, 48, dtype="bfloat16"),)),
    "rows, a block each": (softmax, (floats(5, 1024),)),
    "rows, odd": (softmax, (floats(3, 333),)),
    "rows, in shared memory": (softmax, (floats(3, 9001),)),
    "rows, long": (lambda x: gnp.var(x, -1), (floats(2, 41_000) * 3 - 300,)),
    "rows, and more": (
        lambda x: (gnp.max(x, 1), gnp.exp(x - gnp.max(x, 1, keepdims=True))),
        (floats(11, 70),),
    ),
    "rows, argmin": (lambda x: gnp.argmin(x, 1), (ties(floats(618, 77, dtype="float16")),)),
    "rows, argmax": (lambda x: gnp.argmax(x, 1), (ties(floats(602, 300)),)),
    "rows, argmin anywhere": (
        lambda x: gnp.argmin(x, 1),
        (anywhere(77, 1, -6, "float16"),),
    ),
    "rows, argmax anywhere": (
        lambda x: gnp.argmax(x, 1),
        (anywhere(300, 4, 6, "float32"),),
    ),
    "all": (gnp.sum, (floats(20001),)),
    "all, two results": (lambda x: (gnp.max(x), gnp.min(x)), (floats(20000) + 10,)),
    "all, rows": (lambda x: gnp.sum(x, 1), (floats(3, 10000),)),
    "all, argmax": (gnp.argmax, (np.append(np.round(floats(16381)), [1, 8, 9]).astype("f4"),)),
    "all, argmax inside": (gnp.argmax, (first(16384, 1024),)),
    "columns": (lambda x: gnp.sum(x, 0), (floats(100, 70),)),
    "columns, several blocks": (lambda x: gnp.sum(x, 0), (floats(500, 40),)),
    "columns, softmax": (lambda x: nn.softmax(x, 0), (floats(40, 65),)),
    "columns, deep": (lambda x: nn.softmax(x, 0), (deepest(),)),
    "columns, few": (lambda x: gnp.sum(x, 0), (floats(900, 5),)),
    "columns, int8": (lambda x: gnp.max(x, 0), (LEAST,)),
    # Far from zero, so that what nobody read or corrected shows.
    "columns, in one pass": (lambda x: gnp.var(x, 0), (floats(4230, 9) * 3 - 300,)),
    "columns, in one pass and another": (
        lambda x: (x - gnp.mean(x, 0)) / gnp.var(x, 0),
        (np.sort(floats(6001, 5), 0) * 3 - 300,),
    ),
    "columns, softmax in one pass": (
        lambda x: gnp.log(gnp.exp(x - gnp.max(x, 0)).sum(0)),
        (floats(4230, 9) - 300,),
    ),
    "columns, softmax in one pass and another": (
        lambda x: nn.softmax(x, 0),
        (np.sort(floats(6001, 5), 0) - 300,),
    ),
    "rows, in one pass": (lambda x: nn.logsumexp(x, -1), (floats(2, 40_000) * 3 - 300,)),
    # The beginning in registers, and the rest in shared memory that the launch sets aside.
    "rows, held": (lambda x: x / gnp.sum(x * x, -1, keepdims=True), (floats(2, 17_000),)),
    # Rows that begin within a vector.
    "rows, with ends": (
        lambda x: x / gnp.sum(x * x, -1, keepdims=True),
        (at_ends(9, 12_001),),
    ),
    "rows, argmax with ends": (lambda x: gnp.argmax(x, -1), (at_ends(24, 9_003),)),
    "rows, in one pass with ends": (lambda x: nn.logsumexp(x, -1), (at_ends(12, 20_003),)),
    "rows and columns, both": (
        lambda x: (gnp.sum(x * x, 0), gnp.max(x * x, 1)),
        (floats(2300, 101),),
    ),
    "rows and columns": (golden.backwards(golden.rms_norm), norm_arguments()),
    "scan": (lambda x: gnp.cumsum(x, 1), (np.round(floats(3, 300) * 9),)),
    "scan, and more": (lambda x: x * gnp.cumprod(1 - x / 9, axis=1), (floats(5, 1200),)),
    "sort": (lambda x: gnp.sort(x, -1), (ties(floats(21, 100)),)),
    "sort, and more": (lambda x: gnp.argsort(-x, -1) + 1, (ties(floats(9, 64)),)),
    "sort, short rows": (lambda x: gnp.sort(x, -1), (ties(floats(21, 20)),)),
    "sort, some places": (lambda x: gnp.sort(x, -1)[:, 40:43], (ties(floats(9, 100)),)),
    "sort, by two keys": (
        lambda x, y: lax.sort((x, y), dimension=1, num_keys=2),
        (ties(floats(7, 100)), digits(7, 100)),
    ),
    # As long as the last warp's last lanes have the last elements.
    "top": (lambda x: lax.top_k(x, 7), (apart(4601),)),
    "top, of two parts": (lambda x: lax.top_k(x, 33), (apart(4601),)),
    "tables": (
        lambda x, at: (ops.segment_sum(x, at, 700), ops.segment_sum(x[:, 0], at, 700)),
        (digits(8203, 2), often(8203)),
    ),
    "scan, looking back": (gnp.cumsum, (np.round(floats(275_004) * 9),)),
    "scan, down columns": (lambda x: gnp.cumsum(x, 0), (np.round(floats(68_500, 5) * 9),)),
    "scan, merging": (
        lambda a, b: lax.associative_scan(
            lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), axis=1
        ),
        tuple(np.random.default_rng(0).integers(1, 1 << 31, (2, 2, 9001)).astype("u4")),
    ),
    "batch": (each_scaled, (np.array(3, "f4"), *several())),
    "batch, sums": (lambda *xs: [gnp.sum(x * x) for x in xs], several()),
    "batch, largest and smallest": (
        lambda *xs: [(gnp.max(x), gnp.min(x) - 1) for x in xs],
        several("float16"),
    ),
    "entries": (gnp.linalg.solve, (digits(301, 3, 3), digits(301, 3, 2) * 7)),
    # Below zero, so that what nobody wrote would be the largest.
    "batch, places": (
        lambda *xs: [gnp.argmax(x) for x in xs],
        tuple(first(n, at) - 100 for n, at in ((9001, 8191), (5003, 4100), (3004, 2), (703, 702))),
    ),
    "sweep": (
        ga.default_matmul_precision("highest")(lambda *x: nn.dot_product_attention(*x)),
        (floats(70, 36, 1, 8), *[floats(70, 39, 1, 8)] * 2),
    ),
    "sweep, tensor": (
        functools.partial(nn.dot_product_attention, is_causal=True),
        tuple(floats(1, n, 1, 20, dtype="bfloat16") for n in (70, 75, 75)),
    ),
    "sweep, tensor, rounded": (
        nn.dot_product_attention,
        tuple(floats(1, n, 1, 12) for n in (70, 75, 75)),
    ),
}


@dataclass
class Case:
    """A kernel, its arguments and what it makes of them."""

    name: str
    kernel: KernelSource
    inputs: list[np.ndarray]
    expected: list[bytes]

    @functools.cached_property
    def text(self) -> str:
        return prelude.complete(self.kernel.text)


def cases() -> list[Case]:
    """The kernels of PROGRAMS, each run as it is."""
    made = []
    with (
        mock.patch.object(Target, "many_blocks", 1),
        mock.patch.object(Target, "batch_grid", 12),
        mock.patch.dict(vars(TARGET), SMALL),
        ga.enable_x64(True),
    ):
        for name, (function, arguments) in PROGRAMS.items():
            few = {"multiprocessors": FEW.get(name, TARGET.multiprocessors)}
            with mock.patch.dict(vars(TARGET), few):
                made += kernels_of(name, function, arguments)
    for some in batches(made):
        source, names = together([(c, c.text) for c in some])
        library = hostcc.compile_library(source, names)
        for case, name in zip(some, names, strict=True):
            case.expected = launched(case, library, name, 1, fresh(case))
    return made


def kernels_of(name: str, function, arguments: tuple[np.ndarray, ...]) -> Iterator[Case]:
    """The kernels of a program."""
    shapes = [golden.shape(x.dtype.name, *x.shape) for x in arguments]
    plan = ga.jit(function).lower(*shapes).plan
    if name.startswith(ON_DEVICES):
        plan = plan.on_device
    given = dict(zip(plan.graph.invars, arguments, strict=True))
    for group in plan.groups:
        kernel = emit(group)
        if kernel.room:
            # On a GPU that has a third of it: the rest is read again.
            whole, part = (f"GA_ROOM(room, {n})" for n in (kernel.room, 20_000))
            kernel = kernel.replace(text=kernel.text.replace(whole, part))
        # What a kernel leaves for another one is only there when both run.
        if all(v in given for v in kernel.inputs):
            yield Case(name, kernel, [given[v] for v in kernel.inputs], [])


# ---- mistakes ----
@dataclass(frozen=True)
class Mutant:
    """A mistake in one line: of a kernel, or of a block of the prelude."""

    cases: tuple[Case, ...]  # where it may show; the first is tried, then the others
    block: str  # the text it is in, as it should be
    number: int  # of the line in it
    changed: str  # the line with the mistake
    change: str  # what became of what
    where: str  # a name the block provides, or "kernel"

    @property
    def case(self) -> Case:
        return self.cases[0]

    @property
    def text(self) -> str:
        """The whole source with the mistake."""
        lines = self.block.splitlines()
        lines[self.number] = self.changed
        return self.case.text.replace(self.block, "\n".join(lines), 1)

    def elsewhere(self) -> Mutant | None:
        """The same mistake in the next case, if there is one."""
        return replace(self, cases=self.cases[1:]) if len(self.cases) > 1 else None

    def __str__(self) -> str:
        line = self.block.splitlines()[self.number].strip()
        name = self.case.name if self.where == "kernel" else "prelude"
        return f"{name}: {self.where}: {line}    [{self.change}]"


OPERATORS = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ",
    " + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ", " % ": " / ", " && ": " || ",
    " || ": " && ", " & ": " | ", " | ": " & ", " << ": " >> ", " >> ": " << ", " += ": " -= ",
    "true": "false", "false": "true",
}  # fmt: skip
STATEMENTS = (
    (re.compile(r"__syncthreads\(\);"), ""),
    (re.compile(r"__syncwarp\(\);"), ""),
    (re.compile(r"__threadfence\(\);"), ""),
    (re.compile(r"if \([^;{]*\) (?:return|continue);"), ""),
    (re.compile(r"if \((?:[^()]|\([^()]*\))*\) (?=[\w*(])"), ""),  # a statement for all threads
    (re.compile(r"(?<=last = )atomicInc\(.*(?=;)"), "true"),
    (re.compile(r"if \((?!last|!)[^{}]*\) \{$"), "{"),
)
NUMBER = re.compile(r"(?<![\w.])(\d+)(u?l{0,2})\b(?![.\w])")
#: Lines without a mistake to make: declarations that only a compiler's optimiser reads.
UNTOUCHED = re.compile(r"\s*(//|#|template <class \w+> struct|extern|typedef)")


def mistakes(line: str) -> Iterator[tuple[str, str]]:
    """(the line with a mistake, what it is)."""
    code, comment, rest = line.partition("  //")
    for old, new in OPERATORS.items():
        for found in re.finditer(re.escape(old), code):
            changed = code[: found.start()] + new + code[found.end() :]
            yield changed + comment + rest, f"{old.strip()} -> {new.strip()}"
    for pattern, new in STATEMENTS:
        for found in pattern.finditer(code):
            changed = code[: found.start()] + new + code[found.end() :]
            yield changed + comment + rest, f"{found[0]} -> {new or 'nothing'}"
    for found in NUMBER.finditer(code):
        n = int(found[1])
        for other in {n + 1, abs(n - 1)} if n < 1 << 31 else ():
            changed = code[: found.start()] + f"{other}{found[2]}" + code[found.end() :]
            which = "less" if other < n else "more"
            yield changed + comment + rest, f"{found[0]} -> {other}{found[2]} {which}"


def mutants_of(cases: Sequence[Case], block: str, where: str) -> Iterator[Mutant]:
    """The mistakes in the lines of a text."""
    elsewhere = False  # in what only a GPU runs
    for number, line in enumerate(block.splitlines()):
        if re.match(r"#if.*GA_HOST|#e(lse|ndif)", line):
            elsewhere = "#ifndef GA_HOST" in line or "!defined(GA_HOST)" in line
        if not elsewhere and not UNTOUCHED.match(line):
            for changed, what in dict(mistakes(line)).items():
                yield Mutant(tuple(cases), block, number, changed, what, where)


def all_mutants(found: Sequence[Case]) -> list[Mutant]:
    """The mistakes in the body of every kernel, and in each block of the prelude."""
    made: list[Mutant] = []
    # A kernel may have several cases, with values of their own: one that finds a mistake will do.
    bodies: dict[str, list[Case]] = collections.defaultdict(list)
    for case in found:
        bodies[case.kernel.text.partition(") {\n")[2]].append(case)
    for body, having in bodies.items():
        made += mutants_of(having, body, "kernel")
    kept = "\n".join((prelude.folder() / "prelude" / f"{n}.cuh").read_text() for n in FILES)
    for block in dict.fromkeys(prelude.blocks().values()):
        text = block.text.strip()
        having = [c for c in found if text in c.text]
        if text in kept and having:
            made += mutants_of(having, text, block.provides[0])
    return made


# ---- running ----
def batches(items: list) -> Iterator[list]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def together(texts: Sequence[tuple[Case, str]]) -> tuple[str, list[str]]:
    """Texts as one source, each in a namespace of its own, and the names of their kernels."""
    parts, names = [], []
    for k, (case, text) in enumerate(texts):
        name = f"m{k}"
        renamed = re.sub(rf"\b{case.kernel.name}\(", f"{name}(", conspicuous(text))
        macros = sorted(set(re.findall(r"^#define (\w+)", text, re.MULTILINE)))
        undone = "".join(f"#undef {m}\n" for m in macros)
        parts.append(f"namespace in{k} {{\n{renamed}}}\nusing in{k}::{name};\n{undone}")
        names.append(name)
    return "\n".join(parts), names


#: Numbers that a thread has in registers, before it has any.
HELD = re.compile(r"^ +(?! |__shared__|return|else|const)[\w ]+ (\w+)(?:\[\d+\])?;", re.MULTILINE)


def conspicuous(text: str) -> str:
    """A text whose threads begin with nan in their registers: what the compiler would fill them
    with is a number, which no maximum notices.
    """
    before, kernel, body = text.partition('extern "C" __global__')
    filled = r"\g<0> __builtin_memset(&\1, 0xff, sizeof \1);"
    return before + kernel + HELD.sub(filled, body)


def fresh(case: Case) -> np.ndarray:
    """A workspace for a kernel."""
    return np.zeros(max(case.kernel.workspace, 16) // 4 + 4, np.uint32)


def launched(
    case: Case, library: hostcc.Library, name: str, seed: int, work: np.ndarray
) -> list[bytes]:
    """What a kernel leaves in its outputs."""
    kernel = case.kernel
    outs = [np.empty(v.aval.shape, storage_dtype(v.aval)) for v in kernel.outputs]
    used = [(x, hostcc.INPUT, f"in{i}") for i, x in enumerate(case.inputs)]
    used += [(x, hostcc.OUTPUT, f"out{i}") for i, x in enumerate(outs)]
    regions = [
        hostcc.Region(x.ctypes.data, x.nbytes, kind, x.itemsize, what) for x, kind, what in used
    ]
    if kernel.workspace:
        start = work.ctypes.data + -work.ctypes.data % 16
        regions.append(hostcc.Region(start, kernel.workspace, hostcc.WORK, 4, "work"))
    arguments = [r.address for r in regions]
    if kernel.tiles is not None:
        # Many arrays: their addresses are in a table.
        arrays = zip((*kernel.inputs, *kernel.outputs), arguments, strict=False)
        at = dict(arrays)
        table = np.array([at[v] for v in kernel.table], np.uint64)
        told = [
            hostcc.Region(x.ctypes.data, x.nbytes, hostcc.INPUT, x.itemsize, what)
            for x, what in ((table, "table"), (kernel.tiles, "tiles"))
        ]
        arguments = [*(r.address for r in told), *arguments[len(at) :]]
        regions += told
    s = kernel.schedule
    library.launch(name, arguments, s.grid, s.threads, regions, seed)
    return [x.tobytes() for x in outs]


def survives(mutant: Mutant, library: hostcc.Library, name: str) -> bool:
    """Whether nothing shows, in any order of threads. Runs in a process of its own, which may end
    in any way or not at all.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            faulthandler.disable()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
            work = fresh(mutant.case)
            runs = [launched(mutant.case, library, name, seed, work) for seed in SEEDS]
            status = 0 if all(r == mutant.case.expected for r in runs) else 1
        except DeviceError:
            status = 1
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return ended == 0


def survivors(mutants: Sequence[Mutant]) -> tuple[int, list[Mutant]]:
    """How many of them compile, and those that nobody notices in any case."""
    tried: dict[tuple, Mutant] = {}
    left: list[Mutant] = []
    waiting = list(batches(list(mutants)))[::-1]
    while waiting:
        some = waiting.pop()
        source, names = together([(m.case, m.text) for m in some])
        try:
            library = hostcc.compile_library(source, names)
        except CompileError:
            half = len(some) // 2
            waiting += [some[half:], some[:half]] if half else []
            continue
        tried.update({(m.block, m.number, m.changed): m for m in some})
        lived = [m for m, name in zip(some, names, strict=True) if survives(m, library, name)]
        left += [m for m in lived if len(m.cases) == 1]
        waiting += batches([other for m in lived if (other := m.elsewhere())])
    return len(tried), left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="a pattern that descriptions must match")
    parser.add_argument("--every", type=int, default=1, help="try every N-th mutant")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    options = parser.parse_args()
    chosen = [m for m in all_mutants(cases()) if re.search(options.only, str(m))]
    tried, left = survivors(chosen[options.first :: options.every])
    unknown = [m for m in left if not reason(m)]
    counts = collections.Counter(reason(m) for m in left if reason(m))
    for why, count in counts.most_common():
        print(f"{count:5} the same: {why}")
    for m in unknown:
        print(f"      missed: {m}")
    real = tried - len(left) + len(unknown)
    share = (real - len(unknown)) / max(real, 1)
    print(
        f"{tried} mutants compile, {len(left) - len(unknown)} of them compute the same; of the "
        f"other {real}, {real - len(unknown)} are found: {share:.1%}"
    )
    return int(share < 0.95)


if __name__ == "__main__":
    sys.exit(main())
