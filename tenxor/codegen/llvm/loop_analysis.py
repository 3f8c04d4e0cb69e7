"""Analyses of loops and expressions in the loop IR: the reductions and stores in a loop, and the loops that a value depends on.

A reduction is a number in `Kernel.accumulators`. The state is the running value, like the sum so far.
"""

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
    """Return the numbers, in `accumulators`, of the reductions with a state that `loop` carries from iteration to iteration.

    Such a reduction is updated in the loop or in an inner loop, but not started there. The reduction has no row of states
    (`Accumulator.row_axis`) along any of these loops.
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
    """Return two sets of reductions, by number: those started or updated in `loop`, and those whose state or result is read there.

    Inner loops count as well, and a reduction may be in both sets.
    """
    changed = {s.accumulator for s in iterate_statements((loop,)) if isinstance(s, (Init, Update))}
    read = {e.accumulator for root in iterate_expressions((loop,)) for e in walk(root) if isinstance(e, (Result, State))}
    return changed, read


def has_store(body: tuple[Statement, ...]) -> bool:
    """Return whether the statements `body`, or the loops inside, contain a `Store`. A scatter (`Accumulate`) does not count."""
    return any(isinstance(s, Store) for s in iterate_statements(body))


def has_loop_along(s: Statement, axis: int) -> bool:
    """Return whether the statement `s` is a loop over the axis number `axis`, or contains such a loop."""
    return any(isinstance(inner, For) and inner.axis == axis for inner in iterate_statements((s,)))


Dependencies = tuple[frozenset[int], frozenset[int], bool]  # axes, reductions with a result that is read, whether a running state is read
_NO_DEPENDENCIES: Dependencies = (frozenset(), frozenset(), False)


def find_dependencies(e: Expr, memo: dict[Expr, Dependencies]) -> Dependencies:
    """Return what the expression `e` depends on: the axes, the reductions whose result it reads, and whether it reads a running state.

    Axes and reductions are sets of numbers. A result (`Result`) is complete, and a running state (`State`) is not. `memo` is a cache: the
    dict has the answers for earlier expressions, and those for `e` and its subexpressions are added.
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
