"""Calls of LLVM, which is loaded with this module: a description of this machine, object files for any target, and LLVM's linker.

LLVM is called in a worker thread, one call at a time, so that Ctrl-C interrupts the wait. In the main thread, an interrupt could also be
lost: llvmlite frees LLVM's objects in methods named `__del__`, and Python swallows errors raised there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import ref

from llvmlite import binding

from ..._utils.cache_registry import add_seconds
from ..._utils.exclude_user_code import exclude_user_code
from ..._utils.interruptible import run_abandonable
from ..._utils.locks import make_reentrant_lock
from ...target import CODEGEN_FEATURES, Target
from .code_image import LinkedCode

P = ParamSpec("P")
T = TypeVar("T")
_llvm_lock = make_reentrant_lock()


def _in_worker_thread(call: Callable[P, T]) -> Callable[P, T]:
    """Decorate `call`, a function that calls LLVM: a call from the main thread runs in a worker thread, where no signal handler runs.

    One decorated call runs at a time. LLVM cannot be stopped, so an interrupted caller does not wait for the end of the call.
    """

    @wraps(call)
    def call_in_worker(*args: P.args, **kwargs: P.kwargs) -> T:
        def call_locked() -> T:
            with exclude_user_code(), _llvm_lock:  # in a worker thread if the caller is the main thread
                return call(*args, **kwargs)

        return run_abandonable(call_locked, stop=int)

    return call_in_worker


@_in_worker_thread
def describe_host() -> tuple[str, str, str, str, str]:
    """Return LLVM's description of this machine, and LLVM's version, as five texts: the fields of `HostInfo`, in their order."""
    features = binding.get_host_cpu_features()
    named_features = " ".join(sorted(name for name in CODEGEN_FEATURES if features.get(name)))
    triple, cpu = binding.get_default_triple(), binding.get_host_cpu_name()
    return triple, cpu, features.flatten(), named_features, str(binding.llvm_version_info)


@_in_worker_thread
def create_target_machine(target: Target) -> Any:
    """Return LLVM's code generator for `target`, an LLVM object of the class TargetMachine.

    A target without a triple stands for the processor family and system of this machine.
    """
    processor = target.processor
    default_triple = binding.get_default_triple()
    if processor.triple in ("", default_triple):
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:  # takes some milliseconds
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    triple = processor.triple or default_triple
    # Code images run at any address, and no image is large
    models = {"reloc": "pic", "codemodel": "small"} if triple.startswith("x86_64") and "linux" in triple else {}
    return binding.Target.from_triple(triple).create_target_machine(cpu=processor.cpu, features=processor.attributes, opt=2, **models)


@add_seconds("llvm_seconds")
@_in_worker_thread
def compile_object(llvm_ir: str, machine: Any) -> bytes:
    """Compile `llvm_ir`, the text of an LLVM module, and return the content of the object file.

    `machine` is the code generator from `create_target_machine`.

    LLVM's strength reduction of loops is off: it would take half as long as the rest of the compilation, and gains nothing in these loops.
    It is turned on again for other users of LLVM in this process.
    """
    module = binding.parse_assembly(llvm_ir)
    binding.set_option("tenxor", "-disable-lsr=true")
    try:
        image: bytes = machine.emit_object(module)
    finally:
        binding.set_option("tenxor", "-disable-lsr=false")
    return image


@_in_worker_thread
def compile_assembly(llvm_ir: str, machine: Any) -> str:
    """Compile `llvm_ir`, the text of an LLVM module, and return the assembly as text.

    `machine` is the code generator from `create_target_machine`.
    """
    text: str = machine.emit_assembly(binding.parse_assembly(llvm_ir))
    return text


# LLVM keeps 4.5 kB of an unloaded library until the JIT behind it is deallocated, with the last of the JIT's libraries. A JIT takes 120 kB
# and a millisecond.
LIBRARIES_PER_JIT = 32


class _LoadedLibrary(ref[LinkedCode]):
    """A weak reference to code linked by LLVM. `library` is LLVM's object for the code; the code is unloaded when it is deallocated."""

    __slots__ = ("library",)

    library: Any


class LlvmLinker:
    """LLVM's own linker, for the object files that `elf_linker.py` cannot link. `machine` is from `create_target_machine`.

    Each call of `link` unloads the libraries that are no longer referenced. Linked code refers to the linker.
    """

    def __init__(self, machine: Any) -> None:
        self.machine, self.attempt_count = machine, 0
        self.jit: Any = None
        self.loaded_libraries = set[_LoadedLibrary]()
        self.unused_libraries: deque[_LoadedLibrary] = deque()

    @_in_worker_thread
    def link(self, image: bytes, symbols: tuple[str, ...]) -> LinkedCode | None:
        """Load the object file whose content is `image`, and return the functions `symbols`, ready to run.

        Return None if LLVM cannot link the file, such as a file for another machine.
        """
        while self.unused_libraries:
            self.loaded_libraries.discard(self.unused_libraries.popleft())
        builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        if self.attempt_count % LIBRARIES_PER_JIT == 0:
            self.jit = binding.create_lljit_compiler(self.machine)
        self.attempt_count += 1  # a name stays taken even when linking fails
        try:
            library = builder.link(self.jit, f"tenxor.{self.attempt_count}")
        except RuntimeError:
            return None
        linked = LinkedCode(self, {symbol: library[symbol] for symbol in symbols})
        loaded = _LoadedLibrary(linked, self.unused_libraries.append)
        loaded.library = library
        self.loaded_libraries.add(loaded)
        return linked
