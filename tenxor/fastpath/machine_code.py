"""The machine code of the fast path: the names of its functions, and where the code comes from. The code is prebuilt or on disk. Missing
code is compiled by a second process, for some seconds, and stored on disk; the first process uses the fallback in Python meanwhile. The
code refers to Python objects by their positions in an object table (`ObjectTable`), which is filled when the code is linked.
"""

from __future__ import annotations

import os
import sys
from typing import TypeAlias

from ..codegen.llvm import kernel_disk_cache
from ..codegen.llvm.code_image import LinkedCode
from ..codegen.llvm.compiler import Compiler, compiler
from ..codegen.llvm.host_info import get_fastpath_hash
from ..dtypes import SEARCHABLE_DTYPES
from .limits import SORTABLE_LLVM_TYPES
from .method_table import METHODS
from .object_layout import REUSED_CLASSES, ObjectTable
from .type_slots import BINARY_SYMBOLS, SLOT_LOCATIONS
from .vectorcall_switch import ENTRY_KINDS, get_entry_symbol

CREATION_FUNCTIONS = (
    "replay_creation",
    "python_from_list",
    "python_from_array",
    "python_new_blank",
    "python_fill_rows",
    "python_copy_buffer",
)
DERIVATIVE_FUNCTIONS = ("replay_tape_steps", "python_collect_tape", "python_segment_key", "python_batch_key")
NUMPY_SUBSTITUTES = (  # generated functions called where the package would call NumPy
    *[f"search_{dtype}" for dtype in SEARCHABLE_DTYPES],
    "interpolate",
    *[f"{name}_{kind}" for kind in SORTABLE_LLVM_TYPES for name in ("count_distinct", "store_distinct")],
)
EXPORTED_FUNCTIONS = (
    *("is_basic", "clear_specs", "python_find_spec", "python_data_recipe", "node_number", "recipe_number"),
    *("python_compute_node", "python_compute_unfused", "run_steps", "python_capture"),
    *("python_sign_call", "python_sign_graph", "clear_signatures", "python_instantiate", "python_evaluate"),
    *("count_pending", "filter_pending", "find_owned"),
    *("python_store_specs", "python_copy_tensors", "python_copy_equal_tensors", "replay_join", "replay_call", *DERIVATIVE_FUNCTIONS),
    *CREATION_FUNCTIONS,
    *NUMPY_SUBSTITUTES,
    *("dealloc_block", "get_block_buffer", "release_blocks"),
    *[f"dealloc_{cls}" for cls in REUSED_CLASSES],
    *SLOT_LOCATIONS,
    *BINARY_SYMBOLS,
    *map(get_entry_symbol, ENTRY_KINDS),
)
EXPORTED_VARIABLES = (
    "objects",
    "block_byte_counters",
    "next_node_serial",
    "next_recipe_serial",
    "open_context_count",
    "worker_handle",
    "result_count",
    "spec_count",
    "original_slot_functions",
)
MachineCode: TypeAlias = tuple[LinkedCode, str]  # the linked code, and its origin
EXPORTS = (*EXPORTED_FUNCTIONS, *EXPORTED_VARIABLES, *[method.symbol for method in METHODS])


def _describe(object_table: ObjectTable) -> str:
    """Return the text under which the code for `object_table` is stored: a hash of the sources and a description of the table. Raise
    RuntimeError if the sources cannot be read.
    """
    source_hash = get_fastpath_hash()
    if source_hash is None:
        raise RuntimeError("the sources of the fast path cannot be read")
    return source_hash + object_table.identity


def find_code(object_table: ObjectTable) -> MachineCode | None:
    """Return the linked code for `object_table` and its origin, "shipped" or "disk"; None if the code is not stored. Nothing is compiled.

    The linked code maps the names of exported functions and variables to addresses.
    """
    return compiler().find_stored(_describe(object_table), EXPORTS)


def compile_code(object_table: ObjectTable, llvm_compiler: Compiler | None = None) -> MachineCode:
    """Return the linked code for `object_table` and its origin, "compiled" or where the compiler found it. Missing code is compiled for
    some seconds by `llvm_compiler`, by default this machine's compiler, and stored on disk.
    """
    code_compiler = llvm_compiler or compiler()

    def emit_text() -> str:
        """Return the LLVM IR of the fast path as text."""
        from ..codegen.llvm.builder import Module
        from .emit.method_entries import emit_module

        return str(emit_module(object_table, Module(code_compiler.full_target)))

    return code_compiler._load_or_compile("fastpath", _describe(object_table), emit_text, EXPORTS)


class BackgroundCompilation:
    """A process that compiles the fast path and stores the code on disk.

    The process has no terminal, so Ctrl-C does not reach it, and no output. It may outlive this process: later processes find its code.
    """

    def __init__(self) -> None:
        """Start the process. Raise OSError if no process can run Python here, or if it could not store the code."""
        reason = kernel_disk_cache.explain_refusal(kernel_disk_cache.find_cache_folder())
        if not hasattr(os, "posix_spawn") or not (sys.executable or "").rpartition("/")[2].startswith("python"):
            reason = "this program cannot start Python"  # `sys.executable` may name a program with an embedded interpreter
        if reason:
            raise OSError(reason)
        code = f"import sys; sys.path[:] = {sys.path!r}; from tenxor import fastpath; fastpath.start()"
        files = [(os.POSIX_SPAWN_OPEN, k, os.devnull, os.O_RDWR, 0) for k in range(3)]
        command = (sys.executable, "-W", "ignore", "-c", code)
        self._pid: int | None = os.posix_spawn(sys.executable, command, os.environ, file_actions=files, setsid=True)

    def is_running(self) -> bool:
        """Return whether the process still runs. A forked child, which cannot know, gets False."""
        if self._pid is not None:
            try:
                has_ended = os.waitpid(self._pid, os.WNOHANG) != (0, 0)
            except ChildProcessError:  # another part of the program waited for the process
                has_ended = True
            if has_ended:
                self._pid = None  # a later process may get the same number
        return self._pid is not None
