"""The next of many products is asked for, where no near cache holds all of them, and they lie in steps; that changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.dtypes import DType, float32, float64, int64
from tests.machines import tune

from .pairs import whole
from .test_products import product


@pytest.mark.parametrize("dtype", [float32, float64, int64])
def test_the_next_of_many_products_is_asked_for(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = whole(5, 29, 9, dtype=dtype), whole(5, 9, 40, dtype=dtype)
    cases = [(a, b), (a[::-1], b[:, :, 3:]), (a[:1].expand(5, 29, 9), b), (a[:, ::-1], b[::-1]), (a[[3, 0, 4, 1, 1]], b)]
    for left, right in cases:
        assert product(left @ right).ahead == -1
    tune(monkeypatch, blocks={"ahead": 0, "page": 0})
    for left, right in cases:
        found = left @ right
        assert product(found).ahead >= 0
        assert np.array_equal(found.to_numpy(), left.to_numpy() @ right.to_numpy())
    assert product(a[0] @ b[0]).ahead == -1
    assert product(a @ b[:, :, :2]).ahead == -1  # all of it is read in order


def test_what_is_larger_than_a_near_cache_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be gone before it is needed."""
    a, b = whole(5, 29, 9), whole(5, 9, 40)
    one = 4 * (29 * 9 + 9 * 40 + 29 * 40)
    for near, asked in ((one, True), (one - 1, False)):
        tune(monkeypatch, blocks={"ahead": 0, "page": 0, "near": near})
        assert (product(a @ b).ahead >= 0) == asked
