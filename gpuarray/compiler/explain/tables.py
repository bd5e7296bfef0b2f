"""An Explanation as text, as a picture, as a page.

Floor 3. In: a Record of a program (`records.py`). Out: text, SVG, HTML. The user's own lines are
read from their files here, when they are shown; the compiled text does not contain them.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence

from gpuarray.compiler.explain.drawings import FAINT, RULE, Drawing, escape
from gpuarray.compiler.explain.records import OperationRecord, Record, StepRecord, Value

# Colours of the boxes, by the form of the kernel: related forms share one.
_TINTS = {
    "map": "#e3f0fb",
    "loop": "#fbe6e3",
    "batch": "#f3f1d3",
    "rows": "#dff3ea",
    "columns": "#efe6f8",
    "rowcolumns": "#e6e6f8",
    "tiles": "#e3f0fb",
    "scan": "#fdf0d5",
    "sort": "#fdf0d5",
    "top": "#fdf0d5",
    "scatter": "#fdf0d5",
    "tables": "#fdf0d5",
    "user": "#f3f1d3",
    "library": "#eceff3",
}


def size(nbytes: float) -> str:
    """Bytes in a unit that reads well, in powers of ten.

    >>> size(48_000_000), size(12)
    ('48.0 MB', '12 B')
    """
    # From 100 units on there are no decimals: 100 MB, 99.9 MB.
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.{1 if nbytes < 100 * scale else 0}f} {unit}"
    return f"{nbytes:.0f} B"


def count(n: float) -> str:
    """A count in a unit that reads well.

    >>> count(8_000_000), count(12)
    ('8.0 M', '12')
    """
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= scale:
            return f"{n / scale:.{1 if n < 100 * scale else 0}f} {unit}"
    return f"{n:.0f}"


def plural(n: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "kernel"), plural(2, "launch")
    ('1 kernel', '2 launches')
    """
    if n == 1:
        return f"1 {word}"
    # The words here take -s, or -es after -ch (launch, batch).
    return f"{n} {word}" + ("es" if word.endswith("ch") else "s")


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Rows of cells as lines of text in columns; the columns in `right` are flush right.

    >>> columns([("a", "10"), ("bcd", "5")], right=[1])
    ['a    10', 'bcd   5']
    """
    if not rows:
        return []
    # A column is as wide as its widest cell.
    flush = set(right)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(w) if i in flush else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        # No spaces at the ends of lines, which copies of the text would keep.
        lines.append("  ".join(cells).rstrip())
    return lines


def headline(e: Record) -> str:
    """The whole in one line."""
    parts = [plural(len(e.kernels), "kernel")]
    if e.library_calls:
        parts.append(plural(len(e.library_calls), "library call"))
    return f"{e.name}: {', '.join(parts)}, {size(e.bytes_moved)} moved"


def comparison(e: Record) -> str:
    """The cost of the same operations one by one."""
    return f"one by one: {plural(e.launches_unfused, 'launch')}, {size(e.bytes_unfused)}"


def table(e: Record) -> str:
    """The steps as a table, then why they are not fewer."""
    # Steps have different facts: a column for each name that any of them has.
    facts = list(dict.fromkeys(name for s in e.steps for name in s.facts))
    rows = [("step", "space", "operations", "reads", "writes", "mul-adds", *facts, "lines")]
    for depth, s in nested(e.steps):
        rows.append(
            (
                "  " * depth + s.name,
                space(s),
                _fit(s.ops, 44),
                size(s.bytes_read),
                size(s.bytes_written),
                count(s.flops),
                *(str(s.facts.get(name, "")) for name in facts),
                " ".join([line_ranges(s), *(["in", ", ".join(s.scopes)] if s.scopes else [])]),
            )
        )
    lines = [f"{headline(e)} ({comparison(e)})", *e.remarks]
    if e.steps:
        # Numbers are flush right: reads, writes, mul-adds, and all facts.
        lines += ["", *columns(rows, right=range(3, 6 + len(facts)))]
    if e.why_not_fused:
        lines += ["", "not fused:", *(f"  {b}" for b in e.why_not_fused)]
    return "\n".join(lines)


def nested(steps: Iterable[StepRecord], depth: int = 0) -> Iterator[tuple[int, StepRecord]]:
    """Steps followed by those in the bodies of loops, and the depth of each."""
    for s in steps:
        yield depth, s
        yield from nested(s.body, depth + 1)


def space(s: StepRecord) -> str:
    """The parallel axes, and in brackets those that are reduced: `2000 x [3000]`."""
    if s.kind == "library" or (s.kind == "loop" and not s.space):
        return s.kind
    outer = [str(n) for n in s.space]
    inner = ["[" + " x ".join(map(str, s.inner)) + "]"] if s.inner else []
    return " x ".join(outer + inner) or "scalar"


def line_ranges(s: StepRecord) -> str:
    """The user's lines with neighbours joined: `model.py:12-14,17`."""
    by_file: dict[str, set[int]] = {}
    # Lines of each file, without repeats.
    for line in s.user_lines:
        file, _, number = line.rpartition(":")
        by_file.setdefault(file, set()).add(int(number))
    texts = []
    # Runs of neighbouring lines: each is extended while the next line follows it.
    for file, numbers in by_file.items():
        runs: list[list[int]] = []
        for n in sorted(numbers):
            if runs and n == runs[-1][1] + 1:
                runs[-1][1] = n
            else:
                runs.append([n, n])
        texts.append(file + ":" + ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs))
    return " ".join(texts)


def _fit(ops: Sequence[str], width: int) -> str:
    """Names of operations, with repeats counted, as many as fit."""
    # Neighbours of one name become a word with their number: mul mul -> mul*2.
    words: list[str] = []
    for op in ops:
        if words and words[-1].split("*")[0] == op:
            n = int(words[-1].partition("*")[2] or 1) + 1
            words[-1] = f"{op}*{n}"
        else:
            words.append(op)
    # At least one word, however long; then how many operations there are in all.
    text = ""
    for i, word in enumerate(words):
        longer = f"{text} {word}".strip()
        if len(longer) > width and i:
            return f"{text} ... ({len(ops)})"
        text = longer
    return text


def kernel_text(s: StepRecord) -> str:
    """One step: its inputs and outputs, then each operation with the user's line."""
    ins = ", ".join(v.text for v in s.inputs)
    outs = ", ".join(v.text for v in s.outputs)
    # The header, the facts, then the operations in two columns: formula and user's line.
    head = (
        f"{s.name}({ins}) -> {outs}    {size(s.bytes_read)} read, {size(s.bytes_written)} written"
    )
    rows = [(f"    {o.text}", o.origin and f"# {o.origin}") for o in s.operations]
    facts = [f"    {name}: {value}" for name, value in s.facts.items()]
    body = ["    " + line for inner in s.body for line in kernel_text(inner).splitlines()]
    return "\n".join([head, *facts, *columns(rows), *body])


# ---- the picture ----


def svg(e: Record) -> str:
    """Boxes in execution order; arrows from writers to readers."""
    # Heights of the boxes first: the sheet must be as high as all of them.
    wide, margin, line = 560, 20, 16
    tall = [34 + line * (len(_box_lines(s)) + len(s.facts)) + 10 for s in e.steps]
    # Arrows run right of the boxes, in lanes; the widest label determines their width.
    links = _links(e.steps)
    lanes = _lanes(links)
    right = max(
        (36 + 22 * n + 6.2 * len(_label(v)) for (*_, v), n in zip(links, lanes, strict=True)),
        default=margin,
    )
    height = 74 + sum(tall) + 26 * len(tall)
    sheet = Drawing(wide + margin + right, height, headline(e))
    sheet.text(margin, 30, headline(e), size=16, bold=True)
    sheet.text(margin, 49, comparison(e), fill=FAINT)
    # The boxes, from the top down: a heading, the bytes moved, the operations, the facts.
    top: list[float] = []
    y = 68.0
    for s, high in zip(e.steps, tall, strict=True):
        top.append(y)
        sheet.box(margin, y, wide, high, fill=_TINTS.get(s.kind, "#fff"), edge=RULE, radius=6)
        sheet.text(margin + 12, y + 20, f"{s.name}  {space(s)}", size=13, bold=True)
        traffic = f"{size(s.bytes_read)} in, {size(s.bytes_written)} out"
        sheet.text(margin + wide - 12, y + 20, traffic, size=11, fill=FAINT, anchor="end")
        at = y + 24 + line
        for left_text, right_text in _box_lines(s):
            sheet.text(margin + 12, at, left_text, size=11, mono=True)
            sheet.text(margin + wide - 12, at, right_text, size=10.5, fill=FAINT, anchor="end")
            at += line
        for name, value in s.facts.items():
            sheet.text(margin + 12, at, f"{name}: {value}", size=11, fill=FAINT)
            at += line
        y += high + 26
    # An arrow from the foot of the writer to the head of the reader; those of other lanes end
    # slightly lower, so that heads do not cover one another.
    edge = margin + wide
    for (i, j, value), lane in zip(links, lanes, strict=True):
        x = edge + 24 + 22 * lane
        start, end = top[i] + tall[i] - 14, top[j] + 14 + 5 * lane
        sheet.line(f"M{edge} {start:g} H{x} V{end:g} H{edge + 1}", edge=FAINT, arrow=True)
        sheet.text(x + 5, (start + end) / 2 + 4, _label(value), size=10.5)
    return str(sheet)


def _label(value: Value) -> str:
    return f"{value.text} {size(value.nbytes)}"


def _box_lines(s: StepRecord, most: int = 16) -> list[tuple[str, str]]:
    """The operations of a box, limited to what fits."""
    rows = [(o.text if len(o.text) < 62 else o.text[:59] + "...", o.origin) for o in s.operations]
    if len(rows) <= most:
        return rows
    # The first and the last operations, and how many are left out between them.
    half = most // 2
    left_out = len(rows) - 2 * half + 1
    return [*rows[:half], (f"... {left_out} more ...", ""), *rows[-half + 1 :]]


def _links(steps: Sequence[StepRecord]) -> list[tuple[int, int, Value]]:
    """(writer, reader, value) by position, for every value passed from step to step."""
    writer = {v.number: i for i, s in enumerate(steps) for v in s.outputs}
    return [
        (writer[v.number], j, v)
        for j, s in enumerate(steps)
        for v in s.inputs
        if v.number in writer
    ]


def _lanes(links: Sequence[tuple[int, int, Value]]) -> list[int]:
    """A lane for each link such that links in one lane do not overlap."""
    lanes: list[int] = []
    for n, (i, j, _) in enumerate(links):
        # Links that only touch, one ending where another begins, may share a lane.
        taken = {lanes[m] for m, (a, b, _) in enumerate(links[:n]) if not (b <= i or j <= a)}
        lanes.append(next(k for k in range(len(links)) if k not in taken))
    return lanes


# ---- the page ----

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2733 }
body { max-width: 1000px; margin: 2em auto; padding: 0 1em }
pre { font: 12.5px/1.5 ui-monospace, Menlo, Consolas, monospace; border-radius: 6px }
pre { background: #f5f7f9; padding: .8em 1em; overflow-x: auto }
.kernel { display: grid; grid-template-columns: 3fr 2fr; gap: 1em }
.kernel pre { min-width: 0 }
svg { max-width: 100%; height: auto }
"""


def html(e: Record) -> str:
    """A self-contained page: it refers to no other file."""
    parts = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{escape(headline(e))}</title>',
        f"<style>{_STYLE}</style>",
        f"<h1>{escape(e.name)}</h1>",
        svg(e),
        f"<pre>{escape(table(e))}</pre>",
    ]
    # Below the picture each kernel, its operations with the user's lines.
    for s in e.steps:
        parts += [
            f"<h2>{escape(s.name)}</h2>",
            '<div class="kernel">',
            f"<pre>{escape(kernel_text(s))}</pre>",
            f"<pre>{escape(_source_lines(s.operations))}</pre>",
            "</div>",
        ]
        if s.source:
            parts.append(f"<details><summary>text</summary><pre>{escape(s.source)}</pre></details>")
    return "\n".join([*parts, "</html>\n"])


def _source_lines(operations: Sequence[OperationRecord]) -> str:
    """The user's lines of a step, from their files."""
    # Each line once, however many operations it recorded.
    places = dict.fromkeys((o.file, o.line, o.user_line) for o in operations if o.file)
    rows = [(where, linecache.getline(file, line).strip()) for file, line, where in places]
    return "\n".join(columns(rows)) or "(the lines that asked for this are not known)"
