"""Reshape: the resulting views, their splits and merges, and errors for sizes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenxor.errors import AxisError, ShapeError
from tenxor.layout import Layout, ReshapePlan

from . import contiguous, examples, read
from .moves import AFFINE, factorised, layouts


def test_flattened_transpose_is_a_view():
    layout = contiguous(3, 4).transpose().reshape((12,))
    assert read(layout, range(12)) == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    assert layout.is_injective()


def test_flattened_columns_are_a_view():
    layout = contiguous(4, 4).index((slice(None), slice(3))).reshape((12,))
    assert read(layout, range(16)) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]
    assert layout.is_injective()


def test_write_through_a_reshaped_transpose_reaches_the_storage():
    storage = list(range(20))
    base = contiguous(4, 5)
    storage[base.transpose().reshape((20,)).ravel((1,))] = -7
    assert storage[base.ravel((1, 0))] == -7


def test_flatten_accepts_start_and_end():
    layout = contiguous(3, 4, 5).flatten(1, 2)
    assert (layout.shape, layout.strides) == ((3, 20), (20, 1))
    assert contiguous(3, 4, 5).flatten().shape == (60,)
    assert contiguous(3, 4, 5).flatten(0, -2).shape == (12, 5)
    assert contiguous().flatten().shape == (1,)
    with pytest.raises(AxisError, match="flatten: axis 2 comes after axis 1"):
        contiguous(3, 4, 5).flatten(2, 1)


def test_unflatten_infers_a_size():
    layout = contiguous(3, 20).unflatten(1, (-1, 5))
    assert (layout.shape, layout.strides) == ((3, 4, 5), (20, 5, 1))


def test_unflatten_sizes_must_multiply_to_the_axis():
    with pytest.raises(ShapeError, match=r"unflatten of axis 1: shape \(20,\) has 20 elements, shape \(3, 5\) has 15"):
        contiguous(3, 20).unflatten(1, (3, 5))


def test_unflatten_splits_an_axis_in_two():
    assert contiguous(2, 3, 20).unflatten(-1, (4, 5)).permute((0, 2, 3, 1)).strides == (60, 5, 1, 20)


def test_reshape_infers_minus_1():
    assert contiguous(6, 2).reshape((-1, 3, 1)).shape == (4, 3, 1)
    assert contiguous(0, 3).reshape((-1, 3)).shape == (0, 3)
    assert contiguous(6).reshape((3, 2, -1)).shape == (3, 2, 1)


def test_reshape_to_another_size_is_an_error():
    with pytest.raises(ShapeError) as error:
        contiguous(2, 3, 4).reshape((5, 6))
    assert str(error.value) == ("reshape: shape (2, 3, 4) has 24 elements, shape (5, 6) has 30; (-1, 6) would be (4, 6)")
    with pytest.raises(ShapeError, match=r"shape \(5, 7\) has 35$"):
        contiguous(2, 3).reshape((5, 7))


def test_reshape_never_truncates():
    with pytest.raises(ShapeError, match=r"shape \(2, 3\) has 6 elements, shape \(2, 2\) has 4"):
        contiguous(2, 3).reshape((2, 2))


def test_invalid_minus_1_is_an_error():
    with pytest.raises(ShapeError, match=r"has 6 elements, which 4 does not divide, .* the -1 in \(4, -1\) fits"):
        contiguous(2, 3).reshape((4, -1))
    with pytest.raises(ShapeError, match=r"reshape: shape \(-1, -1\) has more than one -1"):
        contiguous(2, 3).reshape((-1, -1))
    with pytest.raises(ShapeError, match=r"shape \(-2, -3\) has a negative size other than -1"):
        contiguous(2, 3).reshape((-2, -3))
    with pytest.raises(ShapeError, match=r"the -1 in \(0, -1\) could be anything"):
        contiguous(0, 3).reshape((0, -1))


@pytest.mark.parametrize(
    ("old", "new", "plan"),
    [
        ((2, 3, 4, 5), (6, 20), ReshapePlan("merge", ((6, 20),), True)),
        ((6, 20), (2, 3, 4, 5), ReshapePlan("split", ((2, 3, 4, 5),), True)),
        ((6, 8), (2, 24), ReshapePlan("split then merge", ((2, 3, 8), (2, 24)), True)),
        ((2, 3, 4), (6, 2, 2), ReshapePlan("split then merge", ((2, 3, 2, 2), (6, 2, 2)), True)),
        ((6, 8), (4, 12), ReshapePlan("merge then split", ((48,), (4, 12)), True)),
        ((5, 6, 8), (5, 4, 12), ReshapePlan("merge then split", ((5, 48), (5, 4, 12)), True)),
        ((2, 3), (2, 3), ReshapePlan("same", (), True)),
        ((2, 3), (2, 1, 3), ReshapePlan("same", ((2, 1, 3),), True)),
        ((0, 3), (5, 0), ReshapePlan("merge then split", ((0,), (5, 0)), True)),
    ],
)
def test_reshape_plan_gives_kind_and_steps(old, new, plan):
    assert Layout.contiguous(old).reshape_plan(new) == plan


def test_reshape_plan_tells_whether_one_view_suffices():
    assert contiguous(2, 3).transpose().reshape_plan((-1,)) == ReshapePlan("merge", ((6,),), False)
    assert contiguous(2, 3).transpose().reshape((6,)).reshape_plan((3, 2)).single_view


def test_axes_that_do_not_join_become_a_chain():
    layout = contiguous(4, 4).index((slice(None), slice(3))).reshape((12,))
    assert layout.base is not None
    assert layout.ravel((3,)) == 4


def numpy_view(layout: Layout) -> np.ndarray:
    """The array that NumPy makes of an affine layout."""
    low, high = layout.range() or (0, -1)
    memory = np.zeros(high - low + 1, dtype=np.int8)
    return np.lib.stride_tricks.as_strided(memory[layout.offset - low :], layout.shape, layout.strides)


@examples(500)
@given(layouts(moves=AFFINE), st.data())
def test_reshape_is_one_view_where_numpy_does_not_copy(case, data):
    layout, model = case
    assume(layout.size and layout.base is None)
    view = numpy_view(layout)
    shape = factorised(data.draw, model.size)
    needs_no_copy = np.may_share_memory(view.reshape(shape), view)
    assert (layout.reshape(shape).base is None) == needs_no_copy
    assert layout.reshape_plan(shape).single_view == needs_no_copy


@examples(300)
@given(layouts(), st.data())
def test_reshape_there_and_back_is_the_same_layout(case, data):
    layout, model = case
    shape = factorised(data.draw, model.size)
    if model.size:
        back = layout.reshape(shape).reshape(layout.shape)
        assert back == layout
        assert back.depth == layout.depth


@examples(200)
@given(st.data())
def test_steps_of_a_reshape_plan_lead_to_the_new_shape(data):
    size = data.draw(st.sampled_from([1, 6, 24, 48, 60, 72]))
    layout = Layout.contiguous(factorised(data.draw, size))
    target = factorised(data.draw, size)
    kind, steps, _ = layout.reshape_plan(target)
    assert len(steps) <= 1 + (" then " in kind)
    moved = layout
    for step in steps:
        assert " then " not in moved.reshape_plan(step).kind
        moved = moved.reshape(step)
    assert moved.shape == target


def test_adjacent_gathered_axes_join_into_a_small_table():
    layout = contiguous(5, 6).select(0, [4, 0, 1])
    assert layout.reshape((18,)).base is None
    assert layout.reshape((2, 9)).base is not None  # 0..8 and 9..17 differ: rows are cut in the middle
    assert layout.reshape((18,)).reshape((3, 6)) == layout


def test_large_tables_are_not_joined():
    layout = contiguous(200, 100).select(0, [7, 3, 5] * 60)
    chained = layout.reshape((18000,))
    assert chained.base is layout
    assert chained.reshape((180, 100)) is layout


def test_gathered_axis_splits_if_its_table_is_a_sum():
    layout = Layout.gathered([0, 1, 5, 6, 2, 3]).reshape((3, 2))
    assert layout.base is None
    assert layout.offsets().tolist() == [[0, 1], [5, 6], [2, 3]]
    assert Layout.gathered([0, 1, 5, 7]).reshape((2, 2)).base is not None
