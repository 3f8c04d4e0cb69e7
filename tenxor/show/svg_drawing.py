"""SVG drawings: shapes and text with their bounding boxes, and the finished figure."""

from __future__ import annotations

import html
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from .palette import BORDER, INK, PAPER

MONOSPACE_FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS_SERIF_FONTS = "Inter, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_MARGIN = 22.0
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Point = tuple[float, float]


def text_width(text: str, size: float) -> float:
    """Return an upper estimate of the width in pixels of a text in a font of `size` pixels; wide characters count 1.75 times."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return (len(text) + 0.75 * wide) * size * 0.62


def escape_xml(text: str) -> str:
    """Escape a text for XML or HTML, inside quotes too; replace characters forbidden in XML by U+FFFD."""
    return html.escape(_NOT_XML.sub("\ufffd", text))


def format_number(value: float) -> str:
    """Format a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def format_attributes(pairs: dict[str, object]) -> str:
    """Format XML attributes: underscores in names become dashes, floats are shortened, and None values are left out."""
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape_xml(format_number(v) if isinstance(v, float) else str(v))}"'
        for name, v in pairs.items()
        if v is not None
    )


class Drawing:
    """SVG marks in local coordinates, in pixels with y downwards, and their bounding box.

    Methods to add a mark take further SVG attributes as `style`, with underscores for dashes; attributes of None are left out.
    """

    def __init__(self) -> None:
        self._marks: list[str] = []
        self._box: tuple[float, float, float, float] | None = None

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The bounding box of the marks: left, top, right and bottom."""
        return self._box or (0.0, 0.0, 0.0, 0.0)

    @property
    def width(self) -> float:
        """The width of the bounding box."""
        return self.box[2] - self.box[0]

    @property
    def height(self) -> float:
        """The height of the bounding box."""
        return self.box[3] - self.box[1]

    def marks(self) -> Iterator[str]:
        """Yield the marks as SVG elements, in the order in which they were added."""
        yield from self._marks

    def _extend_box(self, left: float, top: float, right: float, bottom: float) -> None:
        """Extend the bounding box to this rectangle."""
        old = self._box or (left, top, right, bottom)
        self._box = (min(old[0], left), min(old[1], top), max(old[2], right), max(old[3], bottom))

    def rect(self, x: float, y: float, width: float, height: float, tip: str | None = None, **style: object) -> None:
        """Add a rectangle with the top left corner (`x`, `y`), and with `tip` as a tooltip unless None."""
        self._extend_box(x, y, x + width, y + height)
        geometry = format_attributes({"x": float(x), "y": float(y), "width": float(width), "height": float(height)})
        self._marks.append(f"<rect{geometry}{format_attributes(style)}{_close_element('rect', tip)}")

    def polygon(self, points: Sequence[Point], tip: str | None = None, **style: object) -> None:
        """Add a filled polygon with the corners `points`, and with `tip` as a tooltip unless None."""
        xs, ys = zip(*points, strict=True)
        self._extend_box(min(xs), min(ys), max(xs), max(ys))
        corners = " ".join(f"{format_number(x)},{format_number(y)}" for x, y in points)
        self._marks.append(f'<polygon points="{corners}"{format_attributes(style)}{_close_element("polygon", tip)}')

    def curve(self, start: Point, end: Point, **style: object) -> None:
        """Add a curve from `start` to `end` that is vertical at both ends."""
        (x0, y0), (x1, y1) = start, end
        self._extend_box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        middle = (y0 + y1) / 2
        start_point, control_1, control_2, end_point = (
            f"{format_number(x)} {format_number(y)}" for x, y in (start, (x0, middle), (x1, middle), end)
        )
        self._marks.append(f'<path d="M{start_point}C{control_1} {control_2} {end_point}" fill="none"{format_attributes(style)}/>')

    def line(self, start: Point, end: Point, **style: object) -> None:
        """Add a straight line."""
        (x0, y0), (x1, y1) = start, end
        self._extend_box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        ends = format_attributes({"x1": float(x0), "y1": float(y0), "x2": float(x1), "y2": float(y1)})
        self._marks.append(f"<line{ends}{format_attributes(style)}/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 12.0,
        anchor: str = "middle",
        fill: str = INK,
        font: str = MONOSPACE_FONTS,
        **style: object,
    ) -> None:
        """Add a line of text, vertically centred on `y`. `x` is the left end, the middle or the right end.

        The `anchor`, "start", "middle" or "end", tells the meaning of `x`. `size` is the font size in pixels.
        """
        width = text_width(text, size)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        self._extend_box(left, y - size * 0.6, left + width, y + size * 0.6)
        # The baseline is a third of the size below the middle; not every viewer knows dominant-baseline.
        geometry = {"x": float(x), "y": y + size * 0.35, "font_size": float(size), "text_anchor": anchor}
        markup = format_attributes({**geometry, "fill": fill, "font_family": font, **style})
        self._marks.append(f"<text{markup}>{escape_xml(text)}</text>")

    def add_drawing(self, drawing: Drawing, x: float, y: float, **style: object) -> None:
        """Add the marks of another drawing, with the top left corner of its box at (x, y)."""
        left, top, right, bottom = drawing.box
        self._extend_box(x, y, x + right - left, y + bottom - top)
        move = f"translate({format_number(x - left)} {format_number(y - top)})"
        self._marks.append(f'<g transform="{move}"{format_attributes(style)}>{"".join(drawing.marks())}</g>')


def _close_element(tag: str, tip: str | None) -> str:
    """Return the end of an SVG element `tag`, with `tip` as a tooltip unless None."""
    return "/>" if tip is None else f"><title>{escape_xml(tip)}</title></{tag}>"


class Figure:
    """A finished picture, displayed by notebooks.

    Parameters
    ----------
    drawing : Drawing
        The marks. Functions such as `tx.show.tensor` make figures.
    description : str
        The title of the document, read by screen readers.

    Examples
    --------
    >>> import tenxor as tx
    >>> figure = tx.show.tensor(tx.arange(3))
    >>> figure.svg.startswith("<svg")
    True
    """

    def __init__(self, drawing: Drawing, description: str) -> None:
        left, top, right, bottom = drawing.box
        x, y = left - _MARGIN, top - _MARGIN
        width, height = right - left + 2 * _MARGIN, bottom - top + 2 * _MARGIN
        view = " ".join(map(format_number, (x, y, width, height)))
        card = {"x": x + 0.5, "y": y + 0.5, "width": width - 1, "height": height - 1, "rx": 12.0}
        self._svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" width="{format_number(width)}" '
            f'height="{format_number(height)}" style="max-width:100%;height:auto" role="img">'
            f"<title>{escape_xml(description)}</title>"
            f"<rect{format_attributes({**card, 'fill': PAPER, 'stroke': BORDER})}/>"
            f"{''.join(drawing.marks())}</svg>"
        )

    @property
    def svg(self) -> str:
        """The picture as the text of an SVG document."""
        return self._svg

    def _repr_svg_(self) -> str:
        return self._svg

    def __repr__(self) -> str:
        return f"Figure({len(self._svg):,} characters of SVG; save(path) writes them)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG to a file, whole or not at all.

        Parameters
        ----------
        path : path
            The file, UTF-8 text.

        Raises
        ------
        OSError
            If writing fails.
        """
        write_atomically(path, self._svg)


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically: a reader finds the old content or the new, never a part."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with unfinished.open("x", encoding="utf-8") as file:
            file.write(text)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
