"""Test that code which interrupts a computation, a signal handler or a finalizer, may compute the same tensors.

It runs before some call of the library, or before some instruction of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.fastpath import graph_launch, launch_records
from tenxor.graph import spec
from tenxor.runtime.realize import evict_plans
from tenxor.tensor import Tensor

from . import machines

PACKAGE = str(Path(tx.__file__).parent)
MOMENTS = 25  # of each program, spread evenly, that are tried
SIZES = [6, 3000, 50_000]  # the fast path computes the smallest itself, and launches kernels for the next

Tensors = dict[str, Tensor]


class Moment:
    """A trace function that calls `act` once, before the call or the instruction of the library with this number."""

    def __init__(self, number: int, act: Callable[[], None], *, opcodes: bool) -> None:
        self.number, self.act, self.opcodes = number, act, opcodes
        self.passed, self.came = 0, False

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or (self.opcodes and name.endswith("memory/block_pool.py")):
            return None  # the pool asks and takes without a call in between, where nothing else can run but a trace function
        if self.opcodes:
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == ("opcode" if self.opcodes else "call"):
            self.passed += 1
            if self.passed == self.number:
                self.came = True
                self.act()
        return self


@contextmanager
def at(moment: Moment) -> Iterator[None]:
    """Trace with `moment` inside the context."""
    before = sys.gettrace()
    sys.settrace(moment)
    try:
        yield
    finally:
        sys.settrace(before)


def chain(t: Tensors) -> list[Tensor]:
    t["y"] = t["x"] * 2.0 + 1.0
    t["z"] = t["y"].sum() + t["y"]
    return [t["z"]]


def two_results(t: Tensors) -> list[Tensor]:
    t["y"], t["z"] = t["x"] + 1.0, t["x"] * t["x"]
    return [t["y"], t["z"]]


def one_result(t: Tensors) -> list[Tensor]:
    t["y"] = t["z"] = t["x"] - 3.0
    return [t["y"]]


def slice_write(t: Tensors) -> list[Tensor]:
    t["y"] = t["x"] + 1.0
    t["z"] = t["y"] * 2.0
    t["y"][1:] = t["y"][:-1]
    return [t["y"]]


def index_write(t: Tensors) -> list[Tensor]:
    t["y"] = t["x"].copy().realize()
    t["z"] = t["y"] * 1.0
    t["y"][[2, 0, 1]] = t["x"][:3]
    return [t["y"]]


PROGRAMS = [chain, two_results, one_result, slice_write, index_write]


def export(t: Tensors) -> None:
    t["seen"] = np.asarray(t["y"])  # type: ignore[assignment]


def read(t: Tensors) -> None:
    t["z"].tolist(), t["y"].tolist()


def write(t: Tensors) -> None:
    t["x"] += 1.0
    t["x"].realize()
    t["z"].tolist()


def clear(t: Tensors) -> None:
    tx.clear_caches()


ACTS = [export, read, write, clear]


def _check_program(program: Callable[[Tensors], list[Tensor]], act: Callable[[Tensors], None], moment: Moment, size: int) -> None:
    """Check a run of the program that `act` interrupts at `moment`, and then a second run."""
    for _ in range(2):
        t: Tensors = {"x": tx.asarray(np.arange(float(size)) % 13)}
        reference: Tensors = {"x": tx.asarray(np.arange(float(size)) % 13)}
        program(reference)
        expected = {name: reference[name].to_numpy() for name in ("y", "z", "x")}
        results = program(t)
        moment.act, moment.came = lambda t=t: act(t), False  # type: ignore[misc]
        with at(moment):
            tx.realize(*results)
        same = [name for name in expected if (t[name].to_numpy() == expected[name]).all()]
        assert same == ["y", "z"] if act is write and moment.came else same == ["y", "z", "x"]
        if "seen" in t:
            t["seen"][2] = 99.0
            assert t["y"][2].item() == 99.0, "what was exported is the tensor's own memory"
            assert "z" not in t or t["z"] is t["y"] or (t["z"].to_numpy() == expected["z"]).all()


def _clear_caches() -> None:
    evict_plans()
    spec.clear_templates()
    launch_records.drop_records(), graph_launch.drop_graph_records()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("act", ACTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("is_warm", [False, True])
def test_code_that_interrupts_a_computation_may_use_its_tensors(
    is_warm: bool, program: Any, act: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.tune(monkeypatch, thread_limits={"min_donated_bytes": 4096})  # operands give their memory
    counting_moment = Moment(0, lambda: None, opcodes=is_warm)
    for _ in range(2):
        _check_program(program, act, counting_moment, size)
    if not is_warm:
        _clear_caches()
    counting_moment.passed = 0
    results = program({"x": tx.asarray(np.arange(float(size)) % 13)})
    with at(counting_moment):
        tx.realize(*results)
    last = counting_moment.passed
    assert last
    for number in range(1, last + 1, max(1, last // MOMENTS)):
        if not is_warm:
            _clear_caches()
        _check_program(program, act, Moment(number, lambda: None, opcodes=is_warm), size)
