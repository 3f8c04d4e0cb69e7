"""Attention: the graph is unchanged, and the plan never holds all weights in memory."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.ops import OPS
from tenxor.ops.reductions import REDUCTIONS
from tenxor.rewrite.split_attention import BLOCK_BYTES
from tenxor.runtime.blockwise_call import BlockwiseCall
from tenxor.runtime.graph_signature import capture_by_traversal
from tenxor.runtime.planner import make_plan, preview_kernels
from tenxor.runtime.realize import _plans

from .samples import drawn

attend = tx.scaled_dot_product_attention


def operands(*batch: int, length: int = 1100, count: int = 1300) -> list[tx.Tensor]:
    return [drawn(*batch, length, 8), drawn(*batch, count, 8, seed=1), drawn(*batch, count, 5, seed=2)]


def model(q: tx.Tensor, k: tx.Tensor, v: tx.Tensor, added: Any = 0.0) -> Any:
    q64, k64, v64 = [t.to_numpy().astype(np.float64) for t in (q, k, v)]
    scores = q64 @ np.swapaxes(k64, -1, -2) / np.sqrt(q.shape[-1]) + added
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v64


def causal_mask(length: int, count: int) -> Any:
    return np.where(np.tril(np.ones((length, count), bool)), 0.0, -inf)


def blockwise(t: tx.Tensor) -> list[BlockwiseCall]:
    """Return the blockwise steps of a plan."""
    steps = make_plan(capture_by_traversal([t.storage.node])).steps
    return [step.kernel_call for step in steps if isinstance(step.kernel_call, BlockwiseCall)]


def block_counts(t: tx.Tensor) -> list[int]:
    """Return the number of blocks of each blockwise step."""
    return [len(step.blocks) for step in blockwise(t)]


def peak_memory_of(make: Callable[[], tx.Tensor]) -> int:
    make().realize()
    tx.release_memory()  # larger blocks, freed by earlier tests, could be reused and would count as a whole
    before = tx.memory(reset_peak=True).in_use
    result = make().realize()
    return tx.memory().peak - before - result.nbytes


def test_attention_node_is_a_plain_product() -> None:
    q, k, v = operands(2)
    node = attend(q, k, v).storage.node
    assert node.op is REDUCTIONS["sum"]
    (products,) = node.sources
    assert type(products) is Node and products.op is OPS["multiply"]
    weights, values = products.sources
    assert type(weights) is Node and weights.op is OPS["multiply"] and weights.shape == (2, 1100, 1300)
    assert values is v.storage.node


@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (40,)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_blocks_matches_numpy(batch: tuple[int, ...], causal: bool) -> None:
    length = 300 if batch == (40,) else 1100
    q, k, v = operands(*batch, length=length)
    result = attend(q, k, v, is_causal=causal)
    assert block_counts(result) and block_counts(result)[0] > 1
    np.testing.assert_allclose(result, model(q, k, v, causal_mask(length, 1300) if causal else 0.0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_masked_attention_in_blocks_matches_numpy(causal: bool) -> None:
    q, k, v = operands(3)
    is_allowed = np.random.default_rng(5).random((1100, 1300)) < 0.7
    is_allowed[:, 0] = True
    added = np.where(is_allowed, 0.0, -inf) + (causal_mask(1100, 1300) if causal else 0.0)
    numbers = np.random.default_rng(6).standard_normal((3, 1100, 1300)).astype(np.float32)
    numbers[..., 0] = 0.0
    for mask, wanted in ((is_allowed, added), (numbers, numbers + (causal_mask(1100, 1300) if causal else 0.0))):
        mask = tx.asarray(mask)
        result = attend(q, k, v, mask, is_causal=causal)
        assert block_counts(result)[0] > 1
        np.testing.assert_allclose(result, model(q, k, v, wanted), rtol=1e-4, atol=1e-5)
        assert peak_memory_of(lambda mask=mask: attend(q, k, v, mask, is_causal=causal)) < 4 * BLOCK_BYTES  # type: ignore[misc]


def hand_written(q: tx.Tensor, k: tx.Tensor, v: tx.Tensor) -> tx.Tensor:
    return tx.softmax(q @ k.mT * (1 / np.sqrt(8))) @ v


def hand_written_causal(q: tx.Tensor, k: tx.Tensor, v: tx.Tensor) -> tx.Tensor:
    scores = q @ k.mT * (1 / np.sqrt(8))
    rows, steps = tx.arange(q.shape[-2]), tx.arange(k.shape[-2])
    return tx.softmax(tx.where(rows[:, None] >= steps, scores, -inf)) @ v


@pytest.mark.parametrize("form", [hand_written, hand_written_causal, lambda *args: attend(*args) * 2.0, lambda *args: attend(*args).mT])
def test_memory_of_hand_written_attention_is_bounded(form: Callable[..., tx.Tensor]) -> None:
    q, k, v = operands(4, length=1500, count=2000)  # of all weights there are 48 MB
    for make in (lambda: form(q, k, v), lambda: form(q + 0.0, k * 1.0, v - 0.0)):
        assert len(block_counts(make())) == 1
        assert peak_memory_of(make) < 3.5 * BLOCK_BYTES


def test_causal_attention_skips_masked_blocks() -> None:
    q, k, v = operands(4, length=1500, count=1500)
    result = attend(q, k, v, is_causal=True)
    assert blockwise(result)[0].work < 0.7 * blockwise(hand_written(q, k, v))[0].work
    np.testing.assert_allclose(result, model(q, k, v, causal_mask(1500, 1500)), rtol=1e-4, atol=1e-5)
    rows = tx.where(tx.arange(1500)[:, None] <= tx.arange(1500), q @ k.mT, -inf)  # these see what comes later
    np.testing.assert_allclose(tx.softmax(rows) @ v, model(q * np.sqrt(8), k, v, causal_mask(1500, 1500).T), rtol=1e-3, atol=1e-5)


def test_zero_weights_propagate_nan() -> None:
    """0 times NaN is NaN, however long the rows are."""
    for length in (40, 1500):
        q, k, v = operands(4, length=length, count=length)
        v = v.copy()
        v[..., -1, :] = nan
        result = hand_written_causal(q, k, v)
        assert tx.isnan(result).all().item()


@pytest.mark.parametrize("form", [hand_written, hand_written_causal])
@pytest.mark.parametrize("sizes", [(1100, 1300), (1025, 1031), (1500, 1500)])
def test_attention_bits_do_not_depend_on_threads_and_readers(
    form: Callable[..., tx.Tensor], sizes: tuple[int, int], threads: Callable[[int], None]
) -> None:
    q, k, v = operands(3, length=sizes[0], count=sizes[1])
    threads(1)
    expected = form(q, k, v).to_numpy()
    for count in (1, 2, 3):
        threads(count)
        assert (form(q, k, v).to_numpy() == expected).all()
        result = form(q, k, v)
        products = result.storage.node.sources[0]
        assert type(products) is Node
        weights = tx.Tensor._from_node(products.sources[0])  # type: ignore[arg-type]
        tx.realize(weights)
        assert not block_counts(result) and (result.to_numpy() == expected).all()  # the weights are there: it is a product
        result, shifted = form(q, k, v), form(q, k, v) + 1.0
        tx.realize(shifted, result)
        assert (result.to_numpy() == expected).all() and (shifted.to_numpy() == expected + np.float32(1)).all()


def test_requested_weights_are_stored_and_reused() -> None:
    q, k, v = operands(2)
    weights = tx.softmax(q @ k.mT)
    first = weights @ v
    assert len(block_counts(first)) == 1
    first.realize()
    assert weights.storage.node.is_stored
    assert not block_counts(weights @ (v + 1.0))
    np.testing.assert_allclose(weights @ v, first, rtol=1e-5)


def test_attention_does_not_overwrite_its_operands() -> None:
    q, k, v = operands(2, length=2000)
    before = [t.to_numpy().copy() for t in (q, k, v)]
    alias = q.storage.node
    attend(q, k, v).realize()
    for t, old in zip((q, k, v), before, strict=True):
        assert (t.to_numpy() == old).all()
    assert alias is q.storage.node
    x = drawn(2, 1500, 8)
    copy = x.to_numpy().copy()
    np.testing.assert_allclose(attend(x, x, x), model(x, x, x), rtol=1e-4, atol=1e-6)
    assert (x.to_numpy() == copy).all()
    pending = x + 0.0  # pending, and read as rows and as steps
    np.testing.assert_allclose(tx.softmax(pending @ pending.mT / np.sqrt(8)) @ pending, model(x, x, x), rtol=1e-4, atol=1e-6)


def test_attention_on_other_slices_reuses_the_plan() -> None:
    x = drawn(6, 1200, 8)
    results = [attend(x[0], x[1], x[2]).to_numpy()]
    before = len(_plans)
    results.append(attend(x[3], x[4], x[5]).to_numpy())
    assert len(_plans) == before
    for k in (0, 1):
        np.testing.assert_allclose(results[k], model(x[3 * k], x[3 * k + 1], x[3 * k + 2]), rtol=1e-4, atol=1e-6)


def test_stacked_attention_layers_match_numpy() -> None:
    x = drawn(2, 1100, 8)
    result = x
    expected = x
    for _ in range(3):
        result = attend(result, result, result) + result
        expected = tx.asarray(model(expected, expected, expected).astype(np.float32) + expected.to_numpy())
    assert len(block_counts(result)) == 3
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5)


def test_attention_of_rewritten_operands_matches_numpy() -> None:
    q, k, v = operands(2)
    three = tx.stack([v, v * 2.0, v * 3.0], axis=-1).realize()
    heads, sums = tx.asarray(q.to_numpy()[..., None] * np.ones(2, np.float32)), three.sum(axis=-1)
    result = attend(heads.sum(axis=-1) / 2.0, k, sums)
    assert len(block_counts(result)) == 1
    np.testing.assert_allclose(result, model(q, k, v) * 6, rtol=1e-4, atol=1e-5)


def test_explain_shows_attention_as_three_kernels() -> None:
    q, k, v = operands(2)
    kernels = [str(kernel) for _, kernel in preview_kernels([attend(q, k, v).storage.node])]
    assert len(kernels) == 3 and "product" in kernels[0] and "exp" in kernels[1] and "product" in kernels[2]
    assert "3 kernels" in tx.explain(attend(q, k, v))


def test_attention_of_few_rows_is_not_split_into_blocks() -> None:
    q, k, v = operands(length=16, count=1 << 17)
    result = attend(q, k, v)
    assert not block_counts(result)
    np.testing.assert_allclose(result, model(q, k, v), rtol=1e-3, atol=1e-6)


def test_einsum_attention_with_shared_heads_and_dropout_matches_numpy() -> None:
    q, k, v = drawn(2, 500, 6, 8), drawn(2, 700, 3, 8, seed=1), drawn(2, 700, 3, 5, seed=2)
    wide = [t[:, :, :, None].expand(-1, -1, -1, 2, -1).reshape(2, 700, 6, -1) for t in (k, v)]
    scores = tx.einsum("blhe,bshe->bhls", q, wide[0]) / np.sqrt(8).astype(np.float32)
    result = tx.softmax(scores) @ wide[1].permute(0, 2, 1, 3)
    assert len(block_counts(result)) == 1
    expected = model(q.permute(0, 2, 1, 3), wide[0].permute(0, 2, 1, 3), wide[1].permute(0, 2, 1, 3))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    keeps = tx.random.Generator(7).random(shape=(2, 6, 500, 700), dtype=tx.float32) < 0.9
    dropped = tx.where(keeps, tx.softmax(scores), 0.0)
    result = dropped @ wide[1].permute(0, 2, 1, 3)
    np.testing.assert_allclose(result, dropped.to_numpy() @ wide[1].permute(0, 2, 1, 3).to_numpy(), rtol=1e-3, atol=1e-5)
