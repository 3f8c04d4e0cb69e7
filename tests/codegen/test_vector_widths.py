"""How many vectors a step of a loop takes: several for cheap operations and for long chains, and always the same values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.vector_widths import choose_unroll_factors, is_one_loop_best
from tenxor.lowering.ir import For, iterate_statements
from tenxor.tensor import Tensor
from tests.lowering.helpers import kernel_of
from tests.machines import current, tune

pytestmark = pytest.mark.usefixtures("plain")


def repeat(step: Callable[[Tensor], Tensor], x: Tensor, count: int) -> Tensor:
    for _ in range(count):
        x = step(x)
    return x


PROGRAMS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {  # with the vectors of a step
    "an addition": (lambda x: x + 1, 4),
    "an exponential": (lambda x: tx.exp(x), 1),
    "independent functions": (lambda x: tx.sin(x) + tx.exp(x) + tx.cos(x), 1),
    "two exponentials in turn": (lambda x: repeat(lambda y: tx.exp(-y), x, 2), 2),
    "six exponentials in turn": (lambda x: repeat(lambda y: tx.exp(-y), x, 6), 4),
    "forty cheap steps in turn": (lambda x: repeat(lambda y: tx.clip(y * 1.1, -1, 1), x, 40), 4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_long_chains_of_operations_take_several_vectors_a_step(name: str) -> None:
    program, vectors = PROGRAMS[name]
    kernel = kernel_of(program(tx.ones(1000).realize()))
    (loop,) = [s for s in iterate_statements(kernel.body) if isinstance(s, For)]
    assert is_one_loop_best(loop, current()) == (vectors == 1)
    if vectors > 1:
        assert choose_unroll_factors(loop, current(), short_rows=False) == (vectors,)


@pytest.mark.parametrize("dtype", [tx.float64, tx.float32, tx.float16], ids=str)
def test_values_do_not_depend_on_the_vectors_of_a_step(dtype: tx.dtypes.DType, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).normal(size=300)
    results = list[list[bytes]]()
    for max_moderate, max_long in ((1 << 30, 1 << 30), (1, 1 << 30), (1, 1)):  # steps of one, two and four vectors
        tune(monkeypatch, costs={"max_moderate_element": max_moderate, "max_long_chain": max_long})
        results.append(list[bytes]())
        for size in (1, 7, 8, 31, 33, 64, 100, 300):
            t = tx.asarray(x[:size], dtype=dtype).realize()
            results[-1].append(repeat(lambda y: tx.exp(-y * y), t, 4).to_numpy().tobytes())
    assert results[0] == results[1] == results[2]
