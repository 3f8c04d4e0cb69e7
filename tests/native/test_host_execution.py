"""NumPy on the memory of tensors: operands are read in place, and results are new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import Event
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import LinearAlgebraError, ShapeError
from tenxor.native import host_execution
from tenxor.native.batch_threads import run_in_threads
from tenxor.native.host_execution import HostOperand, run_host_op, view_operand
from tenxor.native.host_op_table import HOST_OPS, HostOp

Array = np.ndarray[Any, Any]


def operand(t: tx.Tensor) -> HostOperand:
    return HostOperand(t.node, t.layout, t.dtype)


@pytest.fixture
def three_threads(threads: Callable[[int], None]) -> None:
    threads(3)


def spy(signature: str, takes_out: bool = False, cost: int = 0, most: float = float("inf")) -> tuple[HostOp, list[Array]]:
    """Return an operation that doubles its last operand, and the list of arrays that it received."""
    met: list[Array] = []

    def call(*arrays: Array, out: Array | None = None) -> Array:
        met.extend(arrays)
        return np.multiply(arrays[-1], 2, out=out)

    return HostOp("spy", signature, "same", call, cost, "n", most, takes_out=takes_out), met


@pytest.mark.parametrize("move", [lambda t: t, lambda t: t.T, lambda t: t[::-1, ::2], lambda t: t[1], lambda t: t[:0]])
def test_strided_views_are_read_without_a_copy(move: Any) -> None:
    t = tx.arange(24, dtype=tx.float64).reshape(4, 6).realize()
    view = move(t)
    op, met = spy("n -> n")
    (found,) = run_host_op(op, [operand(view)], {}, {})
    memory = t.storage.node.buffer
    assert memory is not None and memory.externally_shared == 0
    np.testing.assert_array_equal(met[0], move(np.arange(24.0).reshape(4, 6)))
    assert view.size == 0 or np.shares_memory(met[0], memory.array)
    assert not met[0].flags.writeable
    assert found.buffer is not None and found.buffer.address % 64 == 0


def test_views_without_strides_are_copied_by_a_kernel() -> None:
    t = tx.arange(24, dtype=tx.float32).reshape(4, 6).realize()
    for view in (t.T.reshape(8, 3), t.oindex[[3, 0, 0]]):
        node, array = view_operand(operand(view))
        np.testing.assert_array_equal(array, view.to_numpy())
        assert node is not t.node and array.flags.c_contiguous


def test_pending_operand_is_computed_once() -> None:
    t = tx.ones(8) * 3
    node, array = view_operand(operand(t))
    assert node is t.storage.node and node.buffer is not None and array.tolist() == [3.0] * 8


def test_later_write_does_not_change_an_operand_array() -> None:
    t = tx.ones(100_000).realize()
    node, array = view_operand(operand(t))
    t[...] = 5.0
    t[3:7] = 6.0
    t.realize()
    assert node.buffer is not None and (array == 1.0).all() and t[4].item() == 6.0


def test_host_results_count_toward_the_memory_limit() -> None:
    t = tx.ones((1000, 1000)).realize()
    tx.set_memory_limit(tx.memory().in_use + 1_000_000)
    try:
        with pytest.raises(MemoryError, match=r"spy: no memory for \(1000, 1000\) float64"):
            run_host_op(spy("n -> n")[0], [operand(t)], {}, {})
        with pytest.raises(MemoryError, match="8000000 bytes"):
            tx.sort(t)
    finally:
        tx.set_memory_limit(None)


@pytest.mark.parametrize("into", [False, True])
def test_batches_are_shared_by_threads(into: bool, three_threads: None) -> None:
    op, met = spy("n -> n", takes_out=into, cost=10_000)
    x = tx.arange(6000, dtype=tx.float64).reshape(2, 300, 10)
    (found,) = run_host_op(op, [operand(x)], {}, {})
    assert len(met) >= 3 and {a.shape[0] for a in met} == {2} and sum(a.shape[1] for a in met) == 300
    assert found.buffer is not None
    np.testing.assert_array_equal(found.buffer.typed_view(tx.float64)[:6000], np.arange(6000) * 2.0)


def test_large_matrices_are_left_to_numpy_threads(three_threads: None) -> None:
    op, met = spy("n -> n", cost=1_000_000, most=1e6)
    run_host_op(op, [operand(tx.ones((20, 10)))], {}, {})
    assert len(met) == 1


def test_batch_axes_broadcast_and_whole_operands_do_not() -> None:
    op, met = spy("=n m -> m")
    (found,) = run_host_op(op, [operand(tx.ones(4)), operand(tx.ones((3, 1, 2)))], {}, {})
    assert [a.shape for a in met] == [(4,), (3, 1, 2)] and found.shape == (3, 1, 2)
    op, met = spy("n m -> m")
    (found,) = run_host_op(op, [operand(tx.ones((5, 4))), operand(tx.ones((3, 1, 2)))], {}, {})
    assert [a.shape for a in met] == [(3, 5, 4), (3, 5, 2)] and found.shape == (3, 5, 2)
    with pytest.raises(ShapeError, match=r"spy: shapes \(5, 4\), \(3, 2\) do not fit"):
        run_host_op(op, [operand(tx.ones((5, 4))), operand(tx.ones((3, 2)))], {}, {})


def test_error_names_the_first_singular_matrix() -> None:
    matrices = np.zeros((3, 2, 2, 2)) + np.eye(2)
    matrices[1, 1] = matrices[2, 0] = 1.0
    with pytest.raises(LinearAlgebraError, match=r"inv: the matrix at \(1, 1\) is singular and has no inverse; tx.linalg.pinv"):
        run_host_op(HOST_OPS["inv"], [operand(tx.asarray(matrices))], {}, {})
    with pytest.raises(np.linalg.LinAlgError, match="inv: the matrix is singular"):
        run_host_op(HOST_OPS["inv"], [operand(tx.asarray(matrices[1, 1]))], {}, {})


def test_run_in_threads_covers_every_index_once(three_threads: None) -> None:
    for extent in (1, 2, 7, 100):
        for work in (1, 10**8, 10**10):
            done: list[int] = []
            run_in_threads(lambda begin, end, done=done: done.extend(range(begin, end)), extent, work)
            assert sorted(done) == list(range(extent))


def test_run_in_threads_raises_the_error_of_any_thread(three_threads: None) -> None:
    def part(begin: int, end: int) -> None:
        if threading.current_thread() is not threading.main_thread() or begin > 90:
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        run_in_threads(part, 100, 10**9)
    assert not [t for t in threading.enumerate() if t.name.startswith("tenxor-host")]


def test_every_host_operation_declares_its_dtypes() -> None:
    for op in HOST_OPS.values():
        assert len(op.dtype_rules) == len(op.result_axes) and op.infer_dtypes(tx.float32)
        assert op.overwrites_operand + op.takes_out <= 1 and op.overwrites_operand <= (len(op.result_axes) == 1)


def test_stopped_batch_begins_no_further_matrix() -> None:
    """Each matrix takes long, and the waiting caller may be gone between two of them."""
    over, met = Event(), list[float]()

    def call(x: Array) -> Array:
        met.append(float(x[0, 0]))
        if len(met) == 2:
            over.set()
        return x.sum(axis=-1)

    op = HostOp("sum", "n -> _", "same", call, 1, "n", 3e4)
    given, found = np.arange(5.0).repeat(3).reshape(5, 3), np.full(5, -1.0)
    host_execution._compute_batch(op, [given], [found], (5,), 10**9, {}, over)
    assert (met, found.tolist()) == ([0.0, 1.0], [0.0, 3.0, -1.0, -1.0, -1.0])
    host_execution._compute_batch(op, [given], [found], (5,), 10**9, {}, Event())
    assert found.tolist() == [0.0, 3.0, 6.0, 9.0, 12.0]


def test_only_work_of_a_tenth_of_a_second_runs_in_a_new_thread() -> None:
    """The system maps the memory of a new thread page by page."""
    apart = list[bool]()
    for rows in (500, 2000):
        op, _ = spy("nn -> nn", cost=12, most=3e4)
        op.cost_axes = "nnn"
        apart.append(host_execution._is_long(op, 12 * rows**3, 1))
    assert apart == [False, True]
