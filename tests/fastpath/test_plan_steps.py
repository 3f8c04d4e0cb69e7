"""Machine code runs the steps of plans like Python, whatever happens between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.codegen.threads import worker_pool
from tenxor.graph.node import UNFINISHED
from tenxor.runtime import plan_execution
from tenxor.runtime.plan_execution import PlanStep
from tenxor.runtime.realize import evict_plans

pytestmark = pytest.mark.usefixtures("on")

ROWS = 1 << 12  # too many for frames of single nodes
FEW = 1 << 9


def parts(seed: int) -> list[Any]:
    """Return pending tensors that several kernels compute together: small and large ones, sums, products, indices, and a write."""
    rng = np.random.default_rng(seed)
    x, w = tx.asarray(rng.normal(size=(ROWS, 8))), tx.asarray(rng.normal(size=(8, 8)))
    h = tx.tanh(x @ w)
    share = tx.softmax(h)
    centred = share - share.mean(axis=0)
    large = tx.asarray(rng.normal(size=(300, 1000))).realize()
    picked = centred[tx.asarray(rng.integers(0, ROWS, 50))]
    written = centred * 2.0
    written[3:9] = picked[:6]
    return [centred @ w, picked, written, (large * 2.0).sum(axis=0) + 1.0, h.max(axis=0), share.sum(axis=1)]


def test_interrupted_in_place_write_is_completed_by_the_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write has few elements and much work. The fast path must not take the unfinished node for a number."""
    met = worker_pool._run_range

    def stopped(*args: Any, **named: Any) -> None:
        monkeypatch.setattr(worker_pool, "_run_range", met)
        raise KeyboardInterrupt

    places, ones = tx.zeros(200_000, dtype=tx.int64).realize(), tx.ones(200_000).realize()
    for read in (lambda x: x.tolist()[:2], lambda x: (x[:2] * 1.0).tolist(), lambda x: [x[0].item(), x[1].item()]):
        for _ in range(3):
            x = tx.zeros(1000).realize()
            monkeypatch.setattr(worker_pool, "_run_range", stopped)
            with pytest.raises(KeyboardInterrupt):
                x.index_add_(0, places, ones)
            assert x.node.op is UNFINISHED
            assert read(x) == [200_000.0, 0.0]


def values(seed: int) -> list[bytes]:
    made = parts(seed)
    tx.realize(*made)
    return [t.to_numpy().tobytes() for t in made]


def test_plan_steps_match_python(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [values(seed) for seed in range(4)]
    ran: list[tuple[int, int]] = []
    assert fastpath.fast_path is not None
    run = fastpath.fast_path.run_steps

    def counted(frame: bytes, nodes: Any, offsets: Any, scalars: Any, first: int, end: int) -> int:
        at = run(frame, nodes, offsets, scalars, first, end)
        ran.append((at - first, end - first))
        return at

    monkeypatch.setattr(fastpath.fast_path, "run_steps", counted)
    assert [values(seed) for seed in range(4)] == found
    assert sum(done for done, _ in ran) >= 12 and all(done == wanted for done, wanted in ran)
    with fastpath.disabled():
        assert [values(seed) for seed in range(4)] == found


def gradients(seed: int, kept: bool) -> list[Any]:
    """Return gradients through adjacent slices of a tensor; with `kept`, also the gradients of the whole tensor."""
    rng = np.random.default_rng(seed)
    x, w = tx.asarray(rng.uniform(-0.1, 0.1, (64, 64))), tx.asarray(rng.uniform(-0.1, 0.1, (16, 64)))
    w.requires_grad = True
    h, wholes = tx.zeros((64, 16)), []
    for _ in range(40):
        gates = x + h @ w
        if kept:
            gates.retain_grad()
            wholes.append(gates)
        one, other, third, last = gates.unflatten(-1, (4, -1)).unbind(1)
        h = tx.sigmoid(one) * tx.tanh(other) + third * last
    h.sum().backward()
    return [t.tolist() for t in (w.grad, *[gates.grad for gates in wholes])]


@pytest.mark.parametrize("kept", [False, True])
def test_plan_steps_overwrite_the_same_buffers_as_in_python(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer is overwritten if nothing else can read it any more."""
    with fastpath.disabled():
        wanted = [gradients(seed, kept) for seed in range(3)]
    assert fastpath.fast_path is not None
    own, run, short_of = PlanStep.run, fastpath.fast_path.run_steps, fastpath.fast_path.encode_steps
    shorts: list[plan_execution.StepBytecode] = []
    written: list[int] = []
    by_python: list[PlanStep] = []

    def framed(plan: plan_execution.Plan) -> plan_execution.StepBytecode:
        shorts.append(short_of(plan))
        return shorts[-1]

    def ran(frame: bytes, nodes: Any, offsets: Any, scalars: Any, first: int, end: int) -> int:
        at = run(frame, nodes, offsets, scalars, first, end)
        written.extend(k for short in shorts if short.launch_record is frame for k, _ in short.overwrite_readers if first <= k < at)
        return at

    def counted(step: PlanStep, *args: Any) -> None:
        by_python.append(step)
        own(step, *args)

    evict_plans()  # plans, which have been framed
    monkeypatch.setattr(fastpath.fast_path, "run_steps", ran)
    monkeypatch.setattr(fastpath.fast_path, "encode_steps", framed)
    monkeypatch.setattr(PlanStep, "run", counted)
    assert [gradients(seed, kept) for seed in range(3)] == wanted
    assert len(written) == 3 * 160 and not [step for step in by_python if step.overwritten_slot is not None]


def test_plan_steps_without_small_memory_continue_in_python() -> None:
    values(0)
    wanted, allowed = values(1), fastpath.fast_path.block_counts[3]  # type: ignore[union-attr]
    try:
        fastpath.fast_path.block_counts[3] = 0  # type: ignore[union-attr]
        assert values(1) == wanted
    finally:
        fastpath.fast_path.block_counts[3] = allowed  # type: ignore[union-attr]


def test_failed_plan_step_leaves_every_result_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = values(2)
    own = PlanStep.run
    for failing in range(6):
        made, left = parts(2), [failing]

        def run(self: PlanStep, *args: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise MemoryError("injected")
            own(self, *args)

        with monkeypatch.context() as patched:
            patched.setattr(PlanStep, "run", run)
            try:
                tx.realize(*made)
            except MemoryError as error:
                assert "injected" in str(error)
        assert [t.to_numpy().tobytes() for t in made] == wanted


def test_repeated_plans_use_constant_memory() -> None:
    values(3)
    values(3)
    before = tx.memory().in_use
    for _ in range(5):
        values(3)
    assert tx.memory().in_use == before


def looked_up(seed: int, worst: int, place: int = 0) -> list[Any]:
    """Return the gradient of a classification loss, and results of rows chosen by indices, one of which is `worst`."""
    rng = np.random.default_rng(seed)
    scores = tx.asarray(rng.normal(size=(FEW, 8))).requires_grad_()
    classes, rows = rng.integers(0, 8, FEW), rng.integers(-FEW, FEW, 500)
    rows[place] = worst
    (tx.nn.functional.cross_entropy(scores * 2.0, tx.asarray(classes)) * 2.0).backward()
    table = tx.tanh(scores.detach() + 1.0)
    chosen = table[tx.asarray(rows) + 0]  # not looked at before they are needed
    return [scores.grad, table.sum(axis=0) + chosen.mean(axis=0)]


@pytest.mark.parametrize("worst", [-FEW, FEW - 1])
def test_plan_steps_that_check_indices_run_without_python(worst: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with fastpath.disabled():
        wanted = [[t.tolist() for t in looked_up(seed, worst)] for seed in range(3)]
    own, by_python = PlanStep.run, list[PlanStep]()

    def counted(step: PlanStep, *args: Any) -> None:
        by_python.append(step)
        own(step, *args)

    monkeypatch.setattr(PlanStep, "run", counted)
    for seed in range(3):
        made = looked_up(seed, worst)
        tx.realize(*made)
        assert [t.tolist() for t in made] == wanted[seed]
    assert not [step for step in by_python if step.kernel_call is not None and step.kernel_call.can_fail]


@pytest.mark.parametrize("worst", [-FEW - 1, FEW, 1 << 62])
@pytest.mark.parametrize("place", [0, 499])
def test_plan_step_with_an_index_out_of_range_raises(worst: int, place: int) -> None:
    """Python raises the error, and results that do not read the index are correct."""
    with fastpath.disabled():
        wanted = looked_up(7, 0)[0].tolist()
    for _ in range(3):
        gradient, chosen = looked_up(7, worst, place)
        with pytest.raises(IndexError, match="out of range"):
            tx.realize(gradient, chosen)
        with pytest.raises(IndexError, match="out of range"):
            chosen.tolist()
        assert gradient.tolist() == wanted
