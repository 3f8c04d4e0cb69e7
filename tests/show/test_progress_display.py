"""Progress of long loops: lines in a file, growing curves in a notebook. Bars of other libraries are in tests/interop."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import StringIO
from types import ModuleType
from typing import Any

import pytest

import tenxor as tx
from tenxor.errors import ArgumentError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time in seconds, which the test sets."""
    now = [100.0]
    monkeypatch.setattr("tenxor.show.progress_display.perf_counter", lambda: now[0])
    yield now


def run_loop(clock: list[float], steps: Any, seconds: float, **numbers: float) -> list[Any]:
    found = []
    for step in steps:
        clock[0] += seconds
        steps.tell(**numbers)
        found.append(step)
    return found


def test_progress_prints_few_lines_and_the_last_step(clock: list[float]) -> None:
    file = StringIO()
    steps = tx.show.progress(range(5), "learning", file=file)
    assert run_loop(clock, steps, 6.0, loss=0.25, accuracy=0.5) == [0, 1, 2, 3, 4]
    assert file.getvalue().splitlines() == [
        "learning 2/5, loss 0.25, accuracy 0.5, 12 s, 18 s left",
        "learning 4/5, loss 0.25, accuracy 0.5, 24 s, 6.0 s left",
        "learning 5/5, loss 0.25, accuracy 0.5, 30 s",
    ]
    assert steps.curves == {"loss": [0.25] * 5, "accuracy": [0.5] * 5}


def test_progress_prints_the_total_if_it_is_known(clock: list[float]) -> None:
    file = StringIO()
    assert run_loop(clock, tx.show.progress(iter("ab"), file=file), 4000.0) == ["a", "b"]
    assert file.getvalue().splitlines() == ["1, 1 h 06 min", "2, 2 h 13 min", "2, 2 h 13 min"]
    file = StringIO()
    run_loop(clock, tx.show.progress(iter([8, 9]), "again", total=10, start=8, file=file), 100.0)
    assert file.getvalue().splitlines() == [
        "again 9/10, 1 min 40 s, 1 min 40 s left",
        "again 10/10, 3 min 20 s",
        "again 10/10, 3 min 20 s",
    ]


@pytest.mark.parametrize("how", ["break", "error"])
def test_progress_of_an_abandoned_loop_is_closed(how: str, clock: list[float]) -> None:
    file = StringIO()
    try:
        for step in tx.show.progress(range(5), file=file):
            if step == 2 and how == "break":
                break
            assert step < 2
    except AssertionError:
        pass
    assert file.getvalue() == "2/5, 0.0 s, 0.0 s left\n"


def test_progress_keeps_the_value_of_a_tensor_at_the_call_of_tell(clock: list[float]) -> None:
    steps = tx.show.progress(range(1), file=StringIO())
    loss = tx.asarray([3.0])
    for _ in steps:
        steps.tell(loss=loss[0])
        loss[0] = 4.0
    assert steps.curves == {"loss": [3.0]}


class Display:
    """The display of a notebook, and all that it showed."""

    def __init__(self, first: Any) -> None:
        self.shown = [first]

    def update(self, thing: Any) -> None:
        self.shown.append(thing)


def test_progress_updates_the_curves_in_a_notebook(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    displays: list[Display] = []

    def display(thing: Any, display_id: bool) -> Display:
        assert display_id
        displays.append(Display(thing))
        return displays[-1]

    shell = ModuleType("shell")
    shell.kernel = "a kernel"  # type: ignore[attr-defined]
    interactive, its = ModuleType("IPython"), ModuleType("IPython.display")
    interactive.get_ipython = lambda: shell  # type: ignore[attr-defined]
    its.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    monkeypatch.setitem(sys.modules, "IPython.display", its)
    file = StringIO()
    run_loop(clock, tx.show.progress(range(4), "digits", file=file), 0.6, loss=0.5)
    (only,) = displays
    assert file.getvalue() == ""
    assert only.shown[0] == "digits 0/4, 0.0 s"
    assert [type(thing).__name__ for thing in only.shown[1:]] == ["Figure"] * 3  # at 1.2 s, 2.4 s, and at the end
    assert "digits 4/4, loss 0.5, 2.4 s" in only.shown[-1].svg


def test_progress_prints_lines_in_a_terminal_without_bars(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich.progress", "tqdm"):
        monkeypatch.setitem(sys.modules, name, None)
    file = StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True, raising=False)
    run_loop(clock, tx.show.progress(range(2), file=file), 1.0)
    assert file.getvalue() == "2/2, 2.0 s\n"


def test_progress_refuses_objects_that_are_not_iterable() -> None:
    with pytest.raises(ArgumentError, match=r"show.progress: items is 10, which .*; give range\(10\)"):
        tx.show.progress(10)  # type: ignore[arg-type]


def test_progress_tell_reports_all_numbers_or_none() -> None:
    steps = tx.show.progress([1, 2])
    with pytest.raises(tx.errors.ShapeError):
        steps.tell(loss=1.0, rate=tx.ones(3))  # type: ignore[arg-type]
    assert steps.told() == ""


def test_progress_line_is_available_before_the_loop(clock: list[float]) -> None:
    assert tx.show.progress([1, 2], "training").line() == "training 0/2, 0.0 s"


def test_spark_of_no_width_raises() -> None:
    with pytest.raises(ArgumentError, match="spark: width is 0; it must be 1 or more"):
        tx.show.spark([1.0, 2.0], width=0)
