"""Records as a table, as JSON, as a picture.

In: Records and what they were measured on. Out: text and files. Ratios are ours against the peer:
above 1 ours is faster.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Record
from bench.peers import ALL, FUSED, OURS, Peer
from gpuarray.cli import charts
from gpuarray.cli.timing import duration
from gpuarray.compiler.report import columns, plural
from gpuarray.drivers.tiles import thread_count


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
    return {
        "circumstances": around,
        "workloads": {
            r.name: {
                "title": r.title,
                "kind": r.kind,
                "seconds": {n: s.seconds for n, s in r.samples.items()},
                "median": {n: s.median for n, s in r.samples.items()},
                "best": {n: s.best for n, s in r.samples.items()},
                "ratio": {n: r.speedup(n) for n in r.samples if n != FUSED},
                "error": r.errors,
                "tolerance": r.tolerance,
                "bytes": r.bytes,
                "bytes_unfused": r.bytes_unfused,
                "launches": r.launches,
            }
            for r in records
        },
    }


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
    for ours, words in ((True, "WRONG RESULTS"), (False, "peers that are less exact")):
        lines = [
            f"{r.name}: {n} is off by {r.errors[n]:.1e}, allowed is {r.tolerance:.0e}"
            for r in records
            for n in r.wrong
            if (n in OURS) is ours
        ]
        if lines:
            blocks.append("\n".join([words, *lines]))
    return "\n\n".join(blocks)


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
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "bench.json": json.dumps(figures(records, around), indent=1),
        "bench.txt": f"{heading(around)}\n\n{table(records, around)}\n",
        "bench.svg": charts.bars(*picture(records, around)),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    paths = [out / name for name in texts]
    if charts.can_write_png():
        charts.write_png(out / "bench.png", *picture(records, around))
        paths.append(out / "bench.png")
    return paths
