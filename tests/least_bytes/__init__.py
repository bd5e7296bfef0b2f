"""How near programs come to the least bytes that they could move on a GPU.

In: programs as people write them, each with the bytes of what it must read and write at least. Out:
`table()`, what `ga.explain(..., platform="cuda")` says of them: docs/least-bytes.md shows it, and
`python -m tests.least_bytes` writes it anew. What the assembler makes of the kernels is beside it
(assembled.py).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import gpuarray as ga
from gpuarray.api import explain as explaining
from gpuarray.backends.cuda import cudnn
from gpuarray.compiler.explain.source import device_facts
from gpuarray.compiler.explain.tables import size
from tests.least_bytes import assembled, before, folds, pointwise, programs
from tests.least_bytes.workload import Workload

DOCS = Path(__file__).resolve().parents[2] / "docs" / "least-bytes.md"
CHAPTERS = {**pointwise.CHAPTERS, **folds.CHAPTERS, **programs.CHAPTERS}


@functools.cache
def workloads() -> dict[tuple[str, str], Workload]:
    """All of them, by chapter and name."""
    return {(c, n): w for c, made in CHAPTERS.items() for n, w in made().items()}


class Found(NamedTuple):
    """What a workload moves and starts, the lowest grade of its kernels, and what that one waits
    for.
    """

    moved: int
    launches: int
    grade: float | None
    limit: str


@functools.cache
def found(chapter: str, name: str) -> Found:
    """What `explain` says of a workload."""
    one, code = workloads()[chapter, name], made()[f"{chapter}: {name}"]
    facts = lambda plan, arch, _: device_facts(plan, arch, lambda source, arch: code)
    # With the machine code that is kept, and as if cuDNN were installed.
    with (
        mock.patch.object(explaining, "device_facts", facts),
        mock.patch.object(cudnn, "installed", lambda: True),
    ):
        e = ga.explain(one.function, platform="cuda")(*one.arguments)
    graded = [(float(k.facts["grade"]), k.facts["limit"]) for k in e.kernels if "grade" in k.facts]
    return Found(e.bytes_moved, e.launches, *min(graded, default=(None, "")))


def row(chapter: str, name: str) -> tuple[str, ...]:
    """The row of a workload."""
    one, is_ = workloads()[chapter, name], found(chapter, name)
    grade = "" if is_.grade is None else f"{is_.grade:.2f}"
    times = f"{is_.moved / one.least:.2f}"
    moved = size(one.least), size(is_.moved), times, str(is_.launches)
    code = made()[f"{chapter}: {name}"]
    # Programs of libraries' routines alone have no kernels.
    wide = f"{code.sum(lambda x: x.wide)}/{code.sum(lambda x: x.accesses)}"
    local, total = code.sum(lambda x: x.local), code.sum(lambda x: x.total)
    figures = map(str, (code.registers, code.threads, code.spills, local, wide, total))
    return name, *moved, grade, is_.limit, *(figures if total else ("",) * 6), one.why


@functools.cache
def made() -> dict[str, assembled.Assembled]:
    """What the assembler made of the workloads' kernels."""
    return assembled.kept()


def assemble() -> None:
    """Assemble the kernels whose texts have changed, and keep what that gives."""
    before, found = assembled.kept() if assembled.KEPT.exists() else {}, {}
    for (chapter, name), one in workloads().items():
        key, kernels = f"{chapter}: {name}", assembled.kernels(one)
        known = before.get(key)
        same = known is not None and known.digest == assembled.digest(kernels)
        found[key] = known if same else assembled.assembled(kernels)
    assembled.keep(found)
    made.cache_clear()


HEADER = (
    "workload", "least", "moved", "times", "launches", "grade", "limit",
    "registers", "threads", "spills", "local", "16 bytes", "instructions", "why more",
)  # fmt: skip


def table() -> str:
    """All rows, a table for each chapter."""
    parts = []
    for chapter in CHAPTERS:
        rows = [row(c, n) for c, n in workloads() if c == chapter]
        lines = [f"| {' | '.join(cells)} |" for cells in (HEADER, ("---",) * len(HEADER), *rows)]
        parts.append(f"## {chapter}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def history() -> str:
    """The chapter of what was slow once: figures before and after."""
    rows = []
    for one in before.BEFORE:
        is_, code = found(one.chapter, one.name), made()[f"{one.chapter}: {one.name}"]
        times = f"{is_.moved / workloads()[one.chapter, one.name].least:.2f}"
        figures = (
            _change(one.launches, is_.launches),
            _change(one.times, times),
            _change(one.instructions, code.sum(lambda x: x.total) or ""),
            str(code.threads or ""),
        )
        rows.append((one.name, one.what, *figures))
    head = ("program", "what was slow", "launches", "times the least", "instructions", "threads")
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]
    return f"{HISTORY}\n" + "\n".join(lines) + "\n"


def _change(old: Any, new: Any) -> str:
    return str(new) if old is None else f"{old} → {new}"


HISTORY = """## Before and after

Some of these programs were slow once. What they took when their kernels were first read, as far
as it is known, and what they take now:
"""


def summary() -> str:
    """How many there are, and how many are within 1.05 of the least."""
    ratios = [found(c, n).moved / one.least for (c, n), one in workloads().items()]
    near = sum(r <= 1.05 for r in ratios)
    return f"{near} of {len(ratios)} workloads move at most 1.05 times the least bytes."


def page() -> str:
    """The page of the documentation: what stands above the first chapter, and the tables."""
    text, _, _ = DOCS.read_text().partition("\n## ")
    text = "\n".join(
        x if " workloads move at most " not in x else summary() for x in text.splitlines()
    )
    return f"{text}\n\n{table()}\n{history()}"
