"""The next of many products is asked for, where no near cache holds all of them, and they lie in steps; that changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.dtypes import DType, float32, float64, int64
from tests.machines import tune

from .pairs import integers
from .test_emit_contractions import product


@pytest.mark.parametrize("dtype", [float32, float64, int64])
def test_batched_product_prefetches_the_next_matrices(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = integers(5, 29, 9, dtype=dtype), integers(5, 9, 40, dtype=dtype)
    cases = [(a, b), (a[::-1], b[:, :, 3:]), (a[:1].expand(5, 29, 9), b), (a[:, ::-1], b[::-1]), (a[[3, 0, 4, 1, 1]], b)]
    for left, right in cases:
        assert product(left @ right).prefetch_axis == -1
    tune(monkeypatch, blocks={"min_prefetch_batch_bytes": 0, "min_prefetch_panel_bytes": 0})
    for left, right in cases:
        result = left @ right
        assert product(result).prefetch_axis >= 0
        assert np.array_equal(result.to_numpy(), left.to_numpy() @ right.to_numpy())
    assert product(a[0] @ b[0]).prefetch_axis == -1
    assert product(a @ b[:, :, :2]).prefetch_axis == -1  # all of it is read in order


def test_matrices_larger_than_a_near_cache_are_not_prefetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache would evict the matrices before their use."""
    a, b = integers(5, 29, 9), integers(5, 9, 40)
    nbytes = 4 * (29 * 9 + 9 * 40 + 29 * 40)
    for near, prefetches in ((nbytes, True), (nbytes - 1, False)):
        tune(monkeypatch, blocks={"min_prefetch_batch_bytes": 0, "min_prefetch_panel_bytes": 0, "l2_working_bytes": near})
        assert (product(a @ b).prefetch_axis >= 0) == prefetches
