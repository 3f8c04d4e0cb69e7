"""Layouts, compared with index maps that NumPy computes by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from tenxor.layout import Layout


def contiguous(*shape: int) -> Layout:
    return Layout.contiguous(shape)


def read(layout: Layout, storage: Any) -> Any:
    """Return the elements of a storage that a view shows, as nested lists."""
    return np.asarray(storage)[layout.offsets()].tolist()


def examples(count: int) -> settings:
    """Return settings for a property test with `count` examples."""
    return settings(max_examples=count, suppress_health_check=list(HealthCheck))
