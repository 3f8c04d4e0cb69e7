"""Pending nodes built by hand, computed by fuse, lower and the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from math import prod
from typing import Any

import numpy as np

from tenxor.codegen import interpreter
from tenxor.dtypes import DType, dtype
from tenxor.graph.node import STORE, Node, Scalar, Scan, intern_gather, intern_scatter, is_write, make_data_node
from tenxor.layout import Layout
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import For, Kernel, Statement
from tenxor.lowering.lower import lower
from tenxor.lowering.parameterize import KernelBinding
from tenxor.memory.buffer import Buffer, allocate
from tenxor.ops import OPS
from tenxor.ops.reductions import REDUCTIONS, Reduction
from tenxor.runtime.planner import preview_kernels
from tenxor.target import Target
from tenxor.tensor import Tensor

Array = np.ndarray[Any, Any]
View = tuple[Node, Layout] | Node | Scalar
Lower = Callable[[Node, Set[Node], Target], tuple[Kernel, KernelBinding]]
TARGET = Target(vector_bytes=32)


def kernel_of(t: Tensor) -> Kernel:
    """Return the first kernel that computes a pending tensor."""
    (_, kernel), *_ = preview_kernels([t.storage.node])
    assert kernel is not None
    return kernel


def scalars_of(binding: KernelBinding) -> list[float]:
    """Return the scalars that a kernel receives."""
    return [scalar.value.imag if imag else scalar.value.real for scalar, imag in binding.scalars]


def whole_layout(node: Node) -> Layout:
    """Return the layout that reads a node as it is."""
    return Layout.contiguous(node.shape)


def tensor(values: Any, spec: object = None) -> Node:
    """Return a node in memory with these values (for bfloat16, its bits)."""
    array = np.asarray(values)
    d = dtype(array.dtype if spec is None else spec)
    buffer = allocate(array.size * d.itemsize)
    buffer.typed_view(d)[:] = array.ravel()
    return make_data_node(buffer, array.shape, d)


def source_and_layout(x: View, shape: tuple[int, ...] | None = None) -> tuple[Node | Scalar, Layout | None]:
    """Return a source and the layout through which it is read, broadcast to `shape`."""
    if isinstance(x, Scalar):
        return x, None
    node, layout = x if isinstance(x, tuple) else (x, Layout.contiguous(x.shape))
    return node, layout if shape is None else layout.expand(shape)


def elementwise(name: str, *args: View) -> Node:
    """Return the operation `name` on views that broadcast."""
    pairs = [source_and_layout(x) for x in args]
    shape = np.broadcast_shapes(*(layout.shape for _, layout in pairs if layout is not None))
    sources, layouts = zip(*(source_and_layout(x, shape) for x in args), strict=True)
    _, result = OPS[name].rule(name, tuple(s.dtype for s in sources))
    return Node.of(OPS[name], shape, result, sources, layouts)


def cast(x: View, target: DType) -> Node:
    """Return `x` in another dtype."""
    source, layout = source_and_layout(x)
    assert layout is not None
    return Node.of(OPS["cast"], layout.shape, target, (source,), (layout,))


def reduction(op: str | Reduction, x: View, axes: Sequence[int] | None = None) -> Node:
    """Return a reduction over some axes of a view, or over all."""
    op = REDUCTIONS[op] if isinstance(op, str) else op
    source, layout = source_and_layout(x)
    assert layout is not None
    ndim = len(layout.shape)
    reduced_axes = [a % ndim for a in (range(ndim) if axes is None else axes)]
    kept_axes = [a for a in range(ndim) if a not in reduced_axes]
    shape = tuple(layout.shape[a] for a in kept_axes)
    return Node.of(op, shape, op.result_dtype(source.dtype), (source,), (layout.permute([*kept_axes, *reduced_axes]),))


def scan(name: str, x: View) -> Node:
    """Return a running reduction along the last axis of a view."""
    op = REDUCTIONS[name]
    source, layout = source_and_layout(x)
    assert layout is not None
    return Node.of(Scan(op), layout.shape, op.result_dtype(source.dtype), (source,), (layout,))


def chosen(x: View, axes: Sequence[int], *indices: View) -> Node:
    """Return a gather at indices along some axes of a view. The indices broadcast, and their axes come first."""
    source, layout = source_and_layout(x)
    assert layout is not None
    pairs = [source_and_layout(i) for i in indices]
    shape = np.broadcast_shapes(*(index_layout.shape for _, index_layout in pairs if index_layout is not None))
    other_axes = [a for a in range(len(layout.shape)) if a not in axes]
    full_shape = (*shape, *(layout.shape[a] for a in other_axes))
    sizes = [layout.shape[a] for a in axes]
    read = layout.arranged((*[None] * len(shape), *other_axes, *axes), (*full_shape, *sizes))
    index_layouts = []
    for _, index_layout in pairs:
        assert index_layout is not None
        index_layouts.append(
            index_layout.expand_dims(range(len(index_layout.shape), len(index_layout.shape) + len(other_axes))).expand(full_shape)
        )
    return Node.of(intern_gather("chosen", tuple(axes)), full_shape, source.dtype, (source, *(i for i, _ in pairs)), (read, *index_layouts))


def stored(old: Node, target: Layout, value: View) -> Node:
    """Return the content of `old` after a write of `value` through `target`."""
    source, layout = source_and_layout(value, target.shape)
    return Node.of(STORE, old.shape, old.dtype, (old, source), (None, layout), target)


def scattered(
    old: Node,
    axes: Sequence[int],
    indices: Sequence[View],
    value: View,
    name: str | None = None,
    *,
    checked: bool = False,
) -> Node:
    """Return the content of `old` after values were written, or combined by a reduction, at indices along some axes. The
    indices broadcast, and their axes come first.
    """
    reached = chosen(old, axes, *indices)
    target = reached.layouts[0]
    assert target is not None
    source, value_layout = source_and_layout(value, reached.shape)
    op = intern_scatter("scattered", None if name is None else REDUCTIONS[name], tuple(axes), checked)
    layouts = (whole_layout(old), value_layout, *reached.layouts[1:])
    return Node.of(op, old.shape, old.dtype, (old, source, *reached.sources[1:]), layouts, target)


def keepdims_view(x: Node, axis: int = -1) -> tuple[Node, Layout]:
    """Return a view of a reduction's result with the reduced axis restored, of size 1."""
    return x, Layout.contiguous(x.shape).expand_dims(axis)


def compute(*roots: Node, lower: Lower = lower) -> list[Kernel]:
    """Compute pending nodes with the interpreter, set their buffers, and return the kernels."""
    order = collect_pending(roots)
    nodes = fuse(order, roots, TARGET)
    kernels = []
    for node in nodes:
        kernel, binding = lower(node, set(nodes), TARGET)
        kernels.append(kernel)
        node.set_buffer(_run_interpreter(node, kernel, binding))
    return kernels


def _run_interpreter(node: Node, kernel: Kernel, binding: KernelBinding) -> Buffer:
    out = allocate(node.size * node.dtype.itemsize)
    if is_write(node.op):
        old = node.sources[0]
        assert isinstance(old, Node) and old.buffer is not None
        out.typed_view(node.dtype)[:] = old.buffer.typed_view(node.dtype)[: node.size]
    operands = []
    for source, _ in binding.operands:
        buffer = out if source is None else source.buffer
        assert buffer is not None, f"{kernel.name} reads {source} before it is computed"
        operands.append(buffer.typed_view((source or node).dtype))
    tables = [table.offsets for table in binding.tables]
    scalars = scalars_of(binding)
    origins = [origin for _, origin in binding.operands]
    if kernel.can_fail:
        operands.append(np.zeros(1, np.int64))
        origins.append(0)
    assert len(tables) == kernel.table_count and len(binding.sizes) == kernel.size_count
    interpreter.run_kernel(kernel, operands, tables, scalars, binding.sizes, origins)
    return out


def value(node: Node) -> Array:
    """Return the content of a node in memory."""
    assert node.buffer is not None
    return node.buffer.typed_view(node.dtype)[: prod(node.shape)].reshape(node.shape)


def loops(body: tuple[Statement, ...]) -> list[Any]:
    """Return the nesting of the loops: one list for each loop."""
    return [loops(s.body) for s in body if isinstance(s, For)]


def only_kernel(kernels: list[Kernel]) -> Kernel:
    """Return the only kernel of a list."""
    assert len(kernels) == 1, "\n\n".join(map(str, kernels))
    return kernels[0]
