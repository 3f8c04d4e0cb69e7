"""A cache of the compiled kernels in memory.

A kernel stays as long as a plan or a launch refers to its compiled form. The most recently requested kernels stay in any case.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import ref

from .interface import Compiled

C = TypeVar("C", bound=Compiled)
# The number of kernels kept without a reference: plans for other memory or other sizes soon ask for them again.
MAX_RECENT_KERNELS = 512


class _WeakEntry(ref[C]):
    """An entry of `KernelCache`: a weak reference to the compiled form of a kernel. `kernel` is the key: the kernel, or its facts."""

    __slots__ = ("kernel",)

    kernel: Any


class KernelCache(Generic[C]):
    """A cache that maps kernels to their compiled forms. Equal kernels share an entry; an entry lives as long as its
    value.

    `compile_kernel` makes the compiled form of a missing kernel. The keys are `Kernel`s, or `KernelFacts` in the LLVM back end.

    The deallocation of a value runs only a C callback, which notes the event; the next `get` removes the entry. Python code at that moment
    would be a danger: a signal handler could raise an error there, and Python would swallow the error.
    """

    __slots__ = ("_dead_entries", "_entries", "_compile", "_recent")

    def __init__(self, compile_kernel: Callable[[Any], C]) -> None:
        self._compile = compile_kernel
        self._entries: dict[Any, _WeakEntry[C]] = {}
        self._dead_entries: deque[_WeakEntry[C]] = deque()
        self._recent: OrderedDict[C, None] = OrderedDict()  # the most recently requested kernels, oldest first

    @property
    def live_kernels(self) -> dict[Any, C]:
        """A new dict from the kernels in memory now to their compiled forms."""
        return {kernel: compiled for kernel, entry in list(self._entries.items()) if (compiled := entry()) is not None}

    def __len__(self) -> int:
        """Return the number of kernels in memory."""
        self._remove_dead()
        return len(self._entries)

    def get(self, kernel: Any) -> C:
        """Return the compiled form of `kernel`, a hashable key: from memory, or made now by `compile_kernel`. The kernel then counts as
        recently requested.

        No lock is held: user code may run while a kernel is compiled, and may want a lock of another thread that waits here. Each change
        of a dict or deque is a single C call. Two threads with requests for the same kernel at the same time may both compile it.
        """
        self._remove_dead()
        compiled = self._find(kernel)
        if compiled is None:
            new = self._compile(kernel)
            compiled = self._find(kernel)  # another thread, or a signal handler, may have been faster
            if compiled is None:
                compiled, entry = new, _WeakEntry(new, self._dead_entries.append)
                entry.kernel = kernel
                self._entries[kernel] = entry
        with suppress(KeyError):  # another thread removed this entry, or the oldest
            self._recent[compiled] = None
            self._recent.move_to_end(compiled)
            while len(self._recent) > MAX_RECENT_KERNELS:
                self._recent.popitem(last=False)
        return compiled

    def _find(self, kernel: Any) -> C | None:
        """Return the compiled form of `kernel` in memory, or None."""
        entry = self._entries.get(kernel)
        return None if entry is None else entry()

    def _remove_dead(self) -> None:
        """Remove the entries whose compiled forms were deallocated since the last call."""
        with suppress(IndexError):  # another thread took the last item
            while self._dead_entries:
                dead = self._dead_entries.popleft()
                if self._entries.get(dead.kernel) is dead:  # the entry may have been replaced since
                    self._entries.pop(dead.kernel, None)

    def drop_recent(self) -> None:
        """Drop the references to the most recently requested kernels, so that kernels without other references are deallocated."""
        self._recent.clear()
