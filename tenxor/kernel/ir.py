"""The loop IR: what stands between tensors and machines.

A `Kernel` is a pattern. It knows operations, dtypes, how many axes there are, and how each operand lies along each
axis; it knows no size, stride, offset or number. Those are run-time arguments, all 8 bytes wide, in one block:

    operands (pointers)  |  tables (pointers)  |  scalars (int64, uint64 or float64)  |  slots (int64: sizes, strides, offsets)

Equal kernels are equal Python values, so the IR is its own cache key. `str(kernel)` shows it as a program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..dtypes import DType, int64
from ..expr import Call, Expr, cast
from ..expr import walk as walk
from ..reductions import Reduction
from ..target import Sharing

ALIGNMENT = 64  # bytes: where results begin
PARTS = (".real", ".imag")  # of a complex element, as they are shown

# --- index arithmetic -------------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """What one axis adds to an address: its index times 1 ("unit"), times a small number ("near"), times a slot
    ("stride"), or looked up ("table"). Axis -1 is no loop: its index is the first operand of the load; -2 the second, ...
    """

    axis: int
    how: str
    slot: (
        int  # of the stride among the slots, or of the table among the tables; the number itself if near; -1 for a unit
    )


class Address(NamedTuple):
    """An element's place: the sum of its terms and the slot `offset` (-1: none, it is in the pointer).

    Where one view cannot say it, `then` reads that number in row-major order of the sizes in `digits` (slots), and
    gives an address over the digits, whose axes are their positions.
    """

    terms: tuple[Term, ...]
    offset: int = -1
    digits: tuple[int, ...] = ()
    then: Address | None = None

    def axes(self) -> frozenset[int]:
        """The loop axes that the place depends on."""
        return frozenset(t.axis for t in self.terms if t.axis >= 0)


# --- leaves of expressions --------------------------------------------------------------------------------------------


class Load(Expr):
    """The element of operand `operand` at `address`, of which `indices` may be part.

    Of a complex element it is one part: the real (`part` 0) or the imaginary one (1).
    """

    __slots__ = ("_args", "address", "operand", "part")

    def __init__(
        self, operand: int, address: Address, dtype: DType, indices: tuple[Expr, ...] = (), part: int | None = None
    ) -> None:
        self.operand, self.address, self._args, self.part = operand, address, indices, part
        self._set(dtype, operand, address, part, *indices)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Load(self.operand, self.address, self.dtype, args, self.part)

    def __repr__(self) -> str:
        part = "" if self.part is None else PARTS[self.part]
        return f"p{self.operand}[{show_address(self.address, indices=self.args)}]{part}"


class Index(Expr):
    """A value as an index from 0 on, along an axis whose size is in a slot: negative ones count from the end.

    Where it is out of range it is 0, and the last operand of the kernel, one int64, becomes 1.
    """

    __slots__ = ("_args", "size")

    def __init__(self, value: Expr, size: int) -> None:
        self._args, self.size = (value,), size
        self._set(int64, value, size)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Index(args[0], self.size)

    def __repr__(self) -> str:
        return f"index({self.args[0]!r}, s{self.size})"


class Position(Expr):
    """The address itself as an int64 value."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address = address
        self._set(int64, address)

    def __repr__(self) -> str:
        return f"({show_address(self.address)})"


class Number(Expr):
    """A scalar given at run time."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self._set(dtype, index)

    def __repr__(self) -> str:
        return f"c{self.index}"


class State(Expr):
    """Part `part` of the running state of fold `fold`, before this step of its loop."""

    __slots__ = ("fold", "part")

    def __init__(self, fold: int, part: int, dtype: DType) -> None:
        self.fold, self.part = fold, part
        self._set(dtype, fold, part)

    def __repr__(self) -> str:
        return f"r{self.fold}" + (f".{self.part}" if self.part else "")


class Result(Expr):
    """Part `part` of fold `fold` after its last step (in a scan: after this step)."""

    __slots__ = ("fold", "part")

    def __init__(self, fold: int, part: int, dtype: DType) -> None:
        self.fold, self.part = fold, part
        self._set(dtype, fold, part)

    def __repr__(self) -> str:
        return f"r{self.fold}" + (f".{self.part}" if self.part else "")


class Staged(Expr):
    """The element of tile `tile`, which has `side` rows and columns, at the indices of the axes `along` and `last`; of a
    complex one its `part`.
    """

    __slots__ = ("along", "last", "part", "side", "tile")

    def __init__(self, tile: int, along: int, last: int, side: int, dtype: DType, part: int | None = None) -> None:
        self.tile, self.along, self.last, self.side, self.part = tile, along, last, side, part
        self._set(dtype, tile, along, last, side, part)

    def __repr__(self) -> str:
        part = "" if self.part is None else PARTS[self.part]
        return f"tile{self.tile}[{axis_name(self.along)}, {axis_name(self.last)}]{part}"


class Kept(Expr):
    """The element of kept row `row` at the index of `axis`."""

    __slots__ = ("axis", "row", "size")

    def __init__(self, row: int, axis: int, size: int, dtype: DType) -> None:
        self.row, self.axis, self.size = row, axis, size
        self._set(dtype, row, axis, size)

    def __repr__(self) -> str:
        return f"kept{self.row}[{axis_name(self.axis)}]"


class Factor(Expr):
    """Value number `index` of the left side (0) of a product, for its row, or of the right one (1), for its column."""

    __slots__ = ("index", "side")

    def __init__(self, side: int, index: int, dtype: DType) -> None:
        self.side, self.index = side, index
        self._set(dtype, side, index)

    def __repr__(self) -> str:
        return f"{('left', 'right')[self.side]}{self.index}"


# --- statements -------------------------------------------------------------------------------------------------------


class Init(NamedTuple):
    """Start fold `fold` from its identity."""

    fold: int


class Update(NamedTuple):
    """Replace the state of fold `fold` by `values`, one expression a part."""

    fold: int
    values: tuple[Expr, ...]


class Fetch(NamedTuple):
    """Have what operand `operand` holds at `address`, one step further along `axis`, brought into the cache."""

    operand: int
    address: Address
    axis: int


class Keep(NamedTuple):
    """Keep `value` in row `row`, of no more than `size` elements, at the index of `axis`, for a later loop."""

    row: int
    axis: int
    size: int
    value: Expr


class Store(NamedTuple):
    """Write `value` to operand `operand` at `address`; to a complex element, as its real part, beside its part `imag`.

    What is `streamed` is too large to stay in a cache, and best written past it. It begins at a multiple of `ALIGNMENT`
    bytes, as does each of its rows.
    """

    operand: int
    address: Address
    value: Expr
    streamed: bool = False
    imag: Expr | None = None

    @property
    def values(self) -> tuple[Expr, ...]:
        """All that is written: one value, or two parts."""
        return (self.value,) if self.imag is None else (self.value, self.imag)


class Accumulate(NamedTuple):
    """Join a value to what operand `operand` holds at `address`, of which `indices` may be part; before the next step does.

    `values` are the parts of the value, `joined` those of what the element holds then: over `Arg`s, first for the parts that
    it held before, then for the value's. Steps may meet at one element, so lanes take their turns, unless they lie side by
    side.
    """

    operand: int
    address: Address
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    joined: tuple[Expr, ...]

    def is_beside(self, axis: int) -> bool:
        """Whether neighbours along an axis write neighbouring elements, whatever the indices are."""
        return self.address.then is None and any(t.axis == axis and t.how == "unit" for t in self.address.terms)


class Stage(NamedTuple):
    """Fill tile `tile` with an operand's elements over the present blocks, of `side` indices, of two axes.

    The elements lie next to one another along the first of them; loops inside read them along the other.
    """

    tile: int
    operand: int
    address: Address
    along: int
    last: int
    side: int


class For(NamedTuple):
    """`body` for every index of `axis`; with `block`, for every so many indices, over which a loop inside it then runs."""

    axis: int
    body: tuple[Statement, ...]
    block: int = 0


class Side(NamedTuple):
    """What a product takes from one side: `values` at each step along `axis`, the rows or the columns.

    If it is `packed`, the values for a block of so many indices are first put in the order in which they are needed; once
    for all if they are `fixed`. With `runs` tables say where the indices lie, but most lie beside the one before.
    """

    axis: int
    values: tuple[Expr, ...]
    packed: bool
    fixed: bool
    runs: bool
    block: int  # a slot


class Product(NamedTuple):
    """Fold `fold` over the axes `summed` for every row of `left` with every column of `right`, and then `body` for both.

    `values` are the next state, made of the `Factor`s of both sides. Threads share the loop over the axis `shared`,
    unless that is -1. With `once` the steps are few.
    """

    fold: int
    left: Side
    right: Side
    summed: tuple[int, ...]
    values: tuple[Expr, ...]
    body: tuple[Statement, ...]
    shared: int
    once: bool


Statement = Init | Update | Fetch | Keep | Store | Accumulate | Stage | For | Product


class Axis(NamedTuple):
    """A loop: its extent (a slot), whether its steps are independent, and whether lanes run along it."""

    extent: int
    parallel: bool
    vector: bool


class Fold(NamedTuple):
    """A reduction in progress: its kind and the dtypes of its state.

    With `row`, an axis, there is a row of states, one for each index in the present block of that axis. Loops over other
    axes may then run around that over the row.
    """

    reduction: Reduction
    states: tuple[DType, ...]
    row: int = -1


class Operand(NamedTuple):
    """A piece of memory that the kernel reads, or writes. Only here may a dtype be complex: values are real."""

    dtype: DType
    written: bool


class Kernel(NamedTuple):
    """A compiled pattern's source: equal patterns are equal kernels."""

    name: str
    operands: tuple[Operand, ...]
    tables: int
    numbers: tuple[DType, ...]
    slots: int
    axes: tuple[Axis, ...]
    folds: tuple[Fold, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        from .text import show  # which needs to know all of the IR

        return "\n".join(show(self))

    @property
    def product(self) -> Product | None:
        """The product that the kernel computes, if it does."""
        return next((s for s in statements(self.body) if isinstance(s, Product)), None)

    @property
    def shared(self) -> int:
        """The axis whose loop may be split over threads: that of a product, else the outermost; -1 if there is none."""
        product = self.product
        if product is not None and product.shared >= 0:
            return product.shared
        outer = self.body[0]
        alone = len(self.body) == 1 and isinstance(outer, For) and self.axes[outer.axis].parallel
        return outer.axis if alone and isinstance(outer, For) else -1

    def grain(self, sharing: Sharing) -> int:
        """How many steps of the shared loop a thread takes at least: what reads along rows reads long pieces of them."""
        loop = self.body[0]
        if isinstance(loop, For) and loop.axis == self.shared:
            return min(loop.block, sharing.longest) or (sharing.steps if self.axes[loop.axis].vector else 1)
        return sharing.steps if self.axes[self.shared].vector else sharing.rows


def surface(e: Expr) -> Iterator[Expr]:
    """The expression and all below it but for what indices are computed from, each once."""
    stack, seen = [e], {e}
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, Call):
            stack += [a for a in part.args if a not in seen]
            seen.update(part.args)


def work(e: Expr) -> int:
    """About how many additions an expression is worth."""
    return sum(part.op.cost for part in walk(e) if isinstance(part, Call))


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, those of loops after the loop."""
    for s in body:
        yield s
        if isinstance(s, (For, Product)):
            yield from statements(s.body)


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """The expressions of all statements, outermost nodes only."""
    for s in statements(body):
        if isinstance(s, Update):
            yield from s.values
        elif isinstance(s, Product):
            yield from (*s.left.values, *s.right.values, *s.values)
        elif isinstance(s, Store):
            yield from s.values
        elif isinstance(s, Accumulate):
            yield from (*s.indices, *s.values)
        elif isinstance(s, Keep):
            yield s.value


def expand(e: Call) -> Expr | None:
    """A composite call as its formula says, computed in the wide type of narrow floats; None for a primitive."""
    if e.op.formula is None:
        return None
    wide = e.dtype.compute
    if wide is e.dtype:
        return e.op.formula(*e.args)
    return cast(e.op.formula(*(cast(a, a.dtype.compute) for a in e.args)), e.dtype)


# --- the IR as text ---------------------------------------------------------------------------------------------------

_NAMES = "ijklmnopqrstuvw"


def axis_name(axis: int) -> str:
    return _NAMES[axis] if axis < len(_NAMES) else f"i{axis}"


def show_address(a: Address, digit: str = "", indices: tuple[Expr, ...] = ()) -> str:
    """Index arithmetic as text: `i*s0 + j`; a chain as `of(digits)`."""
    parts = []
    for t in a.terms:
        name = f"{digit}{t.axis}" if digit else axis_name(t.axis) if t.axis >= 0 else repr(indices[~t.axis])
        texts = {"unit": name, "near": f"{name}*{t.slot}", "stride": f"{name}*s{t.slot}", "table": f"t{t.slot}[{name}]"}
        parts.append(texts[t.how])
    if a.offset >= 0:
        parts.append(f"s{a.offset}")
    text = " + ".join(parts) or "0"
    if a.then is None:
        return text
    sizes = ", ".join(f"s{d}" for d in a.digits)
    return f"{show_address(a.then, 'd')} with d = unravel({text}, ({sizes}))"
