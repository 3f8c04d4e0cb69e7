"""Python integers as operands of tensors, up to those that only uint64 holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.errors import OutOfBounds
from tenxor.ops import OPS
from tenxor.tensor import Tensor

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.usefixtures("afresh")]
LARGE = (2**62, 2**63 - 1, 2**63, 2**63 + 12345, 2**64 - 1)
VALUES = np.array([0, 1, 5, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)


def computed_by_python(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the operations that machine code leaves to Python."""
    found, own = list[Any](), Tensor._compute.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Tensor, "_compute", classmethod(lambda cls, op, *given: found.append(op) or own(cls, op, *given)))
    return found


@pytest.mark.parametrize("number", LARGE)
def test_uint64_operands_accept_every_number_in_range(number: int) -> None:
    x, beside = tx.asarray(VALUES.copy()), np.uint64(number)
    for _ in range(4):
        assert np.array_equal((x + number).to_numpy(), VALUES + beside)
        assert np.array_equal((number - x).to_numpy(), beside - VALUES)
        assert np.array_equal((x >= number).to_numpy(), beside <= VALUES)
        assert np.array_equal((x ^ number).to_numpy(), VALUES ^ beside)
        for op, wanted in (("bitwise_and", VALUES & beside), ("maximum", np.maximum(VALUES, beside))):
            assert np.array_equal(x._apply(OPS[op], number).to_numpy(), wanted)


def test_uint64_operands_with_large_numbers_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tx.asarray(VALUES.copy())
    x._apply(OPS["add"], 3).realize()
    asked = computed_by_python(monkeypatch)
    for number in LARGE:
        assert np.array_equal(x._apply(OPS["add"], number).to_numpy(), VALUES + np.uint64(number))
    assert not asked


def test_uint64_tensor_plus_a_number_out_of_its_range_raises() -> None:
    x = tx.asarray(VALUES.copy())
    for _ in range(3):
        assert (x + 7).tolist()[0] == 7
        for number in (-1, -(2**63), -(2**64), 2**64, 2**70):
            with pytest.raises(OutOfBounds):
                x + number
            with pytest.raises(OutOfBounds):
                x._apply(OPS["add"], number)


@pytest.mark.parametrize("dtype", ["int64", "float64", "int8"])
def test_large_numbers_with_other_dtypes_match_python(dtype: str) -> None:
    x = tx.asarray(np.arange(4, dtype=dtype))
    for _ in range(3):
        for number in (5, -7, 2**31, 2**53, 2**53 + 1, 2**62, -(2**63), 2**63, 2**64):
            with fastpath.disabled():
                try:
                    wanted: Any = (x + number).tolist()
                except OutOfBounds as error:
                    wanted = str(error)
            try:
                found: Any = (x + number).tolist()
            except OutOfBounds as error:
                found = str(error)
            assert found == wanted


def test_powers_with_any_number_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative exponent needs a base that is no integer."""
    values = np.array([0.5, -2.0, 3.0, 1e3])
    x, power = tx.asarray(values), OPS["pow"]
    for number in (-1, -3, -2.5, 4):
        x._apply(power, number).realize()
        (number**x).realize()
    whole = tx.asarray([2, -3])
    whole._apply(power, 2).realize()
    asked = computed_by_python(monkeypatch)
    for number in (-1, -3, -2.5, 4):
        with np.errstate(invalid="ignore", over="ignore"):
            assert np.allclose(x._apply(power, number).to_numpy(), values**number, rtol=1e-14, equal_nan=True)
            assert np.allclose((number**x).to_numpy(), np.float64(number) ** values, rtol=1e-14, equal_nan=True)
    assert whole._apply(power, 3).tolist() == [8, -27] and not asked
    with pytest.raises(tx.errors.DTypeError, match="negative power -1"):
        whole._apply(power, -1)
