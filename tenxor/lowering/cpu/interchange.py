"""Loop interchange for reductions of columns, so that memory is read along rows.

Here lanes run along an axis, and reductions inside walk across memory. In this order each row would be read a few elements at a time, and
each read would miss the cache. Instead the loops go through blocks of the axis, with a row of states for each reduction: a few steps of the
reduction's loop, and for each the whole row. Every state takes the same elements in the same order as before. A loop-invariant value is
computed once per column and stored in a row buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ops.expr import Call, Expr, replace_subexprs, walk_unvisited
from ...target import Target
from ..ir import (
    Accumulator,
    For,
    Init,
    Result,
    RowLoad,
    RowStore,
    State,
    Statement,
    Update,
    estimate_cost,
    iterate_expressions,
    iterate_statements,
    map_expressions,
)
from ..kernel_draft import Access
from ..loop_nest import Body, LoopNest

# Rows read together. For sums of floats they form a chunk (`codegen/llvm/reduction_states.py`), so the number decides the bits.
ROWS_PER_CHUNK = 8


def interchange_columns(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest with the loop over columns divided into blocks, and placed inside the loops that it contained.

    `target` has the columns of a block. The nest is unchanged unless a vectorized independent loop contains reductions of more than
    `ROWS_PER_CHUNK` steps. The accumulators in the loop get a row of states, a state for each column of a block.
    """
    column = _find_column(nest)
    if column is None:
        return nest
    (loop,) = [s for s in iterate_statements(nest.body) if isinstance(s, For) and s.axis == column]
    pass_count, sizes, column_count = sum(isinstance(s, For) for s in loop.body), target.loops, nest.axes[column].extent
    block = (
        sizes.reread_block_columns
        if pass_count > 1
        else sizes.block_columns
        if column_count > sizes.max_short_row_columns
        else sizes.max_short_row_columns
    )
    keep_count = sum(isinstance(s, RowStore) for s in iterate_statements(nest.body))
    interchanged = For(
        column, tuple(_Interchange(nest, column, block, keep_count, target.costs.min_buffered_invariant).interchange_body(loop.body)), block
    )
    accumulators = tuple(_add_state_rows(nest.accumulators, loop))
    return nest._replace(body=_replace_loop(nest.body, loop, interchanged), accumulators=accumulators)


def _find_column(nest: LoopNest) -> int | None:
    """Return the vectorized independent axis of `nest` with reduction loops of more than `ROWS_PER_CHUNK` steps inside, or None.

    The outermost of several axes is returned.
    """
    if not any(axis.vector and axis.parallel for axis in nest.axes) or not nest.accumulators:
        return None
    reductions = [(f.outer_loops, nest.count_iterations(f.axes)) for f in nest.reductions]
    for axis in nest.space:
        if nest.axes[axis].vector and any(axis in outer_loops and steps > ROWS_PER_CHUNK for outer_loops, steps in reductions):
            return axis
    return None


def _replace_loop(body: Body, loop: For, new_loop: For) -> Body:
    """Return `body` with `loop`, this very object, at any depth, replaced by `new_loop`."""
    if loop in body:
        return tuple([new_loop if s is loop else s for s in body])
    return tuple([s._replace(body=_replace_loop(s.body, loop, new_loop)) if isinstance(s, For) else s for s in body])


def _add_state_rows(accumulators: Sequence[Accumulator], loop: For) -> list[Accumulator]:
    """Return the accumulators, with a row of states along the axis of `loop` for each accumulator started in `loop`.

    An accumulator started in an innermost loop keeps a single state.
    """
    started = _list_started(loop)
    return [f._replace(row_axis=loop.axis) if k in started else f for k, f in enumerate(accumulators)]


def _list_started(loop: For) -> set[int]:
    """Return the numbers of the accumulators started directly in `loop`, or directly in an inner loop which contains further loops."""
    started = {s.accumulator for s in loop.body if isinstance(s, Init)}
    outer_loops = [s for s in loop.body if isinstance(s, For) and any(isinstance(inner, For) for inner in s.body)]
    return started.union(*map(_list_started, outer_loops))


class _Interchange:
    """The interchange of a loop over columns: each statement of the body runs for every column of a block before the next statement.

    `axis` is the axis of the columns, with `block` columns per block. The nest has `buffer_count` row buffers already. A loop-invariant
    value gets a row buffer if the cost is at least `min_cost` additions.
    """

    def __init__(self, nest: LoopNest, axis: int, block: int, buffer_count: int, min_cost: int) -> None:
        self.nest, self.axis, self.block, self.min_cost = nest, axis, block, min_cost
        self.buffer_count = buffer_count  # row buffers used so far

    def interchange_body(self, body: Iterable[Statement]) -> list[Statement]:
        """Return the statements of `body`, each inside a loop over the columns of the block.

        Adjacent statements without loops share one loop.
        """
        new_body: list[Statement] = []
        unlooped: list[Statement] = []
        for s in body:
            if not isinstance(s, For):
                unlooped.append(s)
                continue
            keeps, interchanged = self.buffer_invariants(s)
            unlooped += keeps
            if unlooped:
                new_body.append(For(self.axis, tuple(unlooped)))
                unlooped = []
            new_body.append(self.interchange_loop(interchanged))
        if unlooped:
            new_body.append(For(self.axis, tuple(unlooped)))
        return new_body

    def interchange_loop(self, loop: For) -> For:
        """Return `loop`, a loop of the body, with the loop over columns inside.

        A loop of reductions takes `ROWS_PER_CHUNK` iterations at a time for each column.
        """
        if any(isinstance(s, For) for s in loop.body):
            return For(loop.axis, tuple(self.interchange_body(loop.body)))
        if any(isinstance(s, Update) for s in loop.body):
            return For(loop.axis, (For(self.axis, (loop,)),), ROWS_PER_CHUNK)
        return For(loop.axis, (For(self.axis, loop.body),))

    def buffer_invariants(self, loop: For) -> tuple[list[RowStore], For]:
        """Return the row-buffer stores of the costly invariants of `loop`, and the loop with reads of the row buffers instead.

        Without costly invariants, return an empty list and the loop itself. `buffer_count` grows by the new row buffers.
        """
        invariants = list(enumerate(_list_invariants(self.nest, loop, self.min_cost), start=self.buffer_count))
        self.buffer_count += len(invariants)
        keeps = [RowStore(row, self.axis, self.block, e) for row, e in invariants]
        replacements: dict[Expr, Expr] = {e: RowLoad(row, self.axis, self.block, e.dtype) for row, e in invariants}
        return keeps, loop._replace(body=map_expressions(loop.body, lambda e: replace_subexprs(e, replacements))) if replacements else loop


def _list_invariants(nest: LoopNest, loop: For, min_cost: int) -> list[Expr]:
    """Return the largest loop-invariant subexpressions of `loop`, a loop of `nest`, with a cost of at least `min_cost` additions.

    Invariant expressions have the same value in each iteration of `loop` and of the loops inside. Only operations are returned, each once.
    """
    inner_statements = list(iterate_statements((loop,)))
    axes = {s.axis for s in inner_statements if isinstance(s, For)}
    running = {s.accumulator for s in inner_statements if isinstance(s, (Init, Update))}
    is_fixed: dict[Expr, bool] = {}
    invariants: dict[Expr, None] = {}
    for root in iterate_expressions((loop,)):
        for e in walk_unvisited(root, is_fixed):
            if isinstance(e, Access):
                is_fixed[e] = not nest.get_address(e).axes() & axes and all(is_fixed[a] for a in e.args)
            elif isinstance(e, Result):
                is_fixed[e] = e.accumulator not in running
            else:
                is_fixed[e] = not isinstance(e, State) and all(is_fixed[a] for a in e.args)
        stack = [root]
        while stack:
            e = stack.pop()
            if not is_fixed[e]:
                stack.extend(e.args)
            elif isinstance(e, Call) and estimate_cost(e) >= min_cost:
                invariants[e] = None
    return list(invariants)
