"""Pictures of how an array is sharded over devices: a table of characters, or SVG.

Floor 6. In: a shape of one or two axes, and a sharding. Out: text in which every block of the array
is a cell that names the devices that hold it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from gpuarray.core.sharding import Sharding, pieces
from gpuarray.util import index, indices, number

#: Colours of cells.
_PALETTE = ("#3b6fb6", "#d9822b", "#4d8f57", "#b5507a", "#7a68b3", "#8a6d3b", "#3d9aa1")
#: How much higher than wide a character is.
_CHARACTER = 2.5


class _Blocks(NamedTuple):
    """The blocks of an array: their number along each of two axes, and the devices of each."""

    rows: int
    columns: int
    names: list[list[str]]


def _blocks(shape: tuple[int, ...], sharding: Sharding) -> _Blocks:
    held: dict[tuple, list[int]] = {}
    platform = ""
    for device, slices, _ in pieces(sharding, shape):
        # An array of one axis is a row. Equal starts are the same block.
        at = tuple(part.start or 0 for part in slices)
        # Replicas are in the same block.
        held.setdefault((0, *at)[-2:], []).append(device.id)
        platform = device.platform.upper()
    if not held:
        raise ValueError(f"there is nothing to see: {sharding} has no devices")
    rows, columns = (sorted({at[axis] for at in held}) for axis in (0, 1))
    names = [
        [f"{platform} " + ",".join(map(str, sorted(held[row, column]))) for column in columns]
        for row in rows
    ]
    return _Blocks(len(rows), len(columns), names)


def _checked(shape: Sequence[int], sharding: Any) -> tuple[int, ...]:
    shape = indices(shape)
    if len(shape) not in (1, 2):
        raise ValueError(
            "`visualize_sharding` only works for shapes with 1 and 2 dimensions. Got the shape "
            f"{shape}."
        )
    if not isinstance(sharding, Sharding):
        raise TypeError(f"`visualize_sharding` takes a Sharding, got {sharding!r}")
    return shape


def table(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    colours: Callable[[float], Sequence[float]] | None = None,
    coloured: bool = False,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
) -> str:
    """The blocks of an array as a table of characters, with lines or with colours between them."""
    shape = _checked(shape, sharding)
    rows, columns, names = _blocks(shape, sharding)
    base = int(10 * scale)
    # A cell has the proportions of its block; an array of one axis is one line high.
    aspect = (shape[1] if len(shape) == 2 else 1) / max(shape[0], 1)
    wide = int(int(base * aspect) / columns * _CHARACTER)
    high = int(base / rows) if len(shape) == 2 else 1
    # Lines, or the colour around the text, take one character on each side.
    room = (max_width - 1) // columns - 1
    inner = min(max(wide, min_width), max_width) - 2
    width = min(max([inner, *(len(name) for row in names for name in row)]), max(room, 1))
    # Long names continue on the next line, preferably after a comma.
    cells = [[_wrapped(name, width) for name in row] for row in names]
    width = max([width, *(len(line) for row in cells for cell in row for line in cell)])
    if coloured:
        return _with_colours(cells, width, max(high, 3), _colours(colours, rows, columns))
    return _with_lines(cells, width, max(high - 1, 1))


def _wrapped(name: str, width: int) -> list[str]:
    if len(name) <= width:
        return [name]
    lines = textwrap.wrap(name.replace(",", ", "), width, break_long_words=False)
    return [line.replace(", ", ",") for line in lines]


def _centred(cell: list[str], width: int, height: int) -> list[str]:
    # The odd character of padding goes to the right, and below.
    above = max(height - len(cell), 0) // 2
    lines = [""] * above + cell + [""] * (height - len(cell) - above)
    return [" " * ((width - len(s)) // 2) + s + " " * -((len(s) - width) // 2) for s in lines]


def _with_lines(cells: list[list[list[str]]], width: int, height: int) -> str:
    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join(["─" * width] * len(cells[0])) + right

    out = [rule("┌", "┬", "┐")]
    for i, row in enumerate(cells):
        if i:
            out.append(rule("├", "┼", "┤"))
        tall = max([height, *(len(cell) for cell in row)])
        for line in zip(*(_centred(cell, width, tall) for cell in row), strict=True):
            out.append("│" + "│".join(line) + "│")
    return "\n".join([*out, rule("└", "┴", "┘")])


def _with_colours(
    cells: list[list[list[str]]], width: int, height: int, colours: list[tuple[int, ...]]
) -> str:
    out = []
    each = iter(colours)
    for row in cells:
        tall = max([height, *(len(cell) for cell in row)])
        codes = [
            f"\x1b[38;2;{';'.join(map(str, _on(c)))};48;2;{';'.join(map(str, c))}m"
            for c in (next(each) for _ in row)
        ]
        for line in zip(*(_centred(cell, width + 2, tall) for cell in row), strict=True):
            out.append("".join(f"{c}{s}\x1b[0m" for c, s in zip(codes, line, strict=True)))
    return "\n".join(out)


def _colours(colour_map: Any, rows: int, columns: int) -> list[tuple[int, ...]]:
    """Return a colour for each cell, from 0 to 255 for red, green and blue."""
    if colour_map is None:
        # Steps of 1 and 3 through seven colours: neighbours differ in both directions.
        each = [_PALETTE[(3 * i + j) % 7] for i in range(rows) for j in range(columns)]
        return [tuple(bytes.fromhex(colour[1:])) for colour in each]
    # Neighbours get distant values.
    count = rows * columns
    step = count // 2 + (count % 2 == 0)
    found = []
    for i in range(count):
        colour = colour_map((i * step % count) / max(count - 1, 1))
        if isinstance(colour, str):
            found.append(tuple(bytes.fromhex(colour.removeprefix("#")[:6])))
        else:
            found.append(tuple(int(255 * part) for part in tuple(colour)[:3]))
    return found


def _on(colour: tuple[int, ...]) -> tuple[int, ...]:
    """Return black or white, whichever is more legible on a colour."""
    red, green, blue = colour
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 150 else (255, 255, 255)


def show(
    shape: Sequence[int],
    sharding: Sharding,
    use_color: bool,
    scale: float,
    min_width: int,
    max_width: int,
    color_map: Any,
) -> None:
    """Print the table, with colours if the output is a terminal."""
    # Checked here, where the user's names are known.
    scale, min_width, max_width = number(scale), index(min_width), index(max_width)
    text = table(
        shape,
        sharding,
        colours=color_map,
        coloured=use_color and sys.stdout.isatty(),
        scale=scale,
        min_width=min_width,
        max_width=max_width,
    )
    print(text)


def svg(shape: Sequence[int], sharding: Sharding, width: int = 480) -> str:
    """The blocks of an array as an SVG image of the given width in pixels."""
    shape, width = _checked(shape, sharding), index(width)
    rows, columns, names = _blocks(shape, sharding)
    # The proportions of the array, within legible limits.
    aspect = shape[0] / max(shape[1], 1) if len(shape) == 2 else 0
    cell_height = max(min(width * aspect, 2 * width) / rows, 28)
    cell_width = width / columns
    height = cell_height * rows
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
        f'viewBox="0 0 {width} {height:g}" font-family="sans-serif" font-size="13">'
    ]
    colours = iter(_colours(None, rows, columns))
    for i, row in enumerate(names):
        for j, name in enumerate(row):
            fill = next(colours)
            left, top = j * cell_width, i * cell_height
            out.append(
                f'<rect x="{left:g}" y="{top:g}" width="{cell_width:g}" '
                f'height="{cell_height:g}" fill="rgb{fill}" stroke="white"/>'
            )
            x, y = left + cell_width / 2, top + cell_height / 2
            out.append(
                f'<text x="{x:g}" y="{y:g}" fill="rgb{_on(fill)}" text-anchor="middle" '
                f'dominant-baseline="central">{escape(name)}</text>'
            )
    return "\n".join([*out, "</svg>"])
