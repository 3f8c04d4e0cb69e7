"""Test in-place operations on slices against NumPy. One kernel does the update if each element is computed from itself and elements
that are not written. Nothing is copied for small pending readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import STORE, UPDATE, Node
from tenxor.runtime import pending_limits, plan_execution
from tenxor.runtime.pending_limits import HELD_BYTES_ANY_RESULT
from tenxor.tensor.write_methods import WriteMethods

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def store_ops(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the list of operations by which slices are written from now on."""
    ops: list[object] = []
    real_stored = WriteMethods._build_stored_node

    def stored(self: Any, *args: Any, **named: Any) -> Node:
        node = real_stored(self, *args, **named)
        ops.append(node.op)
        return node

    monkeypatch.setattr(WriteMethods, "_build_stored_node", stored)
    return ops


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the list of shapes that are copied before a write from now on, as another tensor reads the memory."""
    shapes: list[object] = []
    real_memory_to_write = plan_execution._prepare_write_buffer

    def memory(old: Any, step: Any) -> Any:
        out = real_memory_to_write(old, step)
        if out is not old:
            shapes.append(step.shape)
        return out

    monkeypatch.setattr(plan_execution, "_prepare_write_buffer", memory)
    return shapes


Statement = Callable[[Any], None]


def scaled(x: Any) -> None:
    x[1:, 2:] *= 3


def by_column_and_row(x: Any) -> None:
    x[1:, 1:] -= x[1:, :1] * x[0, 1:]


def by_odd_rows(x: Any) -> None:
    x[::2] += x[1::2] * x[::2]


def by_other_half(x: Any) -> None:
    x[:, :4] += x[:, 4:][:, ::-1] + x[:, :4].copy()


def transposed(x: Any) -> None:
    x.T[2:5] += 1


def by_next_row(x: Any) -> None:
    x[:-1] += x[1:]


def by_mirror(x: Any) -> None:
    x[:, 1:] *= x[:, 1:][:, ::-1]


def by_written_row(x: Any) -> None:
    x[1:] += x[2]


def by_transpose(x: Any) -> None:
    x[1:7, 1:7] += x[1:7, 1:7].T


def by_sum(x: Any) -> None:
    x[1:] -= x[1:].sum(axis=0)


ONE_KERNEL: list[Statement] = [scaled, by_column_and_row, by_odd_rows, by_other_half, transposed]
TWO_KERNELS: list[Statement] = [by_next_row, by_mirror, by_written_row, by_transpose, by_sum]


@pytest.mark.parametrize("statement", ONE_KERNEL + TWO_KERNELS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int16])
def test_slice_update_is_one_kernel_unless_it_reads_written_values(statement: Statement, dtype: Any, store_ops: list[object]) -> None:
    array = (np.arange(64.0).reshape(8, 8) % 7).astype(dtype)
    for held in (False, True, False):
        expected, x = array.copy(), tx.asarray(array.copy())
        x = x + 0 if len(store_ops) > 1 else x.realize()
        before = x + 0 if held else None
        with np.errstate(all="ignore"):
            statement(expected)
        statement(x)
        assert np.array_equal(x.to_numpy(), expected)
        assert before is None or np.array_equal(before.to_numpy(), array)
    assert set(store_ops) == {UPDATE if statement in ONE_KERNEL else STORE}


def test_random_slice_updates_agree_with_numpy() -> None:
    """Slices of one tensor are updated from other slices: equal, disjoint or overlapping ones."""
    rng = np.random.default_rng(0)

    def key(size: int) -> slice:
        start, step = int(rng.integers(0, size)), int(rng.choice([1, 1, 2, 3, -1, -2]))
        length = int(rng.integers(1, 4))
        stop = start + step * length
        return slice(start, stop if stop >= 0 else None, step)

    for _ in range(600):
        array = rng.integers(1, 5, (9, 7)).astype(np.float64)
        expected, x = array.copy(), tx.asarray(array.copy())
        x = tx.where(x > 100.0, x, x) if rng.random() < 0.5 else x.realize()  # a pending tensor is overwritten once it is computed
        target = key(9), key(7)
        shape = expected[target].shape
        source_keys = [target if rng.random() < 0.3 else (key(9), key(7)) for _ in range(rng.integers(1, 4))]
        source_keys = [k for k in source_keys if expected[k].shape == shape] or [target]
        held_values = []

        def statement(a: Any) -> None:
            value = a[source_keys[0]] * 2.0  # noqa: B023
            for k in source_keys[1:]:  # noqa: B023
                value = value - a[k]
            if held:  # noqa: B023
                held_values.append(value)  # noqa: B023
            a[target] += value  # noqa: B023

        held = rng.random() < 0.5
        statement(expected), statement(x)
        assert np.array_equal(x.to_numpy(), expected), (target, source_keys)
        assert not held or np.array_equal(np.asarray(held_values[1]), held_values[0])


N = HELD_BYTES_ANY_RESULT // 8 + 5000


@pytest.mark.parametrize("spent", [True, False])
def test_update_of_a_slice_by_other_elements_makes_no_copy(copied: list[object], spent: bool) -> None:
    expected = np.arange(float(N))
    x = tx.asarray(expected.copy()).realize()
    for _ in range(2):
        for a in (expected, x):
            if spent:
                a[10:3000] += a[3000:5990] * 2.0
                a[10:3000] *= a[10:3000] + a[20:3010]
            else:
                a[10:3000] = a[20:3010] * 2.0
                a[5:7] = a[10:3000].sum()
    assert np.array_equal(x.to_numpy(), expected) and not copied


def test_small_pending_readers_are_computed_before_the_write_without_a_copy(copied: list[object]) -> None:
    x = tx.asarray(np.arange(float(N))).realize()
    small = x[3:9] * 2.0
    further = tx.exp(small * 0.0) + small
    x[5] = 100.0
    x[4:6] += 1.0
    assert small.tolist() == [6.0, 8.0, 10.0, 12.0, 14.0, 16.0] and further.tolist() == [7.0, 9.0, 11.0, 13.0, 15.0, 17.0]
    assert x[3:7].tolist() == [3.0, 5.0, 101.0, 6.0] and not copied
    large = x.expand_dims(1) + tx.zeros(2)  # to compute it would take more than a copy does
    x[0] = 7.0
    assert len(copied) == 1 and large.node.buffer is None and large[0].tolist() == [0.0, 0.0]


def test_expensive_pending_readers_stay_pending_and_the_memory_is_copied(copied: list[object]) -> None:
    x = tx.asarray(np.arange(float(N))).realize()
    waves = [tx.sin(x * float(k)) for k in range(10)]
    square = x[: 300 * 300].reshape(300, 300)
    products = [(square * float(k)) @ square for k in range(3)]
    x[0] = 1.0
    assert len(copied) == 1 and all([t.node.buffer is None for t in (*waves, *products)])
    assert waves[2][0].item() == 0.0


def test_write_does_not_search_pending_readers_of_other_memory(monkeypatch: pytest.MonkeyPatch, copied: list[object]) -> None:
    source = tx.asarray(np.arange(float(N))).realize()
    chain = source
    for _ in range(50):
        chain = tx.sin(chain) * 1.01 + source
    x = tx.zeros(N).realize()
    monkeypatch.setattr(pending_limits, "_is_cheap", lambda readers: pytest.fail("all that waits was looked through"))
    x[10:3000] += x[3000:5990] + 1.0
    x[5:7] = x[9:11] * 2.0
    assert x[4:12].tolist() == [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0] and not copied
    assert chain.node.buffer is None


def test_write_inside_vmap_realizes_no_traced_value() -> None:
    def sum_after_write(v: Any) -> Any:
        x = tx.zeros(N).realize()
        doubled = x * 2.0
        x[:2] = v * 1.0
        return x[:4].sum() + doubled[0]

    assert tx.vmap(sum_after_write)(tx.asarray(np.ones((3, 2)))).tolist() == [2.0, 2.0, 2.0]


def test_successive_updates_of_a_pending_tensor_are_each_applied_once() -> None:
    """Several updates in a row of a pending tensor are computed together."""
    x = tx.asarray(np.arange(12.0))
    y = x * 1.0
    y[2:] += 1.0
    y[:6] *= y[6:]
    y[2:] += 1.0
    total = y.sum()
    expected = np.arange(12.0)
    expected[2:] += 1.0
    expected[:6] *= expected[6:]
    expected[2:] += 1.0
    assert total.item() == expected.sum() and y.tolist() == expected.tolist()


def test_gradient_through_slice_updates_equals_finite_differences() -> None:
    def total(x: Any) -> Any:
        y = x * 1.0
        y[1:] *= y[:1]
        y[:2] += y[2:] * 3.0
        return (y * tx.asarray([1.0, 2.0, 3.0, 4.0])).sum()

    x = tx.asarray([2.0, 3.0, 5.0, 7.0])
    step = 1e-6
    gradient = tx.grad(total)(x).to_numpy()
    for k in range(4):
        offset = np.zeros(4)
        offset[k] = step
        slope = (total(x + tx.asarray(offset)).item() - total(x - tx.asarray(offset)).item()) / (2 * step)
        assert abs(slope - gradient[k]) < 1e-5
