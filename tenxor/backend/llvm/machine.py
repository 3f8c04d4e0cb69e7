"""LLVM itself, which is loaded with this: what it says of the present machine, object files for any target, and their linking.

LLVM is called in a thread of its own, one call at a time, so that Ctrl-C is heard while it works. It could be lost, too: what
belongs to LLVM is given back to it by methods named `__del__`, and what a signal raises there Python swallows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import ref

from llvmlite import binding

from ...apart import droppable
from ...locking import reentrant
from ...target import ASKED_FOR, Target
from ...undisturbed import undisturbed
from .linking import Linked

P = ParamSpec("P")
T = TypeVar("T")
_calls = reentrant()


def _apart(call: Callable[P, T]) -> Callable[P, T]:
    """The same, in a thread in which no signal is heard. Nothing stops LLVM, so nobody waits for what was broken off."""

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        def alone() -> T:
            with undisturbed(), _calls:  # in a thread of its own, unless this is not the main thread
                return call(*args, **kwargs)

        return droppable(alone, stop=int)

    return called


@_apart
def asked() -> tuple[str, str, str, str, str]:
    """The present machine in LLVM's words, and LLVM's version, as `Found` has them."""
    features = binding.get_host_cpu_features()
    those = " ".join(sorted(name for name in ASKED_FOR if features.get(name)))
    triple, cpu = binding.get_default_triple(), binding.get_host_cpu_name()
    return triple, cpu, features.flatten(), those, str(binding.llvm_version_info)


@_apart
def machine_of(target: Target) -> Any:
    """LLVM's code generator for a target; a target without a processor is one of any of the family of this machine."""
    told = target.processor
    own = binding.get_default_triple()
    if told.triple in ("", own):
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:  # which takes some milliseconds
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    family = binding.Target.from_triple(told.triple or own)
    return family.create_target_machine(cpu=told.cpu, features=told.attributes, opt=2)


@_apart
def image_of(llvm_ir: str, machine: Any) -> bytes:
    """The object file of a module.

    LLVM's strength reduction would take as long as half of all the rest, and finds nothing to gain in these loops. It
    is turned on again for whoever else uses LLVM in this process.
    """
    module = binding.parse_assembly(llvm_ir)
    binding.set_option("tenxor", "-disable-lsr=true")
    try:
        image: bytes = machine.emit_object(module)
    finally:
        binding.set_option("tenxor", "-disable-lsr=false")
    return image


@_apart
def assembly_of(llvm_ir: str, machine: Any) -> str:
    """The assembly of a module."""
    text: str = machine.emit_assembly(binding.parse_assembly(llvm_ir))
    return text


# Of a library that it unloaded LLVM keeps 4.5 kB until the JIT goes that linked it, which goes with the last of its libraries;
# and a JIT takes 120 kB and a millisecond.
LIBRARIES = 32  # of one JIT


class _Loaded(ref[Linked]):
    """What LLVM linked, with LLVM's library."""

    __slots__ = ("library",)

    library: Any


class Linker:
    """LLVM's own way to make object files ready to run, for those that `linking` leaves to it. What is not in use any more is unloaded
    with the next; all that is in use has this, too.
    """

    def __init__(self, machine: Any) -> None:
        self.machine, self.attempts = machine, 0
        self.jit: Any = None
        self.loaded = set[_Loaded]()
        self.unused: deque[_Loaded] = deque()

    @_apart
    def link(self, image: bytes, symbols: tuple[str, ...]) -> Linked | None:
        """The functions of these names, ready to run, or None if the image is no object file of this machine."""
        while self.unused:
            self.loaded.discard(self.unused.popleft())
        builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        if self.attempts % LIBRARIES == 0:
            self.jit = binding.create_lljit_compiler(self.machine)
        self.attempts += 1  # a name stays taken even when linking fails
        try:
            library = builder.link(self.jit, f"tenxor.{self.attempts}")
        except RuntimeError:
            return None
        found = Linked(self, {symbol: library[symbol] for symbol in symbols})
        loaded = _Loaded(found, self.unused.append)
        loaded.library = library
        self.loaded.add(loaded)
        return found
