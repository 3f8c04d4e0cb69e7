"""The programs of `docs/guide/sharing.md` that need another library. Doctest runs the cells with prompts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tenxor as tx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "sharing.md"
PROGRAMS = {name: text for text, name in re.findall(r"```python\n(import (\w+).*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)}


def test_page_has_a_program_for_each_library_that_it_names() -> None:
    assert PROGRAMS.keys() == {"torch", "jax", "pandas", "pyarrow"}


@pytest.mark.parametrize("library", PROGRAMS)
def test_program_of_the_page_runs_beside_the_library(library: str) -> None:
    pytest.importorskip(library)
    exec(PROGRAMS[library], {"tx": tx})
