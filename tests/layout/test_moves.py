"""Every move, in random stacks, against NumPy doing the same to an array of storage offsets."""

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
def test_any_stack_of_moves_maps_as_numpy_does(case):
    check(*case)


@examples(500)
@given(chains())
def test_any_stack_of_moves_of_a_chain_maps_as_numpy_does(case):
    check(*case)


@examples(150)
@given(layouts() | chains(), st.data())
def test_ravel_is_the_offset_of_one_position(case, data):
    layout, model = case
    if model.size:
        coords = tuple(data.draw(st.integers(-size, size - 1)) for size in model.shape)
        assert layout.ravel(coords) == model[coords]


@examples(150)
@given(layouts() | chains())
def test_a_move_leaves_the_layout_it_starts_from_alone(case):
    layout, model = case
    for move in (layout.flip, layout.transpose, layout.flatten, layout.squeeze):
        move()
    layout.expand((2, *layout.shape))
    check(layout, model)


def test_every_move_is_drawn():
    moves = {name for name in vars(Layout) if not name.startswith("_")}
    rest = {
        "along",  # many views, each that of `index`: test_indexing.py
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
    rest |= {"is_injective", "ndim", "offset", "offsets", "over", "range", "ravel", "reshape_plan", "same_as", "innermost"}
    rest |= {"shape", "size", "strides", "tables", "transpose", "inverse", "adjoint"}
    assert moves - rest == {move.__name__ for move in ALL}
