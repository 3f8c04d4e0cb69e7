"""The values of derivative computations: nodes viewed through layouts. Storages are not involved, because derivatives never write in place.
A node is an immutable value, in memory or pending. A layout maps the positions of a view to elements of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..dtypes import DType, Number
from ..graph.node import STORE, Node, Scalar, Scatter
from ..layout import Layout, memory_order
from ..layout.coords import as_float
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction

Shape = tuple[int, ...]
_CAST, _MULTIPLY, _POSITIVE, _ADD = (OPS[name] for name in ("cast", "multiply", "positive", "add"))
SUM = REDUCTIONS["sum"]


class NodeView:
    """A node view: the elements of `node`, read through `layout`. Without `layout`, the view is the whole node in row-major order."""

    __slots__ = ("layout", "node")

    def __init__(self, node: Node, layout: Layout | None = None) -> None:
        self.node = node
        self.layout = Layout.contiguous(node.shape) if layout is None else layout

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self.layout.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.node.dtype

    def view_through(self, layout: Layout) -> NodeView:
        """Return the view through `layout`, which indexes the elements of this view in row-major order. Raise IndexOutOfRange for an index
        outside.
        """
        return NodeView(self.node, layout.over(self.layout))

    def map_layout(self, transform: Callable[[Layout], Layout]) -> NodeView:
        """Return the view of the same node with the layout `transform(self.layout)`. `transform` maps a layout to a layout, for example to
        a permutation.
        """
        return NodeView(self.node, transform(self.layout))

    def reshape(self, shape: Shape) -> NodeView:
        """Return a view of the shape `shape` with the same elements in row-major order: this view itself if the shape is equal."""
        return self if self.layout.shape == shape else NodeView(self.node, self.layout.reshape(shape))

    def broadcast_along(self, axes: Sequence[int], sizes: Sequence[int]) -> NodeView:
        """Return the view broadcast along new axes of the given `sizes`, at the ascending positions `axes` of the result."""
        shape = list(self.shape)
        for axis, size in zip(axes, sizes, strict=True):
            shape.insert(axis, size)
        return NodeView(self.node, self.layout.expand_dims(axes).expand(shape))

    def cast(self, dtype: DType) -> NodeView:
        """Return the elements converted to `dtype`, as a view of a new pending node, or this view if it already has the dtype."""
        return self if self.dtype is dtype else apply_op(_CAST, [self], dtype)

    def to_node(self) -> Node:
        """Return a node with the elements of this view in row-major order as content.

        The result is the viewed node itself, in its own shape, if the view is contiguous over the whole node. Otherwise the result is a
        pending 1-d copy.
        """
        if self.layout.is_contiguous() and self.layout.offset == 0 and self.layout.size == self.node.size:
            return self.node
        size = (self.layout.size,)
        return Node.of(_POSITIVE, size, self.dtype, (self.node,), (self.layout.reshape(size),))


Operand = NodeView | Scalar


class DeferredTerm:
    """An elementwise operation without a node yet. A caller can first permute the axes, and choose the axes to sum over.

    `operands` are views of the shape `shape`, and numbers. The result of `op` has the dtype `dtype`. If `op` is None, the term is the
    single operand, a view.
    """

    __slots__ = ("dtype", "op", "operands", "shape")

    def __init__(self, op: Op | None, operands: Sequence[Operand], shape: Shape, dtype: DType) -> None:
        self.op, self.operands, self.shape, self.dtype = op, operands, shape, dtype

    @staticmethod
    def of(x: NodeView) -> DeferredTerm:
        """Return the view `x` itself as a term, without an operation: the only operand."""
        return DeferredTerm(None, [x], x.shape, x.dtype)

    def to_view(self) -> NodeView:
        """Return the result as a view of a new pending node, or the single operand itself if `op` is None."""
        if self.op is None:
            (only,) = self.operands
            assert isinstance(only, NodeView)
            return only
        return apply_op(self.op, self.operands, self.dtype)

    def select_axes(self, axes: Sequence[int]) -> DeferredTerm:
        """Return the term with the axes `axes`, in this order. The remaining axes must have size 1, and are dropped."""
        shape = tuple([self.shape[axis] for axis in axes])
        operands = [x.map_layout(lambda layout: layout.arranged(axes, shape)) if isinstance(x, NodeView) else x for x in self.operands]
        return DeferredTerm(self.op, operands, shape, self.dtype)

    def sum_trailing(self, kept_ndim: int) -> NodeView:
        """Return the sum of the term over the axes after the first `kept_ndim`, as a view of a new pending node. The term is not changed.

        Along axes where every view is broadcast, the sum is a multiplication by their size. Without axes to sum, the result is the term
        itself (`to_view`).
        """
        views = [x for x in self.operands if isinstance(x, NodeView)]
        broadcast_axes = [
            axis for axis in range(kept_ndim, len(self.shape)) if self.shape[axis] and all(_is_broadcast(x.layout, axis) for x in views)
        ]
        if broadcast_axes:  # A sum along broadcast axes is a multiplication by their size.
            times = as_float(prod([self.shape[axis] for axis in broadcast_axes]))
            other_axes = [axis for axis in range(len(self.shape)) if axis not in broadcast_axes]
            key = tuple([slice(None) if axis in other_axes else 0 for axis in range(len(self.shape))])
            operands = [x.map_layout(lambda layout: layout.index(key)) if isinstance(x, NodeView) else x for x in self.operands]
            summand = DeferredTerm(self.op, operands, tuple([self.shape[axis] for axis in other_axes]), self.dtype).sum_trailing(kept_ndim)
            return apply_op(_MULTIPLY, [summand, Scalar(times, summand.dtype)], summand.dtype)
        if kept_ndim == len(self.shape):
            return self.to_view()
        if self.op is None:
            return apply_reduction(SUM, self.to_view(), kept_ndim)
        nodes = tuple([x.node if isinstance(x, NodeView) else x for x in self.operands])
        layouts = tuple([x.layout if isinstance(x, NodeView) else None for x in self.operands])
        return apply_reduction(SUM, NodeView(Node.of(self.op, self.shape, self.dtype, nodes, layouts)), kept_ndim)


def _is_broadcast(layout: Layout, axis: int) -> bool:
    """Return whether axis number `axis` of `layout` is broadcast: every index along the axis leads to the same elements."""
    return layout.strides[axis] == 0 and (layout.tables is None or layout.tables[axis] is None)


def apply_op(op: Op, operands: Sequence[Operand], dtype: DType | None = None) -> NodeView:
    """Return the elementwise operation `op` on `operands`, as a view of a new pending node, in the axis order of the operands.

    `operands` are views of equal shape, at least one, and numbers. The result is stored in the memory order shared by the operands, or else
    in row-major order. `dtype` defaults to the operation's result dtype; operands are not converted.
    """
    layouts = [x.layout if isinstance(x, NodeView) else None for x in operands]
    sources = tuple([x.node if isinstance(x, NodeView) else x for x in operands])
    shape = next(x.shape for x in layouts if x is not None)
    result = op.result_dtype(tuple([x.dtype for x in sources])) if dtype is None else dtype
    order = memory_order([x for x in layouts if x is not None]) if len(shape) > 1 else None
    if order is None:
        return NodeView(Node.of(op, shape, result, sources, tuple(layouts)))
    permuted = tuple([None if x is None else x.permute(order) for x in layouts])
    node = Node.of(op, tuple([shape[axis] for axis in order]), result, sources, permuted)
    return NodeView(node, Layout.contiguous(node.shape).permute([order.index(axis) for axis in range(len(order))]))


def full_view(value: Number, shape: Shape, dtype: DType) -> NodeView:
    """Return a view of a new pending node of the shape `shape` with `value`, converted to `dtype`, as every element."""
    return NodeView(Node.of(_CAST, shape, dtype, (Scalar(value, dtype),), (None,)))


def apply_reduction(reduction: Reduction, x: NodeView, kept_ndim: int) -> NodeView:
    """Return the reduction `reduction` of `x` over the axes after the first `kept_ndim`, as a view of a new pending node. These axes are
    dropped.
    """
    return NodeView(Node.of(reduction, x.shape[:kept_ndim], reduction.result_dtype(x.dtype), (x.node,), (x.layout,)))


def add_views(x: NodeView, y: NodeView) -> NodeView:
    """Return the sum of the views `x` and `y`, of equal shape, as a view of a new pending node."""
    return apply_op(_ADD, [x, y])


def apply_store(old: NodeView, target: Layout, value: NodeView) -> NodeView:
    """Return the elements of `old` in row-major order, as a new 1-d view, after `value` is written through `target`, a layout of the
    elements.

    `value` has the shape of `target`; the dtype of the result is that of `old`. The new node is pending, and `old` itself stays unchanged.
    """
    node = old.to_node()
    content_layout = Layout.contiguous((node.size,))
    return NodeView(Node.of(STORE, content_layout.shape, node.dtype, (node, value.node), (content_layout, value.layout), target))


def apply_scatter(operation: Scatter, old: NodeView, target: Layout, value: NodeView, indices: Sequence[NodeView]) -> NodeView:
    """Return the elements of `old` in row-major order, as a new 1-d view, after the scatter `operation` of `value` at `indices`.

    `target` is a layout of the elements of `old`. The last axes of `target`, an axis for each of `indices`, are indexed. `value` and
    `indices` have the shape of the other axes. The new node is pending, and `old` itself stays unchanged.
    """
    node = old.to_node()
    content_layout = Layout.contiguous((node.size,))
    nodes = (node, value.node, *[x.node for x in indices])
    return NodeView(
        Node.of(operation, content_layout.shape, node.dtype, nodes, (content_layout, value.layout, *[x.layout for x in indices]), target)
    )
