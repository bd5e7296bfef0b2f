"""Results that are written side by side: a stack of values of one kernel is no kernel of its own.

In: programs that stack what they compute, along any axis. Kernels run on the simulator; results are
those of the NumPy driver, which stacks afterwards.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.lower.kernel import Kernel
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()
RANDOM = np.random.default_rng(0)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def turned(x, y):
    """Two expensive values of one kernel."""
    angle = gnp.sin(x) * gnp.exp(y) + gnp.tanh(x * y)
    return gnp.cos(angle) * x - gnp.sin(angle) * y, gnp.sin(angle) * x + gnp.cos(angle) * y


def stacked(axis):
    return lambda x, y: gnp.stack(turned(x, y), axis)


def moments(x):
    return gnp.stack([x.sum(1), (x * x).sum(1), x.max(1)], -1)


def of_columns(x):
    return gnp.stack([x.min(0), x.max(0), gnp.exp(x).sum(0)])


#: Programs, their operands, and the kernels that they are.
PROGRAMS = {
    "last axis": (stacked(-1), (numbers(40, 7), numbers(40, 7)), 1),
    "first axis": (stacked(0), (numbers(40, 7), numbers(40, 7)), 1),
    "middle axis": (stacked(1), (numbers(40, 7), numbers(40, 7)), 1),
    "turned operands": (stacked(1), (numbers(40, 33), numbers(33, 40).T), 1),
    "broadcast operands": (stacked(-1), (numbers(40, 7), numbers(7)), 1),
    "halves": (stacked(-1), (numbers(64, 8, dtype="float16"), numbers(64, 8, dtype="float16")), 1),
    "one of them is a result": (
        lambda x, y: (gnp.stack(turned(x, y), -1), turned(x, y)[0]),
        (numbers(50), numbers(50)),
        2,
    ),
    "read again": (
        lambda x, y: (s := gnp.stack(turned(x, y), -1), s[:, ::-1].cumsum(0)),
        (numbers(50), numbers(50)),
        None,
    ),
    "one of them twice": (
        lambda x, y: gnp.stack([*turned(x, y), turned(x, y)[0]], -1),
        (numbers(50), numbers(50)),
        None,
    ),
    "two stacks": (
        lambda x, y: (gnp.stack(turned(x, y), -1), gnp.stack(turned(y, x), 0)),
        (numbers(50), numbers(50)),
        None,
    ),
    "moments of rows": (moments, (numbers(30, 300),), 1),
    "moments of few long rows": (moments, (numbers(2, 20000),), None),
    "moments of columns": (of_columns, (numbers(300, 30),), 1),
    "a number each": (lambda x: gnp.stack([x.sum(), (x * x).sum()]), (numbers(3000),), None),
    "no elements": (stacked(-1), (numbers(0, 7), numbers(0, 7)), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_computes_the_same(name):
    function, operands, kernels = PROGRAMS[name]
    # Elementary functions and sums round otherwise than NumPy's.
    simulated.compare([(function, operands)], limit=64)
    if kernels is not None:
        steps = ga.jit(function).lower(*operands).plan.device_steps
        assert sum(isinstance(s, Kernel) for s in steps) == kernels


def test_parts_are_never_in_memory():
    x = shape("float32", 1 << 20)
    e = ga.explain(stacked(-1), platform="cuda")(x, x)
    assert (e.launches, e.bytes_moved, e.temporary_bytes) == (1, 4 * 4 << 20, 0)


def test_cheap_parts_are_computed_where_they_go():
    """One element a thread, and stores of whole vectors."""
    x = shape("float32", 1 << 20)
    e = ga.explain(lambda x: gnp.stack([x + 1, x * 2], -1), platform="cuda")(x)
    assert e.launches == 1
    assert "ga_store" in e.kernels[0].source
