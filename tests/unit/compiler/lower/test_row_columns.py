"""Reductions of rows and of columns of the same values in one pass.

In: gradients of normalisations, and programs that need sums both ways. Out: bytes; on the simulator
the values of NumPy, with blocks that have many rows each.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn
from gpuarray.core import dtypes
from tests import golden
from tests.golden import shape
from tests.support import simulated
from tests.support.nearness import assert_near
from tests.support.targets import plan_for

layer_norm_backwards = golden.backwards(golden.layer_norm)
rms_norm_backwards = golden.backwards(golden.rms_norm)


def both_ways(x):
    """Sums of columns beside a softmax of rows, and the largest of each column."""
    y = nn.softmax(x, axis=-1)
    return y, y.sum(0), (y * x).max(0) * 2 + 1, x.max(1)


def integers(x):
    y = x - x.max(1, keepdims=True)
    return y, y.sum(0), (y * x).min(0)


def batches(x, gain):
    """Rows of two axes: both are summed for the gain."""
    y = x * (1 / (1 + gnp.sum(x * x, -1, keepdims=True)))
    return y * gain, (y * x).sum((0, 1))


def moments(x):
    """Both reduce what is computed of each element, which the result has, too."""
    s = gnp.abs(x) * x
    return s.max(0), s.sum(1), s * 2


@pytest.fixture
def few_blocks(monkeypatch):
    """Two blocks or so, however little that saves, and short rows."""
    plan_for(monkeypatch, multiprocessors=1, partials_worth=0, row_column_least=32)


def filled(dtype: str, *lengths: int) -> np.ndarray:
    x = np.random.default_rng(lengths).uniform(-1, 1, lengths)
    if dtype.startswith("int"):
        return (x * 100).astype(dtype)
    return x.astype(getattr(dtypes, dtype, dtype))


CASES = {
    "layer norm": (layer_norm_backwards, "float32", [(37, 64), (37, 64), (64,), (64,)]),
    "layer norm, several vectors": (
        layer_norm_backwards, "float32", [(70, 520), (70, 520), (520,), (520,)]),
    "layer norm, odd": (layer_norm_backwards, "float32", [(70, 101), (70, 101), (101,), (101,)]),
    "layer norm of halves": (
        layer_norm_backwards, "bfloat16", [(70, 1040), (70, 1040), (1040,), (1040,)]),
    "layer norm of doubles": (
        layer_norm_backwards, "float64", [(70, 70), (70, 70), (70,), (70,)]),
    "RMS norm": (rms_norm_backwards, "float32", [(50, 200), (50, 200), (200,)]),
    "RMS norm of halves": (rms_norm_backwards, "float16", [(50, 96), (50, 96), (96,)]),
    "both ways": (both_ways, "float32", [(90, 300)]),
    "integers": (integers, "int32", [(90, 300)]),
    "moments": (moments, "float32", [(90, 300)]),
    "batches": (batches, "float32", [(9, 10, 64), (64,)]),
}  # fmt: skip


def forms(function, *arguments) -> list[str]:
    return [k.kind for k in ga.explain(function, platform="cuda")(*arguments).kernels]


def test_values_and_forms(few_blocks):
    simulated.need_compiler()
    with ga.enable_x64(True):
        inputs = {n: [filled(dtype, *s) for s in shapes] for n, (_, dtype, shapes) in CASES.items()}
        made = {
            name: simulated.built(ga.jit(f).lower(*inputs[name]).jaxpr)
            for name, (f, _, _) in CASES.items()
        }
        for name, (function, dtype, _) in CASES.items():
            assert forms(function, *inputs[name]) == ["rowcolumns", "columns"], name
            # In double precision, one primitive after another, is what both should be near to.
            exact = [np.asarray(x, np.float64) for x in inputs[name]]
            exact = inputs[name] if dtype.startswith("int") else exact
            with ga.fusion(False):
                expected = [np.asarray(e) for e in ga.tree.leaves(ga.jit(function)(*exact))]
            ulps = {"bfloat16": 24, "float16": 24}.get(dtype, 64)
            first = simulated.run(made[name], inputs[name], simulated.SEEDS[0])
            for found, e in zip(first, expected, strict=True):
                assert_near(found, e.astype(found.dtype), name, ulps)
            for seed in simulated.SEEDS[1:]:
                again = simulated.run(made[name], inputs[name], seed)
                for f, g in zip(first, again, strict=True):
                    assert f.tobytes() == g.tobytes(), name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [2048, 4096])
@pytest.mark.parametrize("function", [layer_norm_backwards, rms_norm_backwards])
def test_operands_are_read_once(function, columns, dtype):
    rows, gain = shape(dtype, 1 << 15, columns), shape(dtype, columns)
    arguments = [rows, rows, gain, gain][: 4 if function is layer_norm_backwards else 3]
    e = ga.explain(function, platform="cuda")(*arguments)
    least = 3 * (columns << 15) * np.dtype(rows.dtype).itemsize
    assert e.launches == 2 and e.bytes_moved <= 1.05 * least


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: (nn.softmax(x), x.sum(0)), [(600, 4096)]),  # few rows: blocks would leave more
        (lambda x: (nn.softmax(x), x.sum(0)), [(1 << 15, 256)]),  # so would blocks of short rows
        (lambda x: (nn.softmax(x), x.sum(0)), [(1 << 12, 1 << 16)]),  # rows too long for registers
        (lambda x: (nn.softmax(x, 1), x.sum((0, 2))), [(4096, 64, 64)]),  # other axes
        (lambda x: (nn.softmax(x), (x - x.sum(0)).sum(0)), [(1 << 15, 512)]),  # two passes down
        (lambda x: (x.sum(0), nn.softmax(x - x.sum(0))), [(1 << 15, 4096)]),  # one after the other
    ],
)
def test_others_stay_two_kernels(function, arguments):
    assert "rowcolumns" not in forms(function, *(shape("float32", *s) for s in arguments))


def test_no_kernel_waits_for_itself(few_blocks):
    """The columns need a sort that needs the rows."""

    def f(x):
        y = nn.softmax(x)
        order = gnp.sort(y, axis=0)
        return y, (order * x).sum(0)

    simulated.need_compiler()
    x = filled("float32", 40, 64)
    found = simulated.run(simulated.built(ga.jit(f).lower(x).jaxpr), [x])
    for a, b in zip(found, ga.jit(f)(x), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)
