"""Tests of values, run once more on the interpreter, in processes of their own: with `make test-interpreter` all are.

Their oracle is NumPy, so what is found here is the interpreter's mistake, or one of what comes before it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import python

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("test_plans.py", ""),
        ("ops/test_matrix.py", "divide or gelu"),
        ("tensor/test_arithmetic.py", ""),
        ("tensor/test_complex.py", ""),
        ("tensor/test_masks.py", ""),
        ("tensor/test_repeated_indices.py", ""),
        ("tensor/test_writing.py", ""),
    ],
)
def test_on_the_interpreter(file: str, names: str) -> None:
    chosen = (str(TESTS / file), "-m", "values and not large", "-k", names)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["TENXOR_BACKEND"] = "interpreter"
    found = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen, env=environment, cwd=TESTS.parent)
    assert " passed" in found.stdout
