"""Splitting of elementwise nodes by runs of offset tables, for example of rolled tensors.

A node read through a table along the last axis is computed in pieces, so that the table has a constant step within each piece. Then vectors
are loaded, instead of gathered element by element. Pieces also end at breaks of tables along earlier axes. A table along an earlier axis
alone does not split a node: it only gives the beginnings of rows, at almost no cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from itertools import pairwise, product
from math import prod

import numpy as np

from ..layout import Layout, Table
from ..node import EMPTY, STORE, Node, stores
from ..ops import Op
from .making import MOST as MAX_RECOMPUTED_NODES
from .making import made_at, reads_by_tables, renewed

MAX_PIECES = 16  # maximal number of pieces
MIN_PIECE_ELEMENTS = 1 << 12  # minimal elements of a piece, on average
Boxes = list[list[tuple[int, int]]]  # for each axis, the begin and end of each piece


def in_pieces(order: Sequence[Node], results: Collection[Node] = ()) -> tuple[list[Node], dict[Node, Node]]:
    """Return the nodes in order, with nodes split into pieces, and the replacements of changed nodes."""
    clusters = _Clusters(order, results)
    new_order: list[Node] = []
    replacements: dict[Node, Node] = {}
    for node in order:
        piece_nodes = clusters.pieces_of(node) or [node]
        for piece_node in piece_nodes:
            new_order.append(renewed(piece_node, replacements))
            if new_order[-1] is not piece_node:
                replacements[piece_node] = new_order[-1]
        if piece_nodes[-1] is not node:
            replacements[node] = new_order[-1]
            new_order[-1].stored = node.stored
    return new_order, replacements


class _Clusters:
    """Clusters of elementwise nodes connected by contiguous reads. A cluster ends at a result, or at a node read in a different way.

    A cluster is recomputed as a whole in each piece. In a large cluster, or a part of another kernel, for example of a sum, only the nodes
    with reads through tables are computed in pieces.
    """

    def __init__(self, order: Sequence[Node], results: Collection[Node]) -> None:
        self.elementwise = {node for node in order if type(node.op) is Op}
        contiguous_sources, other_sources, kernel_sources = set[Node](), set[Node](), set[Node]()
        for node in order:
            for source, layout in zip(node.sources, node.layouts, strict=True):
                if source not in self.elementwise:
                    continue
                is_contiguous = node in self.elementwise and layout == Layout.contiguous(source.shape) and node.shape == source.shape
                (contiguous_sources if is_contiguous else other_sources).add(source)
                if node not in self.elementwise and not stores(node.op):
                    kernel_sources.add(source)
        self.ends = {
            node for node in self.elementwise if node.stored or node in results or node in other_sources or node not in contiguous_sources
        }
        self.boxes: dict[Node, tuple[Boxes, Set[Node]]] = {}  # the pieces of each split node, and the nodes not recomputed per piece
        table_readers = set[Node]()
        for node in self.ends:
            cluster = self._collect_cluster(node)
            by_tables = {member for member in cluster if reads_by_tables(member)}
            boxes = (
                _choose_boxes(node.shape, cluster)
                if by_tables and node not in kernel_sources and len(cluster) <= MAX_RECOMPUTED_NODES
                else None
            )
            if boxes is None:
                table_readers |= by_tables
            else:
                self.boxes[node] = boxes, self.ends
        for node in table_readers.difference(self.boxes):
            boxes = _choose_boxes(node.shape, [node])
            if boxes is not None:
                self.boxes[node] = boxes, self.elementwise

    def _collect_cluster(self, end: Node) -> set[Node]:
        """Return the nodes of the cluster that ends at a node."""
        cluster, stack = {end}, [end]
        while stack:
            reader = stack.pop()
            for source, layout in zip(reader.sources, reader.layouts, strict=True):
                if (
                    source in self.elementwise
                    and source not in self.ends
                    and source not in cluster
                    and layout == Layout.contiguous(end.shape)
                ):
                    cluster.add(source)
                    stack.append(source)
        return cluster

    def pieces_of(self, node: Node) -> list[Node] | None:
        """Return the nodes to compute a node piece by piece, with the replacement last; None if the node is not split."""
        if node not in self.boxes:
            return None
        (boxes, excluded), layout, flat_layout = self.boxes[node], Layout.contiguous(node.shape), Layout.contiguous((node.size,))
        new_nodes = [Node.of(EMPTY, node.shape, node.dtype)]
        for box in product(*boxes):
            piece_layout, previous = layout.index([slice(*bounds) for bounds in box]), new_nodes[-1]
            piece = made_at(new_nodes, node, piece_layout, excluded)
            new_nodes.append(
                Node.of(
                    STORE, flat_layout.shape, node.dtype, (previous, piece), (flat_layout, Layout.contiguous(piece.shape)), piece_layout
                )
            )
        return new_nodes


def _choose_boxes(shape: tuple[int, ...], nodes: Iterable[Node]) -> Boxes | None:
    """Return the pieces within which the tables of the nodes have constant steps, as ranges along each axis.

    Return None if the last axis is not split, or if pieces are too many or too small. Earlier axes whose tables break too often are not
    split.
    """
    bounds = [{0, n} for n in shape]
    for layout in [layout for node in nodes for layout in node.layouts if layout is not None and layout.base is None]:
        for axis, table in enumerate(layout.tables or ()):
            bounds[axis].update(() if table is None else _find_breaks(table))
    boxes = [
        list(pairwise(sorted(axis_bounds if len(axis_bounds) <= MAX_PIECES + 1 else {0, n})))
        for axis_bounds, n in zip(bounds, shape, strict=True)
    ]
    return boxes if len(boxes[-1]) > 1 and prod(map(len, boxes)) <= min(MAX_PIECES, prod(shape) // MIN_PIECE_ELEMENTS) else None


def _find_breaks(table: Table) -> list[int]:
    """Return the indices at which a table departs from the most common step, at most `MAX_PIECES + 1` indices."""
    steps, counts = np.unique(np.diff(table.offsets), return_counts=True)
    jumps = np.diff(table.offsets) != steps[counts.argmax()]
    breaks: list[int] = (np.flatnonzero(jumps)[: MAX_PIECES + 1] + 1).tolist()
    return breaks
