"""Data to learn from: batches, small sets of points, handwritten digits, and a club that fell out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import public_dir, public_getattr
from .batches import *
from .sets import *

if not TYPE_CHECKING:  # which sees what the star imports give
    __all__ = sorted([*batches.__all__, *sets.__all__])  # noqa: F405
    __dir__, __getattr__ = public_dir(globals()), public_getattr(globals())
