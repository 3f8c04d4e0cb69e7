"""Mistakes of the texts that Tenxor's behaviours come from, each with the right answer."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tenxor as tx
from tenxor.layout import unravel_index


def cube() -> tx.Tensor:
    """1..8 as 2x2x2."""
    return tx.arange(1, 9).reshape((2, 2, 2))


def table(rows: int, columns: int) -> tx.Tensor:
    return tx.arange(rows * columns).reshape((rows, columns))


def test_a_permuted_tensor_is_read_through_the_inverse_order() -> None:
    t = tx.arange(24).reshape((2, 3, 4))
    p = t.permute(1, 2, 0)
    assert p.shape == (3, 4, 2)
    assert p[2, 3, 1].item() == t[1, 2, 3].item() == 23
    assert p.tolist() == np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0).tolist()


def test_transforming_a_view_transforms_the_view_only() -> None:
    t = tx.arange(24).reshape((2, 3, 4))
    part = t[:, 1:]
    part.permute(2, 0, 1)
    assert (t.shape, t.strides, part.shape, part.strides) == ((2, 3, 4), (12, 4, 1), (2, 2, 4), (12, 4, 1))


def test_mean_divides_by_the_count_once() -> None:
    assert tx.mean(tx.asarray([1.0, 2.0, 3.0, 4.0])).item() == 2.5


def test_empty_slice_has_size_0() -> None:
    t = table(5, 5)
    assert t[4:1].shape == (0, 5)
    assert t[:, 1:4:-1].shape == (5, 0)
    assert t[1:1, 9:7].shape == (0, 0)


def test_negative_integers_count_from_the_end_past_the_first_axis() -> None:
    t = tx.arange(24).reshape((2, 3, 4))
    assert t[0, -1].tolist() == [8, 9, 10, 11]
    assert t[:, :, -1].tolist() == [[3, 7, 11], [15, 19, 23]]
    assert t.oindex[None, -1, [-1, -4]].tolist() == [[11, 8], [23, 20]]


@pytest.mark.parametrize("key", [(5,), ([0, 5],), (None, [4]), (None, -5), ([-6], 0)])
def test_oindex_out_of_range_raises_when_the_view_is_made(
    key: tuple[object, ...],
) -> None:
    with pytest.raises(IndexError):
        table(5, 4).oindex[key]


def test_reshape_to_another_number_of_elements_is_refused() -> None:
    for size in (5, 7):
        with pytest.raises(tx.errors.ShapeError):
            tx.arange(size).reshape((2, 3))


def test_ravel_adds_the_offset() -> None:
    assert table(4, 5)[2:, 1:].layout.ravel((1, 2)) == 18


def test_reshape_of_non_contiguous_axes_keeps_the_order_of_elements() -> None:
    assert table(4, 4)[:, :3].reshape(12).tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]
    assert table(2, 3).T.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]


def test_unflatten_sizes_must_multiply_to_the_axis() -> None:
    with pytest.raises(tx.errors.ShapeError):
        table(3, 20).unflatten(1, (3, 5))
    with pytest.raises(tx.errors.ShapeError):
        table(3, 20).unflatten(1, (-1, 6))


def test_unravel_index_depends_on_the_shape_alone() -> None:
    t = table(2, 3)
    for view in (t.T, t.expand((4, 2, 3)), t[:, ::-1]):
        for number, value in enumerate(view.ravel().tolist()):
            assert view[unravel_index(number, view.shape)].item() == value


def test_a_permutation_with_repeats_is_refused() -> None:
    with pytest.raises(tx.errors.AxisError):
        cube().permute(0, 0, 1)


def test_slice_step_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="step"):
        tx.arange(5)[::0]


def test_an_index_drops_its_own_axis() -> None:
    t = tx.arange(24).reshape((2, 3, 4))
    assert (t[1].shape, t[:, 1].shape, t[:, :, 1].shape) == ((3, 4), (2, 4), (2, 3))


def test_a_slice_keeps_the_offset_of_its_parent() -> None:
    inner = table(4, 5)[1:, 2:][1:, 1:]
    assert inner.offset == 13
    assert inner.tolist() == [[13, 14], [18, 19]]


def test_write_through_a_nested_slice_adds_both_offsets() -> None:
    t = table(4, 5)
    t[2:, 3:][0, 1] = -1
    assert t[2, 4].item() == -1
    assert t[0, 1].item() == 1


def test_every_index_is_checked_against_its_own_axis() -> None:
    with pytest.raises(IndexError):
        cube()[0, 0, 3]
    with pytest.raises(IndexError):
        cube()[0, 0, 3] = 1


def test_transpose_of_5_by_2_has_shape_2_by_5() -> None:
    t = table(5, 2).T
    assert (t.shape, t.strides) == ((2, 5), (1, 2))


def test_figure_highlights_the_index_in_its_title() -> None:
    svg = tx.show.tensor(tx.arange(18).reshape((2, 3, 3)), index=(0, 1, 2)).svg
    assert "Tensor Index: (0, 1, 2)" in svg
    assert set(re.findall(r'class="element lit"[^>]*data-index="([\d,]*)"', svg)) == {"0,1,2"}
