"""Rows of a few elements: what they are reduced to is written out, term by term, for many rows at once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor.node import Node
from tenxor.rewrite.short import BEST, MAX_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS, PLACES, written_out

from .samples import kernels
from .test_windows import reduction_of

DTYPES = ("bool", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64")
KINDS = ("argmax", "argmin", "max", "min", "any", "all", "prod", "sum")


def drawn(rng: np.random.Generator, rows: int, row: int, dtype: str, *, odd: bool) -> Any:
    """Elements of which many are equal; `odd` ones among floats are NaN, infinite, or zeros of both signs."""
    if dtype == "bool":
        return rng.random((rows, row)) < 0.3
    if np.dtype(dtype).kind == "u":
        return rng.integers(0, 4, (rows, row)).astype(dtype) * np.array(np.iinfo(dtype).max // 3, dtype)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-2, 3, (rows, row)).astype(dtype) * np.array(np.iinfo(dtype).max // 2, dtype)
    x = rng.integers(-2, 3, (rows, row)).astype(dtype)
    x[(x == 0) & (rng.random(x.shape) < 0.5)] = -0.0
    if odd:
        for value in (np.nan, np.inf, -np.inf):
            x[rng.random(x.shape) < 0.05] = value
    return x


def the_same(found: Any, wanted: Any) -> None:
    """To the bit, but for NaN, of which any is as good as another."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    are_nan = np.isnan(wanted) if wanted.dtype.kind == "f" else np.zeros(wanted.shape, bool)
    assert np.array_equal(np.isnan(found) if wanted.dtype.kind == "f" else are_nan, are_nan)
    assert found[~are_nan].tobytes() == wanted[~are_nan].tobytes()


def best_of(x: Any, kind: str) -> Any:
    """The largest or the smallest along rows, of zeros that with the right sign: NumPy gives either."""
    wanted = getattr(x, kind)(1)
    if x.dtype.kind == "f":
        some = {sign: ((x == 0) & (np.signbit(x) == (sign < 0))).any(1) for sign in (1, -1)}
        zero = np.where(some[1], 0.0, -0.0) if kind == "max" else np.where(some[-1], -0.0, 0.0)
        wanted = np.where(wanted == 0, zero.astype(x.dtype), wanted)
    return wanted


@given(
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(KINDS),
    row=st.integers(2, BEST + 2),
    how=st.sampled_from(("as it lies", "turned", "backwards", "a part", "made")),
    odd=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_rows_are_reduced_as_by_numpy(dtype: str, kind: str, row: int, how: str, odd: bool, seed: int) -> None:
    """Floats here are small integers: their sums and products are exact."""
    rng = np.random.default_rng(seed)
    rows = MIN_TOTAL_ELEMENTS // row + int(rng.integers(1, 40))
    a = drawn(rng, rows, row + 1 if how == "a part" else row, dtype, odd=odd)
    x = tx.asarray(a)
    if how == "turned":
        a, x = np.ascontiguousarray(a.T).T, tx.asarray(np.ascontiguousarray(a.T)).T
    elif how == "backwards":
        a, x = a[::-1, ::-1], x[::-1, ::-1]
    elif how == "a part":
        a, x = a[:, 1:], x[:, 1:]
    elif how == "made" and dtype != "bool":
        a, x = a * a, x * x
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = best_of(a, kind) if kind in ("max", "min") else getattr(a, kind)(1)
    if kind in ("sum", "prod"):
        found = getattr(x, kind)(1).numpy()
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))
    else:
        the_same(getattr(x, kind)(1).numpy(), wanted)


def rows_of(row: int, elements: int, dtype: str = "float64") -> tx.Tensor:
    """So many elements at least, in rows."""
    return tx.ones((-(-elements // row), row), dtype=getattr(tx, dtype)).realize()


@pytest.mark.parametrize(
    ("kind", "longest", "least"),
    [
        ("argmax", BEST, PLACES),
        ("max", BEST, MIN_TOTAL_ELEMENTS),
        ("any", MAX_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
        ("all", MAX_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
        ("prod", MAX_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
        ("sum", MAX_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS),
    ],
)
def test_many_short_rows_are_written_out(kind: str, longest: int, least: int) -> None:
    def made(row: int, elements: int) -> list[Node] | None:
        return written_out(reduction_of(getattr(rows_of(row, elements), kind)(1)))

    assert made(2, least) and made(longest, least)
    assert made(longest + 1, least) is None and made(longest, least - longest) is None


def test_places_along_several_axes_are_not() -> None:
    x = rows_of(8, 2 * PLACES).reshape(-1, 4, 2)
    assert written_out(reduction_of(x.reshape(-1, 8).argmax(1))) is not None
    assert written_out(reduction_of(x.argmax((1, 2)))) is None
    assert x.argmax((1, 2)).tolist() == [0] * len(x)
    whole = tx.moveaxis(x, 0, -1).realize().reshape(8, -1)
    assert whole.argmax(0).tolist() == [0] * (2 * PLACES // 8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("points", "axes", "centres"), [(2000, 8, 10), (3000, 3, 12), (700, 2, 150), (4000, 4, 5)])
def test_what_many_rows_are_compared_with_is_copied_turned(points: int, axes: int, centres: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    p, c = (rng.integers(-9, 9, (n, axes)).astype(dtype) for n in (points, centres))
    x, y = tx.asarray(p), tx.asarray(c)
    assert kernels(((x[:, None] - y) ** 2).sum(-1)) == ["positive", "subtract_square_add"]
    for way in (1, -1):
        between = ((p[:, None] - c[::way]) ** 2).sum(-1)
        assert (((x[:, None] - y[::way]) ** 2).sum(-1).numpy() == between).all()
        assert (((x[:, None] - y[::way]) ** 2).sum(-1).argmin(1).numpy() == between.argmin(1)).all()
        assert ((abs(x - y[::way][:, None])).max(-1).numpy() == abs(p - c[::way][:, None]).max(-1)).all()


def test_few_rows_are_compared_without_a_copy() -> None:
    x, y = tx.ones((2, 8)).realize(), tx.ones((9000, 8)).realize()
    assert "positive" not in kernels(((x[:, None] - y) ** 2).sum(-1))
    assert "positive" not in kernels(((y[:, None] - x) ** 2).sum(-1))  # so few that lanes run along the many
