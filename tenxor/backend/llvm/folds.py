"""States of folds: joining those of lanes and chunks, always by the same tree, and keeping rows of them in memory.

The order in which a fold takes its elements is that of its loops, but for floats that are added up: these are taken in
chunks whose results join the rest one by one, so rounding errors grow with the length of a chunk and the number of
chunks, and not with that of all steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...expr import Arg, Call, Expr
from ...kernel.ir import Fold, For, walk
from .analysis import innermost, stores, touched
from .values import I32, I64, Value, constant, from_memory, lanes_of, memory_type, shuffled, to_memory

if TYPE_CHECKING:
    from .emit import Parts, _Emitter

CHUNK = 64  # steps of a loop with lanes whose floats are added up on their own
ROWS = 8  # and steps of a loop around one with lanes


def combined(em: _Emitter, fold: int, left: list[Parts], right: list[Parts]) -> list[Parts]:
    """Two states as one."""
    f = em.kernel.folds[fold]
    n = len(f.states)
    arguments = tuple(Arg(k, f.states[k % n]) for k in range(2 * n))
    assert f.reduction.combine is not None
    formulas = f.reduction.combine(arguments[:n], arguments[n:])
    known: dict[Expr, Parts] = dict(zip(arguments, [*left, *right], strict=True))
    return [em.inline(e, known) for e in formulas]


def together(em: _Emitter, fold: int, states: list[Parts]) -> list[Parts]:
    """The unrolled vectors of a state as one."""
    em.inmost()
    while len(states[0]) > 1:
        states = combined(em, fold, [p[0::2] for p in states], [p[1::2] for p in states])
    return states


def across(em: _Emitter, fold: int, states: list[Parts]) -> list[Parts]:
    """The lanes of a state as one scalar: halves upon halves."""
    b = em.inmost()
    width = lanes_of(states[0][0])
    while width > 1:
        width //= 2
        low = [[shuffled(b, v, range(width)) for v in parts] for parts in states]
        high = [[shuffled(b, v, range(width, 2 * width)) for v in parts] for parts in states]
        states = combined(em, fold, low, high)
    return [[b.extract_element(v, constant(I32, 0)) for v in parts] for parts in states]


def chunk(em: _Emitter, loop: For, folds: list[int]) -> int:
    """How many steps of a loop make a chunk of these folds that it carries; 0 where elements are simply taken in order."""
    kinds = [em.kernel.folds[f] for f in folds]
    if any(f.reduction.combine is None for f in kinds) or not any(map(rounds, kinds)) or stores(loop.body):
        return 0
    if em.lanes is None or em.lanes.axis == loop.axis:
        return CHUNK
    return ROWS if innermost(loop) else 0


def rounds(f: Fold) -> bool:
    """Whether joining states rounds floats."""
    states = tuple(Arg(k, d) for k, d in enumerate(f.states))
    joined = f.reduction.combine(states, states) if f.reduction.combine else ()
    calls = [e for root in joined for e in walk(root) if isinstance(e, Call)]
    return any(e.dtype.is_float and e.op.name in ("add", "multiply") for e in calls)


# --- rows of states ---------------------------------------------------------------------------------------------------


def in_rows(em: _Emitter, loop: For) -> tuple[set[int], set[int]]:
    """The folds that have a row along a loop's axis: those that it changes, and all that it looks at or changes."""
    changed, looked_at = [{f for f in folds if em.kernel.folds[f].row == loop.axis} for folds in touched(loop)]
    return changed, changed | looked_at


def load_rows(em: _Emitter, folds: set[int]) -> None:
    """Have the states of rows, at the lanes of the loop along them, in registers."""
    for fold in sorted(folds):
        assert em.lanes is not None
        states: list[Parts] = []
        for part, dtype in enumerate(em.kernel.folds[fold].states):
            places = _places(em, fold, part)
            b = em.inmost()
            vector = ir.VectorType(memory_type(dtype), em.lanes.width)
            states.append([from_memory(b, dtype, b.load(p, typ=vector, align=dtype.itemsize)) for p in places])
        em.states[fold] = states
        em.results[fold] = (len(em.scopes) - 1, states)


def store_rows(em: _Emitter, folds: set[int]) -> None:
    """Put the states back where they came from."""
    for fold in sorted(folds):
        for part, dtype in enumerate(em.kernel.folds[fold].states):
            places = _places(em, fold, part)
            b = em.inmost()
            for place, value in zip(places, em.states[fold][part], strict=True):
                b.store(to_memory(b, dtype, value), place, align=dtype.itemsize)


def _places(em: _Emitter, fold: int, part: int) -> Parts:
    """Where the states of the present lanes lie; idle lanes have a place too."""
    lanes = em.lanes
    assert lanes is not None
    f = em.kernel.folds[fold]
    element = memory_type(f.states[part])
    row = _row(em, fold, part, element)
    b = em.inmost()
    index = b.sub(em.scopes[em.scope_of(f.row)].index, em.block[f.row].begin)
    first = b.gep(row, [index], source_etype=element)
    return [b.gep(first, [constant(I64, u * lanes.width)], source_etype=element) for u in range(lanes.unroll)]


def _row(em: _Emitter, fold: int, part: int, element: Any) -> Value:
    size = em.block[em.kernel.folds[fold].row].size + em.width  # idle lanes reach past the end
    return em.once(0, ("row", fold, part), lambda _: [em.on_stack(element, size, f"row{fold}")])[0]
