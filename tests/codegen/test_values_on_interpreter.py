"""Some tests of values, repeated on the interpreter in other processes; `make test-interpreter` repeats all of them.

Their reference is NumPy, so a failure here is a fault of the interpreter or of an earlier stage.
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
        ("tensor/test_elementwise_methods.py", ""),
        ("tensor/test_complex.py", ""),
        ("tensor/test_masks.py", ""),
        ("tensor/test_repeated_indices.py", ""),
        ("tensor/test_write_methods.py", ""),
    ],
)
def test_values_agree_on_the_interpreter(file: str, names: str) -> None:
    arguments = (str(TESTS / file), "-m", "values and not large", "-k", names)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["TENXOR_BACKEND"] = "interpreter"
    process = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments, env=environment, cwd=TESTS.parent)
    assert " passed" in process.stdout
