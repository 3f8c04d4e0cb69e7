"""Python threads that write to one tensor lose no write."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

import tenxor as tx


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Switch threads as often as Python allows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("by_element", [False, True], ids=["rows", "elements"])
def test_concurrent_writes_to_different_rows_lose_nothing(by_element: bool) -> None:
    t = tx.zeros((8, 6)).realize()

    def add(row: int) -> None:
        for k in range(200):
            if by_element:
                t[row, k % 6] = t.item(row, k % 6) + 1.0
            else:
                t[row] = t[row] + 1

    for _ in range(5):
        threads = [threading.Thread(target=add, args=(row,)) for row in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert t.sum(axis=1).tolist() == [1000.0 if by_element else 6000.0] * 8
