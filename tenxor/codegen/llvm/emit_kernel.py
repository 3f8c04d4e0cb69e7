"""Translate the loop IR of a kernel to LLVM IR, for `Compiler`: loops become basic blocks, expressions become vector code.

The tables `STATEMENT_EMITTERS` and `LEAF_EMITTERS` map each class of statements and leaves to a function to emit code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..._utils.lazy import LazyFunctions
from ...lowering.ir import (
    Accumulate,
    Contraction,
    For,
    Index,
    Init,
    Kernel,
    Load,
    Position,
    Prefetch,
    RowLoad,
    RowStore,
    ScalarParameter,
    Store,
    TileElement,
    TileLoad,
    Update,
    iterate_statements,
)
from ...ops.expr import Expr
from ...target import Target
from . import KERNEL_SYMBOL as KERNEL_SYMBOL
from . import addresses, emit_loops, index_checks, operand_access, reduction_states, row_buffers
from .emitter import EmitLeaf, Emitter
from .hypot_compare import compare_hypot_by_squares

emit_contractions = LazyFunctions("tenxor.codegen.llvm.emit_contractions")
emit_scatters = LazyFunctions("tenxor.codegen.llvm.emit_scatters")
transposed_tiles = LazyFunctions("tenxor.codegen.llvm.transposed_tiles")

# The functions that emit each kind of statement, and the value of each kind of leaf.
STATEMENT_EMITTERS: Mapping[type, Callable[[Emitter, Any], None]] = {
    For: emit_loops.emit_for,
    Contraction: emit_contractions.emit_contraction,
    Init: reduction_states.emit_init,
    Update: reduction_states.emit_update,
    RowStore: row_buffers.store_row_value,
    Prefetch: operand_access.prefetch_row,
    TileLoad: transposed_tiles.fill_tile,
    Store: operand_access.store,
    Accumulate: emit_scatters.emit_accumulate,
}
LEAF_EMITTERS: Mapping[type[Expr], EmitLeaf] = {
    Load: operand_access.load,
    Index: index_checks.emit_checked_index,
    RowLoad: row_buffers.load_row_value,
    TileElement: transposed_tiles.load_tile,
    Position: addresses.emit_position_value,
    ScalarParameter: addresses.load_scalar_parameter,
}


def emit_kernel(kernel: Kernel, target: Target) -> str:
    """Return the LLVM module that computes `kernel` on the machine `target`, as text, with one exported function.

    The function is `kernel(arguments, begin, end, worker)`. The function runs the kernel's loops; of the split axis (`Kernel.split_axis`),
    only the indices from `begin` up to, but without, `end`. `arguments` points to the packed arguments, 64-bit words: the addresses of
    operands and tables, the scalars and the sizes. Then follow, in a kernel that needs them, the stop flag, and the address of the scratch
    memory with its bytes per thread. `worker` is the number of the calling thread, from 0 on.
    """
    kernel = compare_hypot_by_squares(kernel)
    em = Emitter(kernel, target, LEAF_EMITTERS, STATEMENT_EMITTERS)
    em.emit_body(kernel.body)
    em.continue_at(0)
    if any(isinstance(s, Store) and s.is_nontemporal for s in iterate_statements(kernel.body)):
        em.builder.emit("fence seq_cst")  # completes the non-temporal stores, before another thread learns that the kernel is done
    em.builder.emit("ret void")
    return str(em.module)
