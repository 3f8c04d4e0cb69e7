"""Data to learn from: batches, small sets of points, handwritten digits, and a club that fell out."""

from __future__ import annotations

from .batches import *
from .sets import *
