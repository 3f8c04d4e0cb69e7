"""Optimisers, schedules of their rates, and bounds for gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import public_dir, public_getattr
from .lbfgs import *
from .optimizer import *
from .run import *
from .schedules import *

if not TYPE_CHECKING:  # which sees what the star imports give
    __all__ = sorted([*lbfgs.__all__, *optimizer.__all__, *run.__all__, *schedules.__all__])  # noqa: F405
    __dir__, __getattr__ = public_dir(globals()), public_getattr(globals())
