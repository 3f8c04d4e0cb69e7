"""Operations on memory that others may write are computed at once, by machine code as by Python.

Later writes by others do not change the result. NumPy computes the expected values at the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath

pytestmark = pytest.mark.usefixtures("on", "one_thread")
TIMES = 4  # the first are learnt from
N = 11
RNG = np.random.default_rng(8)
A, B = RNG.normal(size=(N, N)), RNG.normal(size=(N, N))

READS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "a sum of two": (lambda x, y: x + y, lambda a, b: a + b),
    "a number first": (lambda x, y: 2.0 - x, lambda a, b: 2.0 - a),
    "what waits beside it": (lambda x, y: (y * 2.0 + 1.0) * x, lambda a, b: (b * 2.0 + 1.0) * a),
    "a chain": (lambda x, y: (x * 2.0 + y).exp().sum(1), lambda a, b: np.exp(a * 2.0 + b).sum(1)),
    "a choice": (lambda x, y: tx.where(x > 0, x, y), lambda a, b: np.where(a > 0, a, b)),
    "a part": (lambda x, y: x[2:5, ::-1] * y[0], lambda a, b: a[2:5, ::-1] * b[0]),
    "turned about": (lambda x, y: x.T + 1.0, lambda a, b: a.T + 1.0),
    "a sum": (lambda x, y: x.sum(), lambda a, b: a.sum()),
    "sums of rows": (lambda x, y: x.sum(1), lambda a, b: a.sum(1)),
    "variances": (lambda x, y: tx.var(x, axis=0), lambda a, b: a.var(axis=0)),
    "a product": (lambda x, y: x @ y, lambda a, b: a @ b),
    "a product with itself": (lambda x, y: x.T @ x, lambda a, b: a.T @ a),
    "softmax": (lambda x, y: tx.softmax(x, 1), lambda a, b: np.exp(a) / np.exp(a).sum(1, keepdims=True)),
    "largest": (lambda x, y: x.argmax(1), lambda a, b: a.argmax(1)),
    "rows of a list": (lambda x, y: x[[3, 1]], lambda a, b: a[[3, 1]]),
    "rows of a mask": (lambda x, y: x[x[:, 0] > 0], lambda a, b: a[a[:, 0] > 0]),
    "put together": (lambda x, y: tx.stack([x[0], x[1] * 2]), lambda a, b: np.stack([a[0], a[1] * 2])),
    "sorted": (lambda x, y: tx.sort(x[0]), lambda a, b: np.sort(a[0])),
    "a copy": (lambda x, y: x.copy(), lambda a, b: a.copy()),
    "float32": (lambda x, y: x.astype(tx.float32), lambda a, b: a.astype(np.float32)),
    "a running sum": (lambda x, y: x.cumsum(0), lambda a, b: a.cumsum(0)),
}


def exported() -> tuple[tx.Tensor, Any]:
    """Return a tensor, and an array that shares its memory."""
    x = tx.asarray(A)
    return x, np.asarray(x)


def shared() -> tuple[tx.Tensor, Any]:
    seen = A.copy()
    return tx.asarray(seen, copy=False), seen


@pytest.mark.parametrize("given", [exported, shared])
@pytest.mark.parametrize("name", READS)
def test_operation_on_shared_memory_uses_values_at_the_call(name: str, given: Callable[[], tuple[tx.Tensor, Any]]) -> None:
    mine, right = READS[name]
    y = tx.asarray(B)
    for _ in range(TIMES):
        x, seen = given()
        found, wanted = mine(x, y), right(A, B)
        seen[...] = 5.0
        again, after = mine(x, y), right(seen, B)
        seen[...] = np.nan
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-12 if found.dtype != tx.float32 else 1e-6)
        np.testing.assert_allclose(again.to_numpy(), after, rtol=1e-12 if found.dtype != tx.float32 else 1e-6)


@pytest.mark.parametrize("name", READS)
def test_operations_on_shared_memory_match_python_bit_for_bit(name: str) -> None:
    mine, _ = READS[name]
    y = tx.asarray(B)

    def outcome() -> bytes:
        x, seen = exported()
        found = mine(x, y)
        seen[...] = 0.0
        return found.to_numpy().tobytes()

    with fastpath.disabled():
        wanted = outcome()
    assert [outcome() for _ in range(TIMES)] == [wanted] * TIMES


@pytest.mark.parametrize("name", [n for n in READS if n not in ("a copy", "a running sum")])
def test_operations_on_shared_memory_make_no_node_in_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls are recorded with externally shared memory only."""
    mine, _ = READS[name]
    a = RNG.normal(size=(N + len(READS), N + list(READS).index(name) + 1))  # as nobody had before
    a = a if "product" not in name and name != "turned about" else a[: len(a[0])]
    x, y = tx.asarray(a), tx.asarray(a.copy())
    if name == "a product":
        y = tx.asarray(a.T.copy())
    seen = np.asarray(x)
    for _ in range(TIMES):
        mine(x, y).realize()

    def never(*given: object, **named: object) -> None:
        raise AssertionError("an operation is written down by Python")

    monkeypatch.setattr(tx.graph.node.Node, "__init__", never)
    found = mine(x, y)
    monkeypatch.undo()
    assert found.node.buffer is not None or name == "a chain", "others may write what it reads"
    del seen


def test_gradient_uses_shared_memory_values_at_the_call() -> None:
    for _ in range(TIMES):
        x, seen = exported()
        w = tx.asarray(B).requires_grad_()
        loss = (w * x).sum() + (w @ x).sum()
        seen[...] = 0.0
        loss.backward()
        np.testing.assert_allclose(w.grad.to_numpy(), A + A.sum(1)[None], rtol=1e-12)


def test_writes_reach_externally_shared_memory_at_once() -> None:
    for _ in range(TIMES):
        x, seen = exported()
        right = A.copy()
        for a in (x, right):
            a[1:, 1:] += a[0, 1:]
            a += 1.0
            a[a > 1.5] = 0.0
            a[2] = a[3]
        assert seen.tobytes() == right.tobytes() == x.to_numpy().tobytes()


def test_operations_are_lazy_again_after_an_export_is_released() -> None:
    x, seen = exported()
    assert (x + 1.0).node.buffer is not None
    del seen
    for _ in range(TIMES):
        assert (x + 1.0).node.buffer is None
