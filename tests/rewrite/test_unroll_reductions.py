"""Reductions of short rows are unrolled: each term is an elementwise operation on many rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.rewrite.unroll_reductions import (
    MAX_SHORT_ROW_ELEMENTS,
    MAX_UNROLLED_EXTREMA,
    MIN_ARGEXTREMUM_SIZE,
    MIN_TOTAL_ELEMENTS,
    unroll_reduction,
)

from .samples import kernels
from .test_windows import reduction_of

DTYPES = ("bool", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64")
KINDS = ("argmax", "argmin", "max", "min", "any", "all", "prod", "sum")


def drawn(rng: np.random.Generator, rows: int, row: int, dtype: str, *, special: bool) -> Any:
    """Return elements with many ties; with `special`, floats include NaN, infinities and zeros of both signs."""
    if dtype == "bool":
        return rng.random((rows, row)) < 0.3
    if np.dtype(dtype).kind == "u":
        return rng.integers(0, 4, (rows, row)).astype(dtype) * np.array(np.iinfo(dtype).max // 3, dtype)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-2, 3, (rows, row)).astype(dtype) * np.array(np.iinfo(dtype).max // 2, dtype)
    x = rng.integers(-2, 3, (rows, row)).astype(dtype)
    x[(x == 0) & (rng.random(x.shape) < 0.5)] = -0.0
    if special:
        for value in (np.nan, np.inf, -np.inf):
            x[rng.random(x.shape) < 0.05] = value
    return x


def assert_same_bits(actual: Any, wanted: Any) -> None:
    """Check that two arrays have equal bits, except in NaN."""
    assert actual.dtype == wanted.dtype and actual.shape == wanted.shape
    are_nan = np.isnan(wanted) if wanted.dtype.kind == "f" else np.zeros(wanted.shape, bool)
    assert np.array_equal(np.isnan(actual) if wanted.dtype.kind == "f" else are_nan, are_nan)
    assert actual[~are_nan].tobytes() == wanted[~are_nan].tobytes()


def extremum_of(x: Any, kind: str) -> Any:
    """Return the extremum of each row with the right sign of zero, which NumPy does not guarantee."""
    wanted = getattr(x, kind)(1)
    if x.dtype.kind == "f":
        has_zero = {sign: ((x == 0) & (np.signbit(x) == (sign < 0))).any(1) for sign in (1, -1)}
        zero = np.where(has_zero[1], 0.0, -0.0) if kind == "max" else np.where(has_zero[-1], -0.0, 0.0)
        wanted = np.where(wanted == 0, zero.astype(x.dtype), wanted)
    return wanted


@given(
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(KINDS),
    row=st.integers(2, MAX_UNROLLED_EXTREMA + 2),
    source=st.sampled_from(("as it lies", "turned", "backwards", "a part", "made")),
    special=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_reductions_of_short_rows_match_numpy(dtype: str, kind: str, row: int, source: str, special: bool, seed: int) -> None:
    """The floats are small integers, whose sums and products are exact."""
    rng = np.random.default_rng(seed)
    rows = MIN_TOTAL_ELEMENTS // row + int(rng.integers(1, 40))
    a = drawn(rng, rows, row + 1 if source == "a part" else row, dtype, special=special)
    x = tx.asarray(a)
    if source == "turned":
        a, x = np.ascontiguousarray(a.T).T, tx.asarray(np.ascontiguousarray(a.T)).T
    elif source == "backwards":
        a, x = a[::-1, ::-1], x[::-1, ::-1]
    elif source == "a part":
        a, x = a[:, 1:], x[:, 1:]
    elif source == "made" and dtype != "bool":
        a, x = a * a, x * x
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = extremum_of(a, kind) if kind in ("max", "min") else getattr(a, kind)(1)
    if kind in ("sum", "prod"):
        actual = getattr(x, kind)(1).numpy()
        np.testing.assert_array_equal(actual, wanted.astype(actual.dtype))
    else:
        assert_same_bits(getattr(x, kind)(1).numpy(), wanted)


def rows_of(row: int, elements: int, dtype: str = "float64") -> tx.Tensor:
    """Return rows of `row` elements, with at least `elements` elements in all."""
    return tx.ones((-(-elements // row), row), dtype=getattr(tx, dtype)).realize()


@pytest.mark.parametrize(
    ("kind", "max_row", "min_elements"),
    [
        ("argmax", MAX_UNROLLED_EXTREMA, MIN_ARGEXTREMUM_SIZE),
        ("max", MAX_UNROLLED_EXTREMA, MIN_TOTAL_ELEMENTS),
        ("any", MAX_SHORT_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
        ("all", MAX_SHORT_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
        ("prod", MAX_SHORT_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
        ("sum", MAX_SHORT_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
    ],
)
def test_reductions_are_unrolled_only_for_short_rows_and_many_elements(kind: str, max_row: int, min_elements: int) -> None:
    def rewrite(row: int, elements: int) -> list[Node] | None:
        return unroll_reduction(reduction_of(getattr(rows_of(row, elements), kind)(1)))

    assert rewrite(2, min_elements) and rewrite(max_row, min_elements)
    assert rewrite(max_row + 1, min_elements) is None and rewrite(max_row, min_elements - max_row) is None


def test_argmax_over_several_axes_is_not_unrolled() -> None:
    x = rows_of(8, 2 * MIN_ARGEXTREMUM_SIZE).reshape(-1, 4, 2)
    assert unroll_reduction(reduction_of(x.reshape(-1, 8).argmax(1))) is not None
    argmax_of_each = tx.vmap(lambda t: t.argmax())
    assert unroll_reduction(reduction_of(argmax_of_each(x))) is None
    assert argmax_of_each(x).tolist() == [0] * len(x)
    columns = tx.moveaxis(x, 0, -1).realize().reshape(8, -1)
    assert columns.argmax(0).tolist() == [0] * (2 * MIN_ARGEXTREMUM_SIZE // 8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("points", "axes", "centres"), [(2000, 8, 10), (3000, 3, 12), (700, 2, 150), (4000, 4, 5)])
def test_rows_compared_with_many_points_are_transposed_first(points: int, axes: int, centres: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    p, c = (rng.integers(-9, 9, (n, axes)).astype(dtype) for n in (points, centres))
    x, y = tx.asarray(p), tx.asarray(c)
    assert kernels(((x[:, None] - y) ** 2).sum(-1)) == ["positive", "subtract_square_add"]
    for step in (1, -1):
        distances = ((p[:, None] - c[::step]) ** 2).sum(-1)
        assert (((x[:, None] - y[::step]) ** 2).sum(-1).numpy() == distances).all()
        assert (((x[:, None] - y[::step]) ** 2).sum(-1).argmin(1).numpy() == distances.argmin(1)).all()
        assert ((abs(x - y[::step][:, None])).max(-1).numpy() == abs(p - c[::step][:, None]).max(-1)).all()


def test_few_rows_are_compared_with_many_points_without_a_copy() -> None:
    x, y = tx.ones((2, 8)).realize(), tx.ones((9000, 8)).realize()
    assert "positive" not in kernels(((x[:, None] - y) ** 2).sum(-1))
    assert "positive" not in kernels(((y[:, None] - x) ** 2).sum(-1))  # so few that lanes run along the many
