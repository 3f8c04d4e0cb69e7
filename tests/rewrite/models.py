"""Convolution and pooling in NumPy, one kernel element at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np


def window_elements(x: Any, kernel: tuple[int, ...], stride: int, dilation: int, padding_value: float) -> list[tuple[tuple[int, ...], Any]]:
    """Return, for each kernel element, its position and the elements it reads in all windows, plus `padding_value`."""
    counts = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[-len(kernel) :], kernel, strict=True)]
    elements = []
    for position in product(*map(range, kernel)):
        slices = [slice(p * dilation, p * dilation + stride * (c - 1) + 1, stride) for p, c in zip(position, counts, strict=True)]
        elements.append((position, x[(..., *slices)] + padding_value))
    return elements


def convolved(x: Any, w: Any, stride: int = 1, padding: int = 0, apart: int = 1, groups: int = 1) -> Any:
    """Return a convolution in float64."""
    space = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(padding, padding)] * space])
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:]).astype(np.float64)
    result = sum(
        np.einsum("ngc...,goc->ngo...", elements, w[(..., *position)])
        for position, elements in window_elements(x, w.shape[3:], stride, apart, 0.0)
    )
    return np.reshape(result, (x.shape[0], -1, *np.shape(result)[3:]))


def pooled(x: Any, join: Callable[[Any, Any], Any], kernel: tuple[int, ...], stride: int, apart: int = 1) -> Any:
    """Return each window reduced by a function of two arrays."""
    (_, result), *more_elements = window_elements(x, kernel, stride, apart, 0)
    for _, elements in more_elements:
        result = join(result, elements)
    return result
