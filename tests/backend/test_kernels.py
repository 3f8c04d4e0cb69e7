"""Kernels in memory are bounded: those of forgotten plans go, never while they run, and come back when they are asked for."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from weakref import ref

import pytest

import tenxor as tx
from tenxor.backend import backend, kernels
from tenxor.backend.interpreter import Interpreter
from tenxor.backend.llvm.compiler import Compiler, MachineCode, compiler
from tenxor.kernel.ir import Kernel
from tenxor.tensor import Tensor
from tests.kernel.helpers import kernel_of
from tests.processes import python

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

realize_module = sys.modules["tenxor.realize"]
OPERATIONS = (tx.add, tx.subtract, tx.multiply)


def expression(number: int, x: Tensor) -> Tensor:
    """One of many patterns."""
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
    """Let go of all kernels; how many are alive all the same."""
    realize_module.forget()
    compiler().kernels.forget()
    gc.collect()
    return len(backend().kernels)


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How many kernels may be alive, few."""
    monkeypatch.setattr(kernels, "RECENT", 5)
    bound = forget() + 20
    monkeypatch.setattr(realize_module, "MAX_KERNELS", bound)
    yield bound
    forget()


class TestKernels:
    def test_are_bounded(self, most: int) -> None:
        x, counts = tx.full(7, 0.5).realize(), set[int]()
        for k in range(100):
            assert expression(k, x).tolist() == [expected(k, 0.5)] * 7
            counts.add(len(backend().kernels))
        assert max(counts) == most

    def test_of_one_plan_may_be_more_while_it_runs(self, most: int) -> None:
        x = tx.full(7, 0.5).realize()
        results = [expression(k, x) for k in range(60)]
        tx.realize(*results)
        assert [t.tolist() for t in results] == [[expected(k, 0.5)] * 7 for k in range(60)]
        expression(100, x).realize()
        assert len(backend().kernels) <= most

    def test_that_were_freed_come_back(self, most: int) -> None:
        x = tx.full(7, 0.5).realize()
        kernel, first = kernel_of(expression(0, x)), sum(tx.compile_counts())
        for k in range(80):
            expression(k, x).realize()
        assert kernel not in backend().kernels and kernel not in list(backend().kernels)
        assert sum(tx.compile_counts()) == first + 80
        assert expression(0, x).tolist() == [expected(0, 0.5)] * 7
        assert kernel in backend().kernels and sum(tx.compile_counts()) == first + 81  # it was made, or found, again
        assert backend().listing(kernel)

    def test_that_were_asked_for_last_outlive_their_plans(self, most: int) -> None:
        x = tx.full(7, 0.5).realize()
        for k in range(12):
            expression(k, x).realize()
        realize_module.forget()
        made = sum(tx.compile_counts())
        for k in range(7, 12):
            expression(k, x).realize()
        assert sum(tx.compile_counts()) == made
        expression(6, x).realize()
        assert sum(tx.compile_counts()) == made + 1

    def test_stay_while_they_run(self, most: int, threads: Callable[[int], None]) -> None:
        """Plans are forgotten while a kernel runs in another thread, with Python's lock released."""
        x = tx.full(1 << 20, 0.5, dtype=tx.float32).realize()
        expression(5, x).realize()
        kernel = kernel_of(expression(5, x))
        code = backend().kernels[kernel]
        assert isinstance(code, MachineCode)
        running, go_on, run, found = threading.Event(), threading.Event(), code.call_free, list[float]()

        def held(*arguments: object) -> None:
            running.set()
            assert go_on.wait(60)
            run(*arguments)  # type: ignore[arg-type]

        code.call_free = held
        del code
        threads(1)
        thread = threading.Thread(target=lambda: found.extend(expression(5, x)[::1 << 18].tolist()))
        thread.start()
        assert running.wait(60)
        forget()
        assert kernel in backend().kernels
        go_on.set()
        thread.join()
        assert found == [expected(5, 0.5)] * 4
        assert kernel not in backend().kernels

    def test_that_are_equal_are_one_as_long_as_one_is_held(self) -> None:
        made: list[Kernel] = []

        def make(kernel: Kernel) -> MachineCode:
            made.append(kernel)
            return compiler()._make(kernel)

        own, kernel = kernels.Kernels(make), kernel_of(expression(3, tx.full(7, 0.5).realize()))
        held = own.get(kernel)
        own.forget()
        assert own.get(kernel) is held and len(made) == 1
        own.forget()
        del held
        assert not own.alive
        own.get(kernel)
        assert len(made) == 2

    def test_of_the_interpreter_are_bounded_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernels, "RECENT", 5)
        interpreter, x = Interpreter(), tx.full(7, 0.5).realize()
        for k in range(30):
            interpreter.compile(kernel_of(expression(k, x)))
        assert len(interpreter.kernels) == 5

    @pytest.mark.parametrize("cached", [True, False])
    def test_are_unloaded(self, cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Their memory is given back as soon as nothing refers to one."""
        if not cached:
            monkeypatch.setenv("TENXOR_CACHE_DIR", "")
        own = Compiler()
        library = ref(own.get(kernel_of(expression(4, tx.full(7, 0.5).realize()))).library)
        assert library() is not None
        own.kernels.forget()
        assert library() is None and not own.kernels.alive

    def test_a_kernel_and_its_facts_share_their_code(self) -> None:
        own = Compiler()
        made = own.get(kernel_of(expression(4, tx.full(7, 0.5).realize())))
        counts = own.compiled, own.loaded
        again = own.get(made.facts)
        assert again is not made and (again.address, again.library) == (made.address, made.library)
        assert (own.compiled, own.loaded) == counts
        library = ref(made.library)
        del made
        own.kernels.forget()
        assert library() is not None  # as long as one of the two lives
        del again
        own.kernels.forget()
        assert library() is None


def run(program: str) -> str:
    """What a process of its own prints, which must end well."""
    done = python("-c", program)
    assert not done.stderr
    return done.stdout


START = """
import os, sys
import tenxor as tx
from tenxor.backend import backend, kernels
from tenxor.plans import kept
import tenxor.realize
kept.stop()
realize = sys.modules["tenxor.realize"]
kernels.RECENT, realize.MAX_KERNELS = 8, 32
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


class TestAProcess:
    def test_ends_well_with_kernels_freed_and_others_not(self) -> None:
        program = START + "print(len({value(k) for k in range(100)}) > 10, len(backend().kernels) <= 32)"
        assert run(program) == "True True\n"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    def test_that_is_forked_frees_and_makes_its_own(self) -> None:
        program = START + """
first = [value(k) for k in range(60)]
pid = os.fork()
second = [value(k) for k in range(80)]
assert second[:60] == first and len(backend().kernels) <= 32
if pid:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    print("both")
"""
        assert run(program) == "both\n"

    @linux
    def test_does_not_grow_with_the_patterns_it_meets(self) -> None:
        """Each would keep 55 kB."""
        program = START + RESIDENT + """
for k in range(150):
    value(k)
before = resident()
for k in range(150, 750):
    value(k)
print(resident() - before)
"""
        assert int(run(program)) < 12_000_000

    @linux
    def test_keeps_nothing_of_what_was_unloaded(self) -> None:
        """LLVM keeps 4.5 kB of each until the whole goes."""
        program = START + RESIDENT + """
from tenxor.backend.llvm.compiler import ENTRY, compiler
value(1)
made = compiler()
image = made._image(made.llvm_ir(next(iter(made.kernels.alive))))
for k in range(2600):
    if k == 100:
        before = resident()
    made._linker.link(image, (ENTRY,))
print(resident() - before)
"""
        assert int(run(program)) < 4_000_000
