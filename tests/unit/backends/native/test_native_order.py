"""Binary search as native code: equal elements, nan, every length and type.

In: sorted numbers, with repeats and nan at their end. Out: what `np.searchsorted` finds.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from tests.support import natively

natively.need_compiler()

LENGTHS = [1, 2, 3, 7, 8, 9, 31, 100]
TYPES = ["float32", "float64", "float16", "int32", "uint8", "complex64"]


def drawn(kind: str, size: int, rng) -> np.ndarray:
    """A few different numbers, each several times, and nan where there is one."""
    x = rng.integers(0, 6, size).astype(kind)
    if x.dtype.kind in "fc":
        x[rng.random(size) < 0.2] = np.nan
    if x.dtype.kind == "c":
        x += (1j * rng.integers(0, 3, size)).astype(kind)
    return x


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_positions_in_order(kind, side, rng):
    with ga.enable_x64(True):
        cases = [(np.sort(drawn(kind, n, rng)), drawn(kind, 300, rng)) for n in LENGTHS]
        function = lambda a, x: gnp.searchsorted(a, x, side=side)
        programs = [natively.written(ga.jit(function).lower(*xs).jaxpr) for xs in cases]
    assert all("ga_search" in p.kernels[0].text for p in programs)
    natively.compile_all(programs)
    for (a, x), program in zip(cases, programs, strict=True):
        np.testing.assert_array_equal(program(a, x)[0], np.searchsorted(a, x, side))
