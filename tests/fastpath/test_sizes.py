"""New sizes of known operations need no planning and no binding, and the values are the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.errors import ReadOnlyError, ShapeError
from tenxor.fastpath import launch_records
from tenxor.graph import spec
from tenxor.runtime import generic_plans

pytestmark = pytest.mark.usefixtures("on")

X, Y, M = np.linspace(-3, 5, 400), np.linspace(2, -7, 400), np.linspace(-1, 4, 40 * 60).reshape(40, 60)


def filled(m: Any, n: int, value: Any) -> Any:
    m[3:7, 1:n] = value
    return m


def added(m: Any, n: int, value: Any) -> Any:
    m[n:, n:] += value
    return m


PROGRAMS: dict[str, Callable[[Any, Any, Any, int], Any]] = {
    "two views": lambda x, y, m, n: x[:n] + y[1 : n + 1],
    "a number": lambda x, y, m, n: x[:n] * 2.5 - 1,
    "backwards": lambda x, y, m, n: x[n::-1] - y[: n + 1],
    "rows": lambda x, y, m, n: m[:, :n] - m[:1, :n],
    "a sum": lambda x, y, m, n: x[:n].sum(),
    "a product": lambda x, y, m, n: m[:n, :n] @ y[:n],
    "writes": lambda x, y, m, n: filled(m, n, 7.5),
    "writes of a view": lambda x, y, m, n: filled(m, n, x[1:n]),
    "writes in place": lambda x, y, m, n: added(m, n, y[n:40, None] * x[None, n:60]),
}


def mismatch(name: str, n: int, x: Any, y: Any, m: Any) -> float:
    with np.errstate(all="ignore"):
        expected = PROGRAMS[name](X, Y, M.copy(), n)
    m[:] = M
    return float(np.abs(np.asarray(PROGRAMS[name](x, y, m, n).tolist()) - expected).max())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_at_new_sizes_are_neither_planned_nor_instantiated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, m = (tx.asarray(a.copy()).realize() for a in (X, Y, M))
    for n in (7, 9, 11, 13, 17, 18, 20, 22, 33, 34, 36, 38):  # shorter than vectors, and longer: these are planned otherwise
        assert mismatch(name, n, x, y, m) < 1e-11

    def never(*given: object) -> None:
        raise AssertionError("the frame of the first sizes is not used")

    for place, what in (
        (launch_records, "get_exact_plan"),
        (generic_plans.planner, "make_plan"),
        (generic_plans.GenericPlan, "instantiate"),
        (type(backend()), "bind"),
    ):
        monkeypatch.setattr(place, what, never)
    monkeypatch.setattr(launch_records.LaunchTemplate, "of", never)
    for n in (19, 21, 23, 25, 27, 31, 35, 37):
        assert mismatch(name, n, x, y, m) < 1e-11


def test_invalid_write_of_a_new_size_raises_and_writes_nothing() -> None:
    x, m = tx.asarray(X).realize(), tx.asarray(M).realize()
    for n in range(4, 20):
        with pytest.raises(ShapeError, match="assignment"):
            m[:n, :n] = x[: n + 1]
        with pytest.raises(ReadOnlyError, match="assignment"):
            m[:1, :n].expand((3, n))[:, :] = x[:n]
        with pytest.raises(tx.errors.DTypeError, match="complex"):
            m[:n, 0] = x[:n] * 1j
    assert m.tolist() == M.tolist()


def test_values_are_correct_for_large_and_small_sizes_in_turn() -> None:
    x = tx.asarray(np.arange(20_000.0)).realize()
    for n in (5, 11, 40, 3_000, 19_999, 41, 12_345, 42):
        assert (x[:n] * 3).sum().item() == 3 * n * (n - 1) / 2
        assert (x[:n] + 1).tolist() == [k + 1.0 for k in range(n)]


def test_row_operations_on_a_large_matrix_make_no_node_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 400))  # two megabytes
    weights = rng.normal(size=(400, 5))
    x, w = tx.asarray(values).realize(), tx.asarray(weights).realize()

    def check(k: int) -> None:
        assert abs(x[k].sum().item() - values[k].sum()) < 1e-11
        assert abs(x[k : k + 8].mean(0)[1:3].tolist() - values[k : k + 8].mean(0)[1:3]).max() < 1e-11
        assert abs((x[k] @ w).tolist() - values[k] @ weights).max() < 1e-11
        x[k + 1] = x[k] * 0.5 + 0.25
        values[k + 1] = values[k] * 0.5 + 0.25
        assert x[k + 1, 7].item() == values[k + 1, 7]

    for k in range(4):
        check(k)

    def never(*given: object, **named: object) -> None:
        raise AssertionError("an operation is written down by Python")

    monkeypatch.setattr(tx.graph.node.Node, "__init__", never)
    for k in range(5, 40):
        check(k)


def test_memory_held_by_pending_results_is_counted() -> None:
    """Results recorded by the fast path are counted, too."""
    for _ in range(4):
        x = tx.ones((512, 1024)).realize()
        tx.realize(x + 1, x.sum())
        before = tx.memory().waiting
        y = x + 1.0
        del x
        assert tx.memory().waiting - before == 512 * 1024 * 8
        assert y[0, 0].item() == 2
        assert tx.memory().waiting == before


BRIEF: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a MiB": lambda x, y, z: (x + 1.5) * x,
    "a product": lambda x, y, z: y @ z,
    "another product": lambda x, y, z: y @ y.mT,
    "a sum of one": lambda x, y, z: (y @ z).sum(),
}


@pytest.mark.parametrize("name", BRIEF)
def test_short_programs_are_not_planned_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = (tx.asarray(np.linspace(-2, 3, n, dtype=np.float32)).realize() for n in (256_000, 150 * 130, 130 * 140))
    y, z = y.reshape(150, 130), z.reshape(130, 140)
    wanted = [BRIEF[name](x, y, z).tolist() for _ in range(3)]

    def never(*given: object) -> None:
        raise AssertionError("Python plans what machine code has a frame for")

    monkeypatch.setattr(sys.modules["tenxor.runtime.realize"], "_find_plan", never)
    found = [BRIEF[name](x, y, z).realize() for _ in wanted]
    monkeypatch.undo()
    assert [t.tolist() for t in found] == wanted


@pytest.mark.parametrize("size", [50_000, 3_000, 7])
def test_call_with_equal_scalars_is_not_replayed_wrongly_for_different_scalars(size: int) -> None:
    """Replayed calls once read the very same scalar twice. A plan made then used it for both operands, which is wrong where they differ."""
    a, b = np.linspace(-3, 8, size), np.linspace(9, -4, size)
    x, y = tx.asarray(a).realize(), tx.asarray(b).realize()
    ends = [(0, 1), (0, 5), (0, 1.5), (-1, 5)]
    for _ in range(3):
        for low, high in ends:
            tx.realize(x.clip(low, high), y.clip(low, high))
        for one in ends:
            for other in ends:
                found = (x.clip(*one) + y.clip(*other)).to_numpy()
                assert abs(found - (a.clip(*one) + b.clip(*other))).max() < 1e-14


def test_table_of_views_keeps_thousands_of_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python makes few of them again: two views that belong in one row of the table are both there."""
    x = tx.zeros((500, 500)).realize()
    after = [(k, slice(k + 1, None)) for k in range(499)]
    keys = [key for k, rest in after for key in ((rest, rest), (rest, k), (rest, k, None), (k, rest))]
    for key in keys:
        assert x[key].shape
    asked: list[object] = []
    own = spec.intern_spec
    monkeypatch.setattr(spec, "intern_spec", lambda *given: asked.append(given[0]) or own(*given))
    for key in keys:
        assert x[key].shape
    assert len(asked) < 100
