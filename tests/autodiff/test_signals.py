"""An interrupted derivative leaves the state unchanged: later results are tracked, or not, as before."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from typing import Any

import pytest

import tenxor as tx
from tenxor.autodiff import replay
from tenxor.graph.node import tape_mode, use_tape_mode

node, differentiation = import_module("tenxor.graph.node"), import_module("tenxor.api.differentiation")


class Stop(Exception):
    """Raised by the signal handler."""


class Heard:
    """A context variable whose first assignment handles a signal, as Python does after a call."""

    def __init__(self, own: ContextVar[Any]) -> None:
        self.own, self.get, self.times = own, own.get, 0

    def set(self, value: Any) -> Any:
        found = self.own.set(value)
        self.times += 1
        if self.times == 1:
            raise Stop
        return found


def test_signal_inside_no_grad_restores_tracking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "tape_mode", Heard(tape_mode))
    with pytest.raises(Stop), tx.no_grad():
        raise AssertionError("it was not heard")
    assert tape_mode.get() is True


def test_signal_inside_grad_restores_tracking(monkeypatch: pytest.MonkeyPatch) -> None:
    with use_tape_mode(False):
        scope = differentiation._DerivativeScope("grad", [tx.asarray([1.0])], [0])
        monkeypatch.setattr(differentiation, "tape_mode", Heard(tape_mode))
        with pytest.raises(Stop), scope:
            raise AssertionError("it was not heard")
        assert tape_mode.get() is False


def test_signal_during_tracing_restores_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replay._sizes_are_symbolic
    monkeypatch.setattr(replay, "_sizes_are_symbolic", Heard(own))
    with pytest.raises(Stop):
        replay.record_steps([], lambda stand_ins: [], object())  # type: ignore[arg-type]
    assert own.get() is False
