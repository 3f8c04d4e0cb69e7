"""Test results written to the memory of their last-used operands: where this is done, where it must not be, and that values agree."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.runtime import plan_execution
from tenxor.tensor import Tensor

from .fuzz.running import check_seed
from .machines import tune

pytestmark = pytest.mark.usefixtures("plain")  # without the fast path, so that plans compute small tensors, too

N = 600


@pytest.fixture(autouse=True)
def _at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, thread_limits={"min_donated_bytes": 0})


def address(t: Tensor) -> int:
    buffer = t.storage.node.buffer
    assert buffer is not None
    return buffer.address


def numbers(n: int = N) -> Tensor:
    return tx.asarray(np.arange(n, dtype=np.float32))


def check(make: Callable[[Tensor], Tensor], *, taken: bool, shape: tuple[int, ...] = (N,)) -> None:
    """Check that `make` gives equal values whether its argument lives on or not, and reuses its memory if `taken`."""
    x = numbers().reshape(shape)
    expected = make(x).tolist()
    x = numbers().reshape(shape)
    operand_address = address(x)
    x = make(x)
    x.realize()
    assert x.tolist() == expected
    assert (address(x) == operand_address) == taken


class TestOperandMemoryIsReused:
    @pytest.mark.parametrize(
        "make",
        [
            lambda x: x + 1,
            lambda x: x * x - x,
            lambda x: tx.exp(tx.sin(x) * 2) + tx.where(x > 3, x, -x),
            lambda x: x.reshape(20, 30) + 1,
            lambda x: x.reshape(20, 30).T + 1,  # in the order of x
            lambda x: x.reshape(20, 30) + tx.arange(30, dtype=tx.float32),
            lambda x: x.reshape(20, 30) * tx.asarray(np.ones((30, 20), np.float32)).T,  # which is read through tiles
            lambda x: x + tx.asarray(np.ones((5, N))).sum(axis=0).astype(tx.float32),
            lambda x: x.astype(tx.int32),
            lambda x: tx.where(x > 2, 1.0, x),
            lambda x: x[:, None] + 1,
            lambda x: x.view(tx.int32).view(tx.float32) + 1,
        ],
    )
    def test_operand_memory_is_reused_when_the_result_reads_each_element_where_it_writes(self, make: Callable[[Tensor], Tensor]) -> None:
        check(make, taken=True)

    def test_operand_memory_is_reused_in_every_iteration_of_a_loop(self) -> None:
        x = numbers()
        operand_address = address(x)
        for k in range(10):
            x = x + k
            assert address(x.realize()) == operand_address
            x *= 2
            assert address(x.realize()) == operand_address
        assert x[0].item() == sum(k << (10 - k) for k in range(10))

    def test_operand_memory_is_reused_when_the_operand_is_an_intermediate_result(self) -> None:
        x = numbers()
        start = tx.memory(reset_peak=True).in_use
        y = tx.exp(tx.cumulative_sum(x, axis=0) / 1e6)
        y.realize()
        assert tx.memory().peak - start < 2 * x.nbytes
        assert np.allclose(y.to_numpy(), np.exp(np.cumsum(x.to_numpy()) / 1e6))

    def test_operand_memory_is_reused_by_only_one_of_two_results(self) -> None:
        """Two results cannot share memory: the last reader of the operand reuses it."""
        x = numbers()
        operand_address = address(x)
        y, z = x + 1, x * 2
        del x
        tx.realize(y, z)
        assert address(z) == operand_address != address(y)  # the last to read it
        assert y.tolist() == [k + 1 for k in range(N)] and z.tolist() == [2 * k for k in range(N)]

    @pytest.mark.large
    @pytest.mark.parametrize("count", [1, 3])
    def test_operand_memory_is_reused_at_every_length_and_dtype(self, count: int, threads: Callable[[int], None]) -> None:
        threads(count)
        for n in [*range(1, 140), 255, 256, 257, 1000, 4097, 300_001, 1_200_007]:
            for dtype in (np.int8, np.float32, np.float64):
                array = np.arange(n).astype(dtype)
                x = tx.asarray(array)
                operand_address = address(x)
                x = x * x - x * 2 + 3
                assert address(x.realize()) == operand_address
                assert np.array_equal(x.to_numpy(), array * array - array * dtype(2) + dtype(3))


class TestOperandMemoryIsNotReused:
    @pytest.mark.parametrize(
        "make",
        [
            lambda x: x[::-1] + 1,
            lambda x: x + x[::-1],
            lambda x: x[::-1] + x,
            lambda x: x[1:] + 1,
            lambda x: x.reshape(20, 30)[:, 0] + 1,
            lambda x: x + x.reshape(20, 30).T.reshape(-1),
            lambda x: x.reshape(20, 30) + x.reshape(30, 20).T,
            lambda x: x - x.max(),
            lambda x: x.max() - x,
            lambda x: x.reshape(20, 30) / x.reshape(20, 30).sum(axis=0),
            lambda x: tx.softmax(x.reshape(20, 30), axis=0),
            lambda x: tx.softmax(x.reshape(20, 30), axis=1),
            lambda x: x.reshape(20, 30) / x.reshape(20, 30).sum(axis=1, keepdims=True),
            lambda x: x.reshape(20, 30).oindex[list(range(19, -1, -1))] + 1,
            lambda x: tx.cumulative_sum(x, axis=0),
            lambda x: x[:, None] + tx.arange(2),
            lambda x: x.astype(tx.float64),
            lambda x: x.astype(tx.float16),
            lambda x: x > 5,
        ],
    )
    def test_operand_memory_is_not_reused_when_the_result_has_another_layout_or_item_size(self, make: Callable[[Tensor], Tensor]) -> None:
        check(make, taken=False)

    @pytest.mark.parametrize(
        "keep",
        [
            lambda x: x,
            lambda x: x.T,
            lambda x: x.storage,
            lambda x: x.storage.node,
            lambda x: x.storage.node.buffer,
            lambda x: x[3:] * 2,
            lambda x: tx.exp(x).sum(),
            lambda x: np.asarray(x),
            lambda x: np.from_dlpack(x),
            lambda x: x.view(tx.int32),
            lambda x: x.copy(),
        ],
    )
    def test_operand_memory_is_not_reused_while_another_reference_can_read_the_operand(self, keep: Callable[[Tensor], object]) -> None:
        x = numbers()
        operand_address = address(x)
        reference = keep(x)
        x = x + 1
        assert address(x.realize()) != operand_address
        if isinstance(reference, Tensor | np.ndarray):
            assert reference.tolist() == keep(numbers()).tolist()  # type: ignore[attr-defined]

    def test_operand_memory_is_not_reused_while_a_pending_tensor_may_be_computed_from_it_again(self) -> None:
        x = numbers()
        operand_address = address(x)
        y = x + 1
        z = tx.exp(-y)
        del x
        z.realize()  # inlines y
        assert address(z) != operand_address and y.storage.node.buffer is None
        assert y.tolist() == [k + 1 for k in range(N)]

    def test_operand_memory_is_not_reused_while_a_pending_tensor_reads_it_through_another_node(self) -> None:
        x = numbers()
        operand_address = address(x)
        y = tx.sin(x * 2)
        z = y * 3 + x
        del x
        z.realize()
        assert address(z) != operand_address
        assert np.allclose(y.to_numpy(), np.sin(np.arange(N) * 2.0), atol=1e-4)

    def test_operand_memory_is_not_reused_if_numpy_owns_the_memory(self) -> None:
        for copy in (False, None):
            array = np.arange(N, dtype=np.float32)
            array.flags.writeable = copy is False
            x = tx.asarray(array, copy=copy)
            assert address(x) == array.ctypes.data
            x = x + 1
            x.realize()
            assert array.tolist() == list(range(N)) and x[5].item() == 6.0

    def test_operand_memory_is_not_reused_if_the_memory_belongs_to_a_bytes_object(self) -> None:
        content = np.arange(N, dtype=np.float32).tobytes()
        x = tx.asarray(np.frombuffer(content, np.float32))
        x = x + 1
        assert x.realize()[5].item() == 6.0 and content == np.arange(N, dtype=np.float32).tobytes()

    def test_operand_memory_is_not_reused_if_the_operand_is_below_the_size_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tune(monkeypatch, thread_limits={"min_donated_bytes": 1 << 20})
        check(lambda x: x + 1, taken=False)


@pytest.mark.large
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
@pytest.mark.usefixtures("unobserved")
def test_interrupted_in_place_result_can_still_be_computed() -> None:
    """After an interrupt, either the operand or the result is complete."""

    class Alarm(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    x = tx.zeros(1 << 20, dtype=tx.float32).realize()
    rung = 0
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for k in range(1, 301):
            x = x + 1
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 + 3e-6 * k)
                    x.realize()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarm:
                rung += 1
            assert x.realize()[0].item() == x[-1].item() == k
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rung >= 10, "nothing was interrupted"
    assert (x - x[0]).count_nonzero().item() == 0


def test_random_programs_agree_with_numpy_at_any_in_place_size() -> None:
    for seed in range(1_000_000, 1_000_050):
        check_seed(seed)


def test_copy_of_old_elements_for_a_pending_reader_is_complete_for_any_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made in portions, between which signals are handled."""
    for portion in (1, 24, 100, 800, 4096):
        monkeypatch.setattr(plan_execution, "_COPY_CHUNK_BYTES", portion)
        t = tx.arange(100.0).realize()
        before = t * 1.0  # still to read what is overwritten
        t[3:5] = 7.0
        assert t.tolist() == [0.0, 1.0, 2.0, 7.0, 7.0, *range(5, 100)]
        assert before.tolist() == list(range(100))


@pytest.mark.parametrize("key", [0, slice(0, 3), [4, 2]], ids=["element", "slice", "indices"])
def test_second_write_to_a_large_pending_tensor_is_done_at_once(key: Any) -> None:
    """Otherwise each step of a loop of writes adds a pending node, and takes 30 µs instead of one."""
    x = tx.zeros(200_000)
    x[7] = 1.0
    assert x.storage.node.buffer is None
    x[key] = 2.0
    x[9] = 3.0
    assert x.storage.node.buffer is not None
    expected = np.zeros(200_000)
    expected[7], expected[key], expected[9] = 1.0, 2.0, 3.0
    assert np.array_equal(x.numpy(), expected)
