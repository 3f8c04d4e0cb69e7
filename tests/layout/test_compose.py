"""Composition of layouts: exact, and a single view wherever one stride or table per axis expresses it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenxor.errors import IndexOutOfRange
from tenxor.layout import Layout
from tenxor.layout.layout import MAX_CHAIN_DEPTH

from . import contiguous, examples
from .moves import chains, layouts


def is_affine(model: np.ndarray) -> bool:
    """Return whether one stride per axis expresses these offsets."""
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
@given(layouts(max_moves=4) | chains(max_moves=1), st.data())
def test_over_maps_flat_indices_through_the_base(case, data):
    base, model = case
    assume(model.size)
    outer, numbers = data.draw(layouts(max_moves=4, size=model.size))
    composed = outer.over(base)
    assert composed.shape == outer.shape
    assert np.array_equal(composed.offsets(), model.ravel()[numbers])


@examples(400)
@given(layouts() | chains())
def test_affine_layout_is_never_a_chain_of_two_views(case):
    """Chains of three or more views may hide an affine map: their reshapes split axes into parts that do not nest."""
    layout, model = case
    if is_affine(model) and layout.depth < 3:
        assert layout.base is None
        assert layout.tables is None


def test_over_raises_for_flat_indices_outside_the_base():
    with pytest.raises(
        IndexOutOfRange, match=r"over: the layout reads flat indices from 0 to 6; they must be from 0 to 5 in shape \(2, 3\)"
    ):
        contiguous(7).over(contiguous(2, 3))
    with pytest.raises(IndexOutOfRange, match="over: the layout reads flat indices from -1 to 1"):
        Layout((3,), (1,), -1).over(contiguous(3))
    assert contiguous(0).over(contiguous(0, 4)).size == 0


def test_over_with_the_shape_of_the_base_returns_the_base():
    base = contiguous(4, 5).transpose()
    assert contiguous(5, 4).over(base) is base


def test_over_contiguous_base_only_adds_the_offset():
    outer = contiguous(4, 5).transpose()
    assert outer.over(Layout.contiguous((20,), 7)) == Layout((5, 4), (1, 5), 7)


def test_reshape_back_from_a_flat_chain_is_one_view():
    transposed = contiguous(2, 3).transpose()
    chained = transposed.reshape((6,))
    assert chained.depth == 2
    assert chained.reshape((3, 2)) is transposed
    assert chained.reshape((3, 2)).depth == 1


def test_slice_of_a_chain_within_one_axis_is_one_view():
    chained = contiguous(4, 5).transpose().reshape((20,))
    row = chained.index((slice(4, 8),))
    assert row == Layout((4,), (5,), 1)
    assert row.base is None
    assert chained.index((7,)).base is None
    assert chained.index((slice(None, None, 4),)) == Layout((5,), (1,), 0)


def test_chain_over_a_chain_simplifies():
    inner = contiguous(2, 3, 2).transpose().reshape((12,))
    outer = inner.reshape((3, 4)).transpose().reshape((12,))
    assert (inner.depth, outer.depth) == (2, 3)
    assert outer.reshape((4, 3)).transpose().reshape((12,)) == inner
    assert outer.reshape((4, 3)).transpose().depth == 2
    assert outer.index((slice(0, 2),)).depth == 1


def test_reshape_of_a_chain_splits_axes_to_one_view():
    chain = contiguous(12, 2).transpose().reshape((6, 4)).transpose()
    assert chain.depth == 2
    assert chain.reshape((8, 3)) == Layout((8, 3), (1, 8), 0)
    assert chain.reshape((24,)).reshape((8, 3)).depth == 1


def test_chain_depth_is_bounded_for_repeated_transposes():
    layout, model = contiguous(6, 10), np.arange(60).reshape(6, 10)
    for _ in range(40):
        layout, model = layout.transpose().reshape((6, 10)), model.T.reshape(6, 10)
        assert np.array_equal(layout.offsets(), model)
        assert layout.depth <= MAX_CHAIN_DEPTH


def test_gathered_rows_stay_one_view_under_basic_indexing():
    rows = contiguous(6, 5).select(0, [5, 0, 3, 3])
    for key in [(1,), (slice(None, None, -1),), (slice(1, None), slice(4, 1, -2)), (None, ..., 2)]:
        view = rows.index(key)
        assert view.base is None
        assert np.array_equal(view.offsets(), rows.offsets()[key])


def test_diagonal_of_gathered_axes_is_gathered():
    layout = contiguous(6, 6).oindex(([5, 0, 3], [1, 1, 4])).diagonal()
    assert layout.base is None
    assert layout.offsets().tolist() == [31, 1, 22]


def test_windows_of_a_gathered_axis_overlap():
    layout = Layout.gathered([7, 0, 2, 9]).windows(0, 2)
    assert layout.offsets().tolist() == [[7, 0], [0, 2], [2, 9]]


def test_reshaped_gather_reads_offsets_in_their_order():
    offsets = np.array([[3, 0, 7], [7, 7, 1]])
    assert np.array_equal(Layout.gathered(offsets).reshape(offsets.shape).offsets(), offsets)
