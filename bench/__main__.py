"""`python -m bench [--only RE] [--quick] [--json FILE] [--out DIR] [--floors]`.

In: options. Out: a table on standard output, files where asked, and an exit status: 1 for a wrong
result or, with --floors, for a promise that was not kept; 2 for what could not be judged.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import gpuarray as ga
from bench import floors, host, measure, peers, results, workloads
from bench.measure import Effort, Record
from gpuarray.cli.progress import Progress


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; the exit status."""
    args = _parser().parse_args(argv)
    if args.gpu and {d.platform for d in ga.devices()} == {"cpu"}:
        print("--gpu: gpuarray sees no GPU; `python -m gpuarray doctor` says why", file=sys.stderr)
        return 2
    here, missing = peers.gather(tuple(args.peers.split(",")) if args.peers else peers.ALL)
    effort = Effort(0.4, (3, 7)) if args.quick else Effort()
    jobs = _jobs(here, args.quick, effort)
    chosen = {name: job for name, job in jobs.items() if re.search(args.only, name)}
    if not chosen:
        print(f"--only {args.only!r} matches none of: {', '.join(jobs)}", file=sys.stderr)
        return 2
    records: list[Record] = []
    failures: dict[str, str] = {}
    with Progress(len(chosen), "measuring") as progress:
        for name, job in chosen.items():
            progress.step(name)
            try:
                records.append(job())
            except Exception as error:  # one broken workload does not cost the others
                failures[name] = f"{type(error).__name__}: {error}"
    around = results.circumstances(here, missing, measure.copy_bandwidth(), args.quick)
    print(results.heading(around))
    for name, why in missing.items():
        print(f"absent: {name} ({why})")
    print("\n" + results.table(records, around))
    for name, what in failures.items():
        print(f"\nFAILED {name}: {what}")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results.figures(records, around), indent=1)
        args.json.write_text(text, encoding="utf-8")
        print(f"\nwritten: {args.json}")
    if args.out:
        paths = results.write(args.out, records, around)
        print("\nwritten: " + ", ".join(map(str, paths)))
    wrong = any(name in peers.OURS for r in records for name in r.wrong)
    status = 1 if failures or wrong else 0
    if args.floors:
        verdicts = floors.judge(records)
        print("\npromised ratios\n" + "\n".join(map(str, verdicts)))
        status = status or floors.exit_status(verdicts)
    return status


def _jobs(
    here: dict[str, peers.Peer], quick: bool, effort: Effort
) -> dict[str, Callable[[], Record]]:
    """Everything that can be measured, by name, in the order in which it is."""
    jobs: dict[str, Callable[[], Record]] = {}
    for w in workloads.WORKLOADS:
        jobs[w.name] = lambda w=w: measure.throughput(w, here, quick, effort)
    for c in host.HOST:
        jobs[c.name] = lambda c=c: measure.host_cost(c, here, effort)
    jobs["import_time"] = lambda: measure.import_time(here, effort)
    for name in host.OVERHEADS:
        jobs[name] = lambda name=name: measure.overhead(name, effort)
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
    parser.add_argument("--floors", action="store_true", help="check the promised ratios")
    parser.add_argument("--gpu", action="store_true", help="fail unless a GPU is used")
    return parser


if __name__ == "__main__":
    sys.exit(main())
