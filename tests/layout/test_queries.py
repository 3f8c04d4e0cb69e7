"""Predicates of layouts (injective, contiguous, disjoint, covering, equal) and their range, compared with brute force."""

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
    """Return an affine layout with arbitrary strides, as `as_strided` makes them."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    strides = tuple(draw(st.integers(-14, 14)) for _ in shape)
    layout = Layout(shape, strides, draw(st.integers(-20, 40)))
    return layout, layout.offsets()


any_layout = layouts() | chains() | strided()


@examples(900)
@given(any_layout)
def test_range_is_injective_and_is_contiguous_match_brute_force(case):
    layout, model = case
    assert layout.range() == ((model.min(), model.max()) if model.size else None)
    assert layout.is_injective() == (len(np.unique(model)) == model.size)
    in_order = np.arange(model.size) + (model.flat[0] if model.size else 0)
    assert layout.is_contiguous() == (layout.base is None and np.array_equal(model.ravel(), in_order))


@examples(600)
@given(any_layout, st.integers(0, 60))
def test_layout_covers_matches_brute_force(case, count):
    layout, model = case
    for n in {count, model.size, int(model.max()) + 1 if model.size else 0}:
        assert layout.covers(n) == (set(range(n)) <= set(model.ravel().tolist()))


SHARED = layouts(size=24, moves=AFFINE) | layouts(size=24, moves=ALL)


@examples(500)
@given(any_layout | SHARED, any_layout | SHARED)
def test_layout_disjoint_matches_brute_force(left, right):
    expected = not set(left[1].ravel().tolist()) & set(right[1].ravel().tolist())
    assert left[0].disjoint(right[0]) == expected
    assert right[0].disjoint(left[0]) == expected


@examples(500)
@given(SHARED | chains(), SHARED | chains())
def test_equal_maps_compare_equal_and_hash_equally(left, right):
    expected = left[1].shape == right[1].shape and np.array_equal(left[1], right[1])
    assert (left[0] == right[0]) == left[0].same_as(right[0]) == expected
    if expected:
        assert hash(left[0]) == hash(right[0])


@examples(200)
@given(layouts() | chains())
def test_layout_equals_its_gathered_offsets(case):
    layout, model = case
    gathered = Layout.gathered(model).reshape(model.shape)
    assert gathered == layout
    assert layout == gathered
    assert hash(gathered) == hash(layout)
    if model.size:
        moved = model.copy()
        moved.flat[model.size // 2] += 1
        assert Layout.gathered(moved).reshape(model.shape) != layout


def test_equality_ignores_strides_of_axes_of_size_1():
    assert Layout((1, 3), (5, 1)) == Layout((1, 3), (0, 1))
    assert hash(Layout((1, 3), (5, 1))) == hash(Layout((1, 3), (0, 1)))
    assert Layout((1, 3), (5, 1)).is_contiguous()
    assert Layout((0, 3), (5, 2), 9) == contiguous(0, 3)


def test_layouts_are_dictionary_keys():
    values = {contiguous(2, 3): 1, contiguous(2, 3).transpose(): 2}
    assert values[contiguous(3, 2).reshape((2, 3))] == 1
    assert values[contiguous(6).reshape((2, 3)).transpose()] == 2
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
def test_layouts_with_shared_elements_are_not_injective(layout, writable):
    assert layout.is_injective() == writable


def test_slice_of_a_repeating_chain_may_be_injective():
    repeated = contiguous(4, 1).expand((4, 3)).reshape((12,))
    view = repeated.index((slice(2, None, 4),))
    assert view.base is not None
    assert view.offsets().tolist() == [0, 2, 3]
    assert view.is_injective()
    assert not repeated.is_injective()


def test_repeating_chain_of_the_size_of_its_base_does_not_cover_it():
    twice = contiguous(4, 6).transpose().reshape((24,)).index((slice(12),)).expand((2, 12))
    assert twice.base is not None
    assert twice.size == twice.base.size
    assert not twice.covers(24)
    assert twice.range() == (0, 20)
    assert twice.disjoint(contiguous(4, 6).index((slice(None), slice(3, None))))


def test_column_blocks_with_overlapping_ranges_are_disjoint():
    matrix = contiguous(1000, 1000)
    left, right = matrix.index((slice(None), slice(500))), matrix.index((slice(None), slice(500, None)))
    assert left.disjoint(right)
    assert not left.disjoint(matrix.index((slice(None), 499)))
    assert matrix.index((slice(None, None, 2),)).disjoint(matrix.index((slice(1, None, 2),)))


def test_predicates_of_huge_affine_layouts_are_fast():
    huge = contiguous(100_000, 1_000, 1_000)
    evens, odds = huge.index((..., slice(None, None, 2))), huge.index((..., slice(1, None, 2)))
    transposed = huge.transpose().reshape((-1,))
    start = time.perf_counter()
    assert evens.disjoint(odds)
    assert not evens.disjoint(huge)
    assert huge.covers(huge.size)
    assert transposed.covers(huge.size)
    assert transposed.is_injective()
    assert evens.is_injective()
    assert not huge.windows(1, 3).is_injective()
    assert Layout((1000, 1000), (1_009, 1_013)).is_injective()
    assert not Layout((2000, 2000), (1_009, 1_013)).is_injective()
    assert time.perf_counter() - start < 1


def test_equality_of_huge_chains_is_fast():
    def chain():
        return Layout.contiguous((1 << 20, 1 << 20)).transpose().reshape((-1,)).index((slice(1, None),))

    assert chain() == chain() and hash(chain()) == hash(chain())
    assert chain() != chain().flip()
