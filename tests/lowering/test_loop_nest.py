"""Dependent reductions along the same axes in one kernel: the operands of each are computed in its own loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx

RNG = np.random.default_rng(4)


def sum_of_columns_that_wait_for_a_sum(t: Callable[[Any], Any]) -> Any:
    e = (t("k11") + t("w3").sum()).reshape(()) * 1.7 + 0.3
    columns = (t("m33") + e).sum(axis=0)
    return ((t("c13") + columns.reshape(1, 3)).reshape(3) * t("w3")).sum()


def two_sums_of_which_one_waits_for_a_third(t: Callable[[Any], Any]) -> Any:
    first = (t("s6") * t("q6")).sum() + 1.5
    second = ((t("t3").sum() * 2.0).reshape(1, 1) * t("p61")).sum(axis=1) * t("q6")
    return first + second.sum()


def sums_of_rows_between_two_sums(t: Callable[[Any], Any]) -> Any:
    total = t("w3").sum()
    rows = (t("m33") * total).sum(axis=1)
    return (rows * t("w3")).sum() + total


PROGRAMS = (sum_of_columns_that_wait_for_a_sum, two_sums_of_which_one_waits_for_a_third, sums_of_rows_between_two_sums)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.values
def test_dependent_reductions_match_numpy(program: Any) -> None:
    values = {name: RNG.normal(size=tuple(map(int, name[1:]))) for name in ("k11", "w3", "m33", "c13", "s6", "q6", "t3", "p61")}
    result = program(lambda name: tx.asarray(values[name])).item()
    assert result == pytest.approx(program(values.__getitem__), rel=1e-12)
