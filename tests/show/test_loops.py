"""Long loops: lines where nobody watches, a picture that grows in a notebook. Bars of other libraries are in tests/interop."""

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
    """The time in seconds, which passes only as told."""
    now = [100.0]
    monkeypatch.setattr("tenxor.show.loops.perf_counter", lambda: now[0])
    yield now


def walked(clock: list[float], steps: Any, seconds: float, **numbers: float) -> list[Any]:
    found = []
    for step in steps:
        clock[0] += seconds
        steps.tell(**numbers)
        found.append(step)
    return found


def test_lines_are_few_and_the_last_is_there(clock: list[float]) -> None:
    file = StringIO()
    steps = tx.show.progress(range(5), "learning", file=file)
    assert walked(clock, steps, 6.0, loss=0.25, accuracy=0.5) == [0, 1, 2, 3, 4]
    assert file.getvalue().splitlines() == [
        "learning 2/5, loss 0.25, accuracy 0.5, 12 s, 18 s left",
        "learning 4/5, loss 0.25, accuracy 0.5, 24 s, 6.0 s left",
        "learning 5/5, loss 0.25, accuracy 0.5, 30 s",
    ]
    assert steps.curves == {"loss": [0.25] * 5, "accuracy": [0.5] * 5}


def test_of_how_many_is_told_or_not_known(clock: list[float]) -> None:
    file = StringIO()
    assert walked(clock, tx.show.progress(iter("ab"), file=file), 4000.0) == ["a", "b"]
    assert file.getvalue().splitlines() == ["1, 1 h 06 min", "2, 2 h 13 min", "2, 2 h 13 min"]
    file = StringIO()
    walked(clock, tx.show.progress(iter([8, 9]), "again", total=10, start=8, file=file), 100.0)
    assert file.getvalue().splitlines() == [
        "again 9/10, 1 min 40 s, 1 min 40 s left",
        "again 10/10, 3 min 20 s",
        "again 10/10, 3 min 20 s",
    ]


@pytest.mark.parametrize("how", ["break", "error"])
def test_a_loop_that_is_left_early_is_closed(how: str, clock: list[float]) -> None:
    file = StringIO()
    try:
        for step in tx.show.progress(range(5), file=file):
            if step == 2 and how == "break":
                break
            assert step < 2
    except AssertionError:
        pass
    assert file.getvalue() == "2/5, 0.0 s, 0.0 s left\n"


def test_tensors_are_read_when_they_are_told(clock: list[float]) -> None:
    steps = tx.show.progress(range(1), file=StringIO())
    loss = tx.asarray([3.0])
    for _ in steps:
        steps.tell(loss=loss[0])
        loss[0] = 4.0
    assert steps.curves == {"loss": [3.0]}


class Display:
    """Where a notebook shows something, and all that it showed."""

    def __init__(self, first: Any) -> None:
        self.shown = [first]

    def update(self, thing: Any) -> None:
        self.shown.append(thing)


def test_a_notebook_sees_the_curves_grow(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
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
    walked(clock, tx.show.progress(range(4), "digits", file=file), 0.6, loss=0.5)
    (only,) = displays
    assert file.getvalue() == ""
    assert only.shown[0] == "digits 0/4, 0.0 s"
    assert [type(thing).__name__ for thing in only.shown[1:]] == ["Figure"] * 3  # at 1.2 s, 2.4 s, and at the end
    assert "digits 4/4, loss 0.5, 2.4 s" in only.shown[-1].svg


def test_a_terminal_without_bars_has_lines(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich.progress", "tqdm"):
        monkeypatch.setitem(sys.modules, name, None)
    file = StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True, raising=False)
    walked(clock, tx.show.progress(range(2), file=file), 1.0)
    assert file.getvalue() == "2/2, 2.0 s\n"


def test_what_cannot_be_walked_through() -> None:
    with pytest.raises(ArgumentError, match=r"show.progress: items is 10, which .*; give range\(10\)"):
        tx.show.progress(10)  # type: ignore[arg-type]
