"""Questions about loops and expressions: what a loop carries and writes, and what a value depends on."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.ir import (
    Accumulator,
    For,
    Init,
    Kept,
    Load,
    Position,
    Result,
    State,
    Statement,
    Store,
    TileElement,
    Update,
    expressions,
    statements,
    walk,
)
from ...ops.expr import Expr, missing


def carried(loop: For, accumulators: Sequence[Accumulator]) -> list[int]:
    """The reductions whose state a loop hands on from step to step: updated in it, but not started in it, nor kept in a row that
    it, or a loop inside it, runs along.
    """
    found: list[int] = []
    for s in loop.body:
        if isinstance(s, Update):
            found.append(s.accumulator)
        elif isinstance(s, For):
            found += carried(s, accumulators)
    started = {s.accumulator for s in loop.body if isinstance(s, Init)}
    return [f for f in found if f not in started and accumulators[f].row != loop.axis]


def touched(loop: For) -> tuple[set[int], set[int]]:
    """The reductions that a loop changes, and those that it looks at."""
    changed = {s.accumulator for s in statements((loop,)) if isinstance(s, (Init, Update))}
    looked_at = {e.accumulator for root in expressions((loop,)) for e in walk(root) if isinstance(e, (Result, State))}
    return changed, looked_at


def stores(body: tuple[Statement, ...]) -> bool:
    """Whether a loop with this body writes anything to memory."""
    return any(isinstance(s, Store) for s in statements(body))


def runs_along(s: Statement, axis: int) -> bool:
    """Whether a statement is a loop along an axis, or has one inside."""
    return any(isinstance(inner, For) and inner.axis == axis for inner in statements((s,)))


Needs = tuple[frozenset[int], frozenset[int], bool]  # axes, reductions whose result is read, whether a running state is
_NOTHING: Needs = (frozenset(), frozenset(), False)


def dependencies(e: Expr, known: dict[Expr, Needs]) -> Needs:
    """What an expression depends on."""
    if e in known:
        return known[e]
    for part in missing(e, known):
        if isinstance(part, Kept):
            known[part] = (frozenset((part.axis,)), frozenset(), False)
        elif isinstance(part, TileElement):
            known[part] = (frozenset((part.along, part.last)), frozenset(), False)
        elif isinstance(part, Result):
            known[part] = (frozenset(), frozenset((part.accumulator,)), False)
        elif isinstance(part, State):
            known[part] = (frozenset(), frozenset(), True)
        else:
            found = _NOTHING
            if isinstance(part, (Load, Position)):
                found = (part.address.axes(), frozenset(), False)
            for axes, accumulators, running in [known[a] for a in part.args]:
                found = (found[0] | axes, found[1] | accumulators, found[2] or running)
            known[part] = found
    return known[e]
