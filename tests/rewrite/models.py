"""Windows by NumPy alone, one number of the kernel after the other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np


def parts(x: Any, kernel: tuple[int, ...], stride: int, apart: int, put: float) -> list[tuple[tuple[int, ...], Any]]:
    """For each number of the kernel what it sees in all windows over the last axes, beyond which there is `put`."""
    counts = [(n - apart * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[-len(kernel) :], kernel, strict=True)]
    found = []
    for place in product(*map(range, kernel)):
        where = [slice(p * apart, p * apart + stride * (c - 1) + 1, stride) for p, c in zip(place, counts, strict=True)]
        found.append((place, x[(..., *where)] + put))
    return found


def convolved(x: Any, w: Any, stride: int = 1, padding: int = 0, apart: int = 1, groups: int = 1) -> Any:
    """A convolution in float64."""
    space = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(padding, padding)] * space])
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:]).astype(np.float64)
    found = sum(
        np.einsum("ngc...,goc->ngo...", seen, w[(..., *place)])
        for place, seen in parts(x, w.shape[3:], stride, apart, 0.0)
    )
    return np.reshape(found, (x.shape[0], -1, *np.shape(found)[3:]))


def pooled(x: Any, join: Callable[[Any, Any], Any], kernel: tuple[int, ...], stride: int, apart: int = 1) -> Any:
    """Each window reduced by a function of two arrays."""
    (_, found), *others = parts(x, kernel, stride, apart, 0)
    for _, seen in others:
        found = join(found, seen)
    return found
