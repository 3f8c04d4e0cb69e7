"""Kernels in memory: each lives as long as something refers to it, a plan or whoever runs it, and some that were asked for last."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import ref

from ..locking import reentrant
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

    __slots__ = ("_dead", "_known", "_lock", "_make", "_recent")

    def __init__(self, make: Callable[[Any], C]) -> None:
        self._make, self._lock = make, reentrant()
        self._known: dict[Any, _Made[C]] = {}
        self._dead: deque[_Made[C]] = deque()
        self._recent: OrderedDict[C, None] = OrderedDict()  # by when they were asked for

    @property
    def alive(self) -> dict[Any, C]:
        """Those that there are now."""
        with self._lock:
            return {kernel: found for kernel, made in self._known.items() if (found := made()) is not None}

    def __len__(self) -> int:
        """How many there are, with those that died since one was asked for."""
        return len(self._known)

    def get(self, kernel: Any) -> C:
        """What runs the kernel: one that is alive, or made now."""
        with self._lock:
            self._bury()
            known = self._known.get(kernel)
            found = None if known is None else known()
            if found is None:
                found = self._make(kernel)
                made = _Made(found, self._dead.append)
                made.kernel = kernel
                self._known[kernel] = made
            self._recent[found] = None
            self._recent.move_to_end(found)
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return found

    def _bury(self) -> None:
        """Forget what died."""
        while self._dead:
            dead = self._dead.popleft()
            if self._known.get(dead.kernel) is dead:  # not one that was made since
                del self._known[dead.kernel]

    def forget(self) -> None:
        """Let go of all that nothing else refers to."""
        with self._lock:
            self._recent.clear()
