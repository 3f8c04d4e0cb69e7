"""Writing: what a view is assigned goes into the storage, as a new node or over the old one's memory."""

from __future__ import annotations

from weakref import ref

from ..dtypes import DEFAULT_COMPLEX, DEFAULT_FLOAT, Number, boolean, check_fits, check_real, of_number
from ..errors import IndexOutOfRange, ReadOnlyError, ShapeError
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
_MOST_MET = 16  # nodes that are looked at to find out whether a write in place can be one kernel
_NOTHING = data(allocate(0), (0,), boolean)


class Places(NamedTuple):
    """What a scatter writes: elements of `target`, whose last axes have `indices`, each read through one of the `throughs`."""

    op: Scatter
    target: Layout
    indices: tuple[Core, ...]
    throughs: tuple[Layout, ...]

    @property
    def shape(self) -> Shape:
        """The shape of what is written."""
        return self.target.shape[: self.target.ndim - len(self.indices)]


class Writing(Core):
    """A storage that is written through a layout."""

    __slots__ = ()

    def _write(self, value: Core | Number, op: str = "assignment", *, spent: bool = False) -> None:
        """Put `value`, broadcast to this shape and cast to this dtype, into the storage through this layout. One that is `spent`
        nobody reads afterwards.
        """
        layout = self.layout
        source, through = self._source_of(value, op)
        if layout.size == 0 and (self.node.size or not isinstance(source, Core) or source.storage.node.past is None):
            return  # nothing is written, and derivatives need not know
        self._check_writable(value, op)
        with lock:  # threads may write different parts of one storage at once
            pinned = self._pinned()
            if layout.offset == 0 and layout.size == self.node.size and layout.is_contiguous() and not pinned:
                self._replace(source, through)
            else:
                self._store(source, through, pinned, spent=spent)

    # Parts of writing. Who else can read what is overwritten is counted, so no local variable holds a node while it is:
    # what a write reads is known as the storage that holds it.

    def _check_writable(self, value: Core | Number, op: str) -> None:
        """Raise ReadOnlyError if this view has one element for several that a value has."""
        layout = self.layout
        if not layout.is_injective() and isinstance(value, Core) and value.layout.size != 1:
            raise ReadOnlyError(
                f"{op}: this view of shape {layout.shape} is read-only: several positions share one element (it is broadcast,"
                " or its windows or indices repeat); write through the tensor that it is a view of, assign one number,"
                " or take a copy() first"
            )

    def _pinned(self) -> bool:
        """Whether others may write this storage's memory, and we too."""
        storage = self.storage
        if not is_pinned(storage.node):
            return False
        if storage.node.buffer.frozen:  # type: ignore[union-attr]
            self._part()  # what others may write, but we may not
            return False
        return True

    def _source_of(
        self, value: Core | Number, op: str, shape: Shape | None = None
    ) -> tuple[Core | Scalar, Layout | None]:
        """What a write reads: a tensor and its layout over a shape, this one if none is given, or a number."""
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
        """A write of the whole storage: a new node, and the old one is forgotten.

        If there is no memory to compute what must be computed at once, the storage holds what it held before; if the recipe
        does not read that it is gone, and then the write may be made again as well as not.
        """
        new = self._replacement(value, through)
        if new.buffer is not None or new.traced or not (new.count > MAX_PENDING or reads_pinned(new)):
            self._put(new)
            return
        before = ref(self.storage.node)
        self._put(new)
        try:
            realize(self.storage.node)
        except (MemoryError, IndexOutOfRange):
            self._restore(before())
            raise

    def _replacement(self, value: Core | Scalar, through: Layout | None) -> Node:
        """The content after a write of the whole storage."""
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
        places: Places | None = None,
        *,
        spent: bool = False,
    ) -> None:
        """A write of some elements, at indices if there are `places`: onto the old node, at once if that is in memory."""
        storage = self.storage
        read = (value,) if places is None else (value, *places.indices)
        at_once = storage.node.buffer is not None or any(
            isinstance(x, Core) and is_pinned(x.storage.node) for x in read
        )
        if not pinned and storage.node.buffer is not None and storage.node.recipe.nbytes >= LARGE and not ownership.alone(storage):
            waiting.have_read(storage, value.storage.node if isinstance(value, Core) else None)
        self._put(self._stored(value, through, pinned, places, spent=spent))
        if storage.node.traced:
            return  # nothing of it has a value
        if spent and isinstance(value, Core):
            value.storage.node = _NOTHING  # else it could still be asked for, and what it reads would have to be kept
        if at_once or storage.node.count > MAX_PENDING:
            try:
                realize(storage.node)
            except (MemoryError, IndexOutOfRange):
                new = self._just_written()
                self._restore(new.sources[0] if writes(new.op) else None)  # type: ignore[arg-type]
                raise

    def _stored(
        self, value: Core | Scalar, through: Layout | None, pinned: bool, places: Places | None = None, *, spent: bool = False
    ) -> Node:
        """The content after a write of some elements."""
        old = self.node
        whole = _contiguous((old.size,))
        if places is None:
            source, layout = self._read(value, through, self.layout.shape, pinned)
            op = UPDATE if spent and is_update(source, layout, old, self.layout) else STORE
            return Node.of(op, (old.size,), old.dtype, (old, source), (whole, layout), self.layout)
        reads = zip((value, *places.indices), (through, *places.throughs), strict=True)
        sources, layouts = zip(*[self._read(x, its, places.shape, pinned) for x, its in reads], strict=True)
        return Node.of(places.op, (old.size,), old.dtype, (old, *sources), (whole, *layouts), places.target)

    def _read(self, value: Core | Scalar, through: Layout | None, shape: Shape, pinned: bool) -> tuple[Node, Layout]:
        """What a write reads, a number too, as a node and its layout over the shape written to."""
        if type(value) is Scalar:
            return Node.of(_CAST, (), self.dtype, (value,), (None,)), Layout(shape, (0,) * len(shape))
        assert isinstance(value, Core) and through is not None
        source, held = value.node, value.storage.node
        same_memory = held is self.storage.node or held.buffer is self.storage.node.buffer is not None
        if same_memory or (pinned and is_pinned(source)):  # it reads what is written: it is read first
            source = Node.of(_POSITIVE, shape, source.dtype, (source,), (through,))
            through = _contiguous(shape)
            if pinned:
                realize(source)
        return source, through

    def _part(self) -> Buffer:
        """Move what the storage holds in memory to memory of its own."""
        node = self.storage.node
        shared = node.buffer
        assert shared is not None
        own = allocate(shared.nbytes, "assignment", node.shape, node.dtype)
        own.array[: shared.nbytes] = shared.array[: shared.nbytes]
        found = data(own, node.shape, node.dtype)
        found.past = node.past
        self.storage.node = found
        return own

    def _just_written(self) -> Node:
        """What was just written, in its own dtype."""
        node = self.storage.node
        return node.sources[0] if node.op is REINTERPRET else node  # type: ignore[return-value]

    def _restore(self, old: Node | None) -> None:
        """What was just written could not be computed: the storage holds what it held before, if that is still there."""
        new = self._just_written()
        if old is not None and new.buffer is None and new.op is not UNFINISHED:
            self._put(old)

    def _put(self, node: Node) -> None:
        """Let the storage hold a node of this dtype."""
        for look in watchers:
            look(node)
        dtype = self.storage.node.dtype
        self.storage.node = node if node.dtype is dtype else reinterpreted(node, dtype)


def is_update(value: Node, through: Layout, old: Node, target: Layout) -> bool:
    """Whether a value is elementwise, and each element reads of what is written over only what it is written over itself."""
    if value.buffer is not None or old.op is REINTERPRET or not target.is_injective():
        return False
    left, met = [(value, through)], 0
    while left and met < _MOST_MET:
        node, index_map = left.pop()
        met += 1
        if node is old:
            is_plain = index_map.base is None and index_map.tables is None
            if not is_plain or not (index_map.same_as(target) or index_map.disjoint(target)):
                return False
        elif node.buffer is None:
            if not isinstance(node.op, Op):
                return False
            reads = _reads(node)
            left += reads if index_map is _contiguous(node.shape) else [(source, index_map.over(x)) for source, x in reads]
        elif node.buffer is old.buffer:
            return False
    return not left


def _reads(node: Node) -> list[tuple[Node, Layout]]:
    """What a node reads, through which layouts."""
    return [(s, x) for s, x in zip(node.sources, node.layouts, strict=True) if type(s) is Node and x is not None]


def broadcast_layout(layout: Layout, shape: Shape, op: str) -> Layout:
    """A value's layout, broadcast to the shape written to; as in NumPy it may have more axes, of size 1, in front."""
    if layout.shape == shape:
        return layout
    more = len(layout.shape) - len(shape)
    try:
        if more > 0 and layout.shape[:more] == (1,) * more:
            return layout.squeeze(range(more)).expand(shape)
        return layout.expand(shape)
    except ShapeError:
        raise ShapeError(
            f"{op}: a value of shape {layout.shape} does not broadcast to the shape {shape} written to;"
            " its axes must be equal to those, or 1, counted from the last"
        ) from None
