"""Random programs in watched memory, in a process of their own as that may end; and whether it would be noticed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WRONG = """
import ctypes
from tests.fuzz import guarded
import tenxor as tx
guarded.watch()
t = tx.ones(16).realize()
ctypes.memset(t.storage.node.buffer.address + {at}, 0, 1)
del t
tx.release_memory()
"""


def ended(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(("at", "by"), [(0, 0), (127, 0), (128, -signal.SIGSEGV), (-1, -signal.SIGABRT), (-60, -signal.SIGABRT)])
def test_what_is_outside_of_a_block_is_noticed(at: int, by: int) -> None:
    assert ended("-c", WRONG.format(at=at)).returncode == by


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_programs_stay_inside(first: int) -> None:
    done = ended("-m", "tests.fuzz.guarded", str(first), "100")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("; ")[1].split()[0]) > 100, done.stdout
