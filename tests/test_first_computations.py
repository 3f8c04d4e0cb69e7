"""User code that computes during late imports and while the fast path is built sees no partial state and does not block."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .first_computations import AT_INSTALLATION, SCENARIOS
from .processes import python


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each moment is tried in a fork")
@pytest.mark.parametrize("scenarios", [SCENARIOS.keys() - AT_INSTALLATION, AT_INSTALLATION], ids=["imports", "installation"])
def test_user_code_may_compute_during_first_computations(scenarios: set[str]) -> None:
    python("-m", "tests.first_computations", *sorted(scenarios), cwd=Path(__file__).parents[1])
