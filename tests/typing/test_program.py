"""A user's program has the types that it says, wrong lines are told, and it runs; and type checkers see every public name."""

from __future__ import annotations

from pathlib import Path

from mypy import api

import tenxor as tx
from tenxor._utils.foreign_names import OUR_FUNCTION_BY_ALIAS

from . import program

ROOT = Path(__file__).parents[2]


def checked(*arguments: str) -> None:
    """Have mypy check something, in its strictest way."""
    kept = ["--config-file", "", "--cache-dir", str(ROOT / ".mypy_cache/program")]
    told, errors, state = api.run(["--strict", "--follow-imports=silent", *kept, *arguments])
    assert (told.splitlines()[:-1], errors, state) == ([], "", 0), told + errors


def test_type_checkers_accept_the_program_and_report_its_marked_errors() -> None:
    checked(str(Path(program.__file__)))


def test_program_for_type_checkers_runs() -> None:
    program.main()


def test_checkers_see_every_public_name(tmp_path: Path) -> None:
    names = [name for name in (*tx.__all__, *OUR_FUNCTION_BY_ALIAS) if not name.startswith("_")]
    (tmp_path / "names.py").write_text("import tenxor as tx\n" + "".join([f"tx.{name}\n" for name in names]))
    checked(str(tmp_path / "names.py"))
    assert len(names) > 300
