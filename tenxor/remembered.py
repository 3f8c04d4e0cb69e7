"""A bounded cache."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
LARGEST = 1 << 18  # bytes of offset tables in an entry; longer tables of indices are unlikely to occur again


class Remembered(dict[object, T]):
    """A cache of at most `most` entries, with at most `most_bytes` bytes of tables together and `LARGEST` bytes each.

    An insertion beyond a limit clears the whole cache first: entries still in use soon come back. Use `keep` to insert, which counts the
    bytes (`nbytes`), and `get` to look up. A call of an inherited method is slow, so frequent callers bind the method once: `found =
    remembered.get`.

    Threads need no lock. A thread may miss an entry while another thread changes the cache; then the thread computes the value again.
    """

    __slots__ = ("_nbytes_of", "most", "most_bytes", "nbytes")

    def __init__(self, most: int, most_bytes: int = 0) -> None:
        self.most, self.most_bytes, self.nbytes = most, most_bytes, 0
        self._nbytes_of: dict[object, int] = {}  # bytes of each entry with tables

    def keep(self, key: object, value: T, nbytes: int = 0) -> None:
        """Insert `value`, with `nbytes` bytes of tables, in place of any older value for `key`. Above `LARGEST` bytes, only remove the
        older value.
        """
        self.pop(key, None)
        self.nbytes -= self._nbytes_of.pop(key, 0)
        if nbytes > LARGEST:
            return
        if len(self) >= self.most or self.nbytes + nbytes > self.most_bytes:
            self.clear()
        self[key] = value
        if nbytes:
            self._nbytes_of[key] = nbytes
            self.nbytes += nbytes

    def clear(self) -> None:
        """Remove every entry."""
        super().clear()
        self._nbytes_of.clear()
        self.nbytes = 0
