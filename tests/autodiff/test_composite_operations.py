"""Derivatives of indexing, products, convolutions, pooling and attention, compared with differences."""

from __future__ import annotations

import pytest

from .differences import check
from .larger import LARGER


@pytest.mark.parametrize("name", LARGER)
def test_gradients_of_larger_operations_match_differences(name: str) -> None:
    case = LARGER[name]
    check(case.function, case.arrays, second=case.second)
