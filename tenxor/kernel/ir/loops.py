"""What a kernel does: statements, loops among them, and what they speak of: axes, reductions, operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ...dtypes import DType
from ...ops.expr import Expr
from ...ops.reductions import Reduction
from ...records import NamedTuple
from .leaves import Address

ALIGNMENT = 64  # bytes: where results begin


class Init(NamedTuple):
    """Start accumulator `accumulator` from its identity."""

    accumulator: int


class Update(NamedTuple):
    """Replace the state of accumulator `accumulator` by `values`, one expression a part."""

    accumulator: int
    values: tuple[Expr, ...]


class Prefetch(NamedTuple):
    """Have what operand `operand` holds at `address`, one step further along `axis`, brought into the cache; or what it holds there, for
    other loops, `by_reading` it, which a processor follows.
    """

    operand: int
    address: Address
    axis: int
    by_reading: bool = False


class Keep(NamedTuple):
    """Keep `value` in row `row`, of no more than `size` elements, at the index of `axis`, for a later loop."""

    row: int
    axis: int
    size: int
    value: Expr


class Store(NamedTuple):
    """Write `value` to operand `operand` at `address`; to a complex element, as its real part, beside its part `imag`.

    Stores that stand side by side are done at once: all that they write is computed before any of it is written.
    What is `streamed` is too large to stay in a cache, and best written past it. It begins at a multiple of `ALIGNMENT`
    bytes, as does each of its rows. Where `changes` is false, what would be written is there already, and need not be computed.
    """

    operand: int
    address: Address
    value: Expr
    streamed: bool = False
    imag: Expr | None = None
    changes: Expr | None = None

    @property
    def values(self) -> tuple[Expr, ...]:
        """All that is written: one value, or two parts."""
        return (self.value,) if self.imag is None else (self.value, self.imag)

    def with_values(self, values: Sequence[Expr]) -> Store:
        """The same write of another value, or of two other parts."""
        real, *imag = values
        return self._replace(value=real, imag=imag[0] if imag else None)


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


class TileLoad(NamedTuple):
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
    """`body` for every index of `axis`; with `block`, for every so many indices, over which a loop inside it then runs.

    With `abreast`, which is only of an independent axis and a body without loops but those of reductions, so many turns may run side by
    side, statement by statement: none needs another. A loop that is to run as a `whole` is not shared out in pieces, since each of them
    would do much of the others' work, too.
    """

    axis: int
    body: tuple[Statement, ...]
    block: int = 0
    abreast: int = 1
    whole: bool = False


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
    block: int  # a size parameter; -1: all are one block

    @property
    def in_runs(self) -> bool:
        """Whether the values are read where they lie, in runs."""
        return self.runs and not self.packed


class Product(NamedTuple):
    """A reduction over the axes `summed`, in accumulator `accumulator`, for every row of `left` with every column of `right`; and
    then `body` for both.

    `values` are the next state, made of the `Factor`s of both sides. Threads share the loop over the axis `shared`,
    unless that is -1. With `once` the steps are few; of many, those of a `stretch` of the outermost axis summed over (a size parameter; -1:
    of all) are done for a whole block of results before the next, and packed for that alone. `twins` are values of the left side and the
    same ones of the right, if they lie in one memory: then the results are symmetric, and those below the diagonal may be copied from
    those above. `ahead` is the axis of a loop around it of which the next index's elements are asked for meanwhile (-1: none is).
    """

    accumulator: int
    left: Side
    right: Side
    summed: tuple[int, ...]
    values: tuple[Expr, ...]
    body: tuple[Statement, ...]
    shared: int
    once: bool
    stretch: int = -1
    twins: tuple[tuple[int, int], ...] = ()
    ahead: int = -1

    @property
    def at_once(self) -> bool:
        """Whether all rows and columns are one block."""
        return self.left.block < 0

    @property
    def steps_first(self) -> bool:
        """Whether some of the steps are done for a whole block of results before the next."""
        return self.stretch >= 0


Statement = Init | Update | Prefetch | Keep | Store | Accumulate | TileLoad | For | Product


class Axis(NamedTuple):
    """A loop: its extent (a size parameter), whether its steps are independent, and whether lanes run along it."""

    extent: int
    parallel: bool
    vector: bool


class Accumulator(NamedTuple):
    """A reduction in progress: its kind and the dtypes of its state.

    With `row`, an axis, there is a row of states, one for each index in the present block of that axis. Loops over other
    axes may then run around that over the row.
    """

    reduction: Reduction
    states: tuple[DType, ...]
    row: int = -1


class Operand(NamedTuple):
    """A piece of memory that the kernel reads, or writes. Only here may a dtype be complex: values are real.

    The `flag` is one int64 that each launch of the kernel has of its own; it is the last operand, and becomes 1 where an index
    is out of range.
    """

    dtype: DType
    written: bool
    flag: bool = False


def in_turn(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The statements in their order, each alone, but stores that stand side by side, which are done at once."""
    for is_store, run in groupby(body, lambda s: isinstance(s, Store)):
        found = tuple(run)
        yield from [found] if is_store else [(s,) for s in found]


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
            yield from s.values if s.changes is None else (s.changes, *s.values)
        elif isinstance(s, Accumulate):
            yield from (*s.indices, *s.values)
        elif isinstance(s, Keep):
            yield s.value


def with_expressions(body: tuple[Statement, ...], changed: Callable[[Expr], Expr]) -> tuple[Statement, ...]:
    """The same statements, with what an expression is `changed` to in its place, but for those of products and scatters."""
    found: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            s = s._replace(body=with_expressions(s.body, changed))
        elif isinstance(s, Update):
            s = Update(s.accumulator, tuple(map(changed, s.values)))
        elif isinstance(s, Keep):
            s = s._replace(value=changed(s.value))
        elif isinstance(s, Store):
            s = s.with_values([changed(v) for v in s.values])
            s = s if s.changes is None else s._replace(changes=changed(s.changes))
        found.append(s)
    return tuple(found)
