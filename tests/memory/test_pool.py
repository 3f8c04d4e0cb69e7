"""The pool keeps recently used memory, and frees the rest."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import random
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath.emit.block_allocator import MAX_FREE_BYTES
from tenxor.memory.block_pool import SPARE_BYTES, Pool, pool
from tenxor.memory.buffer import Buffer, allocate
from tests.processes import python

from .conftest import free_bytes

MiB = 1 << 20
memory, module = sys.modules["tenxor.memory.buffer"], sys.modules["tenxor.memory.block_pool"]


class Blocks:
    """A pool of blocks without memory, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.made, self.pool = 0.0, 0, Pool()
        self.pool.decay_time = module.DECAY_S
        self.pool.has_decay_thread = True  # by the test alone
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "MAX_POOLED_BYTES", 1 << 50)
        monkeypatch.setattr(memory, "pool", self.pool)
        monkeypatch.setattr(Pool, "make_block", lambda pool, nbytes: self.new(nbytes))

    def new(self, nbytes: int) -> module.Block:  # type: ignore[name-defined]
        self.made += 1
        return np.empty(0, np.uint8), self.made, nbytes


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocks]:
    yield Blocks(monkeypatch)


def within_seconds(condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within ten seconds."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


@pytest.fixture
def own_pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A pool of blocks without memory, with its thread."""
    own = Pool()
    monkeypatch.setattr(memory, "pool", own)
    monkeypatch.setattr(Pool, "make_block", lambda pool, nbytes: (np.empty(0, np.uint8), 1, nbytes))
    return own


def test_idle_process_gives_memory_back(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECAY_S", 0.01)
    own_pool.decay_time = 0.0
    for _ in range(2):  # the thread ends when there is nothing to forget, and is there again when there is
        taken = [allocate(64 * MiB) for _ in range(20)]
        del taken
        assert own_pool.pooled > SPARE_BYTES and own_pool.has_decay_thread
        assert within_seconds(lambda: not own_pool.has_decay_thread)
        assert free_bytes(own_pool) <= SPARE_BYTES


def test_blocks_above_the_pool_limit_are_released_at_once(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No allocation follows, and blocks would be forgotten only much later."""
    monkeypatch.setattr(module, "DECAY_S", 1e6)
    monkeypatch.setattr(module, "MAX_POOLED_BYTES", 3 * SPARE_BYTES)
    taken = [allocate(SPARE_BYTES) for _ in range(20)]
    assert not own_pool.free_blocks
    del taken
    assert within_seconds(lambda: free_bytes(own_pool) == 3 * SPARE_BYTES and not own_pool.freed_refs and not own_pool.large_block_refs)
    own_pool.release(own_pool.pooled)
    own_pool.get_wake_queue().put(None)  # type: ignore[arg-type]  # that thread has nothing to forget any more
    assert within_seconds(lambda: not own_pool.has_decay_thread)


def test_keep_at_most_releases_blocks_at_once(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may be judged by its memory, so this includes blocks that are not large."""
    monkeypatch.setattr(module, "DECAY_S", 1e6)
    own_pool.limit_free_blocks(20 * MiB)
    taken = [allocate(4 * MiB) for _ in range(40)]
    del taken
    assert within_seconds(lambda: free_bytes(own_pool) == 20 * MiB and not own_pool.freed_refs)
    own_pool.limit_free_blocks(8 * MiB)
    assert free_bytes(own_pool) == 8 * MiB
    taken = [allocate(16 * MiB)]
    del taken
    assert within_seconds(lambda: not own_pool.freed_refs and not own_pool.has_decay_thread and free_bytes(own_pool) <= 8 * MiB)


def test_pool_works_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*given: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "start_new_thread", none)
    monkeypatch.setattr(memory, "pool", own_pool := Pool())
    for _ in range(2):
        taken = [allocate(2 * SPARE_BYTES)]
        taken.clear()
        assert own_pool.pooled >= 2 * SPARE_BYTES and not own_pool.has_decay_thread


def test_repeated_sizes_are_allocated_once(blocks: Blocks) -> None:
    for _ in range(50):
        taken = [allocate(n * MiB) for n in (300, 20, 1, 20, 500)]
        blocks.now += 0.3
        del taken
    assert blocks.made == 5


def test_pool_of_changing_sizes_is_bounded_by_memory_in_use(blocks: Blocks) -> None:
    numbers = random.Random(0)
    taken: list[Buffer] = []
    for _ in range(3000):
        taken.append(allocate(numbers.randrange(MiB, 40 * MiB)))
        blocks.now += 0.001
        while blocks.pool.in_use > 1600 * MiB:
            del taken[numbers.randrange(len(taken))]
        assert blocks.pool.in_use + blocks.pool.pooled <= 1.25 * (1600 + 45) * MiB + SPARE_BYTES
        assert sum(size * len(free) for size, free in blocks.pool.free_blocks.items()) == blocks.pool.pooled


def test_free_block_at_most_half_as_large_again_serves_a_new_size(blocks: Blocks) -> None:
    allocate(10 * MiB)
    for n in (9, 7, 8):
        buffer = allocate(n * MiB)
        assert blocks.pool.in_use == 10 * MiB and blocks.pool.pooled == 0 and blocks.made == 1
        del buffer
    allocate(10 * MiB)
    assert blocks.made == 1
    allocate(6 * MiB)  # this would be more than half as large again
    assert blocks.made == 2


def test_larger_blocks_are_lent_only_up_to_the_recent_use(blocks: Blocks) -> None:
    held = [allocate(n * MiB) for n in (10, 6)]
    del held[0]
    assert blocks.pool.recent_need_bytes == 16 * MiB
    held.append(allocate(9 * MiB))
    assert blocks.pool.in_use == 16 * MiB
    held.append(allocate(5 * MiB))
    assert blocks.made == 3
    del held[-1]
    blocks.pool.recent_need_bytes = blocks.pool.peak_since_decay = 21 * MiB - 1
    held.append(allocate(4 * MiB))
    assert blocks.made == 4 and blocks.pool.in_use == 20 * MiB


def test_blocks_have_exact_sizes_under_a_memory_limit(blocks: Blocks) -> None:
    allocate(10 * MiB)
    blocks.pool.limit_bytes = 100 * MiB
    held = allocate(9 * MiB)
    assert blocks.pool.in_use == held.nbytes == 9 * MiB and blocks.made == 2


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="large blocks are mapped for huge pages, on Linux")
def test_large_blocks_grow_in_place() -> None:
    own = Pool()
    own.has_decay_thread = True

    def lent(nbytes: int) -> Buffer:
        buffer = Buffer(nbytes)
        assert own.assign_block(buffer, module.capacity_of(nbytes)) and len(buffer.array) == module.capacity_of(nbytes)
        buffer.array[:] = 7
        return buffer

    first = lent(4 * MiB)
    address = first.address
    del first
    for n in (4.5, 5, 6):  # half as much again
        buffer = lent(int(n * MiB))
        assert buffer.address == address and own.collect_freed() == (module.capacity_of(buffer.nbytes), 0)
        del buffer
    another = lent(7 * MiB)
    assert another.address != address and own.collect_freed() == (7 * MiB, 6 * MiB)
    again = lent(6 * MiB)
    assert again.address == address


def test_large_block_is_mapped_without_room_to_grow_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    own, asked = Pool(), list[int]()
    own.has_decay_thread = True

    def pages(nbytes: int, page: int) -> module.Array:  # type: ignore[name-defined]
        asked.append(nbytes)
        if nbytes > 5 * MiB:
            raise OSError(12, "Cannot allocate memory")
        return np.empty(nbytes, np.uint8)

    monkeypatch.setattr(module, "map_huge_pages", pages)
    buffer = Buffer(4 * MiB)
    assert own.assign_block(buffer, 4 * MiB) and asked[0] > 6 * MiB > asked[1] > 4 * MiB and len(asked) == 2


def test_small_block_freed_last_is_reused_without_a_change_of_totals(blocks: Blocks) -> None:
    first, other = allocate(96), allocate(960)
    address, operation = first.address, blocks.pool._latest_operation
    del first
    again = allocate(96)
    assert again.address == address and blocks.pool._latest_operation == operation
    assert blocks.pool.collect_freed() == (128 + 960, 0)
    del other
    more = allocate(96)
    assert blocks.made == 3 and blocks.pool.collect_freed() == (2 * 128, 960)
    del again, more


def test_totals_are_counted_anew_after_an_error_during_reuse(blocks: Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, first = allocate(960), allocate(96)
    del first

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "ref", interrupt)
        with pytest.raises(KeyboardInterrupt):
            allocate(96)
    assert blocks.pool.collect_freed() == (kept.nbytes, 0)


def test_release_frees_the_oldest_blocks_first(blocks: Blocks) -> None:
    taken = [allocate(n * MiB) for n in (100, 200, 300)]
    while taken:
        del taken[0]
    blocks.pool.release(50 * MiB)
    assert [size // MiB for size, free in blocks.pool.free_blocks.items() if free] == [208, 320]
    allocate(200 * MiB)
    blocks.pool.release(50 * MiB)
    assert [size // MiB for size, free in blocks.pool.free_blocks.items() if free] == [208]


def test_unused_blocks_are_released_gradually(blocks: Blocks) -> None:
    large = [allocate(1024 * MiB) for _ in range(4)]
    del large
    held = [blocks.pool.pooled]
    for _ in range(12):
        blocks.now += module.DECAY_S
        allocate(MiB)
        held.append(blocks.pool.pooled)
    assert held[0] == held[1] - MiB == 4096 * MiB and held[2] <= 2600 * MiB and held[3] <= 1350 * MiB
    assert held[1:] == sorted(held[1:], reverse=True) and held[-1] <= SPARE_BYTES


def test_pooled_blocks_survive_a_pause_shorter_than_the_decay_time(blocks: Blocks) -> None:
    allocate(1024 * MiB)
    blocks.now += 0.9 * module.DECAY_S
    allocate(1024 * MiB)
    assert blocks.made == 1


def test_small_allocations_let_unused_large_blocks_go(blocks: Blocks) -> None:
    taken = [allocate(1024 * MiB) for _ in range(4)]
    del taken
    assert blocks.pool.pooled == 4096 * MiB
    for _ in range(8):
        blocks.now += module.DECAY_S
        allocate(64)
    assert blocks.pool.pooled <= SPARE_BYTES


OPERATIONS: dict[str, Callable[[tx.Tensor, int], object]] = {
    "new tensor": lambda x, k: (x + 1).realize(),
    "in place": lambda x, k: x.__iadd__(1).realize(),
    "element": lambda x, k: x.__setitem__((k % 8, 0), x[k % 8, 0] + 1),
    "element in place": lambda x, k: x.__setitem__((k % 8, 0), x[k % 8, 0].__iadd__(1)),
    "row in place": lambda x, k: x.__setitem__(k % 8, x[k % 8].__iadd__(1)),
    "part in place": lambda x, k: x.__setitem__(slice(k % 8, k % 8 + 2), x[k % 8 : k % 8 + 2].__iadd__(k)),
    "sum": lambda x, k: x.sum().realize(),
    "product": lambda x, k: (x @ x.T).realize(),
    "gathered": lambda x, k: x[[0, k % 8]].realize(),
}


def count_plans(work: Callable[[], object]) -> int:
    """Return how many computations of `work` machine code leaves to Python.

    A wrapper of `realize_by_plan` would hold its operands, which changes what is done in place.
    """
    if not isinstance(pool.small_block_bytes, ctypes.Array):
        pytest.skip(f"there is no fast path: {fastpath.state}")
    by_plan, count = sys.modules["tenxor.runtime.realize"].realize_by_plan.__code__, 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is by_plan

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", OPERATIONS)
def test_fast_path_allocates_again_after_its_allowance_is_used_up(name: str) -> None:
    x = tx.ones((10, 3), dtype=tx.float32).realize()

    def work(count: int) -> None:
        for k in range(count):
            OPERATIONS[name](x, k)

    work(40)
    assert count_plans(lambda: work(40)) == 0
    pool.small_block_bytes[module.ALLOWED] = 0
    work(4)
    assert count_plans(lambda: work(40)) == 0


def test_fast_path_computes_any_number_of_in_place_writes() -> None:
    x = tx.zeros(100, dtype=tx.float32).realize()

    def work(count: int) -> None:
        for k in range(count):
            x[k % 100] += 1

    work(70_000)
    assert count_plans(lambda: work(100)) == 0
    assert x.tolist() == [701.0] * 100


def test_fast_path_blocks_of_changing_sizes_are_bounded() -> None:
    """The fast path keeps some MiB of blocks, then drops them and keeps the present sizes."""
    if not isinstance(pool.small_block_bytes, ctypes.Array):
        pytest.skip(f"there is no fast path: {fastpath.state}")
    for size in range(100_000, 130_000, 1_000):
        x = tx.ones(size, dtype=tx.float32)
        for _ in range(3):
            (x + 1).realize()
        assert 4 * size <= pool.small_block_bytes[module.POOLED] <= MAX_FREE_BYTES


def test_repeated_results_of_a_few_mib_cause_no_memory_pressure() -> None:
    x = tx.ones(350_000, dtype=tx.float32).realize()
    pool.reset_pressure()
    for _ in range(5):
        (x + x).realize()
        assert not pool.is_under_pressure


def test_totals_are_valid_again_after_an_operation_that_raised(blocks: Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    own_pool, held = blocks.pool, Buffer(1 << 12)
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "make_block", lambda *_: 1 // 0)
        with contextlib.suppress(ZeroDivisionError):
            own_pool.assign_block(held, 1 << 12)
    assert own_pool.assign_block(held, 1 << 12)
    assert own_pool.collect_freed() == (1 << 12, 0)
    assert own_pool._totals[0] == own_pool._latest_operation and not own_pool._operations_in_progress


def test_byte_totals_computed_during_another_pool_operation_are_outdated(blocks: Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer may use the pool in the middle of an operation; the outer operation changes the counts afterwards."""
    own_pool, make_block = blocks.pool, Pool.make_block
    numbers, held = list[int](), Buffer(1 << 12)

    def make_block_after_a_count(pool: Pool, nbytes: int) -> Any:
        assert pool.collect_freed() == (0, 0)
        numbers.append(pool._totals[0])
        return make_block(pool, nbytes)

    monkeypatch.setattr(Pool, "make_block", make_block_after_a_count)
    assert own_pool.assign_block(held, 1 << 12)
    assert numbers == [module.NO_OPERATION_NUMBER]
    assert own_pool.collect_freed() == (1 << 12, 0) and own_pool._totals[0] == own_pool._latest_operation


WRITING_THREADS = """
import gc
import sys
import threading
import time
import tenxor as tx
from tenxor import fastpath

def add(row):
    for _ in range(10):
        t[row] = t[row] + 1

fastpath.start()
sys.setswitchinterval(1e-6)
gc.callbacks.append(lambda phase, info: time.sleep(0))  # other threads run in the middle of collections
for _ in range(60):
    tx.clear_caches()
    gc.set_threshold(20)
    t = tx.zeros((8, 6)).realize()
    threads = [threading.Thread(target=add, args=(row,)) for row in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert t.sum(axis=1).tolist() == [60.0] * 8
"""


def test_threads_start_and_end_while_others_allocate_and_collect_garbage() -> None:
    """The pool must not look at the frames of other threads.

    To list them, CPython 3.11 locks its list of threads and may run the collector. A callback lets other threads run, and one that starts
    or ends waits for the lock with the GIL held. To follow the frames of running threads crashes.
    """
    python("-c", WRITING_THREADS, within=60)


@pytest.mark.parametrize("nbytes", [300 << 10, 3 << 19, 5 << 20], ids=["of machine code", "of the system", "in huge pages"])
@pytest.mark.parametrize("short", [True, False])
def test_large_blocks_begin_at_different_page_offsets(nbytes: int, short: bool) -> None:
    """A load whose address ends in the twelve bits of a recent store would wait for that store."""
    pool.release(1 << 62)  # blocks that other tests used begin anywhere
    with contextlib.nullcontext() if short else fastpath.disabled():
        blocks = [(tx.zeros(nbytes // 4, dtype=tx.float32) + k).realize() for k in range(8)]
    offsets = [np.asarray(t).ctypes.data % 4096 for t in blocks]
    assert len(set(offsets)) >= 6 and all(offset % 64 == 0 for offset in offsets)


WITHOUT_MEMORY = """
import _testcapi
from tenxor.memory.block_pool import Pool
pool = Pool()
pool.free_blocks = {(1 << 20) + (k << 17): [None] for k in range(3)}
kept = [(k, k) for k in range(5000)]  # so that none is left of those that the interpreter keeps for reuse
for fails in range(12):
    _testcapi.set_nomemory(fails, fails + 1)
    try:
        pool._find_larger(1 << 20, 1 << 22)
    except MemoryError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
    kept += [(k, k) for k in range(50)]
assert pool._find_larger(1 << 20, 1 << 22) == (1 << 20) + (1 << 17)
"""


def test_out_of_memory_during_the_search_for_a_block_raises() -> None:
    """The process does not end."""
    pytest.importorskip("_testcapi", reason="CPython comes without what has allocations fail")
    python("-c", WITHOUT_MEMORY)
