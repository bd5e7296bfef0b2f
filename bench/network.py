"""`python -m bench.network`: the figures of the network model, fitted to the devices at hand.

In: options. Out: all-reduces of a few sizes, measured, and the network of one level that fits them
best; then exchanges that the fit has not seen, of other kinds and sizes, beside what it predicts
for them. On eight devices of the CPU, or on processes, as `python -m gpuarray launch -n 4 -m
bench.network --processes` starts them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gpuarray as ga
from gpuarray import lax
from gpuarray.compiler.explain.tables import columns, size
from gpuarray.compiler.partition.network import Network, fitted, network_named
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

DEVICES = 8
#: Exchanges of one call, each of which needs the one before.
LOOP = 20
#: Model / measured that counts as agreement, and its inverse.
WITHIN = 1.3


@dataclass(frozen=True)
class Exchange:
    """What is measured, on arrays that keep their shape from one to the next.

    step: it, given one device's array
    parts: its kinds for the model, each with how many times the array's bytes it is of, given the
    number of devices
    """

    name: str
    step: Callable[[Any, int], Any]
    parts: Callable[[int], tuple[tuple[str, int], ...]]

    def cost(self, network: Network, nbytes: int, n: int) -> float:
        """Seconds by the model."""
        return sum(network.cost(kind, times * nbytes, n) for kind, times in self.parts(n))


ALL_REDUCE = Exchange(
    "all_reduce", lambda v, n: lax.psum(v, "x"), lambda n: (("all_reduce", 1),)
)  # fmt: skip
OTHERS = (
    Exchange(
        "gather, scatter",
        lambda v, n: lax.psum_scatter(lax.all_gather(v, "x", tiled=True), "x", tiled=True),
        lambda n: (("all_gather", 1), ("reduce_scatter", n)),
    ),
    Exchange(
        "all_to_all",
        lambda v, n: lax.all_to_all(v, "x", 0, 0, tiled=True),
        lambda n: (("all_to_all", 1),),
    ),
    Exchange(
        "permute",
        lambda v, n: lax.ppermute(v, "x", [(i, (i + 1) % n) for i in range(n)]),
        lambda n: (("permute", 1),),
    ),
)
#: Bytes on each device: all-reduces that are fitted, and exchanges that are predicted.
FITTED = tuple((ALL_REDUCE, s) for s in (64, 4096, 65536, 1 << 18, 1 << 20))
PREDICTED = (
    *((ALL_REDUCE, s) for s in (1024, 16384, 1 << 19, 1 << 22)),
    *((exchange, s) for exchange in OTHERS for s in (1024, 65536, 1 << 20)),
)


def call_of(exchange: Exchange, mesh: Mesh, nbytes: int) -> Callable[[], Any]:
    """A call of `LOOP` exchanges among the devices of a mesh, compiled."""

    def steps(v):
        return lax.fori_loop(0, LOOP, lambda _, c: exchange.step(c, mesh.size), v)

    f = ga.jit(ga.shard_map(steps, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    # Of zeros, so that sums stay what they are.
    x = ga.device_put(np.zeros(mesh.size * nbytes // 4, np.float32), NamedSharding(mesh, P("x")))
    call = lambda: ga.block_until_ready(f(x))
    call()
    return call


def measured(mesh: Mesh, cases: Sequence[tuple[Exchange, int]], rounds: int) -> list[float]:
    """Seconds of one exchange of each case: the best of the means of some calls.

    The cases take turns, so that a busy minute of the machine is not one case's.
    """
    calls = [call_of(exchange, mesh, nbytes) for exchange, nbytes in cases]
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return [seconds / LOOP for seconds in best]


def table(
    cases: Sequence[tuple[Exchange, int]], seconds: Sequence[float], networks: dict, n: int
) -> str:
    """Measured times, and those of networks with model / measured."""
    lines = [("", "bytes", "measured", *(cell for name in networks for cell in (name, "")))]
    for (exchange, nbytes), taken in zip(cases, seconds, strict=True):
        costs = [exchange.cost(network, nbytes, n) for network in networks.values()]
        cells = [x for c in costs for x in (f"{c * 1e6:.1f} us", f"{c / taken:.2f}")]
        lines.append((exchange.name, size(nbytes), f"{taken * 1e6:.1f} us", *cells))
    return "\n".join(columns(lines, right=range(1, len(lines[0]))))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, fit, predict and print; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.network", description="Fit the network model to these devices."
    )
    parser.add_argument("--rounds", type=int, default=30, help="calls of each size")
    parser.add_argument("--processes", action="store_true", help="measure those of this job")
    args = parser.parse_args(argv)
    several = args.processes
    if several:
        ga.distributed.initialize()
    else:
        ga.config.update("num_cpu_devices", DEVICES)
    mesh = Mesh(np.array(ga.devices()), ("x",))
    like = "mpi" if several else "cpu"
    n = mesh.size
    seconds = measured(mesh, [*FITTED, *PREDICTED], args.rounds)
    if ga.process_index():
        return 0
    seen, unseen = seconds[: len(FITTED)], seconds[len(FITTED) :]
    rows = [("all_reduce", s, n, taken) for (_, s), taken in zip(FITTED, seen, strict=True)]
    found = fitted(rows, like)
    networks = {"fitted": found, f"assumed ({like})": network_named(like)}
    where = f"{ga.process_count()} processes" if several else "devices of one process"
    print(f"exchanges among {n} devices, {where}; model / measured")
    print(table(FITTED, seen, networks, n))
    print("\npredicted by the fit, which has not seen these:")
    print(table(PREDICTED, unseen, {"predicted": found}, n))
    ratios = [
        exchange.cost(found, nbytes, n) / taken
        for (exchange, nbytes), taken in zip(PREDICTED, unseen, strict=True)
    ]
    good = sum(1 / WITHIN <= ratio <= WITHIN for ratio in ratios)
    print(f"{good} of {len(ratios)} within a factor of {WITHIN}; worst {min(ratios):.2f}, "
          f"{max(ratios):.2f}")  # fmt: skip
    level = found.levels[0]
    shared = ", shared=True" if level.shared else ""
    print(
        f"Network((Level(alpha={level.alpha:.2g}, bytes_per_s={level.bytes_per_s:.2g}{shared}),))"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
