"""A process does not read unchanged installed sources: their hashes were recorded at installation."""

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

# MAKE records the hashes of the sources, as at packaging; TELL prints them, and whether sources were read.
MAKE = """
from pathlib import Path
from tenxor.codegen.llvm import host_info
from tenxor.codegen.llvm.level_compiler import describe_sources

name, content = describe_sources()
folder = Path(host_info.__file__).with_name("shipped")
folder.mkdir()
(folder / name).write_text(content)
"""
TELL = """
from tenxor.codegen.llvm import kernel_disk_cache, host_info

known = host_info.read_build_hashes()
further = kernel_disk_cache.PLANNER_SOURCES, kernel_disk_cache.FASTPATH_SOURCES
hashes = " ".join((kernel_disk_cache.hash_emitter_sources(), *[kernel_disk_cache.hash_sources(*sources) for sources in further]))
print(known.replace("\\n", " ") == hashes if known else "nothing")
assert f"{host_info.get_planner_hashes()}\\n{host_info.get_fastpath_hash()}" == host_info.compute_source_hashes()
"""
SOURCE = Path("tenxor/codegen/llvm/emit_kernel.py")


def run(site: Path, program: str) -> str:
    return python("-c", program, env={**os.environ, "PYTHONPATH": str(site), "TENXOR_CACHE_DIR": ""}, cwd=site).stdout.strip()


def record(site: Path) -> None:
    """Write the RECORD file, as installers do after copying all files."""
    lines = []
    for path in sorted(site.rglob("*.*")):
        if path.is_file() and path.name != "RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
            lines.append(f"{path.relative_to(site).as_posix()},sha256={digest},{path.stat().st_size}")
    record_file = site / f"tenxor-{tx.__version__}.dist-info" / "RECORD"
    record_file.parent.mkdir(exist_ok=True)
    record_file.write_text("\n".join([*lines, f"{record_file.parent.name}/RECORD,,"]) + "\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with the package installed."""
    shutil.copytree(Path(tx.__file__).parent, tmp_path / "tenxor", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    run(tmp_path, MAKE)
    time.sleep(0.02)  # so that times differ
    record(tmp_path)
    return tmp_path


def test_hashes_of_an_intact_installation_are_known(site: Path) -> None:
    assert run(site, TELL) == "True"


def change_source(site: Path, seconds: float = 0.02) -> None:
    time.sleep(seconds)
    content = (site / SOURCE).read_bytes()
    (site / SOURCE).write_bytes(content.replace(b"e", b"f", 1))  # as long as before


def change_source_keeping_time(site: Path) -> None:
    status = (site / SOURCE).stat()
    change_source(site)
    os.utime(site / SOURCE, ns=(status.st_atime_ns, status.st_mtime_ns))


def reinstall_changed(site: Path) -> None:
    """Change a source and record it anew, so that RECORD has other hashes and is younger."""
    change_source(site)
    time.sleep(0.02)
    record(site)


def add_source(site: Path) -> None:
    (site / SOURCE).with_name("another.py").write_text("")
    time.sleep(0.02)
    os.utime(site / f"tenxor-{tx.__version__}.dist-info" / "RECORD")  # RECORD does not list the new file


def remove_source(site: Path) -> None:
    (site / "tenxor/rewrite/split_attention.py").unlink()


def remove_record(site: Path) -> None:
    shutil.rmtree(site / f"tenxor-{tx.__version__}.dist-info")


def remove_shipped(site: Path) -> None:
    shutil.rmtree(site / "tenxor/codegen/llvm/shipped")


@pytest.mark.parametrize(
    "damage", [change_source, change_source_keeping_time, reinstall_changed, add_source, remove_source, remove_record, remove_shipped]
)
def test_hashes_are_unknown_after_a_change_of_the_installation(damage: object, site: Path) -> None:
    """Sources are then read, and code made from other sources is not used."""
    assert callable(damage)
    damage(site)
    assert run(site, TELL) == "nothing"
