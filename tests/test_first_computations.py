"""User code that computes while modules are loaded late and the fast path is built finds nothing half done, and waits for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .first_computations import AT_INSTALLATION, SCENARIOS
from .processes import python


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each moment is tried in a fork")
@pytest.mark.parametrize(
    ("scenarios", "fast_path"), [(SCENARIOS.keys() - AT_INSTALLATION, "0"), (AT_INSTALLATION, "")], ids=["imports", "installation"]
)
def test_user_code_may_compute_during_first_computations(scenarios: set[str], fast_path: str) -> None:
    python(
        "-m",
        "tests.first_computations",
        *sorted(scenarios),
        env={**os.environ, "TENXOR_FAST_PATH": fast_path},
        cwd=Path(__file__).parents[1],
    )
