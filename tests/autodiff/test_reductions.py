"""Derivatives of reductions, cumulative reductions and joins, and of tensors made from numbers, compared with differences."""

from __future__ import annotations

import pytest

from .cases import JOINING, NUMBERS, REDUCTIONS, SCANS
from .differences import check

CASES = {**REDUCTIONS, **SCANS, **JOINING, **NUMBERS}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_reductions_match_differences(name: str) -> None:
    case = CASES[name]
    check(case.function, case.arrays, second=case.second)
