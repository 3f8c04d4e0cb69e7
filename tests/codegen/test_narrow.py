"""Sums of narrow integers and bools in blocks with 32-bit or 16-bit accumulators: none overflows, for any values and strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import DType, boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from tenxor.lowering.cpu import narrow_accumulators
from tenxor.tensor import Tensor
from tests.machines import current

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

NARROW = (boolean, int8, uint8, int16, uint16)
LENGTHS = (
    0,
    1,
    7,
    narrow_accumulators.MIN_SUM_ELEMENTS - 1,
    narrow_accumulators.MIN_SUM_ELEMENTS,
    narrow_accumulators.MIN_SUM_ELEMENTS + 1,
    1000,
)


def tensor(values: Any, dtype: DType) -> Tensor:
    return Tensor._from_node(in_memory(np.asarray(values), dtype))


def any_values(dtype: DType, *shape: int) -> Tensor:
    low, high = (0, 1) if dtype is boolean else (int(dtype.lowest), int(dtype.highest))
    return tensor(np.random.default_rng(len(shape)).integers(low, high + 1, shape), dtype)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_of_narrow_dtypes_agree_on_both_back_ends(length: int, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_accumulators, "BLOCK_ELEMENTS", 96)  # several, of which the last is not whole
    x = any_values(dtype, 3, length)
    views: list[Callable[[Tensor], Tensor]] = [lambda t: t, lambda t: t[:, ::-1], lambda t: t[::-1, ::2], lambda t: t[:, 1:]]
    for view in views:
        check(view(x).sum(axis=1).storage.node)
        check(tx.count_nonzero(view(x), axis=1).storage.node)
        check((view(x) > 0).sum().storage.node)


@pytest.mark.parametrize("dtype", NARROW)
def test_sums_of_extreme_narrow_values_do_not_overflow(dtype: DType) -> None:
    """The rows hold extreme values, and span several blocks."""
    for value in (dtype.highest, dtype.lowest):
        for length in (
            narrow_accumulators.BLOCK_ELEMENTS - 1,
            narrow_accumulators.BLOCK_ELEMENTS,
            3 * narrow_accumulators.BLOCK_ELEMENTS + 5,
        ):
            x = tx.full((2, length), value, dtype=dtype).realize()
            assert x.sum(axis=1).tolist() == [int(value) * length] * 2
            assert x.sum().item() == 2 * int(value) * length
            assert x[:, ::-1].sum(axis=1).tolist() == [int(value) * length] * 2


def test_counts_of_comparisons_match_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(5, 70_001)).astype(np.float32)
    values[2, ::7] = np.nan
    x = tx.asarray(values)
    np.testing.assert_array_equal((x > 0.5).sum(axis=1).to_numpy(), (values > 0.5).sum(axis=1))
    np.testing.assert_array_equal(tx.count_nonzero(tx.isnan(x), axis=1).to_numpy(), np.isnan(values).sum(axis=1))
    assert (x == x).sum().item() == (values == values).sum()


def test_sums_of_long_rows_of_narrow_dtypes_use_a_wide_and_a_narrow_accumulator() -> None:
    from tests.lowering.helpers import kernel_of

    from_memory = current().min_streamed_row_bytes
    for dtype, length, states in (
        (uint8, 1000, [uint64, uint32]),
        (int16, from_memory, [int64, int32]),
        (boolean, 1000, [int64, uint16]),
        (boolean, from_memory, [int64, uint16]),
        (uint8, 100, [uint64]),
        (int32, 1000, [int64]),
    ):
        kernel = kernel_of(any_values(dtype, 8, length).sum(axis=1))
        assert [state for f in kernel.accumulators for state in f.state_dtypes] == states
    assert len(kernel_of(any_values(uint8, 300, 300).sum(axis=0)).accumulators) == 1  # columns
    assert len(kernel_of(any_values(uint8, 3, 1000).max(axis=1)).accumulators) == 1
