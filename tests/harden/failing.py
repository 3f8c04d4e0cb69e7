"""What may fail, as calls that can be counted, and of which one can be made to fail."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenxor.codegen.llvm.compiler import Compiler
from tenxor.memory.block_pool import Pool


@dataclass
class Failing:
    """Calls to some functions; number `at` fails, or all from there on if it is `lasting`. `seen` counts them."""

    at: int
    lasting: bool = False
    seen: int = 0
    failed: int = 0
    put_back: list[tuple[Any, str, Any]] = field(default_factory=list)

    def fails(self) -> bool:
        """Whether this call is to fail."""
        self.seen += 1
        hit = self.seen >= self.at if self.lasting else self.seen == self.at
        self.failed += hit
        return hit

    def replace(self, owner: Any, name: str, instead: Callable[[Any], Any]) -> None:
        """Put another function in the place of one, which it is given."""
        real = getattr(owner, name)
        self.put_back.append((owner, name, real))
        setattr(owner, name, instead(real))


def memory(failing: Failing) -> None:
    """Blocks that the pool is asked for: there are none."""

    def instead(real: Any) -> Any:
        return lambda pool, borrower, capacity: not failing.fails() and real(pool, borrower, capacity)

    failing.replace(Pool, "assign_block", instead)


def mapping(failing: Failing) -> None:
    """Memory that the pool asks the system for: the first time; then the pool gives back what it has, and asks again."""

    def instead(real: Any) -> Any:
        return lambda pool, nbytes: None if failing.fails() else real(pool, nbytes)

    failing.replace(Pool, "make_block", instead)


def compiling(failing: Failing) -> None:
    """LLVM making an object file, which says that it has no memory."""

    def instead(real: Any) -> Any:
        def image(compiler: Compiler, text: str) -> bytes:
            if failing.fails():
                raise MemoryError("tenxor: LLVM had no memory")
            found: bytes = real(compiler, text)
            return found

        return image

    failing.replace(Compiler, "_compile_object", instead)


def linking(failing: Failing) -> None:
    """Code being loaded: the process may lack a C function, or the system forbids executable memory."""

    def instead(real: Any) -> Any:
        return lambda compiler, *given: None if failing.fails() else real(compiler, *given)

    failing.replace(Compiler, "_load", instead)


def threads(failing: Failing) -> None:
    """Threads being started: the system gives no more."""

    def instead(real: Any) -> Any:
        def start(thread: threading.Thread) -> None:
            if failing.fails():
                raise RuntimeError("can't start new thread")
            real(thread)

        return start

    failing.replace(threading.Thread, "start", instead)


CACHE = ("tenxor._utils.private_dirs", "tenxor.codegen.llvm.kernel_disk_cache")
CALLS = ("open", "fstat", "stat", "read", "write", "replace", "unlink", "mkdir", "scandir", "close", "utime", "fdopen", "lstat")


def cache(failing: Failing) -> None:
    """Calls of the system by the cache on disk."""

    def instead(real: Any) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            by = sys._getframe(1).f_globals.get("__name__", "")
            if by in CACHE and failing.fails():
                real is os.close and real(*given)  # it is closed all the same
                raise OSError(errno.ENOSPC, "no space left")
            return real(*given, **named)

        return called

    for name in CALLS:
        failing.replace(os, name, instead)


@contextmanager
def injected(failing: Failing, what: Callable[[Failing], None]) -> Iterator[None]:
    """While this lasts, some call fails."""
    what(failing)
    try:
        yield
    finally:
        for owner, name, real in reversed(failing.put_back):
            setattr(owner, name, real)
