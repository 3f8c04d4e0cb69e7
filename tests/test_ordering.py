"""The order of steps: each after its operands, without additional copies, and with little memory in use."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import float64
from tenxor.plans.ordering import ordered
from tenxor.plans.steps import Step


def step(number: int, nbytes: int, needs: set[int], over: int | None = None) -> Step:
    found = Step(number, (nbytes,), float64, nbytes, "test", number)
    found.needs, found.over = needs, over
    return found


def test_reader_of_an_extra_output_runs_after_its_kernel() -> None:
    """The reader frees memory, and its operand is an extra output instead of the number of a step."""
    both, reader, other = step(1, 8, {0}), step(2, 8, {3, 4}), step(5, 8, {0})
    both.beside = ((9, 3),)
    found = ordered([both, reader, other], dict.fromkeys(range(10), 8), frozenset({1, 2, 5}))
    assert found.index(both) < found.index(reader)


def peak(steps: list[Step], nbytes: dict[int, int], kept: frozenset[int]) -> int:
    """Return the peak of the bytes of all cells."""
    live = {cell for s in steps for cell in s.needs} - {s.number for s in steps}
    most = 0
    for k, s in enumerate(steps):
        live.add(s.number)
        most = max(most, sum(nbytes[cell] for cell in live))
        later = {cell for other in steps[k + 1 :] for cell in other.needs}
        live = {cell for cell in live if cell in later or cell in kept}
    return most


def test_steps_that_free_memory_run_early() -> None:
    """Large intermediates with small results are not all computed before the first result."""
    count = 6
    large = [step(1 + k, 100, {0}) for k in range(count)]
    small = [step(11 + k, 1, {1 + k}) for k in range(count)]
    nbytes = {0: 1} | {s.number: s.nbytes for s in (*large, *small)}
    kept = frozenset(s.number for s in small)
    found = ordered([*large, *small], nbytes, kept)
    assert [s.number for s in found] == [number for k in range(count) for number in (1 + k, 11 + k)]
    assert peak(found, nbytes, kept) < peak([*large, *small], nbytes, kept) / 4


@pytest.mark.parametrize("seed", range(40))
def test_every_step_runs_after_its_operands(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, given = int(rng.integers(1, 40)), 3
    nbytes = {k: int(rng.integers(0, 50)) for k in range(count + given)}
    steps: list[Step] = []
    for k in range(given, count + given):
        needs = {int(n) for n in rng.integers(0, k, int(rng.integers(0, 4)))}
        over = int(rng.integers(0, k)) if rng.random() < 0.2 else None
        steps.append(step(k, nbytes[k], needs | ({over} if over is not None else set()), over))
    kept = frozenset(int(k) for k in rng.integers(0, count + given, 3))
    found = ordered(steps, nbytes, kept)
    assert sorted(s.number for s in found) == [s.number for s in steps]
    there = set(range(given))
    for s in found:
        assert s.needs <= there
        there.add(s.number)
    place = {s.number: k for k, s in enumerate(found)}
    for k, s in enumerate(steps):
        if s.over is not None:  # what read that before still does, and writes stay in their order
            assert all(place[other.number] < place[s.number] for other in steps[:k] if s.over in other.needs or other.over is not None)


def test_backward_of_a_deep_chain_needs_little_more_than_forward() -> None:
    """Each product of a gradient runs as soon as its operands are there, and frees them."""
    layers, width = 10, 96
    weights = [tx.asarray(np.eye(width, dtype=np.float32)).requires_grad_() for _ in range(layers)]
    x = tx.ones((2048, width), dtype=tx.float32).realize()
    kept = 2048 * width * 4
    for _ in range(2):
        y = x
        for w in weights:
            w.grad = None
            y = tx.tanh(y @ w)
        before = tx.memory(reset_peak=True).in_use
        (y * y).sum().backward()
        del y
        tx.realize(*[w.grad for w in weights])
        assert tx.memory().peak - before < (layers + 4) * kept
