"""The world of `model.py`, computed by the library."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenxor as tx

from .model import Array


class Library:
    """A world of tensors."""

    def new(self, values: Array) -> Any:
        return tx.asarray(np.array(values))

    def view(self, x: Any, kind: str, how: Any) -> Any:
        moves: dict[str, Any] = {
            "index": lambda: x[how],
            "permute": lambda: x.permute(how),
            "reshape": lambda: x.reshape(how),
            "oindex": lambda: x.oindex[tuple(how)],
            "expand": lambda: x.expand(how),
            "diagonal": lambda: x.diagonal(),
            "flip": lambda: tx.flip(x, axis=how),
            "windows": lambda: x.windows(*how),
        }
        return moves[kind]()

    def compute(self, name: str, *operands: Any) -> Any:
        return COMPUTED[name](*operands)

    def along(self, name: str, x: Any, axis: int) -> Any:
        return tx.take(x, [0, -1, 0], axis=axis) if name == "take" else getattr(tx, name)(x, axis=axis)

    def write(self, x: Any, value: Any) -> None:
        x[...] = value

    def assign(self, x: Any, key: Any, value: Any) -> None:
        x[key] = value

    def update(self, x: Any, key: Any, name: str, value: Any) -> None:
        if key is None and name == "add":
            x += value
        elif key is None:
            x *= value
        elif name == "add":
            x[key] += value
        else:
            x[key] *= value

    def add_at(self, x: Any, rows: Any, value: Any) -> None:
        x.index_add_(0, rows, value)

    def put_rows(self, x: Any, rows: Any, value: Any) -> None:
        x[rows] = value

    def mask(self, x: Any, mask: Array, value: Any) -> None:
        if isinstance(value, tx.Tensor):
            value = value.expand(x.shape)[tx.asarray(mask)]
        x[tx.asarray(mask)] = value

    def masked_read(self, x: Any, mask: Array) -> Any:
        return x[tx.asarray(mask)]

    def realize(self, x: Any) -> None:
        x.realize()

    def detached(self, x: Any) -> Any:
        return x.detach()

    def pinned(self, values: Array) -> tuple[Any, Any]:
        array = np.array(values)
        return tx.asarray(array, copy=False), array

    def foreign(self, array: Array, values: Array) -> None:
        array[...] = values

    def loss(self, tensors: list[Any], weights: list[Array]) -> Any:
        total: Any = tx.asarray(0.0)
        for t, w in zip(tensors, weights, strict=True):
            total = total + (t * tx.asarray(w)).sum()
        return total


COMPUTED: dict[str, Any] = {
    "sin": tx.sin,
    "tanh": tx.tanh,
    "square": tx.square,
    "atan": tx.atan,
    "copy": lambda x: x.copy(),
    "negative": lambda x: -x,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "over": lambda x, y: x / (y * y + 1.0),
    "hypot": lambda x, y: tx.sqrt(x * x + y * y + 0.5),
    "matmul": lambda x, y: x @ y,
    "blend": lambda x, y: tx.map(lambda a, b: 0.25 * a + b, x, y),
}
