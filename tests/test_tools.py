"""The tools in `tools/` that check and make changes of words."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"
COMPARE = runpy.run_path(str(TOOLS / "compare_code.py"))
Renamer: Any = runpy.run_path(str(TOOLS / "rename.py"))["Renamer"]
PROSE = runpy.run_path(str(TOOLS / "plain_words.py"))

SOURCE = '''
"""Add numbers."""
LIMIT = 3

def total(values, start=0):
    """The sum of `values`; up to LIMIT."""
    found = start  # with `start` first
    for value in values:
        found += value
    return found if found < LIMIT else [value for value in values if value != found]

print(total([1], start=2), "total", vars().total)
'''


def compare(new: str, old: str = SOURCE) -> tuple[list[str], set[tuple[str, str, str]]]:
    faults, visible = COMPARE["compare"](old, new)
    return faults, {tuple(rename) for rename in visible}


def test_compare_code_allows_changes_of_docstrings_and_comments() -> None:
    new = SOURCE.replace("Add numbers.", "Return sums.").replace("with `start` first", "The start counts.")
    assert compare(new) == ([], set())


def test_compare_code_allows_renames_of_local_variables_in_their_scope() -> None:
    assert compare(SOURCE.replace("found", "result")) == ([], set())


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("found += value", "found += start", "value -> start is not one to one"),
        ("found += value", "found -= value", "differs in more than names"),
        ("return found if", "return LIMIT if", "found and LIMIT belong to different scopes"),
        ("in values if", "in start if", "not one to one"),
        ("vars()", "dir()", "a builtin and another name: vars, dir"),
    ],
)
def test_compare_code_reports_other_changes_as_faults(old: str, new: str, fault: str) -> None:
    faults, _ = compare(SOURCE.replace(old, new))
    assert len(faults) == 1 and fault in faults[0]


def test_renames_that_other_files_can_see_are_listed() -> None:
    faults, visible = compare(SOURCE.replace("total", "add_up").replace("start=2", "first=2"))
    assert not faults
    kinds = {(kind, "total", "add_up") for kind in ("module", "attribute", "string")}
    assert visible == {*kinds, ("keyword", "start", "first")}


def test_renamer_changes_names_attributes_keywords_strings_and_prose() -> None:
    names = {
        "": {"LIMIT": "MAX_SUM", ".total": "add_up", "total": "add_up", "'total'": "sum", "start=": "first"},
        "total": {"found": "result", "start": "first", "values": "terms"},
    }
    renamer = Renamer(SOURCE, names)
    assert (
        renamer.renamed()
        == '''
"""Add numbers."""
MAX_SUM = 3

def add_up(terms, first=0):
    """The sum of `terms`; up to MAX_SUM."""
    result = first  # with `first` first
    for value in terms:
        result += value
    return result if result < MAX_SUM else [value for value in terms if value != result]

print(add_up([1], first=2), "sum", vars().add_up)
'''
    )
    assert [*renamer.missing()] == []


def test_renamer_changes_names_in_fields_of_f_strings() -> None:
    source = 'def f(found, part):\n    return f"found {found.part!r:>{part}} {{found}}"\n'
    assert Renamer(source, {"f": {"found": "result", "part": "width"}}).renamed() == (
        'def f(result, width):\n    return f"found {result.part!r:>{width}} {{found}}"\n'
    )


def test_entries_that_do_not_occur_are_listed() -> None:
    renamer = Renamer(SOURCE, {"": {"LIMITS": "MAX_SUMS"}})
    assert renamer.renamed() == SOURCE
    assert [*renamer.missing()] == ["the file: LIMITS"]


def test_prose_figures_count_stand_ins_and_vague_names() -> None:
    prose = PROSE["Prose"]()
    prose.add(Path("file.py"), '"""What is found of it."""\ndef found(x):\n    """Return `x`.\n\n    >>> what = x\n    """\n    return x\n')
    assert (prose.words, prose.stand_ins, prose.whats) == (6, 2, 1)
    assert prose.bindings == {"found": 1, "x": 1}
    assert prose.bad_openings == ["file.py:1: What is found of it."]
    assert prose.names_percent == 50


@pytest.mark.parametrize(
    "new",
    [
        SOURCE.replace("# with `start` first", "# type: ignore"),
        SOURCE.replace('"""Add numbers."""', '"""Add numbers.\n\n>>> 1 + 1\n2\n"""'),
    ],
)
def test_doctests_and_comments_for_tools_are_no_prose(new: str) -> None:
    marks_of = COMPARE["marks_of"]
    assert compare(new) == ([], set())
    assert marks_of(new) != marks_of(SOURCE)
