"""A parallel loop over a batch in Python threads, for NumPy calls that release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from .._utils.exclude_user_code import start_untraced
from .._utils.gc_control import disable_gc
from ..codegen.threads.thread_count import num_threads

MAX_PART_NS = 8_000_000  # maximal nanoseconds of a part, where possible: signals are delivered between parts


def run_in_threads(compute_range: Callable[[int, int], None], extent: int, work: int, stop: threading.Event | None = None) -> None:
    """Call `compute_range(begin, end)` for consecutive ranges from 0 to `extent` (`end` and `extent` excluded), on several threads.

    `extent` must be 1 or more. At most `num_threads()` threads run, the calling thread included. The whole takes about `work` nanoseconds,
    which decides into how many ranges the extent is cut. No range is started after an error, or after another thread has set `stop`; the
    function then returns early. The first error of a call is raised, after the end of every call.
    """
    piece_count = min(extent, max(-(-work // MAX_PART_NS), num_threads()))
    step = -(-extent // piece_count)
    next_piece, errors, stop = count().__next__, list[BaseException](), stop or threading.Event()

    def serve() -> None:
        try:
            while not stop.is_set() and (begin := next_piece() * step) < extent:
                compute_range(begin, min(extent, begin + step))
        except BaseException as error:
            stop.set()
            errors.append(error)

    workers = []
    with disable_gc():  # the collector is off: in a worker, a finalizer might wait for a lock held by the caller
        try:
            for k in range(1, min(num_threads(), piece_count)):
                workers.append(threading.Thread(target=serve, name=f"tenxor-host-{k}", daemon=True))
                try:
                    start_untraced(workers[-1])
                except RuntimeError:  # the system starts no more threads: the present ones do the work
                    workers.pop()
                    break
            serve()
        except BaseException:  # Ctrl-C came between two parts
            stop.set()
            raise
        finally:
            for worker in workers:
                worker.join()
    if errors:
        raise errors[0]
