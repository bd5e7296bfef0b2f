"""Transposed results are written by the kernel that computes them.

In: programs that return views of computed values. Out: one kernel for them, unless a fold along
rows would then write across them; and NumPy's values, on the simulator and by native code.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.compiler.lower.kernel import Kernel, Tiles
from tests import golden
from tests.support import natively, simulated

simulated.need_compiler()
natively.need_compiler()


def both_ways(graph, arguments) -> list[list[np.ndarray]]:
    """The results on the simulator, and by native code."""
    native = natively.written(graph)
    natively.compile_all([native])
    return [simulated.run(simulated.built(graph), arguments), native(*arguments)]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f4")


X, BIAS = floats(96, 160), floats(160)
IMAGES = floats(2, 24, 28, 3)

# name: (the function of gnp or np, its arguments, kernels on a GPU)
WRITTEN = {
    "transpose": (lambda xp, x: (x * 2).T, (X,), 1),
    "two operands": (lambda xp, x, y: (x * y).T, (X, X + 1), 1),
    "bias": (lambda xp, x, b: xp.tanh(x + b).T, (X, BIAS), 1),
    "heads first": (
        lambda xp, x, b: (x + b).reshape(4, 24, 8, 20).transpose(0, 2, 1, 3),
        (X, BIAS),
        1,
    ),
    "channels first": (lambda xp, x: ((x - 0.5) / 0.25).transpose(0, 3, 1, 2), (IMAGES,), 1),
    "backwards": (lambda xp, x: xp.flip(x * x, 1), (X,), 1),
    "as it is, too": (lambda xp, x: ((x * 2).T, x * 2), (X,), 1),
    "twice": (lambda xp, x: ((x * 2).T, (x * 2).T), (X,), 1),
    "in two orders": (
        lambda xp, x: ((x * 2)[None].transpose(1, 0, 2), (x * 2).T),
        (X,),
        None,
    ),
    "an argument": (lambda xp, x: x.T, (X,), 1),
    "a piece": (lambda xp, x: (x * 2)[3:50], (X,), 1),
    "beside a sum": (lambda xp, x: (x.sum(1), (x * 2).T), (X,), 2),
    "behind a fold": (
        lambda xp, x: (xp.exp(x) / xp.exp(x).sum(1, keepdims=True)).T,
        (X,),
        2,
    ),
    "heads behind a fold": (
        lambda xp, x: (
            (xp.exp(x) / xp.exp(x).sum(1, keepdims=True))
            .reshape(4, 24, 8, 20)
            .transpose(0, 2, 1, 3)
        ),
        (X,),
        1,
    ),
    "pieces behind a fold": (
        lambda xp, x: tuple(xp.split(xp.exp(x) / xp.exp(x).sum(1, keepdims=True), 2, 1)),
        (X,),
        None,
    ),
    "behind a fold of all": (lambda xp, x: (x - xp.exp(x).sum()).T, (X,), 2),
    "integers": (lambda xp, x: (x // 3).T, ((X * 100).astype("i4"),), 1),
    "axes of length 1": (lambda xp, x: (x[:1] * 2).T, (X,), 1),
    "no elements": (lambda xp, x: (x[:0] * 2).T, (X,), None),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_views_are_written_where_values_are_computed(name):
    function, arguments, count = WRITTEN[name]
    jitted = ga.jit(lambda *xs: function(gnp, *xs))
    lowered = jitted.lower(*arguments)
    kernels = [s for s in lowered.plan.on_device.steps if isinstance(s, Kernel)]
    assert count is None or len(kernels) == count, [k.ops for k in kernels]
    want = function(np, *arguments)
    want = want if isinstance(want, tuple) else (want,)
    for found in both_ways(lowered.jaxpr, arguments):
        for f, w in zip(found, want, strict=True):
            assert f.shape == w.shape and f.dtype == w.dtype
            np.testing.assert_allclose(f, w, rtol=2e-5, atol=1e-6)


FOLDED_TOO = {
    "rows": lambda x: (gnp.exp(x).sum(1), gnp.exp(x).T),
    "columns": lambda x: (gnp.exp(x).sum(0), gnp.exp(x).T),
    "converted": lambda x: (gnp.exp(x).astype("f2").sum(1), gnp.exp(x).T),
    "transposed": lambda x: (x.sum(0) + (x * 2).T.sum(1), (x * 2).T),
    "of two": lambda x: ((x * x[0]).sum(1), (x * x[0]).T.reshape(-1)),
}


@pytest.mark.parametrize("name", FOLDED_TOO)
def test_what_is_folded_too_is_transposed_in_tiles(name):
    """The kernel of the fold stores it: a second one would compute it from rows read across, and
    the fold's would write across its rows.
    """
    lowered = ga.jit(FOLDED_TOO[name]).lower(X)
    for plan in (lowered.plan.on_device, lowered.plan.on_native):
        forms = [type(s) for s in plan.steps if isinstance(s, Kernel)]
        assert len(forms) == 2 and Tiles in forms


@pytest.mark.parametrize(("width", "count"), [(16, 2), (64, 1)])
def test_native_folds_are_not_cut_into_short_pieces(width, count):
    """They would add one element after another."""

    def heads(x):
        return nn.softmax(x).reshape(4, 24, -1, width).transpose(0, 2, 1, 3)

    plan = ga.jit(heads).lower(floats(96, 256)).plan
    kernels = [
        [s for s in p.steps if isinstance(s, Kernel)] for p in (plan.on_device, plan.on_native)
    ]
    assert list(map(len, kernels)) == [1, count]


def test_in_loops_and_under_vmap():
    def body(c, x):
        return (c * x + 1).T, gnp.tanh(c).T

    c, xs = floats(16, 16), floats(5, 16, 16)
    want = c
    outs = []
    for x in xs:
        outs.append(np.tanh(want).T)
        want = (want * x + 1).T
    lowered = ga.jit(lambda c, xs: lax.scan(body, c, xs)).lower(c, xs)
    for found in both_ways(lowered.jaxpr, (c, xs)):
        np.testing.assert_allclose(found[0], want, 1e-4, 1e-4)
        np.testing.assert_allclose(found[1], np.stack(outs), 1e-4, 1e-4)
    last = ga.vmap(lambda x: gnp.exp(x), out_axes=1)
    steps = ga.jit(last).lower(X).plan.on_device.steps
    assert len([s for s in steps if isinstance(s, Kernel)]) == 1


def test_softmax_of_rows_is_not_written_across_them():
    """A thread of a row would write elements that are far apart, one by one."""
    rows = golden.shape("float32", 4096, 4096)
    e = ga.explain(lambda x: nn.softmax(x).T + 1, platform="cuda")(rows)
    assert [(k.facts["form"], "add" in k.ops) for k in e.kernels] == [
        ("rows", False),
        ("map", True),
    ]
