"""The default number of threads: in other processes, under settings of other libraries, and under thread limits."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import tenxor as tx
from tenxor import threadpool
from tenxor._utils.process import count_cpus
from tenxor.codegen.threads.thread_count import max_threads
from tests.processes import python

PLAIN = {k: v for k, v in os.environ.items() if k not in ("TENXOR_NUM_THREADS", "OMP_NUM_THREADS")}
PROGRAM = """
import tenxor as tx
x = tx.ones((600, 600)).realize()
assert (x @ x)[0, 0].item() == 600
print(tx.num_threads())
"""


def threads_with(**settings: str) -> int:
    """Return the number of threads in a process with these settings."""
    return int(python("-c", PROGRAM, env=PLAIN | settings).stdout)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"OMP_NUM_THREADS": "3"}, 3),  # as joblib and Dask set it
        ({"OMP_NUM_THREADS": "3,2"}, 3),  # by levels
        ({"OMP_NUM_THREADS": "3", "TENXOR_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "1000000000"}, max_threads()),
        ({"OMP_NUM_THREADS": "none"}, count_cpus()),
    ],
)
def test_environment_sets_the_number_of_threads(settings: dict[str, str], count: int) -> None:
    assert threads_with(**settings) == count


def multiply_and_count(_: int) -> int:
    assert (tx.ones((300, 300)) @ tx.ones((300, 300)))[0, 0].item() == 300
    return tx.num_threads()


POOL_PROGRAM = """
import multiprocessing, sys
import tenxor as tx

def counted(_):
    assert (tx.ones((300, 300)) @ tx.ones((300, 300)))[0, 0].item() == 300
    return tx.num_threads()

if __name__ == "__main__":
    counted(0)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(counted, range(4)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_workers_share_the_cpus(method: str, tmp_path: Path) -> None:
    program = tmp_path / "many.py"
    program.write_text(POOL_PROGRAM)
    process = python(str(program), method, env=PLAIN)
    assert process.stdout.split("\n")[0] == "[1, 1, 1, 1]"


@pytest.mark.filterwarnings("ignore:.*fork")
def test_forked_process_keeps_the_chosen_number_of_threads() -> None:
    before = tx.num_threads()
    tx.set_num_threads(3)
    try:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.map(multiply_and_count, [0]) == [3]
    finally:
        tx.set_num_threads(before)


def test_threadpoolctl_limits_and_lists_threads() -> None:
    before = tx.num_threads()
    tx.set_num_threads(2)
    try:
        (ours,) = [pool_info for pool_info in threadpool_info() if pool_info["user_api"] == "tenxor"]
        assert (ours["num_threads"], ours["version"]) == (2, tx.__version__)
        with threadpool_limits(1):
            assert tx.num_threads() == multiply_and_count(0) == 1
        assert tx.num_threads() == 2
        with threadpool_limits({"tenxor": 3}):
            assert tx.num_threads() == multiply_and_count(0) == 3
        with threadpool_limits({"tenxor": 10**9}):
            assert tx.num_threads() == max_threads()
        assert tx.num_threads() == 2 and threadpool.Threads.user_api == "tenxor"
    finally:
        tx.set_num_threads(before)
