"""`take`, `take_along_axis`, `nonzero` and `isin`, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import AxisError, BadIndex, IndexOutOfRange, ShapeError

from .samples import SAMPLES, assert_same, check_refused, each_sample


@each_sample
def test_take_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in (None, *range(-array.ndim, array.ndim)):
        size = array.size if axis is None else array.shape[axis]
        choices: list[Any] = [[], [[], []]]
        if size:
            choices += [0, -1, [0, size - 1, 0, -size], [[0, -1, 0], [size // 2, 0, 0]], list(range(size))]
        for indices in choices:
            wanted = np.asarray(indices, dtype=np.int64)
            result = tx.take(tensor, tx.asarray(wanted), axis=axis)
            assert result.storage is not tensor.storage
            assert_same(result, np.take(array, wanted, axis=axis))


def test_take_returns_a_new_tensor() -> None:
    t = tx.arange(6).reshape(2, 3).realize()
    for indices in (1, [1], [0, 1]):
        taken = tx.take(t, indices, axis=0)
        taken[...] = -1
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_take_accepts_pending_tensors_and_any_integers() -> None:
    t = tx.arange(10) * 3
    for dtype in (tx.int8, tx.uint8, tx.int32, tx.uint64):
        assert tx.take(t, tx.asarray([9, 2], dtype=dtype)).tolist() == [27, 6]
    assert t.take([[1], [-1]]).tolist() == [[3], [27]]
    assert tx.take(t.reshape(2, 5), [4, 0], dim=1).tolist() == [[12, 0], [27, 15]]
    assert tx.take([1.5, 2.5], 1).item() == 2.5
    assert t.take([]).shape == (0,) and tx.take(t.reshape(2, 5), [[]], axis=0).shape == (1, 0, 5)


@each_sample
def test_take_along_axis_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in range(-array.ndim, array.ndim):
        order = np.argsort(array, axis=axis)
        assert_same(tx.take_along_axis(tensor, tx.asarray(order), axis=axis), np.sort(array, axis=axis))
        backwards = order - array.shape[axis]
        assert_same(tx.take_along_axis(tensor, backwards, axis=axis), np.sort(array, axis=axis))


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((3, 4), (1, 2), 1),
        ((1, 4), (3, 2), 1),
        ((3, 4), (5, 1), 0),
        ((3, 1), (2, 6), 0),
        ((2, 3, 4), (2, 1, 4), 1),
        ((2, 1, 4), (1, 5, 2), -1),
        ((2, 3), (0, 3), 0),
        ((2, 0), (3, 0), 0),
    ],
)
def test_take_along_axis_broadcasts(shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    wanted = (np.arange(np.prod(indices)) % shape[axis]).reshape(indices)
    common = [n for a, n in enumerate(np.broadcast_shapes(_without_axis(shape, axis), _without_axis(indices, axis)))]
    array_shape, index_shape = common.copy(), common.copy()
    array_shape[axis], index_shape[axis] = shape[axis], indices[axis]
    expected = np.take_along_axis(np.broadcast_to(array, array_shape), np.broadcast_to(wanted, index_shape), axis)
    assert_same(tx.take_along_axis(tx.asarray(array), tx.asarray(wanted), axis=axis), expected)


def _without_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    sizes = list(shape)
    sizes[axis] = 1
    return tuple(sizes)


@each_sample
def test_nonzero_and_argwhere_equal_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    assert_same(tx.argwhere(tensor), np.argwhere(array))
    if array.ndim:
        result = tx.nonzero(tensor)
        assert isinstance(result, tuple)
        for indices, expected in zip(result, np.nonzero(array), strict=True):
            assert_same(indices, expected)
        assert_same(tensor[result], array[np.nonzero(array)])


def test_nonzero_accepts_bool_uint8_and_narrow_floats_and_finds_nan() -> None:
    for dtype in (tx.bool, tx.float16, tx.bfloat16, tx.uint8):
        assert tx.nonzero(tx.asarray([0, 1, 0, 1]).astype(dtype))[0].tolist() == [1, 3]
    assert tx.nonzero(tx.asarray([tx.nan, -0.0]))[0].tolist() == [0]


@each_sample
@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_isin_equals_numpy(sample: str, count: int) -> None:
    tensor, array = SAMPLES[sample]()
    values = np.arange(count) * 2 - 4
    assert_same(tx.isin(tensor, tx.asarray(values)), np.isin(array, values))
    assert_same(tx.isin(tensor, values, invert=True), np.isin(array, values, invert=True))


def test_isin_takes_numbers_and_finds_no_nan() -> None:
    assert tx.isin(3, [1, 3]).item() is True
    assert tx.isin(tx.arange(3), 2).tolist() == [False, False, True]
    for padding in (0, 40):
        assert tx.isin(tx.asarray([tx.nan, 1.0]), [tx.nan, *[1.0] * padding]).tolist() == [False, padding > 0]


_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 127, 128, 255, 2**24, 2**24 + 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63)),
    *(2**63, 2**63 + 2**11, 2**64 - 1, 0.5, 0.1, -0.0, tx.inf, -tx.inf, tx.nan, 2.0**64, 1j, 1 + 1j),
)
_ALL_DTYPES = ("bool", "int8", "uint8", "int32", "int64", "uint64", "bfloat16", "float16", "float32", "float64", "complex64")


def numbers_of(dtype: str) -> tx.Tensor:
    """Return the numbers that a dtype can represent, as a tensor."""
    d = tx.dtype(dtype)
    if d.kind == "bool" or d.is_integer:
        held = [x for x in _NUMBERS if type(x) is int and d.lowest <= x <= d.highest]
    else:
        held = [x for x in _NUMBERS if d.is_complex or type(x) is not complex]
    return tx.asarray(held, dtype=d)


@pytest.mark.parametrize("dtype", _ALL_DTYPES)
@pytest.mark.parametrize("value_dtype", _ALL_DTYPES)
def test_isin_compares_exactly_for_every_pair_of_dtypes(dtype: str, value_dtype: str) -> None:
    """Expected results compare Python numbers, which is exact."""
    elements, values = numbers_of(dtype), numbers_of(value_dtype)
    ours, theirs = elements.tolist(), values.tolist()
    wanted = [any(x == y for y in theirs) for x in ours]
    assert tx.isin(elements, values).tolist() == wanted
    assert tx.isin(elements, tx.concat([values] * 20), invert=True).tolist() == [not w for w in wanted]
    by_chunks = [tx.isin(elements, values[k : k + 7]).tolist() for k in range(0, len(theirs), 7)]
    assert [any(result) for result in zip(*by_chunks, strict=True)] == wanted


def test_isin_accepts_any_64_bit_number_with_any_dtype() -> None:
    unsigned = tx.asarray([1, 2**53 + 1, 2**63], dtype=tx.uint64)
    assert tx.isin(unsigned, 1).tolist() == tx.isin(unsigned, True).tolist() == [True, False, False]
    assert tx.isin(unsigned, 2**63).tolist() == [False, False, True]
    assert tx.isin(unsigned, [1, 2**63]).tolist() == [True, False, True]
    assert tx.isin(unsigned, -1).tolist() == tx.isin(unsigned, 2.0**53).tolist() == [False] * 3
    assert tx.isin(2**63, unsigned).item() is True
    assert tx.isin(tx.arange(3, dtype=tx.int8), 300).tolist() == [False] * 3
    assert tx.isin(tx.asarray([2.0**53]), 2**53 + 1).tolist() == [False]
    third = tx.asarray([0.1], dtype=tx.float32)  # with a float32 tensor, a Python float is rounded to float32
    assert tx.isin(third, 0.1).tolist() == tx.isin(0.1, third).reshape(1).tolist() == [True]
    assert tx.isin(third, [0.1]).tolist() == np.isin(third.to_numpy(), [0.1]).tolist() == [False]


table = tx.arange(6).reshape(2, 3)

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "an index past the end": (
        lambda: tx.take(table, [0, 3], axis=1),
        IndexOutOfRange,
        ("take", "index 3", "axis 1", "size 3"),
    ),
    "an index before the start": (
        lambda: tx.take(table, [0, -3], axis=0),
        IndexOutOfRange,
        ("take", "index -3", "axis 0", "size 2"),
    ),
    "an index into nothing": (lambda: tx.take(tx.zeros(0), 0), IndexOutOfRange, ("take", "index 0", "size 0")),
    "an axis to take along": (lambda: tx.take(table, [0], axis=2), AxisError, ("take", "axis 2")),
    "floats for indices": (lambda: tx.take(table, [0.5]), BadIndex, ("take", "float64")),
    "a mask for indices": (lambda: tx.take(table, [True, False]), BadIndex, ("take", "bool", "x[mask]")),
    "indices of another rank": (
        lambda: tx.take_along_axis(table, [0]),
        ShapeError,
        ("take_along_axis", "(1,)", "(2, 3)"),
    ),
    "indices that do not broadcast": (
        lambda: tx.take_along_axis(table, tx.zeros((3, 1), dtype=tx.int64)),
        ShapeError,
        ("take_along_axis", "axis"),
    ),
    "an index along an axis": (
        lambda: tx.take_along_axis(table, [[3]]),
        IndexOutOfRange,
        ("take_along_axis", "index 3", "axis 1"),
    ),
    "nonzero of a number": (lambda: tx.nonzero(tx.asarray(1)), ShapeError, ("nonzero", "0-d")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_gather_functions_reject_invalid_arguments(wrong: str) -> None:
    check_refused(*WRONG[wrong])


def test_take_along_axis_without_axis_flattens() -> None:
    t = tx.asarray([[3, 1], [2, 0]])
    assert tx.take_along_axis(t, tx.argsort(t, axis=None), axis=None).tolist() == [0, 1, 2, 3]
