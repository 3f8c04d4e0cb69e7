"""Nodes: the immutable content of a storage, either data in memory or a pending recipe. A storage is the memory cell that a tensor and its
views share. A layout maps indices to elements: a shape, strides and an offset; a layout key is an interned layout without its offset.

A recipe computes a node from its sources: nodes, each read through a layout, and Python numbers (`Scalar`). Nodes computed alike share a
`Recipe`; `sources` and `offsets` belong to each node. The content of a node of shape `s` is its elements in row-major order. The content
never changes: `realize` only replaces the recipe by the data. Laziness rests on this rule, with two exceptions:

- **Sole ownership.** A write may reuse the memory of the old node when the node and its buffer have no further owner (`ownership.py`).
- **External sharing.** A buffer with writers outside (`Buffer.externally_shared`) breaks the rule, so no pending recipe may read it: each
  operation on it is computed at the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import count
from math import prod
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, Number
from ..layout import Layout, LayoutKey
from ..layout.layout_key import layout_keys
from ..memory.buffer import Buffer
from ..ops import Op
from ..ops.reductions import Reduction


class Scalar:
    """A Python number, `value`, read by a recipe as an element of dtype `dtype`.

    The number is a run-time argument of the kernel, so a new number needs no new kernel.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: Number, dtype: DType) -> None:
        self.value, self.dtype = value, dtype

    def __repr__(self) -> str:
        return repr(self.value)


class SpecialOp:
    """An operation that is neither elementwise nor a reduction, such as `DATA` or `STORE`. `kind` is also the name."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind

    def __repr__(self) -> str:
        return self.name


class Scan:
    """A running `reduction` along the last axis of the source: element `i` is the reduction of elements `0..i`."""

    __slots__ = ("kind", "name", "reduction")

    def __init__(self, reduction: Reduction) -> None:
        self.kind, self.name, self.reduction = "scan", f"cumulative_{reduction.name}", reduction

    def __repr__(self) -> str:
        return self.name


class Gather:
    """A read of elements at indices known only at run time.

    The sources after the first are the indices, one for each of the last axes of the first source's layout. Error messages name the
    operation `name` and the user's numbers of these axes, `axes`.
    """

    __slots__ = ("axes", "kind", "name")

    def __init__(self, name: str, axes: tuple[int, ...]) -> None:
        self.kind, self.name, self.axes = "gather", name, axes

    def __repr__(self) -> str:
        return self.name


class Scatter:
    """A write at indices known only at run time: the first source, with the second written through `target`, in the order of its elements.

    The further sources are the indices along the last axes of `target`. With a `reduction` each value is combined with the present element;
    without, the last value written to an element remains. Error messages name `name` and the axis numbers `axes`. `is_checked` is true if
    the indices are known to be in range, or a failure loses no data.
    """

    __slots__ = ("axes", "is_checked", "kind", "name", "reduction")

    def __init__(self, name: str, reduction: Reduction | None, axes: tuple[int, ...], is_checked: bool) -> None:
        self.kind, self.name, self.reduction, self.axes, self.is_checked = "scatter", name, reduction, axes, is_checked

    def __repr__(self) -> str:
        return self.name


class ExternalOp:
    """Result `result_number` of a function without kernels, applied to sources without values: arguments of a function traced for `vmap`.

    `name` is the function's name, for texts. `compute(views, are_batched, size)` computes all results for a batch of `size` elements, and
    returns a node for each, with a leading batch axis. `views` has a `NodeView` of each source, and `are_batched` tells for each whether it
    has a leading batch axis.
    """

    __slots__ = ("compute", "kind", "name", "result_number")

    def __init__(self, name: str, compute: Callable[..., Sequence[Node]], result_number: int) -> None:
        self.kind, self.name, self.compute, self.result_number = "hosted", name, compute, result_number

    def __repr__(self) -> str:
        return self.name


# Equal arguments give the same object: recipes compare operations by identity
intern_gather = register("gathers", "a gather operation, by axes and checks")(cache(Gather))
intern_scatter = register("scatters", "a scatter operation, by axes and checks")(cache(Scatter))

Operation = Op | Reduction | Scan | Gather | Scatter | ExternalOp | SpecialOp

DATA: Final = SpecialOp("data")  # the node is in memory
POSITION: Final = SpecialOp("position")  # element n is n: the source of arange, eye and random numbers
EMPTY: Final = SpecialOp("empty")  # memory with undefined content
STORE: Final = SpecialOp("store")  # the first source, with the second written through `target`
# A store in which a new element depends on the old element at the same position at most, and on no other element of the storage
UPDATE: Final = SpecialOp("update")
REINTERPRET: Final = SpecialOp("reinterpret")  # the bytes of the source as another dtype
UNFINISHED: Final = SpecialOp("unfinished")  # an interrupted computation, finished by its first source and not by a kernel
PLACEHOLDER: Final = SpecialOp("placeholder")  # an argument of a traced function, without a value
# Limits of pending graphs (`runtime/pending_limits.py`).
MAX_STANDALONE_BYTES = 1 << 14  # bytes up to which a node may be computed by itself, even inside a larger graph
# Bytes of a node that is computed whole when an element is selected: this takes no longer than recording the element as pending
MAX_EAGER_SOURCE_BYTES = 1 << 18
# Bytes of a node that is computed whole for the value of an element: this takes no longer than planning and compiling the element alone
MAX_WHOLE_BYTES = 1 << 26
MAX_PENDING_NODES = 256  # nodes in a pending graph; a larger graph is computed in part, so loops run in constant memory
HELD_BYTES_SMALL_RESULT = 1 << 12  # bytes of operands: above, a small pending result is recorded
HELD_BYTES_ANY_RESULT = 1 << 20  # bytes of operands: above, every pending result is recorded
_next_serial = count(1).__next__  # the number of the next node
_contiguous = Layout.contiguous
_next_recipe_serial = count(1).__next__  # the number of the next recipe


if TYPE_CHECKING:
    from typing import Protocol

    class TapeNode(Protocol):
        """A tape node (`autodiff/tape.py`). `is_traced` is true if the node depends on an argument of a traced function."""

        is_traced: bool

        def make_tape_node(self, node: Node, serial: int) -> TapeNode | None:
            """Return the tape node of `node`, a new node with the number `serial` that reads a node with this tape node.

            Return None if `node` gets no tape node.
            """


class _TracedEntry:
    """The tape entry of a node without derivatives that depends on an argument of a traced function (`vmap`, `scan`)."""

    is_traced = True

    def make_tape_node(self, node: Node, serial: int) -> TapeNode:
        """Return the tape entry of a new node that reads a node with this entry: `TRACED_CONSTANT` if `tape_mode` is False, else `TRACED`.

        `node` and `serial` are unused.
        """
        return TRACED_CONSTANT if tape_mode.get() is False else TRACED


TRACED: Final = _TracedEntry()
TRACED_CONSTANT: Final = _TracedEntry()  # of a node made while nothing was recorded: derivatives by traced arguments are 0
# Whether new nodes get a tape node if a source has one. None: no, and derivatives are never asked for; False: no, new nodes are constants.
tape_mode: ContextVar[bool | None] = ContextVar("tracking", default=True)


@contextmanager
def use_tape_mode(value: bool | None = True) -> Iterator[None]:
    """Set `tape_mode` to `value` for this thread while the context is open, and then restore it.

    With True, a new node gets a tape node if a source has one. With False or None the node has no tape node. The two differ for a node
    that reads an argument of a traced function (`vmap`, `scan`). With False, derivatives by the argument are 0 (`TRACED_CONSTANT`); with
    None, callers must never ask for derivatives.
    """
    previous = tape_mode.get()
    try:
        tape_mode.set(value)  # inside `try`: a signal may be delivered right after the call
        yield
    finally:
        tape_mode.set(previous)


def disable_tape() -> AbstractContextManager[None]:
    """Return a context: new nodes of the calling thread are constants for derivatives, without tape nodes.

    A node that reads an argument of a traced function (`vmap`, `scan`) gets the entry `TRACED_CONSTANT`. Contexts may be nested.
    """
    return use_tape_mode(False)


class Residuals(NamedTuple):
    """The residuals of a recipe: for each source a flag, whether the derivative reads its value, and a flag for the result.

    The flags follow from the operation and the dtypes, so recipes of several sizes may share a `Residuals`.
    """

    reads_sources: tuple[bool, ...]
    reads_result: bool


NO_RESIDUALS = Residuals((), False)  # the residuals of an operation without derivatives


class Recipe:
    """The computation of a node without its operands, shared by nodes computed alike and compared by identity.

    `op` computes elements of `shape` and `dtype` from sources with `dtypes`, read through layouts with the keys `layout_keys` (None for
    a scalar). `target` is the layout key for the write of a store, a scatter or a scan. `data_recipe` is the recipe of data of this
    shape and dtype. `is_uncacheable` is true if a layout key is too large to cache. `keeps_order` is true if each source, except single
    elements, is as large as the result and read in row-major order. `serial` is a unique id, assigned at the first request.

    The other attributes are caches of other modules. `launch_record` is the launch record (`fastpath/launch_records.py`): None if not
    tried, empty for none. `sum_launch_records` has the launch records of sums of this product, by the recipe of the sum, or is None.
    `residuals` has the residuals of the derivative (`Residuals`), and `copying_variants` the same computation on
    copies of sources (`fastpath/update_recipes.py`); both are keyed by a bit set of sources.

    The fast path (`fastpath/emit/instantiate_templates.py`) makes recipes with tensor specs in place of layout keys: `packed_specs` is
    a tuple of the sources' specs and the target's, or a single spec for all of them, and then `spec_indices` is negative where a layout
    key is None. The layout keys are made at the first request. Such a recipe and an equal interned recipe are different objects.
    """

    __slots__ = (
        *("copying_variants", "_data_recipe", "dtype", "dtypes", "_layout_keys", "launch_record", "keeps_order", "nbytes", "residuals"),
        *("_serial", "op", "is_uncacheable", "shape", "size", "sum_launch_records", "_target", "packed_specs", "spec_indices"),
    )

    def __init__(
        self,
        op: Operation,
        shape: tuple[int, ...],
        dtype: DType,
        dtypes: tuple[DType, ...],
        layout_keys: tuple[LayoutKey | None, ...],
        target: LayoutKey | None,
    ) -> None:
        self.op, self.shape, self.dtype, self.dtypes, self._layout_keys, self._target = op, shape, dtype, dtypes, layout_keys, target
        self.size = prod(shape)
        self.nbytes = self.size * dtype.itemsize
        row_major = _contiguous(shape).layout_key
        self.keeps_order, self.is_uncacheable = True, target is not None and target.is_uncacheable
        for layout_key in layout_keys:
            if layout_key is not None:
                self.keeps_order = self.keeps_order and (
                    layout_key is row_major or layout_key.is_broadcast_scalar or layout_key.layout == row_major.layout
                )
                self.is_uncacheable = self.is_uncacheable or layout_key.is_uncacheable
        self.launch_record: bytes | None = None
        self.sum_launch_records: dict[Recipe, bytes] | None = None
        self.residuals: dict[int, Residuals] | None = None
        self.copying_variants: dict[int, object] | None = None
        if op is not DATA:
            self._data_recipe = intern_recipe(DATA, shape, dtype)

    packed_specs: Any
    spec_indices: tuple[int, ...]
    _serial: int

    # Attributes that may be unset at first. A `__getattr__` instead would slow every attribute down.

    @property
    def data_recipe(self) -> Recipe:
        """The recipe of data of this shape and dtype; for a recipe of data, the recipe itself."""
        try:
            return self._data_recipe
        except AttributeError:  # of data: a reference to itself would keep the recipe alive
            return self

    @property
    def layout_keys(self) -> tuple[LayoutKey | None, ...]:
        """The layout key of each source; None for a scalar."""
        try:
            return self._layout_keys
        except AttributeError:
            self._make_layout_keys()
            return self._layout_keys

    @property
    def target(self) -> LayoutKey | None:
        """The layout key through which a store, a scatter or a scan writes; None for other operations."""
        try:
            return self._target
        except AttributeError:
            self._make_layout_keys()
            return self._target

    def _make_layout_keys(self) -> None:
        """Set the layout keys of the sources and of the target, from the specs in place of them."""
        specs = self.specs
        assert specs is not None
        *layout_keys, self._target = [None if spec is None else spec.layout_key for spec in specs]
        self._layout_keys = tuple(layout_keys)

    @property
    def serial(self) -> int:
        """The unique number of the recipe, assigned at the first request."""
        try:
            return self._serial
        except AttributeError:
            self._serial = _next_recipe_serial()
            return self._serial

    @property
    def specs(self) -> tuple[Any, ...] | None:
        """The specs in place of layout keys, with the target's last; None for a recipe with layout keys from the start."""
        packed_specs = getattr(self, "packed_specs", None)
        if packed_specs is None or type(packed_specs) is tuple:
            return packed_specs
        return tuple([None if k < 0 else packed_specs for k in self.spec_indices])

    def __repr__(self) -> str:
        return f"Recipe({self.shape}, {self.dtype}, {self.op})"


MAX_RECIPES = 1 << 15
_recipes: BoundedCache[Recipe] = register("recipes", "a recipe, by operation, shape, dtypes and layout keys", depends_on=(layout_keys,))(
    BoundedCache(MAX_RECIPES)
)
_look_up_recipe = _recipes.get


def intern_recipe(
    op: Operation,
    shape: tuple[int, ...],
    dtype: DType,
    dtypes: tuple[DType, ...] = (),
    layout_keys: tuple[LayoutKey | None, ...] = (),
    target: LayoutKey | None = None,
) -> Recipe:
    """Return the interned recipe of `op` for results of `shape` and `dtype`, and sources of `dtypes` read through `layout_keys`.

    `target` is the layout key of a write; a scalar has the key None. Equal arguments give one object while the cache keeps it.
    """
    key = (op, shape, dtype, dtypes, layout_keys, target)
    recipe = _look_up_recipe(key)
    if recipe is None:
        interning = upcalls.interning
        if op is DATA and interning is not None:
            recipe = interning.intern_data_recipe(dtype, shape, None)
        recipe = recipe or Recipe(op, shape, dtype, dtypes, layout_keys, target)
        if not recipe.is_uncacheable:
            _recipes.put(key, recipe)
    return recipe


class Node:
    """An immutable value: data in `buffer`, or, while `buffer` is None, the pending result of `recipe` on `sources`.

    The layout of the source of a reduction has the reduced axes last, and that of a gather the indexed axes. `offsets` are the start
    offsets of the layouts of the sources, in elements, followed by the offset of the target for a recipe with a target. A node with
    `is_stored` gets memory of its own when computed, and is never inlined. `tape_node` is the tape node, if derivatives may be asked for;
    it outlives the recipe.

    For the pending graph of the node, `graph_node_count` is an upper bound of the number of nodes (exact for a tree, and if no other nodes
    were made since the `oldest_serial` one), and `max_operand_nbytes` is the size of the largest buffer read by the graph, in bytes.
    """

    __slots__ = (
        "__weakref__",
        "_layouts",
        "buffer",
        "graph_node_count",
        "oldest_serial",
        "max_operand_nbytes",
        "offsets",
        "tape_node",
        "recipe",
        "sources",
        "is_stored",
    )

    graph_node_count: int
    oldest_serial: int
    max_operand_nbytes: int
    tape_node: TapeNode | None
    _layouts: tuple[Layout | None, ...] | None

    def __init__(
        self,
        recipe: Recipe,
        sources: tuple[Node | Scalar, ...] = (),
        offsets: tuple[int, ...] = (),
        buffer: Buffer | None = None,
    ) -> None:
        self.recipe = recipe
        self.sources = sources
        self.offsets = offsets
        self.buffer = buffer
        self.is_stored = False
        self._layouts = None
        number = oldest_serial = _next_serial()
        count, max_operand_nbytes = 1, 0
        tape_node: TapeNode | None = None
        for s in sources:
            if type(s) is Node:
                if s.tape_node is not None and (tape_node is None or type(tape_node) is _TracedEntry):
                    tape_node = s.tape_node
                memory = s.buffer
                if memory is None:
                    count += s.graph_node_count
                    if s.oldest_serial < oldest_serial:
                        oldest_serial = s.oldest_serial
                    if s.max_operand_nbytes > max_operand_nbytes:
                        max_operand_nbytes = s.max_operand_nbytes
                elif memory.nbytes > max_operand_nbytes:
                    max_operand_nbytes = memory.nbytes
        made_since = number - oldest_serial + 1  # nodes made meanwhile, an upper bound for the graph
        self.graph_node_count = count if count < made_since else made_since
        self.oldest_serial, self.max_operand_nbytes = oldest_serial, max_operand_nbytes
        self.tape_node = None if tape_node is None else tape_node.make_tape_node(self, number)

    @staticmethod
    def of(
        op: Operation,
        shape: tuple[int, ...],
        dtype: DType,
        sources: tuple[Node | Scalar, ...] = (),
        layouts: tuple[Layout | None, ...] = (),
        target: Layout | None = None,
    ) -> Node:
        """Return the pending node of `op` on `sources`, each read through the layout in `layouts` at the same position (None for a scalar).

        `target` is the layout through which a store, a scatter or a scan writes; None for other operations. `shape` and `dtype` are the
        result's.
        """
        recipe = intern_recipe(
            op,
            shape,
            dtype,
            tuple([s.dtype for s in sources]),
            tuple([None if x is None else x.layout_key for x in layouts]),
            None if target is None else target.layout_key,
        )
        offsets = tuple([0 if x is None else x.offset for x in layouts])
        node = Node(recipe, sources, offsets if target is None else (*offsets, target.offset))
        node._layouts = layouts
        if op is PLACEHOLDER:
            node.tape_node = TRACED
        return node

    reference_count = property(getrefcount)  # called from C code alone: see `ownership.py`

    @property
    def is_traced(self) -> bool:
        """True if the node depends on an argument of a traced function."""
        return self.tape_node is not None and self.tape_node.is_traced

    @property
    def op(self) -> Operation:
        """The operation of the recipe: `DATA` for a node in memory."""
        return self.recipe.op

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.recipe.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.recipe.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.recipe.size

    @property
    def layouts(self) -> tuple[Layout | None, ...]:
        """The layouts through which the sources are read, with offsets; None for a scalar. The layout of a write is `target`."""
        layouts = self._layouts
        if layouts is None:
            keys_and_offsets = zip(self.recipe.layout_keys, self.offsets)  # noqa: B905  # the last offset may be the target's
            layouts = self._layouts = tuple(
                [None if layout_key is None else layout_key.layout.at(offset) for layout_key, offset in keys_and_offsets]
            )
        return layouts

    @property
    def target(self) -> Layout | None:
        """The layout through which a store, a scatter or a running reduction (`Scan`) writes; None for other nodes."""
        layout_key = self.recipe.target
        if layout_key is None:
            return None
        layout: Layout = layout_key.layout.at(self.offsets[-1])
        return layout

    def set_buffer(self, buffer: Buffer) -> None:
        """Make the node data in `buffer`: `recipe` becomes `data_recipe`, and `sources` and `offsets` become empty; `tape_node` stays.

        Do nothing if the node has another buffer, as a signal handler or finalizer has computed the node. `buffer` may be set already.
        """
        if self.buffer is not None and self.buffer is not buffer:
            return
        self.buffer = buffer
        self.recipe = self.recipe.data_recipe
        self.sources = self.offsets = ()
        self._layouts = None

    def __repr__(self) -> str:
        state = "in memory" if self.buffer is not None else f"pending {self.op}"
        return f"Node({self.shape}, {self.dtype}, {state})"


def make_external_node(
    op: ExternalOp, shape: tuple[int, ...], dtype: DType, sources: tuple[Node, ...], layouts: tuple[Layout, ...]
) -> Node:
    """Return the pending node of `op` on `sources`, read through `layouts`, with a recipe that is not interned: each call makes a new one.

    `shape` and `dtype` are the result's.
    """
    recipe = Recipe(op, shape, dtype, tuple([s.dtype for s in sources]), tuple([x.layout_key for x in layouts]), None)
    return Node(recipe, sources, tuple([x.offset for x in layouts]))


def attach_tape_node(node: Node) -> bool:
    """Give `node`, made without a tape node, its tape node, if its sources have any.

    Return False if the node depends on an argument of a traced function and so has no value, and True otherwise.
    """
    tape_node: TapeNode | None = None
    for s in node.sources:
        if type(s) is Node and s.tape_node is not None and (tape_node is None or type(tape_node) is _TracedEntry):
            tape_node = s.tape_node
    node.tape_node = None if tape_node is None else tape_node.make_tape_node(node, _next_serial())
    return not node.is_traced


def next_serial() -> int:
    """Take and return the serial number of a node made now: larger than every earlier one."""
    return _next_serial()


def is_store(op: Operation) -> bool:
    """Return whether the result of `op` is the first source, with the second written through `target`: `STORE` or `UPDATE`."""
    return op is STORE or op is UPDATE


def is_read_from_memory(source: Node, reader: Node) -> bool:
    """Return whether `source`, a node made of scalars alone, is in memory when a kernel sums the operands of `reader`.

    A small node (`MAX_STANDALONE_BYTES`), or a node broadcast by the reader, is stored before. A larger node is computed in the kernel.
    """
    return source.recipe.nbytes <= MAX_STANDALONE_BYTES or source.size < reader.size


def is_write(op: Operation) -> bool:
    """Return whether the result of `op` is the first source with some elements overwritten: a store or a scatter."""
    return is_store(op) or type(op) is Scatter


def make_data_node(buffer: Buffer, shape: tuple[int, ...], dtype: DType) -> Node:
    """Return a node whose content, of `shape` and `dtype`, is in `buffer`, in row-major order from the start."""
    return Node(intern_recipe(DATA, shape, dtype), buffer=buffer)


def reinterpret(node: Node, dtype: DType) -> Node:
    """Return a node of the bytes of `node` with dtype `dtype`, and with a single axis; both share a buffer, now or once `node` is computed.

    If `node` is a pending reinterpretation of a node of dtype `dtype`, return that node itself, in its own shape.
    """
    shape = (node.size * node.dtype.itemsize // dtype.itemsize,)
    if node.buffer is not None and node.tape_node is None:
        return make_data_node(node.buffer, shape, dtype)
    if node.op is REINTERPRET:
        source = node.sources[0]
        assert type(source) is Node
        return source if source.dtype is dtype else reinterpret(source, dtype)
    result = Node.of(REINTERPRET, shape, dtype, (node,), (Layout.contiguous(node.shape),))
    if node.buffer is not None:
        result.set_buffer(node.buffer)
    return result


def is_externally_shared(source: Node | Scalar) -> bool:
    """Return whether the memory of `source` is externally shared: code outside may write it.

    Return False for scalars and pending nodes.
    """
    return type(source) is Node and source.buffer is not None and bool(source.buffer.externally_shared)
