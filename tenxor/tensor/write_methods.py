"""Writes through a view: into the storage as a new node, or in place over the memory of the old node. The node of a storage holds its
content. A write puts a new node into the storage, mostly pending, which may read the old node.
"""

from __future__ import annotations

from weakref import ref

from .._utils import upcalls
from .._utils.lazy import LazyModule
from .._utils.records import NamedTuple
from ..dtypes import DEFAULT_COMPLEX, DEFAULT_FLOAT, Number, boolean, check_fits, check_real, default_dtype_of
from ..errors import EVALUATION_ERRORS, ReadOnlyError, ShapeError
from ..graph.node import (
    HELD_BYTES_ANY_RESULT,
    MAX_PENDING_NODES,
    REINTERPRET,
    STORE,
    UNFINISHED,
    UPDATE,
    Node,
    Scalar,
    Scatter,
    is_externally_shared,
    is_write,
    make_data_node,
    reinterpret,
)
from ..layout import Layout
from ..memory.buffer import Buffer, allocate
from ..ops import OPS, Op
from ..runtime.realize import compute_lock, realize
from .core import TensorBase, reads_externally_shared

ownership, pending_limits = LazyModule("tenxor.graph.ownership"), LazyModule("tenxor.runtime.pending_limits")
Shape = tuple[int, ...]
_contiguous = Layout.contiguous
_POSITIVE, _CAST = OPS["positive"], OPS["cast"]
_MAX_EXAMINED_NODES = 16  # nodes that are examined to decide whether a write in place can be one kernel
_EMPTY_NODE = make_data_node(allocate(0), (0,), boolean)


class ScatterTarget(NamedTuple):
    """A description of the elements that a scatter writes.

    `target` is the layout of the written elements, the axes of the selection first; the last axes of `target` have `indices`, read through
    the layouts `index_layouts`.
    """

    op: Scatter
    target: Layout
    indices: tuple[TensorBase, ...]
    index_layouts: tuple[Layout, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the written selection."""
        return self.target.shape[: self.target.ndim - len(self.indices)]


class WriteMethods(TensorBase):
    """The methods of `Tensor` for writes to the storage."""

    __slots__ = ()

    def _write(self, value: TensorBase | Number, op: str = "assignment", *, consume_value: bool = False) -> None:
        """Write `value`, broadcast to this shape and cast to this dtype, into the storage through this layout.

        `op` is the name of the operation for errors. `consume_value` promises not to read the value afterwards. The write is pending unless
        the written memory must be overwritten at once. Raise ReadOnlyError for several values for an element, ShapeError, DTypeError for
        complex values and a real dtype, or OutOfBounds.
        """
        layout = self.layout
        source, through = self._resolve_source(value, op)
        if layout.size == 0 and (self.node.size or not isinstance(source, TensorBase) or source.storage.node.tape_node is None):
            return  # nothing is written, and no tape has to record it
        self._check_writable(value, op)
        with compute_lock:  # another thread may write a different part of the storage
            pinned = self._prepare_shared_buffer()
            if layout.offset == 0 and self.spec.is_contiguous and layout.size == self.node.size and not pinned:
                self._replace(source, through)
            else:
                self._store(source, through, pinned, consume_value=consume_value)

    def _compute_earlier_writes(self) -> None:
        """Compute the content of the storage if its last operation is a pending write to a part of it, except on the tape.

        Further writes are then done at once. In a loop, one more pending write for each step would cost more than the writes.
        """
        node = self._latest_node()
        if node.buffer is None and node.tape_node is None and is_write(node.op):
            realize(node)

    # Parts of a write. The references to the overwritten content are counted meanwhile, so no local variable holds a node. A source of a
    # write is known by its storage.

    def _check_writable(self, value: TensorBase | Number, op: str) -> None:
        """Raise ReadOnlyError if several positions of this view share an element and `value` is a tensor of several elements.

        `op` is for messages. Read-only memory (`Buffer.is_read_only`) is not refused here.
        """
        spec = self.spec
        if not spec.is_writable:
            spec.is_writable = self.layout.is_injective()
        if not spec.is_writable and isinstance(value, TensorBase) and value.layout.size != 1:
            raise ReadOnlyError(
                f"{op}: this view of shape {spec.shape} is read-only: several positions share one element (it is broadcast,"
                " or its windows or indices repeat); write through the tensor that it is a view of, assign one number,"
                " or take a copy() first"
            )

    def _prepare_shared_buffer(self) -> bool:
        """Return whether this storage's buffer is externally shared and writable.

        A buffer that is externally shared but read-only is first replaced by a copy; then the result is False.
        """
        storage = self.storage
        if not is_externally_shared(storage.node):
            return False
        if storage.node.buffer.is_read_only:  # type: ignore[union-attr]
            self._move_to_new_buffer()  # other libraries may write to the buffer, but Tenxor may not
            return False
        return True

    def _resolve_source(self, value: TensorBase | Number, op: str, shape: Shape | None = None) -> tuple[TensorBase | Scalar, Layout | None]:
        """Return the source of a write: a tensor and its layout broadcast to `shape`, or for a number a `Scalar` and None.

        `shape` is this tensor's shape by default. Raise DTypeError for complex values and a real dtype, OutOfBounds for an integer out of
        range, and ShapeError if the value does not broadcast; errors name `op`.
        """
        if not isinstance(value, TensorBase):
            if type(value) is complex:
                check_real(op, DEFAULT_COMPLEX, self.dtype)
            if self.dtype.kind == "bool":
                value = bool(value)
            elif type(value) is int:
                check_fits(value, self.dtype if self.dtype.is_integer else DEFAULT_FLOAT, op)
            strong = type(value) is float or type(value) is complex
            return Scalar(value, default_dtype_of(value) if strong else self.dtype), None
        check_real(op, value.dtype, self.dtype)
        return value, broadcast_layout(value.layout, self.layout.shape if shape is None else shape, op)

    def _replace(self, value: TensorBase | Scalar, source_layout: Layout | None) -> None:
        """Write the whole storage: store a new node and drop the old node. The arguments are the results of `_resolve_source`.

        This layout must cover the storage in row-major order. The new node is evaluated at once only if it reads externally shared memory
        or its pending graph is large. If the evaluation raises one of `EVALUATION_ERRORS`, such as MemoryError, the old node is restored.
        If the recipe does not read the old node, the old node may be freed already; then the write stays pending, and can be repeated.
        """
        new_node = self._build_replacement(value, source_layout)
        if (
            new_node.buffer is not None
            or new_node.is_traced
            or not (new_node.graph_node_count > MAX_PENDING_NODES or reads_externally_shared(new_node))
        ):
            self._set_node(new_node)
            return
        old_ref = ref(self.storage.node)
        self._set_node(new_node)
        try:
            realize(self.storage.node)
        except EVALUATION_ERRORS:
            self._restore(old_ref())
            raise

    def _build_replacement(self, value: TensorBase | Scalar, source_layout: Layout | None) -> Node:
        """Return the node of the storage after a write of the whole storage. The arguments are the results of `_resolve_source`.

        A source of equal dtype, size and order is returned itself, so that both storages share the node, unless it is externally shared.
        """
        layout, dtype = self.layout, self.dtype
        shape = layout.shape
        if type(value) is Scalar:
            return Node.of(_CAST, shape, dtype, (value,), (None,))
        assert isinstance(value, TensorBase)
        source = value.node
        is_in_order = source_layout is layout or source_layout is _contiguous(shape)
        if source.dtype is not dtype or source.size != self.node.size or not is_in_order:
            return Node.of(_CAST, shape, dtype, (source,), (source_layout,))
        return Node.of(_POSITIVE, shape, dtype, (source,), (source_layout,)) if is_externally_shared(source) else source

    def _store(
        self,
        value: TensorBase | Scalar,
        source_layout: Layout | None,
        is_shared: bool,
        targets: ScatterTarget | None = None,
        *,
        consume_value: bool = False,
    ) -> None:
        """Write elements over the old node, at indices if `targets` is given. Evaluate at once if the old node is in memory.

        `value` and `source_layout` are the results of `_resolve_source`, and `is_shared` is the result of `_prepare_shared_buffer`.
        `consume_value` promises not to read the value afterwards, and leaves its storage empty. A traced write stays without a value.
        Externally shared operands and a large pending graph are reasons to evaluate, too. If the evaluation raises one of
        `EVALUATION_ERRORS`, the old node is restored.
        """
        storage = self.storage
        operands = (value,) if targets is None else (value, *targets.indices)
        must_evaluate = storage.node.buffer is not None or any(
            isinstance(x, TensorBase) and is_externally_shared(x.storage.node) for x in operands
        )
        if (
            not is_shared
            and storage.node.buffer is not None
            and storage.node.recipe.nbytes >= HELD_BYTES_ANY_RESULT
            and not ownership.is_sole_owner(storage)
        ):
            pending_limits.realize_readers(storage, value.storage.node if isinstance(value, TensorBase) else None)
        self._set_node(self._build_stored_node(value, source_layout, is_shared, targets, consume_value=consume_value))
        if storage.node.is_traced:
            return  # a traced node has no value
        if consume_value and isinstance(value, TensorBase):
            value.storage.node = _EMPTY_NODE  # drop the source: as a readable node, it would keep its operands alive
        if must_evaluate or storage.node.graph_node_count > MAX_PENDING_NODES:
            try:
                realize(storage.node)
            except EVALUATION_ERRORS:
                new_node = self._latest_node()
                self._restore(new_node.sources[0] if is_write(new_node.op) else None)  # type: ignore[arg-type]
                raise

    def _build_stored_node(
        self,
        value: TensorBase | Scalar,
        source_layout: Layout | None,
        is_shared: bool,
        targets: ScatterTarget | None = None,
        *,
        consume_value: bool = False,
    ) -> Node:
        """Return the node of the storage after a write of some elements, in this dtype. The arguments are as in `_store`.

        The node is an `UPDATE`, a single in-place update, if `is_update` allows it with `consume_value`; otherwise a `STORE` or a scatter.
        """
        old = self.node
        flat_layout = _contiguous((old.size,))
        if targets is None:
            source, layout = self._prepare_source(value, source_layout, self.layout.shape, is_shared)
            op = UPDATE if consume_value and is_update(source, layout, old, self.layout) else STORE
            return Node.of(op, (old.size,), old.dtype, (old, source), (flat_layout, layout), self.layout)
        reads = zip((value, *targets.indices), (source_layout, *targets.index_layouts), strict=True)
        sources, layouts = zip(*[self._prepare_source(x, x_layout, targets.shape, is_shared) for x, x_layout in reads], strict=True)
        return Node.of(targets.op, (old.size,), old.dtype, (old, *sources), (flat_layout, *layouts), targets.target)

    def _prepare_source(
        self, value: TensorBase | Scalar, source_layout: Layout | None, shape: Shape, is_shared: bool
    ) -> tuple[Node, Layout]:
        """Return the source of a write as a node, numbers included, and its layout over `shape`, the shape written to.

        `value` and `source_layout` are the results of `_resolve_source`. A source in the memory of the target is copied first, at once if
        `is_shared`: the target is externally shared.
        """
        if type(value) is Scalar:
            return Node.of(_CAST, (), self.dtype, (value,), (None,)), Layout(shape, (0,) * len(shape))
        assert isinstance(value, TensorBase) and source_layout is not None
        source, held = value.node, value.storage.node
        same_memory = held is self.storage.node or held.buffer is self.storage.node.buffer is not None
        if same_memory or (is_shared and is_externally_shared(source)):  # the source overlaps with the target, so it is copied first
            source = Node.of(_POSITIVE, shape, source.dtype, (source,), (source_layout,))
            source_layout = _contiguous(shape)
            if is_shared:
                realize(source)
        return source, source_layout

    def _move_to_new_buffer(self) -> Buffer:
        """Copy the content of the storage to a new buffer, and return that buffer. The storage gets a new node with this buffer.

        The content must be in memory. The node keeps the tape node. This is done before a write if others read the old buffer, or if it
        may not be written. The caller must hold `compute_lock`.
        """
        node = self.storage.node
        shared_buffer = node.buffer
        assert shared_buffer is not None
        new_buffer = allocate(shared_buffer.nbytes, "assignment", node.shape, node.dtype)
        new_buffer.array[: shared_buffer.nbytes] = shared_buffer.array[: shared_buffer.nbytes]
        new_node = make_data_node(new_buffer, node.shape, node.dtype)
        new_node.tape_node = node.tape_node
        self.storage.node = new_node
        return new_buffer

    def _latest_node(self) -> Node:
        """Return the node of the last write, below the reinterpretation that `_set_node` may have added."""
        node = self.storage.node
        return node.sources[0] if node.op is REINTERPRET else node  # type: ignore[return-value]

    def _restore(self, old_node: Node | None) -> None:
        """Make `old_node` the node of the storage again, after the evaluation of a write has failed.

        Do nothing if `old_node` is None, or if the new node was computed or its computation has begun.
        """
        new_node = self._latest_node()
        if old_node is not None and new_node.buffer is None and new_node.op is not UNFINISHED:
            self._set_node(old_node)

    def _set_node(self, node: Node) -> None:
        """Make `node`, a node of this dtype, the node of the storage. It is reinterpreted if the storage has another dtype."""
        if (observer := upcalls.node_observer) is not None:
            observer.observe_node(node)
        storage = self.storage
        dtype = storage.node.recipe.dtype
        storage.node = node if node.recipe.dtype is dtype else reinterpret(node, dtype)


def is_update(value: Node, value_layout: Layout, old: Node, target_layout: Layout) -> bool:
    """Return whether a write of `value` over the elements of `old` at `target_layout` can be a single in-place update.

    `value_layout` is the layout to read the value, in the shape written to. The value must be elementwise and pending, with at most
    `_MAX_EXAMINED_NODES` nodes, and `target_layout` injective. Of the overwritten memory, each element of the value may read only the
    element it overwrites. Elements that are not overwritten may be read.
    """
    if value.buffer is not None or old.op is REINTERPRET or not target_layout.is_injective():
        return False
    remaining, examined_count = [(value, value_layout)], 0
    while remaining and examined_count < _MAX_EXAMINED_NODES:
        node, index_map = remaining.pop()
        examined_count += 1
        if node is old:
            is_plain = index_map.base is None and index_map.tables is None
            if not is_plain or not (index_map.same_as(target_layout) or index_map.disjoint(target_layout)):
                return False
        elif node.buffer is None:
            if not isinstance(node.op, Op):
                return False
            reads = _operand_reads(node)
            remaining += reads if index_map is _contiguous(node.shape) else [(source, index_map.over(x)) for source, x in reads]
        elif node.buffer is old.buffer:
            return False
    return not remaining


def _operand_reads(node: Node) -> list[tuple[Node, Layout]]:
    """Return pairs of a source node and the layout through which `node` reads it. Numbers are left out."""
    return [(s, x) for s, x in zip(node.sources, node.layouts, strict=True) if type(s) is Node and x is not None]


def broadcast_layout(layout: Layout, shape: Shape, op: str) -> Layout:
    """Return the layout of a value, broadcast to `shape`, the shape written to. As in NumPy, extra leading axes of size 1 are dropped.

    Raise ShapeError, in the name of the operation `op`, if the shapes do not fit.
    """
    if layout.shape == shape:
        return layout
    extra_ndim = len(layout.shape) - len(shape)
    try:
        if extra_ndim > 0 and layout.shape[:extra_ndim] == (1,) * extra_ndim:
            return layout.squeeze(range(extra_ndim)).expand(shape)
        return layout.expand(shape)
    except ShapeError:
        raise ShapeError(
            f"{op}: a value of shape {layout.shape} does not broadcast to the shape {shape} written to;"
            " its axes must be equal to those, or 1, counted from the last"
        ) from None
