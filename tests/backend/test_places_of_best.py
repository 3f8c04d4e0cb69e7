"""Places of the largest and the smallest are kept in 32 bits where they fit, and are the same: of ties the first, of NaN the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import DType, float16, float32, float64, int8, int32, int64, uint8
from tenxor.kernel.cpu import places
from tenxor.tensor import Tensor
from tests.kernel.helpers import kernel_of

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

SHORT, WIDE = (float16, float32, int8, uint8, int32), (float64, int64)
LENGTHS = (1, 2, 17, 64, 130, 300)


def values_of(dtype: DType, *shape: int) -> np.ndarray[Any, Any]:
    """Few different ones, so that many are equal; of floats infinities, zeros of both signs, and NaN in some rows."""
    rng = np.random.default_rng(sum(shape))
    if not dtype.is_float:
        return rng.integers(int(dtype.lowest), int(dtype.lowest) + 5, shape)
    found = rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], shape)
    found[1::3][rng.random(found[1::3].shape) < 0.02] = np.nan
    found[2::3] = -np.inf  # as what a search begins with
    return found


@pytest.mark.parametrize("dtype", (*SHORT, *WIDE))
@pytest.mark.parametrize("length", LENGTHS)
def test_machine_code_agrees_with_the_interpreter_and_numpy(length: int, dtype: DType) -> None:
    values = values_of(dtype, 7, length)
    x = Tensor._of(in_memory(values, dtype))
    views: list[Callable[[Any], Any]] = [lambda t: t, lambda t: t[::-1, ::2], lambda t: t[:, ::-1]]
    for view in views:
        for axis in (0, 1, None):
            for ours, theirs in ((tx.argmax, np.argmax), (tx.argmin, np.argmin)):
                check(ours(view(x), axis=axis).storage.node)
                np.testing.assert_array_equal(ours(view(x), axis=axis).to_numpy(), theirs(view(values), axis=axis))


def test_long_rows_and_all() -> None:
    values = np.random.default_rng(0).normal(size=(3, 100_003)).astype(np.float32)
    x = tx.asarray(values)
    assert tx.argmax(x, axis=1).tolist() == values.argmax(1).tolist()
    assert tx.argmin(x).item() == values.argmin()
    values[1, 99_999] = values[2, 5] = np.nan
    x = tx.asarray(values)
    assert tx.argmax(x, axis=1).tolist() == values.argmax(1).tolist()
    assert tx.argmin(x).item() == values.argmin()


def places_of(t: Tensor) -> DType:
    """The dtype in which the kernel that computes a pending tensor keeps places."""
    return kernel_of(t).accumulators[0].states[-1]


def test_places_are_short_where_all_are_small_and_values_narrow() -> None:
    for dtype in SHORT:
        assert places_of(tx.argmax(tx.zeros((2, 9), dtype=dtype).realize(), axis=1)) is int32
    for dtype in WIDE:
        assert places_of(tx.argmax(tx.zeros((2, 9), dtype=dtype).realize(), axis=1)) is int64
    one = tx.zeros(1, dtype=float32).realize()
    assert places_of(tx.argmax(one.expand(places.EMPTY_POSITION - 1))) is int32
    assert places_of(tx.argmax(one.expand(places.EMPTY_POSITION + 1))) is int64
