"""What is pending, as a pattern: what a plan is known by, and what is given to it when it runs.

Two pending graphs are alike if the same plan computes both. Which memory they read is given, and so are the numbers, and
where in memory each view of it begins: the second row of a matrix is read as the first one is.
"""

from __future__ import annotations

from dataclasses import dataclass

from .layout import Layout
from .node import Node, Scalar

APART = 1 << 48  # elements between stand-ins for offsets: more than those within any memory


@dataclass(slots=True)
class Pattern:
    """Pending nodes and all that they read, numbered, each after what it reads itself.

    `key` is their structure, and `roots` are those asked for. Of the memory that is read or written, views begin at `offsets`,
    in bytes; the last of these is 0.
    `offset_of` tells which one is meant: by the number of a node in memory and the offset, in elements, at which it is read, or
    by `~` the number of the node that is written.
    """

    key: tuple[object, ...]
    roots: list[int]
    nodes: list[Node]
    scalars: list[Scalar]
    offsets: list[int]
    offset_of: dict[object, int]


def pattern_of(roots: list[Node]) -> Pattern:
    """The pattern of what `roots`, which are pending, need."""
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    offsets: list[int] = []
    offset_of: dict[object, int] = {}
    key: list[object] = []
    number_of: dict[Node, int] = {}
    stack = roots[::-1]
    while stack:
        node = stack[-1]
        if node in number_of:
            stack.pop()
            continue
        for source in node.sources:
            if type(source) is Node and source not in number_of:
                if source.buffer is None:
                    stack.append(source)
                    break
                number_of[source] = len(nodes)
                nodes.append(source)
                key.append(source.dtype)
        else:
            target = node.target
            key += (node.op, node.shape, node.dtype, node.stored)
            if target is None or target.base is not None:
                key.append(target)
            else:
                offset_of[~len(nodes)] = len(offsets)
                offsets.append(target.offset * node.dtype.itemsize)
                key += (target.shape, target.strides, target.tables)
            for source, layout in zip(node.sources, node.layouts):  # noqa: B905  # the hot path
                if type(source) is not Node:
                    key.append(source.dtype)
                    scalars.append(source)  # type: ignore[arg-type]
                    continue
                k = number_of[source]
                if source.buffer is None or layout.base is not None:  # type: ignore[union-attr]
                    key += (k, layout)
                    continue
                place = (k, layout.offset)  # type: ignore[union-attr]
                at = offset_of.get(place)
                if at is None:
                    at = offset_of[place] = len(offsets)
                    offsets.append(layout.offset * source.dtype.itemsize)  # type: ignore[union-attr]
                key += (k, at, layout.shape, layout.strides, layout.tables)  # type: ignore[union-attr]
            number_of[stack.pop()] = len(nodes)
            nodes.append(node)
    numbers = [number_of[root] for root in roots]
    offsets.append(0)
    key += numbers
    return Pattern(tuple(key), numbers, nodes, scalars, offsets, offset_of)


def stand_ins(pattern: Pattern) -> list[Node]:
    """Nodes like those of a pattern, with a number for each offset that is given when it runs: see `given`."""
    found: list[Node] = []
    twin: dict[Node, Node] = {}
    number_of = {node: k for k, node in enumerate(pattern.nodes)}
    offset_of = pattern.offset_of

    def through(source: Node | Scalar, layout: Layout | None) -> Layout | None:
        if type(source) is not Node or layout is None:
            return layout
        return _begun(layout, offset_of.get((number_of[source], layout.offset))) if source.buffer else layout

    for k, node in enumerate(pattern.nodes):
        if node.buffer is None:
            sources = tuple([twin[s] if type(s) is Node else s for s in node.sources])
            layouts = tuple(map(through, node.sources, node.layouts))
            target = node.target and _begun(node.target, offset_of.get(~k))
            twin[node] = Node(node.op, node.shape, node.dtype, sources, layouts, target)
            twin[node].stored = node.stored
        else:
            twin[node] = node
        found.append(twin[node])
    return found


def _begun(layout: Layout, at: int | None) -> Layout:
    """A layout that begins at the stand-in for one of the offsets; a chain of views is part of the pattern."""
    if at is None or layout.base is not None:
        return layout
    return Layout(layout.shape, layout.strides, (at + 1) * APART, layout.tables)


def given(offset: int) -> tuple[int, int]:
    """Which of a pattern's offsets one is that was found with stand-ins, and how many elements further; -1 for none."""
    at = (offset + APART // 2) // APART
    return at - 1, offset - at * APART
