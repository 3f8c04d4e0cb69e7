"""A Gaussian process that finds its own scale: how far a curve reaches, how high it goes and how noisy it was seen are numbers,
and those are taken that make what was seen most likely. The likelihood goes through a Cholesky decomposition, and so does its
gradient, along which L-BFGS climbs.

C. Rasmussen, C. Williams: Gaussian processes for machine learning, 2006, algorithm 2.1 and section 5.4.1.

    python examples/gaussian_process.py
"""

from __future__ import annotations

from math import log, pi
from typing import Any, NamedTuple

import tenxor as tx

LENGTH, HEIGHT, NOISE = 0.3, 1.5, 0.2  # of the curve that was drawn; each is to be found
REACH = 4.0  # points lie from 0 to here


class Fit(NamedTuple):
    """What was found: length, height and noise; minus the log-likelihood before each step; and what was seen."""

    numbers: list[float]
    losses: list[float]
    points: Any
    values: Any


def kernel(x: Any, y: Any, length: Any, height: Any) -> Any:
    """How much the curve at points `x`, (n,), and at `y`, (m,), goes together: (n, m), less for points further apart."""
    apart = (x.expand_dims(1) - y) / length
    return height**2 * tx.exp(-0.5 * apart * apart)


def covariance(x: Any, length: Any, height: Any, noise: Any) -> Any:
    """The covariance of what is seen at points (n,): that of the curve, and noise of its own at each."""
    return kernel(x, x, length, height) + noise**2 * tx.eye(x.shape[0])


def surprise(logs: Any, x: Any, y: Any) -> Any:
    """Minus the logarithm of how likely values (n,) at points (n,) are, for the logarithms of length, height and noise."""
    length, height, noise = tx.unbind(tx.exp(logs))
    root = tx.linalg.cholesky(covariance(x, length, height, noise))
    plain = tx.linalg.solve_triangular(root, y, upper=False)  # the values as independent numbers of variance 1
    return 0.5 * (plain * plain).sum() + tx.log(root.diagonal()).sum() + 0.5 * x.shape[0] * log(2 * pi)


def draw(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Points, and a curve of known length and height at them, seen with noise."""
    generator = tx.random.Generator(seed)
    x: Any = tx.sort(generator.uniform(0.0, REACH, (count,)))
    root = tx.linalg.cholesky(covariance(x, LENGTH, HEIGHT, NOISE))
    return x.realize(), (root @ generator.normal(0.0, 1.0, (count,))).realize()


def fit(x: Any, y: Any, steps: int = 15) -> Fit:
    """The most likely numbers, from 1 on for each."""
    logs = tx.nn.Parameter(tx.zeros(3))
    optimizer = tx.optim.LBFGS([logs])
    losses = [optimizer.step(lambda: surprise(logs, x, y)).item() for _ in range(steps)]
    return Fit(tx.exp(logs.detach()).tolist(), losses, x, y)


def predicted(found: Fit, at: Any) -> tuple[Any, Any]:
    """The mean of what will be seen at other points, (m,), and its standard deviation there."""
    length, height, noise = found.numbers
    root = tx.linalg.cholesky(covariance(found.points, length, height, noise))
    across = tx.linalg.solve_triangular(root, kernel(found.points, at, length, height), upper=False)
    mean = across.mT @ tx.linalg.solve_triangular(root, found.values, upper=False)
    return mean, tx.sqrt(height**2 + noise**2 - (across * across).sum(axis=0))


def main(count: int = 200, steps: int = 15) -> Fit:
    """Fit every second point of a drawn curve, and foretell the others."""
    x, y = draw(count)
    found = fit(x[::2].copy(), y[::2].copy(), steps)
    mean, deviation = predicted(found, x[1::2])
    within = (abs(y[1::2] - mean) < 1.96 * deviation).astype(tx.float64).mean().item()
    missed = tx.sqrt(((y[1::2] - mean) ** 2).mean()).item()
    told = surprise(tx.log(tx.asarray([LENGTH, HEIGHT, NOISE])), found.points, found.values).item()
    print(f"surprise  {tx.show.spark(found.losses)}  {found.losses[0]:.2f} to {found.losses[-1]:.2f}; of the true numbers {told:.2f}")
    for name, number, true in zip(("length", "height", "noise"), found.numbers, (LENGTH, HEIGHT, NOISE), strict=True):
        print(f"{name:7}{number:.3f} (true {true})")
    print(f"others missed by {missed:.3f} on average, {within:.0%} of them within the 95 % that were foretold")
    if found.losses[-1] > told or not 0.85 < within <= 1.0:
        raise SystemExit("the curve was not found")
    return found


if __name__ == "__main__":
    main()
