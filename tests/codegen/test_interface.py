"""The interface of back ends: both fulfil it, and one environment variable selects the back end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import tenxor as tx
from tenxor import codegen as chosen
from tenxor.codegen import interpreter
from tenxor.codegen.interface import Backend
from tenxor.codegen.llvm.launch import LlvmBackend
from tenxor.memory.buffer import allocate
from tenxor.runtime.graph_signature import GraphSignature, capture_by_traversal
from tenxor.runtime.kernel_call import SingleKernelCall
from tenxor.runtime.planner import make_plan
from tests.processes import python

BACKENDS: dict[str, Callable[[], Backend]] = {"llvm": LlvmBackend, "interpreter": interpreter.Interpreter}


def run(program: str, name: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `program` in a process with this back end."""
    environment = {**os.environ, **environment}
    environment.pop("TENXOR_BACKEND", None)
    if name is not None:
        environment["TENXOR_BACKEND"] = name
    return python("-c", program, env=environment, well=False)


class TestSelection:
    @pytest.mark.parametrize(("name", "used"), [(None, "llvm"), ("", "llvm"), *((n, n) for n in BACKENDS)])
    def test_environment_selects_the_back_end(self, name: str | None, used: str) -> None:
        process = run("from tenxor.codegen import backend; print(backend().name, type(backend()).__name__)", name)
        assert process.stdout.split() == [used, type(BACKENDS[used]()).__name__], process.stderr

    def test_unknown_back_end_is_an_error(self) -> None:
        process = run("import tenxor", "cuda")
        assert process.returncode != 0
        message = "ArgumentError: TENXOR_BACKEND: there is no back end 'cuda'; choose one of llvm, interpreter"
        assert process.stderr.splitlines()[-1].endswith(message)

    def test_the_interpreter_needs_no_llvm(self) -> None:
        program = """
import sys, tenxor as tx
x = tx.arange(12, dtype=tx.float32).reshape(3, 4)
y = tx.softmax(x @ x.T)[tx.asarray([2, 0]) + 0]
x[1:] = x[:-1]
z = tx.zeros(5).at[tx.asarray([1, 1])].add(1.0)
tx.set_num_threads(3)
print(tx.explain(y + 1)[:6], y.shape, x.tolist()[2], z.tolist(), tx.compile_counts())
print([name for name in sys.modules if "llvm" in name])
"""
        process = run(program, "interpreter", TENXOR_DEBUG="3")
        assert process.stdout.splitlines() == [
            "Tensor (2, 3) [4.0, 5.0, 6.0, 7.0] [0.0, 2.0, 0.0, 0.0, 0.0] (0, 0)",
            "[]",
        ], process.stderr
        assert "[interpreted]" in process.stderr and "kernel scatter" in process.stderr


def bound_kernel(monkeypatch: pytest.MonkeyPatch, name: str, t: tx.Tensor) -> tuple[SingleKernelCall, GraphSignature]:
    """Return the only kernel of a pending tensor, bound by a back end, with its pattern."""
    monkeypatch.setattr(chosen, "_backend", BACKENDS[name]())
    pattern = capture_by_traversal([t.storage.node])
    (step,) = make_plan(pattern).steps
    assert isinstance(step.kernel_call, SingleKernelCall)
    return step.kernel_call, pattern


class StepRecorder:
    """A step that cannot be repeated, with a record of its notifications."""

    is_done = False

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.mark_done = partial(self.seen.append, "done")

    def register_rest(self, remaining: object) -> bool:
        self.seen.append("begun")
        return True


@pytest.mark.parametrize("name", BACKENDS)
class TestLaunch:
    def test_launch_fills_the_given_buffer(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        x = tx.asarray(np.arange(24, dtype=np.float32).reshape(4, 6))
        call, pattern = bound_kernel(monkeypatch, name, x[1:, ::-2] * 2.5 + x[0, 3:])
        for _ in range(2):
            out = allocate(36)
            assert call.run(out, pattern) is False
            expected = np.arange(24).reshape(4, 6)
            assert out.typed_view(tx.float32)[:9].tolist() == (expected[1:, ::-2] * 2.5 + expected[0, 3:]).ravel().tolist()

    def test_launch_reads_offsets_and_scalars_at_each_call(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = tx.arange(40).reshape(8, 5).realize()
        call, _ = bound_kernel(monkeypatch, name, rows[0] * 3)
        for k in range(8):
            out = allocate(40)
            call.run(out, capture_by_traversal([(rows[k] * k).storage.node]))
            assert out.typed_view(tx.int64)[:5].tolist() == [k * (5 * k + j) for j in range(5)]

    @pytest.mark.parametrize("count", [5, 3000])
    def test_concurrent_launches_report_only_their_own_index_errors(self, name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Other threads launch the same kernel at the same time."""
        x = tx.arange(40).realize()
        good, bad = (tx.asarray(np.full(count, k)) for k in (39, 40))
        call, _ = bound_kernel(monkeypatch, name, x[good + 0] * 2 + 1)
        patterns = [capture_by_traversal([(x[i + 0] * 2 + 1).storage.node]) for i in (good, bad)]

        def launches(k: int) -> list[bool]:
            return [call.run(allocate(8 * count), patterns[(k + j) % 2]) for j in range(20 if name == "llvm" else 2)]

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(launches, range(4)))
        assert results == [[(k + j) % 2 == 1 for j in range(len(results[k]))] for k in range(4)]

    def test_launch_calls_done_of_its_recorder_after_the_kernel(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for count in (7, 3000):
            call, pattern = bound_kernel(monkeypatch, name, tx.arange(count).realize() + 1)
            out, recorder = allocate(8 * count), StepRecorder()
            elements = out.typed_view(tx.int64)[:count]
            assert call.run(out, pattern, recorder) is False
            assert recorder.seen == ["done"] and elements.tolist() == list(range(1, count + 1))


def test_interrupted_interpreter_leaves_the_output_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    call, pattern = bound_kernel(monkeypatch, "interpreter", tx.arange(5).realize() + 1)
    out, stored, recorder = allocate(40), interpreter._KernelRun.run_stores, StepRecorder()
    elements = out.typed_view(tx.int64)[:5]
    elements[:] = range(50, 55)

    def interrupted(self: interpreter._KernelRun, s: interpreter.Store) -> None:
        if self.loop_index[0] == 3:
            raise KeyboardInterrupt
        stored(self, s)

    monkeypatch.setattr(interpreter._KernelRun, "run_stores", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call.run(out, pattern, recorder)
    assert not recorder.seen and elements.tolist() == [50, 51, 52, 53, 54]
