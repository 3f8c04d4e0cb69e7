"""Random pending graphs of any dtypes, from a seed: views of all kinds, operations, casts, reductions, scans, stores.

Floats hold small integers, and are only computed with by operations that round once. So the sums are exact, and all
results have the same bits in whatever order they are computed.
"""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np

from tenxor.dtypes import ALL_DTYPES, DType, boolean, check_real, encode_elements, int64
from tenxor.errors import DTypeError
from tenxor.graph.node import POSITION, STORE, Node, Scalar, Scan, make_data_node
from tenxor.layout import Layout
from tenxor.memory.buffer import allocate
from tenxor.ops import OPS
from tenxor.ops.reductions import REDUCTIONS
from tests.lowering.helpers import chosen, scattered

Array = np.ndarray[Any, Any]
MAX_ELEMENTS = 300
SIZES = (1, 2, 3, 4, 5, 7, 17, 33, 70)
UNARY = (
    "negative",
    "abs",
    "sign",
    "square",
    "floor",
    "ceil",
    "round",
    "trunc",
    "bitwise_invert",
    "logical_not",
    "relu",
    "conj",
    "real",
    "imag",
)
BINARY = (
    *(
        "add",
        "add",
        "subtract",
        "multiply",
        "maximum",
        "minimum",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "greater",
    ),
    *("logical_and", "logical_xor", "bitwise_and", "bitwise_or", "floor_divide", "remainder", "copysign"),
    *("bitwise_left_shift", "bitwise_right_shift"),
)
REDUCED = ("sum", "max", "min", "argmax", "argmin", "count_nonzero", "any", "all")
SCANNED = ("sum", "prod", "max", "min")
PAIRS = (4, 5, 13), (8, 9, 17, 20), (4, 5, 9)  # rows, columns and steps
PAIRED = ("multiply", "multiply", "add", "subtract", "maximum", "less", "equal", "logical_and")
View = tuple[Node, Layout]


def in_memory(values: Array, dtype: DType) -> Node:
    """Return a node in memory with these values."""
    buffer = allocate(values.size * dtype.itemsize)
    with np.errstate(all="ignore"):
        buffer.typed_view(dtype)[: values.size] = encode_elements(values.ravel(), dtype)
    return make_data_node(buffer, values.shape, dtype)


class Graph:
    """A random graph of pending nodes, the newest last."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes: list[Node] = []
        for _ in range(self.random.randint(1, 3)):
            self.leaf()
        for _ in range(self.random.randint(3, 9)):
            self.step()

    def roots(self) -> list[Node]:
        """Return the newest node and a random one, if they are pending."""
        selected = {self.nodes[-1], self.random.choice(self.nodes)}
        return [node for node in self.nodes if node in selected and node.buffer is None]

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def leaf(self) -> None:
        shape: tuple[int, ...] = ()
        for _ in range(self.random.randint(0, 3)):
            n = self.random.choice(SIZES)
            shape = (*shape, n) if prod(shape) * n <= MAX_ELEMENTS else shape
        if self.random.random() < 0.2:
            self.nodes.append(Node.of(POSITION, shape, int64))
            return
        dtype = self.random.choice(ALL_DTYPES)
        count = prod(shape)
        low = 0 if dtype.kind in ("uint", "bool") else -9
        values: list[complex] = [self.random.randint(low, 1 if dtype is boolean else 9) for _ in range(count)]
        if dtype.is_complex:
            values = [v + 1j * self.random.randint(-3, 3) for v in values]
        if count > 3:
            inexact = dtype.is_float or dtype.is_complex
            extremes = (np.nan, np.inf, -np.inf, -0.0) if inexact else (dtype.lowest, dtype.highest)
            values[self.random.randrange(count)] = self.pick(*extremes)
        self.nodes.append(in_memory(np.array(values, dtype.compute_dtype.numpy).reshape(shape), dtype))

    # Views

    def view(self) -> View:
        """Return a random node, preferably the newest, with a random view."""
        node = self.pick(self.nodes[-1], self.nodes[-1], *self.nodes)
        layout = Layout.contiguous(node.shape)
        for _ in range(self.pick(0, 0, 0, 1, 1, 2, 3)):
            layout = self.moved(layout)
        return node, layout

    def moved(self, layout: Layout) -> Layout:
        kind = self.pick("permute", "flip", "slice", "slice", "reshape", "gather", "expand", "expand_dims", "windows")
        ndim, size = len(layout.shape), layout.size
        if kind == "permute":
            return layout.permute(self.random.sample(range(ndim), ndim))
        if kind == "reshape":
            divisor = self.pick(*(n for n in (1, 2, 3, 5, 7) if size % n == 0))
            return layout.reshape(self.pick((size,), (divisor, size // divisor), (size // divisor, divisor)))
        if kind == "expand_dims":
            return layout.expand_dims(self.random.randint(0, ndim))
        if kind == "expand" and 3 * size <= MAX_ELEMENTS:
            return layout.expand((3, *layout.shape))
        if not ndim or not size:
            return layout
        axis = self.random.randrange(ndim)
        n = layout.shape[axis]
        if kind == "flip":
            return layout.flip(axis)
        if kind == "gather":
            count = self.random.randint(1, min(2 * n, 40))
            if size // n * count <= MAX_ELEMENTS:
                return layout.select(axis, [self.random.randrange(n) for _ in range(count)])
        step = self.pick(slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -3), self.random.randrange(n))
        return layout.index((slice(None),) * axis + (step,))

    # Steps

    def step(self) -> None:
        kind = self.pick(
            *("unary", "binary", "binary", "binary", "cast", "where", "reduce", "reduce", "rows", "scan", "store"),
            *("choose", "choose", "pairs", "scatter"),
        )
        try:
            getattr(self, kind)(*self.view())
        except DTypeError:
            return  # the operation rejects these dtypes

    def unary(self, node: Node, layout: Layout) -> None:
        self.elementwise(self.pick(*UNARY), (node, layout))

    def binary(self, node: Node, layout: Layout) -> None:
        operand: View | Scalar = self.view()
        if self.random.random() < 0.3 or not _fits(layout, operand[1]):
            operand = Scalar(float(self.pick(0, 1, 2, -3)) if node.dtype.is_float else self.pick(0, 1), node.dtype)
            if node.dtype.is_complex:
                operand = Scalar(self.pick(0, 1j, 2 - 1j, -3.0), node.dtype)
        self.elementwise(self.pick(*BINARY), *self.random.sample([(node, layout), operand], 2))

    def where(self, node: Node, layout: Layout) -> None:
        second, third = self.view(), self.view()
        if _fits(layout, second[1], third[1]):
            self.elementwise("where", (node, layout), second, third)

    def cast(self, node: Node, layout: Layout) -> None:
        target = self.random.choice(ALL_DTYPES)
        check_real("cast", node.dtype, target)
        self.nodes.append(Node.of(OPS["cast"], layout.shape, target, (node,), (layout,)))

    def elementwise(self, name: str, *operands: View | Scalar) -> None:
        shape = np.broadcast_shapes(*(x[1].shape for x in operands if not isinstance(x, Scalar)))
        sources = tuple(x if isinstance(x, Scalar) else x[0] for x in operands)
        layouts = tuple(None if isinstance(x, Scalar) else x[1].expand(shape) for x in operands)
        _, dtype = OPS[name].rule(name, tuple(s.dtype for s in sources))
        self.nodes.append(Node.of(OPS[name], shape, dtype, sources, layouts))

    def pairs(self, node: Node, layout: Layout) -> None:
        """Add a reduction over pairs of rows and columns."""
        rows, columns, steps = (self.random.choice(sizes) for sizes in PAIRS)
        other_node, other_layout = self.view()
        if other_node.dtype is not node.dtype or not other_layout.size:
            other_node, other_layout = node, layout
        if not layout.size:
            return
        left = node, self.cut(layout, (rows, steps)).expand_dims(1).expand((rows, columns, steps))
        right = other_node, self.cut(other_layout, (columns, steps)).expand((rows, columns, steps))
        self.elementwise(self.pick(*PAIRED), left, right)
        products = self.nodes.pop()
        op = REDUCTIONS[self.pick("sum", "count_nonzero", *(("any", "all") if products.dtype is boolean else ("max", "min")))]
        op.check_dtype("pairs", products.dtype)
        self.nodes.append(Node.of(op, (rows, columns), op.result_dtype(products.dtype), (products,), (Layout.contiguous(products.shape),)))

    def cut(self, layout: Layout, shape: tuple[int, ...]) -> Layout:
        """Return a view of the given shape on the elements of `layout`, repeated if there are too few."""
        count = prod(shape)
        flat = layout.reshape((layout.size,))
        if flat.size < count:
            return flat.select(0, [k % flat.size for k in range(count)]).reshape(shape)
        start = self.random.randint(0, flat.size - count)
        return flat.index((slice(start, start + count),)).reshape(shape)

    def reduce(self, node: Node, layout: Layout) -> None:
        self.reduction(node, layout)

    def rows(self, node: Node, layout: Layout) -> None:
        """Add a reduction, and an operation on it and its own operand."""
        reduction = self.reduction(node, layout)
        if reduction is not None:
            reduced, axes = reduction
            keepdims_layout = Layout.contiguous(reduced.shape).expand_dims(axes)
            self.elementwise(self.pick("subtract", "maximum", "less"), (node, layout), (reduced, keepdims_layout))

    def reduction(self, node: Node, layout: Layout) -> tuple[Node, list[int]] | None:
        ndim = len(layout.shape)
        axes = [a for a in range(ndim) if self.pick(True, False)]
        if not axes or any(layout.shape[a] == 0 for a in axes):
            return None
        name = self.pick(*REDUCED)
        op = REDUCTIONS[name]
        op.check_dtype(name, node.dtype)
        kept_axes = [a for a in range(ndim) if a not in axes]
        shape = tuple(layout.shape[a] for a in kept_axes)
        reduced = Node.of(op, shape, op.result_dtype(node.dtype), (node,), (layout.permute([*kept_axes, *axes]),))
        self.nodes.append(reduced)
        return reduced, axes

    def choose(self, node: Node, layout: Layout) -> None:
        """Add a gather at indices of either sign along some axes."""
        ndim = len(layout.shape)
        axes = self.random.sample(range(ndim), self.pick(*range(1, min(3, ndim) + 1))) if ndim else []
        indices = [self.indices(layout.shape[a]) for a in axes if layout.shape[a]]
        other_size = prod(layout.shape[a] for a in range(ndim) if a not in axes)
        if axes and len(indices) == len(axes) and _fits(Layout.contiguous((other_size,)), *(i[1].expand_dims(-1) for i in indices)):
            self.nodes.append(chosen((node, layout), axes, *indices))

    def indices(self, size: int) -> View:
        """Return indices of an axis: integers in memory, or the remainders of any integers by its size."""
        node, layout = self.view()
        if node.dtype.is_integer and node.dtype.highest >= size and self.pick(True, False):
            remainder = OPS["remainder"]
            layouts = (layout, None)
            return (indices := Node.of(remainder, layout.shape, node.dtype, (node, Scalar(size, node.dtype)), layouts)), _identity_layout(
                indices
            )
        dtype = self.pick(*(d for d in ALL_DTYPES if d.is_integer and d.highest >= size))
        low = 0 if dtype.kind == "uint" else -size
        numbers = [self.random.randint(low, size - 1) for _ in range(prod(layout.shape))]
        indices = in_memory(np.array(numbers, dtype.numpy).reshape(layout.shape), dtype)
        return indices, self.pick(_identity_layout(indices), _identity_layout(indices).flip())

    def scan(self, node: Node, layout: Layout) -> None:
        op = REDUCTIONS[self.pick(*SCANNED)]
        op.check_dtype("scan", node.dtype)
        if layout.shape:
            self.nodes.append(Node.of(Scan(op), layout.shape, op.result_dtype(node.dtype), (node,), (layout,)))

    def store(self, node: Node, layout: Layout) -> None:
        old = self.random.choice(self.nodes)
        check_real("store", node.dtype, old.dtype)
        target = Layout.contiguous(old.shape)
        for _ in range(self.random.randint(1, 3)):
            target = self.moved(target)
        try:
            through = layout.expand(target.shape)
        except ValueError:
            node, through = in_memory(np.array(3.0), node.dtype), Layout(target.shape, (0,) * len(target.shape))
        if target.size and target.is_injective():
            self.nodes.append(Node.of(STORE, old.shape, old.dtype, (old, node), (None, through), target))

    def scatter(self, node: Node, layout: Layout) -> None:
        """Add a scatter at indices along some axes of a node: the last value, or all combined with the old content."""
        old = self.random.choice(self.nodes)
        check_real("scatter", node.dtype, old.dtype)
        ndim = len(old.shape)
        axes = self.random.sample(range(ndim), self.pick(*range(1, min(2, ndim) + 1))) if ndim else []
        indices = [self.indices(old.shape[a]) for a in axes if old.shape[a]]
        other_sizes = tuple(old.shape[a] for a in range(ndim) if a not in axes)
        if not axes or len(indices) < len(axes) or not layout.size or not old.size:
            return
        if not _fits(Layout.contiguous((prod(other_sizes),)), *(i[1].expand_dims(-1) for i in indices)):
            return
        shape = (*np.broadcast_shapes(*(i[1].shape for i in indices)), *other_sizes)
        name = self.pick(None, "any") if old.dtype is boolean else self.pick(None, "sum_in_width", "sum_in_width", "prod")
        if prod(shape):
            self.nodes.append(scattered(old, axes, indices, (node, self.cut(layout, shape)), name))


def _identity_layout(node: Node) -> Layout:
    return Layout.contiguous(node.shape)


def _fits(*layouts: Layout) -> bool:
    """Return whether layouts broadcast to a small shape."""
    try:
        return prod(np.broadcast_shapes(*(layout.shape for layout in layouts))) <= MAX_ELEMENTS
    except ValueError:
        return False
