"""Test the package: metadata, licence, typing marker, example data, and how wheels are built and tagged."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from email import message_from_bytes
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

import tenxor
from tenxor._utils.optional_packages import EXTRA_REQUIREMENTS, install_hint
from tenxor.fastpath import debug_offsets

from .processes import python

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DIGITS = ROOT / "tenxor" / "data" / "digits.csv"
DIGITS_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match.group()


def test_only_dependencies_are_numpy_and_llvmlite() -> None:
    assert {name_of(line) for line in PROJECT["project"]["dependencies"]} == {"numpy", "llvmlite"}
    assert PROJECT["project"]["requires-python"] == ">=3.11"


def test_classifiers_workflow_and_debug_offsets_name_the_same_versions_of_cpython() -> None:
    minors = [int(n) for n in re.findall(r"Python :: 3\.(\d+)", "\n".join(PROJECT["project"]["classifiers"]))]
    assert minors == list(range(debug_offsets.OLDEST_MINOR, max(debug_offsets.WORD_INDICES) + 1))
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    assert f"python: {json.dumps([f'3.{minor}' for minor in minors])}" in workflow.read_text(encoding="utf-8")


def test_version_is_written_once() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    module, _, name = PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    assert f'{name} = "{tenxor.__version__}"' in source
    assert re.fullmatch(r"\d+\.\d+\.\d+", tenxor.__version__)


def test_hints_to_install_are_the_requirements_of_the_extras() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert {extra: extras[extra] for extra in EXTRA_REQUIREMENTS} == {extra: list(lines) for extra, lines in EXTRA_REQUIREMENTS.items()}
    assert install_hint("einops") == f"pip install '{extras['einops'][0]}'"


def test_no_text_says_to_install_tenxor_from_an_index() -> None:
    folders = ("tenxor", "tests", "docs", "examples", "benchmarks")
    texts = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)] + list(ROOT.glob("*.md"))
    offending = [str(path) for path in texts if re.search(r"pip install\s+[\"']?tenxor\b", path.read_text(encoding="utf-8"))]
    assert offending == []


def test_import_without_dask_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dask" or name.startswith("tenxor.dask")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ModuleNotFoundError, match=r"^tenxor.dask: Dask is not installed; pip install 'dask\[array,distributed\]"):
        importlib.import_module("tenxor.dask")


def test_typing_marker_is_packaged() -> None:
    assert (ROOT / "tenxor" / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["tenxor"]


def test_licence_is_apache() -> None:
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


def test_digits_equal_the_published_data_set() -> None:
    content = DIGITS.read_bytes()
    assert sha256(content).hexdigest() == DIGITS_SHA256
    rows = [[int(value) for value in line.split(",")] for line in content.decode("ascii").splitlines()]
    assert len(rows) == 1797
    assert {len(row) for row in rows} == {65}
    assert {value for row in rows for value in row[:-1]} == set(range(17))
    # The counts per digit that the data set's description states for its test set.
    counts = Counter(row[-1] for row in rows)
    assert [counts[digit] for digit in range(10)] == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_readme_of_digits_names_source_licences_and_checksum() -> None:
    readme = (DIGITS.parent / "README.md").read_text(encoding="utf-8")
    for fact in ("Alpaydin", "Kaynak", "10.24432/C50P49", "CC BY 4.0", "BSD-3-Clause", DIGITS_SHA256):
        assert fact in readme


def test_elementwise_stub_is_up_to_date() -> None:
    stub = ROOT / "tenxor" / "api" / "elementwise.pyi"
    written = runpy.run_path(str(ROOT / "tools" / "stub_elementwise.py"))["stub"]()
    assert stub.read_text(encoding="utf-8") == written, "run `python tools/stub_elementwise.py`"
    assert "api/elementwise.pyi" in PROJECT["tool"]["setuptools"]["package-data"]["tenxor"]


# --- wheels -----------------------------------------------------------------------------------------------------------

BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
# Stands for `python -m tenxor`, whose `ship` takes minutes: it writes a file, and may fail then.
SHIP = """
import os, sys
from pathlib import Path
assert sys.argv[1] == "ship" and not any(name.startswith("TENXOR_") and value for name, value in os.environ.items())
folder = Path(sys.argv[2])
folder.mkdir(parents=True)
folder.joinpath("x86-64-v4.objects").write_bytes(b"code")
print("compiled a kernel", file=sys.stderr)
sys.exit(STATUS)
"""
PLATFORMS = ["py3-none-manylinux_2_17_x86_64", "py3-none-musllinux_1_1_x86_64"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a small package with our setup.py and pyproject.toml."""
    package = tmp_path / "project" / "tenxor"
    package.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, package.parent)
    shutil.copy(ROOT / "tenxor" / "version.py", package)
    package.joinpath("__init__.py").touch()
    package.joinpath("__main__.py").write_text(SHIP.replace("STATUS", "0"), encoding="utf-8")
    return package.parent


def build(project: Path, ship: str | None, hook: str = "build_wheel", well: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a hook of the build back end, which puts a wheel into the folder "made"."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TENXOR_")}
    env |= {} if ship is None else {"TENXOR_SHIP": ship}
    wheel_folder = project.parent / "made"
    wheel_folder.mkdir(exist_ok=True)
    return python("-c", BUILD, hook, str(wheel_folder), env={**env, "SOURCE_DATE_EPOCH": "1700000000"}, cwd=project, well=well)


def tags_of(project: Path) -> tuple[list[str], bool, bool]:
    """Return the tags of the wheel, whether its metadata call it pure, and whether it contains machine code."""
    (path,) = project.parent.glob("made/*.whl")
    with ZipFile(path) as wheel:
        names = wheel.namelist()
        metadata = message_from_bytes(wheel.read(f"tenxor-{tenxor.__version__}.dist-info/WHEEL"))
    assert "tenxor/__init__.py" in names  # at the root, whatever it is
    tags = metadata.get_all("Tag", [])
    platforms = ".".join(tag.rpartition("-")[2] for tag in tags)
    assert path.name == f"tenxor-{tenxor.__version__}-py3-none-{platforms}.whl"
    return tags, metadata["Root-Is-Purelib"] == "true", any(name.endswith(".objects") for name in names)


def test_wheel_with_machine_code_is_tagged_for_its_platform(project: Path) -> None:
    process = build(project, None)
    assert tags_of(project) == (PLATFORMS, False, True)
    assert "TENXOR_SHIP=0 builds without" in process.stderr and "compiled a kernel" in process.stderr
    (path,) = project.parent.glob("made/*.whl")
    first = path.read_bytes()
    build(project, "1")  # over what the first build left
    assert path.read_bytes() == first, "equal sources make equal bytes"
    path.unlink()
    build(project, "0")
    assert tags_of(project) == (["py3-none-any"], True, False)


def test_wheel_is_pure_if_no_machine_code_can_be_compiled(project: Path) -> None:
    """The compilation fails after it has written a file."""
    project.joinpath("tenxor/__main__.py").write_text(SHIP.replace("STATUS", "1"), encoding="utf-8")
    assert "the wheel is pure" in build(project, None).stderr
    assert tags_of(project) == (["py3-none-any"], True, False)
    assert "TENXOR_SHIP is 1, but the machine code could not be compiled" in build(project, "1", well=False).stderr


def test_editable_installation_compiles_nothing(project: Path) -> None:
    assert "compil" not in build(project, None, "build_editable").stderr
    assert not [*project.rglob("*.objects")]
    assert "TENXOR_SHIPPED=FOLDER" in build(project, "1", "build_editable", well=False).stderr


def test_unknown_value_of_tenxor_ship_is_an_error(project: Path) -> None:
    assert "TENXOR_SHIP is 'no'; it must be 0, 1, empty or unset" in build(project, "no", well=False).stderr
