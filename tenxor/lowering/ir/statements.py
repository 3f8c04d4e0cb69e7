"""The statements of a kernel, including loops, and the axes, accumulators and operands which statements refer to by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ..._utils.records import NamedTuple
from ...dtypes import DType
from ...ops.expr import Expr
from ...ops.reductions import Reduction
from .leaves import Address

ALIGNMENT_BYTES = 64  # bytes: results begin at a multiple of this


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


class RowStore(NamedTuple):
    """Store `value` in row buffer `row_buffer`, of at most `size` elements, at the index of `axis`. A later loop reads it (`RowLoad`)."""

    row_buffer: int
    axis: int
    size: int
    value: Expr


class Store(NamedTuple):
    """Write `value` to operand `operand` at `address`. For a complex element, `value` is the real component and `imag` the imaginary one.

    Adjacent stores run together: every value is computed before the first is written. With `is_nontemporal`, the store bypasses the caches,
    because the result is too large to stay in a cache. The result and each of its rows then begin at multiples of `ALIGNMENT_BYTES` bytes.
    If `predicate` is not None, it is a condition: where it is false, memory holds the value already, and neither the computation nor the
    store is needed.
    """

    operand: int
    address: Address
    value: Expr
    is_nontemporal: bool = False
    imag: Expr | None = None
    predicate: Expr | None = None

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

    `indices` are the index operands of the address. `values` are the components of the value, and `new_values` the components of the new
    element. `new_values` is written over `Arg`s: first the components of the old element, then those of the value. Two steps may write one
    element, so lanes run one after the other unless they write neighbouring elements.
    """

    operand: int
    address: Address
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    new_values: tuple[Expr, ...]

    def is_contiguous_along(self, axis: int) -> bool:
        """Return whether iterations that are neighbours along `axis` write neighbouring elements, whatever the indices are."""
        return self.address.base is None and any(t.axis == axis and t.step_kind == "unit" for t in self.address.terms)


class TileLoad(NamedTuple):
    """Fill square tile `tile`, of `side` elements per side, from operand `operand` at `address`.

    The elements are those of the present blocks of the two axes. They are contiguous along axis `contiguous_axis`. Loops inside read the
    tile along axis `read_axis`.
    """

    tile: int
    operand: int
    address: Address
    contiguous_axis: int
    read_axis: int
    side: int


class For(NamedTuple):
    """A loop of `body` over every index of `axis`. With `block`, it runs once per `block` indices, over which an inner loop then runs.

    `jam_factor` is the factor of an unroll-and-jam: this many iterations run interleaved, statement by statement. It is allowed only on
    an independent axis whose body has no loops other than reductions. A loop marked `is_undivided` is not divided among threads,
    because each piece would repeat much of the work of the remaining pieces.
    """

    axis: int
    body: tuple[Statement, ...]
    block: int = 0
    jam_factor: int = 1
    is_undivided: bool = False


class Side(NamedTuple):
    """The operands of a contraction on one side: `values` for each step, along `axis`, which is the axis of rows or of columns.

    If `is_packed`, the values of a block of `block` indices are first copied into the order of their use; if also `is_packed_once`, only
    once, outside of the outer loops. With `has_runs`, tables give the addresses, but most indices are contiguous with the previous index.
    `block` is the number of a size parameter; in a loop nest, the size itself; -1 if a single block has the whole range.
    """

    axis: int
    values: tuple[Expr, ...]
    is_packed: bool
    is_packed_once: bool
    has_runs: bool
    block: int  # a size parameter; -1 if a single block has the whole range

    @property
    def is_read_in_runs(self) -> bool:
        """True if the values are read in runs directly from memory, without packing."""
        return self.has_runs and not self.is_packed


class Contraction(NamedTuple):
    """A contraction: a reduction over the axes `summed_axes`, for every row of `left` with every column of `right`, followed by `body`.

    `values` are the next state of accumulator `accumulator`, computed from `Factor`s of both sides. `body` uses the result. Threads share
    the loop over axis `shared_axis`, unless it is -1. `has_single_chunk` means the steps are few enough to run in one pass.

    With `step_block` (a size parameter, or in a loop nest the size itself; -1 for none), this many indices of the outermost summed axis are
    processed for a whole block of results before the next, and packed for this pass only. `symmetric_pairs` pairs equal values of the left
    and the right side, by index. If both read the same memory, the results are symmetric, and those below the diagonal may be copied from
    those above. `prefetch_axis` is an outer loop axis whose next elements are prefetched meanwhile (-1 for none). With `prefetches_panels`,
    which needs two packed sides, the next packed columns are prefetched meanwhile.
    """

    accumulator: int
    left: Side
    right: Side
    summed_axes: tuple[int, ...]
    values: tuple[Expr, ...]
    body: tuple[Statement, ...]
    shared_axis: int
    has_single_chunk: bool
    step_block: int = -1
    symmetric_pairs: tuple[tuple[int, int], ...] = ()
    prefetch_axis: int = -1
    prefetches_panels: bool = False

    @property
    def has_single_block(self) -> bool:
        """True if all rows and columns are computed at once, without loops over blocks: both `Side.block` are -1.

        If False, the sizes of the blocks are `Side.block`. A block may still have all rows or columns.
        """
        return self.left.block < 0

    @property
    def has_step_blocks(self) -> bool:
        """True if a part of the steps is processed for a whole block of results before the next part."""
        return self.step_block >= 0


Statement = Init | Update | Prefetch | RowStore | Store | Accumulate | TileLoad | For | Contraction


class LoopAxis(NamedTuple):
    """A loop axis: the extent, and whether iterations are independent (`parallel`) and vectorized (`vector`).

    `extent` is the number of a size parameter; in a loop nest, before it has parameters, the number of iterations itself.
    """

    extent: int
    parallel: bool
    vector: bool


class Accumulator(NamedTuple):
    """A reduction in progress: the reduction and the dtypes of the components of its state.

    If `row_axis` is an axis, the accumulator has a row of states, one for each index in the present block of this axis. The loop over
    the axis may then run inside the loops of the reduction. Otherwise `row_axis` is -1.
    """

    reduction: Reduction
    state_dtypes: tuple[DType, ...]
    row_axis: int = -1


class Operand(NamedTuple):
    """A memory argument of a kernel, given as a pointer to elements of `dtype`. The kernel writes elements only if `written`.

    Only the dtype of an operand may be complex; values in expressions are real. The `flag` operand is one int64 that belongs to a single
    launch. It comes last, and becomes 1 if an index is out of range or a checked exponent is negative.
    """

    dtype: DType
    written: bool
    flag: bool = False


def group_stores(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Yield the statements of `body` in order, each as a tuple of one, but adjacent stores in one tuple, because they run together.

    Statements inside loops are not yielded.
    """
    for is_store, run in groupby(body, lambda s: isinstance(s, Store)):
        group = tuple(run)
        yield from [group] if is_store else [(s,) for s in group]


def iterate_statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield every statement of `body`, also inside loops and contractions, each loop before the statements inside the loop."""
    for s in body:
        yield s
        if isinstance(s, (For, Contraction)):
            yield from iterate_statements(s.body)


def iterate_expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """Yield the root expression of every statement in `body`, also inside loops, without the expressions below.

    The `new_values` of an `Accumulate` are left out, since they are written over `Arg`s.
    """
    for s in iterate_statements(body):
        if isinstance(s, Update):
            yield from s.values
        elif isinstance(s, Contraction):
            yield from (*s.left.values, *s.right.values, *s.values)
        elif isinstance(s, Store):
            yield from s.values if s.predicate is None else (s.predicate, *s.values)
        elif isinstance(s, Accumulate):
            yield from (*s.indices, *s.values)
        elif isinstance(s, RowStore):
            yield s.value


def map_expressions(body: tuple[Statement, ...], change: Callable[[Expr], Expr]) -> tuple[Statement, ...]:
    """Return the statements `body` with each root expression `e` replaced by `change(e)`, also inside loops.

    `Contraction` and `Accumulate` statements stay as they are, with all statements in them.
    """
    new_body: list[Statement] = []
    for s in body:
        if isinstance(s, For):
            s = s._replace(body=map_expressions(s.body, change))
        elif isinstance(s, Update):
            s = Update(s.accumulator, tuple(map(change, s.values)))
        elif isinstance(s, RowStore):
            s = s._replace(value=change(s.value))
        elif isinstance(s, Store):
            s = s.with_values([change(v) for v in s.values])
            s = s if s.predicate is None else s._replace(predicate=change(s.predicate))
        new_body.append(s)
    return tuple(new_body)
