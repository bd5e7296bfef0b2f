"""What native code computes once, before loops along a broadcast axis.

In: values that take long, broadcast along axes outside of their own. Out: the steps of the native
plan; NumPy's values.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.compiler.check import check_steps
from gpuarray.compiler.lower.split_broadcasts import WHY, split_broadcasts
from tests.support import natively

natively.need_compiler()

_rng = np.random.default_rng(0)


def floats(*shape):
    return _rng.standard_normal(shape).astype(np.float32)


def log_odds(m, x, y):
    """Two results over one axis, one over both; the last is turned."""
    p = 1 / (1 + m.exp(-x))
    return p, (m.log1p(m.exp(x)) * p)[:, None] * y.T, m.tanh(x)[None] * y + p


X, Y = floats(600), floats(40, 600)

#: A function of a namespace and arrays; the shapes of the spaces of its kernels.
CASES = {
    "rows": (lambda m, x, y: m.exp(m.sin(x))[None] * y, (X, Y), [(600,), (40, 600)]),
    "several results": (log_odds, (X, Y), [(600,), (600, 40), (40, 600)]),
    "in a sum": (lambda m, x, y: (m.tanh(x) * y).sum(1), (X, Y), [(600,), (40, 600)]),
    "in a sum of columns": (lambda m, x, y: (m.tanh(x) * y).sum(0), (X, Y), [(600,), (40, 600)]),
    "along the axis in the middle": (
        lambda m, x, y: m.exp(m.sin(x))[None, :, None] + y,
        (floats(64), floats(40, 64, 9)),
        [(64,), (40, 64, 9)],
    ),
    "along two axes": (
        lambda m, x, y: m.exp(m.sin(x)) * y + m.exp(y[:, :1, :1]),
        (floats(64, 9), floats(40, 64, 9)),
        [(64, 9), (40, 64, 9)],
    ),
    "the outer axis, whose loop has it": (
        lambda m, x, y: m.exp(m.sin(x))[:, None] * y,
        (floats(40), Y),
        [(40, 600)],
    ),
    "few": (lambda m, x, y: m.exp(m.sin(x))[None] * y, (floats(6), floats(8, 6)), [(8, 6)]),
    "again once": (lambda m, x, y: m.exp(x)[None] * y, (X, floats(2, 600)), [(2, 600)]),
    "conditions": (
        lambda m, x, y: m.where(m.exp(m.sin(x)) > 1, y, -y),
        (X, Y),
        [(600,), (40, 600)],
    ),
    "of positions": (lambda m, x, y: m.where(m.arange(600) % 7 == 3, y, x), (X, Y), [(40, 600)]),
    "not long": (lambda m, x, y: (x * x + 1)[None] * y, (X, Y), [(40, 600)]),
}


def lowered(name: str):
    function, xs, _ = CASES[name]
    shapes = (ga.ShapeDtypeStruct(x.shape, x.dtype) for x in xs)
    return ga.jit(lambda *xs: function(gnp, *xs)).lower(*shapes)


@pytest.mark.parametrize("name", CASES)
def test_spaces_of_kernels(name):
    spaces = [tuple(n for n in s.group.axes if n > 1) for s in lowered(name).plan.on_native.steps]
    wanted = CASES[name][2]
    assert len(spaces) == len(wanted)
    assert {tuple(sorted(s)) for s in spaces} == {tuple(sorted(s)) for s in wanted}


def test_values():
    programs = {name: natively.written(lowered(name).jaxpr) for name in CASES}
    natively.compile_all(list(programs.values()))
    for name, (function, xs, _) in CASES.items():
        want = function(np, *(x.astype(np.float64) for x in xs))
        want = want if isinstance(want, tuple) else (want,)
        for g, w in zip(programs[name](*xs), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-5, err_msg=name)


def test_what_waits_for_a_reduction_stays():
    x = ga.ShapeDtypeStruct((40, 600), "float32")

    def after(x):
        return gnp.exp(gnp.sin(x.sum(0)))[None] * x

    fused = ga.jit(after).lower(x).plan.fused[0]
    made, refusals = split_broadcasts(list(fused))
    assert made == list(fused) and not refusals


def test_why_not_fused_says_so():
    plan = lowered("rows").plan
    made, refusals = split_broadcasts(list(plan.fused[0]))
    check_steps("split_broadcasts", plan.graph, made, plan.fused[0])
    assert [r.reason for r in refusals] == [WHY] and len(made) == 2
