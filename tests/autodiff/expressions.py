"""Random expressions for two libraries: each operation is written once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = [(3,), (2, 3), (3, 2), (3, 3), (2, 1), (1, 3), ()]
STEPS = 8
ELEMENTWISE = ("sin", "cos", "tanh", "sigmoid", "relu", "abs", "square", "exp", "atan", "erf", "neg", "expm1", "sign", "floor")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (y * y + 1.0),
    "reflected": lambda x, y: 2.0 - x / (1.5 + y * y),
}
PAIRS = ("maximum", "minimum", "hypot", "logaddexp", "atan2")
REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "cumsum", "cumprod", "softmax", "log_softmax", "logsumexp", "var")


class Expression:
    """A random expression of some inputs; many of their numbers are integers or halves, so there are ties and kinks."""

    def __init__(self, seed: int, ties: bool) -> None:
        self.rng = random.Random(seed)
        numbers = np.random.default_rng(seed)
        self.inputs = []
        for _ in range(self.rng.choice([1, 2, 3])):
            a = numbers.uniform(-2, 2, self.rng.choice(SHAPES))
            self.inputs.append(np.round(a * 2) / 2 if ties else a)
        self.weights = numbers.standard_normal(64)
        self.seed = seed

    def value(self, library: Any, inputs: list[Any]) -> Any:
        """Return the value, one number, with the functions of the module `library`, whose names are those of PyTorch or Tenxor."""
        rng = random.Random(self.seed + 1)
        known = list(inputs)
        said: list[str] = []
        for _ in range(STEPS):
            x = rng.choice(known[-3:])
            kind = rng.choice(["elementwise", "elementwise", "binary", "binary", "pair", "reduction", "view", "where", "matmul", "write"])
            made = getattr(self, kind)(rng, library, x, known)
            if made is not None and 0 < np.prod(tuple(made.shape)) <= 64:
                known.append(made)
                said.append(kind)
        total = 0.0
        for x in known:
            flat = x.reshape(-1)
            total = total + (flat * library.weights(self.weights[: flat.shape[0]])).sum()
        return total

    def elementwise(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        name = rng.choice(ELEMENTWISE)
        if name == "exp" or name == "expm1":
            x = x * 0.5
        return -x if name == "neg" else getattr(library, name)(x)

    def binary(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        name, y = rng.choice(list(BINARY)), rng.choice(known)
        return BINARY[name](x, y if _fit(x, y) else rng.choice([0.5, -1.0, 2.0]))

    def pair(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        name, y = rng.choice(PAIRS), rng.choice(known)
        if not _fit(x, y):
            y = x * 1.0
        if name in ("hypot", "atan2"):
            return getattr(library, name)(x * x + 0.5, y)
        return getattr(library, name)(x, y)

    def reduction(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        name = rng.choice(REDUCTIONS)
        if not x.shape:
            return None
        return library.reduced(name, x, rng.randrange(len(x.shape)))

    def view(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        kind = rng.choice(["transpose", "reshape", "slice", "new", "flip", "expand", "gather", "clip"])
        if kind == "clip":
            return library.clip(x, -1.0, 0.5)
        if kind == "reshape":
            return x.reshape(-1)
        if kind == "new":
            return x[None]
        if not x.shape:
            return x * 2.0
        if kind == "slice":
            return x[x.shape[0] // 2 :]
        if kind == "flip":
            return library.flip(x, (0,))
        if kind == "gather":
            return x[library.indices([rng.randrange(x.shape[0]) for _ in range(3)])]
        if kind == "expand":
            return x.expand(2, *x.shape)
        return x.swapaxes(0, len(x.shape) - 1)

    def where(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        bound = rng.choice([-0.25, 0.3])
        return library.where(x > bound, x * x, library.sin(x))

    def matmul(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        for y in known:
            if len(x.shape) == 2 and len(y.shape) in (1, 2) and x.shape[1] == y.shape[0]:
                return x @ y
        return None

    def write(self, rng: random.Random, library: Any, x: Any, known: list[Any]) -> Any:
        """Write in place to a copy, which both libraries allow."""
        if not x.shape or x.shape[0] < 2:
            return None
        y = x * 1.0
        kind = rng.choice(["slice", "add", "rows", "indices"])
        if kind == "slice":
            y[1:] = x[:-1] * 2.0
        elif kind == "add":
            y[0] += x[1]
        elif kind == "rows":
            y[-1] = library.sin(x[0])
        else:
            y[library.indices([1, 0])] = x[:2] * x[:2]
        return y


def _fit(x: Any, y: Any) -> bool:
    try:
        np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    except ValueError:
        return False
    return True
