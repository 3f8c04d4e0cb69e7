"""Random programs in watched memory, in a process of their own as that may end; and whether it would be noticed."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.processes import python

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


def ended(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(*command, env={**os.environ, **environment}, well=False, within=600)


@pytest.mark.parametrize(("at", "by"), [(0, 0), (127, 0), (128, -signal.SIGSEGV), (-1, -signal.SIGABRT), (-60, -signal.SIGABRT)])
def test_write_outside_of_a_memory_block_ends_the_process_by_a_signal(at: int, by: int) -> None:
    assert ended("-c", WRONG.format(at=at), TENXOR_FAST_PATH="0").returncode == by  # the fast path would lend the block


@pytest.mark.parametrize("first", range(0, 50, 25))
def test_random_programs_stay_inside_their_memory_blocks(first: int) -> None:
    done = ended("-m", "tests.fuzz.guarded", str(first), "25")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("; ")[1].split()[0]) > 100, done.stdout
