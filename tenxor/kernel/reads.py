"""What a node reads, seen from the loops of the kernel that computes it.

A *context* is the loops around an expression, outermost first; a *place* is a layout whose shape is the context's
extents and whose number is the element of a node (in row-major order) that is needed there. Reading through a view is
then nothing but composition of layouts: the place in a source is `place.over(layout)`.
"""

from __future__ import annotations

from math import prod

from ..layout import Layout
from ..node import Gather, Node
from ..ops import Op
from ..ops.reductions import Reduction

MAX_SEEN = 64  # nodes that are looked at for the order of loops


def whole(node: Node) -> Layout:
    """The place of a node in loops over its own elements."""
    return Layout.contiguous(node.shape)


def loops_of(root: Node) -> Layout:
    """The place of a kernel's root in its own loops: those that its reductions of columns depend on are outermost.

    So these are computed once for all loops further in, though they run along an earlier axis than the last.
    """
    place = whole(root)
    if not isinstance(root.op, Op) or len(root.shape) < 2:
        return place
    needed: set[int] = set()
    stack, seen = source_places(root, place), 0
    while stack and seen < MAX_SEEN:
        node, where = stack.pop()
        seen += 1
        if node.buffer is None and where.base is None and where.tables is None:
            if isinstance(node.op, Op):
                stack += source_places(node, where)
            elif isinstance(node.op, Reduction):
                if not of_columns(node):
                    return place
                needed.update(a for a, stride in enumerate(where.strides) if stride and where.shape[a] != 1)
    inner = [a for a in range(len(root.shape)) if a not in needed]
    return place.permute((*sorted(needed), *inner)) if needed and inner else place


def of_columns(node: Node) -> bool:
    """Whether neighbours among the results of a reduction are nearer in memory than those that it takes together."""
    layout, kept = node.layouts[0], len(node.shape)
    assert layout is not None
    steps = [abs(s) for s, n in zip(layout.strides, layout.shape, strict=True) if n != 1]
    reduced = [abs(s) for s, n in zip(layout.strides[kept:], layout.shape[kept:], strict=True) if n != 1]
    return len(steps) > len(reduced) > 0 and steps[-len(reduced) - 1] < min(reduced)


def depends_on(place: Layout) -> int:
    """How many of the outermost loops the place depends on."""
    if 0 in place.shape:  # where a loop makes no step, nothing may be read outside of it
        return len(place.shape)
    for axis in range(len(place.shape) - 1, -1, -1):
        gathered = place.tables is not None and place.tables[axis] is not None
        if place.shape[axis] > 1 and (gathered or place.strides[axis] != 0):
            return axis + 1
    return 0


def times_computed(place: Layout) -> int:
    """How often a value at this place is computed if it is computed in the outermost loop that it can be."""
    return prod(place.shape[: depends_on(place)])


def outermost(place: Layout) -> Layout:
    """The place with the inner loops dropped that it does not depend on."""
    n = depends_on(place)
    if n == len(place.shape):
        return place
    tables = place.tables[:n] if place.tables is not None else None
    return Layout(place.shape[:n], place.strides[:n], place.offset, tables, place.base)


def along_last(shape: tuple[int, ...], place: Layout) -> int | None:
    """The axis of a place that runs along the last axis of a node of this shape, other than those of size 1, or None."""
    size = next((n for n in reversed(shape) if n != 1), 1)
    for axis, (n, stride) in enumerate(zip(place.shape, place.strides, strict=True)):
        if n != 1 and 0 < abs(stride) < size:
            return axis
    return None


def further_shape(node: Node) -> tuple[int, ...]:
    """The last axes of what a reduction or scan runs over, or a gather chooses from: those that it has no more itself."""
    source = node.layouts[0]
    assert source is not None
    return source.shape[len(node.shape) :]


def inside(place: Layout, extents: tuple[int, ...]) -> Layout:
    """The place in the first source of a reduction or gather, with axes of `extents` inside the loops of `place`."""
    inner = Layout.contiguous(extents)
    if place.tables is not None:
        raise AssertionError("a gathered place is no place for a reduction or a gather: its node is computed first")
    strides = tuple(s * inner.size for s in place.strides) + inner.strides
    return Layout(place.shape + extents, strides, place.offset * inner.size)


def source_places(node: Node, place: Layout) -> list[tuple[Node, Layout]]:
    """The nodes that an elementwise node, a reduction or a gather at `place` reads, each with its own place."""
    first = place
    if isinstance(node.op, Reduction):
        first = inside(outermost(place), further_shape(node))
    elif isinstance(node.op, Gather):
        first = inside(place, further_shape(node))
    found = []
    for k, (source, layout) in enumerate(zip(node.sources, node.layouts, strict=True)):
        if type(source) is Node:
            assert layout is not None
            found.append((source, (place if k else first).over(layout)))
    return found
