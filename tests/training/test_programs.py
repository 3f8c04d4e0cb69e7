"""The example programs reach the accuracy that they state, at small sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tenxor as tx

Array = np.ndarray[Any, Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_perceptron_reaches_97_percent(tmp_path: Path) -> None:
    history = program("digits_network").main(epochs=15, picture=str(tmp_path / "loss.svg"))
    assert history.accuracies[-1] >= 0.97
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")


def test_lenet_reaches_80_percent_in_two_epochs() -> None:
    digits = program("digits_network")
    generator = tx.random.Generator(0)
    seen, unseen = digits.split()
    history = digits.train(digits.lenet(generator), seen, unseen, 2, generator)
    assert history.accuracies[-1] > 0.8
    assert history.losses[1] < 0.7 * history.losses[0]


def test_karate_club_example_misclassifies_at_most_one_node() -> None:
    losses, right = program("karate_club").train()
    assert right >= 33 / 34 - 1e-6
    assert losses[-1] < 0.01 * losses[0]


def test_newton_example_converges_quadratically() -> None:
    fit = program("newton").fit
    points = tx.random.Generator(0).normal(shape=(60, 3))
    classes = ((points @ tx.asarray([1.0, -2.0, 0.5])) + tx.random.Generator(1).normal(shape=(60,)) > 0).astype(tx.float64)
    gradients = fit(points, classes).gradients
    assert gradients[-1] < 1e-13
    assert gradients[-2] < gradients[-3] ** 1.5  # twice as many digits, at the end


def test_pendulum_example_finds_length_and_friction(monkeypatch: pytest.MonkeyPatch) -> None:
    pendulum = program("pendulum")
    monkeypatch.setattr(pendulum, "COUNT", 60)
    length, friction = pendulum.main(steps=8)
    assert abs(length - 0.8) < 0.01 and abs(friction - 0.35) < 0.02


def test_gaussian_process_example_finds_the_likeliest_scale() -> None:
    """In NumPy, no numbers nearby are more likely, and the predictions are the same."""
    process = program("gaussian_process")
    x, y = process.draw(60)
    found = process.fit(x[::2].copy(), y[::2].copy(), steps=10)
    points, values, others = x[::2].to_numpy(), y[::2].to_numpy(), x[1::2].to_numpy()

    def covariance(a: Array, b: Array, length: float, height: float) -> Array:
        product: Array = height**2 * np.exp(-0.5 * np.subtract.outer(a, b) ** 2 / length**2)
        return product

    def surprise(length: float, height: float, noise: float) -> float:
        c = covariance(points, points, length, height) + noise**2 * np.eye(30)
        return float(values @ np.linalg.inv(c) @ values + np.linalg.slogdet(c)[1] + 30 * np.log(2 * np.pi)) / 2

    length, height, noise = found.numbers
    least = surprise(length, height, noise)
    assert least < found.losses[0] - 10.0
    assert process.surprise(tx.log(tx.asarray(found.numbers)), found.points, found.values).item() == pytest.approx(least, rel=1e-10)
    for k in range(3):
        for step in (0.97, 1.03):
            assert surprise(*[number * step if j == k else number for j, number in enumerate(found.numbers)]) > least
    c = covariance(points, points, length, height) + noise**2 * np.eye(30)
    across = covariance(others, points, length, height)
    mean, deviation = process.predicted(found, x[1::2])
    assert np.allclose(mean.to_numpy(), across @ np.linalg.solve(c, values), rtol=1e-8, atol=1e-8)
    variance = height**2 + noise**2 - np.diag(across @ np.linalg.solve(c, across.T))
    assert np.allclose(deviation.to_numpy() ** 2, variance, rtol=1e-8)


def test_characters_example_learns_and_continues_a_text() -> None:
    characters = program("characters")
    generator = tx.random.Generator(0)
    model = characters.Writer(5, width=16, heads=2, layers=1, generator=generator)
    optimizer = tx.optim.AdamW(model.parameters(), lr=0.01)
    row = tx.asarray([[0, 1, 2, 3, 4] * 4])
    for _ in range(60):
        optimizer.zero_grad()
        loss = tx.nn.functional.cross_entropy(model(row[:, :-1]).flatten(0, 1), row[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    written = characters.write(model, [0, 1, 2], 12, generator)
    assert written == [0, 1, 2, 3, 4] * 3
    caches = model.caches()
    steps = [model(row[:, k : k + 1], caches) for k in range(6)]
    assert abs(tx.concat(steps, 1) - model(row[:, :6])).max().item() < 1e-4  # what is cached gives what is not
