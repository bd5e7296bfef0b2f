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


# ---- vectors that are not stacked ----


def orbit(x, v):
    """Each turn takes the length of a vector."""

    def step(state):
        x, v = state
        v = v - 0.1 * x / (gnp.linalg.norm(x, axis=-1, keepdims=True) ** 3 + 1)
        return x + 0.1 * v, v

    return turns(step, (x, v))


def march(origin, direction):
    """Rays: of the carry each element is a number, and vectors live for one turn."""

    def away(p):
        return gnp.minimum(gnp.linalg.norm(p - gnp.array([0.0, 0, 3]), axis=-1) - 1, p[..., 1] + 1)

    far = gnp.zeros(direction.shape[:-1])
    return turns(lambda t: t + away(origin + t[..., None] * direction), far)


def rays(direction):
    """A ray after another: each stops by itself."""

    def one(d):
        away = lambda t: gnp.linalg.norm(t * d - gnp.array([0.0, 0, 3])) - 1
        going = lambda c: (c[1] < 9) & (abs(away(c[0])) > 1e-3)
        return lax.while_loop(going, lambda c: (c[0] + away(c[0]), c[1] + 1), (0.0, 0))[0]

    return ga.vmap(one)(direction)


def rows_set(s):
    return turns(lambda s: s.at[0].set(s[0] + 0.1 * s[1]).at[1].add(-0.1 * s[0]), s)


def columns_set(s):
    return turns(lambda s: s.at[:, -1].multiply(0.9).at[:, 0].set(s[:, 2]).at[:, 1].min(0.5), s)


def some_set(s):
    """A slice of components, a position that is out of bounds, and one that is moved inside."""

    def step(s):
        s = s.at[1:].add(0.1 * s[:2]).at[gnp.int32(7)].set(9.0)
        return lax.dynamic_update_slice(s, -s[:1], (5, 0))

    return turns(step, s)


def turned(x, r):
    return turns(lambda x: x @ r, x)


def turned_columns(x, r):
    return turns(lambda x: r @ x + 1, x)


def forwards(a, t, seen):
    """A hidden Markov model: products with a small matrix, and sums along it."""

    def step(a, now):
        a = gnp.einsum("nk,kj->nj", a, t) * now
        total = a.sum(-1, keepdims=True)
        return a / total, total[:, 0]

    return lax.scan(step, a, seen)


def own_matrices(x, m):
    """Each vector has a matrix of its own."""
    return turns(lambda x: 0.5 * gnp.einsum("nij,nj->ni", m, x) + x[:, ::-1], x)


#: name: (program, its state, launches)
PROGRAMS = {
    "runge_kutta": (runge_kutta, (floats(2, 37),), 1),
    "lorenz": (lorenz, (floats(37, 3),), 1),
    "kepler": (kepler, (floats(37, 6),), 1),
    "momentum": (momentum, (floats(3, 37), floats(3, 37) + 1), 1),
    "kept": (kept, (floats(2, 37),), 1),
    "nested": (nested, (floats(2, 37),), 1),
    "matrices": (matrices, (floats(37, 2, 5),), 2),
    "padded": (padded, (floats(2, 37),), 3),
    "others": (others, (floats(2, 37),), 3),
    "orbit": (orbit, (floats(37, 3), floats(37, 3)), 1),
    "march": (march, (floats(3), floats(5, 7, 3)), 1),
    "rays": (rays, (floats(37, 3),), 1),
    "rows_set": (rows_set, (floats(2, 37),), 1),
    "columns_set": (columns_set, (floats(37, 3),), 1),
    "some_set": (some_set, (floats(3, 37),), 1),
    "turned": (turned, (floats(37, 3), floats(3, 3)), 1),
    "turned_columns": (turned_columns, (floats(3, 37), floats(3, 3)), 1),
    "forwards": (forwards, (abs(floats(37, 4)), abs(floats(4, 4)), abs(floats(5, 37, 4))), 1),
    "own_matrices": (own_matrices, (floats(37, 3), floats(37, 3, 3)), 1),
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
