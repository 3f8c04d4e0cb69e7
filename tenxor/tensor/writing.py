"""Writes through a view: into the storage as a new node, or in place over the memory of the old node."""

from __future__ import annotations

from weakref import ref

from ..dtypes import DEFAULT_COMPLEX, DEFAULT_FLOAT, Number, boolean, check_fits, check_real, of_number
from ..errors import EVALUATION_ERRORS, ReadOnlyError, ShapeError
from ..late import LateModule
from ..layout import Layout
from ..memory import Buffer, allocate
from ..node import (
    LARGE,
    MAX_PENDING,
    REINTERPRET,
    STORE,
    UNFINISHED,
    UPDATE,
    Node,
    Scalar,
    Scatter,
    data,
    is_pinned,
    reinterpreted,
    watchers,
    writes,
)
from ..ops import OPS, Op
from ..realize import lock, realize
from ..records import NamedTuple
from .core import Core, reads_pinned

ownership, waiting = LateModule("tenxor.ownership"), LateModule("tenxor.pending")
Shape = tuple[int, ...]
_contiguous = Layout.contiguous
_POSITIVE, _CAST = OPS["positive"], OPS["cast"]
_MAX_EXAMINED_NODES = 16  # nodes that are examined to decide whether a write in place can be one kernel
_NOTHING = data(allocate(0), (0,), boolean)


class Places(NamedTuple):
    """A description of the elements that a scatter writes.

    `target` is the layout of the written elements; the last axes of `target` have `indices`, read through the layouts `throughs`.
    """

    op: Scatter
    target: Layout
    indices: tuple[Core, ...]
    throughs: tuple[Layout, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the written selection."""
        return self.target.shape[: self.target.ndim - len(self.indices)]


class Writing(Core):
    """The methods of `Tensor` for writes to the storage."""

    __slots__ = ()

    def _write(self, value: Core | Number, op: str = "assignment", *, spent: bool = False) -> None:
        """Write `value`, broadcast to this shape and cast to this dtype, into the storage through this layout.

        `spent` promises that the value is not read afterwards.
        """
        layout = self.layout
        source, through = self._source_of(value, op)
        if layout.size == 0 and (self.node.size or not isinstance(source, Core) or source.storage.node.past is None):
            return  # nothing is written, and no tape has to record it
        self._check_writable(value, op)
        with lock:  # another thread may write a different part of the storage
            pinned = self._pinned()
            if layout.offset == 0 and layout.size == self.node.size and layout.is_contiguous() and not pinned:
                self._replace(source, through)
            else:
                self._store(source, through, pinned, spent=spent)

    # Parts of a write. The references to the overwritten content are counted meanwhile, so no local variable holds a node. A source of a
    # write is known by its storage.

    def _check_writable(self, value: Core | Number, op: str) -> None:
        """Raise ReadOnlyError if several positions of this view share an element and the value has several elements."""
        layout = self.layout
        if not layout.is_injective() and isinstance(value, Core) and value.layout.size != 1:
            raise ReadOnlyError(
                f"{op}: this view of shape {layout.shape} is read-only: several positions share one element (it is broadcast,"
                " or its windows or indices repeat); write through the tensor that it is a view of, assign one number,"
                " or take a copy() first"
            )

    def _pinned(self) -> bool:
        """Return whether this storage's buffer is externally shared and writable. A read-only buffer is first replaced by a copy."""
        storage = self.storage
        if not is_pinned(storage.node):
            return False
        if storage.node.buffer.frozen:  # type: ignore[union-attr]
            self._part()  # other code may write to it, but we may not
            return False
        return True

    def _source_of(
        self, value: Core | Number, op: str, shape: Shape | None = None
    ) -> tuple[Core | Scalar, Layout | None]:
        """Return the source of a write: a tensor with its layout broadcast to `shape` (by default this tensor's), or a `Scalar` and None.
        """
        if not isinstance(value, Core):
            if type(value) is complex:
                check_real(op, DEFAULT_COMPLEX, self.dtype)
            if self.dtype.kind == "bool":
                value = bool(value)
            elif type(value) is int:
                check_fits(value, self.dtype if self.dtype.is_integer else DEFAULT_FLOAT, op)
            strong = type(value) is float or type(value) is complex
            return Scalar(value, of_number(value) if strong else self.dtype), None
        check_real(op, value.dtype, self.dtype)
        return value, broadcast_layout(value.layout, self.layout.shape if shape is None else shape, op)

    def _replace(self, value: Core | Scalar, through: Layout | None) -> None:
        """Write the whole storage: store a new node and drop the old node.

        If memory is exhausted for a result that must be evaluated at once, the old node is restored. If the recipe does not read the old
        node, the old node may be freed already; then the write stays pending, and can be repeated.
        """
        new_node = self._build_replacement(value, through)
        if new_node.buffer is not None or new_node.traced or not (new_node.count > MAX_PENDING or reads_pinned(new_node)):
            self._set_node(new_node)
            return
        old_ref = ref(self.storage.node)
        self._set_node(new_node)
        try:
            realize(self.storage.node)
        except EVALUATION_ERRORS:
            self._restore(old_ref())
            raise

    def _build_replacement(self, value: Core | Scalar, through: Layout | None) -> Node:
        """Return the node of the storage after a write of the whole storage."""
        shape, dtype = self.layout.shape, self.dtype
        if type(value) is Scalar:
            return Node.of(_CAST, shape, dtype, (value,), (None,))
        assert isinstance(value, Core)
        source = value.node
        if source.dtype is not dtype or source.size != self.node.size or through is not _contiguous(shape):
            return Node.of(_CAST, shape, dtype, (source,), (through,))
        return Node.of(_POSITIVE, shape, dtype, (source,), (through,)) if is_pinned(source) else source

    def _store(
        self,
        value: Core | Scalar,
        through: Layout | None,
        pinned: bool,
        targets: Places | None = None,
        *,
        spent: bool = False,
    ) -> None:
        """Write some elements over the old node, at indices if `targets` is given. Evaluate at once if the old node is in memory.
        """
        storage = self.storage
        operands = (value,) if targets is None else (value, *targets.indices)
        must_evaluate = storage.node.buffer is not None or any(
            isinstance(x, Core) and is_pinned(x.storage.node) for x in operands
        )
        if not pinned and storage.node.buffer is not None and storage.node.recipe.nbytes >= LARGE and not ownership.alone(storage):
            waiting.have_read(storage, value.storage.node if isinstance(value, Core) else None)
        self._set_node(self._stored(value, through, pinned, targets, spent=spent))
        if storage.node.traced:
            return  # a traced node has no value
        if spent and isinstance(value, Core):
            value.storage.node = _NOTHING  # drop the source: as a readable node, it would keep its operands alive
        if must_evaluate or storage.node.count > MAX_PENDING:
            try:
                realize(storage.node)
            except EVALUATION_ERRORS:
                new_node = self._latest_node()
                self._restore(new_node.sources[0] if writes(new_node.op) else None)  # type: ignore[arg-type]
                raise

    def _stored(
        self, value: Core | Scalar, through: Layout | None, pinned: bool, targets: Places | None = None, *, spent: bool = False
    ) -> Node:
        """Return the node of the storage after a write of some elements."""
        old = self.node
        flat_layout = _contiguous((old.size,))
        if targets is None:
            source, layout = self._prepare_source(value, through, self.layout.shape, pinned)
            op = UPDATE if spent and is_update(source, layout, old, self.layout) else STORE
            return Node.of(op, (old.size,), old.dtype, (old, source), (flat_layout, layout), self.layout)
        reads = zip((value, *targets.indices), (through, *targets.throughs), strict=True)
        sources, layouts = zip(*[self._prepare_source(x, x_layout, targets.shape, pinned) for x, x_layout in reads], strict=True)
        return Node.of(targets.op, (old.size,), old.dtype, (old, *sources), (flat_layout, *layouts), targets.target)

    def _prepare_source(self, value: Core | Scalar, through: Layout | None, shape: Shape, pinned: bool) -> tuple[Node, Layout]:
        """Return the source of a write as a node, numbers included, and its layout over the shape written to."""
        if type(value) is Scalar:
            return Node.of(_CAST, (), self.dtype, (value,), (None,)), Layout(shape, (0,) * len(shape))
        assert isinstance(value, Core) and through is not None
        source, held = value.node, value.storage.node
        same_memory = held is self.storage.node or held.buffer is self.storage.node.buffer is not None
        if same_memory or (pinned and is_pinned(source)):  # the source overlaps with the target, so it is copied first
            source = Node.of(_POSITIVE, shape, source.dtype, (source,), (through,))
            through = _contiguous(shape)
            if pinned:
                realize(source)
        return source, through

    def _part(self) -> Buffer:
        """Copy the content of the storage, already in memory, to a separate buffer, and return this buffer."""
        node = self.storage.node
        shared_buffer = node.buffer
        assert shared_buffer is not None
        new_buffer = allocate(shared_buffer.nbytes, "assignment", node.shape, node.dtype)
        new_buffer.array[: shared_buffer.nbytes] = shared_buffer.array[: shared_buffer.nbytes]
        new_node = data(new_buffer, node.shape, node.dtype)
        new_node.past = node.past
        self.storage.node = new_node
        return new_buffer

    def _latest_node(self) -> Node:
        """Return the node just written, in its own dtype."""
        node = self.storage.node
        return node.sources[0] if node.op is REINTERPRET else node  # type: ignore[return-value]

    def _restore(self, old_node: Node | None) -> None:
        """Restore the old node, if it still exists, after the evaluation of the write has failed."""
        new_node = self._latest_node()
        if old_node is not None and new_node.buffer is None and new_node.op is not UNFINISHED:
            self._set_node(old_node)

    def _set_node(self, node: Node) -> None:
        """Store a node of this dtype in the storage."""
        for watcher in watchers:
            watcher(node)
        dtype = self.storage.node.dtype
        self.storage.node = node if node.dtype is dtype else reinterpreted(node, dtype)


def is_update(value: Node, through: Layout, old: Node, target: Layout) -> bool:
    """Return whether a write can be a single in-place update.

    The value must be elementwise. Of the overwritten memory, each element of the value may read only the element it overwrites.
    """
    if value.buffer is not None or old.op is REINTERPRET or not target.is_injective():
        return False
    remaining, examined_count = [(value, through)], 0
    while remaining and examined_count < _MAX_EXAMINED_NODES:
        node, index_map = remaining.pop()
        examined_count += 1
        if node is old:
            is_plain = index_map.base is None and index_map.tables is None
            if not is_plain or not (index_map.same_as(target) or index_map.disjoint(target)):
                return False
        elif node.buffer is None:
            if not isinstance(node.op, Op):
                return False
            reads = _reads(node)
            remaining += reads if index_map is _contiguous(node.shape) else [(source, index_map.over(x)) for source, x in reads]
        elif node.buffer is old.buffer:
            return False
    return not remaining


def _reads(node: Node) -> list[tuple[Node, Layout]]:
    """Return the source nodes of a node, with the layouts to read them."""
    return [(s, x) for s, x in zip(node.sources, node.layouts, strict=True) if type(s) is Node and x is not None]


def broadcast_layout(layout: Layout, shape: Shape, op: str) -> Layout:
    """Return a value's layout, broadcast to the shape written to. As in NumPy, it may have extra leading axes of size 1."""
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
