"""Kernels with several results: which become one, that each result has the bits that it has alone, and whose memory they take."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tenxor as tx
from tenxor.backend import backend
from tenxor.kernel.fuse import fuse, pending
from tenxor.kernel.together import together
from tenxor.node import Node
from tenxor.plans.steps import Step
from tenxor.tensor import Tensor


def joined(*results: Tensor) -> list[int]:
    """How many results each kernel with several has."""
    roots = [t.storage.node for t in results]
    target = backend().target
    return [1 + len(group) for group in together(fuse(pending(roots), roots, target), target).values()]


def ramp(*shape: int, dtype: tx.DType = tx.float64) -> Tensor:
    n = int(np.prod(shape))
    return tx.asarray((np.arange(n) % 17 - 5).reshape(shape), dtype=dtype).realize()


class TestWhich:
    def test_what_an_optimiser_does(self) -> None:
        g, mean, square, x = [ramp(100) * float(k) for k in range(1, 5)]
        tx.realize(g, mean, square, x)
        mean, square = mean * 0.9 + g * 0.1, square * 0.99 + g * g * 0.01
        assert joined(mean, square, x - mean / (tx.sqrt(abs(square)) + 1.0)) == [3]

    def test_only_what_has_something_in_common(self) -> None:
        a, b = ramp(100), ramp(100)
        assert joined(a + 1.0, b + 1.0) == []
        assert joined(a + 1.0, a * 2.0) == [2]

    def test_only_at_the_same_places(self) -> None:
        a = ramp(10, 10)
        first = a + 1.0
        assert joined(first, first.T * first) == []
        assert joined(first, first * 2.0) == [2]

    def test_no_reductions_and_no_other_shapes(self) -> None:
        a = ramp(10, 10)
        assert joined(a + 1.0, a.sum(axis=1), (a - a.sum(axis=0)) * 2.0) == []
        assert joined(a + 1.0, a[:5] + 1.0) == []

    def test_not_where_another_needs_the_first_before(self) -> None:
        a = ramp(10, 10)
        first = a + 1.0
        assert joined(first, a * first.sum()) == []

    def test_no_more_than_a_processor_follows(self) -> None:
        a = ramp(100)
        assert joined(*[a * float(k) for k in range(10)]) == [4, 4, 2]

    def test_what_is_large_stays_alone(self) -> None:
        a = ramp(1 << 18)
        assert joined(a + 1.0, a * 2.0) == []


class TestValues:
    @pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16, tx.float32, tx.float64, tx.int8, tx.uint64, tx.complex64, tx.complex128])
    @pytest.mark.parametrize("shape", [(1,), (7,), (64,), (3, 5), (33, 31), (2, 1, 9)])
    def test_are_those_of_each_alone(self, dtype: tx.DType, shape: tuple[int, ...]) -> None:
        def made() -> list[Tensor]:
            a, b = ramp(*shape, dtype=dtype), ramp(*shape[::-1], dtype=dtype).T
            first = a * b + a
            second = first - b * b
            return [first, second, second * first + a]

        apart = made()
        for t in apart:
            t.realize()
        whole = made()
        assert joined(*whole) or dtype.itemsize == 0
        tx.realize(*whole)
        for one, other in zip(apart, whole, strict=True):
            assert np.asarray(one.astype(tx.complex128)).tobytes() == np.asarray(other.astype(tx.complex128)).tobytes()

    def test_of_random_programs(self) -> None:
        rng = random.Random(7)
        for _ in range(60):
            shape = rng.choice([(5,), (40,), (6, 7), (70, 3)])
            arrays = [np.random.default_rng(rng.randrange(99)).normal(size=shape) for _ in range(3)]
            tensors: list[Tensor] = [tx.asarray(a).realize() for a in arrays]
            for _ in range(rng.randrange(3, 9)):
                j, k = (rng.randrange(len(arrays)) for _ in range(2))
                if rng.random() < 0.5:
                    arrays.append(arrays[j] + arrays[k] * 0.5)
                    tensors.append(tensors[j] + tensors[k] * 0.5)
                else:
                    arrays.append(np.maximum(arrays[j] - arrays[k], arrays[j] * 0.25))
                    tensors.append(tx.maximum(tensors[j] - tensors[k], tensors[j] * 0.25))
            for k in range(rng.randrange(3)):
                tensors[k] = tensors[-1]
                arrays[k] = arrays[-1]
            tx.realize(*tensors)
            for a, t in zip(arrays, tensors, strict=True):
                assert np.asarray(t).tobytes() == a.tobytes()

    def test_what_others_can_read_is_not_written_over(self) -> None:
        for _ in range(4):  # planned, then found, then run shortly
            x, y = ramp(500), ramp(500) * 2.0
            y.realize()
            before, kept = np.array(x), x.copy()
            view = x[::-1]
            x, y = x + y, x - y
            tx.realize(x, y)
            assert np.array_equal(np.asarray(view), before[::-1]) and np.array_equal(np.asarray(kept), before)
            assert np.array_equal(np.asarray(x), before * 3.0) and np.array_equal(np.asarray(y), -before)


@pytest.mark.usefixtures("plain")
class TestMidway:
    def test_a_result_that_was_computed_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        a, b = ramp(300), ramp(300) * 3.0
        b.realize()
        first, second = a + b, a * b
        nodes: list[Node] = [first.storage.node, second.storage.node]
        run = Step.run_together

        def after_a_signal(step: Step, given: object) -> None:
            monkeypatch.setattr(Step, "run_together", run)
            second.realize()
            run(step, given)  # type: ignore[arg-type]

        monkeypatch.setattr(Step, "run_together", after_a_signal)
        tx.realize(first, second)
        assert Step.run_together is run and all(node.buffer is not None for node in nodes)
        assert np.array_equal(np.asarray(first), np.asarray(a) * 4.0) and np.array_equal(np.asarray(second), np.asarray(a) ** 2 * 3.0)
