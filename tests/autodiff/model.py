"""The meaning of programs on shared memory, by NumPy alone: a tensor is a cell of numbers and the positions of its elements there.

So a program is a plain function of its inputs, and its derivatives are differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Cell:
    """A storage."""

    def __init__(self, values: Array) -> None:
        self.values = np.array(values, dtype=np.float64).reshape(-1)


class View:
    """Elements of a cell."""

    def __init__(self, cell: Cell, places: Array) -> None:
        self.cell, self.places = cell, places

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self.places.shape
        return found

    def read(self) -> Array:
        found: Array = self.cell.values[self.places]
        return found

    def is_injective(self) -> bool:
        return np.unique(self.places).size == self.places.size


class Model:
    """A world of views. `frozen` holds the numbers of the first run that do not depend on the inputs."""

    def __init__(self, frozen: list[Array] | None = None) -> None:
        self.known = frozen is not None
        self.frozen: list[Array] = [] if frozen is None else frozen
        self.count = 0

    def new(self, values: Array) -> View:
        values = np.asarray(values)
        return View(Cell(values), np.arange(values.size).reshape(values.shape))

    def constant(self, values: Array) -> Array:
        """Return these numbers as they were in the first run."""
        if not self.known:
            self.frozen.append(np.array(values))
        self.count += 1
        return self.frozen[self.count - 1]

    # What programs do

    def view(self, x: View, kind: str, how: Any) -> View:
        p = x.places
        if kind == "index" and isinstance(how, tuple) and len(how) == p.ndim and all(isinstance(k, int) for k in how):
            return self.new(x.read()[how])  # an element by its indices is a number of its own
        moves: dict[str, Any] = {
            "index": lambda: p[how],
            "permute": lambda: p.transpose(how),
            "reshape": lambda: p.reshape(how),
            "oindex": lambda: p[np.ix_(*how)],
            "expand": lambda: np.broadcast_to(p, how),
            "diagonal": lambda: p.diagonal(),
            "flip": lambda: np.flip(p, how),
            "windows": lambda: np.lib.stride_tricks.sliding_window_view(p, how[1], how[0])[
                tuple(slice(None, None, how[2] if k == how[0] else None) for k in range(p.ndim))
            ],
        }
        return View(x.cell, np.asarray(moves[kind]()))

    def compute(self, name: str, *operands: Any) -> View:
        return self.new(COMPUTED[name](*[x.read() if isinstance(x, View) else x for x in operands]))

    def along(self, name: str, x: View, axis: int) -> View:
        values = x.read()
        if name == "logsumexp":
            return self.new(np.log(np.exp(values).sum(axis)))
        if name == "softmax":
            return self.new(np.exp(values) / np.exp(values).sum(axis, keepdims=True))
        if name == "take":
            return self.new(np.take(values, [0, -1, 0], axis))
        return self.new(getattr(np, name)(values, axis=axis))

    def write(self, x: View, value: Any) -> None:
        values = np.broadcast_to(value.read() if isinstance(value, View) else value, x.shape).copy()
        x.cell.values[x.places] = values

    def assign(self, x: View, key: Any, value: Any) -> None:
        self.write(View(x.cell, np.asarray(x.places[key])), value)

    def update(self, x: View, key: Any, name: str, value: Any) -> None:
        part = x if key is None else View(x.cell, np.asarray(x.places[key]))
        self.write(part, COMPUTED[name](part.read(), value.read() if isinstance(value, View) else value))

    def add_at(self, x: View, rows: Any, value: Any) -> None:
        values = np.broadcast_to(value.read() if isinstance(value, View) else value, (len(rows), *x.shape[1:]))
        for row, its in zip(rows, values, strict=True):
            x.cell.values[x.places[row]] += its

    def put_rows(self, x: View, rows: Any, value: Any) -> None:
        values = np.broadcast_to(value.read() if isinstance(value, View) else value, (len(rows), *x.shape[1:])).copy()
        for row, its in zip(rows, values, strict=True):
            x.cell.values[x.places[row]] = its

    def mask(self, x: View, mask: Array, value: Any) -> None:
        if isinstance(value, View):
            value = np.broadcast_to(value.read(), x.shape)[mask].copy()
        x.cell.values[x.places[mask]] = value

    def masked_read(self, x: View, mask: Array) -> View:
        return self.new(x.read()[mask])

    def realize(self, x: View) -> None:
        pass

    def detached(self, x: View) -> View:
        return View(Cell(self.constant(x.cell.values)), x.places)

    def pinned(self, values: Array) -> tuple[View, Any]:
        found = self.new(values)
        return found, found

    def foreign(self, array: View, values: Array) -> None:
        """Write the memory of a tensor from outside: derivatives still use the old values, since the write is not seen."""
        before = array.read()
        array.cell.values[array.places] = values + (before - self.constant(before))

    def loss(self, tensors: list[View], weights: list[Array]) -> float:
        return float(sum((t.read() * w).sum() for t, w in zip(tensors, weights, strict=True)))


COMPUTED: dict[str, Any] = {
    "sin": np.sin,
    "tanh": np.tanh,
    "square": np.square,
    "atan": np.arctan,
    "copy": np.array,
    "negative": np.negative,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "over": lambda x, y: x / (y * y + 1.0),
    "hypot": lambda x, y: np.sqrt(x * x + y * y + 0.5),
    "matmul": np.matmul,
    "blend": lambda x, y: 0.25 * x + y,
}
