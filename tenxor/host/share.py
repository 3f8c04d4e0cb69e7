"""A parallel loop over a batch in Python threads, for NumPy calls that release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from ..backend.threads import num_threads
from ..collecting import uncollected
from ..undisturbed import start_untraced

PART = 8_000_000  # maximal nanoseconds of a part, where possible: signals are delivered between parts


def is_alone() -> bool:
    """Return whether only one thread may be used."""
    return num_threads() == 1


def share(part: Callable[[int, int], None], extent: int, work: int, over: threading.Event | None = None) -> None:
    """Call `part(begin, end)` for ranges that together are `0..extent`, on all threads, and raise the first error of a call.

    The whole takes about `work` nanoseconds. No range is started after an error, or after another thread has set `over`.
    """
    pieces = min(extent, max(-(-work // PART), num_threads()))
    step = -(-extent // pieces)
    next_piece, errors, over = count().__next__, list[BaseException](), over or threading.Event()

    def serve() -> None:
        try:
            while not over.is_set() and (begin := next_piece() * step) < extent:
                part(begin, min(extent, begin + step))
        except BaseException as error:
            over.set()
            errors.append(error)

    helpers = []
    with uncollected():  # the collector is off: in a worker, a finalizer might wait for a lock held by the caller
        try:
            for k in range(1, min(num_threads(), pieces)):
                helpers.append(threading.Thread(target=serve, name=f"tenxor-host-{k}", daemon=True))
                try:
                    start_untraced(helpers[-1])
                except RuntimeError:  # the system starts no more threads: the present ones do the work
                    helpers.pop()
                    break
            serve()
        except BaseException:  # Ctrl-C came between two parts
            over.set()
            raise
        finally:
            for helper in helpers:
                helper.join()
    if errors:
        raise errors[0]
