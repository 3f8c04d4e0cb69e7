"""The reads of a node, seen from the loops of the kernel that computes the node. An *index map* is a layout over the extents of the loops
around a read, outermost first. The values of an index map are flat indices: the element of a node, in row-major order, needed in each
iteration.

So reading through a view is composition of layouts: the index map of a source is `index_map.over(layout)`. A *context* is the loops around
an expression.
"""

from __future__ import annotations

from math import prod

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from ..graph.node import Gather, Node
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.reductions import Reduction

MAX_VISITED_NODES = 64  # nodes visited to find the order of loops
MAX_CACHED_MAPS = 1 << 12
_POW = OPS["pow"]
# Index maps of sources, by the id of the reader's index map and the reader's recipe. An entry holds this index map, so the id stays valid.
_map_cache: BoundedCache[tuple[Layout, list[Layout | None]]] = register(
    "index maps", "the index maps of the sources of a node, by index map and recipe"
)(BoundedCache(MAX_CACHED_MAPS))


def has_checked_exponents(node: Node) -> bool:
    """Return whether `node` raises integers to a tensor of signed integer powers, so that its kernel must report negative exponents."""
    if node.op is not _POW or not node.dtype.is_integer:
        return False
    exponents = node.sources[1]
    return type(exponents) is Node and exponents.dtype.kind == "int"


def can_fail(node: Node) -> bool:
    """Return whether the kernel of `node` may find an erroneous value: an index out of range or a negative exponent."""
    return type(node.op) is Gather or has_checked_exponents(node)


def make_identity_map(node: Node) -> Layout:
    """Return the index map of a node in loops over its own elements: the contiguous layout of its shape, with flat indices as values."""
    return Layout.contiguous(node.shape)


def get_root_index_map(root: Node) -> Layout:
    """Return the index map of a kernel's root: a layout over the loops of the kernel, whose values are flat indices of `root`.

    The loops are the axes of `root`, usually in order. If an elementwise `root` reads column reductions (`is_column_reduction`), the axes
    of `root` on which the reductions depend are outermost. So each reduction runs once for the loops inside. With a reduction of another
    kind below the root, all axes keep their order. The search ends after `MAX_VISITED_NODES` nodes.
    """
    index_map = make_identity_map(root)
    if not isinstance(root.op, Op) or len(root.shape) < 2 or not _reads_a_reduction(root):
        return index_map
    needed_axes: set[int] = set()
    stack, visited_count = source_index_maps(root, index_map), 0
    while stack and visited_count < MAX_VISITED_NODES:
        node, node_map = stack.pop()
        visited_count += 1
        if node.buffer is None and node_map.base is None and node_map.tables is None:
            if isinstance(node.op, Op):
                stack += source_index_maps(node, node_map)
            elif isinstance(node.op, Reduction):
                if not is_column_reduction(node):
                    return index_map
                needed_axes.update(a for a, stride in enumerate(node_map.strides) if stride and node_map.shape[a] != 1)
    inner_axes = [a for a in range(len(root.shape)) if a not in needed_axes]
    return index_map.permute((*sorted(needed_axes), *inner_axes)) if needed_axes and inner_axes else index_map


def _reads_a_reduction(root: Node) -> bool:
    """Return whether `root` reads a pending reduction, directly or through pending elementwise nodes."""
    stack, visited = [root], {root}
    while stack:
        for source in stack.pop().sources:
            if type(source) is Node and source.buffer is None and source not in visited:
                if isinstance(source.op, Reduction):
                    return True
                visited.add(source)
                if isinstance(source.op, Op):
                    stack.append(source)
    return False


def is_column_reduction(node: Node) -> bool:
    """Return whether neighbouring results of the reduction `node` are nearer in memory than the elements combined in a single result.

    Neighbouring results are those along the last axis of results longer than 1, in the layout of the source. Return False for a single
    result, or if no reduced axis has more than one index.
    """
    layout, result_ndim = node.layouts[0], len(node.shape)
    assert layout is not None
    strides = [abs(s) for s, n in zip(layout.strides, layout.shape, strict=True) if n != 1]
    reduced_strides = [abs(s) for s, n in zip(layout.strides[result_ndim:], layout.shape[result_ndim:], strict=True) if n != 1]
    return len(strides) > len(reduced_strides) > 0 and strides[-len(reduced_strides) - 1] < min(reduced_strides)


def count_needed_loops(index_map: Layout) -> int:
    """Return how many of the outermost loops contain every loop on which `index_map`, a layout over nested loops, depends.

    The answer is 0 if the index is always the same. If a loop has no iterations, every loop counts, because the empty loop must contain
    every read.
    """
    if 0 in index_map.shape:  # a loop without iterations must contain every read
        return len(index_map.shape)
    for axis in range(len(index_map.shape) - 1, -1, -1):
        gathered = index_map.tables is not None and index_map.tables[axis] is not None
        if index_map.shape[axis] > 1 and (gathered or index_map.strides[axis] != 0):
            return axis + 1
    return 0


def count_hoisted_runs(index_map: Layout) -> int:
    """Return how often a value is computed if it is read at `index_map`, and moves out of the loops it does not need.

    `index_map` is a layout over nested loops. The result is the product of the extents of the remaining loops (`count_needed_loops`).
    """
    return prod(index_map.shape[: count_needed_loops(index_map)])


def hoist_index_map(index_map: Layout) -> Layout:
    """Return `index_map`, a layout over nested loops, without the inner loops on which no index depends.

    The result is the same object if the innermost loop is needed.
    """
    n = count_needed_loops(index_map)
    if n == len(index_map.shape):
        return index_map
    tables = index_map.tables[:n] if index_map.tables is not None else None
    return Layout(index_map.shape[:n], index_map.strides[:n], index_map.offset, tables, index_map.base)


def find_last_axis(shape: tuple[int, ...], index_map: Layout) -> int | None:
    """Return the first axis of `index_map` that moves along the last axis of a node of `shape`, as an axis number, or None.

    An axis moves along the last axis of the node if the step is not 0, but smaller than the size of this last axis. Axes of size 1 are
    ignored, in `shape` too. The result is None, for example, if the node is broadcast along every loop.
    """
    size = next((n for n in reversed(shape) if n != 1), 1)
    for axis, (n, stride) in enumerate(zip(index_map.shape, index_map.strides, strict=True)):
        if n != 1 and 0 < abs(stride) < size:
            return axis
    return None


def get_inner_shape(node: Node) -> tuple[int, ...]:
    """Return the sizes of the reduced axes of a reduction or scan `node`, or of the indexed axes of a gather; an empty tuple for an
    elementwise node.

    The reduced or indexed axes are the last axes in the layout of the first source. The first axes of this layout, as many as `node` has,
    are the axes of the results.
    """
    source = node.layouts[0]
    assert source is not None
    return source.shape[len(node.shape) :]


def add_inner_axes(index_map: Layout, extents: tuple[int, ...]) -> Layout:
    """Return `index_map` with reduced or indexed axes of `extents` inside: flat indices of results become positions in the layout of
    the first source, in row-major order.

    `index_map` is the index map of a reduction or gather, and must be a single view without tables; tables raise AssertionError.
    `result.over(layout)` has the flat indices of source elements: `layout` has the axes of the result, then the axes of `extents`.
    """
    inner = Layout.contiguous(extents)
    if index_map.tables is not None:
        raise AssertionError("no reduction or gather is read through a gathered index map: its node is computed first")
    strides = tuple(s * inner.size for s in index_map.strides) + inner.strides
    return Layout(index_map.shape + extents, strides, index_map.offset * inner.size)


def source_index_maps(node: Node, index_map: Layout) -> list[tuple[Node, Layout]]:
    """Return the nodes read by an elementwise node, reduction or gather, which is itself read at `index_map`, each with its index map.

    An index map is a layout over the loops around a read, whose values are flat indices of the node. Scalar sources are left out; a node
    read twice is listed twice. The result for a recipe and an index map is cached, because large graphs repeat themselves and are traversed
    often. Where a source begins at offset 0, its index map is the same object each time.
    """
    entry = _map_cache.get((id(index_map), node.recipe))
    maps = _compute_maps(node, index_map) if entry is None else entry[1]
    source_maps = []
    for k, (source, layout_key, layout, source_map) in enumerate(
        zip(node.sources, node.recipe.layout_keys, node.layouts, maps, strict=True)
    ):
        if type(source) is Node:
            assert layout_key is not None and layout is not None
            if source_map is None:
                source_map = (index_map if k else _get_first_map(node, index_map)).over(layout)
            elif layout is not layout_key.layout:
                source_map = source_map.at(source_map.offset + layout.offset)
            source_maps.append((source, source_map))
    return source_maps


def _compute_maps(node: Node, index_map: Layout) -> list[Layout | None]:
    """Return the index maps of the sources of `node`, read at `index_map`, as if each source began at offset 0: an entry for each source.

    The maps are cached unless the recipe is uncacheable. An entry is None for a scalar, and where the map of the source has tables or is a
    view chain.
    """
    maps = list[Layout | None]()
    for k, layout_key in enumerate(node.recipe.layout_keys):
        source_map = None if layout_key is None else (index_map if k else _get_first_map(node, index_map)).over(layout_key.layout)
        maps.append(source_map if source_map is not None and source_map.tables is None and source_map.base is None else None)
    if not node.recipe.is_uncacheable:
        _map_cache.put((id(index_map), node.recipe), (index_map, maps))
    return maps


def _get_first_map(node: Node, index_map: Layout) -> Layout:
    """Return the index map of the loops around the read of the first source by `node`, before the layout of this source is applied.

    `node` itself is read at `index_map`. For a reduction, the loops are those needed by `index_map`, and the reduced axes inside. For a
    gather, the indexed axes come inside. For an elementwise node, the result is `index_map` itself.
    """
    if isinstance(node.op, Reduction):
        return add_inner_axes(hoist_index_map(index_map), get_inner_shape(node))
    return add_inner_axes(index_map, get_inner_shape(node)) if isinstance(node.op, Gather) else index_map
