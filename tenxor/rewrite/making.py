"""New nodes, made in a list in which each comes after what it reads."""

from __future__ import annotations

from ..dtypes import DType
from ..layout import Layout, memory_order
from ..node import Node
from ..ops import OPS, Op
from ..ops.reductions import Reduction

_CAST = OPS["cast"]


def reduced(made: list[Node], reduction: Reduction, source: Node, through: Layout, kept: int) -> Node:
    """The reduction of a node, seen through a layout, over all but its first `kept` axes."""
    shape, dtype = through.shape[:kept], reduction.result(source.dtype)
    made.append(Node.of(reduction, shape, dtype, (source,), (through,)))
    return made[-1]


def computed(made: list[Node], op: Op, *nodes: Node) -> Node:
    """An elementwise result of nodes of one shape and dtype."""
    shape, dtype = nodes[0].shape, nodes[0].dtype
    made.append(Node.of(op, shape, dtype, nodes, (Layout.contiguous(shape),) * len(nodes)))
    return made[-1]


def converted(made: list[Node], dtype: DType, source: Node, through: Layout) -> tuple[Node, Layout]:
    """What is read of a node through a layout, as another dtype: a node, in which it lies alike, and the layout that reads it."""
    order = memory_order([through]) or tuple(range(through.ndim))
    turned = through.permute(order)
    made.append(Node.of(_CAST, turned.shape, dtype, (source,), (turned,)))
    return made[-1], Layout.contiguous(turned.shape).permute([order.index(axis) for axis in range(len(order))])
