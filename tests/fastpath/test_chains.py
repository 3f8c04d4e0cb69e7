"""The fast path repeats views of views and views by index tables as Python makes them, at any offset."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on")
VIEWS: dict[str, Callable[[Any], Any]] = {
    "a chain": lambda x: x.T.reshape(20),
    "of another shape": lambda x: x.T.reshape(2, 10),
    "a chain's part": lambda x: x.T.reshape(20)[3:].reshape(17, 1),
    "a chain's way back": lambda x: x.T.reshape(20).reshape(5, 4).T,
    "a chain of three": lambda x: x.T.reshape(10, 2).T.reshape(20),
    "rows of a chain": lambda x: x.T.reshape(4, 5)[::-1].T,
    "of a chain that is computed": lambda x: (x.T.reshape(20) + 1).reshape(4, 5).T.reshape(20),
    "rows in another order": lambda x: x[[3, 0, 2]].T,
    "a chain over them": lambda x: x[[3, 0, 2]].T.reshape(15),
    "chains that are the same otherwise": lambda x: x.reshape(20)[::-1].reshape(4, 5).T.reshape(4, 5).reshape(5, 4).T[::-1],
    "so many that they become a table": lambda x: deep(x, 12),
    "parts of a chain": lambda x: x.T.reshape(20)[5:].reshape(3, 5)[1],
}


def deep(x: Any, count: int) -> Any:
    for _ in range(count):
        x = x.reshape(20)[::-1].reshape(4, 5).T.reshape(4, 5)
    return x


def operands_at_offsets() -> dict[str, tuple[Any, Any]]:
    """Return arrays and tensors of shape (4, 5) that differ in offset and values."""
    array = np.arange(120.0).reshape(24, 5)
    x = tx.asarray(array.copy())
    found = {f"from row {k}": (array[k : k + 4], x[k : k + 4]) for k in (0, 3, 20)}
    return {**found, "on its own": (array[:4] * 2, (x[:4] * 2).realize()), "pending": (array[4:8] + 1, x[4:8] + 1)}


@pytest.mark.parametrize("view", VIEWS)
def test_view_chains_have_numpy_elements_at_any_offset(view: str) -> None:
    make = VIEWS[view]
    for _ in range(3):
        for name, (array, x) in operands_at_offsets().items():
            found = make(x)
            assert np.array_equal(found.to_numpy(), make(array)), name
            assert (found + 1).tolist() == (make(array) + 1).tolist(), name


@pytest.mark.parametrize("view", ["a chain", "of another shape", "a chain's way back", "so many that they become a table"])
def test_view_chains_share_storage_layout_and_spec_with_python(view: str) -> None:
    for _ in range(4):
        x = tx.asarray(np.arange(20.0).reshape(4, 5))
        seen = VIEWS[view](x)
        with fastpath.disabled():
            wanted = VIEWS[view](x)
        assert seen.storage is wanted.storage and seen.layout == wanted.layout and seen.spec is wanted.spec
        seen[-1] = -1.0
        assert x.tolist() == wanted_after(view)


def wanted_after(view: str) -> list[Any]:
    array = np.arange(20.0).reshape(4, 5)
    places = VIEWS[view](np.arange(20).reshape(4, 5))[-1]
    array.reshape(-1)[places] = -1.0
    found: list[Any] = array.tolist()
    return found


def test_repeated_view_chain_runs_no_python() -> None:
    x = tx.asarray(np.arange(20.0).reshape(4, 5))
    met: list[str] = []

    def again() -> Tensor:
        return x.T.reshape(20).reshape(4, 5)

    again(), again()
    sys.setprofile(lambda frame, event, _: met.append(frame.f_code.co_name) if event == "call" else None)
    again()
    sys.setprofile(None)
    assert met == ["again"]
    x[1:].T.reshape(15), x[1:].T.reshape(15)
    assert x[1:].T.reshape(15).tolist() == x.to_numpy()[1:].T.reshape(15).tolist()
