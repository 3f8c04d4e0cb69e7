"""Little memory and few threads by system limits: work ends with a right result or an error, and nothing hangs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.processes import python

resource = pytest.importorskip("resource", reason="only POSIX systems have such limits")

# It forks once for each limit, so that kernels are compiled only once. Each child ends by itself, or by an alarm that tells where it hangs.
PROGRAM = """
import faulthandler, os, resource, signal, sys, warnings
import numpy as np
import tenxor as tx

os.environ["TENXOR_CACHE_DIR"] = ""  # so that all that compiles is loaded beforehand: another user may not read it later
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
given, folder, *limits = sys.argv[1:]
for text in limits:
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for number, name in ((1, "out"), (2, "err")):
    os.dup2(os.open(f"{folder}/{text}.{name}", os.O_WRONLY | os.O_CREAT), number)
faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm(200)
limit = int(text)
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


def run_limited(limit: str, values: list[int], folder: Path) -> list[tuple[int, str, str]]:
    """Return the exit code, the output and the error output of a process under each limit."""
    codes = python("-c", PROGRAM, limit, str(folder), *map(str, values), within=800).stdout.split()
    texts = [[(folder / f"{value}.{name}").read_text() for name in ("out", "err")] for value in values]
    return [(int(code), out, err) for code, (out, err) in zip(codes, texts, strict=True)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much there is before")
def test_process_ends_under_any_memory_limit(tmp_path: Path) -> None:
    limits = [1 << k for k in range(16, 31, 2)]
    for extra_bytes, (code, out, err) in zip(limits, run_limited("RLIMIT_AS", limits, tmp_path), strict=True):
        told = f"{extra_bytes} bytes: ended by {code}\n{out}\n{err[-2000:]}"
        if code:  # LLVM ends the process itself when it has no memory, and so may Python and what it loads
            messages = ("memory", "MemoryError", "Cannot allocate", "failed to map", "bad_alloc")
            assert any(words in err for words in messages), told
        else:
            right, errors = map(int, out.split()[:2])
            assert right + errors == 10, told
        assert extra_bytes < 1 << 30 or (code == 0 and out.split()[0] == "10"), told


def test_results_are_correct_if_no_thread_can_be_started(tmp_path: Path) -> None:
    ((code, out, err),) = run_limited("RLIMIT_NPROC", [1], tmp_path)
    assert code == 0, err[-2000:]
    assert out.strip() == "10 0 tenxor: large work is shared by 1 of 4"
