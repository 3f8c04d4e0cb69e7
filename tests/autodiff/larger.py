"""Test cases of derivatives that combine tensors: indices, scatters, products, convolutions, pooling, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenxor as tx

from .cases import A, Case, V, index, real, wide

M = real(3, 4)
TWICE = index(2, 0, 2)
ZEROS = [np.array([0.0, 1.5, 2.0, 0.0]), np.array([0.0, 0.0, 3.0, 2.0])]


def added_in_place(x: Any, y: Any) -> Any:
    """Return a sum of values at indices, some of them equal."""
    t = x.copy()
    t.index_add_(0, TWICE, y)
    t.scatter_add_(1, index([0, 0], [1, 3], [3, 3]), y[:, :2])
    return t


def largest_in_place(x: Any, y: Any) -> Any:
    t = x * 1.5
    t.scatter_reduce_(0, index(1, 0, 1, 3), y, "amax")
    return t


def _scattered(reduce: str, include_self: bool = True) -> Any:
    def function(x: Any, y: Any) -> Any:
        return tx.scatter_reduce(x, 0, index(1, 0, 1, 3), y, reduce, include_self=include_self)

    return function


INDICES: dict[str, Case] = {
    "rows": Case(lambda x: x[[2, 0, 2]], [M]),
    "rows by a tensor": Case(lambda x: x[TWICE], [M]),
    "rows of a transpose": Case(lambda x: x.T[TWICE], [M]),
    "pairs": Case(lambda x: x[[0, 2, 0], [1, 3, 1]], [M]),
    "pairs by tensors": Case(lambda x: x[TWICE, index(1, 1, 1)], [M]),
    "pairs that broadcast": Case(lambda x: x[index([0], [2]), index(1, 3, 1)], [M]),
    "with a slice between": Case(lambda x: x[index(1, 0, 1), :, index(0, 1, 0)], [real(2, 3, 2)]),
    "negative indices": Case(lambda x: x[index(-1, 0, -1)], [M]),
    "mask": Case(lambda x: x[tx.asarray([[True, False, True, False]] * 3)], [M]),
    "mask of rows": Case(lambda x: x[tx.asarray([True, False, True])], [M]),
    "mask of its own": Case(lambda x: x[x > 0.1] ** 2, [M]),
    "no rows": Case(lambda x: x[index().astype(tx.int64)], [M]),
    "oindex by tensors": Case(lambda x: x.oindex[TWICE, index(3, 1)], [M]),
    "take": Case(lambda x: tx.take(x, TWICE, axis=0), [M]),
    "take, flat": Case(lambda x: x.take(index([0, 11], [5, 0])), [M]),
    "take of a view": Case(lambda x: tx.take(x.T[::-1], TWICE, axis=1), [M]),
    "take, complex": Case(lambda x: tx.take(x, index(1, 1, 0), axis=0), [wide(3)]),
    "take_along_axis": Case(lambda x: tx.take_along_axis(x, index([0, 0, 3], [1, 2, 1], [2, 2, 2]), axis=1), [M]),
    "take_along_axis, 0": Case(lambda x: tx.take_along_axis(x, index([0, 2, 1, 0]), axis=0), [M]),
    "the largest's place": Case(lambda x: tx.take_along_axis(x, x.argmax(axis=1, keepdims=True), axis=1) * 2, [M]),
    "sorted out by nonzero": Case(lambda x: x[tx.nonzero(x > 0)], [M]),
    "index_add": Case(lambda x, y: tx.index_add(x, 0, TWICE, y), [M, real(3, 4, seed=2)]),
    "index_add, scaled": Case(lambda x, y: tx.index_add(x, 1, TWICE, y, alpha=2.5), [M, real(3, 1)]),
    "scatter_add": Case(lambda x, y: tx.scatter_add(x, 1, index([0, 0], [1, 3], [3, 3]), y), [M, real(3, 2)]),
    "scatter_add, axis 0": Case(lambda x, y: tx.scatter_add(x, 0, index([0, 2, 1, 1]), y), [M, real(1, 4)]),
    "scatter_reduce, sum": Case(_scattered("sum"), [V, real(4, seed=5)]),
    "scatter_reduce, sum of the new": Case(_scattered("sum", False), [V, real(4, seed=5)]),
    "scatter_reduce, mean": Case(_scattered("mean"), [V, real(4, seed=5)]),
    "scatter_reduce, mean of the new": Case(_scattered("mean", False), [V, real(4, seed=5)]),
    "scatter_reduce, amax": Case(_scattered("amax"), [V, real(4, seed=5)]),
    "scatter_reduce, amax of the new": Case(_scattered("amax", False), [V, real(4, seed=5)]),
    "scatter_reduce, amin": Case(_scattered("amin"), [V, real(4, seed=5)]),
    "scatter_reduce, prod": Case(_scattered("prod"), [V, real(4, seed=5)]),
    "scatter_reduce, prod of the new": Case(_scattered("prod", False), [V, real(4, seed=5)]),
    "at multiply": Case(lambda x, y: x.at[[2, 0, 2], 1:].multiply(y), [M, real(1, 3, seed=6)]),
    "at multiply, a zero": Case(lambda x, y: x.at[[1, 1, 0, 1]].multiply(y), [V, np.array([0.5, 0.0, 3.0, 2.0])]),
    "at multiply, zeros": Case(lambda x, y: x.at[[1, 1, 0, 1]].multiply(y), ZEROS),
    "at multiply, complex": Case(lambda x, y: x.at[[1, 1, 0]].multiply(y), [wide(3), wide(3, seed=4)]),
    "in place": Case(added_in_place, [M, real(3, 4, seed=6)]),
    "in place, the largest": Case(largest_in_place, [V, real(4, seed=5)]),
    "at add": Case(lambda x, y: x.at[[2, 0, 2]].add(y), [M, real(3, 4, seed=6)]),
    "at add, broadcast": Case(lambda x, y: x.at[[2, 0, 2], 1:].add(y), [M, real(1, 3, seed=6)]),
    "at max": Case(lambda x, y: x.at[[1, 1, 0]].max(y), [V, real(3, seed=8)]),
    "at set": Case(lambda x, y: x.at[[2, 0]].set(y), [M, real(2, 4)]),
    "at set, the same twice": Case(lambda x, y: x.at[[2, 0, 2]].set(y), [M, real(3, 4)]),
}

PRODUCTS: dict[str, Case] = {
    "matrices": Case(lambda x, y: x @ y, [A, real(3, 2)]),
    "transposes": Case(lambda x, y: x.T @ y.T, [real(3, 2), A]),
    "of itself": Case(lambda x: x @ x.T, [A]),
    "vectors": Case(lambda x, y: x @ y, [V, real(4, seed=2)]),
    "matrix and vector": Case(lambda x, y: x @ y, [A, real(3)]),
    "vector and matrix": Case(lambda x, y: x @ y, [real(2), A]),
    "batches": Case(tx.matmul, [real(2, 2, 3), real(2, 3, 2)]),
    "batches that broadcast": Case(tx.matmul, [real(2, 1, 2, 2), real(3, 2, 2)]),
    "a batch by one matrix": Case(tx.matmul, [real(2, 2, 3), real(3, 2)]),
    "sliced": Case(lambda x, y: x[:, ::2] @ y[::-1, 1:][:2], [real(2, 3), real(2, 3, seed=4)]),
    "nothing": Case(tx.matmul, [real(2, 0), real(0, 3)]),
    "complex": Case(tx.matmul, [wide(2, 2), wide(2, 2, seed=5)]),
    "complex and real": Case(tx.matmul, [wide(2, 2), real(2, 2)]),
    "times a constant": Case(lambda x: x @ tx.asarray(real(3, 2, seed=3)) + 1.0, [A]),
    "dot": Case(tx.dot, [V, real(4, seed=2)]),
    "outer": Case(tx.outer, [real(2), real(3)]),
    "inner": Case(tx.inner, [A, real(2, 3, seed=1)]),
    "tensordot": Case(lambda x, y: tx.tensordot(x, y, axes=([0, 2], [1, 0])), [real(2, 3, 2), real(2, 2, 2)]),
    "tensordot, none": Case(lambda x, y: tx.tensordot(x, y, axes=0), [real(2), real(2, 2)]),
    "einsum": Case(lambda x, y: tx.einsum("ij,jk->ki", x, y), [A, real(3, 2)]),
    "einsum, trace": Case(lambda x: tx.einsum("ii->", x), [real(3, 3)]),
    "einsum, diagonal": Case(lambda x: tx.einsum("ii->i", x), [real(3, 3)]),
    "einsum, sum": Case(lambda x: tx.einsum("ijk->j", x), [real(2, 3, 2)]),
    "einsum, three": Case(lambda x, y, z: tx.einsum("i,ij,j->", x, y, z), [real(2), A, real(3)]),
    "einsum, batches": Case(lambda x, y: tx.einsum("bij,bj->bi", x, y), [real(2, 2, 2), real(2, 2)]),
    "einsum, dots": Case(lambda x, y: tx.einsum("...ij,jk->...ik", x, y), [real(2, 2, 2), real(2, 2)]),
    "contract": Case(lambda x, y: tx.contract(x, y, [(1, 0)]), [A, real(3, 2)]),
    "contract, batched": Case(lambda x, y: tx.contract(x, y, [(0, 0), (2, 1)]), [real(2, 2, 2), real(2, 2)]),
    "contract, distances": Case(lambda x, y: tx.contract(x, y, [(1, 1)], lambda a, b: (a - b) * (a - b)), [A, real(2, 3, seed=3)]),
    "contract, largest": Case(lambda x, y: tx.contract(x, y, [(1, 0)], lambda a, b: a + b, tx.maximum), [A, 0.83 * real(3, 2, seed=3)]),
    "contract, logaddexp": Case(lambda x, y: tx.contract(x, y, [(1, 0)], lambda a, b: a + b, tx.logaddexp), [A, real(3, 2)]),
    "contract, a product": Case(lambda x, y: tx.contract(x, y, [(1, 0)], lambda a, b: a - b, tx.multiply), [A, real(3, 2)]),
    "contract, users' sum": Case(lambda x, y: tx.contract(x, y, [(1, 0)], None, lambda a, b: a + b), [A, real(3, 2)]),
    "contract, no pair": Case(lambda x, y: tx.contract(x, y, [], lambda a, b: a * tx.sin(b)), [real(2), real(3)]),
    "layers": Case(lambda x, v, w: tx.tanh(x @ v) @ w, [A, real(3, 2), real(2, 1)]),
}

IMAGE, KERNEL = real(1, 2, 4, 4), real(2, 2, 2, 2)
conv1, conv2, back1, back2 = tx.conv1d, tx.conv2d, tx.conv_transpose1d, tx.conv_transpose2d
WINDOWS: dict[str, Case] = {
    "conv1d": Case(conv1, [real(2, 2, 5), real(3, 2, 3), real(3)]),
    "conv1d, no batch": Case(conv1, [real(2, 5), real(3, 2, 3)]),
    "conv1d, stride": Case(lambda x, w: conv1(x, w, stride=2), [real(1, 2, 6), real(2, 2, 3)]),
    "conv1d, phases": Case(lambda x, w: conv1(x, w, stride=2), [real(1, 2, 8), real(2, 2, 4)]),
    "conv1d, phases of two lengths": Case(lambda x, w: conv1(x, w, stride=3, padding=1), [real(2, 1, 9), real(2, 1, 5)]),
    "conv1d, phases and dilation": Case(lambda x, w: conv1(x, w, stride=4, dilation=2), [real(1, 1, 11), real(1, 1, 3)]),
    "conv1d, few windows": Case(lambda x, w: conv1(x, w, stride=2), [real(1, 1, 9), real(1, 1, 7)]),
    "conv1d, padding": Case(lambda x, w: conv1(x, w, padding=2), [real(1, 2, 4), real(2, 2, 3)]),
    "conv1d, same": Case(lambda x, w: conv1(x, w, padding="same"), [real(1, 2, 4), real(2, 2, 3)]),
    "conv1d, dilation": Case(lambda x, w: conv1(x, w, dilation=2), [real(1, 2, 6), real(2, 2, 3)]),
    "conv1d, groups": Case(lambda x, w: conv1(x, w, groups=2), [real(1, 4, 4), real(4, 2, 2)]),
    "conv1d, each its own": Case(lambda x, w: conv1(x, w, groups=3, padding=1), [real(1, 3, 3), real(3, 1, 2)]),
    "conv1d, everything": Case(
        lambda x, w, b: conv1(x, w, b, stride=2, padding=2, dilation=2, groups=2), [real(2, 2, 5), real(2, 1, 2), real(2)]
    ),
    "conv1d of a view": Case(lambda x, w: conv1(x.mT[:, ::-1], w[::-1]), [real(1, 5, 2), real(2, 2, 2)]),
    "conv1d, complex": Case(conv1, [wide(1, 1, 3), wide(1, 1, 2)]),
    "conv2d": Case(conv2, [IMAGE, KERNEL, real(2)]),
    "conv2d, stride and padding": Case(lambda x, w: conv2(x, w, stride=(2, 1), padding=(1, 0)), [IMAGE, KERNEL]),
    "conv2d, phases": Case(lambda x, w: conv2(x, w, stride=2, padding=1), [real(1, 2, 4, 5), real(2, 2, 3, 3)]),
    "conv2d, phases along one axis": Case(lambda x, w: conv2(x, w, stride=(1, 2)), [real(1, 1, 3, 6), real(2, 1, 2, 4)]),
    "conv2d, dilation": Case(lambda x, w: conv2(x, w, dilation=(1, 2)), [IMAGE, KERNEL]),
    "conv2d, groups": Case(lambda x, w: conv2(x, w, groups=2, padding=1), [real(1, 2, 3, 3), real(2, 1, 2, 2)]),
    "conv3d": Case(tx.conv3d, [real(1, 1, 2, 3, 2), real(2, 1, 2, 2, 1)]),
    "conv_transpose1d": Case(back1, [real(2, 2, 3), real(2, 3, 2), real(3)]),
    "conv_transpose1d, stride": Case(lambda x, w: back1(x, w, stride=2, padding=1, output_padding=1), [real(1, 2, 3), real(2, 2, 3)]),
    "conv_transpose1d, dilation": Case(lambda x, w: back1(x, w, dilation=2, groups=2), [real(1, 2, 3), real(2, 1, 2)]),
    "conv_transpose2d": Case(lambda x, w: back2(x, w, stride=2, padding=1), [real(1, 2, 2, 3), real(2, 1, 3, 2)]),
    "conv_transpose3d": Case(tx.conv_transpose3d, [real(1, 1, 1, 2, 2), real(1, 1, 2, 1, 2)]),
    "max_pool1d": Case(lambda x: tx.max_pool1d(x, 2), [real(1, 2, 5)]),
    "max_pool1d, overlapping": Case(lambda x: tx.max_pool1d(x, 3, 1, 1), [real(1, 1, 5)]),
    "max_pool2d": Case(lambda x: tx.max_pool2d(x, 2), [IMAGE]),
    "max_pool2d, dilation": Case(lambda x: tx.max_pool2d(x, 2, stride=1, dilation=2), [IMAGE]),
    "max_pool2d, beyond": Case(lambda x: tx.max_pool2d(x, 2, ceil_mode=True, padding=1, stride=2), [real(1, 1, 3, 3)]),
    "max_pool2d, uneven padding": Case(lambda x: tx.max_pool2d(x, 2, padding=((1, 0), (0, 1))), [IMAGE]),
    "max_pool1d with indices": Case(lambda x: tx.max_pool1d(x, 2, return_indices=True)[0], [real(1, 2, 5)]),
    "interpolate, nearest": Case(lambda x: tx.interpolate(x, 5), [real(1, 1, 3)]),
    "interpolate, linear": Case(lambda x: tx.interpolate(x, (3, 4), mode="linear"), [real(1, 1, 2, 3)]),
    "interpolate, cubic": Case(lambda x: tx.interpolate(x, 5, mode="cubic", align_corners=True), [real(1, 1, 3)]),
    "pad, ramp": Case(lambda x: tx.pad(x, (2, 1), "linear_ramp", end_values=3.0), [V]),
    "pad, odd": Case(lambda x: tx.pad(x, (2, 5), "reflect", reflect_type="odd"), [V]),
    "pad, largest": Case(lambda x: tx.pad(x, 1, "maximum"), [real(2, 2)]),
    "pad, median": Case(lambda x: tx.pad(x, 1, "median", stat_length=3), [V]),
    "max_pool3d": Case(lambda x: tx.max_pool3d(x, (1, 2, 2)), [real(1, 1, 2, 2, 2)]),
    "avg_pool1d": Case(lambda x: tx.avg_pool1d(x, 2, 1), [real(1, 2, 4)]),
    "avg_pool1d, phases": Case(lambda x: tx.avg_pool1d(x, 4, 2), [real(1, 2, 8)]),
    "avg_pool2d": Case(lambda x: tx.avg_pool2d(x, 2, 1, 1), [IMAGE]),
    "avg_pool2d, counted": Case(lambda x: tx.avg_pool2d(x, (2, 3), 2, 1, ceil_mode=True, count_include_pad=False), [real(1, 1, 4, 3)]),
    "windows, weighted": Case(lambda x, w: (x.windows(0, 3) * w).sum(axis=1), [real(6), real(3)]),
    "a network": Case(
        lambda x, w, v: tx.softmax(tx.max_pool2d(tx.tanh(conv2(x, w, padding=1)), 2).reshape(1, -1) @ v),
        [real(1, 1, 3, 3), real(1, 1, 2, 2), real(4, 2)],
    ),
}

attend = tx.scaled_dot_product_attention
QUERY, KEY, VALUE = real(2, 3), real(4, 3, seed=1), real(4, 2, seed=2)
ATTENTION: dict[str, Case] = {
    "attention": Case(attend, [QUERY, KEY, VALUE]),
    "causal": Case(lambda q, k, v: attend(q, k, v, is_causal=True), [real(3, 2), real(3, 2, seed=1), real(3, 2, seed=2)]),
    "mask": Case(lambda q, k, v: attend(q, k, v, tx.asarray([[True, False, True, True], [False, True, True, False]])), [QUERY, KEY, VALUE]),
    "nobody seen": Case(lambda q, k, v: attend(q, k, v, tx.asarray([[True] * 4, [False] * 4])), [QUERY, KEY, VALUE]),
    "numbers to add": Case(lambda q, k, v, m: attend(q, k, v, m), [QUERY, KEY, VALUE, real(2, 4, seed=6)]),
    "scale": Case(lambda q, k, v: attend(q, k, v, scale=0.3), [QUERY, KEY, VALUE]),
    "causal with numbers to add": Case(
        lambda q, k, v, m: attend(q, k, v, m, is_causal=True), [real(2, 2), real(2, 2, seed=1), real(2, 1, seed=2), real(2, 2, seed=6)]
    ),
    "heads": Case(attend, [real(2, 1, 2, 2), real(1, 3, 2, seed=1), real(2, 3, 1, seed=2)]),
    "of itself": Case(lambda x: attend(x, x, x), [real(3, 2)]),
    "grouped": Case(lambda q, k, v: attend(q, k, v, enable_gqa=True), [real(4, 2, 2), real(2, 3, 2, seed=1), real(2, 3, 1, seed=2)]),
}
LARGER = {
    f"{room}: {name}": case
    for room, cases in (("indices", INDICES), ("products", PRODUCTS), ("windows", WINDOWS), ("attention", ATTENTION))
    for name, case in cases.items()
}
