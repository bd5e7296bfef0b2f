"""Bar charts as SVG, as PNG where matplotlib is installed, and as lines for a terminal.

Floor 8. In: names and values. Out: SVG text, a PNG file, or plain text, with the same bars.
"""

from __future__ import annotations

import importlib.util
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gpuarray.compiler.explain.drawings import FAINT, RULE, Drawing
from gpuarray.util import lazy_module

# Imported on first use: matplotlib is optional and slow to load.
pyplot = lazy_module("matplotlib.pyplot")

#: One colour for each series, distinguishable for colour-blind readers too (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#8a929c", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")

# Each row is a name with one value for each series.
Rows = list[tuple[str, list[float | None]]]


class Panel(NamedTuple):
    """A heading, named rows with a value for each series (None: missing), and their format."""

    heading: str
    rows: Rows
    show: Callable[[float], str]


# In pixels: the sheet, the margins for names and figures, the height of a bar, the gap below a row.
_WIDTH, _LEFT, _RIGHT, _BAR, _GAP = 760, 200, 96, 15, 12


def bars(title: str, subtitle: str, series: list[str], panels: list[Panel]) -> str:
    """Horizontal bars as SVG, shorter is better; every row has its own scale."""
    # Heights add up from the title, the notes, and each panel's bars.
    notes = textwrap.wrap(subtitle, 115)
    top = 64.0 + 16 * len(notes)
    height = top + sum(30 + sum(_tall(values) for _, values in p.rows) for p in panels)
    sheet = Drawing(_WIDTH, height + 12, title)
    sheet.text(20, 30, title, size=16, bold=True)
    for i, note in enumerate(notes):
        sheet.text(20, 49 + 16 * i, note, fill=FAINT)
    # The legend: a square of the series' colour, then its name.
    x = 20.0
    for i, name in enumerate(series):
        sheet.box(x, top - 23, 10, 10, fill=_colour(i), radius=2)
        sheet.text(x + 15, top - 14, name, size=11)
        # About 6.4 pixels for each letter at this size: SVG text cannot be measured here.
        x += 34 + 6.4 * len(name)
    # The panels, one below the other; each row is as tall as it has bars.
    y = top
    for panel in panels:
        sheet.line(f"M20 {y:g} H{_WIDTH - 20}")
        sheet.text(20, y + 20, panel.heading, size=12.5, bold=True)
        y += 30
        for name, values in panel.rows:
            _row(sheet, y, name, values, panel, series)
            y += _tall(values)
    return str(sheet)


def _row(
    sheet: Drawing, y: float, name: str, values: list[float | None], panel: Panel, series: list[str]
) -> None:
    # Each row has its own scale: its longest bar is full.
    longest = max([v for v in values if v is not None], default=0) or 1
    sheet.text(_LEFT - 12, y + _tall(values) / 2 + 1, name, anchor="end")
    sheet.line(f"M{_LEFT} {y:g} v{_tall(values) - _GAP + 2:g}", edge=RULE)
    for i, value in enumerate(values):
        if value is None:
            continue
        # The right margin keeps room for the figure after the longest bar.
        long = (_WIDTH - _LEFT - _RIGHT) * value / longest
        words = panel.show(value)
        tip = f"{name}, {series[i]}: {words}"
        # At least one pixel wide: a bar near zero still shows its colour and its tip.
        sheet.box(_LEFT, y + 1, max(long, 1), _BAR - 2, fill=_colour(i), radius=2, tip=tip)
        sheet.text(_LEFT + long + 6, y + _BAR - 4, words, size=10.5, fill=FAINT)
        y += _BAR


def _tall(values: list[float | None]) -> float:
    return _BAR * sum(v is not None for v in values) + _GAP


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


# ---- for a terminal ----

# In characters: a bar that is as long as it gets, and the steps in which it grows.
_LONGEST = 36
_EIGHTHS = " ▏▎▍▌▋▊▉"


def text(series: list[str], panels: list[Panel], width: int = _LONGEST) -> str:
    """The bars as lines of text: a line for each value; every row has its own scale.

    >>> panel = Panel("time", [("sum", [1.0, 2.0])], "{:g} s".format)
    >>> print(text(["ours", "other"], [panel], width=8))
    time
      sum  ours   ████ 1 s
           other  ████████ 2 s
    """
    wide = max((len(name) for p in panels for name, _ in p.rows), default=0)
    broad = max(map(len, series), default=0)
    lines = []
    for panel in panels:
        lines.append(panel.heading)
        for name, values in panel.rows:
            longest = max([v for v in values if v is not None], default=0) or 1
            first = name
            for who, value in zip(series, values, strict=True):
                if value is None:
                    continue
                bar = _bar(width * value / longest)
                lines.append(f"  {first:{wide}}  {who:{broad}}  {bar} {panel.show(value)}")
                first = ""
    return "\n".join(lines)


def ratios(heading: str, rows: list[tuple[str, float]], width: int = _LONGEST) -> str:
    """Ratios as lines of text: bars to the right of 1 above it, to the left below, as logarithms.

    >>> print(ratios("times of the other", [("sum", 4.0), ("sort", 0.5)], width=8))
    times of the other
      sum       |████████ 4.00x
      sort  ████|         0.50x
    """
    wide = max((len(name) for name, _ in rows), default=0)
    most = max((abs(math.log(ratio)) for _, ratio in rows), default=0) or 1
    behind = max((-math.log(ratio) for _, ratio in rows), default=0) / most
    left = math.ceil(width * max(behind, 0))
    lines = [heading]
    for name, ratio in rows:
        cells = width * abs(math.log(ratio)) / most
        # To the left whole cells only: there are no blocks that begin at their right edge.
        before, after = ("", _bar(cells)) if ratio >= 1 else ("█" * max(round(cells), 1), "")
        lines.append(f"  {name:{wide}}  {before:>{left}}|{after:{width}} {ratio:.2f}x")
    return "\n".join(lines)


def _bar(cells: float) -> str:
    """A bar of `cells` characters, drawn in eighths of one; at least one eighth."""
    eighths = max(1, round(8 * cells))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def can_write_png() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write_png(
    path: Path, title: str, subtitle: str, series: list[str], panels: list[Panel]
) -> None:
    """The same bars as a PNG file."""
    count = sum(len(p.rows) for p in panels)
    ratios = [len(p.rows) for p in panels]
    pyplot.switch_backend("Agg")  # a file, whatever screen there is
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(8.5, 1.6 + 0.75 * count), height_ratios=ratios, squeeze=False
    )
    # Bars are drawn as fractions of their row's longest, as in the SVG.
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        names = [name for name, _ in panel.rows]
        for r, (_, values) in enumerate(panel.rows):
            longest = max([v for v in values if v is not None], default=0) or 1
            for i, value in enumerate(values):
                if value is None:
                    continue
                # The bars of a row side by side, around its middle.
                at = r + (i - (len(series) - 1) / 2) * 0.8 / len(series)
                axis.barh(at, value / longest, 0.74 / len(series), color=_colour(i))
                axis.text(value / longest + 0.01, at, panel.show(value), va="center", size=8)
        axis.set(yticks=range(len(names)), xlim=(0, 1.18), xticks=[])
        axis.set_yticklabels(names)
        # matplotlib counts upwards; the first row belongs on top.
        axis.invert_yaxis()
        axis.set_title(panel.heading, loc="left", size=10)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    # The legend and the title belong to the figure: all panels share them.
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=_colour(i)) for i in range(len(series))]
    tall = figure.get_size_inches()[1]
    figure.suptitle("\n".join([title, *textwrap.wrap(subtitle, 105)]), size=10)
    figure.legend(handles, series, loc="lower center", ncols=len(series), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.35 / tall, 1, 1))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
