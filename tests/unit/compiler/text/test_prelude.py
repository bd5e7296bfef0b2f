"""The prelude's own functions of floats, as a kernel computes them, against float64.

In: every 100,003rd float32, and special ones. Out: errors of a few units in the last place at most.
On a GPU, where some instructions are approximate, `python -m tests.gpu.ulps` tries all of them.
"""

from __future__ import annotations

import numpy as np

import gpuarray as ga
from gpuarray import lax
from tests.gpu import ulps
from tests.support import simulated

simulated.need_compiler()

#: Units in the last place. x x is rounded in the tails of erf_inv, as JAX rounds it.
LIMITS = {"log1p": 1, "erf": 2, "sin": 2, "cos": 2, "logistic": 3, "erf_inv": 80}


def test_functions_of_floats_are_exact_to_a_few_units():
    bits = np.arange(0, 1 << 32, 100_003, dtype=np.uint64).astype(np.uint32)
    near = np.linspace(-5, 5, 4999, dtype=np.float32)
    ends = np.array([0, 1, 2, np.inf, np.nan, 1e-45, 1e-38, 88, 103, 105615, 3e38], np.float32)
    x = np.concatenate([bits.view(np.float32), near, np.nextafter(near, 9), ends, -ends])
    every = lambda x: [getattr(lax, name)(x) for name in LIMITS]
    found = simulated.run(simulated.built(ga.jit(every).lower(x).jaxpr), [x])
    for (name, limit), y in zip(LIMITS.items(), found, strict=True):
        _, judge = ulps.judge(ulps.FUNCTIONS[name][1], None)
        with np.errstate(all="ignore"):
            wanted = judge(x.astype(np.float64))
            error, differ = ulps.off(y, wanted, np)
        assert error.max() <= limit, (name, x[error.argmax()], y[error.argmax()])
        assert not differ.any(), (name, x[differ])
        zero = (x == 0) & (y == 0)
        assert np.array_equal(np.signbit(y[zero]), np.signbit(x[zero])), name
