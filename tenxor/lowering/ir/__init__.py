"""The loop IR, the language between tensors and machines.

A `Kernel` fixes the operations, the dtypes, the number of axes, and how each operand is read along each axis. It holds no
size, stride, offset or scalar. Those are run-time arguments, all 8 bytes wide, in one block:

    operands (pointers)  |  tables (pointers)  |  scalars (int64, uint64 or float64)  |  sizes (int64: with strides and offsets)

Equal kernels are equal Python values, so a kernel is its own cache key. `str(kernel)` shows the kernel as a program.
"""

from ...ops.expr import walk
from .kernel import Kernel
from .leaves import (
    COMPONENT_SUFFIXES,
    Address,
    Factor,
    Index,
    Load,
    Position,
    Result,
    RowLoad,
    ScalarParameter,
    State,
    Term,
    TileElement,
    axis_name,
    estimate_cost,
    estimate_latency,
    expand_formula,
    show_address,
    walk_outside_indices,
)
from .statements import (
    ALIGNMENT_BYTES,
    Accumulate,
    Accumulator,
    Contraction,
    For,
    Init,
    LoopAxis,
    Operand,
    Prefetch,
    RowStore,
    Side,
    Statement,
    Store,
    TileLoad,
    Update,
    group_stores,
    iterate_expressions,
    iterate_statements,
    map_expressions,
)

__all__ = [
    "ALIGNMENT_BYTES",
    "Accumulate",
    "Accumulator",
    "Address",
    "LoopAxis",
    "Factor",
    "Prefetch",
    "For",
    "Index",
    "Init",
    "RowStore",
    "RowLoad",
    "Kernel",
    "Load",
    "ScalarParameter",
    "Operand",
    "COMPONENT_SUFFIXES",
    "Position",
    "Contraction",
    "Result",
    "Side",
    "TileLoad",
    "TileElement",
    "State",
    "Statement",
    "Store",
    "Term",
    "Update",
    "axis_name",
    "expand_formula",
    "iterate_expressions",
    "group_stores",
    "show_address",
    "iterate_statements",
    "walk_outside_indices",
    "walk",
    "map_expressions",
    "estimate_cost",
    "estimate_latency",
]
