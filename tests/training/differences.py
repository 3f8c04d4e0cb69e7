"""Gradients compared with central differences."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenxor as tx


def gradients_agree(function: Any, *args: Any, step: float = 1e-6, rtol: float = 2e-5, atol: float = 2e-7) -> None:
    """Return whether `tenxor.grad` agrees with finite differences of a function of float64 tensors."""
    found = tx.grad(function, tuple(range(len(args))))(*args)
    for k, (x, gradient) in enumerate(zip(args, found, strict=True)):
        values = x.to_numpy()
        expected = np.zeros_like(values)
        for at in np.ndindex(values.shape):
            ends = []
            for sign in (1, -1):
                moved = values.copy()
                moved[at] += sign * step
                ends.append(function(*(tx.asarray(moved) if j == k else other for j, other in enumerate(args))).item())
            expected[at] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(gradient.to_numpy(), expected, rtol=rtol, atol=atol * max(1.0, np.abs(expected).max()))
