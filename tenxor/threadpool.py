"""Tenxor's threads for threadpoolctl: `import tenxor.threadpool`, and `threadpool_limits` limits them, `threadpool_info` lists them.

>>> from threadpoolctl import threadpool_limits
>>> import tenxor as tx
>>> import tenxor.threadpool
>>> with threadpool_limits(1):
...     tx.num_threads()
1

It needs threadpoolctl 3.2 or newer. joblib's and Dask's workers, and processes of `multiprocessing`, are limited without it.
"""

from __future__ import annotations

from llvmlite import binding  # noqa: F401  # libraries are found by their files, so this one is loaded
from threadpoolctl import LibController, register

from .backend.threads import max_threads, num_threads, use_threads
from .version import __version__


class Threads(LibController):  # type: ignore[misc]  # it ships no types
    """What threadpoolctl asks of a library."""

    user_api = internal_api = "tenxor"
    filename_prefixes = ("libllvmlite", "llvmlite")

    def get_num_threads(self) -> int:
        """How many threads large work is shared by."""
        return num_threads()

    def set_num_threads(self, num_threads: int) -> None:
        """Share it by so many from now on, or by as many as there may be."""
        use_threads(min(num_threads, max_threads()))

    def get_version(self) -> str:
        """That of Tenxor."""
        return __version__


register(Threads)
