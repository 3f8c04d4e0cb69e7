"""The values of derivative computations: nodes viewed through layouts. Storages are not involved, because derivatives never write in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..dtypes import DType, Number
from ..layout import Layout, memory_order
from ..layout.coords import as_float
from ..node import STORE, Node, Scalar, Scatter
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction

Shape = tuple[int, ...]
_CAST, _MULTIPLY, _POSITIVE, _ADD = (OPS[name] for name in ("cast", "multiply", "positive", "add"))
SUM = REDUCTIONS["sum"]


class Seen:
    """A node view: the elements of a node, read through a layout."""

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

    def through(self, layout: Layout) -> Seen:
        """Return the view through `layout`, which indexes the elements of this view in row-major order."""
        return Seen(self.node, layout.over(self.layout))

    def moved(self, move: Callable[[Layout], Layout]) -> Seen:
        """Return the view with the layout `move(self.layout)`."""
        return Seen(self.node, move(self.layout))

    def reshaped(self, shape: Shape) -> Seen:
        """Return a view of another shape with the same elements in row-major order."""
        return self if self.layout.shape == shape else Seen(self.node, self.layout.reshape(shape))

    def along(self, axes: Sequence[int], sizes: Sequence[int]) -> Seen:
        """Return the view broadcast along new axes of the given `sizes`, at the positions `axes` of the result."""
        shape = list(self.shape)
        for axis, size in zip(axes, sizes, strict=True):
            shape.insert(axis, size)
        return Seen(self.node, self.layout.expand_dims(axes).expand(shape))

    def cast(self, dtype: DType) -> Seen:
        """Return the elements converted to `dtype`, or this view if it already has the dtype."""
        return self if self.dtype is dtype else computed(_CAST, [self], dtype)

    def flat(self) -> Node:
        """Return a node with the elements of this view as content: the viewed node itself if the view is contiguous over the whole node,
        else a 1-d copy.
        """
        if self.layout.is_contiguous() and self.layout.offset == 0 and self.layout.size == self.node.size:
            return self.node
        size = (self.layout.size,)
        return Node.of(_POSITIVE, size, self.dtype, (self.node,), (self.layout.reshape(size),))


Operand = Seen | Scalar


class Term:
    """A deferred elementwise operation. A caller can first permute the axes, and choose the axes to sum over.

    If `op` is None, the term is the single operand.
    """

    __slots__ = ("dtype", "op", "operands", "shape")

    def __init__(self, op: Op | None, operands: Sequence[Operand], shape: Shape, dtype: DType) -> None:
        self.op, self.operands, self.shape, self.dtype = op, operands, shape, dtype

    @staticmethod
    def of(x: Seen) -> Term:
        """Return the view `x` as a term."""
        return Term(None, [x], x.shape, x.dtype)

    def seen(self) -> Seen:
        """Return the result as a node view, creating the node."""
        if self.op is None:
            (only,) = self.operands
            assert isinstance(only, Seen)
            return only
        return computed(self.op, self.operands, self.dtype)

    def arranged(self, axes: Sequence[int]) -> Term:
        """Return the term with the axes `axes`, in this order. The other axes have size 1 and are dropped."""
        shape = tuple([self.shape[axis] for axis in axes])
        operands = [x.moved(lambda layout: layout.arranged(axes, shape)) if isinstance(x, Seen) else x for x in self.operands]
        return Term(self.op, operands, shape, self.dtype)

    def summed(self, kept_ndim: int) -> Seen:
        """Return the sum of the term over the axes after the first `kept_ndim`, as a node view, creating the nodes."""
        views = [x for x in self.operands if isinstance(x, Seen)]
        broadcast_axes = [
            axis for axis in range(kept_ndim, len(self.shape)) if self.shape[axis] and all(_is_broadcast(x.layout, axis) for x in views)
        ]
        if broadcast_axes:  # A sum along broadcast axes is a multiplication by their size.
            times = as_float(prod([self.shape[axis] for axis in broadcast_axes]))
            other_axes = [axis for axis in range(len(self.shape)) if axis not in broadcast_axes]
            key = tuple([slice(None) if axis in other_axes else 0 for axis in range(len(self.shape))])
            operands = [x.moved(lambda layout: layout.index(key)) if isinstance(x, Seen) else x for x in self.operands]
            summand = Term(self.op, operands, tuple([self.shape[axis] for axis in other_axes]), self.dtype).summed(kept_ndim)
            return computed(_MULTIPLY, [summand, Scalar(times, summand.dtype)], summand.dtype)
        if kept_ndim == len(self.shape):
            return self.seen()
        if self.op is None:
            return reduced(SUM, self.seen(), kept_ndim)
        nodes = tuple([x.node if isinstance(x, Seen) else x for x in self.operands])
        layouts = tuple([x.layout if isinstance(x, Seen) else None for x in self.operands])
        return reduced(SUM, Seen(Node.of(self.op, self.shape, self.dtype, nodes, layouts)), kept_ndim)


def _is_broadcast(layout: Layout, axis: int) -> bool:
    """Return whether an axis of a layout is broadcast."""
    return layout.strides[axis] == 0 and (layout.tables is None or layout.tables[axis] is None)


def computed(op: Op, operands: Sequence[Operand], dtype: DType | None = None) -> Seen:
    """Return the elementwise operation `op` on `operands`, views of equal shape and at least one, and numbers.

    The result is stored in the memory order of the operands, and viewed in their axis order. `dtype` defaults to the operation's result
    dtype.
    """
    layouts = [x.layout if isinstance(x, Seen) else None for x in operands]
    sources = tuple([x.node if isinstance(x, Seen) else x for x in operands])
    shape = next(x.shape for x in layouts if x is not None)
    result = op.result(tuple([x.dtype for x in sources])) if dtype is None else dtype
    order = memory_order([x for x in layouts if x is not None]) if len(shape) > 1 else None
    if order is None:
        return Seen(Node.of(op, shape, result, sources, tuple(layouts)))
    permuted = tuple([None if x is None else x.permute(order) for x in layouts])
    node = Node.of(op, tuple([shape[axis] for axis in order]), result, sources, permuted)
    return Seen(node, Layout.contiguous(node.shape).permute([order.index(axis) for axis in range(len(order))]))


def of_number(value: Number, shape: Shape, dtype: DType) -> Seen:
    """Return a view of the given shape with `value` as every element."""
    return Seen(Node.of(_CAST, shape, dtype, (Scalar(value, dtype),), (None,)))


def reduced(reduction: Reduction, x: Seen, kept_ndim: int) -> Seen:
    """Return the reduction of `x` over the axes after the first `kept_ndim`."""
    return Seen(Node.of(reduction, x.shape[:kept_ndim], reduction.result(x.dtype), (x.node,), (x.layout,)))


def added(x: Seen, y: Seen) -> Seen:
    """Return the sum of two views of equal shape."""
    return computed(_ADD, [x, y])


def stored(old: Seen, target: Layout, value: Seen) -> Seen:
    """Return the content of `old`, as one axis, after a write of `value` through the layout `target` of this content. `old` itself stays.
    """
    node = old.flat()
    content_layout = Layout.contiguous((node.size,))
    return Seen(Node.of(STORE, content_layout.shape, node.dtype, (node, value.node), (content_layout, value.layout), target))


def scattered(operation: Scatter, old: Seen, target: Layout, value: Seen, indices: Sequence[Seen]) -> Seen:
    """Return the content of `old`, as one axis, after the scatter `operation` of `value` at `indices`.

    `target` is a layout of the content of `old`; its last axes, one for each of `indices`, are indexed by them. `old` itself stays.
    """
    node = old.flat()
    content_layout = Layout.contiguous((node.size,))
    nodes = (node, value.node, *[x.node for x in indices])
    return Seen(
        Node.of(operation, content_layout.shape, node.dtype, nodes, (content_layout, value.layout, *[x.layout for x in indices]), target)
    )
