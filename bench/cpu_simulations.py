"""Rows of `python -m bench --cpu`: simulations, loops of many steps over a state.

In: nothing. Out: SIMULATIONS, in the form of `bench/cpu_operations.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.cpu_operations import RNG, Arrays, Row


def _rk4(m) -> Callable:
    """Lorenz's system, 500 steps of Runge and Kutta."""

    def slope(s):
        x, y, z = s
        return m.np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(s, _):
        h = 0.01
        a = slope(s)
        b = slope(s + h / 2 * a)
        c = slope(s + h / 2 * b)
        d = slope(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
        return s, s

    return lambda s: m.lax.scan(step, s, None, length=100)[1]


def _odeint(m) -> Callable:
    def slope(y, t):
        return m.np.stack([y[1], 2.0 * (1 - y[0] ** 2) * y[1] - y[0]])

    return lambda y: m.ode.odeint(slope, y, m.np.linspace(0.0, 5.0, 20))


def _cloth(m) -> Callable:
    """50 steps of a cloth of 32x32 points with springs."""

    def pull(a, b):
        d = b - a
        length = m.np.sqrt(m.np.sum(d * d, -1, keepdims=True) + 1e-9)
        return d * (1 - 0.03 / length)

    def force(x):
        down, right = pull(x[:-1], x[1:]), pull(x[:, :-1], x[:, 1:])
        f = m.np.pad(down, ((0, 1), (0, 0), (0, 0))) - m.np.pad(down, ((1, 0), (0, 0), (0, 0)))
        f = f + m.np.pad(right, ((0, 0), (0, 1), (0, 0)))
        f = f - m.np.pad(right, ((0, 0), (1, 0), (0, 0)))
        return 100 * f - m.np.array([0.0, 0.0, 9.8])

    def step(_, state):
        x, v = state
        v = (v + 0.005 * force(x)) * 0.999
        v = m.np.concatenate([m.np.zeros_like(v[:1]), v[1:]])
        return x + 0.005 * v, v

    return lambda x: m.lax.fori_loop(0, 50, step, (x, m.np.zeros_like(x)))[0]


def _cloth_data(rng: RNG, small: bool) -> Arrays:
    at = np.linspace(0, 1, 32, dtype=np.float32)
    return [np.stack([*np.meshgrid(at, at), np.zeros((32, 32), np.float32)], -1)]


def _bodies(m) -> Callable:
    def step(_, state):
        x, v = state
        d = x[None] - x[:, None]
        near = m.np.sum(d * d, -1) + 0.01
        v = v + 0.001 * m.np.sum(d / (near * m.np.sqrt(near))[..., None], 1)
        return x + 0.001 * v, v

    return lambda x: m.lax.fori_loop(0, 20, step, (x, m.np.zeros_like(x)))[0]


def _korteweg_de_vries(m) -> Callable:
    # u_t = -6 u u_x - u_xxx: the linear part exactly, the other by steps.
    def run(u):
        n = u.shape[0]
        k = 2j * np.pi * np.fft.fftfreq(n, 1 / n).astype(np.complex64)
        exact = m.np.exp(-(k**3) * 1e-7)

        def step(_, spectrum):
            wave = m.np.fft.ifft(spectrum).real
            return exact * (spectrum - 1e-4 * 3 * k * m.np.fft.fft(wave * wave))

        return m.np.fft.ifft(m.lax.fori_loop(0, 100, step, m.np.fft.fft(u))).real

    return run


def _heat(m) -> Callable:
    def step(_, u):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].add(0.2 * (around - 4 * u[1:-1, 1:-1]))

    return lambda u: m.lax.fori_loop(0, 100, step, u)


def _life(m) -> Callable:
    def step(_, alive):
        near = sum(
            m.np.roll(alive, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
        )
        return ((near == 3) | ((alive == 1) & (near == 2))).astype(m.np.int32)

    return lambda alive: m.lax.fori_loop(0, 50, step, alive)


def _mandelbrot(m) -> Callable:
    def count(c):
        def step(_, state):
            z, n = state
            inside = m.np.abs(z) < 2
            return m.np.where(inside, z * z + c, z), n + inside

        start = (m.np.zeros_like(c), m.np.zeros(c.shape, m.np.int32))
        return m.lax.fori_loop(0, 30, step, start)[1]

    return count


def _plane(rng: RNG, small: bool) -> Arrays:
    n = 30 if small else 300
    x, y = np.linspace(-2, 0.6, n), np.linspace(-1.2, 1.2, n)
    return [(x[None] + 1j * y[:, None]).astype(np.complex64)]


SIMULATIONS = (
    Row(
        "rk4",
        "Lorenz's system, 100 steps",
        _rk4,
        lambda rng, small: [np.ones(3, np.float32)],
        tolerance=1e-2,
    ),
    Row(
        "odeint",
        "van der Pol's equation, adaptive",
        _odeint,
        lambda rng, small: [np.array([2.0, 0.0], np.float32)],
        tolerance=1e-2,
    ),
    Row("cloth", "cloth of 32x32, 50 steps", _cloth, _cloth_data, tolerance=1e-2),
    Row(
        "bodies",
        "256 bodies, 20 steps",
        _bodies,
        lambda rng, small: [rng.standard_normal((256, 3), np.float32)],
        tolerance=1e-2,
    ),
    Row(
        "kdv",
        "100 spectral steps of 256 points",
        _korteweg_de_vries,
        lambda rng, small: [0.1 * rng.standard_normal(256).astype(np.float32)],
        tolerance=1e-3,
    ),
    Row(
        "heat",
        "100 steps on 200x200",
        _heat,
        lambda rng, small: [rng.standard_normal((200, 200), np.float32)],
    ),
    Row(
        "life",
        "50 generations of 200x200",
        _life,
        lambda rng, small: [rng.integers(0, 2, (200, 200), dtype=np.int32)],
    ),
    Row("mandelbrot", "30 steps on 300x300, complex", _mandelbrot, _plane, tolerance=0.2),
)
