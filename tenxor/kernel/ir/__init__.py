"""The loop IR, the language between tensors and machines.

A `Kernel` is a pattern. It fixes the operations, the dtypes, the number of axes, and how each operand is read along each axis. It holds no
size, stride, offset or scalar. Those are run-time arguments, all 8 bytes wide, in one block:

    operands (pointers)  |  tables (pointers)  |  scalars (int64, uint64 or float64)  |  sizes (int64: with strides and offsets)

Equal kernels are equal Python values, so a kernel is its own cache key. `str(kernel)` shows the kernel as a program.
"""

from ...ops.expr import walk
from .kernel import Kernel
from .leaves import (
    PARTS,
    Address,
    Factor,
    Index,
    Kept,
    Load,
    Position,
    Result,
    ScalarParameter,
    State,
    Term,
    TileElement,
    axis_name,
    expand,
    show_address,
    surface,
    work,
)
from .loops import (
    ALIGNMENT,
    Accumulate,
    Accumulator,
    Axis,
    For,
    Init,
    Keep,
    Operand,
    Prefetch,
    Product,
    Side,
    Statement,
    Store,
    TileLoad,
    Update,
    expressions,
    in_turn,
    statements,
    with_expressions,
)

__all__ = [
    "ALIGNMENT",
    "Accumulate",
    "Accumulator",
    "Address",
    "Axis",
    "Factor",
    "Prefetch",
    "For",
    "Index",
    "Init",
    "Keep",
    "Kept",
    "Kernel",
    "Load",
    "ScalarParameter",
    "Operand",
    "PARTS",
    "Position",
    "Product",
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
    "expand",
    "expressions",
    "in_turn",
    "show_address",
    "statements",
    "surface",
    "walk",
    "with_expressions",
    "work",
]
