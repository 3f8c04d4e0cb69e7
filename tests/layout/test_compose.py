"""Views of views: composition is exact, and one view wherever one stride or table per axis says it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenxor.errors import IndexOutOfRange
from tenxor.layout import Layout
from tenxor.layout.layout import LONGEST_CHAIN

from . import contiguous, examples
from .moves import chains, layouts


def is_affine(model: np.ndarray) -> bool:
    """Does one stride per axis say these offsets?"""
    if model.size == 0:
        return True
    sums = np.array(model.flat[0])
    for axis in range(model.ndim):
        edge = np.moveaxis(model, axis, 0).reshape(model.shape[axis], -1)[:, 0]
        if len(set(np.diff(edge).tolist())) > 1:
            return False
        sums = sums[..., None] + (edge - edge[0])
    return np.array_equal(sums, model)


@examples(400)
@given(layouts(most=4) | chains(most=1), st.data())
def test_over_takes_a_number_to_what_the_base_has_there(case, data):
    base, model = case
    assume(model.size)
    outer, numbers = data.draw(layouts(most=4, size=model.size))
    composed = outer.over(base)
    assert composed.shape == outer.shape
    assert np.array_equal(composed.offsets(), model.ravel()[numbers])


@examples(400)
@given(layouts() | chains())
def test_what_one_stride_per_axis_says_is_never_written_as_two_views(case):
    """Only three views and more can hide it: reshapes that cut axes into pieces that do not nest."""
    layout, model = case
    if is_affine(model) and layout.depth < 3:
        assert layout.base is None
        assert layout.tables is None


def test_numbers_must_exist_in_the_base():
    with pytest.raises(IndexOutOfRange, match=r"over: numbers from 0 to 6 do not all exist in shape \(2, 3\) of 6"):
        contiguous(7).over(contiguous(2, 3))
    with pytest.raises(IndexOutOfRange, match="over: numbers from -1 to 1"):
        Layout((3,), (1,), -1).over(contiguous(3))
    assert contiguous(0).over(contiguous(0, 4)).size == 0


def test_over_the_same_shape_is_the_base_itself():
    base = contiguous(4, 5).transpose()
    assert contiguous(5, 4).over(base) is base


def test_over_contiguous_memory_only_moves_the_offset():
    outer = contiguous(4, 5).transpose()
    assert outer.over(Layout.contiguous((20,), 7)) == Layout((5, 4), (1, 5), 7)


def test_2_3_transposed_read_as_6_read_as_3_2_is_one_view_again():
    turned = contiguous(2, 3).transpose()
    chained = turned.reshape((6,))
    assert chained.depth == 2
    assert chained.reshape((3, 2)) is turned
    assert chained.reshape((3, 2)).depth == 1


def test_a_part_of_a_chain_within_one_axis_is_one_view_again():
    chained = contiguous(4, 5).transpose().reshape((20,))
    row = chained.index((slice(4, 8),))
    assert row == Layout((4,), (5,), 1)
    assert row.base is None
    assert chained.index((7,)).base is None
    assert chained.index((slice(None, None, 4),)) == Layout((5,), (1,), 0)


def test_a_chain_over_a_chain_simplifies_from_the_outside():
    one = contiguous(2, 3, 2).transpose().reshape((12,))
    two = one.reshape((3, 4)).transpose().reshape((12,))
    assert (one.depth, two.depth) == (2, 3)
    assert two.reshape((4, 3)).transpose().reshape((12,)) == one
    assert two.reshape((4, 3)).transpose().depth == 2
    assert two.index((slice(0, 2),)).depth == 1


def test_a_reshape_splits_axes_that_only_the_storage_joins():
    one = contiguous(12, 2).transpose().reshape((6, 4)).transpose()
    assert one.depth == 2
    assert one.reshape((8, 3)) == Layout((8, 3), (1, 8), 0)
    assert one.reshape((24,)).reshape((8, 3)).depth == 1


def test_a_chain_stays_short_however_often_it_is_turned():
    layout, model = contiguous(6, 10), np.arange(60).reshape(6, 10)
    for _ in range(40):
        layout, model = layout.transpose().reshape((6, 10)), model.T.reshape(6, 10)
        assert np.array_equal(layout.offsets(), model)
        assert layout.depth <= LONGEST_CHAIN


def test_a_gathered_row_stays_one_view_under_every_basic_index():
    rows = contiguous(6, 5).select(0, [5, 0, 3, 3])
    for key in [(1,), (slice(None, None, -1),), (slice(1, None), slice(4, 1, -2)), (None, ..., 2)]:
        moved = rows.index(key)
        assert moved.base is None
        assert np.array_equal(moved.offsets(), rows.offsets()[key])


def test_the_diagonal_of_gathered_axes_is_gathered():
    layout = contiguous(6, 6).oindex(([5, 0, 3], [1, 1, 4])).diagonal()
    assert layout.base is None
    assert layout.offsets().tolist() == [31, 1, 22]


def test_windows_of_a_gathered_axis_alias():
    layout = Layout.gathered([7, 0, 2, 9]).windows(0, 2)
    assert layout.offsets().tolist() == [[7, 0], [0, 2], [2, 9]]


def test_advanced_indexing_is_a_gather_in_another_shape():
    offsets = np.array([[3, 0, 7], [7, 7, 1]])
    assert np.array_equal(Layout.gathered(offsets).reshape(offsets.shape).offsets(), offsets)
