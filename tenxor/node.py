"""Nodes: the immutable content of a storage, either data in memory or a pending recipe.

A recipe computes a node from its sources: nodes, each read through a layout, and Python numbers (`Scalar`). Nodes computed alike share a
`Recipe`; `sources` and `offsets` belong to each node. The content of a node of shape `s` is its elements in row-major order. The content
never changes: `realize` only replaces the recipe by the data. Laziness rests on this rule, with two exceptions:

- **Sole ownership.** A write may reuse the memory of the old node when the node and its buffer have no further owner (`ownership.py`).
- **External sharing.** A buffer with writers outside (`Buffer.pins`) breaks the rule, so no pending recipe may read it: each operation on
  it is computed at the call.
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

from .dtypes import DType, Number
from .layout import Form, Layout
from .memory import Buffer
from .ops import Op
from .ops.reductions import Reduction
from .remembered import Remembered


class Scalar:
    """A Python number read by a recipe: a run-time argument of the kernel, so a new number needs no new kernel."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Number, dtype: DType) -> None:
        self.value, self.dtype = value, dtype

    def __repr__(self) -> str:
        return repr(self.value)


class Special:
    """An operation that is neither elementwise nor a reduction."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind

    def __repr__(self) -> str:
        return self.name


class Scan:
    """A running reduction along the last axis of the source: element `i` is the reduction of elements `0..i`."""

    __slots__ = ("kind", "name", "reduction")

    def __init__(self, reduction: Reduction) -> None:
        self.kind, self.name, self.reduction = "scan", f"cumulative_{reduction.name}", reduction

    def __repr__(self) -> str:
        return self.name


class Gather:
    """A read of elements at indices known only at run time. The sources after the first are the indices, one for each of the last axes of
    the first source's layout.

    Error messages name the operation `name` and the user's numbers of these axes, `axes`.
    """

    __slots__ = ("axes", "kind", "name")

    def __init__(self, name: str, axes: tuple[int, ...]) -> None:
        self.kind, self.name, self.axes = "gather", name, axes

    def __repr__(self) -> str:
        return self.name


class Scatter:
    """A write at indices known only at run time: the first source, with the second written through `target`, in the order of its elements.
    The further sources are the indices along the last axes of `target`.

    With a `reduction` each value is combined with the present element; without, the last value written to an element remains. Error
    messages name `name` and the axis numbers `axes`. `checked` is true if the indices are known to be in range, or a failure loses no data.
    """

    __slots__ = ("axes", "checked", "kind", "name", "reduction")

    def __init__(self, name: str, reduction: Reduction | None, axes: tuple[int, ...], checked: bool) -> None:
        self.kind, self.name, self.reduction, self.axes, self.checked = "scatter", name, reduction, axes, checked

    def __repr__(self) -> str:
        return self.name


class Hosted:
    """Result `number` of a function without kernels, applied to sources without values: arguments of a function traced for `vmap`.

    `compute` takes the arrays of the sources, for each whether it has a leading batch axis, and the size of the batch. It returns all
    results, each with a leading batch axis.
    """

    __slots__ = ("compute", "kind", "name", "number")

    def __init__(self, name: str, compute: Callable[..., Sequence[Node]], number: int) -> None:
        self.kind, self.name, self.compute, self.number = "hosted", name, compute, number

    def __repr__(self) -> str:
        return self.name


gather, scatter = cache(Gather), cache(Scatter)  # equal arguments give the same object: recipes compare operations by identity

Operation = Op | Reduction | Scan | Gather | Scatter | Hosted | Special

DATA: Final = Special("data")  # the node is in memory
POSITION: Final = Special("position")  # element n is n: the source of arange, eye and random numbers
EMPTY: Final = Special("empty")  # memory with undefined content
STORE: Final = Special("store")  # the first source, with the second written through `target`
UPDATE: Final = Special("update")  # a store in which each element may depend on the element it overwrites, but on no other overwritten one
REINTERPRET: Final = Special("reinterpret")  # the bytes of the source as another dtype
UNFINISHED: Final = Special("unfinished")  # an interrupted or deferred computation, finished by its first source and not by a kernel
PLACEHOLDER: Final = Special("placeholder")  # an argument of a traced function, without a value
# Limits of pending graphs (`pending.py`).
ALONE = 1 << 14  # bytes up to which a node may be computed by itself, even inside a larger graph
MAX_PENDING = 256  # nodes in a pending graph; a larger graph is computed in part, so loops run in constant memory
HEAVY = 1 << 12  # bytes of operands: above, a small pending result is recorded
LARGE = 1 << 20  # bytes of operands: above, every pending result is recorded
_number = count(1).__next__  # the number of the next node
_contiguous = Layout.contiguous
_recipe_number = count(1).__next__  # the number of the next recipe


if TYPE_CHECKING:
    from typing import Protocol

    class Past(Protocol):
        """A tape node, for derivatives (`past.py`). `traced` is true if the node depends on an argument of a traced function."""

        traced: bool

        def followed(self, node: Node, number: int) -> Past | None:
            """Return the tape node of a new node, with a number, that reads a node with this tape node; or None."""


class _Traced:
    """The tape entry of a node without derivatives that depends on an argument of a traced function."""

    traced = True

    def followed(self, node: Node, number: int) -> Past:
        return CONSTANT if tracking.get() is False else TRACED


TRACED: Final = _Traced()
CONSTANT: Final = _Traced()  # of a node made while nothing was recorded: derivatives by traced arguments are 0
watchers: list[Callable[..., None]] = []  # hooks called with each node made by user code or derivatives, and a tape node
# Whether new nodes get a tape node if a source has one. None: no, and derivatives are never asked for; False: no, new nodes are constants.
tracking: ContextVar[bool | None] = ContextVar("tracking", default=True)


@contextmanager
def tracked(value: bool | None = True) -> Iterator[None]:
    """Set `tracking` for this thread while the context is open."""
    previous = tracking.get()
    try:
        tracking.set(value)  # inside `try`: a signal may be delivered right after the call
        yield
    finally:
        tracking.set(previous)


def untracked() -> AbstractContextManager[None]:
    """Make nodes of this thread without tape nodes while the context is open."""
    return tracked(False)


class Recipe:
    """The computation of a node without its operands, shared by nodes computed alike and compared by identity.

    `op` computes elements of `shape` and `dtype` from sources with `dtypes`, read through layouts with the keys `forms` (None for a
    scalar). `target` is the layout key for the write of a store, a scatter or a scan. `done` is the recipe of data of this shape and dtype.
    `passing` is true if a layout key is too large to cache. `keeps_order` is true if each source, except single elements, is as large as
    the result and read in row-major order. `number` is a unique id, assigned at the first request.

    The other attributes are caches of other modules. `frame` is the launch record (`shortcut/frames.py`): None if not tried, empty for
    none. `summed` has the launch records of sums of this product, by the recipe of the sum: a pair, or a dictionary of several. `needs` has
    the residuals of the derivative (`past.py`), and `apart` the same computation on copies of sources (`shortcut/updates.py`); both are
    keyed by a bit set of sources.

    The fast path (`shortcut/code/rules.py`) makes recipes with tensor specs in place of layout keys: `through` is a tuple of the sources'
    specs and the target's, or a single spec for all of them, and then `which` is negative where a layout key is None. The layout keys are
    made at the first request. Such a recipe and an equal interned recipe are different objects.
    """

    __slots__ = (
        *("apart", "done", "dtype", "dtypes", "forms", "frame", "keeps_order", "nbytes", "needs"),
        *("number", "op", "passing", "shape", "size", "summed", "target", "through", "which"),
    )

    def __init__(
        self,
        op: Operation,
        shape: tuple[int, ...],
        dtype: DType,
        dtypes: tuple[DType, ...],
        forms: tuple[Form | None, ...],
        target: Form | None,
    ) -> None:
        self.op, self.shape, self.dtype, self.dtypes, self.forms, self.target = op, shape, dtype, dtypes, forms, target
        self.size = prod(shape)
        self.nbytes = self.size * dtype.itemsize
        row_major = _contiguous(shape).form
        self.keeps_order, self.passing = True, target is not None and target.passing
        for form in forms:
            if form is not None:
                self.keeps_order = self.keeps_order and (form is row_major or form.is_single or form.layout == row_major.layout)
                self.passing = self.passing or form.passing
        self.frame: bytes | None = None
        self.summed: tuple[Recipe, bytes] | dict[Recipe, bytes] | None = None
        self.needs: dict[int, object] | None = None
        self.apart: dict[int, object] | None = None
        if op is not DATA:
            self.done = recipe_of(DATA, shape, dtype)

    if TYPE_CHECKING:
        through: Any
        which: tuple[int, ...]
        number: int
        done: Recipe
    else:

        def __getattr__(self, name: str) -> Any:
            """Compute an attribute at the first request."""
            if name == "done":  # of data: a reference to itself would keep the recipe alive
                return self
            if name in ("forms", "target"):
                forms = [None if spec is None else spec.form for spec in self.specs]
                value = forms[-1] if name == "target" else tuple(forms[:-1])
            elif name == "number":
                value = _recipe_number()
            else:
                raise AttributeError(name)
            setattr(self, name, value)
            return value

    @property
    def specs(self) -> tuple[Any, ...] | None:
        """The specs in place of layout keys, with the target's last; None for a recipe with layout keys from the start."""
        through = getattr(self, "through", None)
        if through is None or type(through) is tuple:
            return through
        return tuple([None if k < 0 else through for k in self.which])

    def __repr__(self) -> str:
        return f"Recipe({self.shape}, {self.dtype}, {self.op})"


# Hook of the fast path, one or none. Return the fast path's recipe of data of a dtype and shape; if it has none, store the last argument,
# or make a recipe in place of None. Return None for dims that do not fit.
keepers: list[Callable[[DType, tuple[int, ...], Recipe | None], Recipe | None]] = []
MAX_RECIPES = 1 << 15
_recipes: Remembered[Recipe] = Remembered(MAX_RECIPES)
_look_up_recipe = _recipes.get


def recipe_of(
    op: Operation,
    shape: tuple[int, ...],
    dtype: DType,
    dtypes: tuple[DType, ...] = (),
    forms: tuple[Form | None, ...] = (),
    target: Form | None = None,
) -> Recipe:
    """Return the interned recipe of the given parts: the same object each time, unless a layout key is `passing`."""
    key = (op, shape, dtype, dtypes, forms, target)
    recipe = _look_up_recipe(key)
    if recipe is None:
        fast_path_recipe = keepers[0](dtype, shape, None) if op is DATA and keepers else None
        recipe = fast_path_recipe or Recipe(op, shape, dtype, dtypes, forms, target)
        if not recipe.passing:
            _recipes.keep(key, recipe)
    return recipe


class Node:
    """A content: `buffer` if it is in memory, or else the result of `recipe` on `sources`.

    The layout of the source of a reduction has the reduced axes last, and that of a gather the indexed axes. `offsets` are the start
    offsets of the layouts of the sources, in elements, followed by the offset of the target for a recipe with a target. A `stored` node
    gets memory of its own when computed, and is never inlined. `past` is the tape node, if derivatives may be asked for; it outlives the
    recipe.

    For the pending graph of the node, `count` is an upper bound of the number of nodes (exact for a tree, and if no other nodes were made
    since the `first` one), and `heavy` is the size of the largest buffer read by the graph, in bytes.
    """

    __slots__ = (
        "__weakref__",
        "_layouts",
        "buffer",
        "count",
        "first",
        "heavy",
        "offsets",
        "past",
        "recipe",
        "sources",
        "stored",
    )

    count: int
    first: int
    heavy: int
    past: Past | None
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
        self.stored = False
        self._layouts = None
        number = first = _number()
        count, heavy = 1, 0
        past: Past | None = None
        for s in sources:
            if type(s) is Node:
                if s.past is not None and (past is None or type(past) is _Traced):
                    past = s.past
                memory = s.buffer
                if memory is None:
                    count += s.count
                    if s.first < first:
                        first = s.first
                    if s.heavy > heavy:
                        heavy = s.heavy
                elif memory.nbytes > heavy:
                    heavy = memory.nbytes
        made_since = number - first + 1  # nodes made meanwhile, an upper bound for the graph
        self.count = count if count < made_since else made_since
        self.first, self.heavy = first, heavy
        self.past = None if past is None else past.followed(self, number)

    @staticmethod
    def of(
        op: Operation,
        shape: tuple[int, ...],
        dtype: DType,
        sources: tuple[Node | Scalar, ...] = (),
        layouts: tuple[Layout | None, ...] = (),
        target: Layout | None = None,
    ) -> Node:
        """Return the pending node of an operation on sources read through layouts (None for a scalar)."""
        recipe = recipe_of(
            op,
            shape,
            dtype,
            tuple([s.dtype for s in sources]),
            tuple([None if x is None else x.form for x in layouts]),
            None if target is None else target.form,
        )
        offsets = tuple([0 if x is None else x.offset for x in layouts])
        node = Node(recipe, sources, offsets if target is None else (*offsets, target.offset))
        node._layouts = layouts
        if op is PLACEHOLDER:
            node.past = TRACED
        return node

    references = property(getrefcount)  # called from C code alone: see `ownership.py`

    @property
    def traced(self) -> bool:
        """True if the node depends on an argument of a traced function."""
        return self.past is not None and self.past.traced

    @property
    def op(self) -> Operation:
        return self.recipe.op

    @property
    def shape(self) -> tuple[int, ...]:
        return self.recipe.shape

    @property
    def dtype(self) -> DType:
        return self.recipe.dtype

    @property
    def size(self) -> int:
        return self.recipe.size

    @property
    def layouts(self) -> tuple[Layout | None, ...]:
        """The layouts of the sources; None for a scalar."""
        layouts = self._layouts
        if layouts is None:
            keys_and_offsets = zip(self.recipe.forms, self.offsets)  # noqa: B905  # the last offset may be the target's
            layouts = self._layouts = tuple([None if form is None else form.layout.at(offset) for form, offset in keys_and_offsets])
        return layouts

    @property
    def target(self) -> Layout | None:
        """The layout for the write of a store, a scatter or a scan; None for other nodes."""
        form = self.recipe.target
        if form is None:
            return None
        layout: Layout = form.layout.at(self.offsets[-1])
        return layout

    def settle(self, buffer: Buffer) -> None:
        """Replace the recipe by the computed data. Do nothing if a signal handler or a finalizer has computed the node meanwhile."""
        if self.buffer is not None and self.buffer is not buffer:
            return
        self.buffer = buffer
        self.recipe = self.recipe.done
        self.sources = self.offsets = ()
        self._layouts = None

    def __repr__(self) -> str:
        state = "in memory" if self.buffer is not None else f"pending {self.op}"
        return f"Node({self.shape}, {self.dtype}, {state})"


def hosted_node(
    op: Hosted, shape: tuple[int, ...], dtype: DType, sources: tuple[Node, ...], layouts: tuple[Layout, ...]
) -> Node:
    """Return a pending node with a recipe that is not interned: each call makes a new recipe."""
    recipe = Recipe(op, shape, dtype, tuple([s.dtype for s in sources]), tuple([x.form for x in layouts]), None)
    return Node(recipe, sources, tuple([x.offset for x in layouts]))


def follow(node: Node) -> bool:
    """Give a node made without a tape node its tape node, if its sources have any. Return False if the node depends on an argument of a
    traced function and so has no value.
    """
    past: Past | None = None
    for s in node.sources:
        if type(s) is Node and s.past is not None and (past is None or type(past) is _Traced):
            past = s.past
    node.past = None if past is None else past.followed(node, _number())
    return not node.traced


def next_number() -> int:
    """Return the number of a node made now."""
    return _number()


def stores(op: Operation) -> bool:
    """Return whether an operation is its first source with the second written through `target`."""
    return op is STORE or op is UPDATE


def is_read_from_memory(source: Node, reads: Node) -> bool:
    """Return whether a kernel that sums the operands of `reads` finds `source`, a node made of scalars alone, in memory."""
    return source.recipe.nbytes <= ALONE or source.size < reads.size


def writes(op: Operation) -> bool:
    """Return whether an operation is its first source with some elements overwritten."""
    return stores(op) or type(op) is Scatter


def data(buffer: Buffer, shape: tuple[int, ...], dtype: DType) -> Node:
    """Return a node that is in memory."""
    return Node(recipe_of(DATA, shape, dtype), buffer=buffer)


def reinterpreted(node: Node, dtype: DType) -> Node:
    """Return a node of the same bytes with another dtype. Both nodes share a buffer, now or once `node` is computed."""
    shape = (node.size * node.dtype.itemsize // dtype.itemsize,)
    if node.buffer is not None and node.past is None:
        return data(node.buffer, shape, dtype)
    if node.op is REINTERPRET:
        source = node.sources[0]
        assert type(source) is Node
        return source if source.dtype is dtype else reinterpreted(source, dtype)
    result = Node.of(REINTERPRET, shape, dtype, (node,), (Layout.contiguous(node.shape),))
    if node.buffer is not None:
        result.settle(node.buffer)
    return result


def is_pinned(source: Node | Scalar) -> bool:
    """Return whether the memory of this source is externally shared."""
    return type(source) is Node and source.buffer is not None and bool(source.buffer.pins)
