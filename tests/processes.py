"""Processes of Python's, for tests of what belongs to a whole process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tenxor import fastpath
from tenxor.codegen.llvm import kernel_disk_cache
from tenxor.codegen.llvm.compiler import compiler
from tenxor.fastpath import machine_code

# The beginning of a program whose import finds no stored code, and so builds no fast path. Later the program finds the code.
IMPORT_WITHOUT_FAST_PATH = """
import os
_folder = os.environ["TENXOR_CACHE_DIR"]
os.environ["TENXOR_CACHE_DIR"] = ""
import tenxor as tx
os.environ["TENXOR_CACHE_DIR"] = _folder
"""


def python(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, well: bool = True, within: float = 300
) -> subprocess.CompletedProcess[str]:
    """How a process with these arguments ended, and what it said; it has to end `well`, unless anything is well.

    It has to end within so many seconds, too: one that does not is asked what each of its threads is at, which the error tells.
    """
    environment = {**(os.environ if env is None else env), "PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            raise AssertionError(f"not over after {within} seconds\n{_last_words(process)}") from None
        finally:
            process.kill()
    assert process.returncode == 0 or not well, f"ended by {process.returncode}\n{out[-2000:]}\n{err[-8000:]}"
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def make_cache_with_fast_path(folder: Path) -> Path:
    """Make the new cache folder `folder`, with the code of the fast path only, which takes seconds to compile, and return `folder`."""
    object_table = fastpath.get_object_table()
    assert object_table is not None
    key = compiler()._make_disk_key(kernel_disk_cache.hash_text(machine_code._describe(object_table)))
    assert key is not None
    stored = Path(os.environ["TENXOR_CACHE_DIR"]) / key
    if not stored.exists():  # this process found the code elsewhere
        machine_code.compile_code(object_table)
    folder.mkdir(0o700)
    shutil.copy2(stored, folder)
    return folder


def _last_words(process: subprocess.Popen[str]) -> str:
    """What a process said that was told to end."""
    try:
        out, err = process.communicate(timeout=20)
    except subprocess.TimeoutExpired as silent:
        return f"nor is it told where: {silent}"
    return f"{out[-2000:]}\n{err[-8000:]}"
