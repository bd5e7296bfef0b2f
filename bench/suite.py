"""The whole suite on a GPU, most important first, in as much time as there is.

In: seconds, and a folder. Out: `NAME-COMMIT.json`, `.txt`, `.svg` there, written after each step:
nothing is lost when time runs out, and a later run goes on where this one ended. Every library runs
in a process of its own (worker.py): one that breaks, hangs or takes the GPU down costs one figure.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import host, peers, results, versions
from bench.host import ROOT
from bench.measure import Record
from bench.peers import (
    CUPY,
    CUPY_FUSE,
    FUSED,
    JAX,
    TORCH,
    TORCH_AUTOTUNE,
    TORCH_COMPILE,
    UNFUSED,
)
from bench.workloads import BY_NAME, WORKLOADS, Workload
from gpuarray.cli.timing import Samples

#: Which peers share a process.
PROCESSES = ((FUSED, UNFUSED), (JAX,), (TORCH, TORCH_COMPILE), (CUPY, CUPY_FUSE), (TORCH_AUTOTUNE,))
#: Peers in the order in which they are measured on a workload, but for the one that takes long;
#: those of one process together, which keeps the arrays for the next.
TURNS = (FUSED, UNFUSED, JAX, TORCH_COMPILE, TORCH, CUPY_FUSE, CUPY)
#: Seconds after which a step is given up: of most, of the one that tries many kernels, to start.
LIMIT, LONG_LIMIT, START_LIMIT = 60.0, 150.0, 120.0
#: Seconds that a peer is timed on a workload.
TIMED = 0.35
#: Words in an error after which a process cannot be relied upon.
BROKEN = re.compile(r"cuda|device|memory|xla|driver", re.IGNORECASE)


class Step(NamedTuple):
    """Something to ask a process for."""

    do: str  # measure, first or host
    name: str
    peer: str


class Process:
    """A worker; it is started when it is first asked, and again after it broke."""

    def __init__(self, wanted: tuple[str, ...], environment: dict[str, str], log: Path):
        self._wanted, self._environment, self._log = wanted, environment, log
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Begin to start, without waiting for it."""
        if self._process is not None and self._process.poll() is None:
            return
        self._answers = answers = queue.Queue()
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker", ",".join(self._wanted)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | self._environment,
                cwd=ROOT,
            )
        out = self._process.stdout

        def read() -> None:
            assert out is not None
            for line in out:
                answers.put(line)
            answers.put("")

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def ask(self, limit: float, **request: Any) -> dict[str, Any]:
        """The answer to a request; what went wrong is one too."""
        self.start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=limit)
        except queue.Empty:
            self.stop()
            return {"failed": f"gave no answer within {limit:.0f} s"}
        except OSError:
            line = ""
        if not line:
            status = self._process.wait()
            self.stop()
            return {"failed": f"its process ended with status {status}: {_end_of(self._log)}"}
        answer = json.loads(line)
        if BROKEN.search(answer.get("failed", "")):
            self.stop()
        return answer

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._reader is not None:
                self._reader.join(5.0)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                try:
                    pipe.close()
                except OSError:  # what was not read by a process that died
                    continue
            self._process = None


def _end_of(log: Path, count: int = 300) -> str:
    """The end of what a process printed, in one line."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return " ".join(text[-count:].split())


class Suite:
    """A run: what it has found so far, and where it writes that.

    processes: for each tuple of peers, what can be asked (Process, or the like)
    """

    def __init__(
        self,
        processes: dict[tuple[str, ...], Any],
        out: Path,
        budget: float,
        only: str = "",
        quick: bool = False,
        fresh: dict[tuple[str, ...], Any] | None = None,
        say: Callable[[str], None] = print,
    ):
        self.processes, self.fresh = processes, fresh or {}
        self.out, self.only, self.quick, self.say = out, only, quick, say
        self.end = time.monotonic() + budget
        self.records: dict[str, Record] = {}
        self.around: dict[str, Any] = {}
        self.compiled: set[tuple[str, str]] = set()  # whose machine code this run's cache has
        self.left: list[Step] = []

    # ---- the steps ----
    def steps(self) -> Iterator[Step]:
        """All there is to do, the most telling first."""
        chosen = [w for w in WORKLOADS if w.gpu is not None and self._wanted(w.name)]
        here = self.around["peers"]
        for w in chosen:
            yield from (Step("measure", w.name, p) for p in TURNS if p in here and _fits(w, p))
            yield Step("first", w.name, FUSED)
        half = len(chosen) // 2
        slow = [Step("measure", w.name, TORCH_AUTOTUNE) for w in chosen if _fits(w, TORCH_AUTOTUNE)]
        slow = slow if TORCH_AUTOTUNE in here else []
        yield from slow[:half]
        yield from (
            Step("host", c.name, p)
            for c in host.HOST
            if self._wanted(c.name)
            for p in (FUSED, JAX, TORCH)
            if p in here
        )
        yield from slow[half:]
        for p in (JAX, TORCH_COMPILE):
            yield from (Step("first", w.name, p) for w in chosen if p in here)

    def _wanted(self, name: str) -> bool:
        return re.search(self.only, name) is not None

    def run(self) -> dict[str, Record]:
        """Do as much as there is time for."""
        self.begin()
        for step in self.steps():
            if self.is_done(step):
                continue
            remaining = self.end - time.monotonic()
            if remaining < 2.0:
                self.left.append(step)
                continue
            limit = LONG_LIMIT if step.peer == TORCH_AUTOTUNE else LIMIT
            self.take(step, min(limit, remaining))
            self.write()
        self.write()
        for process in (*self.processes.values(), *self.fresh.values()):
            process.stop()
        return self.records

    def begin(self) -> None:
        """Start everybody, say who is here, measure the roofs; go on with what is written."""
        for process in self.processes.values():
            process.start()
        here: dict[str, str] = {}
        missing: dict[str, str] = {}
        for wanted, process in self.processes.items():
            limit = max(1.0, min(START_LIMIT, self.end - time.monotonic()))
            answer = process.ask(limit, do="hello")
            found = answer.get("result", {})
            here |= found.get("peers", {})
            missing |= found.get("missing", {})
            if "failed" in answer:
                missing.update(dict.fromkeys(wanted, str(answer["failed"])))
        roofs = self._of(FUSED).ask(LIMIT, do="roofs", **self._small_roofs())
        if "failed" in roofs:
            raise RuntimeError(f"no GPU to measure on: {roofs['failed']}")
        found = roofs["result"]
        self.around = {
            "peers": {p: str(here[p]) for p in peers.GPU if p in here},
            "missing": missing,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": found["gpu"],
            "cores": os.cpu_count(),
            "threads": 1,
            "quick": self.quick,
            "commit": commit(),
            "command": " ".join(["python -m bench", *sys.argv[1:]]),
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            **found,
        }
        self._read()

    def _small_roofs(self) -> dict[str, int]:
        return {"elements": 1 << 16, "side": 64} if self.quick else {}

    def _of(self, peer: str, fresh: bool = False) -> Any:
        """The process of a peer."""
        processes = self.fresh if fresh else self.processes
        return next(p for names, p in processes.items() if peer in names)

    def record(self, step: Step) -> Record:
        """Where the figures of a step belong."""
        w = BY_NAME.get(step.name)
        if step.name not in self.records:
            if w is None:
                title = next(c.title for c in host.HOST if c.name == step.name)
                self.records[step.name] = Record(step.name, title, "gpu")
            else:
                title = f"{w.labelled(w.size(True, self.quick))}, {w.dtype}"
                allowed = w.allowed(w.dtype)
                self.records[step.name] = Record(step.name, title, "gpu", tolerance=allowed)
        return self.records[step.name]

    def is_done(self, step: Step) -> bool:
        """Whether an earlier run did it; or, for a call that finds the cache filled, whether this
        run has not filled it.
        """
        record = self.record(step)
        if step.do == "first":
            known = record.details.get(step.peer, {})
            return "first_cached" in known or (step.name, step.peer) not in self.compiled
        return step.peer in record.details or step.peer in record.failed

    def take(self, step: Step, limit: float) -> None:
        """Do a step."""
        record = self.record(step)
        if why := versions.left_out(step.name, step.peer):
            record.failed[step.peer] = why
            return
        request: dict[str, Any] = {"do": step.do, "peer": step.peer}
        if step.do == "host":
            request |= {"cost": step.name, "seconds": TIMED / 2}
        else:
            request |= {"workload": step.name, "quick": self.quick}
        if step.do == "measure":
            request["seconds"] = TIMED
        started = time.monotonic()
        answer = self._of(step.peer, step.do == "first").ask(limit, **request)
        took = time.monotonic() - started
        words = answer.get("failed") or "done"
        self.say(f"{step.do} {step.name} {step.peer}: {words} ({took:.1f} s)")
        if "failed" in answer:
            if step.do != "first":
                record.failed[step.peer] = answer["failed"]
            return
        found = answer["result"]
        if step.do == "first":
            record.details[step.peer]["first_cached"] = found["first"]
            return
        record.details[step.peer] = found or {"note": "nothing of the sort"}
        if found is None:
            return
        record.samples[step.peer] = Samples(found["wall"])
        if step.do == "measure":
            self.compiled.add((step.name, step.peer))
            record.errors[step.peer] = max(found["errors"].values(), key=_or_nan)
            self._floor(record, BY_NAME[step.name])

    def _floor(self, record: Record, w: Workload) -> None:
        """What no library can go below here: memory, instructions, products."""
        size, around = w.size(True, self.quick), self.around
        nbytes = max(d["bytes"] for d in record.details.values() if "bytes" in d)
        plan = record.details.get(FUSED, {}).get("plan", {})
        record.bytes, record.bytes_unfused = nbytes, plan.get("bytes_unfused", 0)
        record.launches, record.flops = plan.get("launches", 0), plan.get("flops", 0.0)
        floors = [nbytes / around["copy_bytes_per_second"]]
        for count, rate in (
            (w.instructions, around.get("instructions_per_second")),
            (w.products, around.get("products_per_second")),
        ):
            if count is not None and rate:
                floors.append(count(*size) / rate)
        record.floor = max(floors)

    # ---- files ----
    @property
    def path(self) -> Path:
        """The figures."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", self.around["gpu"]).strip("-").lower()
        quick = "-quick" if self.quick else ""
        return self.out / f"{name}-{self.around['commit']}{quick}.json"

    def _read(self) -> None:
        """Go on with what an earlier run of the same code on the same kind of GPU has written."""
        if self.path.exists():
            data = json.loads(self.path.read_text(encoding="utf-8"))
            for name, plain in data["workloads"].items():
                self.records[name] = Record.from_plain(name, plain)

    def write(self) -> list[Path]:
        """Everything so far."""
        self.around["left"] = len(self.left)
        found = [r for r in self.records.values() if r.details or r.failed]
        return results.write_gpu(self.path, found, self.around)


def _or_nan(error: float) -> float:
    """For the larger of two errors, where one that is no number is the largest."""
    return float("inf") if error != error else error


def _fits(w: Workload, peer: str) -> bool:
    """Whether a peer has anything of its own for a workload."""
    if peer == CUPY_FUSE:
        return w.pointwise and w.compiled
    return w.compiled or peer not in (TORCH_COMPILE, TORCH_AUTOTUNE)


def commit() -> str:
    """Which code this is: the commit; where it was changed, or Git is not, a sum of the sources."""
    head, changed = _git("rev-parse", "--short=10", "HEAD"), _git("status", "--porcelain")
    if head and not changed:
        return head
    digest = hashlib.sha256()
    folders = ("gpuarray", "kernels", "bench", "tests")
    for path in sorted(p for name in folders for p in (ROOT / name).rglob("*")):
        if path.suffix in (".py", ".cuh", ".cu"):
            digest.update(path.read_bytes())
    return f"{head or 'sources'}-{digest.hexdigest()[:8]}"


def _git(*words: str) -> str:
    """What Git says; nothing where it is not, or this is no checkout of its own."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return ""
    ask = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(ask, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def processes(
    folder: Path,
) -> tuple[dict[tuple[str, ...], Process], dict[tuple[str, ...], Process]]:
    """Workers whose caches are empty at first, and as many that come later and find them filled."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "GPUARRAY_CACHE_DIR": str(folder / "gpuarray"),
        "CUPY_CACHE_DIR": str(folder / "cupy"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def made(suffix: str) -> dict[tuple[str, ...], Process]:
        return {
            names: Process(names, environment, folder / f"{names[0]}{suffix}.log")
            for names in PROCESSES
        }

    return made(""), made("-again")
