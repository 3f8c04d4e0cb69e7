"""The colours of figures: white paper, dark ink, and an even ramp of hues for storage cells."""

from __future__ import annotations

import math

PAPER = "#ffffff"
BORDER = "#dfe3ea"
INK = "#1c2434"
MUTED_INK = "#667085"
FAINT_INK = "#7d8899"
UNUSED_CELL = "#f2f4f7"
NEUTRAL_FILL = "#e6ebf5"
HIGHLIGHT = "#d6336c"
HIGHLIGHT_INK = "#ffffff"

#: The ramp runs from blue over green to orange at constant lightness, so dark numbers are legible everywhere.
_FIRST_HUE, _LAST_HUE = 275.0, 40.0


def cell_fill(position: float) -> str:
    """Return the fill colour of a cell, for its relative position in the storage from 0 to 1."""
    return _oklch(0.885, 0.072, _hue(position))


def cell_stroke(position: float) -> str:
    """Return a strong colour for lines, of the same hue as `cell_fill(position)`."""
    return _oklch(0.64, 0.125, _hue(position))


def darken(colour: str, amount: float) -> str:
    """Return `#rrggbb` with each channel scaled down by `amount`, from 0 to 1."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c * (1 - amount)):02x}" for c in channels)


def _hue(position: float) -> float:
    """Return the hue, in degrees, for a relative position from 0 to 1."""
    return _FIRST_HUE + (_LAST_HUE - _FIRST_HUE) * position


def _oklch(lightness: float, chroma: float, hue: float) -> str:
    """Convert OKLCH to `#rrggbb` (B. Ottosson, "A perceptual color space for image processing", 2020)."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(c)):02x}" for c in linear)


def _gamma(channel: float) -> float:
    """Convert a linear channel to sRGB; values outside 0 to 1 are clipped."""
    channel = min(max(channel, 0.0), 1.0)
    return 12.92 * channel if channel <= 0.0031308 else float(1.055 * channel ** (1 / 2.4) - 0.055)
