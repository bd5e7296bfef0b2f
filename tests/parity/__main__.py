"""`python -m tests.parity`: run the cases in worker processes, print the tables, decide.

In: the cases of `recipes`, the reasons of `exceptions.toml`. Out: a table of agreement by
section, the disagreements by name with a first example, names that are missing or have too few
cases, and a last line with the verdict. Exit status 1 when agreement or the count of equal jaxprs
is under its gate, or a public name has fewer than LEAST cases without a reason in `recipes`.
"""

import argparse
import collections
import dataclasses
import importlib
import json
import multiprocessing
import re
import sys
import time
import tomllib
import types
from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .recipes import FEW, SKIPPED, Case, all_cases
from .worker import DEFAULTS, Result, work

AGREEMENT_GATE = 98.0
SETTING_GATE = 97.0  # where `--setting` has JAX check what enters and leaves each function as well
JAXPR_GATE = 50
LEAST = 5  # cases of a public name, unless `recipes` says why fewer do
SILENCE = 150  # seconds without a result after which a worker is taken for hung
NAMESPACES = {
    "jax": "",
    "jax.Array": "Array",
    "jnp": "numpy",
    "jnp.linalg": "numpy.linalg",
    "jnp.fft": "numpy.fft",
    "lax": "lax",
    "lax.linalg": "lax.linalg",
    "nn": "nn",
    "jax.nn.initializers": "nn.initializers",
    "random": "random",
    "tree_util": "tree_util",
    "tree": "tree",
    "dtypes": "dtypes",
    "scipy.special": "scipy.special",
    "scipy.linalg": "scipy.linalg",
    "scipy.signal": "scipy.signal",
    "scipy.stats": "scipy.stats",
    "scipy.fft": "scipy.fft",
    "scipy.ndimage": "scipy.ndimage",
    "scipy.integrate": "scipy.integrate",
    "scipy.interpolate": "scipy.interpolate",
    "scipy.optimize": "scipy.optimize",
    "scipy.cluster.vq": "scipy.cluster.vq",
    "scipy.sparse.linalg": "scipy.sparse.linalg",
    "scipy.spatial.transform": "scipy.spatial.transform",
    "jax.image": "image",
    "jax.flatten_util": "flatten_util",
    "checkify": "experimental.checkify",
    "ops": "ops",
}


@dataclasses.dataclass
class Reason:
    """An entry of exceptions.toml: why cases of `name` (those matching `cases`) differ."""

    name: str
    reason: str
    cases: str = ""
    used: int = 0
    seen: int = 0

    def covers(self, case: Case) -> bool:
        return bool(re.fullmatch(self.name, case.name) and re.search(self.cases, case.id))


class Worker:
    """A worker process and what it is busy with."""

    def __init__(self, ours: str, cache: str, settings: dict[str, Any]):
        context = multiprocessing.get_context("spawn")
        self.pipe, child = context.Pipe()
        self.process = context.Process(
            target=work, args=(child, ours, cache, settings), daemon=True
        )
        self.process.start()
        child.close()
        self.pending: list[int] = []
        self.heard = time.monotonic()
        self.ready = False

    def give(self, numbers: list[int]) -> None:
        self.pending = list(numbers)
        self.heard = time.monotonic()
        self.pipe.send(numbers)

    def stop(self) -> None:
        self.pipe.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.terminate()


def run_cases(
    cases: list[Case],
    chosen: list[int],
    ours: str,
    count: int,
    cache: str,
    settings: dict[str, Any],
) -> dict[int, Result]:
    """Deal the chosen cases out, those of one name to one worker.

    A case during which its worker dies or falls silent has that as its result; the rest go on.
    """
    groups: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for number in chosen:
        groups[cases[number].section, cases[number].name].append(number)
    queue = collections.deque(groups.values())
    results: dict[int, Result] = {}
    workers: dict[Connection, Worker] = {}

    def start() -> None:
        worker = Worker(ours, cache, settings)
        workers[worker.pipe] = worker

    for _ in range(min(count, len(queue))):
        start()
    while workers:
        for worker in workers.values():
            if time.monotonic() - worker.heard > SILENCE:
                worker.process.kill()
        for pipe in wait(list(workers), timeout=5):
            worker = workers[pipe]  # type: ignore[index]
            worker.heard = time.monotonic()
            try:
                result = worker.pipe.recv()
            except (EOFError, ConnectionError):
                del workers[worker.pipe]
                worker.stop()
                if not worker.ready:
                    sys.exit("a worker could not start: its error is above")
                if worker.pending:
                    culprit, *rest = worker.pending
                    died = f"the process died or hung (exit code {worker.process.exitcode})"
                    results[culprit] = Result(culprit, "differ", died)
                    if rest:
                        queue.appendleft(rest)
                if queue:
                    start()
                continue
            worker.ready = True
            if result is not None:
                worker.pending.remove(result.number)
                results[result.number] = result
                progress(len(results), len(chosen))
            elif queue:
                worker.give(queue.popleft())
            else:
                del workers[worker.pipe]
                worker.stop()
    return results


def progress(done: int, total: int) -> None:
    """A counter on a terminal; elsewhere a line for each tenth."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total}", end="" if done < total else "\r", file=sys.stderr, flush=True)
    elif done % max(total // 10, 1) == 0:
        print(f"{done} of {total} cases", file=sys.stderr, flush=True)


def choose(cases: list[Case], only: str, quick: bool) -> list[int]:
    """Numbers of the cases to run; quick takes two of a name and every eighth of the rest."""
    position: dict[tuple[str, str], int] = collections.Counter()
    chosen = []
    for number, case in enumerate(cases):
        where = position[case.section, case.name]
        position[case.section, case.name] += 1
        if only and not re.search(only, f"{case.section} {case.name} {case.id}"):
            continue
        if quick and where >= 2 and where % 8:
            continue
        chosen.append(number)
    return chosen


def coverage(cases: list[Case], ours: str) -> dict[str, dict[str, Any]]:
    """For each namespace: how many names the reference has, which we lack, which have no case."""
    known = {case.name for case in cases}
    found = {}
    for prefix, path in NAMESPACES.items():
        reference, mine = public_names("jax", path), public_names(ours, path)
        missing = sorted(reference - mine)
        uncovered = [
            n for n in sorted(reference & mine) if f"{prefix}.{n}" not in known | SKIPPED.keys()
        ]
        found[prefix] = {"names": len(reference), "missing": missing, "uncovered": uncovered}
    return found


def too_few(cases: list[Case], names: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Names with fewer than LEAST cases and no reason, with their counts; reasons for names that
    need none; and the least count of a name that has no reason.
    """
    counts = collections.Counter(case.name for case in cases)
    counts.update({f"{p}.{n}": 0 for p, found in names.items() for n in found["uncovered"]})
    thin = {n: k for n, k in counts.items() if k < LEAST and n not in FEW}
    idle = [n for n in SKIPPED if counts[n]] + [n for n in FEW if not 0 < counts[n] < LEAST]
    least = min((k for n, k in counts.items() if n not in FEW), default=0)
    return {"thin": thin, "idle": idle, "least": least}


def public_names(package: str, path: str) -> set[str]:
    """Public names of a module that are neither modules nor primitives, or of an array; empty
    without it.
    """
    try:
        module = importlib.import_module(
            package if path == "Array" else f"{package}.{path}".rstrip(".")
        )
    except ImportError:
        return set()
    if path == "Array":
        return {n for n in dir(module.numpy.zeros((1, 1))) if not n.startswith("_")}
    names = {n for n in dir(module) if not n.startswith("_") and not n.endswith("_p")}
    if path.endswith(".stats"):  # its distributions are modules
        return names
    return {n for n in names if not isinstance(getattr(module, n, None), types.ModuleType)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--report", type=Path, help="write everything as JSON to this file")
    parser.add_argument(
        "--only", default="", help="run cases whose section, name or text matches this regex"
    )
    parser.add_argument("--quick", action="store_true", help="about a fifth of the cases")
    parser.add_argument(
        "--self", action="store_true", help="compare JAX with itself: checks the harness"
    )
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument(
        "--cache", default="build/jax-cache", help="folder for JAX's compiled code, '' for none"
    )
    parser.add_argument(
        "--all", action="store_true", help="print every disagreement, not one for a name"
    )
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"run all cases under a setting, one of {', '.join(n[4:] for n in DEFAULTS)}",
    )
    options = parser.parse_args(arguments)
    settings = dict(setting(text) for text in options.setting)
    started = time.monotonic()
    ours = "jax" if options.self else "gpuarray"
    cases = all_cases()
    chosen = choose(cases, options.only, options.quick)
    names = coverage(cases, ours)
    few = too_few(cases, names) if not options.only else {}
    results = run_cases(cases, chosen, ours, options.jobs, options.cache, settings)
    reasons = [] if options.self else read_reasons()
    gate = SETTING_GATE if settings else AGREEMENT_GATE
    report = summarize(cases, results, reasons, not (options.only or options.quick), gate)
    report["coverage"] = names
    report["few"] = few
    report["ok"] &= not (few.get("thin") or few.get("idle"))
    report["seconds"] = round(time.monotonic() - started, 1)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(report, indent=1, default=str) + "\n")
    print_report(report, every=options.all)
    return 0 if report["ok"] else 1


def setting(text: str) -> tuple[str, Any]:
    """`numpy_rank_promotion=raise` as a name and a value of that setting."""
    name, _, value = text.partition("=")
    name = f"jax_{name}"
    if name not in DEFAULTS:
        sys.exit(f"--setting {text}: the name must be one of {[n[4:] for n in DEFAULTS]}")
    return name, value == "True" if isinstance(DEFAULTS[name], bool) else value


def read_reasons() -> list[Reason]:
    path = Path(__file__).with_name("exceptions.toml")
    entries = tomllib.loads(path.read_text()).get("exception", []) if path.exists() else []
    return [Reason(**entry) for entry in entries]


def summarize(
    cases: list[Case], results: dict[int, Result], reasons: list[Reason], whole: bool, gate: float
) -> dict[str, Any]:
    """Counts by section, disagreements with their reasons, and whether the gates hold."""
    sections: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    differing, words = [], []
    for number in sorted(results):
        case, result = cases[number], results[number]
        sections[case.section][result.status] += 1
        covering = [reason for reason in reasons if reason.covers(case)]
        for reason in covering:
            reason.seen += 1
        if result.status == "differ":
            for reason in covering:
                reason.used += 1
            why = covering[0].reason if covering else ""
            differing.append(
                {
                    "section": case.section,
                    "name": case.name,
                    "case": case.id,
                    "reason": result.reason,
                    "explained": why,
                }
            )
        if result.other_words:
            words.append(
                {"case": case.id, "error": result.error, "words": result.other_words[:400]}
            )
    counted = {name: counts for name, counts in sections.items() if name != "jaxpr"}
    agree = sum(c["agree"] for c in counted.values())
    differ = sum(c["differ"] for c in counted.values())
    rate = 100 * agree / max(agree + differ, 1)
    jaxprs = sections.get("jaxpr", collections.Counter())
    jaxpr_gate = JAXPR_GATE if whole else 0
    broken = [
        {"case": cases[n].id, "reason": r.reason}
        for n, r in results.items()
        if r.status == "broken"
    ]
    stale = [r.name + (f" {r.cases}" if r.cases else "") for r in reasons if whole and not r.used]
    return {
        "sections": {name: dict(counts) for name, counts in sections.items()},
        "agreement": round(rate, 2),
        "jaxprs_equal": jaxprs["agree"],
        "gate": gate,
        "ok": rate >= gate and jaxprs["agree"] >= jaxpr_gate and not broken,
        "passed": agree + jaxprs["agree"],
        "explained": sum(bool(d["explained"]) for d in differing),
        "failed": sum(not d["explained"] for d in differing),
        "differing": differing,
        "stale": stale,
        "broken": broken,
        "missing": sorted({cases[n].name for n, r in results.items() if r.status == "missing"}),
        "other_words": words,
        "slowest": [
            (round(r.seconds, 2), cases[r.number].id)
            for r in sorted(results.values(), key=lambda r: -r.seconds)[:40]
        ],
    }


def print_report(report: dict[str, Any], every: bool) -> None:
    """The tables a person reads."""
    print(f"{'section':<14}{'cases':>7}{'agree':>7}{'%':>8}{'missing':>9}{'beyond':>8}")
    for name, counts in report["sections"].items():
        agree, differ = counts.get("agree", 0), counts.get("differ", 0)
        rate = 100 * agree / max(agree + differ, 1)
        row = f"{name:<14}{agree + differ:>7}{agree:>7}{rate:>8.2f}"
        print(row + f"{counts.get('missing', 0):>9}{counts.get('beyond', 0):>8}")
    print_differing(report["differing"], every)
    print_names(report)
    for entry in report["broken"]:
        print(f"broken case: {entry['case']}: {entry['reason']}")
    for entry in report["stale"]:
        print(f"stale exception (nothing differs any more): {entry}")
    if report["missing"]:
        print(f"not there, their cases count for nothing: {shorten(report['missing'])}")
    if few := report["few"]:
        for name, count in sorted(few["thin"].items()):
            print(f"too few cases: {name} has {count} of {LEAST} (recipes.FEW takes a reason)")
        for name in few["idle"]:
            print(f"a reason without need: {name} in recipes.FEW or recipes.SKIPPED")
        print(
            f"\nfewest cases of a name: {few['least']} ({len(FEW)} names have a reason for fewer)"
        )
    print(f"\nright error, other words: {len(report['other_words'])} (for information)")
    print(f"jaxprs printed alike: {report['jaxprs_equal']} (gate {JAXPR_GATE})")
    print(f"agreement, jaxprs aside: {report['agreement']:.2f}% (gate {report['gate']}%)")
    print(f"{report['explained']} disagreements have a reason; {report['seconds']} s")
    # Disagreements within the gate are no failed tests: they have a line of their own.
    verdict = "passes" if report["ok"] else "FAILS"
    print(f"parity {verdict}: {report['passed']} agree, {report['failed']} differ unexplained")


def print_differing(differing: list[dict[str, str]], every: bool) -> None:
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = collections.defaultdict(list)
    for entry in differing:
        groups[entry["section"], entry["name"], entry["explained"]].append(entry)
    if groups:
        print("\ndisagreements, by name")
    for (section, name, explained), entries in groups.items():
        note = f"  [{explained}]" if explained else ""
        print(f"  {section}: {name}: {len(entries)}{note}")
        for entry in entries if every else entries[:1]:
            print(f"      {entry['case']}\n        {entry['reason']}")


def print_names(report: dict[str, Any]) -> None:
    print(f"\n{'namespace':<24}{'names':>7}{'missing':>9}{'no case':>9}")
    total = uncovered = missing = 0
    for path, found in report["coverage"].items():
        print(
            f"{path:<24}{found['names']:>7}{len(found['missing']):>9}{len(found['uncovered']):>9}"
        )
        total += found["names"]
        missing += len(found["missing"])
        uncovered += len(found["uncovered"])
        for label in ("missing", "uncovered"):
            if found[label]:
                print(f"    {label}: {shorten(found[label])}")
    present = total - missing
    covered = 100 * (present - uncovered) / max(present, 1)
    print(f"names present: {present}/{total}; of these {covered:.2f}% have a case")


def shorten(names: Iterable[str], limit: int = 1000) -> str:
    text = " ".join(names)
    return text if len(text) <= limit else text[:limit] + " ..."


if __name__ == "__main__":
    sys.exit(main())
