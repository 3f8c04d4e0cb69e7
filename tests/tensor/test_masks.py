"""Boolean masks as indices, read and written."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import BadIndex, ShapeError

Array = np.ndarray[Any, Any]


def grid(*shape: int) -> tuple[Array, tx.Tensor]:
    return np.arange(prod(shape)).reshape(shape), tx.arange(prod(shape)).reshape(shape)


def assign(target: Any, key: Any, value: Any) -> None:
    target[key] = value


def test_masked_write_with_a_mask_computed_from_the_target_equals_numpy() -> None:
    a, t = grid(3, 4)
    t[t > 5] *= -1
    a[a > 5] *= -1
    assert t.tolist() == a.tolist()
    t[t < 0] = 0
    a[a < 0] = 0
    assert t.tolist() == a.tolist()
    t[t == 0] = tx.asarray(9)
    a[a == 0] = 9
    assert t.tolist() == a.tolist()


def test_masked_write_needs_one_value_for_each_selected_element() -> None:
    a, t = grid(2, 3)
    mask = np.array([[True, False, True], [False, True, False]])
    t[mask] = [10, 20, 30]
    a[mask] = [10, 20, 30]
    assert t.tolist() == a.tolist()
    with pytest.raises(ShapeError, match=r"\(2,\).*\(3,\)"):
        t[mask] = [1, 2]


def test_number_written_at_a_row_mask_equals_numpy() -> None:
    a, t = grid(3, 3)
    rows = [False, True, False]
    t[tx.asarray(rows)] = -1
    a[rows] = -1
    t[tx.asarray([2, 2, 0])] = -2  # an integer tensor selects rows by index
    a[[2, 2, 0]] = -2
    assert t.tolist() == a.tolist()


def test_mask_of_another_shape_raises_even_for_equal_size() -> None:
    t = tx.arange(12).reshape(3, 4)
    for mask in (np.ones((4, 3), bool), np.ones((2, 6), bool), np.ones((3, 4, 1), bool)[:, :, 0].T):
        with pytest.raises(BadIndex, match="does not match"):
            t[mask]
        with pytest.raises(BadIndex, match="does not match"):
            t[tx.asarray(mask)] = 0


def test_masked_write_through_a_view_of_a_pending_tensor_equals_numpy() -> None:
    a, t = grid(3, 4)
    a, t = a + 1, t + 1
    a.T[::2][a.T[::2] % 2 == 0] = 0
    view = t.T[::2]
    view[view % 2 == 0] = 0
    assert t.tolist() == a.tolist()


def test_mask_may_have_size_0_along_an_axis() -> None:
    nothing = tx.zeros((0, 3), dtype=tx.bool)
    t = tx.ones((2, 3))
    assert t[nothing].shape == (0,)
    assert t[tx.zeros((0,), dtype=tx.bool)].shape == (0, 3)
    t[nothing] = 5
    assert t.tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    with pytest.raises(IndexError, match=r"\(0, 2\).*\(2, 3\)"):
        t[tx.zeros((0, 2), dtype=tx.bool)]
