"""The derivative of attention, computed in blocks without all weights in memory, compared with a model that has them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from math import inf, sqrt
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.autodiff import blockwise_attention, replay
from tenxor.graph.node import Node
from tenxor.runtime.realize import evict_plans

Array = np.ndarray[Any, Any]
attend = tx.scaled_dot_product_attention


def drawn(*shapes: tuple[int, ...], dtype: Any = np.float64) -> list[Array]:
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def turned(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


def summed_to(a: Array, shape: tuple[int, ...]) -> Array:
    a = a.sum(tuple(range(a.ndim - len(shape))))
    return a.sum(tuple([k for k, n in enumerate(shape) if n == 1 and a.shape[k] != 1]), keepdims=True).reshape(shape)


def model(q: Array, k: Array, v: Array, g: Array, mask: Any = None, *, causal: bool = False) -> list[Array]:
    """Return the result, and the cotangents of queries, keys and values."""
    scale = 1 / sqrt(q.shape[-1])
    scores = q @ turned(k) * scale
    if mask is not None:
        scores = np.where(mask, scores, -inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -inf)
    highest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
    sums = powers.sum(-1, keepdims=True)
    w = powers / np.where(sums == 0, 1.0, sums)
    by_weights = g @ turned(v)
    by_scores = w * (by_weights - (w * by_weights).sum(-1, keepdims=True)) * scale
    found = zip((by_scores @ k, turned(by_scores) @ q, turned(w) @ g), (q, k, v), strict=True)
    return [w @ v, *[summed_to(a, x.shape) for a, x in found]]


def by_backward(q: Any, k: Any, v: Any, g: Any, mask: Any = None, *, causal: bool = False) -> list[Any]:
    """Return the same from Tenxor, by `backward`."""
    leaves = [tx.asarray(x).requires_grad_() for x in (q, k, v)]
    out = attend(*leaves, None if mask is None else tx.asarray(mask), is_causal=causal)
    (out * tx.asarray(g)).sum().backward()
    return [out.detach(), *[x.grad for x in leaves]]


def compare(found: list[Any], wanted: list[Array], tolerance: float = 1e-12) -> None:
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


def forgotten() -> None:
    blockwise_attention._split_blocks.cache_clear()
    replay._recording_cache.clear()
    evict_plans()


@pytest.fixture(params=["together", "one block after the other"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use many blocks, however small the operands."""
    monkeypatch.setattr(blockwise_attention, "TARGET_BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(blockwise_attention, "MIN_IMMEDIATE_BLOCKS", 2 if "after" in request.param else 1 << 10)
    forgotten()
    yield
    forgotten()


SHAPES = {
    "one head": ((130, 5), (97, 5), (97, 3)),
    "heads": ((2, 3, 70, 4), (2, 3, 70, 4), (2, 3, 70, 6)),
    "keys that heads share": ((2, 3, 40, 4), (2, 1, 33, 4), (33, 2)),
    "more keys": ((3, 20, 2), (3, 200, 2), (3, 200, 1)),
    "one query": ((4, 1, 3), (4, 9, 3), (4, 9, 2)),
}


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("masked", ["", "causal", "where", "numbers", "causal where"])
@pytest.mark.parametrize("name", SHAPES)
def test_attention_gradients_match_a_model(name: str, masked: str) -> None:
    q, k, v = drawn(*SHAPES[name])
    causal = "causal" in masked
    batch = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    rng = np.random.default_rng(5)
    mask: Any = None
    if "where" in masked:
        mask = rng.random((*batch, q.shape[-2], k.shape[-2])) < 0.6
        mask[..., 0, :] = False  # a query for which no key takes part
    elif "numbers" in masked:
        mask = rng.standard_normal((q.shape[-2], k.shape[-2]))
    g = rng.standard_normal((*batch, q.shape[-2], v.shape[-1]))
    compare(by_backward(q, k, v, g, mask, causal=causal), model(q, k, v, g, mask, causal=causal))


@pytest.mark.usefixtures("blocks")
def test_attention_gradients_reach_all_views_of_one_projection() -> None:
    """Queries, keys and values are parts of one projection, and each gradient reaches its part."""
    (x, g) = drawn((3, 50, 3, 2, 4), (3, 2, 50, 4))
    leaf = tx.asarray(x).requires_grad_()
    (attend(*leaf.permute(2, 0, 3, 1, 4).unbind(0), is_causal=True) * tx.asarray(g)).sum().backward()
    parts = x.transpose(2, 0, 3, 1, 4)
    wanted = np.stack(model(*parts, g, causal=True)[1:]).transpose(1, 3, 0, 2, 4)
    np.testing.assert_allclose(leaf.grad.to_numpy(), wanted, rtol=1e-12, atol=1e-12)
    same = tx.asarray(x[:, :, 0, 0]).requires_grad_()
    attend(same, same, same).sum().backward()
    _, *three = model(*[x[:, :, 0, 0]] * 3, np.ones((3, 50, 4)))
    np.testing.assert_allclose(same.grad.to_numpy(), sum(three), rtol=1e-12, atol=1e-12)


def test_attention_gives_only_the_requested_gradients() -> None:
    arrays = drawn((2, 30, 4), (2, 30, 4), (2, 30, 4))
    wanted = model(*arrays, np.ones((2, 30, 4)))[1:]
    for k in range(3):
        given = [tx.asarray(a) for a in arrays]
        given[k].requires_grad_()
        attend(*given).sum().backward()
        np.testing.assert_allclose(given[k].grad.to_numpy(), wanted[k], rtol=1e-12, atol=1e-13)
        assert all(given[n].grad is None for n in range(3) if n != k)


def test_attention_gradients_with_grouped_queries_are_summed_over_each_group() -> None:
    q, k, v, g = drawn((2, 6, 21, 4), (2, 2, 33, 4), (2, 2, 33, 3), (2, 6, 21, 3))
    leaves = [tx.asarray(x).requires_grad_() for x in (q, k, v)]
    (attend(*leaves, enable_gqa=True) * tx.asarray(g)).sum().backward()
    dq, dk, dv = model(q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1), g)[1:]
    together = [a.reshape(2, 2, 3, *a.shape[2:]).sum(2) for a in (dk, dv)]
    compare([x.grad for x in leaves], [dq, *together])


@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16, tx.float32], ids=str)
def test_attention_gradients_of_narrow_floats_are_accurate(dtype: tx.DType) -> None:
    arrays = drawn((40, 8), (50, 8), (50, 8), (40, 8))
    q, k, v, g = [tx.asarray(a).astype(dtype) for a in arrays]
    found = by_backward(q, k, v, g, causal=True)
    assert all(x.dtype is dtype for x in found)
    exact = [x.astype(tx.float64).to_numpy() for x in (q, k, v, g)]
    tolerance = max(2 * float(tx.finfo(dtype).eps), 1e-5)
    for x, y in zip(found, model(*exact, causal=True), strict=True):
        np.testing.assert_allclose(x.astype(tx.float64).to_numpy(), y, rtol=tolerance, atol=tolerance)


# --- what else is asked of derivatives --------------------------------------------------------------------------------


def by_hand(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    scores = q @ k.mT * (1 / sqrt(q.shape[-1]))
    if causal:
        scores = tx.where(tx.arange(k.shape[-2]) <= tx.arange(q.shape[-2])[:, None], scores, -inf)
    return tx.softmax(scores) @ v


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("causal", [False, True])
def test_attention_has_second_and_forward_derivatives(causal: bool) -> None:
    arrays = drawn((2, 66, 3), (2, 70, 3), (2, 70, 2))
    q, k, v = [tx.asarray(a) for a in arrays]
    tangents = tuple([tx.asarray(a) for a in drawn(*[a.shape for a in arrays], (1,))[:3]])

    def both(ask: Callable[[Callable[..., Any]], Any]) -> None:
        own, other = [
            ask(lambda q, k, v, f=f: f(q, k, v))
            for f in (lambda *its: attend(*its, is_causal=causal), lambda *its: by_hand(*its, causal=causal))
        ]
        compare(own, [x.to_numpy() for x in other], 1e-10)

    both(lambda f: list(tx.jvp(f, (q, k, v), tangents)))
    both(lambda f: [tx.jvp(lambda k: f(q, k, v), (k,), tangents[1:2])[1]])

    def twice(f: Callable[..., Any]) -> Any:
        first = tx.grad(lambda *its: (tx.sin(f(*its)) ** 2).sum(), argnums=(0, 1, 2))
        along = lambda *its: sum((tx.cos(x) * t).sum() for x, t in zip(first(*its), tangents, strict=True))
        return list(tx.grad(along, argnums=(0, 1, 2))(q, k, v))

    both(twice)


def test_vmap_of_attention_gradients_matches_the_batch() -> None:
    q, k, v = [tx.asarray(a) for a in drawn((4, 12, 3), (4, 12, 3), (4, 12, 2))]
    loss = lambda q, k, v: (attend(q, k, v, is_causal=True) ** 2).sum()
    each = tx.vmap(tx.grad(loss, argnums=(0, 1, 2)))(q, k, v)
    whole = tx.grad(loss, argnums=(0, 1, 2))(q, k, v)
    compare(list(each), [x.to_numpy() for x in whole])


def test_attention_tape_keeps_only_the_operands() -> None:
    gc.collect()
    q, k, v = [tx.asarray(a).requires_grad_() for a in drawn((300, 8), (300, 8), (300, 8), dtype=np.float32)]
    tx.memory()
    before = tx.memory().in_use
    out = attend(q, k, v).realize()
    assert tx.memory().in_use - before <= out.nbytes + 4096
    gone = weakref.ref(out.storage.node)
    assert isinstance(gone(), Node)
    del out
    assert gone() is None


@pytest.mark.large
@pytest.mark.parametrize("causal", [False, True])
def test_attention_backward_never_holds_all_weights(causal: bool) -> None:
    q, k, v = [tx.asarray(a).requires_grad_() for a in drawn(*[(4, 2000, 16)] * 3, dtype=np.float32)]  # of weights there are 64 MB

    def step() -> None:
        for x in (q, k, v):
            x.grad = None
        attend(q, k, v, is_causal=causal).sum().backward()
        tx.realize(q.grad, k.grad, v.grad)

    step()
    before = tx.memory(reset_peak=True).in_use
    step()
    assert tx.memory().peak - before < 4 * 4 * 2000 * 2000 // 4
    wanted = model(*[x.detach().to_numpy().astype(np.float64) for x in (q, k, v)], np.ones((4, 2000, 16)), causal=causal)
    compare([x.grad for x in (q, k, v)], wanted[1:], 2e-4)
