"""The compiler, which returns kernels as machine code to call (`MachineCode`): found in memory, in the package or on disk, or compiled now.

The code of a kernel is stored under a hash of the kernel's fingerprint, a text that is equal only for equal kernels.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..._utils.lazy import LazyFunctions, LazyModule, lazy_attribute
from ...errors import NotCompiled
from ...target import NATIVE_CPU, Target
from ...version import __version__
from ..interface import ContractionFacts, KernelFacts
from ..kernel_cache import MAX_RECENT_KERNELS, KernelCache
from . import KERNEL_SYMBOL, kernel_disk_cache, shipped_code
from .code_image import IMAGE_MAGIC, LinkedCode, load_image
from .host_info import get_emitter_hash, get_host_info, get_planner_hashes, has_host_info

if TYPE_CHECKING:
    from ...lowering.ir import Kernel
    from .llvmlite_binding import LlvmLinker


Integer = ctypes.c_int64
CallWithGil = Callable[[bytes, Integer, Integer, Integer], None]
ArgumentBlock = bytes | ctypes.Array[ctypes.c_char]  # the packed arguments of a launch
CallWithoutGil = Callable[[ArgumentBlock, int, int, int], None]
LaunchLoopCall = Callable[[bytes, int, int, int, int, int, int], None]

fingerprint = LazyFunctions("tenxor.lowering.fingerprint").fingerprint
strided_rows = LazyModule("tenxor.codegen.llvm.strided_rows")  # imported for operands with several axes

_prototype_with_gil = ctypes.PYFUNCTYPE(None)
_prototype_without_gil = ctypes.CFUNCTYPE(None, ctypes.c_char_p, Integer, Integer, Integer)
_launch_loop_prototype = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[Integer] * 6)


class MachineCode:
    """A kernel as machine code: `call_with_gil` holds the GIL, for small work, and `call_without_gil` releases the GIL, so that other
    threads run.

    Both take the packed arguments, the begin and the end of the split loop, and the number of the thread. `call_with_gil` takes C
    integers: to convert Python integers would take longer than the work. The code is unloaded when this object is deallocated, so a
    caller must hold a reference while the code runs.

    `kernel` is the kernel, or `facts` again if the code was found by them. `library` has the linked code, and `origin` is "compiled",
    "shipped" or "disk". `slice_work` is the work of a slice in additions, as `worker_pool.parallel_for` has measured it.
    """

    __slots__ = ("__weakref__", "address", "call_with_gil", "call_without_gil", "facts", "kernel", "library", "slice_work", "origin")

    def __init__(self, kernel: Kernel | KernelFacts, facts: KernelFacts, library: LinkedCode, origin: str) -> None:
        self.kernel, self.facts, self.address = kernel, facts, library[KERNEL_SYMBOL]
        self.call_with_gil: CallWithGil = _prototype_with_gil(self.address)
        self.call_without_gil: CallWithoutGil = _prototype_without_gil(self.address)
        self.library = library  # keeps the code in memory
        self.origin = origin
        self.slice_work = 0  # the work of a slice, as measured last: see `worker_pool.parallel_for`; 0 before the first slice


class Compiler:
    """The compiler for a target, by default this machine, where the code then runs. The compiler finds or makes the code of each kernel.

    `kernels` caches the code in memory. `shipped_objects` is the code in the package for this machine, or None. `compiled_count` counts the
    kernels compiled here, and `loaded_count` those found in the package or on disk; a kernel that returns counts again. The emitter and
    LLVM are loaded with the first kernel to compile. If the package contains code for this machine, `target` comes from the package. Then
    LLVM is asked for the name of the processor (`full_target`) only when a kernel has to be compiled.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.shipped_objects = shipped_code.find_shipped() if target is None else None
        if target is None:
            shipped_code.check_setting(self.shipped_objects)
            kernel_disk_cache.check_setting()
        self.target = target or (self.shipped_objects.target if self.shipped_objects else get_host_info().make_target())
        self.kernels = KernelCache(self._make_code)
        self.compiled_count = self.loaded_count = 0
        # By the hash of its text: a kernel and its facts are two keys for the same code.
        self._code_by_hash: dict[str, ref[MachineCode]] = {}
        self._row_loops: dict[tuple[int, int, bool], LinkedCode] = {}  # by the arguments of `load_row_loop`
        self._parallel_for_code: Any = None
        self._launch_loop: Any = None

    @property
    def full_target(self) -> Target:
        """The target, with LLVM's description of this processor in place of `NATIVE_CPU`; the first access may ask LLVM.

        A target that names a processor is returned unchanged.
        """
        return self.target._replace(processor=get_host_info().processor) if self.target.processor.cpu == NATIVE_CPU else self.target

    @lazy_attribute
    def identity(self) -> str:
        """A text with the target, and the versions of LLVM, llvmlite and this package.

        Machine code depends on these, on the kernel, and on the sources of the emitter. The text is a part of the key in the disk cache.
        """
        return get_host_info().make_identity(self.full_target)

    @lazy_attribute
    def target_machine(self) -> Any:
        """LLVM's code generator for the target, an LLVM object of the class TargetMachine; made at the first access, which loads LLVM."""
        from .llvmlite_binding import create_target_machine

        return create_target_machine(self.full_target)

    @lazy_attribute
    def _linker(self) -> LlvmLinker:
        """LLVM's own linker, for object files that `elf_linker.py` cannot link; made at the first access."""
        from .llvmlite_binding import LlvmLinker

        return LlvmLinker(self.target_machine)

    def get(self, kernel: Kernel | KernelFacts) -> MachineCode:
        """Return the machine code of a kernel: from memory, from the package, from disk, or compiled now.

        With `KernelFacts` instead of a kernel, the code is found by the hash in the facts. Missing code is not compiled: raise NotCompiled
        if the code is not found. Equal arguments give the same object.
        """
        return self.kernels.get(kernel)

    def _make_facts(self, kernel: Kernel, text: str) -> KernelFacts:
        """Return the facts for launches of `kernel`, with the hash of `text`, the fingerprint of the kernel."""
        product = kernel.contraction
        contraction_facts = None if product is None else ContractionFacts(product.symmetric_pairs)
        min_grain = kernel.choose_grain(self.target.thread_limits) if kernel.split_axis >= 0 else 0
        fields = (
            kernel.name,
            kernel.itemsizes,
            kernel.scalar_dtypes,
            kernel.can_fail,
            kernel.is_interruptible,
            kernel.split_axis,
            kernel.shared_axis,
        )
        return KernelFacts(kernel_disk_cache.hash_text(text), *fields, contraction_facts, min_grain)

    def _make_code(self, kernel: Kernel | KernelFacts) -> MachineCode:
        """Return new `MachineCode` for `kernel`, which `self.kernels` lacks. The cache `self.kernels` calls this method.

        A kernel and its facts are two keys: both share code in memory. Raise NotCompiled for
        `KernelFacts` whose code is not found.
        """
        if isinstance(kernel, KernelFacts):
            text, facts = "", kernel
        else:
            text = fingerprint(kernel)
            facts = self._make_facts(kernel, text)
        code_ref = self._code_by_hash.get(facts.text_hash)
        existing = None if code_ref is None else code_ref()
        if existing is not None:
            return MachineCode(kernel, facts, existing.library, existing.origin)
        library, origin = self._load_kernel(kernel, text)
        if origin == "compiled":
            self.compiled_count += 1
        else:
            self.loaded_count += 1
        code = MachineCode(kernel, facts, library, origin)
        if len(self._code_by_hash) > 2 * len(self.kernels) + MAX_RECENT_KERNELS:
            self._code_by_hash = {text_hash: code_ref for text_hash, code_ref in self._code_by_hash.items() if code_ref() is not None}
        self._code_by_hash[facts.text_hash] = ref(code)
        return code

    def _load_kernel(self, kernel: Kernel | KernelFacts, text: str) -> tuple[LinkedCode, str]:
        """Return the linked code of a kernel with the fingerprint `text`, and its origin: "shipped", "disk" or "compiled".

        For `KernelFacts`, `text` is not used; raise NotCompiled if their code is not found.
        """
        if not isinstance(kernel, KernelFacts):
            return self._load_or_compile(kernel.name, text, lambda: self.emit_llvm_ir(kernel), (KERNEL_SYMBOL,))
        stored = self._find_stored(kernel.text_hash, (KERNEL_SYMBOL,))
        if stored is None:
            raise NotCompiled(kernel.name)
        return stored

    def load_parallel_for(self) -> Any:
        """Return the code to share loops between threads, as a `LinkedCode` with the functions `parallel_for.FUNCTION_NAMES`.

        The first call loads the code. Return None if the code cannot be linked in this process: the system lacks the semaphores that it
        calls.
        """
        if self._parallel_for_code is None:
            from . import parallel_for

            with suppress(RuntimeError):
                self._parallel_for_code, _ = self._load_or_compile(
                    "sharing", "sharing", lambda: parallel_for.build_parallel_for_ir(self.full_target), parallel_for.FUNCTION_NAMES
                )
        return self._parallel_for_code

    def load_launch_loop(self) -> LaunchLoopCall:
        """Return the function that runs kernels in turn, repeatedly, with the GIL released; the first call loads its code.

        `launch_loop.build_launch_loop_ir` describes the arguments.
        """
        if self._launch_loop is None:
            from .launch_loop import LAUNCH_LOOP_SYMBOL as entry
            from .launch_loop import build_launch_loop_ir

            library, _ = self._load_or_compile("repeating", "repeating", build_launch_loop_ir, (entry,))
            self._launch_loop = library, _launch_loop_prototype(library[entry])  # the code lives as long as its library does
        function: LaunchLoopCall = self._launch_loop[1]
        return function

    def load_row_loop(self, pointers: int, scalars: int, *, has_scratch: bool = False) -> LinkedCode:
        """Return code to run a kernel on each row of arrays with several axes, with the function `STRIDED_ROWS_SYMBOL`.

        The kernel has `pointers` operands, `scalars` scalar parameters, and with `has_scratch` scratch memory. The first
        call for these numbers loads the code. `strided_rows.py` describes the arguments of the function.
        """
        rows = self._row_loops.get((pointers, scalars, has_scratch))
        if rows is None:
            name = f"strided rows of {pointers} operands and {scalars} numbers{' with scratch memory' * has_scratch}"
            symbols = (strided_rows.STRIDED_ROWS_SYMBOL,)
            build_ir = lambda: strided_rows.build_strided_rows_ir(pointers, scalars, has_scratch=has_scratch)
            rows, _ = self._load_or_compile(name, name, build_ir, symbols)
            self._row_loops[pointers, scalars, has_scratch] = rows
        return rows

    def run_on_rows(self, kernel: MachineCode, *, has_scratch: bool, is_ordered: bool) -> MachineCode:
        """Return new code that runs `kernel` on each row or matrix of operands with several axes (`strided_rows.py`).

        `kernel` is a kernel for vectors or matrices; with `has_scratch`, it has scratch memory. Each launch must pass the address of
        `kernel` as the first size argument of the new code. With `is_ordered`, a single thread runs the rows in order. The facts of the new
        code have no hash, so the code cannot be found in another process.
        """
        facts = kernel.facts
        rows = self.load_row_loop(len(facts.itemsizes), len(facts.scalar_dtypes), has_scratch=has_scratch)
        # The new code keeps both libraries in memory
        library = LinkedCode((rows, kernel.library), {KERNEL_SYMBOL: rows[strided_rows.STRIDED_ROWS_SYMBOL]})
        row_facts = facts._replace(text_hash="", is_interruptible=False, split_axis=0, shared_axis=-1 if is_ordered else 0, min_grain=1)
        return MachineCode(row_facts, row_facts, library, kernel.origin)

    def _load_or_compile(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[LinkedCode, str]:
        """Return linked machine code with the functions `symbols`, and its origin: "shipped", "disk" or "compiled".

        The code is found under a hash of `text`. Missing code is compiled from `llvm_ir()`, the text of an LLVM module, and
        stored on disk. `name` names the code in errors. Raise RuntimeError if the compiled code cannot be linked here.
        """
        text_hash = kernel_disk_cache.hash_text(text)
        stored = self._find_stored(text_hash, symbols, ask_llvm=True)
        if stored is not None:
            return stored
        content = self._compile(llvm_ir(), symbols)
        library = self._load(content, symbols)
        if library is None:
            raise RuntimeError(f"tenxor: the kernel {name} cannot be linked in this process: an instruction set or a symbol is missing")
        key = self._make_disk_key(text_hash)
        if key:
            kernel_disk_cache.write(key, content)
        return library, "compiled"

    def find_stored(self, text: str, symbols: tuple[str, ...]) -> tuple[LinkedCode, str] | None:
        """Return the code stored under the hash of `text`, with the functions `symbols`, and its origin, "shipped" or "disk".

        Return None if the code is not stored. Nothing is compiled.
        """
        return self._find_stored(kernel_disk_cache.hash_text(text), symbols)

    def _find_stored(self, text_hash: str, symbols: tuple[str, ...], *, ask_llvm: bool = False) -> tuple[LinkedCode, str] | None:
        """Return the code stored under the hash `text_hash`, with the functions `symbols`, and its origin, "shipped" or "disk".

        Return None if no code is stored. The disk can only have code for this machine if LLVM was asked about this machine before. If not,
        LLVM is asked now only for a caller that is going to compile anyway (`ask_llvm`).
        """
        content = self.shipped_objects.read(text_hash) if self.shipped_objects else None
        library = None if content is None else load_image(content)
        if library is not None:
            return library, "shipped"
        key = self._make_disk_key(text_hash) if ask_llvm or has_host_info() else None
        content = kernel_disk_cache.read(key) if key else None
        library = None if content is None else self._load(content, symbols)
        return None if library is None else (library, "disk")

    def _make_disk_key(self, text_hash: str) -> str | None:
        """Return the name of the file in the disk cache for the code with the hash `text_hash`.

        Return None if the sources of the emitter could not be read: then the disk cache is not used.
        """
        emitter_hash = get_emitter_hash()
        return kernel_disk_cache.make_key_from_hash(text_hash, self.identity, emitter_hash) if emitter_hash else None

    def make_plan_key(self, text: str, target: Target) -> str | None:
        """Return the name of the file in the disk cache for data about a plan made for `target`; `text` is the key of the plan.

        Return None if the sources of the planner or of the emitter could not be read: then no plan is stored.
        """
        planner_hashes = get_planner_hashes()
        machine = f"{sys.version}\n{__version__}\n{target.identity}\n{target.threads}"
        return kernel_disk_cache.make_key_from_hash(kernel_disk_cache.hash_text(text), machine, planner_hashes) if planner_hashes else None

    def _compile_object(self, llvm_ir: str) -> bytes:
        """Have LLVM compile `llvm_ir`, the text of an LLVM module, and return the content of the object file."""
        from .llvmlite_binding import compile_object

        return compile_object(llvm_ir, self.target_machine)

    def _compile(self, llvm_ir: str, symbols: tuple[str, ...]) -> bytes:
        """Have LLVM compile `llvm_ir`, the text of an LLVM module, and return a serialised code image with the functions `symbols`.

        The result is the object file instead if LLVM has to link it (`link_object` gives None).
        """
        from .elf_linker import link_object

        object_file = self._compile_object(llvm_ir)
        image = link_object(object_file, symbols)
        return object_file if image is None else image.serialize()

    def _load(self, content: bytes, symbols: tuple[str, ...]) -> LinkedCode | None:
        """Return the functions `symbols` of `content`, a result of `_compile`, ready to run; None if they cannot run here."""
        return load_image(content) if content.startswith(IMAGE_MAGIC) else self._linker.link(content, symbols)

    def emit_llvm_ir(self, kernel: Kernel) -> str:
        """Return the LLVM IR of `kernel` for the target, as the text of a module."""
        from .emit_kernel import emit_kernel

        return emit_kernel(kernel, self.full_target)

    def compile_assembly(self, kernel: Kernel) -> str:
        """Return the assembly of `kernel` for the target, as text. The kernel is compiled anew, and not stored."""
        from .llvmlite_binding import compile_assembly

        return compile_assembly(self.emit_llvm_ir(kernel), self.target_machine)


_compiler: Compiler | None = None


def compiler() -> Compiler:
    """Return the compiler of this process, for this machine; the first call makes it.

    Concurrent threads may each make a compiler; every thread gets the first compiler stored. No lock is held, since a new compiler asks
    LLVM, and a signal handler may compute meanwhile.
    """
    global _compiler
    if _compiler is None:
        new_compiler = Compiler()
        # Another thread may have been faster. No thread switch happens between this test and the assignment.
        if _compiler is None:
            _compiler = new_compiler
    return _compiler


@contextmanager
def use_compiler(replacement: Compiler) -> Iterator[None]:
    """Make `replacement` the result of `compiler()` for the body of a `with` statement, and then the previous compiler again."""
    global _compiler
    previous, _compiler = _compiler, replacement
    try:
        yield
    finally:
        _compiler = previous


def count_compilations() -> tuple[int, int]:
    """Return two counts: the kernels compiled by this process, and the kernels loaded from the package or from disk.

    The result is (0, 0) while the process has no compiler; this function makes none.
    """
    return (_compiler.compiled_count, _compiler.loaded_count) if _compiler else (0, 0)
