"""Translate the loop IR to LLVM IR: loops become blocks, expressions become vector code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...kernel.ir import (
    Accumulate,
    For,
    Index,
    Init,
    Keep,
    Kept,
    Kernel,
    Load,
    Position,
    Prefetch,
    Product,
    ScalarParameter,
    Store,
    TileElement,
    TileLoad,
    Update,
    statements,
)
from ...late import Late
from ...ops.expr import Expr
from ...target import Target
from . import ENTRY as ENTRY
from . import access, addresses, indices, loops, reductions, rows
from .emitter import Emitter, Leaf
from .rootless import rootless

products = Late("tenxor.backend.llvm.products")
scatter = Late("tenxor.backend.llvm.scatter")
tiles = Late("tenxor.backend.llvm.tiles")

# The functions that emit each kind of statement, and the value of each kind of leaf.
STATEMENTS: Mapping[type, Callable[[Emitter, Any], None]] = {
    For: loops.loop,
    Product: products.product,
    Init: reductions.init,
    Update: reductions.update,
    Keep: rows.keep,
    Prefetch: access.prefetch_row,
    TileLoad: tiles.fill,
    Store: access.store,
    Accumulate: scatter.accumulate,
}
LEAVES: Mapping[type[Expr], Leaf] = {
    Load: access.load,
    Index: indices.checked,
    Kept: rows.kept,
    TileElement: tiles.load,
    Position: addresses.position_of,
    ScalarParameter: addresses.scalar_parameter,
}


def emit(kernel: Kernel, target: Target) -> str:
    """Return the LLVM module of a kernel, as text, with the function `kernel(arguments, begin, end, worker)`.

    The function runs the kernel's loops, the shared loop from `begin` to `end`. `worker` is the number of the calling thread.
    """
    kernel = rootless(kernel)
    em = Emitter(kernel, target, LEAVES, STATEMENTS)
    em.body(kernel.body)
    em.at(0)
    if any(isinstance(s, Store) and s.streamed for s in statements(kernel.body)):
        em.b.do("fence seq_cst")  # completes the non-temporal stores, before another thread learns that the kernel is done
    em.b.do("ret void")
    return str(em.module)
