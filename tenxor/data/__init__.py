"""Data for training: batches, small sets of points, handwritten digits, and the karate club graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import public_dir, public_getattr
from . import batches, sets
from .batches import *
from .sets import *

__all__ = batches.__all__ + sets.__all__
__dir__ = public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = public_getattr(globals())
