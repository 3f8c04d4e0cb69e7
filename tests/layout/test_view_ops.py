"""Random sequences of all moves, compared with NumPy on an array of storage offsets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tenxor.layout import Layout

from . import examples
from .moves import ALL, chains, layouts


def check(layout: Layout, model: np.ndarray) -> None:
    assert layout.shape == model.shape
    assert layout.size == model.size
    assert np.array_equal(layout.offsets(), model)


@examples(1000)
@given(layouts())
def test_random_view_operations_match_numpy(case):
    check(*case)


@examples(500)
@given(chains())
def test_random_view_operations_on_chains_match_numpy(case):
    check(*case)


@examples(150)
@given(layouts() | chains(), st.data())
def test_ravel_gives_the_offset_of_one_position(case, data):
    layout, model = case
    if model.size:
        coords = tuple(data.draw(st.integers(-size, size - 1)) for size in model.shape)
        assert layout.ravel(coords) == model[coords]


@examples(150)
@given(layouts() | chains())
def test_view_operations_do_not_change_their_layout(case):
    layout, model = case
    for move in (layout.flip, layout.transpose, layout.flatten, layout.squeeze):
        move()
    layout.expand((2, *layout.shape))
    check(layout, model)


def test_random_view_operations_cover_every_method():
    moves = {name for name in vars(Layout) if not name.startswith("_")}
    other_names = {
        "along",  # many views, each that of `index`: test_indexing_methods.py
        "axes",
        "base",
        "contiguous",
        "covers",
        "depth",
        "disjoint",
        "explain",
        "gathered",
        "is_contiguous",
    }
    other_names |= {"is_injective", "ndim", "offset", "offsets", "over", "range", "ravel", "reshape_plan", "same_as", "innermost"}
    other_names |= {"shape", "size", "strides", "tables", "transpose", "inverse", "adjoint"}
    assert moves - other_names == {move.__name__ for move in ALL}
