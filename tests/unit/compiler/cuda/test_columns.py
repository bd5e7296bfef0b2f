"""Short columns: a thread goes down a few neighbours alone.

In: sums, maxima and positions of up to 16 elements down columns, with what follows them. Out: the
values of NumPy, kernels in which no threads meet, vectors where there are enough columns.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.cuda.emit import emit
from gpuarray.compiler.lower import schedule
from gpuarray.core.dtypes import bfloat16
from gpuarray.core.target import TARGET
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()
MANY = 1 << 9


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Let a few threads count as enough: simulated ones are slow."""
    monkeypatch.setattr(schedule, "TARGET", TARGET.replace(full_threads=MANY // 2))


def whole(*lengths: int, dtype="float32") -> np.ndarray:
    return np.random.default_rng(lengths).integers(-4, 5, lengths).astype(dtype)


def pooled(x, b):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4)) * 2 + b


def two(x):
    return x.sum(0) + x.max(0), x.min(0)


#: Functions, their arguments, and how many neighbours a thread has.
PROGRAMS = {
    "sums": (lambda x: x.sum(0), (whole(4, 2 * MANY),), 4),
    "and what follows": (
        lambda x, b: gnp.tanh(x.sum(0) * 0 + b), (whole(3, MANY), whole(MANY)), 2,
    ),
    "16 bits": (
        lambda x, b: x.mean(0) + b, (whole(6, 2 * MANY, dtype=bfloat16), whole(dtype=bfloat16)), 4,
    ),
    "pooling": (pooled, (whole(2, 16, 8, 64), whole(64)), 4),
    "two": (two, (whole(4, MANY),), 2),
    "positions": (lambda x: x.argmax(0), (whole(5, MANY),), 1),
    "an odd number": (lambda x: x.sum(0), (whole(4, MANY + 1),), 1),
    "in two passes": (lambda x: x / x.sum(0), (abs(whole(4, 600)) + 1,), 1),
    "as long as can be": (lambda x: x.sum(0), (whole(16, MANY),), 2),
}  # fmt: skip


def test_values():
    simulated.compare([(f, xs) for f, xs, _ in PROGRAMS.values()])


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_threads_meet(name):
    function, arguments, width = PROGRAMS[name]
    given = [shape(a.dtype, *a.shape) for a in map(np.asarray, arguments)]
    kernel = emit(ga.jit(function).lower(*given).plan.on_device.steps[0])
    assert kernel.kernel.form == "columns" and not kernel.threads_meet
    assert kernel.schedule.width == width and not kernel.shared_bytes
    # Each element is read once, where there is one pass.
    if "passes" not in name:
        assert kernel.traffic.bytes_read == sum(np.asarray(a).nbytes for a in arguments)
