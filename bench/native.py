"""Native code on the CPU against NumPy's rules and JAX: `python -m bench.native [WORD ...]`.

In: words that names of rows contain; none is all. Out: a table with the best time of each in
microseconds and the ratios. All are run in turn in one process, so that a busy machine slows them
alike; what it was like is in the last line. Results are compared before they are timed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.config import config

#: Seconds for a row.
SECONDS = 1.0
#: A busy machine: more processes that want to run than cores.
BUSY = os.cpu_count() or 1

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


def _calls(make: Made, operands) -> dict[str, Callable[[], Any]]:
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
    if importlib.util.find_spec("jax") is None:
        return found
    jax = importlib.import_module("jax")
    jitted, ys = jax.jit(make(jax.numpy)), [jax.numpy.asarray(x) for x in operands]

    def of_jax():
        start = time.perf_counter()
        out = jitted(*ys).block_until_ready()
        return time.perf_counter() - start, out

    return {**found, "JAX": of_jax}


def measured(make: Made, operands) -> dict[str, float]:
    """The best time of each in microseconds."""
    calls = _calls(make, operands)
    results = {name: np.asarray(call()[1]) for name, call in calls.items()}
    for name, found in results.items():
        wanted = results["NumPy"]
        near = found == wanted if found.dtype.kind != "f" else np.isclose(found, wanted, 2e-3, 1e-4)
        if np.mean(near) < 0.9999:  # an argmax may find the other one of two that are almost equal
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
    print(f"{'us':26s}{'native':>10s}{'NumPy':>10s}{'JAX':>10s}{'x NumPy':>10s}{'x JAX':>8s}")
    logs: dict[str, list[float]] = {"NumPy": [], "JAX": []}
    for name, make, operands in rows():
        if words and not any(word in name for word in words):
            continue
        best = measured(make, operands)
        line = f"{name:26s}" + "".join(
            f"{best.get(k, float('nan')):10.1f}" for k in ("native", *logs)
        )
        for peer, width in (("NumPy", 10), ("JAX", 8)):
            if peer in best:
                ratio = best[peer] / best["native"]
                logs[peer].append(np.log(ratio))
                line += f"{ratio:{width}.2f}"
        print(line, flush=True)
    means = ", ".join(f"{np.exp(np.mean(x)):.2f} x {peer}" for peer, x in logs.items() if x)
    load = os.getloadavg()[0]
    busy = f" BUSY: {load:.1f} processes want to run on {BUSY} cores." if load > BUSY else ""
    print(f"geometric means {means}; {_machine()}.{busy}")


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main(sys.argv[1:])
