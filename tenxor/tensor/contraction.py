"""Products that add up: a multiplication broadcast over all index pairs and a sum, fused, so that no temporary is ever
there.
"""

from __future__ import annotations

from typing import Any

from ..dtypes import promote
from ..errors import DTypeError, ShapeError
from ..layout import broadcast_shapes
from .core import Core


def matmul(a: Any, b: Any) -> Any:
    """New tensor: the matrix product of the last two axes, broadcast over the others; 1-D operands are a row and a
    column.

    Integers add up modulo 2 to their width; float16 and bfloat16 in float32. ShapeError names both shapes and the axis.

    >>> import tenxor as tx
    >>> (tx.asarray([[1, 2, 3], [2, 4, 6]]) @ tx.asarray([[1, 4], [2, 5], [3, 6]])).tolist()
    [[14, 32], [28, 64]]
    """
    if not (isinstance(a, Core) and isinstance(b, Core)):
        raise DTypeError(
            f"matmul: both operands are tensors, not {type(a).__name__} and {type(b).__name__}; use x * y for numbers"
        )
    la, lb = a.layout, b.layout
    if la.ndim == 0 or lb.ndim == 0:
        raise ShapeError(f"matmul: shapes {la.shape} and {lb.shape}: a 0-d tensor has no axis to sum over; use x * y")
    row, column = la.ndim == 1, lb.ndim == 1
    la = la.expand_dims(0) if row else la
    lb = lb.expand_dims(1) if column else lb
    if la.shape[-1] != lb.shape[-2]:
        raise ShapeError(
            f"matmul: shapes {a.layout.shape} and {b.layout.shape} do not fit: axis -1 of the first has size {la.shape[-1]}, axis"
            f" {-1 if column else -2} of the second {lb.shape[-2]}; they must be equal"
        )
    try:
        broadcast_shapes(la.shape[:-2], lb.shape[:-2])
    except ShapeError as error:
        raise ShapeError(
            f"matmul: shapes {a.layout.shape} and {b.layout.shape} do not fit: before the last two axes, {error}"
        ) from None
    dtype = promote(a.dtype, b.dtype, "matmul")
    if dtype.kind == "bool":
        raise DTypeError("matmul: does not accept bool; use x.astype(tx.int64)")
    wide = dtype.compute
    rows: Any = a._view(la.expand_dims(-2))
    columns: Any = b._view(lb.swapaxes(-2, -1).expand_dims(-3))
    products = rows.astype(wide, copy=False) * columns.astype(wide, copy=False)
    found = products.sum(axis=-1).astype(dtype, copy=False)
    if row:
        found = found.squeeze(-1 if column else -2)
    return found.squeeze(-1) if column else found
