"""Signals while memory is allocated or freed: the counts stay exact, and nothing is lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import tenxor as tx
from tenxor.memory.block_pool import HUGE_PAGE_BYTES, Pool, capacity_of, pool
from tenxor.memory.buffer import Buffer, allocate
from tests.processes import python

from .conftest import free_bytes

MODULES = ("tenxor.memory.block_pool", "tenxor.memory.buffer")
SIZES = (64, 100_000, 64, 5000, HUGE_PAGE_BYTES, 100_000, 300)


class Interrupter:
    """Raises KeyboardInterrupt at one of the executed instructions of the memory modules."""

    def __init__(self, at: int) -> None:
        self.left, self.raised = at, False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_globals.get("__name__") not in MODULES:
            return None
        frame.f_trace_opcodes = True
        return self.each

    def each(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode" and not self.raised:
            self.left -= 1
            if self.left < 0:
                self.raised = True
                raise KeyboardInterrupt
        return self.each


def interrupt_everywhere(program: Callable[[], None], check: Callable[[], None]) -> int:
    """Interrupt a program at each of its instructions in turn, and return how often."""
    at = 0
    while True:
        breaking, before = Interrupter(at), sys.gettrace()
        sys.settrace(breaking)
        try:
            program()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        check()
        if not breaking.raised:
            return at
        at += 1


@pytest.mark.parametrize("impatient", [False, True])
def test_interrupts_keep_memory_counts_exact(impatient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second case the pool forgets blocks at once, so they go back to the system."""
    if impatient:
        monkeypatch.setattr(sys.modules["tenxor.memory.block_pool"], "DECAY_S", 1e-9)
        monkeypatch.setattr(sys.modules["tenxor.memory.block_pool"], "SPARE_BYTES", 0)
    start, held = tx.memory().in_use, list[Buffer]()

    def program() -> None:
        for nbytes in SIZES:
            held.append(allocate(nbytes))
        for _ in range(4):
            held.pop(0)
        held.append(allocate(64))
        pool.release(1)

    def check() -> None:
        for _ in range(2):
            assert tx.memory().in_use == start + sum(capacity_of(b.nbytes) for b in held)
            again = allocate(100_000)  # the next one works
            again.array[:] = 1
            assert tx.memory().in_use == start + sum(capacity_of(b.nbytes) for b in [*held, again])
            assert tx.memory().peak >= tx.memory().in_use
            del again
            held.clear()
        assert tx.memory().in_use == start and tx.memory().pooled == free_bytes(pool)
        assert pool._totals[0] == pool._latest_operation, "whoever comes next need not count again"

    assert interrupt_everywhere(program, check) > 500
    assert len(pool.used_blocks) < 200


def test_interrupts_lose_no_memory_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The array of each block is lent, or free, or deallocated."""
    real, made = Pool.make_block, set[int]()

    class RecordedBytes:
        """Stands for the bytes of a block, and records when they are freed."""

        def __init__(self, array: Any) -> None:
            self.array = array
            made.add(id(self))

        def __del__(self) -> None:
            made.discard(id(self))

        def __len__(self) -> int:
            return len(self.array)

        def __getitem__(self, part: slice) -> Any:
            return self.array[part]

    def new(self: Pool, nbytes: int) -> Any:
        array, address, nbytes = real(self, nbytes)  # type: ignore[misc]
        return RecordedBytes(array), address, nbytes

    monkeypatch.setattr(Pool, "make_block", new)
    held = list[Buffer]()

    def program() -> None:
        held.extend(map(allocate, SIZES))
        del held[::2]
        held.append(allocate(300))

    def check() -> None:
        held.clear()
        used = tx.memory().in_use
        assert tx.memory().pooled == free_bytes(pool) and used == tx.memory().in_use
        assert len(made) == sum(isinstance(b[0], RecordedBytes) for blocks in pool.free_blocks.values() for b in blocks)

    interrupt_everywhere(program, check)
    pool.release(pool.pooled)
    assert not made


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a trace function that runs the code it traces is told of no more opcodes there")
def test_allocation_inside_a_signal_handler_is_counted() -> None:
    """The handler allocates, and reads the counts, during another allocation."""
    start = tx.memory().in_use
    kept: list[Buffer] = []

    class Heard(Interrupter):
        def each(self, frame: FrameType, event: str, arg: Any) -> Any:
            if event == "opcode" and self.left >= 0:
                self.left -= 1
                if self.left < 0:
                    kept.append(allocate(5000))
                    kept.append(allocate(300))
                    expected = start + capacity_of(300)
                    del kept[0]
                    found = tx.memory().in_use
                    assert found in (expected, expected + 64), "that of the one in the middle, or not yet"
            return self.each

    def traced(heard: Heard) -> Buffer:
        sys.settrace(heard)
        try:
            return allocate(64)
        finally:
            sys.settrace(None)

    at = 0
    while True:
        heard = Heard(at)
        mine = traced(heard)
        assert tx.memory().in_use == start + 64 + capacity_of(300) * len(kept)
        assert tx.memory().pooled == free_bytes(pool)
        del mine
        kept.clear()
        assert tx.memory().in_use == start
        if heard.left >= 0:
            break
        at += 1
    assert at > 30
    allocate(64)
    assert pool._totals[0] == pool._latest_operation


def test_concurrent_allocations_keep_memory_counts_exact() -> None:
    start, interval = tx.memory().in_use, sys.getswitchinterval()

    def take(seed: int) -> None:
        held: list[Buffer] = []
        for k in range(2000):
            held.append(allocate((k * 7919 + seed) % 5000))
            if len(held) > 20:
                del held[(k * 31) % 20]

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=take, args=(seed,)) for seed in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert tx.memory().in_use == start and tx.memory().pooled == free_bytes(pool)


PROGRAM = """
import signal, sys
import tenxor as tx
x = tx.ones(SIZE).realize()
(x + 1).realize()
start = tx.memory().in_use
heard = 0
def ring(*_):
    global heard
    heard += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
while heard < TIMES:
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5 + (heard % 37) * SOON)
        before = heard
        while heard == before:
            y = (x + 1).realize()
            del y
        raise SystemExit("a signal was heard, and what it raised was lost")
    except KeyboardInterrupt:
        pass
y = None
import gc; gc.collect()
print(tx.memory().in_use - start)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer rings where there is setitimer")
@pytest.mark.parametrize(("size", "times", "soon"), [(100, 1500, 5e-6), (1 << 19, 1000, 7e-5)])
def test_thousands_of_signals_lose_no_memory(size: int, times: int, soon: float) -> None:
    """No signal is lost, either. Freed blocks are those of the fast path, or large ones that go back to the system."""
    program = PROGRAM.replace("SIZE", str(size)).replace("TIMES", str(times)).replace("SOON", str(soon))
    assert int(python("-W", "error", "-c", program).stdout) == 0
