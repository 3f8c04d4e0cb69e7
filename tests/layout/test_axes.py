"""Gathered axes: tables that are values, and axes that are affine whenever they can be."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.layout import Layout, Table
from tenxor.layout.axes import Axis, axis_from_offsets, coalesce_axes, join_axes, split_in_two


def test_offset_tables_compare_by_value():
    assert Table(np.array([0, 7, 2])) == Table(np.array([0, 7, 2]))
    assert hash(Table(np.array([0, 7, 2]))) == hash(Table(np.array([0, 7, 2])))
    assert Table(np.array([0, 7, 2])) != Table(np.array([0, 7, 3]))
    assert Table(np.array([0, 7, 2])) != [0, 7, 2]
    assert len(Table(np.array([0, 7, 2]))) == 3


def test_offset_table_is_immutable():
    source = np.array([0, 7, 2])
    table = Table(source)
    with pytest.raises(ValueError, match="read-only"):
        table.offsets[1] = 0
    source[1] = 0
    assert table.offsets[1] == 7


def test_table_is_relative_to_the_first_offset():
    layout = Layout.gathered([9, 4, 6])
    assert layout.offset == 9
    assert layout.tables is not None
    assert layout.tables[0] == Table(np.array([0, -5, -3]))


def test_repr_of_a_long_offset_table_is_shortened():
    assert repr(Table(np.arange(100) ** 2)) == "Table([0, 1, 4, 9, ..., 9604, 9801])"


def test_axis_of_evenly_spaced_offsets_is_affine():
    assert axis_from_offsets(np.array([5, 3, 1])) == (5, Axis(3, -2))
    assert axis_from_offsets(np.array([5, 5])) == (5, Axis(2, 0))
    assert axis_from_offsets(np.array([5])) == (5, Axis(1, 0))
    assert axis_from_offsets(np.array([], dtype=np.int64)) == (0, Axis(0, 0))


def test_adjacent_axes_join_if_strides_match():
    assert join_axes(Axis(3, 4), Axis(4, 1)) == Axis(12, 1)
    assert join_axes(Axis(3, 5), Axis(4, 1)) is None
    assert join_axes(Axis(1, 9), Axis(4, 1)) == Axis(4, 1)
    assert join_axes(Axis(3, 0, Table(np.array([0, 4, 8]))), Axis(4, 1)) == Axis(12, 1)


def test_coalesced_drops_axes_of_size_1():
    assert coalesce_axes([Axis(2, 12), Axis(1, 99), Axis(3, 4), Axis(4, 2)]) == [
        Axis(6, 4),
        Axis(4, 2),
    ]


def test_halves_splits_a_table_that_is_a_sum():
    table = Table(np.array([0, 1, 10, 11, 30, 31]))
    assert split_in_two(Axis(6, 0, table), 2) == (Axis(3, 0, Table(np.array([0, 10, 30]))), Axis(2, 1))
    assert split_in_two(Axis(6, 0, table), 3) is None
