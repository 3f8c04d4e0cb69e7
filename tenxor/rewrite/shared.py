"""Transposed copies of small operands shared by the results of a short reduction.

An example is a few centres compared with many points, coordinate by coordinate. Neighbouring results read such an operand with a large
stride. With the copy, a vector is loaded at once.
"""

from __future__ import annotations

from ..layout import Layout
from ..node import Node
from .making import Term, made_at, renewed, times_read, turned

MIN_READS = 64  # minimal number of reads of each element for which a copy pays
MAX_SCALAR_RESULTS = 4  # maximal number of neighbouring results without lanes along them


def with_shared_turned(new_nodes: list[Node], source: Node, layout: Layout, result_ndim: int) -> Term:
    """Return an operand of a reduction, with shared operands copied, and the layout for reading it.

    The reduction runs over every axis except the first `result_ndim`. New nodes are
    appended to `new_nodes`. Return `source` and `layout` themselves if there is nothing to copy.
    """
    recomputed: list[Node] = []
    made_at(recomputed, source, layout)
    copies: dict[Term, Term] = {}
    replacements: dict[Node, Node] = {}
    copy_nodes: list[Node] = []
    for node in recomputed:
        new_node = renewed(node, replacements)
        reads = list(zip(new_node.sources, new_node.layouts, strict=True))
        for k, (s, operand_layout) in enumerate(reads):
            if type(s) is Node and operand_layout is not None and _is_shared(operand_layout, result_ndim):
                if (s, operand_layout) not in copies:
                    copies[s, operand_layout] = turned(copy_nodes, s, operand_layout, result_ndim)
                reads[k] = copies[s, operand_layout]
        if copies:
            sources, layouts = zip(*reads, strict=True)
            new_node = Node.of(node.op, node.shape, node.dtype, sources, layouts)
        replacements[node] = new_node
    if not copies:
        return source, layout
    new_nodes += [*copy_nodes, *replacements.values()]
    return new_nodes[-1], Layout.contiguous(layout.shape)


def _is_shared(layout: Layout, result_ndim: int) -> bool:
    """Return whether many results read the same elements, with a larger stride between neighbouring results than inside a result."""
    if layout.base is not None or layout.tables is not None or not result_ndim or layout.shape[result_ndim - 1] <= MAX_SCALAR_RESULTS:
        return False
    strides = [abs(stride) for n, stride in zip(layout.shape[result_ndim:], layout.strides[result_ndim:], strict=True) if n > 1 and stride]
    return bool(strides) and abs(layout.strides[result_ndim - 1]) > min(strides) and times_read(layout, result_ndim) >= MIN_READS
