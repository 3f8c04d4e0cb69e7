"""Data for training: batches, small sets of points, handwritten digits, and the karate club graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._utils.lazy import make_public_dir, make_public_getattr
from . import batches, sample_datasets
from .batches import *
from .sample_datasets import *

__all__ = batches.__all__ + sample_datasets.__all__
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())
