"""Positions of argmax and argmin in 32 bits where they fit: the first of equal values, and the first NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import DType, float16, float32, float64, int8, int32, int64, uint8
from tenxor.lowering.cpu import narrow_argmax
from tenxor.tensor import Tensor
from tests.lowering.helpers import kernel_of

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

SHORT, WIDE = (float16, float32, int8, uint8, int32), (float64, int64)
LENGTHS = (1, 2, 17, 64, 130, 300)


def values_of(dtype: DType, *shape: int) -> np.ndarray[Any, Any]:
    """Return values with many ties; floats include infinities, zeros of both signs, and NaN in some rows."""
    rng = np.random.default_rng(sum(shape))
    if not dtype.is_float:
        return rng.integers(int(dtype.lowest), int(dtype.lowest) + 5, shape)
    array = rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], shape)
    array[1::3][rng.random(array[1::3].shape) < 0.02] = np.nan
    array[2::3] = -np.inf  # as what a search begins with
    return array


@pytest.mark.parametrize("dtype", (*SHORT, *WIDE))
@pytest.mark.parametrize("length", LENGTHS)
def test_argmax_and_argmin_match_interpreter_and_numpy(length: int, dtype: DType) -> None:
    values = values_of(dtype, 7, length)
    x = Tensor._from_node(in_memory(values, dtype))
    views: list[Callable[[Any], Any]] = [lambda t: t, lambda t: t[::-1, ::2], lambda t: t[:, ::-1]]
    for view in views:
        for axis in (0, 1, None):
            for ours, theirs in ((tx.argmax, np.argmax), (tx.argmin, np.argmin)):
                check(ours(view(x), axis=axis).storage.node)
                np.testing.assert_array_equal(ours(view(x), axis=axis).to_numpy(), theirs(view(values), axis=axis))


def test_argmax_of_long_rows_and_whole_arrays_matches_numpy() -> None:
    values = np.random.default_rng(0).normal(size=(3, 100_003)).astype(np.float32)
    x = tx.asarray(values)
    assert tx.argmax(x, axis=1).tolist() == values.argmax(1).tolist()
    assert tx.argmin(x).item() == values.argmin()
    values[1, 99_999] = values[2, 5] = np.nan
    x = tx.asarray(values)
    assert tx.argmax(x, axis=1).tolist() == values.argmax(1).tolist()
    assert tx.argmin(x).item() == values.argmin()


def position_dtype(t: Tensor) -> DType:
    """Return the dtype of the positions in the kernel of a pending tensor."""
    return kernel_of(t).accumulators[0].state_dtypes[-1]


def test_positions_are_int32_for_small_shapes_and_narrow_values() -> None:
    for dtype in SHORT:
        assert position_dtype(tx.argmax(tx.zeros((2, 9), dtype=dtype).realize(), axis=1)) is int32
    for dtype in WIDE:
        assert position_dtype(tx.argmax(tx.zeros((2, 9), dtype=dtype).realize(), axis=1)) is int64
    scalar = tx.zeros(1, dtype=float32).realize()
    assert position_dtype(tx.argmax(scalar.expand(narrow_argmax.EMPTY_POSITION - 1))) is int32
    assert position_dtype(tx.argmax(scalar.expand(narrow_argmax.EMPTY_POSITION + 1))) is int64
