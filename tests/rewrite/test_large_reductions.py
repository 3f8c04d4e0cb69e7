"""Large reductions: the graph keeps one node, and the plan runs it in blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.ops.reductions import REDUCTIONS
from tenxor.rewrite.rewrite_passes import rewrite_graph
from tenxor.runtime.realize import _plans

from .samples import kernels

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # shape, permutation, reduced axes
CASES: dict[str, Case] = {
    "all": ((1 << 18,), (0,), (0,)),
    "all of a prime number": ((300_007,), (0,), (0,)),
    "few rows": ((5, 70_001), (0, 1), (1,)),
    "few columns": ((100_003, 3), (0, 1), (0,)),
    "columns": ((1000, 300), (0, 1), (0,)),
    "both sides of a kept axis": ((70, 64, 65), (0, 1, 2), (0, 2)),
    "transposed": ((3, 100_003), (1, 0), (0,)),
}


def values(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("case", CASES)
def test_large_reduction_is_one_node_and_several_kernels(case: str) -> None:
    shape, order, axes = CASES[case]
    x = tx.asarray(values(shape)).permute(*order)
    result = x.sum(axis=axes)
    node = result.storage.node
    assert node.op is REDUCTIONS["sum"] and node.sources == (x.storage.node,) and not node.is_stored
    assert len(kernels(result)) > 1
    small = x[tuple(slice(0, 60) for _ in shape)].sum(axis=axes)
    assert len(kernels(small)) == 1
    model = values(shape).transpose(order).astype(np.float64).sum(axes)
    np.testing.assert_allclose(result.to_numpy(), model, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "any", "count_nonzero"])
@pytest.mark.parametrize("case", CASES)
def test_reduction_bits_do_not_depend_on_threads_and_readers(case: str, name: str, threads: Callable[[int], None]) -> None:
    shape, order, axes = CASES[case]
    x = tx.asarray(1 + values(shape) / 100).permute(*order)

    def reduced(t: tx.Tensor) -> tx.Tensor:
        return getattr(tx, name)(t, axis=axes)  # type: ignore[no-any-return]

    threads(1)
    expected = reduced(x * 3).to_numpy()
    for count in (1, 2, 3):
        threads(count)
        pending = x * 3
        assert (reduced(pending).to_numpy() == expected).all()
        realized = (x * 3).realize()
        assert (reduced(realized).to_numpy() == expected).all()
        repeated, other, inside = reduced(pending), pending.max(), reduced(pending) * 2.0
        tx.realize(inside, other, repeated)
        assert (repeated.to_numpy() == expected).all() and (inside.to_numpy() == expected * 2.0).all()


def test_float16_sums_accumulate_in_float32() -> None:
    x = tx.full((1 << 18, 3), 0.25, dtype=tx.float16)
    assert x.sum(axis=0).storage.node.op is REDUCTIONS["sum"]
    assert (x / 2).sum(axis=0).tolist() == [float(1 << 15)] * 3
    assert (x.T[::2] / 2).sum(axis=1).tolist() == [float(1 << 15)] * 2


def test_matmul_with_a_long_inner_axis_is_one_sum_node_in_several_kernels(threads: Callable[[int], None]) -> None:
    a, b = tx.asarray(values((24, 70_000))), tx.asarray(values((70_000, 33)))
    result = a @ b
    node = result.storage.node
    (products,) = node.sources
    assert node.op is REDUCTIONS["sum"] and type(products) is Node
    assert products.sources == (a.storage.node, b.storage.node) and products.shape == (24, 33, 70_000)
    assert len(kernels(result)) == 3  # the blocks, their sum, and the remainder
    by_hand = (a[:, None] * b.mT[None]).sum(axis=-1)
    assert len(kernels(by_hand)) == 3
    model = a.to_numpy().astype(np.float64) @ b.to_numpy()
    np.testing.assert_allclose(result.to_numpy(), model, rtol=1e-4, atol=1e-2)
    for count in (1, 2, 3):
        threads(count)
        assert ((a @ b).to_numpy() == result.to_numpy()).all() and (by_hand.to_numpy() == result.to_numpy()).all()
        c, d = a @ b, (a * 2) @ b
        tx.realize(c, d)
        assert (c.to_numpy() == result.to_numpy()).all()


def test_long_int32_product_wraps_in_int32() -> None:
    a = tx.full((18, 40_000), 1 << 20, dtype=tx.int32)
    result = a @ tx.full((40_000, 2), 1, dtype=tx.int32)
    assert result.dtype is tx.int32 and set(result.ravel().tolist()) == {np.int64(40_000 << 20).astype(np.int32).item()}


def test_index_error_in_a_block_of_a_large_reduction_is_raised() -> None:
    x = tx.arange(10).realize()
    index = tx.full((1 << 18,), 3) + tx.arange(1 << 18) // ((1 << 18) - 1) * 7
    index.realize()
    total = tx.take(x, index, axis=0).sum() * 2 + 1
    with pytest.raises(tx.errors.IndexOutOfRange, match="take: index 10 is out of range for axis 0 of size 10"):
        total.item()
    assert tx.take(x, index - 1, axis=0).sum().item() == 2 * (1 << 18) + 7


def test_sums_of_different_rows_share_a_plan() -> None:
    x = tx.asarray(values((3, 1 << 18)))
    sums = [x[0].sum().item()]
    before = len(_plans)
    sums += [x[k].sum().item() for k in (1, 2)]
    assert len(_plans) == before
    np.testing.assert_allclose(sums, x.to_numpy().astype(np.float64).sum(1), rtol=1e-3)


def test_referenced_operand_is_not_overwritten() -> None:
    x = tx.asarray(values((1 << 19,)))
    y = x + 1.0
    doubled = y * 2.0
    result = doubled.sum()
    z = y - 3.0
    del y
    tx.realize(result, z)
    assert (doubled.to_numpy() == (x.to_numpy() + np.float32(1)) * np.float32(2)).all()


@pytest.mark.parametrize("shape", [(1 << 20,), (1, (1 << 20) + 17), (1 << 10, 1 << 10), (3, 1 << 19)])
def test_huge_reductions_are_split_into_small_blocks_and_match_numpy(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals are delivered between blocks, so no block may take long."""
    monkeypatch.setattr(sys.modules["tenxor.rewrite.large_reductions"], "MIN_HUGE_ELEMENTS", 1 << 18)
    x = tx.asarray(np.arange(np.prod(shape), dtype=np.uint32).reshape(shape))
    for axis in (None, len(shape) - 1):
        assert x.sum(axis=axis).tolist() == x.to_numpy().sum(axis=axis, dtype=np.uint64).tolist()
    assert x.max().item() == np.prod(shape) - 1
    if len(shape) == 1:
        total = x.sum().storage.node
        assert rewrite_graph([total])[total].sources[0].size == 1 << 14  # type: ignore[union-attr]
