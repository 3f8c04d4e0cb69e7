"""Kernels as callable machine code: in memory as long as the code is referenced, and on disk under a hash of the kernel's pattern."""

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
HoldingCall = Callable[[bytes, Integer, Integer, Integer], None]
Block = bytes | ctypes.Array[ctypes.c_char]  # the packed arguments of a launch
FreeCall = Callable[[Block, int, int, int], None]
RepeatCall = Callable[[bytes, int, int, int, int, int, int], None]

MAX_DECLINES = 4  # requests, each for new sizes, after which a kernel is compiled even in a hurry
fingerprint = Late("tenxor.kernel.fingerprint").fingerprint

_holding_prototype = ctypes.PYFUNCTYPE(None)
_free_prototype = ctypes.CFUNCTYPE(None, ctypes.c_char_p, Integer, Integer, Integer)
_repeat_prototype = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[Integer] * 6)


class MachineCode:
    """A kernel as machine code: `call` holds the GIL, for small work, and `call_free` releases the GIL, so that other threads run.

    Both take the packed arguments, the begin and the end of the shared loop, and the number of the thread. `call` takes C integers: to
    convert Python integers would take longer than the work. The code is unloaded when this object is deallocated, so a caller must hold a
    reference while the code runs.
    """

    __slots__ = ("__weakref__", "address", "call", "call_free", "facts", "kernel", "library", "moment", "origin")

    def __init__(self, kernel: Kernel | Facts, facts: Facts, library: Linked, origin: str) -> None:
        self.kernel, self.facts, self.address = kernel, facts, library[ENTRY]
        self.call: HoldingCall = _holding_prototype(self.address)
        self.call_free: FreeCall = _free_prototype(self.address)
        self.library = library  # keeps the code in memory
        self.origin = origin
        self.moment = 0  # the work of a slice, as measured last: see `helpers.share`; 0 before the first slice


class Compiler:
    """The code generator for a target, by default this machine, where the code then runs.

    `compiled` counts the kernels compiled here, and `loaded` those found in the package or on disk; a kernel that returns counts again. The
    emitter and LLVM are loaded with the first kernel to compile. If the package contains code for this machine, `target` comes from the
    package. Then LLVM is asked for the name of the processor (`whole`) only when a kernel has to be compiled.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.shipped = shipped.here() if target is None else None
        if target is None:
            shipped.check_setting(self.shipped)
            cache.check_setting()
        self.target = target or (self.shipped.target if self.shipped else found().target())
        self.kernels = Kernels(self._make)
        self.compiled = self.loaded = 0
        self.hurries = False  # whether to decline to compile, where shipped code may serve instead
        self._decline_counts = Counter[str]()
        # By the hash of its text: a kernel and its facts are two keys for the same code.
        self._code_by_hash: dict[str, ref[MachineCode]] = {}
        self._sharing: Any = None
        self._repeating: Any = None

    @property
    def whole(self) -> Target:
        """The target, with LLVM's name for the processor."""
        return self.target._replace(processor=found().processor) if self.target.processor.cpu == NATIVE else self.target

    @late_attribute
    def identity(self) -> str:
        """A text of everything that code depends on, beside the kernel and the emitter."""
        return found().identity(self.whole)

    @late_attribute
    def machine(self) -> Any:
        """LLVM's code generator for the target."""
        from .machine import machine_of

        return machine_of(self.whole)

    @late_attribute
    def _linker(self) -> Linker:
        from .machine import Linker

        return Linker(self.machine)

    def get(self, kernel: Kernel | Facts) -> MachineCode:
        """Return the machine code of a kernel: from memory, from the package, from disk, or compiled now.

        The code for `Facts` is never compiled: raise NotAtHand if it is not found. Raise NotAtHand, too, for a kernel declined in a hurry.
        """
        return self.kernels.get(kernel)

    def _facts(self, kernel: Kernel, text: str) -> Facts:
        """Return the properties of a kernel for its launches, and the hash of its fingerprint `text`."""
        product = kernel.product
        twins = None if product is None else Twins(product.twins)
        min_grain = kernel.grain(self.target.sharing) if kernel.split >= 0 else 0
        fields = kernel.name, kernel.itemsizes, kernel.scalars, kernel.flagged, kernel.listens, kernel.split, kernel.shared
        return Facts(cache.hash_of(text), *fields, twins, min_grain)

    def _make(self, kernel: Kernel | Facts) -> MachineCode:
        """Return the machine code of a kernel that is not in memory under this key."""
        if isinstance(kernel, Facts):
            text, facts = "", kernel
        else:
            text = fingerprint(kernel)
            facts = self._facts(kernel, text)
        code_ref = self._code_by_hash.get(facts.text_hash)
        existing = None if code_ref is None else code_ref()
        if existing is not None:
            return MachineCode(kernel, facts, existing.library, existing.origin)
        library, origin = self._get_library(kernel, text)
        if origin == "compiled":
            self.compiled += 1
        else:
            self.loaded += 1
        code = MachineCode(kernel, facts, library, origin)
        if len(self._code_by_hash) > 2 * len(self.kernels) + RECENT:
            self._code_by_hash = {text_hash: code_ref for text_hash, code_ref in self._code_by_hash.items() if code_ref() is not None}
        self._code_by_hash[facts.text_hash] = ref(code)
        return code

    def _get_library(self, kernel: Kernel | Facts, text: str) -> tuple[Linked, str]:
        """Return the linked code of a kernel with the fingerprint `text`, and where the code comes from. Facts have no `text`."""
        if not isinstance(kernel, Facts):
            return self._library(kernel.name, text, lambda: self.llvm_ir(kernel), (ENTRY,))
        stored = self._find_stored(kernel.text_hash, (ENTRY,))
        if stored is None:
            raise NotAtHand(kernel.name)
        return stored

    def sharing(self) -> Any:
        """Return the functions that share loops between threads (`sharing.py`); None on a system without the necessary semaphores."""
        if self._sharing is None:
            from . import sharing

            with suppress(RuntimeError):
                self._sharing, _ = self._library("sharing", "sharing", lambda: sharing.text(self.whole), sharing.FUNCTIONS)
        return self._sharing

    def repeating(self) -> RepeatCall:
        """Return the function that runs kernels in turn, repeatedly, with the GIL released (`repeating.py`)."""
        if self._repeating is None:
            from .repeating import ENTRY as entry
            from .repeating import text

            library, _ = self._library("repeating", "repeating", text, (entry,))
            self._repeating = library, _repeat_prototype(library[entry])  # the code lives as long as its library does
        function: RepeatCall = self._repeating[1]
        return function

    def _library(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[Linked, str]:
        """Return linked machine code and where it comes from.

        The code is found under a hash of `text`, or compiled from `llvm_ir()` and stored on disk. Raise NotAtHand if compiling is declined
        in a hurry, and RuntimeError if the compiled code cannot be linked here.
        """
        text_hash = cache.hash_of(text)
        may_compile = not (self.hurries and self.shipped and self._decline_counts[text_hash] < MAX_DECLINES)
        stored = self._find_stored(text_hash, symbols, ask_llvm=may_compile)
        if stored is not None:
            return stored
        if not may_compile:
            self._decline_counts[text_hash] += 1
            raise NotAtHand(name)
        image = self._image(llvm_ir())
        library = self._link(image, symbols)
        if library is None:
            raise RuntimeError(f"tenxor: the kernel {name} needs what this processor or process lacks")
        key = self._key(text_hash)
        if key:
            cache.write(key, image)
        return library, "compiled"

    def _find_stored(self, text_hash: str, symbols: tuple[str, ...], *, ask_llvm: bool = False) -> tuple[Linked, str] | None:
        """Return the code stored under a hash, and its origin, "shipped" or "disk"; None if no code is stored.

        The disk can only have code for this machine if LLVM was asked about this machine before. If not, LLVM is asked now only for a
        caller that is going to compile anyway (`ask_llvm`).
        """
        image = self.shipped.read(text_hash) if self.shipped else None
        library = None if image is None else link(image, symbols)
        if library is not None:
            return library, "shipped"
        key = self._key(text_hash) if ask_llvm or is_known() else None
        image = cache.read(key) if key else None
        library = None if image is None else self._link(image, symbols)
        return None if library is None else (library, "disk")

    def _key(self, text_hash: str) -> str | None:
        """Return the file name of code in the disk cache; None if the sources of the emitter cannot be read now."""
        emitter_hash = emitter()
        return cache.key_by(text_hash, self.identity, emitter_hash) if emitter_hash else None

    def plan_key(self, text: str, target: Target) -> str | None:
        """Return the file name in the disk cache for data about a plan for a target, by a text; None if our sources cannot be read now."""
        planner_hashes = planner()
        machine = f"{sys.version}\n{__version__}\n{target.identity}\n{target.threads}"
        return cache.key_by(cache.hash_of(text), machine, planner_hashes) if planner_hashes else None

    def _image(self, llvm_ir: str) -> bytes:
        """Return the object file of an LLVM module."""
        from .machine import image_of

        return image_of(llvm_ir, self.machine)

    def _link(self, image: bytes, symbols: tuple[str, ...]) -> Linked | None:
        """Return the functions of an object file, ready to run; None if the file is not one for this machine."""
        return link(image, symbols) or self._linker.link(image, symbols)

    def llvm_ir(self, kernel: Kernel) -> str:
        """Return the kernel as LLVM IR."""
        from .emit import emit

        return emit(kernel, self.whole)

    def assembly(self, kernel: Kernel) -> str:
        """Return the kernel as this machine's assembly."""
        from .machine import assembly_of

        return assembly_of(self.llvm_ir(kernel), self.machine)


_compiler: Compiler | None = None


def compiler() -> Compiler:
    """Return the compiler of this process, and make it at the first call.

    Threads that ask at the same time may each make a compiler; all get the first one stored. No lock is held, since a new compiler asks
    LLVM, and a signal handler may compute meanwhile.
    """
    global _compiler
    if _compiler is None:
        new_compiler = Compiler()
        # Another thread may have been faster. No thread switch happens between this test and the assignment.
        if _compiler is None:
            _compiler = new_compiler
    return _compiler


def counts() -> tuple[int, int]:
    """Return how many kernels were compiled and how many were found in the package or on disk, as far as a compiler exists; start none."""
    return (_compiler.compiled, _compiler.loaded) if _compiler else (0, 0)
