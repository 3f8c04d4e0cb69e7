"""How much a step computes at once: how many lanes a vector has, and how many vectors a step of a loop takes."""

from __future__ import annotations

from ...kernel.ir import Accumulate, For, Kept, Kernel, Load, Position, Staged, State, Store, expressions, walk, work
from ...ops.expr import Expr
from .analysis import Needs, dependencies

ONE_BY_ONE = 25  # additions' worth of work to load a vector's elements singly
INDEXED = 12  # and where indices say: two vectors of them at once wait less for memory
WIDEST = 16  # vectors in a step
CHEAP = 8  # additions' worth of work an element, up to which a step takes several vectors
ACROSS = 2  # vectors of states of a fold across the lanes


def lane_count(kernel: Kernel, vector_bytes: int) -> int:
    """As many lanes as a vector holds: of what folds keep, if there are any, else of the widest type that lanes compute."""
    states = [d.itemsize for f in kernel.folds for d in f.states]
    if states:
        return max(2, vector_bytes // max(states))
    vector = {axis for axis, a in enumerate(kernel.axes) if a.vector}
    known: dict[Expr, Needs] = {}
    widest = kernel.operands[0].dtype.part.itemsize
    for e in expressions(kernel.body):
        for part in walk(e):
            if not vector.isdisjoint(dependencies(part, known)[0]):
                widest = max(widest, part.dtype.compute.itemsize)
    return max(2, vector_bytes // widest)


def unrollings(loop: For, *, across: bool, short_rows: bool) -> tuple[int, ...]:
    """How many vectors a step takes, and then the steps through the rest: always as many where folds run across the lanes, else
    more where each costs little. Short rows that are folded into states are best read whole.
    """
    if across:
        return (ACROSS,)
    if any(isinstance(s, Accumulate) and not s.is_beside(loop.axis) for s in loop.body):
        return (1,)  # its lanes are written out one by one
    roots = list(expressions((loop,)))
    parts = [e for root in roots for e in walk(root)]
    cost = sum(map(work, roots))
    cost += sum(_cost_of_lanes(e, loop.axis) for e in parts if isinstance(e, Load))
    if short_rows and cost <= 8 and sum(isinstance(e, State) for e in parts) == 1:
        return WIDEST, 4
    return (4,) if cost <= CHEAP else (2,) if cost <= 24 else (1,)


def is_written_once(loop: For) -> bool:
    """Whether a loop with lanes is best one loop of single vectors, of which the last may not be whole: where much is
    computed, and memory is read and written side by side or not at all along the lanes, but not past the cache.
    """
    if not all(isinstance(s, Store) and not s.streamed for s in loop.body):
        return False
    roots = list(expressions((loop,)))
    parts = [e for root in roots for e in walk(root)]
    if (
        any(isinstance(e, (Kept, Staged)) or (isinstance(e, Load) and e.args) for e in parts)
        or sum(map(work, roots)) <= CHEAP
    ):
        return False
    addresses = [s.address for s in loop.body if isinstance(s, Store)]
    addresses += [e.address for e in parts if isinstance(e, (Load, Position))]
    return all(a.then is None and all(t.how == "unit" for t in a.terms if t.axis == loop.axis) for a in addresses)


def _cost_of_lanes(e: Load, axis: int) -> int:
    """What it costs that neighbouring lanes load what is apart in memory, by a stride or as an index says; else 0."""
    if any(t.axis == axis and t.how == "stride" for t in e.address.terms):
        return ONE_BY_ONE
    known: dict[Expr, Needs] = {}
    return INDEXED if any(axis in dependencies(index, known)[0] for index in e.args) else 0
