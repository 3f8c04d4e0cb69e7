"""What a signal breaks off leaves derivatives as they were: later results are followed, or not, as they would be."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import tenxor as tx
from tenxor.derivatives import again
from tenxor.node import tracked, tracking

ROUNDS = 60
MOST = 1 << 20  # times: what a signal raises is swallowed where Python cannot tell it, as when an object dies


class Stop(Exception):
    """What handles a signal raises it."""


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Raises Stop in so many seconds."""

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    gc.collect()
    gc.disable()  # else what pytest's plugins have it call hears the signal, too, and that is told as a mistake
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()


def constant() -> None:
    for _ in range(MOST):
        with tx.no_grad():
            pass


def traced() -> None:
    for _ in range(MOST):
        again.steps_for([], lambda stand_ins: [])


@pytest.mark.parametrize("work", [constant, traced])
@pytest.mark.parametrize("outside", [True, False], ids=["followed", "constant"])
def test_a_signal_leaves_what_is_followed_as_it_was(work: Callable[[], None], outside: bool, alarm: Callable[[float], None]) -> None:
    with tracked(outside):
        for k in range(ROUNDS):
            with suppress(Stop):
                alarm(2e-3 + 1e-5 * k)
                work()
            assert tracking.get() is outside and not again._tracing.get()
    x = tx.asarray([2.0]).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.item() == 4.0  # type: ignore[union-attr]
