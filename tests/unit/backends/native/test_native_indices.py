"""Indices from memory as native code: negative ones count from the end, others are clamped.

In: indices of every type, at the ends of their ranges. Out: the elements that whole numbers find.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
from tests.support import natively

natively.need_compiler()

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
LENGTHS = [1, 100, 70_000]


def indices(dtype: str, n: int) -> np.ndarray:
    info = np.iinfo(dtype)
    near = [info.min, info.min + 1, -n - 1, -n, -n + 1, -1, 0, 1, n - 1, n, n + 1, info.max]
    return np.array([i for i in near if info.min <= i <= info.max] * 5, dtype)


def looked_up(x, i):
    return x.at[i].get(mode="clip") * 2, x.at[i].get(mode="fill", fill_value=-1) * 2


@pytest.fixture(scope="module")
def programs():
    found = {}
    with ga.enable_x64(True):
        for dtype in DTYPES:
            for n in LENGTHS:
                x, i = np.arange(1, n + 1, dtype=np.int32), indices(dtype, n)
                shapes = (ga.ShapeDtypeStruct(y.shape, y.dtype) for y in (x, i))
                graph = ga.jit(looked_up).lower(*shapes).jaxpr
                found[dtype, n] = natively.written(graph), x, i
    natively.compile_all([p for p, *_ in found.values()])
    return found


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements(dtype, n, programs):
    program, x, i = programs[dtype, n]
    assert not program.writer.by_host
    clipped, filled = program(x, i)
    whole = [k + n if k < 0 else k for k in map(int, i)]
    assert clipped.tolist() == [2 * (min(max(k, 0), n - 1) + 1) for k in whole]
    assert filled.tolist() == [2 * (k + 1) if 0 <= k < n else -2 for k in whole]
