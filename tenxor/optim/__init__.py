"""Optimisers, schedules of their rates, and bounds for gradients."""

from __future__ import annotations

from .lbfgs import *
from .optimizer import *
from .run import *
from .schedules import *
