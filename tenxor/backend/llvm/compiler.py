"""Kernels as callable machine code: in memory as long as something refers to it, and on disk under a hash of its pattern."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...errors import NotAtHand
from ...late import Late, late_attribute
from ...target import NATIVE, Target
from ...version import __version__
from ..interface import Facts, Twins
from ..kernels import RECENT, Kernels
from . import ENTRY, cache, shipped
from .found import emitter, found, is_known, planner
from .linking import Linked, link

if TYPE_CHECKING:
    from ...kernel.ir import Kernel
    from .machine import Linker


Integer = ctypes.c_int64
Held = Callable[[bytes, Integer, Integer, Integer], None]
Block = bytes | ctypes.Array[ctypes.c_char]  # of arguments
Free = Callable[[Block, int, int, int], None]
Repeat = Callable[[bytes, int, int, int, int, int, int], None]

PATIENCE = 4  # sizes for which a kernel is put off
fingerprint = Late("tenxor.kernel.fingerprint").fingerprint

_held = ctypes.PYFUNCTYPE(None)
_free = ctypes.CFUNCTYPE(None, ctypes.c_char_p, Integer, Integer, Integer)
_repeat = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[Integer] * 6)


class MachineCode:
    """A kernel as machine code: `call` keeps Python's lock, for small work; `call_free` lets other threads run.

    Both take the arguments, the part of the shared loop to run, and the number of the thread. `call` takes integers of C: to
    convert Python's would take longer than the work.

    The code is unloaded when nothing refers to this any more, so whoever runs it holds it.
    """

    __slots__ = ("__weakref__", "address", "call", "call_free", "facts", "kernel", "library", "moment", "origin")

    def __init__(self, kernel: Kernel | Facts, facts: Facts, library: Linked, origin: str) -> None:
        self.kernel, self.facts, self.address = kernel, facts, library[ENTRY]
        self.call: Held = _held(self.address)
        self.call_free: Free = _free(self.address)
        self.library = library  # the code lives as long as this does
        self.origin = origin
        self.moment = 0  # the work that threads do in a moment, as far as is known: see `share`


class Compiler:
    """The code generator for a target, this machine if none is given; code is run here. `compiled` and `loaded` count the
    kernels made here and those found, shipped or on disk, those that came back too.

    What emits code, and LLVM, are loaded with the first kernel that is not found. Where code is shipped for this machine, `target` is
    what that says of itself, and LLVM is asked what to call it (`whole`) when something is to be compiled.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.shipped = shipped.here() if target is None else None
        if target is None:
            shipped.check_setting(self.shipped)
            cache.check_setting()
        self.target = target or (self.shipped.target if self.shipped else found().target())
        self.kernels = Kernels(self._make)
        self.compiled = self.loaded = 0
        self.hurries = False  # whether nothing is compiled, where something is shipped that may be used instead
        self._put_off = Counter[str]()
        self._known: dict[str, ref[MachineCode]] = {}  # by the hashes of their texts: a kernel and its facts are two, and have one code
        self._sharing: Any = None
        self._repeating: Any = None

    @property
    def whole(self) -> Target:
        """The target, with what LLVM calls it."""
        return self.target._replace(processor=found().processor) if self.target.processor.cpu == NATIVE else self.target

    @late_attribute
    def identity(self) -> str:
        """What code depends on, beside the kernel and the emitter."""
        return found().identity(self.whole)

    @late_attribute
    def machine(self) -> Any:
        """LLVM's code generator."""
        from .machine import machine_of

        return machine_of(self.whole)

    @late_attribute
    def _linker(self) -> Linker:
        from .machine import Linker

        return Linker(self.machine)

    def get(self, kernel: Kernel | Facts) -> MachineCode:
        """The kernel's machine code, from memory, found, or made now. Of what is known by its facts it has to be found: NotAtHand."""
        return self.kernels.get(kernel)

    def _facts(self, kernel: Kernel, text: str) -> Facts:
        """What is asked of a kernel when it runs, and what its code is found again by."""
        product = kernel.product
        twins = None if product is None else Twins(product.twins)
        least = kernel.grain(self.target.sharing) if kernel.split >= 0 else 0
        order = kernel.name, kernel.itemsizes, kernel.scalars, kernel.flagged, kernel.listens, kernel.split, kernel.shared
        return Facts(cache.hash_of(text), *order, twins, least)

    def _make(self, kernel: Kernel | Facts) -> MachineCode:
        if isinstance(kernel, Facts):
            text, facts = "", kernel
        else:
            text = fingerprint(kernel)
            facts = self._facts(kernel, text)
        known = self._known.get(facts.text_hash)
        same = None if known is None else known()
        if same is not None:
            return MachineCode(kernel, facts, same.library, same.origin)
        library, origin = self._code(kernel, text)
        if origin == "compiled":
            self.compiled += 1
        else:
            self.loaded += 1
        made = MachineCode(kernel, facts, library, origin)
        if len(self._known) > 2 * len(self.kernels) + RECENT:
            self._known = {text_hash: each for text_hash, each in self._known.items() if each() is not None}
        self._known[facts.text_hash] = ref(made)
        return made

    def _code(self, kernel: Kernel | Facts, text: str) -> tuple[Linked, str]:
        """The linked code of a kernel with some text, and where it came from."""
        if not isinstance(kernel, Facts):
            return self._library(kernel.name, text, lambda: self.llvm_ir(kernel), (ENTRY,))
        found = self._found(kernel.text_hash, (ENTRY,))
        if found is None:
            raise NotAtHand(kernel.name)
        return found

    def sharing(self) -> Any:
        """The code by which threads share loops; None if the system lacks what it calls."""
        if self._sharing is None:
            from . import sharing

            with suppress(RuntimeError):
                self._sharing, _ = self._library("sharing", "sharing", lambda: sharing.text(self.whole), sharing.FUNCTIONS)
        return self._sharing

    def repeating(self) -> Repeat:
        """The code that runs kernels in turn, over and over (`repeating.py`). Python's lock is released meanwhile."""
        if self._repeating is None:
            from .repeating import ENTRY as entry
            from .repeating import text

            library, _ = self._library("repeating", "repeating", text, (entry,))
            self._repeating = library, _repeat(library[entry])  # the code lives as long as its library does
        found: Repeat = self._repeating[1]
        return found

    def _library(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[Linked, str]:
        """Linked machine code, and where it came from: found under a hash of `text`, or made of LLVM IR."""
        text_hash = cache.hash_of(text)
        waits = not (self.hurries and self.shipped and self._put_off[text_hash] < PATIENCE)
        found = self._found(text_hash, symbols, ask=waits)
        if found is not None:
            return found
        if not waits:
            self._put_off[text_hash] += 1
            raise NotAtHand(name)
        image = self._image(llvm_ir())
        library = self._link(image, symbols)
        if library is None:
            raise RuntimeError(f"tenxor: the kernel {name} needs what this processor or process lacks")
        key = self._key(text_hash)
        if key:
            cache.write(key, image)
        return library, "compiled"

    def _found(self, text_hash: str, symbols: tuple[str, ...], *, ask: bool = False) -> tuple[Linked, str] | None:
        """What is there under a hash, shipped or on disk. If LLVM was never asked about this machine, nothing is there that was
        compiled for it, and it is asked only if somebody is going to have that done.
        """
        image = self.shipped.read(text_hash) if self.shipped else None
        library = None if image is None else link(image, symbols)
        if library is not None:
            return library, "shipped"
        key = self._key(text_hash) if ask or is_known() else None
        image = cache.read(key) if key else None
        library = None if image is None else self._link(image, symbols)
        return None if library is None else (library, "disk")

    def _key(self, text_hash: str) -> str | None:
        """The name of what is kept on disk."""
        text = emitter()
        return cache.key_by(text_hash, self.identity, text) if text else None

    def plan_key(self, text: str, target: Target) -> str | None:
        """The name of what is kept on disk for whoever plans for a target."""
        planned = planner()
        machine = f"{sys.version}\n{__version__}\n{target.identity}\n{target.threads}"
        return cache.key_by(cache.hash_of(text), machine, planned) if planned else None

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

        return emit(kernel, self.whole)

    def assembly(self, kernel: Kernel) -> str:
        """The kernel as this machine's assembly."""
        from .machine import assembly_of

        return assembly_of(self.llvm_ir(kernel), self.machine)


_compiler: Compiler | None = None


def compiler() -> Compiler:
    """Return the compiler of this process, which is made when it is first needed.

    Threads that ask at the same time may each make one; all get the one that was stored first. No lock is held, as what is made here asks
    LLVM, and a signal handler may compute meanwhile.
    """
    global _compiler
    if _compiler is None:
        made = Compiler()
        if _compiler is None:  # still: no other thread's turn comes between this and the next line
            _compiler = made
    return _compiler


def counts() -> tuple[int, int]:
    """How many kernels were compiled here and how many were found on disk; starts nothing."""
    return (_compiler.compiled, _compiler.loaded) if _compiler else (0, 0)
