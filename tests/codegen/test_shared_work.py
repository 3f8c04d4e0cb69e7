"""Threads share large work, estimated from the number of elements and the cost of each; small work runs in the caller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tenxor as tx
from tenxor.codegen.llvm import launch
from tenxor.codegen.llvm.compiler import MachineCode
from tenxor.codegen.threads import worker_pool
from tenxor.target import ThreadLimits


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the extents of all loops that are shared."""
    extents: list[int] = []

    def record_extent(
        code: MachineCode,
        args: bytes,
        extent: int,
        work: int,
        grain: int,
        sharing: ThreadLimits,
        stop: object = None,
        *,
        single_threaded: bool,
        resumed: object = None,
        thread_limit: int = 0,
    ) -> None:
        if not single_threaded:
            extents.append(extent)
        code.call_without_gil(args, 0, extent, 0)

    monkeypatch.setattr(launch.worker_pool, "parallel_for", record_extent)
    return extents


@pytest.mark.parametrize(
    ("extent", "expression"),
    [
        (1 << 20, lambda: tx.arange(1 << 20) + 1),
        (1 << 17, lambda: tx.sin(tx.zeros(1 << 17).realize())),  # fewer, but each is worth more
        (40, lambda: tx.ones((40, 1 << 15), dtype=tx.float32).realize().sum(axis=1)),
        (40, lambda: tx.cumulative_sum(tx.ones((40, 1 << 15)).realize(), axis=1)),
        (64, lambda: tx.ones(1 << 20).realize().sum()),  # in blocks
        (6, lambda: tx.ones((6,) * 8).realize().sum()),
    ],
)
def test_large_kernels_are_shared_among_threads(shared: list[int], extent: int, expression: Callable[[], tx.Tensor]) -> None:
    t = expression()
    shared.clear()
    t.realize()
    assert shared == [extent]


@pytest.mark.parametrize(
    "expression",
    [
        lambda: tx.arange(1 << 15) + 1,
        lambda: tx.ones((40, 1 << 9)).realize().sum(axis=1),
        lambda: tx.reduce(lambda acc, e: acc * 2 - e, tx.ones(1 << 20).realize(), initial=0.0),  # cannot be
    ],
)
def test_small_kernels_and_ordered_reductions_are_not_shared_among_threads(shared: list[int], expression: Callable[[], tx.Tensor]) -> None:
    t = expression()
    shared.clear()
    t.realize()
    assert not shared


def test_kernel_called_for_a_piece_of_its_loop_writes_only_that_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    t, x = tx.zeros((1 << 20) + 1).realize(), tx.ones(1 << 20).realize()
    monkeypatch.setattr(
        launch.worker_pool,
        "parallel_for",
        lambda code, args, extent, work, grain, sharing, stop, single_threaded, thread_limit: code.call_without_gil(args, 640, 777, 0),
    )
    t[1:] = x
    assert t.nonzero()[0].tolist() == list(range(641, 778))


@pytest.mark.parametrize("threads", [1, 2])
def test_short_product_starts_no_interruptible_thread(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tx.num_threads()
    tx.set_num_threads(threads)
    try:
        a, b = (tx.full((1000, 32, 32), value, dtype=tx.float32).realize() for value in (2.0, 3.0))
        interruptible_runs: list[object] = []
        monkeypatch.setattr(worker_pool, "run_interruptible", lambda run, stop: (interruptible_runs.append(run), run()))
        monkeypatch.setattr(launch.interruptible, "run_interruptible", worker_pool.run_interruptible)
        for _ in range(3):  # how long it takes is known from the second time on
            assert bool(((a @ b) == 192).all())
        assert not interruptible_runs
    finally:
        tx.set_num_threads(before)


@pytest.mark.parametrize(
    ("expression", "is_shared"),
    [
        (lambda x: tx.exp(x[: 1 << 16]), False),  # a few instructions for 16 of them: helpers would take as long to come
        (lambda x: tx.sigmoid(x[: 1 << 16]), False),
        (lambda x: (x * x + x)[: 1 << 16] * 0.5 - 1.0, False),
        (lambda x: x[: 1 << 19].sum(), False),
        (lambda x: tx.gelu(x[: 1 << 17]), True),
        (lambda x: tx.exp(x), True),
        (lambda x: x.sum(), True),
    ],
)
def test_kernel_is_shared_only_if_workers_shorten_it(
    shared: list[int], expression: Callable[[tx.Tensor], tx.Tensor], is_shared: bool
) -> None:
    t = expression(tx.ones(1 << 20, dtype=tx.float32).realize())
    before = tx.num_threads()
    tx.set_num_threads(2)
    try:
        shared.clear()
        t.realize()
        assert bool(shared) == is_shared
    finally:
        tx.set_num_threads(before)
