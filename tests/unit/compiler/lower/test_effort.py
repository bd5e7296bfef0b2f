"""How much is computed where it is read: text does not grow with what several places share.

In: the derivative of an associative scan, whose steps pad what earlier ones have padded, and means
of means. Out: the lengths of kernels for CPUs and GPUs.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.cuda import emit as cuda
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.native import emit as native

PAIRS = [ga.ShapeDtypeStruct((1000, 64), "float32")] * 2


def recurrence(a, b):
    def step(x, y):
        return x[0] * y[0], y[0] * x[1] + y[1]

    return gnp.sum(lax.associative_scan(step, (a, b))[1] ** 2)


def pyramid(x):
    """Means of neighbours, of means of neighbours, ...: each is read at two places."""
    made = []
    for _ in range(8):
        x, rest = (x[::2] + x[1::2]) / 2, (x[::2] - x[1::2]) / 2
        made.append(rest)
    return gnp.concatenate([x, *made[::-1]])


PROGRAMS = {
    "derivative of a recurrence": (ga.grad(recurrence, (0, 1)), PAIRS),
    "pyramid": (pyramid, [ga.ShapeDtypeStruct((65536,), "float32")]),
}


@pytest.mark.parametrize("target", ["on_native", "on_device"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_kernel_of_thousands_of_lines(name, target):
    function, arguments = PROGRAMS[name]
    plan = getattr(ga.jit(function).lower(*arguments).plan, target)
    emit = native.emit if target == "on_native" else cuda.emit
    lengths = [len(emit(s).text.splitlines()) for s in plan.steps if isinstance(s, Kernel)]
    assert 0 < max(lengths) < 400


def test_the_derivative():
    rng = np.random.default_rng(0)
    with ga.enable_x64(True):
        a, b = rng.uniform(0.5, 0.9, (2, 37))
        found = ga.jit(ga.grad(recurrence, (0, 1)))(a, b)
        # h = a h + b, backwards: each state has what later ones hand on.
        h = np.zeros(38)
        for t in range(37):
            h[t + 1] = a[t] * h[t] + b[t]
        grad, later = np.zeros((2, 37)), 0.0
        for t in reversed(range(37)):
            later += 2 * h[t + 1]
            grad[:, t] = later * h[t], later
            later *= a[t]
        np.testing.assert_allclose(found, grad, 1e-9)
