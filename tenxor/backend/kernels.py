"""Kernels in memory: each lives as long as something refers to it, a plan or whoever runs it, and some that were asked for last."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import ref

from .interface import Compiled

C = TypeVar("C", bound=Compiled)
RECENT = 512  # kernels that live on though no plan refers to them: plans for other memory or sizes soon ask for them again


class _Made(ref[C]):
    """What was made of a kernel, which is to be known as long as it is alive."""

    __slots__ = ("kernel",)

    kernel: Any


class Kernels(Generic[C]):
    """What a back end made of kernels: equal ones are one, which is made anew if it is not `alive` any more.

    What died is noted by C alone, and forgotten with the next that is asked for: no Python runs when a kernel dies, in which a signal
    could be heard and lost.
    """

    __slots__ = ("_dead", "_known", "_make", "_recent")

    def __init__(self, make: Callable[[Any], C]) -> None:
        self._make = make
        self._known: dict[Any, _Made[C]] = {}
        self._dead: deque[_Made[C]] = deque()
        self._recent: OrderedDict[C, None] = OrderedDict()  # by when they were asked for

    @property
    def alive(self) -> dict[Any, C]:
        """Those that there are now."""
        return {kernel: found for kernel, made in list(self._known.items()) if (found := made()) is not None}

    def __len__(self) -> int:
        """How many there are, with those that died since one was asked for."""
        return len(self._known)

    def get(self, kernel: Any) -> C:
        """Return what runs the kernel: one that is alive, or made now.

        No lock is held, as user code may run while a kernel is made, and may want the lock that another thread holds which waits here. Each
        step on the tables is a single call of C; two threads that want the same kernel at the same time may both make it.
        """
        self._bury()
        found = self._alive(kernel)
        if found is None:
            new = self._make(kernel)
            found = self._alive(kernel)  # another thread, or a signal handler, may have been faster
            if found is None:
                found, made = new, _Made(new, self._dead.append)
                made.kernel = kernel
                self._known[kernel] = made
        with suppress(KeyError):  # another thread took it out, or the last one
            self._recent[found] = None
            self._recent.move_to_end(found)
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return found

    def _alive(self, kernel: Any) -> C | None:
        known = self._known.get(kernel)
        return None if known is None else known()

    def _bury(self) -> None:
        """Forget what died."""
        with suppress(IndexError):  # another thread took the last one
            while self._dead:
                dead = self._dead.popleft()
                if self._known.get(dead.kernel) is dead:  # not one that was made since
                    self._known.pop(dead.kernel, None)

    def forget(self) -> None:
        """Let go of all that nothing else refers to."""
        self._recent.clear()
