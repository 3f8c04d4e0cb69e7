"""Some tests of values, repeated on the interpreter in other processes; `make test-interpreter` repeats all of them.

Their reference is NumPy, so a failure here is a fault of the interpreter or of an earlier stage.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.processes import python

TESTS = Path(__file__).resolve().parents[1]
FILES = (
    "test_plans.py",
    "ops/test_matrix.py",
    *[f"tensor/test_{name}.py" for name in ("elementwise_methods", "complex", "masks", "repeated_indices", "write_methods")],
)
NAMES = "not test_matrix.py or divide or gelu"  # the other operations on matrices take long


def test_value_tests_pass_with_the_interpreter_as_back_end() -> None:
    arguments = (*[str(TESTS / file) for file in FILES], "-m", "values and not large", "-k", NAMES)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["TENXOR_BACKEND"] = "interpreter"
    options = ("-q", "-rp", "-p", "no:cacheprovider", "-p", "no:xdist")
    process = python("-m", "pytest", *options, *arguments, env=environment, cwd=TESTS.parent, within=800)
    for file in FILES:
        assert f"PASSED tests/{file}::" in process.stdout, file
