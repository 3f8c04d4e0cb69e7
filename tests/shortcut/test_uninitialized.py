"""Tensors that are not initialized raise errors, and never end the process."""

from __future__ import annotations

from pathlib import Path

import pytest

import tenxor as tx
from tests.processes import python

from .uninitialized import ALONE, called, functions, new


def test_whatever_the_fast_path_installs_takes_uninitialized_tensors_without_a_crash() -> None:
    python("-m", "tests.shortcut.uninitialized", cwd=Path(__file__).parents[2])


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", ALONE)
def test_pythons_own_methods_say_that_a_tensor_is_not_initialized(name: str) -> None:
    assert tx.exp is not None
    (answer,) = {called(function, (new(),)) for its, function in functions() if its == name}
    assert answer.startswith("AttributeError") and "not initialized" in answer
