"""Small vectors taken apart: pairwise differences are never in memory, and results stay the same.

In: programs on points in the plane and in space. Kernels run on the simulator; results are those of
the NumPy driver, which keeps vectors whole.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import simulator
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.rewrite.small_axes import take_apart_small_axes
from gpuarray.config import strict
from gpuarray.core.target import TARGET
from tests.golden import shape
from tests.support import simulated


def points(count: int, size: int = 3, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, size)).astype(dtype)


def forces(p, m):
    d = p[None] - p[:, None]
    inverse = (gnp.sum(d * d, -1) + 1e-2) ** -1.5
    return gnp.sum(d * (m[None] * inverse)[:, :, None], axis=1)


def pulled(p, v, m):
    v = v + 0.01 * forces(p, m)
    return p + 0.01 * v, v


def nearest(p):
    d = p[None] - p[:, None]
    return gnp.min(gnp.sum(d * d, -1) + 10 * gnp.eye(len(p)), axis=0)


def spread(p):
    return gnp.max(gnp.abs(p[:, None] - p[None]), -1).sum(1)


def unit(p):
    return p / gnp.sqrt(gnp.sum(p * p, -1, keepdims=True))


def counted(p):
    q = (p * 4).astype("int32")
    return gnp.sum(q[None] - q[:, None], -1).max(0), gnp.prod(q * 2 + 1, -1)


def outside(p):
    q = p[None] - p[:, None]
    return gnp.any(q > 1, -1), gnp.all(abs(q) < 2, -1).sum(0)


MASSES = np.linspace(1, 2, 80).astype("float32")
PROGRAMS = {
    "forces": (forces, (points(80), MASSES)),
    "forces in the plane": (forces, (points(80, 2), MASSES)),
    "forces in four dimensions": (forces, (points(80, 4), MASSES)),
    "a step": (pulled, (points(80), points(80) * 2, MASSES)),
    "nearest": (nearest, (points(72),)),
    "spread": (spread, (points(70),)),
    "unit": (unit, (points(TARGET.vectors_from // 2),)),
    "integers": (counted, (points(66),)),
    "truth": (outside, (points(66),)),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_computes_the_same(name):
    simulated.need_compiler()
    function, arguments = PROGRAMS[name]
    plan = ga.jit(function).lower(*arguments).plan
    assert take_apart_small_axes(plan.graph) is not plan.graph
    with strict(True):
        run = simulator.build(plan, [np.asarray(c) for c in plan.graph.consts])
    found = host.local.run(run, *arguments)
    expected = ga.tree.leaves(ga.jit(function)(*arguments))
    for f, e in zip(found, map(np.asarray, expected), strict=True):
        assert (f.shape, f.dtype) == (e.shape, e.dtype)
        np.testing.assert_allclose(f, e, 1e-4, 1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2, (1, 2)])
@pytest.mark.parametrize("wide", ["uint8", "uint16"])
def test_pieces_of_numbers_are_no_components(axis, wide):
    """The axis of a number's pieces is new: what the number is made of has none there."""
    simulated.need_compiler()

    def pieces(p):
        made = lax.bitcast_convert_type(p * 2, wide)
        joined = lax.bitcast_convert_type(made ^ 1, "int32")
        return made.max(axis), made.any(axis), made.sum(axis), joined.max(-1)

    simulated.compare([(pieces, (points(TARGET.vectors_from),))])


def test_pairs_are_never_in_memory():
    n = 1 << 14
    e = ga.explain(forces, platform="cuda")(shape("float32", n, 3), shape("float32", n))
    assert e.temporary_bytes <= 3 * n * 4 and e.bytes_moved < 100 * n


@pytest.mark.parametrize(
    "function",
    [
        lambda p: gnp.sum(p, -1),  # as it lies in memory
        lambda p: gnp.sum(p * p, 0),  # over the vectors
        lambda p: gnp.sum(p[:100] * 2, -1),  # few
        lambda p: gnp.mean(gnp.sin(p)),
    ],
)
def test_other_reductions_stay_whole(function):
    graph = ga.jit(function).lower(shape("float32", TARGET.vectors_from, 3)).plan.graph
    assert take_apart_small_axes(graph) is graph


def test_longer_axes_stay_whole():
    graph = ga.jit(unit).lower(shape("float32", TARGET.vectors_from, 8)).plan.graph
    assert take_apart_small_axes(graph) is graph
