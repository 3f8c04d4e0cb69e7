"""Curves of numbers over time, such as training losses: as a picture, or as a line of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import floor, isfinite, log10

from ..errors import ArgumentError
from .palette import BORDER, INK, MUTED_INK, cell_stroke
from .svg_drawing import SANS_SERIF_FONTS, Drawing, Figure

_WIDTH, _HEIGHT = 520.0, 260.0
_BARS = "▁▂▃▄▅▆▇█"


def curves_figure(curves: Mapping[str, Sequence[float]], title: str = "", log: bool = False) -> Figure:
    """Draw numbers over their step, one line for each name.

    Parameters
    ----------
    curves : Mapping of str to Sequence[float]
        The numbers of each line. The steps count from 0. A line of many points is thinned out to at most 800.
    title : str, default ""
        The line above.
    log : bool, default False
        If True, the vertical scale is logarithmic.

    Returns
    -------
    Figure
        The picture. Numbers that are not finite, or not positive on a logarithmic scale, are left out.

    Raises
    ------
    ArgumentError
        If no number is left.

    Examples
    --------
    >>> import tenxor as tx
    >>> "loss" in tx.show.curves({"loss": [2.0, 1.0, 0.5]}).svg
    True
    """
    points = {name: [(k, _plot_height(float(y), log)) for k, y in enumerate(ys)] for name, ys in curves.items()}
    finite_points = {name: [(k, y) for k, y in curve if isfinite(y)] for name, curve in points.items()}
    heights = [y for curve in finite_points.values() for _, y in curve]
    if not heights:
        raise ArgumentError("show.curves: there are no numbers to draw; give a list of numbers for each name")
    low, high = min(heights), max(heights)
    high = high if high > low else low + 1.0
    last_step = max([k for curve in finite_points.values() for k, _ in curve]) or 1
    drawing = Drawing()
    if title:
        drawing.text(0.0, -26.0, title, 16, "start", INK, SANS_SERIF_FONTS, font_weight=600)

    def to_pixels(step: float, height: float) -> tuple[float, float]:
        return _WIDTH * step / last_step, _HEIGHT * (high - height) / (high - low)

    for height in _choose_ticks(low, high):
        (_, y), label = to_pixels(0, height), f"{10**height if log else height:.4g}"
        drawing.line((0.0, y), (_WIDTH, y), stroke=BORDER)
        drawing.text(-8.0, y, label, 11, "end", MUTED_INK)
    for step in (0, last_step):
        drawing.text(_WIDTH * step / last_step, _HEIGHT + 14.0, str(step), 11, "middle", MUTED_INK)
    for rank, (name, curve) in enumerate(finite_points.items()):
        colour = cell_stroke(rank / max(len(finite_points) - 1, 1) if len(finite_points) > 1 else 0.0)
        pixels = [to_pixels(k, y) for k, y in _thin_out(curve)]
        for start, end in pairwise(pixels):
            drawing.line(start, end, stroke=colour, stroke_width=1.8, stroke_linecap="round")
        drawing.text(_WIDTH + 10.0, pixels[-1][1] if pixels else 0.0, name, 12, "start", colour, SANS_SERIF_FONTS)
    return Figure(drawing, title or ", ".join(finite_points))


def spark(values: Sequence[float], width: int = 40) -> str:
    """Return numbers as a line of at most `width` bars, each the mean of consecutive numbers.

    Parameters
    ----------
    values : Sequence[float]
        The numbers. Numbers that are not finite are left out.
    width : int, default 40
        The maximal number of characters, 1 or more.

    Returns
    -------
    str
        The bars, from the lowest mean to the highest in eight heights. The text is empty without finite numbers.

    Raises
    ------
    ArgumentError
        If `width` is below 1.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.show.spark([0, 1, 2, 3, 2, 1, 0])
    '▁▃▆█▆▃▁'
    """
    if width < 1:
        raise ArgumentError(f"spark: width is {width}; it must be 1 or more")
    numbers = [float(x) for x in values if isfinite(x)]
    if not numbers:
        return ""
    bar_count = min(width, len(numbers))
    edges = [k * len(numbers) // bar_count for k in range(bar_count + 1)]
    means = [sum(numbers[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    return "".join([_BARS[round((x - low) / (high - low) * (len(_BARS) - 1)) if high > low else 0] for x in means])


def _plot_height(y: float, log: bool) -> float:
    """Return the height of the number `y` in the picture: `y`, or if `log` the decimal logarithm; NaN if the logarithm is not finite."""
    return y if not log else log10(y) if 0.0 < y < float("inf") else float("nan")


def _choose_ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers from `low` to `high`, ascending; `low` and `high` are included if they are round.

    `low` must be less than `high`. The numbers are multiples of 1, 2, 5 or 10 times a power of ten.
    """
    step = 10.0 ** floor(log10((high - low) / 2))
    step *= next((m for m in (1, 2, 5) if (high - low) / (step * m) <= 5), 10)
    first_multiple = -floor(-low / step)
    return [(first_multiple + k) * step for k in range(int((high - first_multiple * step) / step + 1e-9) + 1)]


def _thin_out(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return every n-th of the `points` (step, height), and the last: 800 at most. `points` is empty or has ascending steps."""
    stride = max(1, len(points) // 400)
    subset = list(points[::stride])
    return subset if not points or subset[-1] == points[-1] else [*subset, points[-1]]
