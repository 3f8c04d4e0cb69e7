"""Kernels as callable machine code: in memory as long as something refers to it, and on disk under a hash of its pattern."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...kernel.fingerprint import fingerprint
from ...kernel.ir import Kernel
from ...locking import reentrant
from ...target import Target
from ..kernels import Kernels
from . import ENTRY, cache
from .found import found
from .linking import Linked, link

if TYPE_CHECKING:
    from .machine import Linker


Integer = ctypes.c_int64
Held = Callable[[bytes, Integer, Integer, Integer], None]
Block = bytes | ctypes.Array[ctypes.c_char]  # of arguments
Free = Callable[[Block, int, int, int], None]
Repeat = Callable[[bytes, int, int, int, int, int, int], None]

_held = ctypes.PYFUNCTYPE(None)
_free = ctypes.CFUNCTYPE(None, ctypes.c_char_p, Integer, Integer, Integer)
_repeat = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[Integer] * 6)


class MachineCode:
    """A kernel as machine code: `call` keeps Python's lock, for small work; `call_free` lets other threads run.

    Both take the arguments, the part of the shared loop to run, and the number of the thread. `call` takes integers of C: to
    convert Python's would take longer than the work.

    The code is unloaded when nothing refers to this any more, so whoever runs it holds it.
    """

    __slots__ = ("__weakref__", "_library", "address", "call", "call_free", "kernel", "listens", "moment", "origin")

    def __init__(self, kernel: Kernel, library: Linked, origin: str) -> None:
        self.kernel, self.address = kernel, library[ENTRY]
        self.call: Held = _held(self.address)
        self.call_free: Free = _free(self.address)
        self._library = library  # the code lives as long as this does
        self.origin, self.listens = origin, kernel.listens
        self.moment = 0  # the work that threads do in a moment, as far as is known: see `share`


class Compiler:
    """The code generator for a target, this machine if none is given; code is run here. `compiled` and `loaded` count the
    kernels made here and those found on disk, those that came back too.

    What emits code, and LLVM, are loaded with the first kernel that is not on disk.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or found().target()
        self.identity = found().identity(self.target)
        self.kernels = Kernels(self._make)
        self.compiled = self.loaded = 0
        self._sharing: Any = None
        self._repeating: Any = None
        self.lock = reentrant()

    @cached_property
    def machine(self) -> Any:
        """LLVM's code generator."""
        from .machine import machine_of

        return machine_of(self.target)

    @cached_property
    def _linker(self) -> Linker:
        from .machine import Linker

        return Linker(self.machine)

    def get(self, kernel: Kernel) -> MachineCode:
        """The kernel's machine code, from memory, from disk, or made now."""
        return self.kernels.get(kernel)

    def _make(self, kernel: Kernel) -> MachineCode:
        library, origin = self._library(kernel.name, fingerprint(kernel), lambda: self.llvm_ir(kernel), (ENTRY,))
        if origin == "disk":
            self.loaded += 1
        else:
            self.compiled += 1
        return MachineCode(kernel, library, origin)

    def sharing(self) -> Any:
        """The code by which threads share loops; None if the system lacks what it calls."""
        if self._sharing is None:
            from . import sharing

            with self.lock, suppress(RuntimeError):
                self._sharing, _ = self._library("sharing", "sharing", lambda: sharing.text(self.target), sharing.FUNCTIONS)
        return self._sharing

    def repeating(self) -> Repeat:
        """The code that runs kernels in turn, over and over (`repeating.py`). Python's lock is released meanwhile."""
        if self._repeating is None:
            from .repeating import ENTRY as entry
            from .repeating import text

            with self.lock:
                library, _ = self._library("repeating", "repeating", text, (entry,))
                self._repeating = library, _repeat(library[entry])  # the code lives as long as its library does
        found: Repeat = self._repeating[1]
        return found

    def _library(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[Linked, str]:
        """Linked machine code, and where it came from: found on disk under a hash of `text`, or made of LLVM IR."""
        key = cache.key_of(text, self.identity, found().emitter)
        image = cache.read(key) if key else None
        if image is not None:
            library = self._link(image, symbols)
            if library is not None:
                return library, "disk"
        image = self._image(llvm_ir())
        library = self._link(image, symbols)
        if library is None:
            raise RuntimeError(f"tenxor: the kernel {name} needs what this processor or process lacks")
        if key:
            cache.write(key, image)
        return library, "compiled"

    def _image(self, llvm_ir: str) -> bytes:
        """The object file of a module."""
        from .machine import image_of

        return image_of(llvm_ir, self.machine)

    def _link(self, image: bytes, symbols: tuple[str, ...]) -> Linked | None:
        """The functions of an object file, ready to run, or None if it is none of this machine."""
        return link(image, symbols) or self._linker.link(image, symbols)

    def llvm_ir(self, kernel: Kernel) -> str:
        """The kernel as LLVM IR."""
        from .emit import emit

        return emit(kernel, self.target)

    def assembly(self, kernel: Kernel) -> str:
        """The kernel as this machine's assembly."""
        from .machine import assembly_of

        return assembly_of(self.llvm_ir(kernel), self.machine)


_compiler: Compiler | None = None
_starting = reentrant()


def compiler() -> Compiler:
    """The one compiler of this process, started when it is first needed."""
    global _compiler
    if _compiler is None:
        with _starting:
            _compiler = _compiler or Compiler()
    return _compiler


def counts() -> tuple[int, int]:
    """How many kernels were compiled here and how many were found on disk; starts nothing."""
    return (_compiler.compiled, _compiler.loaded) if _compiler else (0, 0)
