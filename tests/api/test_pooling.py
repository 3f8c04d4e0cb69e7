"""Pooling, compared with its definition window by window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, product, takewhile
from math import inf, nan, prod
from random import Random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES
from tenxor.errors import ArgumentError, DTypeError, ShapeError, TenxorError

from .samples import Array, assert_close, assert_same, check_refused, kernels_of

MAX = {1: tx.max_pool1d, 2: tx.max_pool2d, 3: tx.max_pool3d}
AVERAGE = {1: tx.avg_pool1d, 2: tx.avg_pool2d, 3: tx.avg_pool3d}
Numbers = Sequence[int]


def window_indices(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> list[list[int]]:
    """Return the indices that each window along an axis reads. Indices below 0, or from `n` on, are in the padding or beyond it."""
    reach = d * (k - 1) + 1

    def is_there(start: int) -> bool:
        return start + reach <= n + p or (ceil_mode and start - s + reach < n + p and start < n)

    return [[start + t * d for t in range(k)] for start in takewhile(is_there, count(-p, s))]


def reference_pooling(
    x: Array,
    kernel: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
    of: Callable[..., Any],
) -> Array:
    """Return `of` applied to the elements and the indices of each window."""
    space = x.shape[2:]
    axis_windows = [window_indices(*window_axis, ceil_mode) for window_axis in zip(space, kernel, stride, padding, dilation, strict=True)]
    result = np.zeros((*x.shape[:2], *map(len, axis_windows)), x.dtype)
    for position in product(*(range(len(window_axis)) for window_axis in axis_windows)):
        window = [window_axis[i] for window_axis, i in zip(axis_windows, position, strict=True)]
        inside = [[i for i in window_axis if 0 <= i < n] for window_axis, n in zip(window, space, strict=True)]
        result[(..., *position)] = of(x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)], window)
    return result


def largest(elements: Array, window: Any) -> Any:
    return elements.max(axis=tuple(range(2, elements.ndim))) if prod(elements.shape[2:]) else -inf


def mean(space: Numbers, padding: Numbers, count_include_pad: bool) -> Callable[[Array, Any], Any]:
    def of(elements: Array, window: list[list[int]]) -> Any:
        axes = zip(window, space, padding, strict=True)
        padded = prod(sum(-p <= i < n + p for i in indices) for indices, n, p in axes)
        inside = prod(elements.shape[2:])
        return elements.sum(axis=tuple(range(2, elements.ndim))) / (padded if count_include_pad else inside)

    return of


@pytest.mark.parametrize("seed", range(40))
def test_pooling_equals_its_definition(seed: int) -> None:
    choose, rng = Random(seed), np.random.default_rng(seed)
    space = choose.choice((1, 2, 2, 3))
    longest = {1: 40, 2: 13, 3: 6}[space]
    x = rng.standard_normal((choose.choice((1, 1, 2)), 2, *(choose.randint(4, longest) for _ in range(space))))
    kernel = [choose.randint(1, 4) for _ in range(space)]
    stride, dilation = [[choose.randint(1, high) for _ in range(space)] for high in (4, 2)]
    padding = [choose.randint(0, k // 2) for k in kernel]
    ceil_mode, count_include_pad = choose.random() < 0.5, choose.random() < 0.5
    ones = (1,) * space
    if all(n + 2 * p > d * (k - 1) for n, p, d, k in zip(x.shape[2:], padding, dilation, kernel, strict=True)):
        expected = reference_pooling(x, kernel, stride, padding, dilation, ceil_mode, largest)
        assert_same(MAX[space](x, kernel, stride, padding, dilation, ceil_mode), expected)
    expected = reference_pooling(x, kernel, stride, padding, ones, ceil_mode, mean(x.shape[2:], padding, count_include_pad))
    assert_close(AVERAGE[space](x, kernel, stride, padding, ceil_mode, count_include_pad), expected)


def whole_numbers(*shape: int) -> Array:
    return np.asarray(np.arange(np.prod(shape), dtype=np.int64).reshape(shape) * 7 % 23 - 11)


# --- arguments --------------------------------------------------------------------------------------------------------


def test_pooling_stride_defaults_to_the_kernel_size() -> None:
    x = whole_numbers(2, 3, 9, 8)
    assert_same(tx.max_pool2d(x, (2, 3)), reference_pooling(x, (2, 3), (2, 3), (0, 0), (1, 1), False, largest))
    assert_same(tx.max_pool2d(x, 3, padding=1), reference_pooling(x, (3, 3), (3, 3), (1, 1), (1, 1), False, largest))
    assert tx.avg_pool2d(x, 2).tolist() == x[:, :, :8].reshape(2, 3, 4, 2, 4, 2).mean((3, 5)).tolist()


@pytest.mark.parametrize("space", [1, 2, 3])
def test_pooling_accepts_x_without_a_batch_axis(space: int) -> None:
    x = whole_numbers(2, *(7, 6, 5)[:space])
    for function in (MAX[space], AVERAGE[space]):
        assert_same(function(x, 3, 2, 1), function(x[None], 3, 2, 1)[0].to_numpy())


def test_pooling_with_large_windows_equals_its_definition() -> None:
    x = whole_numbers(2, 3, 30, 31)
    assert_same(tx.max_pool2d(x, 9, 4, 4), reference_pooling(x, (9, 9), (4, 4), (4, 4), (1, 1), False, largest))
    assert_close(tx.avg_pool2d(x, (30, 31))[:, :, 0, 0], x.mean((2, 3)))
    assert_close(tx.avg_pool2d(x, 9, 4), reference_pooling(x * 1.0, (9, 9), (4, 4), (0, 0), (1, 1), False, mean((30, 31), (0, 0), True)))


def test_pooling_without_elements_has_an_empty_result() -> None:
    empty = np.zeros((0, 3, 5, 5))
    assert_same(tx.max_pool2d(empty, 2, padding=1), np.zeros((0, 3, 3, 3)))
    assert_same(tx.avg_pool2d(empty, 2, ceil_mode=True), np.zeros((0, 3, 3, 3)))


def test_pooling_with_windows_of_one_element_returns_a_new_tensor() -> None:
    t = tx.arange(6).reshape(1, 1, 6)
    result = tx.max_pool1d(t, 1)
    result[...] = 0
    assert tx.max_pool1d(t, 1, 2).tolist() == [[[0, 2, 4]]]
    assert tx.avg_pool1d(t, 1, 2).tolist() == [[[0.0, 2.0, 4.0]]]


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_pooling_accepts_every_dtype_but_max_pool_of_complex(dtype: tx.DType) -> None:
    x = whole_numbers(1, 2, 6, 9) % 30
    t = tx.asarray(x).astype(dtype)
    if dtype.is_complex:
        elements, turned = t.real.to_numpy(), tx.avg_pool2d(t * 1j, 2)
        assert turned.dtype is dtype
        assert turned.imag.tolist() == elements[:, :, :, :8].reshape(1, 2, 3, 2, 4, 2).mean((3, 5)).tolist()
        with pytest.raises(DTypeError, match="max_pool2d: does not accept complex"):
            tx.max_pool2d(t, 3, 2, 1)
        return
    largest_of = tx.max_pool2d(t, 3, 2, 1)
    assert largest_of.dtype is dtype
    elements = t.astype(tx.float64).to_numpy()
    assert largest_of.astype(tx.float64).tolist() == reference_pooling(elements, (3, 3), (2, 2), (1, 1), (1, 1), False, largest).tolist()
    if dtype is tx.bool:
        return
    average = tx.avg_pool2d(t, 2)
    assert average.dtype is (dtype if dtype.is_float else tx.float64)
    assert average.astype(tx.float64).tolist() == elements[:, :, :, :8].reshape(1, 2, 3, 2, 4, 2).mean((3, 5)).tolist()


@pytest.mark.parametrize("name", ["int8", "int64", "uint8", "uint64"])
def test_max_pool_ignores_padding(name: str) -> None:
    x = np.full((1, 1, 4), np.iinfo(name).min, name)
    assert_same(tx.max_pool1d(x, 3, 1, 1), x)
    assert tx.max_pool1d(tx.full((1, 1, 4), -inf), 3, 1, 1).tolist() == [[[-inf] * 4]]


@pytest.mark.parametrize("kernel", [3, 33])
def test_pooling_propagates_nan_and_infinities(kernel: int) -> None:
    x = np.zeros((1, 1, 2 * kernel))
    x[0, 0, 0], x[0, 0, kernel] = nan, -inf
    assert_same(tx.max_pool1d(x, kernel), np.asarray([[[nan, 0.0]]]))
    assert_same(tx.avg_pool1d(x, kernel), np.asarray([[[nan, -inf]]]))


def test_average_pool_sums_float16_in_float32() -> None:
    t = tx.full((1, 1, 64), 1000.0, dtype=tx.float16)
    assert tx.avg_pool1d(t, 64).item() == tx.avg_pool1d(t, 16)[0, 0, 0].item() == 1000.0


# --- how operands lie, and when they are read -------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [2, 6])
def test_pooling_accepts_x_of_any_layout(kernel: int) -> None:
    x = whole_numbers(2, 3, 8, 9)
    t = tx.asarray(x)
    for tensor, array in (
        (t.permute(1, 0, 3, 2), x.transpose(1, 0, 3, 2)),
        (t[:, ::-1, ::-1, 1:], x[:, ::-1, ::-1, 1:]),
        (t[:, :1].expand(-1, 4, -1, -1), np.broadcast_to(x[:, :1], (2, 4, 8, 9))),
        (t.oindex[:, :, [3, 0, 0, 5, 1, 2]], x[:, :, [3, 0, 0, 5, 1, 2]]),
        (t.permute(0, 2, 1, 3).reshape(x.shape), x.transpose(0, 2, 1, 3).reshape(x.shape)),
        (t * 2 + 1, x * 2 + 1),
    ):
        expected = reference_pooling(array, (kernel,) * 2, (1, 2), (1, 1), (1, 1), False, largest)
        assert_same(tx.max_pool2d(tensor, kernel, (1, 2), 1), expected)


@pytest.mark.parametrize("kernel", [1, 3, 6])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("share", [True, False])
def test_pooling_ignores_later_writes_to_x(kernel: int, padding: int, share: bool) -> None:
    padding *= kernel > 1
    x = whole_numbers(1, 2, 8, 9)
    t = tx.asarray(x.copy(), copy=not share)
    result, average = tx.max_pool2d(t, kernel, 1, padding), tx.avg_pool2d(t, kernel, 1, padding)
    t[...] = 1000
    assert_same(result, reference_pooling(x, (kernel,) * 2, (1, 1), (padding,) * 2, (1, 1), False, largest))
    expected = reference_pooling(x * 1.0, (kernel,) * 2, (1, 1), (padding,) * 2, (1, 1), False, mean((8, 9), (padding,) * 2, True))
    assert_close(average, expected)
    result[...] = 0
    assert t[0, 0, 0, 0].item() == 1000


@pytest.mark.parametrize("kernel", [2, 7])
def test_pooling_is_one_kernel(kernel: int) -> None:
    t = tx.ones((2, 3, 20, 20)).realize()
    assert kernels_of(tx.max_pool2d(t, kernel, 1) * 2) == 1
    assert kernels_of(tx.avg_pool2d(t, kernel, 2) + 1) == 1


# --- errors -----------------------------------------------------------------------------------------------------------

X = tx.ones((2, 3, 8, 9))
ERRORS: dict[str, tuple[Callable[[], Any], type[TenxorError], tuple[str, ...]]] = {
    "too few axes": (lambda: tx.max_pool2d(X[0, 0], 2), ShapeError, ("max_pool2d", "(8, 9)", "(N, C, H, W)", "(C, H, W)")),
    "too many axes": (lambda: tx.avg_pool1d(X, 2), ShapeError, ("avg_pool1d", "(2, 3, 8, 9)", "(N, C, L)")),
    "a large kernel": (lambda: tx.avg_pool2d(X, (2, 10)), ShapeError, ("avg_pool2d", "axis -1", "9", "10", "smaller kernel")),
    "a far reaching kernel": (lambda: tx.max_pool2d(X, 4, dilation=3), ShapeError, ("max_pool2d", "axis -2", "8", "10")),
    "a kernel of 0": (lambda: tx.max_pool2d(X, (2, 0)), ArgumentError, ("max_pool2d", "kernel_size (2, 0)", "1 or more")),
    "a stride of 0": (lambda: tx.avg_pool2d(X, 2, 0), ArgumentError, ("avg_pool2d", "stride 0", "1 or more")),
    "a dilation of 0": (lambda: tx.max_pool2d(X, 2, dilation=0), ArgumentError, ("max_pool2d", "dilation 0")),
    "a padding below 0": (lambda: tx.max_pool2d(X, 2, padding=-1), ArgumentError, ("max_pool2d", "padding -1", "0 or more")),
    "much padding": (
        lambda: tx.avg_pool2d(X, (4, 3), padding=2), ArgumentError, ("avg_pool2d", "padding 2", "axis -1", "half", "kernel_size 3")
    ),
    "three sizes": (lambda: tx.max_pool2d(X, (2, 2, 2)), ArgumentError, ("max_pool2d", "kernel_size", "3 numbers", "2 spatial axes")),
    "no size": (lambda: tx.max_pool2d(X, None), ArgumentError, ("max_pool2d", "kernel_size", "None")),  # type: ignore[arg-type]
    "bool": (lambda: tx.avg_pool2d(X > 0, 2), DTypeError, ("avg_pool2d", "bool", "astype")),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_pooling_rejects_invalid_arguments(case: str) -> None:
    check_refused(*ERRORS[case])


# --- indices and asymmetric padding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_max_pool_indices_locate_the_maximum(seed: int) -> None:
    choose, rng = Random(seed), np.random.default_rng(seed)
    space = choose.choice((1, 2, 3))
    x = rng.integers(0, 9, (2, 2, *(choose.randint(4, 7) for _ in range(space)))).astype(float)
    x[0, 0] = -inf  # where the padding is as large
    kernel, stride, dilation = [[choose.randint(1, high) for _ in range(space)] for high in (3, 3, 2)]
    padding = [(choose.randint(0, k // 2), choose.randint(0, k // 2)) for k in kernel]
    result, indices = MAX[space](x, kernel, stride, padding, dilation, choose.random() < 0.5, return_indices=True)
    assert indices.dtype is tx.int64 and indices.shape == result.shape
    rows = np.take_along_axis(x.reshape(2, 2, -1), np.asarray(indices).reshape(2, 2, -1), axis=2)
    assert_same(result, rows.reshape(result.shape))
    for position in product(*map(range, result.shape)):  # and the place is in the window
        maximum = np.unravel_index(int(indices[position]), x.shape[2:])
        for i, p, (before, _), s, d, k in zip(position[2:], maximum, padding, stride, dilation, kernel, strict=True):
            assert 0 <= (p - (i * s - before)) <= d * (k - 1) and (p - (i * s - before)) % d == 0


def test_pooling_accepts_different_padding_at_the_ends_of_an_axis() -> None:
    x = whole_numbers(1, 2, 7, 6).astype(float)
    padding = ((1, 0), (0, 1))
    padded = np.pad(x, ((0, 0), (0, 0), *padding), constant_values=-inf)
    assert_same(tx.max_pool2d(x, 3, 2, padding), tx.max_pool2d(padded, 3, 2).to_numpy())
    counted = np.pad(x, ((0, 0), (0, 0), *padding))
    assert_close(tx.avg_pool2d(x, 3, 2, padding), tx.avg_pool2d(counted, 3, 2).to_numpy())
    ones = np.pad(np.ones_like(x), ((0, 0), (0, 0), *padding))
    expected = tx.avg_pool2d(counted, 3, 2).to_numpy() / tx.avg_pool2d(ones, 3, 2).to_numpy()
    assert_close(tx.avg_pool2d(x, 3, 2, padding, count_include_pad=False), expected)
    for wrong in (((1, 0),), ((1, 0), 1), ((1, 0, 0), (0, 1, 0)), ((2, 0), (0, 0)), ((-1, 0), (0, 0))):
        with pytest.raises(ArgumentError, match="max_pool2d: padding"):
            tx.max_pool2d(x, 2, padding=wrong)  # type: ignore[arg-type]
