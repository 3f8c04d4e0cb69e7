"""Long work is cut into kernels of bounded length, so that the time to compile them grows linearly."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.lowering.ir import Kernel, iterate_expressions, walk
from tenxor.ops.expanded_cost import compute_expanded_cost
from tenxor.ops.expr import Call
from tenxor.runtime.planner import preview_kernels
from tenxor.target import Fusing
from tenxor.tensor import Tensor
from tests.machines import tune

MAX_LENGTH = Fusing().max_expanded_additions
UNARY = [tx.abs, tx.sqrt, tx.exp, tx.sin, tx.tanh, tx.atan, tx.erf, tx.floor, tx.negative, tx.log1p, tx.sigmoid]
BINARY = [tx.add, tx.subtract, tx.multiply, tx.divide, tx.maximum, tx.hypot]
COMPLEX = [tx.sin, tx.exp, tx.acos, tx.negative, tx.square, tx.atan]


def kernels_of(*tensors: Tensor) -> list[Kernel]:
    return [kernel for _, kernel in preview_kernels([t.storage.node for t in tensors]) if kernel is not None]


def expanded_length(kernel: Kernel) -> int:
    """Return about how many additions a kernel is worth, with all formulas expanded and each subexpression counted once."""
    calls = {subexpr for e in iterate_expressions(kernel.body) for subexpr in walk(e) if isinstance(subexpr, Call)}
    return sum(compute_expanded_cost(subexpr.op, tuple([a.dtype for a in subexpr.args])) for subexpr in calls)


def chain(x: Tensor, steps: int, seed: int = 0) -> Tensor:
    """Return random operations applied to each other."""
    rng, result = random.Random(seed), x
    for _ in range(steps):
        if x.dtype.is_complex:
            result = rng.choice(COMPLEX)(result) if rng.random() < 0.6 else rng.choice(BINARY[:3])(result, x)
        else:
            result = rng.choice(UNARY)(result) if rng.random() < 0.6 else rng.choice(BINARY)(result, x)
    return result


def values(dtype: object, shape: tuple[int, ...] = (40,)) -> Tensor:
    array = np.random.default_rng(0).uniform(0.1, 0.9, shape)
    return tx.asarray(array).astype(dtype).realize()


class TestKernelLength:
    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.complex128], ids=str)
    def test_length_of_every_kernel_is_bounded(self, dtype: object) -> None:
        kernels = kernels_of(chain(values(dtype), 250))
        lengths = list(map(expanded_length, kernels))
        assert len(kernels) > 3 and max(lengths) <= MAX_LENGTH
        assert len(kernels) <= 2 * sum(lengths) / MAX_LENGTH + 1  # and they are no shorter than need be

    def test_repeated_long_operation_reuses_one_kernel(self) -> None:
        z = values(tx.complex128)
        result = z
        for _ in range(60):
            result = tx.acos(result)
        kernels = kernels_of(result)
        assert len(kernels) == 60 and len(set(kernels)) == 1

    def test_sum_of_many_functions_is_cut_into_few_kernels(self) -> None:
        """A sum of a hundred functions does not get a hundred kernels."""
        x = values(tx.float64)
        total = x
        for k in range(100):
            total = total + tx.sin(x * float(k))
        kernels = kernels_of(total)
        assert max(map(expanded_length, kernels)) <= MAX_LENGTH and len(kernels) < 12

    def test_long_kernel_is_not_cut_if_a_large_array_would_be_stored(self) -> None:
        """A reduced broadcast is never stored, however long its computation."""
        x, y = values(tx.float32, (60,)), values(tx.float32, (70,))
        total = x[:, None] - y
        for _ in range(40):
            total = tx.sin(total)
        (kernel,) = kernels_of(total.sum(axis=1))
        assert expanded_length(kernel) > MAX_LENGTH
        assert len(kernels_of(total)) > 1  # but where the result is as large

    def test_length_counts_the_body_of_user_functions(self) -> None:
        def long(x: Tensor) -> Tensor:
            for _ in range(20):
                x = tx.sin(x) + x
            return x

        x = values(tx.float64)
        kernels = kernels_of(tx.map(long, tx.map(long, tx.map(long, x))))
        assert len(kernels) == 3 and len(set(kernels)) == 1

    def test_short_work_is_not_cut(self) -> None:
        x = values(tx.float32, (30, 40))
        assert len(kernels_of(tx.softmax(x * 2 + x, axis=1))) == 1
        assert len(kernels_of(tx.exp(-x) * tx.erf(x) + tx.sin(x) * tx.log1p(x) + tx.pow(x, x))) == 1


REDUCING_STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda t: t * 0.5 + t.sum() * 0.001,
    "max of columns": lambda t: tx.maximum(t * 0.9, t.max(axis=0) * 0.1),
    "softmax": lambda t: tx.softmax(t * 3, axis=1),
    "variance": lambda t: t * 0.9 + t.var(axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", REDUCING_STEPS)
def test_kernels_repeat_no_long_chain_of_steps_in_their_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, x = REDUCING_STEPS[name], values(tx.float64, (6, 37))

    def repeat(count: int) -> Tensor:
        t = x
        for _ in range(count):
            t = step(t)
        return t

    assert len(kernels_of(repeat(1))) <= 3
    counts = [len(kernels_of(repeat(count))) for count in (4, 8, 12)]
    assert counts[0] < counts[1] < counts[2], "a kernel has a bounded number of steps"
    results = []
    for limit in (1 << 30, 32, 0):
        tune(monkeypatch, fusing={"max_repeated_in_passes": limit})
        results.append(np.asarray(repeat(8)).tobytes())
    assert results[0] == results[1] == results[2]


ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "elements": lambda t: t,
    "a view": lambda t: t[::-3],
    "a sum": lambda t: t.sum(),
    "a broadcast": lambda t: t[:, None] * t,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dtype", [tx.float16, tx.float32, tx.float64, tx.complex64], ids=str)
def test_cutting_kernels_changes_no_bit(dtype: object, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, results = values(dtype, (37,)), []
    for longest in (1 << 30, 200, 40):
        tune(monkeypatch, fusing={"max_expanded_additions": longest})
        result = ENDS[end](chain(x, 15 if x.dtype.is_complex else 50, 1))
        count = len(kernels_of(result))
        results.append((count, np.asarray(result).tobytes()))
    assert results[0][0] < results[1][0] < results[2][0]
    assert results[0][1] == results[1][1] == results[2][1]


def add_sums(count: int) -> Tensor:
    """Return a sum of column sums of different matrices, as of the gradients of a bias."""
    rng = np.random.default_rng(1)
    matrices = [tx.asarray(rng.normal(size=(5, 30))).realize() for _ in range(count)]
    total = matrices[0].sum(axis=0)
    for matrix in matrices[1:]:
        total = total + matrix.sum(axis=0)
    return total


def test_reductions_of_a_kernel_are_limited_and_full_kernels_are_equal() -> None:
    most = Fusing().max_reductions
    kernels = kernels_of(add_sums(6 * most))
    assert len(kernels) == 6 and len(set(kernels)) <= 2
    assert len(kernels_of(add_sums(most))) == 1


def test_limit_of_reductions_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for limit in (1 << 30, 3, 1):
        tune(monkeypatch, fusing={"max_reductions": limit})
        total = add_sums(12)
        results.append((len(kernels_of(total)), np.asarray(total).tobytes()))
    assert results[0][0] < results[1][0] < results[2][0]
    assert results[0][1] == results[1][1] == results[2][1]
