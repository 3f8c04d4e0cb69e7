"""Logistic regression by Newton's method: steps along the gradient as the Hessian sees it, each of which about doubles the
digits that are right.

python examples/newton.py
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tenxor as tx

RIDGE = 1e-3  # so that the minimum is one point, also where classes are parted by a plane


class Fit(NamedTuple):
    """The weights found, and the size of the gradient before each step."""

    weights: tx.Tensor
    gradients: list[float]


def loss(weights: Any, points: Any, classes: Any) -> Any:
    """Minus the mean log-likelihood of classes 0 and 1, and a little of the weights' squares."""
    scores = points @ weights
    return (tx.softplus(scores) - classes * scores).mean() + RIDGE * (weights * weights).sum()


def fit(points: Any, classes: Any, steps: int = 9) -> Fit:
    """The weights of points, (n, d), with classes, (n,), from 0 on."""
    weights: Any = tx.zeros(points.shape[1])
    gradients = []
    for _ in range(steps):
        slope = tx.grad(loss)(weights, points, classes)
        curvature = tx.hessian(loss)(weights, points, classes)
        gradients.append(float(abs(slope).max().item()))
        weights = (weights - tx.linalg.solve(curvature, slope)).realize()
    return Fit(weights, gradients)


def main() -> None:
    """Tell the digits 3 and 8 apart by 64 pixels and a constant."""
    pixels, labels = tx.data.digits()
    chosen = (labels == 3) | (labels == 8)
    points: Any = tx.concat([pixels[chosen].astype(tx.float64) / 16.0, tx.ones((int(chosen.count_nonzero().item()), 1))], axis=1)
    classes: Any = (labels[chosen] == 8).astype(tx.float64)
    found = fit(points, classes)
    for step, size in enumerate(found.gradients):
        print(f"step {step}: the largest slope is {size:.1e}")
    right = (((points @ found.weights) > 0).astype(tx.float64) == classes).astype(tx.float64).mean().item()
    print(f"{right:.4f} of {classes.size} digits are told right")
    if found.gradients[-1] > 1e-12:
        raise SystemExit("the slope is not 0 at the end")


if __name__ == "__main__":
    main()
