"""Of sources that nobody touched since they were installed a process reads none: what they say was written down before."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import time
from pathlib import Path

import pytest

import tenxor as tx
from tests.processes import python

# Writes down what sources say, as whoever makes a package does; or tells it, and whether sources were read for that.
MAKE = """
from pathlib import Path
from tenxor.backend.llvm import found
from tenxor.backend.llvm.maker import made_of

name, content = made_of()
folder = Path(found.__file__).with_name("shipped")
folder.mkdir()
(folder / name).write_text(content)
"""
TELL = """
from tenxor.backend.llvm import cache, found

known = found.as_made()
print(known.replace("\\n", " ") == f"{cache.emitter_text()} {cache.text_of(*cache.PLANNER)}" if known else "nothing")
assert found.planner() == found.hashed()
"""
SOURCE = Path("tenxor/backend/llvm/emit.py")


def run(site: Path, program: str) -> str:
    return python("-c", program, env={**os.environ, "PYTHONPATH": str(site), "TENXOR_CACHE_DIR": ""}, cwd=site).stdout.strip()


def record(site: Path) -> None:
    """Do what installers do when all files are there."""
    lines = []
    for path in sorted(site.rglob("*.*")):
        if path.is_file() and path.name != "RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
            lines.append(f"{path.relative_to(site).as_posix()},sha256={digest},{path.stat().st_size}")
    listed = site / f"tenxor-{tx.__version__}.dist-info" / "RECORD"
    listed.parent.mkdir(exist_ok=True)
    listed.write_text("\n".join([*lines, f"{listed.parent.name}/RECORD,,"]) + "\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with an installed package."""
    shutil.copytree(Path(tx.__file__).parent, tmp_path / "tenxor", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    run(tmp_path, MAKE)
    time.sleep(0.02)  # so that times differ
    record(tmp_path)
    return tmp_path


def test_is_known_of_what_was_installed(site: Path) -> None:
    assert run(site, TELL) == "True"


def changed(site: Path, seconds: float = 0.02) -> None:
    time.sleep(seconds)
    content = (site / SOURCE).read_bytes()
    (site / SOURCE).write_bytes(content.replace(b"e", b"f", 1))  # as long as before


def with_its_old_time(site: Path) -> None:
    status = (site / SOURCE).stat()
    changed(site)
    os.utime(site / SOURCE, ns=(status.st_atime_ns, status.st_mtime_ns))


def installed_otherwise(site: Path) -> None:
    """Changed by who installed it, after it was made: the list has other hashes, and is younger."""
    changed(site)
    time.sleep(0.02)
    record(site)


def with_another(site: Path) -> None:
    (site / SOURCE).with_name("another.py").write_text("")
    time.sleep(0.02)
    os.utime(site / f"tenxor-{tx.__version__}.dist-info" / "RECORD")  # it is in no list, however old it is


def with_one_less(site: Path) -> None:
    (site / "tenxor/rewrite/attention.py").unlink()


def without_a_list(site: Path) -> None:
    shutil.rmtree(site / f"tenxor-{tx.__version__}.dist-info")


def where_nothing_was_made(site: Path) -> None:
    shutil.rmtree(site / "tenxor/backend/llvm/shipped")


@pytest.mark.parametrize(
    "how", [changed, with_its_old_time, installed_otherwise, with_another, with_one_less, without_a_list, where_nothing_was_made]
)
def test_is_not_known(how: object, site: Path) -> None:
    """Then sources are read, and what is known by them is told from what was made."""
    assert callable(how)
    how(site)
    assert run(site, TELL) == "nothing"
