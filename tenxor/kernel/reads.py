"""What a node reads, seen from the loops of the kernel that computes it.

A *context* is the loops around an expression, outermost first; an *index map* is a layout whose shape is the context's
extents and whose number is the element of a node (in row-major order) that is needed there. Reading through a view is
then nothing but composition of layouts: the index map of a source is `index_map.over(layout)`.
"""

from __future__ import annotations

from math import prod

from ..layout import Layout
from ..node import Gather, Node
from ..ops import OPS, Op
from ..ops.reductions import Reduction
from ..remembered import Remembered

MAX_SEEN = 64  # nodes that are looked at for the order of loops
MAX_MAPS = 1 << 12
_POW = OPS["pow"]
# Index maps of sources, by the id of that of what is read by them, which is kept with them, and its recipe.
_maps: Remembered[tuple[Layout, list[Layout | None]]] = Remembered(MAX_MAPS)


def has_checked_exponents(node: Node) -> bool:
    """Return whether a recipe raises integers to a tensor of signed integer powers, among which its kernel must find negative ones."""
    if node.op is not _POW or not node.dtype.is_integer:
        return False
    exponents = node.sources[1]
    return type(exponents) is Node and exponents.dtype.kind == "int"


def can_fail(node: Node) -> bool:
    """Return whether the kernel of a recipe may find a value that is an error: an index out of range, or a negative exponent."""
    return type(node.op) is Gather or has_checked_exponents(node)


def whole(node: Node) -> Layout:
    """The index map of a node in loops over its own elements."""
    return Layout.contiguous(node.shape)


def loops_of(root: Node) -> Layout:
    """The index map of a kernel's root in its own loops: those that its reductions of columns depend on are outermost.

    So these are computed once for all loops further in, though they run along an earlier axis than the last.
    """
    index_map = whole(root)
    if not isinstance(root.op, Op) or len(root.shape) < 2 or not _reads_a_reduction(root):
        return index_map
    needed: set[int] = set()
    stack, seen = source_index_maps(root, index_map), 0
    while stack and seen < MAX_SEEN:
        node, where = stack.pop()
        seen += 1
        if node.buffer is None and where.base is None and where.tables is None:
            if isinstance(node.op, Op):
                stack += source_index_maps(node, where)
            elif isinstance(node.op, Reduction):
                if not of_columns(node):
                    return index_map
                needed.update(a for a, stride in enumerate(where.strides) if stride and where.shape[a] != 1)
    inner = [a for a in range(len(root.shape)) if a not in needed]
    return index_map.permute((*sorted(needed), *inner)) if needed and inner else index_map


def _reads_a_reduction(root: Node) -> bool:
    """Whether anything that is pending below a node is a reduction: only then it matters what is read where."""
    stack, seen = [root], {root}
    while stack:
        for source in stack.pop().sources:
            if type(source) is Node and source.buffer is None and source not in seen:
                if isinstance(source.op, Reduction):
                    return True
                seen.add(source)
                stack.append(source)
    return False


def of_columns(node: Node) -> bool:
    """Whether neighbours among the results of a reduction are nearer in memory than those that it takes together."""
    layout, kept = node.layouts[0], len(node.shape)
    assert layout is not None
    steps = [abs(s) for s, n in zip(layout.strides, layout.shape, strict=True) if n != 1]
    reduced = [abs(s) for s, n in zip(layout.strides[kept:], layout.shape[kept:], strict=True) if n != 1]
    return len(steps) > len(reduced) > 0 and steps[-len(reduced) - 1] < min(reduced)


def depends_on(index_map: Layout) -> int:
    """How many of the outermost loops the index map depends on."""
    if 0 in index_map.shape:  # where a loop makes no step, nothing may be read outside of it
        return len(index_map.shape)
    for axis in range(len(index_map.shape) - 1, -1, -1):
        gathered = index_map.tables is not None and index_map.tables[axis] is not None
        if index_map.shape[axis] > 1 and (gathered or index_map.strides[axis] != 0):
            return axis + 1
    return 0


def times_computed(index_map: Layout) -> int:
    """How often a value with this index map is computed if it is computed in the outermost loop that it can be."""
    return prod(index_map.shape[: depends_on(index_map)])


def outermost(index_map: Layout) -> Layout:
    """The index map with the inner loops dropped that it does not depend on."""
    n = depends_on(index_map)
    if n == len(index_map.shape):
        return index_map
    tables = index_map.tables[:n] if index_map.tables is not None else None
    return Layout(index_map.shape[:n], index_map.strides[:n], index_map.offset, tables, index_map.base)


def along_last(shape: tuple[int, ...], index_map: Layout) -> int | None:
    """The axis of an index map that runs along the last axis of a node of this shape, other than those of size 1, or None."""
    size = next((n for n in reversed(shape) if n != 1), 1)
    for axis, (n, stride) in enumerate(zip(index_map.shape, index_map.strides, strict=True)):
        if n != 1 and 0 < abs(stride) < size:
            return axis
    return None


def further_shape(node: Node) -> tuple[int, ...]:
    """The last axes of what a reduction or scan runs over, or a gather chooses from: those that it has no more itself."""
    source = node.layouts[0]
    assert source is not None
    return source.shape[len(node.shape) :]


def inside(index_map: Layout, extents: tuple[int, ...]) -> Layout:
    """The index map of the first source of a reduction or gather, with axes of `extents` inside the loops of `index_map`."""
    inner = Layout.contiguous(extents)
    if index_map.tables is not None:
        raise AssertionError("no reduction or gather is read through a gathered index map: its node is computed first")
    strides = tuple(s * inner.size for s in index_map.strides) + inner.strides
    return Layout(index_map.shape + extents, strides, index_map.offset * inner.size)


def source_index_maps(node: Node, index_map: Layout) -> list[tuple[Node, Layout]]:
    """The nodes that an elementwise node, a reduction or a gather at `index_map` reads, each with its own index map: the same object for
    the same recipe and index map, where it begins at 0, as large graphs repeat themselves, and are gone through again and again.
    """
    known = _maps.get((id(index_map), node.recipe))
    maps = _maps_of(node, index_map) if known is None else known[1]
    found = []
    for k, (source, form, layout, where) in enumerate(zip(node.sources, node.recipe.forms, node.layouts, maps, strict=True)):
        if type(source) is Node:
            assert form is not None and layout is not None
            if where is None:
                where = (index_map if k else _of_first(node, index_map)).over(layout)
            elif layout is not form.layout:
                where = where.at(where.offset + layout.offset)
            found.append((source, where))
    return found


def _maps_of(node: Node, index_map: Layout) -> list[Layout | None]:
    """These index maps, if what is read begins at 0; None in place of one with tables, or that is a chain, which is not remembered."""
    maps = list[Layout | None]()
    for k, form in enumerate(node.recipe.forms):
        where = None if form is None else (index_map if k else _of_first(node, index_map)).over(form.layout)
        maps.append(where if where is not None and where.tables is None and where.base is None else None)
    if not node.recipe.passing:
        _maps.keep((id(index_map), node.recipe), (index_map, maps))
    return maps


def _of_first(node: Node, index_map: Layout) -> Layout:
    """The index map in whose loops the first source is read."""
    if isinstance(node.op, Reduction):
        return inside(outermost(index_map), further_shape(node))
    return inside(index_map, further_shape(node)) if isinstance(node.op, Gather) else index_map
