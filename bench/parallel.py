"""`python -m bench.parallel [--only RE] [--quick] [--json FILE]`: eight devices of the CPU.

In: options. Out: what calls over several devices cost, beside JAX with as many devices where it is
installed: both in this process, in turns. A table with our budgets on standard output, all figures
as JSON where asked, and an exit status: 1 for a wrong result of ours or a call that failed.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpuarray as ga
from bench import measure, peers, results
from bench.measure import Effort, Record
from bench.peers import FUSED, JAX
from gpuarray.cli.timing import Candidate, Neighbours, Samples, busy, duration, take_turns
from gpuarray.compiler.explain.tables import columns

DEVICES = 8
LOOP = 100
PACKAGES = {FUSED: "gpuarray", JAX: "jax"}


class Side:
    """One of the libraries: its names are the same."""

    def __init__(self, package: str):
        self.top = importlib.import_module(package)
        self.lax = importlib.import_module(f"{package}.lax")
        sharding = importlib.import_module(f"{package}.sharding")
        self.spec = sharding.PartitionSpec
        self.mesh = self.top.make_mesh((DEVICES,), ("x",), axis_types=(sharding.AxisType.Auto,))
        self.cut = sharding.NamedSharding(self.mesh, self.spec("x"))

    def put(self, x: np.ndarray) -> Any:
        """An array cut along its first axis."""
        return self.top.device_put(x, self.cut)

    def mapped(self, function: Callable, *out: str) -> Callable:
        """A function of one device's piece, compiled for all devices; results cut along `out`."""
        ins, outs = self.spec("x"), self.spec(*out)
        mapped = self.top.shard_map(function, mesh=self.mesh, in_specs=ins, out_specs=outs)
        return self.top.jit(mapped)


@dataclass(frozen=True)
class Case:
    """A call over several devices.

    make: the call, given a library and the array; want: its result in NumPy
    times: how many of what is measured are in one call
    budget: seconds that ours is to stay under
    """

    name: str
    title: str
    shape: tuple[int, ...]
    make: Callable[[Side, Any], Callable[[], Any]]
    want: Callable[[np.ndarray], np.ndarray]
    budget: float
    times: int = 1


def _jit_add(side: Side, x: Any) -> Callable[[], Any]:
    function = side.top.jit(lambda x: x + 1.0)
    return lambda: function(x)


def _psum(side: Side, x: Any) -> Callable[[], Any]:
    function = side.mapped(lambda v: side.lax.psum(v, "x"))
    return lambda: function(x)


def _loop(side: Side, x: Any) -> Callable[[], Any]:
    def shares(_, v):  # of what all have together: each next sum needs the one before
        return v / side.lax.psum(v, "x") + 1.0

    function = side.mapped(lambda v: side.lax.fori_loop(0, LOOP, shares, v), "x")
    return lambda: function(x)


def _pmap(side: Side, x: Any) -> Callable[[], Any]:
    function = side.top.pmap(lambda v: v + 1.0)
    return lambda: function(x)


def _first(compiled: Callable[[Side, Callable], Callable]) -> Callable[..., Callable[[], Any]]:
    """First calls: of a new function each time, with a constant that no cache knows."""

    def make(side: Side, x: Any) -> Callable[[], Any]:
        numbers = itertools.count(1)

        def first() -> Any:
            own = next(numbers) / 2.0**20
            return compiled(side, lambda v: side.lax.psum(v + own, "x"))(x)

        return first

    return make


def _first_jit(side: Side, x: Any) -> Callable[[], Any]:
    numbers = itertools.count(1)

    def first() -> Any:
        own = next(numbers) / 2.0**20
        return side.top.jit(lambda x: (x + own).sum(axis=0, keepdims=True))(x)

    return first


def _add_one(x: np.ndarray) -> np.ndarray:
    return x + 1.0


def _sum(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=0, keepdims=True)


def _sum_each(x: np.ndarray) -> np.ndarray:
    return np.full_like(x, x.sum())


def _add_shares(x: np.ndarray) -> np.ndarray:
    for _ in range(LOOP):
        x = x / _sum(x) + 1.0
    return x


SMALL, LARGE = (DEVICES,), (DEVICES, 1 << 18)
CASES = (
    Case("jit_add", "jit of x + 1, 4 B a device", SMALL, _jit_add, _add_one, 40e-6),
    Case("eager_add", "x + 1", SMALL, lambda _, x: lambda: x + 1.0, _add_one, 60e-6),
    Case("psum_4B", "shard_map with a psum of 4 B", SMALL, _psum, _sum, 40e-6),
    Case("psum_1MiB", "shard_map with a psum of 1 MiB", LARGE, _psum, _sum, 600e-6),
    Case("psum_loop", f"one of {LOOP} psums in a loop", SMALL, _loop, _add_shares, 20e-6, LOOP),
    Case("pmap_add", "pmap of x + 1", SMALL, _pmap, _add_one, 40e-6),
    Case("first_jit", "first call of a jitted sum", SMALL, _first_jit, _sum, 60e-3),
    Case(
        "first_shard_map",
        "first call of a shard_map with a psum",
        SMALL,
        _first(Side.mapped),
        _sum,
        60e-3,
    ),
    Case(
        "first_pmap",
        "first call of a pmap with a psum",
        SMALL,
        _first(lambda side, f: side.top.pmap(f, axis_name="x")),
        _sum_each,
        60e-3,
    ),
)
TOLERANCE = 1e-4


def run(case: Case, sides: dict[str, Side], effort: Effort) -> Record:
    """Time one call on both, and compare their results with NumPy."""
    values = np.random.default_rng(0).uniform(0.5, 1.5, case.shape).astype(np.float32)
    want = case.want(values.astype(np.float64))
    record = Record(case.name, case.title, "devices", tolerance=TOLERANCE)
    candidates = {}
    for name, side in sides.items():
        try:
            call = case.make(side, side.put(values))
            got = np.asarray(call(), np.float64)
            record.errors[name] = measure.worst_error(got, want)
        except Exception as error:  # one that cannot does not cost the other
            record.failed[name] = f"{type(error).__name__}: {error}"
        else:
            wait = side.top.block_until_ready
            candidates[name] = Candidate(lambda call=call, wait=wait: wait(call()))
    if candidates:
        for name, samples in take_turns(candidates, effort.seconds, effort.rounds).items():
            record.samples[name] = Samples([s / case.times for s in samples.seconds])
    return record


def table(records: list[Record], names: Sequence[str]) -> str:
    """Medians, and in brackets the best; ours against JAX; our budget."""
    budgets = {case.name: case.budget for case in CASES}
    others = [n for n in names if n != FUSED]
    rows = [["", *names, *(f"vs {n}" for n in others), "budget", "kept"]]
    for r in records:
        row = [f"{r.name}: {r.title}"]
        for n in names:
            s = r.samples.get(n)
            row.append("-" if s is None else f"{duration(s.median)} ({duration(s.best)})")
        ratios = [r.speedup(n) for n in others]
        row += ["-" if x is None else f"{x:.2f}x" for x in ratios]
        ours = r.samples.get(FUSED)
        kept = "-" if ours is None else "yes" if ours.median <= budgets[r.name] else "no"
        rows.append([*row, duration(budgets[r.name]), kept])
    return "\n".join(columns(rows, right=range(1, len(rows[0]))))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.parallel", description="Measure calls over eight devices of the CPU."
    )
    parser.add_argument("--only", default="", metavar="RE", help="calls whose name matches")
    parser.add_argument("--quick", action="store_true", help="short: does it run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    args = parser.parse_args(argv)
    chosen = [case for case in CASES if re.search(args.only, case.name)]
    if not chosen:
        names = ", ".join(case.name for case in CASES)
        print(f"--only {args.only!r} matches none of: {names}", file=sys.stderr)
        return 2
    # Both libraries read this when they first need a device.
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={DEVICES}".strip()
    ga.config.update("num_cpu_devices", DEVICES)
    here, absent = peers.gather((FUSED, JAX))
    sides = {name: Side(PACKAGES[name]) for name in here}
    effort = Effort(0.2, (3, 5)) if args.quick else Effort()
    neighbours = Neighbours()
    records = [run(case, sides, effort) for case in chosen]
    around = results.circumstances(here, absent, measure.copy_bandwidth(), args.quick)
    around |= {"devices": DEVICES, "others": neighbours.share()}
    print(f"{results.heading(around)}, {DEVICES} devices of the CPU")
    for name, why in absent.items():
        print(f"absent: {name} ({why})")
    print("\n" + table(records, list(sides)))
    for r in records:
        for name, why in r.failed.items():
            print(f"could not: {r.name}: {name}: {why}")
        for name in r.wrong:
            print(f"WRONG: {r.name}: {name} is off by {r.errors[name]:.1e}")
    if told := busy(around["others"]):
        print(told)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results.figures(records, around), indent=1)
        args.json.write_text(text, encoding="utf-8")
        print(f"\nwritten: {args.json}")
    return 1 if any(FUSED in (*r.wrong, *r.failed) for r in records) else 0


if __name__ == "__main__":
    sys.exit(main())
