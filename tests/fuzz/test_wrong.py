"""Whatever is given to whatever is public, there is a result or an error that says what is wrong: none that came from further in."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tenxor as tx

from .wrong import Call, calls, complaint

SEEDS = 6


@pytest.fixture(autouse=True)
def _within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # some of it writes files
    tx.set_memory_limit(tx.memory().in_use + (1 << 30))
    yield
    tx.set_memory_limit(None)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_wrong_calls_raise_errors_of_tenxor(seed: int) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of NumPy's, about numbers
        complaints = [found for call in calls(seed) if (found := complaint(call)) is not None]
    assert not complaints, "\n".join(complaints)


def test_complaint_reports_inner_errors_but_not_errors_of_the_call() -> None:
    """Errors from further in are; those that are ours, or Python's own about a signature or an operator, are not wrong."""
    assert "KeyError" in str(complaint(Call("one", lambda key: {}[key], ("a",), {})))
    assert "unhashable" in str(complaint(Call("one", lambda key: {}[key], ([],), {})))
    assert "no attribute 'ndim'" in str(complaint(Call("made", lambda: lambda x: x.ndim, (), {}, (3,))))  # what is made is called, too
    for fine in (Call("zeros", tx.zeros, (-1,), {}), Call("zeros", tx.zeros, (), {}), Call("add", operator.add, (tx.ones(1), ""), {})):
        assert complaint(fine) is None
