"""Nodes: the immutable content of a storage, as data in memory or as a recipe.

What is not in memory is made by a recipe of what it reads: of nodes, each through a layout, and of Python numbers
(`Scalar`). A `Recipe` is shared by all nodes that are made alike; what each reads of its own are `sources` and `offsets`. The
content of a node of shape `s` is its elements in row-major order. A node never changes its content: `realize` only
swaps the recipe for the data. That is all that laziness rests on, so there are two exceptions:

- **Sole ownership.** A write may reuse the old node's memory when nobody else can read that node, or its buffer, any more
  (`ownership.py`).
- **Pins.** A buffer that others may write (`Buffer.pins`) breaks the promise, so no recipe ever reads one: what reads it is
  computed at the call.
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
    """A Python number that a recipe reads: a run-time argument of its kernel, so no new number needs a new kernel."""

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
    """A running reduction along the last axis of what it reads: element `i` is the reduction of elements `0..i`."""

    __slots__ = ("kind", "name", "reduction")

    def __init__(self, reduction: Reduction) -> None:
        self.kind, self.name, self.reduction = "scan", f"cumulative_{reduction.name}", reduction

    def __repr__(self) -> str:
        return self.name


class Gather:
    """Elements at indices that are known when it runs. The other sources are the indices along the last axes of what is
    read of the first, one for each of these axes.

    `name` is the operation that asked for it, and `axes` are its numbers of those axes: what errors say.
    """

    __slots__ = ("axes", "kind", "name")

    def __init__(self, name: str, axes: tuple[int, ...]) -> None:
        self.kind, self.name, self.axes = "gather", name, axes

    def __repr__(self) -> str:
        return self.name


class Scatter:
    """A write at indices that are known when it runs: the first source, with the second written through `target`, in the
    order of its elements. The other sources are the indices along the last axes of `target`.

    With a `reduction` each value is combined with what is there; without, the last of those for one place stays there.
    `name` and `axes` are what errors say, as for a gather. `checked` tells that all indices are known to be in range, or
    nothing is lost where one is not.
    """

    __slots__ = ("axes", "checked", "kind", "name", "reduction")

    def __init__(self, name: str, reduction: Reduction | None, axes: tuple[int, ...], checked: bool) -> None:
        self.kind, self.name, self.reduction, self.axes, self.checked = "scatter", name, reduction, axes, checked

    def __repr__(self) -> str:
        return self.name


class Hosted:
    """A result, by its number, of what is not computed by kernels, of sources that have no value yet: of a function that is traced for a
    batch. `compute` takes what is read of each source, led by an axis for the members of the batch if they differ in it, whether that
    is so, and how many members there are; it gives all results, led by such an axis.
    """

    __slots__ = ("compute", "kind", "name", "number")

    def __init__(self, name: str, compute: Callable[..., Sequence[Node]], number: int) -> None:
        self.kind, self.name, self.compute, self.number = "hosted", name, compute, number

    def __repr__(self) -> str:
        return self.name


gather, scatter = cache(Gather), cache(Scatter)  # the same object each time, as recipes are compared by it

Operation = Op | Reduction | Scan | Gather | Scatter | Hosted | Special

DATA: Final = Special("data")  # in memory already
POSITION: Final = Special("position")  # element n is n: what arange, eye and random numbers are made of
EMPTY: Final = Special("empty")  # memory with no content yet
STORE: Final = Special("store")  # the first source, with the second written through `target`
UPDATE: Final = Special("update")  # a store of elements, each made of what it overwrites itself, and of nothing else that is overwritten
REINTERPRET: Final = Special("reinterpret")  # the bytes of the source as another dtype
UNFINISHED: Final = Special("unfinished")  # begun, or put off, and not by a kernel: its first source says how it is finished
PLACEHOLDER: Final = Special("placeholder")  # an argument of a function being traced; it has no value
# Up to where nodes may wait (`pending.py`).
ALONE = 1 << 14  # bytes up to which any node may be computed for itself, also where it is part of more
MAX_PENDING = 256  # nodes in one pending graph; one of more is computed in part, so that loops run in constant memory
HEAVY = 1 << 12  # bytes that the recipe of a small result keeps, from which it is remembered
LARGE = 1 << 20  # and that of any other
_number = count(1).__next__  # of the next node
_contiguous = Layout.contiguous
_recipe_number = count(1).__next__  # of the next recipe


if TYPE_CHECKING:
    from typing import Protocol

    class Past(Protocol):
        """What is known of how a node was made, for as long as the node is: for derivatives (`past.py`). `traced` says
        that it reads an argument of a function being traced.
        """

        traced: bool

        def followed(self, node: Node, number: int) -> Past | None:
            """That of a new node, with a number, that reads one with this past."""


class _Traced:
    """The past of what has none, but reads an argument of a function being traced."""

    traced = True

    def followed(self, node: Node, number: int) -> Past:
        return CONSTANT if tracking.get() is False else TRACED


TRACED: Final = _Traced()
CONSTANT: Final = _Traced()  # of what was made while nothing was tracked: derivatives by what the arguments stand for are 0
watchers: list[Callable[..., None]] = []  # those who want to know of each node that programs and derivatives make, `of` which past
# Whether what reads a node with a past gets one. None: it gets none, as nobody could ask; False: somebody might, but it is constant.
tracking: ContextVar[bool | None] = ContextVar("tracking", default=True)


@contextmanager
def tracked(yes: bool | None = True) -> Iterator[None]:
    """While it is open, this thread makes nodes with a past, or without: see `tracking`."""
    before = tracking.get()
    try:
        tracking.set(yes)  # in here, as a signal may be heard as soon as that is done
        yield
    finally:
        tracking.set(before)


def untracked() -> AbstractContextManager[None]:
    """While it is open, this thread makes nodes without a past."""
    return tracked(False)


class Recipe:
    """How a node is made, but for what it reads: shared by all nodes that are made alike, so it is compared by identity.

    `op` makes elements of `shape` and `dtype` of sources with `dtypes`, read through layouts of these `forms` (None for a number).
    `target` is the form of the layout that a store, a scatter or a scan writes through. `done` is the recipe of what is in memory, with
    this shape and dtype. What is `passing` has a form that is. `frame` says how it is computed in one go (`shortcut/frames.py`): None
    if nobody has looked, nothing if it is not. `summed` says the same of sums of it, by their recipe: of one as a pair, of several as a
    dictionary. `needs` are what its derivative reads, by which sources have a past (`past.py`). `apart` says how the same is made of
    copies of some sources, by which these are (`shortcut/updates.py`). Machine code makes recipes (`shortcut/code/rules.py`) of specs
    in place of forms: those that it reads `through`, and the one of the target behind them, or where all of them are one, that one, and
    `which` are below 0 where there is none; then forms are asked of these when somebody wants them, and an equal recipe is another one.
    It `keeps_order` if all sources but single elements are as large as what it makes, and read as they lie. No other ever has its
    `number`, which it has once somebody asks.
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
        plain = _contiguous(shape).form
        self.keeps_order, self.passing = True, target is not None and target.passing
        for form in forms:
            if form is not None:
                self.keeps_order = self.keeps_order and (form is plain or form.is_single or form.layout == plain.layout)
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
            """What was not asked for yet."""
            if name == "done":  # of what is in memory: a recipe that refers to itself would not die
                return self
            if name in ("forms", "target"):
                forms = [None if spec is None else spec.form for spec in self.specs]
                found = forms[-1] if name == "target" else tuple(forms[:-1])
            elif name == "number":
                found = _recipe_number()
            else:
                raise AttributeError(name)
            setattr(self, name, found)
            return found

    @property
    def specs(self) -> tuple[Any, ...] | None:
        """The specs that stand in place of forms, the target's behind the others; None where there are forms from the first."""
        through = getattr(self, "through", None)
        if through is None or type(through) is tuple:
            return through
        return tuple([None if k < 0 else through for k in self.which])

    def __repr__(self) -> str:
        return f"Recipe({self.shape}, {self.dtype}, {self.op})"


# Machine code that has the recipe of what is in memory with a dtype and a shape: it gives the one that it has, and makes one if it has
# none, or keeps the last argument; None for what it has no numbers for. One, or none.
keepers: list[Callable[[DType, tuple[int, ...], Recipe | None], Recipe | None]] = []
MAX_RECIPES = 1 << 15
_recipes: Remembered[Recipe] = Remembered(MAX_RECIPES)
_recipe_of = _recipes.get


def recipe_of(
    op: Operation,
    shape: tuple[int, ...],
    dtype: DType,
    dtypes: tuple[DType, ...] = (),
    forms: tuple[Form | None, ...] = (),
    target: Form | None = None,
) -> Recipe:
    """The recipe of these parts: the same object each time, unless one of its forms is `passing`."""
    key = (op, shape, dtype, dtypes, forms, target)
    found = _recipe_of(key)
    if found is None:
        kept = keepers[0](dtype, shape, None) if op is DATA and keepers else None
        found = kept or Recipe(op, shape, dtype, dtypes, forms, target)
        if not found.passing:
            _recipes.keep(key, found)
    return found


class Node:
    """One content: `buffer` if it is in memory, else what its `recipe` makes of its `sources`.

    For a reduction, `shape` is that of the result and the layout of the source has the reduced axes last; for a gather,
    those that are indexed. `offsets` say where the layouts begin that sources are read through, and after them where the
    target does, if there is one. What is `stored` gets memory of its own when it is computed, and is never inlined.
    What has a `past` tells how it was made even when it has been computed, and its recipe was let go of.

    Of the pending graph below, `count` bounds how many nodes it has (exact for a tree, and where nothing else was made since
    its `first` node was), and `heavy` is the largest memory it reads, in bytes.
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
        since = number - first + 1  # nodes were made, so a graph made in one go has no more of them
        self.count = count if count < since else since
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
        """The pending node of an operation on sources read through layouts (None for a number)."""
        recipe = recipe_of(
            op,
            shape,
            dtype,
            tuple([s.dtype for s in sources]),
            tuple([None if x is None else x.form for x in layouts]),
            None if target is None else target.form,
        )
        offsets = tuple([0 if x is None else x.offset for x in layouts])
        found = Node(recipe, sources, offsets if target is None else (*offsets, target.offset))
        found._layouts = layouts
        if op is PLACEHOLDER:
            found.past = TRACED
        return found

    references = property(getrefcount)  # asked in C alone: see `ownership.py`

    @property
    def traced(self) -> bool:
        """Whether it reads an argument of a function being traced."""
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
        """What each source is read through; None for a number."""
        found = self._layouts
        if found is None:
            each = zip(self.recipe.forms, self.offsets)  # noqa: B905  # the last offset may be the target's
            found = self._layouts = tuple([None if form is None else form.layout.at(offset) for form, offset in each])
        return found

    @property
    def target(self) -> Layout | None:
        """What a store, a scatter or a scan writes through."""
        form = self.recipe.target
        if form is None:
            return None
        found: Layout = form.layout.at(self.offsets[-1])
        return found

    def settle(self, buffer: Buffer) -> None:
        """Swap the recipe for the data it gave. Where a signal's handler or a finalizer was first, it is there already."""
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
    """A pending node of a recipe of its own: no other will ever be made alike."""
    recipe = Recipe(op, shape, dtype, tuple([s.dtype for s in sources]), tuple([x.form for x in layouts]), None)
    return Node(recipe, sources, tuple([x.offset for x in layouts]))


def follow(node: Node) -> bool:
    """Give a node that was made without it the past that follows from those of its sources. False if it can have no value, as it
    reads an argument of a function being traced.
    """
    past: Past | None = None
    for s in node.sources:
        if type(s) is Node and s.past is not None and (past is None or type(past) is _Traced):
            past = s.past
    node.past = None if past is None else past.followed(node, _number())
    return not node.traced


def next_number() -> int:
    """The number of a node made now."""
    return _number()


def stores(op: Operation) -> bool:
    """Whether a recipe is its first source, with the second written through `target`."""
    return op is STORE or op is UPDATE


def is_read_from_memory(source: Node, reads: Node) -> bool:
    """Whether a kernel that sums what another node `reads` finds what is made of numbers alone in memory."""
    return source.recipe.nbytes <= ALONE or source.size < reads.size


def writes(op: Operation) -> bool:
    """Whether a recipe is its first source, some elements of which are written."""
    return stores(op) or type(op) is Scatter


def data(buffer: Buffer, shape: tuple[int, ...], dtype: DType) -> Node:
    """A node that is in memory already."""
    return Node(recipe_of(DATA, shape, dtype), buffer=buffer)


def reinterpreted(node: Node, dtype: DType) -> Node:
    """The same bytes as elements of another dtype: the same buffer, at once or when there is one."""
    shape = (node.size * node.dtype.itemsize // dtype.itemsize,)
    if node.buffer is not None and node.past is None:
        return data(node.buffer, shape, dtype)
    if node.op is REINTERPRET:
        source = node.sources[0]
        assert type(source) is Node
        return source if source.dtype is dtype else reinterpreted(source, dtype)
    found = Node.of(REINTERPRET, shape, dtype, (node,), (Layout.contiguous(node.shape),))
    if node.buffer is not None:
        found.settle(node.buffer)
    return found


def is_pinned(source: Node | Scalar) -> bool:
    """Whether others may write what this source reads."""
    return type(source) is Node and source.buffer is not None and bool(source.buffer.pins)
