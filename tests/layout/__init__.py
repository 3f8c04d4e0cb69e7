"""Layouts, compared with index maps that NumPy computes by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from tenxor.layout import Layout


def contiguous(*shape: int) -> Layout:
    return Layout.contiguous(shape)


def read(layout: Layout, storage: Any) -> Any:
    """What a view shows of a storage, as nested lists."""
    return np.asarray(storage)[layout.offsets()].tolist()


def examples(count: int) -> settings:
    """A property test that draws so many examples."""
    return settings(max_examples=count, suppress_health_check=list(HealthCheck))
