"""Drawings as SVG text, without a library: the few shapes that pictures of plans need.

Floor 3. In: shapes in pixels, y downwards. Out: SVG text, the same bytes for the same shapes.
"""

from __future__ import annotations

PAPER, INK, FAINT, RULE = "#ffffff", "#1f2733", "#68717d", "#d5dae1"
_SANS = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"


def escape(words: str) -> str:
    """Escape text for SVG or HTML.

    >>> escape("a < b & c")
    'a &lt; b &amp; c'
    """
    # & first: it is in all the other replacements.
    for sign, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        words = words.replace(sign, f"&{name};")
    return words


class Drawing:
    """A sheet of paper: shapes are added, `str()` gives the SVG.

    >>> sheet = Drawing(40, 20, "a box")
    >>> sheet.box(0, 0, 40, 20, fill="#eee")
    >>> str(sheet).count("<rect")
    2
    """

    def __init__(self, width: float, height: float, title: str):
        self.width = width
        self.height = height
        self.title = title
        self._shapes: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        edge: str = "none",
        radius: float = 0,
        tip: str = "",
    ) -> None:
        """A rectangle; `tip` is shown while the pointer rests on it."""
        # `:g` writes 40.0 as 40, so that equal shapes are equal text.
        size = f'x="{x:g}" y="{y:g}" width="{max(width, 0):g}" height="{max(height, 0):g}"'
        look = f'rx="{radius:g}" fill="{fill}" stroke="{edge}"'
        inside = f"<title>{escape(tip)}</title>" if tip else ""
        self._shapes.append(f"<rect {size} {look}>{inside}</rect>")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 12,
        fill: str = INK,
        anchor: str = "start",
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Words with their baseline at y; `anchor` is start, middle or end."""
        font = f'font-size="{size:g}" font-family="{_MONO if mono else _SANS}"'
        weight = ' font-weight="600"' if bold else ""
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}"'
        self._shapes.append(
            # xml:space keeps the spaces that indent operations.
            f'<text {place} {font}{weight} xml:space="preserve">{escape(words)}</text>'
        )

    def line(self, points: str, edge: str = RULE, width: float = 1, arrow: bool = False) -> None:
        """A line along an SVG path such as "M0 0 L10 0", with a head at its end if `arrow`."""
        head = ' marker-end="url(#head)"' if arrow else ""
        self._shapes.append(
            f'<path d="{points}" fill="none" stroke="{edge}" stroke-width="{width:g}"{head}/>'
        )

    def __str__(self) -> str:
        size = f'width="{self.width:g}" height="{self.height:g}"'
        view = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        # The arrowhead, which lines refer to by its id.
        head = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{FAINT}"/>'
            "</marker></defs>"
        )
        # The paper is a shape too: without it a dark page would show through.
        paper = f'<rect width="{self.width:g}" height="{self.height:g}" rx="8" fill="{PAPER}"/>'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img">',
                f"<title>{escape(self.title)}</title>",
                head + paper,
                *self._shapes,
                "</svg>\n",
            ]
        )
