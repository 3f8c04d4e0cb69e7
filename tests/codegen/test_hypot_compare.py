"""Comparisons of hypot without square roots: results equal those with roots, near the bound and far from it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.lower import lower
from tenxor.target import Target
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("plain")
RNG = np.random.default_rng(11)
RELATIONS = (operator.lt, operator.le, operator.gt, operator.ge)
BOUNDS = (2.0, 1.0, 3.3, 0.0, -0.0, -2.0, 1e-30, 1e30, 1e-200, 1e200, 1e308, 5e-324, inf, -inf, nan)
TARGET = Target(vector_bytes=64)


def _sides(bound: float, dtype: str, count: int = 4000) -> tuple[Any, Any]:
    """Return pairs of sides of right triangles; many hypotenuses differ from `bound` by a few units in the last place."""
    angle = RNG.uniform(0, 2 * np.pi, count)
    size = abs(bound) if np.isfinite(bound) and bound else 1.0
    with np.errstate(all="ignore"):
        sizes = size * (1 + RNG.integers(-3, 4, count) * np.finfo(dtype).eps)
        sizes[::7] = size * RNG.uniform(0, 3, len(sizes[::7]))
        x, y = (sizes * np.cos(angle)).astype(dtype), (sizes * np.sin(angle)).astype(dtype)
    special = np.array([0.0, -0.0, inf, -inf, nan, 5e-324, 1e-300, 1e300, 1e154, 1e-154, size], "float64")
    with np.errstate(all="ignore"):
        several = special.astype(dtype)
    return np.concatenate([x, np.repeat(several, len(several))]), np.concatenate([y, np.tile(several, len(several))])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_hypot_comparisons_equal_comparisons_of_magnitudes(dtype: str, bound: float) -> None:
    a, b = _sides(bound, dtype)
    x, y = tx.asarray(a), tx.asarray(b)
    sizes = tx.hypot(x, y).realize()
    with np.errstate(all="ignore"):
        bounds = tx.asarray(np.full(len(a), bound, dtype))
    for relation in RELATIONS:
        assert relation(tx.hypot(x, y), bounds).tolist() == relation(sizes, bounds).tolist()
        assert relation(bounds, tx.hypot(x, y)).tolist() == relation(bounds, sizes).tolist()
        assert relation(tx.hypot(x, y), bounds[0]).tolist() == relation(sizes, bounds[0]).tolist()


@pytest.mark.parametrize("bound", [b for b in BOUNDS if b])
def test_complex_abs_comparisons_equal_comparisons_of_magnitudes(bound: float) -> None:
    a, b = _sides(bound, "float64")
    z = tx.asarray(np.stack([a, b], 1).view("complex128")[:, 0])
    sizes = abs(z).realize()
    for relation in RELATIONS:
        assert relation(abs(z), bound).tolist() == relation(sizes, bound).tolist()


def _text(make: Callable[[Tensor, Tensor], Tensor]) -> str:
    root = make(*[tx.asarray(side).realize() for side in RNG.normal(size=(2, 64))]).storage.node
    return emit_kernel(lower(root, set(fuse(collect_pending([root]), [root], TARGET)), TARGET)[0], TARGET)


def _without_rare_blocks(text: str) -> str:
    """Return the code without the blocks for rare cases."""
    lines, is_rare = list[str](), False
    for line in text.splitlines():
        if line.endswith(":"):
            is_rare = line.startswith("rare")
        if not (is_rare or line.startswith("declare")):
            lines.append(line)
    return "\n".join(lines)


def test_hypot_comparison_takes_a_root_only_near_the_bound() -> None:
    assert "sqrt" in _without_rare_blocks(_text(tx.hypot))
    assert "sqrt" not in _without_rare_blocks(_text(lambda x, y: tx.hypot(x, y) <= 2.0))
    assert "sqrt" in _without_rare_blocks(_text(lambda x, y: tx.where(tx.hypot(x, y) <= 2.0, tx.hypot(x, y), 0.0)))  # which is needed
