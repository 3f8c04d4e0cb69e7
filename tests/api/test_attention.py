"""Attention, compared with its definition query by query in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import exp, inf, nan, sqrt
from random import Random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError, TenxorError
from tenxor.rewrite import attention_blocks, split_attention

from .samples import Array, assert_close, assert_same

attend = tx.scaled_dot_product_attention


def reference_attention(q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False, scale: float | None = None) -> Array:
    """Return attention by its definition. Masked keys have weight 0, and a query without keys gives 0."""
    batch = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    length, count = q.shape[-2], k.shape[-2]
    q, k, v = [np.broadcast_to(a, (*batch, *a.shape[-2:])).astype(np.float64) for a in (q, k, v)]
    added = np.zeros((*batch, length, count))
    if mask is not None:
        added = np.broadcast_to(np.where(mask, 0.0, -inf) if np.asarray(mask).dtype == bool else mask, added.shape)
    factor = 1 / sqrt(q.shape[-1]) if scale is None else scale
    result = np.zeros((*batch, length, v.shape[-1]))
    for batch_index in product(*map(range, batch)):
        for i in range(length):
            scores = [
                float(q[batch_index][i] @ k[batch_index][j]) * factor + added[batch_index][i, j]
                for j in range(i + 1 if causal else count)
                if j < count
            ]
            highest = max(scores)
            if highest > -inf:
                weights = [exp(s - highest) for s in scores]
                result[batch_index][i] = sum(w * row for w, row in zip(weights, v[batch_index], strict=False)) / sum(weights)
    return result


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.fixture(params=["one block", "rows", "few heads", "one query"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use every kind of block, also for small operands."""
    rows, size = {"one block": (256, 1 << 22), "rows": (2, 1 << 22), "few heads": (3, 1 << 9), "one query": (5, 1)}[request.param]
    monkeypatch.setattr(attention_blocks, "MAX_BLOCK_ROWS", rows)
    monkeypatch.setattr(split_attention, "BLOCK_BYTES", size)
    monkeypatch.setattr(split_attention, "MIN_BLOCK_ROWS", 1)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(10))
def test_attention_equals_its_definition(seed: int) -> None:
    choose = Random(seed)
    batch = tuple(choose.randint(1, 3) for _ in range(choose.randint(0, 3)))
    length, count, width, values = [choose.randint(1, 9) for _ in range(4)]
    q, k, v = drawn((*batch, length, width), (*batch, count, width), (*batch, count, values), seed=seed)
    rng = np.random.default_rng(seed)
    lets, numbers = rng.random((length, count)) < 0.5, rng.standard_normal((*batch, length, count))
    assert_close(attend(q, k, v), reference_attention(q, k, v))
    assert_close(attend(q, k, v, is_causal=True), reference_attention(q, k, v, causal=True))
    assert_close(attend(q, k, v, lets), reference_attention(q, k, v, lets))
    assert_close(attend(q, k, v, numbers, scale=0.3), reference_attention(q, k, v, numbers, scale=0.3))
    assert_close(attend(q, k, v, lets, is_causal=True), reference_attention(q, k, v, lets, causal=True))


@pytest.mark.usefixtures("blocks")
def test_attention_broadcasts_leading_axes() -> None:
    q, k, v = drawn((2, 3, 5, 4), (3, 6, 4), (2, 1, 6, 2))
    assert_close(attend(q, k, v), reference_attention(q, k, v))
    assert_close(attend(q[0, 0], k, v), reference_attention(q[0, 0], k, v))
    per_head = np.random.default_rng(1).random((3, 1, 6)) < 0.7
    assert_close(attend(q, k, v, per_head), reference_attention(q, k, v, per_head))


@pytest.mark.usefixtures("blocks")
def test_attention_of_fully_masked_queries_is_zero() -> None:
    q, k, v = drawn((4, 3), (5, 3), (5, 2))
    lets = np.ones((4, 5), bool)
    lets[1] = lets[3] = False
    result = attend(q, k, v, lets)
    assert_close(result, reference_attention(q, k, v, lets))
    assert result[1].tolist() == result[3].tolist() == [0.0, 0.0]
    assert_same(attend(q, k, v, np.where(lets, 0.0, -inf)), result.to_numpy())


def test_nan_in_attention_affects_only_the_queries_that_read_it() -> None:
    q, k, v = drawn((3, 2), (3, 2), (3, 2))
    q[0, 0] = nan
    result = attend(q, k, v).to_numpy()
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1:]).all()


def test_attention_with_large_scores_does_not_overflow() -> None:
    k, v = np.asarray([[1e3], [-1e3], [1e3]]), np.asarray([[1.0], [2.0], [3.0]])
    assert attend(np.asarray([[1e3]]), k, v).tolist() == [[2.0]]


@pytest.mark.parametrize(
    "shapes",
    [((0, 4, 3), (0, 5, 3), (0, 5, 2)), ((2, 0, 3), (2, 5, 3), (2, 5, 2)), ((2, 4, 3), (2, 0, 3), (2, 0, 2)), ((4, 3), (5, 3), (5, 0))],
)  # fmt: skip
def test_attention_without_elements_is_zero_or_empty(shapes: tuple[tuple[int, ...], ...]) -> None:
    result = attend(*map(np.zeros, shapes))
    assert_same(result, np.zeros((*shapes[0][:-1], shapes[2][-1])))


def test_attention_over_keys_of_width_0_has_equal_weights() -> None:
    assert attend(tx.zeros((2, 0)), tx.zeros((2, 0)), tx.asarray([[1.0], [3.0]])).tolist() == [[2.0], [2.0]]


# --- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16, tx.float32], ids=str)
def test_narrow_floats_are_rounded_once_in_attention(dtype: tx.DType) -> None:
    q, k, v = [tx.asarray(a).astype(dtype) for a in drawn((2, 7, 4), (2, 9, 4), (2, 9, 3))]
    result = attend(q, k, v, is_causal=True)
    assert result.dtype is dtype
    exact = [t.astype(tx.float64).to_numpy() for t in (q, k, v)]
    tolerance = max(tx.finfo(dtype).eps * 0.51, 1e-5)
    np.testing.assert_allclose(result.astype(tx.float64).to_numpy(), reference_attention(*exact, causal=True), tolerance, 1e-6)


def test_attention_promotes_the_dtypes_of_its_operands() -> None:
    q = tx.asarray([[1, 2], [3, 4]])
    assert attend(q, q, q).dtype is tx.float64
    assert_close(attend(q, q, q), reference_attention(*[q.to_numpy()] * 3))
    half = q.astype(tx.float16)
    assert attend(half, half, q.astype(tx.float32)).dtype is tx.float32
    assert attend(half, half, half, tx.zeros((2, 2))).dtype is tx.float16


# --- layouts, laziness and memory --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("blocks")
def test_attention_of_strided_and_pending_operands_equals_the_reference() -> None:
    (x,) = drawn((3, 6, 2, 4))
    t = tx.asarray(x)
    for tensor, array in (
        (t.permute(0, 2, 1, 3), x.transpose(0, 2, 1, 3)),  # heads as they come out of a projection
        (t.permute(3, 2, 1, 0), x.transpose(3, 2, 1, 0)),
        (t[:, ::-1, :, ::-1], x[:, ::-1, :, ::-1]),
        (t[:, :1].expand(-1, 5, -1, -1), np.broadcast_to(x[:, :1], (3, 5, 2, 4))),
        (t.oindex[[2, 0, 0]], x[[2, 0, 0]]),
        (t * 2 + 1, x * 2 + 1),
    ):
        assert_close(attend(tensor, tensor, tensor, is_causal=True), reference_attention(array, array, array, causal=True))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("share", [True, False])
def test_attention_ignores_later_writes_to_its_operands(share: bool) -> None:
    arrays = drawn((2, 5, 3), (2, 6, 3), (2, 6, 4), (5, 6))
    operands = [tx.asarray(a.copy(), copy=not share) for a in arrays]
    result = attend(*operands)
    for t in operands:
        t[...] = 1000.0
    assert_close(result, reference_attention(*arrays))
    result[...] = 0.0
    assert operands[2][0, 0, 0].item() == 1000.0


@pytest.mark.large
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_never_holds_the_full_score_matrix(is_causal: bool) -> None:
    q, k, v = [tx.random.rand(4, 1500, 8).astype(tx.float32).realize() for _ in range(3)]
    attend(q, k, v, is_causal=is_causal)
    before = tx.memory(reset_peak=True).in_use
    result = attend(q, k, v, is_causal=is_causal)
    assert tx.memory().peak - before < result.nbytes + 3 * split_attention.BLOCK_BYTES < 4 * 1500 * 1500 * 4 / 2
    exact = [t[1:2].astype(tx.float64).to_numpy() for t in (q, k, v)]
    expected = (
        reference_attention(exact[0][:, -5:], *exact[1:])
        if not is_causal
        else reference_attention(exact[0][:, :5], *exact[1:], causal=True)
    )
    np.testing.assert_allclose(result[1:2, :5] if is_causal else result[1:2, -5:], expected, rtol=1e-5)


# --- errors -----------------------------------------------------------------------------------------------------------

Q, K, V = tx.ones((2, 5, 3)), tx.ones((2, 6, 3)), tx.ones((2, 6, 4))
ERRORS: dict[str, tuple[Callable[[], Any], type[TenxorError], tuple[str, ...]]] = {
    "a vector": (lambda: attend(Q, K[0, 0], V), ShapeError, ("key", "(3,)", "2 axes")),
    "widths": (lambda: attend(Q[..., :2], K, V), ShapeError, ("query", "(2, 5, 2)", "key", "(2, 6, 3)", "axis -1", "equal")),
    "counts": (lambda: attend(Q, K, V[:, :5]), ShapeError, ("key", "(2, 6, 3)", "value", "(2, 5, 4)", "axis -2", "equal")),
    "axes in front": (lambda: attend(tx.ones((3, 5, 3)), K, V), ShapeError, ("(3,)", "(2,)", "before the last two axes")),
    "a mask's shape": (lambda: attend(Q, K, V, tx.ones((6, 5))), ShapeError, ("attn_mask", "(6, 5)", "(2, 5, 6)")),
    "a mask with more axes": (lambda: attend(Q, K, V, tx.ones((2, 2, 5, 6))), ShapeError, ("attn_mask", "(2, 2, 5, 6)")),
    "a mask of integers": (lambda: attend(Q, K, V, tx.ones((5, 6), dtype=tx.int64)), DTypeError, ("attn_mask", "int64", "bool")),
    "complex numbers": (lambda: attend(Q * 1j, K, V), DTypeError, ("scaled_dot_product_attention", "complex128", "real")),
    "a scale that is no number": (lambda: attend(Q, K, V, scale="1"), ArgumentError, ("scale", "'1'")),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_attention_rejects_invalid_arguments(case: str) -> None:
    call, error, names = ERRORS[case]
    with pytest.raises(error) as raised:
        call()
    for name in ("scaled_dot_product_attention", *names):
        assert name in str(raised.value)


def test_attention_with_enable_gqa_shares_key_and_value_heads() -> None:
    q, k, v, added = drawn((2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 3), (2, 6, 5, 7))
    for mask in (None, added, added[:, :1], added[0, 0], added > 0):
        result = attend(q, k, v, mask, enable_gqa=True)
        assert_close(result, reference_attention(q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1), mask))
    causal = attend(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    assert_close(causal, reference_attention(q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1), causal=True, scale=0.3))
    wrong: tuple[tuple[Any, ...], ...] = ((q[:, :5], k, v), (q, k, v[:, :1]), (q[0, 0], k, v), (q, k, v, added[:, :4]))
    for operands in wrong:
        with pytest.raises(ShapeError, match=r"scaled_dot_product_attention: .*(heads|axis -3)"):
            attend(*operands, enable_gqa=True)
