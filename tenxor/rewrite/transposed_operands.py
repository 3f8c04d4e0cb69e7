"""Transposed copies of small operands shared by the results of a short reduction.

An example is a few centres compared with many points, coordinate by coordinate. Neighbouring results read such an operand with a large
stride. With the copy, a vector is loaded at once.
"""

from __future__ import annotations

from ..graph.node import Node
from ..layout import Layout
from .graph_builder import Term, append_transposed_copy, count_sharing_results, recompute_at, replace_sources

MIN_SHARED_READS = 64  # minimal reads of an element for a copy to pay
MAX_SCALAR_RESULTS = 4  # maximal number of neighbouring results without lanes along them


def copy_shared_operands(new_nodes: list[Node], source: Node, layout: Layout, result_ndim: int) -> Term:
    """Return a node and a layout to replace the operand `source` of a reduction, read through `layout`, with shared operands copied.

    `source` is a pending elementwise node. Many results read the same elements of a shared operand, with a larger stride between
    neighbouring results than inside a result. The copy is transposed: neighbouring results read neighbouring elements. The reduction runs
    over every axis except the first `result_ndim`. New nodes are appended to `new_nodes`; the layout returned has the shape of `layout`.
    Without shared operands, return `source` and `layout` themselves, and append nothing.
    """
    recomputed: list[Node] = []
    recompute_at(recomputed, source, layout)
    copies: dict[Term, Term] = {}
    replacements: dict[Node, Node] = {}
    copy_nodes: list[Node] = []
    for node in recomputed:
        new_node = replace_sources(node, replacements)
        reads = list(zip(new_node.sources, new_node.layouts, strict=True))
        for k, (s, operand_layout) in enumerate(reads):
            if type(s) is Node and operand_layout is not None and _needs_transposed_copy(operand_layout, result_ndim):
                if (s, operand_layout) not in copies:
                    copies[s, operand_layout] = append_transposed_copy(copy_nodes, s, operand_layout, result_ndim)
                reads[k] = copies[s, operand_layout]
        if copies:
            sources, layouts = zip(*reads, strict=True)
            new_node = Node.of(node.op, node.shape, node.dtype, sources, layouts)
        replacements[node] = new_node
    if not copies:
        return source, layout
    new_nodes += [*copy_nodes, *replacements.values()]
    return new_nodes[-1], Layout.contiguous(layout.shape)


def _needs_transposed_copy(layout: Layout, result_ndim: int) -> bool:
    """Return whether `MIN_SHARED_READS` or more results share each element read through `layout`, while neighbouring results are further
    apart than terms of a result.

    The first `result_ndim` axes of `layout` are axes of results, and the rest is reduced. Neighbouring results are those along the last
    axis of results. View chains, tables, and at most `MAX_SCALAR_RESULTS` neighbouring results give False.
    """
    if layout.base is not None or layout.tables is not None or not result_ndim or layout.shape[result_ndim - 1] <= MAX_SCALAR_RESULTS:
        return False
    strides = [abs(stride) for n, stride in zip(layout.shape[result_ndim:], layout.strides[result_ndim:], strict=True) if n > 1 and stride]
    return (
        bool(strides)
        and abs(layout.strides[result_ndim - 1]) > min(strides)
        and count_sharing_results(layout, result_ndim) >= MIN_SHARED_READS
    )
