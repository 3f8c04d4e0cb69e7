"""Coordinates, row-major numbers, strides and broadcasting of shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxor.errors import AxisError, IndexOutOfRange, ShapeError
from tenxor.layout import Layout, broadcast_shapes, contiguous_strides, next_index, ravel_index, unravel_index

from . import contiguous

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def test_ravel_index_counts_in_row_major_order():
    assert ravel_index((1, 2, 3), (5, 6, 7)) == 59


def test_unravel_index_undoes_ravel_index():
    assert unravel_index(59, (5, 6, 7)) == (1, 2, 3)


def test_next_index_carries_to_slower_axes():
    assert next_index((1, 2, 6), (5, 6, 7)) == (1, 3, 0)


def test_next_index_after_the_last_is_none():
    assert next_index((4, 5, 6), (5, 6, 7)) is None
    assert next_index((), ()) is None


def test_negative_coordinates_count_from_the_end():
    assert ravel_index((-1, -1, -1), (5, 6, 7)) == 209


@given(shapes)
def test_next_index_visits_coordinates_in_numpy_order(shape):
    coords = list(np.ndindex(*shape))
    for number, position in enumerate(coords):
        assert ravel_index(position, shape) == number
        assert unravel_index(number, shape) == position
        assert next_index(position, shape) == (coords[number + 1] if number + 1 < len(coords) else None)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((10, 9, 5, 13), (585, 65, 13, 1)),
        ((3, 5, 4), (20, 4, 1)),
        ((5, 2), (2, 1)),
        ((), ()),
        ((3, 0, 2), (2, 2, 1)),
    ],
)
def test_contiguous_strides_are_row_major(shape, strides):
    assert contiguous_strides(shape) == strides
    assert Layout.contiguous(shape).strides == strides


def test_ravel_of_2_0_0_in_shape_3_5_4_is_40():
    assert contiguous(3, 5, 4).ravel((2, 0, 0)) == 40


def test_ravel_of_1_2_4_in_shape_3_4_5_is_34():
    assert contiguous(3, 4, 5).ravel((1, 2, 4)) == 34


def test_ravel_includes_the_offset_and_is_linear():
    layout = contiguous(6, 7, 8).index((slice(1, None), slice(None, None, -1), slice(2, None, 2)))
    assert layout.offset == 56 + 48 + 2
    index, two = (1, 2, 0), (3, 1, 2)
    both = tuple(a + b for a, b in zip(index, two, strict=True))
    assert layout.ravel((0, 0, 0)) == layout.offset
    assert layout.ravel(both) - layout.offset == layout.ravel(index) + layout.ravel(two) - 2 * layout.offset


def test_coordinate_out_of_range_names_its_axis():
    """[0, 0, 3] of 2x2x2 would be inside the data, and another element."""
    with pytest.raises(IndexOutOfRange, match="index 3 is out of range for axis 2 with size 2"):
        contiguous(2, 2, 2).ravel((0, 0, 3))
    with pytest.raises(IndexOutOfRange, match="index -3 is out of range for axis 0 with size 2"):
        ravel_index((-3, 0, 0), (2, 2, 2))


def test_wrong_number_of_coordinates_is_an_error():
    with pytest.raises(IndexOutOfRange, match=r"2 coordinates for shape \(2, 2, 2\), which has 3 axes"):
        contiguous(2, 2, 2).ravel((0, 0))
    with pytest.raises(IndexOutOfRange, match=r"1 coordinate for shape \(\), which has no axes"):
        ravel_index((0,), ())


def test_unravel_index_out_of_range_is_an_error():
    with pytest.raises(IndexOutOfRange, match=r"number 210 is out of range for shape \(5, 6, 7\).*210 elements"):
        unravel_index(210, (5, 6, 7))
    with pytest.raises(IndexOutOfRange, match="number -1"):
        unravel_index(-1, (5, 6, 7))


def test_negative_size_in_a_shape_is_an_error():
    with pytest.raises(ShapeError, match=r"shape \(2, -1\) has a negative size"):
        Layout.contiguous((2, -1))


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([(5, 1, 3), (7, 1, 4, 3)], (7, 5, 4, 3)),
        ([(2, 3, 1), (7, 2, 1, 5)], (7, 2, 3, 5)),
        ([(3, 1), (1, 3)], (3, 3)),
        ([(0, 1), (4,)], (0, 4)),
        ([(2,), (3, 1), (4, 1, 1)], (4, 3, 2)),
        ([()], ()),
        ([], ()),
    ],
)
def test_broadcast_shapes_gives_the_expected_shape(shapes, result):
    assert broadcast_shapes(*shapes) == result


@given(st.lists(shapes, max_size=3))
def test_broadcast_shapes_matches_numpy(shapes):
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == expected


def test_broadcast_error_names_shapes_axis_and_sizes():
    with pytest.raises(ShapeError) as error:
        broadcast_shapes((2, 3), (4,))
    assert str(error.value) == ("shapes (2, 3) and (4,) do not broadcast: axis -1 has sizes 3 and 4; sizes must be equal or 1")
    with pytest.raises(ShapeError, match=r"shapes \(2, 1\), \(1,\) and \(3, 4\) do not.*axis -2 has sizes 2 and 3"):
        broadcast_shapes((2, 1), (1,), (3, 4))


def test_axis_error_names_the_operation_and_the_valid_range():
    with pytest.raises(AxisError, match=r"flip: axis 2 does not exist in a tensor of 2 axes; .* from -2 to 1"):
        contiguous(2, 3).flip(2)
    with pytest.raises(AxisError, match="flip: axis 0 does not exist in a tensor of no axes; it has no axes"):
        contiguous().flip(0)
    with pytest.raises(AxisError, match=r"flip: axis 1 is named twice in \(1, -1\)"):
        contiguous(2, 3).flip((1, -1))
