"""An LSTM over a sequence, and training steps of a network of three layers with gradients by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch

RATE = 0.1  # of learning


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm_numpy(xs: Any, w: Any, u: Any, b: Any) -> Any:
    h = c = np.zeros((xs.shape[1], u.shape[0]), dtype=xs.dtype)
    found = []
    for x in xs:
        i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.stack(found)


def lstm_torch(xs: Any, w: Any, u: Any, b: Any) -> Any:
    h = c = torch.zeros((xs.shape[1], u.shape[0]), dtype=xs.dtype)
    found = []
    for x in xs:
        i, f, g, o = torch.chunk(x @ w + h @ u + b, 4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return torch.stack(found)


def lstm_tenxor(xs: Any, w: Any, u: Any, b: Any) -> Any:
    h = c = tx.zeros((xs.shape[1], u.shape[0]), dtype=xs.dtype)
    found = []
    for x in xs:
        i, f, g, o = tx.split(x @ w + h @ u + b, 4, axis=1)
        c = tx.sigmoid(f) * c + tx.sigmoid(i) * tx.tanh(g)
        h = tx.sigmoid(o) * tx.tanh(c)
        found.append(h)
    return tx.stack(found)


def train_numpy(x: Any, target: Any, *parameters: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = map(np.copy, parameters[:-1])
    right = np.eye(b3.size, dtype=x.dtype)[target]
    losses = []
    for _ in range(parameters[-1]):
        h1 = np.maximum(x @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        scores = h2 @ w3 + b3
        powers = np.exp(scores - scores.max(1, keepdims=True))
        p = powers / powers.sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(len(x)), target]).mean())
        d3 = (p - right) / len(x)
        d2 = (d3 @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        w3 -= RATE * (h2.T @ d3)
        b3 -= RATE * d3.sum(0)
        w2 -= RATE * (h1.T @ d2)
        b2 -= RATE * d2.sum(0)
        w1 -= RATE * (x.T @ d1)
        b1 -= RATE * d1.sum(0)
    return np.stack(losses), w1, w2, w3


def train_torch(x: Any, target: Any, *parameters: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = map(torch.clone, parameters[:-1])
    right = torch.eye(len(b3), dtype=x.dtype)[target]
    losses = []
    for _ in range(parameters[-1]):
        h1 = torch.relu(x @ w1 + b1)
        h2 = torch.relu(h1 @ w2 + b2)
        p = torch.softmax(h2 @ w3 + b3, 1)
        losses.append(-torch.log(p[torch.arange(len(x)), target]).mean())
        d3 = (p - right) / len(x)
        d2 = (d3 @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        w3 -= RATE * (h2.T @ d3)
        b3 -= RATE * d3.sum(0)
        w2 -= RATE * (h1.T @ d2)
        b2 -= RATE * d2.sum(0)
        w1 -= RATE * (x.T @ d1)
        b1 -= RATE * d1.sum(0)
    return torch.stack(losses), w1, w2, w3


def train_tenxor(x: Any, target: Any, *parameters: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = map(tx.Tensor.copy, parameters[:-1])
    right = tx.eye(b3.size, dtype=x.dtype)[target]
    losses = []
    for _ in range(parameters[-1]):
        h1 = tx.relu(x @ w1 + b1)
        h2 = tx.relu(h1 @ w2 + b2)
        p = tx.softmax(h2 @ w3 + b3, 1)
        losses.append(-tx.log(p[tx.arange(len(x)), target]).mean())
        d3 = (p - right) / len(x)
        d2 = (d3 @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        w3 -= RATE * (h2.T @ d3)
        b3 -= RATE * d3.sum(0)
        w2 -= RATE * (h1.T @ d2)
        b2 -= RATE * d2.sum(0)
        w1 -= RATE * (x.T @ d1)
        b1 -= RATE * d1.sum(0)
    return tx.stack(losses), w1, w2, w3


def sequence(rng: np.random.Generator, steps: int, batch: int, n: int, hidden: int) -> tuple[Array, ...]:
    """A sequence of batches, and the weights of a cell."""
    shapes = ((steps, batch, n), (n, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,))
    scales = (1.0, n**-0.5, hidden**-0.5, 1.0)
    return tuple((scale * rng.normal(size=shape)).astype(np.float32) for shape, scale in zip(shapes, scales, strict=True))


def lesson(rng: np.random.Generator, batch: int, n: int, hidden: int, classes: int, steps: int) -> tuple[Any, ...]:
    """A batch with what it shows, weights, and how often it is looked at."""
    sides = (n, hidden, hidden, classes)
    parameters: list[Array] = []
    for rows, columns in pairwise(sides):
        parameters += [rng.normal(0, rows**-0.5, (rows, columns)), np.zeros(columns)]
    x, target = rng.normal(size=(batch, n)), rng.integers(0, classes, batch)
    return (x.astype(np.float32), target, *(p.astype(np.float32) for p in parameters), steps)


def programs() -> list[Program]:
    """In float32, as networks are."""
    lstm, train = (lstm_numpy, lstm_torch, lstm_tenxor), (train_numpy, train_torch, train_tenxor)
    return [
        Program("LSTM, 100 steps, batch 1, 32 hidden", *lstm, sequence, (100, 1, 16, 32), (4, 2, 3, 5), tolerance=1e-4),
        Program("LSTM, 100 steps, batch 16, 64 hidden", *lstm, sequence, (100, 16, 32, 64), (4, 2, 3, 5), tolerance=1e-4),
        Program(
            *("LSTM, 100 steps, batch 128, 256 hidden", *lstm, sequence, (100, 128, 64, 256), (4, 2, 3, 5)),
            large=True,
            tolerance=1e-4,
        ),
        Program("MLP 64-256-256-10, batch 64, by hand", *train, lesson, (64, 64, 256, 10, 10), (5, 4, 7, 3, 3), tolerance=1e-3),
    ]
