"""Analyses of loops and expressions: the state carried by a loop, the stores in it, and the loops behind a value."""

from __future__ import annotations

from collections.abc import Sequence

from ...lowering.ir import (
    Accumulator,
    For,
    Init,
    Load,
    Position,
    Result,
    RowLoad,
    State,
    Statement,
    Store,
    TileElement,
    Update,
    iterate_expressions,
    iterate_statements,
    walk,
)
from ...ops.expr import Expr, walk_unvisited


def find_carried_reductions(loop: For, accumulators: Sequence[Accumulator]) -> list[int]:
    """Return the numbers, in `accumulators`, of the reductions with a state that a loop carries from iteration to iteration.

    Such a reduction is updated in the loop or in an inner loop, but not started there, and its states are no row along any of these loops.
    """
    updated: list[int] = []
    for s in loop.body:
        if isinstance(s, Update):
            updated.append(s.accumulator)
        elif isinstance(s, For):
            updated += find_carried_reductions(s, accumulators)
    started = {s.accumulator for s in loop.body if isinstance(s, Init)}
    return [f for f in updated if f not in started and accumulators[f].row_axis != loop.axis]


def find_touched_reductions(loop: For) -> tuple[set[int], set[int]]:
    """Return two sets of numbers of reductions: started or updated in a loop, and read in the loop (a state or a result).

    Inner loops count as well, and a reduction may be in both sets.
    """
    changed = {s.accumulator for s in iterate_statements((loop,)) if isinstance(s, (Init, Update))}
    read = {e.accumulator for root in iterate_expressions((loop,)) for e in walk(root) if isinstance(e, (Result, State))}
    return changed, read


def has_store(body: tuple[Statement, ...]) -> bool:
    """Return whether `body`, or a loop inside, has a `Store`; a scatter (`Accumulate`) is none."""
    return any(isinstance(s, Store) for s in iterate_statements(body))


def has_loop_along(s: Statement, axis: int) -> bool:
    """Return whether a statement is a loop along an axis, or contains such a loop."""
    return any(isinstance(inner, For) and inner.axis == axis for inner in iterate_statements((s,)))


Dependencies = tuple[frozenset[int], frozenset[int], bool]  # axes, reductions with a result that is read, whether a running state is read
_NO_DEPENDENCIES: Dependencies = (frozenset(), frozenset(), False)


def find_dependencies(e: Expr, memo: dict[Expr, Dependencies]) -> Dependencies:
    """Return the axes and the numbers of the reductions that an expression depends on, and whether it reads a running state.

    The reductions are those of `Result`s, which are complete. `memo` holds the answers for subexpressions, and is extended.
    """
    dependencies = memo.get(e)
    if dependencies is not None:
        return dependencies
    for subexpr in walk_unvisited(e, memo):
        if isinstance(subexpr, RowLoad):
            memo[subexpr] = (frozenset((subexpr.axis,)), frozenset(), False)
        elif isinstance(subexpr, TileElement):
            memo[subexpr] = (frozenset((subexpr.contiguous_axis, subexpr.read_axis)), frozenset(), False)
        elif isinstance(subexpr, Result):
            memo[subexpr] = (frozenset(), frozenset((subexpr.accumulator,)), False)
        elif isinstance(subexpr, State):
            memo[subexpr] = (frozenset(), frozenset(), True)
        else:
            needs = _NO_DEPENDENCIES
            if isinstance(subexpr, (Load, Position)):
                needs = (subexpr.address.axes(), frozenset(), False)
            for axes, accumulators, running in [memo[a] for a in subexpr.args]:
                needs = (needs[0] | axes, needs[1] | accumulators, needs[2] or running)
            memo[subexpr] = needs
    return memo[e]
