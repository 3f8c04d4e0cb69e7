"""Test long loops: pending graphs and cached plans are bounded, so no loop runs out of memory, of stack, or of kernels."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.runtime import generic_plans
from tenxor.runtime.pending_limits import MAX_PENDING_NODES
from tenxor.runtime.realize import _plans

from .processes import python

STEPS = {
    "x = x + 1": lambda x: x + 1,
    "x = x + x * 0": lambda x: x + x * 0,
    "x = (x + 1).T": lambda x: (x + 1)[::-1],
    "x = x - x.mean() + 1": lambda x: x - x.mean() + 1,
    "x += 1": lambda x: x.__iadd__(1),
    "x[1:] = x[:-1]": lambda x: x.__setitem__(slice(1, None), x[:-1]) or x,
    "x[2] = x[1] + 1": lambda x: x.__setitem__(2, x[1] + 1) or x,
    "bytes": lambda x: x.view(tx.uint8)[7::8].__iadd__(0) is None or x,
}


class TestLongLoops:
    """A pending graph is bounded, so no loop runs out of memory, of stack, or of kernels."""

    @pytest.mark.parametrize("name", STEPS)
    def test_long_loops_run_in_constant_memory(self, name: str) -> None:
        step = STEPS[name]
        x = tx.zeros(10) + 0
        for _ in range(3 * MAX_PENDING_NODES):
            x = step(x)  # until the graphs that are computed repeat
        gc.collect()
        plans, used, compiled = len(_plans), tx.memory(reset_peak=True).in_use, sum(tx.compile_counts())
        tracemalloc.start()
        try:
            for _ in range(1500):
                x = step(x)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 400_000, f"{peak} bytes of Python's memory"
        x.realize()
        assert tx.memory().peak - used < 100_000
        assert sum(tx.compile_counts()) - compiled <= 8
        assert len(_plans) - plans <= 30

    def test_hundred_thousand_steps_need_constant_memory(self) -> None:
        program = """
import resource
import tenxor as tx
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x = tx.zeros(10)
for k in range(100_000):
    x = x + 1
    if k == 10_000:  # when the fast path has been made
        start, compiled = peak(), sum(tx.compile_counts())
assert peak() - start < 3_000, (start, peak())  # kilobytes
assert sum(tx.compile_counts()) - compiled <= 1 and compiled < 6, tx.compile_counts()  # chains of two lengths among them
assert x.tolist() == [100_000.0] * 10
"""
        python("-c", program)

    def test_deep_graphs_leave_the_caller_half_of_the_stack(self) -> None:
        def at_depth(depth: int, work: Callable[[], float]) -> float:
            return work() if not depth else at_depth(depth - 1, work)

        frame, depth = sys._getframe(), 0
        while frame.f_back is not None:
            frame, depth = frame.f_back, depth + 1

        def chain() -> float:
            x = tx.ones(3)
            for k in range(MAX_PENDING_NODES - 8):
                x = (x * 2 if k % 3 else tx.maximum(x, -x)) - 0.5
            return x.sum().item()

        assert at_depth(sys.getrecursionlimit() // 2 - depth, chain) == chain()

    def test_recurrence_of_two_terms_is_right_after_400_steps(self) -> None:
        a, b = tx.ones(4), tx.ones(4) * 2
        for _ in range(400):
            a, b = b, (a + b) * 0.5
        assert abs(b[0].item() - 5 / 3) < 1e-12

    def test_500_doublings_are_computed(self) -> None:
        x = tx.ones(4)
        for _ in range(500):
            x = x + x
        assert x.tolist() == [2.0**500] * 4


@pytest.mark.usefixtures("plain")
class TestPlanCache:
    def test_repeated_work_adds_no_plans(self) -> None:
        def work(k: int) -> float:
            x = tx.asarray(np.arange(48.0).reshape(6, 8)) * k + 3
            x[1:] = x[:-1] - k
            return (x.sum(axis=0) / 2).max().item()

        work(1)
        before = dict(_plans)
        for k in range(2, 50):
            work(k)
        assert _plans == before

    def test_repeated_work_is_not_planned_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make, planned = generic_plans.make_plan, []
        lazy_functions = sys.modules["tenxor.runtime.realize"].generic_plans
        monkeypatch.setattr(lazy_functions, "make_plan", lambda *args: planned.append(args) or make(*args), raising=False)
        for k in range(5):
            x = tx.arange(33) * k
            x[::3] = x[1::3] - 19
            assert x.tolist()[:3] == [k - 19, k, 2 * k]
            assert not planned or k == 0
            planned.clear()

    def test_named_constant_is_stored_by_a_second_plan(self) -> None:
        x, numbers = tx.zeros(11).realize(), tx.arange(11)
        for _ in range(2):
            (x - numbers).realize()
        before = len(_plans)
        assert numbers.storage.node.buffer is not None
        for _ in range(2):
            (x - numbers).realize()
        assert len(_plans) <= before + 1

    def test_number_of_plans_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_plans, "max_entries", 20)
        for n in range(1, 100):
            assert (tx.arange(n) + 3).sum().item() == n * (n - 1) // 2 + 3 * n
            assert len(_plans) <= 20 or n == 1

    def test_plans_with_large_offset_tables_are_not_cached(self) -> None:
        x = tx.asarray(np.arange(50_000.0))
        before = len(_plans)
        for shift in range(3):
            index = np.roll(np.arange(50_000), shift)
            assert x.oindex[index.tolist()].sum().item() == 49_999 * 25_000
        assert len(_plans) - before <= 2

    def test_cached_plans_keep_no_tensor_alive(self) -> None:
        gc.collect()
        before = tx.memory().in_use
        for _ in range(3):
            x = tx.ones((300, 300)) + 1
            y = x @ x + tx.exp(x)
            y[3:] = x[3:] * 2
            y.realize()
            del x, y
        assert tx.memory().in_use == before
