"""The roofline: operations a second over operations a byte, under what memory and processors allow.

In: Records of a GPU, and what was measured of it. Out: SVG text. Operations are those our plan
counts, bytes are those every library must move, so a point's height is speed alone.
"""

from __future__ import annotations

import math
import textwrap
from typing import Any

from bench.measure import Record
from bench.peers import FUSED, OURS
from gpuarray.cli.charts import COLOURS
from gpuarray.compiler.explain.drawings import FAINT, RULE, Drawing

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT = 760, 520, 70, 56, 30


def points(records: list[Record]) -> list[tuple[str, str, float, float]]:
    """Workload, peer, operations a byte, operations a second: ours, and the best of the others."""
    found = []
    for r in records:
        if not (r.flops and r.bytes):
            continue
        others = [n for n in r.samples if n not in OURS and n not in r.wrong]
        best = min(others, key=lambda n: r.samples[n].median, default=None)
        for peer in (FUSED, best):
            if peer in r.samples:
                found.append((r.name, peer, r.flops / r.bytes, r.flops / r.samples[peer].median))
    return found


def draw(title: str, subtitle: str, records: list[Record], around: dict[str, Any]) -> str:
    """The picture; both axes are logarithmic."""
    notes = textwrap.wrap(subtitle, 115)
    top = 56.0 + 16 * len(notes)
    sheet = Drawing(_WIDTH, top + _HEIGHT, title)
    sheet.text(20, 30, title, size=16, bold=True)
    for i, note in enumerate(notes):
        sheet.text(20, 49 + 16 * i, note, fill=FAINT)
    found = points(records)
    copy = around["copy_bytes_per_second"]
    roofs = [
        (around[key], words)
        for key, words in (
            ("instructions_per_second", "instructions of one number each"),
            ("products_per_second", "bf16 matrix products"),
        )
        if around.get(key)
    ]
    xs = [x for _, _, x, _ in found] or [1.0]
    left, right = 10 ** math.floor(math.log10(min(xs))), 10 ** math.ceil(math.log10(max(xs)) + 0.1)
    ys = [y for *_, y in found] + [roof for roof, _ in roofs] + [copy * left]
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)) + 0.1)

    def across(x: float) -> float:
        share = math.log(x / left) / math.log(right / left)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        share = math.log(y / low) / math.log(high / low)
        return top + (1 - share) * (_HEIGHT - _BOTTOM)

    for power in range(round(math.log10(left)), round(math.log10(right)) + 1):
        sheet.line(f"M{across(10.0**power):g} {top:g} V{up(low):g}", edge=RULE)
        sheet.text(across(10.0**power), up(low) + 18, f"{10.0**power:g}", size=11, anchor="middle")
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        sheet.line(f"M{_LEFT} {up(10.0**power):g} H{_WIDTH - _RIGHT}", edge=RULE)
        sheet.text(_LEFT - 8, up(10.0**power) + 4, f"1e{power}", size=11, anchor="end")
    sheet.text(_LEFT, up(low) + 38, "operations a byte", size=11, fill=FAINT)
    sheet.text(_LEFT, top - 6, "operations a second", size=11, fill=FAINT)
    end = min(right, high / copy)
    sheet.line(f"M{across(left):g} {up(copy * left):g} L{across(end):g} {up(copy * end):g}", "#000")
    for roof, words in roofs:
        corner = across(min(max(roof / copy, left), right))
        sheet.line(f"M{corner:g} {up(roof):g} H{_WIDTH - _RIGHT}", "#000")
        sheet.text(_WIDTH - _RIGHT, up(roof) - 5, words, size=10, anchor="end", fill=FAINT)
    for name, peer, x, y in found:
        mine = peer == FUSED
        colour = COLOURS[0] if mine else COLOURS[1]
        tip = f"{name}, {peer}: {y:.3g} operations a second, {x:.3g} a byte"
        sheet.box(across(x) - 4, up(y) - 4, 8, 8, fill=colour, radius=4 if mine else 0, tip=tip)
        if mine:
            sheet.text(across(x) + 6, up(y) + 3, name, size=9, fill=FAINT)
    for i, words in enumerate((f"{FUSED} (round)", "the best other (square)")):
        sheet.box(_LEFT + 10, top + 10 + 16 * i, 9, 9, fill=COLOURS[i])
        sheet.text(_LEFT + 25, top + 18 + 16 * i, words, size=11)
    return str(sheet)
