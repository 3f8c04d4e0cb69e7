"""Long sums of products run in machine code on one thread, without the GIL."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import launch_records
from tenxor.runtime.realize import compute_lock

pytestmark = pytest.mark.usefixtures("on", "one_thread")
RNG = np.random.default_rng(5)
A, V = tx.asarray(RNG.normal(size=(1100, 1000))).realize(), tx.asarray(RNG.normal(size=1000)).realize()


def test_long_products_equal_python_and_are_not_planned_again(planned: list[object]) -> None:
    for _ in range(3):
        A @ V + 0.0
        (A @ V).realize()
    planned.clear()
    found = (A @ V).to_numpy()
    assert not planned
    with fastpath.disabled():
        wanted = (A @ V).to_numpy()
    assert planned and found.tobytes() == wanted.tobytes()
    assert np.allclose(found, A.to_numpy() @ V.to_numpy())
    assert not compute_lock._is_owned()  # type: ignore[attr-defined]


def test_long_products_in_many_threads_are_independent() -> None:
    """Each thread overwrites the vector that its pending product reads."""
    (A @ V).realize()
    wanted = [(A @ (V * float(k))).to_numpy().tobytes() for k in range(4)]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            v = (V * float(k)).realize()
            found = A @ v
            other = v
            other += 1.0
            if found.to_numpy().tobytes() != wanted[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_one_pending_product_may_be_read_by_many_threads() -> None:
    wanted = (A @ V).to_numpy().tobytes()
    for _ in range(10):
        pending, found = A @ V, list[bytes]()
        threads = [threading.Thread(target=lambda t=pending, to=found: to.append(t.to_numpy().tobytes())) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert found == [wanted] * 4


def test_long_products_on_several_threads_are_left_to_python(planned: list[object]) -> None:
    for _ in range(3):
        (A @ V).realize()
    wanted = (A @ V).to_numpy().tobytes()
    tx.set_num_threads(2)
    assert not launch_records.recipes_with_records
    planned.clear()
    assert (A @ V).to_numpy().tobytes() == wanted and planned
