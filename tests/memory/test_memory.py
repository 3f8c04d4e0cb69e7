"""Memory is aligned, reused, counted, and freed with its tensors; the error for too little memory tells the requested size."""

from __future__ import annotations

import gc
import mmap
import os
import re
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import memory
from tenxor._utils import process
from tenxor.dtypes import float32, int64
from tenxor.memory.block_pool import ALIGNMENT_BYTES, pool
from tenxor.memory.buffer import Buffer, allocate, wrap_foreign_memory
from tenxor.tensor import Tensor
from tests.processes import python

from .conftest import used

module = sys.modules["tenxor.memory.block_pool"]
MiB = 1 << 20


def address(t: Tensor) -> int:
    buffer = t.storage.node.buffer
    assert buffer is not None
    return buffer.address


class TestBuffers:
    @pytest.mark.parametrize("nbytes", [0, 1, 7, 63, 64, 65, 100, 4095, 4096, 4097, 5000, 70_000, 1_000_003, 9 * MiB + 1])
    def test_buffers_are_aligned_and_large_enough(self, nbytes: int) -> None:
        for buffer in (allocate(nbytes), allocate(nbytes)):
            assert buffer.address % ALIGNMENT_BYTES == 0 and ALIGNMENT_BYTES == 64
            assert buffer.nbytes == nbytes <= buffer.array.nbytes
            assert buffer.array.__array_interface__["data"][0] == buffer.address
            buffer.array[:] = 1  # all of it is ours

    @pytest.mark.parametrize("nbytes", [100, 4097, 70_000, 1_000_003, 64 * MiB + 1])
    def test_buffers_waste_at_most_an_eighth(self, nbytes: int) -> None:
        before = memory().in_use
        buffer = allocate(nbytes)
        assert nbytes <= memory().in_use - before <= max(nbytes * 9 // 8, nbytes + 63)
        assert buffer.externally_shared == 0 and not buffer.is_read_only

    def test_live_buffers_never_overlap(self) -> None:
        buffers = [allocate(n) for n in (0, 1, 64, 100, 5000, 5001, 100_000) * 5]
        spans = sorted((b.address, b.address + b.array.nbytes) for b in buffers)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))

    def test_buffers_have_typed_arrays_of_any_dtype(self) -> None:
        buffer = allocate(64)
        buffer.typed_view(int64)[:] = -1
        assert buffer.typed_view(int64).shape == (8,) and buffer.typed_view(float32).shape == (16,)
        assert buffer.typed_view(tx.uint8)[:64].tolist() == [255] * 64
        assert buffer.typed_view(tx.uint8) is buffer.typed_view(tx.uint8)
        assert buffer.typed_view(int64).dtype == np.int64 and buffer.typed_view(tx.float64).dtype == np.float64
        assert allocate(20).typed_view(int64).shape == (2,) and allocate(20).typed_view(tx.uint16).shape == (10,)

    def test_foreign_buffers_stay_with_their_owner(self) -> None:
        array = np.arange(10)
        before = used()
        buffer = wrap_foreign_memory(array.ctypes.data, array.nbytes, array, is_read_only=False)
        assert buffer.externally_shared == 1 and buffer.address == array.ctypes.data and used() == before
        buffer.typed_view(int64)[3] = 99
        assert array[3] == 99
        pooled = memory().pooled
        del buffer
        assert memory().pooled == pooled and array.tolist() == [0, 1, 2, 99, 4, 5, 6, 7, 8, 9]
        assert wrap_foreign_memory(array.ctypes.data, 80, array, is_read_only=True).externally_shared == 0
        assert wrap_foreign_memory(0, 0, None, is_read_only=False).typed_view(int64).size == 0


class TestPool:
    def test_pool_reuses_freed_blocks(self) -> None:
        buffer = allocate(3 * MiB)
        place, pooled = buffer.address, memory().pooled
        del buffer
        assert memory().pooled - pooled >= 3 * MiB
        again = allocate(3 * MiB - 100)  # a near size will do
        assert again.address == place and memory().pooled == pooled

    def test_pool_never_lends_one_block_twice(self) -> None:
        for _ in range(3):
            buffers = [allocate(12_345) for _ in range(20)]
            assert len({b.address for b in buffers}) == 20

    def test_pool_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pool.release(pool.pooled)
        monkeypatch.setattr(module, "MAX_POOLED_BYTES", 4 * MiB)
        buffers = [allocate(MiB) for _ in range(10)]
        del buffers
        assert memory().pooled <= 4 * MiB

    def test_pool_is_released_on_demand(self) -> None:
        allocate(MiB)
        assert memory().pooled >= MiB
        pool.release(pool.pooled)
        assert memory().pooled == 0
        assert allocate(MiB).address % 64 == 0

    def test_pool_is_released_before_an_allocation_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The fast path releases the blocks that it keeps, too."""
        for k in range(3):
            (tx.ones(8) + k).realize()
        allocate(MiB)
        assert memory().pooled >= MiB
        empty, failed, buffers = np.empty, [], []

        def short(nbytes: int, *more: object) -> np.ndarray[Any, Any]:
            if memory().pooled:
                failed.append(nbytes)
                raise MemoryError
            return empty(nbytes + 8, *more)[8:]  # type: ignore[call-overload]  # never on a whole 16

        monkeypatch.setattr(module.np, "empty", short)
        for _ in range(2):  # the second finds room at once
            buffers.append(allocate(3 * MiB // 2))
            assert len(failed) == 1 and memory().pooled == 0
        for buffer in buffers:
            assert buffer.address % ALIGNMENT_BYTES == 0 and buffer.array.nbytes >= buffer.nbytes == 3 * MiB // 2

    @pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="large blocks are mapped for huge pages, on Linux")
    def test_pool_is_released_before_a_large_mapping_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        allocate(MiB)
        real, failed = mmap.mmap, []

        def short(*args: int, **more: int) -> mmap.mmap:
            if memory().pooled:
                failed.append(args)
                raise OSError(12, "Cannot allocate memory")
            return real(*args, **more)

        monkeypatch.setattr(process, "mmap", SimpleNamespace(**{**vars(mmap), "mmap": short}))
        buffer = allocate(5 * MiB)
        assert len(failed) == 2, "with room to grow, and without"
        assert memory().pooled == 0 and buffer.address % ALIGNMENT_BYTES == 0

    def test_large_blocks_work_on_systems_without_huge_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process, "mmap", SimpleNamespace(mmap=mmap.mmap))
        tx.release_memory()
        buffers = [allocate(5 * MiB) for _ in range(3)]
        for buffer in buffers:
            buffer.array[:] = 7
            assert buffer.address % ALIGNMENT_BYTES == 0 and buffer.array.nbytes >= buffer.nbytes == 5 * MiB

    def test_full_pool_drops_blocks_of_old_sizes_for_a_new_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Blocks of an earlier part of a program must not keep out sizes that are needed repeatedly now."""
        pool.release(pool.pooled)
        monkeypatch.setattr(module, "MAX_POOLED_BYTES", 8 * MiB)
        old = [allocate(MiB) for _ in range(8)]
        del old
        assert memory().pooled == 8 * MiB
        place = allocate(3 * MiB).address
        assert memory().pooled <= 8 * MiB
        assert allocate(3 * MiB).address == place
        too_much = allocate(9 * MiB)
        del too_much
        assert memory().pooled <= 8 * MiB


class TestCounts:
    def test_memory_in_use_counts_each_storage_once_from_its_computation_on(self) -> None:
        before = used()
        t = tx.zeros(MiB, dtype=tx.uint8)
        assert memory().in_use == before  # it is not in memory yet
        t.realize()
        assert memory().in_use == before + MiB
        assert t.storage.nbytes == MiB and t.astype(tx.float64).storage.nbytes == 8 * MiB
        view, copy = t[::2].reshape(2, -1), t.copy()
        assert memory().in_use == before + MiB
        copy[0] = 1
        assert memory().in_use == before + 2 * MiB
        del t
        assert memory().in_use == before + 2 * MiB  # the view is alive
        del view
        assert memory().in_use == before + MiB
        del copy
        assert memory().in_use == before

    def test_memory_peak_is_the_maximum_since_its_reset(self) -> None:
        start = memory(reset_peak=True).in_use
        a = allocate(MiB)
        b = allocate(MiB)
        del a
        assert memory().peak == start + 2 * MiB and memory().in_use == start + MiB
        assert memory(reset_peak=True).peak == start + 2 * MiB
        assert memory().peak == start + MiB
        del b
        assert memory().peak == start + MiB

    def test_memory_counts_have_a_readable_repr(self) -> None:
        found = memory()
        assert repr(found) == f"Memory(in_use={found.in_use}, peak={found.peak}, waiting=0, pooled={found.pooled}, limit=None)"
        assert tx.memory is memory

    def test_temporaries_are_freed_during_a_computation(self) -> None:
        x = tx.ones((1024, 1024), dtype=tx.uint8).realize()
        for _ in range(3):
            start = memory(reset_peak=True).in_use
            y = tx.cumulative_sum(x, axis=1, dtype=tx.uint8)
            for _ in range(6):
                y = tx.cumulative_sum(y, axis=0, dtype=tx.uint8)
            y.realize()
            assert memory().peak - start <= 12 * 8 * MiB
            del y
            assert memory().in_use == start

    def test_pairwise_distances_need_memory_for_the_result_only(self) -> None:
        n, m, d = 300, 200, 64
        a, b = (tx.asarray(np.ones((k, d), np.float32)) for k in (n, m))
        before = memory(reset_peak=True).in_use
        distances = ((a[:, None] - b[None]) ** 2).sum(-1)
        distances.realize()
        packed = 2 * 4 * (n + m) * d * tx.num_threads()
        assert memory().peak - before <= 1.2 * 4 * n * m + packed < 4 * n * m * d / 10

    def test_softmax_needs_memory_for_the_result_only(self) -> None:
        x = tx.asarray(np.ones((256, 1024), np.float32))
        before = memory(reset_peak=True).in_use
        e = tx.exp(x - x.max(axis=1, keepdims=True))
        s = (e / e.sum(axis=1, keepdims=True)).realize()
        assert memory().peak - before <= 1.1 * x.nbytes
        assert s.shape == x.shape

    def test_repeated_work_leaks_no_memory(self) -> None:
        def work() -> None:
            x = tx.asarray(np.arange(2000.0)).reshape(40, 50)
            y = (x - x.mean(axis=1, keepdims=True)) / x.std()
            y[1:] = y[:-1]
            y.T[::2] += 1
            np.asarray(y)[0, 0] = 1
            y.oindex[[0, 1]] = x.oindex[[2, 2]]
            with pytest.raises(ValueError):
                y + tx.zeros(7)
            tx.concat([y, x @ x.T @ y]).tolist()

        work()
        before = used()
        for _ in range(5):
            work()
        gc.collect()
        assert memory().in_use == before

    def test_memory_is_freed_without_the_collector(self) -> None:
        gc.disable()
        try:
            before = memory().in_use
            for _ in range(3):
                x = tx.ones(1000) + 1
                x[1:] = x[:-1] * 2
                (x.reshape(10, 100) @ x.reshape(100, 10)).sum(axis=0).tolist()
                del x
            assert memory().in_use == before
        finally:
            gc.enable()


class TestExhaustion:
    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("empty", lambda n: tx.empty(n, dtype=tx.float32)),
            ("full", lambda n: tx.zeros(n, dtype=tx.float32)),
            ("exp", lambda n: tx.exp(tx.broadcast_to(tx.ones(1, dtype=tx.float32), n) * 2 + 1)),
            ("sum", lambda n: tx.broadcast_to(tx.ones((2, 1), dtype=tx.float32).realize(), (2, *n)).sum(axis=0)),
            ("cumulative_sum", lambda n: tx.cumulative_sum(tx.broadcast_to(tx.ones(1, dtype=tx.float32), n), axis=0)),
        ],
    )
    def test_out_of_memory_error_names_the_operation_and_the_bytes(self, name: str, make: Callable[[tuple[int, ...]], Tensor]) -> None:
        message = f"{name}: no memory for ({1 << 50},) float32, {1 << 52} bytes; "
        with pytest.raises(MemoryError, match=re.escape(message) + r"\d+ bytes are in use$"):
            make((1 << 50,)).realize()

    def test_sizes_beyond_64_bits_raise_out_of_memory_errors(self) -> None:
        with pytest.raises(MemoryError, match=re.escape(f"empty: no memory for ({1 << 59},) float64, {8 << 59} bytes;")):
            tx.empty(1 << 59).realize()
        for power in (60, 63, 70):
            with pytest.raises(MemoryError, match=f"empty: .*{1 << power} elements"):
                tx.empty(1 << power)
            with pytest.raises(MemoryError, match=f"arange: .*{1 << power} elements"):
                tx.arange(1 << power)
        with pytest.raises(MemoryError, match=r"multiply: .* elements"):
            tx.ones((1 << 40, 1)) * tx.ones((1, 1 << 40))

    def test_out_of_memory_error_leaves_tensors_unchanged(self) -> None:
        x = tx.arange(10)
        before = used()
        y = tx.broadcast_to(x, (1 << 47, 10)) + 1
        for _ in range(2):
            with pytest.raises(MemoryError):
                y.realize()
        assert y[5, 3].shape == ()
        assert x.tolist() == list(range(10))
        del y
        assert memory().in_use <= before + 128

    def test_process_survives_a_limit_on_its_address_space(self) -> None:
        program = """
import os
os.environ["TENXOR_CACHE_DIR"] = ""  # so that LLVM is loaded before there is too little for it
import resource
import tenxor as tx
tx.ones(1000).sum().item()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, ((pages << 12) + (200 << 20), -1))
kept = tx.ones(1 << 20).realize()
for _ in range(3):
    try:
        tx.ones(1 << 26).realize()
        raise SystemExit("there is memory for more than the limit")
    except MemoryError as error:
        assert "536870912" in str(error), error
assert (kept + 1).sum().item() == 1 << 21
"""
        python("-c", program)


THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    not THP.exists() or "[never]" in THP.read_text(encoding="ascii"),
    reason=f"needs Linux with transparent huge pages: {THP} says madvise or always",
)
def test_large_buffers_use_huge_pages() -> None:
    def huge() -> int:
        lines = Path("/proc/self/smaps").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages"))

    pool.release(pool.pooled)
    before = huge()
    buffer = allocate(64 * MiB)
    buffer.array[:] = 1
    assert huge() - before >= 60 * MiB, "the system gave small pages: has it no 64 MiB in one piece?"
    del buffer
    pool.release(pool.pooled)
    assert huge() - before < 4 * MiB  # they are the system's again


@pytest.mark.skipif(os.name != "posix", reason="page faults are counted where there is getrusage")
def test_large_results_page_fault_in_the_first_rounds_only(monkeypatch: pytest.MonkeyPatch, threads: Callable[[int], None]) -> None:
    import resource

    def faults() -> int:
        return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_minflt

    threads(1)
    pool.release(pool.pooled)
    monkeypatch.setattr(pool, "decay_time", time.monotonic() + 1000)  # nothing is forgotten meanwhile, however long it takes
    x = tx.ones(16 * MiB, dtype=tx.float32).realize()
    y = x
    counts = [faults()]
    for k in range(10):
        y = (x + k).realize()
        counts.append(faults())
    assert y[-1].item() == 10.0
    rounds = [after - before for before, after in pairwise(counts)]
    assert sum(rounds[:3]) >= 32  # 64 MiB, even if all pages are huge
    assert sum(rounds[3:]) < 32, rounds


class TestNothing:
    """Empty tensors have memory of 0 bytes."""

    @pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
    def test_operations_accept_empty_tensors(self, shape: tuple[int, ...]) -> None:
        t = tx.zeros(shape).realize()
        assert address(t) % 64 == 0 and t.size == 0
        assert (t + 1).tolist() == np.zeros(shape).tolist()
        assert t.sum().item() == 0 and t.copy().realize().shape == shape
        t[...] = 5
        t += tx.ones(shape)
        assert t.to_numpy().shape == shape and np.asarray(t).shape == shape
        assert tx.concat([t, t]).shape == (2 * shape[0], *shape[1:])
        assert tx.cumulative_sum(t, axis=0).to_numpy().shape == shape

    def test_empty_foreign_arrays_are_accepted(self) -> None:
        t = tx.asarray(np.empty((0, 5)), copy=False)
        assert (t * 2).tolist() == [] and t.sum().item() == 0.0

    def test_empty_buffer_is_returned_to_the_pool(self) -> None:
        before = used()
        buffer: Buffer = allocate(0)
        assert buffer.nbytes == 0 and memory().in_use > before
        del buffer
        assert memory().in_use == before


def test_memory_counts_are_a_consistent_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor is freed while the counts are read."""
    held = [tx.ones(1 << 20).realize()]
    inspection = sys.modules["tenxor.api.inspection"]
    own = inspection.count_pending_bytes
    monkeypatch.setattr(inspection, "count_pending_bytes", lambda: held.clear() or own())  # type: ignore[func-returns-value]
    before, found = tx.memory(), tx.memory()
    assert before == found
