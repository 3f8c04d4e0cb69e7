"""Builders of replacement nodes.

Each appends new nodes to the list `made`, sources first. The last node of a finished list is the result of the rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import prod
from typing import TypeGuard

from ..dtypes import DType
from ..layout import Layout, Table, memory_order
from ..node import Node, Scalar
from ..ops import OPS, Op
from ..ops.reductions import Reduction

MOST = 32  # limit on the operations recomputed for a part of a result
Term = tuple[Node, Layout]  # a node with the layout of a read
_CAST, _POSITIVE = OPS["cast"], OPS["positive"]


def reduced(made: list[Node], reduction: Reduction, source: Node, through: Layout, kept: int) -> Node:
    """Append the reduction of a node, read through a layout, over every axis except the first `kept`. Return the new node."""
    shape, dtype = through.shape[:kept], reduction.result(source.dtype)
    made.append(Node.of(reduction, shape, dtype, (source,), (through,)))
    return made[-1]


def combined(made: list[Node], op: Op, dtype: DType, *terms: Term) -> Term:
    """Append an elementwise operation on nodes, each read through a layout. Return the new node with a contiguous layout."""
    sources, layouts = zip(*terms, strict=True)
    shape = layouts[0].shape
    made.append(Node.of(op, shape, dtype, sources, layouts))
    return made[-1], Layout.contiguous(shape)


def computed(made: list[Node], op: Op, *nodes: Node) -> Node:
    """Append an elementwise operation on nodes of one shape and dtype, read contiguously. Return the new node."""
    return combined(made, op, nodes[0].dtype, *[(node, Layout.contiguous(node.shape)) for node in nodes])[0]


def converted(made: list[Node], dtype: DType, source: Node, through: Layout) -> Term:
    """Append the cast to another dtype of a node read through a layout. Return the new node with a layout of the same shape.

    The elements of the new node keep their order in memory.
    """
    order = memory_order([through]) or tuple(range(through.ndim))
    turned = through.permute(order)
    made.append(Node.of(_CAST, turned.shape, dtype, (source,), (turned,)))
    return made[-1], Layout.contiguous(turned.shape).permute([order.index(axis) for axis in range(len(order))])


def times_read(side: Layout, kept: int) -> int:
    """Return how many results share each element of an operand read through `side`, with `kept` axes of results; 1 for a view chain."""
    if side.base is not None:
        return 1
    return prod([n for n, step in zip(side.shape[:kept], side.strides, strict=False) if not step])


def turned(made: list[Node], source: Node, seen: Layout, kept: int) -> Term:
    """Append a stored copy of a node read through `seen`, with the first `kept` axes last in memory. Return the copy and a layout.

    The layout reads the copy with the shape of `seen`. Axes with stride 0 are not copied.
    """
    axes = [a for a in (*range(kept, seen.ndim), *range(kept)) if seen.strides[a]]
    own = seen.permute((*axes, *(a for a in range(seen.ndim) if a not in axes)))
    own = own.index((slice(None),) * len(axes) + (0,) * (seen.ndim - len(axes)))
    made.append(Node.of(_POSITIVE, own.shape, source.dtype, (source,), (own,)))
    made[-1].stored = True  # computed on its own
    strides = [0] * seen.ndim
    for a, step in zip(axes, Layout.contiguous(own.shape).strides, strict=True):
        strides[a] = step
    return made[-1], Layout(seen.shape, tuple(strides))


def renewed(node: Node, instead: Mapping[Node, Node]) -> Node:
    """Return a node with sources replaced by the map `instead`; the node itself if no source is in the map."""
    if not instead or instead.keys().isdisjoint(node.sources):
        return node
    found = Node(node.recipe, tuple([instead.get(s, s) if type(s) is Node else s for s in node.sources]), node.offsets)
    found.stored = node.stored
    return found


def last_table(layout: Layout | None) -> Table | None:
    """Return the offset table along the last axis of a layout; None if there is none, or for a view chain."""
    return layout.tables[-1] if layout is not None and layout.tables and layout.base is None else None


def reads_by_tables(node: Node) -> bool:
    """Return whether a node reads a source through an offset table along the last axis."""
    return any([form is not None and last_table(form.layout) is not None for form in node.recipe.forms])


def is_made(source: Node | Scalar, *kinds: type) -> TypeGuard[Node]:
    """Return whether a source is a pending node, not marked to be stored, of an elementwise operation or one of the classes `kinds`."""
    return type(source) is Node and source.buffer is None and not source.stored and type(source.op) in (Op, *kinds)


def made_at(made: list[Node], node: Node, place: Layout, others: Set[Node] = frozenset()) -> Node:
    """Append nodes to compute an elementwise node only at the elements `place`, and return the last: a part is computed without the whole.

    Operands are recomputed at these elements too, up to a limit of `MOST` nodes. Nodes in `others` and nodes read through view chains are
    not recomputed.
    """
    known: dict[tuple[Node, Layout], Node] = {}
    stack = [(node, place)]
    while stack:
        last, at = stack[-1]
        reads = [
            (s, at.over(x) if type(s) is Node and x is not None else None)
            for s, x in zip(last.sources, last.layouts, strict=True)
        ]
        missing = [
            (s, x)
            for s, x in reads
            if type(s) is Node and x is not None and x.base is None and is_made(s) and s not in others and (s, x) not in known
        ]
        if missing and len(known) + len(stack) < MOST:
            stack += missing
            continue
        stack.pop()
        if (last, at) in known:
            continue
        whole = Layout.contiguous(at.shape)
        twins = [known.get((s, x)) if type(s) is Node and x is not None else None for s, x in reads]
        sources = tuple([twin or s for twin, (s, _) in zip(twins, reads, strict=True)])
        layouts = tuple([whole if twin else x for twin, (_, x) in zip(twins, reads, strict=True)])
        made.append(Node.of(last.op, at.shape, last.dtype, sources, layouts))
        known[last, at] = made[-1]
    return known[node, place]
