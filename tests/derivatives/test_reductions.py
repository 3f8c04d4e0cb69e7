"""Derivatives of reductions, running ones, and what joins tensors, beside differences."""

from __future__ import annotations

import pytest

from .cases import JOINING, REDUCTIONS, SCANS
from .differences import check

CASES = {**REDUCTIONS, **SCANS, **JOINING}


@pytest.mark.parametrize("name", CASES)
def test_beside_differences(name: str) -> None:
    case = CASES[name]
    check(case.function, case.arrays, second=case.second)
