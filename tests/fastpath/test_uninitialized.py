"""Tensors that are not initialized raise errors, and never end the process."""

from __future__ import annotations

from pathlib import Path

import pytest

import tenxor as tx
from tests.processes import python

from .uninitialized import ALONE, called, functions, new


def test_fast_path_does_not_crash_on_uninitialized_tensors() -> None:
    python("-m", "tests.fastpath.uninitialized", cwd=Path(__file__).parents[2])


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", ALONE)
def test_python_methods_raise_for_uninitialized_tensors(name: str) -> None:
    assert tx.exp is not None
    (answer,) = {called(function, (new(),)) for its, function in functions() if its == name}
    assert answer.startswith("AttributeError") and "not initialized" in answer
