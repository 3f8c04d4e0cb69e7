"""The number of threads for large work, with the calling thread counted. The first result already asks for this number.
`worker_pool.py` starts the threads.

`TENXOR_NUM_THREADS` sets the number, or else `OMP_NUM_THREADS`, by which joblib and Dask share out CPUs among their workers. The default is
the number of CPUs that this process may use. The processes of `multiprocessing` share the CPUs, so the default is 1 there.

The number is at most `max_threads()`. More threads than CPUs gain nothing, and each takes some MiB for packed parts of products.
"""

from __future__ import annotations

import ctypes
import os
import sys

from ..._utils import environment
from ..._utils.cache_registry import Source
from ..._utils.process import count_cpus

ALWAYS_ALLOWED_THREADS, ALLOWED_THREADS_PER_CPU = 64, 8


def max_threads() -> int:
    """Return the largest number of threads allowed: the greater of 64 and 8 for each CPU of this machine."""
    return max(ALWAYS_ALLOWED_THREADS, ALLOWED_THREADS_PER_CPU * (os.cpu_count() or 1))


def _read_default_count() -> int:
    """Return the number of threads for a program without a call of `set_num_threads`: the value of `TENXOR_NUM_THREADS`, if set.

    Without this variable, the number is the value of `OMP_NUM_THREADS`, or without both the number of CPUs that this process may use. A
    process started by `multiprocessing` has 1 thread if neither variable is set. The number is at most `max_threads()`.
    """
    default = _choose_default_count()
    return environment.read_count("TENXOR_NUM_THREADS", max_threads(), f"the number of threads is {default}") or default


def _choose_default_count() -> int:
    """Return the number of threads for an unset `TENXOR_NUM_THREADS`: `OMP_NUM_THREADS`, 1 or the number of CPUs.

    `_read_default_count` lists the cases.
    """
    omp_setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if omp_setting.isdecimal() and int(omp_setting) > 0:
        return min(int(omp_setting), max_threads())
    return 1 if _is_started_by_multiprocessing() else count_cpus()


def _is_started_by_multiprocessing() -> bool:
    """Return whether `multiprocessing` started this process.

    Before a spawned process knows its parent, it imports the main module; meanwhile `_inheriting` is set.
    """
    # `multiprocessing` is loaded in the processes that it starts. In other processes it may be missing, or half initialized during an
    # import by user code.
    process = sys.modules.get("multiprocessing.process")
    parent, current = (getattr(process, name, None) for name in ("parent_process", "current_process"))
    if parent is None or current is None:
        return False
    return parent() is not None or getattr(current(), "_inheriting", False)


_count = 0  # the number of threads; 0 until this process has determined it
_is_set_by_user = False  # whether `set_num_threads` chose the number
# For machine code: the address of the function that shares a loop, the address of the work queue, and the number of workers. The number is
# 0 if no worker may be used.
PARALLEL_FOR_WORD, QUEUE_WORD, WORKER_COUNT_WORD = range(3)
worker_handle = (ctypes.c_int64 * 3)()
thread_count_source = Source()  # of caches whose entries hold for this number of threads alone


def num_threads() -> int:
    """Return the number of threads that share large work.

    Returns
    -------
    int
        The number, 1 or more.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.num_threads() >= 1
    True
    """
    return _count or _determine_count()


def _determine_count() -> int:
    """Read the default number of threads (`_read_default_count`), store the number for this process, and return the number."""
    global _count
    _count = _read_default_count()
    return _count


def store_count(count: int) -> None:
    """Store `count`, from 1 to `max_threads()`, as the number of threads. If this is a change, clear the caches that depend on the number.

    Unless `keep_count_after_fork` was called, forked processes determine their own number.
    """
    global _count
    is_new = count != num_threads()
    _count = count
    if is_new:
        thread_count_source.clear_dependents()


def keep_count_after_fork() -> None:
    """Note that the user chose the number of threads: processes forked from now on keep the number, and do not determine their own."""
    global _is_set_by_user
    _is_set_by_user = True


def _reset_count_after_fork() -> None:
    """Forget the number of threads in a forked process, so that the process determines a new one. Keep a number from `set_num_threads`."""
    global _count
    if not _is_set_by_user:
        _count = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_count_after_fork)
