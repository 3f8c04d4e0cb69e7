"""What all tests share: the option `--fuzz`, the Hypothesis profiles, which tests are of values, a kernel cache of their own."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

CACHE_DIR = "TENXOR_CACHE_DIR"
FUZZ_PROGRAMS = 10_000

# The gate draws the same examples every time, so that it fails only for a change that breaks something.
# `pytest --hypothesis-profile=explore` draws new ones, and more of them.
settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("gate")


def _positive(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least one program has to run")
    return number


TESTS = Path(__file__).parent
# What is about values, whatever computes them: `pytest -m "values and not large"` is for any back end.
VALUES = (
    *("functions", "ops", "tensor"),
    *(f"test_{name}.py" for name in ("behaviours", "creation", "errata", "errors", "in_place", "plans")),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of values."""
    folders = tuple(TESTS / name for name in VALUES)
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in folders):
            item.add_marker("values")


collect_ignore = ["backend/exhaustive_float32.py"]  # a program to run by hand: 2**32 inputs a function


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz",
        type=_positive,
        default=FUZZ_PROGRAMS,
        metavar="N",
        help=f"run N random programs in the aliasing fuzz (default {FUZZ_PROGRAMS:,})",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep kernels in a directory of this run's own: never the user's, and empty at the start.

    The workers of a parallel run inherit the directory, so what one compiles the others find.
    """
    if hasattr(config, "workerinput"):
        return
    directory = tempfile.TemporaryDirectory(prefix="tenxor-tests-", ignore_cleanup_errors=True)
    before = os.environ.get(CACHE_DIR)
    os.environ[CACHE_DIR] = directory.name

    def restore() -> None:
        if before is None:
            os.environ.pop(CACHE_DIR, None)
        else:
            os.environ[CACHE_DIR] = before
        directory.cleanup()

    config.add_cleanup(restore)
