"""`python -m bench.network`: the figures of the network model, fitted to the devices at hand.

In: options. Out: all-reduces of several sizes, measured, beside the network of one level that fits
them best, and beside the one that is assumed where nothing is known: eight devices of the CPU, or
processes, as `python -m gpuarray launch -n 4 -m bench.network --processes` starts them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

import gpuarray as ga
from gpuarray import lax
from gpuarray.compiler.explain.tables import columns, size
from gpuarray.compiler.partition.network import fitted, network_named
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

DEVICES = 8
#: Bytes on each device.
SIZES = (8, 256, 4096, 65536, 1 << 18, 1 << 20, 1 << 22)
#: All-reduces of one call, each of which needs the one before.
LOOP = 20


def measured(mesh: Mesh, nbytes: int, rounds: int) -> float:
    """Seconds of one all-reduce among the devices of a mesh: the best of some calls' means."""

    def sums(v):
        return lax.fori_loop(0, LOOP, lambda _, c: lax.psum(c, "x"), v)

    f = ga.jit(ga.shard_map(sums, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    # Of zeros, so that the sums stay what they are.
    x = ga.device_put(np.zeros(mesh.size * nbytes // 4, np.float32), NamedSharding(mesh, P("x")))
    ga.block_until_ready(f(x))
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        ga.block_until_ready(f(x))
        best = min(best, time.perf_counter() - start)
    return best / LOOP


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, fit, and print; the exit status."""
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
    rows = [("all_reduce", s, n, measured(mesh, s, args.rounds)) for s in SIZES]
    if ga.process_index():
        return 0
    found, assumed = fitted(rows, like), network_named(like)
    lines: list[tuple[str, ...]] = [
        ("bytes a device", "measured", "fitted", "", f"assumed ({like})", "")
    ]
    for kind, nbytes, _, seconds in rows:
        costs = [network.cost(kind, nbytes, n) for network in (found, assumed)]
        cells = [x for c in costs for x in (f"{c * 1e6:.1f} us", f"{c / seconds:.2f}")]
        lines.append((size(nbytes), f"{seconds * 1e6:.1f} us", *cells))
    where = f"{ga.process_count()} processes" if several else "devices of one process"
    print(f"all-reduces among {n} devices, {where}; model / measured")
    print("\n".join(columns(lines, right=range(1, 6))))
    level = found.levels[0]
    shared = ", shared=True" if level.shared else ""
    print(
        f"Network((Level(alpha={level.alpha:.2g}, bytes_per_s={level.bytes_per_s:.2g}{shared}),))"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
