"""Optimisers, schedules of learning rates, and gradient clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._utils.lazy import make_public_dir, make_public_getattr
from . import gradient_clipping, lbfgs, optimizer, run, schedules
from .gradient_clipping import *
from .lbfgs import *
from .optimizer import *
from .run import *
from .schedules import *

__all__ = gradient_clipping.__all__ + lbfgs.__all__ + optimizer.__all__ + run.__all__ + schedules.__all__
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())
