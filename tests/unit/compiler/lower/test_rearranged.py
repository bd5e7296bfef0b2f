"""Values of which a reduction reads pieces, or in another arrangement, are computed where it reads.

In: reductions of slices, diagonals, differences and reversals of computed values. Out: one kernel
where computing an element again costs less than its bytes, two where it costs more; the values of
NumPy everywhere.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.lower.kernel import Kernel
from tests.support import natively, simulated

simulated.need_compiler()
natively.need_compiler()


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape).astype("f4")


X, Y = floats(40, 40), floats(40, 40) + 1


def softmax(xp, x):
    e = xp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# name: (the function of gnp or np, its arguments, kernels on a GPU)
PROGRAMS = {
    "trace": (lambda xp, x, y: xp.trace(x * y), (X, Y), 1),
    "diagonal": (lambda xp, x: xp.diagonal(xp.tanh(x)).sum(), (X,), 1),
    "differences": (lambda xp, x: xp.diff(xp.exp(x), axis=1).sum(-1), (X,), 1),
    "total variation": (
        lambda xp, x: (lambda e: xp.abs(e[1:] - e[:-1]).sum())(xp.exp(x)),
        (X,),
        1,
    ),
    "halves": (lambda xp, x: [h.max(0) for h in xp.split(xp.exp(x), 2, 0)], (X,), None),
    "backwards": (lambda xp, x: (xp.flip(x * x, 1) * xp.arange(40, dtype="f4")).sum(1), (X,), 1),
    "rows of differences": (lambda xp, x: softmax(xp, xp.diff(xp.tanh(x), axis=1)), (X,), None),
    "a piece and the whole": (
        lambda xp, x: (lambda e: (e[3:].sum(0), e.sum(0)))(xp.exp(x)),
        (X,),
        None,
    ),
    "a piece, and as it is": (lambda xp, x: (lambda e: e[3:, 1:].sum(0))(x * x), (X,), 1),
    "every other": (lambda xp, x: xp.sqrt(x)[::2, 1::3].prod(0), (X,), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_reductions_of_pieces(name):
    function, arguments, count = PROGRAMS[name]
    lowered = ga.jit(lambda *xs: function(gnp, *xs)).lower(*arguments)
    kernels = [s for s in lowered.plan.on_device.steps if isinstance(s, Kernel)]
    assert count is None or len(kernels) == count
    want = function(np, *arguments)
    want = list(want) if isinstance(want, tuple | list) else [want]
    native = natively.written(lowered.jaxpr)
    natively.compile_all([native])
    for found in (simulated.run(simulated.built(lowered.jaxpr), arguments), native(*arguments)):
        for f, w in zip(found, want, strict=True):
            np.testing.assert_allclose(f, w, rtol=2e-5, atol=2e-5)


def launches(function) -> int:
    large = ga.ShapeDtypeStruct((4096, 4096), "float32")
    return ga.explain(function, platform="cuda")(large).launches


def test_what_costs_more_than_its_bytes_is_stored():
    def dear(x):
        for k in range(12):
            x = gnp.sin(x + k)
        return x

    # Each element is read twice by the differences, once by the piece.
    assert launches(lambda x: gnp.diff(dear(x), axis=1).sum(-1)) == 2
    assert launches(lambda x: gnp.diff(gnp.exp(x), axis=1).sum(-1)) == 1
    assert launches(lambda x: dear(x)[1:].sum(-1)) == 1
