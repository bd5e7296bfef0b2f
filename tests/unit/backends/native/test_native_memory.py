"""Native code in memory: transposed operands and results, results stored past the cache.

In: drawn shapes, orders of axes and dtypes. Out: what NumPy makes of the same numbers, bit for bit.
"""

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.numpy import memory
from gpuarray.compiler.native import nests
from gpuarray.core.target import PROCESSOR
from tests.support import natively

natively.need_compiler()

DTYPES = ["bool", "int8", "uint16", "int32", "float32", "bfloat16", "float16", "complex64"]
WIDE = ["int64", "float64", "complex128"]


def numbers(rng, shape, dtype):
    """Small whole numbers, which every dtype holds."""
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return rng.integers(0, 2 if dtype.kind == "b" else 9, shape).astype(dtype)


def turned(rng):
    """A sum with a transposed operand, its operands, and what NumPy says."""
    axes = rng.permutation(rng.integers(2, 4))
    # One long axis at the end of each operand, of lengths that tiles do not divide.
    shape = [int(rng.choice([1, 2, 3, 5])) for _ in axes]
    for axis in {len(axes) - 1, int(np.argmax(axes))}:
        shape[axis] = int(rng.choice([33, 64, 100, 257, 300]))
    dtype = rng.choice([*DTYPES, *WIDE])
    x = numbers(rng, shape, dtype)
    y = numbers(rng, x.transpose(axes).shape, dtype)
    reverse = tuple(slice(None, None, int(rng.choice([1, -1]))) for _ in axes)
    both = np.logical_xor if dtype == "bool" else np.add

    def function(m, x, y):
        x = x[reverse].transpose(axes)
        return (m.logical_xor(x, y) if dtype == "bool" else x + y), x, y.transpose(np.argsort(axes))

    x_, y_ = x[reverse].transpose(axes), y.transpose(np.argsort(axes))
    return lambda x, y: function(gnp, x, y), (x, y), (both(x_, y), x_, y_), dtype in WIDE


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_transposed_operands_and_results(seed):
    rng = np.random.default_rng(seed)
    cases = [turned(rng) for _ in range(32)]
    programs = []
    for function, operands, _, wide in cases:
        with ga.enable_x64(wide):
            programs.append(natively.written(ga.jit(function).lower(*operands).jaxpr))
    natively.compile_all(programs)
    tiles = 0
    for (_, operands, wanted, _), program in zip(cases, programs, strict=True):
        for found, right in zip(program(*operands), wanted, strict=True):
            np.testing.assert_array_equal(found, right)
        tiles += sum("ga_turn(" in k.text for k in program.kernels)
    assert tiles > 10


@pytest.fixture
def all_streamed(monkeypatch):
    """Every result is stored past the cache that is longer than a block."""
    small = PROCESSOR.replace(streamed_bytes=1)
    monkeypatch.setattr(nests, "PROCESSOR", small)


STREAMED = {
    "a chain": (lambda m, x, y: (x * 2 + y, x == y, x - 1), (5003,)),
    "rows": (lambda m, x, y: x * 2 + y[:1], (7, 1501)),
    "rows beside columns": (lambda m, x, y: (x * 2, y[:, 0] + 1), (600, 1100)),
    "pieces": (lambda m, x, y: x[::-1] - y, (3, 70001)),
    "less their sums": (
        lambda m, x, y: x - (x * y).sum(-1, keepdims=True, dtype=x.dtype),
        (9, 2100),
    ),
    "turned": (lambda m, x, y: x.T + y, (1030, 1030)),
}


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "complex64"])
def test_what_is_stored_past_the_cache(all_streamed, rng, name, dtype):
    function, shape = STREAMED[name]
    x, y = numbers(rng, shape, dtype), numbers(rng, shape, dtype)
    if dtype == "float16":
        y = y % 2  # sums up to 2048 are exact
        x = x % 2
    program = natively.written(ga.jit(lambda x, y: function(gnp, x, y)).lower(x, y).jaxpr)
    natively.compile_all([program])
    assert any("ga_stream(" in k.text for k in program.kernels)
    wanted = function(np, x, y)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for found, right in zip(program(x, y), wanted, strict=True):
        np.testing.assert_array_equal(found, right)


def test_only_large_results_are():
    sizes = {n: (PROCESSOR.streamed_bytes // 4) + n for n in (-1, 0)}
    for n, size in sizes.items():
        spec = ga.ShapeDtypeStruct((size,), "float32")
        program = natively.written(ga.jit(lambda x: x * 2).lower(spec).jaxpr)
        assert any("ga_stream(" in k.text for k in program.kernels) == (n == 0)


def test_blocks_of_the_pool_begin_at_lines():
    for size in (memory.POOLED_FROM, memory.POOLED_FROM + 1, 3 << 20):
        assert memory.empty((size,), np.uint8).ctypes.data % memory.LINE == 0


FAR = PROCESSOR.far_bytes // 4  # float32

#: What looks elements up, and how many arrays it asks for them early.
LOOKED_UP = {
    "anywhere": (lambda m, x, i: x[i] * 2, 1),
    "in two places": (lambda m, x, i: x[i] - x[i[::-1]], 2),
    "filled beyond the end": (lambda m, x, i: m.where(i < 9000, x[i], 3), 1),
    "of rows": (lambda m, x, i: x.reshape(-1, 2)[i // 2, 1], 1),
    "nearby": (lambda m, x, i: x[: 4 * len(i)].reshape(-1, 4)[m.arange(len(i)), i % 4], 0),
    "in a small array": (lambda m, x, i: x[:9000][i % 9000], 0),
    "at places that are looked up": (lambda m, x, i: x[i[i % 7]], 0),
    "beside much else": (lambda m, x, i: m.exp(x[i]) * 0, 0),
}


def test_what_is_looked_up_anywhere_is_asked_for_early(rng):
    x = rng.integers(0, 9, FAR + 8).astype(np.float32)
    i = rng.integers(0, len(x), 40_001).astype(np.int32)
    i[[3, -1]] = 0, len(x) - 1
    programs = [
        natively.written(ga.jit(lambda x, i, f=f: f(gnp, x, i)).lower(x, i).jaxpr)
        for f, _ in LOOKED_UP.values()
    ]
    natively.compile_all(programs)
    for (name, (function, times)), p in zip(LOOKED_UP.items(), programs, strict=True):
        assert sum(k.text.count("ga_fetch(") for k in p.kernels) == times, name
        np.testing.assert_array_equal(p(x, i)[0], function(np, x, i), name)
