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
from .making import MOST as MOST_MADE
from .making import made_at, reads_by_tables, renewed

MOST = 16  # maximal number of pieces
LEAST = 1 << 12  # minimal elements of a piece, on average
Boxes = list[list[tuple[int, int]]]  # for each axis, the begin and end of each piece


def in_pieces(order: Sequence[Node], results: Collection[Node] = ()) -> tuple[list[Node], dict[Node, Node]]:
    """Return the nodes in order, with nodes split into pieces, and the replacements of changed nodes."""
    clusters = _Clusters(order, results)
    now: list[Node] = []
    instead: dict[Node, Node] = {}
    for node in order:
        made = clusters.pieces_of(node) or [node]
        for each in made:
            now.append(renewed(each, instead))
            if now[-1] is not each:
                instead[each] = now[-1]
        if made[-1] is not node:
            instead[node] = now[-1]
            now[-1].stored = node.stored
    return now, instead


class _Clusters:
    """Clusters of elementwise nodes connected by contiguous reads. A cluster ends at a result, or at a node read in a different way.

    A cluster is recomputed as a whole in each piece. In a large cluster, or a part of another kernel, for example of a sum, only the nodes
    with reads through tables are computed in pieces.
    """

    def __init__(self, order: Sequence[Node], results: Collection[Node]) -> None:
        self.elementwise = {node for node in order if type(node.op) is Op}
        within, others, inside = set[Node](), set[Node](), set[Node]()
        for node in order:
            for source, at in zip(node.sources, node.layouts, strict=True):
                if source not in self.elementwise:
                    continue
                as_it_lies = node in self.elementwise and at == Layout.contiguous(source.shape) and node.shape == source.shape
                (within if as_it_lies else others).add(source)
                if node not in self.elementwise and not stores(node.op):
                    inside.add(source)
        self.ends = {node for node in self.elementwise if node.stored or node in results or node in others or node not in within}
        self.boxes: dict[Node, tuple[Boxes, Set[Node]]] = {}  # the pieces of each split node, and the nodes not recomputed per piece
        reading = set[Node]()
        for node in self.ends:
            its = self._of(node)
            by_tables = {each for each in its if reads_by_tables(each)}
            boxes = _boxes(node.shape, its) if by_tables and node not in inside and len(its) <= MOST_MADE else None
            if boxes is None:
                reading |= by_tables
            else:
                self.boxes[node] = boxes, self.ends
        for node in reading.difference(self.boxes):
            boxes = _boxes(node.shape, [node])
            if boxes is not None:
                self.boxes[node] = boxes, self.elementwise

    def _of(self, end: Node) -> set[Node]:
        """Return the nodes of the cluster that ends at a node."""
        found, stack = {end}, [end]
        while stack:
            last = stack.pop()
            for source, at in zip(last.sources, last.layouts, strict=True):
                if source in self.elementwise and source not in self.ends and source not in found and at == Layout.contiguous(end.shape):
                    found.add(source)
                    stack.append(source)
        return found

    def pieces_of(self, node: Node) -> list[Node] | None:
        """Return the nodes to compute a node piece by piece, with the replacement last; None if the node is not split."""
        if node not in self.boxes:
            return None
        (boxes, others), whole, flat = self.boxes[node], Layout.contiguous(node.shape), Layout.contiguous((node.size,))
        made = [Node.of(EMPTY, node.shape, node.dtype)]
        for box in product(*boxes):
            place, so_far = whole.index([slice(*its) for its in box]), made[-1]
            piece = made_at(made, node, place, others)
            made.append(Node.of(STORE, flat.shape, node.dtype, (so_far, piece), (flat, Layout.contiguous(piece.shape)), place))
        return made


def _boxes(shape: tuple[int, ...], nodes: Iterable[Node]) -> Boxes | None:
    """Return the pieces within which the tables of the nodes have constant steps, as ranges along each axis.

    Return None if the last axis is not split, or if pieces are too many or too small. Earlier axes whose tables break too often are not
    split.
    """
    places = [{0, n} for n in shape]
    for at in [layout for node in nodes for layout in node.layouts if layout is not None and layout.base is None]:
        for axis, table in enumerate(at.tables or ()):
            places[axis].update(() if table is None else _breaks(table))
    found = [list(pairwise(sorted(its if len(its) <= MOST + 1 else {0, n}))) for its, n in zip(places, shape, strict=True)]
    return found if len(found[-1]) > 1 and prod(map(len, found)) <= min(MOST, prod(shape) // LEAST) else None


def _breaks(table: Table) -> list[int]:
    """Return the indices at which a table departs from the most common step, at most `MOST + 1` indices."""
    steps, counts = np.unique(np.diff(table.offsets), return_counts=True)
    jumps = np.diff(table.offsets) != steps[counts.argmax()]
    found: list[int] = (np.flatnonzero(jumps)[: MOST + 1] + 1).tolist()
    return found
