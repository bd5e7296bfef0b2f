"""`python -m bench [--only RE] [--quick] [--json FILE] [--out DIR] [--floors]`, on CPUs;
`python -m bench --cpu [--only RE] [--quick] [--json FILE]`, many operations and programs on CPUs;
`python -m bench --gpu [--budget SECONDS] [--only RE] [--quick] [--out DIR]`, on a GPU.

In: options. Out: a table on standard output, files where asked, and an exit status: 1 for a wrong
result or, with --floors, for a promise that was not kept; 2 for what could not be judged; 3 where
time ran out: the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpuarray as ga
from bench import cpu, floors, host, measure, peers, results, suite, workloads
from bench.measure import Effort, Record
from bench.peers import FUSED
from gpuarray.backends.cuda import nvrtc
from gpuarray.backends.cuda.device import missing
from gpuarray.cli import charts
from gpuarray.cli.progress import Progress
from gpuarray.cli.timing import Neighbours, busy


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; the exit status."""
    args = _parser().parse_args(argv)
    if args.gpu:
        return _on_gpu(args)
    if args.cpu:
        return _on_cpu(args)
    here, absent = peers.gather(tuple(args.peers.split(",")) if args.peers else peers.ALL)
    effort = Effort(0.4, (3, 7)) if args.quick else Effort()
    jobs = _jobs(here, args.quick, effort)
    chosen = {name: job for name, job in jobs.items() if re.search(args.only, name)}
    if not chosen:
        print(f"--only {args.only!r} matches none of: {', '.join(jobs)}", file=sys.stderr)
        return 2
    neighbours = Neighbours()
    records: list[Record] = []
    failures: dict[str, str] = {}
    with Progress(len(chosen), "measuring") as progress:
        for name, job in chosen.items():
            progress.step(name)
            try:
                records.append(job())
            except Exception as error:  # one broken workload does not cost the others
                failures[name] = f"{type(error).__name__}: {error}"
    around = results.circumstances(here, absent, measure.copy_bandwidth(), args.quick)
    around["others"] = neighbours.share()
    print(results.heading(around))
    for name, why in absent.items():
        print(f"absent: {name} ({why})")
    print("\n" + results.table(records, around))
    for name, what in failures.items():
        print(f"\nFAILED {name}: {what}")
    if sys.stdout.isatty() if args.chart is None else args.chart:
        _, _, series, panels = results.picture(records, around)
        print("\n" + charts.text(series, panels))
    if told := busy(around["others"]):
        print(f"\n{told}")
    if args.json:
        _write_figures(args.json, records, around)
    if args.out:
        paths = results.write(args.out, records, around)
        print("\nwritten: " + ", ".join(map(str, paths)))
    wrong = any(name in peers.OURS for r in records for name in (*r.wrong, *r.failed))
    status = 1 if failures or wrong else 0
    if args.floors:
        verdicts = floors.judge(records)
        print("\npromised ratios\n" + "\n".join(map(str, verdicts)))
        status = status or floors.exit_status(verdicts)
    return status


def _on_cpu(args: argparse.Namespace) -> int:
    """Operations and programs beside NumPy and JAX; the exit status."""
    here, absent = peers.gather(tuple(args.peers.split(",")) if args.peers else cpu.ALL)
    effort = Effort(0.1, (3, 3)) if args.quick else Effort(0.5, (5, 15))
    chosen = cpu.rows(args.only)
    if not chosen:
        names = ", ".join(row.name for row in cpu.rows(""))
        print(f"--only {args.only!r} matches none of: {names}", file=sys.stderr)
        return 2
    if ga.config.read("native") == "auto":  # which would change programs while they are measured
        ga.config.update("native", "wait")
    neighbours, records = Neighbours(), []
    with Progress(len(chosen), "measuring") as progress:
        for row in chosen:
            progress.step(row.name)
            records.append(cpu.measured(row, here, args.quick, effort))
    around = results.circumstances(here, absent, measure.copy_bandwidth(), args.quick)
    around |= {"others": neighbours.share(), "settings": cpu.settings()}
    settings = ", ".join(f"{name}={value}" for name, value in around["settings"].items())
    print(f"{results.heading(around)}; {settings}")
    for name, why in absent.items():
        print(f"absent: {name} ({why})")
    print(f"\n{cpu.table(records, around)}")
    if sys.stdout.isatty() if args.chart is None else args.chart:
        print("\n" + charts.ratios(*cpu.picture(records, around)))
    if told := busy(around["others"]):
        print(f"\n{told}")
    if args.json:
        _write_figures(args.json, records, around)
    return 1 if any(FUSED in (*r.wrong, *r.failed) for r in records) else 0


def _write_figures(path: Path, records: list[Record], around: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results.figures(records, around), indent=1), encoding="utf-8")
    print(f"\nwritten: {path}")


def _on_gpu(args: argparse.Namespace) -> int:
    """The whole suite on a GPU; the exit status."""
    if missing():
        print(f"--gpu: {missing()}", file=sys.stderr)
        return 2
    made = suite.processes(host.ROOT / "build" / "bench" / uuid.uuid4().hex[:8])
    wanted = args.peers.split(",") if args.peers else peers.GPU
    first, again = ({n: p for n, p in m.items() if set(n) & {*wanted, FUSED}} for m in made)
    out = args.out or host.ROOT / "bench" / "results"
    run = suite.Suite(first, out, args.budget, args.only, args.quick, again, _say)
    records = list(run.run().values())
    print(f"{results.gpu_heading(run.around)}\n\n{results.gpu_table(records, run.around)}")
    print("\nwritten: " + ", ".join(map(str, run.write())))
    bad = any(name in peers.OURS for r in records for name in (*r.wrong, *r.failed))
    return 3 if run.left else 1 if bad else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _jobs(
    here: dict[str, peers.Peer], quick: bool, effort: Effort
) -> dict[str, Callable[[], Record]]:
    """Everything that can be measured, by name, in the order in which it is."""
    jobs: dict[str, Callable[[], Record]] = {}
    for w in workloads.WORKLOADS:
        if w.cpu is not None:
            jobs[w.name] = lambda w=w: measure.throughput(w, here, quick, effort)
    for c in host.HOST:
        jobs[c.name] = lambda c=c: measure.host_cost(c, here, effort)
    jobs["import_time"] = lambda: measure.import_time(here, effort)
    for name in host.OVERHEADS:
        jobs[name] = lambda name=name: measure.overhead(name, effort)
    for name in host.FIRST_CALLS if nvrtc.available() else ():
        jobs[name] = lambda name=name: measure.first_call(name, effort)
    return jobs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure gpuarray beside its peers, in one run."
    )
    parser.add_argument("--only", default="", metavar="RE", help="workloads whose name matches")
    parser.add_argument("--quick", action="store_true", help="small and short: does it run?")
    parser.add_argument("--peers", metavar="A,B", help=f"some of {','.join(peers.ALL)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write figures, table, picture")
    parser.add_argument(
        "--chart",
        action=argparse.BooleanOptionalAction,
        help="bars below the table, on CPUs (default: on a terminal)",
    )
    parser.add_argument("--floors", action="store_true", help="check the promised ratios")
    parser.add_argument("--cpu", action="store_true", help="many operations, programs; CPU peers")
    parser.add_argument("--gpu", action="store_true", help="the suite on a GPU, most telling first")
    parser.add_argument(
        "--budget",
        type=float,
        default=1500.0,
        metavar="SECONDS",
        help="with --gpu: end after so long",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
