"""Changes of the number of threads. The workers end first, and the next shared loop starts new workers."""

from __future__ import annotations

import os
from operator import index as as_int

from ..._utils.lazy import find_loaded_module
from ...dtypes import format_integer
from ...errors import ArgumentError
from .thread_count import keep_count_after_fork, max_threads, num_threads, store_count

__all__ = ["set_num_threads"]


def set_num_threads(count: int) -> None:
    """Share large work among `count` threads from now on; results do not depend on the number.

    Parameters
    ----------
    count : int
        The number of threads, 1 or more.

    Raises
    ------
    ArgumentError
        If `count` is no integer, is below 1, or is above both 64 and 8 for each CPU of the machine.

    Examples
    --------
    >>> import tenxor as tx
    >>> before = tx.num_threads()
    >>> tx.set_num_threads(1)
    >>> tx.num_threads()
    1
    >>> tx.set_num_threads(before)
    """
    try:
        count = as_int(count)
    except TypeError:
        raise ArgumentError(f"set_num_threads: the count must be an integer, not {count!r}") from None
    if count < 1:
        raise ArgumentError(f"set_num_threads: the count is {format_integer(count)}; it must be at least 1")
    if count > max_threads():
        raise ArgumentError(
            f"set_num_threads: {format_integer(count)} threads are more than this machine can use; the count must be at most"
            f" {max_threads()}; give the number of its CPUs, {os.cpu_count()}, or fewer"
        )
    use_threads(count)
    keep_count_after_fork()


def use_threads(count: int) -> None:
    """Set the number of threads for large work to `count`, from 1 to `max_threads()`.

    If this is a change, end the worker threads, and clear the caches whose entries depend on the number. Unless `set_num_threads` was
    called, forked processes determine their own number. `tenxor.threadpool` calls this function for a temporary change.
    """
    worker_pool = find_loaded_module("tenxor.codegen.threads.worker_pool")
    if count != num_threads() and worker_pool is not None:
        worker_pool.stop_pool()
    store_count(count)
