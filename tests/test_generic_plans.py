"""Compare generic plans, evaluated at new sizes, with plans made for these sizes."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import IndexOutOfRange
from tenxor.runtime import generic_plans, plan_disk_cache
from tenxor.runtime.graph_signature import GraphSignature
from tenxor.runtime.kernel_call import SingleKernelCall
from tenxor.runtime.plan_execution import Plan

pytestmark = pytest.mark.usefixtures("plain")  # without the fast path, so that plans compute small tensors, too

Array = np.ndarray[Any, Any]


def plan_fields(plan: Plan) -> tuple[object, ...]:
    """Return every field of `plan`, for comparison."""
    steps = []
    for s in plan.steps:
        filling: object = s.kernel_call
        if isinstance(filling, SingleKernelCall):
            args = filling.arguments
            numbers = args.out, list(args.sources), list(args.sizes), args.split_extent, args.work, args.scratch_bytes
            filling = filling.compiled.kernel, list(args.scalars), list(args.tables), numbers
        steps.append(
            (
                s.result_slot,
                s.shape,
                s.dtype,
                s.nbytes,
                s.user_slot,
                s.overwritten_slot,
                s.reinterpreted_slot,
                s.donors,
                s.input_slots,
                s.released_slots,
                filling,
            )
        )
    return (
        plan.inlined_slots,
        plan.expensive_slots,
        plan.cheap_to_store_slots,
        plan.watched_slots,
        plan.watched_read_counts,
        plan.additional_slot_count,
        steps,
    )


@pytest.fixture
def reuse_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Log for each pattern whether its plan was reused, and compare each reused plan with one made for the pattern."""
    sources = {name: getattr(generic_plans, name) for name in ("find_plan_in_memory", "find_stored_plan")}
    make_new, make = generic_plans.make_plan, generic_plans.planner.make_plan
    planned_patterns: list[GraphSignature] = []
    reused: list[bool] = []

    def make_and_log(pattern: GraphSignature) -> Plan:
        planned_patterns.append(pattern)
        return make(pattern)

    def make_and_compare(pattern: GraphSignature) -> Plan:
        before = len(planned_patterns)
        plan = make_new(pattern)
        return compare_with_own(pattern, plan, is_taken_over=len(planned_patterns) == before)

    def find_and_compare(name: str, pattern: GraphSignature) -> Plan | None:
        plan = sources[name](pattern)
        return None if plan is None else compare_with_own(pattern, plan, is_taken_over=True)

    def compare_with_own(pattern: GraphSignature, plan: Plan, *, is_taken_over: bool) -> Plan:
        reused.append(is_taken_over)
        if is_taken_over:
            assert plan_fields(plan) == plan_fields(make(pattern))
        return plan

    lazy_functions = sys.modules["tenxor.runtime.realize"].generic_plans
    for name in sources:
        monkeypatch.setattr(generic_plans, name, partial(find_and_compare, name))
        monkeypatch.setattr(lazy_functions, name, partial(find_and_compare, name), raising=False)
    monkeypatch.setattr(generic_plans.planner, "make_plan", make_and_log)
    monkeypatch.setattr(generic_plans, "make_plan", make_and_compare)
    monkeypatch.setattr(lazy_functions, "make_plan", make_and_compare, raising=False)
    monkeypatch.setattr(generic_plans, "_caches", generic_plans.BoundedCache(generic_plans.MAX_STRUCTURES))
    yield reused


def numbers(*shape: int) -> Array:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 7 % 11 - 4).astype(float)


PROGRAMS: dict[str, Callable[[Any, Array, Array], Any]] = {
    "a chain": lambda xp, a, b: (a * 2 + b) * a - 3,
    "rows": lambda xp, a, b: a - b[0],
    "columns": lambda xp, a, b: a * b[:, :1],
    "turned": lambda xp, a, b: a.T + b.T,
    "one turned": lambda xp, a, b: a[: min(a.shape), : min(a.shape)].T + b[: min(a.shape), : min(a.shape)],
    "backwards": lambda xp, a, b: a[::-1] + b[:, ::-1],
    "every other": lambda xp, a, b: a[::2, 1:] * 2 - b[::2, :-1],
    "a sum": lambda xp, a, b: (a * b).sum(),
    "sums of rows": lambda xp, a, b: (a + b).sum(axis=1),
    "sums of columns": lambda xp, a, b: (a + b).max(axis=0),
    "both in one": lambda xp, a, b: a - a.mean(axis=1, keepdims=True) + b.max(),
    "where the largest are": lambda xp, a, b: a.argmax(axis=1) + b.argmax(axis=1),
    "flat": lambda xp, a, b: a.reshape(-1)[1:] - b.reshape(-1)[:-1],
    "another shape": lambda xp, a, b: a.T.reshape(a.shape) + b,
    "pairs": lambda xp, a, b: a[:, None, :] * b[None, :, :],
    "distances": lambda xp, a, b: ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2),
    "a product": lambda xp, a, b: a @ b.T,
    "a product and a row": lambda xp, a, b: (a.T @ b) * 2 + b[0],
    "a matrix and a vector": lambda xp, a, b: a @ b[0],
    "running sums": lambda xp, a, b: xp.cumulative_sum(a + b, axis=1) if xp is tx else np.cumsum(a + b, axis=1),
    "chosen": lambda xp, a, b: xp.where(a > b, a, -b),
    "counted": lambda xp, a, b: a + xp.arange(a.shape[1]),
    "a power": lambda xp, a, b: (xp.exp(-abs(a)) / (1 + abs(b))).sum(axis=-1),
}
# The plans of these programs often change with the sizes.
SELDOM_REUSED = {"a product", "a product and a row", "distances", "both in one", "another shape", "where the largest are"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_reused_generic_plans_match_numpy(name: str, reuse_log: list[bool]) -> None:
    rng = random.Random(name)
    program = PROGRAMS[name]
    for _ in range(25):
        shape = rng.randrange(2, 70), rng.randrange(2, 70)
        a, b = numbers(*shape), numbers(*shape)[::-1] + 2
        ours, theirs = tx.asarray(a), tx.asarray(np.ascontiguousarray(b))
        assert np.allclose(program(tx, ours, theirs).to_numpy(), program(np, a, b), rtol=1e-12, atol=1e-9)
    assert sum(reuse_log) >= len(reuse_log) // (5 if name in SELDOM_REUSED else 2)


def random_program(seed: int) -> Callable[[Any, list[Any]], Any]:
    """Return a program of some views and operations, the same for each seed."""

    def run(xp: Any, arrays: list[Any]) -> Any:
        rng, values = random.Random(seed), list(arrays)
        for _ in range(rng.randrange(3, 9)):
            x = rng.choice(values)
            kind = rng.randrange(9)
            if kind == 0:
                x = x.T
            elif kind == 1:
                x = x[rng.choice((slice(1, None), slice(None, None, -1), slice(None, None, 2), slice(None, -1)))]
            elif kind == 2:
                x = x[..., rng.choice((slice(2, None), slice(None, None, -1), slice(None, None, 2)))]
            elif kind == 3:
                x = x.reshape(-1) if rng.random() < 0.5 else x.reshape(x.shape[::-1])
            elif kind == 4:
                x = x.sum(axis=rng.choice((0, -1)), keepdims=True) + x
            elif kind == 5:
                x = x * 2 - 1
            elif kind == 6:
                y = rng.choice([v for v in values if v.ndim == x.ndim])
                cut = tuple([slice(0, min(n, m)) for n, m in zip(x.shape, y.shape, strict=True)])
                x = x[cut] + y[cut] * 3
            elif kind == 7 and x.ndim == 2:
                y = rng.choice([v for v in values if v.ndim == 2])
                k = min(x.shape[1], y.shape[0])
                x = x[:, :k] @ y[:k, :] / 64
            elif kind == 8 and x.ndim == 2:
                x = x[:, None, :] - x[None, :3, :]
                x = x.max(axis=1)
            values.append(x)
        return values

    return run


@pytest.mark.parametrize("seed", range(60))
def test_generic_plan_equals_the_exact_plan_for_random_programs(seed: int, reuse_log: list[bool]) -> None:
    program, rng = random_program(seed), random.Random(seed)
    for _ in range(8):
        sizes = [rng.randrange(4, 40) for _ in range(2)]
        arrays = [numbers(*sizes), numbers(*sizes[::-1])]
        result = program(tx, [tx.asarray(x) for x in arrays])[-1]
        assert np.allclose(result.to_numpy(), program(np, arrays)[-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_generic_plan_equals_the_exact_plan_for_several_results_at_once(seed: int, reuse_log: list[bool]) -> None:
    """One kernel computes several results and reads one result for another in registers alone."""
    program, rng = random_program(seed), random.Random(seed)
    for _ in range(8):
        sizes = [rng.randrange(4, 40) for _ in range(2)]
        arrays = [numbers(*sizes), numbers(*sizes[::-1])]
        results = program(tx, [tx.asarray(x) for x in arrays])[2:]
        expected = program(np, arrays)[2:]
        chosen = rng.sample(range(len(results)), min(len(results), 4))
        tx.realize(*[results[k] for k in chosen])
        for k in chosen:
            assert np.allclose(results[k].to_numpy(), expected[k], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [2, 3, 8])
def test_softmax_and_its_row_sums_share_a_generic_plan_for_short_rows(columns: int, reuse_log: list[bool]) -> None:
    """The maximum of a short row is unrolled. Its stride is a quotient that is 1, as for the other results of the rows."""
    for rows in (33_000, 34_000, 35_001, 40_002):
        x = tx.asarray(np.random.default_rng(rows).random((rows, columns)).astype(np.float32))
        powers = tx.exp(x - x.max(axis=1, keepdims=True))
        total, result = powers.sum(axis=1), tx.softmax(x)
        tx.realize(total, result)
        expected = np.exp(x.numpy() - x.numpy().max(axis=1, keepdims=True))
        assert np.allclose(total.numpy(), expected.sum(axis=1), rtol=1e-5)
        assert np.allclose(result.numpy(), expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("width", [9, 16, 20])
def test_convolution_plan_is_reused_for_other_batch_sizes(width: int, reuse_log: list[bool]) -> None:
    """Offsets of rows that are read side by side stand in a table made for their size. The number of images is not in the table, unless
    the images are so small that they are read side by side themselves.
    """
    rng = np.random.default_rng(width)
    images, kernels = rng.normal(size=(60, 3, width, width)).astype(np.float32), rng.normal(size=(8, 3, 3, 3)).astype(np.float32)
    ours, k = tx.asarray(images), tx.asarray(kernels)
    results = {n: tx.relu(tx.conv2d(ours[:n], k)).numpy() for n in (*range(20, 32), 3, 7, 45, 60)}
    assert sum(reuse_log) >= (10 if width > 9 else 1)
    for n, result in results.items():
        assert np.array_equal(result, results[60][:n])
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows.astype(float), kernels.astype(float))
    assert np.allclose(results[60], np.maximum(expected, 0), atol=1e-4)


def test_convolution_gradients_are_right_for_every_batch_size(reuse_log: list[bool]) -> None:
    rng = np.random.default_rng(2)
    images, kernels = rng.normal(size=(30, 2, 10, 10)), rng.normal(size=(4, 2, 3, 3))
    loss = lambda x, k: (tx.relu(tx.conv2d(x, k)) ** 2).mean()
    for n in (12, 13, 14, 15, 17, 19, 23, 5, 30):
        by_x, by_k = tx.grad(loss, argnums=(0, 1))(tx.asarray(images[:n]), tx.asarray(kernels))
        single_gradients = [tx.grad(loss, argnums=(0, 1))(tx.asarray(images[i : i + 1]), tx.asarray(kernels)) for i in range(n)]
        assert np.allclose(by_x.numpy(), np.concatenate([x.numpy() for x, _ in single_gradients]) / n)
        assert np.allclose(by_k.numpy(), np.mean([k.numpy() for _, k in single_gradients], axis=0))
    assert any(reuse_log)


def test_generic_plan_is_reused_between_hundreds_and_millions_of_elements(reuse_log: list[bool]) -> None:
    for n in (100, 200, 1 << 21, (1 << 21) + 64, 300):
        x = tx.ones(n).realize()
        assert ((x + 1) * x).realize()[n - 1].item() == 2
    assert sum(reuse_log) >= 3


def test_generic_plan_is_reused_for_in_place_writes(reuse_log: list[bool]) -> None:
    for n in (10, 20, 30, 40, 700, 50_000, 60_000):
        array = numbers(n, 3)
        x = tx.asarray(array.copy())
        x[1:] = x[:-1] * 2
        array[1:] = array[:-1] * 2
        x += 1
        assert np.array_equal(x.to_numpy(), array + 1)
    assert sum(reuse_log) >= 6


def test_sizes_0_and_1_give_right_results_between_other_sizes(reuse_log: list[bool]) -> None:
    for n in (5, 6, 1, 0, 7, 2):
        for m in (4, 1, 0, 9, 3):
            array = numbers(n, m)
            x = tx.asarray(array)
            assert np.array_equal((x * 2 - x[:, :1].sum(axis=0)).to_numpy(), array * 2 - array[:, :1].sum(axis=0))
    assert any(reuse_log)


def test_errors_under_a_generic_plan_name_the_sizes_of_the_current_call() -> None:
    for n in (5, 6, 7, 8):
        x = tx.arange(n).realize()
        with pytest.raises(IndexOutOfRange, match=f"index {n} is out of range for axis 0 of size {n}"):
            x[tx.asarray([0, n])].realize()
        with pytest.raises(MemoryError, match=str(n)):
            (tx.ones((n, 1 << 58)) + x[0]).realize()


def test_cached_structures_and_generic_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = generic_plans.BoundedCache[generic_plans.GuardedCache](5)
    monkeypatch.setattr(generic_plans, "_caches", cache)
    x = tx.asarray(numbers(300, 300)).realize()
    for n in range(2, 250):
        assert (x[:n, :n] @ x[:n, :n])[0, 0].item() == pytest.approx(float(numbers(300, 300)[0, :n] @ numbers(300, 300)[:n, 0]))
        assert len(cache) <= 5 and all(len(k.entries) <= generic_plans.MAX_GENERIC_PLANS for k in cache.values())


def test_cached_generic_plan_is_not_looked_up_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    disk_reads: list[GraphSignature] = []
    read = plan_disk_cache.load_plan

    def read_and_log(pattern: GraphSignature) -> Plan | None:
        disk_reads.append(pattern)
        return read(pattern)

    monkeypatch.setattr(generic_plans, "_caches", generic_plans.BoundedCache(generic_plans.MAX_STRUCTURES))
    monkeypatch.setattr(sys.modules["tenxor.runtime.realize"].plan_disk_cache, "load_plan", read_and_log)
    x = tx.asarray(np.arange(300.0)).realize()
    counts = []
    for n in range(211, 217):
        assert (x[:n] * x[1 : n + 1] - 7).tolist() == (np.arange(n) * np.arange(1.0, n + 1) - 7).tolist()
        counts.append(len(disk_reads))
    assert counts == [1, 2, 2, 2, 2, 2]
