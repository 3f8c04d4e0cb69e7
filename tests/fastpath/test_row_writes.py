"""Writes of rows, one row or a number through masks and indices, with NumPy arrays as keys, values and operands."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.dtypes import DTYPE_BY_NUMPY_DTYPE
from tenxor.fastpath import install, recorder

pytestmark = pytest.mark.usefixtures("on")
TIMES = 4  # what is met for the first time takes the long way
DTYPES = (np.float64, np.float32, np.int64, np.uint8, np.complex128, np.bool_)
SEEN: dict[str, Callable[[Any], Any]] = {
    "as it lies": lambda x: x,
    "transposed": lambda x: x.T,
    "every other row": lambda x: x[::2],
    "backwards": lambda x: x[::-1],
}


def keys(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Any]:
    """Return keys of the first one or two axes: lists, indices of two dtypes, also for two axes, and masks."""
    n = shape[0]
    indices = rng.integers(-n, n, 5)
    two = rng.random(shape[:2]) < 0.5
    return [indices, indices.astype(np.int32), indices[:4].reshape(2, 2), indices[:3].tolist(), rng.random(n) < 0.6, two]


def tensor_of(key: Any) -> Any:
    return tx.asarray(key) if type(key) is np.ndarray else key


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("dtype", DTYPES)
def test_indexed_rows_accept_rows_one_row_or_a_number(dtype: Any, seen: str) -> None:
    rng = np.random.default_rng(4)
    for shape in ((6, 4), (6, 1), (3, 2, 5), (7,)):
        start, look = (rng.normal(size=shape) * 40).astype(dtype), SEEN[seen]
        for key in keys(rng, look(start).shape):
            axes = key.ndim if type(key) is np.ndarray and key.dtype == bool else 1
            one = look(start)[(0,) * axes].copy()
            values = [dtype(1), look(start)[key][::-1].copy(), one, one.reshape(-1)[:1]]
            for value in values:
                for _ in range(TIMES):
                    array, x = start.copy(), tx.asarray(start).realize()
                    try:
                        look(array)[key] = value
                    except ValueError:
                        with pytest.raises(tx.errors.ShapeError):
                            look(x)[tensor_of(key)] = tx.asarray(value)
                        continue
                    look(x)[tensor_of(key)] = value.item() if value.ndim == 0 else tx.asarray(value)
                    assert np.array_equal(x.numpy(), array), (shape, key, value)


def test_indexed_write_of_own_rows_uses_their_old_values() -> None:
    """The rows read stand anywhere among the rows written, and indices repeat."""
    rng, chance = np.random.default_rng(5), random.Random(5)
    for _ in range(200):
        start, key, begin = rng.random((6, 4)), rng.integers(-6, 6, 7), chance.randrange(20)
        array, x = start.copy(), tx.asarray(start).realize()
        array[key] = start.reshape(-1)[begin : begin + 4]
        x[tx.asarray(key)] = x.reshape(-1)[begin : begin + 4]
        assert np.array_equal(x.numpy(), array), begin
    alike = x[:]
    kept = x + 0.0
    x[tx.asarray([0, 1])] = x[2]
    assert np.array_equal(alike[0].numpy(), alike[2].numpy()) and np.array_equal(kept.numpy(), array)


@pytest.mark.usefixtures("afresh")
def test_indexed_write_of_a_number_or_row_runs_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    x, row, key = tx.asarray(np.ones((6, 4))), tx.asarray(np.arange(4.0)), tx.asarray([1, -1])
    for mask in (key, tx.asarray([True, False] * 3)):
        for _ in range(TIMES):
            x[mask] = 2.5
            x[mask] = row
        with monkeypatch.context() as patch:
            patch.setattr(install, "record_row_selection", None)
            patch.setattr(install, "compute_if_small", None)
            x[mask] = 3
            assert (x[mask] == 3).all()
            x[mask] = row
            x[mask] = x[1]
            assert (x[mask] == row).all()


SEVERAL: dict[str, tuple[Any, ...]] = {
    "two": (np.array([1, -1, 2]), np.array([0, -2, 3])),
    "of two dtypes": (np.array([1, 4, 2], np.uint8), np.array([0, -2, 3], np.int16)),
    "all": (np.array([[1, -1], [2, 2]]), np.array([[0, -2], [3, 3]]), np.array([[0, 1], [-1, -1]])),
    "an integer first": (-2, np.array([0, -2, 3, 0])),
    "integers first": (1, -4, np.array([0, -1])),
    "an integer last": (np.array([0, -2, 3]), 1),
    "a column and a row": (np.array([[0], [1]]), np.array([1, 2, 3])),
    "none": (np.array([], int), np.array([], int)),
    "one out of range": (np.array([1, 2]), np.array([0, 4])),
    "one below": (np.array([-6, 2]), np.array([0, 1])),
    "the first out of range": (5, np.array([0, 1])),
    "one beyond all others": (np.array([0, 0]), np.array([5, 0])),
    "a slice first": (slice(None), np.array([0, -2, 3])),
    "a part first": (slice(3, None, -2), np.array([[0], [-1]])),
    "slices around": (slice(1, None), np.array([1, 0]), slice(None, None, 2)),
    "slices after": (np.array([4, -3]), slice(None), slice(2)),
    "the last axis": (..., np.array([0, 1, -1])),
    "the first axis": (np.array([-1, 2]), ...),
    "two after a slice": (slice(None), np.array([0, 1]), np.array([2, -1])),
    "two around a slice": (np.array([0, 1]), slice(None), np.array([2, -1])),
    "one out of range after a slice": (slice(None), np.array([0, 4])),
    "a mask after a slice": (slice(None), np.array([True, False, False, True])),
    "a list after a slice": (slice(None), [0, -1]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
@pytest.mark.parametrize("seen", ["as it lies", "backwards", "transposed"])
@pytest.mark.parametrize("name", SEVERAL)
def test_write_at_several_index_arrays_equals_numpy(name: str, seen: str, dtype: Any) -> None:
    start = np.arange(60).reshape(3, 4, 5)[:, :, ::-1].swapaxes(0, 2).copy().astype(dtype)
    look, key = SEEN[seen], SEVERAL[name]
    own = start.copy()
    try:
        selected = look(own)[key]
    except IndexError:
        selected = None
    for value in (dtype(7), *(() if selected is None else (selected[::-1].copy(), selected[..., :1].copy()))):
        wanted, message = start.copy(), ""
        if selected is not None:
            look(wanted)[key] = value
        else:
            with fastpath.disabled(), pytest.raises(tx.errors.IndexOutOfRange) as caught:
                x = tx.asarray(start)
                look(x)[tuple(map(tensor_of, key))] = 7
                x.realize()
            message = str(caught.value)
        for _ in range(TIMES):
            x = tx.asarray(start).realize()
            given = value.item() if value.ndim == 0 else tx.asarray(value)
            if message:
                with pytest.raises(tx.errors.IndexOutOfRange) as caught:
                    look(x)[tuple(map(tensor_of, key))] = given
                    x.realize()
                assert str(caught.value) == message
            else:
                look(x)[tuple(map(tensor_of, key))] = given
            assert np.array_equal(x.numpy(), wanted)


def test_write_at_pending_or_traced_indices_equals_numpy() -> None:
    start = np.arange(12.0).reshape(3, 4)
    for _ in range(TIMES):
        x, array = tx.asarray(start), start.copy()
        x[tx.arange(3), tx.arange(3) + 1] = -1
        array[np.arange(3), np.arange(3) + 1] = -1
        assert np.array_equal(x.numpy(), array)

    def marked(i: tx.Tensor, j: tx.Tensor) -> tx.Tensor:
        x = tx.asarray(start) * 1.0
        x[i, j] = -1
        return x

    found = tx.vmap(marked)(tx.asarray([[0, 1], [2, 2]]), tx.asarray([[1, 1], [0, 3]]))
    for k, (i, j) in enumerate((([0, 1], [1, 1]), ([2, 2], [0, 3]))):
        array = start.copy()
        array[i, j] = -1
        assert np.array_equal(found[k].numpy(), array)
    empty = tx.zeros((0, 4))
    with pytest.raises(tx.errors.IndexOutOfRange, match="axis 0 of size 0"):
        empty[tx.asarray([0]), tx.asarray([1])] = 1
        empty.realize()


@pytest.mark.parametrize("dtype", sorted({d.name for d in DTYPE_BY_NUMPY_DTYPE.values() if not d.is_complex}))
def test_numpy_arrays_as_keys_match_python(dtype: str) -> None:
    start = np.arange(24.0).reshape(6, 4)

    def done(key: Any) -> object:
        x = tx.asarray(start).realize()
        try:
            read = x[key].tolist()
            x[key] = -1
        except tx.errors.TenxorError as error:
            read = type(error), str(error)
        return read, x.tolist()

    for key in (np.eye(6)[1].astype(dtype), np.zeros(0, dtype), np.ones((2, 2), dtype), np.ones((), dtype), np.full(3, 9).astype(dtype)):
        with fastpath.disabled():
            wanted = done(key)
        assert [done(key) for _ in range(TIMES)] == [wanted] * TIMES
        if key.dtype.kind in "biu" and key.size and key.max() < 6 and (key.dtype != bool or key.shape == (6,)):
            assert wanted[0] == start[key].tolist()


def test_numpy_scalars_as_keys_and_values_equal_numpy() -> None:
    start = np.arange(24.0).reshape(6, 4)
    parts = [np.int64(2), np.int8(-1), np.uint16(3), slice(1, 3), None, ..., np.array([0, 2])]
    chance = random.Random(6)
    for _ in range(300):
        key = tuple(chance.sample(parts, chance.randrange(1, 4)))
        array, x = start.copy(), tx.asarray(start).realize()
        try:
            wanted = array[key].copy()
            array[key] = np.float64(9)
        except IndexError:
            with pytest.raises(IndexError):
                x[key]
            continue
        assert np.array_equal(np.asarray(x[key]), wanted), key
        x[key] = np.float64(9)
        assert np.array_equal(x.numpy(), array), key
    for value in (np.arange(4.0), np.arange(4), np.arange(4.0)[::-1], np.float32(2.5), np.int16(3), np.array(7.5)):
        array, x = start.copy(), tx.asarray(start)
        for _ in range(TIMES):
            array[1:3], x[1:3] = value, value
            array[5], x[5] = value, value
            assert np.array_equal(x.numpy(), array)
    whole = tx.asarray(np.arange(4))
    with pytest.raises(tx.errors.DTypeError):
        whole[1:] = np.array([1j, 2, 3])
    assert whole.tolist() == [0, 1, 2, 3]


OPERATIONS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.eq, operator.and_)


def test_numpy_arrays_and_scalars_as_operands_match_python() -> None:
    rng = np.random.default_rng(7)
    arrays = [rng.random(6), rng.integers(0, 9, (2, 6)), rng.random(6) > 0.5, rng.random(6) + 1j, np.arange(6, dtype=">f8"), np.array(2.5)]
    numbers = [np.float64(2), np.float32(0.5), np.int32(3), np.bool_(True), np.complex64(1j), np.str_("a")]
    others: list[Any] = [*arrays, *numbers, np.array(["a"])]

    def found(operation: Callable[[Any, Any], Any], *operands: Any) -> object:
        try:
            made = operation(*operands)
            return type(made), str(made.dtype), str(made.tolist())
        except Exception as error:
            return type(error), str(error)

    for i, array in enumerate(arrays):
        for j, other in enumerate(others):
            x = tx.asarray(array)
            for operation in OPERATIONS[(i + j) % 2 :: 2]:  # half of them: each with each array, and with each other operand
                for operands in ((x, other), (other, x)):
                    with fastpath.disabled():
                        wanted = found(operation, *operands)
                    assert found(operation, *operands) == found(operation, *operands) == wanted, (operation, *operands)
    for function in (tx.maximum, tx.hypot, tx.logical_and):
        for one, two in ((arrays[0], x), (x, arrays[0]), (arrays[0], arrays[2]), (arrays[0], 2), (np.float32(3), x)):
            with fastpath.disabled():
                wanted = found(function, one, two)
            assert found(function, one, two) == wanted, (function, one, two)


@pytest.mark.usefixtures("afresh")
def test_numpy_operands_are_not_recorded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, own = tx.asarray(np.ones(6)), np.arange(6.0), list[object]()
    for _ in range(TIMES):
        x + y, y * x, np.float64(2) * x, tx.maximum(x, y)
        x += y
    kept = tx.Tensor._compute
    monkeypatch.setattr(tx.Tensor, "_compute", staticmethod(lambda *given: own.append(given) or kept(*given)))
    monkeypatch.setattr(recorder, "record_write", None)
    assert (x + y).tolist() == (y + x).tolist() == tx.add(x, y).tolist() == (x.numpy() + y).tolist()
    assert (np.float64(2) * x).tolist() == (x.numpy() * 2).tolist()
    before = x.numpy() + y
    x += y
    assert x.tolist() == before.tolist() and not own


def test_mask_selects_rows_longer_than_a_small_block() -> None:
    x = tx.zeros((2, 3 << 20), dtype=tx.uint8).realize()
    mask, before = tx.asarray(np.array([True, False])), tx.memory().pooled
    for number in range(4):
        x[mask] = number
    assert tx.memory().pooled < before + (1 << 20), "generated code has free lists for small blocks alone"
    assert [x[:, 0].tolist(), x[:, -1].tolist()] == [[3, 0], [3, 0]]
