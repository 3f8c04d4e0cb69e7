"""What is measured: each workload is one line of array code, written alike for every contender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx

MILLION = 1 << 20


class Workload(NamedTuple):
    """A line of code, the arrays it is run on, and the same line in NumPy where that is spelled otherwise."""

    name: str
    line: Callable[..., Any]
    inputs: Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], ...]]
    in_numpy: Callable[..., Any] | None = None
    tolerance: float = 1e-5


def _floats(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], ...]]:
    return lambda rng: tuple(rng.random(shape, dtype=np.float32) for shape in shapes)


def softmax(x: Any) -> Any:
    """Along the last axis, as it is written in both libraries."""
    e = _exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _exp(x: Any) -> Any:
    return np.exp(x) if isinstance(x, np.ndarray) else tx.exp(x)


WORKLOADS = (
    Workload("(a*b+c)**2, 16 M float32", lambda a, b, c: (a * b + c) ** 2, _floats(*[(16 * MILLION,)] * 3)),
    Workload("(a*b+c)**2, 16 k float32", lambda a, b, c: (a * b + c) ** 2, _floats(*[(16 * 1024,)] * 3)),
    Workload(
        "distances ((a[:,None]-b[None])**2).sum(-1), 599 x 1198 x 64",
        lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
        _floats((599, 64), (1198, 64)),
    ),
    Workload("sum of 16 M float32", lambda a: a.sum(), _floats((16 * MILLION,)), tolerance=1e-4),
    Workload("sum of rows, 4096 x 4096", lambda a: a.sum(axis=1), _floats((4096, 4096)), tolerance=1e-4),
    Workload("sum of columns, 4096 x 4096", lambda a: a.sum(axis=0), _floats((4096, 4096)), tolerance=1e-4),
    Workload("variance of rows, 4096 x 4096", lambda a: a.var(axis=1), _floats((4096, 4096)), tolerance=1e-4),
    Workload("softmax of rows, 4096 x 4096", softmax, _floats((4096, 4096))),
    Workload("exp, 16 M float32", _exp, _floats((16 * MILLION,))),
    Workload("a.T copied, 2048 x 2048", lambda a: a.T.copy(), _floats((2048, 2048))),
    Workload("a.T.reshape(-1) + 1, 2048 x 2048", lambda a: a.T.reshape(-1) + 1, _floats((2048, 2048))),
    Workload("a.T + 1, 2048 x 2048", lambda a: a.T + 1, _floats((2048, 2048))),
    Workload("a + b.T, 2048 x 2048", lambda a, b: a + b.T, _floats((2048, 2048), (2048, 2048))),
    Workload("matmul, 256 x 256 float32", lambda a, b: a @ b, _floats((256, 256), (256, 256)), tolerance=1e-4),
)
