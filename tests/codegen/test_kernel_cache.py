"""The number of kernels in memory is bounded: kernels of evicted plans are freed, never while they run, and made again on request."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from weakref import ref

import pytest

import tenxor as tx
from tenxor.codegen import backend, kernel_cache
from tenxor.codegen.interpreter import Interpreter
from tenxor.codegen.llvm.compiler import Compiler, MachineCode, compiler
from tenxor.lowering.ir import Kernel
from tenxor.tensor import Tensor
from tests.lowering.helpers import kernel_of
from tests.processes import python

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

realize_module = sys.modules["tenxor.runtime.realize"]
OPERATIONS = (tx.add, tx.subtract, tx.multiply)


def expression(number: int, x: Tensor) -> Tensor:
    """Return one of many patterns, all of the same size."""
    result = x
    for _ in range(8):
        number, k = divmod(number, 3)
        result = OPERATIONS[k](result, x)
    return result


def expected(number: int, x: float) -> float:
    result = x
    for _ in range(8):
        number, k = divmod(number, 3)
        result = (result + x, result - x, result * x)[k]
    return result


def forget() -> int:
    """Drop all kernels, and return how many are still alive."""
    realize_module.evict_plans()
    compiler().kernels.drop_recent()
    gc.collect()
    return len(backend().kernels)


@pytest.fixture
def max_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return the maximal number of live kernels, a low one."""
    monkeypatch.setattr(kernel_cache, "MAX_RECENT_KERNELS", 5)
    bound = forget() + 20
    monkeypatch.setattr(realize_module, "MAX_KERNELS", bound)
    yield bound
    forget()


class TestKernels:
    def test_number_of_kernels_is_bounded(self, max_kernels: int) -> None:
        x, counts = tx.full(7, 0.5).realize(), set[int]()
        for k in range(100):
            assert expression(k, x).tolist() == [expected(k, 0.5)] * 7
            counts.add(len(backend().kernels))
        assert max(counts) == max_kernels

    def test_running_plan_may_exceed_the_bound(self, max_kernels: int) -> None:
        x = tx.full(7, 0.5).realize()
        results = [expression(k, x) for k in range(60)]
        tx.realize(*results)
        assert [t.tolist() for t in results] == [[expected(k, 0.5)] * 7 for k in range(60)]
        expression(100, x).realize()
        assert len(backend().kernels) <= max_kernels

    def test_evicted_kernel_is_compiled_again_when_needed(self, max_kernels: int) -> None:
        x = tx.full(7, 0.5).realize()
        kernel, first = kernel_of(expression(0, x)), sum(tx.compile_counts())
        for k in range(80):
            expression(k, x).realize()
        assert kernel not in backend().kernels and kernel not in list(backend().kernels)
        assert sum(tx.compile_counts()) == first + 80
        assert expression(0, x).tolist() == [expected(0, 0.5)] * 7
        assert kernel in backend().kernels and sum(tx.compile_counts()) == first + 81  # it was made, or found, again
        assert backend().listing(kernel)

    def test_recent_kernels_outlive_their_plans(self, max_kernels: int) -> None:
        x = tx.full(7, 0.5).realize()
        for k in range(12):
            expression(k, x).realize()
        realize_module.evict_plans()
        count = sum(tx.compile_counts())
        for k in range(7, 12):
            expression(k, x).realize()
        assert sum(tx.compile_counts()) == count
        expression(6, x).realize()
        assert sum(tx.compile_counts()) == count + 1

    def test_running_kernel_is_not_freed(self, max_kernels: int, threads: Callable[[int], None]) -> None:
        """A kernel runs, with the GIL released, although all plans have been dropped since it was bound."""
        x = tx.full(1 << 20, 0.5, dtype=tx.float32).realize()
        expression(5, x).realize()
        kernel = kernel_of(expression(5, x))
        code = backend().kernels[kernel]
        assert isinstance(code, MachineCode)
        run, survived = code.call_without_gil, list[bool]()

        def run_after_eviction(*arguments: object) -> None:
            forget()
            survived.append(kernel in backend().kernels)
            run(*arguments)  # type: ignore[arg-type]

        code.call_without_gil = run_after_eviction
        del code
        threads(1)
        assert expression(5, x)[:: 1 << 18].tolist() == [expected(5, 0.5)] * 4
        assert survived == [True]
        assert kernel not in backend().kernels

    def test_equal_kernels_share_code_while_it_is_referenced(self) -> None:
        compiled: list[Kernel] = []

        def compile_kernel(kernel: Kernel) -> MachineCode:
            compiled.append(kernel)
            return compiler()._make_code(kernel)

        cache, kernel = kernel_cache.KernelCache(compile_kernel), kernel_of(expression(3, tx.full(7, 0.5).realize()))
        held = cache.get(kernel)
        cache.drop_recent()
        assert cache.get(kernel) is held and len(compiled) == 1
        cache.drop_recent()
        del held
        assert not cache.live_kernels
        cache.get(kernel)
        assert len(compiled) == 2

    def test_number_of_interpreted_kernels_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel_cache, "MAX_RECENT_KERNELS", 5)
        interpreter, x = Interpreter(), tx.full(7, 0.5).realize()
        for k in range(30):
            interpreter.compile(kernel_of(expression(k, x)))
        assert len(interpreter.kernels) == 5

    @pytest.mark.parametrize("cached", [True, False])
    def test_unreferenced_code_is_unloaded(self, cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """The memory of code is freed with the last reference to it."""
        if not cached:
            monkeypatch.setenv("TENXOR_CACHE_DIR", "")
        native = Compiler()
        library = ref(native.get(kernel_of(expression(4, tx.full(7, 0.5).realize()))).library)
        assert library() is not None
        native.kernels.drop_recent()
        assert library() is None and not native.kernels.live_kernels

    def test_kernel_and_its_facts_share_code_until_both_are_freed(self) -> None:
        native = Compiler()
        code = native.get(kernel_of(expression(4, tx.full(7, 0.5).realize())))
        counts = native.compiled_count, native.loaded_count
        same_code = native.get(code.facts)
        assert same_code is not code and (same_code.address, same_code.library) == (code.address, code.library)
        assert (native.compiled_count, native.loaded_count) == counts
        library = ref(code.library)
        del code
        native.kernels.drop_recent()
        assert library() is not None  # as long as one of the two lives
        del same_code
        native.kernels.drop_recent()
        assert library() is None


def run(program: str) -> str:
    """Return the output of a process, which must exit cleanly."""
    process = python("-c", program)
    assert not process.stderr
    return process.stdout


START = """
import os, sys
import tenxor as tx
from tenxor.codegen import backend, kernel_cache
from tenxor.runtime import plan_disk_cache
import tenxor.runtime.realize
plan_disk_cache.disable_stored_plans()
realize = sys.modules["tenxor.runtime.realize"]
kernel_cache.MAX_RECENT_KERNELS, realize.MAX_KERNELS = 8, 32
x = tx.full(7, 0.5).realize()
def value(number):
    result = x
    for _ in range(8):
        number, k = divmod(number, 3)
        result = (tx.add, tx.subtract, tx.multiply)[k](result, x)
    return result[0].item()
"""

RESIDENT = """
import ctypes, resource
def resident():
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
"""

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")


class TestProcess:
    def test_process_exits_cleanly_after_freeing_kernels(self) -> None:
        program = START + "print(len({value(k) for k in range(100)}) > 10, len(backend().kernels) <= 32)"
        assert run(program) == "True True\n"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    def test_forked_process_frees_and_makes_its_own_kernels(self) -> None:
        program = (
            START
            + """
first = [value(k) for k in range(60)]
pid = os.fork()
second = [value(k) for k in range(80)]
assert second[:60] == first and len(backend().kernels) <= 32
if pid:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    print("both")
"""
        )
        assert run(program) == "both\n"

    @linux
    def test_memory_does_not_grow_with_the_number_of_patterns(self) -> None:
        """Each pattern would keep 55 kB."""
        program = (
            START
            + RESIDENT
            + """
for k in range(150):
    value(k)
before = resident()
for k in range(150, 750):
    value(k)
print(resident() - before)
"""
        )
        assert int(run(program)) < 12_000_000

    @linux
    def test_unloaded_code_leaves_no_memory_behind(self) -> None:
        """LLVM would keep 4.5 kB of each."""
        program = (
            START
            + RESIDENT
            + """
from tenxor.codegen.llvm.compiler import KERNEL_SYMBOL, compiler
value(1)
made = compiler()
image = made._compile_object(made.emit_llvm_ir(next(kernel for kernel in made.kernels.live_kernels if hasattr(kernel, "body"))))
for k in range(2600):
    if k == 100:
        before = resident()
    made._linker.link(image, (KERNEL_SYMBOL,))
print(resident() - before)
"""
        )
        assert int(run(program)) < 4_000_000
