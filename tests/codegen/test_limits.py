"""Little memory and few threads by system limits: work ends with a right result or an error, and nothing hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import python

resource = pytest.importorskip("resource", reason="only POSIX systems have such limits")

PROGRAM = """
import os, resource, sys, warnings
os.environ["TENXOR_CACHE_DIR"] = ""  # so that all that compiles is loaded beforehand: another user may not read it later
import numpy as np
import tenxor as tx

tx.set_num_threads(4)
tx.ones(3).realize()
a = np.arange(90_000.0).reshape(300, 300) % 7
programs = (
    lambda t: (t * 2 + 1).sum(axis=0),
    lambda t: t @ t,
    lambda t: (t[:, None, :40] - t[None, :, :40]).max(axis=2),
    lambda t: t[::-1] + t,
    lambda t: t.T.reshape(-1)[::7],
) * 2
expected = [program(a) for program in programs]  # before there is too little for NumPy
for program in programs:
    program(tx.asarray(a[:50, :50])).realize()
given, limit = sys.argv[1], int(sys.argv[2])
if given == "RLIMIT_AS":
    limit += int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
elif os.getuid() == 0:  # who has no such limits
    os.setuid(65534)
resource.setrlimit(getattr(resource, given), (limit, limit))
warnings.simplefilter("always")
told = warnings.catch_warnings(record=True).__enter__()
right = errors = 0
for program, wanted in zip(programs, expected):
    try:
        found = program(tx.asarray(a)).to_numpy()
    except (MemoryError, RuntimeError) as error:
        assert str(error) or type(error) is MemoryError
        errors += 1
    else:
        assert np.array_equal(found, wanted)
        right += 1
print(right, errors, *{str(w.message).split(' threads')[0] for w in told})
"""


def run_limited(limit: str, value: int) -> subprocess.CompletedProcess[str]:
    return python("-c", PROGRAM, limit, str(value), well=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much there is before")
@pytest.mark.parametrize("extra_bytes", [1 << k for k in range(16, 31, 2)])
def test_process_ends_under_any_memory_limit(extra_bytes: int) -> None:
    process = run_limited("RLIMIT_AS", extra_bytes)
    if process.returncode:  # LLVM ends the process itself when it has no memory, and so may Python and what it loads
        messages = ("memory", "MemoryError", "Cannot allocate", "failed to map", "bad_alloc")
        assert any(words in process.stderr for words in messages), process.stderr[-2000:]
    else:
        right, errors = map(int, process.stdout.split()[:2])
        assert right + errors == 10
    assert extra_bytes < 1 << 30 or (process.returncode == 0 and process.stdout.split()[0] == "10"), process.stderr[-2000:]


def test_results_are_correct_if_no_thread_can_be_started() -> None:
    process = run_limited("RLIMIT_NPROC", 1)
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout.strip() == "10 0 tenxor: large work is shared by 1 of 4"
