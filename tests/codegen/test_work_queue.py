"""Code for the semaphores of other systems: assembled for them, and run here on the semaphores of this system."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

import tenxor as tx
from tenxor._utils import process
from tenxor.codegen.llvm import parallel_for
from tenxor.codegen.llvm.compiler import compiler
from tenxor.codegen.llvm.llvmlite_binding import compile_object, create_target_machine
from tenxor.codegen.threads import work_queue, worker_pool
from tenxor.target import Processor
from tests.machines import without_semaphores

SYSTEMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macos14", "x86_64-apple-darwin", "x86_64-pc-windows-msvc")
MADE = """
declare ptr @malloc(i64)
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_trywait(ptr)
define internal ptr @made() {
  %made = call ptr @malloc(i64 64)
  call i32 @sem_init(ptr %made, i32 0, i32 0)
  ret ptr %made
}
define internal i32 @waited(ptr %s, i1 %now) {
  br i1 %now, label %try, label %wait
try:
  %missing = call i32 @sem_trywait(ptr %s)
  ret i32 %missing
wait:
  %broken = call i32 @sem_wait(ptr %s)
  ret i32 %broken
}
"""
HERE = {  # functions of other systems, implemented by those of this system
    "declare ptr @dispatch_semaphore_create(i64)": """define internal ptr @dispatch_semaphore_create(i64 %count) {
      %made = call ptr @made()
      ret ptr %made
    }""",
    "declare i64 @dispatch_semaphore_signal(ptr)": """define internal i64 @dispatch_semaphore_signal(ptr %s) {
      call i32 @sem_post(ptr %s)
      ret i64 1
    }""",
    "declare i64 @dispatch_semaphore_wait(ptr, i64)": """define internal i64 @dispatch_semaphore_wait(ptr %s, i64 %until) {
      %now = icmp eq i64 %until, 0
      %found = call i32 @waited(ptr %s, i1 %now)
      %wide = sext i32 %found to i64
      ret i64 %wide
    }""",
    "declare ptr @CreateSemaphoreW(ptr, i32, i32, ptr)": """define internal ptr @CreateSemaphoreW(ptr %a, i32 %n, i32 %most, ptr %name) {
      %made = call ptr @made()
      ret ptr %made
    }""",
    "declare i32 @ReleaseSemaphore(ptr, i32, ptr)": """define internal i32 @ReleaseSemaphore(ptr %s, i32 %count, ptr %before) {
      call i32 @sem_post(ptr %s)
      ret i32 1
    }""",
    "declare i32 @WaitForSingleObject(ptr, i32)": """define internal i32 @WaitForSingleObject(ptr %s, i32 %until) {
      %now = icmp eq i32 %until, 0
      %found = call i32 @waited(ptr %s, i1 %now)
      ret i32 %found
    }""",
}


def text_for(triple: str) -> str:
    target = compiler().target
    return parallel_for.build_parallel_for_ir(target._replace(processor=Processor(triple, "", "")))


@pytest.mark.parametrize("triple", SYSTEMS)
def test_semaphore_code_assembles_for_each_system(triple: str) -> None:
    machine = create_target_machine(compiler().target._replace(processor=Processor(triple, "", "")))
    assert len(compile_object(text_for(triple), machine)) > 1000
    assert {f.name for f in binding.parse_assembly(text_for(triple)).functions if f.linkage.name == "external"} >= set(
        parallel_for.FUNCTION_NAMES
    )


@pytest.mark.parametrize("triple", SYSTEMS[2:])
def test_loops_are_shared_with_the_semaphores_of_each_system(triple: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_for(triple).replace("aarch64.hint(i32 1)", "x86.sse2.pause()").replace("aarch64.hint(i32)", "x86.sse2.pause()")
    for declared, defined in HERE.items():
        text = text.replace(declared, defined)
    library, _ = compiler()._load_or_compile("sharing", triple + text, lambda: text + MADE, parallel_for.FUNCTION_NAMES)
    before = tx.num_threads()
    tx.set_num_threads(1)
    monkeypatch.setattr(compiler(), "_parallel_for_code", library)
    try:
        tx.set_num_threads(3)
        a = np.random.default_rng(1).integers(-9, 9, (300, 300)).astype(np.float64)
        for _ in range(50):
            assert np.array_equal((tx.asarray(a) @ tx.asarray(a)).to_numpy(), a @ a)
        assert worker_pool._pool is not None and len(worker_pool._pool.workers) == 2
        tx.set_num_threads(1)
    finally:
        tx.set_num_threads(before)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lets one say where threads run")
def test_workers_wake_on_other_cpus_and_are_unpinned_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    before, placements = tx.num_threads(), []
    place_apart = process.avoid_current_cpu

    def record_placement(thread_ids: list[int], allowed: frozenset[int]) -> None:
        place_apart(thread_ids, allowed)
        placements.extend([(os.sched_getaffinity(h), allowed) for h in thread_ids])

    monkeypatch.setattr(work_queue, "avoid_current_cpu", record_placement)
    tx.set_num_threads(1)
    try:
        tx.set_num_threads(3)
        a = np.random.default_rng(1).integers(-9, 9, (300, 300)).astype(np.float64)
        for _ in range(3):
            time.sleep(0.02)
            assert np.array_equal((tx.asarray(a) @ tx.asarray(a)).to_numpy(), a @ a)
        allowed_cpus = os.sched_getaffinity(0)
        assert len(placements) == 6 and all(allowed == allowed_cpus for _, allowed in placements)
        assert all(len(cpus) == max(1, len(allowed_cpus) - 1) and cpus <= allowed_cpus for cpus, _ in placements)
        end = time.monotonic() + 20
        ids = [helper.native_id for helper in worker_pool._pool.workers]  # type: ignore[union-attr]
        while any(os.sched_getaffinity(k or 0) != allowed_cpus for k in ids) and time.monotonic() < end:
            monkeypatch.setattr(worker_pool, "SLEEP_AFTER_S", 100.0)  # nobody is placed any more; who was, and still sleeps, is woken up
            assert np.array_equal((tx.asarray(a) @ tx.asarray(a)).to_numpy(), a @ a)
        assert [os.sched_getaffinity(k or 0) for k in ids] == [allowed_cpus, allowed_cpus]
    finally:
        tx.set_num_threads(before)


def word(place: work_queue.NativeWorkQueue, offset: int) -> int:
    return ctypes.c_int64.from_address(place.address + offset).value


def test_shared_memory_counts_sleeping_workers() -> None:
    before = tx.num_threads()
    tx.set_num_threads(1)
    try:
        tx.set_num_threads(3)
        a = np.random.default_rng(1).integers(-9, 9, (300, 300)).astype(np.float64)
        for _ in range(3):
            assert np.array_equal((tx.asarray(a) @ tx.asarray(a)).to_numpy(), a @ a)
            place = worker_pool._get_pool().work_queue
            assert isinstance(place, work_queue.NativeWorkQueue) and word(place, parallel_for.IN_USE_OFFSET) == 0
            end = time.monotonic() + 20
            while word(place, parallel_for.SLEEPING_COUNT_OFFSET) < 2 and time.monotonic() < end:
                time.sleep(0.001)
            assert word(place, parallel_for.SLEEPING_COUNT_OFFSET) == 2
    finally:
        tx.set_num_threads(before)


def test_concurrent_callers_share_loops_one_at_a_time() -> None:
    """The callers are machine code, which holds no lock."""
    counted = "define void @kernel(ptr %sum, i64 %begin, i64 %end, i64 %worker) {\n %n = sub i64 %end, %begin\n"
    counted += " %before = atomicrmw add ptr %sum, i64 %n monotonic\n ret void\n}"
    code = compiler()._load(compiler()._compile(counted, ("kernel",)), ("kernel",))
    place, sums = work_queue.create_work_queue(), [ctypes.c_int64() for _ in range(4)]
    assert isinstance(place, work_queue.NativeWorkQueue) and code is not None
    share = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)(place.share_address)
    helper = threading.Thread(target=place.serve, args=(1,))
    helper.start()

    def call(total: ctypes.c_int64) -> None:
        for _ in range(500):
            share(place.address, code["kernel"], ctypes.addressof(total), 0, 1000, 7, 1)

    callers = [threading.Thread(target=call, args=(total,)) for total in sums]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    place.close(1)
    helper.join()
    assert [total.value for total in sums] == [500_000] * 4


@pytest.mark.parametrize("lacking", ["nobody says where", "nobody may be moved", "one CPU"])
def test_workers_are_not_moved_if_they_cannot_be_placed(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *args: moved.append(args), raising=False)
    if lacking == "nobody says where":
        monkeypatch.setattr(process, "_current_cpu_getter", lambda: process._unknown_cpu)
    elif lacking == "nobody may be moved":
        monkeypatch.setattr(os, "sched_setaffinity", lambda *args: Path("/no/such/file").stat())
    cpus = frozenset({0} if lacking == "one CPU" else {0, 1, 2})
    if lacking == "one CPU":
        monkeypatch.setattr(process, "_current_cpu_getter", lambda: lambda: 0)
    process.avoid_current_cpu([1234567], cpus)
    assert not moved


def test_uninterruptible_write_uses_no_worker_without_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Python's locks alone, a write in place is not shared: a signal could interrupt it half-way."""
    before = tx.num_threads()
    tx.set_num_threads(1)
    without_semaphores(monkeypatch)
    try:
        tx.set_num_threads(2)
        x = tx.ones(1 << 21).realize()
        address = x.storage.node.buffer.address  # type: ignore[union-attr]
        x += 1
        assert x.realize().storage.node.buffer.address == address  # type: ignore[union-attr]
        assert x.sum().item() == 1 << 22
        assert worker_pool._pool is not None and not worker_pool._pool.work_queue.is_native
    finally:
        tx.set_num_threads(before)
