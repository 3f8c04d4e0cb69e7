"""Small programs that together use all that may fail: memory, compiling, the cache on disk, threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Given = dict[str, Any]


class Program(NamedTuple):
    """`run` computes something of tensors, and may write into some of them; `model` does the same to NumPy's arrays. It is given
    `tx`, or NumPy.
    """

    name: str
    given: Callable[[], dict[str, Array]]
    run: Callable[[Any, Given], Any]
    model: Callable[[dict[str, Array]], Any]


def whole(*shape: int) -> Array:
    """Numbers that are added up exactly, in whatever order."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 37 % 23 - 11).astype(np.float64)


def _two(*shape: int) -> Callable[[], dict[str, Array]]:
    return lambda: {"a": whole(*shape), "b": whole(*shape)[::-1].copy()}


def _same(name: str, given: Callable[[], dict[str, Array]], run: Callable[[Any, Given], Any]) -> Program:
    """A program that NumPy runs as it stands."""
    return Program(name, given, run, lambda arrays: run(np, arrays))


def _writes(xp: Any, g: Given) -> Any:
    a, b = g["a"], g["b"]
    a[1:, ::2] = b[:-1, 1::2] * 2
    a += b
    a[a > 9] = -1
    return a[::-1] - b


def _rows(xp: Any, g: Given) -> Any:
    a = g["a"]
    for k in range(1, 6):
        a[k] = a[k - 1] * 2 - a[k]
    return a.sum(axis=1)


def _sizes(xp: Any, g: Given) -> Any:
    a, b = g["a"], g["b"]
    for n in range(4, 15):
        a[: n - 1] = (a[1:n] * 2 - b[:n][1:]).sum()
        a[:n] = xp.where(a[:n] > b[-n:], b[:n], 3.0)
    return a


def _scattered(tx: Any, g: Given) -> Any:
    g["a"].index_add_(0, g["i"], g["b"])
    return g["a"] * 1


def _scattered_by_numpy(arrays: dict[str, Array]) -> Any:
    np.add.at(arrays["a"], arrays["i"], arrays["b"])
    return arrays["a"] * 1


def _gathered(xp: Any, g: Given) -> Any:
    return g["a"][g["i"]] * 2 + g["b"][0]


def _indexed() -> dict[str, Array]:
    return {"a": whole(12, 7), "i": np.array([3, 0, 11, 3, 3]), "b": whole(5, 7)}


def _halves(xp: Any, g: Given) -> Any:
    left, right = g["a"] * 2, g["a"] - 1
    return xp.concat([left, right[::-1]]) if hasattr(xp, "concat") else np.concatenate([left, right[::-1]])


def _pieces(xp: Any, g: Given) -> Any:
    rows = [g["a"][k] * k for k in range(12)]
    return xp.stack([*rows, g["b"][3]]) + g["a"][0]


def _masked(xp: Any, g: Given) -> Any:
    a = g["a"]
    a[a < 0] = g["b"][0, 0]
    return xp.where(a > 3, a, -a)[:, None] + a[None, 2:]


def _swapped(xp: Any, g: Given) -> Any:
    a, b = g["a"], g["b"]
    for k in range(4):
        a[k], b[-k - 1] = b[k] + 1, a[k] * 2
    a[:, 1] = a[:, 0] + b.max()
    return (a - b).reshape(-1)[::2]


def _complex(xp: Any, g: Given) -> Any:
    z = g["a"] + g["b"] * 1j
    return (z @ z.T).real + (z * z).imag.sum()


def _differentiated(tx: Any, g: Given) -> Any:
    return tx.grad(lambda a: ((a * g["b"]) ** 2).sum())(g["a"])


def _trained(tx: Any, g: Given) -> Any:
    p = g["a"].detach().copy().requires_grad_()
    optimizer = tx.optim.SGD([p], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (p * g["b"]).sum().backward()
        optimizer.step()
    return p.detach() * 1


def _module(tx: Any, g: Given) -> Any:
    layer = tx.nn.Linear(7, 6, dtype=tx.float64)
    layer.weight[...] = g["b"]
    layer.bias[...] = 1.0
    return tx.relu(layer(g["a"])).detach()


def _filed(tx: Any, g: Given) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        tx.files.save(f"{folder}/tensors", {"a": g["a"] * 2})
        return tx.files.load(f"{folder}/tensors")[0]["a"] + g["b"]


def _batches(tx: Any, g: Given) -> Any:
    return sum([x * y for x, y in tx.data.Batches(tx.data.Dataset(g["a"], g["b"]), 4)], start=tx.zeros((4, 5)))


PROGRAMS = (
    _same("a chain", _two(9, 11), lambda xp, g: (g["a"] * 2 + g["b"]) * g["a"] - 3),
    _same("a sum of pairs", _two(9, 11), lambda xp, g: (g["a"][:, None] - g["b"][None]).max(axis=2)),
    _same("a product", _two(40, 40), lambda xp, g: g["a"] @ g["b"]),
    _same("a shared product", _two(260, 260), lambda xp, g: g["a"] @ g["b"]),
    _same("a shared sum", lambda: {"a": whole(1 << 18), "b": whole(1 << 18)}, lambda xp, g: (g["a"] * g["b"]).sum()),
    _same("writes", _two(8, 10), _writes),
    _same("rows", _two(6, 5), _rows),
    _same("ever other sizes", _two(16), _sizes),
    _same("a gather", _indexed, _gathered),
    Program("a scatter", _indexed, _scattered, _scattered_by_numpy),
    _same("running sums", _two(7, 9), lambda xp, g: xp.cumsum(g["a"], axis=0) + g["b"]),
    _same("joined", _two(6, 7), _halves),
    _same("turned", _two(20, 30), lambda xp, g: g["a"].T.reshape(-1)[::3] + 1),
    _same("pieces", _two(12, 5), _pieces),
    _same("masks", _two(9, 8), _masked),
    _same("rows exchanged", _two(8, 6), _swapped),
    _same("complex numbers", _two(24, 24), _complex),
    _same("least sums", _two(30, 30), lambda xp, g: (g["a"][:, :, None] + g["b"][None]).min(axis=1)),
    _same("large, in parts", _two(600, 500), lambda xp, g: (g["a"] - g["b"].max(axis=0)).sum(axis=0)),
    _same("two results of one", _two(9, 9), lambda xp, g: (g["a"].sum(axis=0) - g["a"]) * (g["b"] + g["a"].sum(axis=0))),
    _same("rows in order", _two(40, 1000), lambda xp, g: xp.sort(g["a"], axis=1) + g["b"]),
    _same("inverses", _two(6, 6), lambda xp, g: xp.linalg.inv(g["a"] @ g["a"].T + 1000 * xp.eye(6)) + g["b"]),
    _same("frequencies", _two(30, 40), lambda xp, g: xp.fft.fft(g["a"]).real - g["b"]),
    Program("a derivative", _two(9, 11), _differentiated, lambda g: 2 * g["a"] * g["b"] ** 2),
    Program("two steps", _two(9, 11), _trained, lambda g: g["a"] - g["b"]),
    Program("a module", lambda: {"a": whole(5, 7), "b": whole(6, 7)}, _module, lambda g: np.maximum(g["a"] @ g["b"].T + 1, 0)),
    Program("a file", _two(9, 11), _filed, lambda g: g["a"] * 2 + g["b"]),
    Program("batches", _two(12, 5), _batches, lambda g: (g["a"] * g["b"]).reshape(3, 4, 5).sum(axis=0)),
)
