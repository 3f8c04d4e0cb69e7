"""Build the error for a value that a kernel could not use: an index out of range, or a negative exponent of an integer power. The kernel
only sets a flag. The functions here read the indices and exponents again to find the value for the error message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import IndexOutOfRange, NegativeExponent
from ..graph.node import Gather, Node, Scatter
from ..layout import Layout
from ..layout.indexing import count_from_start

# Operations without negative indices: they subtract the axis size from a negative index, to put it out of range
NONNEGATIVE_INDEX_OPS = ("cross_entropy", "nll_loss")


def build_value_error(node: Node, compute: Callable[[Node], None]) -> IndexOutOfRange | NegativeExponent:
    """Return the error for the first index out of range, or negative exponent, because of which the recipe of `node` could not be computed.

    `compute` realizes a node; it is called for pending indices and exponents. Raise AssertionError if every index and exponent is valid.
    """
    from ..lowering.fuse import collect_pending  # imported only when an error is reported
    from ..lowering.index_maps import has_checked_exponents

    for pending_node in collect_pending([node]):
        if has_checked_exponents(pending_node):
            exponents, layout = pending_node.sources[1], pending_node.layouts[1]
            assert type(exponents) is Node and layout is not None
            smallest = _read_elements(exponents, layout, compute).min(initial=0)
            if smallest < 0:
                return NegativeExponent.of(pending_node.dtype, int(smallest))
        if isinstance(pending_node.op, (Gather, Scatter)):
            axis_count = len(pending_node.op.axes)
            indexed_layout = pending_node.layouts[0] if isinstance(pending_node.op, Gather) else pending_node.target
            assert indexed_layout is not None
            sizes = indexed_layout.shape[indexed_layout.ndim - axis_count :]
            first_index = len(pending_node.sources) - axis_count
            for axis, size, index, layout in zip(
                pending_node.op.axes, sizes, pending_node.sources[first_index:], pending_node.layouts[first_index:], strict=True
            ):
                assert type(index) is Node and layout is not None
                bad_index = count_from_start(_read_elements(index, layout, compute), size)[1]
                if bad_index is not None:
                    return build_index_error(pending_node.op.name, bad_index, axis, size)
    raise AssertionError(
        "a kernel reported an index out of range or a negative exponent, but the operands have none; this is a bug of Tenxor, unless"
        " another thread changed shared memory"
    )


def build_index_error(op: str, index: int, axis: int, size: int) -> IndexOutOfRange:
    """Return the error for `index`, out of range for axis `axis` of `size` elements, in the operation with the name `op`.

    Operations in `NONNEGATIVE_INDEX_OPS` shift negative indices by -`size`; the text shows the index before the shift.
    """
    index += size if index < 0 and op in NONNEGATIVE_INDEX_OPS else 0
    return IndexOutOfRange(f"{op}: index {index} is out of range for axis {axis} of size {size}")


def _read_elements(node: Node, layout: Layout, compute: Callable[[Node], None]) -> np.ndarray[Any, Any]:
    """Return the elements of `node`, the indices or exponents, read through `layout`, as a NumPy array.

    `compute` is called first if `node` is pending. Broadcast axes have extent 1 in the result if `layout` is a single view without tables.
    """
    if node.buffer is None:
        compute(node)
    assert node.buffer is not None
    distinct_layout = layout
    if layout.base is None and layout.tables is None:  # read each broadcast element once
        distinct_layout = layout.index(tuple([slice(None) if stride else slice(1) for stride in layout.strides]))
    elements: np.ndarray[Any, Any] = node.buffer.typed_view(node.dtype)[distinct_layout.offsets()]
    return elements
