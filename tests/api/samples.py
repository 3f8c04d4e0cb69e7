"""Tensors of every kind of layout, each with a NumPy array of the same elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tenxor as tx

Array = np.ndarray[Any, Any]
Pair = tuple[tx.Tensor, Array]


def check_refused(call: Callable[[], object], error: type[Exception], names: Sequence[str]) -> None:
    """Check that a call raises an error whose message contains every name."""
    with pytest.raises(error) as raised:
        call()
    for name in names:
        assert name in str(raised.value)


def _both(shape: Sequence[int], move: Callable[[Any], Any] = lambda t: t) -> Callable[[], Pair]:
    """Return a tensor of integers, negative numbers and zeros included, and an equal array, after the same movement."""

    def build() -> Pair:
        array = (np.arange(np.prod(shape), dtype=np.int64) * 7 % 23 - 5).reshape(shape)
        return move(tx.asarray(array)), move(array)

    return build


def _gathered() -> Pair:
    tensor, array = _both((4, 5))()
    return tensor.oindex[[2, 0, 0], [1, 3, 4, 2]], array[np.ix_([2, 0, 0], [1, 3, 4, 2])]


def _pending() -> Pair:
    tensor, array = _both((2, 3, 4))()
    return tensor * 2 + 1, array * 2 + 1


def _written() -> Pair:
    tensor, array = _both((3, 4))()
    pending = tensor + 0
    pending[1:, ::2] = 99
    array[1:, ::2] = 99
    return pending, array


SAMPLES: dict[str, Callable[[], Pair]] = {
    "0-d": _both(()),
    "no elements": _both((0,)),
    "no elements, 3-D": _both((2, 0, 3)),
    "one element": _both((1, 1)),
    "vector": _both((7,)),
    "contiguous": _both((2, 3, 4)),
    "size 1 axes": _both((3, 1, 2, 1)),
    "transposed": _both((2, 3, 4), lambda t: t.transpose()),
    "backwards": _both((3, 7), lambda t: t[::-1, ::-2]),
    "a slice": _both((4, 6), lambda t: t[1:3, 1::2]),
    "broadcast": _both((3, 1), lambda t: np.broadcast_to(t, (2, 3, 4)) if isinstance(t, np.ndarray) else t.expand(2, 3, 4)),
    "a chain of views": _both((4, 6), lambda t: t.T.reshape(3, 8)),
    "gathered": _gathered,
    "pending": _pending,
    "pending, partly written": _written,
}

each_sample = pytest.mark.parametrize("sample", SAMPLES)


def assert_same(result: tx.Tensor, expected: Any) -> None:
    """Check equal shapes, dtypes and elements; NaN equals NaN."""
    expected = np.asarray(expected)
    assert result.shape == expected.shape
    assert result.dtype is tx.dtype(expected.dtype)
    np.testing.assert_array_equal(result.to_numpy(), expected)


def assert_close(result: tx.Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    """Check equal shapes and dtypes, and elements up to rounding."""
    expected = np.asarray(expected)
    assert result.shape == expected.shape
    assert result.dtype is tx.dtype(expected.dtype)
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=tolerance, atol=tolerance)


def kernels_of(*tensors: tx.Tensor) -> int:
    """Return the number of kernels that would compute the tensors."""
    from tenxor.runtime.planner import preview_kernels

    return sum(kernel is not None for _, kernel in preview_kernels([t.storage.node for t in tensors]))
