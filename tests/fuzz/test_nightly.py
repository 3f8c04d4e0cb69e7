"""What is tried by night, at small size; and again all that ever failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import nightly, numpy_calls

FAILED = [line.split() for line in nightly.CORPUS.read_text().splitlines()]


@pytest.mark.parametrize(("kind", "seed"), FAILED, ids=map(" ".join, FAILED))
def test_seeds_that_failed_once_pass(kind: str, seed: str) -> None:
    if kind not in nightly.KINDS:
        pytest.skip("PyTorch is not installed: pip install '.[interop]' to call it")
    nightly.KINDS[kind](int(seed))


TESTED_APART = (
    "programs",
    "watched",
    "ladder",
    "bits",
    "indexed bits",
    "torch",
    "training",
)  # the last two in tests/interop/test_torch_calls.py


@pytest.mark.parametrize("kind", [kind for kind in nightly.KINDS if kind not in TESTED_APART])
def test_300_seeds_of_each_kind_of_random_test_pass(kind: str) -> None:
    for seed in range(300):
        wrong = nightly.tried(kind, seed)
        assert wrong is None, f"{kind} {seed}\n{wrong}"


def test_failure_of_a_seed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(nightly.KINDS, "summed", lambda seed: 1 // (seed - 3))
    assert nightly.tried("summed", 2) is None
    assert "ZeroDivisionError" in (nightly.tried("summed", 3) or "")


def test_results_that_differ_from_numpy_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/coming-from/numpy.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Results that differ")
    named = set(re.findall(r"`(\w+)`", section.partition("\n## ")[0]))
    assert numpy_calls.DIFFERENT.keys() <= named
