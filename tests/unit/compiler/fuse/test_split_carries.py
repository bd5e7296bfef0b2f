"""Loops over stacked states: one kernel, that computes what the loop says.

In: simulations as people write them, whose state is one array of a few components. Kernels run on
the simulator; results are those of the NumPy driver, which runs the same loops turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.fuse.split_carries import split_carries
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()


def floats(*lengths: int) -> np.ndarray:
    return np.random.default_rng(lengths).standard_normal(lengths).astype("float32")


def turns(step: Callable, state, count: int = 6):
    return lax.fori_loop(0, count, lambda _, s: step(s), state)


def runge_kutta(s):
    """Springs by the midpoint rule; the state is unpacked and stacked again."""

    def rate(s):
        x, v = s
        return gnp.stack([v, -x])

    return turns(lambda s: s + 0.1 * rate(s + 0.05 * rate(s)), s)


def lorenz(s):
    """Components along the last axis."""

    def rate(s):
        x, y, z = s[..., 0], s[..., 1], s[..., 2]
        return gnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], axis=-1)

    return turns(lambda s: s + 0.01 * rate(s), s)


def kepler(s):
    """Halves of the state, a sum over components and what is repeated along them."""

    def rate(s):
        x, v = s[:, :3], s[:, 3:]
        r = gnp.sum(x * x, 1, keepdims=True) + 0.1
        return gnp.concatenate([v, -x / r], 1)

    return turns(lambda s: s + 0.1 * rate(s), s)


def momentum(s, m):
    """Two states, of which one follows from the other, and a number."""

    def step(state):
        s, m, n = state
        m = 0.9 * m + 0.1 * gnp.stack([s[1] * n, -s[0], gnp.ones_like(s[0])])
        return s + m, m, n * 0.5

    return turns(step, (s, m, 1.0))


def kept(s):
    """What each turn leaves is kept: of the state, and all of it."""

    def step(s, _):
        s = s + 0.1 * gnp.stack([s[1], -s[0]])
        return s, (s, s[0])

    return lax.scan(step, s, None, length=5)


def nested(s):
    """A loop in a loop, with an array that the outer one goes through."""

    def outer(s, t):
        s = turns(lambda s: s + 0.1 * gnp.stack([s[1] * t, -s[0]]), s, 3)
        return s, s[1]

    return lax.scan(outer, s, gnp.arange(4.0))


def matrices(s):
    """Pairs of rows in the middle, exchanged and turned around."""

    def step(s):
        a, b = s[:, 0], s[:, 1]
        return gnp.stack([a + 0.1 * b, b - 0.1 * a], axis=1)[:, ::-1]

    return turns(step, s)


def padded(s):
    """The derivative of a stack is padded."""
    return ga.grad(lambda s: gnp.sum(runge_kutta(s) ** 2))(s)


def others(s):
    """Another carry of the same shape is scaled."""
    return turns(lambda c: (gnp.stack([c[0][1], c[0][0] + c[1][0]]), c[1] * 0.5), (s, s))


#: name: (program, its state, launches)
PROGRAMS = {
    "runge_kutta": (runge_kutta, (floats(2, 37),), 1),
    "lorenz": (lorenz, (floats(37, 3),), 1),
    "kepler": (kepler, (floats(37, 6),), 1),
    "momentum": (momentum, (floats(3, 37), floats(3, 37) + 1), 1),
    "kept": (kept, (floats(2, 37),), 2),
    "nested": (nested, (floats(2, 37),), 1),
    "matrices": (matrices, (floats(37, 2, 5),), 2),
    "padded": (padded, (floats(2, 37),), 3),
    "others": (others, (floats(2, 37),), 3),
}


def test_values():
    simulated.compare([(f, xs) for f, xs, _ in PROGRAMS.values()], limit=4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_turn_is_no_launch(name):
    function, arguments, launches = PROGRAMS[name]
    shapes = [shape("float32", *x.shape) for x in arguments]
    assert ga.explain(function, platform="cuda")(*shapes).launches <= launches


def test_all_of_it_is_moved_once():
    state = shape("float32", 2, 1 << 20)
    found = ga.explain(runge_kutta, platform="cuda")(state)
    assert found.bytes_moved == 2 * 8 << 20


@pytest.mark.parametrize(
    "step",
    [
        lambda s: gnp.stack([s[0] @ s[1], s[1]]),  # each element needs all of a row
        lambda s: gnp.stack([s[1], gnp.cumsum(s[0], 0)]),
    ],
)
def test_loops_that_gain_nothing_stay_as_they_are(step):
    graph = ga.jit(lambda s: turns(step, s)).lower(shape("float32", 2, 8, 8)).jaxpr
    assert split_carries(graph) is graph


def test_long_axes_are_left_alone():
    """A state of very many components would take as many registers."""
    graph = ga.jit(lambda s: turns(lambda s: gnp.stack([*s[1:], s[0]]), s))
    graph = graph.lower(shape("float32", 40, 64)).jaxpr
    assert split_carries(graph) is graph
