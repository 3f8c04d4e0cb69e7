"""Unique elements and `mode`, compared with loops and with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ShapeError

from .ordering import REAL, drawn, in_order
from .samples import SAMPLES, each_sample


def model(row: list[Any]) -> tuple[list[Any], list[int], list[int], list[int]]:
    """Return values, first indices, inverse indices and counts, computed by a loop."""
    order = in_order(row)
    values: list[Any] = []
    first_indices, counts, inverse = [], [], [0] * len(row)
    for k in order:
        if not values or values[-1] != row[k]:  # NaN is not equal to itself
            values.append(row[k])
            first_indices.append(k)
            counts.append(0)
        counts[-1] += 1
        inverse[k] = len(values) - 1
    return values, first_indices, inverse, counts


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("shape", [(0,), (), (1,), (5, 4), (40, 50)])
def test_unique_functions_equal_a_loop(dtype: tx.DType, shape: tuple[int, ...]) -> None:
    x = drawn(dtype, shape, seed=3, most=9)
    values, first_indices, inverse, counts = model(x.ravel().tolist())
    result = tx.unique_all(x)
    np.testing.assert_array_equal(result.values.to_numpy(), tx.asarray(values, dtype=dtype).to_numpy())
    assert result.indices.tolist() == first_indices and result.counts.tolist() == counts
    assert result.inverse_indices.shape == shape and result.inverse_indices.ravel().tolist() == inverse
    assert result.values.dtype is dtype and {t.dtype for t in result[1:]} == {tx.int64}
    for values_alone in (tx.unique_counts(x).values, tx.unique_inverse(x).values, tx.unique_values(x)):
        np.testing.assert_array_equal(values_alone.to_numpy(), result.values.to_numpy())
        assert values_alone.dtype is dtype
    assert tx.unique_counts(x).counts.tolist() == counts
    assert tx.unique_inverse(x).inverse_indices.tolist() == result.inverse_indices.tolist()


@pytest.mark.parametrize("size", [20, 2000])
def test_unique_of_complex_numbers_equals_numpy(size: int) -> None:
    rng = np.random.default_rng(0)
    array = rng.integers(0, 4, size) + 1j * rng.integers(0, 4, size)
    result, wanted = tx.unique_all(tx.asarray(array)), np.unique_all(array)
    for ours, theirs in zip(result, wanted, strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs)


@each_sample
def test_unique_of_every_layout_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for ours, theirs in zip(tx.unique_all(tensor), np.unique_all(array), strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_mode_returns_the_most_frequent_element(dtype: tx.DType) -> None:
    x = drawn(dtype, (5, 60, 3), seed=4, most=3)
    for axis in (0, 1, -1):
        result = tx.mode(x, axis=axis)
        rows = x.moveaxis(axis, -1).reshape(-1, x.shape[axis])
        assert result.values.dtype is dtype and result.values.shape == tuple(n for a, n in enumerate(x.shape) if a != axis % 3)
        for row, value, index in zip(rows.tolist(), result.values.ravel().tolist(), result.indices.ravel().tolist(), strict=True):
            values, _, _, counts = model(row)
            wanted = values[counts.index(max(counts))]
            assert value == wanted or (value != value and wanted != wanted)
            assert row[index] == value or value != value
        assert tx.mode(x, axis=axis, keepdims=True).values.ndim == 3
    with pytest.raises(ShapeError, match=r"mode: axis 0 of shape .* has size 0"):
        tx.mode(x[:0], axis=0)


def test_unique_results_have_the_field_names_of_the_standard() -> None:
    x = tx.ones(3)
    assert tx.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert tx.unique_counts(x)._fields == ("values", "counts")
    assert tx.unique_inverse(x)._fields == ("values", "inverse_indices")


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_unique_functions_accept_an_empty_tensor_that_requires_a_gradient(shape: tuple[int, ...]) -> None:
    x = tx.zeros(shape)
    x.requires_grad = True
    for result in (tx.unique_values(x), *tx.unique_all(x), *tx.unique_counts(x), *tx.unique_inverse(x)):
        assert result.size == 0
    tx.unique_values(x).sum().backward()
    assert x.grad.shape == shape
