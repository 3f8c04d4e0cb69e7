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

from ..graph.node import EMPTY, STORE, Node, is_store
from ..layout import Layout, Table
from ..ops import Op
from .graph_builder import MAX_RECOMPUTED_NODES as MAX_RECOMPUTED_NODES
from .graph_builder import reads_through_table, recompute_at, replace_sources

MAX_PIECES = 16  # maximal number of pieces
MIN_PIECE_ELEMENTS = 1 << 12  # minimal elements of a piece, on average
PieceRanges = list[list[tuple[int, int]]]  # for each axis, the begin and end of each piece


def split_by_table_runs(order: Sequence[Node], results: Collection[Node] = ()) -> tuple[list[Node], dict[Node, Node]]:
    """Return the nodes of `order`, with nodes split into pieces at breaks of offset tables, and the replacements of changed nodes.

    An elementwise node with a read through an offset table along the last axis is split into pieces. The table has a constant step within
    each piece, so the piece is loaded as vectors, not element by element. `order` lists the nodes, sources first, as does the result;
    `results` are the nodes with values asked for. A replacement has the shape of the node, and keeps the mark `is_stored`.
    """
    clusters = _Clusters(order, results)
    new_order: list[Node] = []
    replacements: dict[Node, Node] = {}
    for node in order:
        piece_nodes = clusters.make_pieces(node) or [node]
        for piece_node in piece_nodes:
            new_order.append(replace_sources(piece_node, replacements))
            if new_order[-1] is not piece_node:
                replacements[piece_node] = new_order[-1]
        if piece_nodes[-1] is not node:
            replacements[node] = new_order[-1]
            new_order[-1].is_stored = node.is_stored
    return new_order, replacements


class _Clusters:
    """Clusters of elementwise nodes of `order` connected by contiguous reads.

    A cluster ends at a node in `results`, or at a node read in a different way. A cluster is recomputed as a whole in each piece. In a
    large cluster, or a part of another kernel, for example of a sum, only the nodes with reads through tables are computed in pieces.
    """

    def __init__(self, order: Sequence[Node], results: Collection[Node]) -> None:
        self.elementwise_nodes = {node for node in order if type(node.op) is Op}
        contiguous_sources, other_sources, kernel_sources = set[Node](), set[Node](), set[Node]()
        for node in order:
            for source, layout in zip(node.sources, node.layouts, strict=True):
                if source not in self.elementwise_nodes:
                    continue
                is_contiguous = node in self.elementwise_nodes and layout == Layout.contiguous(source.shape) and node.shape == source.shape
                (contiguous_sources if is_contiguous else other_sources).add(source)
                if node not in self.elementwise_nodes and not is_store(node.op):
                    kernel_sources.add(source)
        self.end_nodes = {
            node
            for node in self.elementwise_nodes
            if node.is_stored or node in results or node in other_sources or node not in contiguous_sources
        }
        # The pieces of each split node, and the nodes not recomputed per piece
        self.piece_ranges: dict[Node, tuple[PieceRanges, Set[Node]]] = {}
        table_readers = set[Node]()
        for node in self.end_nodes:
            cluster = self._collect_cluster(node)
            by_tables = {member for member in cluster if reads_through_table(member)}
            boxes = (
                _choose_piece_ranges(node.shape, cluster)
                if by_tables and node not in kernel_sources and len(cluster) <= MAX_RECOMPUTED_NODES
                else None
            )
            if boxes is None:
                table_readers |= by_tables
            else:
                self.piece_ranges[node] = boxes, self.end_nodes
        for node in table_readers.difference(self.piece_ranges):
            boxes = _choose_piece_ranges(node.shape, [node])
            if boxes is not None:
                self.piece_ranges[node] = boxes, self.elementwise_nodes

    def _collect_cluster(self, end: Node) -> set[Node]:
        """Return the nodes of the cluster that ends at the node `end`, with the node itself.

        The cluster consists of the elementwise nodes read contiguously by `end`, directly or through nodes of the cluster. Nodes at which
        another cluster ends are left out.
        """
        cluster, stack = {end}, [end]
        while stack:
            reader = stack.pop()
            for source, layout in zip(reader.sources, reader.layouts, strict=True):
                if (
                    source in self.elementwise_nodes
                    and source not in self.end_nodes
                    and source not in cluster
                    and layout == Layout.contiguous(end.shape)
                ):
                    cluster.add(source)
                    stack.append(source)
        return cluster

    def make_pieces(self, node: Node) -> list[Node] | None:
        """Return the nodes to compute `node` piece by piece: an empty node, and for each piece its computation and its store into the
        result.

        The nodes are listed sources first, with the replacement of `node` last. Return None if the node is not split.
        """
        if node not in self.piece_ranges:
            return None
        (boxes, excluded), layout, flat_layout = self.piece_ranges[node], Layout.contiguous(node.shape), Layout.contiguous((node.size,))
        new_nodes = [Node.of(EMPTY, node.shape, node.dtype)]
        for box in product(*boxes):
            piece_layout, previous = layout.index([slice(*bounds) for bounds in box]), new_nodes[-1]
            piece = recompute_at(new_nodes, node, piece_layout, excluded)
            new_nodes.append(
                Node.of(
                    STORE, flat_layout.shape, node.dtype, (previous, piece), (flat_layout, Layout.contiguous(piece.shape)), piece_layout
                )
            )
        return new_nodes


def _choose_piece_ranges(shape: tuple[int, ...], nodes: Iterable[Node]) -> PieceRanges | None:
    """Return the pieces within which the tables of the nodes have constant steps: for each axis of `shape`, the begin and end of each
    range.

    A piece is one range of each axis. `nodes` have the shape `shape`. Return None if the last axis is not split, for more than `MAX_PIECES`
    pieces, and for pieces of fewer than `MIN_PIECE_ELEMENTS` elements on average. An axis whose tables break more often is not split.
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
    """Return the indices of `table` whose offset is not the offset before plus the most common step, in ascending order.

    At most `MAX_PIECES + 1` indices are returned: so many mean that the axis is not split. The table must have at least two offsets.
    """
    steps, counts = np.unique(np.diff(table.offsets), return_counts=True)
    jumps = np.diff(table.offsets) != steps[counts.argmax()]
    breaks: list[int] = (np.flatnonzero(jumps)[: MAX_PIECES + 1] + 1).tolist()
    return breaks
