"""Kernels with several results: grouping, bits equal to those of separate kernels, and reuse of memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.graph.node import Node
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.multi_output import group_fusible_kernels
from tenxor.runtime.plan_execution import PlanStep
from tenxor.tensor import Tensor


def group_sizes(*results: Tensor) -> list[int]:
    """Return the number of results of each kernel with several."""
    roots = [t.storage.node for t in results]
    target = backend().target
    return [1 + len(group) for group in group_fusible_kernels(fuse(collect_pending(roots), roots, target), target).values()]


def ramp(*shape: int, dtype: tx.DType = tx.float64) -> Tensor:
    n = int(np.prod(shape))
    return tx.asarray((np.arange(n) % 17 - 5).reshape(shape), dtype=dtype).realize()


class Program:
    """A random function of a few tensors, applied repeatedly to its own results in NumPy and Tenxor, while other views are alive."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice([np.float32, np.float64])
        shape = rng.choice([(), (1,), (7,), (3, 5), (0, 3), (33, 31), (2, 1, 9), (300,), (5000,), (70000,)])
        values = np.random.default_rng(rng.randrange(10**6))
        self.arrays = [values.normal(size=shape).astype(self.dtype) for _ in range(rng.randrange(2, 5))]
        self.tensors: list[Tensor] = [tx.asarray(a.copy()).realize() for a in self.arrays]
        if rng.random() < 0.2:
            self.arrays[1], self.tensors[1] = self.arrays[0], self.tensors[0]
        n = len(self.arrays)
        self.steps = [(rng.randrange(6), rng.randrange(n + k), rng.randrange(n + k)) for k in range(rng.randrange(2, 8))]
        self.results = [rng.randrange(n + len(self.steps)) for _ in range(n)]
        self.onlookers: list[tuple[Any, np.ndarray]] = []

    def apply(self, xp: Any, state: list[Any]) -> list[Any]:
        values = list(state)
        for kind, j, k in self.steps:
            a, b = values[j], values[k]
            forms: list[Callable[[], Any]] = [
                lambda a=a, b=b: a + b * 0.5,
                lambda a=a, b=b: xp.maximum(a - b, b * 0.25),
                lambda a=a, b=b: a * 0.5 - b,
                lambda a=a: abs(a) - 1.0,
                lambda a=a, b=b: xp.sqrt(abs(a) + 1.0) * 0.25 - b * 0.125,
                lambda a=a, b=b: (a[::-1] + b) * 0.5 if a.ndim else a,
            ]
            values.append(forms[kind]())
        return [values[k] for k in self.results]

    def run_once(self) -> None:
        rng = self.rng
        if rng.random() < 0.2:
            self.onlookers.clear()
        if rng.random() < 0.3:
            t = rng.choice(self.tensors)
            array = rng.choice([t, t.reshape(-1), np.asarray(t), t[::-1] if t.ndim else t])
            self.onlookers.append((array, np.asarray(array).copy()))
        self.arrays = [np.asarray(a, dtype=self.dtype) for a in self.apply(np, self.arrays)]
        self.tensors = self.apply(tx, self.tensors)
        tx.realize(*self.tensors)
        for a, t in zip(self.arrays, self.tensors, strict=True):
            assert np.asarray(t).tobytes() == a.tobytes()
        for array, expected in self.onlookers:
            assert np.asarray(array).tobytes() == expected.tobytes()


class TestGrouping:
    def test_optimiser_updates_share_one_kernel(self) -> None:
        g, mean, square, x = [ramp(100) * float(k) for k in range(1, 5)]
        tx.realize(g, mean, square, x)
        mean, square = mean * 0.9 + g * 0.1, square * 0.99 + g * g * 0.01
        assert group_sizes(mean, square, x - mean / (tx.sqrt(abs(square)) + 1.0)) == [3]

    def test_results_share_a_kernel_only_with_a_common_operand(self) -> None:
        a, b = ramp(100), ramp(100)
        assert group_sizes(a + 1.0, b + 1.0) == []
        assert group_sizes(a + 1.0, a * 2.0) == [2]

    def test_results_share_a_kernel_only_if_read_at_equal_positions(self) -> None:
        a = ramp(10, 10)
        first = a + 1.0
        assert group_sizes(first, first.T * first) == []
        assert group_sizes(first, first * 2.0) == [2]

    def test_reductions_and_other_shapes_are_not_grouped(self) -> None:
        a = ramp(10, 10)
        assert group_sizes(a + 1.0, a.sum(axis=1), (a - a.sum(axis=0)) * 2.0) == []
        assert group_sizes(a + 1.0, a[:5] + 1.0) == []

    def test_results_are_not_grouped_if_one_needs_a_reduction_of_the_other(self) -> None:
        a = ramp(10, 10)
        first = a + 1.0
        assert group_sizes(first, a * first.sum()) == []

    def test_groups_have_at_most_four_results(self) -> None:
        a = ramp(100)
        assert group_sizes(*[a * float(k) for k in range(10)]) == [4, 4, 2]

    def test_large_results_are_not_grouped(self) -> None:
        a = ramp(1 << 18)
        assert group_sizes(a + 1.0, a * 2.0) == []


class TestGroupedValues:
    @pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16, tx.float32, tx.float64, tx.int8, tx.uint64, tx.complex64, tx.complex128])
    @pytest.mark.parametrize("shape", [(1,), (7,), (64,), (3, 5), (33, 31), (2, 1, 9)])
    def test_grouped_results_have_the_bits_of_separate_ones(self, dtype: tx.DType, shape: tuple[int, ...]) -> None:
        def build() -> list[Tensor]:
            a, b = ramp(*shape, dtype=dtype), ramp(*shape[::-1], dtype=dtype).T
            first = a * b + a
            second = first - b * b
            return [first, second, second * first + a]

        separate = build()
        for t in separate:
            t.realize()
        grouped = build()
        assert group_sizes(*grouped) or dtype.itemsize == 0
        tx.realize(*grouped)
        for a, b in zip(separate, grouped, strict=True):
            assert np.asarray(a.astype(tx.complex128)).tobytes() == np.asarray(b.astype(tx.complex128)).tobytes()

    def test_random_programs_match_numpy(self) -> None:
        for seed in range(40):
            program = Program(random.Random(seed))
            for _ in range(5):  # planned, then found, then run shortly
                program.run_once()

    def test_reader_of_a_grouped_result_runs_after_the_group(self) -> None:
        x, y, z = [ramp(5000) * float(k) for k in range(1, 4)]
        tx.realize(x, y, z)
        for _ in range(4):
            a, b, c = np.asarray(x).copy(), np.asarray(y).copy(), np.asarray(z).copy()
            first = (y[::-1] + x) * 0.5
            x, y, z = abs(x) - 1.0, tx.maximum(x - first, first * 0.25), tx.sqrt(abs(first) + 1.0) * 0.25 - z * 0.125
            tx.realize(x, y, z)
            first = (b[::-1] + a) * 0.5
            assert np.array_equal(np.asarray(x), abs(a) - 1.0)
            assert np.array_equal(np.asarray(y), np.maximum(a - first, first * 0.25))
            assert np.array_equal(np.asarray(z), np.sqrt(abs(first) + 1.0) * 0.25 - c * 0.125)

    def test_memory_readable_elsewhere_is_not_overwritten(self) -> None:
        for _ in range(4):  # planned, then found, then run shortly
            x, y = ramp(500), ramp(500) * 2.0
            y.realize()
            before, copied = np.array(x), x.copy()
            view = x[::-1]
            x, y = x + y, x - y
            tx.realize(x, y)
            assert np.array_equal(np.asarray(view), before[::-1]) and np.array_equal(np.asarray(copied), before)
            assert np.array_equal(np.asarray(x), before * 3.0) and np.array_equal(np.asarray(y), -before)


@pytest.mark.usefixtures("plain")
class TestMidway:
    def test_result_realized_by_a_signal_meanwhile_stays_correct(self, monkeypatch: pytest.MonkeyPatch) -> None:
        a, b = ramp(300), ramp(300) * 3.0
        b.realize()
        first, second = a + b, a * b
        nodes: list[Node] = [first.storage.node, second.storage.node]
        run = PlanStep.run_with_extra_outputs

        def after_a_signal(step: PlanStep, operands: object) -> None:
            monkeypatch.setattr(PlanStep, "run_with_extra_outputs", run)
            second.realize()
            run(step, operands)  # type: ignore[arg-type]

        monkeypatch.setattr(PlanStep, "run_with_extra_outputs", after_a_signal)
        tx.realize(first, second)
        assert PlanStep.run_with_extra_outputs is run and all(node.buffer is not None for node in nodes)
        assert np.array_equal(np.asarray(first), np.asarray(a) * 4.0) and np.array_equal(np.asarray(second), np.asarray(a) ** 2 * 3.0)
