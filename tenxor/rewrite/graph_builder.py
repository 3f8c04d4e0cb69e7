"""Builders of replacement nodes. Each appends new nodes to the list `new_nodes`, sources first; the last node of a finished list is the
result of the rewrite. The argument `result_ndim` is the number of axes of a reduction's result: the first axes of the layout that the
reduction reads. The remaining axes are reduced. A source is an operand of a node. A node marked `is_stored` gets separate memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import prod
from typing import TypeGuard

from ..dtypes import DType
from ..graph.node import Node, Scalar
from ..layout import Layout, Table, memory_order
from ..ops import OPS, Op
from ..ops.reductions import Reduction

MAX_RECOMPUTED_NODES = 32  # limit on the operations recomputed for a part of a result
Term = tuple[Node, Layout]  # a node with the layout of a read
_CAST, _POSITIVE = OPS["cast"], OPS["positive"]


def append_reduction(new_nodes: list[Node], reduction: Reduction, source: Node, layout: Layout, result_ndim: int) -> Node:
    """Append a node to `new_nodes`: `reduction` of the node `source`, read through `layout`. Return the new node.

    The reduction runs over every axis of `layout` except the first `result_ndim`.
    """
    shape, dtype = layout.shape[:result_ndim], reduction.result_dtype(source.dtype)
    new_nodes.append(Node.of(reduction, shape, dtype, (source,), (layout,)))
    return new_nodes[-1]


def append_elementwise(new_nodes: list[Node], op: Op, dtype: DType, *terms: Term) -> Term:
    """Append a node to `new_nodes`: the elementwise operation `op` on `terms`, pairs of a node and a layout, of equal shape.

    Return the new node and a contiguous layout to read the node. `dtype`, the dtype of the result, is not checked.
    """
    sources, layouts = zip(*terms, strict=True)
    shape = layouts[0].shape
    new_nodes.append(Node.of(op, shape, dtype, sources, layouts))
    return new_nodes[-1], Layout.contiguous(shape)


def append_contiguous(new_nodes: list[Node], op: Op, *nodes: Node) -> Node:
    """Append a node to `new_nodes`: the elementwise operation `op` on `nodes` of equal shape and dtype, read contiguously.

    Return the new node, of the same shape and dtype.
    """
    return append_elementwise(new_nodes, op, nodes[0].dtype, *[(node, Layout.contiguous(node.shape)) for node in nodes])[0]


def append_cast(new_nodes: list[Node], dtype: DType, source: Node, layout: Layout) -> Term:
    """Append a node to `new_nodes`: the cast to `dtype` of the node `source`, read through `layout`.

    Return the new node, and a layout for the node in the shape of `layout`. The new node has the axes in the order of their strides in
    `layout`. For a view chain or tables, it has the axis order of `layout`.
    """
    order = memory_order([layout]) or tuple(range(layout.ndim))
    permuted = layout.permute(order)
    new_nodes.append(Node.of(_CAST, permuted.shape, dtype, (source,), (permuted,)))
    return new_nodes[-1], Layout.contiguous(permuted.shape).permute([order.index(axis) for axis in range(len(order))])


def count_sharing_results(side: Layout, result_ndim: int) -> int:
    """Return how many results share each element of an operand read through `side`; 1 for a view chain.

    The first `result_ndim` axes are axes of results; the number is the product of the sizes with stride 0. An axis with a table of offsets
    counts as shared, as its stride is 0.
    """
    if side.base is not None:
        return 1
    return prod([n for n, stride in zip(side.shape[:result_ndim], side.strides, strict=False) if not stride])


def append_transposed_copy(new_nodes: list[Node], source: Node, layout: Layout, result_ndim: int) -> Term:
    """Append a stored copy of `source`, read through `layout`, to `new_nodes`. In memory, the first `result_ndim` axes of `layout` come
    last.

    Return the copy, marked `is_stored`, and a layout for the copy in the shape of `layout`. Axes with stride 0 are not copied, and keep
    stride 0. `layout` must be a single view without tables.
    """
    axes = [a for a in (*range(result_ndim, layout.ndim), *range(result_ndim)) if layout.strides[a]]
    copy_layout = layout.permute((*axes, *(a for a in range(layout.ndim) if a not in axes)))
    copy_layout = copy_layout.index((slice(None),) * len(axes) + (0,) * (layout.ndim - len(axes)))
    new_nodes.append(Node.of(_POSITIVE, copy_layout.shape, source.dtype, (source,), (copy_layout,)))
    new_nodes[-1].is_stored = True  # computed on its own
    strides = [0] * layout.ndim
    for a, stride in zip(axes, Layout.contiguous(copy_layout.shape).strides, strict=True):
        strides[a] = stride
    return new_nodes[-1], Layout(layout.shape, tuple(strides))


def replace_sources(node: Node, replacements: Mapping[Node, Node]) -> Node:
    """Return a node with sources replaced by `replacements`; the node itself if no source is in the map.

    A replacement must have the shape and dtype of the source, as the recipe stays. A new node keeps the mark `is_stored`.
    """
    if not replacements or replacements.keys().isdisjoint(node.sources):
        return node
    new_node = Node(node.recipe, tuple([replacements.get(s, s) if type(s) is Node else s for s in node.sources]), node.offsets)
    new_node.is_stored = node.is_stored
    return new_node


def get_last_table(layout: Layout | None) -> Table | None:
    """Return the offset table along the last axis of `layout`; None without a layout or a table, or for a view chain."""
    return layout.tables[-1] if layout is not None and layout.tables and layout.base is None else None


def reads_through_table(node: Node) -> bool:
    """Return whether `node` reads a source through an offset table along the last axis, as of a rolled tensor. A read through a view chain
    does not count.
    """
    return any([layout_key is not None and get_last_table(layout_key.layout) is not None for layout_key in node.recipe.layout_keys])


def is_recomputable(source: Node | Scalar, *op_types: type) -> TypeGuard[Node]:
    """Return whether `source` is a pending node, not marked to be stored, of an elementwise operation or one of the classes `op_types`.

    A subclass does not count.
    """
    return type(source) is Node and source.buffer is None and not source.is_stored and type(source.op) in (Op, *op_types)


def recompute_at(new_nodes: list[Node], node: Node, part_layout: Layout, excluded: Set[Node] = frozenset()) -> Node:
    """Append nodes to `new_nodes` for the elementwise `node` at the elements selected by `part_layout` alone. Return the last node.

    `part_layout` has flat indices of `node` as values; the returned node has the shape of `part_layout`. Operands that are pending
    elementwise nodes are recomputed at the same elements, up to a limit of `MAX_RECOMPUTED_NODES` nodes, and otherwise read. Nodes in
    `excluded`, stored nodes and nodes read through view chains are not recomputed. Of `node` itself nothing of this is required.
    """
    copies: dict[tuple[Node, Layout], Node] = {}
    stack = [(node, part_layout, _compose_reads(node, part_layout))]
    while stack:
        reader, reader_layout, reads = stack[-1]
        missing = [
            (s, x)
            for s, x in reads
            if type(s) is Node and x is not None and x.base is None and is_recomputable(s) and s not in excluded and (s, x) not in copies
        ]
        if missing and len(copies) + len(stack) < MAX_RECOMPUTED_NODES:
            stack += [(s, x, _compose_reads(s, x)) for s, x in missing]
            continue
        stack.pop()
        if (reader, reader_layout) in copies:
            continue
        contiguous = Layout.contiguous(reader_layout.shape)
        operand_copies = [copies.get((s, x)) if type(s) is Node and x is not None else None for s, x in reads]
        sources = tuple([operand_copy or s for operand_copy, (s, _) in zip(operand_copies, reads, strict=True)])
        layouts = tuple([contiguous if operand_copy else x for operand_copy, (_, x) in zip(operand_copies, reads, strict=True)])
        new_nodes.append(Node.of(reader.op, reader_layout.shape, reader.dtype, sources, layouts))
        copies[reader, reader_layout] = new_nodes[-1]
    return copies[node, part_layout]


def _compose_reads(reader: Node, reader_layout: Layout) -> list[tuple[Node | Scalar, Layout | None]]:
    """Return the sources of `reader`, each with the layout through which it is read if only the elements `reader_layout` of `reader` are
    computed.

    `reader_layout` has flat indices of `reader` as values. The layout of a scalar is None.
    """
    return [
        (s, reader_layout.over(x) if type(s) is Node and x is not None else None)
        for s, x in zip(reader.sources, reader.layouts, strict=True)
    ]
