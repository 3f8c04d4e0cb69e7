"""Optimisers, schedules of their rates, and bounds for gradients."""

from __future__ import annotations

from . import lbfgs, optimizer, run, schedules
from .lbfgs import *
from .optimizer import *
from .run import *
from .schedules import *

__all__ = lbfgs.__all__ + optimizer.__all__ + run.__all__ + schedules.__all__


def __dir__() -> list[str]:
    return __all__
