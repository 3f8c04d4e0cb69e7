"""Backward steps that rules make for tensors of other sizes equal those that each size records for itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath, nn
from tenxor.autodiff import replay
from tenxor.fastpath import segment_templates, size_generic

pytestmark = pytest.mark.usefixtures("on", "afresh")

Loss = Callable[[Any, Any, Any, Any], Any]
# Of a matrix (n, 5), weights (5, 4), one bias for each of these, and n classes.
LOSSES: dict[str, Loss] = {
    "a sum": lambda x, w, b, c: (x @ w + b).sum(),
    "a regression": lambda x, w, b, c: ((x @ w - b) ** 2).mean(),
    "layers": lambda x, w, b, c: nn.functional.cross_entropy(tx.relu(x @ w + b), c),
    "a softmax": lambda x, w, b, c: (tx.softmax(x @ w, axis=0) * b).sum(),
    "norms": lambda x, w, b, c: (nn.functional.layer_norm(x @ w, (4,)) * b).max(axis=0).sum(),
    "the largest": lambda x, w, b, c: (x @ w).max(axis=1).sum() + tx.maximum(x @ w, b).sum(),
    "running sums": lambda x, w, b, c: (tx.cumulative_sum(x @ w, axis=0) * (x @ w)).sum(),
    "views": lambda x, w, b, c: ((x @ w)[::2] * b).sum() + ((x @ w).T.reshape(-1)[1:] ** 3).sum(),
    "chosen": lambda x, w, b, c: tx.where(x @ w > 0.0, (x @ w) * b, tx.exp(x @ w)).sum(),
    "selected": lambda x, w, b, c: tx.take(w, c, axis=1).sum() + (x[c] @ w).sum(),
    "side by side": lambda x, w, b, c: (tx.concat([x, x * 2.0], axis=0) @ w).std(),
    "rows beside rows": lambda x, w, b, c: (tx.tanh(x @ w)[:, None] - tx.tanh(x @ w)[None]).square().sum(),
    "written": lambda x, w, b, c: written(x @ w, b),
    "gates": lambda x, w, b, c: gated(*(x @ w + b).unflatten(-1, (2, 2)).unbind(1)),
}
NO_RULES = ("views",)  # a chain of layouts
SIZES = [3, 7, 8, 11, 12, 17, 19, 23, 31, 33, 40, 41, 47, 53]
OTHERS = [4, 5, 2, 1, 6, 13, 16, 29, 37, 64, 71, 90, 110]


def written(y: Any, b: Any) -> Any:
    y[1:] = y[:-1] * b
    return (y * y).sum()


def gated(i: Any, f: Any) -> Any:
    return (tx.stack([tx.sigmoid(i) * tx.tanh(f), tx.sigmoid(f)], 1) ** 2).sum()


def operands(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    x, w, b = rng.normal(size=(n, 5)), rng.normal(size=(5, 4)), rng.normal(size=4)
    return *[tx.asarray(a).realize() for a in (x, w, b)], tx.asarray(rng.integers(0, 4, n) % n).realize()


def bits_back(loss: Loss, n: int) -> list[bytes]:
    """Return the bits of a loss and of all its gradients."""
    *given, c = operands(n)
    given = [x.requires_grad_() for x in given]
    found = loss(*given, c)
    found.backward()
    return [x.detach().numpy().tobytes() for x in (found, *[x.grad for x in given if x.grad is not None])]


def bits_forward(loss: Loss, n: int) -> list[bytes]:
    x, w, b, c = operands(n)
    return [x.numpy().tobytes() for x in tx.jvp(lambda x, w: loss(x, w, b, c), (x, w), (x * 0.5, w * 2.0))]


@pytest.fixture
def recorded_stretches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Record the backward steps that are not made by rule."""
    found: list[Any] = []
    own = segment_templates.record_steps
    monkeypatch.setattr(segment_templates, "record_steps", lambda *args: (found.append(args), own(*args))[1])
    yield found


@pytest.mark.parametrize("bits", [bits_back, bits_forward])
@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_replayed_at_new_sizes_equal_those_without_fast_path(name: str, bits: Any, recorded_stretches: list[Any]) -> None:
    loss = LOSSES[name]
    replay._recording_cache.clear()
    for n in SIZES:
        bits(loss, n)
    recorded_stretches.clear()
    found = {n: bits(loss, n) for n in OTHERS}
    by_rule = len(OTHERS) - len(recorded_stretches)
    with fastpath.disabled():
        replay._recording_cache.clear()
        assert {n: bits(loss, n) for n in OTHERS} == found
    assert by_rule >= len(OTHERS) // 2 or name in NO_RULES


@pytest.mark.parametrize("name", ["layers", "norms", "a softmax", "selected"])
def test_backward_steps_by_rule_equal_those_of_a_full_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes, their sources and the views of their results are equal."""
    replay._recording_cache.clear()
    for n in SIZES:
        bits_back(LOSSES[name], n)
    compared = 0
    own = segment_templates.get_segment_steps

    def found(outline: Any, make: Any) -> Any:
        nonlocal compared
        by_rule = own(outline, make)
        before = size_generic._trace_count
        assert segment_templates._is_same_replay(by_rule, replay.record_steps(outline.inputs, make))
        compared += size_generic._trace_count == before
        return by_rule

    monkeypatch.setattr(fastpath.install, "get_segment_steps", found)  # type: ignore[attr-defined]
    assert fastpath.fast_path is not None
    monkeypatch.setattr(fastpath.fast_path, "tape_replay", fastpath.fast_path.tape_replay._replace(find_replay_steps=found))
    for n in OTHERS:
        bits_back(LOSSES[name], n)
    assert compared >= len(OTHERS)


def test_rule_with_wrong_backward_steps_is_rejected(monkeypatch: pytest.MonkeyPatch, recorded_stretches: list[Any]) -> None:
    replay._recording_cache.clear()
    monkeypatch.setattr(segment_templates.SizedSegment, "instantiate", lambda self, numbers: replay.Recording([], [], []))
    monkeypatch.setattr(segment_templates.SplitCall, "get_templates", lambda self: ())
    learnt = []
    take = size_generic.SignatureTemplates.insert
    monkeypatch.setattr(
        size_generic.SignatureTemplates, "insert", lambda self, made, numbers: (learnt.append(made), take(self, None, numbers))[1]
    )
    for n in SIZES:
        bits_back(LOSSES["layers"], n)
    assert len(recorded_stretches) >= len(SIZES) and not any(isinstance(made, segment_templates.SizedSegment) for made in learnt)


def test_random_losses_of_random_sizes_match_python() -> None:
    """Losses are made of rows and columns in any order."""
    unary: list[Callable[[Any], Any]] = [tx.tanh, tx.exp, lambda t: t * 0.5, lambda t: t - t.mean(axis=0), lambda t: t[::-1], tx.sigmoid]
    binary: list[Callable[[Any, Any], Any]] = [lambda s, t: s * t, lambda s, t: s - t, tx.maximum, lambda s, t: tx.where(s > t, s, t * 2.0)]

    def loss_of(seed: int) -> Loss:
        def loss(x: Any, w: Any, b: Any, c: Any) -> Any:
            own = random.Random(seed)
            known = [x @ w, tx.tanh(x) @ w + b]
            for _ in range(own.randrange(1, 6)):
                s, t = own.choice(known), own.choice(known)
                known.append(own.choice(unary)(s) if own.random() < 0.5 else own.choice(binary)(s, t))
            ends: list[Callable[[Any], Any]] = [lambda t: t.sum(), lambda t: t.mean(), lambda t: t.max(axis=1).sum()]
            return own.choice(ends)(known[-1]) + (known[-2] * 0.1).sum()

        return loss

    rng = random.Random(4)
    for turn in range(125):
        seed, n = rng.randrange(12), rng.choice([rng.randrange(1, 9), rng.randrange(9, 200), 5, 4, 20])
        found = bits_back(loss_of(seed), n)
        with fastpath.disabled():
            assert bits_back(loss_of(seed), n) == found, (turn, seed, n)
