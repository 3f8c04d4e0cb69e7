"""Which index was out of range: found out after a kernel that met one has said so."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import IndexOutOfRange
from ..layout import Layout
from ..layout.indexing import counted
from ..node import Gather, Node, Scatter

from_0: set[str] = set()  # operations without negative indices: they make these less by the size of the axis, and so out of range


def out_of_range(node: Node, compute: Callable[[Node], None]) -> IndexOutOfRange:
    """The error for the first index that is out of range in a recipe that could not be computed for one.

    `compute` is called for indices that are pending themselves.
    """
    from ..kernel.fuse import pending  # as late as the error

    for part in pending([node]):
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
                if index.buffer is None:
                    compute(index)
                outside = _first_outside(index, layout, size)
                if outside is not None:
                    return wrong_index(part.op.name, outside, axis, size)
    raise AssertionError("a kernel told of an index out of range where there is none")


def wrong_index(op: str, index: int, axis: int, size: int) -> IndexOutOfRange:
    """The error for an index that is out of range."""
    index += size if index < 0 and op in from_0 else 0
    return IndexOutOfRange(f"{op}: index {index} is out of range for axis {axis} of size {size}")


def _first_outside(index: Node, layout: Layout, size: int) -> int | None:
    """The first of some indices that is out of range along an axis of this size."""
    assert index.buffer is not None
    moving = layout
    if layout.base is None and layout.tables is None:  # looked at once where they are broadcast
        moving = layout.index(tuple([slice(None) if stride else slice(1) for stride in layout.strides]))
    return counted(index.buffer.typed(index.dtype)[moving.offsets()], size)[1]
