"""Parts of a batch for several threads of Python's: NumPy lets go of Python's lock while it computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from ..backend.threads import num_threads
from ..collecting import uncollected
from ..undisturbed import start_untraced

PART = 8_000_000  # nanoseconds that a part takes at the most, if it can be helped: then a signal is heard


def is_alone() -> bool:
    """Whether there is one thread, which has all to do."""
    return num_threads() == 1


def share(part: Callable[[int, int], None], extent: int, work: int, over: threading.Event | None = None) -> None:
    """Call `part(begin, end)` for parts that together are `0..extent`, which take `work` nanoseconds in all, on all
    threads; the first error that one raises is raised. Nobody begins another part then, nor when somebody says that it is `over`.
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
    with uncollected():  # in a helper, a finalizer might wait for a lock that the caller holds
        try:
            for k in range(1, min(num_threads(), pieces)):
                helpers.append(threading.Thread(target=serve, name=f"tenxor-host-{k}", daemon=True))
                try:
                    start_untraced(helpers[-1])
                except RuntimeError:  # the system starts no more: those that there are do it all
                    helpers.pop()
                    break
            serve()
        except BaseException:  # Ctrl-C was heard between two parts
            over.set()
            raise
        finally:
            for helper in helpers:
                helper.join()
    if errors:
        raise errors[0]
