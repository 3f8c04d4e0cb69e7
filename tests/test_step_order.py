"""Test the order of plan steps: each runs after its operands, no copies are added, and peak memory falls."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import float64
from tenxor.runtime.plan_execution import PlanStep
from tenxor.runtime.step_order import order_plan_steps


def make_step(number: int, nbytes: int, needs: set[int], over: int | None = None) -> PlanStep:
    step = PlanStep(number, (nbytes,), float64, nbytes, "test", number)
    step.input_slots, step.overwritten_slot = needs, over
    return step


def test_reader_of_an_extra_output_runs_after_the_step_that_makes_it() -> None:
    """The reader would free memory, and the slot that it needs is an extra output, not the number of a step."""
    two_results, reader, other = make_step(1, 8, {0}), make_step(2, 8, {3, 4}), make_step(5, 8, {0})
    two_results.extra_outputs = ((9, 3),)
    steps = order_plan_steps([two_results, reader, other], dict.fromkeys(range(10), 8), frozenset({1, 2, 5}))
    assert steps.index(two_results) < steps.index(reader)


def peak(steps: list[PlanStep], nbytes: dict[int, int], kept_slots: frozenset[int]) -> int:
    """Return the peak number of bytes of all live slots."""
    live = {cell for s in steps for cell in s.input_slots} - {s.result_slot for s in steps}
    peak_nbytes = 0
    for k, s in enumerate(steps):
        live.add(s.result_slot)
        peak_nbytes = max(peak_nbytes, sum(nbytes[cell] for cell in live))
        later = {cell for later_step in steps[k + 1 :] for cell in later_step.input_slots}
        live = {cell for cell in live if cell in later or cell in kept_slots}
    return peak_nbytes


def test_step_that_frees_memory_runs_as_soon_as_possible() -> None:
    """Each large result is reduced to a small one before the next large result is made."""
    count = 6
    large = [make_step(1 + k, 100, {0}) for k in range(count)]
    small = [make_step(11 + k, 1, {1 + k}) for k in range(count)]
    nbytes = {0: 1} | {s.result_slot: s.nbytes for s in (*large, *small)}
    kept_slots = frozenset(s.result_slot for s in small)
    steps = order_plan_steps([*large, *small], nbytes, kept_slots)
    assert [s.result_slot for s in steps] == [number for k in range(count) for number in (1 + k, 11 + k)]
    assert peak(steps, nbytes, kept_slots) < peak([*large, *small], nbytes, kept_slots) / 4


@pytest.mark.parametrize("seed", range(40))
def test_every_step_runs_after_its_operands_and_writes_keep_their_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, input_count = int(rng.integers(1, 40)), 3
    nbytes = {k: int(rng.integers(0, 50)) for k in range(count + input_count)}
    steps: list[PlanStep] = []
    for k in range(input_count, count + input_count):
        needs = {int(n) for n in rng.integers(0, k, int(rng.integers(0, 4)))}
        over = int(rng.integers(0, k)) if rng.random() < 0.2 else None
        steps.append(make_step(k, nbytes[k], needs | ({over} if over is not None else set()), over))
    kept_slots = frozenset(int(k) for k in rng.integers(0, count + input_count, 3))
    sorted_steps = order_plan_steps(steps, nbytes, kept_slots)
    assert sorted(s.result_slot for s in sorted_steps) == [s.result_slot for s in steps]
    available = set(range(input_count))
    for s in sorted_steps:
        assert s.input_slots <= available
        available.add(s.result_slot)
    rank = {s.result_slot: k for k, s in enumerate(sorted_steps)}
    for k, s in enumerate(steps):
        if s.overwritten_slot is not None:  # what read that before still does, and writes stay in their order
            assert all(
                rank[prior.result_slot] < rank[s.result_slot]
                for prior in steps[:k]
                if s.overwritten_slot in prior.input_slots or prior.overwritten_slot is not None
            )


def test_backward_pass_of_a_deep_chain_needs_no_more_memory_than_the_forward_pass() -> None:
    """Each product of a gradient runs as soon as its two operands are computed, and frees them."""
    layers, width = 10, 96
    weights = [tx.asarray(np.eye(width, dtype=np.float32)).requires_grad_() for _ in range(layers)]
    x = tx.ones((2048, width), dtype=tx.float32).realize()
    kept_slots = 2048 * width * 4
    for _ in range(2):
        y = x
        for w in weights:
            w.grad = None
            y = tx.tanh(y @ w)
        before = tx.memory(reset_peak=True).in_use
        (y * y).sum().backward()
        del y
        tx.realize(*[w.grad for w in weights])
        assert tx.memory().peak - before < (layers + 4) * kept_slots
