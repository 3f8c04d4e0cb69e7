"""Long work is cut into kernels, each no longer than the target says: so the time to compile it grows as it does."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.kernel.ir import Kernel, expressions, walk
from tenxor.ops.expr import Call
from tenxor.ops.lengths import length
from tenxor.plans.plan import planned
from tenxor.target import Fusing
from tenxor.tensor import Tensor
from tests.machines import tune

LONGEST = Fusing().longest
ONE = [tx.abs, tx.sqrt, tx.exp, tx.sin, tx.tanh, tx.atan, tx.erf, tx.floor, tx.negative, tx.log1p, tx.sigmoid]
TWO = [tx.add, tx.subtract, tx.multiply, tx.divide, tx.maximum, tx.hypot]
COMPLEX = [tx.sin, tx.exp, tx.acos, tx.negative, tx.square, tx.atan]


def kernels_of(*tensors: Tensor) -> list[Kernel]:
    return [kernel for _, kernel in planned([t.storage.node for t in tensors]) if kernel is not None]


def written_out(kernel: Kernel) -> int:
    """About how many additions a kernel is, with all of its formulas written out, each part once."""
    parts = {part for e in expressions(kernel.body) for part in walk(e) if isinstance(part, Call)}
    return sum(length(part.op, tuple([a.dtype for a in part.args])) for part in parts)


def chain(x: Tensor, steps: int, seed: int = 0) -> Tensor:
    """Random operations, one on the other."""
    rng, result = random.Random(seed), x
    for _ in range(steps):
        if x.dtype.is_complex:
            result = rng.choice(COMPLEX)(result) if rng.random() < 0.6 else rng.choice(TWO[:3])(result, x)
        else:
            result = rng.choice(ONE)(result) if rng.random() < 0.6 else rng.choice(TWO)(result, x)
    return result


def values(dtype: object, shape: tuple[int, ...] = (40,)) -> Tensor:
    found = np.random.default_rng(0).uniform(0.1, 0.9, shape)
    return tx.asarray(found).astype(dtype).realize()


class TestLength:
    @pytest.mark.parametrize("dtype", [tx.float32, tx.float64, tx.complex128], ids=str)
    def test_of_every_kernel_is_bounded(self, dtype: object) -> None:
        made = kernels_of(chain(values(dtype), 250))
        lengths = list(map(written_out, made))
        assert len(made) > 3 and max(lengths) <= LONGEST
        assert len(made) <= 2 * sum(lengths) / LONGEST + 1  # and they are no shorter than need be

    def test_makes_long_repetition_one_kernel(self) -> None:
        z = values(tx.complex128)
        result = z
        for _ in range(60):
            result = tx.acos(result)
        made = kernels_of(result)
        assert len(made) == 60 and len(set(made)) == 1

    def test_of_many_beside_each_other_is_cut_into_few(self) -> None:
        """A sum of a hundred functions: no kernel for each of them."""
        x = values(tx.float64)
        total = x
        for k in range(100):
            total = total + tx.sin(x * float(k))
        made = kernels_of(total)
        assert max(map(written_out, made)) <= LONGEST and len(made) < 12

    def test_may_be_more_where_what_is_stored_would_be_large(self) -> None:
        """What a broadcast is needed for is no array, however long it takes to compute."""
        x, y = values(tx.float32, (60,)), values(tx.float32, (70,))
        total = x[:, None] - y
        for _ in range(40):
            total = tx.sin(total)
        (kernel,) = kernels_of(total.sum(axis=1))
        assert written_out(kernel) > LONGEST
        assert len(kernels_of(total)) > 1  # but where the result is as large

    def test_counts_what_a_formula_of_the_users_is_made_of(self) -> None:
        def long(x: Tensor) -> Tensor:
            for _ in range(20):
                x = tx.sin(x) + x
            return x

        x = values(tx.float64)
        made = kernels_of(tx.map(long, tx.map(long, tx.map(long, x))))
        assert len(made) == 3 and len(set(made)) == 1

    def test_of_short_work_cuts_nothing(self) -> None:
        x = values(tx.float32, (30, 40))
        assert len(kernels_of(tx.softmax(tx.gelu(x) * 2 + x, axis=1))) == 1
        assert len(kernels_of(tx.exp(-x) * tx.erf(x) + tx.sin(x) * tx.log1p(x) + tx.pow(x, x))) == 1


ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "elements": lambda t: t,
    "a view": lambda t: t[::-3],
    "a sum": lambda t: t.sum(),
    "a broadcast": lambda t: t[:, None] * t,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dtype", [tx.float16, tx.float32, tx.float64, tx.complex64], ids=str)
def test_cuts_change_no_bit(dtype: object, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, found = values(dtype, (37,)), []
    for longest in (1 << 30, 200, 40):
        tune(monkeypatch, fusing={"longest": longest})
        result = ENDS[end](chain(x, 15 if x.dtype.is_complex else 50, 1))
        count = len(kernels_of(result))
        found.append((count, np.asarray(result).tobytes()))
    assert found[0][0] < found[1][0] < found[2][0]
    assert found[0][1] == found[1][1] == found[2][1]
