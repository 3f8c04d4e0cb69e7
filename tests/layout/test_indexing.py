"""Basic and orthogonal indexing: the elements of a view, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.errors import ArgumentError, BadIndex, IndexOutOfRange

from . import contiguous, read

ALL = slice(None)
CUBE = range(1, 9)  # as (2, 2, 2)


def test_write_to_an_element_is_seen_through_a_reshape():
    storage = list(CUBE)
    cube = contiguous(2, 2, 2)
    assert storage[cube.ravel((1, 0, 1))] == 6
    storage[cube.ravel((1, 0, 1))] = 12
    assert storage[cube.reshape((4, 2)).ravel((2, 1))] == 12


def test_int_on_the_last_axis_selects_columns():
    assert read(contiguous(2, 2, 2).index((ALL, ALL, 1)), CUBE) == [[2, 4], [6, 8]]


def test_int_drops_its_axis():
    cube = contiguous(2, 2, 2)
    assert read(cube.index((1,)).index((1, 1)), CUBE) == 8
    assert read(cube.index((ALL, 1)).index((1, 0)), CUBE) == 7
    assert read(cube.index((ALL, ALL, 0)).index((1, 0)), CUBE) == 5
    assert cube.index((ALL, 1)).shape == (2, 2)


def test_along_yields_the_views_of_index():
    table = contiguous(3, 4, 5)
    for layout in (
        table,
        table.index((ALL, slice(None, None, -2))),
        table.expand((2, 3, 4, 5)),
        table.oindex((None, [3, 0, 0])),
        table.transpose().reshape((6, 10)),
        contiguous(0, 3),
    ):
        for axis in range(layout.ndim):
            wanted = [layout.index((*(ALL,) * axis, k)) for k in range(layout.shape[axis])]
            assert [view.shape for view in layout.along(axis)] == [view.shape for view in wanted]
            assert [view.offsets().tolist() for view in layout.along(axis)] == [view.offsets().tolist() for view in wanted]


def test_index_of_an_indexed_view_adds_both_offsets():
    assert read(contiguous(2, 2, 2).index((ALL, 1)).index((1,)), CUBE) == [7, 8]


def test_write_through_an_indexed_view_uses_its_offset():
    storage = list(CUBE)
    cube = contiguous(2, 2, 2)
    storage[cube.index((1,)).ravel((0, 0))] = 99
    assert storage[cube.ravel((1, 0, 0))] == 99
    assert storage[cube.ravel((0, 0, 0))] == 1


def test_int_on_a_middle_axis_sets_strides_and_offset():
    layout = contiguous(2, 5, 6).index((ALL, 4))
    assert (layout.shape, layout.strides, layout.offset) == ((2, 6), (30, 1), 24)


def test_slices_of_two_axes_set_the_shape():
    assert contiguous(5, 6).index((slice(2, 5), slice(1, -1))).shape == (3, 4)


def test_negative_step_is_a_view_with_negative_stride():
    layout = contiguous(30).index((slice(20, 5, -3),))
    assert read(layout, range(30)) == [20, 17, 14, 11, 8]
    assert layout.strides == (-3,)


def test_steps_along_two_axes_select_a_grid():
    layout = contiguous(4, 7).index((slice(None, None, 2), slice(None, None, 3)))
    assert read(layout, range(28)) == [[0, 3, 6], [14, 17, 20]]


def test_slices_select_corners_of_a_matrix():
    square = contiguous(4, 4)
    assert read(square.index((slice(2), slice(3))), range(16)) == [[0, 1, 2], [4, 5, 6]]
    corner = square.index((slice(2, None), slice(3, None)))
    assert read(corner, range(16)) == [[11], [15]]
    assert (corner.strides, corner.offset) == ((4, 1), 11)


def test_step_on_a_middle_axis_doubles_its_stride():
    layout = contiguous(4, 5, 6).index((ALL, slice(None, None, 2)))
    assert (layout.shape, layout.strides) == ((4, 3, 6), (30, 12, 1))


def test_slice_with_step_rounds_its_size_up():
    assert contiguous(10).index((slice(None, None, 3),)).shape == (4,)


def test_empty_slice_has_size_0():
    layout = contiguous(5).index((slice(4, 1),))
    assert (layout.shape, layout.size) == ((0,), 0)
    assert contiguous(5).index((slice(9, None),)).size == 0
    assert contiguous(5).index((slice(1, 4, -1),)).size == 0


def test_negative_ints_count_from_the_end():
    layout = contiguous(2, 3)
    assert layout.index((0, -1)).offset == 2
    assert layout.index((-1,)).offset == 3
    assert layout.index((-2, -3)).offset == 0


@pytest.mark.parametrize("bad", [3, -4])
def test_index_and_oindex_raise_index_out_of_range(bad):
    with pytest.raises(IndexOutOfRange, match=f"index {bad} is out of range for axis 1 with size 3"):
        contiguous(2, 3).index((0, bad))
    with pytest.raises(IndexOutOfRange, match=f"index {bad} is out of range for axis 1 with size 3"):
        contiguous(2, 3).oindex((0, bad))


def test_too_many_indices_error_names_the_number_of_axes():
    with pytest.raises(IndexOutOfRange, match=r"too many indices: 3 for a tensor of 2 axes, shape \(2, 3\)"):
        contiguous(2, 3).index((0, None, 0, 0))
    with pytest.raises(IndexOutOfRange, match="too many indices: 3 for a tensor of 2 axes"):
        contiguous(2, 3).index((0, ..., 0, 0))
    with pytest.raises(IndexOutOfRange, match=r"too many indices: 1 for a tensor of no axes, shape \(\)"):
        contiguous().index((0,))
    with pytest.raises(IndexOutOfRange, match="too many indices: 3 for a tensor of 2 axes"):
        contiguous(2, 3).oindex((0, ..., 0, 0))


def test_slice_with_step_0_is_an_error_that_names_the_axis():
    for index in (contiguous(2, 3).index, contiguous(2, 3).oindex):
        with pytest.raises(ArgumentError, match="the slice of axis 1 has step 0; a step may be any other integer"):
            index((ALL, slice(None, None, 0)))


def test_index_of_another_type_is_an_error():
    layout = contiguous(2, 3)
    assert layout.index((np.int32(1), np.array(2))).offset == 5
    with pytest.raises(BadIndex, match=r"the index of axis 1 is a float; use an int, a slice, None or \.\.\."):
        layout.index((0, 1.0))
    with pytest.raises(BadIndex, match="the index of axis 0 is True; a boolean is not an integer index"):
        layout.index((True,))
    with pytest.raises(BadIndex, match="only one Ellipsis"):
        layout.index((..., 0, ...))
    with pytest.raises(BadIndex, match="only one Ellipsis"):
        layout.oindex((..., ...))
    with pytest.raises(BadIndex, match=r"the slice of axis 0 is .*'a'.*; its start, stop and step must be integers or None"):
        layout.index((slice("a", None),))


def test_oindex_int_drops_its_axis():
    layout = contiguous(5, 4, 3).oindex(([2, 3], None, 1))
    assert layout.shape == (2, 4)
    assert layout.ravel((1, 2)) == contiguous(5, 4, 3).ravel((3, 2, 1))


def test_oindex_keepdims_leaves_a_size_of_1():
    layout = contiguous(5, 4, 3).oindex(([2, 3], None, 1), keepdims=True)
    assert layout.shape == (2, 4, 1)
    assert layout.ravel((1, 2, 0)) == contiguous(5, 4, 3).ravel((3, 2, 1))


def test_oindex_accepts_a_list_and_a_backward_slice():
    base = contiguous(5, 2, 3)
    layout = base.oindex(([3, 4], None, slice(3, 0, -1)))
    assert layout.shape == (2, 2, 2)
    assert layout.ravel((0, 0, 0)) == base.ravel((3, 0, 2))
    assert layout.ravel((1, 1, 1)) == base.ravel((4, 1, 1))


def test_oindex_repeated_rows_share_memory():
    storage = list(range(20))
    base = contiguous(4, 5)
    twice = base.oindex(([1, 1], slice(4)))
    assert read(twice, storage) == [[5, 6, 7, 8], [5, 6, 7, 8]]
    storage[base.ravel((1, 2))] = -1
    assert read(twice, storage) == [[5, 6, -1, 8], [5, 6, -1, 8]]
    assert not twice.is_injective()


def test_oindex_views_multiply_like_arrays():
    base = contiguous(4, 5)
    a = np.array(read(base.oindex(([1, 3], slice(0, 5, 2))).transpose(), range(20)))
    b = np.array(read(base.oindex(([1, 1], slice(4))).swapaxes(0, 1).reshape((2, 4)), range(20)))
    assert (a @ b).tolist() == [[130, 130, 150, 150], [154, 154, 178, 178], [178, 178, 206, 206]]


def test_oindex_takes_bools_arrays_and_an_ellipsis():
    layout = contiguous(4, 3, 5)
    assert layout.oindex(([True, False, True, True],)) == layout.select(0, [0, 2, 3])
    assert layout.oindex((..., np.array([4, 0, 1]))) == layout.select(-1, [4, 0, 1])
    assert layout.oindex(([],)).shape == (0, 3, 5)
    assert layout.oindex((0, ..., range(3))).shape == (3, 3)


def test_select_lists_indices_of_one_axis():
    layout = contiguous(2, 6).select(1, [5, 0, 1])
    assert layout.offsets().tolist() == [[5, 0, 1], [11, 6, 7]]
    assert layout.select(0, [1, 0, 1]).offsets().tolist() == [[11, 6, 7], [5, 0, 1], [11, 6, 7]]


def test_evenly_spaced_list_is_an_affine_slice():
    assert contiguous(9).oindex(([6, 4, 2],)) == contiguous(9).index((slice(6, 0, -2),))
    assert contiguous(9).oindex(([6, 4, 2],)).tables is None


def test_list_index_out_of_range_raises_at_once():
    with pytest.raises(IndexOutOfRange, match="index 4 is out of range for axis 0 with size 4"):
        contiguous(4, 5).oindex(([0, 4],))
    with pytest.raises(IndexOutOfRange, match="index -6 is out of range for axis 1 with size 5"):
        contiguous(4, 5).select(1, np.array([0, -6]))
    with pytest.raises(IndexOutOfRange, match="18446744073709551615 is out of range"):
        contiguous(4).select(0, np.array([2**64 - 1], dtype=np.uint64))


def test_list_of_wrong_type_or_length_is_an_error():
    with pytest.raises(IndexOutOfRange, match="the list of bools for axis 0 has 2 entries; it must have 4"):
        contiguous(4, 5).oindex(([True, False],))
    with pytest.raises(BadIndex, match="the list of indices for axis 1 holds float64; it must hold ints or bools"):
        contiguous(4, 5).oindex((None, [0.5]))
    with pytest.raises(BadIndex, match="the list of indices for axis 0 has 2 axes; it must have one"):
        contiguous(4, 5).oindex(([[0, 1]],))
    with pytest.raises(BadIndex, match="the list of indices for axis 0 is ragged"):
        contiguous(4, 5).oindex(([[0], [1, 2]],))
