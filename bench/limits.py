"""Limits that native code keeps on the CPU: `python -m bench.limits [NAME ...] [--quick]`.

In: names of limits; none is all. Out: a line for each with what was measured and what is asked for,
and an exit status: 1 if a limit was not kept, 2 if one could not be judged.

| name | what | limit |
|---|---|---|
| `busy` | a step of a network while two other processes compute, over JAX's time | 1.3 |
| `streaming` | bytes a second of a kernel on 8M numbers, over those of a copy | 0.9 |
| `first_call` | JAX's first call of a function of 50 operations, over ours | 4 |
| `shapes` | bytes that stay for each of 10,000 shapes of a function | 32 KiB |
| `compiled` | the same for each of 1,000 that are compiled, and how long one takes | 64 KiB |
| `disk` | bytes of the folder of compiled programs, a program | 64 KiB |
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from bench import cpu, host, measure, peers
from bench.peers import FUSED, JAX
from gpuarray.backends.native import library
from gpuarray.backends.numpy.tiles import thread_count
from gpuarray.cli.timing import Candidate, take_turns

KIB = 1 << 10


class Finding(NamedTuple):
    """What was measured: in words, and whether the limit was kept (None: that cannot be said)."""

    words: str
    kept: bool | None


# ---- a busy machine ----


@contextlib.contextmanager
def burners(count: int) -> Iterator[list[subprocess.Popen]]:
    """Other processes that compute all the time."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def _step(m: Any) -> Callable[..., Any]:
    """A step of gradient descent of a network with two layers."""

    def loss(weights, x, y):
        a, b = weights
        return m.np.mean((m.np.tanh(x @ a) @ b - y) ** 2)

    def step(weights, x, y):
        slopes = m.top.grad(loss)(weights, x, y)
        return tuple(w - 0.1 * s for w, s in zip(weights, slopes))

    return step


def _network(quick: bool) -> tuple:
    rng = np.random.default_rng(0)
    n, wide = (32, 64) if quick else (512, 1024)
    sizes = ((wide, wide), (wide, 10), (n, wide), (n, 10))
    a, b, x, y = (0.1 * rng.standard_normal(s, np.float32) for s in sizes)
    return (a, b), x, y


def busy(quick: bool) -> Finding:
    """The step, ours and JAX's in turns, beside two burners."""
    here, _ = peers.gather((FUSED, JAX))
    if JAX not in here:
        return Finding("JAX is not installed", None)
    calls = {}
    for name, package in ((FUSED, "gpuarray"), (JAX, "jax")):
        peer, (weights, x, y) = here[name], _network(quick)
        step = peer.jit(_step(cpu.library(package)))
        given = tuple(map(peer.array, weights)), peer.array(x), peer.array(y)
        calls[name] = Candidate(lambda p=peer, s=step, g=given: p.wait(s(*g)[0]), peer.around)
    with burners(2):
        samples = take_turns(calls, 0.2 if quick else 5.0, (3, 30))
    ours, theirs = samples[FUSED].median, samples[JAX].median
    words = f"{1e3 * ours:.2f} ms beside two burners, JAX {1e3 * theirs:.2f}: {ours / theirs:.2f}x"
    return Finding(words, ours <= 1.3 * theirs)


# ---- memory's speed ----

STREAMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "scale": (1, lambda x: x * 2),
    "sum": (2, lambda x, y: x + y),
    "chain": (2, lambda x, y: (((x * y + 1.5) * x - y) * 0.5 + x * 0.25) - y),
    "choice": (2, lambda x, y: gnp.where(x > 0, x, y * 0.1)),
    "squares": (2, lambda x, y: gnp.sum((x - y) ** 2)),
}


def streaming(quick: bool) -> Finding:
    """Each kernel's operands and results, once, over its best time, and what NumPy's copies on all
    threads read and write in theirs; in turns, as the machine may be another one a second later.
    """
    n = 1 << 18 if quick else 8_000_000
    rng = np.random.default_rng(0)
    x, y = (gnp.asarray(rng.standard_normal(n, np.float32)) for _ in range(2))
    threads = thread_count()
    source, target = (np.array_split(np.ones(n, np.float32), threads) for _ in range(2))
    shares = {}
    with ThreadPoolExecutor(threads) as pool:
        copy = lambda: list(pool.map(np.copyto, target, source))
        for name, (count, function) in STREAMS.items():
            call, given = ga.jit(function), (x, y)[:count]
            moved = 4 * n * count + call(*given).nbytes
            run = lambda call=call, given=given: call(*given).block_until_ready()
            best = {run: math.inf, copy: math.inf}
            for _ in range(5 if quick else 60):
                for what in best:
                    start = time.perf_counter()
                    what()
                    best[what] = min(best[what], time.perf_counter() - start)
            shares[name] = (moved / best[run]) / (8 * n / best[copy])
    words = ", ".join(f"{name} {100 * s:.0f} %" for name, s in shares.items()) + " of a copy"
    return Finding(words, min(shares.values()) >= 0.9)


# ---- first calls ----


def first_call(quick: bool) -> Finding:
    """First calls of functions that no cache knows, with native code compiled behind them."""
    here, _ = peers.gather((FUSED, JAX))
    if JAX not in here:
        return Finding("JAX is not installed", None)
    (cost,) = [c for c in host.HOST if c.name == "first_call"]
    record = measure.host_cost(
        cost, here, measure.Effort(0.4, (3, 7)) if quick else measure.Effort()
    )
    ratio = record.speedup(JAX)
    assert ratio is not None
    ours = record.samples[FUSED].median
    return Finding(f"{1e3 * ours:.1f} ms, {ratio:.1f} times faster than JAX", ratio >= 4)


# ---- memory and disk ----


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    status = pathlib.Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


def _many_shapes(count: int, most: int) -> Finding:
    """One function on many shapes; what a shape leaves is measured behind the first tenth."""
    function = ga.jit(lambda x: gnp.tanh(x * 2 + 1).sum())
    begun, first, start = 0, count // 10, 0.0
    for n in range(count):
        if n == first:
            begun, start = _resident(), time.perf_counter()
        function(np.ones((n % 100 + 1, n // 100 + 1), np.float32)).block_until_ready()
    each = 1e3 * (time.perf_counter() - start) / (count - first)
    left = (_resident() - begun) / (count - first)
    words = f"{left / KIB:.1f} KiB for each of {count:,} shapes, {library.loaded()} units loaded, "
    words += f"{_resident() >> 20} MiB in all, {each:.1f} ms a shape"
    return Finding(words, left <= most if begun else None)


def shapes(quick: bool) -> Finding:
    """Shapes that are seen once, as a user's are: NumPy runs them, and nothing is compiled."""
    return _many_shapes(200 if quick else 10_000, 32 * KIB)


def compiled(quick: bool) -> Finding:
    """Shapes that are compiled, each for itself: the time of a shape is that of the compiler."""
    return _many_shapes(20 if quick else 1_000, 64 * KIB)


_PROGRAMS = """
import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
x = np.ones((64, 64), np.float32)
for i in range({count}):
    y = lambda x: gnp.tanh(x * {first} + i) @ x + gnp.sum(x, {axis})
    ga.jit(lambda x: y(gnp.sort(x, 0)) if i % 2 else y(x))(x).block_until_ready()
"""


def disk(quick: bool) -> Finding:
    """Programs of several kernels, compiled one by one into a folder of their own."""
    count = 4 if quick else 100
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "GPUARRAY_NATIVE": "wait", "GPUARRAY_CACHE_DIR": place}
        text = _PROGRAMS.format(count=count, first=1.5, axis=0)
        subprocess.run([sys.executable, "-c", text], check=True, env=environment, cwd=host.ROOT)
        sizes = [p.stat().st_size for p in pathlib.Path(place).rglob("*") if p.is_file()]
    each = sum(sizes) / count
    words = f"{sum(sizes) / KIB:.0f} KiB in {len(sizes)} files for {count} programs"
    return Finding(f"{words}: {each / KIB:.1f} KiB each", bool(sizes) and each <= 64 * KIB)


LIMITS: dict[str, Callable[[bool], Finding]] = {
    "busy": busy,
    "streaming": streaming,
    "first_call": first_call,
    "shapes": shapes,
    "compiled": compiled,
    "disk": disk,
}


def main(words: list[str]) -> int:
    """Measure what is asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LIMITS))
    parser.add_argument("--quick", action="store_true", help="small and short: does it run?")
    given = parser.parse_args(words)
    if unknown := [name for name in given.names if name not in LIMITS]:
        print(
            f"no such limit: {', '.join(unknown)}; there are {', '.join(LIMITS)}", file=sys.stderr
        )
        return 2
    verdicts: list[bool | None] = []
    for name in given.names or LIMITS:
        # A user's first calls are those of `auto`; elsewhere the compiled program is measured.
        mode = "auto" if name in ("first_call", "shapes") else "wait"
        before = ga.config.read("native")
        ga.config.update("native", mode)
        try:
            found = LIMITS[name](given.quick)
        finally:
            ga.config.update("native", before)
        verdict = {True: "kept", False: "NOT KEPT", None: "not judged"}[found.kept]
        print(f"{name}: {verdict}: {found.words}", flush=True)
        verdicts.append(found.kept)
    return 1 if False in verdicts else 2 if None in verdicts else 0


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main(sys.argv[1:]))
