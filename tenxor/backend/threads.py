"""How many threads share large work: the number alone, which the first result asks for. What starts threads is `helpers.py`.

`TENXOR_NUM_THREADS` sets how many there are, or `OMP_NUM_THREADS`, by which joblib and Dask share out CPUs among their
workers; else it is the number of CPUs that this process may use, and 1 in the processes that `multiprocessing` makes, which share them.

There are at most `max_threads()`. More threads than CPUs gain nothing, and each takes some MiB for the parts of products that it packs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from operator import index as as_int

from .. import environment
from ..dtypes import shown_integer
from ..errors import ArgumentError
from ..system import cpus

ALWAYS_ALLOWED_THREADS, ALLOWED_THREADS_PER_CPU = 64, 8


def max_threads() -> int:
    """Return how many threads there may be: 64, or 8 for each CPU of this machine if these are more."""
    return max(ALWAYS_ALLOWED_THREADS, ALLOWED_THREADS_PER_CPU * (os.cpu_count() or 1))


def _default_count() -> int:
    """How many threads there are if nobody says."""
    otherwise = _count_without_setting()
    return environment.count("TENXOR_NUM_THREADS", max_threads(), f"the number of threads is {otherwise}") or otherwise


def _count_without_setting() -> int:
    """Return the number of threads without `TENXOR_NUM_THREADS`."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if first.isdecimal() and int(first) > 0:
        return min(int(first), max_threads())
    # Loaded in all processes that it starts; in others it may be missing, or half initialized while user code imports it.
    parent = getattr(sys.modules.get("multiprocessing"), "parent_process", None)
    return cpus() if parent is None or parent() is None else 1


_count = 0  # of threads; 0 where it is not known yet, as in a process that was just made
_chosen = False  # by `set_num_threads`
# For machine code: by which code a loop is shared, where helpers meet who calls it, and how many there are, 0 if none may be called.
SHARE, PLACE, MANY = range(3)
meeting = (ctypes.c_int64 * 3)()
changing: list[Callable[[], None]] = []  # who stops first, if there are to be more threads, or fewer
changed: list[Callable[[], None]] = []  # who wants to know that there are


def num_threads() -> int:
    """How many threads large work is shared by.

    >>> import tenxor as tx
    >>> tx.num_threads() >= 1
    True
    """
    return _count or _counted()


def _counted() -> int:
    global _count
    _count = _default_count()
    return _count


def set_num_threads(count: int) -> None:
    """Share large work by `count` threads from now on; results do not depend on it.

    ArgumentError for a count below 1, or above 64 and above 8 for each CPU of the machine: more only take memory.
    """
    global _chosen
    try:
        count = as_int(count)
    except TypeError:
        raise ArgumentError(f"set_num_threads: the count is an integer, not {count!r}") from None
    if count < 1:
        raise ArgumentError(f"set_num_threads: {shown_integer(count)} threads cannot work; give at least 1")
    if count > max_threads():
        raise ArgumentError(
            f"set_num_threads: {shown_integer(count)} threads are more than this machine can use; the count must be at most"
            f" {max_threads()}; give the number of its CPUs, {os.cpu_count()}, or fewer"
        )
    use_threads(count)
    _chosen = True


def use_threads(count: int) -> None:
    """The same, chosen by nobody: processes that are made from now on count their own."""
    global _count
    is_new = count != num_threads()
    if is_new:
        for stop in changing:
            stop()
    _count = count
    if is_new:
        for tell in changed:
            tell()


def _forget_count() -> None:
    global _count
    if not _chosen:
        _count = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_count)
