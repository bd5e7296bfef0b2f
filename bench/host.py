"""What is measured: the time Python takes around the arithmetic, on arrays too small to matter.

In: a Peer. Out: a call to time, or None where that peer has nothing of the sort. Import times and
the overhead with a driver that does nothing are functions of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from bench.peers import FUSED, JAX, NUMPY, TORCH, Peer
from gpuarray.backends.cuda import cubins, nvrtc
from gpuarray.backends.numpy import program as driver

ROOT = Path(__file__).resolve().parents[1]
_SMALL = np.linspace(0.1, 1.0, 16, dtype=np.float32)


@dataclass(frozen=True)
class HostCost:
    """A call that peers can make."""

    name: str
    title: str
    call: Callable[[Peer], Callable[[], Any] | None]


def _jit_two(peer: Peer) -> Callable[[], Any] | None:
    function = peer.jit(lambda x, y: x * y + x)
    x, y = peer.array(_SMALL), peer.array(_SMALL)
    return lambda: function(x, y)


def _jit_dict(peer: Peer) -> Callable[[], Any] | None:
    if peer.name == TORCH:
        return None  # nothing that takes a container apart
    function = peer.jit(lambda tree: {name: x + 1.0 for name, x in tree.items()})
    tree = {f"layer{i}": peer.array(_SMALL) for i in range(16)}
    return lambda: function(tree)


def _eager_ten(peer: Peer) -> Callable[[], Any]:
    m, x = peer.names, peer.array(_SMALL)
    add, multiply, sqrt = m.add, m.multiply, m.sqrt

    def ten():
        y = x
        for _ in range(3):
            y = sqrt(add(multiply(y, y), x))
        return add(y, x)

    return ten


def _slice(peer: Peer) -> Callable[[], Any]:
    x = peer.array(_SMALL)
    return lambda: x[1:3]


def _at_set(peer: Peer) -> Callable[[], Any]:
    x = peer.array(_SMALL)
    if peer.name in (NUMPY, TORCH):  # their way to a changed copy

        def set_copy():
            y = x.copy() if peer.name == NUMPY else x.clone()
            y[0] = 9.0
            return y

        return set_copy
    return lambda: x.at[0].set(9.0)


def _first_call(peer: Peer) -> Callable[[], Any] | None:
    if peer.name in (NUMPY, TORCH):
        return None  # they compile nothing
    numbers = itertools.count(1)
    m, x = peer.names, peer.array(_SMALL)

    def first_call():
        # A new function each time, with constants of its own, so that no cache knows it.
        own = 1.0 + next(numbers) / 1024.0

        def fifty(x):
            for i in range(25):
                x = m.sin(x) * (own + i)
            return x

        return peer.wait(peer.jit(fifty)(x))

    return first_call


HOST = (
    HostCost("jit_two", "jit call of two small arrays", _jit_two),
    HostCost("jit_dict", "jit call of a dict of 16 arrays", _jit_dict),
    HostCost("eager_ten", "10 small operations, eager", _eager_ten),
    HostCost("slice", "x[1:3]", _slice),
    HostCost("at_set", "x.at[0].set(9)", _at_set),
    HostCost("first_call", "first call of a function of 50 operations", _first_call),
)


# ---- a driver that does nothing ----


@contextlib.contextmanager
def null_driver() -> Iterator[None]:
    """Plans compiled inside run nothing: their functions return the same empty buffers at once."""
    real, native = driver.build, ga.config.read("native")

    def build(plan, *args, **kwargs):
        real(plan, *args, **kwargs)  # as much compiling as ever; only running is left out
        avals = plan.graph.out_avals
        outputs = [np.zeros(a.shape, a.dtype) for a in avals]
        return lambda *buffers: list(outputs)

    driver.build = build
    ga.config.update("native", "off")  # native code has a driver of its own
    try:
        yield
    finally:
        driver.build = real
        ga.config.update("native", native)


OVERHEADS = {
    "null_jit": "jit call of two arrays, nothing launched",
    "null_chain": "jit call of 10 operations, nothing launched",
    "null_record": "recording one eager operation, nothing launched",
}


def overhead(name: str) -> tuple[Callable[[], Any], int]:
    """A call that costs dispatch alone inside `null_driver`, and how many operations it makes."""
    x, y = gnp.asarray(_SMALL), gnp.asarray(_SMALL)
    own = float(np.random.default_rng().uniform())  # compiled under the null driver, not before
    two = ga.jit(lambda x, y: x * y + own)
    ten = ga.jit(lambda x: gnp.sqrt(gnp.sqrt(gnp.sqrt((x + own) * x + x) * x + x) * x + x))
    large = gnp.zeros(1 << 17)  # large enough to be recorded rather than computed at once
    count = 100

    def record():
        value: Any = large
        for _ in range(count):
            value = value + own
        return value.block_until_ready()

    if name == "null_record":
        return record, count
    return (lambda: two(x, y)) if name == "null_jit" else (lambda: ten(x)), 1


FIRST_CALLS = {
    "first_cuda": "50 operations: traced, emitted, compiled by NVRTC, nothing launched",
    "first_cuda_disk": "50 operations: traced, emitted, found on disk, nothing launched",
}


@contextlib.contextmanager
def first_call(name: str) -> Iterator[Callable[[], bytes]]:
    """From a function of 50 operations to the machine code of its kernel, as a new process would:
    what is in memory is forgotten before each call.
    """
    numbers = itertools.count(1)

    def machine_code():
        ga.clear_caches()
        cubins.forget()
        own = 0.5 if name.endswith("_disk") else 1.0 + next(numbers) / 1024.0

        def fifty(x):
            for i in range(25):
                x = gnp.sin(x) * (own + i)
            return x

        source = ga.jit(fifty).lower(_SMALL).cuda_source()
        return cubins.load(source, "sm_90", (), nvrtc.version(), nvrtc.compile).data

    before = ga.config.read("cache_dir")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        ga.config.update("cache_dir", folder)
        try:
            yield machine_code
        finally:
            ga.config.update("cache_dir", before)


# ---- import ----

IMPORTS = {
    FUSED: "import gpuarray, gpuarray.numpy",
    JAX: "import jax, jax.numpy",
    TORCH: "import torch",
}


def import_seconds(name: str, byte_code: str) -> float:
    """Seconds to import a peer in a fresh process that has NumPy loaded.

    byte_code: a folder for compiled modules, so that only the first import compiles, whatever
    the environment says about writing beside the sources
    """
    program = (
        "import time, numpy\n"
        "start = time.perf_counter()\n"
        f"{IMPORTS[name]}\n"
        "print(time.perf_counter() - start)"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = os.environ | {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": byte_code}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
