"""The interface of back ends: both keep what it promises, and which one is used is said once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import tenxor as tx
from tenxor import backend as chosen
from tenxor.backend import interpreter
from tenxor.backend.interface import Backend
from tenxor.backend.llvm.launch import Native
from tenxor.memory import allocate
from tenxor.plans.call import Call
from tenxor.plans.pattern import Pattern, pattern_of
from tenxor.plans.plan import make_plan
from tests.processes import python

BACKENDS: dict[str, Callable[[], Backend]] = {"llvm": Native, "interpreter": interpreter.Interpreter}


def run(program: str, name: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own with this back end."""
    environment = {**os.environ, **environment}
    environment.pop("TENXOR_BACKEND", None)
    if name is not None:
        environment["TENXOR_BACKEND"] = name
    return python("-c", program, env=environment, well=False)


class TestWhichIsUsed:
    @pytest.mark.parametrize(("name", "used"), [(None, "llvm"), ("", "llvm"), *((n, n) for n in BACKENDS)])
    def test_is_what_the_environment_says(self, name: str | None, used: str) -> None:
        found = run("from tenxor.backend import backend; print(backend().name, type(backend()).__name__)", name)
        assert found.stdout.split() == [used, type(BACKENDS[used]()).__name__], found.stderr

    def test_is_one_that_there_is(self) -> None:
        found = run("import tenxor", "cuda")
        assert found.returncode != 0
        message = "ArgumentError: TENXOR_BACKEND: there is no back end 'cuda'; choose one of llvm, interpreter"
        assert found.stderr.splitlines()[-1].endswith(message)

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
        found = run(program, "interpreter", TENXOR_DEBUG="3")
        assert found.stdout.splitlines() == [
            "Tensor (2, 3) [4.0, 5.0, 6.0, 7.0] [0.0, 2.0, 0.0, 0.0, 0.0] (0, 0)",
            "[]",
        ], found.stderr
        assert "[interpreted]" in found.stderr and "kernel scatter" in found.stderr


def prepared(monkeypatch: pytest.MonkeyPatch, name: str, t: tx.Tensor) -> tuple[Call, Pattern]:
    """The only kernel of something pending, bound by a back end, and what it is given."""
    monkeypatch.setattr(chosen, "_backend", BACKENDS[name]())
    pattern = pattern_of([t.storage.node])
    (step,) = make_plan(pattern).steps
    assert isinstance(step.filling, Call)
    return step.filling, pattern


class OnlyOnce:
    """What cannot be done twice, and what was said of it."""

    is_done = False

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.done = partial(self.seen.append, "done")

    def begun(self, rest: object) -> bool:
        self.seen.append("begun")
        return True


@pytest.mark.parametrize("name", BACKENDS)
class TestALaunch:
    def test_fills_what_it_is_given(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        x = tx.asarray(np.arange(24, dtype=np.float32).reshape(4, 6))
        call, pattern = prepared(monkeypatch, name, x[1:, ::-2] * 2.5 + x[0, 3:])
        for _ in range(2):
            out = allocate(36)
            assert call.run(out, pattern) is False
            expected = np.arange(24).reshape(4, 6)
            assert out.typed(tx.float32)[:9].tolist() == (expected[1:, ::-2] * 2.5 + expected[0, 3:]).ravel().tolist()

    def test_takes_offsets_and_numbers_as_they_come(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = tx.arange(40).reshape(8, 5).realize()
        call, _ = prepared(monkeypatch, name, rows[0] * 3)
        for k in range(8):
            out = allocate(40)
            call.run(out, pattern_of([(rows[k] * k).storage.node]))
            assert out.typed(tx.int64)[:5].tolist() == [k * (5 * k + j) for j in range(5)]

    @pytest.mark.parametrize("count", [5, 3000])
    def test_tells_of_its_own_indices_alone(self, name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever launches the same meanwhile."""
        x = tx.arange(40).realize()
        good, wrong = (tx.asarray(np.full(count, k)) for k in (39, 40))
        call, _ = prepared(monkeypatch, name, x[good + 0] * 2 + 1)
        given = [pattern_of([(x[i + 0] * 2 + 1).storage.node]) for i in (good, wrong)]

        def launches(k: int) -> list[bool]:
            return [call.run(allocate(8 * count), given[(k + j) % 2]) for j in range(20 if name == "llvm" else 2)]

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(launches, range(4)))
        assert found == [[(k + j) % 2 == 1 for j in range(len(found[k]))] for k in range(4)]

    def test_calls_what_comes_then(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for count in (7, 3000):
            call, pattern = prepared(monkeypatch, name, tx.arange(count).realize() + 1)
            out, once = allocate(8 * count), OnlyOnce()
            elements = out.typed(tx.int64)[:count]
            assert call.run(out, pattern, once) is False
            assert once.seen == ["done"] and elements.tolist() == list(range(1, count + 1))


def test_the_interpreter_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    call, pattern = prepared(monkeypatch, "interpreter", tx.arange(5).realize() + 1)
    out, stored, once = allocate(40), interpreter._Run.store, OnlyOnce()
    elements = out.typed(tx.int64)[:5]
    elements[:] = range(50, 55)

    def interrupted(self: interpreter._Run, s: interpreter.Store) -> None:
        if self.loop_index[0] == 3:
            raise KeyboardInterrupt
        stored(self, s)

    monkeypatch.setattr(interpreter._Run, "store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call.run(out, pattern, once)
    assert not once.seen and elements.tolist() == [50, 51, 52, 53, 54]
