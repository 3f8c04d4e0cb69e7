"""What is shipped: the metadata, the licence, the typing marker and the data of the examples."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from collections import Counter
from hashlib import sha256
from pathlib import Path

import tenxor
from tenxor.shortcut import debug_offsets

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DIGITS = ROOT / "tenxor" / "data" / "digits.csv"
DIGITS_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match.group()


def test_numpy_and_llvmlite_are_all_that_is_needed() -> None:
    assert {name_of(line) for line in PROJECT["project"]["dependencies"]} == {"numpy", "llvmlite"}
    assert PROJECT["project"]["requires-python"] == ">=3.11"


def test_classifiers_workflow_and_debug_offsets_name_the_same_versions_of_cpython() -> None:
    minors = [int(n) for n in re.findall(r"Python :: 3\.(\d+)", "\n".join(PROJECT["project"]["classifiers"]))]
    assert minors == list(range(debug_offsets.OLDEST_MINOR, max(debug_offsets.WORD_INDICES) + 1))
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    assert f"python: {json.dumps([f'3.{minor}' for minor in minors])}" in workflow.read_text(encoding="utf-8")


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    module, _, name = PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    assert f'{name} = "{tenxor.__version__}"' in source
    assert re.fullmatch(r"\d+\.\d+\.\d+", tenxor.__version__)


def test_types_are_shipped() -> None:
    assert (ROOT / "tenxor" / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["tenxor"]


def test_the_licence_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_documents_have_examples_that_run() -> None:
    assert ">>> " in (ROOT / "README.md").read_text(encoding="utf-8")
    assert any(">>> " in path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert {"README.md", "docs", "tenxor"} <= set(PROJECT["tool"]["pytest"]["ini_options"]["testpaths"])


def test_warnings_are_errors() -> None:
    assert PROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"][0] == "error"


def test_digits_are_the_published_ones() -> None:
    content = DIGITS.read_bytes()
    assert sha256(content).hexdigest() == DIGITS_SHA256
    rows = [[int(value) for value in line.split(",")] for line in content.decode("ascii").splitlines()]
    assert len(rows) == 1797
    assert {len(row) for row in rows} == {65}
    assert {value for row in rows for value in row[:-1]} == set(range(17))
    # The counts per digit that the data set's description states for its test set.
    counts = Counter(row[-1] for row in rows)
    assert [counts[digit] for digit in range(10)] == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_name_their_source_and_licence() -> None:
    readme = (DIGITS.parent / "README.md").read_text(encoding="utf-8")
    for fact in ("Alpaydin", "Kaynak", "10.24432/C50P49", "CC BY 4.0", "BSD-3-Clause", DIGITS_SHA256):
        assert fact in readme


def test_type_checkers_see_every_function_of_the_table() -> None:
    stub = ROOT / "tenxor" / "functions" / "elementwise.pyi"
    written = runpy.run_path(str(ROOT / "tools" / "stub_elementwise.py"))["stub"]()
    assert stub.read_text(encoding="utf-8") == written, "run `python tools/stub_elementwise.py`"
    assert "functions/elementwise.pyi" in PROJECT["tool"]["setuptools"]["package-data"]["tenxor"]
