"""Figures read as XML, with the position of every mark on the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import NamedTuple

_SVG = "{http://www.w3.org/2000/svg}"


class Mark(NamedTuple):
    """An XML element, and the offset of its groups."""

    node: ET.Element
    dx: float
    dy: float

    @property
    def kinds(self) -> list[str]:
        return self.node.get("class", "").split()

    @property
    def index(self) -> tuple[int, ...]:
        return tuple(map(int, self.node.attrib["data-index"].split(",")))

    @property
    def cell(self) -> int:
        return int(self.node.attrib["data-cell"])

    def numbers(self, *names: str) -> list[float]:
        return [float(self.node.attrib[name]) for name in names]

    def box(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of a rectangle on the page."""
        x, y, width, height = self.numbers("x", "y", "width", "height")
        return x + self.dx, y + self.dy, x + self.dx + width, y + self.dy + height

    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the first and last point of a path on the page."""
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", self.node.attrib["d"])]
        (x0, y0), (x1, y1) = numbers[:2], numbers[-2:]
        return (x0 + self.dx, y0 + self.dy), (x1 + self.dx, y1 + self.dy)


def marks(svg: str) -> list[Mark]:
    """Return all marks of a figure, in drawing order."""
    return list(_walk(ET.fromstring(svg), 0.0, 0.0))


def _walk(node: ET.Element, dx: float, dy: float) -> Iterator[Mark]:
    for child in node:
        move = re.match(r"translate\((\S+) (\S+)\)", child.get("transform", ""))
        x, y = (float(move[1]), float(move[2])) if move else (0.0, 0.0)
        yield Mark(child, dx, dy)
        yield from _walk(child, dx + x, dy + y)


def of_kind(svg: str, kind: str) -> list[Mark]:
    return [mark for mark in marks(svg) if kind in mark.kinds]


def texts(svg: str) -> list[str]:
    return [mark.node.text or "" for mark in marks(svg) if mark.node.tag == f"{_SVG}text"]


def text_boxes(svg: str, letter: float = 0.62) -> list[tuple[str, float, float, float, float]]:
    """Return every text with its left, top, right and bottom; `letter` is the width of a letter in font sizes."""
    result = []
    for mark in marks(svg):
        if mark.node.tag != f"{_SVG}text":
            continue
        text = mark.node.text or ""
        x, y, size = mark.numbers("x", "y", "font-size")
        width = len(text) * size * letter
        left = x + mark.dx - {"start": 0.0, "middle": width / 2, "end": width}[mark.node.attrib["text-anchor"]]
        bottom = y + mark.dy
        result.append((text, left, bottom - 0.73 * size, left + width, bottom))
    return result
