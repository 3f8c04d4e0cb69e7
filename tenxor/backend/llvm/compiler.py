"""Kernels as callable machine code: in memory as long as something refers to it, and on disk under a hash of its pattern."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import llvmlite
from llvmlite import binding

from ...kernel.fingerprint import fingerprint
from ...kernel.ir import Kernel
from ...target import Target
from ...version import __version__
from ..kernels import Kernels
from . import cache, sharing
from .emit import ENTRY, emit
from .machine import host, image_of, machine_of

Integer = ctypes.c_int64
Held = Callable[[bytes, Integer, Integer, Integer], None]
Free = Callable[[bytes, int, int, int], None]

# Of a library that it unloaded LLVM keeps 4.5 kB until the JIT goes that linked it, which goes with the last of its libraries;
# and a JIT takes 120 kB and a millisecond.
LIBRARIES = 32  # of one JIT

_held = ctypes.PYFUNCTYPE(None)
_free = ctypes.CFUNCTYPE(None, ctypes.c_char_p, Integer, Integer, Integer)


class MachineCode:
    """A kernel as machine code: `call` keeps Python's lock, for small work; `call_free` lets other threads run.

    Both take the arguments, the part of the shared loop to run, and the number of the thread. `call` takes integers of C: to
    convert Python's would take longer than the work.

    The code is unloaded when nothing refers to this any more, so whoever runs it holds it.
    """

    __slots__ = ("__weakref__", "_library", "address", "call", "call_free", "kernel", "moment", "origin")

    def __init__(self, kernel: Kernel, library: Any, origin: str) -> None:
        self.kernel, self.address = kernel, library[ENTRY]
        self.call: Held = _held(self.address)
        self.call_free: Free = _free(self.address)
        self._library = library  # the code lives as long as this does
        self.origin = origin
        self.moment = 0  # the work that threads do in a moment, as far as is known: see `share`


class Compiler:
    """The code generator for a target, this machine if none is given; code is run here. `compiled` and `loaded` count the
    kernels made here and those found on disk, those that came back too.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target = target or host()
        self.machine = machine_of(target)
        self.jit = binding.create_lljit_compiler(self.machine)
        self.identity = "\n".join(
            (target.identity, str(binding.llvm_version_info), llvmlite.__version__, __version__)
        )
        self.kernels = Kernels(self._make)
        self.compiled = self.loaded = 0
        self._sharing: Any = None
        self.attempts = itertools.count()
        self.lock = threading.RLock()

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
            with self.lock, suppress(RuntimeError):
                self._sharing, _ = self._library("sharing", "sharing", lambda: sharing.text(self.target), sharing.FUNCTIONS)
        return self._sharing

    def _library(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[Any, str]:
        """Linked machine code, and where it came from: found on disk under a hash of `text`, or made of LLVM IR."""
        key = cache.key_of(text, self.identity)
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
        with self.lock:
            return image_of(llvm_ir, self.machine)

    def _link(self, image: bytes, symbols: tuple[str, ...]) -> Any:
        """The linked library, or None if the image is no object file of this machine."""
        builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        with self.lock:
            attempt = next(self.attempts)
            if attempt and attempt % LIBRARIES == 0:
                self.jit = binding.create_lljit_compiler(self.machine)
            try:
                return builder.link(self.jit, f"tenxor.{attempt}")  # a name stays taken even when linking fails
            except RuntimeError:
                return None

    def llvm_ir(self, kernel: Kernel) -> str:
        """The kernel as LLVM IR."""
        return emit(kernel, self.target)

    def assembly(self, kernel: Kernel) -> str:
        """The kernel as this machine's assembly."""
        text: str = self.machine.emit_assembly(binding.parse_assembly(self.llvm_ir(kernel)))
        return text


_compiler: Compiler | None = None
_starting = threading.Lock()


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
