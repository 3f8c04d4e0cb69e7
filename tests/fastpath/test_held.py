"""Held intermediate results of a graph that is computed as a whole are computed before or with it, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import graph_launch

pytestmark = pytest.mark.usefixtures("on")
TIMES = 4
RNG = np.random.default_rng(11)
X = tx.asarray(RNG.normal(size=(40, 50))).realize()
Y = tx.asarray(RNG.normal(size=(50, 40))).realize()

HELD: dict[str, Callable[[], tuple[Any, Any]]] = {
    "a running sum": lambda: _both(X.cumsum(axis=1), lambda t: t * 2.0 + X),
    "a running extreme": lambda: _both(tx.cummin(X, axis=0).values, lambda t: t - X),
    "a sum of rows": lambda: _both((X * 2.0).exp().sum(axis=1), lambda t: X / t[:, None]),
    "a sum across rows": lambda: _both((X + 1.0).sum(axis=0), lambda t: X - t),
    "a sum of what lies otherwise": lambda: _both((X.mT + Y).sum(axis=1), lambda t: Y * t[:, None]),
    "a sum of a broadcast": lambda: _both((X[:, :1] * X).sum(axis=1), lambda t: X + t[:, None]),
    "a product": lambda: _both(X @ Y, lambda t: t.tanh() + 1.0),
    "a sum of a row, repeated": lambda: _both(_less_its_mean(tx.broadcast_to(X[0], (7, 50)) * 2), lambda t: tx.sin(t).sum()),
    "an extreme of a sum": lambda: _both(X.sum(axis=1), lambda t: (X - t[:, None]).max(axis=0)),
}


def _both(held: Any, made: Callable[[Any], Any]) -> tuple[Any, Any]:
    return held, made(held)


def _less_its_mean(x: Any) -> Any:
    """Nobody holds the intermediate results."""
    return x - x.mean(axis=0)


@pytest.mark.parametrize("name", list(HELD))
def test_values_of_held_results_match_python_whichever_is_read_first(name: str) -> None:
    for first in (0, 1):

        def outcome(first: int = first) -> list[bytes]:
            pair = HELD[name]()
            pair[first].realize()
            return [t.to_numpy().tobytes() for t in pair]

        with fastpath.disabled():
            wanted = outcome()
        assert [outcome() for _ in range(TIMES)] == [wanted] * TIMES


def test_loop_with_held_cumulative_minima_is_not_planned_again(planned: list[object]) -> None:
    place, letters = tx.arange(51), tx.asarray(RNG.integers(0, 4, 50))

    def rows(times: int) -> list[int]:
        above, kept = place, None
        for _ in range(times):
            best = above + 1
            best[1:] = tx.minimum(best[1:], above[:-1] + (letters != 2))
            kept = tx.cummin(best - place).values
            above = kept + place
        assert kept is not None
        return above.tolist()  # type: ignore[no-any-return]

    found = rows(8)
    planned.clear()
    assert rows(40) != found and not planned
    with fastpath.disabled():
        assert rows(8) == found and planned


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("shape", "make"), [((260, 300), lambda x: x.exp()), ((5, 7), lambda x: x.sin().exp().sin().exp())], ids=["large", "expensive"]
)
def test_expensive_inlined_node_is_not_computed_twice(shape: tuple[int, int], make: Callable[[tx.Tensor], tx.Tensor]) -> None:
    """The node is held by another tensor, so it is stored when its first reader is computed."""
    x = tx.asarray(RNG.normal(size=shape)).realize()
    for k in range(TIMES):
        held = make(x * float(k + 1))
        found = held + x
        found.realize()
        is_there = held.node.buffer is not None
        assert is_there or not k
        assert np.array_equal(found.to_numpy(), held.to_numpy() + x.to_numpy())


W, B, LARGE_ROWS = (tx.asarray(RNG.normal(size=shape)).realize() for shape in ((50, 50), 50, (30, 20_000)))


def _layers() -> Any:
    """Return the loss of some layers: several nodes, whose sums differ if computed alone while their operands are cached."""
    h = X
    for _ in range(4):
        h = tx.tanh(h @ W + B)
    return -tx.log(tx.softmax(h, 1).max(axis=1)).mean()


def _walk() -> Any:
    """Return a chain with one step for each of many rows, which are large slices of a tensor in memory."""
    x = LARGE_ROWS[0]
    for row in LARGE_ROWS[1:]:
        x = tx.where(row < x, x + row, x)
    return x


@pytest.mark.parametrize("make", [_layers, _walk])
def test_large_pending_graph_is_not_planned_while_it_grows(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(TIMES):
        make()
    asked: list[object] = []
    own = graph_launch.get_plan
    monkeypatch.setattr(graph_launch, "get_plan", lambda *given, **named: asked.append(given) or own(*given, **named))
    graph_launch.drop_graph_records()
    found = make()
    assert not asked and found.node.buffer is None
    with fastpath.disabled():
        assert found.to_numpy().tobytes() == make().to_numpy().tobytes()
