"""The statements of a kernel, including loops, and the axes, accumulators and operands which statements refer to by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ...dtypes import DType
from ...ops.expr import Expr
from ...ops.reductions import Reduction
from ...records import NamedTuple
from .leaves import Address

ALIGNMENT = 64  # bytes: results begin at a multiple of this


class Init(NamedTuple):
    """Set accumulator `accumulator` to the identity of its reduction."""

    accumulator: int


class Update(NamedTuple):
    """Replace the state of accumulator `accumulator` by `values`, one expression for each component of the state."""

    accumulator: int
    values: tuple[Expr, ...]


class Prefetch(NamedTuple):
    """A software prefetch: bring the element of operand `operand` at `address` into the cache, one step further along `axis`.

    With `by_reading`, load the element at `address` itself and discard it, for later loops. The hardware prefetcher follows such loads.
    """

    operand: int
    address: Address
    axis: int
    by_reading: bool = False


class Keep(NamedTuple):
    """Store `value` in row buffer `row`, of at most `size` elements, at the index of `axis`. A later loop reads it (`Kept`)."""

    row: int
    axis: int
    size: int
    value: Expr


class Store(NamedTuple):
    """Write `value` to operand `operand` at `address`. For a complex element, `value` is the real component and `imag` the imaginary one.

    Adjacent stores run together: every value is computed before the first is written. A `streamed` store is non-temporal, because the
    result is too large to stay in a cache. The result and each of its rows then begin at multiples of `ALIGNMENT` bytes. `changes`, if
    given, is a predicate: where it is false, memory holds the value already, and neither the computation nor the store is needed.
    """

    operand: int
    address: Address
    value: Expr
    streamed: bool = False
    imag: Expr | None = None
    changes: Expr | None = None

    @property
    def values(self) -> tuple[Expr, ...]:
        """The values written: a single value, or the two components of a complex element."""
        return (self.value,) if self.imag is None else (self.value, self.imag)

    def with_values(self, values: Sequence[Expr]) -> Store:
        """Return this store with new values, as many as now: a single value, or two components."""
        real, *imag = values
        return self._replace(value=real, imag=imag[0] if imag else None)


class Accumulate(NamedTuple):
    """Combine a value with the element of operand `operand` at `address`, and write the result, before the next step reads the element.

    `indices` are the index operands of the address. `values` are the components of the value, and `joined` the components of the new
    element. `joined` is written over `Arg`s: first the components of the old element, then those of the value. Two steps may write one
    element, so lanes run one after the other unless they write neighbouring elements.
    """

    operand: int
    address: Address
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    joined: tuple[Expr, ...]

    def is_beside(self, axis: int) -> bool:
        """Return whether neighbours along `axis` write neighbouring elements, whatever the indices are."""
        return self.address.then is None and any(t.axis == axis and t.how == "unit" for t in self.address.terms)


class TileLoad(NamedTuple):
    """Fill square tile `tile`, of `side` elements per side, from an operand. The elements are those of the present blocks of the two axes.

    The elements are contiguous along axis `along`. Loops inside read the tile along axis `last`.
    """

    tile: int
    operand: int
    address: Address
    along: int
    last: int
    side: int


class For(NamedTuple):
    """A loop of `body` over every index of `axis`. With `block`, it runs once per `block` indices, over which an inner loop then runs.

    `abreast` is the factor of an unroll-and-jam: this many iterations run interleaved, statement by statement. It is allowed only on an
    independent axis whose body has no loops other than reductions. A loop marked `whole` is not divided among threads, because each piece
    would repeat much of the work of the remaining pieces.
    """

    axis: int
    body: tuple[Statement, ...]
    block: int = 0
    abreast: int = 1
    whole: bool = False


class Side(NamedTuple):
    """The operands of a contraction on one side: `values` for each step, along `axis`, which is the axis of rows or of columns.

    If `packed`, the values of a block of `block` indices are first copied into the order of their use; if also `fixed`, only once, outside
    of the outer loops. With `runs`, tables give the addresses, but most indices are contiguous with the previous index.
    """

    axis: int
    values: tuple[Expr, ...]
    packed: bool
    fixed: bool
    runs: bool
    block: int  # a size parameter; -1 if a single block has the whole range

    @property
    def in_runs(self) -> bool:
        """True if the values are read in runs directly from memory, without packing."""
        return self.runs and not self.packed


class Product(NamedTuple):
    """A contraction: a reduction over the axes `summed`, for every row of `left` with every column of `right`, followed by `body`.

    `values` are the next state of accumulator `accumulator`, computed from `Factor`s of both sides. `body` uses the result. Threads share
    the loop over axis `shared`, unless it is -1. `once` means the steps are few enough to run in one pass.

    With `stretch` (a size parameter; -1 for none), this many indices of the outermost summed axis are processed for a whole block of
    results before the next, and packed for this pass only. `twins` pairs equal values of the left and the right side. If both read the same
    memory, the results are symmetric, and those below the diagonal may be copied from those above. `ahead` is an outer loop axis whose next
    elements are prefetched meanwhile (-1 for none).
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
        """True if the rows and columns form a single block."""
        return self.left.block < 0

    @property
    def steps_first(self) -> bool:
        """True if a part of the steps is processed for a whole block of results before the next part."""
        return self.stretch >= 0


Statement = Init | Update | Prefetch | Keep | Store | Accumulate | TileLoad | For | Product


class Axis(NamedTuple):
    """A loop axis: the `extent` (a size parameter), and whether iterations are independent (`parallel`) and vectorized (`vector`)."""

    extent: int
    parallel: bool
    vector: bool


class Accumulator(NamedTuple):
    """A reduction in progress: the reduction and the dtypes of the components of its state.

    If `row` is an axis, the accumulator has a row of states, one for each index in the present block of this axis. The loop over the axis
    may then run inside the loops of the reduction. Otherwise `row` is -1.
    """

    reduction: Reduction
    states: tuple[DType, ...]
    row: int = -1


class Operand(NamedTuple):
    """A memory argument of a kernel, given as a pointer. Only the dtype of an operand may be complex; values in expressions are real.

    The `flag` operand is one int64 that belongs to a single launch. It comes last, and becomes 1 where an index is out of range.
    """

    dtype: DType
    written: bool
    flag: bool = False


def in_turn(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Yield the statements in order, each as a tuple of one, but adjacent stores in one tuple, because they run together."""
    for is_store, run in groupby(body, lambda s: isinstance(s, Store)):
        group = tuple(run)
        yield from [group] if is_store else [(s,) for s in group]


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield every statement of a body, each loop before the statements inside the loop."""
    for s in body:
        yield s
        if isinstance(s, (For, Product)):
            yield from statements(s.body)


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """Yield the root expression of every statement, without the expressions below."""
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


def with_expressions(body: tuple[Statement, ...], change: Callable[[Expr], Expr]) -> tuple[Statement, ...]:
    """Return the statements with each root expression `e` replaced by `change(e)`. Contractions and scatters stay as they are."""
    new_body: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            s = s._replace(body=with_expressions(s.body, change))
        elif isinstance(s, Update):
            s = Update(s.accumulator, tuple(map(change, s.values)))
        elif isinstance(s, Keep):
            s = s._replace(value=change(s.value))
        elif isinstance(s, Store):
            s = s.with_values([change(v) for v in s.values])
            s = s if s.changes is None else s._replace(changes=change(s.changes))
        new_body.append(s)
    return tuple(new_body)
