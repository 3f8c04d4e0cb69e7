"""Inverses and adjoints of layouts, compared with brute force."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenxor.errors import ArgumentError
from tenxor.layout import Layout

from . import contiguous, examples
from .moves import chains, expand_dims, flip, layouts, moveaxis, permute, reshape
from .test_queries import any_layout

BIJECTIVE_MOVES = [permute, moveaxis, reshape, flip, expand_dims]


@st.composite
def shuffled(draw) -> tuple[Layout, np.ndarray]:
    """Return a gathered layout that reads each element once, in random order."""
    size = draw(st.integers(1, 24))
    order = draw(st.permutations(range(size)))
    return Layout.gathered(order), np.array(order)


@examples(500)
@given(layouts(moves=BIJECTIVE_MOVES, size=24) | chains(moves=BIJECTIVE_MOVES) | shuffled() | any_layout)
def test_inverse_exists_for_bijections_and_undoes_them(case):
    layout, model = case
    size = layout.size
    if sorted(model.ravel().tolist()) != list(range(size)):
        with pytest.raises(ArgumentError, match=r"^inverse: "):
            layout.inverse()
        return
    inverse = layout.inverse()
    assert inverse.shape == (size,)
    assert np.array_equal(inverse.offsets()[model.ravel()], np.arange(size))
    assert np.array_equal(layout.reshape((size,)).over(inverse).offsets(), np.arange(size))
    assert np.array_equal(inverse.over(layout).offsets(), np.arange(size))
    assert inverse.inverse() == layout.reshape((size,))


@examples(300)
@given(layouts(moves=BIJECTIVE_MOVES, size=24))
def test_inverse_of_affine_layout_has_no_table(case):
    layout, _ = case
    assume(layout.base is None)
    level = layout.inverse()
    while level is not None:
        assert level.tables is None
        level = level.base


@examples(600)
@given(any_layout | layouts(moves=BIJECTIVE_MOVES, size=24), st.integers(0, 5))
def test_adjoint_accumulates_values_where_they_were_read(case, extra):
    layout, model = case
    assume(model.size == 0 or model.min() >= 0)
    size = (int(model.max()) + 1 if model.size else 0) + (extra if extra < 4 else 0)
    values = np.random.default_rng(0).integers(-9, 9, layout.shape)
    wanted = np.zeros(size, np.int64)
    np.add.at(wanted, model, values)

    summed, how, through = layout.adjoint(size)
    sums = values.sum(axis=summed)
    if how == "view":
        result = sums.ravel()[through.offsets()]
        assert through.shape == (size,)
    else:
        assert through.shape == sums.shape
        result = np.zeros(size, np.int64)
        if how == "store":
            result[through.offsets()] = sums
        else:
            np.add.at(result, through.offsets(), sums)
    assert np.array_equal(result, wanted)
    is_injective = len(np.unique(model)) * prod(layout.shape[k] for k in summed) == model.size
    assert (how == "accumulate") == (model.size > 0 and not is_injective)


def test_adjoint_of_common_views_is_a_view_a_store_or_an_accumulation():
    assert contiguous(3, 4).transpose().adjoint(12).kind == "view"
    assert contiguous(3, 4).index((slice(1, 3),)).adjoint(12).kind == "store"
    assert contiguous(6).windows(0, 3).adjoint(6).kind == "accumulate"
    assert contiguous(6).select(0, [0, 0, 1]).adjoint(6).kind == "accumulate"
    adjoint = contiguous(1, 4).expand((5, 4)).adjoint(4)
    assert (adjoint.summed, adjoint.kind) == ((0,), "view")


def test_inverse_error_explains_the_missing_inverse():
    with pytest.raises(ArgumentError, match=r"^inverse: Layout\(.*\) of 3 elements has no inverse: not each of the offsets"):
        contiguous(4).index((slice(1, None),)).inverse()
