"""Native code on the CPU against NumPy, JAX and PyTorch: `python -m bench.native [WORD ...]`.

In: words that names of rows contain; none is all. Out: a table with the best time of each in
microseconds and the ratios. All are run in turn in one process, so that a busy machine slows them
alike; what it was like is in the last line. Results are compared before they are timed. A peer that
is not installed has an empty column; torch.compile has no loops of this kind.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import pathlib
import platform
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.numpy.tiles import thread_count
from gpuarray.cli.timing import Neighbours, busy
from gpuarray.config import config

#: Seconds for a row.
SECONDS = 1.0

Made = Callable[[Any], Callable]
_rng = np.random.default_rng(0)


def _normal(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape, dtype=np.float32)


def _softmax(m) -> Callable:
    def softmax(x):
        e = m.exp(x - m.max(x, -1, keepdims=True))
        return e / m.sum(e, -1, keepdims=True)

    return softmax


def _layer_norm(m) -> Callable:
    def layer_norm(x):
        mean = m.mean(x, -1, keepdims=True)
        return (x - mean) / m.sqrt(m.var(x, -1, keepdims=True) + 1e-5)

    return layer_norm


def _gelu(m) -> Callable:
    return lambda x: 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


# ---- loops: functions of a namespace like NumPy's and of the lax beside it ----


def _lax(m):
    return importlib.import_module(m.__name__.rpartition(".")[0] + ".lax")


def _while(m) -> Callable:
    """Newton's method for a cube root, with a counter of turns."""

    def root(a):
        step = lambda s: (s[0] - 0.5 * (s[0] ** 3 - a) / (3 * s[0] * s[0]), s[1] + 1)
        return _lax(m).while_loop(lambda s: s[1] < 500, step, (a, 0))[0]

    return root


def _scan(m) -> Callable:
    def moving(c, xs):
        def step(c, x):
            c = 0.9 * c + x
            return c, m.sqrt(m.abs(c))

        return _lax(m).scan(step, c, xs)[1]

    return moving


def _kalman(m) -> Callable:
    def means(a, q, h, r, x, p, ys):
        def step(state, y):
            x, p = state
            x, p = a @ x, a @ p @ a.T + q
            s = h @ p @ h.T + r
            inverse = m.array([[1.0, -1.0], [-1.0, 1.0]]) * s[::-1, ::-1].T
            inverse = inverse / (s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0])
            gain = p @ h.T @ inverse
            x = x + gain @ (y - h @ x)
            p = (m.eye(4) - gain @ h) @ p
            return (x, p), x

        return _lax(m).scan(step, (x, p), ys)[1]

    return means


def _mandelbrot(m) -> Callable:
    def counts(real, imaginary):
        def step(_, s):
            x, y, count = s
            xx, yy = x * x, y * y
            near = xx + yy < 4.0
            return (
                m.where(near, xx - yy + real, x),
                m.where(near, 2 * x * y + imaginary, y),
                count + near,
            )

        start = (real * 0, real * 0, m.zeros(real.shape, m.int32))
        return _lax(m).fori_loop(0, 100, step, start)[2]

    return counts


def _mandelbrot_while(m) -> Callable:
    vmap = importlib.import_module(m.__name__.partition(".")[0]).vmap

    def count(real, imaginary):
        def step(s):
            x, y, count = s
            return x * x - y * y + real, 2 * x * y + imaginary, count + 1

        going = lambda s: (s[0] * s[0] + s[1] * s[1] < 4.0) & (s[2] < 100)
        return _lax(m).while_loop(going, step, (real * 0, real * 0, 0))[2]

    return vmap(count)


def _ode(m) -> Callable:
    """Lorenz's equations by Runge and Kutta's method, for any number of starts."""

    def slope(s):
        x, y, z = s
        return m.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6666667 * z])

    def end(s):
        def step(_, s):
            a = slope(s)
            b = slope(s + 0.0005 * a)
            c = slope(s + 0.0005 * b)
            d = slope(s + 0.001 * c)
            return s + 0.001 / 6 * (a + 2 * b + 2 * c + d)

        return _lax(m).fori_loop(0, 1000, step, s)

    return end


def _gru(m) -> Callable:
    def states(w, u, h, xs):
        def step(h, x):
            a, b = m.split(x @ w, 3, -1), m.split(h @ u, 3, -1)
            z, r = 1 / (1 + m.exp(-a[0] - b[0])), 1 / (1 + m.exp(-a[1] - b[1]))
            h = (1 - z) * h + z * m.tanh(a[2] + r * b[2])
            return h, h

        return _lax(m).scan(step, h, xs)[1]

    return states


def loop_rows() -> Iterator[tuple[str, Made, tuple[np.ndarray, ...]]]:
    """As `rows`: loops, whose turns are short."""
    yield "while of 500 turns", _while, (np.float32(30.0) + np.zeros((), np.float32),)
    yield "scan of 1000 steps of 8", _scan, (_normal(8), _normal(1000, 8))
    eye = np.eye(4, dtype=np.float32)
    a = eye + 0.05 * _normal(4, 4)
    kalman = (a, 0.1 * eye, _normal(2, 4), eye[:2, :2], _normal(4), eye, _normal(500, 2))
    yield "Kalman filter, 500 of 4x4", _kalman, kalman
    real, imaginary = np.meshgrid(np.linspace(-2, 0.5, 400), np.linspace(-1.2, 1.2, 400))
    plane = (real.astype(np.float32), imaginary.astype(np.float32))
    yield "mandelbrot 400x400, fori", _mandelbrot, plane
    yield "mandelbrot, while of each", _mandelbrot_while, tuple(x.ravel() for x in plane)
    yield "ODE, 1000 steps of 3", _ode, (_normal(3),)
    yield "ODE, 1000 steps of 3x1000", _ode, (_normal(3, 1000),)
    for batch, width, hidden in ((1, 32, 64), (32, 64, 128)):
        weights = (0.1 * _normal(width, 3 * hidden), 0.1 * _normal(hidden, 3 * hidden))
        states = (np.zeros((batch, hidden), np.float32), _normal(100, batch, width))
        yield f"GRU of 100 steps, {batch}x{hidden}", _gru, (*weights, *states)


def rows() -> Iterator[tuple[str, Made, tuple[np.ndarray, ...]]]:
    """Name, function over a NumPy-like namespace, operands; made one by one, as they are large."""
    long, image = 8_000_000, (2000, 3000)
    yield "multiply-add of 16", lambda m: lambda x, y: x * y + x, (_normal(16), _normal(16))
    chain = lambda m: lambda a, b: (((a * b + 1.5) * a - b) * 0.5 + a * 0.25) - b
    yield "chain of 100,000", chain, (_normal(100_000), _normal(100_000))
    yield "chain of 8M", chain, (_normal(long), _normal(long))
    ints = _rng.integers(0, 1000, long, dtype=np.int32)
    yield (
        "integers, counted, 8M",
        lambda m: lambda i: m.sum(((i * 3 + 7) % 11 < 5) & (i > 2)),
        (ints,),
    )
    flags = (_rng.random(long) < 0.5, _rng.random(long) < 0.5)
    yield "bools, 8M", lambda m: lambda a, b: (a & ~b) | (a ^ b), flags
    for name in ("exp", "log1p", "tanh", "sin"):
        yield f"{name} of 1M", lambda m, name=name: getattr(m, name), (np.abs(_normal(1 << 20)),)
    yield "gelu of 4M", _gelu, (_normal(4_000_000),)
    yield (
        "squared distance, 8M",
        lambda m: lambda a, b: m.sum((a - b) ** 2),
        (_normal(long), _normal(long)),
    )
    yield "softmax 2000x3000", _softmax, (_normal(*image),)
    yield "layer norm 2000x3000", _layer_norm, (_normal(*image),)
    yield "variance of columns", lambda m: lambda x: m.var(x, axis=0), (_normal(*image),)
    yield "argmax of rows", lambda m: lambda x: m.argmax(x, axis=1), (_normal(*image),)
    yield "argmax of 6M", lambda m: lambda x: m.argmax(x), (_normal(6_000_000),)
    yield "rows of 4, 1M", lambda m: lambda x: m.sum(x, axis=1), (_normal(1_000_000, 4),)
    yield "columns of 1M, 8", lambda m: lambda x: m.sum(x, axis=0), (_normal(1_000_000, 8),)
    square = (_normal(2000, 2000), _normal(2000, 2000))
    yield "(A.T + B) * 3, 2000x2000", lambda m: lambda a, b: (a.T + b) * 3, square
    places = _rng.integers(0, long, 1_000_000, dtype=np.int32)
    yield "gather 1M of 8M", lambda m: lambda a, i: a[i] * 2, (_normal(long), places)


def _torch_names(torch) -> types.SimpleNamespace:
    """PyTorch under NumPy's names, as far as the rows use them."""

    def over(function):
        def folded(x, axis=None, keepdims=False):
            return function(x) if axis is None else function(x, dim=axis, keepdim=keepdims)

        return folded

    same = {name: getattr(torch, name) for name in ("exp", "log1p", "tanh", "sin", "sqrt")}
    folds = {name: over(getattr(torch, name)) for name in ("sum", "mean", "argmax")}
    var = lambda x, axis, keepdims=False: torch.var(x, axis, correction=0, keepdim=keepdims)
    return types.SimpleNamespace(**same, **folds, max=over(torch.amax), var=var)


def _torch_call(make: Made, operands) -> Callable[[], Any] | None:
    """The row compiled by PyTorch; None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(thread_count())
    compiled = torch.compile(make(_torch_names(torch)), dynamic=False)
    xs = [torch.from_numpy(np.array(x)) for x in operands]
    for _ in range(2):
        compiled(*xs)

    def call():
        start = time.perf_counter()
        out = compiled(*xs)
        return time.perf_counter() - start, out

    return call


def _calls(make: Made, operands, loops: bool) -> dict[str, Callable[[], Any]]:
    """What is compared, by name: each runs once and waits."""
    found: dict[str, Callable[[], Any]] = {}
    for mode in ("wait", "off"):
        function, xs = ga.jit(make(gnp)), [gnp.asarray(x) for x in operands]

        def call(function=function, xs=xs, mode=mode):
            if config.native != mode:
                config.update("native", mode)
            start = time.perf_counter()
            out = function(*xs).block_until_ready()
            return time.perf_counter() - start, out

        found["native" if mode == "wait" else "NumPy"] = call
    torch_call = None if loops else _torch_call(make, operands)
    if torch_call is not None:
        found["torch"] = torch_call
    if importlib.util.find_spec("jax") is None:
        return found
    jax = importlib.import_module("jax")
    jitted, ys = jax.jit(make(jax.numpy)), [jax.numpy.asarray(x) for x in operands]

    def of_jax():
        start = time.perf_counter()
        out = jitted(*ys).block_until_ready()
        return time.perf_counter() - start, out

    return {**found, "JAX": of_jax}


def measured(make: Made, operands, loops: bool) -> dict[str, float]:
    """The best time of each in microseconds."""
    calls = _calls(make, operands, loops)
    results = {name: np.asarray(call()[1]) for name, call in calls.items()}
    for name, found in results.items():
        wanted = results["NumPy"]
        near = found == wanted if found.dtype.kind != "f" else np.isclose(found, wanted, 2e-3, 1e-4)
        # An argmax may find the other one of two that are almost equal, and the point at which a
        # sequence goes beyond a bound depends on the last bits.
        if np.mean(near) < 0.99:
            raise ValueError(f"{name} computes something else")
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for name, call in calls.items():
            for _ in range(3 if best[name] > 1e-3 else 30):
                best[name] = min(best[name], call()[0])
    return {name: seconds * 1e6 for name, seconds in best.items()}


def _machine() -> str:
    """The processor's name, where the system says it, and its cores."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def main(words: list[str]) -> None:
    """Print the table."""
    logs: dict[str, list[float]] = {"NumPy": [], "JAX": [], "torch": []}
    neighbours = Neighbours()
    heads = "".join(f"{k:>10s}" for k in ("native", *logs))
    print(f"{'us':26s}{heads}" + "".join(f"{f'x {k}':>9s}" for k in logs))
    every = [(True, row) for row in loop_rows()]
    for loops, (name, make, operands) in itertools.chain(every, ((False, r) for r in rows())):
        if words and not any(word in name for word in words):
            continue
        best = measured(make, operands, loops)
        times = [f"{best[k]:10.1f}" if k in best else " " * 10 for k in ("native", *logs)]
        ratios = {k: best[k] / best["native"] for k in logs if k in best}
        for peer, ratio in ratios.items():
            logs[peer].append(np.log(ratio))
        shown = [f"{ratios[k]:9.2f}" if k in ratios else " " * 9 for k in logs]
        print(f"{name:26s}" + "".join(times) + "".join(shown), flush=True)
    means = ", ".join(f"{np.exp(np.mean(x)):.2f} x {peer}" for peer, x in logs.items() if x)
    print(f"geometric means {means}; {_machine()}")
    if told := busy(neighbours.share()):
        print(told)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main(sys.argv[1:])
