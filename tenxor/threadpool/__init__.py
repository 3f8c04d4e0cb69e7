"""Support for threadpoolctl: after `import tenxor.threadpool`, `threadpool_limits` limits Tenxor's threads, `threadpool_info` lists them.

>>> from threadpoolctl import threadpool_limits
>>> import tenxor as tx
>>> import tenxor.threadpool
>>> with threadpool_limits(1):
...     tx.num_threads()
1

It needs threadpoolctl 3.2 or newer. Workers of joblib, Dask and `multiprocessing` are limited without this module.
"""

from __future__ import annotations

from llvmlite import binding  # noqa: F401  # threadpoolctl finds a library by its loaded file, so it is imported here
from threadpoolctl import LibController, register

from ..codegen.threads.set_threads import use_threads
from ..codegen.threads.thread_count import max_threads, num_threads
from ..version import __version__


class Threads(LibController):  # type: ignore[misc]  # threadpoolctl ships no types
    """The controller of Tenxor's threads, through which threadpoolctl reads and sets their number."""

    user_api = internal_api = "tenxor"
    filename_prefixes = ("libllvmlite", "llvmlite")

    def get_num_threads(self) -> int:
        """Return the number of threads that share large work."""
        return num_threads()

    def set_num_threads(self, num_threads: int) -> None:
        """Share large work among `num_threads` threads from now on, or among the most allowed if that is less."""
        use_threads(min(num_threads, max_threads()))

    def get_version(self) -> str:
        """Return Tenxor's version."""
        return __version__


register(Threads)
