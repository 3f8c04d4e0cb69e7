"""New nodes, made in a list in which each comes after what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import prod
from typing import TypeGuard

from ..dtypes import DType
from ..layout import Layout, Table, memory_order
from ..node import Node, Scalar
from ..ops import OPS, Op
from ..ops.reductions import Reduction

MOST = 32  # operations that are made anew for one part of a result
Term = tuple[Node, Layout]  # a node, and how it is read
_CAST, _POSITIVE = OPS["cast"], OPS["positive"]


def reduced(made: list[Node], reduction: Reduction, source: Node, through: Layout, kept: int) -> Node:
    """The reduction of a node, seen through a layout, over all but its first `kept` axes."""
    shape, dtype = through.shape[:kept], reduction.result(source.dtype)
    made.append(Node.of(reduction, shape, dtype, (source,), (through,)))
    return made[-1]


def combined(made: list[Node], op: Op, dtype: DType, *terms: Term) -> Term:
    """An elementwise operation on nodes, each read through a layout, and how it is read itself."""
    sources, layouts = zip(*terms, strict=True)
    shape = layouts[0].shape
    made.append(Node.of(op, shape, dtype, sources, layouts))
    return made[-1], Layout.contiguous(shape)


def computed(made: list[Node], op: Op, *nodes: Node) -> Node:
    """An elementwise result of nodes of one shape and dtype."""
    return combined(made, op, nodes[0].dtype, *[(node, Layout.contiguous(node.shape)) for node in nodes])[0]


def converted(made: list[Node], dtype: DType, source: Node, through: Layout) -> Term:
    """What is read of a node through a layout, as another dtype: a node, in which it lies alike, and the layout that reads it."""
    order = memory_order([through]) or tuple(range(through.ndim))
    turned = through.permute(order)
    made.append(Node.of(_CAST, turned.shape, dtype, (source,), (turned,)))
    return made[-1], Layout.contiguous(turned.shape).permute([order.index(axis) for axis in range(len(order))])


def times_read(side: Layout, kept: int) -> int:
    """How many results share an element of one side."""
    if side.base is not None:
        return 1
    return prod([n for n, step in zip(side.shape[:kept], side.strides, strict=False) if not step])


def turned(made: list[Node], source: Node, seen: Layout, kept: int) -> Term:
    """A copy of what is seen of a node through a layout, and the layout that sees it there: with the first `kept` axes last in memory."""
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
    """A node that reads what stands for what it reads: itself, if nothing does."""
    if not instead or instead.keys().isdisjoint(node.sources):
        return node
    found = Node(node.recipe, tuple([instead.get(s, s) if type(s) is Node else s for s in node.sources]), node.offsets)
    found.stored = node.stored
    return found


def last_table(layout: Layout | None) -> Table | None:
    """The table along the last axis of a layout."""
    return layout.tables[-1] if layout is not None and layout.tables and layout.base is None else None


def reads_by_tables(node: Node) -> bool:
    """Whether it reads something through a table along the last axis."""
    return any([form is not None and last_table(form.layout) is not None for form in node.recipe.forms])


def is_made(source: Node | Scalar, *kinds: type) -> TypeGuard[Node]:
    """Whether a source is of an operation, or of other `kinds`, and computed where it is needed: never in memory as a whole."""
    return type(source) is Node and source.buffer is None and not source.stored and type(source.op) in (Op, *kinds)


def made_at(made: list[Node], node: Node, place: Layout, others: Set[Node] = frozenset()) -> Node:
    """The elements of an elementwise node at a place, made anew of those that its operands have there: so a part of it is
    computed alone, and all of it is never stored. What is among `others` is read as it is.
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
