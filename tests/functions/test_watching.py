"""The first NaN is told, with the operation and the line that made it."""

from __future__ import annotations

import pytest

import tenxor as tx
from tenxor.errors import NotANumber


def test_the_line_and_the_operation_are_told() -> None:
    x = tx.asarray([1.0, -1.0])
    with pytest.raises(NotANumber, match=r"sqrt made the first NaN, in a result of shape \(2,\), at .*test_watching.py:\d+: z = tx.sqrt"):  # noqa: SIM117
        with tx.check_nan():
            y = x * 2.0
            z = tx.sqrt(y - 0.5)
            z = z + 1.0
            _ = z.sum()


def test_what_had_nan_before_is_not_to_blame() -> None:
    x = tx.asarray([tx.nan, 1.0])
    with tx.check_nan():
        assert (x + 1.0).tolist()[1] == 2.0


def test_derivatives_are_looked_at() -> None:
    x = tx.asarray([0.0, 1.0]).requires_grad_()
    with pytest.raises(NotANumber, match=r"made the first NaN.*backward\(\)"):  # noqa: SIM117
        with tx.check_nan():
            y = (tx.sqrt(x) * x).sum()  # 0 * inf, backwards
            y.backward()


def test_all_is_as_before_afterwards() -> None:
    with pytest.raises(NotANumber), tx.check_nan():
        tx.log(tx.asarray(-1.0))
    found = tx.log(tx.asarray(-1.0)) + 1.0
    assert found.isnan().item()
    assert "pending" in repr((tx.ones(3) + 1.0).storage.node)


def test_what_is_traced_has_no_values() -> None:
    with tx.check_nan():
        assert tx.vmap(lambda row: row / row.sum())(tx.ones((2, 3))).shape == (2, 3)
        assert tx.map(lambda a: a * 2.0, tx.ones(2)).tolist() == [2.0, 2.0]
