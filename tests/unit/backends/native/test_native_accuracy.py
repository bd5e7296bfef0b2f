"""The elementwise functions of native code in wide dtypes, in units in the last place: what the
table of docs/fast-on-a-cpu.md shows of one machine, with limits for any.

In: numbers of each function's domain. Out: the largest error against NumPy in wider numbers.
"""

import numpy as np
import pytest

import gpuarray as ga
from bench import ulps
from gpuarray.core import dtypes
from tests.support import natively

natively.need_compiler()

#: Narrower floats are computed in float32 and rounded once.
LIMITS = {"float32": 2.3, "float64": 2.6, "complex64": 2.0, "complex128": 3.0}
#: By function and kind. exp2(z) rounds z log 2, whose absolute error is the result's relative one;
#: 1 + exp(-z) cancels near the poles of the logistic function; log2 and log10 are two steps; the
#: judge of erf is no more exact than doubles; cbrt of doubles is the C library's.
ROUGH = {("exp2", "c"): 8.0, ("pow", "c"): 8.0, ("logistic", "c"): 1024.0, ("logistic", "f"): 2.5}
#: tanh of floats: a quotient of two sums, each rounded once.
ROUGH |= {("tanh", "f"): 2.6}
ROUGH |= {("log2", "f"): 2.0, ("log10", "f"): 3.0, ("erf", "f"): 4.2, ("cbrt", "f"): 4.0}


@pytest.fixture(scope="module")
def compiled():
    """The numbers for each function and dtype, and the function of them."""
    made = {}
    with ga.enable_x64(True), np.errstate(all="ignore"):
        for name in LIMITS:
            dtype = np.dtype(dtypes.as_dtype(name))
            for row in ulps.ROWS:
                if dtype.kind != "c" or row.of_complex is not None:
                    x = ulps.numbers(row, dtype, 11)
                    graph = ga.jit(ulps.ours(row)).lower(x).jaxpr
                    made[row.name, name] = x, natively.written(graph)
    for some in np.array_split(np.arange(len(made)), 4):
        natively.compile_all([list(made.values())[i][1] for i in some])
    return made


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("row", ulps.ROWS, ids=lambda row: row.name)
def test_functions(row, name, compiled):
    if (row.name, name) not in compiled:
        pytest.skip("not a function of complex numbers")
    x, program = compiled[row.name, name]
    assert program.kernels and not program.writer.by_host
    limit = ROUGH.get((row.name, name[0]), LIMITS[name])
    (found,) = program(x)
    assert ulps.worst(found, ulps.judged(row, x)) <= limit
