"""Each allocation may run the garbage collector, whose finalizers may use, write and delete the tensors of the call."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import graph_launch, launch_records
from tenxor.graph import spec
from tenxor.tensor import Tensor

from .calls import calls, operands
from .programs import Program

ROUNDS = 2  # of each call
PROGRAMS = 8
MOST_DONE = 2_000  # times that a finalizer does something


@contextmanager
def collecting_often(threshold: int = 1) -> Iterator[None]:
    """Run the collector on young objects at nearly every allocation of a container."""
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Trap:
    """A cycle of garbage that acts when it is collected, and leaves another."""

    acts: Callable[[], object] | None = None
    done = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        act, Trap.acts = Trap.acts, None  # not again below itself
        if act is not None:
            Trap.done += 1
            try:
                copy_context().run(act)  # as CPython goes on with what it has freed where a variable is set while it sets one
            finally:
                Trap.acts = act
        if Trap.acts is not None and Trap.done < MOST_DONE:
            Trap()


@contextmanager
def run_at_collections(act: Callable[[], object]) -> Iterator[None]:
    """Run an action at each collection."""
    Trap.acts, Trap.done = act, 0
    with collecting_often():
        Trap()
        try:
            yield
        finally:
            Trap.acts = None


def acts(its: dict[str, Any], rng: random.Random) -> dict[str, Callable[[], object]]:
    """Return the actions of finalizers."""

    def change() -> None:
        x, known = its["x"], its["known"]
        known += 1
        x[0, 0] = 3
        x[1:] = x[:1]
        x += x

    def use() -> None:
        x = its["x"]
        (x + its["other"] * 2).sum().item(), x.T[0].tolist(), list(its["row"])

    def renew() -> None:
        its.update(operands(its["x"].dtype))

    def export() -> None:
        its["array"] = np.asarray(its["x"])

    def forget() -> None:
        spec.clear_templates()
        launch_records.drop_records(), graph_launch.drop_graph_records()

    def every() -> None:
        rng.choice([change, use, renew, export, forget])()

    return {"change": change, "use": use, "renew": renew, "export": export, "forget": forget, "every": every}


@pytest.mark.parametrize("act", ["change", "use", "renew", "export", "forget", "every"])
def test_calls_survive_finalizers_that_use_the_same_tensors(act: str) -> None:
    """Each call gives its result or raises its error, and the process does not crash."""
    its = operands(tx.float64)
    whole, rng = list(calls()), random.Random(7)
    for _, call in rng.sample(whole, 150):
        for _ in range(3):
            _quietly(call, its)
    with run_at_collections(acts(its, rng)[act]):
        for _, call in rng.sample(whole, 150):
            for _ in range(ROUNDS):
                _quietly(call, its)
        assert Trap.done
    assert str(its["turned"].tolist()) == str(its["turned"].copy().tolist())  # all is there, and can be asked for
    its.clear()
    _forget()


def _forget() -> None:
    """Clear caches, which refer to some of the counted objects."""
    spec.clear_templates()
    launch_records.drop_records(), graph_launch.drop_graph_records()
    gc.collect()


def _quietly(call: Callable[[dict[str, Any]], Any], its: dict[str, Any]) -> None:
    try:
        found = call(its)
        if isinstance(found, tx.Tensor):
            found.tolist()
    except Exception:
        pass


def test_number_replaced_by_a_finalizer_is_released_once() -> None:
    """The finalizer replaces the number of an element while an operation reads that number."""
    x = tx.asarray(np.arange(5.0) + 1000.5).realize()
    its = {"e": x[3]}

    def act() -> None:
        its["e"] += 10.0
        np.asarray(its["e"])

    for _ in range(3):
        its["e"] += 1.0
    with run_at_collections(act):
        for _ in range(300):
            its["e"] = e = x[3]
            e += 1.0
            number = e.item()
            assert number in [1004.5 + 10 * k for k in range(60)]
            assert sys.getrefcount(number) <= 3


def test_export_by_a_finalizer_does_not_change_a_recorded_operation() -> None:
    """NumPy writes to the exported memory, which the operation has read before."""
    for _ in range(30):
        x = tx.asarray(np.arange(6.0)).realize()
        kept: list[Any] = []

        def act(x: Tensor = x, kept: list[Any] = kept) -> None:
            if not kept:
                kept.append(np.asarray(x))

        with run_at_collections(act):
            y = x + 1.0
        if kept:
            kept[0][:] = 100.0
        assert y.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_weak_reference_callbacks_may_use_other_tensors() -> None:
    x = tx.asarray(np.arange(6.0).reshape(2, 3)).realize()
    heard: list[float] = []
    kept = []
    with collecting_often():
        for k in range(200):
            y = x + float(k % 3)
            kept.append(weakref.ref(y.storage, lambda _: heard.append((x[0] + x[1]).sum().item())))
            kept.append(weakref.ref(y, lambda _: x.__setitem__((0, 0), 0.0)))
            y[0] += 1.0
            assert y[1, 2].item() == 5.0 + k % 3
        del y
    assert len(heard) == 200 and set(heard) == {15.0}


def test_random_programs_survive_collection_and_cleared_caches() -> None:
    """The collector runs at every allocation, and caches are cleared at any moment."""

    def forget() -> None:
        spec.clear_templates()
        launch_records.drop_records(), graph_launch.drop_graph_records()

    for seed in range(PROGRAMS):
        with fastpath.disabled():
            own = Program(seed, 0).run()
        Program(seed, 0).run()
        with run_at_collections(forget):
            short = Program(seed, 0).run()
        assert [(a, b) for a, b in zip(short, own, strict=True) if a != b][:1] == []
