"""A cache with limits on its entries and their bytes. An insertion beyond a limit clears the whole cache."""

from __future__ import annotations

from typing import TypeVar

from .cache_registry import Source

T = TypeVar("T")
MAX_ENTRY_BYTES = 1 << 18  # bytes of offset tables in an entry; longer tables of indices are unlikely to occur again


class BoundedCache(dict[object, T]):
    """A cache of at most `max_entries` entries, with at most `max_bytes` bytes of tables together and `MAX_ENTRY_BYTES` bytes each.

    An insertion beyond a limit clears the whole cache first: entries still in use soon come back. Use `put` to insert, which counts the
    bytes (`nbytes`), and `get` to look up, which returns None on a miss. A call of an inherited method is slow, so frequent callers bind
    the method once: `look_up = cache.get`. `record` is the entry in the registry (`cache_registry.register`).

    Threads need no lock. A thread may miss an entry while another thread changes the cache; then the thread computes the value again.
    """

    __slots__ = ("_nbytes_of", "max_entries", "max_bytes", "nbytes", "record")

    def __init__(self, max_entries: int, max_bytes: int = 0) -> None:
        self.max_entries, self.max_bytes, self.nbytes = max_entries, max_bytes, 0
        self._nbytes_of: dict[object, int] = {}  # bytes of each entry with tables
        self.record = Source()  # of a cache that is not registered

    def put(self, key: object, value: T, nbytes: int = 0) -> None:
        """Insert `value`, with `nbytes` bytes of tables, in place of any older value for `key`.

        Above `MAX_ENTRY_BYTES` bytes, only remove the older value.
        """
        self.pop(key, None)
        self.nbytes -= self._nbytes_of.pop(key, 0)
        if nbytes > MAX_ENTRY_BYTES:
            return
        if len(self) >= self.max_entries or self.nbytes + nbytes > self.max_bytes:
            self.record.evictions += 1
            self.clear()
        self[key] = value
        if nbytes:
            self._nbytes_of[key] = nbytes
            self.nbytes += nbytes

    def clear(self) -> None:
        """Remove every entry, and clear the dependents of this cache."""
        self.remove_entries()
        self.record.clear_dependents()

    def remove_entries(self) -> None:
        """Remove every entry of this cache; the dependents stay as they are."""
        super().clear()
        self._nbytes_of.clear()
        self.nbytes = 0
