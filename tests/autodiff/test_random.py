"""Derivatives through random numbers, which are constants: results of random numbers and parameters have derivatives by the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx

from .cases import real
from .differences import check

COUNT = 5


def normal(seed: int, *shape: int) -> Any:
    return tx.random.Generator(seed).normal(0.0, 1.0, shape)


def uniform(seed: int, *shape: int) -> Any:
    return tx.random.Generator(seed).uniform(0.0, 1.0, shape)


# Draws from distributions, as functions of their parameters.
DRAWS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "normal": (lambda mean, std: mean + std * normal(1, COUNT, 3), [real(3), real(3, seed=1) + 2.5]),
    "normal of a covariance": (
        lambda mean, root: mean + normal(2, COUNT, 3) @ tx.linalg.cholesky(root @ root.mT + tx.eye(3)).mT,
        [real(3), real(3, 3)],
    ),
    "uniform": (lambda low, high: low + (high - low) * uniform(3, COUNT, 3), [real(3), real(3, seed=1) + 4.0]),
    "exponential": (lambda rate: -tx.log1p(-uniform(4, COUNT, 3)) / rate, [real(3) + 2.5]),
    "logistic": (lambda mean, scale: mean + scale * tx.log(1.0 / uniform(5, COUNT, 3) - 1.0), [real(3), real(3, seed=1)]),
    "one of several, softly": (lambda logits: tx.softmax((logits - tx.log(-tx.log(uniform(7, COUNT, 3)))) / 0.7), [real(3)]),
    "left out": (lambda x: tx.nn.functional.dropout(x * x, 0.4, generator=tx.random.Generator(8)), [real(4, 3)]),
}


@pytest.mark.parametrize("name", DRAWS)
def test_gradients_by_parameters_of_random_draws_match_differences(name: str) -> None:
    function, at = DRAWS[name]
    check(function, at)


def test_gradient_by_a_scale_is_the_random_draw() -> None:
    """This holds for `backward` and `grad`, and for the generator that all share."""
    tx.random.seed(11)
    mean, std = tx.zeros(3).requires_grad_(), tx.ones(3).requires_grad_()
    drawn: Any = mean + std * tx.random.normal(0.0, 1.0, (COUNT, 3))
    drawn.sum().backward()
    assert mean.grad.tolist() == [float(COUNT)] * 3
    assert np.allclose(std.grad.to_numpy(), drawn.detach().sum(axis=0).to_numpy(), rtol=1e-14)
    tx.random.seed(11)
    again = tx.grad(lambda std: (std * tx.random.normal(0.0, 1.0, (COUNT, 3))).sum())(tx.ones(3))
    assert again.tolist() == std.grad.tolist()
    _, change = tx.jvp(lambda std: std * normal(1, COUNT, 3), (tx.ones(3),), (tx.asarray([1.0, 10.0, 100.0]),))
    assert np.allclose(change.to_numpy(), normal(1, COUNT, 3).to_numpy() * [1.0, 10.0, 100.0])


def test_vmap_elements_share_draws_of_a_seeded_generator() -> None:
    """A generator that the function seeds draws the same for each element, as in a loop."""
    stds = tx.asarray([1.0, 2.0, 3.0])
    found = tx.vmap(tx.grad(lambda std: (std * std * normal(1, COUNT)).sum()))(stds)
    assert np.allclose(found.to_numpy(), 2 * stds.to_numpy() * normal(1, COUNT).sum().item())


def test_checkpoint_repeats_the_draws_of_its_generator() -> None:
    x = tx.asarray(real(4, 3))

    def function(x: Any) -> Any:
        return tx.nn.functional.dropout(tx.sin(x), 0.5, generator=tx.random.Generator(3)).sum()

    assert tx.grad(lambda x: tx.checkpoint(function, x))(x).tolist() == tx.grad(function)(x).tolist()
