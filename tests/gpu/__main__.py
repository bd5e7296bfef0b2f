"""`python -m tests.gpu PART [--budget SECONDS] [--only RE] [--jobs N]`: see __init__.py.

In: a part. Out: lines as things end, files under build/gpu, a summary there and in $OUT that is
written anew whenever something has ended; the exit status is 1 if something failed, 3 if nothing
did but time ran out before the end.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import gpuarray as ga
from bench.suite import commit
from tests.gpu import devices, first, golden, shard, ulps

ROOT = Path(__file__).resolve().parents[2]
BENCH = [sys.executable, "-m", "bench", "--gpu"]
#: Warnings are errors in tests, but not those that CuPy brings about: its NumPy may be another.
QUIET = ["-o", "filterwarnings=error\ndefault:::cupy\ndefault::DeprecationWarning"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUIET]
GOLDEN = [sys.executable, "-m", "tests.gpu.golden"]
#: The workloads of `quick`, and who takes part.
SIX = "^(saxpy|softmax|full_sum|layer_norm|dispatch_jit|mandelbrot)$"
#: Tests that say most about a GPU come first.
FIRST = "elementwise folds gather kernel tiles loops random jit lazy numpy nn".split()
#: Test files that launch nothing on a GPU: those that say so, by what they run kernels on, and
#: those of settings, texts, tools and other machines.
ELSEWHERE = re.compile(r"(?m)^simulated\.need_compiler\(\)|tests\.fake_cupy|fake_gpu")
NOTHING = set(
    "bench cli compat config coverage cubins cuda_text dtypes floors gpu_parts kernel_counts "
    "mesh nearness parity_harness project reference references simplify tree".split()
)
#: Rooms whose tests are about the CPU's ways to run a program.
CPU_ROOMS = ("unit/backends/numpy/", "unit/backends/native/", "unit/compiler/native/")
#: Seconds that a command may take, and that one thing in it may.
BUDGET, LIMIT = 540.0, 280.0
#: Shares of the generic tests. The number is fixed, so that a later run goes on with the same.
SHARES = 14
#: Shares of the programs of tests/least_bytes: they compile side by side.
LEAST = 8
PARTS = "first devices quick generic tests bench least sanitize repeat long".split()
#: What the part `least` found, in one file.
ONE = "least.json"
#: The exit status of what goes on where it ended when it is run again.
MORE = 3


class Item(NamedTuple):
    """Something to try: a name and a command; `report` is JUnit's file, or that of a share of the
    tests, where it writes one.
    """

    name: str
    command: list[str]
    report: Path | None = None
    limit: float = LIMIT


def phases(part: str, folder: Path, budget: float, jobs: int) -> list[tuple[int, list[Item]]]:
    """What a part consists of, and how many of it at a time: figures want the machine alone."""
    figures = ["--out", str(folder / "figures")]
    if part == "quick":
        doctor = Item("doctor", [sys.executable, "-m", "gpuarray", "doctor"], limit=60)
        six = [*BENCH, "--only", SIX, "--peers", "fused,jax,torch", "--budget", "60", *figures]
        each = [Item(f"golden-{n}", [*GOLDEN, n], limit=60) for n in golden.all_programs()]
        return [(jobs, [doctor, *each]), (1, [Item("six", six, limit=100)])]
    if part == "bench":
        command = [*BENCH, "--budget", f"{max(budget - 15, 5):g}", *figures]
        return [(1, [Item("bench", command, limit=budget)])]
    if part == "first":
        command = [sys.executable, "-m", "tests.gpu.first"]
        return [(1, [Item(n, [*command, n], limit=90) for n in first.QUESTIONS])]
    if part == "devices":
        command = [sys.executable, "-m", "tests.gpu.devices"]
        return [(1, [Item(n, [*command, n], limit=120) for n in devices.GROUPS])]
    if part == "generic":
        return [(max(jobs, min(SHARES, (os.cpu_count() or 2) - 2)), _shares(folder))]
    if part == "tests":
        return [(jobs, _test_files(folder))]
    if part == "least":
        # JAX afterwards: what it keeps of the memory is not there for us.
        libraries = ["ours"] + ["jax"] * (importlib.util.find_spec("jax") is not None)
        return [(LEAST, _timed(folder, library)) for library in libraries]
    if part == "repeat":
        return [(jobs, [Item(n, [*GOLDEN, "--repeat", "100", n]) for n in golden.all_programs()])]
    if part == "long":
        each = [Item(n, [sys.executable, "-m", "tests.gpu.ulps", n]) for n in ulps.FUNCTIONS]
        return [(jobs, each)]
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        sys.exit("compute-sanitizer is not on the PATH: the part `sanitize` needs it")
    each = [
        Item(
            f"{check}-{kind}",
            [tool, "--tool", check, "--error-exitcode", "9", *GOLDEN, "--no-pool", name],
        )
        for check in ("memcheck", "racecheck", "synccheck", "initcheck")
        for kind, name in golden.kinds().items()
    ]
    return [(min(jobs, 2), each)]


def _shares(folder: Path) -> list[Item]:
    """The generic tests, every fourteenth of them in one process."""
    made = []
    for k in range(SHARES):
        report = folder / f"share-{k}.jsonl"
        options = ["-p", "tests.gpu.shard", f"--share={k}/{SHARES}", f"--results={report}"]
        command = [*PYTEST, str(ROOT / "tests" / "generic"), *options]
        made.append(Item(f"share-{k}", command, report, BUDGET))
    return made


def _timed(folder: Path, library: str) -> list[Item]:
    """The programs that move the least, by ours or by JAX."""
    made = []
    for k in range(LEAST):
        report = folder / f"{library}-{k}.jsonl"
        options = [f"--share={k}/{LEAST}", f"--results={report}"]
        command = [sys.executable, "-m", "tests.gpu.least", *options]
        command += ["--jax"] * (library == "jax")
        made.append(Item(report.stem, command, report, BUDGET))
    return made


def launches(path: Path) -> bool:
    """Whether the tests of a file launch anything on a GPU."""
    if any(room in path.as_posix() for room in CPU_ROOMS):
        return False
    if path.stem.removeprefix("test_") in NOTHING or {"ecosystem", "generic"} & set(path.parts):
        return False
    return not ELSEWHERE.search(path.read_text(encoding="utf-8"))


def _test_files(folder: Path) -> list[Item]:
    """The other tests, a process for each file."""
    files = [f for f in sorted((ROOT / "tests").rglob("test_*.py")) if launches(f)]

    def rank(path: Path) -> int:
        name = str(path.relative_to(ROOT))
        return next((i for i, word in enumerate(FIRST) if word in name), len(FIRST))

    made = []
    for path in sorted(files, key=rank):
        name = "-".join(path.relative_to(ROOT / "tests").with_suffix("").parts)
        report = folder / f"{name}.xml"
        made.append(Item(name, [*PYTEST, str(path), f"--junitxml={report}"], report))
    return made


def attempt(item: Item, folder: Path, limit: float) -> dict[str, Any]:
    """How a command went; what it printed is in a file."""
    log = folder / f"{item.name}.log"
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as out:
        try:
            status: int | str = subprocess.run(
                item.command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=max(min(item.limit, limit), 0.1),
                # Plugins of a machine that is not ours bring warnings, which are errors here.
                env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = "out of time"
    found: dict[str, Any] = {"name": item.name, "status": status}
    found["seconds"] = round(time.monotonic() - started, 1)
    if status != 0:
        found["end"] = log.read_text(encoding="utf-8", errors="replace")[-1500:]
    if item.report is not None and item.report.exists():
        found |= _counts(item.report)
    return found


def _counts(report: Path) -> dict[str, Any]:
    """How many passed, and which did not; of shares of the tests also how many asked nothing of a
    GPU.
    """
    if report.suffix == ".jsonl":
        lines = shard.results_in(report)
        if lines and "least" in lines[0]:
            bad = [f"{x['name']}: {x['failed']}" for x in lines if "failed" in x]
            return {"passed": len(lines) - len(bad), "failed": bad}
        outcomes = [line["outcome"] for line in lines]
        bad = [f"{x['id']}: {x['why'][-200:]}" for x in lines if x["outcome"] == "failed"]
        idle = sum(line["tickets"] == 0 for line in lines)
        return {"passed": outcomes.count("passed"), "failed": bad, "idle": idle}
    passed, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        bad = [x for kind in ("failure", "error") for x in case.findall(kind)]
        if bad:
            failed.append(f"{case.get('name')}: {(bad[0].get('message') or '')[:200]}")
        elif case.find("skipped") is None:
            passed += 1
    return {"passed": passed, "failed": failed}


def said(found: dict[str, Any]) -> str:
    """A result as a line."""
    counts = (
        f", {found['passed']} passed, {len(found['failed'])} failed" if "passed" in found else ""
    )
    words = "ok" if found["status"] == 0 else f"FAILED ({found['status']})"
    return f"{found['name']}: {words}{counts} ({found['seconds']} s)"


def run(
    part: str, todo: list[tuple[int, list[Item]]], folder: Path, budget: float, say: Callable
) -> int:
    """Try what has not been tried, as far as there is time; the exit status."""
    end = time.monotonic() + budget
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, dict[str, Any]] = {}
    left: list[str] = []
    homes = [folder, *([Path(os.environ["OUT"])] if os.environ.get("OUT") else [])]
    lock = threading.Lock()

    def note() -> None:
        """Write down what there is: who runs this may be stopped at any time."""
        with lock:
            summary = {"part": part, "commit": folder.parent.name, "left": left, "results": done}
            text = json.dumps(summary, indent=1)
            for home in homes:
                (home / f"gpu-{part}.json").write_text(text, encoding="utf-8")
            if part == "least":
                lines = [
                    x for path in sorted(folder.glob("*.jsonl")) for x in shard.results_in(path)
                ]
                (folder / ONE).write_text(json.dumps(lines), encoding="utf-8")
            for path in (*folder.glob("figures/*.*"), *folder.glob("*.jsonl"), *folder.glob(ONE)):
                for home in homes[1:]:
                    shutil.copy(path, home)

    def take(item: Item) -> None:
        attempt_once(item)
        note()

    def attempt_once(item: Item) -> None:
        path = folder / f"{item.name}.json"
        if path.exists():
            done[item.name] = json.loads(path.read_text(encoding="utf-8"))
            return
        remaining = end - time.monotonic()
        if remaining < 3:
            left.append(item.name)
            return
        found = attempt(item, folder, remaining)
        if found["status"] == MORE or found["status"] == "out of time" and remaining < item.limit:
            left.append(item.name)  # a later run has more time for it
            say(f"{item.name}: not at its end ({found['seconds']} s)")
            return
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
        done[item.name] = found
        say(said(found))

    for jobs, each in todo:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(take, each))
    bad = [f for f in done.values() if f["status"] not in (0, 5)]  # 5: no test in that file
    for found in bad:
        say(f"\n--- {said(found)}")
        say("\n".join(found.get("failed", [])[:20]) or found.get("end", "")[-1000:])
    say(f"\n{part}: {len(done) - len(bad)} ok, {len(bad)} failed, {len(left)} left: {left[:8]}")
    return 1 if bad else MORE if left else 0


def main() -> int:
    """Run a part."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--budget", type=float, default=500.0, metavar="SECONDS")
    parser.add_argument("--only", default="", metavar="RE", help="things whose name matches")
    parser.add_argument("--jobs", type=int, default=0, help="so many at a time")
    args = parser.parse_args()
    if not 0 < args.budget <= BUDGET:
        parser.error(f"--budget must be at most {BUDGET:g} seconds, got {args.budget:g}")
    ga.config.update("jax_platforms", "cpu")  # here; what is started sees the GPU
    folder = ROOT / "build" / "gpu" / commit() / args.part
    folder.mkdir(parents=True, exist_ok=True)
    jobs = args.jobs or min(6, max(1, (os.cpu_count() or 2) // 2))
    todo = [
        (n, [i for i in each if re.search(args.only, i.name)])
        for n, each in phases(args.part, folder, args.budget, jobs)
    ]
    return run(args.part, todo, folder, args.budget, lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(main())
