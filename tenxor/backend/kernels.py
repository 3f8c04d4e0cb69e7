"""Kernels in memory: each lives as long as something refers to it, a plan or whoever runs it, and some that were asked for last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from ..kernel.ir import Kernel
from ..locking import reentrant
from .interface import Compiled

C = TypeVar("C", bound=Compiled)
RECENT = 512  # kernels that live on though no plan refers to them: plans for other memory or sizes soon ask for them again


class Kernels(Generic[C]):
    """What a back end made of kernels: equal ones are one, which is made anew if it is not `alive` any more."""

    __slots__ = ("_lock", "_make", "_recent", "alive")

    def __init__(self, make: Callable[[Kernel], C]) -> None:
        self._make, self._lock = make, reentrant()
        self.alive: WeakValueDictionary[Kernel, C] = WeakValueDictionary()
        self._recent: OrderedDict[C, None] = OrderedDict()  # by when they were asked for

    def get(self, kernel: Kernel) -> C:
        """What runs the kernel: one that is alive, or made now."""
        with self._lock:
            found = self.alive.get(kernel)
            if found is None:
                found = self.alive[kernel] = self._make(kernel)
            self._recent[found] = None
            self._recent.move_to_end(found)
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return found

    def forget(self) -> None:
        """Let go of all that nothing else refers to."""
        with self._lock:
            self._recent.clear()
