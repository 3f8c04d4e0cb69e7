"""Elements in nested lists: machine code converts a few numbers, and NumPy many numbers, complex ones and those of 16 bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.fastpath.emit.python_conversion import MAX_LISTED_ELEMENTS

from .outcomes import lose_no_reference

pytestmark = pytest.mark.usefixtures("on")
DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32", "float64", "complex64")
SEEN: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "one": lambda x: x[1:2, 2:3, 0:1],
    "nothing": lambda x: x[:, 3:3],
    "a row": lambda x: x[1, 2],
    "back": lambda x: x[::-1, :, ::-2],
    "turned": lambda x: x.transpose((2, 0, 1)),
    "the same again": lambda x: np.broadcast_to(x[:1, :1], (2, 2, 4)),
}


def values(dtype: str) -> Any:
    drawn = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (2, 3, 4), endpoint=True)
    if dtype.startswith(("float", "complex")):
        found = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1 / 3, 1e-7, -2.5])[drawn % 8].astype(dtype)
        return found * (1 + 2j) if dtype.startswith("complex") else found
    return drawn > 0 if dtype == "bool" else drawn.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", SEEN)
def test_tolist_equals_numpy(dtype: str, how: str) -> None:
    array = values(dtype)
    found, wanted = SEEN[how](tx.asarray(array)).tolist(), SEEN[how](array).tolist()
    assert repr(found) == repr(wanted)  # which tells zeros, kinds and NaN apart


@pytest.mark.parametrize("size", [1, MAX_LISTED_ELEMENTS, MAX_LISTED_ELEMENTS + 1, 100_000])
def test_tolist_of_any_size_equals_numpy(size: int) -> None:
    array = np.random.default_rng(0).normal(size=size)
    assert tx.asarray(array).tolist() == array.tolist()
    assert (tx.asarray(array) * 2).tolist() == (array * 2).tolist()


def test_tolist_runs_no_python_frame_and_makes_no_array() -> None:
    x, met = tx.asarray(values("float64")), list[str]()
    x.tolist()
    sys.setprofile(lambda frame, event, what: met.append(event if event == "call" else what.__name__ if event == "c_call" else ""))
    x.tolist()
    sys.setprofile(None)
    assert [m for m in met if m] == ["tolist", "setprofile"]


def test_tolist_keeps_reference_counts() -> None:
    its = {"x": tx.asarray(values("int64")), "bits": tx.asarray(values("float16"))}
    lose_no_reference([lambda its: its["x"].tolist(), lambda its: its["bits"].tolist(), lambda its: its["x"][::-1].tolist()], its)
