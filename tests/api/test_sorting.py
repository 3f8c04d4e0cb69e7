"""Sorting, compared with Python's sort and with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, ShapeError

from .ordering import REAL, drawn, in_order, same
from .samples import SAMPLES, assert_same, each_sample

SIZES = (0, 1, 2, 7, 3000)  # on both sides of where ranks are sorted
every_dtype = pytest.mark.parametrize("dtype", REAL, ids=str)


@every_dtype
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort_equal_python(dtype: tx.DType, size: int, descending: bool) -> None:
    for max_value in (None, 3):
        x = drawn(dtype, (size,), seed=size, most=max_value)
        row = x.tolist()
        order = in_order(row, descending)
        assert tx.argsort(x, descending=descending).tolist() == order
        assert same(tx.sort(x, descending=descending).tolist(), [row[k] for k in order])
        result = tx.argsort(x, descending=descending, stable=False)
        assert sorted(result.tolist()) == list(range(size))
        taken = tx.take(x, result).to_numpy()
        np.testing.assert_array_equal(taken, tx.sort(x, descending=descending, stable=False).to_numpy())


def test_complex_numbers_sort_lexicographically() -> None:
    z = [2 + 1j, 1 + 5j, 2 - 1j, 1 + 0j, complex("nan"), 1 + 0j]
    for dtype in (tx.complex64, tx.complex128):
        for repeats in (1, 400):
            x = tx.asarray(z * repeats, dtype=dtype)
            for descending in (False, True):
                order = tx.argsort(x, descending=descending)
                assert order.tolist() == in_order(x.tolist(), descending)
                assert same(tx.sort(x, descending=descending).tolist(), tx.take(x, order).tolist())


@each_sample
def test_sort_of_every_layout_and_axis_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    before = tensor.tolist()
    for axis in (None, *range(-array.ndim, array.ndim)):
        assert_same(tx.sort(tensor, axis=axis), np.sort(array, axis=axis))
        assert_same(tx.argsort(tensor, axis=axis), np.argsort(array, axis=axis, kind="stable"))
        assert_same(tx.sort(tensor, axis=axis, descending=True), -np.sort(-array, axis=axis))
        assert_same(tx.argsort(tensor, axis=axis, descending=True), np.argsort(-array, axis=axis, kind="stable"))
    assert tensor.tolist() == before


def test_integers_beyond_float64_sort_exactly() -> None:
    x = tx.asarray([2**63 - 1, -(2**63), 2**53 + 1, 2**53, -1] * 500)
    assert tx.sort(x).tolist() == sorted(x.tolist())
    assert tx.argsort(x).tolist() == in_order(x.tolist())
    u = tx.asarray([2**64 - 1, 0, 2**63, 2**63 - 1] * 500, dtype=tx.uint64)
    assert tx.argsort(u, descending=True).tolist() == in_order(u.tolist(), descending=True)


def test_sort_is_equal_on_any_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenxor.native.host_execution.MAX_ONE_THREAD_NS", 0)
    x = tx.asarray(np.random.default_rng(1).standard_normal((20, 600)))
    before, result = tx.num_threads(), []
    for count in (1, 2, 3):
        tx.set_num_threads(count)
        result.append((tx.sort(x).to_numpy(), tx.argsort(x, axis=0).to_numpy()))
    tx.set_num_threads(before)
    for in_order_, order in result:
        np.testing.assert_array_equal(in_order_, np.sort(x.to_numpy()))
        np.testing.assert_array_equal(order, np.argsort(x.to_numpy(), axis=0, kind="stable"))


def test_sort_returns_a_new_tensor() -> None:
    t = tx.asarray([3.0, 1.0, 2.0])
    result = tx.sort(t)
    result[0] = 9.0
    assert t.tolist() == [3.0, 1.0, 2.0] and result.tolist() == [9.0, 2.0, 3.0]
    pending = t * 2
    assert tx.sort(pending).tolist() == [2.0, 4.0, 6.0] and pending.tolist() == [6.0, 2.0, 4.0]


def test_lexsort_equals_numpy() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 3, (3, 2, 900))
    assert_same(tx.lexsort(tx.asarray(keys)), np.lexsort(keys))
    assert_same(tx.lexsort([tx.asarray(k) for k in keys], axis=0), np.lexsort(keys, axis=0))
    with pytest.raises(ShapeError, match=r"lexsort: keys have shapes \(2,\) and \(3,\)"):
        tx.lexsort([tx.ones(2), tx.ones(3)])
    with pytest.raises(ArgumentError, match="at least one key"):
        tx.lexsort([])
    for keys in (5, tx.asarray(5), [object()]):
        with pytest.raises(ArgumentError, match=r"^lexsort: keys is .*; it must be a sequence of tensors, .* at least 1 axis \("):
            tx.lexsort(keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_equals_a_sorted_slice(dtype: tx.DType, largest: bool) -> None:
    x = drawn(dtype, (4, 50, 3), seed=5)
    for axis in (-1, 0, 1):
        for k in {0, 1, 2, x.shape[axis]}:
            values, indices = tx.topk(x, k, axis=axis, largest=largest)
            best = tx.sort(x, axis=axis, descending=largest)
            wanted = best[(slice(None),) * (axis % 3) + (slice(0, k),)].to_numpy()
            np.testing.assert_array_equal(values.to_numpy(), wanted)
            np.testing.assert_array_equal(tx.take_along_axis(x, indices, axis=axis).to_numpy(), wanted)
    result = tx.topk(x.ravel(), 7, largest=largest, sorted=False)
    np.testing.assert_array_equal(np.sort(result.values.to_numpy()), np.sort(tx.topk(x.ravel(), 7, largest=largest)[0].to_numpy()))


def test_sort_argsort_and_topk_reject_invalid_arguments() -> None:
    x = tx.ones((2, 3))
    with pytest.raises(AxisError, match="sort"):
        tx.sort(x, axis=2)
    with pytest.raises(AxisError, match="argsort"):
        tx.argsort(tx.asarray(1.0))
    with pytest.raises(ArgumentError, match="axis and dim"):
        tx.sort(x, axis=0, dim=1)
    with pytest.raises(ArgumentError, match=r"topk: k is 4, and axis 1 of shape \(2, 3\) has 3 elements; k must be from 0 to 3"):
        tx.topk(x, 4)
