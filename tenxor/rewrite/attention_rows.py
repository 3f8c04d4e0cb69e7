"""The subgraph computed row by row on one side of a contraction, and its restriction to a range of rows. In attention, rows are queries,
the steps that the contraction sums are keys, and the subgraph computes the weights.
"""

from __future__ import annotations

from collections.abc import Set

from .._utils.records import NamedTuple
from ..graph.node import Node, Scalar
from ..layout import Layout
from ..ops.reductions import Reduction
from .graph_builder import is_recomputable

MAX_NODES = 64  # maximal number of nodes below a side

AxisMap = tuple[int, ...]  # for each axis of a node, the equal axis of the contraction, or -1
Region = dict[int, slice]  # slices by axis of the contraction


class RowSubgraph(NamedTuple):
    """The part of a graph that computes one factor of a contraction, the weights, row by row.

    `order` lists the nodes depending on the rows, sources first; the last two are the products and the contraction. `axes` gives for each
    node, and each axis of the node, the equal axis of the contraction, or -1. `outer_axes`, `row_axis` and `step_axis` are axes of the
    contraction: the axes before the rows, the rows, and the summed steps. `weights` is the node of the factor.
    """

    order: list[Node]
    axes: dict[Node, AxisMap]
    weights: Node
    outer_axes: AxisMap
    row_axis: int
    step_axis: int

    def find_reduced_axes(self, node: Node) -> AxisMap:
        """Return, for each axis that the reduction `node` runs over, the number of the equal axis of the contraction, or -1 if unknown.

        A node other than a reduction gives an empty tuple.
        """
        return _find_reduced_axes(node, self.axes)


def match_row_subgraph(node: Node, products: Node, side: int, shared: Set[Node]) -> RowSubgraph | None:
    """Return the subgraph that computes one factor of a contraction row by row from pairs of rows and steps, as in attention, or None.

    `node` sums the node `products` over the last axis, and `side` is the number of the computed factor, 0 or 1. The factor must be pending,
    with rows and steps as last axes. The opposite factor must not depend on the row. The subgraph must hold a reduction with a value per
    pair, as in `q @ k.T`, and a reduction over the steps. Nodes in `shared` (with several readers) stay outside if computed for every row
    anyway: depending on rows but not on steps.
    """
    weights, layout, other_layout = products.sources[side], products.layouts[side], products.layouts[1 - side]
    if layout is None or other_layout is None or not is_recomputable(weights, Reduction):
        return None
    step_axis = len(node.shape)
    axes = map_axes(layout, weights.shape)
    if axes is None or len(axes) < 2 or axes[-1] != step_axis or axes[-2] < 0:
        return None
    row_axis = axes[-2]
    if other_layout.strides[row_axis] or (other_layout.tables is not None and other_layout.tables[row_axis] is not None):
        return None
    node_axes = _collect_dependents(node, products, row_axis, step_axis, shared)
    if node_axes is None:
        return None
    order = _sort_sources_first(node, node_axes)
    reductions = [n for n in order if n is not node and isinstance(n.op, Reduction)]
    makes_pairs = any({row_axis, step_axis} <= set(node_axes[n]) for n in reductions)
    if not makes_pairs or not any(step_axis in _find_reduced_axes(n, node_axes) for n in reductions):
        return None
    return RowSubgraph(order, node_axes, weights, tuple([a for a in axes[:-2] if a >= 0]), row_axis, step_axis)


def _collect_dependents(node: Node, products: Node, row_axis: int, step_axis: int, shared: Set[Node]) -> dict[Node, AxisMap] | None:
    """Map each node that depends on the rows to its axes (`AxisMap`). Return None if the nodes are too many (`MAX_NODES`).

    `node` sums the node `products` along `step_axis`, and `row_axis` is the axis of the rows. Nodes read in two ways, with conflicting
    axes, are left out. Nodes in `shared` are entered only if they depend on the steps, or reduce the steps.
    """
    excluded: set[Node] = set()
    while len(excluded) <= MAX_NODES:
        node_axes: dict[Node, AxisMap] = {node: tuple(range(step_axis)), products: (*range(step_axis), step_axis)}
        conflict = _propagate(node_axes, products, excluded, row_axis, step_axis)
        if len(node_axes) > 2 * MAX_NODES:
            return None
        if conflict is not None:
            excluded.add(conflict)
            continue
        shared_nodes = {
            n for n in node_axes if n in shared and step_axis not in node_axes[n] and step_axis not in _find_reduced_axes(n, node_axes)
        }
        if not shared_nodes:
            return {n: axes for n, axes in node_axes.items() if row_axis in axes}
        excluded |= shared_nodes
    return None


def _propagate(node_axes: dict[Node, AxisMap], products: Node, excluded: set[Node], row_axis: int, step_axis: int) -> Node | None:
    """Record in `node_axes` the axes of the nodes below `products`, except nodes in `excluded`. `node_axes` must have the axes of
    `products`.

    Return a node read in two ways, with conflicting axes, which the caller excludes before the next try; None without such a node. Nodes
    without `row_axis` are recorded, but the nodes below them are not. `step_axis` is the summed axis of the contraction. The walk ends
    early with more than `2 * MAX_NODES` nodes.
    """
    stack = [products]
    while stack and len(node_axes) <= 2 * MAX_NODES:
        reader = stack.pop()
        reader_axes = (*node_axes[reader], *_find_reduced_axes(reader, node_axes))
        for source, layout in zip(reader.sources, reader.layouts, strict=True):
            if layout is None or source in excluded or not is_recomputable(source, Reduction):
                continue
            layout_axes = map_axes(layout, source.shape)
            axes = () if layout_axes is None else tuple([reader_axes[a] if a >= 0 else -1 for a in layout_axes])
            previous = node_axes.get(source, axes)
            # An axis unknown below a reduction (-1) is the axis of steps if a second reader says so.
            if len(axes) != len(previous) or any(a != b and {a, b} != {-1, step_axis} for a, b in zip(axes, previous, strict=True)):
                return source
            axes = tuple(map(max, axes, previous))
            if source not in node_axes or axes != previous:
                node_axes[source] = axes
                if row_axis in axes:
                    stack.append(source)
    return None


def _find_reduced_axes(node: Node, node_axes: dict[Node, AxisMap]) -> AxisMap:
    """Return, for each axis that the reduction `node` runs over, the number of the equal axis of the contraction, or -1 if unknown.

    `node_axes` maps nodes to their axes of the contraction (`AxisMap`); a source without an entry gives -1. A node other than a reduction
    gives an empty tuple.
    """
    if not isinstance(node.op, Reduction):
        return ()
    (source,), (layout,), result_ndim = node.sources, node.layouts, len(node.shape)
    assert type(source) is Node and layout is not None
    axes = [-1] * (layout.ndim - result_ndim)
    layout_axes = map_axes(layout, source.shape) if source in node_axes else None
    for a, axis in zip(layout_axes or (), node_axes.get(source, ()), strict=False):
        if a >= result_ndim:
            axes[a - result_ndim] = axis
    return tuple(axes)


def map_axes(layout: Layout, shape: tuple[int, ...]) -> AxisMap | None:
    """Return, for each axis of a node of shape `shape`, the number of the equal axis of `layout`, or -1 for an axis of size 1.

    `layout` reads the node. Return None unless `layout` reads each axis of the node whole and in order, once, and moves along no further
    axis.
    """
    if layout.base is not None or layout.tables is not None or layout.offset:
        return None
    layout_axes = []
    extents_and_strides = [*zip(layout.shape, layout.strides, strict=True)]
    for size, stride in zip(shape, Layout.contiguous(shape).strides, strict=True):
        matches = [a for a, extent_and_stride in enumerate(extents_and_strides) if extent_and_stride == (size, stride)]
        if size != 1 and len(matches) != 1:
            return None
        layout_axes.append(-1 if size == 1 else matches[0])
    if any(stride for a, (size, stride) in enumerate(extents_and_strides) if a not in layout_axes and size != 1):
        return None
    return tuple(layout_axes)


def _sort_sources_first(node: Node, node_axes: dict[Node, AxisMap]) -> list[Node]:
    """Return the nodes of `node_axes` from which `node` is computed, and `node` itself last, sources first. The paths must lie in
    `node_axes`.
    """
    order: dict[Node, None] = {}
    stack = [node]
    while stack:
        missing = [s for s in stack[-1].sources if type(s) is Node and s in node_axes and s not in order]
        if missing:
            stack += missing
        else:
            order[stack.pop()] = None
    return list(order)


def restrict_to_region(rows: RowSubgraph, region: Region, replacements: dict[Node, Node]) -> Node:
    """Return a copy of the contraction `rows` restricted to `region`, slices by axis of the contraction, with copies of the nodes in
    `rows.order`.

    An axis without a slice is whole. Nodes outside of the subgraph are shared, or replaced by their items in `replacements`, of equal
    shape. The copy is pending, and has the shape of the region.
    """
    copies: dict[Node, Node] = {}
    full = slice(None)
    for node in rows.order:
        slices = [region.get(axis, full) for axis in (*rows.axes[node], *rows.find_reduced_axes(node))]
        sources: list[Node | Scalar] = []
        layouts: list[Layout | None] = []
        for source, layout in zip(node.sources, node.layouts, strict=True):
            if type(source) is not Node or layout is None:
                sources.append(source)
                layouts.append(None)
            elif source in copies:
                sources.append(copies[source])
                layouts.append(_restrict_layout(layout, source.shape, copies[source].shape, slices))
            else:
                sources.append(replacements.get(source, source))
                layouts.append(layout.index(slices))
        shape = _restrict_shape(node.shape, slices)
        copies[node] = Node.of(node.op, shape, node.dtype, tuple(sources), tuple(layouts))
    return copies[rows.order[-1]]


def _restrict_layout(layout: Layout, old_shape: tuple[int, ...], new_shape: tuple[int, ...], slices: list[slice]) -> Layout:
    """Return the layout that reads the restricted copy of a source, given the `layout` that reads the whole source.

    The source has the shape `old_shape`, and the copy `new_shape`. `layout` must read the axes of the source whole and in order
    (`map_axes`). `slices` has a slice for each axis of `layout`, and the result is `layout` with the shape cut by the slices. The copy
    contains only the elements of the slices, contiguous, so the new layout begins at offset 0.
    """
    layout_axes = map_axes(layout, old_shape)
    assert layout_axes is not None
    strides = [0] * layout.ndim
    for a, stride in zip(layout_axes, Layout.contiguous(new_shape).strides, strict=True):
        if a >= 0:
            strides[a] = stride
    return Layout(_restrict_shape(layout.shape, slices), tuple(strides))


def _restrict_shape(shape: tuple[int, ...], slices: list[slice]) -> tuple[int, ...]:
    """Return `shape` after slicing each axis by the item of `slices`. Further slices are ignored."""
    return tuple([len(range(n)[axis_slice]) for n, axis_slice in zip(shape, slices, strict=False)])
