"""Times of the programs on a GPU as a page: `python -m tests.least_bytes.measured FILE...`.

In: files that `ci/gpu least` writes, with our times and those of JAX. Out: tables in Markdown, one
a chapter. Without a file: docs/gpu-times.md, of the results that it names.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.least_bytes import workloads

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "gpu-times.md"
HEADER = ("workload", "least", "GPU", "call", "JAX's call", "JAX/ours")
#: Two arrays in and one out: what it moves in a second is what the GPU can.
COPY = ("Maps", "a x + y")

Line = dict[str, Any]


def lines_in(path: Path) -> list[Line]:
    """The results in a file: a list, a line each, or with what is around them."""
    text = path.read_text(encoding="utf-8")
    if text.startswith(("[", '{"around"')):
        data = json.loads(text)
        return data if isinstance(data, list) else data["lines"]
    return [json.loads(line) for line in text.splitlines()]


def by_name(lines: Iterable[Line]) -> tuple[dict[tuple, Line], dict[tuple, Line]]:
    """Our results and JAX's, by chapter and name."""
    found: tuple[dict[tuple, Line], dict[tuple, Line]] = ({}, {})
    # In the order of the programs: shares of them ran side by side.
    places = {name: place for place, name in enumerate(workloads())}
    for line in sorted(lines, key=lambda x: places.get((x["chapter"], x["name"]), len(places))):
        found[line["jax"]][line["chapter"], line["name"]] = line
    return found


def table(lines: Iterable[Line]) -> str:
    """The tables of all chapters, with microseconds; a program that failed has no time."""
    ours, theirs = by_name(lines)
    copy = ours[COPY]
    rate = copy["least"] / copy.get("device", copy["wall"])
    chapters: dict[str, list[str]] = {}
    for (chapter, name), line in ours.items():
        other = theirs.get((chapter, name), {}).get("wall", math.inf)
        own = line.get("wall", math.inf)
        times = line["least"] / rate, line.get("device", math.inf), own, other
        cells = [f"{1e6 * t:.1f}" if t < math.inf else "" for t in times]
        cells.append(f"{other / own:.2f}" if own < math.inf and other < math.inf else "")
        chapters.setdefault(chapter, []).append(f"| {' | '.join((name, *cells))} |")
    head = [f"| {' | '.join(cells)} |" for cells in (HEADER, ("---",) * len(HEADER))]
    parts = ["\n".join([f"## {chapter}\n", *head, *rows]) for chapter, rows in chapters.items()]
    return "\n\n".join(parts) + "\n"


def summary(lines: list[Line]) -> str:
    """How the two compare, in a sentence."""
    ours, theirs = by_name(lines)
    both = [k for k, x in ours.items() if "wall" in x and "wall" in theirs.get(k, {})]
    ratios = [theirs[k]["wall"] / ours[k]["wall"] for k in both]
    first = [theirs[k]["first"] / ours[k]["first"] for k in both]
    issue = [1e6 * statistics.median(x[k]["issue"] for k in both) for x in (ours, theirs)]
    ahead, mean = sum(r >= 1 for r in ratios), statistics.geometric_mean
    return (
        f"**{ahead} of {len(ratios)} are ahead of JAX, {mean(ratios):.2f} times by geometric "
        f"mean**; first calls are {mean(first):.1f} times as fast. The median call takes "
        f"{issue[0]:.0f} microseconds of the host's time, JAX's {issue[1]:.0f}."
    )


def page() -> str:
    """The page of the documentation: what stands above the first chapter, and the tables."""
    text, _, _ = DOCS.read_text(encoding="utf-8").partition("\n## ")
    (name,) = re.findall(r"bench/results/([\w.-]+\.json)", text)
    lines = lines_in(ROOT / "bench" / "results" / name)
    text = "\n".join(summary(lines) if " are ahead of JAX, " in x else x for x in text.splitlines())
    return f"{text}\n\n{table(lines)}"


if __name__ == "__main__":
    if sys.argv[1:]:
        print(table(x for name in sys.argv[1:] for x in lines_in(Path(name))), end="")
    else:
        DOCS.write_text(page(), encoding="utf-8")
        print(DOCS)
