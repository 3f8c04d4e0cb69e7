"""In-place operations on slices: one kernel if each element reads only itself or elements that are not overwritten.

Nothing is copied for pending readers. NumPy is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import pending
from tenxor.node import STORE, UPDATE, Node
from tenxor.pending import LARGE
from tenxor.plans import steps
from tenxor.tensor.writing import Writing

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def write_operations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the operations of all slice writes."""
    found: list[object] = []
    own = Writing._stored

    def stored(self: Any, *given: Any, **named: Any) -> Node:
        node = own(self, *given, **named)
        found.append(node.op)
        return node

    monkeypatch.setattr(Writing, "_stored", stored)
    return found


@pytest.fixture
def copied_shapes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the shapes of memory copied because of other readers."""
    found: list[object] = []
    own = steps._memory_to_write

    def memory(old: Any, step: Any) -> Any:
        out = own(old, step)
        if out is not old:
            found.append(step.shape)
        return out

    monkeypatch.setattr(steps, "_memory_to_write", memory)
    return found


Statement = Callable[[Any], None]


def scale_slice(x: Any) -> None:
    x[1:, 2:] *= 3


def subtract_outer_product(x: Any) -> None:
    x[1:, 1:] -= x[1:, :1] * x[0, 1:]


def add_interleaved_rows(x: Any) -> None:
    x[::2] += x[1::2] * x[::2]


def add_other_half(x: Any) -> None:
    x[:, :4] += x[:, 4:][:, ::-1] + x[:, :4].copy()


def increment_transposed(x: Any) -> None:
    x.T[2:5] += 1


def add_next_row(x: Any) -> None:
    x[:-1] += x[1:]


def multiply_by_mirror(x: Any) -> None:
    x[:, 1:] *= x[:, 1:][:, ::-1]


def add_row_of_itself(x: Any) -> None:
    x[1:] += x[2]


def add_transpose(x: Any) -> None:
    x[1:7, 1:7] += x[1:7, 1:7].T


def subtract_own_sum(x: Any) -> None:
    x[1:] -= x[1:].sum(axis=0)


ONE_KERNEL: list[Statement] = [scale_slice, subtract_outer_product, add_interleaved_rows, add_other_half, increment_transposed]
TWO: list[Statement] = [add_next_row, multiply_by_mirror, add_row_of_itself, add_transpose, subtract_own_sum]


@pytest.mark.parametrize("statement", ONE_KERNEL + TWO, ids=lambda s: s.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int16])
def test_slice_updates_are_one_kernel_where_possible(statement: Statement, dtype: Any, write_operations: list[object]) -> None:
    array = (np.arange(64.0).reshape(8, 8) % 7).astype(dtype)
    for held in (False, True, False):
        own, x = array.copy(), tx.asarray(array.copy())
        x = x + 0 if len(write_operations) > 1 else x.realize()
        before = x + 0 if held else None
        with np.errstate(all="ignore"):
            statement(own)
        statement(x)
        assert np.array_equal(x.to_numpy(), own)
        assert before is None or np.array_equal(before.to_numpy(), array)
    assert set(write_operations) == {UPDATE if statement in ONE_KERNEL else STORE}


def test_random_slice_updates_equal_numpy() -> None:
    """Operands have the layout of the target, or are disjoint from it, or neither."""
    rng = np.random.default_rng(0)

    def key(size: int) -> slice:
        start, step = int(rng.integers(0, size)), int(rng.choice([1, 1, 2, 3, -1, -2]))
        length = int(rng.integers(1, 4))
        stop = start + step * length
        return slice(start, stop if stop >= 0 else None, step)

    for _ in range(600):
        array = rng.integers(1, 5, (9, 7)).astype(np.float64)
        own, x = array.copy(), tx.asarray(array.copy())
        x = tx.where(x > 100.0, x, x) if rng.random() < 0.5 else x.realize()  # what waits is written over when it is computed
        target = key(9), key(7)
        shape = own[target].shape
        others = [target if rng.random() < 0.3 else (key(9), key(7)) for _ in range(rng.integers(1, 4))]
        others = [k for k in others if own[k].shape == shape] or [target]
        kept = []

        def statement(a: Any) -> None:
            value = a[others[0]] * 2.0  # noqa: B023
            for k in others[1:]:  # noqa: B023
                value = value - a[k]
            if held:  # noqa: B023
                kept.append(value)  # noqa: B023
            a[target] += value  # noqa: B023

        held = rng.random() < 0.5
        statement(own), statement(x)
        assert np.array_equal(x.to_numpy(), own), (target, others)
        assert not held or np.array_equal(np.asarray(kept[1]), kept[0])


N = LARGE // 8 + 5000


@pytest.mark.parametrize("spent", [True, False])
def test_update_from_other_slices_makes_no_copy(copied_shapes: list[object], spent: bool) -> None:
    own = np.arange(float(N))
    x = tx.asarray(own.copy()).realize()
    for _ in range(2):
        for a in (own, x):
            if spent:
                a[10:3000] += a[3000:5990] * 2.0
                a[10:3000] *= a[10:3000] + a[20:3010]
            else:
                a[10:3000] = a[20:3010] * 2.0
                a[5:7] = a[10:3000].sum()
    assert np.array_equal(x.to_numpy(), own) and not copied_shapes


def test_small_pending_readers_are_computed_before_an_update(copied_shapes: list[object]) -> None:
    x = tx.asarray(np.arange(float(N))).realize()
    small = x[3:9] * 2.0
    further = tx.exp(small * 0.0) + small
    x[5] = 100.0
    x[4:6] += 1.0
    assert small.tolist() == [6.0, 8.0, 10.0, 12.0, 14.0, 16.0] and further.tolist() == [7.0, 9.0, 11.0, 13.0, 15.0, 17.0]
    assert x[3:7].tolist() == [3.0, 5.0, 101.0, 6.0] and not copied_shapes
    large = x.expand_dims(1) + tx.zeros(2)  # to compute it would take more than a copy does
    x[0] = 7.0
    assert len(copied_shapes) == 1 and large.node.buffer is None and large[0].tolist() == [0.0, 0.0]


def test_expensive_pending_readers_stay_pending(copied_shapes: list[object]) -> None:
    x = tx.asarray(np.arange(float(N))).realize()
    waves = [tx.sin(x * float(k)) for k in range(10)]
    square = x[: 300 * 300].reshape(300, 300)
    products = [(square * float(k)) @ square for k in range(3)]
    x[0] = 1.0
    assert len(copied_shapes) == 1 and all([t.node.buffer is None for t in (*waves, *products)])
    assert waves[2][0].item() == 0.0


def test_update_does_not_search_readers_of_other_memory(monkeypatch: pytest.MonkeyPatch, copied_shapes: list[object]) -> None:
    other = tx.asarray(np.arange(float(N))).realize()
    chain = other
    for _ in range(50):
        chain = tx.sin(chain) * 1.01 + other
    x = tx.zeros(N).realize()
    monkeypatch.setattr(pending, "_is_little", lambda readers: pytest.fail("all that waits was looked through"))
    x[10:3000] += x[3000:5990] + 1.0
    x[5:7] = x[9:11] * 2.0
    assert x[4:12].tolist() == [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0] and not copied_shapes
    assert chain.node.buffer is None


def test_update_with_a_tracer_asks_for_no_value() -> None:
    def write_slice(v: Any) -> Any:
        x = tx.zeros(N).realize()
        kept = x * 2.0
        x[:2] = v * 1.0
        return x[:4].sum() + kept[0]

    assert tx.vmap(write_slice)(tx.asarray(np.ones((3, 2)))).tolist() == [2.0, 2.0, 2.0]


def test_updates_in_a_row_are_applied_once() -> None:
    x = tx.asarray(np.arange(12.0))
    y = x * 1.0
    y[2:] += 1.0
    y[:6] *= y[6:]
    y[2:] += 1.0
    total = y.sum()
    own = np.arange(12.0)
    own[2:] += 1.0
    own[:6] *= own[6:]
    own[2:] += 1.0
    assert total.item() == own.sum() and y.tolist() == own.tolist()


def test_gradients_pass_through_slice_updates() -> None:
    def total(x: Any) -> Any:
        y = x * 1.0
        y[1:] *= y[:1]
        y[:2] += y[2:] * 3.0
        return (y * tx.asarray([1.0, 2.0, 3.0, 4.0])).sum()

    x = tx.asarray([2.0, 3.0, 5.0, 7.0])
    step = 1e-6
    found = tx.grad(total)(x).to_numpy()
    for k in range(4):
        by = np.zeros(4)
        by[k] = step
        slope = (total(x + tx.asarray(by)).item() - total(x - tx.asarray(by)).item()) / (2 * step)
        assert abs(slope - found[k]) < 1e-5
