"""A pending tensor that is asked for again is computed whole and stored, in the user's loop as well as by `realize`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.graph.storage import ScalarStorage
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on", "one_thread")
RNG = np.random.default_rng(17)
STEPS = 40


def is_pending(x: Tensor) -> bool:
    return x.storage.node.buffer is None


def steps_with_element(x: Tensor, rest: Tensor, steps: int) -> float:
    """Return the sum of an element of each of some steps."""
    total = 0.0
    for _ in range(steps):
        x = x * 0.5 + rest
        total += float(x[0, 1]) + (1.0 if x[1, 0] > 0 else 0.0) + float(x[0, 0] * x[1, 1])
    return total


@pytest.mark.parametrize("shape", [(2, 2), (10, 10), (100, 100)])
def test_element_of_a_small_pending_tensor_computes_the_tensor(shape: tuple[int, int], planned: list[object]) -> None:
    rest = tx.asarray(RNG.normal(size=shape)).realize()
    found = steps_with_element(rest, rest, STEPS)
    planned.clear()
    x = rest * 0.5 + rest
    element = x[1, 0]
    assert not is_pending(x) and type(element.storage) is ScalarStorage
    assert steps_with_element(rest, rest, STEPS) == found and not planned
    with fastpath.disabled():
        assert steps_with_element(rest, rest, STEPS) == found


def test_element_of_a_large_pending_tensor_stays_pending() -> None:
    x = tx.ones((300, 300)) * 2
    element = x[1, 0]
    assert is_pending(x) and is_pending(element) and element.item() == 2


def test_grad_and_vmap_of_elements_of_pending_tensors_are_correct() -> None:
    def product(x: Tensor) -> Tensor:
        y = x * 2
        return y[0] * y[1] + y[2] ** 2

    x = tx.asarray([1.0, 2.0, 3.0])
    for _ in range(4):
        assert tx.grad(product)(x).tolist() == [8.0, 4.0, 24.0]
        assert tx.vmap(product)(tx.stack([x, x + 1])).tolist() == [44.0, 88.0]


CONSTANTS: dict[str, Callable[[], Tensor]] = {
    "eye": lambda: 0.01 * tx.eye(10),
    "where": lambda: tx.where(tx.eye(10) > 0, 2.0, 1.0),
    "outer": lambda: tx.arange(10).reshape(10, 1) * 0.1 + tx.arange(10),
}
F = tx.asarray(RNG.normal(size=(10, 10))).realize()


def filtered(constant: Tensor, steps: int, reads_all: bool) -> list[float]:
    """Return the covariance after some steps of a filter."""
    p = F
    for _ in range(steps):
        p = F @ p @ F.T * 0.01 + constant
        s = F @ p if reads_all else F @ (F @ p @ F.T + constant)
        s.realize()
    return s.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("reads_all", [True, False], ids=["held", "unnamed"])
@pytest.mark.parametrize("name", list(CONSTANTS))
def test_pending_constant_of_a_loop_is_stored_and_later_loops_are_not_planned(name: str, reads_all: bool, planned: list[object]) -> None:
    for _ in range(4):
        constant = CONSTANTS[name]()
        found = filtered(constant, STEPS, reads_all)
        assert not is_pending(constant)
    planned.clear()
    constant = CONSTANTS[name]().realize()
    assert filtered(constant, STEPS, reads_all) == found and not planned
    constant = CONSTANTS[name]()
    assert filtered(constant, STEPS, reads_all) == found and len(planned) < 4
    with fastpath.disabled():
        assert filtered(CONSTANTS[name](), STEPS, reads_all) == found


def test_state_whose_sum_is_read_each_step_is_stored_at_the_next_step(planned: list[object]) -> None:
    rest = tx.asarray(RNG.normal(size=5000)).realize()

    def sums(steps: int, states: list[Tensor] | None = None) -> list[float]:
        x, found = rest, []
        for _ in range(steps):
            x = x * 0.5 + rest
            found.append(float(x.sum()))
            if states is not None:
                states.append(x)
        return found

    found = sums(STEPS)
    planned.clear()
    assert sums(STEPS) == found and not planned
    states: list[Tensor] = []
    assert sums(STEPS, states) == found
    assert not any(map(is_pending, states[:-1]))
    with fastpath.disabled():
        assert sums(STEPS) == found


def test_repeated_reads_of_a_held_node_do_not_change_the_bits_of_its_sums() -> None:
    """The held node is read in another order than the memory of the sum. Values equal those without the fast path, read after read."""
    x, y = tx.asarray(RNG.normal(size=(70, 90))).realize(), tx.asarray(RNG.normal(size=(90, 70))).realize()

    def outcome() -> list[bytes]:
        held = tx.exp(y) + 1
        results = [((x.mT * held).sum(axis=1) if k % 2 else (x.mT - held)).to_numpy().tobytes() for k in range(4)]
        return [*results, held.to_numpy().tobytes()]

    with fastpath.disabled():
        expected = outcome()
    for _ in range(4):
        assert outcome() == expected
