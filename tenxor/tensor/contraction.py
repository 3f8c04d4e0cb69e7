"""Products that add up: a multiplication over all pairs of indices and a sum, which become one kernel without any
temporary (`kernel/products.py`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..dtypes import DType, float32, float64, int32, int64, promote, uint32, uint64
from ..errors import DTypeError, ShapeError
from ..layout import Layout, broadcast_shapes
from ..node import Node, is_pinned
from ..ops import OPS
from ..realize import realize
from ..reductions import REDUCTIONS
from ..storage import Storage
from .core import Core
from .reducing import FEW

MAX_LOOPS = 4096  # pairs of layouts whose loops are remembered
STEPS = 1 << 14  # of a sum that is long are taken on their own, and these results added up

Loops = tuple[Layout, Layout, int]  # two layouts of one shape over all loops, and how many of these are not summed over

_COMPUTED_AS_THEY_ARE = frozenset((float32, float64, int32, int64, uint32, uint64))
_matmul_loops: dict[tuple[Layout, Layout], Loops] = {}
_MULTIPLY, _SUM, _SUM_IN_WIDTH = OPS["multiply"], REDUCTIONS["sum"], REDUCTIONS["sum_in_width"]


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
    dtype = a.dtype
    if dtype is not b.dtype or dtype not in _COMPUTED_AS_THEY_ARE:
        dtype = result_dtype("matmul", a, b)
        a, b = widened(a, dtype), widened(b, dtype)
    key = (a.layout, b.layout)
    loops = _matmul_loops.get(key)
    if loops is None:
        if len(_matmul_loops) >= MAX_LOOPS:
            _matmul_loops.clear()
        loops = _matmul_loops[key] = _loops_of_matmul(*key)
    return contracted(a, b, loops, dtype)


def _loops_of_matmul(a: Layout, b: Layout) -> Loops:
    """The loops of a matrix product: batches, rows, columns, and those that are summed over."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a 0-d tensor has no axis to sum over; use x * y")
    row, column = a.ndim > 1, b.ndim > 1
    if a.shape[-1] != b.shape[-1 - column]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: axis -1 of the first has size {a.shape[-1]}, axis"
            f" {-1 - column} of the second {b.shape[-1 - column]}; they must be equal"
        )
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ShapeError as error:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: before the last two axes, {error}"
        ) from None
    left, right = a, b
    if column:
        left, right = left.expand_dims(left.ndim - 1), right.swapaxes(-2, -1)
    if row:
        right = right.expand_dims(right.ndim - 1 - column)
    shape = batch + a.shape[-2:-1] + (b.shape[-1:] if column else ()) + a.shape[-1:]
    return left.expand(shape), right.expand(shape), len(shape) - 1


def result_dtype(op: str, a: Core, b: Core) -> DType:
    """The dtype of a sum of products."""
    dtype = promote(a.dtype, b.dtype, op)
    if dtype.kind == "bool":
        raise DTypeError(f"{op}: does not accept bool; use x.astype(tx.int64)")
    return dtype


def widened(t: Any, dtype: DType) -> Any:
    """A tensor in the dtype in which such sums are computed: narrow floats in float32, narrow integers in 32 bits, as they
    are the same modulo 2 to any smaller width.
    """
    wide = dtype.compute if dtype.bits > 16 or dtype.is_float else uint32 if dtype.kind == "uint" else int32
    return t if t.dtype is wide else t.astype(wide)


def contracted(a: Any, b: Any, loops: Loops, dtype: DType) -> Any:
    """The pending sum, as `dtype`, of the products of two tensors of one dtype over some loops."""
    left, right, kept = loops
    shape = left.shape
    if prod(shape[kept:]) >= 2 * STEPS:
        return _in_parts(a, b, loops).astype(dtype, copy=False)
    one, other = a.node, b.node
    products = Node(_MULTIPLY, shape, a.dtype, (one, other), (left, right))
    reduction = _SUM if a.dtype.is_float else _SUM_IN_WIDTH
    whole = Layout.contiguous(shape)
    if prod(shape[:kept]) <= FEW:
        found = a.__class__(Storage(products), whole, a.dtype)._reduce_parts(reduction, whole, kept)
    else:
        found = a._of(Node(reduction, shape[:kept], a.dtype, (products,), (whole,)))
    if is_pinned(one) or is_pinned(other):  # their memory may change before anybody asks
        realize(found.node)
    return found if found.dtype is dtype else found.astype(dtype)


def _in_parts(a: Any, b: Any, loops: Loops) -> Any:
    """A long sum, as one over blocks of steps and then one of their results: so threads have more to share, what is packed
    stays small, and rounding errors grow less.
    """
    left, right, kept = loops
    axis = max(range(kept, left.ndim), key=lambda k: left.shape[k])
    size = left.shape[axis]
    each = max(1, STEPS * size // prod(left.shape[kept:]))
    whole = size - size % each

    def part(begin: int, end: int, *, cut: bool) -> Any:
        where = (slice(None),) * axis + (slice(begin, end),)
        sides = [side.index(where) for side in (left, right)]
        if cut:
            sides = [side.unflatten(axis, (-1, each)) for side in sides]
            order = (axis, *(k for k in range(left.ndim + 1) if k != axis))
            sides = [side.permute(order) for side in sides]
        return contracted(a, b, (sides[0], sides[1], kept + cut), a.dtype)

    if whole == each:
        return part(0, each, cut=False) + part(each, size, cut=False)
    found = part(0, whole, cut=True)
    found.storage.node.used = True  # computed on its own: it is what the threads share
    found = found.sum(axis=0).astype(a.dtype, copy=False)
    return found + part(whole, size, cut=False) if whole < size else found
