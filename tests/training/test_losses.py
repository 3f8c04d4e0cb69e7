"""Losses compared with NumPy loops after PyTorch's documentation: classes on axis 1, weights, ignored classes, smoothing, reductions."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, ShapeError
from tenxor.nn import functional as F

RNG = np.random.default_rng(2)
SHAPES = [(5,), (4, 5), (3, 5, 5), (2, 5, 3, 2)]  # of logits; (3, 5, 5) fits either axis of the classes


def log_softmax(x: Any, axis: int) -> Any:
    apart = x - x.max(axis, keepdims=True)
    return apart - np.log(np.exp(apart).sum(axis, keepdims=True))


def classified(x: Any, target: Any, weight: Any, ignore: int, smoothing: float, reduction: str, normalise: bool) -> Any:
    """Return the documented loss, computed per position: l = -w[y] log p[y], its mean over the sum of w[y]."""
    axis = min(x.ndim - 1, 1)
    logs, losses, weights = log_softmax(x, axis) if normalise else x, np.zeros(target.shape), np.zeros(target.shape)
    for at in np.ndindex(*target.shape):
        y = target[at]
        if y == ignore:
            continue
        own = logs[(*at[:axis], slice(None), *at[axis:])]
        weights[at] = weight[y]
        losses[at] = -(1 - smoothing) * weight[y] * own[y] - smoothing / len(own) * (weight * own).sum()
    return losses.sum() / weights.sum() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_class_losses_with_weights_smoothing_and_ignore_index_match_numpy(shape: tuple[int, ...], reduction: str) -> None:
    axis = min(len(shape) - 1, 1)
    x, target = RNG.normal(size=shape), RNG.integers(0, 5, shape[:axis] + shape[axis + 1 :])
    target = np.array(4) if len(shape) == 1 else target
    for weighted, ignore, smoothing in product((False, True), (-100, 2), (0.0, 0.3)):
        weight = RNG.random(5) + 0.1 if weighted else np.ones(5)
        given = {"weight": tx.asarray(weight)} if weighted else {}
        found = F.cross_entropy(tx.asarray(x), target, ignore_index=ignore, label_smoothing=smoothing, reduction=reduction, **given)
        wanted = classified(x, target, weight, ignore, smoothing, reduction, True)
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-11)
        if not smoothing:
            logs = log_softmax(x, axis)
            found = F.nll_loss(tx.asarray(logs), target, ignore_index=ignore, reduction=reduction, **given)
            np.testing.assert_allclose(found.to_numpy(), classified(logs, target, weight, ignore, 0.0, reduction, False), rtol=1e-11)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_of_probabilities_with_weights_and_smoothing_matches_numpy(shape: tuple[int, ...]) -> None:
    axis = min(len(shape) - 1, 1)
    x, target, weight = RNG.normal(size=shape), RNG.random(shape), RNG.random(5)
    beside = weight.reshape((-1, *(1,) * (len(shape) - 1 - axis)))
    smooth = target * 0.8 + 0.2 / 5
    losses = -(log_softmax(x, axis) * smooth * beside).sum(axis)
    for reduction, wanted in (("none", losses), ("sum", losses.sum()), ("mean", losses.sum() / max(losses.size, 1))):
        found = F.cross_entropy(tx.asarray(x), tx.asarray(target), tx.asarray(weight), label_smoothing=0.2, reduction=reduction)
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-11)


def test_gradients_of_weighted_losses_match_differences() -> None:
    x, target, weight = RNG.normal(size=(3, 5, 2)), RNG.integers(0, 5, (3, 2)), tx.asarray(RNG.random(5) + 0.1)
    losses: list[Any] = [
        lambda a: F.cross_entropy(a, target, weight, label_smoothing=0.1, ignore_index=1),
        lambda a: F.nll_loss(a, target, weight, ignore_index=1),
        lambda a: F.binary_cross_entropy_with_logits(a, (a > 0).astype(tx.float64), pos_weight=tx.asarray([2.0, 3.0])),
        lambda a: F.smooth_l1_loss(a, tx.zeros((3, 5, 2)), beta=0.5),
    ]
    for loss in losses:
        direction, size = RNG.normal(size=x.shape), 1e-6
        slope = (loss(tx.asarray(x + size * direction)) - loss(tx.asarray(x - size * direction))).item() / (2 * size)
        assert abs((tx.grad(loss)(tx.asarray(x)).to_numpy() * direction).sum() - slope) < 1e-7
        rows = tx.asarray(np.stack([x, -x]))
        if loss is not losses[2]:
            np.testing.assert_allclose(tx.vmap(loss)(rows).to_numpy(), [loss(row).item() for row in rows], rtol=1e-12)


def reduced(losses: Any, reduction: str) -> Any:
    return {"mean": np.mean, "sum": np.sum, "none": lambda x: x}[reduction](losses)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_with_element_weights_match_numpy(reduction: str) -> None:
    x, t, w = RNG.normal(size=(4, 3)), RNG.random(size=(4, 3)), RNG.random(size=(4, 3))
    p, positive = RNG.random((4, 3)) * 0.9 + 0.05, RNG.random(3) + 0.5
    a, b, c, q = (tx.asarray(each) for each in (x, t, w, p))
    gap = np.abs(x - t)
    for loss, each in ((F.mse_loss, gap**2), (F.l1_loss, gap)):
        wanted = (each * w).sum() / w.sum() if reduction == "mean" else reduced(each * w, reduction)
        np.testing.assert_allclose(loss(a, b, reduction, c).to_numpy(), wanted, rtol=1e-12)
    huber = np.where(gap < 0.5, gap**2 / 2, 0.5 * (gap - 0.25))
    np.testing.assert_allclose(F.huber_loss(a, b, reduction, 0.5, c).to_numpy(), reduced(huber * w, reduction), rtol=1e-12)
    np.testing.assert_allclose(F.smooth_l1_loss(a, b, reduction, 0.5).to_numpy(), reduced(huber / 0.5, reduction), rtol=1e-12)
    np.testing.assert_allclose(F.smooth_l1_loss(a, b, reduction, 0).to_numpy(), reduced(gap, reduction), rtol=1e-12)
    each = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    np.testing.assert_allclose(F.binary_cross_entropy(q, b, c, reduction).to_numpy(), reduced(each * w, reduction), rtol=1e-12)
    log_p, log_no = -np.log1p(np.exp(-x)), -np.log1p(np.exp(x))
    each = -(positive * t * log_p + (1 - t) * log_no)
    found = F.binary_cross_entropy_with_logits(a, b, c, reduction, tx.asarray(positive))
    np.testing.assert_allclose(found.to_numpy(), reduced(each * w, reduction), rtol=1e-12)
    np.testing.assert_allclose(F.kl_div(a, tx.log(b), reduction, True).to_numpy(), reduced(t * (np.log(t) - x), reduction), rtol=1e-12)
    np.testing.assert_allclose(F.kl_div(a, b, "batchmean").item(), (t * (np.log(t) - x)).sum() / 4, rtol=1e-12)


def test_logits_far_from_zero_have_finite_losses() -> None:
    x, t = tx.asarray([1e4, -1e4]), tx.asarray([0.0, 1.0])
    found = F.binary_cross_entropy_with_logits(x, t, reduction="none", pos_weight=tx.asarray(2.0))
    assert found.tolist() == [1e4, 2e4]


X, Y = tx.zeros((2, 3)), tx.asarray([0, 1])
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "classes last": (lambda: F.cross_entropy(tx.zeros((2, 4, 3)), tx.zeros((2, 4), dtype=tx.int64)), ShapeError, r"moveaxis\(-1, 1\)"),
    "no classes": (lambda: F.cross_entropy(tx.zeros(()), tx.asarray(0)), ShapeError, "input is 0-d"),
    "weights": (lambda: F.nll_loss(X, Y, tx.ones(2)), ShapeError, r"weight has shape \(2,\); it must be \(3,\)"),
    "a shape": (lambda: F.mse_loss(X, X, weight=tx.ones(3)), ShapeError, r"mse_loss: weight has shape \(3,\)"),
    "smoothing": (lambda: F.cross_entropy(X, Y, label_smoothing=2.0), ArgumentError, "from 0 to 1"),
    "ignored probabilities": (lambda: F.cross_entropy(X, X, ignore_index=1), ArgumentError, "ignore_index is 1"),
    "beta": (lambda: F.smooth_l1_loss(tx.zeros(2), tx.zeros(2), beta=-1.0), ArgumentError, "beta is -1.0"),
    "a reduction": (lambda: F.mse_loss(tx.zeros(2), tx.zeros(2), reduction="batchmean"), ArgumentError, "mse_loss: reduction"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_arguments_of_losses_raise_errors_that_state_the_requirement(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()


def test_kl_div_of_invalid_probabilities_is_nan() -> None:
    loss = F.kl_div(tx.zeros(4), tx.asarray([0.0, 1.0, -1.0, tx.nan]), reduction="none")
    assert str(loss.tolist()) == "[0.0, 0.0, nan, nan]"


@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div_and_its_gradients_are_0_at_a_probability_of_0_unless_the_input_is_nan(log_target: bool) -> None:
    """The limit of t (log t - l) for t to 0 is 0. The gradient in l is -t."""
    target = tx.asarray([-math.inf] * 4 if log_target else [0.0] * 4).requires_grad_()
    input = tx.asarray([-math.inf, -1.0, 0.0, math.nan]).requires_grad_()
    loss = F.kl_div(input, target, reduction="none", log_target=log_target)
    loss.sum().backward()
    assert str(loss.tolist()) == "[0.0, 0.0, 0.0, nan]"
    assert input.grad is not None and input.grad[:3].tolist() == [0.0] * 3
    assert target.grad is not None and target.grad[:3].tolist() == [0.0] * 3


def test_kl_div_of_an_impossible_event_with_a_positive_probability_is_infinite() -> None:
    for log_target in (False, True):
        target = tx.asarray([math.log(0.5) if log_target else 0.5])
        input = tx.asarray([-math.inf]).requires_grad_()
        loss = F.kl_div(input, target, reduction="sum", log_target=log_target)
        loss.backward()
        assert input.grad is not None and (loss.item(), input.grad.item()) == (math.inf, pytest.approx(-0.5))


def test_cross_entropy_ignores_excluded_classes_of_probability_0() -> None:
    """A logit of -inf excludes a class, so loss and gradient are those of the other classes."""
    logits, probabilities = [0.3, -0.2, 1.1], [0.2, 0.5, 0.3]
    input = tx.asarray([[-math.inf, *logits]]).requires_grad_()
    loss = F.cross_entropy(input, tx.asarray([[0.0, *probabilities]]))
    loss.backward()
    log_sum = math.log(sum(map(math.exp, logits)))
    assert loss.item() == pytest.approx(sum(p * (log_sum - x) for p, x in zip(probabilities, logits, strict=True)))
    gradient = [0.0, *[math.exp(x - log_sum) - p for p, x in zip(probabilities, logits, strict=True)]]
    assert input.grad is not None and input.grad[0].tolist() == pytest.approx(gradient)


def test_cross_entropy_of_an_excluded_class_with_a_positive_probability_is_infinite_and_of_nan_nan() -> None:
    for first, expected in ((-math.inf, "inf"), (math.nan, "nan")):
        assert str(F.cross_entropy(tx.asarray([[first, 0.0]]), tx.asarray([[0.5, 0.5]])).item()) == expected
    assert math.isnan(F.cross_entropy(tx.asarray([[math.nan, 0.0]]), tx.asarray([[0.0, 1.0]])).item())


@pytest.mark.parametrize("delta", [0.0, -1.0])
def test_huber_loss_requires_a_positive_delta(delta: float) -> None:
    with pytest.raises(tx.errors.ArgumentError, match=f"huber_loss: delta is {delta}; it must be positive"):
        F.huber_loss(tx.zeros(2), tx.ones(2), delta=delta)
