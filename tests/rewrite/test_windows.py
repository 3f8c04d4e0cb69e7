"""Convolutions, pooling and other short reductions: the graph keeps one node, however it is planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.ops import OPS
from tenxor.ops.reductions import REDUCTIONS
from tenxor.rewrite.convolution_weights import copy_convolution_weights
from tenxor.rewrite.unroll_reductions import unroll_reduction

from .models import convolved, pooled
from .samples import drawn, kernels


def reduction_of(t: tx.Tensor) -> Node:
    """Return the only reduction in the graph of a result."""
    reductions, stack = [], [t.storage.node]
    while stack:
        node = stack.pop()
        if isinstance(node.op, type(REDUCTIONS["sum"])):
            reductions.append(node)
        stack += [s for s in node.sources if type(s) is Node]
    (reduction,) = reductions
    return reduction


Conv = tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]
TAPS: dict[str, Conv] = {
    "one channel": ((2, 1, 30, 40), (3, 1, 3, 3), {}),
    "depthwise": ((2, 6, 17, 35), (6, 1, 3, 5), {"padding": 2, "groups": 6}),
    "depthwise with stride": ((2, 6, 37, 35), (12, 1, 3, 3), {"stride": 2, "groups": 6}),
    "apart": ((1, 2, 40, 30), (2, 2, 2, 2), {"apart": 3}),
    "patches": ((8, 1, 64, 132), (2, 1, 4, 4), {"stride": 4}),
    "in one dimension": ((3, 1, 5000), (1, 1, 31), {}),
    "small images": ((40, 3, 7, 7), (3, 1, 3, 3), {"padding": 1, "groups": 3}),
}
SEPARATE: dict[str, Conv] = {
    "many channels": ((2, 9, 20, 33), (3, 9, 3, 3), {"padding": 1}),
    "a large kernel": ((1, 2, 50, 40), (2, 1, 7, 7), {"groups": 2}),
    "in one dimension": ((2, 3, 900), (2, 3, 33), {}),
}
PRODUCTS: dict[str, Conv] = {
    "tiles": ((2, 8, 20, 33), (16, 8, 3, 3), {"padding": 1}),
    "groups": ((2, 16, 20, 33), (16, 4, 3, 3), {"padding": 1, "groups": 4}),
    "small images": ((20, 8, 7, 7), (16, 8, 3, 3), {"padding": 1}),
    "pointwise": ((2, 64, 14, 14), (32, 64, 1, 1), {}),
    "few kernels with stride": ((2, 9, 41, 40), (3, 9, 3, 3), {"stride": 2}),
}
ALL_CONVOLUTIONS = {**{f"taps: {k}": v for k, v in TAPS.items()}, **{f"apart: {k}": v for k, v in SEPARATE.items()}}
ALL_CONVOLUTIONS |= {f"products: {k}": v for k, v in PRODUCTS.items()}


def convolution(x: tx.Tensor, w: tx.Tensor, options: dict[str, int]) -> tx.Tensor:
    function: Any = tx.conv1d if x.ndim == 3 else tx.conv2d
    names = {"apart": "dilation"}
    return function(x, w, **{names.get(k, k): v for k, v in options.items()})  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ALL_CONVOLUTIONS)
def test_convolution_is_one_sum_of_products(name: str) -> None:
    x_shape, w_shape, options = ALL_CONVOLUTIONS[name]
    x, w = drawn(*x_shape), drawn(*w_shape, seed=1)
    result = convolution(x, w, options)
    node = reduction_of(result)
    (products,) = node.sources
    assert node.op is REDUCTIONS["sum"] and type(products) is Node and products.op is OPS["multiply"]
    assert products.sources[0] is w.storage.node
    if not options.get("padding"):
        assert products.sources[1] is x.storage.node
    assert (unroll_reduction(node) is not None) == name.startswith("taps")
    assert (unroll_reduction(node) is None and copy_convolution_weights(node) is not None) == name.startswith("apart")
    np.testing.assert_allclose(result, convolved(x.to_numpy(), w.to_numpy(), **options), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["taps: depthwise", "apart: many channels", "products: small images"])
def test_convolution_bits_do_not_depend_on_threads_and_readers(name: str, threads: Callable[[int], None]) -> None:
    x_shape, w_shape, options = ALL_CONVOLUTIONS[name]
    x, w = drawn(*x_shape), drawn(*w_shape, seed=1)
    threads(1)
    expected = convolution((x + 1.0).realize(), (w * 2.0).realize(), options).to_numpy()
    for count in (1, 2, 3):
        threads(count)
        pending = convolution(x + 1.0, w * 2.0, options)
        tripled = pending * 3.0
        tx.realize(tripled, pending)
        assert (pending.to_numpy() == expected).all() and (tripled.to_numpy() == expected * np.float32(3)).all()
        shared = tx.asarray((x + 1.0).to_numpy().copy(), copy=False)
        assert (convolution(shared, w * 2.0, options).to_numpy() == expected).all()


POOLS = [
    ((16, 3, 40, 36), 2, 2),
    ((2, 3, 21, 37), 3, 1),
    ((2, 3, 21, 37), 3, 2),
    ((4, 2, 64, 132), 4, 4),
    ((1, 2, 30, 31), 7, 1),
]


@pytest.mark.parametrize(("shape", "kernel", "stride"), POOLS)
def test_pooling_is_one_reduction_and_matches_numpy(shape: tuple[int, ...], kernel: int, stride: int) -> None:
    x = drawn(*shape)
    largest, mean = tx.max_pool2d(x, kernel, stride), tx.avg_pool2d(x, kernel, stride)
    for result, name in ((largest, "max"), (mean, "sum")):
        node = reduction_of(result)
        assert node.op is REDUCTIONS[name] and node.sources == (x.storage.node,)
        overlap = stride < kernel
        short = kernel**2 <= 32 and (overlap or x.size >= 1 << 16)
        assert (unroll_reduction(node) is not None) == short
    np.testing.assert_array_equal(largest, pooled(x.to_numpy(), np.maximum, (kernel, kernel), stride))
    total = pooled(x.to_numpy().astype(np.float64), np.add, (kernel, kernel), stride)
    np.testing.assert_allclose(mean, total / kernel**2, rtol=1e-5, atol=1e-6)


def test_pooling_of_other_dtypes_matches_numpy() -> None:
    values = np.random.default_rng(3).integers(-100, 100, (2, 3, 40, 70))
    for dtype in ("int8", "int64", "float16", "float64"):
        x = values.astype(dtype)
        for kernel, stride in ((2, 2), (3, 1)):
            result = tx.max_pool2d(tx.asarray(x), kernel, stride)
            np.testing.assert_array_equal(result, pooled(x, np.maximum, (kernel, kernel), stride))
            total = pooled(x.astype(np.float64), np.add, (kernel, kernel), stride)
            result = tx.avg_pool2d(tx.asarray(x), kernel, stride)
            np.testing.assert_allclose(result, total / kernel**2, rtol=1e-3 if dtype == "float16" else 1e-12, atol=1e-6)


@pytest.mark.parametrize("length", [2, 3, 5, 8])
def test_reductions_of_many_short_rows_are_unrolled_and_match_numpy(length: int, threads: Callable[[int], None]) -> None:
    x = drawn(33_000, length)
    array = x.to_numpy().astype(np.float64)
    for name in ("sum", "max", "min"):
        result = getattr(tx, name)(x, axis=1)
        node = result.storage.node
        assert node.op is REDUCTIONS[name] and node.sources == (x.storage.node,)
        assert name not in kernels(result)[0].split("_")
        np.testing.assert_allclose(result, getattr(np, name)(array, axis=1), rtol=1e-5, atol=1e-5)
    assert kernels(x[:100].sum(axis=1)) == ["sum"]
    expected = tx.softmax(x).to_numpy()
    np.testing.assert_allclose(expected, np.exp(array) / np.exp(array).sum(1, keepdims=True), rtol=1e-5)
    for count in (1, 2, 3):
        threads(count)
        powers = tx.exp(x - x.max(axis=1, keepdims=True))
        result, total = tx.softmax(x), powers.sum(axis=1)
        tx.realize(total, result)
        assert (result.to_numpy() == expected).all()
        assert (total.to_numpy() == powers.realize().sum(axis=1).to_numpy()).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool", "float16", "complex64"])
def test_sums_of_short_rows_of_other_dtypes_match_numpy(dtype: str) -> None:
    values = np.random.default_rng(4).integers(0, 200, (33_000, 3)).astype(dtype)
    x = tx.asarray(values)
    result = x.sum(axis=1)
    expected = values.astype(np.complex128 if dtype == "complex64" else np.float64).sum(axis=1)
    assert result.dtype is x[:5].sum(axis=1).dtype
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-3 if dtype == "float16" else 1e-6)
    if dtype == "int32":  # products of 32 bits, whose sum has 64
        large = tx.full((33_000, 3), 1 << 30, dtype=tx.int32)
        assert set((large * 1).sum(axis=1).tolist()) == {3 << 30}


def test_reductions_of_columns_few_rows_or_longer_rows_are_not_unrolled() -> None:
    for t in (
        drawn(3, 33_000).sum(axis=0),
        drawn(9000, 9).sum(axis=1),
        drawn(33_000, 3).sum(axis=0),
        drawn(30, 600, 3).sum(axis=1),
    ):
        assert unroll_reduction(t.storage.node) is None
    a, b = drawn(13_000, 6), drawn(6, 50)
    assert unroll_reduction((a @ b).storage.node) is None  # tiles share what they read
    assert unroll_reduction((a @ b[:, :3]).storage.node) is not None
    np.testing.assert_allclose(a @ b[:, :3], a.to_numpy() @ b.to_numpy()[:, :3], rtol=1e-5, atol=1e-5)


def test_operands_of_unrolled_rows_are_never_stored() -> None:
    a, b, w = drawn(300, 7), drawn(400, 7, seed=1), drawn(7, seed=2)
    for make in (
        lambda: ((a[:, None] - b) ** 2).sum(axis=-1),
        lambda: (tx.exp(tx.sin(a[:, None] * b)) * w).sum(axis=-1),
        lambda: tx.max(tx.atan2(a[:, None], b) ** 3, axis=-1),
    ):
        make().realize()
        before = tx.memory(reset_peak=True).in_use
        result = make().realize()
        assert tx.memory().peak - before < 1.5 * result.nbytes
    x, y = a.to_numpy().astype(np.float64)[:, None], b.to_numpy().astype(np.float64)
    np.testing.assert_allclose(((a[:, None] - b) ** 2).sum(axis=-1), ((x - y) ** 2).sum(-1), rtol=1e-5)
    product = (tx.exp(tx.sin(a[:, None] * b)) * w).sum(axis=-1)
    np.testing.assert_allclose(product, (np.exp(np.sin(x * y)) * w.to_numpy()).sum(-1), rtol=1e-4, atol=1e-5)
    expensive = a + 1.0
    for _ in range(40):
        expensive = expensive * 0.5 + 1.0  # more operations than are made anew
    np.testing.assert_allclose((expensive[:, None] + b).sum(axis=-1), (2.0 + y + 0 * x).sum(-1), rtol=1e-4, atol=1e-4)
