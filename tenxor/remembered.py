"""What was found before, remembered within bounds."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
LARGEST = 1 << 18  # bytes of tables that one entry may keep; those of many indices are seldom met again


class Remembered(dict[object, T]):
    """At most `most` entries, which keep at most `most_bytes` bytes in all, and each at most `LARGEST`. All are forgotten
    when one more would be too many: what is still needed is soon found again.

    Entries come by `keep` alone, which counts what they keep: `nbytes`. They are looked up by `get`; as calls of a method
    that a class inherits take longer, those who look up often have it as a function: `found = remembered.get`.
    Threads need no lock: in between others find nothing, and make the same.
    """

    __slots__ = ("_sizes", "most", "most_bytes", "nbytes")

    def __init__(self, most: int, most_bytes: int = 0) -> None:
        self.most, self.most_bytes, self.nbytes = most, most_bytes, 0
        self._sizes: dict[object, int] = {}  # of the entries that keep any bytes

    def keep(self, key: object, value: T, nbytes: int = 0) -> None:
        """Remember a value that keeps so many bytes instead of what was found for this key before; not if they are too
        many.
        """
        self.pop(key, None)
        self.nbytes -= self._sizes.pop(key, 0)
        if nbytes > LARGEST:
            return
        if len(self) >= self.most or self.nbytes + nbytes > self.most_bytes:
            self.clear()
        self[key] = value
        if nbytes:
            self._sizes[key] = nbytes
            self.nbytes += nbytes

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._sizes.clear()
        self.nbytes = 0
