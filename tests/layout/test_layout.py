"""The moves of a layout, one by one: shapes, strides and elements; all share memory."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.errors import ArgumentError, AxisError, ShapeError
from tenxor.layout import Layout

from . import contiguous, read


def test_transpose_swaps_shape_and_strides():
    assert read(contiguous(2, 3).transpose(), [1, 2, 3, 4, 5, 6]) == [[1, 4], [2, 5], [3, 6]]


def test_double_transpose_is_the_original_and_shares_memory():
    original = contiguous(2, 3)
    transposed = original.transpose()
    twice_transposed = transposed.transpose()
    assert twice_transposed == original
    assert transposed != original
    assert original.ravel((1, 0)) == transposed.ravel((0, 1)) == twice_transposed.ravel((1, 0)) == 3


def test_transpose_of_5_2_has_shape_2_5_and_strides_1_2():
    layout = contiguous(5, 2).transpose()
    assert (layout.shape, layout.strides) == ((2, 5), (1, 2))


def test_permute_uses_its_order_not_the_inverse():
    layout = contiguous(2, 2, 2).permute((1, 2, 0))
    assert np.ravel(read(layout, range(8))).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert contiguous(2, 3, 4).permute((1, 2, 0)).shape == (3, 4, 2)


@pytest.mark.parametrize("axes", [(0, 0, 1), (0, -3, 1)])
def test_permute_with_a_repeated_axis_is_an_error(axes):
    with pytest.raises(AxisError, match="permute: axis 0 is named twice"):
        contiguous(2, 3, 4).permute(axes)


def test_permute_with_missing_axes_is_an_error():
    message = r"permute: \(1, 0\) names 2 axes of a tensor of 3 axes; each of \(0, 1, 2\) must appear once"
    with pytest.raises(AxisError, match=message):
        contiguous(2, 3, 4).permute((1, 0))
    with pytest.raises(AxisError, match="permute: axis 3 does not exist"):
        contiguous(2, 3, 4).permute((1, 0, 3))


def test_permute_moves_channels_first():
    layout = contiguous(4, 5, 3).moveaxis(-1, 0)
    assert (layout.shape, layout.strides) == ((3, 4, 5), (1, 15, 3))


def test_moveaxis_pairs_sources_with_destinations():
    assert contiguous(2, 3, 4, 5).moveaxis((0, 1), (-1, 0)).shape == (3, 4, 5, 2)
    with pytest.raises(AxisError, match=r"moveaxis: source \(0, 1\) has 2 axes and destination \(2,\) 1"):
        contiguous(2, 3, 4).moveaxis((0, 1), 2)


def test_swapaxes_counts_from_either_end():
    assert contiguous(2, 3, 4).swapaxes(0, -1).shape == (4, 3, 2)
    with pytest.raises(AxisError, match="swapaxes: axis 3 does not exist in a tensor of 3 axes"):
        contiguous(2, 3, 4).swapaxes(0, 3)


def test_squeeze_and_expand_dims_change_axes_of_size_1():
    layout = contiguous(1, 3, 1)
    assert layout.squeeze().shape == (3,)
    assert layout.squeeze(0).shape == (3, 1)
    assert layout.squeeze((0, -1)).shape == (3,)
    assert contiguous(3).expand_dims(0).shape == (1, 3)
    assert contiguous(3).expand_dims((0, -1)).shape == (1, 3, 1)
    with pytest.raises(ShapeError, match=r"squeeze: axis 1 of shape \(1, 3, 1\) has size 3; it must be 1"):
        layout.squeeze(1)
    with pytest.raises(AxisError, match="expand_dims: axis 2 does not exist in a tensor of 2 axes"):
        contiguous(3).expand_dims(2)


def test_expand_repeats_with_stride_0():
    layout = contiguous(3, 1).expand((2, -1, 4))
    assert (layout.shape, layout.strides) == ((2, 3, 4), (0, 1, 0))
    assert contiguous(1).expand((0,)).size == 0


def test_expand_error_names_both_shapes_and_the_axis():
    with pytest.raises(ShapeError) as error:
        contiguous(2, 3).expand((2, 4))
    assert str(error.value) == (
        "expand: shape (2, 3) does not expand to (2, 4): axis -1 has size 3 and cannot become 4; "
        "only axes of size 1 and new leading axes repeat"
    )
    with pytest.raises(ShapeError, match=r"expand: shape \(2, 3\) has more axes than \(3,\)"):
        contiguous(2, 3).expand((3,))
    with pytest.raises(ShapeError, match="axis -2 is new and cannot become -1"):
        contiguous(3).expand((-1, 3))


def test_flip_negates_strides():
    assert read(contiguous(2, 3).flip(1), range(6)) == [[2, 1, 0], [5, 4, 3]]
    assert contiguous(2, 3).flip().strides == (-3, -1)
    assert contiguous(0, 3).flip().offset >= 0


def test_diagonal_is_the_last_axis():
    layout = contiguous(2, 3, 4).diagonal(1, 1, 2)
    assert (layout.shape, layout.strides, layout.offset) == ((2, 3), (12, 5), 1)
    assert contiguous(3, 3).diagonal(7).size == 0
    with pytest.raises(AxisError, match=r"diagonal: axis 1 is named twice in \(1, -1\)"):
        contiguous(2, 3).diagonal(0, 1, -1)


def test_windows_overlap_in_memory():
    assert read(contiguous(5).windows(0, 3), range(5)) == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert read(contiguous(8).windows(0, 3, step=2, dilation=2), range(8)) == [[0, 2, 4], [2, 4, 6]]
    assert contiguous(6, 7).windows(0, 3).windows(1, 2).shape == (4, 6, 3, 2)


def test_window_longer_than_its_axis_is_an_error():
    with pytest.raises(ShapeError, match="windows: a window reaches over 7 elements, but axis 1 has 6"):
        contiguous(2, 6).windows(1, 4, dilation=2)
    with pytest.raises(ArgumentError, match="windows: size 2, step 0 and dilation 1 must all be at least 1"):
        contiguous(6).windows(0, 2, step=0)


def test_contiguous_layouts_are_interned():
    assert Layout.contiguous((2, 3)) is Layout.contiguous([2, np.int64(3)])
    assert Layout.contiguous((2, 3), 4).offset == 4


def test_gathered_keeps_offsets_in_any_order():
    layout = Layout.gathered(np.array([7, 0, 7, 3]))
    assert layout.offsets().tolist() == [7, 0, 7, 3]
    assert layout.tables is not None


@pytest.mark.parametrize("offsets", [[], [5], [5, 5, 5], [5, 8, 11], [9, 7, 5]])
def test_evenly_spaced_gathered_offsets_need_no_table(offsets):
    layout = Layout.gathered(offsets)
    assert layout.tables is None
    assert layout.offsets().tolist() == offsets


def test_repr_shows_shape_strides_offset_tables_and_base():
    assert repr(contiguous(2, 3).index((1,))) == "Layout(shape=(3,), strides=(1,), offset=3)"
    assert repr(Layout.gathered([4, 9, 5])) == "Layout(shape=(3,), strides=(0,), offset=4, tables=(Table([0, 5, 1]),))"
    assert "base=Layout(shape=(3, 2)" in repr(contiguous(2, 3).transpose().reshape((6,)))
