"""Times of the programs on a GPU as a table: `python -m tests.least_bytes.measured FILE...`.

In: files that `ci/gpu least` writes, with our times and those of JAX. Out: a table in Markdown for
each chapter: the time in which the least bytes are moved, ours, and JAX's.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HEADER = ("workload", "least", "ours", "JAX", "least/ours", "JAX/ours")
#: Two arrays in and one out: what it moves in a second is what the GPU can.
COPY = ("Maps", "a x + y")


def lines_in(path: Path) -> list[dict[str, Any]]:
    """The results in a file: a list, or a line each."""
    text = path.read_text(encoding="utf-8")
    if text.startswith("["):
        return json.loads(text)
    return [json.loads(line) for line in text.splitlines()]


def table(lines: Iterable[dict[str, Any]]) -> str:
    """The tables of all chapters, with microseconds; a program that failed has no time.

    Our time is the GPU's, where it is known, and JAX's is that of a call and a wait: for programs
    of more than some microseconds they are the same thing.
    """
    ours: dict[tuple[str, str], dict[str, Any]] = {}
    theirs: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        (theirs if line["jax"] else ours)[line["chapter"], line["name"]] = line
    rate = ours[COPY]["least"] / _seconds(ours[COPY])
    chapters: dict[str, list[str]] = {}
    for (chapter, name), line in ours.items():
        least = line["least"] / rate
        one, two = _seconds(line), _seconds(theirs.get((chapter, name), {}))
        times = [f"{1e6 * t:.1f}" if t < math.inf else "" for t in (least, one, two)]
        shares = [f"{s:.2f}" if 0 < s < math.inf else "" for s in (least / one, two / one)]
        cells = (name, *times, *shares)
        chapters.setdefault(chapter, []).append(f"| {' | '.join(cells)} |")
    head = [f"| {' | '.join(cells)} |" for cells in (HEADER, ("---",) * len(HEADER))]
    parts = ["\n".join([f"## {chapter}\n", *head, *rows]) for chapter, rows in chapters.items()]
    return "\n\n".join(parts) + "\n"


def _seconds(line: dict[str, Any]) -> float:
    return line.get("device") or line.get("wall") or math.inf


if __name__ == "__main__":
    print(table(x for name in sys.argv[1:] for x in lines_in(Path(name))), end="")
