"""Records as a table, as JSON, as a picture.

In: Records and what they were measured on. Out: text and files. Ratios are ours against the peer:
above 1 ours is faster.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from bench import roofline
from bench.measure import Record
from bench.peers import ALL, FUSED, GPU, OURS, Peer
from gpuarray.cli import charts
from gpuarray.cli.timing import duration
from gpuarray.compiler.explain.tables import columns, plural, size
from gpuarray.core.threads import thread_count


def circumstances(
    here: dict[str, Peer], missing: dict[str, str], bandwidth: float, quick: bool
) -> dict[str, Any]:
    """What a figure is worth nothing without."""
    return {
        "peers": {name: peer.version for name, peer in here.items()},
        "missing": missing,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": thread_count(),
        "copy_bytes_per_second": bandwidth,
        "quick": quick,
    }


def figures(records: list[Record], around: dict[str, Any]) -> dict[str, Any]:
    """Everything, as plain data."""
    return {"circumstances": around, "workloads": {r.name: r.plain() for r in records}}


def table(records: list[Record], around: dict[str, Any]) -> str:
    """Medians, and in brackets the best; then ours against each peer."""
    present = [n for n in ALL if n in around["peers"]]
    blocks = []
    for kind, heading in (
        ("throughput", "large arrays"),
        ("host", "host cost"),
        ("overhead", "dispatch with a driver that does nothing"),
    ):
        chosen = [r for r in records if r.kind == kind]
        if not chosen:
            continue
        names = [n for n in present if any(n in r.samples for r in chosen)]
        others = [n for n in names if n != FUSED]
        floor = kind == "throughput"
        head = ["", *names, *(f"vs {n}" for n in others), *(["of copy"] if floor else [])]
        rows = [head]
        for r in chosen:
            row = [f"{r.name}: {r.title}"]
            row += [_time(r, n) for n in names]
            row += [_ratio(r.speedup(n)) for n in others]
            if floor:
                row.append(_share(r, around["copy_bytes_per_second"]))
            rows.append(row)
        blocks.append("\n".join([heading, *columns(rows, right=range(1, len(head)))]))
    return "\n\n".join([*blocks, *_shortcomings(records)])


def _shortcomings(records: list[Record]) -> list[str]:
    """Who was wrong, and who could not."""
    blocks = []
    for ours, words in ((True, "WRONG RESULTS"), (False, "peers that are less exact")):
        lines = [
            f"{r.name}: {n} is off by {r.errors[n]:.1e}, allowed is {r.tolerance:.0e}"
            for r in records
            for n in r.wrong
            if (n in OURS) is ours
        ]
        if lines:
            blocks.append("\n".join([words, *lines]))
    lines = [f"{r.name}: {n}: {why[:160]}" for r in records for n, why in r.failed.items()]
    if lines:
        blocks.append("\n".join(["could not", *lines]))
    return blocks


def _time(r: Record, name: str) -> str:
    samples = r.samples.get(name)
    if samples is None:
        return "-"
    return f"{duration(samples.median)} ({duration(samples.best)})"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _share(r: Record, bandwidth: float) -> str:
    """The speed of a plain copy of the same bytes, as a share of what ours reached."""
    if FUSED not in r.samples or not r.bytes:
        return "-"
    return f"{100 * r.bytes / bandwidth / r.samples[FUSED].median:.0f}%"


def heading(around: dict[str, Any]) -> str:
    """One line that says what was compared on what."""
    peers = ", ".join(f"{name} {version}" for name, version in around["peers"].items())
    quick = ", QUICK: sizes too small to judge by" if around["quick"] else ""
    copied = around["copy_bytes_per_second"] / 1e9
    return (
        f"{peers}; Python {around['python']} on {around['machine']}, "
        f"{plural(around['cores'], 'core')}, copy {copied:.1f} GB/s{quick}"
    )


def picture(records: list[Record], around: dict[str, Any]) -> tuple[str, str, list, list]:
    """Title, subtitle, series and panels of the chart."""
    series = [n for n in ALL if n in around["peers"]]
    panels = []
    for kind, words in (
        ("throughput", "large arrays: time of one call (median)"),
        ("host", "host cost: time of one call (median)"),
    ):
        rows = [
            (r.name, [r.samples[n].median if n in r.samples else None for n in series])
            for r in records
            if r.kind == kind
        ]
        if rows:
            panels.append(charts.Panel(words, rows, duration))
    return "gpuarray, side by side (shorter is better)", heading(around), series, panels


def write(out: Path, records: list[Record], around: dict[str, Any]) -> list[Path]:
    """Figures, table and picture in a folder; the paths written."""
    texts = {
        "bench.json": json.dumps(figures(records, around), indent=1),
        "bench.txt": f"{heading(around)}\n\n{table(records, around)}\n",
        "bench.svg": charts.bars(*picture(records, around)),
    }
    paths = _written({out / name: text for name, text in texts.items()})
    if charts.can_write_png():
        charts.write_png(out / "bench.png", *picture(records, around))
        paths.append(out / "bench.png")
    return paths


def _written(texts: dict[Path, str]) -> list[Path]:
    """The files, each whole or as it was before, whenever this process ends."""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    return list(texts)


# ---- GPUs ----


def write_gpu(path: Path, records: list[Record], around: dict[str, Any]) -> list[Path]:
    """Figures at `path`, beside them the table and two pictures."""
    return _written(
        {
            path: json.dumps(figures(records, around), indent=1),
            path.with_suffix(".txt"): f"{gpu_heading(around)}\n\n{gpu_table(records, around)}\n",
            path.with_suffix(".svg"): charts.bars(*gpu_picture(records, around)),
            path.with_suffix(".roofline.svg"): roofline.draw(
                "gpuarray and the best of the others under the roof",
                gpu_heading(around),
                records,
                around,
            ),
        }
    )


def gpu_heading(around: dict[str, Any]) -> str:
    """What was compared on what, and by which command."""
    peers = ", ".join(f"{name} {version}" for name, version in around["peers"].items())
    quick = " QUICK: sizes too small to judge by." if around["quick"] else ""
    left = f" {plural(around['left'], 'step')} left for want of time." if around["left"] else ""
    products = around.get("products_per_second")
    tera = f", bf16 products {products / 1e12:.0f} T/s" if products else ""
    return (
        f"{around['gpu']} ({around['arch']}), copy {around['copy_bytes_per_second'] / 1e9:.0f} GB/s"
        f"{tera}; {peers}; Python {around['python']}; code {around['commit']}, {around['date']}: "
        f"{around['command']}.{quick}{left}"
    )


def best_peer(r: Record) -> str | None:
    """The fastest of the others whose result is right."""
    right = [n for n in r.samples if n not in OURS and n not in r.wrong]
    return min(right, key=lambda n: r.samples[n].median, default=None)


def gpu_table(records: list[Record], around: dict[str, Any]) -> str:
    """Time of ours, its share of the floor, its cost, and how many times longer others take."""
    others = [n for n in GPU if n in around["peers"] and n != FUSED]
    head = ["", "fused", "on GPU", "of floor", "host", "first", "cached", "memory", "best other"]
    rows = [[*head, "vs best", *(f"vs {n}" for n in others)]]
    for r in records:
        mine, best = r.details.get(FUSED, {}), best_peer(r)
        device = _median(mine.get("device"))
        time = device or _median(mine.get("wall"))
        rows.append(
            [
                f"{r.name}: {r.title}",
                _seconds(_median(mine.get("wall"))),
                _seconds(device),
                f"{100 * r.floor / time:.0f}%" if time and r.floor else "-",
                _seconds(_median(mine.get("issue"))),
                _seconds(mine.get("first")),
                _seconds(mine.get("first_cached")),
                size(mine["memory"]) if mine.get("memory") is not None else "-",
                best or "-",
                _ratio(r.speedup(best)) if best else "-",
                *(_ratio(r.speedup(n)) for n in others),
            ]
        )
    absent = [f"absent: {name} ({why[:200]})" for name, why in around["missing"].items()]
    notes = [
        f"{r.name}: {n}: {d['note']}"
        for r in records
        for n, d in r.details.items()
        if d.get("note")
    ]
    if notes:
        notes.insert(0, "to be known")
    return "\n\n".join(
        filter(
            None,
            [
                "\n".join(columns(rows, right=range(1, len(rows[0])))),
                "\n".join(absent),
                "\n".join(notes),
                *_shortcomings(records),
            ],
        )
    )


def _median(values: list[float] | None) -> float | None:
    return statistics.median(values) if values else None


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(value)


def gpu_picture(records: list[Record], around: dict[str, Any]) -> tuple[str, str, list, list]:
    """Title, subtitle, series and panels: times as multiples of ours."""
    series = [n for n in GPU if n in around["peers"]]
    rows = []
    for r in records:
        if FUSED in r.samples:
            mine = r.samples[FUSED].median
            values = [r.samples[n].median / mine if n in r.samples else None for n in series]
            rows.append((r.name, values))
    panels = [charts.Panel("time of a call, ours is 1 (shorter is better)", rows, "{:.2f}x".format)]
    return "gpuarray, side by side on a GPU", gpu_heading(around), series, panels
