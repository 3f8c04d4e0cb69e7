"""The error for a value that a kernel could not use: an index out of range, or a negative exponent of integers.

The kernel sets a flag only; which value it was is found afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import IndexOutOfRange, NegativeExponent
from ..layout import Layout
from ..layout.indexing import counted
from ..node import Gather, Node, Scatter

from_0: set[str] = set()  # operations without negative indices: they make these less by the size of the axis, and so out of range


def out_of_range(node: Node, compute: Callable[[Node], None]) -> IndexOutOfRange | NegativeExponent:
    """Return the error for the first index out of range, or negative exponent, in a recipe that could not be computed for one.

    `compute` is called for indices and exponents that are pending themselves.
    """
    from ..kernel.fuse import pending  # as late as the error
    from ..kernel.reads import has_checked_exponents

    for part in pending([node]):
        if has_checked_exponents(part):
            exponents, layout = part.sources[1], part.layouts[1]
            assert type(exponents) is Node and layout is not None
            least = _elements(exponents, layout, compute).min(initial=0)
            if least < 0:
                return NegativeExponent.of(part.dtype, int(least))
        if isinstance(part.op, (Gather, Scatter)):
            count = len(part.op.axes)
            reached = part.layouts[0] if isinstance(part.op, Gather) else part.target
            assert reached is not None
            sizes = reached.shape[reached.ndim - count :]
            indices = len(part.sources) - count
            for axis, size, index, layout in zip(
                part.op.axes, sizes, part.sources[indices:], part.layouts[indices:], strict=True
            ):
                assert type(index) is Node and layout is not None
                outside = counted(_elements(index, layout, compute), size)[1]
                if outside is not None:
                    return wrong_index(part.op.name, outside, axis, size)
    raise AssertionError("a kernel set its flag where no index is out of range and no exponent is negative")


def wrong_index(op: str, index: int, axis: int, size: int) -> IndexOutOfRange:
    """The error for an index that is out of range."""
    index += size if index < 0 and op in from_0 else 0
    return IndexOutOfRange(f"{op}: index {index} is out of range for axis {axis} of size {size}")


def _elements(node: Node, layout: Layout, compute: Callable[[Node], None]) -> np.ndarray[Any, Any]:
    """Return the elements that are read of a node."""
    if node.buffer is None:
        compute(node)
    assert node.buffer is not None
    moving = layout
    if layout.base is None and layout.tables is None:  # looked at once where they are broadcast
        moving = layout.index(tuple([slice(None) if stride else slice(1) for stride in layout.strides]))
    found: np.ndarray[Any, Any] = node.buffer.typed(node.dtype)[moving.offsets()]
    return found
