"""What is asked of layouts (injective, contiguous, disjoint, covering, equal, range), against brute force."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxor.layout import Layout

from . import contiguous, examples
from .moves import AFFINE, ALL, chains, layouts


@st.composite
def strided(draw) -> tuple[Layout, np.ndarray]:
    """An affine layout with any strides, as no move but `as_strided` would make them."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    strides = tuple(draw(st.integers(-14, 14)) for _ in shape)
    layout = Layout(shape, strides, draw(st.integers(-20, 40)))
    return layout, layout.offsets()


anything = layouts() | chains() | strided()


@examples(900)
@given(anything)
def test_range_injective_and_contiguous(case):
    layout, model = case
    assert layout.range() == ((model.min(), model.max()) if model.size else None)
    assert layout.is_injective() == (len(np.unique(model)) == model.size)
    in_order = np.arange(model.size) + (model.flat[0] if model.size else 0)
    assert layout.is_contiguous() == (layout.base is None and np.array_equal(model.ravel(), in_order))


@examples(600)
@given(anything, st.integers(0, 60))
def test_covers(case, count):
    layout, model = case
    for n in {count, model.size, int(model.max()) + 1 if model.size else 0}:
        assert layout.covers(n) == (set(range(n)) <= set(model.ravel().tolist()))


SHARED = layouts(size=24, moves=AFFINE) | layouts(size=24, moves=ALL)


@examples(500)
@given(anything | SHARED, anything | SHARED)
def test_disjoint(one, other):
    apart = not set(one[1].ravel().tolist()) & set(other[1].ravel().tolist())
    assert one[0].disjoint(other[0]) == apart
    assert other[0].disjoint(one[0]) == apart


@examples(500)
@given(SHARED | chains(), SHARED | chains())
def test_equal_maps_are_equal_and_hash_alike(one, other):
    same = one[1].shape == other[1].shape and np.array_equal(one[1], other[1])
    assert (one[0] == other[0]) == one[0].same_as(other[0]) == same
    if same:
        assert hash(one[0]) == hash(other[0])


@examples(200)
@given(layouts() | chains())
def test_a_layout_equals_the_same_offsets_gathered(case):
    layout, model = case
    again = Layout.gathered(model).reshape(model.shape)
    assert again == layout
    assert layout == again
    assert hash(again) == hash(layout)
    if model.size:
        moved = model.copy()
        moved.flat[model.size // 2] += 1
        assert Layout.gathered(moved).reshape(model.shape) != layout


def test_strides_of_axes_of_size_1_do_not_matter():
    assert Layout((1, 3), (5, 1)) == Layout((1, 3), (0, 1))
    assert hash(Layout((1, 3), (5, 1))) == hash(Layout((1, 3), (0, 1)))
    assert Layout((1, 3), (5, 1)).is_contiguous()
    assert Layout((0, 3), (5, 2), 9) == contiguous(0, 3)


def test_layouts_are_keys():
    seen = {contiguous(2, 3): 1, contiguous(2, 3).transpose(): 2}
    assert seen[contiguous(3, 2).reshape((2, 3))] == 1
    assert seen[contiguous(6).reshape((2, 3)).transpose()] == 2
    assert contiguous(2, 3) != (2, 3)


@pytest.mark.parametrize(
    ("layout", "writable"),
    [
        (contiguous(3).expand((2, 3)), False),
        (contiguous(9).windows(0, 3), False),
        (contiguous(9).windows(0, 3, step=3), True),
        (contiguous(4, 5).select(0, [1, 1, 0]), False),
        (contiguous(4, 5).select(0, [3, 1, 0]), True),
        (contiguous(1).expand((1,)), True),
        (contiguous(4, 5).transpose().reshape((20,)), True),
        (contiguous(2, 1).expand((2, 3)).transpose().reshape((6,)), False),
    ],
)
def test_what_shares_elements_is_read_only(layout, writable):
    assert layout.is_injective() == writable


def test_part_of_a_chain_may_avoid_what_its_base_repeats():
    thrice = contiguous(4, 1).expand((4, 3)).reshape((12,))
    part = thrice.index((slice(2, None, 4),))
    assert part.base is not None
    assert part.offsets().tolist() == [0, 2, 3]
    assert part.is_injective()
    assert not thrice.is_injective()


def test_as_many_positions_as_the_base_has_need_not_reach_all_of_it():
    twice = contiguous(4, 6).transpose().reshape((24,)).index((slice(12),)).expand((2, 12))
    assert twice.base is not None
    assert twice.size == twice.base.size
    assert not twice.covers(24)
    assert twice.range() == (0, 20)
    assert twice.disjoint(contiguous(4, 6).index((slice(None), slice(3, None))))


def test_columns_of_a_matrix_are_disjoint_though_their_ranges_overlap():
    matrix = contiguous(1000, 1000)
    left, right = matrix.index((slice(None), slice(500))), matrix.index((slice(None), slice(500, None)))
    assert left.disjoint(right)
    assert not left.disjoint(matrix.index((slice(None), 499)))
    assert matrix.index((slice(None, None, 2),)).disjoint(matrix.index((slice(1, None, 2),)))


def test_the_questions_about_strides_are_answered_without_looking_at_the_elements():
    huge = contiguous(100_000, 1_000, 1_000)
    evens, odds = huge.index((..., slice(None, None, 2))), huge.index((..., slice(1, None, 2)))
    turned = huge.transpose().reshape((-1,))
    began = time.perf_counter()
    assert evens.disjoint(odds)
    assert not evens.disjoint(huge)
    assert huge.covers(huge.size)
    assert turned.covers(huge.size)
    assert turned.is_injective()
    assert evens.is_injective()
    assert not huge.windows(1, 3).is_injective()
    assert Layout((1000, 1000), (1_009, 1_013)).is_injective()
    assert not Layout((2000, 2000), (1_009, 1_013)).is_injective()
    assert time.perf_counter() - began < 1


def test_equal_chains_are_told_without_a_look_at_every_element():
    def chain():
        return Layout.contiguous((1 << 20, 1 << 20)).transpose().reshape((-1,)).index((slice(1, None),))

    assert chain() == chain() and hash(chain()) == hash(chain())
    assert chain() != chain().flip()
